"""Published responses become runs: the command, what is left out, and the published files of every source."""

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
from scoring.published import gest
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
