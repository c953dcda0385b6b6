"""How many printed numbers of each paper have one of ours beside them, and how many are in each state."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from scoring.reproduce.measured import STATES, Cell
from scoring.reproduce.printed import paper

#: The heads of :func:`by_paper`.
COUNTS = ("paper", "printed", "with one of ours", *STATES)


def by_paper(found: Sequence[Cell]) -> list[tuple[str, ...]]:
    """For each paper its title, its printed numbers, how many have one of ours beside them, and those of each state."""
    rows = []
    for name, group in groupby(found, lambda cell: cell.paper):
        own = list(group)
        states = Counter(cell.state for cell in own)
        ours = sum(cell.measured is not None for cell in own)
        rows.append((paper(name)["title"], *(f"{n:,}" for n in (len(own), ours, *(states[s] for s in STATES)))))
    return rows
