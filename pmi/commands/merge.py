"""``python -m pmi merge``: tables of counts added up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pmi.counting.counts import merge_files


def main(
    counts: Annotated[list[Path], typer.Argument(metavar="COUNTS...", help="Files that counting wrote, of one rule.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table, as Parquet.")],
) -> None:
    """Add up tables of counts, such as those of parts of a corpus; the order does not matter.

    Tables that were counted by different rules are refused, and so are those of corpora with different names:
    count the parts of a corpus with one --name.
    """
    total = merge_files(counts, out)
    told = f"{total.words:,} words, {total.totals.words:,} times in all, from {len(counts)} tables; the sum is {out}."
    Console().print(told, markup=False, highlight=False, soft_wrap=True)
