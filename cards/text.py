"""Text from data stays text in what is written: cells of Markdown, file names, and no access tokens."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import jinja2

_MARKUP = str.maketrans({character: "\\" + character for character in "\\`*_[]<>|&~$@#!"})
_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_)[A-Za-z0-9_-]{20,}")


class CardError(ValueError):
    """A document lacks a fact that it must state, or holds what it must not."""


def cell(value: object) -> str:
    r"""Text that stays on its line or in its cell of Markdown and is not taken for markup.

    >>> print(cell("a|b\n<script>"))
    a\|b \<script\>
    """
    line = " ".join(str(value).split())
    return "".join(each if each.isprintable() else "\ufffd" for each in line).translate(_MARKUP)


def slug(text: str) -> str:
    """A text as a part of a file name on every system; one that had to change gets a mark that tells it from others.

    >>> slug("biaske"), slug("../x")
    ('biaske', 'x-d6b96a97')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:60]
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return safe if safe == text else f"{safe}-{mark}".lstrip("-")


def template(name: str, *, html: bool = False) -> jinja2.Template:
    """A template of a document, with filters: ``cell`` and ``pretty`` for Markdown, ``yaml`` for its metadata."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = cell
    environment.filters["yaml"] = lambda value: json.dumps(value, ensure_ascii=False)  # JSON is YAML
    environment.filters["pretty"] = _pretty
    return environment.get_template(name)


def _pretty(value: object) -> str:
    """JSON to read, for a block of code, which no text in it can end."""
    return json.dumps(value, ensure_ascii=False, indent=2).replace("`", "\\u0060")


def secrets(environment: Mapping[str, str]) -> re.Pattern[str]:
    """What finds the secrets of an environment in a text, and whatever has the shape of an access token.

    >>> secrets({"HF_TOKEN": "not-for-all", "HOME": "/home/me"}).sub("…", "not-for-all in /home/me")
    '… in /home/me'
    """
    values = {value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= 8}
    known = sorted(map(re.escape, values), key=len, reverse=True)
    return re.compile("|".join([*known, _SECRET_SHAPE.pattern]))


def refuse_secrets(files: Mapping[str, bytes]) -> None:
    """Refuses files that hold a secret of the environment or an access token.

    Raises
    ------
    CardError
        With the name of the file, and not the secret.
    """
    pattern = secrets(os.environ)
    for path, content in files.items():
        if pattern.search(content.decode("utf-8", "replace")):
            raise CardError(f"{path} would hold an access token; take it out of the run or the folder first.")
