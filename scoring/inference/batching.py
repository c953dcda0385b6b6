"""Batching: queries become prefix trees, and trees of similar length become batches.

Many queries of a benchmark begin with the same tokens: twenty options after one context, or the two
sentences of a pair. A *prefix tree* holds such queries as one row of the network's input, so that the
shared tokens are computed once. Its tokens are written in depth-first order, each with its position in
the original sequence and with the range of later tokens that attend to it:

    queries   [a b c], [a b d e]           tokens        a  b  c  d  e
                                           position_ids  0  1  2  2  3
                                           ends          5  5  3  5  5

``ends[2] = 3`` says that ``c`` is visible to the tokens 2 to 2, so to itself only: ``d`` and ``e`` belong
to the other query. A query that shares nothing is a tree without branches, an ordinary sequence.

The network receives a tree as position ids and a 4-D attention mask. Whether it honours both is measured
(:mod:`scoring.inference.measurements`); a network that does not receives plain sequences.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import compress, count, pairwise
from operator import ne
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from scoring.inference.tokens import Query

Ints = NDArray[np.int64]


#: What takes as many tokens of a batch as its length says.
S = TypeVar("S", bound=Sized)
T = TypeVar("T")


@dataclass(slots=True)
class Tree:
    """One row of a batch: queries that share their first tokens.

    Attributes
    ----------
    ids, position_ids:
        Token ids in depth-first order, and their positions in the original sequences.
    ends:
        The tokens ``j`` to ``ends[j] - 1`` attend to token ``j``; none where ``ends[j]`` is ``j``.
    at, want, answer:
        The output at token ``at[k]`` is read for the probability of token ``want[k]``, which is the
        answer number ``answer[k]``.
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
        """Whether it needs position ids and a 4-D mask; an ordinary sequence with hidden tokens does not."""
        return self.position_ids != list(range(len(self.ids)))

    def extend(self, path: list[int], query: Query, shared: int) -> list[int]:
        """Adds a query whose first ``shared`` tokens are the nodes ``path``; returns the nodes of all its tokens."""
        first = len(self.ids)
        length = len(query.ids)
        # The nodes that this query leaves are seen up to here: tokens that follow belong to other queries.
        for node in path[shared:]:
            if self.ends[node] < 0:
                self.ends[node] = first
        new = list(range(first, first + length - shared))
        self.ids += query.ids[shared:]
        # The first token has position 0, the tokens after it follow the gap.
        if not shared:
            self.position_ids.append(0)
        self.position_ids += range(max(shared, 1) + query.gap, length + query.gap)
        # -1: seen up to the last token, whose place is not known yet.
        self.ends += [-1] * len(new)
        path = path[:shared] + new
        # A hidden token ends at itself, so that nothing attends to it.
        for node in path[max(shared, 1) : 1 + query.hidden]:
            self.ends[node] = node
        return path

    def close(self) -> None:
        """Sets the end of tokens that are visible up to the last token."""
        length = len(self.ids)
        self.ends = [length if end < 0 else end for end in self.ends]

    def read(self, path: Sequence[int], query: Query, first: int) -> None:
        """Adds the answers of a query, numbered from ``first``, at the nodes of its tokens."""
        self.at += [path[i] for i in query.at]
        self.want += query.want
        self.answer += range(first, first + len(query.at))


def plan(queries: Sequence[Query], *, share: bool, merge: bool, reach: float, longest: int) -> list[Tree]:
    """Trees that hold all queries, longest first; answers are numbered through the queries in order.

    Parameters
    ----------
    share:
        Whether queries that begin with the same tokens may share a tree, and a query that is the
        beginning of another be read from it. Only for causal models.
    merge:
        Whether equal queries are computed once.
    reach:
        Number of tokens that one token can attend to for the cost of its products with the weights of a
        layer. It decides when a branch costs more in attention than it saves.
    longest:
        A tree with branches has at most this many tokens.

    >>> trees = plan([Query((1, 2, 3), (2,), (9,)), Query((1, 2, 4), (2,), (9,))],
    ...              share=True, merge=True, reach=48, longest=8)
    >>> [(tree.ids, tree.position_ids, tree.ends) for tree in trees]
    [([1, 2, 3, 4], [0, 1, 2, 2], [4, 4, 3, 4])]
    """
    # The number of the first answer of each query.
    firsts = []
    count = 0
    for query in queries:
        firsts.append(count)
        count += len(query.at)
    # Sorted, queries with the same beginning are neighbours, and each shares most with the one before it.
    order = sorted(range(len(queries)), key=lambda n: (queries[n].hidden, queries[n].gap, queries[n].ids))
    lengths = [len(queries[number].ids) for number in order]
    shared = [0]
    for before, number in pairwise(order):
        shared.append(_shared(queries[before], queries[number]))
    if share:
        starts = _starts(np.array(lengths), np.array(shared), reach, longest)
    else:
        starts = {0}
        for place in range(1, len(order)):
            # Without shared contexts only queries with the same tokens are merged: all of both is shared.
            is_same = lengths[place - 1] == lengths[place] == shared[place]
            if not merge or not is_same:
                starts.add(place)
    trees: list[Tree] = []
    path: list[int] = []
    # A query continues the path of the one before it, of which it keeps the shared nodes.
    for place, number in enumerate(order):
        if place in starts:
            trees.append(Tree())
            path = []
            shared[place] = 0
        path = trees[-1].extend(path, queries[number], shared[place])
        trees[-1].read(path, queries[number], firsts[number])
    for tree in trees:
        tree.close()
    return sorted(trees, key=len, reverse=True)


def common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Number of first tokens, or characters, that two sequences share.

    >>> common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    # Called for each pair of neighbours among all queries, so it runs without a loop of Python.
    return next(compress(count(), map(ne, first, second)), min(len(first), len(second)))


def _shared(first: Query, second: Query) -> int:
    """Number of first tokens that two queries share at the same positions."""
    if (first.hidden, first.gap) != (second.hidden, second.gap):
        return 0
    return common(first.ids, second.ids)


def _starts(lengths: Ints, shared: Ints, reach: float, longest: int) -> set[int]:
    """Which of the sorted queries begin a tree, so that all trees together take the fewest operations.

    A tree of ``n`` tokens costs ``n * (reach + n)``: ``reach`` for the weights, ``n`` for attention, which is
    computed for pairs that do not see each other as well. Sorted queries that share a tree are neighbours, so
    dynamic programming finds the optimum: the best trees for the first ``n`` queries are the best trees for
    the first ``m`` and one tree of the queries ``m`` to ``n``, whose size is the length of query ``m`` and the
    tokens that each later query adds.
    """
    grown = np.cumsum(lengths - shared)
    # least[n] is the cost of the best trees for the first n queries, begun[n - 1] where the last of them begins.
    least, begun = np.zeros(len(lengths) + 1), np.zeros(len(lengths), dtype=np.int64)
    low = 0
    for last in range(len(lengths)):
        # A tree is smaller the later its first query: all first queries from the lowest allowed one on are compared.
        while low < last and lengths[low] + grown[last] - grown[low] > longest:
            low += 1
        sizes = lengths[low : last + 1] + grown[last] - grown[low : last + 1]
        # Weights cost the size of a tree times the reach, attention its square: dynamic programming over where it
        # begins.
        costs = least[low : last + 1] + sizes * (reach + sizes)
        best = int(costs.argmin())
        least[last + 1], begun[last] = costs[best], low + best
    # From the end: each tree begins where the one after it was begun best.
    starts: set[int] = set()
    last = len(lengths)
    while last > 0:
        last = int(begun[last - 1])
        starts.add(last)
    return starts


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch may be.

    Attributes
    ----------
    tokens, size:
        The most tokens, padding included, and the most rows of a batch; one row is always allowed.
    together:
        ``together(first, row)`` says whether a row may be in the batch that the longer ``first`` begins.
    alone:
        Makes the error for a row that does not fit into memory by itself.
    """

    tokens: int
    size: int | None
    alone: Callable[[Sized, Exception], Exception]
    together: Callable[[Any, Any], bool] = lambda _first, _row: True


def batch_end(rows: Sequence[Sized], start: int, limits: Limits, tokens: int) -> int:
    """The end of the largest batch of rows, longest first, that begins at ``start`` and keeps to the limits.

    >>> bounds = Limits(8, None, lambda row, error: error)
    >>> batch_end(["abc", "abc", "ab"], 0, bounds, tokens=8)
    2
    """
    # Rows come longest first, so the first one is the width to which all others are padded.
    most = max(tokens // max(len(rows[start]), 1), 1)
    if limits.size:
        most = min(most, limits.size)
    end = min(start + most, len(rows))
    for number in range(start + 1, end):
        if not limits.together(rows[start], rows[number]):
            return number
    return end


def in_batches(
    rows: Sequence[S], compute: Callable[[Sequence[S]], T], limits: Limits
) -> Iterator[tuple[Sequence[S], T]]:
    """Computes rows, longest first, in batches, and gives each batch with its result, in order.

    When a batch does not fit into memory it is halved and repeated, and the batches after it are as small.

    Raises
    ------
    Exception
        What ``limits.alone`` makes for a row that does not fit by itself.
    """
    tokens, done = limits.tokens, 0
    while done < len(rows):
        batch = rows[done : batch_end(rows, done, limits, tokens)]
        try:
            result = compute(batch)
        except Exception as error:
            if not out_of_memory(error):
                raise
            if len(batch) == 1:
                raise limits.alone(batch[0], error) from None
            # Half of what did not fit, for this batch and those that follow, which have shorter rows.
            tokens = max(len(batch) * len(batch[0]) // 2, 1)
            continue
        yield batch, result
        done += len(batch)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory did not suffice."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    # On a CPU and in cuBLAS, torch raises a plain RuntimeError.
    text = str(error)
    return "can't allocate memory" in text or "CUBLAS_STATUS_ALLOC_FAILED" in text


def padded(lists: Sequence[Sequence[int]], fill: int, width: int, *, left: bool = False) -> Ints:
    """Lists as the rows of one array, filled up on the right or on the left.

    >>> padded([[1, 2], [3]], 0, 2, left=True).tolist()
    [[1, 2], [0, 3]]
    """
    table = np.full((len(lists), width), fill, dtype=np.int64)
    for row, values in zip(table, lists, strict=True):
        if left:
            row[width - len(values) :] = values
        else:
            row[: len(values)] = values
    return table
