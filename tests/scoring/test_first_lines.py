"""What a command says while it works, where its output is a pipe: every stage, before the heavy part of it begins."""

import os
import subprocess
import sys

import pytest

from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows
from tests.support.helpers import ROOT


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_set(tmp_path_factory.mktemp("data"), "occugender", {("explicit", "test"): list(job_rows())})


def lines_of(*arguments, status=(0,)):
    environment = {name: value for name, value in os.environ.items() if name != "PROBES_PROGRESS"}
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode in status, done.stderr
    # A slow machine says more often how long it takes.
    return [line for line in done.stderr.splitlines() if " so far" not in line]


def test_a_run_says_what_it_reads_loads_measures_and_asks(data, tmp_path):
    lines = lines_of("scoring", "tiny-causal", "--data", data, "--benchmarks", "occugender", "--out", tmp_path / "run")
    rows = len(list(job_rows()))
    requests = lines.pop(4)
    assert requests.startswith(f"Requests: about {rows}; ")
    assert lines == [
        "Reading the data for tiny-causal …",
        "Loading the model …",
        f"Benchmarks: occugender ({rows} rows of explicit).",
        "Groups: the rows of each headline; --groups all asks further groups, such as debiasing prompts.",
        f"Measuring how texts can be computed together, then scoring {rows} rows …",
        "The first batch is answered.",
        "Computing scores and intervals …",
        "Writing the report …",
    ]


def test_the_first_line_comes_before_the_import_of_torch(data):
    code = f"""
import sys
from cards.common import progress
said = progress._REMINDER.say
def say(console, lines):
    print(lines[0], "torch" in sys.modules, flush=True)
    raise SystemExit
progress._REMINDER.say = say
import probes
sys.argv = ["probes", "score", "tiny-causal", "--data", {str(data)!r}, "--benchmarks", "occugender"]
probes.main()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PROBES_PROGRESS"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "Reading the data for tiny-causal … False\n", done.stderr


def test_mitigation_says_each_of_its_steps(tmp_path):
    # The prompt of the recipe has its place after the Q: of a question.
    rows = [{**row, "prompt": f"Q: {row['prompt']}"} for row in job_rows()]
    data = data_set(tmp_path / "data", "occugender", {("explicit", "test"): rows})
    recipe = ("mitigation", "prompts", "tiny-causal", "--data", data, "--benchmarks", "occugender")
    # A verdict of harmful, which a model as small as this may get, is status 5.
    lines = lines_of(*recipe, "--out", tmp_path / "fair", status=(0, 5))
    steps = ["Preparing prompts for", "Loading tiny-causal", "Applying prompts", "Scoring the model as it is"]
    steps += ["Scoring the model with fair", "Comparing the scores before and after"]
    places = [next(place for place, line in enumerate(lines) if line.startswith(step)) for step in steps]
    assert places == sorted(places)
