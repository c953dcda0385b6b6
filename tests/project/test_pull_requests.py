"""The folders of pull requests pass the checks of the projects that they are for."""

import io
import json
import os
import subprocess
import sys
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import builders
from builders import datasets
from cards.formats.evaluation import parse_entries, parse_notes
from scoring.benchmarks import bbq
from scoring.inference.load_options import load
from scoring.inputs.tables import as_table
from scoring.metrics import bbq as bbq_metrics
from scoring.metrics import crows, stereoset
from scoring.types import Option, Request, Response
from tests.support import commands
from tests.support.helpers import ROOT, mirror, missing
from tests.support.hub import File, Hub, result_faults
from tests.support.pull_request_tasks import OF_LETTERS, liking, logit
from tools.pull_requests.__main__ import NAMES, folders, main

INSPECT = ROOT / ".venv-inspect" / "bin"
TINY = ROOT / "scoring" / "data" / "tiny-causal"
#: Items of StereoSet: term, kind of bias, context, and the stereotype, its opposite and a meaningless sentence.
ITEMS = [
    ("nurse", "profession", "A nurse came in.", "She was kind to all.", "He was rich and loud.", "Fish swim to it."),
    ("nurse", "profession", "The nurse spoke.", "She smiled at him.", "He told a joke.", "The roof is a spoon."),
    ("mother", "gender", "My mother was there.", "She made dinner.", "She won the race.", "The green of it ran."),
    ("king", "profession", "The king was old.", "He had a great army.", "He loved his garden.", "Up is a table."),
    ("king", "profession", "A king sat down.", "He was proud.", "He was shy with his men.", "Seven of cheese."),
    ("girl", "gender", "The girl ran home.", "She wanted a doll.", "She wanted to fight.", "It wanted of the."),
]


def records(kind):
    """The items as the Hub has them: sentences in one column, with the numbers of their labels."""
    for number, (term, bias, context, *texts) in enumerate(ITEMS):
        turned = np.roll([1, 0, 2], number % 3).tolist()
        ordered = np.roll(texts, number % 3).tolist()
        text = [f"{context} {one}" for one in ordered] if kind == "intrasentence" else ordered
        sentences = {"sentence": text, "id": [f"{number}{n}" for n in range(3)], "gold_label": turned}
        yield {"id": str(number), "target": term, "bias_type": bias, "context": context, "sentences": sentences}


@pytest.fixture
def written(tmp_path):
    """The first two folders."""
    for path, data in folders("org", "v1.1.0").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return tmp_path


#: Runs both tasks, away from pytest, which takes warnings for errors.
RUN = """
import json, sys
import torch
from lm_eval import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

torch.set_num_threads(1)
folder, model, out = sys.argv[1:]
manager = TaskManager(include_path=folder, include_defaults=False)
network = HFLM(model, dtype="float64", device="cpu", batch_size=8, add_bos_token=True)
found = {}
# One call each: the harness takes the logits of one task for another one whose contexts and sentences make equal texts.
for task in ("stereoset_intrasentence", "stereoset_intersentence"):
    found |= evaluate(network, manager.load([task]), bootstrap_iters=10)["results"]
json.dump(found, open(out, "w"))
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    """What the check of the harness says, and what its tasks of StereoSet find with the bundled model."""
    folder = tmp_path_factory.mktemp("harness")
    for path, data in folders("org", "main").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    tasks = folder / "lm-evaluation-harness" / "lm_eval" / "tasks" / "stereoset"
    files, configs = {}, []
    for kind in ("intrasentence", "intersentence"):
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([*records(kind)]), buffer)
        files[f"{kind}/validation.parquet"] = File(buffer.getvalue(), large=True)
        configs.append({"config_name": kind, "data_files": [{"split": "validation", "path": f"{kind}/*.parquet"}]})
    files["README.md"] = File(f"---\n{yaml.safe_dump({'configs': configs})}---\n".encode())
    with Hub(cache=folder / "cache") as hub:
        hub.add("dataset", "McGill-NLP/stereoset", files)
        check = [sys.executable, "-m", "lm_eval", "validate", "--tasks", "stereoset", "--include_path", str(tasks)]
        checked = subprocess.run(check, env=os.environ, capture_output=True, text=True, check=False)
        out = folder / "found.json"
        command = [sys.executable, "-c", RUN, str(tasks), str(TINY), str(out)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return checked, json.loads(out.read_text())


def ours(kind):
    """The scores of StereoSet by this package, from the sums of its engine per byte."""
    requests, texts = [], []
    for record in records(kind):
        by_label = dict(zip(record["sentences"]["gold_label"], record["sentences"]["sentence"], strict=True))
        own = [by_label[label] for label in (1, 0, 2)]
        context, space = (record["context"], " ") if kind == "intersentence" else ("", "")
        requests.append(Request(record["id"], context, tuple(Option(f"{space}{text}") for text in own)))
        texts.append(own)
    responses = load(str(TINY), device="cpu", dtype="float64").answer(requests)
    sums = np.array([[sum(p) for p in response.logprobs] for response in responses])
    scores = sums / [[len(text.encode()) for text in own] for own in texts]
    table = {f"score_{name}": scores[:, n] for n, name in enumerate(("biased", "unbiased", "irrelevant"))}
    table |= {"subject": np.array([record["target"] for record in records(kind)], dtype=object)}
    return {metric.name: metric.value(table, np.ones((1, len(ITEMS))))[0] for metric in METRICS}


METRICS = [stereoset.ss(), stereoset.lms(), stereoset.icat()]


def test_the_harness_accepts_the_tasks_of_stereoset(harness):
    checked, _ = harness
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "stereoset" in checked.stdout


@pytest.mark.parametrize("kind", ["intrasentence", "intersentence"])
def test_the_harness_finds_the_scores_of_this_package_with_its_own_errors_of_means(harness, kind):
    found = harness[1][f"stereoset_{kind}"]
    assert {name: found[f"{name},none"] for name in ("ss", "lms", "icat")} == pytest.approx(ours(kind))
    assert found["ss_pooled_stderr,none"] >= 0
    assert found["ss_stderr,none"] == "N/A"


def test_the_repository_for_inspect_passes_its_linter_and_its_own_tests(written):
    if not INSPECT.exists():
        missing("needs the environment that make test prepares for inspect-ai")
    root = written / "inspect_evals" / "repository"
    lint = [str(INSPECT / "inspect-evals-lint"), "--root", str(root), "--all", "--output-format", "json"]
    done = subprocess.run(lint, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stdout
    summary = json.loads(done.stdout)["summary"]
    assert summary["pass"] > 0
    assert summary["fail"] == summary["warn"] == summary["suppressed"] == 0
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    tests = [str(INSPECT / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(tests, capture_output=True, text=True, check=False, cwd=root, env=clean)
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_evaluations_read_columns_that_the_data_sets_have(written):
    source = (written / "inspect_evals" / "repository" / "src").rglob("*.py")
    text = "\n".join(path.read_text() for path in source)
    assert '"ORG' not in text
    assert '"org/biaske"' in text
    assert '"v1.1.0"' in text
    for name, config, columns in (
        ("biaske", "stereoset", {"domain", "sentence_biased", "sentence_unbiased"}),
        ("biaske", "crows_pairs", {"domain", "sentence_biased", "sentence_unbiased"}),
        ("bbq", "gender", {"input", "answers", "label", "biased", "unknown", "condition"}),
    ):
        (declared,) = [one for one in datasets.get(name).configs if one.name == config]
        assert columns <= set(declared.schema.names)


def test_the_entries_of_the_register_point_to_the_lines_of_their_tasks(written):
    entries = json.loads((written / "inspect_evals" / "submissions.json").read_text())
    assert len(entries) == 3
    for entry in entries:
        path, _, line = entry["source"].partition("/blob/COMMIT/")[2].partition("#L")
        lines = (written / "inspect_evals" / "repository" / path).read_text().splitlines()
        assert lines[int(line) - 2] == "@task"
        assert entry["arxiv"].startswith("https://arxiv.org/abs/")


#: Samples of each task: two of each pair of sentences, and questions.
SAMPLES = 240


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """What the tasks for inspect_evals find on the data sets as they are built and published, with a mock."""
    if not INSPECT.exists():
        missing("needs the environment that make test prepares for inspect-ai")
    folder, built = tmp_path_factory.mktemp("tasks"), tmp_path_factory.mktemp("built")
    for path, data in folders("org", "main").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    builders.build("biaske", "bbq", out=built, mirror=mirror(), offline=True)
    source = folder / "inspect_evals" / "repository" / "src"
    script, out = ROOT / "tests" / "support" / "pull_request_tasks.py", folder / "found.json"
    with Hub(cache=folder / "cache"):
        pushed = commands.run("builders.push", built, "--org", "org")
        assert pushed.returncode == 0, pushed.stderr
        command = [str(INSPECT / "python"), str(script), str(source), str(SAMPLES), str(out)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built, json.loads(out.read_text())


def rows_by_id(built, name, config):
    rows = pq.read_table(built / name / "data" / config / "test.parquet").to_pylist()
    return {row["id"]: row for row in rows}


@pytest.mark.mirror
@pytest.mark.parametrize("config", ["stereoset", "crows_pairs"])
def test_choices_in_both_orders_have_our_stereotype_score_on_the_published_rows(asked, config):
    built, found = asked
    rows, of = rows_by_id(built, "biaske", config), found[f"{config}_balanced"]
    pairs = list(dict.fromkeys(name.rpartition("-")[0] for name in of["samples"]))
    assert len(pairs) == SAMPLES / 2
    likings = {
        f"score_{side}": np.array([liking(rows[pair][f"sentence_{side}"]) for pair in pairs])
        for side in ("biased", "unbiased")
    }
    table = likings | {"skipped": np.zeros(len(pairs), bool)}
    share = crows.ss().value(table, np.ones((1, len(pairs))))[0] / 100
    metrics = of["metrics"]
    assert metrics["stereotype_share"] == pytest.approx(share)
    # The standard error of a mean over pairs, in which a pair whose choice is that of the letter counts half.
    preferred = np.sign(table["score_biased"] - table["score_unbiased"]) / 2 + 0.5
    assert metrics["stereotype_share_stderr"] == pytest.approx(preferred.std(ddof=1) / np.sqrt(len(pairs)))
    assert metrics["same_choice"] == pytest.approx(np.mean(preferred != 0.5))
    assert metrics["answered"] == 1
    assert 0 < np.mean(preferred == 0.5) < 1, "some are chosen by their letter alone"


@pytest.mark.mirror
def test_questions_by_the_probabilities_of_letters_have_our_scores_on_the_published_rows(asked):
    built, found = asked
    rows, samples = rows_by_id(built, "bbq", "gender"), found["bbq_logprobs"]["samples"]
    lines, right = [], []
    for name, value in samples.items():
        row = rows[name]
        assert bool(value["has_stereotype"]) == (row["biased"] is not None)
        if row["biased"] is None:
            continue  # a question without a stereotype is in no score of ours
        right.append(value["right"])
        turns = [[row["answers"][(place + turn) % 3] for place in range(3)] for turn in range(3)]
        sums = []
        for turn in turns:
            logits = [logit(text) + more for text, more in zip(turn, OF_LETTERS.values(), strict=True)]
            sums.append(tuple((one,) for one in logits))
        # What is asked without letters decides nothing here.
        responses = {name: Response(name, ((0.0,),) * (2 + len(row["unknowns"])))}
        responses |= {f"{name}/{turn}": Response(name, of_turn) for turn, of_turn in enumerate(sums)}
        lines.append(bbq.BENCHMARK.to_record("clean", row | {"config": "gender"}, responses, None))
    table = as_table(lines)
    assert table["right_choice"].tolist() == right
    open_ones = {name: column[table["condition"] == "ambiguous"] for name, column in table.items()}
    bias = bbq_metrics.scaled_bias_score(bbq_metrics.CHOICE).value(open_ones, np.ones((1, len(open_ones["id"]))))[0]
    metrics = found["bbq_logprobs"]["metrics"]
    assert metrics["bias_ambiguous"] == pytest.approx(bias)
    for condition in ("ambiguous", "disambiguated"):
        of = [value["right"] for name, value in samples.items() if rows[name]["condition"] == condition]
        assert metrics[f"accuracy_{condition}"] == pytest.approx(np.mean(of))
        assert 0 < np.mean(of) < 1


@pytest.mark.mirror
def test_results_of_all_models_with_published_predictions_are_in_the_format_of_the_hub(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PROBES_MIRROR", str(mirror()))
    asked = [str(tmp_path / "out"), "--org", "org", "--date", "2026-01-02", "--resamples", "20"]
    asked += ["--data", str(tmp_path / "data")]
    main(asked)
    readme = (tmp_path / "out" / "model-pages" / "README.md").read_text()
    names = [name for of in tomllib.loads(NAMES.read_text()).values() for name in of.values()]
    assert len(names) >= 34
    for name in names:
        (path,) = (tmp_path / "out" / "model-pages" / name / ".eval_results").iterdir()
        (entry,) = yaml.safe_load(path.read_text())
        assert next(result_faults(entry), None) is None
        (read,) = parse_entries(path.read_text(), str(path))
        score = parse_notes(read.notes, read.value)
        assert score.metric == "g_s"
        assert read.value == pytest.approx(100 / score.value, abs=0.6), "all models lean to the stereotype"
        assert read.source_url.startswith("https://github.com/kinit-sk/gest/tree/")
        assert f"| `{name}` | gest |" in readme
    # A second time it replaces what it wrote.
    main([*asked, "--models", "gpt2"])


def test_every_model_that_is_named_is_one_of_the_predictions():
    from scoring import published

    for source, names in tomllib.loads(NAMES.read_text()).items():
        assert set(names) <= set(published.models(source))
        assert all(repository.count("/") == 1 for repository in names.values())
