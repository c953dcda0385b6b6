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
from itertools import chain, pairwise
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
    offsets: list[tuple[int, int]] = []
    for start, end in pairwise(sorted(ends)):
        # Tokens of which no beginning is known by itself, such as the bytes of one letter, share their characters.
        offsets += [(ends[start], ends[end])] * (end - start)
    return offsets


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
#: The start token of bias-bench, which marks the beginning of a sentence.
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
        at = []
        for place in self.at:
            # The first token stays in its place, before the padding.
            if place:
                place += self.gap
            at.append(place)
        return Query(ids, tuple(at), self.want, self.hidden + self.gap)


class _Piece(NamedTuple):
    """A context and an option in one encoding: ``start`` is the option's first token, ``spans`` its scored tokens."""

    ids: list[int]
    start: int
    spans: list[Sequence[int]]

    @property
    def targets(self) -> Sequence[int]:
        """The scored tokens of all spans, each once, in order."""
        if len(self.spans) == 1:
            return self.spans[0]
        return sorted(set(chain.from_iterable(self.spans)))


class SharedToken(ScoringError):
    """A token holds a part of what is to be scored and something else, so that this row cannot be scored."""


class TooLong(ScoringError):
    """A text has more tokens than the context window of the model."""


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
    family:
        The ``model_type`` of the model, where it is known: a Gemma needs its BOS before every text.

    Attributes
    ----------
    prefix:
        The special tokens before a text whose context is not scored; :meth:`begin` sets them.

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
    family: str = field(default="", kw_only=True)
    truncated: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._own, self.suffix = frame(self.tokenizer)
        self.begin()
        if self.kind == "masked" and self.tokenizer.mask_token_id is None:
            raise ScoringError("The tokenizer of this masked model has no mask token; give a model with its tokenizer.")
        self.word = cache(self._word)

    def begin(self, start: str = "") -> None:
        """Sets which tokens begin every text.

        Parameters
        ----------
        start:
            ``bos``, ``none``, or a token. By default as in lm-evaluation-harness: what the tokenizer itself puts before
            a text, and before a sentence without context otherwise BOS, else EOS (its ``prefix_token_id``). A Gemma
            gets its BOS always, as in earlier versions of the harness.

        Raises
        ------
        ScoringError
            For a start that is no token of the vocabulary, and for one of a masked model.
        """
        bos = self.tokenizer.bos_token_id
        self._given: list[int] | None = None
        if not start:
            self.prefix = list(self._own)
            if not self.prefix and bos is not None and "gemma" in self.family:
                self.prefix = [bos]
            return
        if self.kind == "masked":
            raise ScoringError("A masked model reads its texts between its own tokens; leave out --start.")
        if start == "none":
            self._given = []
        elif start == "bos":
            if bos is None:
                raise ScoringError("The tokenizer has no beginning-of-sequence token; give --start a token, or none.")
            self._given = [bos]
        else:
            number = self.tokenizer.get_vocab().get(start)
            if number is None:
                raise ScoringError(
                    f"The tokenizer has no token {start!r}; give --start bos, none, or a token of its vocabulary, such "
                    f"as {self.tokenizer.eos_token}."
                )
            self._given = [number]
        self.prefix = list(self._given)

    @property
    def start(self) -> list[int]:
        """The ids before a sentence without context: given ones, else the tokenizer's own, else BOS, else EOS."""
        if self._given is not None:
            return self._given
        return self.prefix or [self.first]

    @property
    def begins(self) -> dict[str, str]:
        """What is put before texts, for a report: tokens with their ids.

        The first token of a sentence has no probability where nothing is before it.
        """
        facts = {"before a text with a context": self._shown(self.prefix)}
        if self.kind == "causal":
            try:
                facts["before a sentence"] = self._shown(self.start)
            except ScoringError:  # without BOS and EOS, sentences are refused when they are asked
                facts["before a sentence"] = "none"
        return facts

    def _shown(self, ids: Sequence[int]) -> str:
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        return " ".join(f"{token} ({number})" for token, number in zip(tokens, ids, strict=True)) or "none"

    @cached_property
    def first(self) -> int:
        """The beginning-of-sequence token, else the end-of-sequence token."""
        for token in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            # 0 is the number of a token.
            if token is not None:
                return int(token)
        raise ScoringError(
            "The tokenizer has neither a beginning-of-sequence nor an end-of-sequence token, so the first token "
            "of a sentence has no probability; give every request a context."
        )

    @cached_property
    def padding(self) -> int:
        """The padding token of a padded request: the tokenizer's own, else EOS, else what begins a sentence."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return self.first

    @property
    def pad(self) -> int:
        """An id to fill rows with; no token attends to it, so any id of the vocabulary will do."""
        return int(self.tokenizer.pad_token_id or 0)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Encodes texts as they are, without special tokens, in one call of the tokenizer."""
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
        rows = encoded["input_ids"]
        is_fast = self.tokenizer.is_fast
        encodings = []
        for number, text in enumerate(texts):
            ids = list(rows[number])
            compute_offsets: Callable[[], Sequence[tuple[int, int]]]
            if is_fast:
                # An attribute of the library's own object, which makes the pairs of all tokens when it is read.
                compute_offsets = partial(getattr, encoded.encodings[number], "offsets")
            else:
                compute_offsets = partial(_prefix_offsets, self.tokenizer, text, ids)
            encodings.append(Encoding(text, ids, compute_offsets))
        return encodings

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
            texts: dict[str, None] = {}
            for request in part:
                for option in request.options:
                    texts[request.context + option.text] = None
            for request in part:
                if request.candidates:
                    texts[request.context] = None
            # A dict keeps the order of the texts, so that one call of the tokenizer answers all of them in order.
            encoded = dict(zip(texts, self.encode(list(texts)), strict=True))
            for request in part:
                options = []
                for option in request.options:
                    options.append(list(self._option(request, option, encoded[request.context + option.text])))
                candidates = None
                if request.candidates:
                    candidates = self._candidates(request, encoded[request.context])
                queries = list(chain.from_iterable(options))
                if candidates:
                    queries.append(candidates)
                for query in queries:
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
        """The context and the option as they are encoded, with the tokens of each span."""
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
        # Spans count from the beginning of the option, and offsets from that of the whole text.
        length = len(request.context)
        spans: list[Sequence[int]] = []
        for low, high in option.spans:
            spans.append(self._within(request, encoding, start, low + length, high + length))
        return _Piece(encoding.ids, start, spans)

    def _cut(self, request: Request, encoding: Encoding) -> int:
        """The first token of the option, when no token holds characters of both sides."""
        length = len(request.context)
        cut = 0
        if length:
            # The first token that ends after the context; ends of tokens ascend.
            cut = bisect_right(encoding.offsets, length, key=itemgetter(1))
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
        """The query of an option after its context, padded on the left to ``width`` tokens."""
        targets = piece.targets
        # Of several padding tokens one is computed: nothing attends to them, so only positions tell how many there are.
        pads = max(width - len(piece.ids), 0)
        if pads:
            frame = [self.first, self.padding]
        else:
            frame = self._before(piece.ids, piece.start)
        gap = max(pads - 1, 0)
        # Without a token before the text, one of the context has to stay, which the first scored token follows.
        drop, end = self._fit(request, piece.start - (not frame), targets[-1] + 1, len(frame) - 1 + gap)
        # A beginning-of-sequence token that the text itself brings has nothing before it and is not scored.
        scored = targets[bisect_left(targets, int(not frame)) : bisect_left(targets, end)]
        if not scored:
            shown = str(self.tokenizer.decode(piece.ids[piece.start :]))
            raise ScoringError(f"{request.id}: no token of {shown!r} can be scored; give a longer option.")
        # The output at a position predicts the token after it, so each place moves by the frame and by one less.
        before = len(frame) - drop - 1
        at = tuple([place + before for place in scored])
        want = tuple([piece.ids[place] for place in scored])
        ids = tuple(frame + piece.ids[drop : scored[-1]])
        return Query(ids, at, want, int(pads > 0), gap)

    def _first_after_start(self, request: Request, piece: _Piece) -> Iterable[Query]:
        """The first token after the start token; the others after the tokens before them, without the start token.

        bias-bench scores causal models so (Meade et al., 2022).
        """
        _, end = self._fit(request, 0, piece.targets[-1] + 1, -1)
        targets = [place for place in piece.targets if place < end]
        # The first token has nothing before it but the start token of bias-bench, which the vocabulary may lack.
        if targets[:1] == [0]:
            start = self.tokenizer.get_vocab().get(START)
            if start is None:
                start = self.first
            yield Query((start,), (0,), (piece.ids[0],))
            targets = targets[1:]
        if targets:
            at = tuple([place - 1 for place in targets])
            want = tuple([piece.ids[place] for place in targets])
            yield Query(tuple(piece.ids[: targets[-1]]), at, want)

    def _masked(self, request: Request, piece: _Piece, how: str) -> Iterable[Query]:
        """A query for each token of the spans, with a mask in its place."""
        drop, end = self._fit(request, piece.start, len(piece.ids), len(self.prefix) + len(self.suffix))
        ids = self.prefix + piece.ids[drop:end] + self.suffix
        shift = len(self.prefix) - drop
        # Special tokens before the text move its places to the right, and tokens that are cut off there move them back.
        spans = []
        for span in piece.spans:
            spans.append([place + shift for place in span if place < end])
        if not any(spans):
            raise self._cut_off(request)
        if how == "each":
            # A token of two spans is asked once.
            places = sorted(set(chain.from_iterable(spans)))
            return [self._hidden(ids, place, place + 1) for place in places]
        # From left to right: one mask hides the token and all after it in the stretch, so none sees what is asked.
        queries = []
        for span in spans:
            for stretch in _stretches(span):
                queries += [self._hidden(ids, place, stretch[-1] + 1) for place in stretch]
        return queries

    def _decoded(self, request: Request, option: Option) -> Iterable[Query]:
        """One text for each token of the first span: the decoded tokens before it and a mask replace every span.

        bias-bench asks masked models so (Meade et al., 2022). The text is encoded anew, so the tokens before the
        mask may differ from those decoded. Where there are several spans, the first mask is read.
        """
        # The texts around the spans are joined anew by each mask, so that all spans change together.
        spans = option.spans or ()
        around = []
        end = 0
        for span_start, span_end in spans:
            around.append(option.text[end:span_start])
            end = span_end
        around.append(option.text[end:])
        around[0] = request.context + around[0]
        word = ""
        if spans:
            span_start, span_end = spans[0]
            word = option.text[span_start:span_end]
        (encoded_word,) = self.encode([word])
        if not spans or not encoded_word.ids:
            raise ScoringError(f"{request.id}: the option {option.text!r} has no token to mask; give a span of a word.")
        # With a word of tokens a b: first a mask in every span, then the text of a and a mask.
        texts = []
        for count in range(len(encoded_word.ids)):
            revealed = self.tokenizer.decode(encoded_word.ids[:count])
            texts.append((revealed + self.tokenizer.mask_token).join(around))
        for wanted, encoding in zip(encoded_word.ids, self.encode(texts), strict=True):
            free = self._cut(request, encoding)
            drop, end = self._fit(request, free, len(encoding.ids), len(self.prefix) + len(self.suffix))
            ids = tuple(self.prefix + encoding.ids[drop:end] + self.suffix)
            if self.tokenizer.mask_token_id not in ids:
                raise self._cut_off(request)
            yield Query(ids, (ids.index(self.tokenizer.mask_token_id),), (wanted,))

    def _cut_off(self, request: Request) -> ScoringError:
        return ScoringError(
            f"{request.id}: the context window of {self.window} tokens cuts off all that is to be scored."
        )

    def _hidden(self, ids: list[int], position: int, end: int) -> Query:
        """The sentence with one mask in place of the tokens [position, end)."""
        masked = list(ids)
        masked[position:end] = [self.tokenizer.mask_token_id]
        return Query(tuple(masked), (position,), (ids[position],))

    def _candidates(self, request: Request, context: Encoding) -> Query | None:
        """The query whose output is the distribution of the next token; forms of more than one token are left out."""
        ids = self.prompt(request, context)
        want = [token for token in self.words(request.candidates, request.context) if token is not None]
        if not want:
            return None
        # All candidates are read from one distribution, that after the last token.
        return Query(tuple(ids), (len(ids) - 1,) * len(want), tuple(want))

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

        A space is put before the form, unless the context ends a line. The next token of a context can
        only be compared between forms that are one token each, and no token may count twice (Dong et
        al. 2023, section 6.3: the forms of she and he).
        """
        # A tokenizer may merge a form with what is before it, so the form is read after a letter or a line break.
        if context.endswith("\n"):
            before = "a\n"
            space = ""
        else:
            before = "a"
            space = " "
        tokens: list[int | None] = []
        for form in forms:
            token = self.word(before, space + form)
            if token in tokens:
                token = None
            tokens.append(token)
        return tokens

    def _word(self, before: str, form: str) -> int | None:
        """The token of a form after a text; None where it has several, shares one with the text, or has none."""
        (encoding,) = self.encode([before + form])
        after = []
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if end > len(before):
                after.append((token, start))
        if len(after) != 1:
            return None
        token, start = after[0]
        if start < len(before) or token == self.tokenizer.unk_token_id:
            return None
        return token

    def _before(self, ids: list[int], context: int) -> list[int]:
        """The special tokens still to be put before ids, of which ``context`` are not scored; none if already there."""
        # With a context, the first scored token follows it, so that only a tokenizer's own tokens are needed.
        if context:
            frame = self.prefix
        else:
            frame = self.start
        if frame and ids[: len(frame)] == frame:
            return []
        return frame

    def _fit(self, request: Request, free: int, total: int, extra: int) -> tuple[int, int]:
        """Which tokens [drop, end) of ``total`` are kept, where the first ``free`` may be dropped."""
        # What is too much is cut from the left of the context first, then from the right end of the text.
        over = total + extra - (self.window or total + extra)
        if over <= 0:
            return 0, total
        if not self.truncate:
            raise TooLong(
                f"{request.id} needs {total + extra} tokens and the model's context window is {self.window}; "
                f"shorten the text, or allow truncation, which marks the answers."
            )
        self.truncated.add(request.id)
        drop = min(over, max(free, 0))
        return drop, total - over + drop


def _stretches(numbers: Sequence[int]) -> list[list[int]]:
    """Splits ascending numbers into stretches without gaps.

    >>> _stretches([2, 3, 5])
    [[2, 3], [5]]
    """
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][-1] + 1:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    return stretches
