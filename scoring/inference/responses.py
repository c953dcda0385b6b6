"""Numbers and texts become responses, each as soon as it is complete."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass(eq=False)
class IncomingResponses:
    """Numbers and texts on their way to becoming responses.

    Parameters
    ----------
    tokens, requests:
        The requests, whose queries are in ``queries``.
    source:
        The model and its dtype, for the error about a number that is no log-probability.
    on_response, progress:
        Called with each complete response, and with the number of complete responses and of requests.

    Raises
    ------
    ScoringError
        For two requests of one id, and for what :meth:`scoring.inference.tokens.Tokens.queries` refuses.
    """

    tokens: Tokens
    requests: Sequence[Request]
    source: str
    on_response: Callable[[Response], None] | None = None
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        self.number = {request.id: number for number, request in enumerate(self.requests)}
        for number, request in enumerate(self.requests):
            # Of two requests with one id, the later one has its number there.
            if self.number[request.id] != number:
                raise ScoringError(
                    f"Two requests have the id {request.id!r}; responses are told apart by id, so give each its own."
                )
        self.queries: list[Query] = []
        # For each request where the answers of each option begin, and the answer of each candidate form that has one.
        self._bounds: list[list[int]] = []
        self._candidates: list[list[int | None]] = []
        # The number of the request of each answer.
        owners: list[int] = []
        for number, (options, candidates) in enumerate(self.tokens.queries(self.requests)):
            request = self.requests[number]
            # The answers of a request have the next numbers: those of its options, then those of its forms.
            count = len(owners)
            bounds = [count]
            for option in options:
                self.queries += option
                count += sum(len(query.at) for query in option)
                bounds.append(count)
            self._bounds.append(bounds)
            if candidates:
                self.queries.append(candidates)
            forms: list[int | None] = []
            for word in self.tokens.words(request.candidates, request.context):
                if word is None:
                    forms.append(None)
                else:
                    forms.append(count)
                    count += 1
            self._candidates.append(forms)
            owners += [number] * (count - len(owners))
        self._owner = np.array(owners, dtype=np.int64)
        # How many answers each request still waits for; a continuation is one of them.
        self._left = self._counted(self._owner) + [request.max_new > 0 for request in self.requests]
        self.values = np.full(len(owners), np.nan)
        self.texts = [""] * len(self.requests)
        self._replies: list[Response | None] = [None] * len(self.requests)
        self._done = 0
        # A request of which nothing is wanted is complete at once.
        self._complete(np.flatnonzero(self._left == 0))

    def _counted(self, numbers: Ints) -> Ints:
        """How often each request is among the numbers of requests."""
        return np.bincount(numbers, minlength=len(self.requests))

    def score(self, answers: Ints, values: Floats) -> None:
        """Takes log-probabilities by the numbers of their answers.

        Raises
        ------
        ScoringError
            For a number that cannot be one, see :func:`is_logprob`.
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
        """Makes the responses to the requests of these numbers, which wait for nothing more."""
        for number in numbers.tolist():
            logprobs = []
            for first, end in pairwise(self._bounds[number]):
                logprobs.append(tuple(self.values[first:end].tolist()))
            candidate_logprobs = []
            for form in self._candidates[number]:
                # A form of several tokens has no probability.
                value = math.nan
                if form is not None:
                    value = float(self.values[form])
                candidate_logprobs.append(value)
            response = Response(
                self.requests[number].id, tuple(logprobs), tuple(candidate_logprobs), self.texts[number]
            )
            self._replies[number] = response
            if self.on_response:
                self.on_response(response)
        self._done += len(numbers)
        if self.progress:
            self.progress(self._done, len(self.requests))

    def all(self) -> list[Response]:
        """Every response, in the order of the requests."""
        return [response for response in self._replies if response]
