"""Several models with one call: each has its folder, one that fails stops no other, and only one is in memory."""

import re
import shutil
import threading
import time
import weakref
from dataclasses import replace

import pytest
import transformers
from rich.console import Console
from typer.testing import CliRunner

import scoring
from cards import leaderboard
from scoring import benchmarks
from scoring.__main__ import app
from scoring.asking import answering, run
from scoring.inference.engines import Call
from scoring.inference.load_options import BUNDLED, LoadOptions
from scoring.inputs import prompts
from scoring.many.sweep import calls, names
from scoring.report import read
from scoring.types import Request, ScoringError
from scoring.uploads import DECLARATIONS
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows, pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): list(job_rows())})
    return data_set(folder, "unstereo", {("ours-5", "test"): list(pairs("a"))})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of two models, and between them one without weights and one that does not exist."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(BUNDLED["tiny-causal"], folder / "first")
    shutil.copytree(BUNDLED["tiny-causal"], folder / "last")
    shutil.copytree(BUNDLED["tiny-causal"], folder / "empty", ignore=lambda _, files: [f for f in files if "safe" in f])
    return [str(folder / name) for name in ("first", "empty", "missing", "last")]


def numbers(report):
    return {score.key: repr(score.value) for score in report.estimates}


def test_models_that_fail_are_named_and_the_others_have_the_numbers_that_they_have_alone(
    data, models, tmp_path, monkeypatch
):
    reads, alive, fetched = [], [], {}
    load, fetch, read_data = LoadOptions.load, LoadOptions.fetched, run.read

    def loaded(options):
        assert not [network for network in alive if network() is not None], "the one before it is still in memory"
        model = load(options)
        alive.append(weakref.ref(model.network))
        return model

    def fetched_by(options):
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main:
            # Longer than a model takes that fails at once: the next one waits all the same.
            time.sleep(0.3)
        fetched.setdefault(options.model, []).append(is_main)
        return fetch(options)

    monkeypatch.setattr(LoadOptions, "load", loaded)
    monkeypatch.setattr(LoadOptions, "fetched", fetched_by)
    monkeypatch.setattr(run, "read", lambda *given, **more: reads.append(given) or read_data(*given, **more))
    about = {"data": data, "resamples": 50, "device": "cpu", "exact": True}
    swept = scoring.evaluate(models, out=tmp_path / "all", **about)
    assert list(swept.runs) == [models[0], models[3]]
    assert {name: outcome.status for name, outcome in swept.failed.items()} == {models[1]: 1, models[2]: 1}
    assert models[2] in swept.failed[models[2]].sentence
    assert len(reads) == 1, "the data are read once"
    assert len(alive) == 2
    assert not any(fetched[models[3]][:1]), "the next one is fetched while one is scored"
    monkeypatch.undo()
    for model in swept.runs:
        alone = scoring.evaluate(model, **about)
        assert numbers(swept[model].report) == numbers(alone.report)
    table = swept.table()
    assert set(table["model"]) == set(swept.runs)

    # The same call goes on: a model that is finished is known by its files, and only the others are looked at again.
    monkeypatch.setattr(LoadOptions, "load", None)
    again = scoring.evaluate(models, out=tmp_path / "all", **about)
    assert list(again.runs) == list(swept.runs)
    assert list(again.failed) == list(swept.failed)


def test_a_model_is_finished_until_something_that_its_results_depend_on_changes(data, models, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(models[0], folder)
    about = {"data": data, "device": "cpu", "benchmarks": "occugender", "overwrite": False, "out": tmp_path / "all"}
    loaded = []
    load = LoadOptions.load
    monkeypatch.setattr(LoadOptions, "load", lambda options: loaded.append(options) or load(options))

    def swept(**more):
        loaded.clear()
        found = scoring.evaluate([str(folder)], **{"resamples": 50, **about, **more})
        return len(loaded), found

    assert swept()[0] == 1
    assert swept()[0] == 0
    assert swept(overwrite=True)[0] == 1
    # Another setting is refused in the folder of the first, as for one model, and is no finished model.
    assert swept(resamples=60)[1].failed
    assert swept()[0] == 0
    (place,) = (tmp_path / "all").iterdir()
    report_file = place / "results.json"
    report_file.write_text(report_file.read_text() + "\n")
    assert swept()[0] == 1
    config = folder / "generation_config.json"
    config.write_text('{"do_sample": false}')
    assert swept()[0] == 1


def test_questions_are_made_once_for_a_tokenizer_and_format(data, models, tmp_path, monkeypatch):
    made = []
    question = answering.Asker.question
    monkeypatch.setattr(
        answering.Asker, "question", lambda self, *given: made.append(given[1]["id"]) or question(self, *given)
    )
    # Without progress, whose estimate asks some rows of each model.
    about = {"data": data, "resamples": 50, "device": "cpu", "exact": True, "console": Console(quiet=True)}
    both = scoring.evaluate([models[0], models[3]], out=tmp_path / "all", **about)
    count = len(made)
    assert count == len(set(made))
    alone = scoring.evaluate(models[3], **about)
    assert len(made) == 2 * count
    assert numbers(both[models[3]].report) == numbers(alone.report)


def test_questions_that_depend_on_the_name_of_a_model_are_those_of_the_model(data, tmp_path):
    """The published form of unstereo pads sentences for all but some names of models."""
    model = answering.SharedQuestions()
    engine = LoadOptions("tiny-causal", device="cpu").load()
    (part,) = run.read([benchmarks.get("unstereo")], str(data), "clean")
    asker = answering.Asker("paper", prompts.get("plain"))
    noted = replace(part.benchmark, requests=lambda profile, row, context: iter([Request(row["id"], context.model)]))
    for name in ("one", "two", "one"):
        engine.name = name
        asked = list(model.of(asker, [(noted, part.splits)], engine))
        assert {request.context for question in asked for request in question.requests.values()} == {name}


def test_the_command_says_at_the_end_which_models_failed_and_why(data, models, tmp_path):
    (tmp_path / "list.txt").write_text(f"# two models\n{models[2]}\n{models[0]}  # bundled\n")
    arguments = ["--data", str(data), "--resamples", "50", "--device", "cpu", "--out", str(tmp_path / "all")]
    done = CliRunner().invoke(app, ["--models", str(tmp_path / "list.txt"), *arguments])
    assert done.exit_code == 4
    words = " ".join(done.output.split())
    assert "1 of 2 models could not be scored" in words
    assert f"{models[2]} (exit status 1)" in words
    (folder,) = (path for path in (tmp_path / "all").iterdir() if (path / "results.json").is_file())
    assert read(folder).environment["parameters"] > 1e6


def test_a_file_with_one_model_gives_it_a_folder_as_a_file_with_several_does(data, tmp_path):
    (tmp_path / "list.txt").write_text("tiny-causal\n")
    arguments = ["--data", str(data), "--resamples", "50", "--device", "cpu", "--out", str(tmp_path / "all")]
    done = CliRunner().invoke(app, ["--models", str(tmp_path / "list.txt"), *arguments])
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "all" / "results.json").exists()
    assert (tmp_path / "all" / "tiny-causal" / "results.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tiny-causal", "tiny-masked", "--json"), "--json"),
        (("tiny-causal", "tiny-masked", "--base-url", "http://127.0.0.1:9"), "--base-url"),
        (("tiny-causal", "tiny-causal"), "given twice"),
        (("--revisions", "a,b"), "name one"),
        (("x@a", "tiny-causal", "--revision", "b"), "x@a"),
    ],
)
def test_what_several_models_cannot_have_is_refused_before_one_is_loaded(data, monkeypatch, tmp_path, arguments, told):
    monkeypatch.setattr(LoadOptions, "load", None)
    done = CliRunner().invoke(app, [*arguments, "--data", str(data), "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert told in done.output
    assert not (tmp_path / "out").exists()


def test_missing_data_are_no_failure_of_a_model(tmp_path):
    with pytest.raises(ScoringError) as told:
        scoring.evaluate(["tiny-causal", "tiny-masked"], data=tmp_path / "none", out=tmp_path / "out")
    assert told.value.exit_code == 2


@pytest.mark.parametrize("models", [[], [object()]])
def test_a_list_has_names(tmp_path, models):
    with pytest.raises(ScoringError, match="give names or folders"):
        scoring.evaluate(models, out=tmp_path)


def test_a_list_needs_a_folder():
    with pytest.raises(ScoringError, match="out"):
        scoring.evaluate(["tiny-causal", "tiny-masked"])


def test_each_revision_is_a_model_of_its_own_with_its_folder(tmp_path):
    call = Call.of("org/m", {"tokenizer": None})
    every = calls(call, ["org/m", "org/n"], ["step1", "step2"], tmp_path)
    assert [(name, one.loading.model, one.loading.revision) for name, one in every.items()] == [
        ("org/m@step1", "org/m", "step1"),
        ("org/m@step2", "org/m", "step2"),
        ("org/n@step1", "org/n", "step1"),
        ("org/n@step2", "org/n", "step2"),
    ]
    assert len({one.settings.out for one in every.values()}) == 4
    (named,) = calls(call, ["org/m@abc"], [], tmp_path).values()
    assert (named.loading.model, named.loading.revision) == ("org/m", "abc")


def test_a_folder_with_an_at_sign_has_no_revision(tmp_path):
    (tmp_path / "m@x").mkdir()
    (one,) = calls(Call.of("m", {"tokenizer": None}), [str(tmp_path / "m@x")], [], tmp_path).values()
    assert (one.loading.model, one.loading.revision) == (str(tmp_path / "m@x"), None)


def test_a_file_of_models_has_comments_and_empty_lines():
    assert names(["# all", "", "a", "  b@r  # early"]) == ["a", "b@r"]


def test_a_folder_of_runs_is_a_leaderboard_and_a_file_of_a_run_is_the_run(data, models, tmp_path):
    about = {"data": data, "resamples": 50, "device": "cpu", "exact": True}
    scoring.evaluate([models[0], models[3]], out=tmp_path / "all", **about)
    first, second = sorted((tmp_path / "all").iterdir())
    entries = leaderboard.Collected(DECLARATIONS)
    entries.add_path(tmp_path / "all")
    assert set(entries.folders) == {first, second}
    assert scoring.load(first / "report.html").report == scoring.load(first).report
    with pytest.raises(ScoringError, match=re.escape(f"{tmp_path / 'all'} has 2 runs, such as {first}")):
        scoring.load(tmp_path / "all")


def test_a_model_and_its_tokenizer_may_be_a_pair(data):
    network = transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])
    about = {"data": data, "resamples": 5}
    pair = scoring.evaluate((network, tokenizer), **about)
    assert pair.table().equals(scoring.evaluate(network, tokenizer=tokenizer, **about).table())


def test_a_table_of_models_with_other_columns_is_refused():
    with pytest.raises(ScoringError, match="The first line of the models is 'model,size'"):
        names(["model,size", "gpt2,1"])
