"""What all pipelines share: their type, the log of filtered texts, prompts, and checks of sentences."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from builders.generation.clients import ChatClient, ChatRequest
from builders.generation.lists import list_entries, response_problem
from builders.generation.responses import ChatError, ChatResponse, request_body
from builders.parsers import read
from builders.sources.fetch import Fetcher
from builders.text.split import FUNCTION_WORDS, overlap, phrase_key
from builders.text.words import normalise

T = TypeVar("T")
#: The rules of a pipeline: this project's, or those of the published code.
Rules = Literal["clean", "paper"]


@dataclass
class FilterLog:
    """The number of texts that entered each stage, and each text that a stage dropped, with the reason."""

    given: Counter[str] = field(default_factory=Counter)
    dropped: list[dict[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def filter(self, stage: str, items: Iterable[T], fault: Callable[[T], str], text: Callable[[T], str]) -> list[T]:
        """The items without a fault, in order; the text of the others is logged with the fault.

        >>> log = FilterLog()
        >>> log.filter("length", ["a b c", "a"], lambda t: "has three words" if len(t) > 3 else "", str)
        ['a']
        >>> log.stages()
        {'length': {'given': 2, 'kept': 1, 'dropped': {'has three words': 1}}}
        """
        accepted = []
        self.given[stage] += 0  # so that a stage that no item reached is listed too
        for item in items:
            # Counted here, because the items may come from an iterator that is read once.
            self.given[stage] += 1
            if reason := fault(item):
                self.dropped.append({"stage": stage, "reason": reason, "text": text(item)})
            else:
                accepted.append(item)
        return accepted

    def stages(self) -> dict[str, dict[str, Any]]:
        """Number of texts given, kept, and dropped by reason, for each stage in its order."""
        # Also stages that dropped nothing are listed.
        reasons: dict[str, Counter[str]] = {stage: Counter() for stage in self.given}
        for entry in self.dropped:
            reasons[entry["stage"]][entry["reason"]] += 1
        stages = {}
        for stage, entered in self.given.items():
            dropped = reasons[stage]
            kept = entered - dropped.total()
            stages[stage] = {"given": entered, "kept": kept, "dropped": dict(sorted(dropped.items()))}
        return stages


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: it makes rows with a chat model.

    Parameters
    ----------
    summary:
        One line for the command's help.
    settings:
        A frozen dataclass; each field is annotated as an option of the command.
    generate:
        Makes the rows from the settings, the model's name, a client and a log. Every row has an ``id``.
    review_columns:
        Columns that a reviewer sees; empty if rows are not reviewed.
    replays:
        What ``--replay`` repeats, by name. Each takes the values of the options, what gets the sources,
        and where to print; of the options only those of :data:`REPLAY_OPTIONS` are used.
    """

    summary: str
    settings: type[Any]
    generate: Callable[[Any, str, ChatClient, FilterLog], list[dict[str, Any]]]
    review_columns: tuple[str, ...] = ()
    replays: Mapping[str, Callable[[Mapping[str, Any], Fetcher, Console], None]] = field(default_factory=dict)


#: The options that may be given with ``--replay``; the record has the others.
REPLAY_OPTIONS = frozenset(["replay", "out", "profile", "limit", "offline"])


class DuplicateFilter:
    """Finds texts that overlap with an earlier one.

    Parameters
    ----------
    limit:
        The :func:`builders.text.split.overlap` at which two texts are duplicates.
    earlier:
        Texts that must not be repeated.

    >>> duplicates = DuplicateFilter(0.5, ["My friend likes blue"])
    >>> duplicates.fault("My friend likes the blue"), duplicates.fault("My friend waits")
    ('overlaps with another', '')
    """

    def __init__(self, limit: float, earlier: Iterable[str] = ()) -> None:
        self.limit = limit
        self._by_word: defaultdict[str, list[str]] = defaultdict(list)
        for text in earlier:
            self._add(text)

    def fault(self, text: str) -> str:
        """Why the text is a duplicate, or an empty text; then later texts must not overlap with it."""
        # Only texts that share a content word can overlap, so the others are not compared.
        candidates: dict[str, None] = {}
        for word in _content_words(text):
            candidates.update(dict.fromkeys(self._by_word[word]))
        if any(overlap(text, candidate) >= self.limit for candidate in candidates):
            return "overlaps with another"
        self._add(text)
        return ""

    def _add(self, text: str) -> None:
        for word in _content_words(text):
            self._by_word[word].append(text)


def _content_words(text: str) -> set[str]:
    words = set(phrase_key(text).split()) - FUNCTION_WORDS
    # Texts without a content word share the empty word, so that they are compared with one another.
    return words or {""}


_FIELD = re.compile(r"\{(\w+)\}")


def fill_prompt(template: str, /, **values: object) -> str:
    """A prompt template with its fields filled, in one pass: braces in the values stay as they are.

    >>> fill_prompt("{count} of '{text}'", count=5, text="{count}")
    "5 of '{count}'"
    """
    return _FIELD.sub(lambda match: str(values[match[1]]), template)


def prompt_request(
    model: str,
    template: str,
    example: str,
    /,
    *,
    temperature: float,
    max_tokens: int,
    seed: int | None = None,
    **values: object,
) -> ChatRequest:
    """A request with a prompt template, filled with the values; ``example`` is a usable response."""
    prompt = fill_prompt(template, **values)
    return ChatRequest(request_body(model, prompt, temperature=temperature, max_tokens=max_tokens, seed=seed), example)


class ListEntry(NamedTuple, Generic[T]):
    """An entry of a list in a response, and the topic of the request, whatever a pipeline uses for that."""

    topic: T
    text: str
    response: ChatResponse


def request_lists(
    stage: str,
    requests: Sequence[tuple[T, ChatRequest]],
    count: int,
    client: ChatClient,
    log: FilterLog,
) -> list[ListEntry[T]]:
    """The list entries of the responses to requests with their topics, in the order of the requests.

    The log gets a remark on responses that are empty, refuse, are truncated or have fewer than ``count`` entries.
    """
    responses = client(stage, [request for _, request in requests])
    entries: list[ListEntry[T]] = []
    # Counted, not listed: a generation may have thousands of responses.
    problems: Counter[str] = Counter()
    for (topic, _), response in zip(requests, responses, strict=True):
        texts = list_entries(response.text, response.is_truncated)
        problem = response_problem(response, len(texts), count)
        if problem:
            problems[problem] += 1
        for text in texts:
            entries.append(ListEntry(topic, text, response))
    for problem, number in sorted(problems.items()):
        log.remarks.append(f"{stage}: {number} of {len(responses)} replies {problem}")
    return entries


_PLAIN = re.compile(r"[\w .,;:!?'\"“”‘’()\[\]&%$€£+/…–—-]*")


def sentence_fault(text: str) -> str:
    """Why a text cannot be a sentence of a data set, or an empty text.

    A sentence has only characters of prose and begins with a word. This excludes markup, code, and text that a
    spreadsheet would read as a formula.

    >>> sentence_fault("__import__('os')"), sentence_fault("-1+1"), sentence_fault("He left.")
    ('has characters that are not prose', 'does not begin like a sentence', '')
    """
    # \w of the pattern includes the underscore, which prose does not have.
    if "_" in text or not _PLAIN.fullmatch(text):
        return "has characters that are not prose"
    if not re.match(r"[\"'“‘(]*\[?\w", text):
        return "does not begin like a sentence"
    if len(text) > 400:
        return "is too long for a sentence"
    return ""


def count_words(text: str) -> int:
    """The number of words of a text, split at white space; punctuation alone is not a word.

    >>> count_words("He left - at last.")
    4
    """
    return sum(any(map(str.isalnum, word)) for word in text.split())


def contains_phrase(text: str, phrase: str) -> bool:
    """Whether a text contains a phrase as whole words, without regard to case.

    >>> contains_phrase("The map was there.", "he"), contains_phrase("The map was there.", "the map")
    (False, True)
    """
    # Not \b, which does not match at a phrase that begins or ends with a mark.
    return re.search(rf"(?<!\w){re.escape(normalise(phrase))}(?!\w)", normalise(text)) is not None


def read_rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a Parquet file or of JSON lines, which must have at least these columns.

    Raises
    ------
    ChatError
        When the file cannot be read, or a row lacks a column.
    """
    rows: list[dict[str, Any]]
    try:
        if path.suffix == ".parquet":
            rows = pq.read_table(path).to_pylist()
        else:
            rows = list(read.json_lines(path))
    except (OSError, pa.ArrowException) as error:
        raise ChatError(f"{path} cannot be read as Parquet or JSON lines ({error}).") from None
    for number, row in enumerate(rows):
        for name in columns:
            # A line of JSON may hold something else than an object, and a table has None for a missing value.
            if not isinstance(row, Mapping) or row.get(name) is None:
                raise ChatError(f"{path.name} row {number} has no {name}; expected rows with {', '.join(columns)}.")
    return rows
