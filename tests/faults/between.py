"""Changes between two commands: of what the first one read, of a setting, and of a file that exists afterwards.

For each command: it runs once while every file that is opened in its folders is watched (inotify, so that libraries in
other languages are seen too). Then, each time from the state after that run, one thing is changed and the same command
runs again:

- input: a byte of a file that was read, with its size and time as they were;
- setting: an option, from the declarations of the command, has another value;
- file: a byte of a file that exists afterwards is changed, or a line is lost.

The outcome must be that of the same command in a fresh folder, or one sentence. Anything else is silent. Each run is a
process of its own, forked from this one, so that nothing is remembered between two commands.
"""

import ctypes
import json
import math
import os
import random
import shutil
import struct
import traceback
import types
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.testing import CliRunner

import builders.rebuild
import pmi.__main__
from builders import generate
from builders.generation import endpoint, pipelines
from builders.generation.run import RunOptions
from builders.generation.spending import Spending
from cards.options import parameters
from pmi.counting.counts import Counts
from tests import openai_server
from tests.builders.test_generate import script

#: Imported before forking, as every child needs it.
assert endpoint
CHANGES = ("input", "setting", "file")
ENDS = ("fresh", "sentence", "silent", "traceback")
#: By how much numbers of a run that goes on may differ from those of a fresh one.
ROUNDING = 1e-6
_OPENED, _IS_FOLDER = 0x20, 0x40000000  # IN_OPEN, IN_ISDIR


@dataclass(frozen=True)
class Command:
    """A command: its inputs, its arguments, and what its user believes afterwards."""

    app: typer.Typer
    inputs: Callable[[Path], None]
    arguments: Callable[[Path, Path], list[Any]]
    believed: Callable[[Path], Any]
    options: tuple[Any, ...] = ()
    #: Makes the state in which the second command is given, such as that of an interruption.
    between: Callable[[Path, Path], None] = lambda _inputs, _out: None
    #: Added where an input was changed, so that stored answers and not only results are tried.
    again: tuple[str, ...] = ()
    #: Further values of options, by name; None leaves an option out.
    values: dict[str, Any] = field(default_factory=dict)


# What is watched


class Watch:
    """The files below a folder that are opened while it is watched, by any process and library."""

    def __init__(self, folder):
        self.folder, self.libc = folder, ctypes.CDLL(None, use_errno=True)
        self.handle = self.libc.inotify_init1(os.O_NONBLOCK)
        folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        self.places = {self.libc.inotify_add_watch(self.handle, os.fsencode(f), _OPENED): f for f in folders}

    def opened(self):
        """The files that were opened since the beginning; ends watching."""
        found = set()
        while True:
            try:
                events = os.read(self.handle, 2**16)
            except BlockingIOError:
                break
            place = 0
            while place < len(events):
                number, mask, _, length = struct.unpack_from("iIII", events, place)
                name = events[place + 16 : place + 16 + length].rstrip(b"\0")
                place += 16 + length
                if not mask & _IS_FOLDER and name:
                    found.add(self.places[number] / os.fsdecode(name))
        os.close(self.handle)
        return sorted(path for path in found if path.is_file())


# The commands


class Servers:
    """Loopback servers that all runs of a process share."""

    chat = ""


def words(folder):
    folder.mkdir(parents=True)
    (folder / "words.txt").write_text("umbrella\nbridge\n")


def generated(inputs, out):
    given = ["--words", inputs / "words.txt", "--no-they", "--count", "1", "--base-url", Servers.chat]
    return ["unstereo", *given, "--model", "m", "--out", out]


def rows(out):
    return (out / "rows.jsonl").read_text()


def corpus(folder):
    (folder / "corpus").mkdir(parents=True)
    (folder / "corpus" / "a.txt").write_text("She saw a nurse and a ship.\n" * 20)
    (folder / "corpus" / "b.jsonl").write_text(json.dumps({"text": "He met the nurse. She met him."}) + "\n")


def counted(inputs, out):
    return ["count", inputs / "corpus", "--out", out / "counts.parquet", "--jobs", "1"]


def counts(out):
    table = Counts.read(out / "counts.parquet")
    return [list(table.words), table.word_counts.tolist(), table.pair_counts.tolist()]


def interrupted(inputs, out):
    """Leaves the tables of finished files and no result, as a count that is killed at its end."""
    from pmi.counting.local import GENDERED_WORDS, CountingJob, count_parts, rule_of

    folder = out / "counts.parquet.parts"
    folder.mkdir()
    rule = rule_of(str(inputs / "corpus"), GENDERED_WORDS, 10, "clean", "record")
    count_parts([str(inputs / "corpus")], CountingJob(rule, folder), None, 1, None, lambda *_: None)
    (out / "counts.parquet").unlink()


def built(_inputs, out):
    return ["gender-neutral-probes", "--offline", "--out", out]


def tables(out):
    return {path.relative_to(out).as_posix(): path.read_bytes().hex() for path in sorted(out.rglob("*.parquet"))}


COMMANDS = {
    "generate": Command(
        generate.app,
        words,
        generated,
        rows,
        (pipelines.get("unstereo").settings, RunOptions),
        values={"model": "n", "base_url": None},
    ),
    "pmi count, resumed": Command(pmi.__main__.app, corpus, counted, counts, between=interrupted),
    "rebuild": Command(builders.rebuild.app, lambda folder: folder.mkdir(parents=True), built, tables),
}
#: Options that say where and how, and no number depends on; of places the input is changed instead.
PLACES = {
    "data",
    "out",
    "model",
    "words",
    "base_url",
    "replies",
    "also",
    "review",
    "prices",
    "include",
    "beside",
    "help",
}
PLACES |= {option.name for option in parameters(Spending)}


# What is changed


def other_values(command):
    """For each declared option its name and arguments with another value than the default."""
    for kind in command.options:
        for option in parameters(kind):
            if option.name in PLACES:
                continue
            flag = f"--{option.name.replace('_', '-')}"
            value = command.values.get(option.name, _other(option))
            if value is not None:
                yield option.name, [flag] if value is True else [flag, str(value)]


def _other(option):
    """Another value of an option by its type; None where there is none that can be made."""
    types_ = [option.annotation]
    while any(get_origin(kind) is not None and get_origin(kind) is not Literal for kind in types_):
        types_ = [
            inner
            for kind in types_
            for inner in ((kind,) if get_origin(kind) in (None, Literal) else get_args(kind))
            if isinstance(inner, type) or get_origin(inner) or isinstance(inner, types.UnionType)
        ]
    for kind in types_:
        if get_origin(kind) is Literal:
            return next((value for value in get_args(kind) if value != option.default), None)
        if kind is bool:
            return True if not option.default else None
        if kind in (int, float):
            return (option.default or 2) + 1
    return None


def byte_changed(path, draw):
    """Changes a byte of a file, with its size and time as they were; a letter or digit of a text becomes another."""
    content, times = bytearray(path.read_bytes()), path.stat()
    if not content:
        return False
    places = [n for n, byte in enumerate(content) if chr(byte).isalnum() and byte < 128] or range(len(content))
    place = draw.choice(places)
    byte = content[place]
    content[place] = byte + 1 if chr(byte) not in "9zZ" else byte - 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return True


def line_lost(path, draw):
    """Removes a line of a file; False for a file of one line."""
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) < 2:
        return False
    del lines[draw.randrange(len(lines))]
    path.write_bytes(b"".join(lines))
    return True


# What happens


def ran(command, inputs, out, *more):
    """How a command ends in a process of its own, and what is believed afterwards."""
    arguments = [str(part) for part in (*command.arguments(inputs, out), *more)]
    return in_child(lambda: _ran(command, arguments, out))


def _ran(command, arguments, out):
    done = CliRunner().invoke(command.app, arguments)
    said = done.output.strip()
    if done.exception and not isinstance(done.exception, SystemExit):
        return ["traceback", "".join(traceback.format_exception(done.exception))[-600:]]
    if done.exit_code:
        last = said.splitlines()[-1] if said else ""
        usage = done.exit_code == 2 and "Error" in said
        return ["sentence" if "error: " in said or usage else "traceback", last]
    return ["done", command.believed(out)]


def in_child(work):
    """What a function returns, as JSON, in a process that is forked from this one."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            made = work()
        except BaseException:
            made = ["traceback", traceback.format_exc()[-600:]]
        with os.fdopen(write, "w") as file:
            json.dump(made, file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else ["traceback", "The process ended."]


def same(one, other):
    """Whether two outcomes are equal, but for rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return one == other


def end_of(again, fresh):
    """How a change ended: the second command against the same command in a fresh folder."""
    if again[0] != "done":
        return again[0]
    return "fresh" if fresh[0] == "done" and same(again[1], fresh[1]) else "silent"


def measure(name, folder, share=None, number=1):
    """Counts how the changes of a command end, and describes each that must not be.

    ``share`` is how many of the changes of each sort are tried, in a drawn order; all where it is None. ``number`` is
    how often a byte of each file is changed.
    """
    command, draw = COMMANDS[name], random.Random(f"changes between two commands: {name}")
    ends = {change: Counter(dict.fromkeys(ENDS, 0)) for change in CHANGES}
    faults = []
    with ExitStack() as stack:
        Servers.chat = stack.enter_context(openai_server.serving(script)).url
        state, inputs, out = folder / "state", folder / "work" / "in", folder / "work" / "out"
        command.inputs(inputs)
        out.mkdir()
        watch = Watch(inputs)
        first = ran(command, inputs, out)
        read = [path.relative_to(inputs) for path in watch.opened()]
        assert first[0] == "done", first
        in_child(lambda: command.between(inputs, out))
        shutil.copytree(folder / "work", state)
        written = sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())

        def tried(change, what, edit, *more, fresh=None):
            shutil.rmtree(folder / "work")
            shutil.copytree(state, folder / "work")
            if not edit():
                return
            again = ran(command, inputs, out, *more)
            if fresh is None:
                (folder / "work" / "fresh").mkdir()
                fresh = ran(command, inputs, folder / "work" / "fresh", *more) if again[0] == "done" else again
            end = end_of(again, fresh)
            ends[change][end] += 1
            if end in ("silent", "traceback"):
                faults.append(f"{change} {what}: {end} {again[1] if end == 'traceback' else ''}"[:700])

        def some(all_):
            chosen = list(all_)
            return chosen if share is None else draw.sample(chosen, min(share, len(chosen)))

        for path in some(path for path in read for _ in range(number)):
            tried("input", path, lambda path=path: byte_changed(inputs / path, draw), *command.again)
        for option, arguments in some(other_values(command)):
            tried("setting", option, lambda: True, *arguments)
        edits = [(path, edit) for path in written for edit in (*[byte_changed] * number, line_lost)]
        for path, edit in some(edits):
            what = f"{path}, {edit.__name__}"
            tried("file", what, lambda path=path, edit=edit: edit(out / path, draw), fresh=first)
    return ends, faults, [str(path) for path in read]
