"""How many printed numbers of each paper have one of ours, and how many are in each state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from scoring.reproduce.measured import STATES, Cell
from scoring.reproduce.printed import paper

#: The heads of :func:`by_paper`.
COUNTS = ("paper", "printed", "with one of ours", *STATES)


def by_paper(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """For each paper its title, its printed numbers, how many have one of ours, and those of each state."""
    rows = []
    for name, cells_of_paper in groupby(cells, lambda cell: cell.paper):
        rows.append(row(name, Counter(cell.state for cell in cells_of_paper)))
    return rows


def row(name: str, states: Mapping[str, int]) -> tuple[str, ...]:
    """The row of a paper, whose numbers have these states."""
    counts = [states.get(state, 0) for state in STATES]
    # A number of the first three states has one of ours.
    texts = [paper(name)["title"], f"{sum(states.values()):,}", f"{sum(counts[:3]):,}"]
    for count in counts:
        texts.append(f"{count:,}")
    return tuple(texts)
