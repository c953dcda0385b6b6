"""The command for a GPU, every step of it on a processor with the smallest shapes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import step
from cards.common.text import cell
from tests.support.helpers import ROOT

#: A step whose parts fail, end their process, and work; and one that cannot even be imported.
FAILING = """
import os
from benchmarks.gpu.step import Goal, Measured, NotPossible, Step

def fails():
    raise ValueError("it broke")

def ends():
    os._exit(9)

def lacks():
    raise NotPossible("no such thing")

def figures(done):
    return {"works": Measured("1", True)} if "works" in done else {}

PARTS = {"fails": fails, "ends": ends, "lacks": lacks, "works": lambda: {"value": 1}}
STEP = Step("failing", "A step that fails.", (Goal("works", "1"),), lambda setting: PARTS, figures)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder after all steps, with two that fail before them, and what the command printed."""
    folder = tmp_path_factory.mktemp("gpu")
    (folder / "steps").mkdir()
    (folder / "steps" / "__init__.py").touch()
    (folder / "steps" / "failing.py").write_text(FAILING)
    (folder / "steps" / "broken.py").write_text("raise RuntimeError('no step')")
    return folder, started(folder, "steps.failing", *step.STEPS)


def started(folder, *steps):
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        *steps,
        "--device",
        "cpu",
        "--small",
        "--out",
        str(folder / "out"),
    ]
    path = os.pathsep.join([str(folder), str(ROOT), os.environ["PYTHONPATH"]])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: The one goal in seconds of these steps: a GPU meets it, and the processor of a busy machine may not.
TIMED = "fast, BERT-base"


def result(folder, name):
    return json.loads((folder / "out" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", step.STEPS)
def test_every_step_measures_all_its_parts_and_says_where(made, name):
    folder, _ = made
    found = result(folder, name)
    assert found["left"] == []
    errors = {part: content["error"] for part, content in found["parts"].items() if "error" in content}
    assert not errors
    assert found["device"].startswith("cpu: ")
    assert {"torch", "transformers", "python"} <= set(found["versions"])
    assert found["seconds"] > 0
    assert found["peak_mb"] > 0
    assert found["load_per_core"] is not None
    assert found["figures"]
    assert found["verdict"].startswith(("all parts run",) if name == "fast" else ("met", f"not met: {TIMED}"))


def test_what_must_be_equal_is_equal(made):
    folder, _ = made
    for name in ("right", "mitigation"):
        figures = result(folder, name)["figures"]
        assert [what for what, figure in figures.items() if figure["met"] is False and what != TIMED] == []
    assert result(folder, "right")["figures"]["architectures in 8bit"]["value"].startswith(("2 of 2", "not possible"))


def test_a_part_that_fails_or_ends_its_process_does_not_stop_the_next(made):
    folder, _ = made
    found = result(folder, "failing")
    assert found["parts"]["fails"]["error"] == "ValueError: it broke"
    assert found["parts"]["ends"]["error"] == "The process ended, or was ended, in this part."
    assert found["parts"]["lacks"]["not_possible"] == "no such thing"
    assert found["parts"]["works"]["value"] == 1
    assert found["verdict"] == "failed: 2 parts, first fails: ValueError: it broke"


def test_what_is_there_is_not_measured_again_unless_a_version_changed(made):
    folder, _ = made
    path = folder / "out" / "right.json"
    before = path.read_bytes()
    assert "right: is there already (" in started(folder, "right")
    assert path.read_bytes() == before
    path = folder / "out" / "failing.json"
    other = json.loads(path.read_bytes())
    other["versions"]["torch"] = "0.0"
    path.write_text(json.dumps(other))
    assert "works: " in started(folder, "steps.failing")
    assert result(folder, "failing")["versions"]["torch"] != "0.0"


def test_a_step_that_cannot_begin_is_said_and_does_not_stop_the_next(made):
    folder, _ = made
    printed = started(folder, "steps.broken", "steps.failing")
    assert result(folder, "broken")["verdict"].startswith("failed: the process of the step ended with status 1")
    assert "failing: " in printed
    assert "This step cannot be loaded here (RuntimeError: no step)" in (folder / "out" / "README.md").read_text()


def test_the_page_has_goal_measured_and_peer_of_every_step(made):
    folder, _ = made
    text = (folder / "out" / "README.md").read_text()
    for name in step.STEPS:
        assert f"## {name}\n" in text
        for goal in step.get(name).goals:
            assert f"| {cell(goal.what)} | " in text
    assert "| not run |" not in text


def test_the_page_of_the_project_is_that_of_its_results():
    folder = Path(gpu.__file__).parent
    assert (folder / "README.md").read_text() == gpu.page(folder)
