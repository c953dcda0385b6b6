"""Numbers and texts become replies, each as soon as it is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, count, pairwise

import numpy as np

from scoring.batch import Ints
from scoring.tokens import Query, Tokens
from scoring.types import Ask, Floats, Reply, ScoringError


class Replies:
    """Numbers and texts on their way to becoming replies.

    Parameters
    ----------
    tokens, asks:
        The asks, whose queries stand in ``queries``.
    source:
        The model and its dtype, for the error about a number that is none.
    on_reply, progress:
        Called with each complete reply, and with the number of complete replies and of asks.

    Raises
    ------
    ScoringError
        For two asks of one id, and for what :meth:`scoring.tokens.Tokens.queries` refuses.
    """

    def __init__(
        self,
        tokens: Tokens,
        asks: Sequence[Ask],
        source: str,
        on_reply: Callable[[Reply], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.asks = asks
        self.source = source
        self.on_reply = on_reply or (lambda _: None)
        self.progress = progress or (lambda _done, _all: None)
        self.number = {ask.id: n for n, ask in enumerate(asks)}
        if len(self.number) < len(asks):
            twice = next(ask.id for n, ask in enumerate(asks) if self.number[ask.id] != n)
            raise ScoringError(f"Two asks have the id {twice!r}; replies are told apart by id, so give each its own.")
        self.queries: list[Query] = []
        self._bounds: list[list[int]] = []
        self._watched: list[list[int | None]] = []
        owners: list[int] = []
        for number, (options, watched) in enumerate(tokens.queries(asks)):
            self.queries += [q for option in options for q in option] + ([watched] if watched else [])
            words = tokens.words(asks[number].watch, asks[number].context)
            owners += [number] * self._lay_out(len(owners), options, words)
        self._owner = np.array(owners, dtype=np.int64)
        self._left = self._counted(self._owner) + [ask.max_new > 0 for ask in asks]
        self.values = np.full(len(owners), np.nan)
        self.texts = [""] * len(asks)
        self._replies: list[Reply | None] = [None] * len(asks)
        self._done = 0
        self._complete(np.flatnonzero(self._left == 0))

    def _lay_out(self, first: int, options: list[list[Query]], words: list[int | None]) -> int:
        """Numbers one ask's answers from ``first``: those of each option, then of watched forms; returns how many."""
        bounds = list(accumulate((sum(len(q.at) for q in option) for option in options), initial=first))
        numbers = count(bounds[-1])
        self._bounds.append(bounds)
        self._watched.append([None if word is None else next(numbers) for word in words])
        return next(numbers) - first

    def _counted(self, numbers: Ints) -> Ints:
        return np.bincount(numbers, minlength=len(self.asks))

    def score(self, answers: Ints, values: Floats) -> None:
        """Takes log-probabilities by the numbers of their answers.

        Raises
        ------
        ScoringError
            For one that is not a finite number.
        """
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            ask = self.asks[self._owner[answers[bad[0]]]]
            raise self.invalid(ask, float(values[bad[0]]))
        self.values[answers] = values
        self._count(self._counted(self._owner[answers]))

    def invalid(self, ask: Ask, value: float) -> ScoringError:
        """The error about a number that is none."""
        return ScoringError(
            f"{ask.id}: {self.source} gave {value} as a log-probability, so no metric can be computed; "
            f"try float32, or check the weights."
        )

    def write(self, ask: Ask, text: str) -> None:
        """Takes a continuation."""
        number = self.number[ask.id]
        self.texts[number] = text
        self._count(self._counted(np.array([number])))

    def _count(self, answered: Ints) -> None:
        self._left -= answered
        self._complete(np.flatnonzero((answered > 0) & (self._left == 0)))

    def _complete(self, numbers: Ints) -> None:
        for number in numbers.tolist():
            self._replies[number] = reply = self._reply(number)
            self.on_reply(reply)
        self._done += len(numbers)
        self.progress(self._done, len(self.asks))

    def _reply(self, number: int) -> Reply:
        bounds, watched = self._bounds[number], self._watched[number]
        return Reply(
            self.asks[number].id,
            tuple(tuple(self.values[a:b].tolist()) for a, b in pairwise(bounds)),
            tuple(float("nan") if w is None else float(self.values[w]) for w in watched),
            self.texts[number],
        )

    def all(self) -> list[Reply]:
        """Every reply, in the order of the asks."""
        return [reply for reply in self._replies if reply]
