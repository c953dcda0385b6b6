"""Published responses become runs: the command, what is left out, and the published files of every source."""

import csv
import json
import math

import pytest
from typer.testing import CliRunner

import scoring
from builders.dataset import Alternative, Fetched, Remote, Source
from builders.datasets.gest import STEREOTYPES
from builders.sources import catalogue
from scoring import published
from scoring.commands.published import app
from scoring.published import gest, gifi_friend
from scoring.types import ScoringError
from tests.helpers import mirror
from tests.scoring.made import data_set

RUNNER = CliRunner()


def invoked(*arguments):
    return RUNNER.invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder in which data sets are built for the tests of this file."""
    return tmp_path_factory.mktemp("output")


def made_gest(folder, sentences=32):
    rows = [
        {
            "id": f"gest-{number:04d}",
            "sentence": f"I am sentence {number}.",
            "mended": f"I am sentence {number}.",
            "stereotype": number % 16 + 1,
            "name": STEREOTYPES[number % 16],
            "about": "women" if number % 16 < 7 else "men",
        }
        for number in range(sentences)
    ]
    return data_set(folder, "gest", {("sentences", "test"): rows})


def fetched(folder, *texts):
    paths, remotes = [], []
    for number, text in enumerate(texts):
        path = folder / f"model_template-{number}.txt"
        path.write_text(text)
        paths.append(path)
        remotes.append(Remote(f"https://example.org/{path.name}", sha256="0" * 64))
    source = Source("gest-predictions/model", "Apache-2.0", "made", (Alternative(tuple(remotes)),))
    return Fetched(source, 0, tuple(paths))


def test_a_file_that_is_broken_is_left_out_with_the_reason_and_the_other_is_used(tmp_path):
    data = made_gest(tmp_path)
    whole = "\n".join(["0.1"] * 32)
    found = gest.responses(fetched(tmp_path, whole, whole.replace("0.1", "nan", 1)), data)
    assert set(found.table["wording"]) == {"he-last"}
    assert found.remarks == ("model_template-1.txt line 1 is 'nan' and no finite number; it is left out.",)
    assert found.table["log_ratio"][0] == pytest.approx(0.1 * math.log(10))


def test_a_model_without_a_file_that_can_be_used_has_no_run(tmp_path):
    data = made_gest(tmp_path)
    with pytest.raises(published.BrokenFileError, match=r"has 31 lines, and GEST 32 sentences"):
        gest.responses(fetched(tmp_path, "\n".join(["0.1"] * 31), "\n".join(["x"] * 32)), data)


def test_a_model_that_a_source_does_not_have_is_refused():
    with pytest.raises(ScoringError, match=r"gest has no model 'gtp2' \(did you mean 'gpt2'\?\)"):
        published.run("gest", "gtp2")


@pytest.mark.parametrize("name", published.names())
def test_every_source_has_models_a_benchmark_and_words_about_its_settings(name):
    source = published.get(name)
    assert published.models(name)
    assert source.benchmark in scoring.benchmarks.names()
    assert source.summary.endswith(".")
    assert source.settings.endswith(".")
    assert name in invoked().output
    assert set(published.models(name)) == set(invoked(name).output.split())


@pytest.mark.mirror
def test_the_predictions_of_gest_have_the_known_ratios(data):
    known = {
        "Mistral-7B-Instruct-v0.2": (1.49, 1.63),
        "Llama-2-7b-hf": (1.23, 1.36),
        "pythia-70m": (1.00, 1.10),
    }
    for model, printed in known.items():
        result = published.run("gest", model, data, resamples=50)
        found = {(e.group, e.metric): e.value for e in result.report.estimates}
        rounded = tuple(round(found[wording, "g_s_published"], 2) for wording in gest.CAUSAL)
        assert rounded == printed
        for wording in gest.CAUSAL:
            assert found[wording, "g_s"] == pytest.approx(found[wording, "g_s_published"] ** math.log(10))
    assert len(published.models("gest")) == 34


def fetched_texts(folder, rows):
    path = folder / "SAOF_template-all-genders_model.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["template", "state", "generated_sentences"])
        writer.writeheader()
        writer.writerows(rows)
    remote = Remote(f"https://example.org/{path.name}", sha256="0" * 64)
    return Fetched(Source("gifi-friend/model", "MIT", "made", (Alternative((remote,)),)), 0, (path,))


def test_draws_of_a_prompt_are_one_cluster_and_empty_ones_are_left_out(tmp_path):
    prompt = "My friend is a carpenter, and"
    rows = [
        {"template": prompt, "state": "occupation", "generated_sentences": text}
        for text in ("he builds. She left.", f'"{prompt} they build."', " ")
    ]
    found = gifi_friend.responses(fetched_texts(tmp_path, rows), tmp_path)
    assert list(found.table["friend"]) == ["male", "they"]
    assert list(found.table["gender_class"]) == ["both", "neutral"]
    assert list(found.table["class_sentence"]) == ["male", "neutral"]
    assert set(found.table["config"]) == {"templates"}
    assert set(found.table["row"]) == {"is-a-carpenter"}
    assert found.table["female_share"][0] == 3.1
    assert any("1 empty texts" in remark for remark in found.remarks)
    assert any("2 of 11 draws" in remark for remark in found.remarks)


def test_a_prompt_without_its_last_word_is_the_same_prompt_and_the_reader_is_told(tmp_path):
    rows = [{"template": "My friend is a carpenter", "state": "occupation", "generated_sentences": "He builds."}]
    found = gifi_friend.responses(fetched_texts(tmp_path, rows), tmp_path)
    assert set(found.table["config"]) == {"templates"}
    assert any("without their last word" in remark for remark in found.remarks)


def test_a_file_without_texts_is_left_out(tmp_path):
    with pytest.raises(published.BrokenFileError, match="has no column 'template', or no row"):
        gifi_friend.responses(fetched_texts(tmp_path, []), tmp_path)


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("model", "gendered"),
    [
        ("Llama-2-7b", 0.918),
        ("gemma-2-9b", 0.917),
        ("gpt-4o", 0.689),
        ("claude3-haiku", 0.638),
        ("Phi-3-mini-4k", 0.589),
    ],
)
def test_the_continuations_of_gifi_have_the_known_shares_of_gendered_pronouns(model, gendered, data):
    result = published.run("gifi-friend", model, data, resamples=50)
    found = {(e.group, e.metric): e for e in result.report.estimates}
    assert round(found["all prompts", "gas_plain"].value, 3) == gendered
    assert found["all prompts", "friend_they"].clusters == 200
    assert found["jobs", "friend_labour_correlation"].clusters == 19
    assert found["templates", "gas_plain"].clusters == 125
    # A stretch of a text has no more pronouns than the whole.
    assert found["all prompts", "gas_sentence"].value <= found["all prompts", "gas_plain"].value
    assert len(published.models("gifi-friend")) == 13


@pytest.mark.mirror
def test_published_texts_of_two_models_can_be_compared(data):
    one, other = (published.run("gifi-friend", name, data, resamples=50) for name in ("gpt-4o", "gpt-4o-mini"))
    keys = {change.difference.key[1:] for change in one.compare(other, resamples=50).changes}
    assert ("all prompts", "friend_they") in keys


@pytest.mark.mirror
def test_the_command_makes_runs_that_can_be_compared(data, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_MIRROR", str(mirror()))
    options = ("--out", tmp_path, "--data", data, "--resamples", 50, "--offline")
    done = invoked("gest", "--model", "gpt2,gpt2-xl", *options)
    assert done.exit_code == 0, done.output
    assert "2 runs in" in done.output
    small, large = (scoring.load(tmp_path / "gest" / name) for name in ("gpt2", "gpt2-xl"))
    compared = large.compare(small, resamples=50)
    (change,) = [c for c in compared.changes if c.difference.key == ("gest", "overall", "g_s")]
    assert change.verdict == "further"
    facts = json.loads((tmp_path / "gest" / "gpt2" / "results.json").read_text())
    assert facts["environment"]["engine"] == published.ENGINE
    assert facts["environment"]["files"][0].startswith("https://raw.githubusercontent.com/kinit-sk/gest/")


def test_the_files_of_all_models_are_pinned():
    pinned = catalogue.catalogue().sources
    for name in published.names():
        for source in published.sources(name).values():
            assert source in pinned.values()
