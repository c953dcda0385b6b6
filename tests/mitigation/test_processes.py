"""A training that several processes share, as on several GPUs: the loop alone, and a whole command."""

import io
import itertools
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mitigation.__main__ import app
from mitigation.training.train import fit
from scoring.adapters.facts import read
from tests.mitigation.made import data, shared
from tests.mitigation.test_train import ROWS, Line, schedule, squared

pytestmark = pytest.mark.usefixtures("undrawn")
FEW = "--steps 4 --batch-size 4 --rank 4 --learning-rate 0.005 --corpora stsb --dropout 0 --checkpoint-every 2".split()
#: Trains a line, and then does what ``probes mitigate`` does.
SHARED = """
import runpy, sys
from tests.mitigation.test_processes import line, patient
line(sys.argv[1])
patient(sys.argv.pop(1))
runpy.run_module("mitigation", run_name="__main__")
"""


def line(folder):
    """Trains a line, and writes its losses into a folder."""
    curve = fit(Line(0.0), squared, ROWS, ROWS[:3], schedule(), Path(folder, "x.pt"), Console(file=io.StringIO()))
    Path(folder, "x.json").write_text(json.dumps([terms["loss"] for terms in curve.train]))


def patient(folder):
    """Trains a line with a patience of one validation, which each process measures otherwise; writes the steps."""
    rank = int(os.environ["RANK"])
    gaps = itertools.count(0, 1 if rank else -1)  # the first process sees a gain each time, the other none
    plan = schedule(patience=1, validate_every=2)
    path = Path(folder, "patient.pt")
    curve = fit(
        Line(0.0), squared, ROWS, ROWS[:3], plan, path, Console(file=io.StringIO()), lambda: {"gap": next(gaps)}
    )
    Path(folder, f"patient-{rank}.json").write_text(json.dumps([len(curve.train), curve.held[-1]["gap"]]))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folders of a line and an adapter that two processes trained, and of the same that one did."""
    root = tmp_path_factory.mktemp("processes")
    one, two = root / "one", root / "two"
    command = ["debias_tuning", "tiny-causal", "--data", data(root / "data"), "--no-evaluate", "--device", "cpu", *FEW]
    for folder in (one, two):
        folder.mkdir()
    (root / "shared.py").write_text(SHARED)
    shared(root / "shared.py", two, *command, "--out", two / "adapter")
    line(one)
    alone = CliRunner().invoke(app, [str(argument) for argument in (*command, "--out", one / "adapter")])
    assert alone.exit_code == 0, alone.output
    return SimpleNamespace(one=one, two=two)


def losses(folder):
    return [terms["loss"] for terms in json.loads((folder / "adapter" / "losses.json").read_text())["train"]]


def test_two_processes_share_the_rows_of_a_step_and_have_the_losses_of_one(trained):
    one, two = (json.loads((folder / "x.json").read_text()) for folder in (trained.one, trained.two))
    assert two == pytest.approx(one, rel=1e-5)


def test_the_first_process_decides_for_all_when_training_ends(trained):
    first, second = (json.loads((trained.two / f"patient-{rank}.json").read_text()) for rank in (0, 1))
    assert first == second == [12, -6]


def test_a_command_that_two_processes_share_has_the_losses_of_one_and_writes_one_adapter(trained):
    one, two = losses(trained.one), losses(trained.two)
    assert two == pytest.approx(one, rel=1e-4)
    assert one[3] < one[0]
    assert read(trained.two / "adapter").cost.parameters == read(trained.one / "adapter").cost.parameters
    assert not list((trained.two / "adapter-work").glob(".rank-*"))
