"""Texts to token ids, and the offsets of tokens in a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from scoring.types import ScoringError


@dataclass
class Encoding:
    """A text, its token ids without special tokens, and a function that gives their offsets in the text."""

    text: str
    ids: list[int]
    compute_offsets: Callable[[], Sequence[tuple[int, int]]]

    @cached_property
    def offsets(self) -> Sequence[tuple[int, int]]:
        """The characters [start, end) of each token, computed at the first use, because most texts need none."""
        return self.compute_offsets()


def encode(tokenizer: Any, texts: Sequence[str]) -> list[Encoding]:
    """Encodes texts without special tokens, in one call of the tokenizer."""
    if not texts:
        return []
    try:
        encoded = tokenizer(
            list(texts),
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            padding=False,
            truncation=False,
            verbose=False,
        )
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of the library of tokenizers, which does not export it
            raise
        raise ScoringError(
            f"The tokenizer cannot encode {texts[0]!r:.60} ({error!s:.100}); give another one."
        ) from None
    ids = [list(row) for row in encoded["input_ids"]]
    offsets: Iterable[Callable[[], Sequence[tuple[int, int]]]]
    if tokenizer.is_fast:
        offsets = [partial(getattr, whole, "offsets") for whole in encoded.encodings]
    else:
        offsets = [partial(_prefix_offsets, tokenizer, text, row) for text, row in zip(texts, ids, strict=True)]
    return list(map(Encoding, texts, ids, offsets))


def _prefix_offsets(tokenizer: Any, text: str, ids: list[int]) -> list[tuple[int, int]]:
    """Offsets for a tokenizer that has none: the shortest beginnings of the text that give the first tokens."""
    ends = {0: 0, len(ids): len(text)}
    for end in range(len(text), 0, -1):
        first = tokenizer(text[:end], add_special_tokens=False, verbose=False)["input_ids"]
        if first and ids[: len(first)] == first:
            ends[len(first)] = end
    known = sorted(ends)
    return [(ends[a], ends[b]) for a, b in pairwise(known) for _ in range(a, b)]


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a")["input_ids"]
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return full[:start], full[start + len(bare) :]
    raise ScoringError(
        "The tokenizer changes the tokens of a text when it adds special tokens, so BOS cannot be placed; "
        "give a tokenizer that only puts them around the text."
    )
