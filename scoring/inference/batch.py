"""Queries to rows and rows to batches: what is shared is computed once, what is alike in length runs together.

A row is a tree of tokens written in depth-first order: a context, then every continuation of it, each
of which sees the context and itself alone. So twenty options cost their own tokens and one context,
without a copy of a cache. A row without branches is an ordinary sequence; rows may stand behind one
another in one row, out of each other's sight.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, count, pairwise
from math import ceil
from operator import itemgetter, ne
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scoring.inference.tokens import Query

Ints = NDArray[np.int64]


class Sized(Protocol):
    """Anything that takes so many tokens of a batch."""

    def __len__(self) -> int: ...


S = TypeVar("S", bound=Sized)
T = TypeVar("T")

#: Tokens that vector units take at one time; those left over they take one by one.
STEP = 8
#: Room for rows behind one another, in lengths of the middle one.
ROOMS = (1, 1.25, 1.5, 2, 3, 4)


class Price(NamedTuple):
    """What rows cost, where one token's look at another costs 1.

    ``reach`` is how many tokens one can look at for the price of its way through the weights of a layer,
    ``uneven`` what a token costs besides for each by which the width of its row is beyond a multiple of ``STEP``.

    >>> Price(reach=100, uneven=10).row(9), Price(reach=100, uneven=10).row(16)
    (1071, 1856)
    """

    reach: float
    uneven: float

    def row(self, width: int) -> float:
        """The price of one row, tokens that see each other in vain included."""
        return width * (self.reach + width + self.uneven * (width % STEP))

    def width(self, longest: int) -> int:
        """How wide to make rows of at most so many tokens: as they are, or even where that is cheaper.

        >>> Price(reach=100, uneven=10).width(9), Price(reach=100, uneven=10).width(15)
        (9, 16)
        """
        return min(longest, even(longest), key=self.row)

    def batches(self, lengths: Sequence[int], tokens: int) -> float:
        """The price of rows of these lengths, longest first, in batches of at most so many tokens."""
        total, first = 0.0, 0
        for rows in full(lengths, tokens):
            total += rows * self.row(self.width(lengths[first]))
            first += rows
        return total


def full(lengths: Sequence[int], tokens: int, size: int | None = None) -> Iterator[int]:
    """How many rows, longest first, go into each batch when it takes all that it has room for, and one at least.

    >>> list(full([9, 4, 4, 3], tokens=8)), list(full([9, 4, 4, 3], tokens=8, size=1))
    ([1, 2, 1], [1, 1, 1, 1])
    """
    first = 0
    while first < len(lengths):
        rows = min(max(tokens // lengths[first], 1), size or len(lengths), len(lengths) - first)
        yield rows
        first += rows


def even(length: float) -> int:
    """The next multiple of ``STEP``.

    >>> even(8), even(8.5)
    (8, 16)
    """
    return STEP * ceil(length / STEP)


@dataclass(slots=True)
class Row:
    """One row of a batch.

    Token ``j`` is seen by the tokens ``j`` to ``ends[j] - 1``, and by none where ``ends[j]`` is ``j``;
    ``position_ids`` are positions in the original sequences. The output at token ``at[k]`` is read for the
    probability of token ``want[k]``, which is answer number ``answer[k]``.
    """

    ids: list[int] = field(default_factory=list)
    position_ids: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    want: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def branched(self) -> bool:
        """Whether it takes more than a mark at hidden tokens to say who sees whom, and where each stands."""
        return self.position_ids != list(range(len(self.ids)))

    def extend(self, path: list[int], query: Query, shared: int) -> list[int]:
        """Adds a sequence whose first ``shared`` tokens stand at ``path``; returns where all its tokens stand."""
        here, length = len(self.ids), len(query.ids)
        for node in path[shared:]:
            self.ends[node] = here if self.ends[node] < 0 else self.ends[node]
        new = range(here, here + length - shared)
        self.ids += query.ids[shared:]
        # The first token stands at 0, those after it behind the gap.
        self.position_ids += [0] * (not shared) + list(range(max(shared, 1) + query.gap, length + query.gap))
        self.ends += [-1] * len(new)
        path = [*path[:shared], *new]
        for node in path[max(shared, 1) : 1 + query.hidden]:
            self.ends[node] = node
        return path

    def close(self) -> None:
        """Ends the tokens that are seen to the end of the row."""
        length = len(self.ids)
        self.ends = [length if end < 0 else end for end in self.ends]

    def append(self, other: Row) -> None:
        """Puts another closed row behind this one, out of each other's sight."""
        here = len(self.ids)
        self.ids += other.ids
        self.position_ids += other.position_ids
        self.ends += [end + here for end in other.ends]
        self.at += [at + here for at in other.at]
        self.want += other.want
        self.answer += other.answer

    def read(self, path: Sequence[int], query: Query, first: int) -> None:
        """Has the query's answers, numbered from ``first``, read at the places of its tokens."""
        self.at += [path[i] for i in query.at]
        self.want += query.want
        self.answer += range(first, first + len(query.at))


def plan(queries: Sequence[Query], *, share: bool, merge: bool, reach: float, longest: int) -> list[Row]:
    """Rows for queries, longest first; answers are numbered through the queries in order.

    Parameters
    ----------
    share:
        Whether sequences that begin alike may branch off one row, and a sequence that is the
        beginning of another be read from it. Only for causal models.
    merge:
        Whether equal sequences are computed once.
    reach:
        How many tokens one can look at for the price of its way through the weights, which tells when
        a branch costs more attention than it saves.
    longest:
        The length beyond which a row takes no more branches.

    >>> rows = plan([Query((1, 2, 3), (2,), (9,)), Query((1, 2, 4), (2,), (9,))],
    ...             share=True, merge=True, reach=48, longest=8)
    >>> [(row.ids, row.position_ids, row.ends) for row in rows]
    [([1, 2, 3, 4], [0, 1, 2, 2], [4, 4, 3, 4])]
    """
    firsts = np.cumsum([0, *(len(q.at) for q in queries)])
    order = sorted(range(len(queries)), key=lambda n: (queries[n].hidden, queries[n].gap, queries[n].ids))
    lengths = [len(queries[n].ids) for n in order]
    shared = [0, *(_shared(queries[one], queries[other]) for one, other in pairwise(order))]
    if share:
        starts = _starts(np.array(lengths), np.array(shared), reach, longest)
    else:
        same = (merge and n == a == b for n, (a, b) in zip(shared[1:], pairwise(lengths), strict=True))
        starts = {0, *(n for n, with_last in enumerate(same, 1) if not with_last)}
    rows: list[Row] = []
    path: list[int] = []
    for place, number in enumerate(order):
        if place in starts:
            rows.append(Row())
            path, shared[place] = [], 0
        path = rows[-1].extend(path, queries[number], shared[place])
        rows[-1].read(path, queries[number], int(firsts[number]))
    for row in rows:
        row.close()
    return sorted(rows, key=len, reverse=True)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens two sequences share.

    >>> common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    return next(compress(count(), map(ne, one, other)), min(len(one), len(other)))


def _shared(one: Query, other: Query) -> int:
    """How many first tokens two sequences share, at the same places."""
    return common(one.ids, other.ids) if (one.hidden, one.gap) == (other.hidden, other.gap) else 0


def _starts(lengths: Ints, shared: Ints, reach: float, longest: int) -> set[int]:
    """Which of the sorted sequences begin a row, when all rows together are to take the fewest operations.

    In units of one look, a row costs length * (reach + length), branches looking at each other in vain
    included. A row of the sequences from one to another has the tokens of the first and the new ones of
    the others, so the best rows for the first n sequences follow from those for fewer.
    """
    grown = np.cumsum(lengths - shared)
    least, begun = np.zeros(len(lengths) + 1), np.zeros(len(lengths), dtype=np.int64)
    low = 0
    for last in range(len(lengths)):
        while low < last and lengths[low] + grown[last] - grown[low] > longest:
            low += 1
        rows = lengths[low : last + 1] + grown[last] - grown[low : last + 1]
        costs = least[low : last + 1] + rows * (reach + rows)
        best = int(costs.argmin())
        least[last + 1], begun[last] = costs[best], low + best
    found: set[int] = set()
    last = len(lengths)
    while last > 0:
        last = int(begun[last - 1])
        found.add(last)
    return found


def packed(rows: Sequence[Row], price: Price, tokens: int, longest: int) -> list[Row]:
    """Rows put behind one another so that many come to one width, where that is cheaper; longest first.

    Parameters
    ----------
    tokens:
        The most tokens of a batch, and so of rows behind one another.
    longest:
        The length beyond which a row takes no others behind it.

    >>> made = [Row([1, 2, 3], [0, 1, 2], [3, 3, 3]), Row([4, 5], [0, 1], [2, 2]), Row([6], [0], [1])]
    >>> [(row.ids, row.ends) for row in packed(made, Price(reach=48, uneven=10), tokens=16, longest=16)]
    [([1, 2, 3, 4, 5, 6], [3, 3, 3, 5, 5, 6])]
    """
    if not rows:
        return []
    lengths = [len(row) for row in rows]
    middle = sorted(lengths)[len(lengths) // 2]
    rooms = [0, *sorted({room for more in ROOMS if (room := even(more * middle)) <= min(tokens, longest)})]
    found = [_filled(lengths, room) for room in rooms]
    best = min(found, key=lambda groups: price.batches([length for length, _ in groups], tokens))
    return [_joined([rows[n] for n in group]) for _, group in best]


def _filled(lengths: Sequence[int], room: int) -> list[tuple[int, list[int]]]:
    """Numbers of rows in groups with their lengths together, longest first.

    A group is the longest row left and, as long as there is room, the longest of the others that it has room for.
    """
    left: dict[int, list[int]] = {}
    for number in reversed(range(len(lengths))):
        left.setdefault(lengths[number], []).append(number)
    sizes = sorted(left)
    groups = []
    while sizes:
        total, group = 0, list[int]()
        bound = max(room, sizes[-1])
        while place := bisect_right(sizes, bound - total):
            size = sizes[place - 1]
            total += size
            group.append(left[size].pop())
            if not left[size]:
                sizes.pop(place - 1)
        groups.append((total, group))
    return sorted(groups, key=itemgetter(0), reverse=True)


def _joined(rows: Sequence[Row]) -> Row:
    """One row of several, behind one another."""
    if len(rows) == 1:
        return rows[0]
    found = Row()
    for row in rows:
        found.append(row)
    return found


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch may be: at most ``size`` rows and ``tokens`` tokens, padded to the longest row.

    ``too_big`` tells errors about memory from others, ``alone`` makes the error about a row that does
    not fit by itself.
    """

    tokens: int
    size: int | None
    too_big: Callable[[Exception], bool]
    alone: Callable[[Sized, Exception], Exception]


def cut(rows: Sequence[S], limits: Limits, tokens: int, workers: int) -> list[Sequence[S]]:
    """Rows, longest first, in batches of about one number of tokens, of which every worker has as many as the others.

    >>> bounds = Limits(8, None, lambda error: False, lambda row, error: error)
    >>> cut(["abc", "abc", "ab", "ab", "a"], bounds, 8, workers=2)
    [['abc', 'abc'], ['ab', 'ab', 'a']]
    """
    lengths = list(map(len, rows))
    number = workers * ceil(len(list(full(lengths, tokens, limits.size))) / workers)
    left, done = sum(lengths), 0
    found: list[Sequence[S]] = []
    while done < len(rows):
        most = next(full(lengths[done : done + tokens], tokens, limits.size))
        totals = list(accumulate(lengths[done : done + most]))
        share = bisect_left(totals, left / max(number - len(found), 1), hi=most - 1) + 1
        found.append(rows[done : done + share])
        left -= totals[share - 1]
        done += share
    return found


def run(
    rows: Sequence[S],
    compute: Callable[[Sequence[S]], T],
    limits: Limits,
    each: Callable[..., Iterator[T]] = map,
    workers: int = 1,
) -> Iterator[tuple[Sequence[S], T]]:
    """Computes rows, longest first, in batches, and gives each with its result, in order.

    When a batch does not fit into memory it is halved and repeated, and so are the batches after it, one at
    a time.

    Parameters
    ----------
    each, workers:
        What maps ``compute`` over batches, and how many of them at one time.

    Raises
    ------
    Exception
        What ``limits.alone`` makes of a row that does not fit by itself.
    """
    tokens, done = limits.tokens, 0
    while done < len(rows):
        batches = cut(rows[done:], limits, tokens, workers)
        results = each(compute, batches)
        for batch in batches:
            try:
                result = next(results)
            except Exception as error:
                if not limits.too_big(error):
                    raise
                if len(batch) == 1 and workers == 1:
                    raise limits.alone(batch[0], error) from None
                tokens = max(len(batch) * len(batch[0]) // 2, 1)
                each, workers = map, 1
                break
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
