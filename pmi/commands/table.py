"""``probes pmi table``: PMI and δ of a table of counts, in the terminal, as a file and as figures."""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.table import Table

from cards.common.numbers import decimals, formatted
from cards.common.progress import track
from cards.common.terminal import show, terminal, text_table
from pmi.analysis.table import Agreement, agreement, column_statistics, table
from pmi.counting.counts import Counts, absent_text
from pmi.files import WRITABLE, write_rows
from pmi.types import PAIRS_METAVAR, GenderedPair, parse_pairs


def main(
    counts: Annotated[Path, typer.Argument(metavar="COUNTS", help="A file that probes pmi count wrote.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=f"Write every word: {WRITABLE}.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw PMI, δ and the agreement of pairs.")
    ] = None,
    image_format: Annotated[Literal["svg", "png"], typer.Option("--format", help="Format of the figures.")] = "svg",
    pairs: Annotated[
        str, typer.Option(metavar=PAIRS_METAVAR, help="Pairs that δ compares; with several pairs their weighted mean.")
    ] = "she:he",
    compare: Annotated[
        str, typer.Option(metavar="A:B,C:D", help="Pairs whose agreement is measured: a list, all, or none.")
    ] = "none",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 1,
    top: Annotated[int, typer.Option(min=0, help="Number of words to show with the highest and the lowest δ.")] = 10,
) -> None:
    """Show the PMI of words with gendered words, the difference δ, their distributions, and the agreement of pairs.

    A value is undefined, and its cell empty, where a count is 0; there is no smoothing.
    """
    console = terminal()
    corpus_counts = Counts.read(counts)
    chosen_pairs = parse_pairs(pairs)
    rows = table(corpus_counts, chosen_pairs, min_count)
    show(console, [description(corpus_counts, rows, min_count)])
    console.print(statistics_table(column_statistics(rows)))
    if top:
        _show_extremes(console, rows, top, corpus_counts.rule.gendered, chosen_pairs[0])
    pair_agreement = None
    if compare != "none":
        compared_pairs = corpus_counts.counted_pairs() if compare == "all" else parse_pairs(compare)
        pair_agreement = _show_agreement(console, corpus_counts, compared_pairs, min_count)
    if out:
        write_rows(rows, out)
        show(console, [f"Words in {out}: {len(rows):,}."])
    if plots:
        from pmi.analysis.plots import write

        figures = write(plots, rows, chosen_pairs[0], pair_agreement, image_format)
        if figures:
            show(console, [f"Figures: {', '.join(map(str, figures))}."])
        else:
            show(console, ["No figure: no word has a δ."])


def _show_extremes(console: Console, rows: pa.Table, top: int, gendered: Sequence[str], pair: GenderedPair) -> None:
    extremes = _extremes_table(rows, top, gendered)
    if extremes:
        console.print(extremes)
        show(console, [f"δ above 0 is nearer to {pair.first}, below 0 nearer to {pair.second}."])


def _show_agreement(console: Console, counts: Counts, pairs: Sequence[GenderedPair], min_count: int) -> Agreement:
    def progress(comparisons: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        # The bar goes to stderr, so that stdout has the table alone.
        return track(comparisons, "Comparing pairs", console=Console(stderr=True))

    pair_agreement = agreement(counts, pairs, min_count, progress)
    if pair_agreement.pairs:
        console.print(agreement_table(pair_agreement))
    else:
        console.print("The pairs have no agreement: no pair has a δ.")
    return pair_agreement


def description(counts: Counts, rows: pa.Table, min_count: int) -> str:
    """What was counted, and by what rule."""
    rule, totals = counts.rule, counts.totals
    condition = ""
    if min_count > 1:
        condition = f" that occur at least {min_count:,} times"
    lines = [
        f"{rule.corpus}: {totals.words:,} word tokens, {len(counts.words):,} different words; "
        f"{len(rows):,} words{condition} are in the table.",
        f"Window of {rule.window} words, {totals.pairs:,} pairs of words; stop words: {rule.stop_words}.",
    ]
    absent = [word for word in rule.gendered if not counts.count_of(word)]
    if absent:
        lines.append(absent_text(absent))
    return "\n".join(lines)


def statistics_table(columns: Sequence[Any]) -> Table:
    """The distribution of each column of values."""
    names = ("", "words", "share", "mean", "sd", "5 %", "median", "95 %")
    rows = []
    for column in columns:
        statistics_of_column = (column.mean, column.sd, column.low, column.median, column.high)
        row = [column.name, f"{column.n_defined:,}", formatted(column.share, ".1%")]
        row += [decimals(number, 2) for number in statistics_of_column]
        rows.append(row)
    return text_table(names, rows, "Distributions", numbers=names)


def _extremes_table(rows: pa.Table, top: int, gendered: Sequence[str]) -> Table | None:
    """The words with the highest and the lowest δ, without the gendered words; None when no other word has one."""
    # Gendered words would fill both ends.
    is_gendered = pc.is_in(rows["word"], pa.array(gendered, pa.string()))
    others = pc.and_(pc.is_valid(rows["delta"]), pc.invert(is_gendered))
    ordered = rows.filter(others).sort_by([("delta", "descending"), ("word", "ascending")])
    if not len(ordered):
        return None
    highest = ordered.slice(0, top).to_pylist()
    # Of the last rows the lowest δ comes first.
    lowest = ordered.slice(max(len(ordered) - top, 0)).to_pylist()[::-1]
    cells = []
    for high, low in zip(highest, lowest, strict=True):
        cells.append(_cells(high) + _cells(low))
    columns = ("highest", "δ", "count", "lowest", "δ", "count")
    return text_table(columns, cells, "Extremes of δ", numbers=("δ", "count"))


def _cells(row: dict[str, object]) -> list[str]:
    return [str(row["word"]), f"{row['delta']:+.2f}", f"{row['count']:,}"]


def agreement_table(agreement: Agreement) -> Table:
    """The agreement of each pair with the first pair, and the median over all other pairs."""
    names = [f"{pair.first}:{pair.second}" for pair in agreement.pairs]
    columns = ("pair", "words", f"τ with {names[0]}", "words in both", "median τ")
    rows = []
    for i, name in enumerate(names):
        # Without the agreement of the pair with itself, which is 1.
        others = [tau for j, tau in enumerate(agreement.tau[i]) if j != i and math.isfinite(tau)]
        median = math.nan
        if others:
            median = statistics.median(others)
        n_words = f"{agreement.n_words[i, i]:,}"
        n_shared = f"{agreement.n_words[0, i]:,}"
        rows.append((name, n_words, decimals(agreement.tau[0, i], 2), n_shared, decimals(median, 2)))
    return text_table(columns, rows, "Agreement of pairs (Kendall)", numbers=columns[1:])
