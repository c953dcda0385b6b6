"""Lines on the terminal, and how a command ends."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from cards.text import printable, redactor
from scoring.types import ScoringError


def tell(console: Console, lines: Iterable[str]) -> None:
    """Prints lines without markup or wrapping; secrets are hidden."""
    hide = redactor(os.environ)
    for line in lines:
        console.print(printable(hide(line)), markup=False, highlight=False, soft_wrap=True)


def tell_wrapped(console: Console, line: str) -> None:
    """Prints a sentence, broken between words where the terminal ends; secrets are hidden."""
    console.print(Text(str(redactor(os.environ)(line))))


@contextmanager
def ended(errors: Console) -> Iterator[None]:
    """Prints an expected error of the block as one sentence and ends the command with its exit status."""
    try:
        yield
    except ScoringError as error:
        tell(errors, [f"error: {error}"])
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        problem = f"{error.filename or 'A file'} cannot be used ({error.strerror or type(error).__name__})"
        tell(errors, [f"error: {problem}; give a name or a folder that can be read and written."])
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        tell(errors, ["Interrupted; start the same command again to go on."])
        raise typer.Exit(130) from None
