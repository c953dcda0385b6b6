"""inspect-ai runs our published data sets by their ``eval.yaml``, and finds the numbers that this package finds.

It has an environment of its own (tests/inspect.txt), in which ``inspecting.py`` runs beside a Hub on this machine.
"""

import json
import os
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest

import builders
from scoring.benchmarks import bbq as benchmark
from scoring.inference.load_options import load
from scoring.inputs.tables import as_table
from scoring.metrics import bbq, gas
from scoring.types import Request
from tests import commands
from tests.helpers import ROOT, mirror, missing
from tests.hub import Hub

PYTHON = ROOT / ".venv-inspect" / "bin" / "python"
PROBES, TINY = "gender-neutral-probes", ROOT / "scoring" / "data" / "tiny-causal"
PROMPTS, QUESTIONS = 40, 60
#: Continuations as a model may write them, and answers by letter.
CONTINUATIONS = [
    " she likes it.",
    " they went home.",
    " He's a man",
    " his sister and her dog",
    "...",
    " a hero, a sheriff.",
]
LETTERS = ["ANSWER: A", "ANSWER: B", "ANSWER: C", "answer: b", "ANSWER: A\n"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Two data sets as they are built, published on a Hub of this machine while inspect-ai reads them."""
    if not PYTHON.exists():
        missing("needs the environment that make test prepares for inspect-ai")
    out, cache = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("cache")
    builders.build(PROBES, "bbq", out=out, mirror=mirror(), offline=True)
    with Hub(cache=cache):
        pushed = commands.run("builders.push", out, "--org", "org")
        assert pushed.returncode == 0, pushed.stderr
        yield out


@pytest.fixture(scope="module")
def inspected(published, tmp_path_factory):
    """What inspect-ai found: the bundled model by its provider ``hf``, and a mock, on a task of each data set."""
    folder = tmp_path_factory.mktemp("inspected")
    # Without a template the provider puts the name of the role before a prompt.
    model = {"model_path": str(TINY), "chat_template": "{{ messages[0].content }}"}
    of_model = {"model": "hf/local", "arguments": model}
    probes, questions = f"hf/org/{PROBES}/llm-1", "hf/org/bbq"
    runs = {
        "model, probes": {"task": probes, "limit": PROMPTS, **of_model},
        "model, questions": {"task": questions, "limit": 4, "max_tokens": 8, **of_model},
        "mock, probes": {"task": probes, "limit": PROMPTS, "answers": CONTINUATIONS},
        "mock, questions": {"task": questions, "limit": QUESTIONS, "answers": LETTERS},
    }
    (folder / "runs.json").write_text(json.dumps([*runs.values()]))
    command = [str(PYTHON), str(ROOT / "tests" / "scoring" / "inspecting.py")]
    files = [str(folder / "runs.json"), str(folder / "found.json")]
    done = subprocess.run([*command, *files], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(zip(runs, json.loads((folder / "found.json").read_text()), strict=True))
    assert {name: log.get("error") for name, log in found.items()} == dict.fromkeys(runs)
    return found


def rows_of(out, name, config):
    return pq.read_table(out / name / "data" / config / "test.parquet").to_pylist()


def share_neutral(samples):
    classes = np.array([gas.gender_class(sample["text"], sample["input"]) for sample in samples])
    return gas.share("neutral").value({"gender_class": classes}, np.ones((1, len(classes))))[0]


@pytest.mark.mirror
@pytest.mark.parametrize("model", ["model", "mock"])
def test_the_accuracy_of_the_probes_is_the_share_of_neutral_continuations(inspected, model):
    log = inspected[f"{model}, probes"]
    assert len(log["samples"]) == PROMPTS
    assert log["accuracy"] == pytest.approx(share_neutral(log["samples"]))
    assert 0 < log["accuracy"] < 1


@pytest.mark.mirror
def test_the_provider_of_transformers_continues_as_this_package_does(inspected, published):
    rows = rows_of(published, PROBES, "llm-1")[:PROMPTS]
    samples = inspected["model, probes"]["samples"]
    assert [sample["input"] for sample in samples] == [row["prompt"] for row in rows]
    ours = load(str(TINY), device="cpu").answer([Request(row["id"], row["prompt"], max_new=50) for row in rows])
    # A number is rounded in another way by another order of sums, so a text may part at a tie.
    same = [sample["text"].strip() == response.text.strip() for sample, response in zip(samples, ours, strict=True)]
    assert sum(same) >= 0.9 * PROMPTS


def table_of(published, samples):
    """Our table of the same answers: each question with its answers in the order that the model saw."""
    rows = {row["input"]: row for row in rows_of(published, "bbq", "gender")}
    lines = []
    for sample in samples:
        row = rows[sample["input"]]
        seen = [sample["choices"].index(answer) for answer in row["answers"]]
        places = {name: row[name] if row[name] is None else seen[row[name]] for name in ("label", "unknown", "biased")}
        shown = row | {"answers": sample["choices"], "config": "gender"} | places
        lines += benchmark.BENCHMARK.sampled.to_records(shown, [sample["text"]])
    return as_table(lines)


@pytest.mark.mirror
def test_the_accuracy_of_questions_is_ours_on_the_same_answers(inspected, published):
    log = inspected["mock, questions"]
    table = table_of(published, log["samples"])
    assert table["clear"].tolist() == [1.0] * QUESTIONS
    assert table["right"].tolist() == [float(sample["right"]) for sample in log["samples"]]
    assert bbq.accuracy().value(table, np.ones((1, QUESTIONS)))[0] == pytest.approx(log["accuracy"])
    assert len({tuple(np.argsort(sample["choices"])) for sample in log["samples"]}) > 1, "the answers are shuffled"


@pytest.mark.mirror
def test_an_answer_of_the_model_that_names_no_letter_is_wrong_there_and_unclear_here(inspected, published):
    log = inspected["model, questions"]
    table = table_of(published, log["samples"])
    assert table["right"].tolist() == [float(sample["right"]) for sample in log["samples"]]
