"""What is built is read by ``datasets.load_dataset``, by the newest release and the oldest supported one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.progress import Progress

from builders import datasets
from builders.build import Profile, rebuild
from builders.fetch import Fetcher
from builders.manifest import read_manifest
from tests.helpers import ROOT, mirror, missing

OLDEST = ROOT / ".venv-oldest" / "bin" / "python"


@pytest.fixture(scope="module", params=["embedded", pytest.param("mirrored", marks=pytest.mark.mirror)])
def out(request, tmp_path_factory):
    """All data sets, built without any source and from the mirror."""
    folder = tmp_path_factory.mktemp(request.param)
    sources = mirror() if request.param == "mirrored" else None
    fetcher = Fetcher(folder / "cache", sources, offline=True)
    results = rebuild(datasets.names(), fetcher, folder / "out", Profile.all, Progress(disable=True))
    return [folder / "out" / result.name for result in results if result.manifest]


@pytest.mark.parametrize("python", [sys.executable, OLDEST], ids=["newest", "oldest"])
def test_load_dataset_gives_the_rows_that_were_built(out, python, tmp_path):
    if not Path(python).exists():
        missing("needs the environment that make test prepares for the oldest supported release of datasets")
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    for folder in out:
        command = [str(python), str(ROOT / "tests" / "builders" / "loaded.py"), str(folder)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        splits = [split for config in read_manifest(folder).configs.values() for split in config.splits.values()]
        expected = {
            split.file.removeprefix("data/").removesuffix(".parquet"): pq.read_table(folder / split.file).to_pylist()
            for split in splits
        }
        assert told["rows"] == expected
        assert sum(map(len, expected.values())) == sum(split.rows for split in splits)
        if python == OLDEST:
            assert told["version"] == "3.0.0"


def test_nothing_but_data_lies_in_the_data_folder(out):
    for folder in out:
        assert {path.name for path in folder.iterdir()} == {"README.md", "manifest.json", "data"}
        assert {path.suffix for path in (folder / "data").rglob("*") if path.is_file()} == {".parquet"}
        assert not list(folder.rglob("*.py"))
