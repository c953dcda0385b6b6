"""Text from data stays text in what is written: cells of Markdown, file names, and no access tokens."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import jinja2

from cards.dataset_card import CardError

_MARKUP = str.maketrans({character: "\\" + character for character in "\\`*_[]<>|&~$@#!"})
_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_)[A-Za-z0-9_-]{20,}")


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
    """A template of a document, with the filters ``cell`` and ``yaml`` for Markdown and its metadata."""
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
    return environment.get_template(name)


def refuse_secrets(files: Mapping[str, bytes]) -> None:
    """Refuses files that hold a secret of the environment or an access token.

    Raises
    ------
    CardError
        With the name of the file, and not the secret.
    """
    values = [re.escape(v) for name, v in os.environ.items() if _SECRET_NAME.search(name) and len(v) >= 8]
    pattern = re.compile("|".join([*values, _SECRET_SHAPE.pattern]))
    for path, content in files.items():
        if pattern.search(content.decode("utf-8", "replace")):
            raise CardError(f"{path} would hold an access token; take it out of the run or the folder first.")
