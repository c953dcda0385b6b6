"""The command ``probes export RUN``: the examples of a run as tables that statistics packages read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console

from cards.files import put_all
from cards.options import single
from cards.text import slug
from scoring import benchmarks
from scoring.options import Include
from scoring.report.headlines import headline_scores
from scoring.result import RunResult, load
from scoring.terminal import ended, tell
from scoring.types import ScoringError, Table

Format = Literal["evalci", "evalstats", "csv"]
#: The name of each column in the tables of a package; a column without a name there is left out.
_NAMES: dict[Format, dict[str, str]] = {
    "csv": {name: name for name in ("model", "group", "item", "cluster", "score", "weight")},
    "evalci": {"item": "item_id", "model": "model", "score": "score", "group": "subset", "cluster": "cluster"},
    "evalstats": {"model": "model", "prompt": "prompt", "item": "item", "score": "score"},
}


def tables(result: RunResult) -> Iterator[tuple[str, Table]]:
    """The score of each example for each proportion of each headline's group, under the name of its file.

    The mean of the column ``score``, weighted by the column ``weight``, is the value of the metric.
    """
    for chosen in (headline.estimate for headline in headline_scores(result.report)):
        known, table = benchmarks.get(chosen.benchmark), result.tables[chosen.benchmark]
        for group, metric in known.items(result.report.profile, table):
            if group.name == chosen.group and metric.events is not None and not metric.absolute:
                rows = {name: column[group.mask] for name, column in table.items()}
                event, weight = metric.events(rows).T
                used = weight > 0
                columns = {"item": rows["id"], "cluster": rows[known.cluster], "weight": weight}
                columns["score"] = metric.high * event / np.where(used, weight, 1)
                facts = {"model": result.report.name, "group": group.name, "prompt": result.report.prompt}
                whole = {name: column[used] for name, column in columns.items()}
                yield (
                    f"{slug(f'{known.name}-{metric.name}')}.csv",
                    whole | {name: np.full(used.sum(), fact) for name, fact in facts.items()},
                )


def main(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    form: Annotated[Format, typer.Option("--format", help="The package that reads the tables.")] = "csv",
    out: Annotated[Path | None, typer.Option(help="Folder of the tables; by default below RUN.")] = None,
    include: Include = (),  # type: ignore[assignment]  # nobody changes it
) -> None:
    """Write the score of every example of RUN, a table for each score of the headlines' groups that is a mean.

    evalci and evalstats take plain means, so scores in which examples count unequally are in csv alone.
    """
    import pandas as pd

    console = Console()
    with ended(Console(stderr=True)):
        for path in include:
            benchmarks.include(path)
        files, names = {}, _NAMES[form]
        for name, table in tables(load(run)):
            if form == "csv" or np.ptp(table["weight"]) == 0:
                files[name] = pd.DataFrame({new: table[old] for old, new in names.items()}).to_csv(index=False).encode()
        if not files:
            raise ScoringError(f"{run} has no score that is a mean over examples; give another run, or --format csv.")
        folder = out or run / f"export-{form}"
        put_all(folder, files, ScoringError)
        tell(console, [f"{len(files)} tables for {form} are in {folder}."])


app = single(main)
