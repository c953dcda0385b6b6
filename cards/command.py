"""How a command is started: an access token that was typed into it goes no further."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

import typer

from cards.text import secrets

#: What stands between a token and what it was typed with: ``--token=…``, ``https://user:…@host``.
_BETWEEN = re.compile("[=:@]")
_REFUSAL = (
    "error: An argument looks like an access token; give tokens in the environment (HF_TOKEN) or by `hf auth login`, "
    "and take this one out of the history of the shell."
)


def start(app: typer.Typer, name: str) -> None:
    """Runs a command by its name, unless an argument is an access token.

    A wrong argument is told of, and told whole, by whoever finds it wrong; so a token is refused before
    anybody reads it, in a sentence without it, with exit status 2.
    """
    if holds_token(sys.argv[1:], os.environ):
        print(_REFUSAL, file=sys.stderr)
        raise SystemExit(2)
    app(prog_name=name)


def holds_token(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether an argument, or a part of one, is a secret of the environment or has the shape of an access token.

    >>> holds_token(["--org", "me", "--tokn=hf_" + "a" * 34], {}), holds_token(["hf_models"], {})
    (True, False)
    """
    pattern = secrets(environment)
    return any(pattern.fullmatch(part) for each in arguments for part in (each, *_BETWEEN.split(each)))
