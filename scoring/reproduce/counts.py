"""How many printed numbers of each paper have one of ours beside them, and how many are in each state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from scoring.reproduce.measured import STATES, Cell
from scoring.reproduce.printed import paper

#: The heads of :func:`by_paper`.
COUNTS = ("paper", "printed", "with one of ours", *STATES)


def by_paper(found: Sequence[Cell]) -> list[tuple[str, ...]]:
    """For each paper its title, its printed numbers, how many have one of ours beside them, and those of each state."""
    return [row(name, Counter(cell.state for cell in group)) for name, group in groupby(found, lambda cell: cell.paper)]


def row(name: str, states: Mapping[str, int]) -> tuple[str, ...]:
    """The row of a paper, whose numbers have these states."""
    # Of the first three states a number has one of ours beside it.
    ours = sum(states.get(state, 0) for state in STATES[:3])
    numbers = (sum(states.values()), ours, *(states.get(state, 0) for state in STATES))
    return (paper(name)["title"], *(f"{number:,}" for number in numbers))
