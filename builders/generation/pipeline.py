"""What the pipelines that ask a chat model share: their account of every text, and the checks of a sentence."""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from builders.dataset import DATA
from builders.generation.asking import Asker
from builders.generation.chat import ChatError, Record
from builders.generation.listing import complaint, items
from builders.parsers import read
from builders.text.split import FUNCTION_WORDS, overlap, phrase_key

PROMPTS_FILE = DATA / "prompts.toml"

T = TypeVar("T")


@dataclass
class Account:
    """What became of every text: stage by stage how many came in, and each that was left out with the reason."""

    given: Counter[str] = field(default_factory=Counter)
    dropped: list[dict[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def drop(self, stage: str, reason: str, text: str) -> None:
        """Notes one text that is left out."""
        self.dropped.append({"stage": stage, "reason": reason, "text": text})

    def keep(self, stage: str, found: Iterable[T], fault: Callable[[T], str], show: Callable[[T], str]) -> list[T]:
        """Those without a fault, in order; the others are noted with it.

        >>> account = Account()
        >>> account.keep("length", ["a b c", "a"], lambda t: "has three words" if len(t) > 3 else "", str)
        ['a']
        >>> account.stages()
        {'length': {'given': 2, 'kept': 1, 'dropped': {'has three words': 1}}}
        """
        kept = []
        self.given[stage] += 0  # a stage that nothing reached is told too
        for each in found:
            self.given[stage] += 1
            if reason := fault(each):
                self.drop(stage, reason, show(each))
            else:
                kept.append(each)
        return kept

    def stages(self) -> dict[str, dict[str, Any]]:
        """Texts given, kept and dropped by reason, for each stage in its order."""
        reasons: dict[str, Counter[str]] = {stage: Counter() for stage in self.given}
        for each in self.dropped:
            reasons[each["stage"]][each["reason"]] += 1
        return {
            stage: {"given": n, "kept": n - reasons[stage].total(), "dropped": dict(sorted(reasons[stage].items()))}
            for stage, n in self.given.items()
        }


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A way to make rows with a chat model.

    Parameters
    ----------
    summary:
        One line for the command's help.
    settings:
        A frozen dataclass; each field is annotated as an option of the command.
    run:
        Makes the rows from the settings, the model's name, something to ask and an account. Every row
        has an ``id``.
    shown:
        Columns that a person needs to judge a row; none when rows are not reviewed.
    """

    summary: str
    settings: type[Any]
    run: Callable[[Any, str, Asker, Account], list[dict[str, Any]]]
    shown: tuple[str, ...] = ()


@dataclass
class Distinct:
    """Sees each text once: what overlaps with one that was seen is a duplicate.

    Parameters
    ----------
    limit:
        The :func:`builders.text.split.overlap` at which two texts are duplicates.
    seen:
        Texts that must not be repeated.

    >>> distinct = Distinct(0.5, ["My friend likes blue"])
    >>> distinct.fault("My friend likes the blue"), distinct.fault("My friend waits")
    ('overlaps with another', '')
    """

    limit: float
    seen: InitVar[Iterable[str]] = ()
    _by_word: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list), init=False)

    def __post_init__(self, seen: Iterable[str]) -> None:
        for text in seen:
            self._add(text)

    def fault(self, text: str) -> str:
        """Why the text does not count; empty, and seen from now on, when it does."""
        # Only texts that share a content word can overlap, so the others are not compared.
        near = dict.fromkeys(other for word in _content(text) for other in self._by_word[word])
        if any(overlap(text, other) >= self.limit for other in near):
            return "overlaps with another"
        self._add(text)
        return ""

    def _add(self, text: str) -> None:
        for word in _content(text):
            self._by_word[word].append(text)


def _content(text: str) -> set[str]:
    return set(phrase_key(text).split()) - FUNCTION_WORDS or {""}


@cache
def prompts() -> dict[str, Any]:
    """The prompts of the pipelines, by pipeline."""
    return tomllib.loads(PROMPTS_FILE.read_text(encoding="utf-8"))


_FIELD = re.compile(r"\{(\w+)\}")


def worded(prompt: str, /, **values: object) -> str:
    """A prompt with its fields filled, in one pass: braces in what is filled in stay as they are.

    >>> worded("{count} of '{text}'", count=5, text="{count}")
    "5 of '{count}'"
    """
    return _FIELD.sub(lambda found: str(values[found[1]]), prompt)


def listed(stage: str, replies: Sequence[Record], wanted: int, account: Account) -> list[list[str]]:
    """The entries of the list in each reply; replies that are empty, refuse, were cut or fall short are remarked."""
    found = [items(reply.reply, reply.cut) for reply in replies]
    amiss = Counter(complaint(reply, len(each), wanted) for reply, each in zip(replies, found, strict=True))
    account.remarks += [f"{stage}: {amiss[what]} of {len(replies)} replies {what}" for what in sorted(amiss) if what]
    return found


_PLAIN = re.compile(r"[\w .,;:!?'\"“”‘’()\[\]&%$€£+/…–—-]*")


def no_sentence(text: str) -> str:
    """Why a text cannot be one sentence of a data set; empty when it can.

    Only characters of prose may stand in it, and it begins like a sentence: markup, code and what a
    spreadsheet would take for a formula is no prose.

    >>> no_sentence("__import__('os')"), no_sentence("-1+1"), no_sentence("He left.")
    ('has characters that are not prose', 'does not begin like a sentence', '')
    """
    if "_" in text or not _PLAIN.fullmatch(text):
        return "has characters that are not prose"
    if not re.match(r"[\"'“‘(]*\[?\w", text):
        return "does not begin like a sentence"
    return "is too long for a sentence" if len(text) > 400 else ""


def count_words(text: str) -> int:
    """Words of a text, cut at white space; punctuation that stands alone is none.

    >>> count_words("He left - at last.")
    4
    """
    return sum(any(map(str.isalnum, word)) for word in text.split())


def records(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a Parquet file or of JSON lines that have at least these columns.

    Raises
    ------
    ChatError
        When the file cannot be read, or a row lacks a column.
    """
    try:
        is_parquet = path.suffix == ".parquet"
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist() if is_parquet else list(read.json_lines(path))
    except (OSError, pa.ArrowException) as error:
        raise ChatError(f"{path} cannot be read as Parquet or JSON lines ({error}).") from None
    for number, row in enumerate(rows):
        lacking = [name for name in columns if not (isinstance(row, Mapping) and row.get(name) is not None)]
        if lacking:
            raise ChatError(f"{path.name} row {number} has no {lacking[0]}; expected rows with {', '.join(columns)}.")
    return rows
