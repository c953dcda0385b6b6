"""The statistics of Table 4 of UnStereoEval, from the built data: ``python -m tools.table_4 [--data output]``.

For each set of natural templates: their number, seed words (gendered expressions in Winogender, jobs in WinoBias), and
median and maximum of the pronouns, of the place of the first one, of the words, and of |MaxPMIDiff|. Words stand
between spaces, and places are counted from 1.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import builders
from scoring.report.numbers import aligned

SETS = ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
COLUMNS = ("templates", "seed words", "pronouns", "first place", "words", "|MaxPMIDiff|")
_SLOT = re.compile(r"\{[a-z_]+\}")


def statistics(templates: Sequence[str], words: Sequence[str], largest: Sequence[float]) -> list[str]:
    """The cells of a set; a pair of numbers is median and maximum.

    >>> statistics(["Then {nominative} sang to {reflexive}.", "I saw {accusative}."], ["song", "song"], [-0.5, 0.1])
    ['2', '1', '1.5, 2', '2.5, 3', '4, 5', '0.3, 0.5']
    """
    split = [template.split() for template in templates]
    counts = [len(_SLOT.findall(template)) for template in templates]
    places = [next((n for n, word in enumerate(parts, 1) if _SLOT.search(word)), 0) for parts in split]
    known = [abs(value) for value in largest if np.isfinite(value)]
    pairs = (counts, [place for place in places if place], [len(parts) for parts in split], known)
    return [
        str(len(templates)),
        str(len({word.lower() for word in words})),
        *(f"{np.median(values):.3g}, {max(values):.3g}" for values in pairs),
    ]


def rows(data: Path) -> Iterator[tuple[str, ...]]:
    """The lines of the table, its heading first."""
    yield "set", *COLUMNS
    for name in SETS:
        built = builders.load("unstereo", f"{name}-paper", out=data)
        kept = [row for split in built.values() for row in split if row["natural"] is not False]
        columns = ([row[column] for row in kept] for column in ("template", "word", "max_pmi_diff"))
        template, word, largest = columns
        yield name, *statistics(template, word, [np.nan if value is None else value for value in largest])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("output"), help="Folder of the built data sets.")
    print(*aligned(list(rows(parser.parse_args().data))), sep="\n")


if __name__ == "__main__":
    main()
