"""Starts a command, and refuses access tokens among its arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import typer

from cards.text import secrets

_REFUSAL = (
    "error: An argument looks like an access token; give tokens in the environment (HF_TOKEN) or by `hf auth login`, "
    "and delete this one from the history of the shell."
)


def start(app: typer.Typer, name: str) -> None:
    """Runs a command by its name, unless an argument is an access token.

    An error message about a wrong argument would print the argument. So a token is refused before any
    argument is parsed, in a sentence without it, with exit status 2.
    """
    if holds_token(sys.argv[1:], os.environ):
        print(_REFUSAL, file=sys.stderr)
        raise SystemExit(2)
    app(prog_name=name)


def holds_token(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether an argument holds a secret of the environment, or a text in the form of an access token.

    >>> holds_token(["--org", "me", "--tokn=hf_" + "a" * 34], {}), holds_token(["hf_models"], {})
    (True, False)
    """
    pattern = secrets(environment)
    return any(map(pattern.search, arguments))
