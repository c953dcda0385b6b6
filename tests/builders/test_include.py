"""A data set in a file outside the project, and the functions ``builders.build`` and ``builders.load``."""

import hashlib
import os
import sys

import pytest
from typer.testing import CliRunner

import builders
from builders import datasets, rebuild
from builders.dataset import BuildError
from builders.files.manifest import read_manifest
from builders.sources import catalogue

FILE = """
from builders.dataset import Config, DataSet, Origin, Row, text
from builders.parsers import read
import pyarrow as pa


def _rows(files):
    for number in range(20):
        yield Row("test", f"job-{number}", Origin("mine", "jobs.py", number), {"prompt": f"Job {number} said that"})


def _fetched(files):
    for number, word in enumerate(read.lines(files["mine/words"].path)):
        yield Row("test", word, files["mine/words"].origin(number), {"word": word})


DATASET = DataSet(
    name="jobs",
    version="1.0.0",
    title="Jobs",
    summary="Prompts about jobs.",
    validity="Made up.",
    configs=(
        Config("prompts", "Twenty prompts.", "Apache-2.0", (text("prompt"),), _rows),
        Config("words", "Two words.", "LicenseRef-Mine", (text("word"),), _fetched, sources=("mine/words",)),
    ),
)
"""
WORDS = b"kettle\nanvil\n"
SOURCES = f"""
[sources."mine/words"]
licence = "LicenseRef-Mine"
citation = "mine2026"
[[sources."mine/words".alternatives]]
files = [{{ url = "https://example.org/words.txt", sha256 = "{hashlib.sha256(WORDS).hexdigest()}" }}]
[licences.LicenseRef-Mine]
name = "Mine"
url = "https://example.org/licence"
redistribute = false
[citations]
mine2026 = "@misc{{mine2026}}"
"""


@pytest.fixture(autouse=True)
def registry(monkeypatch, tmp_path):
    """The registries as they were, and no cache or mirror of this machine."""
    monkeypatch.setattr(datasets.REGISTRY, "included", {})
    monkeypatch.setattr(catalogue, "_included", [])
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROBES_MIRROR", raising=False)
    yield
    catalogue.catalogue.cache_clear()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_jobs.py"
    path.write_text(FILE)
    path.with_suffix(".toml").write_text(SOURCES)
    return path


def test_an_included_data_set_is_built_by_the_command_and_loaded(tmp_path, file):
    arguments = ["--include", str(file), "--offline", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(rebuild.app, ["jobs", *arguments])
    assert done.exit_code == 0, done.output
    rows = builders.load("jobs", "prompts", "test", out=tmp_path / "out")
    assert rows[3]["prompt"] == "Job 3 said that"
    assert len(builders.load("jobs", "prompts", out=tmp_path / "out")["test"]) == 20
    assert "Prompts about jobs." in (tmp_path / "out" / "jobs" / "README.md").read_text()
    done = CliRunner().invoke(rebuild.app, ["jobs", *arguments, "--check"])
    assert "0 differences in jobs." in done.output
    assert "jobs" in datasets.names()


def test_its_own_sources_are_pinned_in_a_file_beside_it(tmp_path, file):
    mirrored = tmp_path / "mirror" / "example.org" / "words.txt"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(WORDS)
    (result,) = builders.build("jobs", out=tmp_path / "out", mirror=tmp_path / "mirror", offline=True, include=(file,))
    assert result.built == {"prompts", "words"}
    assert list(builders.load("jobs", "words", "test", out=tmp_path / "out")["word"]) == ["kettle", "anvil"]
    assert result.manifest.licences["LicenseRef-Mine"]["redistribute"] is False
    mirrored.write_bytes(b"changed\n")
    with pytest.raises(BuildError, match="is not as pinned"):
        builders.build("jobs", out=tmp_path / "out", mirror=tmp_path / "mirror", offline=True)


def test_only_a_changed_file_is_built_again(tmp_path, file):
    arguments = {"out": tmp_path / "out", "offline": True, "include": (file,)}
    builders.build("jobs", **arguments)
    (result,) = builders.build("jobs", **arguments)
    assert result.built == frozenset()
    file.write_text(FILE.replace("said that", "said"))
    with pytest.raises(BuildError, match=r"other rows than .*of the same version \(20 changed\)"):
        builders.build("jobs", **arguments)
    file.write_text(FILE.replace("said that", "said").replace('version="1.0.0"', 'version="1.0.1"'))
    (result,) = builders.build("jobs", **arguments)
    assert result.built == {"prompts"}
    assert builders.load("jobs", "prompts", "test", out=tmp_path / "out")[0]["prompt"] == "Job 0 said"


def test_an_edit_of_the_same_size_in_the_same_second_is_seen(tmp_path, file, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    seconds = file.stat().st_mtime
    datasets.include(file)
    file.write_text(FILE.replace('version="1.0.0"', 'version="1.0.1"'))
    os.utime(file, (seconds, seconds))
    assert datasets.include(file).version == "1.0.1"
    assert not (tmp_path / "__pycache__").exists()


def test_an_included_file_leaves_the_digest_of_other_data_sets_as_it_was(tmp_path, file):
    builders.build("occugender", out=tmp_path / "out", offline=True, profile="paper")
    (result,) = builders.build("occugender", out=tmp_path / "out", offline=True, profile="paper", include=(file,))
    assert result.built == frozenset()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 +", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("X = 1", "defines no DATASET"),
        ("raise SystemExit(0)", r"SystemExit.*\b0\b"),
        (FILE.replace('name="jobs"', 'name="../jobs"'), r"'\.\./jobs'"),
        (FILE.replace('Config("words"', 'Config("../../words"'), r"'\.\./\.\./words'"),
        (FILE.replace('name="jobs"', 'name="occugender"'), "'occugender'"),
    ],
)
def test_a_file_without_a_new_data_set_is_refused_in_a_sentence(tmp_path, file, content, message):
    file.write_text(content)
    with pytest.raises(BuildError, match=message):
        builders.build("jobs", out=tmp_path / "out", include=(file,))
    done = CliRunner().invoke(rebuild.app, ["--include", str(tmp_path / "absent.py"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "NAME.py" in " ".join(done.output.split())


def test_loading_names_what_is_missing(tmp_path):
    with pytest.raises(BuildError, match=r"builders\.build.*'occugender'"):
        builders.load("occugender", "jobs", out=tmp_path)
    builders.build("occugender", out=tmp_path, offline=True, profile="paper")
    assert read_manifest(tmp_path / "occugender").configs.keys() > {"jobs-paper"}
    with pytest.raises(BuildError, match="'jobs'"):
        builders.load("occugender", "jobs", out=tmp_path)
    with pytest.raises(BuildError, match="'train'"):
        builders.load("occugender", "jobs-paper", "train", out=tmp_path)
