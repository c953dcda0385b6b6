"""The lowest versions that pyproject.toml allows: they are installed together, and a model is scored with them."""

import json
import os
import subprocess
import sys
import tomllib

import pytest
from rich.progress import Progress

from builders.builder import Profile, build_datasets
from builders.sources.fetch import Fetcher
from tests.support.helpers import ROOT, missing
from tools.lowest import lowest

OLDEST = ROOT / ".venv-oldest"
PROBES = "gender-neutral-probes"


@pytest.fixture
def python():
    """The interpreter of the environment with the lowest versions."""
    if not (OLDEST / "lowest.txt").is_file():
        missing("needs the environment that make test prepares for the lowest versions")
    return OLDEST / "bin" / "python"


def scored(python, folder, data):
    """The numbers of a run of the bundled model."""
    options = ["--benchmarks", "neutral", "--data", data, "--limit", 5, "--resamples", 20, "--out", folder]
    command = [str(part) for part in (python, "-m", "scoring", "tiny-causal", *options)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    estimates = json.loads((folder / "results.json").read_text())["estimates"]
    return {(one["group"], one["metric"]): one["value"] for one in estimates if one["value"] is not None}


def test_the_lowest_versions_score_a_model_as_the_newest_do(python, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = lowest(project, ["score"], (ROOT / "constraints.txt").read_text())
    assert (OLDEST / "lowest.txt").read_text().split() == wanted, "make environments installs them again"
    build_datasets([PROBES], Fetcher(tmp_path / "cache", None, offline=True), tmp_path / "data", Profile.all,
                   Progress(disable=True))  # fmt: skip
    old = scored(python, tmp_path / "old", tmp_path / "data")
    assert old == pytest.approx(scored(sys.executable, tmp_path / "new", tmp_path / "data"), rel=1e-4)
    assert len(old) > 5
