"""A share of the changes between two commands; all of them are `make trust`."""

import sys
from pathlib import Path

import pytest
import typer

from tests.faults import between
from tests.faults.between import CHANGES, Command, measure
from tests.faults.twice import COMMANDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
#: Files that a command must be seen to open, some of them by libraries in other languages.
SEEN = {
    "generate": {"words.txt", "address"},
    "pmi count, resumed": {"corpus/a.txt", "corpus/b.jsonl"},
    "score": {"model/model.safetensors", "model/tokenizer.json", "data/occugender/data/explicit/test.parquet"},
    "score, served model": {"model/tokenizer.json", "weights"},
    "score, chat server": {"address", "data/occugender/data/explicit/test.parquet"},
    "compare": {"run/results.json", "base/examples/occugender.parquet"},
    "leaderboard": {"run/results.json", "base/results.json"},
    "rescore": {"scores.csv"},
    "mitigate": {"model/model.safetensors", "data/gender-neutral-probes/data/stsb/train.parquet"},
}


@pytest.mark.fault(88)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_change_between_two_commands_is_answered_as_in_a_fresh_folder_or_by_a_sentence(name, tmp_path):
    # A recipe takes most of the time of all commands, so the test changes its inputs alone.
    sorts = ("input",) if name == "mitigate" else CHANGES
    ends, faults, read = measure(COMMANDS[name], name, tmp_path, share=1, sorts=sorts)
    assert faults == []
    assert all(sum(ends[sort].values()) <= 1 for sort in sorts)
    assert SEEN.get(name, set()) <= set(read)


def copying(remembers):
    """A command that copies a number and, like one with stale answers, may remember what it read before."""

    def main(source: Path, out: Path, times: int = 1) -> None:
        kept = out / "kept.txt"
        number = kept.read_text() if remembers and kept.exists() else (source / "number.txt").read_text()
        kept.write_text(number)
        (out / "result.txt").write_text(str(int(number) * times))

    app = typer.Typer(add_completion=False)
    app.command()(main)
    return app


def made(folder):
    folder.mkdir(parents=True)
    (folder / "number.txt").write_text("2345")
    (folder / "not-read.txt").write_text("9")


def result(out, _said):
    return int((out / "result.txt").read_text())


@pytest.mark.parametrize("remembers", [True, False])
def test_an_input_that_is_remembered_is_silent_and_one_that_is_read_again_is_fresh(remembers, tmp_path):
    command = Command(copying(remembers), made, lambda inputs, out: [inputs, out], result)
    ends, faults, read = measure(command, "copy", tmp_path)
    assert read == ["number.txt"]
    assert ends["input"]["silent"] == remembers
    assert ends["input"]["fresh"] == (not remembers)
    assert len(faults) == ends["input"]["silent"]


def test_an_error_that_is_no_sentence_is_a_traceback(tmp_path, monkeypatch):
    command = Command(copying(False), made, lambda inputs, out: [inputs, out], result)
    monkeypatch.setattr(between, "byte_changed", lambda path, _draw: path.write_text("no number"))
    ends, _, _ = measure(command, "copy", tmp_path)
    assert ends["input"]["traceback"] == 1
