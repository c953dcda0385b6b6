"""Lists in responses of chat models: numbered, with bullets, as JSON, or one entry a line.

Text that cannot be parsed is left out; nothing is executed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from builders.generation.responses import ChatResponse
from builders.text.words import plain

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
# A number of up to three digits, also in brackets or bold, before one of .):] or a spaced dash; its text may be empty.
_NUMBERED = re.compile(r"^[\s#>]*(?:\*\*|__)?[(\[]?(\d{1,3})(?:\s?[.):\]]|(?=\s[-–—]))+(?:\*\*|__)?\s*[-–—]?\s*(.*)$")
_BULLET = re.compile(r"^\s*[-*+•‣◦▪·–—]\s+(.*)$")
_BEGINS_JSON = re.compile(r'\[\s*["{\[]|\{\s*"')
# A string in JSON that was cut off: it is whole where a comma, a bracket or the end follows.
_STRING = re.compile(r'"([^"\\]*)"\s*(?=[,\]}]|$)')
_EMPHASIS = re.compile(r"^(\*{1,3}|_{1,3})(?=\S)(.*\S)\1$")
# A single quote inside a word is an apostrophe and does not end the quotation.
_QUOTED = re.compile(r"^(?:\"([^\"]*)\"|'([^']*(?:\w'\w[^']*)*)'|“([^”]*)”|‘([^’]*(?:\w’\w[^’]*)*)’|«([^»]*)»)[,;]?$")
_REFUSAL = re.compile(
    r"\W*(?:i(?: a|['’]?)m (?:\w+ )?(?:sorry|afraid|unable|not able)\b|(?:sorry|unfortunately),? (?:but|i|as)\b"
    r"|i (?:cannot|can['’]?t|can not|won['’]?t|must decline)\b|as an? (?:ai|(?:large )?language model)\b"
    r"|i apologi[sz]e\b)",
    re.IGNORECASE,
)


def list_entries(text: str, is_truncated: bool = False) -> list[str]:
    r"""The entries of a list in a response, each on one line, without number, bullet, emphasis and quotes.

    If lines are numbered, only those count; else if lines have bullets, only those; else all lines. The last
    entry of a truncated response is left out.

    >>> list_entries("Sure!\n1. **He sings.**\n2) “He waits.”\n\nHope this helps!")
    ['He sings.', 'He waits.']
    >>> list_entries('```json\n["He sings.", "He waits."]\n```')
    ['He sings.', 'He waits.']
    >>> list_entries("I'm sorry, but I cannot do that.")
    []
    """
    text = _FENCE.sub("", _THOUGHTS.sub("", text)).strip()
    # JSON is tried first: its strings may hold text that looks like numbers or bullets.
    entries = _json(text)
    if entries is None:
        entries = [] if is_refusal(text) else _lines(text)
        entries = entries[:-1] if is_truncated else entries
    return [entry for entry in map(without_markup, entries) if entry]


def is_refusal(text: str) -> bool:
    r"""Whether a response begins like a refusal and has no list.

    >>> is_refusal("I can't help with that."), is_refusal("Sorry for the wait!\n1. He sings.")
    (True, False)
    """
    return bool(_REFUSAL.match(text)) and not any(map(_NUMBERED.match, text.splitlines()))


def response_problem(response: ChatResponse, entries: int, requested: int) -> str:
    """What is wrong with a response in which ``entries`` of ``requested`` entries were found, or an empty text."""
    if not response.text.strip():
        return "were empty"
    if is_refusal(response.text):
        return "refused"
    if response.is_truncated:
        return "were cut"
    return "had fewer entries than requested" if entries < requested else ""


def single_sentence(response: ChatResponse) -> str:
    """The one sentence of a response, or an empty text when it is truncated, refuses or has several lines."""
    entries = list_entries(response.text, response.is_truncated)
    return entries[0] if len(entries) == 1 else ""


def without_markup(entry: str) -> str:
    """An entry without emphasis and quotes around it, with single spaces.

    >>> without_markup(' **"He sings."** '), without_markup("'He's here.'"), without_markup('"Hi," he said. "Bye."')
    ('He sings.', "He's here.", '"Hi," he said. "Bye."')
    """
    entry = plain(entry)
    while match := _EMPHASIS.match(entry) or _QUOTED.match(entry):
        # The last group that matched is the text inside the marks.
        entry = next(group for group in reversed(match.groups()) if group is not None).strip()
    return entry


def _json(text: str) -> list[str] | None:
    """The strings of a JSON value, or None for other text; of an incomplete value, the complete strings."""
    if not _BEGINS_JSON.match(text):
        return None
    try:
        return list(_strings(json.loads(text)))
    except (ValueError, RecursionError):
        # An incomplete value is no JSON, but its complete strings are entries all the same.
        return _STRING.findall(text)


def _strings(value: Any) -> Iterator[str]:
    """The entries of a JSON value; the strings of an object that is one entry are joined by bars."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from _strings(element)
    elif isinstance(value, dict):
        texts = [member for member in value.values() if isinstance(member, str)]
        # An object such as {"1": "He sings."} is a list with numbers for names, not one entry.
        if texts and len(texts) == len(value) and not all(name.isdecimal() for name in value):
            yield " | ".join(texts)
        else:
            yield from _strings(list(value.values()))


def _lines(text: str) -> list[str]:
    # Numbered lines are the surest sign of an entry, then bullets; other lines may be remarks.
    lines = [line for line in _one_entry_a_line(text) if line.strip()]
    # Bullets count only where no line has a number, as a numbered list may have bullets inside.
    bullets = [match[1] for line in lines if (match := _BULLET.match(line))]
    return list(_numbered_texts(lines)) or bullets or lines


def _numbered_texts(lines: list[str]) -> Iterator[str]:
    """The texts of numbered lines; if a line has only its number, the text is the line after it."""
    only_number = False
    for line in lines:
        match = _NUMBERED.match(line)
        if match and match[2]:
            yield match[2]
        elif only_number and not match:
            yield line
        only_number = match is not None and not match[2]


def _one_entry_a_line(text: str) -> Iterator[str]:
    """The lines; a line that contains the next number, as "1. He sings. 2. He waits.", becomes two."""
    for line in text.splitlines():
        match = _NUMBERED.match(line)
        while match and (gap := re.search(rf"(?<=[.!?…\"'”’*])\s+(?=[(\[]?{int(match[1]) + 1}[.)\]]+\s)", line)):
            yield line[: gap.start()]
            line = line[gap.end() :]
            match = _NUMBERED.match(line)
        yield line
