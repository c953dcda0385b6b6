"""Lists in the replies of chat models, read by rule: numbered, with bullets, as JSON, or a line each.

What cannot be read is left out and said; nothing is ever evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from builders.generation.chat import Record
from builders.text.words import plain

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_NUMBERED = re.compile(r"^[\s#>]*(?:\*\*|__)?[(\[]?(\d{1,3})(?:\s?[.):\]]|(?=\s[-–—]))+(?:\*\*|__)?\s*[-–—]?\s*(.*)$")
_BULLET = re.compile(r"^\s*[-*+•‣◦▪·–—]\s+(.*)$")
_BEGINS_JSON = re.compile(r'\[\s*["{\[]|\{\s*"')
_STRING = re.compile(r'"([^"\\]*)"\s*(?=[,\]}]|$)')
_EMPHASIS = re.compile(r"^(\*{1,3}|_{1,3})(?=\S)(.*\S)\1$")
_QUOTED = re.compile(r"^(?:\"([^\"]*)\"|'([^']*(?:\w'\w[^']*)*)'|“([^”]*)”|‘([^’]*(?:\w’\w[^’]*)*)’|«([^»]*)»)[,;]?$")
_REFUSAL = re.compile(
    r"\W*(?:i(?: a|['’]?)m (?:\w+ )?(?:sorry|afraid|unable|not able)\b|(?:sorry|unfortunately),? (?:but|i|as)\b"
    r"|i (?:cannot|can['’]?t|can not|won['’]?t|must decline)\b|as an? (?:ai|(?:large )?language model)\b"
    r"|i apologi[sz]e\b)",
    re.IGNORECASE,
)


def items(reply: str, cut: bool = False) -> list[str]:
    r"""The entries of a list in a reply, each on one line, without number, bullet, emphasis and quotes.

    Where lines are numbered, only those count; else where they have bullets, only those; else every
    line does. Of a reply that was ``cut`` the last entry is left out.

    >>> items("Sure!\n1. **He sings.**\n2) “He waits.”\n\nHope this helps!")
    ['He sings.', 'He waits.']
    >>> items('```json\n["He sings.", "He waits."]\n```')
    ['He sings.', 'He waits.']
    >>> items("I'm sorry, but I cannot do that.")
    []
    """
    text = _FENCE.sub("", _THOUGHTS.sub("", reply)).strip()
    found = _json(text)
    if found is None:
        lines = [] if refuses(text) else _lines(text)
        found = lines[:-1] if cut else lines
    return [entry for entry in map(bare, found) if entry]


def refuses(reply: str) -> bool:
    r"""Whether a reply begins as one that declines, and has no list.

    >>> refuses("I can't help with that."), refuses("Sorry for the wait!\n1. He sings.")
    (True, False)
    """
    return bool(_REFUSAL.match(reply)) and not any(map(_NUMBERED.match, reply.splitlines()))


def complaint(made: Record, found: int, wanted: int) -> str:
    """What is to be said of a reply in which so many of the wanted entries were found; empty when nothing is."""
    if not made.reply.strip():
        return "were empty"
    if refuses(made.reply):
        return "refused"
    if made.cut:
        return "were cut"
    return "had fewer entries than asked for" if found < wanted else ""


def single(made: Record) -> str:
    """The one sentence that a reply consists of; empty when it is cut, refuses or has several lines."""
    found = items(made.reply, made.cut)
    return found[0] if len(found) == 1 else ""


def bare(entry: str) -> str:
    """An entry without emphasis and quotes around it, with single spaces.

    >>> bare(' **"He sings."** '), bare("'He's here.'"), bare('"Hi," he said. "Bye."')
    ('He sings.', "He's here.", '"Hi," he said. "Bye."')
    """
    entry = plain(entry)
    while True:
        found = _EMPHASIS.match(entry) or _QUOTED.match(entry)
        if not found:
            return entry
        entry = next(part for part in reversed(found.groups()) if part is not None).strip()


def _json(text: str) -> list[str] | None:
    """Strings of a JSON value; of one that is broken or cut, those that are whole; None when it is no JSON."""
    if not _BEGINS_JSON.match(text):
        return None
    try:
        return list(_strings(json.loads(text)))
    except (ValueError, RecursionError):
        return _STRING.findall(text)


def _strings(value: Any) -> Iterator[str]:
    """Entries of a JSON value; the texts of an object that is an entry are joined by bars."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        texts = [each for each in value.values() if isinstance(each, str)]
        if texts and len(texts) == len(value) and not all(name.isdecimal() for name in value):
            yield " | ".join(texts)
        else:
            yield from _strings(list(value.values()))


def _lines(text: str) -> list[str]:
    lines = [line for line in _one_a_line(text) if line.strip()]
    numbered = list(_marked(lines))
    if numbered:
        return numbered
    bullets = [found[1] for line in lines if (found := _BULLET.match(line))]
    return bullets or lines


def _marked(lines: list[str]) -> Iterator[str]:
    """Texts of numbered lines; a number that stands alone belongs to the line after it."""
    alone = False
    for line in lines:
        found = _NUMBERED.match(line)
        if found and found[2]:
            yield found[2]
        elif alone and not found:
            yield line
        alone = found is not None and not found[2]


def _one_a_line(text: str) -> Iterator[str]:
    """Lines, where a line that goes on with the next number is two: "1. He sings. 2. He waits."."""
    for line in text.splitlines():
        found = _NUMBERED.match(line)
        while found and (cut := re.search(rf"(?<=[.!?…\"'”’*])\s+(?=[(\[]?{int(found[1]) + 1}[.)\]]+\s)", line)):
            yield line[: cut.start()]
            line = line[cut.end() :]
            found = _NUMBERED.match(line)
        yield line
