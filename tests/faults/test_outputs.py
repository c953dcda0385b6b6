"""What lies where a command writes is the user's: it is refused, and left as it is."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.progress import Progress

import scoring
from builders import datasets
from builders.builder import Profile, build_datasets
from builders.dataset import BuildError
from builders.files.folders import replace_folder, scratch_beside
from builders.sources.fetch import Fetcher
from cards.common.files import RECORD, file_sha256, locked, put_all
from mitigation.adapters.write import check_target
from mitigation.adapters.write import text as facts_text
from mitigation.errors import MitigationError
from mitigation.methods import comparison
from mitigation.running.steps import check_work_folder
from pmi.counting.counts import Counts
from pmi.files import FileError, write_rows
from scoring import report
from scoring.adapters.facts import Adapter, Cost, digests
from scoring.inference.engines import check_folder
from scoring.inference.load_options import BUNDLED
from scoring.report.headlines import Comparison
from scoring.types import ScoringError
from tests.cards.made import RUN
from tests.support import commands
from tests.support.helpers import ROOT

PROBES = "gender-neutral-probes"


@pytest.fixture(autouse=True)
def without_mirror(monkeypatch):
    """Builds what needs no source, which is quick."""
    monkeypatch.delenv("PROBES_MIRROR", raising=False)


def state(folder):
    """Every path below a folder with its content, also links, which are not followed."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.is_file() and path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


def refused(done):
    """The only line of an error."""
    assert done.returncode in (1, 2), done
    lines = done.stderr.strip().splitlines()
    assert "Traceback" not in done.stderr
    assert len(lines) == 1, done.stderr
    return lines[0]


def rebuild(out, *names):
    return commands.run("builders.rebuild", *(names or (PROBES,)), "--offline", "--out", out)


@pytest.mark.fault(59)
@pytest.mark.parametrize("name", ["winobias", PROBES])
def test_a_repository_of_the_user_with_the_name_of_a_data_set_is_left_as_it_is(tmp_path, name):
    folder = tmp_path / name
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    (folder / "thesis.tex").write_text("years of work")
    before = state(tmp_path)
    message = refused(rebuild(tmp_path, name))
    assert re.search(rf"{name}/\.git/\S+ .*{re.escape(str(folder))}", message)
    assert message.endswith("move it away or choose another --out.")
    assert state(tmp_path) == before


@pytest.mark.fault(59)
@pytest.mark.parametrize("place", ["notes.txt", "data/llm-1/notes.txt", "data/mine.parquet", ".hidden"])
def test_a_file_of_the_user_in_a_built_folder_is_named_and_kept(tmp_path, place):
    assert rebuild(tmp_path).returncode == 0
    (tmp_path / PROBES / place).write_text("mine")
    (tmp_path / PROBES / "data" / "llm-1" / "test.parquet").unlink()  # so that the folder would be replaced
    before = state(tmp_path)
    assert f"{PROBES}/{place} " in refused(rebuild(tmp_path))
    assert state(tmp_path) == before


@pytest.mark.fault(59)
@pytest.mark.parametrize("name", [f".new-{PROBES}", f".old-{PROBES}"])
@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_what_has_the_name_of_a_temporary_folder_is_kept_and_not_written_through(tmp_path, name, kind):
    target, place = tmp_path / "elsewhere", tmp_path / "out" / name
    place.parent.mkdir()
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    if kind == "folder":
        target.rename(place)
    elif kind == "link":
        place.symlink_to(target)
    else:
        place.write_text("mine")
    before = state(tmp_path)
    assert f"/{name}" in refused(rebuild(tmp_path / "out"))
    assert state(tmp_path) == before


@pytest.mark.fault(59)
def test_a_folder_of_the_user_with_the_name_of_the_parts_of_a_count_is_left_as_it_is(tmp_path):
    (tmp_path / "corpus.txt").write_text("She saw the ship.")
    parts = tmp_path / "counts.parquet.parts"
    parts.mkdir()
    (parts / "chapter.tex").write_text("years")
    message = refused(commands.run("pmi", "count", tmp_path / "corpus.txt", "--out", tmp_path / "counts.parquet"))
    assert message == (
        f"error: {parts / 'chapter.tex'} was not written by this program, and {parts} would be replaced as a whole; "
        "move it away or choose another --out."
    )
    assert (parts / "chapter.tex").read_text() == "years"
    (parts / "chapter.tex").unlink()
    assert commands.run("pmi", "count", tmp_path / "corpus.txt", "--out", tmp_path / "counts.parquet").returncode == 0
    assert not parts.exists()


@pytest.mark.fault(59)
def test_folders_of_the_user_with_the_names_of_an_adapter_and_its_steps_are_refused(tmp_path):
    for check, folder in ((check_target, tmp_path / "adapter"), (check_work_folder, tmp_path / "adapter-work")):
        (folder / "made").mkdir(parents=True)
        check(folder)
        (folder / "made" / "thesis.tex").write_text("years")
        with pytest.raises(MitigationError, match=r"made/thesis\.tex"):
            check(folder)
    # Other programs leave locks too, and a mark without its checksum is no signature.
    for name in (".lock", "steps.txt"):
        (tmp_path / "adapter-work" / name).write_text("The steps of a run of probes mitigate.\n")
        with pytest.raises(MitigationError, match=r"made/thesis\.tex"):
            check_work_folder(tmp_path / "adapter-work")
    # Also in a folder of steps that is known, because the adapter of an unfinished run has all its files or none.
    for path in (tmp_path / "adapter-work").glob("steps.txt"):
        path.unlink()
    put_all(tmp_path / "adapter-work", {"steps.txt": b"steps"}, MitigationError)
    with pytest.raises(MitigationError, match=r"made/thesis\.tex"):
        check_work_folder(tmp_path / "adapter-work")
    (tmp_path / "adapter" / "mitigation.json").write_text('{"files": {"losses.json": ""}}')
    with pytest.raises(MitigationError, match=r"made/thesis\.tex"):
        check_target(tmp_path / "adapter")


#: Makes the hidden folder beside the target of a merge, and waits in it until it is killed.
KILLED = """
import sys
from pathlib import Path
from builders.files.folders import scratch_beside
with scratch_beside(Path(sys.argv[1])) as folder:
    (folder / "made").mkdir()
    (folder / "made" / "model.safetensors").write_bytes(b"half")
    print("made", flush=True)
    sys.stdin.read()
"""


@pytest.mark.fault(59)
def test_killed_runs_leave_no_hidden_folder_after_the_next_one(tmp_path):
    target = tmp_path / "merged"
    mine = [".merged-notes", ".merged-" + "0" * 16, f".merged-{'0' * 16}-{'0' * 32}", ".merged-", ".merged2-a-b"]
    for name in mine:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("mine")
    command = [sys.executable, "-c", KILLED, str(target)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Ten at one time, so that none removes the folder of another one before it is killed.
    runs = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(10)]
    for run in runs:
        assert run.stdout.readline() == b"made\n"
    for run in runs:
        run.kill()
        run.communicate()
        assert run.returncode == -signal.SIGKILL
    assert len({path.name for path in tmp_path.iterdir()} - set(mine)) == 10
    with scratch_beside(target) as first, scratch_beside(target) as second:
        assert {path.name for path in tmp_path.iterdir()} == {*mine, first.name, second.name}
    assert {path.name for path in tmp_path.iterdir()} == set(mine)
    assert all((tmp_path / name / "mine.txt").read_text() == "mine" for name in mine)


def broken_link(place):
    place.symlink_to(place.with_name("nothing"))


BAD = {
    "a file": (lambda place: place.write_text("mine"), "File exists"),
    "below a file": (lambda place: place.parent.write_text("mine"), "Not a directory"),
    "a broken link": (broken_link, "File exists"),
}


@pytest.mark.fault(60)
@pytest.mark.parametrize("name", BAD)
def test_an_output_that_cannot_be_is_one_sentence_and_nothing_is_written(tmp_path, name):
    make, told = BAD[name]
    out = tmp_path / "place" / "out" if name == "below a file" else tmp_path / "out"
    make(out)
    before = state(tmp_path)
    line = refused(rebuild(out))
    assert str(out) in line
    assert told in line
    assert state(tmp_path) == before


@pytest.mark.fault(60)
@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("/dev/null", "File exists"),
        ("/proc/nothing/out", "No such file or directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_device_a_place_that_cannot_be_written_and_a_long_name_are_one_sentence(tmp_path, monkeypatch, out, reason):
    monkeypatch.chdir(tmp_path)
    assert refused(rebuild(Path(out))).startswith(f"error: {out} ")
    assert f"({reason})" in refused(rebuild(Path(out)))


@pytest.mark.fault(60)
def test_a_count_into_a_folder_is_refused_before_anything_is_counted(tmp_path):
    (tmp_path / "corpus.txt").write_text("She saw the ship.")
    done = commands.run("pmi", "count", tmp_path / "corpus.txt", "--out", tmp_path)
    assert refused(done) == f"error: {tmp_path} is a folder; give a file for the counts as --out."


@pytest.mark.fault(60)
def test_an_error_between_two_data_sets_says_which_is_new(tmp_path, monkeypatch):
    calls = []

    def fail_at_second(new, target):
        calls.append(target.name)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        replace_folder(new, target)

    monkeypatch.setattr("builders.builder.replace_folder", fail_at_second)
    names = [name for name in datasets.names() if any(not config.sources for config in datasets.get(name).configs)][:2]
    with pytest.raises(BuildError) as error:
        build_datasets(names, Fetcher(tmp_path / "cache", None, offline=True), tmp_path / "out", Profile.all,
                       Progress(disable=True))  # fmt: skip
    assert f"; {names[0]} is new and the rest of the old output is unchanged." in str(error.value)


@pytest.mark.fault(68)
def test_a_second_run_into_one_folder_is_refused(tmp_path):
    (tmp_path / "corpus.txt").write_text("She saw the ship.")
    with locked(tmp_path / "out", RuntimeError), locked(tmp_path / "counts.parquet.parts", RuntimeError):
        told = [
            refused(rebuild(tmp_path / "out")),
            refused(commands.run("pmi", "count", tmp_path / "corpus.txt", "--out", tmp_path / "counts.parquet")),
        ]
    for line in told:
        assert re.fullmatch(r"error: .* \S+;.* --out\.", line)


@pytest.mark.fault(68)
def test_results_of_other_settings_are_replaced_only_when_asked(tmp_path):
    assert rebuild(tmp_path / "data").returncode == 0

    def score(*options):
        named = ("--benchmarks", "neutral", "--data", tmp_path / "data", "--limit", 1, "--resamples", 5)
        return commands.run("scoring", "tiny-causal", *named, "--out", tmp_path / "out", *options)

    assert score().returncode == 0
    before = (tmp_path / "out" / "results.json").read_bytes()
    message = refused(score("--prompt", "instruction"))
    assert message.startswith(
        f"error: {tmp_path / 'out'} holds results with other settings (prompt plain, now instruction)"
    )
    other_rows = refused(score("--limit", 2))
    assert "holds results with other settings (limit 1, now 2)" in other_rows
    assert len(other_rows) < 500
    assert message.endswith("; give another --out, or --overwrite to replace them.")
    with locked(tmp_path / "out", RuntimeError):
        assert "Another command is writing to" in refused(score())
    assert (tmp_path / "out" / "results.json").read_bytes() == before
    assert score().returncode == 0
    assert score("--prompt", "instruction", "--overwrite").returncode == 0
    assert (tmp_path / "out" / "results.json").read_bytes() != before


@pytest.mark.fault(81)
@pytest.mark.parametrize(
    "name", ["report.html", "results.md", "results.json", "compare.html", "examples/neutral.parquet"]
)
def test_a_file_of_the_user_is_not_replaced_by_one_of_a_run(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    tables = {"neutral": {"id": np.array(["a"], dtype=object)}}
    write = report.write_comparison if name.startswith("compare") else report.write
    made = (Comparison(RUN, RUN, ()),) if name.startswith("compare") else (RUN, tables, {})
    before = state(tmp_path)
    with pytest.raises(ScoringError, match=re.escape(name)):
        write(tmp_path, *made)
    if "/" not in name:
        for overwrite in (False, True):
            with pytest.raises(ScoringError, match=re.escape(name)):
                report.check_finished(tmp_path, RUN, overwrite=overwrite)
    assert state(tmp_path) == before


@pytest.mark.fault(81)
def test_a_run_needs_a_folder_of_its_own_and_leaves_what_is_added_to_it(tmp_path):
    out = tmp_path / "out"
    for name in ("notes.txt", "kept/.hidden", "data.csv"):
        shutil.rmtree(out, ignore_errors=True)
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text("mine")
        before = state(out)
        with pytest.raises(ScoringError, match=rf"{re.escape(name)} .*--out"):
            check_folder(out)
        with pytest.raises(ScoringError, match=re.escape(name)):
            scoring.evaluate("tiny-causal", out=out)
        assert state(out) == before
    shutil.rmtree(out)
    check_folder(out)
    out.mkdir()
    check_folder(out)
    (out / "replies.jsonl").write_text("recorded")  # of a chat API, also when it was interrupted
    (out / ".replies.jsonl.lock").touch()
    check_folder(out)
    with locked(out, ScoringError):
        pass
    (out / "notes.txt").write_text("mine")
    check_folder(out)
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.fault(81)
def test_a_run_writes_through_a_link_of_the_user_and_replaces_nothing_there(tmp_path):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    out.mkdir()
    (out / "examples").symlink_to(elsewhere)
    tables = {"neutral": {"id": np.array(["a"], dtype=object)}}
    report.write(out, RUN, tables, {})
    assert (elsewhere / "neutral.parquet").is_file()
    (elsewhere / "neutral.parquet").write_text("mine")
    before = state(tmp_path)
    with pytest.raises(ScoringError, match=r"examples/neutral\.parquet was not written by this program"):
        report.write(out, RUN, tables, {})
    assert state(tmp_path) == before


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """The data and the finished run of one row, and the command that repeats it in a folder."""
    folder = tmp_path_factory.mktemp("run")
    assert rebuild(folder / "data").returncode == 0

    def score(out, *options):
        named = ("--benchmarks", "neutral", "--data", folder / "data", "--limit", 1, "--resamples", 5)
        return commands.run("scoring", "tiny-causal", *named, "--out", out, *options)

    assert score(folder / "out").returncode == 0
    return folder / "out", score


@pytest.mark.fault(81)
@pytest.mark.parametrize("name", ["report.html", "results.md", "rows.html", "examples/neutral.parquet"])
def test_files_of_the_user_beside_a_copy_of_results_are_kept(a_run, tmp_path, name):
    run, score = a_run
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    shutil.copy(run / "results.json", out)
    (out / name).write_text("mine")
    before = state(tmp_path)
    for options in ((), ("--overwrite",)):
        assert " was not written by this program" in refused(score(out, *options))
        assert state(tmp_path) == before


@pytest.mark.fault(81)
def test_a_run_of_a_version_that_kept_no_list_is_replaced_and_one_with_a_changed_page_is_kept(a_run, tmp_path):
    run, score = a_run
    earlier = shutil.copytree(run, tmp_path / "earlier")
    # What that version did not write.
    for name in (RECORD, "rows.html", "summary.md", "run.yaml"):
        (earlier / name).unlink()
    changed = shutil.copytree(earlier, tmp_path / "changed")
    (changed / "report.html").write_text("mine")
    before = state(changed)
    assert " was not written by this program" in refused(score(changed, "--overwrite"))
    assert state(changed) == before
    assert score(earlier).returncode == 0
    done = subprocess.run(["sha256sum", "--check", "--strict", RECORD], cwd=earlier, capture_output=True, text=True)
    assert (done.returncode, "report.html: OK" in done.stdout) == (0, True)


@pytest.mark.fault(81)
def test_a_file_that_was_listed_in_a_file_of_its_own_is_replaced(tmp_path):
    page = tmp_path / "board.html"
    page.write_text("one")
    (tmp_path / f"{page.name}{RECORD}").write_text(f"{file_sha256(page)}  {page.name}\n")
    put_all(tmp_path, {page.name: b"two"}, ScoringError)
    assert page.read_text() == "two"
    page.write_text("mine")
    with pytest.raises(ScoringError, match=r"board\.html"):
        put_all(tmp_path, {page.name: b"three"}, ScoringError)


@pytest.mark.fault(81)
@pytest.mark.parametrize(
    "text", ["{}", '{"schema": 3, "estimates": []}', '{"schema": "mine", "estimates": [1], "model": "m"}', "mine"]
)
def test_results_of_another_program_are_kept_also_with_overwrite(a_run, tmp_path, text):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text(text)
    before = state(tmp_path)
    for options in ((), ("--overwrite",)):
        message = refused(a_run[1](tmp_path / "out", *options))
        assert f"{tmp_path / 'out' / 'results.json'} " in message
        assert state(tmp_path) == before


@pytest.mark.fault(81)
def test_an_adapter_of_the_user_beside_copied_facts_is_kept(tmp_path):
    out = tmp_path / "adapter"
    out.mkdir()
    (out / "adapter_model.safetensors").write_text("as it was")
    cost = Cost(1, 0.0, 1, "cpu")
    facts = Adapter("fast", "m", "", "float32", {}, {}, cost, digests(out))
    (out / "mitigation.json").write_text(facts_text(facts))
    check_target(out)
    (out / "adapter_model.safetensors").write_text("mine")
    with pytest.raises(MitigationError, match=r"adapter_model\.safetensors"):
        check_target(out)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.fault(81)
@pytest.mark.parametrize("number", range(1, 5))
def test_what_was_written_is_replaced_also_after_a_run_that_was_killed(tmp_path, monkeypatch, number):
    files = {"report.html": b"one", "results.md": b"one"}
    put_all(tmp_path, files, ScoringError)
    replace, calls = Path.replace, []

    def killed(path, target):
        calls.append(target)
        if len(calls) == number:
            raise Killed
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(Killed):
            put_all(tmp_path, dict.fromkeys(files, b"two"), ScoringError)
    put_all(tmp_path, dict.fromkeys(files, b"three"), ScoringError)
    assert {(tmp_path / name).read_bytes() for name in files} == {b"three"}
    done = subprocess.run(["sha256sum", "--check", "--strict", RECORD], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "report.html: OK\nresults.md: OK\n")
    (tmp_path / RECORD).unlink()
    with pytest.raises(ScoringError, match=r"report\.html"):
        put_all(tmp_path, files, ScoringError)


@pytest.mark.fault(81)
def test_a_table_a_page_and_a_list_of_methods_do_not_replace_files_of_the_user(tmp_path):
    for name in ("words.csv", "methods.md"):
        (tmp_path / name).write_text("mine")
    rows = pa.table({"word": ["nurse"]})
    with pytest.raises(FileError, match=r"words\.csv"):
        write_rows(rows, tmp_path / "words.csv")
    with pytest.raises(MitigationError, match=r"methods\.md"):
        comparison.check_files(tmp_path)
    assert (tmp_path / "words.csv").read_text() == "mine"
    write_rows(rows, tmp_path / "ours.csv")
    write_rows(rows, tmp_path / "ours.csv")
    (tmp_path / "ours.csv").write_text("edited")
    with pytest.raises(FileError, match=r"or was changed since"):
        write_rows(rows, tmp_path / "ours.csv")


@pytest.mark.fault(83)
def test_no_path_of_the_checkout_or_the_home_is_in_a_file_that_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("builders.builder.find_spec", lambda name: None)  # so that configs lack a package
    out, run = tmp_path / "out", tmp_path / "run"
    build_datasets(["unstereo", PROBES], Fetcher(tmp_path / "cache", None, offline=True), out, Profile.all,
                   Progress(disable=True))  # fmt: skip
    assert "needs the package spacy" in (out / "unstereo" / "manifest.json").read_text()
    named = ("--benchmarks", "neutral", "--data", out, "--limit", 1, "--resamples", 5)
    assert commands.run("scoring", "tiny-causal", *named, "--out", run).returncode == 0
    places = [str(place).encode() for place in (ROOT, Path.home())]
    files = [path for folder in (out, run) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path.name for path in files for place in places if place + b"/" in path.read_bytes()] == []


@pytest.mark.fault(83)
def test_no_path_below_the_home_is_in_a_file_also_after_absolute_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    work, model = tmp_path / "texts", tmp_path / "models" / "mine"
    work.mkdir()
    shutil.copytree(BUNDLED["tiny-causal"], model)
    (work / "corpus.txt").write_text("She saw the ship.\nHe saw the nurse.\n")
    prompt = {"name": f"{work}/mine", "version": "1.0.0", "instruction": "Say:"}
    (work / "prompt.json").write_text(json.dumps(prompt))
    assert rebuild(work / "data").returncode == 0
    named = ("--data", work / "data", "--limit", 1, "--resamples", 5)
    for command in (
        ("scoring", model, "--benchmarks", "neutral", *named, "--prompt", work / "prompt.json", "--out", work / "run"),
        ("scoring", model, "--benchmarks", "neutral", *named, "--compare", work / "run", "--out", work / "other"),
        ("pmi", "count", work / "corpus.txt", "--out", work / "counts.parquet"),
        ("pmi", "table", work / "counts.parquet", "--min-count", 1, "--out", work / "table.parquet"),
        ("mitigation", "prompts", model, "--text", work / "corpus.txt", *named, "--out", work / "adapter"),
    ):
        done = commands.run(*command)
        assert done.returncode == 0, done.stderr
    files = [path for path in work.rglob("*") if path.is_file() and path.name not in ("prompt.json", "corpus.txt")]
    assert {"results.json", "report.html", "mitigation.json", "counts.parquet", "compare.html"} <= {
        path.name for path in files
    }
    assert [path for path in files if str(tmp_path).encode() in path.read_bytes()] == []
    assert "~/models/mine" in (work / "run" / "results.json").read_text()
    assert "~/texts/corpus.txt" in Counts.read(work / "counts.parquet").rule.corpus


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
def test_a_file_has_the_rights_that_the_mask_of_the_user_gives(tmp_path, mask):
    before = os.umask(mask)
    try:
        put_all(tmp_path / "run", {"examples/a.parquet": b"one"}, ScoringError)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("*") if path.is_file()} == {0o666 & ~mask}


def test_a_file_is_written_where_rights_times_and_links_cannot_be_set(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    for name in ("chmod", "fchmod", "link", "utime"):
        monkeypatch.setattr(os, name, refuse)
    put_all(tmp_path / "run", {"examples/a.parquet": b"one"}, ScoringError)
    assert (tmp_path / "run" / "examples" / "a.parquet").read_bytes() == b"one"
