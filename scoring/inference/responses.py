"""Numbers and texts become responses, each as soon as it is complete."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, count, pairwise

import numpy as np
from numpy.typing import NDArray

from scoring.inference.batching import Ints
from scoring.inference.store import ROUNDING
from scoring.inference.tokens import Query, Tokens
from scoring.types import Floats, Request, Response, ScoringError

#: The logarithm of the smallest positive number of float64. A lower one is that of an impossible token, or stands for
#: one, as -9999 does in replies of vLLM.
LOWEST = math.log(5e-324)


def is_logprob(values: Floats) -> NDArray[np.bool_]:
    """Whether numbers can be log-probabilities of tokens: finite, at most 0 but for rounding, and above underflow.

    >>> is_logprob(np.array([-3.5, 1e-7, 0.5, np.nan, -np.inf, -9999.0])).tolist()
    [True, True, False, False, False, False]
    """
    return (values <= ROUNDING) & (values >= LOWEST)


def not_a_number(source: str, request: Request, value: float) -> ScoringError:
    """The error about a number that is no log-probability; ``source`` is the model and its dtype."""
    return ScoringError(
        f"{request.id}: {source} gave {value} as a log-probability, so no metric can be computed; "
        f"try float32, or check the weights."
    )


class Responses:
    """Numbers and texts on their way to becoming responses.

    Parameters
    ----------
    tokens, requests:
        The requests, whose queries stand in ``queries``.
    source:
        The model and its dtype, for the error about a number that is none.
    on_response, progress:
        Called with each complete response, and with the number of complete responses and of requests.

    Raises
    ------
    ScoringError
        For two requests of one id, and for what :meth:`scoring.inference.tokens.Tokens.queries` refuses.
    """

    def __init__(
        self,
        tokens: Tokens,
        requests: Sequence[Request],
        source: str,
        on_response: Callable[[Response], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.requests = requests
        self.source = source
        self.on_response = on_response or (lambda _: None)
        self.progress = progress or (lambda _done, _all: None)
        self.number = {request.id: n for n, request in enumerate(requests)}
        if len(self.number) < len(requests):
            twice = next(request.id for n, request in enumerate(requests) if self.number[request.id] != n)
            raise ScoringError(
                f"Two requests have the id {twice!r}; responses are told apart by id, so give each its own."
            )
        self.queries: list[Query] = []
        self._bounds: list[list[int]] = []
        self._candidates: list[list[int | None]] = []
        owners: list[int] = []
        for number, (options, candidate_logprobs) in enumerate(tokens.queries(requests)):
            self.queries += [q for option in options for q in option] + (
                [candidate_logprobs] if candidate_logprobs else []
            )
            words = tokens.words(requests[number].candidates, requests[number].context)
            owners += [number] * self._lay_out(len(owners), options, words)
        self._owner = np.array(owners, dtype=np.int64)
        self._left = self._counted(self._owner) + [request.max_new > 0 for request in requests]
        self.values = np.full(len(owners), np.nan)
        self.texts = [""] * len(requests)
        self._replies: list[Response | None] = [None] * len(requests)
        self._done = 0
        self._complete(np.flatnonzero(self._left == 0))

    def _lay_out(self, first: int, options: list[list[Query]], words: list[int | None]) -> int:
        """Numbers the answers of one request from ``first``: options, then candidate forms; returns their count."""
        bounds = list(accumulate((sum(len(q.at) for q in option) for option in options), initial=first))
        numbers = count(bounds[-1])
        self._bounds.append(bounds)
        self._candidates.append([None if word is None else next(numbers) for word in words])
        return next(numbers) - first

    def _counted(self, numbers: Ints) -> Ints:
        return np.bincount(numbers, minlength=len(self.requests))

    def score(self, answers: Ints, values: Floats) -> None:
        """Takes log-probabilities by the numbers of their answers.

        Raises
        ------
        ScoringError
            For one that none can be, see :func:`is_logprob`.
        """
        bad = np.flatnonzero(~is_logprob(values))
        if len(bad):
            request = self.requests[self._owner[answers[bad[0]]]]
            raise not_a_number(self.source, request, float(values[bad[0]]))
        self.values[answers] = values
        self._count(self._counted(self._owner[answers]))

    def write(self, request: Request, text: str) -> None:
        """Takes a continuation."""
        number = self.number[request.id]
        self.texts[number] = text
        self._count(self._counted(np.array([number])))

    def _count(self, answered: Ints) -> None:
        self._left -= answered
        self._complete(np.flatnonzero((answered > 0) & (self._left == 0)))

    def _complete(self, numbers: Ints) -> None:
        for number in numbers.tolist():
            self._replies[number] = response = self._reply(number)
            self.on_response(response)
        self._done += len(numbers)
        self.progress(self._done, len(self.requests))

    def _reply(self, number: int) -> Response:
        bounds, candidate_logprobs = self._bounds[number], self._candidates[number]
        return Response(
            self.requests[number].id,
            tuple(tuple(self.values[a:b].tolist()) for a, b in pairwise(bounds)),
            tuple(float("nan") if w is None else float(self.values[w]) for w in candidate_logprobs),
            self.texts[number],
        )

    def all(self) -> list[Response]:
        """Every response, in the order of the requests."""
        return [response for response in self._replies if response]
