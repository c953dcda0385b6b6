"""The scores of a model and of its mitigated form beside those that papers print: ``probes mitigate table``.

A row is a method, a column a metric, and there is a table for each domain. A recipe that has a setting ``domain``
makes an adapter for each domain, as the tables of FAST need. Printed rows come from ``scoring/data/printed``. They are
of other sentences where the paper did not release its own (PS and DS).

``probes mitigate sweep`` has the curves of FAST beside these tables: the effect of each block, and scores by the block
that is edited and by the number of units (Figures 5 to 7).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
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
from mitigation.run import finished, mitigate
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.adapters.facts import Adapter, read
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


def curves(adapters: Mapping[int, Adapter]) -> dict[str, list[list[float]]]:
    """By score in percent the points of a curve: the value of a setting, the score after the edit, its interval."""
    found: dict[str, list[list[float]]] = {}
    for value, adapter in sorted(adapters.items()):
        for name, column in COLUMNS.items():
            change = change_of(adapter, name, adapter.settings["domain"])
            if change and (column.ideal in (50.0, 100.0) or name in ("DS", "LMS")):
                found.setdefault(name, []).append([value, *change.after])
    return found


def sweep(
    model: ModelName,
    out: Annotated[Path | None, typer.Option(help="Folder of the adapters, sweep.json and sweep.png.")] = None,
    layer: Annotated[list[int] | None, typer.Option(help="A block to edit, from 0; by default each.")] = None,
    units: Annotated[list[int] | None, typer.Option(help="Rows of the matrices; by default 64, 256, 1024.")] = None,
    config: Config = None,
    profile: Profile = "clean",
    data: Data = DATA,
    benchmarks: Annotated[str, typer.Option(metavar="A,B", help="Scored before and after.")] = "stereoset,biaske",
    limit: Limit = None,
    device: Device = None,
    resamples: Resamples = RESAMPLES,
) -> None:
    """Edits MODEL with FAST in each block, and in the block that it locates with several numbers of units.

    Every value has an adapter of its own; one that is complete is not made again, so an interrupted sweep goes on.
    """
    console, errors = Console(), Console(stderr=True)
    with ended(errors):
        from scoring.adapters.feed_forward import feed_forwards
        from scoring.reproduce.figures import chart, swept

        folder = out or Path("tables") / f"sweep-{Path(model).name}"
        refuse_foreign(folder / RECORD, [folder / "sweep.json", folder / "sweep.png"], MitigationError)
        recipe, options, rows = recipes.get("fast"), LoadOptions(model, device=device), TrainingData(data, limit)
        settings = resolve_settings(recipe, profile, config, {})
        planned = planned_columns(recipe, split_list(benchmarks), rows, profile, None, resamples)
        loaded = options.load()

        def made(**changes: int) -> Adapter:
            chosen, name = replace(settings, **changes), "-".join(f"{n}-{value}" for n, value in changes.items())
            if not finished(recipe, chosen, loaded, rows, folder / name):
                run = partial(mitigate, recipe, chosen, options, replace(rows, versions={}), folder / name, planned)
                run(Console(quiet=True), errors, loaded=loaded, answers=folder / "before")
            return read(folder / name)

        block = int(made(layer=-1).measures["located_block"][0])
        effects = json.loads((folder / "layer--1" / "located.json").read_bytes())["average_indirect_effect"]
        content: dict[str, Any] = {
            "model": model,
            "located": block,
            "effects": {name: [[n, value, None, None] for n, value in enumerate(own)] for name, own in effects.items()},
            "layer": curves({n: made(layer=n) for n in layer or range(len(feed_forwards(loaded.network)))}),
            "units": curves({n: made(layer=block, units=n) for n in units or (64, 256, 1024)}),
        }
        picture = chart(swept(content), f"fast on {model}")["png"]
        put_all(folder, {"sweep.json": document(content), "sweep.png": picture}, MitigationError)
        tell(console, [f"Block {block} is located; sweep.json and sweep.png are in {folder}."])
