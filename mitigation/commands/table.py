"""The scores of a model and of its mitigated form beside those that papers print: ``probes mitigate table``.

A row is a method, a column a metric, and there is a table for each domain. A recipe that has a setting ``domain``
makes an adapter for each domain, as the tables of FAST need. Printed rows come from ``scoring/data/printed``. They are
of other sentences where the paper did not release its own (PS and DS).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from cards.files import RECORD, put_all, refuse_foreign
from cards.stored import document
from cards.text import split_list
from mitigation import recipes
from mitigation.api import Config
from mitigation.columns import COLUMNS, DOMAINS, change_of, planned_columns
from mitigation.errors import MitigationError
from mitigation.printed import TableRow, printed_rows
from mitigation.recipe import resolve_settings
from mitigation.run import mitigate
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.adapters.facts import Adapter
from scoring.inference.load_options import Device, LoadOptions, ModelName
from scoring.options import Data, Limit, Profile, Resamples
from scoring.statistics.stats import RESAMPLES
from scoring.terminal import ended, tell


def measured_rows(name: str, adapter: Adapter, domain: str) -> Iterator[TableRow]:
    """The row of a model and that of its mitigated form, from the changes between them."""
    changes = {column: change for column in COLUMNS if (change := change_of(adapter, column, domain))}
    # The differentiation score is of two runs: the model agrees with itself.
    before = {column: 100.0 if column == "DS" else change.before[0] for column, change in changes.items()}
    yield TableRow(name, domain, "measured", before)
    after = {column: change.after[0] for column, change in changes.items()}
    yield TableRow(f"{name} with {adapter.recipe}", domain, "measured", after)


def grid(rows: Sequence[TableRow], title: str) -> Grid:
    """A printable table of rows; columns without any value are left out."""
    columns = [column for column in COLUMNS if any(column in row.values for row in rows)]
    made = Grid("method", "source", *columns, box=None, title=title)
    for row in rows:
        made.add_row(*map(Text, (row.method, row.source, *(_shown(row.values.get(column)) for column in columns))))
    return made


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="The recipe, such as fast.")],
    model: ModelName,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the adapters and of table.json; tables/RECIPE-MODEL by default.")
    ] = None,
    domains: Annotated[str, typer.Option(metavar="A,B", help="gender, race, religion.")] = ",".join(DOMAINS),
    config: Config = None,
    profile: Profile = "clean",
    data: Data = DATA,
    limit: Limit = None,
    device: Device = None,
    resamples: Resamples = RESAMPLES,
) -> None:
    """Mitigates MODEL with RECIPE in each domain, and prints its scores beside those that papers print.

    With --methods instead of RECIPE (table MODEL --methods all) it is the command methods: many recipes on one page.
    """
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console = Console(width=200)
    with ended(errors):
        folder = out or Path("tables") / f"{recipe}-{Path(model).name}"
        refuse_foreign(folder / RECORD, [folder / "table.json"], MitigationError)
        rows: list[TableRow] = []
        rows_read, options = TrainingData(data, limit), LoadOptions(model, device=device)
        chosen = split_list(domains)
        for domain, adapter in adapters(recipe, options, folder, chosen, config, profile, rows_read, resamples, errors):
            of_domain = [*measured_rows(model, adapter, domain), *printed_rows(model, domain)]
            console.print(grid(of_domain, domain))
            rows += of_domain
        content = [{name: getattr(row, name) for name in ("method", "domain", "source", "values")} for row in rows]
        put_all(folder, {"table.json": document(content)}, MitigationError)
        tell(console, [f"The adapters and table.json are in {folder}."])


def adapters(
    recipe_name: str,
    options: LoadOptions,
    folder: Path,
    domains: Sequence[str],
    config: Path | None,
    profile: str,
    data: TrainingData,
    resamples: int,
    errors: Console,
) -> Iterator[tuple[str, Adapter]]:
    """Each domain with the adapter that is for it; a finished adapter in the folder is not made again.

    Raises
    ------
    MitigationError
        For a domain that the tables do not have.
    """
    for domain in domains:
        if domain not in DOMAINS:
            raise MitigationError(f"The domain is {domain!r}; give some of {', '.join(DOMAINS)}.")
    recipe = recipes.get(recipe_name)
    by_domain = "domain" in {field.name for field in fields(recipe.profiles[profile])}
    evaluation = planned_columns(recipe, (), data, profile, None, resamples)
    made: dict[str, Adapter] = {}
    quiet = Console(quiet=True)
    for domain in domains:
        name = domain if by_domain else "all"
        if name not in made:
            overrides: dict[str, Any] = {"domain": domain} if by_domain else {}
            settings = resolve_settings(recipe, profile, config, overrides)
            adapter = mitigate(recipe, settings, options, data, folder / name, evaluation, quiet, errors)
            assert adapter is not None, "only the other processes of a distributed training have no result"
            made[name] = adapter
        yield domain, made[name]
