"""Counts corpora and reads the counts: ``python -m pmi COMMAND``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import typer
from rich.console import Console

from cards.command import start
from pmi import commands
from pmi.types import PmiError, Submitted

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Count how words keep company with gendered words in a corpus, and read what was counted.",
)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one sentence and an exit status, never a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        errors = Console(stderr=True)
        try:
            command(*args, **options)
        except Submitted as told:
            errors.print(str(told), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(told.exit_code) from None
        except PmiError as error:
            errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            errors.print("Interrupted; what was finished is kept, and the same command goes on from there.")
            raise typer.Exit(130) from None

    return run


for found in iter_modules(commands.__path__):
    app.command(found.name)(guarded(import_module(f"pmi.commands.{found.name}").main))


def main() -> None:
    """Runs the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without Unicode gets a mark
    start(app, "python -m pmi")


if __name__ == "__main__":
    main()
