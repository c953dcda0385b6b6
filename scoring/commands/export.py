"""The command ``probes export RUN``: the examples of a run as tables that statistics packages read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cards.files import put_all
from cards.options import ended, single
from cards.terminal import show
from cards.text import slug
from scoring import benchmarks
from scoring.report.headlines import headline_scores
from scoring.result import RunResult, load
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd

#: With these a cell begins that a spreadsheet program runs as a formula, also after a tab or a line end.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def tables(result: RunResult) -> Iterator[tuple[str, pd.DataFrame]]:
    """The score of each example for each proportion of each headline's group, under the name of its file.

    The mean of the column ``score`` is the value of the metric, so those in which examples count unequally are left
    out. The column names are those that evalci (``item_id``, ``subset``) and evalstats (``prompt``, ``item``) look for.
    """
    import pandas as pd

    for chosen in (headline.estimate for headline in headline_scores(result.report)):
        wanted, table = benchmarks.get(chosen.benchmark), result.tables[chosen.benchmark]
        for group, metric in wanted.items(result.report.profile, table):
            if group.name == chosen.group and metric.events is not None and not metric.absolute:
                rows = {name: column[group.mask] for name, column in table.items()}
                event, weight = metric.events(rows).T
                columns = {"model": result.report.name, "prompt": result.report.prompt, "item": rows["id"]}
                columns |= {"item_id": rows["id"], "subset": group.name, "cluster": rows[wanted.cluster]}
                columns = {name: as_text(values) for name, values in columns.items()}
                frame = pd.DataFrame({**columns, "score": metric.high * event})[weight > 0]
                if set(weight) <= {0, 1}:
                    yield f"{slug(f'{wanted.name}-{metric.name}')}.csv", frame


def as_text(values: Any) -> Any:
    """A text, or an array with texts, that a spreadsheet program does not run as a formula.

    >>> as_text("=1+1"), as_text("nurse")
    ("'=1+1", 'nurse')
    """
    if isinstance(values, str):
        return f"'{values}" if values.startswith(_FORMULA) else values
    if getattr(getattr(values, "dtype", None), "kind", "") == "O":
        return [as_text(value) for value in values.tolist()]
    return values


def main(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the tables; RUN/export by default.")] = None,
) -> None:
    """Write the score of every example of RUN as CSV, as evalci and evalstats read it.

    There is a table for each score of the headlines' groups that is a plain mean over examples.
    """
    with ended(Console(stderr=True), ScoringError):
        files = {name: table.to_csv(index=False).encode() for name, table in tables(load(run))}
        if not files:
            raise ScoringError(f"{run} has no score that is a plain mean over examples; give another run.")
        folder = out or run / "export"
        put_all(folder, files, ScoringError)
        show(Console(), [f"{len(files)} tables are in {folder}."])


app = single(main)
