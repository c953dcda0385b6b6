"""What is built is the same everywhere, and is read by ``datasets.load_dataset``, the newest release and the oldest."""

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders import datasets
from builders.files.manifest import read_manifest
from builders.text.embedded import table
from tests.support import commands
from tests.support.helpers import ROOT, mirror, missing
from tests.support.hub import Hub

OLDEST = ROOT / ".venv-oldest" / "bin" / "python"
#: Surroundings as different as those of two machines can be.
WORLDS = (
    {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1", "PYTHONUTF8": "0"},
    {"LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "1"},
)


def built(folder, world, **sources):
    """All data sets that can be built of these sources, in a process in surroundings of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PROBES_")} | world | sources
    command = [sys.executable, "-m", "builders.rebuild", "--offline", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module", params=["embedded", pytest.param("mirrored", marks=pytest.mark.mirror)])
def outs(request, tmp_path_factory):
    """Two builds of all data sets, without any source and from the mirror."""
    folder = tmp_path_factory.mktemp(request.param)
    sources = {"PROBES_CACHE": str(folder / "cache")}
    if request.param == "mirrored":
        sources["PROBES_MIRROR"] = str(mirror())
    return [built(folder / str(number), world, **sources) for number, world in enumerate(WORLDS)]


@pytest.fixture
def out(outs):
    """The folders of the data sets of one of them."""
    return [path.parent for path in sorted(outs[0].glob("*/manifest.json"))]


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.fault(10)
def test_builds_with_other_locale_time_zone_and_folder_are_byte_identical(outs):
    one, other = map(tree, outs)
    assert one == other
    assert len(one) > 10


def test_with_all_sources_no_config_is_left_out(outs, out):
    left = {folder.name: read_manifest(folder).left_out for folder in out}
    if outs[0].parent.name.startswith("mirrored"):
        assert left == {name: {} for name in datasets.names()}
    else:
        assert set(left) < set(datasets.names())
        ours = {"llm-1", "llm-2", "templates", "templates-paper"}
        assert ours.isdisjoint(left["gender-neutral-probes"])
        assert len(left["gender-neutral-probes"]) == 6


@pytest.fixture(scope="module")
def hub(outs, tmp_path_factory):
    """A Hub with a default push of the data sets."""
    with Hub(cache=tmp_path_factory.mktemp("cache")) as hub:
        result = commands.run("builders.push", outs[0], "--org", "org")
        assert result.returncode == 0, result.stderr
        yield hub


def loaded(python, folder, names):
    """The rows of each config and split of data sets, as ``load_dataset`` of an interpreter gives them."""
    if not Path(python).exists():
        missing("needs the environment that make test prepares for the oldest supported release of datasets")
    caches = {"HF_HOME": str(folder), "HF_DATASETS_CACHE": str(folder / "datasets")}
    command = [str(python), str(ROOT / "tests" / "builders" / "loaded.py"), *map(str, names)]
    done = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    message = json.loads(done.stdout)
    if python == OLDEST:
        assert message["version"] == "3.0.0"
    return message["rows"]


@pytest.mark.parametrize("python", [sys.executable, OLDEST], ids=["newest", "oldest"])
def test_every_published_config_is_loaded_by_its_name(out, hub, python, tmp_path):
    result = loaded(python, tmp_path, [f"org/{folder.name}" for folder in out])
    for folder in out:
        tree = hub.repos["dataset", f"org/{folder.name}"].at("main").tree
        manifest = json.loads(tree["manifest.json"].data)
        files = [split["file"] for config in manifest["configs"].values() for split in config["splits"].values()]
        expected = {
            file.removeprefix("data/").removesuffix(".parquet"): pq.read_table(BytesIO(tree[file].data)).to_pylist()
            for file in files
        }
        assert result[f"org/{folder.name}"] == expected
        assert manifest["configs"].keys() == read_manifest(folder).configs.keys(), "none is withheld as a whole"
        assert manifest["left_out"] == read_manifest(folder).left_out


def test_a_local_folder_is_loaded_like_a_published_one(out, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (folder,) = [folder for folder in out if folder.name == "occugender"]
    splits = [split for config in read_manifest(folder).configs.values() for split in config.splits.values()]
    expected = {
        split.file.removeprefix("data/").removesuffix(".parquet"): pq.read_table(folder / split.file).to_pylist()
        for split in splits
    }
    for python in (sys.executable, OLDEST):
        assert loaded(python, tmp_path / Path(python).parent.parent.name, [folder]) == {str(folder): expected}
    assert sum(map(len, expected.values())) == sum(split.rows for split in splits)


def test_the_data_folder_has_only_parquet_files(out):
    for folder in out:
        assert {path.name for path in folder.iterdir()} == {"README.md", "manifest.json", "data"}
        assert {path.suffix for path in (folder / "data").rglob("*") if path.is_file()} == {".parquet"}
        assert not list(folder.rglob("*.py"))


def test_each_column_of_each_data_set_has_a_meaning_and_none_is_told_of_another():
    told = table("columns")
    for name in datasets.names():
        data_set = datasets.get(name)
        columns = {column.name for config in data_set.configs for column in config.columns}
        meanings = told["all"] | told.get(name, {})
        assert columns <= meanings.keys(), f"{name}: {sorted(columns - meanings.keys())} are not in columns.toml"
        assert told.get(name, {}).keys() <= columns, name
    assert told.keys() - {"all"} <= set(datasets.names())
