"""Counts corpora and analyses the counts: ``probes pmi COMMAND``."""

import functools
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from rich.console import Console

from cards.common.options import HelpCommand, ended, group, start
from cards.common.packages import required
from pmi import commands
from pmi.types import PmiError

app = group(help="Co-occurrence (PMI) of words with gendered words: count a corpus, and analyse the counts.")


def one_sentence_errors(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one sentence and an exit status instead of a traceback."""

    @functools.wraps(command)
    def call(*args: Any, **options: Any) -> None:
        name = command.__module__.rpartition(".")[2]
        kept = "finished files are kept, and the same command continues from there"
        with ended(Console(stderr=True), PmiError, interrupted=kept), required(f"probes pmi {name}", "pmi", PmiError):
            command(*args, **options)

    return call


for module in iter_modules(commands.__path__):
    app.command(module.name, cls=HelpCommand)(one_sentence_errors(import_module(f"pmi.commands.{module.name}").main))


if __name__ == "__main__":
    start(app, "python -m pmi")
