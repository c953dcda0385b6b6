"""``python -m pmi score``: how far each sentence of a file leans, and which word decides."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track

from pmi.analysis.lookup import delta_table
from pmi.analysis.pairs import parse
from pmi.analysis.sentence import Score, max_pmi_diff, within
from pmi.files import FileFault, read_rows, text_column, write_rows

#: What is added to each row.
COLUMNS = ("max_pmi_diff", "max_pmi_word", "pmi_words", "pmi_known", "pmi_coverage")


class Rule(StrEnum):
    """What the words of a sentence are."""

    clean = "clean"
    nltk = "nltk"
    spacy = "spacy"


def main(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Sentences: .txt (a line each), .csv, .tsv, .jsonl, .parquet.")
    ],
    table: Annotated[
        str,
        typer.Option(
            metavar="TABLE", help="Counts, a table of δ, the folder of the data set gender-pmi, or its name on the Hub."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rows: .parquet, .csv, .tsv or .jsonl.")
    ] = None,
    column: Annotated[str, typer.Option(help="The column that holds the sentences.")] = "text",
    rule: Annotated[Rule, typer.Option(help="What words are: our own rule, or a published one.")] = Rule.clean,
    epsilon: Annotated[
        float | None, typer.Option(metavar="ε", min=0, help="Keep only sentences whose value is within ±ε.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(metavar="A:B,C:D=W", help="What δ compares, where TABLE holds counts; she:he by default."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace columns of an earlier run.")] = False,
) -> None:
    """Score sentences by MaxPMIDiff: the δ of largest magnitude among their words.

    Slots such as {nominative} are taken out first. A sentence without a known word has no value and does
    not stay within any ε.
    """
    console, errors = Console(), Console(stderr=True)
    rows = read_rows(file)
    taken = [name for name in COLUMNS if name in rows.column_names]
    if taken and not replace:
        raise FileFault(f"{file} has the column {taken[0]!r} already; take it out, or give --replace.")
    texts = text_column(rows, column, file)
    known = delta_table(table, None if pairs is None else parse(pairs))
    scores = [max_pmi_diff(text, known, rule.value) for text in track(texts, "Scoring", console=errors, transient=True)]
    scored = _joined(rows.drop_columns(taken), scores)
    kept = (
        scored if epsilon is None else scored.filter(pa.array([within(s.value, epsilon) for s in scores], pa.bool_()))
    )
    if out:
        write_rows(kept, out)
    for line in summary(scores, epsilon) + ([f"Rows in {out}: {len(kept):,}."] if out else []):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _joined(rows: pa.Table, scores: list[Score]) -> pa.Table:
    values = (
        pa.array([s.value for s in scores], pa.float64()),
        pa.array([s.word for s in scores], pa.string()),
        pa.array([s.total for s in scores], pa.int64()),
        pa.array([s.known for s in scores], pa.int64()),
        pa.array([s.coverage for s in scores], pa.float64()),
    )
    for name, array in zip(COLUMNS, values, strict=True):
        rows = rows.append_column(name, array)
    return rows


def summary(scores: list[Score], epsilon: float | None) -> list[str]:
    """What was found, a fact a line."""
    valued = [s.value for s in scores if s.value is not None]
    words, known = sum(s.total for s in scores), sum(s.known for s in scores)
    lean = sum(value > 0 for value in valued), sum(value < 0 for value in valued)
    told = [f"{len(scores):,} sentences, {len(valued):,} with a value: {lean[0]:,} above 0 and {lean[1]:,} below."]
    if words:
        told.append(f"{known / words:.1%} of their {words:,} words are in the table.")
    if epsilon is not None and scores:
        stay = sum(within(s.value, epsilon) for s in scores)
        told.append(f"{stay:,} are within ±{epsilon:g} ({stay / len(scores):.1%}).")
    return told
