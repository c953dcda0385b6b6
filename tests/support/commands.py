"""A command in the process of the tests, which has imported already what a process of its own would begin with."""

from __future__ import annotations

import importlib
import io
import runpy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from huggingface_hub import close_session, constants

#: Warnings that a new process does not show.
UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it told; as of a process."""

    returncode: int
    stdout: str
    stderr: str


@contextmanager
def client() -> Iterator[None]:
    """Has the Hub's client of this process read the environment anew, as that of a new process does."""
    before = dict(vars(constants))
    importlib.reload(constants)
    try:
        yield
    finally:
        vars(constants).update(before)
        close_session()


def run(module: str, *arguments: object) -> Done:
    """Does what ``python -m MODULE ARGUMENTS`` does; an exception that would be a traceback is raised."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        client(),
        mock.patch.object(sys, "argv", [module, *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(errors),
        warnings.catch_warnings(),
    ):
        warnings.resetwarnings()
        for category in UNSEEN:
            warnings.simplefilter("ignore", category)
        warnings.filterwarnings("ignore", "'.*' found in sys.modules", RuntimeWarning)  # it is run a second time
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as end:
            status = end.code or 0
    assert isinstance(status, int), status
    return Done(status, *(item.buffer.getvalue().decode() for item in (out, errors)))
