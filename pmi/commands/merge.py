"""``probes pmi merge``: adds up tables of counts."""

from pathlib import Path
from typing import Annotated

import typer

from cards.common.terminal import show, terminal
from pmi.counting.counts import check_target, merge_files


def main(
    counts: Annotated[
        list[Path], typer.Argument(metavar="COUNTS...", help="Files that pmi count wrote, with one rule.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The sum, as Parquet.")],
) -> None:
    """Add up tables of counts, such as those of parts of a corpus; the order does not matter.

    Tables with different rules, and those that have counts of the same file, are refused. The name of the corpus is
    part of the rule: count the parts of a corpus with one --name.
    """
    check_target(out)
    summary = merge_files(counts, out)
    words = f"{summary.words:,} different words, {summary.totals.words:,} word tokens"
    show(terminal(), [f"{words}, from {len(counts)} tables; the sum is {out}."])
