"""Lines on the terminal."""

import os
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from cards.text import printable, redactor


def show(console: Console, lines: Iterable[str]) -> None:
    """Prints lines without markup or wrapping; secrets are hidden."""
    hide = redactor(os.environ)
    for line in lines:
        console.print(printable(hide(line)), markup=False, highlight=False, soft_wrap=True)


def show_wrapped(console: Console, line: str) -> None:
    """Prints a sentence, broken between words where the terminal ends; secrets are hidden."""
    console.print(Text(str(redactor(os.environ)(line))))
