"""``probes pmi compare``: compares two tables of δ."""

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.table import Table

from cards.common.numbers import formatted
from cards.common.terminal import show, terminal, text_table
from pmi.analysis.lookup import TABLE_HELP, delta_table
from pmi.analysis.table import WordComparison
from pmi.analysis.table import compare as compare_tables
from pmi.files import WRITABLE, write_rows
from pmi.types import PAIRS_METAVAR, parse_pairs


def main(
    first: Annotated[str, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    second: Annotated[str, typer.Argument(metavar="TABLE", help="Another table.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=f"Write the shared words: {WRITABLE}.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw one δ against the other: .svg or .png.")
    ] = None,
    names: Annotated[str, typer.Option(metavar="A,B", help="Names of the two tables.")] = "the first,the second",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that are less frequent in either.")] = 1,
    pairs: Annotated[
        str | None,
        typer.Option(metavar=PAIRS_METAVAR, help="Pairs that δ compares, where both hold counts; she:he by default."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Number of words to show whose ranks differ most.")] = 20,
) -> None:
    """Compare two tables of δ: the rank correlation over shared words, and the words whose ranks differ most."""
    chosen_pairs = None if pairs is None else parse_pairs(pairs)
    comparison = compare_tables(delta_table(first, chosen_pairs), delta_table(second, chosen_pairs), min_count)
    name, _, other_name = names.partition(",")
    console = terminal()
    tau = formatted(comparison.tau, ".3f", "undefined")
    show(console, [f"Words in both: {len(comparison.words):,}. Kendall's τ of their δ: {tau}."])
    if top and comparison.words:
        console.print(shift_table(comparison, top, (name, other_name)))
    if out:
        columns = {
            "word": comparison.words,
            "delta_first": comparison.first,
            "delta_second": comparison.second,
            "shift": comparison.rank_shift,
        }
        write_rows(pa.table({column: pa.array(values) for column, values in columns.items()}), out)
    if plot and comparison.words:
        from pmi.analysis.plots import write_comparison

        write_comparison(plot, comparison, (name, other_name), "png" if plot.suffix == ".png" else "svg")


def shift_table(comparison: WordComparison, top: int, names: tuple[str, str]) -> Table:
    """The words whose ranks differ most."""
    columns = ("word", f"δ in {names[0]}", f"δ in {names[1]}", "shift of rank")
    values = zip(comparison.words, comparison.first, comparison.second, comparison.rank_shift, strict=True)
    shifts = [(word, f"{one:+.2f}", f"{other:+.2f}", f"{shift:+.0%}") for word, one, other, shift in values]
    rows = [shifts[index] for index in comparison.largest_shifts(top)]
    return text_table(columns, rows, "Words whose ranks differ most", numbers=columns[1:])
