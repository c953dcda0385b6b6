"""``python -m pmi table``: what counts say, in the terminal, as a file and as pictures."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from pmi.analysis.analyse import Agreement, Marginal, agreement, counted_pairs, marginals
from pmi.analysis.analyse import table as analysed
from pmi.analysis.pairs import parse
from pmi.counting.counts import Counts
from pmi.files import write_rows


class Form(StrEnum):
    """Formats of pictures."""

    svg = "svg"
    png = "png"


def main(
    counts: Annotated[Path, typer.Argument(metavar="COUNTS", help="A file that python -m pmi count wrote.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every word: .parquet, .csv, .tsv or .jsonl.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw PMI, δ and the agreement of pairs.")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="Format of the pictures.")] = Form.svg,
    pairs: Annotated[
        str, typer.Option(metavar="A:B,C:D=W", help="What δ compares; with several pairs it is their weighted mean.")
    ] = "she:he",
    compare: Annotated[
        str, typer.Option(metavar="A:B,C:D", help="Pairs whose agreement is measured: a list, all, or none.")
    ] = "none",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 1,
    top: Annotated[int, typer.Option(min=0, help="Words to show at each end of δ.")] = 10,
) -> None:
    """Tell the PMI of words with gendered words and their difference δ, how they are spread, and how pairs agree.

    A word has a value where no count behind it is 0; the others are left empty, not smoothed.
    """
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console = Console(width=120)
    read, wanted = Counts.read(counts), parse(pairs)
    found = analysed(read, wanted, min_count)
    console.print(facts(read, found, min_count), markup=False, highlight=False)
    console.print(spread(marginals(found)))
    if top and (ends := _ends(found, top)):
        console.print(ends)
    agreed = None
    if compare != "none":
        several = counted_pairs(read) if compare == "all" else parse(compare)
        shown = functools.partial(track, description="Comparing pairs", console=errors, transient=True)
        agreed = agreement(read, several, min_count, shown)
        console.print(agreeing(agreed) if agreed.pairs else "There is no agreement to tell: no pair has a δ.")
    if out:
        write_rows(found, out)
        console.print(f"Words in {out}: {len(found):,}.", markup=False, highlight=False)
    if plots:
        from pmi.analysis.plots import write

        drawn = write(plots, found, wanted[0], agreed, "png" if form is Form.png else "svg")
        told = f"Pictures: {', '.join(map(str, drawn))}." if drawn else "There is nothing to draw: no word has a δ."
        console.print(told, markup=False, highlight=False, soft_wrap=True)


def facts(counts: Counts, found: pa.Table, min_count: int) -> str:
    """What was counted, by what rule, in a paragraph."""
    rule, totals = counts.rule, counts.totals
    least = f" that occur at least {min_count:,} times" if min_count > 1 else ""
    never = [word for word in rule.gendered if not counts.of(word)]
    told = [
        f"{rule.corpus}: {totals.words:,} words, {len(counts.words):,} different ones; {len(found):,} are told{least}.",
        f"Company within {rule.window} words, {totals.pairs:,} pairs of words; stop words: {rule.stop_words}.",
    ]
    return "\n".join(told + [f"Never met: {', '.join(never)}."] * bool(never))


def spread(rows: Sequence[Marginal]) -> Table:
    """The spread of each column of values."""
    table = Table("", "words", "share", "mean", "sd", "5 %", "median", "95 %", title="How values are spread")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        values = map(_number, (row.mean, row.sd, row.low, row.median, row.high))
        table.add_row(row.name, f"{row.defined:,}", "–" if math.isnan(row.share) else f"{row.share:.1%}", *values)
    return table


def _ends(found: pa.Table, top: int) -> Table | None:
    """The words at the two ends of δ; nothing when no word has one."""
    known = found.filter(pc.is_valid(found["delta"])).sort_by([("delta", "descending"), ("word", "ascending")])
    if not len(known):
        return None
    table = Table("most", "δ", "count", "least", "δ", "count", title="The ends of δ")
    for at in (1, 2, 4, 5):
        table.columns[at].justify = "right"
    last = known.take(list(range(len(known) - 1, -1, -1))[:top])
    for one, other in zip(known.slice(0, top).to_pylist(), last.to_pylist(), strict=True):
        table.add_row(*_cells(one), *_cells(other))
    return table


def _cells(row: dict[str, object]) -> Iterable[str]:
    return escape(str(row["word"])), f"{row['delta']:+.2f}", f"{row['count']:,}"


def agreeing(agreed: Agreement) -> Table:
    """How well each pair agrees with the first, and with all others on average."""
    first = f"{agreed.pairs[0].first}:{agreed.pairs[0].second}"
    table = Table("pair", "words", f"τ with {first}", "words in both", "median τ", title="Agreement of pairs (Kendall)")
    for column in table.columns[1:]:
        column.justify = "right"
    for at, pair in enumerate(agreed.pairs):
        others = [tau for j, tau in enumerate(agreed.tau[at]) if j != at and math.isfinite(tau)]
        middle = statistics.median(others) if others else math.nan
        own = f"{agreed.words[at, at]:,}"
        shared = f"{agreed.words[0, at]:,}"
        table.add_row(f"{pair.first}:{pair.second}", own, _number(agreed.tau[0, at]), shared, _number(middle))
    return table


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"
