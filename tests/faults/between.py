"""Changes between two commands: of what the first one read, and of a setting.

For each command: it runs once while every file that is opened in its folders is watched (inotify, so that libraries in
other languages are seen too). Then, each time from the state after that run, one thing is changed and the same command
runs again:

- input: a byte of a file that was read, with its size and time as they were;
- setting: an option, from the declarations of the command, has another value.

The outcome must be that of the same command in a fresh folder, or one sentence. Anything else is silent. Each run is a
process of its own, forked from this one, so that nothing is remembered between two commands.
"""

import ctypes
import gc
import inspect
import json
import math
import os
import random
import shutil
import struct
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.models import OptionInfo
from typer.testing import CliRunner

from builders.generation.spending import Spending
from cards.common.options import parameters

CHANGES = ("input", "setting")
ENDS = ("fresh", "sentence", "silent", "traceback")
#: By how much numbers of a run that goes on may differ from those of a fresh one.
ROUNDING = 1e-6
_OPENED, _IS_FOLDER = 0x20, 0x40000000  # IN_OPEN, IN_ISDIR


@dataclass(frozen=True)
class Command:
    """A command: its inputs, its arguments, and what its user believes afterwards.

    ``believed`` makes it of the output folder and of what was printed. ``options`` are the classes and parameters that
    declare the options of which another value is tried.
    """

    app: typer.Typer
    inputs: Callable[[Path], None]
    arguments: Callable[[Path, Path], list[Any]]
    believed: Callable[[Path, str], Any]
    options: tuple[Any, ...] = ()
    #: Serves while the command is measured, from the folder of the inputs on.
    server: Callable[[Path], AbstractContextManager[Any]] = nullcontext
    #: Makes the state in which the second command is given, such as that of an interruption.
    between: Callable[[Path, Path], None] = lambda _inputs, _out: None
    #: Added where an input was changed, so that stored answers and not only results are tried.
    again: tuple[str, ...] = ()
    #: How many changes of each sort ``make trust`` tries, of a command that takes long; None for all.
    share: int | None = None
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


# What is changed

#: Options that say where and how, and no number depends on; of places the input is changed instead.
PLACES = {
    "also",
    "as_json",
    "base_url",
    "beside",
    "data",
    "device",
    "dry_run",
    "fail_if",
    "fail_on",
    "help",
    "include",
    "list",
    "model",
    "models_file",
    "out",
    "overwrite",
    "prices",
    "replies",
    "review",
    "space",
    "verbose",
    "words",
}
PLACES |= {option.name for option in parameters(Spending)}


def declared(kind):
    """The options that a dataclass declares, or a function, or that are declared already."""
    if isinstance(kind, list):
        return kind
    if is_dataclass(kind):
        return parameters(kind)
    signature = inspect.signature(kind, eval_str=True)
    infos = {name: getattr(p.annotation, "__metadata__", [None])[0] for name, p in signature.parameters.items()}
    return [signature.parameters[name] for name, info in infos.items() if isinstance(info, OptionInfo)]


def other_values(command):
    """For each declared option its name and arguments with another value than the default."""
    for kind in command.options:
        for option in declared(kind):
            if option.name in PLACES:
                continue
            name = option.name.replace("_", "-")
            value = command.values.get(option.name, _other(option))
            if value is True or value is False:
                yield option.name, [f"--{name}" if value else f"--no-{name}"]
            elif value is not None:
                yield option.name, [f"--{name}", str(value)]


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
            return not option.default
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


# What happens


def ran(command, inputs, out, *more):
    """How a command ends in a process of its own, and what is believed afterwards."""
    return in_child(lambda: _ran(command, inputs, out, *more))


def _ran(command, inputs, out, *more):
    arguments = [str(part) for part in (*command.arguments(inputs, out), *more)]
    done = CliRunner().invoke(command.app, arguments)
    said = done.output.strip()
    if done.exception and not isinstance(done.exception, SystemExit):
        return ["traceback", "".join(traceback.format_exception(done.exception))[-600:]]
    if done.exit_code:
        last = said.splitlines()[-1] if said else ""
        usage = done.exit_code == 2 and "Error" in said
        return ["sentence" if "error: " in said or usage else "traceback", last]
    return ["done", command.believed(out, done.stdout)]


def in_child(work):
    """What a function returns, as JSON, in a process that is forked from this one."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        # Objects of the parent may belong to threads that a fork does not copy, and must not be freed here.
        gc.freeze()
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


def imported(modules):
    """Imports what the first run imported, which is most of the time of a run; nothing else is kept of that run."""
    for name in modules:
        # Some modules are made while a program runs, and have no file.
        with suppress(Exception):
            import_module(name)


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


def measure(command, name, folder, share=None, number=1, sorts=CHANGES):
    """Counts how the changes of a command end, describes each that must not be, and names the inputs that were read.

    ``share`` is how many of the changes of each sort are tried, in a drawn order; all where it is None. ``number`` is
    how often a byte of each file is changed, and ``sorts`` has those of :data:`CHANGES` that are tried.
    """
    draw = random.Random(f"changes between two commands: {name}")
    ends = {change: Counter(dict.fromkeys(ENDS, 0)) for change in CHANGES}
    faults = []
    state, inputs, out = folder / "state", folder / "work" / "in", folder / "work" / "out"
    command.inputs(inputs)
    out.mkdir()
    with command.server(inputs):
        watch = Watch(inputs)
        first, modules = in_child(lambda: [_ran(command, inputs, out), list(sys.modules)])
        assert first[0] == "done", [first, modules]
        imported(modules)
        read = [path.relative_to(inputs) for path in watch.opened()]
        in_child(lambda: command.between(inputs, out))
        shutil.copytree(folder / "work", state)

        def run_changed(change, what, edit, *more):
            shutil.rmtree(folder / "work")
            shutil.copytree(state, folder / "work")
            if not edit():
                return False
            again = ran(command, inputs, out, *more)
            (folder / "work" / "fresh").mkdir()
            fresh = ran(command, inputs, folder / "work" / "fresh", *more) if again[0] == "done" else again
            end = end_of(again, fresh)
            ends[change][end] += 1
            if end in ("silent", "traceback"):
                faults.append(f"{change} {what}: {end} {again[1] if end == 'traceback' else ''}"[:700])
            return True

        def input_changed(path):
            return run_changed("input", path, lambda: byte_changed(inputs / path, draw), *command.again)

        def setting_changed(option, arguments):
            return run_changed("setting", option, lambda: True, *arguments)

        changes = {
            "input": (input_changed, [(path,) for path in read for _ in range(number)]),
            "setting": (setting_changed, list(other_values(command))),
        }
        for sort, (change, cases) in changes.items():
            if share is not None:
                draw.shuffle(cases)
            left = len(cases) if share is None else share
            if sort not in sorts:
                continue
            # A file without a byte cannot be changed, and another case takes its place.
            for case in cases:
                if left:
                    left -= change(*case)
    return ends, faults, [str(path) for path in read]
