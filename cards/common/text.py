"""Text in documents: escaping for Markdown, file names, templates, and the check for access tokens."""

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from cards.common.numbers import minus
from cards.common.sentences import say

#: A spreadsheet program runs a cell that begins with one of these as a formula, also after a tab or a line end.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
T = TypeVar("T")
K = TypeVar("K")

_ESCAPES = str.maketrans({character: "\\" + character for character in "\\`*_[]<>|&~$@#!"})
_SECRET_NAME = re.compile(
    r"(TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|API_?KEYS?|CREDENTIALS?|CONNECTION_STRING|_(KEY|PAT|PASS|PWD|AUTH|SAS))$",
    re.IGNORECASE,
)
#: Forms of access tokens: the documented prefixes of providers, private keys, and secrets inside an address.
_SECRET_SHAPE = "|".join(
    (
        # Random characters without a separator, which names of several words do not have.
        r"\b(?:hf|api_org|gh[oprsu]|github_pat|gsk|r8|npm|[sr]k_live|whsec)_[A-Za-z0-9]{16,}[\w-]*",
        r"\b(?:sk|xai|nvapi|pplx|pypi|gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas))-[\w-]*?[A-Za-z0-9]{16,}[\w-]*",
        r"\bxox[abeoprs]-\d[\w-]{19,}",
        r"\b(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bSG\.[\w-]{22}\.[\w-]{43}|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+",
        r"AccountKey=[A-Za-z0-9+/=]{40,}|-----BEGIN [A-Z ]*PRIVATE KEY-----",
        r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
        r"(?i:(?<=[?&])(?:access_|auth_|api_?)?(?:token|key|sig|signature|password|secret)=[^\s&#]{4,})",
    )
)


class CardError(ValueError):
    """A document lacks a required fact, or would contain something that is not allowed."""


def cell(value: object) -> str:
    r"""Text for one line or one table cell of Markdown, with all markup escaped.

    >>> print(cell("a|b\n<script>"))
    a\|b \<script\>
    """
    # A line break would end the row of a table.
    line = " ".join(str(value).split())
    return "".join(character if character.isprintable() else "\ufffd" for character in line).translate(_ESCAPES)


def printable(text: str) -> str:
    r"""A text for a terminal, in which control characters of foreign names are shown as escapes.

    >>> print(printable("\x1b[31mred\nline"))
    \x1b[31mred
    line
    """
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def split_list(text: str) -> list[str]:
    """The names in a text with commas or spaces between them.

    >>> split_list("a, b,"), split_list("a b")
    (['a', 'b'], ['a', 'b'])
    """
    return text.replace(",", " ").split()


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items under their keys, both in order of appearance.

    >>> grouped(["on", "a", "to"], len)
    {2: ['on', 'to'], 1: ['a']}
    """
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """A question with the nearest name, to be put at the end of a sentence; empty where none is near.

    >>> did_you_mean("ocugender", ["neutral", "occugender"]), did_you_mean("x", ["neutral"])
    (" (did you mean 'occugender'?)", '')
    """
    near = difflib.get_close_matches(str(given), list(names), n=1)
    if not near:
        return ""
    return f" (did you mean {near[0]!r}?)"


def slug(text: str) -> str:
    """A text as part of a file name that is valid on every system; a changed text gets a hash, so names stay unique.

    >>> slug("biaske"), slug("../x")
    ('biaske', 'x-d6b96a97')
    """
    # No dot or hyphen at the ends: "..", hidden files and options are written with them.
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:60]
    if safe == text:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{safe}-{digest}".lstrip("-")


def templates(*folders: Path, html: bool = False) -> jinja2.Environment:
    """The Jinja environment for the templates of folders, of which the first counts; values are escaped in HTML.

    An undefined name is an error. Filters: ``cell`` and ``pretty`` for Markdown, ``yaml`` for its metadata,
    ``minus`` for numbers.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = cell
    environment.filters["minus"] = minus
    environment.filters["yaml"] = lambda value: json.dumps(value, ensure_ascii=False)  # JSON is YAML
    environment.filters["pretty"] = _pretty
    environment.globals["say"] = say
    return environment


def _pretty(value: Any) -> str:
    """Indented JSON for a code block, without backticks, which could end the block."""
    return json.dumps(value, ensure_ascii=False, indent=2).replace("`", "\\u0060")


def template(name: str, *, html: bool = False) -> jinja2.Template:
    """A template of this package."""
    return templates(Path(__file__).parents[1] / "templates", html=html).get_template(name)


def as_text(values: Any) -> Any:
    """A text, or an array with texts, that a spreadsheet program does not run as a formula.

    >>> as_text("=1+1"), as_text("nurse")
    ("'=1+1", 'nurse')
    """
    if isinstance(values, str):
        if values.startswith(_FORMULA):
            return f"'{values}"
        return values
    # Columns of texts have the type of objects; a column of numbers holds no formula.
    if getattr(getattr(values, "dtype", None), "kind", "") == "O":
        return [as_text(value) for value in values.tolist()]
    return values


def secrets(environment: Mapping[str, str]) -> re.Pattern[str]:
    """A pattern that finds the secrets of an environment, and any text in the form of an access token.

    >>> secrets({"HF_TOKEN": "not-for-all", "HOME": "/home/me"}).sub("…", "not-for-all in /home/me")
    '… in /home/me'
    """
    # A short value, such as "1", would hide text that is no secret.
    values = {value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= 8}
    # The longest first: of two secrets one may be the beginning of the other.
    patterns = sorted((re.escape(value) for value in values), key=len, reverse=True)
    return re.compile("|".join([*patterns, _SECRET_SHAPE]))


def refuse_secrets(files: Mapping[str, bytes]) -> None:
    """Refuses files that hold a secret of the environment or an access token.

    Raises
    ------
    CardError
        When a file has one; the message names the file and not the secret.
    """
    pattern = secrets(os.environ)
    for path, content in files.items():
        # Replaced and not refused, because a file may hold bytes of an image.
        if pattern.search(content.decode("utf-8", "replace")):
            raise CardError(f"{path} would hold an access token; remove it from the run or the folder first.")


def redactor(environment: Mapping[str, str]) -> Callable[[Any], Any]:
    """A function that hides the environment's secrets in text, and makes text encodable; else the identity."""
    pattern = secrets(environment)

    def hide(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        # A lone surrogate can be received but not written.
        return pattern.sub("[redacted]", value.encode("utf-8", "replace").decode())

    return hide


def without_home(text: str) -> str:
    """A text in which the home directory is ``~``, so that a file that is passed on does not name its user.

    >>> without_home(f"{Path.home()}/models/mine, /data{Path.home()}/x") == f"~/models/mine, /data{Path.home()}/x"
    True
    """
    return _shorten_home()(text)


def _shorten_home() -> Callable[[str], str]:
    """The function for one home directory, which is looked up once for many texts."""
    home = str(Path.home())
    if len(home) < 2:  # a machine without a home directory has "/"
        return lambda text: text
    # Not inside a longer path: /data/home/me is not /home/me.
    pattern = re.compile(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])")
    # Most texts have no such path, and a search for the bare words is faster than for the pattern.
    return lambda text: pattern.sub("~", text) if home in text else text


def for_files(environment: Mapping[str, str]) -> Callable[[Any], Any]:
    """A function that prepares text for a file: as :func:`redactor`, and without the home directory."""
    hide = redactor(environment)
    shorten = _shorten_home()

    def prepare(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return shorten(hide(value))

    return prepare


def nested(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value of JSON in which a function has changed each text, also the keys.

    >>> nested({"a": ["b", 1]}, lambda text: text.upper() if isinstance(text, str) else text)
    {'A': ['B', 1]}
    """
    if isinstance(value, Mapping):
        return {change(name): nested(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [nested(inner, change) for inner in value]
    return change(value)
