"""What commands print: lines, sentences and tables, without markup, and tables of text without lines."""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cards.common.text import printable, redactor


def terminal(width: int = 120, *, quiet: bool = False) -> Console:
    """The terminal; where the output goes elsewhere, it has ``width`` columns."""
    console = Console(quiet=quiet)
    if console.is_terminal:
        return console
    # A file or a pipe has no width of its own, and rich would take 80 columns.
    return Console(width=width, quiet=quiet)


def show(console: Console, lines: Iterable[str]) -> None:
    """Prints lines without markup or wrapping; secrets and control characters are hidden."""
    hide = redactor(os.environ)
    for line in lines:
        console.print(printable(hide(line)), markup=False, highlight=False, soft_wrap=True)


def show_wrapped(console: Console, line: str) -> None:
    """Prints a sentence, broken between words where the terminal ends; secrets are hidden."""
    console.print(Text(str(redactor(os.environ)(line))))


def text_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", *,
    numbers: Collection[str] = (), whole: Collection[str] = (), gap: int = 2,
) -> Table:  # fmt: skip
    """A table of texts for the terminal, without markup; long texts are folded.

    Parameters
    ----------
    numbers, whole:
        The names of the columns that end at the right, and of those that are not broken unless the terminal is too
        narrow for them.
    gap:
        The spaces between two columns.
    """
    heading = Text(title, "bold") if title else None
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for name in columns:
        side: Literal["left", "right"] = "right" if name in numbers else "left"
        table.add_column(Text(name), justify=side, overflow="fold", no_wrap=name in whole)
    for row in rows:
        # As Text, because brackets of foreign names would be markup.
        cells = [Text(printable(cell)) for cell in row]
        table.add_row(*cells)
    return table
