"""Queries to rows and rows to batches: what is shared is computed once, what is alike in length runs together.

A row is a tree of tokens written in depth-first order: a context, then every continuation of it, each
of which sees the context and itself alone. So twenty options cost their own tokens and one context,
without a copy of a cache. A row without branches is an ordinary sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scoring.tokens import Query

Ints = NDArray[np.int64]


class Sized(Protocol):
    """Anything that takes so many tokens of a batch."""

    def __len__(self) -> int: ...


S = TypeVar("S", bound=Sized)
T = TypeVar("T")

#: A branch is worth its longer row when at least this share of its tokens is in the row already.
WORTH = 0.25


@dataclass(slots=True)
class Row:
    """One row of a batch.

    Token ``j`` is seen by the tokens ``j`` to ``ends[j] - 1``; ``depths`` are positions in the original
    sequences. The output at token ``at[k]`` is read for the probability of token ``want[k]``, which is
    answer number ``answer[k]``.
    """

    ids: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    want: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def branched(self) -> bool:
        """Whether some token must not see all tokens before it."""
        return self.depths[-1] != len(self.ids) - 1

    def extend(self, path: list[int], ids: Sequence[int], shared: int) -> list[int]:
        """Adds a sequence whose first ``shared`` tokens stand at ``path``; returns where all its tokens stand."""
        for node in path[shared:]:
            self.ends[node] = len(self.ids)
        new = range(len(self.ids), len(self.ids) + len(ids) - shared)
        self.ids += ids[shared:]
        self.depths += range(shared, len(ids))
        self.ends += [-1] * len(new)
        return [*path[:shared], *new]

    def close(self) -> None:
        """Ends the tokens that are seen to the end of the row."""
        self.ends = [len(self.ids) if end < 0 else end for end in self.ends]

    def read(self, path: Sequence[int], query: Query, first: int) -> None:
        """Has the query's answers, numbered from ``first``, read at the places of its tokens."""
        self.at += [path[i] for i in query.at]
        self.want += query.want
        self.answer += range(first, first + len(query.at))


def plan(queries: Sequence[Query], *, share: bool, merge: bool, width: int, longest: int) -> list[Row]:
    """Rows for queries, longest first; answers are numbered through the queries in order.

    Parameters
    ----------
    share:
        Whether sequences that begin alike may branch off one row, and a sequence that is the
        beginning of another be read from it. Only for causal models.
    merge:
        Whether equal sequences are computed once.
    width:
        The model's width, which tells when a branch costs more attention than it saves.
    longest:
        The length beyond which a row takes no more branches.

    >>> rows = plan([Query((1, 2, 3), (2,), (9,)), Query((1, 2, 4), (2,), (9,))],
    ...             share=True, merge=True, width=8, longest=8)
    >>> [(row.ids, row.depths, row.ends) for row in rows]
    [([1, 2, 3, 4], [0, 1, 2, 2], [4, 4, 3, 4])]
    """
    firsts = np.cumsum([0, *(len(q.at) for q in queries)])
    rows: list[Row] = []
    path: list[int] = []
    last: tuple[int, ...] = ()
    for number in sorted(range(len(queries)), key=lambda n: queries[n].ids):
        query = queries[number]
        shared = common(last, query.ids)
        same = merge and shared == len(last) == len(query.ids)
        if not same and not (share and _worth(rows[-1:], len(query.ids), shared, width, longest)):
            rows.append(Row())
            path, shared = [], 0
        path = rows[-1].extend(path, query.ids, shared)
        rows[-1].read(path, query, int(firsts[number]))
        last = query.ids
    for row in rows:
        row.close()
    return sorted(rows, key=len, reverse=True)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens two sequences share.

    >>> common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _worth(rows: Sequence[Row], length: int, shared: int, width: int, longest: int) -> bool:
    """Whether a sequence should branch off the last row, of which it has its first ``shared`` tokens.

    A token costs about 24 width² operations in the weights of a layer and 4 width for every other token
    of its row in attention. In units of 4 width a row by itself costs length * (6 width + length), and a
    branch its new tokens times (6 width + 2 row), because old and new tokens look at each other in vain.
    """
    if not rows or shared < WORTH * length:
        return False
    new, row = length - shared, len(rows[0])
    return row + new <= max(longest, length) and new * (6 * width + 2 * row) < length * (6 * width + length)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch may be: at most ``tokens`` padded tokens and ``size`` rows.

    ``too_big`` tells errors about memory from others, ``alone`` makes the error about a row that does
    not fit by itself.
    """

    tokens: int
    size: int | None
    too_big: Callable[[Exception], bool]
    alone: Callable[[Sized, Exception], Exception]


def run(rows: Sequence[S], compute: Callable[[Sequence[S]], T], limits: Limits) -> Iterator[tuple[Sequence[S], T]]:
    """Computes rows, longest first, in batches.

    When a batch does not fit into memory it is halved and repeated, and so are the batches after it.

    Raises
    ------
    Exception
        What ``limits.alone`` makes of a row that does not fit by itself.
    """
    tokens, done = limits.tokens, 0
    while done < len(rows):
        length = len(rows[done])
        batch = rows[done : done + max(1, min(tokens // length, limits.size or len(rows)))]
        try:
            result = compute(batch)
        except Exception as error:
            if not limits.too_big(error):
                raise
            if len(batch) == 1:
                raise limits.alone(batch[0], error) from None
            tokens = length * (len(batch) // 2)
            continue
        yield batch, result
        done += len(batch)


def padded(lists: Sequence[Sequence[int]], fill: int, width: int, *, left: bool = False) -> Ints:
    """Lists as the rows of one array, filled up on the right or on the left.

    >>> padded([[1, 2], [3]], 0, 2, left=True).tolist()
    [[1, 2], [0, 3]]
    """
    table = np.full((len(lists), width), fill, dtype=np.int64)
    for row, values in zip(table, lists, strict=True):
        row[width - len(values) if left else 0 : width if left else len(values)] = values
    return table
