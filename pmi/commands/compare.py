"""``python -m pmi compare``: how alike two tables order words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pmi.analysis.comparison import Comparison
from pmi.analysis.comparison import compare as compared
from pmi.analysis.lookup import delta_table
from pmi.analysis.pairs import parse
from pmi.files import write_rows

_TABLE = "Counts, a table of δ, the folder of the data set gender-pmi, or its name on the Hub."


def main(
    one: Annotated[str, typer.Argument(metavar="TABLE", help=_TABLE)],
    other: Annotated[str, typer.Argument(metavar="TABLE", help="Another.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the shared words: .parquet, .csv, .tsv or .jsonl.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw one δ against the other: .svg or .png.")
    ] = None,
    names: Annotated[str, typer.Option(metavar="A,B", help="What the two are called.")] = "the first,the second",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words rarer than this in either.")] = 1,
    pairs: Annotated[
        str | None,
        typer.Option(metavar="A:B,C:D=W", help="What δ compares, where both hold counts; she:he by default."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Words to show whose ranks differ most.")] = 20,
) -> None:
    """Tell how alike two tables of δ order the words that both have, and which words differ most."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    wanted = None if pairs is None else parse(pairs)
    found = compared(delta_table(one, wanted), delta_table(other, wanted), min_count)
    first, _, second = names.partition(",")
    tau = "undefined" if math.isnan(found.tau) else f"{found.tau:.3f}"
    console.print(f"Words in both: {len(found.words):,}. Kendall's τ of their δ: {tau}.", highlight=False)
    if top and found.words:
        console.print(furthest(found, top, (first, second)))
    if out:
        columns = {"word": found.words, "delta_first": found.one, "delta_second": found.other, "shift": found.shift}
        write_rows(pa.table({name: pa.array(values) for name, values in columns.items()}), out)
    if plot and found.words:
        from pmi.analysis.plots import comparison

        comparison(plot, found, (first, second), "png" if plot.suffix == ".png" else "svg")


def furthest(found: Comparison, top: int, names: tuple[str, str]) -> Table:
    """The words whose ranks differ most."""
    heads = ("word", f"δ in {names[0]}", f"δ in {names[1]}", "shift of rank")
    table = Table(*map(escape, heads), title="Words whose ranks differ most")
    for column in table.columns[1:]:
        column.justify = "right"
    for at in found.furthest(top):
        table.add_row(
            escape(found.words[at]), f"{found.one[at]:+.2f}", f"{found.other[at]:+.2f}", f"{found.shift[at]:+.0%}"
        )
    return table
