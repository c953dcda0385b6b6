"""The command ``probes export RUN``: the examples of a run as tables that statistics packages read."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cards.common.files import put_all
from cards.common.options import ended, single
from cards.common.terminal import show
from cards.common.text import as_text, slug
from scoring.asking.result import RunResult, load
from scoring.report import every_eval_ever
from scoring.report.example_scores import example_scores
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd


def tables(result: RunResult) -> Iterator[tuple[str, pd.DataFrame]]:
    """The score of each example for each proportion of each headline's group, under the name of its file.

    The mean of the column ``score`` is the value of the metric, so those in which examples count unequally are left
    out. The column names are those that evalci (``item_id``, ``subset``) and evalstats (``prompt``, ``item``) look for.
    """
    import pandas as pd

    for examples in example_scores(result.report, result.tables):
        score, names = examples.estimate, as_text(examples.rows["id"])
        frame = pd.DataFrame(
            {
                "model": as_text(result.report.name),
                "prompt": as_text(result.report.prompt),
                "item": names,
                "item_id": names,
                "subset": as_text(score.group),
                "cluster": as_text(examples.clusters),
                "score": examples.scores,
            }
        )
        yield f"{slug(f'{score.benchmark}-{score.metric}')}.csv", frame


class Format(StrEnum):
    """What the examples are written as: tables, or the files of Every Eval Ever."""

    csv = "csv"
    eee = "eee"


def main(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the files; RUN/export by default.")] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="csv, or eee: scores and rows in the format of Every Eval Ever.")
    ] = Format.csv,
    source_org: Annotated[str, typer.Option(help="For eee: the organisation that publishes the results.")] = "",
    relationship: Annotated[
        str, typer.Option(help="For eee: what it is to the model: first_party, third_party, collaborative or other.")
    ] = "third_party",
    model: Annotated[str, typer.Option(metavar="ORG/MODEL", help="For eee: the name of the model on the Hub.")] = "",
    org: Annotated[str, typer.Option(help="For eee: the organisation of the Hub that has the data sets.")] = "",
) -> None:
    """Write the score of every example of RUN as CSV, as evalci and evalstats read it, or for Every Eval Ever.

    There is a table for each score of the headlines' groups that is a plain mean over examples.
    """
    with ended(Console(stderr=True), ScoringError):
        folder = out or run / "export"
        result = load(run)
        if format_ is Format.eee:
            publisher = every_eval_ever.Publisher(source_org, relationship, model, org)  # type: ignore[arg-type]
            # The format wants the time of the evaluation, which is when the results were written.
            time = int((run / "results.json").stat().st_mtime)
            files = every_eval_ever.files(result.report, dict(result.tables), publisher, time)
            put_all(folder, files, ScoringError)
            show(Console(), [f"{len(files)} files are in {folder}."])
            show(Console(), files)
            return
        # All tables are made before the first is written, so that an error leaves no half of them.
        files = {name: table.to_csv(index=False).encode() for name, table in tables(result)}
        if not files:
            raise ScoringError(f"{run} has no score that is a plain mean over examples; give another run.")
        put_all(folder, files, ScoringError)
        show(Console(), [f"{len(files)} tables are in {folder}."])


app = single(main)
