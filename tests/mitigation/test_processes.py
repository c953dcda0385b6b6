"""A training that several processes share, as on several GPUs."""

import io
import json

import pytest
from rich.console import Console

from mitigation.train import fit
from tests.mitigation.made import shared
from tests.mitigation.test_train import ROWS, Line, schedule, squared

SHARED = """
import json, sys
from pathlib import Path
from tests.mitigation.test_processes import ROWS, Console, Line, fit, io, schedule, squared
curve = fit(Line(0.0), squared, ROWS, ROWS[:3], schedule(), Path(sys.argv[1]), Console(file=io.StringIO()))
Path(sys.argv[1]).with_suffix(".json").write_text(json.dumps([each["loss"] for each in curve.train]))
"""


def test_two_processes_share_the_rows_of_a_step_and_find_the_losses_of_one(tmp_path):
    (tmp_path / "shared.py").write_text(SHARED)
    shared(tmp_path / "shared.py", tmp_path / "x.pt")
    alone = fit(Line(0.0), squared, ROWS, ROWS[:3], schedule(), tmp_path / "one.pt", Console(file=io.StringIO()))
    found = json.loads((tmp_path / "x.json").read_text())
    assert found == pytest.approx([each["loss"] for each in alone.train], rel=1e-5)
