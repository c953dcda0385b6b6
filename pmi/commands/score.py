"""``probes pmi score``: MaxPMIDiff of each sentence of a file, and the word that has it."""

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console

from cards.common.progress import track
from cards.common.terminal import show
from pmi.analysis.lookup import TABLE_HELP, delta_table
from pmi.analysis.sentence import Rule, SentenceScore, max_pmi_diff, within
from pmi.files import WRITABLE, FileError, read_rows, text_column, write_rows
from pmi.types import PAIRS_HELP, PAIRS_METAVAR, parse_pairs

#: The columns that are added, with the attribute of :class:`Score` and the type of each.
COLUMNS = {
    "max_pmi_diff": ("value", pa.float64()),
    "max_pmi_word": ("word", pa.string()),
    "pmi_words": ("total", pa.int64()),
    "pmi_known": ("known", pa.int64()),
    "pmi_coverage": ("coverage", pa.float64()),
}


def main(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Sentences: .txt (a line each), .csv, .tsv, .jsonl, .parquet.")
    ],
    table: Annotated[str, typer.Option(metavar="TABLE", help=TABLE_HELP)],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=f"Write the rows: {WRITABLE}.")] = None,
    column: Annotated[str, typer.Option(help="The column that holds the sentences.")] = "text",
    rule: Annotated[
        Rule, typer.Option(help="How to split sentences into words: the rule of pmi count, or a published one.")
    ] = "clean",
    epsilon: Annotated[
        float | None, typer.Option(metavar="ε", min=0, help="Keep only sentences whose value is within ±ε.")
    ] = None,
    pairs: Annotated[str | None, typer.Option(metavar=PAIRS_METAVAR, help=PAIRS_HELP)] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace columns of an earlier run.")] = False,
) -> None:
    """Score sentences by MaxPMIDiff: the δ of largest magnitude among their words.

    Slots such as {nominative} are removed first. A sentence without a known word has no value, and no ε
    keeps it.
    """
    rows = read_rows(file)
    existing = [name for name in COLUMNS if name in rows.column_names]
    if existing and not replace:
        raise FileError(f"{file} has the column {existing[0]!r} already; remove it, or give --replace.")
    texts = text_column(rows, column, file)
    delta = delta_table(table, None if pairs is None else parse_pairs(pairs))
    tracked = track(texts, "Scoring", console=Console(stderr=True))
    scores = [max_pmi_diff(text, delta, rule) for text in tracked]
    scored = _with_scores(rows.drop_columns(existing), scores)
    if epsilon is not None:
        scored = scored.filter(pa.array([within(score.value, epsilon) for score in scores], pa.bool_()))
    terminal = Console()
    show(terminal, summary(scores, epsilon))
    if out:
        write_rows(scored, out)
        show(terminal, [f"Rows in {out}: {len(scored):,}."])


def _with_scores(rows: pa.Table, scores: list[SentenceScore]) -> pa.Table:
    for name, (attribute, column_type) in COLUMNS.items():
        rows = rows.append_column(name, pa.array([getattr(score, attribute) for score in scores], column_type))
    return rows


def summary(scores: list[SentenceScore], epsilon: float | None) -> list[str]:
    """The results, one fact per line."""
    valued = [s.value for s in scores if s.value is not None]
    words, known = sum(s.total for s in scores), sum(s.known for s in scores)
    above, below = sum(value > 0 for value in valued), sum(value < 0 for value in valued)
    lines = [f"{len(scores):,} sentences, {len(valued):,} with a value: {above:,} above 0 and {below:,} below."]
    if words:
        lines.append(f"{known / words:.1%} of their {words:,} words are in the table.")
    if epsilon is not None and scores:
        inside = sum(within(score.value, epsilon) for score in scores)
        lines.append(f"{inside:,} are within ±{epsilon:g} ({inside / len(scores):.1%}).")
    return lines
