"""Rows that are longer than the context window of a model, found before its weights are loaded and without torch."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scoring.asking.answering import Asker
from scoring.asking.run import Part, without
from scoring.types import BenchmarkContext, Request, Row

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from scoring.inputs.tables import Loaded

#: How many rows of a split are looked at: those with the longest text.
LONGEST = 20


def leave_out_longer(
    parts: Sequence[Part], asker: Asker, folder: Path, kind: str, *, chat: bool, named: bool
) -> tuple[list[Part], list[str]]:
    """The parts whose rows fit into the context window, and a remark for each other one.

    The longest rows of each split are encoded with the file of the tokenizer. Tokens before a text are not counted, so
    that no row that fits is refused; one that is a token too long is found when it is asked.

    Parameters
    ----------
    folder:
        The files of the model. Nothing is left out where they give no window or no ``tokenizer.json``.
    kind:
        ``causal`` or ``masked``.
    chat:
        Whether the model is asked through its chat template, whose tokens are not counted.
    named:
        Whether the user named the benchmarks.

    Raises
    ------
    ScoringError
        When a benchmark that the user named has a row that does not fit, or no benchmark is left.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
        config = config.get("text_config") or config
        window = int(config.get("max_position_embeddings") or config.get("n_positions") or 0)
    except (OSError, ValueError, TypeError, AttributeError):
        return list(parts), []  # loading says what is wrong
    if window <= 0 or not (folder / "tokenizer.json").is_file():
        return list(parts), []

    def reason(part: Part) -> str:
        if ("chat" if chat else kind) not in part.benchmark.kinds:
            return ""
        for loaded in part.splits:
            of_split = context(loaded)
            for row in heapq.nlargest(LONGEST, filter(of_headline(part), loaded.rows), key=_bytes):
                # A token has at least a byte, and a question has a few words besides the row: most are not encoded.
                if 2 * _bytes(row) <= window:
                    break
                question = asker.question(part.benchmark, row, of_split)
                for request in question.requests.values():
                    length = needed(request, tokenizer(), kind)
                    if length > window:
                        return f"{request.id} needs at least {length} tokens and the model's context window is {window}"
        return ""

    def of_headline(part: Part) -> Callable[[Row], bool]:
        # Of the others each is left out alone when it is asked.
        beyond = part.benchmark.beyond
        return lambda row: not (beyond and beyond(row))

    @cache
    def tokenizer() -> Tokenizer:
        from tokenizers import Tokenizer

        read = Tokenizer.from_file(str(folder / "tokenizer.json"))
        read.no_truncation()
        read.no_padding()
        return read

    def encode(texts: Sequence[str]) -> list[Any]:
        return list(tokenizer().encode_batch(list(texts), add_special_tokens=False))

    def context(loaded: Loaded) -> BenchmarkContext:
        def longest(column: str) -> int:
            texts = loaded.whole.column(column).drop_null().to_pylist()
            return max(len(encoding.ids) for encoding in encode(texts))

        family = str(config.get("model_type", ""))
        return BenchmarkContext(kind, encode, cache(longest), family=family)  # type: ignore[arg-type]

    advice = "add --truncate, which cuts texts and marks them"
    return without(parts, reason, advice, "; the benchmark is left out.", named=named)


def needed(request: Request, tokenizer: Tokenizer, kind: str) -> int:
    """The fewest tokens that the longest query of a request can have."""

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    lengths = [0]
    if request.max_new or request.candidates:
        lengths.append(count(request.context) + request.max_new)
    for option in request.options:
        length = count(request.context + option.text)
        # A causal model is not asked what follows the last token; a masked one reads its own tokens around a text.
        if kind == "causal":
            length -= 1
        else:
            length += tokenizer.num_special_tokens_to_add(is_pair=False)
        lengths.append(length)
    return max(lengths)


def _bytes(row: Row) -> int:
    return sum(len(value.encode()) for value in row.values() if isinstance(value, str))
