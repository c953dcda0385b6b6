import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from builders import datasets
from builders import rebuild as command
from builders.builder import Profile, build_datasets
from builders.check import check, diff
from builders.dataset import BuildError, SourceUnavailable
from builders.files import write
from builders.files.manifest import NAME, file_sha256, read_manifest
from builders.rebuild import print_results
from builders.sources.fetch import Fetcher
from cards.dataset_card import dataset_card
from tests.support import commands
from tests.support.helpers import ROOT, manifest_text, mirror

PROBES = "gender-neutral-probes"


def fetcher(tmp_path):
    return Fetcher(tmp_path / "cache", None, offline=True)


def build(tmp_path, profile=Profile.all, names=(PROBES,)):
    results = build_datasets(list(names), fetcher(tmp_path), tmp_path / "out", profile, Progress(disable=True))
    return tmp_path / "out" / PROBES, results


def prove(tmp_path):
    return check([PROBES], fetcher(tmp_path), tmp_path / "out", Progress(disable=True))


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def run(*arguments, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PROBES_")} | environment
    command = [sys.executable, "-m", "builders.rebuild", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def rewrite(path, change):
    table = pq.read_table(path)
    pq.write_table(table.from_pylist(change(table.to_pylist()), schema=table.schema), path)


def test_without_sources_the_embedded_configs_are_built_and_the_others_named(tmp_path):
    done = run("--offline", "--out", tmp_path / "out", PROBES_CACHE=str(tmp_path / "cache"), COLUMNS="200")
    assert done.returncode == 0, done.stderr
    built = {p.parent.name for p in (tmp_path / "out" / PROBES / "data").rglob("*.parquet")}
    assert built == {"llm-1", "llm-2", "templates", "templates-paper"}
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {PROBES, "occugender", "unstereo", "biaske"}
    without_own_data = [n for n in datasets.names() if all(config.sources for config in datasets.get(n).configs)]
    assert without_own_data
    for left_out in without_own_data:
        assert f"left out: {left_out}" in done.stdout
        assert not (tmp_path / "out" / left_out).exists()
    assert "run without --offline, or give --mirror DIR" in done.stderr


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        ("it needs the package spacy, which is not installed; install it with pip install spacy.", False),
        ("it was in neither the mirror nor the cache.", True),
    ],
)
def test_the_advice_to_use_the_network_is_for_sources_not_for_packages(tmp_path, monkeypatch, reason, advised):
    left_out = SimpleNamespace(name="unstereo", manifest=None, built=(), left_out={"ours-5": reason})
    monkeypatch.setattr(command, "build_datasets", lambda *_: [left_out])
    done = CliRunner().invoke(command.app, ["unstereo", "--offline", "--out", str(tmp_path)])
    assert "Left out: 1 configs" in done.stderr
    assert ("run without --offline" in done.stderr) == advised


@pytest.mark.fault(4)
def test_a_named_data_set_that_cannot_be_built_exits_with_2(tmp_path):
    done = run("winobias", "--offline", "--out", tmp_path / "out", PROBES_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 2
    assert "left out: winobias" in done.stdout


@pytest.mark.fault(4)
def test_configs_left_out_without_offline_exit_with_2(tmp_path, monkeypatch):
    def down(self, source):
        raise SourceUnavailable(f"{source.name} is not available: the network is down.")

    monkeypatch.setattr(Fetcher, "get", down)
    done = CliRunner().invoke(command.app, [PROBES, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "the network is down." in done.output
    assert read_manifest(tmp_path / "out" / PROBES).left_out["stsb"] == "stsb/train is not available."
    assert (tmp_path / "out" / PROBES / "data" / "llm-1" / "test.parquet").is_file()


@pytest.mark.fault(15)
@pytest.mark.parametrize("name", ["../x", "a|b", "CON", "x" * 300, "gender_neutral_probes"])
def test_an_unknown_name_is_refused_in_a_sentence(tmp_path, name):
    done = commands.run("builders.rebuild", name, "--offline", "--out", tmp_path / "out")
    assert done.returncode == 1
    near = " (did you mean 'gender-neutral-probes'?)" if name == "gender_neutral_probes" else ""
    assert f"error: No data set is called {name!r}{near}; the names are {', '.join(datasets.names())}." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_rebuilding_changes_nothing_when_nothing_changed(tmp_path):
    folder, _ = build(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    _, (result,) = build(tmp_path)
    assert result.staged is None
    assert result.built == frozenset()
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


@pytest.mark.parametrize("name", ["README.md", "data/llm-1/test.parquet"])
def test_a_missing_file_is_rebuilt(tmp_path, name):
    folder, _ = build(tmp_path)
    whole = tree(folder)
    (folder / name).unlink()
    build(tmp_path)
    assert tree(folder) == whole


def test_building_one_profile_keeps_the_configs_of_the_other(tmp_path):
    folder, _ = build(tmp_path)
    whole = tree(folder)
    (folder / "data" / "llm-1" / "test.parquet").unlink()
    _, (result,) = build(tmp_path, Profile.clean)
    assert result.built == {"llm-1"}
    assert tree(folder) == whole


def with_other_rows(monkeypatch, version):
    """The data set with one word changed in a config, a row left out of it and a new one, and newer code."""
    before = datasets.get(PROBES)

    def rows(files):
        first, second, *others = next(c for c in before.configs if c.name == "templates").rows(files)
        yield dataclasses.replace(first, values=first.values | {"prompt": "Another prompt"})
        yield dataclasses.replace(second, id="new")
        yield from others

    configs = [dataclasses.replace(c, rows=rows) if c.name == "templates" else c for c in before.configs]
    changed = dataclasses.replace(before, version=version, configs=tuple(configs))
    monkeypatch.setattr(datasets, "get", lambda name: changed)
    monkeypatch.setattr("builders.builder._project_digest", lambda: "newer")


def test_other_rows_under_the_same_version_are_refused_and_shown_by_diff(tmp_path, monkeypatch):
    folder, _ = build(tmp_path)
    whole = tree(folder)
    assert list(diff([PROBES], fetcher(tmp_path), tmp_path / "out", Progress(disable=True))) == []
    with_other_rows(monkeypatch, datasets.get(PROBES).version)
    with pytest.raises(BuildError, match=r"templates test has other rows .*same version \(1 changed, 1 new, 1 gone\)"):
        build(tmp_path)
    assert tree(folder) == whole
    head, *lines = diff([PROBES], fetcher(tmp_path), tmp_path / "out", Progress(disable=True))
    assert head == f"{PROBES} templates test: 1 changed, 1 new, 1 gone"
    assert [line[0] for line in lines] == ["-", "+", "-", "+"]
    assert '{"prompt": "Another prompt"}' in lines[1]
    assert tree(folder) == whole


def test_other_rows_under_a_new_version_are_built(tmp_path, monkeypatch):
    folder, _ = build(tmp_path)
    with_other_rows(monkeypatch, "9.0.0")
    _, (result,) = build(tmp_path)
    assert "templates" in result.built
    assert read_manifest(folder).version == "9.0.0"


def test_configs_of_another_version_are_not_mixed_in(tmp_path, monkeypatch):
    folder, _ = build(tmp_path)
    whole = tree(folder)
    newer = dataclasses.replace(datasets.get(PROBES), version="9.0.0")
    monkeypatch.setattr(datasets, "get", lambda name: newer)
    message = r"holds version [0-9.]+ with the configs templates-paper, which this build does not rebuild for version 9"
    with pytest.raises(BuildError, match=message):
        build(tmp_path, Profile.clean)
    assert tree(folder) == whole


def test_a_damaged_config_that_cannot_be_rebuilt_is_refused(tmp_path):
    folder, _ = build(tmp_path)
    (folder / "data" / "templates-paper" / "test.parquet").write_bytes(b"")
    with pytest.raises(BuildError, match=r"templates-paper/test\.parquet"):
        build(tmp_path, Profile.clean)
    (folder / "data" / "templates-paper" / "test.parquet").unlink()
    with pytest.raises(BuildError, match="files of templates-paper"):
        build(tmp_path, Profile.clean)


@pytest.mark.fault(90)
def test_a_parquet_file_that_a_user_edited_is_kept(tmp_path):
    folder, _ = build(tmp_path)
    whole, path = tree(folder), folder / "data" / "llm-1" / "test.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    edited = path.read_bytes()
    with pytest.raises(BuildError, match=r"test\.parquet"):
        build(tmp_path)
    assert path.read_bytes() == edited
    path.rename(tmp_path / "mine.parquet")
    build(tmp_path)
    assert tree(folder) == whole


@pytest.mark.fault(90)
def test_a_card_that_a_user_edited_is_kept(tmp_path):
    folder, _ = build(tmp_path)
    card = folder / "README.md"
    whole = card.read_bytes()
    edited = whole + b"\nNotes of the user.\n"
    card.write_bytes(edited)
    with pytest.raises(BuildError, match=r"README\.md was changed since"):
        build(tmp_path)
    assert card.read_bytes() == edited
    card.rename(tmp_path / "mine.md")
    build(tmp_path)
    assert card.read_bytes() == whole


def test_a_card_of_an_earlier_version_is_written_anew(tmp_path):
    folder, _ = build(tmp_path)
    manifest = read_manifest(folder)
    card = folder / "README.md"
    whole = card.read_bytes()
    # An earlier version kept no hash of the card, and had other templates.
    (folder / "manifest.json").write_text(dataclasses.replace(manifest, card="").json())
    card.write_bytes(b"A card of an earlier template.\n")
    build(tmp_path)
    assert card.read_bytes() == whole
    assert read_manifest(folder) == manifest


@pytest.mark.fault(7)
def test_a_rebuild_killed_at_any_write_leaves_the_old_folder_or_the_new_one(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.builders.killed", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["states"]) == {"old", "new", "finished"}, told
    assert told["states"].count("old") > 15
    assert told["states"].count("new") > 3
    assert told["left"] == [".lock", PROBES]


@pytest.mark.fault(8)
@pytest.mark.parametrize("where", ["write_table", "fsync"])
def test_a_full_disk_leaves_the_old_version_and_no_temporary_file(tmp_path, monkeypatch, where):
    folder, _ = build(tmp_path, Profile.paper)
    whole = tree(folder)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq if where == "write_table" else os, where, full)
    message = r"No space left on device while writing to .*; the old output is unchanged. Make room"
    with pytest.raises(BuildError, match=message):
        build(tmp_path, Profile.all)
    assert tree(folder) == whole
    assert {p.name for p in folder.parent.iterdir()} <= {PROBES, ".lock"}


@pytest.mark.fault(9)
def test_a_second_rebuild_in_the_same_folder_is_refused(tmp_path):
    folder, _ = build(tmp_path, Profile.paper)
    whole = tree(folder)
    with FileLock(folder.parent / ".lock"):
        done = run(PROBES, "--offline", "--out", folder.parent, PROBES_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert f"error: Another command is writing to {folder.parent}" in done.stderr
    assert tree(folder) == whole


@pytest.mark.fault(11)
def test_another_encoding_of_the_same_rows_is_a_remark(tmp_path, monkeypatch):
    folder, _ = build(tmp_path)
    path = folder / "data" / "templates" / "test.parquet"
    pq.write_table(pq.read_table(path), path, compression="snappy")
    newer = "pyarrow 99.0.0"
    monkeypatch.setattr(write, "ENCODER", newer)  # another encoder is here; the one of the folder wrote this file
    manifest = json.loads((folder / NAME).read_text())
    split = manifest["configs"]["templates"]["splits"]["test"]
    split |= {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    text = manifest_text(manifest)
    (folder / NAME).write_text(text)
    (folder / "README.md").write_text(dataset_card(text))
    wrong, remarks = prove(tmp_path)
    assert wrong == []
    assert remarks == [
        f"{PROBES}/data/templates/test.parquet: same rows, other encoder "
        f"(pyarrow {pa.__version__} wrote the folder, {newer} is here)."
    ]


@pytest.mark.fault(12)
def test_an_altered_cell_is_named_by_file_config_row_and_column(tmp_path):
    folder, _ = build(tmp_path)

    def alter(rows):
        rows[3]["item"] = "doctor"
        return rows

    rewrite(folder / "data" / "templates" / "test.parquet", alter)
    assert prove(tmp_path)[0] == [
        f"{PROBES}/data/templates/test.parquet: config templates, row templates-occupation-nurse, "
        "column item is 'doctor', expected 'nurse'."
    ]
    done = run(PROBES, "--check", "--offline", "--out", folder.parent, PROBES_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "1 differences" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "lacks the row templates-occupation-attendant"),
        (lambda rows: [*rows, rows[0] | {"id": "new"}], "has the row new, which the sources do not give"),
        (lambda rows: rows[::-1], "has its rows in another order or more than once"),
        (lambda rows: [*rows, rows[0]], "has its rows in another order or more than once"),
    ],
)
def test_missing_added_and_moved_rows_are_named(tmp_path, change, message):
    folder, _ = build(tmp_path)
    rewrite(folder / "data" / "templates" / "test.parquet", change)
    assert [message in sentence for sentence in prove(tmp_path)[0]] == [True]


def test_a_manifest_that_states_another_fact_is_named(tmp_path):
    folder, _ = build(tmp_path)
    text = (folder / NAME).read_text()
    assert text.count('"rows": 160') == 2
    (folder / NAME).write_text(manifest_text(json.loads(text.replace('"rows": 160', '"rows": 161', 1))))
    assert prove(tmp_path)[0][:1] == [
        f"{PROBES}/manifest.json: configs templates splits test rows is 161, expected 160."
    ]


def test_a_folder_as_built_has_no_differences(tmp_path):
    build(tmp_path)
    assert prove(tmp_path) == ([], [])


def test_a_missing_and_a_foreign_file_are_named(tmp_path):
    folder, _ = build(tmp_path)
    (folder / "data" / "templates" / "test.parquet").rename(folder / "data" / "notes.txt")
    missing, foreign = prove(tmp_path)[0]
    assert "data/templates/test.parquet: the file is missing (config templates, split test)" in missing
    assert "data/notes.txt: the file belongs to no config" in foreign


def test_a_folder_without_a_manifest_cannot_be_checked(tmp_path):
    with pytest.raises(BuildError, match=r"manifest\.json"):
        prove(tmp_path)


def test_checking_writes_nothing(tmp_path):
    folder, _ = build(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in folder.parent.rglob("*")}
    prove(tmp_path)
    assert {p: p.stat().st_mtime_ns for p in folder.parent.rglob("*")} == before


def test_a_broken_manifest_is_refused_in_a_sentence(tmp_path):
    folder, _ = build(tmp_path)
    (folder / NAME).write_text("{}")
    with pytest.raises(BuildError, match="manifest of this version"):
        build(tmp_path)


def test_an_interrupted_run_says_that_nothing_was_lost(tmp_path, monkeypatch):
    folder, _ = build(tmp_path, Profile.paper)
    whole = tree(folder)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(write, "write_split", interrupt)
    done = CliRunner().invoke(command.app, [PROBES, "--offline", "--out", str(folder.parent)])
    assert done.exit_code == 130
    assert "Interrupted; each data set is as it was, or complete and new." in done.output
    assert tree(folder) == whole
    assert [p.name for p in folder.parent.iterdir() if p.name.startswith(".new")] == []


@pytest.mark.mirror
@pytest.mark.fault(1)
def test_a_changed_source_stops_the_build_before_anything_published_is_touched(tmp_path):
    folder, _ = build(tmp_path)
    whole = tree(folder)
    source = "raw.githubusercontent.com/dongxiangjue/Debias-LLMs"
    changed = next((mirror() / source).glob("*/data/templates_200.txt"))
    copy = tmp_path / "mirror" / changed.relative_to(mirror())
    copy.parent.mkdir(parents=True)
    copy.write_bytes(changed.read_bytes().replace(b"chess", b"chest"))
    done = run(PROBES, "--offline", "--out", folder.parent, "--mirror", tmp_path / "mirror")
    assert done.returncode == 1
    assert "templates_200.txt" in done.stderr
    assert file_sha256(copy) in done.stderr
    assert file_sha256(Path(changed)) in done.stderr
    assert tree(folder) == whole


def test_one_reason_of_several_configs_is_printed_once(capsys):
    reasons = {"a": "the host is down", "b": "the host is down", "c": "another reason"}
    result = SimpleNamespace(name="biaske", manifest=None, built=frozenset(), left_out=reasons)
    print_results(Console(width=200), [result], offline=False)
    printed = capsys.readouterr().out
    assert "left out: biaske a, b: the host is down" in printed
    assert printed.count("the host is down") == 1
    assert "left out: biaske c: another reason" in printed
