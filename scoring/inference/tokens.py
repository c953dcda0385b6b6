"""Requests to token ids: the boundary of context and option, spans, masks, and special tokens.

A context and its option are encoded together, because encoding them apart may give tokens that the
model never sees; the boundary follows from the character offsets. What a tokenizer puts around a
text (beginning of sequence, [CLS], [SEP]) is read from its output for a short text, and added once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from scoring.types import Option, Request, ScoringError


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


def _prefix_offsets(tokenizer: Any, text: str, ids: list[int]) -> list[tuple[int, int]]:
    """Offsets for a tokenizer that has none: the shortest beginnings of the text that give the first tokens."""
    ends = {0: 0, len(ids): len(text)}
    # From the end, so that the shortest beginning that gives the same tokens is the one that stays.
    for end in range(len(text), 0, -1):
        first = tokenizer(text[:end], add_special_tokens=False, verbose=False)["input_ids"]
        if first and ids[: len(first)] == first:
            ends[len(first)] = end
    borders = sorted(ends)
    return [(ends[a], ends[b]) for a, b in pairwise(borders) for _ in range(a, b)]


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a")["input_ids"]
    for start in range(len(full) - len(bare) + 1):
        # T5 puts tokens only after a text, GPT-2 none, BERT one on each side.
        if full[start : start + len(bare)] == bare:
            return full[:start], full[start + len(bare) :]
    raise ScoringError(
        "The tokenizer changes the tokens of a text when it adds special tokens, so BOS cannot be placed; "
        "give a tokenizer that only puts them around the text."
    )


Kind = Literal["causal", "masked"]

#: Requests whose texts are encoded at one time: the offsets of all would take more memory than all that comes of them.
ENCODED = 256
#: The start token of bias-bench, which stands for the beginning of a sentence.
START = "<|endoftext|>"


class Query(NamedTuple):
    """Tokens to put through the network, positions whose output is read, and the token wanted at each.

    The output at a position of a causal model predicts the token after it, so the last wanted token
    is not among ``ids``; the output of a masked model predicts the token at the position itself.

    No token attends to the ``hidden`` tokens after the first, and the position ids of all tokens after the first
    are larger by ``gap``. So padding on the left is one hidden token and a gap, because the padding tokens between
    would neither be attended to nor read.
    """

    ids: tuple[int, ...]
    at: tuple[int, ...]
    want: tuple[int, ...]
    hidden: int = 0
    gap: int = 0

    def spelled(self) -> Query:
        """The same with a padding token at every position of the gap, for networks without position ids.

        >>> Query((1, 0, 5, 6), (1, 2, 3), (5, 6, 7), hidden=1, gap=2).spelled()
        Query(ids=(1, 0, 0, 0, 5, 6), at=(3, 4, 5), want=(5, 6, 7), hidden=3, gap=0)
        """
        if not self.gap:
            return self
        # The padding token after the first one is repeated, and all that follows moves to the right by the gap.
        ids = self.ids[:1] + self.ids[1:2] * self.gap + self.ids[1:]
        at = tuple(i + self.gap if i else i for i in self.at)
        return Query(ids, at, self.want, self.hidden + self.gap)


class _Piece(NamedTuple):
    """A context and an option in one encoding: ``start`` is the option's first token, ``spans`` its scored tokens."""

    ids: list[int]
    start: int
    spans: list[Sequence[int]]

    @property
    def targets(self) -> Sequence[int]:
        """The scored tokens of all spans, each once, in order."""
        return self.spans[0] if len(self.spans) == 1 else sorted(set().union(*self.spans))


class SharedToken(ScoringError):
    """A token holds a part of what is to be scored and something else, so that this row cannot be scored."""


@dataclass(eq=False)
class Tokens:
    """How one model's text becomes tokens.

    Parameters
    ----------
    tokenizer:
        A tokenizer of transformers, with offsets (fast) or without (slow).
    kind:
        Whether the model is causal or masked.
    window:
        The most tokens the model can take; None when there is no bound.
    truncate:
        Whether a text longer than the window is cut: the context from its left, then the option from
        its right. The ids of such requests are collected in ``truncated``.
    size:
        How many tokens the model knows; None when that is not to be checked.

    Raises
    ------
    ScoringError
        For a tokenizer without a token to begin a sentence with, or without a mask for a masked model.
    """

    tokenizer: Any
    kind: Kind
    window: int | None = None
    truncate: bool = field(default=False, kw_only=True)
    size: int | None = field(default=None, kw_only=True)
    truncated: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.prefix, self.suffix = frame(self.tokenizer)
        if self.kind == "masked" and self.tokenizer.mask_token_id is None:
            raise ScoringError("The tokenizer of this masked model has no mask token; give a model with its tokenizer.")
        self.word = cache(self._word)

    @cached_property
    def start(self) -> list[int]:
        """The ids before a sentence without context: the tokenizer's own prefix, else BOS, else EOS."""
        return self.prefix or [self.first]

    @cached_property
    def first(self) -> int:
        """The beginning-of-sequence token, else the end-of-sequence token."""
        first = self.tokenizer.bos_token_id
        first = self.tokenizer.eos_token_id if first is None else first
        if first is None:
            raise ScoringError(
                "The tokenizer has neither a beginning-of-sequence nor an end-of-sequence token, so the first token "
                "of a sentence has no probability; give every request a context."
            )
        return int(first)

    @cached_property
    def padding(self) -> int:
        """The padding token of a padded request: the tokenizer's own, else EOS, else what begins a sentence."""
        own = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, self.first)
        return int(next(i for i in own if i is not None))

    @property
    def pad(self) -> int:
        """An id to fill rows with; no token attends to it, so any id of the vocabulary will do."""
        return int(self.tokenizer.pad_token_id or 0)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Encodes texts as they stand, without special tokens, in one call of the tokenizer."""
        if not texts:
            return []
        try:
            encoded = self.tokenizer(
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
        if self.tokenizer.is_fast:
            offsets = [partial(getattr, whole, "offsets") for whole in encoded.encodings]
        else:
            offsets = [partial(_prefix_offsets, self.tokenizer, *pair) for pair in zip(texts, ids, strict=True)]
        return list(map(Encoding, texts, ids, offsets))

    def queries(self, requests: Sequence[Request]) -> Iterator[tuple[list[list[Query]], Query | None]]:
        """For every request the queries of each option, and the query of its candidate forms if it has any.

        Raises
        ------
        ScoringError
            Naming the request, where an option is blank, merges with its context, or is too long, or a token
            is unknown to the model.
        """
        for first in range(0, len(requests), ENCODED):
            part = requests[first : first + ENCODED]
            # Each text once: requests may have the same options, and encoding takes as long as a small network.
            texts = dict.fromkeys(a.context + o.text for a in part for o in a.options)
            # A dict keeps the order of the texts, so that one call of the tokenizer answers all of them in order.
            texts |= dict.fromkeys(a.context for a in part if a.candidates)
            encoded = dict(zip(texts, self.encode(list(texts)), strict=True))
            for request in part:
                options = [list(self._option(request, o, encoded[request.context + o.text])) for o in request.options]
                candidates = self._candidates(request, encoded[request.context]) if request.candidates else None
                for query in chain(*options, [candidates] if candidates else []):
                    self._check(request, query.ids)
                    self._check(request, query.want)
                yield options, candidates

    def _check(self, request: Request, ids: Sequence[int]) -> None:
        if self.size is not None and ids and max(ids) >= self.size:
            token = self.tokenizer.convert_ids_to_tokens(max(ids))
            raise ScoringError(
                f"{request.id}: the tokenizer gives {token!r} the number {max(ids)}, but the model knows {self.size} "
                f"tokens; give the model's own tokenizer, or resize its embeddings."
            )

    def _option(self, request: Request, option: Option, encoding: Encoding) -> Iterable[Query]:
        if self.kind == "masked" and option.mask == "decoded":
            return self._decoded(request, option)
        piece = self._piece(request, option, encoding)
        if self.kind == "masked":
            return self._masked(request, piece, option.mask)
        if option.start == "first" and not request.context:
            return self._first_after_start(request, piece)
        return [self._causal(request, piece, option.width)]

    def _piece(self, request: Request, option: Option, encoding: Encoding) -> _Piece:
        if not option.text.strip():
            raise ScoringError(
                f"{request.id}: the option {option.text!r} is blank; give it at least one visible character."
            )
        start = self._cut(request, encoding)
        if option.spans is None:
            return _Piece(encoding.ids, start, [range(start, len(encoding.ids))])
        if not option.spans or any(not 0 <= a < b <= len(option.text) for a, b in option.spans):
            raise ScoringError(
                f"{request.id}: the spans {option.spans} do not lie in the option {option.text!r}; "
                f"give [start, end) pairs of its characters."
            )
        length = len(request.context)
        spans: list[Sequence[int]] = [
            self._within(request, encoding, start, a + length, b + length) for a, b in option.spans
        ]
        return _Piece(encoding.ids, start, spans)

    def _cut(self, request: Request, encoding: Encoding) -> int:
        """The first token of the option, when no token holds characters of both sides."""
        length = len(request.context)
        # The first token that ends behind the context; ends of tokens ascend.
        cut = bisect_right(encoding.offsets, length, key=itemgetter(1)) if length else 0
        if cut == len(encoding.ids):
            raise ScoringError(
                f"{request.id}: the option {encoding.text[length:]!r} has no token; give it other characters."
            )
        if not length:
            return 0
        merged = encoding.offsets[cut][0] < length
        # Byte-level tokenizers may leave the space out of a token's offsets, so a context that ends in one is compared.
        if request.context[-1].isspace() and (not cut or encoding.offsets[cut - 1][1] < length):
            merged = merged or self.encode([request.context])[0].ids != encoding.ids[:cut]
        if merged:
            token = self.tokenizer.convert_ids_to_tokens(encoding.ids[cut])
            raise ScoringError(
                f"{request.id}: the token {token!r} holds the end of the context and the beginning of the option "
                f"{encoding.text[length:]!r}; put the boundary before a space, which belongs to the option."
            )
        return cut

    def _within(self, request: Request, encoding: Encoding, start: int, low: int, high: int) -> list[int]:
        """The tokens from ``start`` on that lie in characters [low, high); a token's blanks do not count.

        A byte-level or SentencePiece token brings along the space before its word, so a span that
        begins at the word has that token. So it has a token of the space alone, which the word needs where its
        first letters have no token with a space.
        """
        inside = []
        for index in range(start, len(encoding.ids)):
            a, b = encoding.offsets[index]
            body = encoding.text[a:b]
            if body.strip():
                a, b = b - len(body.lstrip()), a + len(body.rstrip())
            else:
                a = b  # as where a tokenizer trims offsets
            if low <= a and b <= high:
                inside.append(index)
            elif max(a, low) < min(b, high) and body.strip():
                token = self.tokenizer.convert_ids_to_tokens(encoding.ids[index])
                raise SharedToken(
                    f"{request.id}: the token {token!r} lies half in the span {encoding.text[low:high]!r}; "
                    f"give spans of whole words."
                )
        if not inside:
            raise ScoringError(
                f"{request.id}: the span {encoding.text[low:high]!r} has no token; give spans of whole words."
            )
        return inside

    def _causal(self, request: Request, piece: _Piece, width: int) -> Query:
        targets = piece.targets
        # Of several padding tokens one is computed: nothing attends to them, so only positions tell how many there are.
        pads = max(width - len(piece.ids), 0)
        frame = [self.first, self.padding] if pads else self._before(piece.ids, piece.start)
        gap = max(pads - 1, 0)
        # Without a token before the text, one of the context has to stay, which the first scored token follows.
        drop, end = self._fit(request, piece.start - (not frame), targets[-1] + 1, len(frame) - 1 + gap)
        # A beginning-of-sequence token that the text itself brings has nothing before it and is not scored.
        scored = targets[bisect_left(targets, 0 if frame else 1) : bisect_left(targets, end)]
        if not scored:
            shown = str(self.tokenizer.decode(piece.ids[piece.start :]))
            raise ScoringError(f"{request.id}: no token of {shown!r} can be scored; give a longer option.")
        # The output at a position predicts the token after it, so each place moves by the frame and by one less.
        before = len(frame) - drop - 1
        at, want = tuple([i + before for i in scored]), tuple([piece.ids[i] for i in scored])
        return Query((*frame, *piece.ids[drop : scored[-1]]), at, want, int(pads > 0), gap)

    def _first_after_start(self, request: Request, piece: _Piece) -> Iterable[Query]:
        """The first token after the start token; the others after the tokens before them, without the start token.

        bias-bench scores causal models so (Meade et al., 2022).
        """
        _, end = self._fit(request, 0, piece.targets[-1] + 1, -1)
        targets = [i for i in piece.targets if i < end]
        # The first token has nothing before it but the start token of bias-bench, which the vocabulary may lack.
        if targets[:1] == [0]:
            start = self.tokenizer.get_vocab().get(START, None)
            yield Query((self.first if start is None else start,), (0,), (piece.ids[0],))
        if later := [i for i in targets if i]:
            yield Query(tuple(piece.ids[: later[-1]]), tuple(i - 1 for i in later), tuple(piece.ids[i] for i in later))

    def _masked(self, request: Request, piece: _Piece, how: str) -> Iterable[Query]:
        drop, end = self._fit(request, piece.start, len(piece.ids), len(self.prefix) + len(self.suffix))
        ids = [*self.prefix, *piece.ids[drop:end], *self.suffix]
        shift = len(self.prefix) - drop
        # Special tokens before the text move its places to the right, and tokens that are cut off there move them back.
        spans = [[i + shift for i in span if i < end] for span in piece.spans]
        if not any(spans):
            raise self._cut_off(request)
        if how == "each":
            return [self._hidden(ids, i, i + 1) for i in sorted({i for span in spans for i in span})]
        # From left to right: the token and all after it in the run are hidden by one mask, so none sees what is asked.
        return [self._hidden(ids, i, run[-1] + 1) for span in spans for run in _runs(span) for i in run]

    def _decoded(self, request: Request, option: Option) -> Iterable[Query]:
        """One text for each token of the first span: the decoded tokens before it and a mask replace every span.

        bias-bench asks masked models so (Meade et al., 2022). The text is encoded anew, so the tokens before the
        mask may differ from those decoded. Where there are several spans, the first mask is read.
        """
        # The texts around the spans are joined anew by each mask, so that all spans change together.
        ends = [0, *chain(*option.spans or ()), len(option.text)]
        around = [option.text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True)]
        around[0] = request.context + around[0]
        (word,) = self.encode([option.text[ends[1] : ends[2]]])
        if len(ends) == 2 or not word.ids:
            raise ScoringError(f"{request.id}: the option {option.text!r} has no token to mask; give a span of a word.")
        mask = self.tokenizer.mask_token
        # With a word of tokens a b: first a mask in every span, then the text of a and a mask.
        texts = [(self.tokenizer.decode(word.ids[:n]) + mask).join(around) for n in range(len(word.ids))]
        for wanted, encoding in zip(word.ids, self.encode(texts), strict=True):
            free = self._cut(request, encoding)
            drop, end = self._fit(request, free, len(encoding.ids), len(self.prefix) + len(self.suffix))
            ids = (*self.prefix, *encoding.ids[drop:end], *self.suffix)
            if self.tokenizer.mask_token_id not in ids:
                raise self._cut_off(request)
            yield Query(ids, (ids.index(self.tokenizer.mask_token_id),), (wanted,))

    def _cut_off(self, request: Request) -> ScoringError:
        return ScoringError(
            f"{request.id}: the context window of {self.window} tokens cuts off all that is to be scored."
        )

    def _hidden(self, ids: list[int], position: int, end: int) -> Query:
        """The sentence with one mask in place of the tokens [position, end)."""
        masked = (*ids[:position], self.tokenizer.mask_token_id, *ids[end:])
        return Query(masked, (position,), (ids[position],))

    def _candidates(self, request: Request, context: Encoding) -> Query | None:
        """The query whose output is the distribution of the next token; forms of more than one token are left out."""
        ids = self.prompt(request, context)
        want = [i for i in self.words(request.candidates, request.context) if i is not None]
        return Query(tuple(ids), (len(ids) - 1,) * len(want), tuple(want)) if want else None

    def prompt(self, request: Request, context: Encoding, room: int = 0) -> list[int]:
        """The tokens of a context that is to be continued by ``room`` tokens, beginning of sequence included."""
        if self.kind == "masked":
            raise ScoringError(
                f"{request.id} wants the next token, which a masked model does not give; give a causal model."
            )
        frame = self._before(context.ids, len(context.ids))
        drop, end = self._fit(request, len(context.ids) - (not frame), len(context.ids), len(frame) + room)
        if end < len(context.ids):
            raise ScoringError(
                f"{request.id}: {room} new tokens leave no room in the window of {self.window}; ask for fewer."
            )
        self._check(request, context.ids)
        return frame + context.ids[drop:]

    def words(self, forms: Sequence[str], context: str = "") -> list[int | None]:
        """The token of each form after a context, or None where it has several or another form has it already.

        A space stands before the form, unless the context ends a line. The next token of a context can
        only be compared between forms that are one token each, and no token may count twice (Dong et
        al. 2023, section 6.3: the forms of she and he).
        """
        # A tokenizer may merge a form with what stands before it, so the form is read after a letter or a line break.
        before, space = ("a\n", "") if context.endswith("\n") else ("a", " ")
        tokens = [self.word(before, space + form) for form in forms]
        return [None if token in tokens[:n] else token for n, token in enumerate(tokens)]

    def _word(self, before: str, form: str) -> int | None:
        encoding = self.encode([before + form])[0]
        tokens = zip(encoding.ids, encoding.offsets, strict=True)
        after = [(i, start) for i, (start, end) in tokens if end > len(before)]
        if len(after) != 1 or after[0][1] < len(before) or after[0][0] == self.tokenizer.unk_token_id:
            return None
        return after[0][0]

    def _before(self, ids: list[int], context: int) -> list[int]:
        """The special tokens still to be put before ids, of which ``context`` are not scored; none if already there."""
        frame = self.prefix if context else self.start
        return [] if frame and ids[: len(frame)] == frame else frame

    def _fit(self, request: Request, free: int, total: int, extra: int) -> tuple[int, int]:
        """Which tokens [drop, end) of ``total`` are kept, where the first ``free`` may be dropped."""
        # What is too much is cut from the left of the context first, then from the right end of the text.
        over = total + extra - (self.window or total + extra)
        if over <= 0:
            return 0, total
        if not self.truncate:
            raise ScoringError(
                f"{request.id} needs {total + extra} tokens and the model's context window is {self.window}; "
                f"shorten the text, or allow truncation, which marks the answers."
            )
        self.truncated.add(request.id)
        drop = min(over, max(free, 0))
        return drop, total - over + drop


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Splits ascending numbers into runs without gaps.

    >>> _runs([2, 3, 5])
    [[2, 3], [5]]
    """
    return [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
