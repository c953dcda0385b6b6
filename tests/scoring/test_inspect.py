"""inspect-ai runs our published data sets by their ``eval.yaml``, and finds the numbers that this package finds.

It has an environment of its own (tests/inspect.txt). There the command ``inspect eval`` runs with the bundled model,
and ``inspecting.py`` with a mock of many answers, beside a Hub on this machine.
"""

import json
import os
import re
import shlex
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest

import builders
from scoring.inference.load_options import load
from scoring.metrics import bbq
from scoring.types import Request
from tests.support import commands
from tests.support.helpers import ROOT, mirror, missing
from tests.support.hub import Hub
from tools.peers import inspect_eval

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
    probes, questions = f"hf/org/{PROBES}/llm-1", "hf/org/bbq"
    found = {}
    for name, task, more in (
        ("model, probes", f"{PROBES}/llm-1", ("--limit", str(PROMPTS))),
        ("model, questions", "bbq", ("--limit", "4", "--max-tokens", "8")),
    ):
        evaluation = inspect_eval.Evaluation(task, inspect_eval.MODEL, more)
        text, log = inspect_eval.inspected(evaluation, "org", folder / task.replace("/", "-"))
        accuracy = float(inspect_eval.printed_number(text, "accuracy"))
        found[name] = {"samples": inspect_eval.samples_of(log), "accuracy": accuracy}
    runs = {
        "mock, probes": {"task": probes, "limit": PROMPTS, "answers": CONTINUATIONS},
        "mock, questions": {"task": questions, "limit": QUESTIONS, "answers": LETTERS},
    }
    (folder / "runs.json").write_text(json.dumps([*runs.values()]))
    command = [str(PYTHON), str(ROOT / "tests" / "scoring" / "inspecting.py")]
    files = [str(folder / "runs.json"), str(folder / "found.json")]
    done = subprocess.run([*command, *files], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_mock = dict(zip(runs, json.loads((folder / "found.json").read_text()), strict=True))
    assert {name: log.get("error") for name, log in of_mock.items()} == dict.fromkeys(runs)
    return found | of_mock


def test_the_command_is_that_of_the_page_of_registration():
    page = (ROOT / "docs" / "REGISTRATION.md").read_text("utf-8")
    (line,) = re.findall(r"^inspect (eval hf/ORG/gender-neutral-probes/llm-1 .*)$", page, re.MULTILINE)
    evaluation = inspect_eval.Evaluation(f"{PROBES}/llm-1", inspect_eval.MODEL)
    command = [part.replace(f"{ROOT}/", "") for part in evaluation.command("ORG")]
    assert shlex.split(line) == command


def rows_of(out, name, config):
    return pq.read_table(out / name / "data" / config / "test.parquet").to_pylist()


@pytest.mark.mirror
@pytest.mark.parametrize("model", ["model", "mock"])
def test_the_accuracy_of_the_probes_is_the_share_of_neutral_continuations(inspected, model):
    log = inspected[f"{model}, probes"]
    assert len(log["samples"]) == PROMPTS
    # The command prints three decimals.
    assert log["accuracy"] == pytest.approx(inspect_eval.share_neutral(log["samples"]), abs=5e-4)
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


@pytest.mark.mirror
def test_the_accuracy_of_questions_is_ours_on_the_same_answers(inspected, published):
    log = inspected["mock, questions"]
    table = inspect_eval.questions(published, log["samples"])
    assert table["clear"].tolist() == [1.0] * QUESTIONS
    assert table["right"].tolist() == [float(sample["right"]) for sample in log["samples"]]
    assert bbq.accuracy().value(table, np.ones((1, QUESTIONS)))[0] == pytest.approx(log["accuracy"])
    assert len({tuple(np.argsort(sample["choices"])) for sample in log["samples"]}) > 1, "the answers are shuffled"


@pytest.mark.mirror
def test_an_answer_of_the_model_that_names_no_letter_is_wrong_there_and_unclear_here(inspected, published):
    log = inspected["model, questions"]
    table = inspect_eval.questions(published, log["samples"])
    assert table["right"].tolist() == [float(sample["right"]) for sample in log["samples"]]
