"""Runs recipes on one model and writes them side by side: ``probes mitigate table MODEL``, or ``methods MODEL``.

``table RECIPE MODEL`` makes an adapter for each domain with one recipe, as the tables of FAST need, and also prints its
scores beside those that papers print. Printed rows come from ``scoring/data/printed``. They are of other sentences
where the paper did not release its own (PS and DS). ``--sweep`` adds the curves of FAST (Figures 5 to 7): the effect of
each block, and scores by the block that is edited and by the number of units.

A method whose adapter is complete is not run again, so the command continues an interrupted run. The folders of
methods that another machine made can be put into the same folder; ``--methods ""`` then only writes the page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from builders.dataset import BuildError
from cards.common.files import put_all
from cards.common.numbers import decimals
from cards.common.options import ended
from cards.common.terminal import show, show_wrapped, terminal, text_table
from cards.common.text import split_list
from mitigation import recipes
from mitigation.ability.tasks import named
from mitigation.api import Options, planned_evaluation
from mitigation.commands.glue import add_to_methods
from mitigation.errors import MitigationError
from mitigation.methods import comparison
from mitigation.methods.comparison import BENCHMARKS, COLUMNS, DOMAINS, change_of
from mitigation.recipe import Recipe, read_settings, resolve_settings
from mitigation.running.quantization import choose_quantization
from mitigation.running.run import finished, mitigate
from mitigation.training.data import TrainingData
from scoring.adapters.facts import FACTS, read
from scoring.inference.load_options import LoadOptions
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd

    from mitigation.running.evaluate import Evaluation
    from scoring.asking.run import Part
    from scoring.inference.model import Model


#: The options of recipes that this command has too.
SHARED = ("profile", "data", "limit", "text", "device", "resamples")


def main(
    names: Annotated[
        list[str], typer.Argument(metavar="[RECIPE] MODEL", help="The model; before it one recipe for all domains.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the adapters and of methods.html, .csv, .md, .json; below tables by default."),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="Recipes, all of them, or none to write the page alone.")
    ] = "all",
    domains: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="gender, race, religion: an adapter for each, if the recipe is of one domain."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Adapters of each recipe that has a seed.")] = 1,
    corpus: Annotated[str, typer.Option(help="Text for the recipes that learn from text.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML or JSON: a table of settings for each recipe; of RECIPE, its settings."
        ),
    ] = None,
    benchmarks: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Benchmarks of every method; by default what the columns of the page need and suits the model, "
            "some 16,000 rows of a causal model; unstereo takes half of the time.",
        ),
    ] = "",
    glue: Annotated[
        str, typer.Option(metavar="A,B", help="Tasks of GLUE, each fine-tuned three times for every method.")
    ] = "",
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="fast also in each block and with several numbers of units: sweep.json, .png."),
    ] = False,
    **values: Any,
) -> None:
    """Makes an adapter or prompt of MODEL with each recipe, and writes all before and after scores on one page.

    With RECIPE before MODEL, that recipe in each domain, and its scores are printed beside those of papers.
    """
    console, errors = terminal(200), Console(stderr=True)
    with ended(errors, ScoringError):
        *one, model = names
        if len(one) > 1:
            raise MitigationError(f"{' '.join(names)} are more than a recipe and a model; give one recipe.")
        out = out or Path("tables") / f"{one[0] if one else 'methods'}-{Path(model).name}"
        named(split_list(glue))  # a wrong name is refused before anything is made
        chosen = [recipes.get(name) for name in one or (recipes.names() if methods == "all" else split_list(methods))]
        of_domains = split_list(domains) or list(DOMAINS if one else ())
        if wrong := [name for name in of_domains if name not in DOMAINS]:
            raise MitigationError(f"The domain is {wrong[0]!r}; give some of {', '.join(DOMAINS)}.")
        given = read_config(config, *one)
        if sweep and (one != ["fast"] or "layer" in given["fast"]):
            raise MitigationError(
                "--sweep is of `table fast MODEL` and searches the block: leave layer out of --config."
            )
        comparison.check_files(out)
        from mitigation.methods.comparison_page import write  # with it comes matplotlib
        from scoring.adapters.feed_forward import feed_forwards

        # Methods that failed in an earlier call keep their reason, until they are made.
        reasons = comparison.reasons_before(out)
        measured, evaluation = None, Options(benchmarks=benchmarks, **values)
        rows, options = TrainingData(evaluation.data, evaluation.limit), LoadOptions(model, device=evaluation.device)
        if chosen:
            planned = planned_columns(chosen[0], evaluation, rows)
            with errors.status(f"Loading {model} …"):
                loaded = options.load()
            measured = how_measured(planned(loaded), evaluation.limit, evaluation.text)
            comparison.check_same(out, measured)
        # The model is loaded once for all methods: each leaves it as it was, and one that fails is followed by a
        # fresh one.
        for recipe in chosen:
            points = swept(len(feed_forwards(loaded.network))) if sweep else [{}]
            for row, changed in variants(recipe, evaluation.profile, of_domains, seeds, points):
                try:
                    settings = settings_of(recipe, evaluation.profile, given.get(recipe.name, {}), corpus, **changed)
                    if finished(recipe, settings, loaded, rows, out / row):
                        continue
                    reasons.pop(row, None)
                    # Weights in 4 bits are of the recipes that want them; the others share the loaded model.
                    shared = None if choose_quantization(recipe, "auto", evaluation.device)[0] else loaded
                    mitigate(
                        recipe,
                        settings,
                        options,
                        replace(rows, versions={}),
                        out / row,
                        planned,
                        Console(quiet=True),
                        errors,
                        loaded=shared,
                        answers=out / "before",
                    )
                    # After every method, so that the page can be read while others are made, and an interruption
                    # loses one at most.
                    write(out, model, comparison.rows_of(out, reasons), measured)
                except (ScoringError, BuildError) as error:
                    reasons[row] = str(error)
                    show(errors, [f"{row}: {error}"])
                    if sweep and row == f"fast-{of_domains[0]}":
                        break  # without its located block there is no sweep, whatever the others give
                    loaded = options.load()  # what a recipe left in the middle is not for the next one
        if glue:
            add_to_methods(out, options, split_list(glue), evaluation.limit, errors)
        if sweep:
            name = f"fast-{of_domains[0]}"
            write_sweep(out, model, name, reasons.get(name, ""))
        tables = write(out, model, comparison.rows_of(out, reasons), measured)
        for table in tables:
            if one:
                console.print(grid(table.frame, table.domain))
            show_wrapped(console, f"{table.domain}: {table.conclusion[0]}")
        show(console, [f"{out / 'methods.html'} has all methods side by side."])


def variants(
    recipe: Recipe, profile: str, domains: Sequence[str], seeds: int, values: Sequence[Mapping[str, int]] = ({},)
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The folder of each adapter of a recipe, and its domain and the number of its seed if it has such settings.

    ``values`` are of other settings, an adapter for each.
    """
    allowed = {field.name for field in fields(recipe.profiles[profile])}
    for domain in domains if domains and "domain" in allowed else [""]:
        for seed, value in product(range(seeds if "seed" in allowed else 1), values):
            name = f"{recipe.name}{f'-{domain}' if domain else ''}{f'-seed-{seed}' if seed else ''}"
            name += "".join(f"-{setting}-{number}" for setting, number in value.items())
            yield (
                name,
                {**({"domain": domain} if domain else {}), **({"seed": seed} if "seed" in allowed else {}), **value},
            )


def swept(blocks: int) -> list[dict[str, int]]:
    """Settings of FAST for the curves, first those of the profile."""
    return [{}, *({"layer": n} for n in range(blocks)), *({"units": n} for n in (64, 256, 1024, 4096))]


def write_sweep(out: Path, model: str, name: str, reason: str = "") -> None:
    """Writes the curves of FAST from the adapters of a folder; ``name`` is that with the settings of the profile.

    Raises
    ------
    MitigationError
        When that adapter was not made, because of ``reason``, or its block was not located.
    """
    from scoring.reproduce.figures import SWEEP, chart, swept_panels

    located = out / name / "located.json"
    if not located.is_file():
        why = reason.removesuffix(".") or f"{located} is not there; make {out / name} again"
        raise MitigationError(f"The sweep of {model} needs {name}, which was not made: {why}.")
    effects = json.loads(located.read_bytes())["average_indirect_effect"]
    curves = {label: [[n, value, None, None] for n, value in enumerate(own)] for label, own in effects.items()}
    content: dict[str, Any] = {"model": model, "effects": curves, "layer": {}, "units": {}}
    folders = (folder.parent for folder in out.glob(f"{name}-*/{FACTS}"))
    points = sorted((int(n), of, path) for path in folders for of, n in [path.name.rsplit("-", 2)[1:]] if of in content)
    for (value, of, path), column in product(points, COLUMNS):
        change = change_of(read(path), column, name.rpartition("-")[2])
        if change and (COLUMNS[column].ideal in (50.0, 100.0) or column in ("DS", "LMS")):  # those in percent
            content[of].setdefault(column, []).append([value, *change.after])
    picture = chart(swept_panels(content), f"fast on {model}")["png"]
    put_all(out, {"sweep.json": SWEEP.content(content), "sweep.png": picture}, MitigationError)


def settings_of(recipe: Recipe, profile: str, given: Mapping[str, Any], corpus: str, seed: int = 0, **more: Any) -> Any:
    """The settings of a recipe with its own table of a configuration, the corpus, a seed added to its own, and more."""
    names = {field.name for field in fields(recipe.profiles[profile])}
    # A configuration may name another text for a recipe.
    own: dict[str, Any] = {"corpus": corpus} if corpus and "corpus" in names else {}
    settings = resolve_settings(recipe, profile, None, {**own, **given, **more})
    return replace(settings, seed=settings.seed + seed) if "seed" in names else settings


def planned_columns(recipe: Recipe, options: Options, data: TrainingData) -> Callable[[Model], Evaluation]:
    """A function from a model to the evaluation of benchmarks, by default of what the columns need and suits the model.

    Named benchmarks are scored whole; of the others only the splits of the columns, because a table has many methods.
    """
    # Columns are the same for all methods, whatever benchmarks the recipe names for itself.
    planned = planned_evaluation(replace(recipe, benchmarks=tuple(BENCHMARKS)), options, data)

    def evaluation(model: Model) -> Evaluation:
        whole = planned(model)
        return whole if options.benchmarks else replace(whole, parts=tuple(filter(None, map(_of_columns, whole.parts))))

    return evaluation


def _of_columns(part: Part) -> Part | None:
    """The part of a benchmark that the columns need, published forms of its data too; None without any."""
    needed = BENCHMARKS[part.benchmark.name]
    splits = tuple(split for split in part.splits if split.name.replace("-paper/", "/") in needed)
    return replace(part, splits=splits) if splits else None


def how_measured(evaluation: Evaluation, limit: int | None, text: Path | None) -> dict[str, Any]:
    """What has to be the same for all methods of a folder, for :func:`mitigation.methods.comparison.check_same`."""
    digest = hashlib.sha256("\n".join(evaluation.texts).encode()).hexdigest()
    name = text.name if text else "neutral statements"
    return {
        "profile": evaluation.profile,
        "benchmarks": sorted(part.benchmark.name for part in evaluation.parts),
        "data": {loaded.name: loaded.version for part in evaluation.parts for loaded in part.splits},
        "limit": limit,
        "text": f"{name}, {len(evaluation.texts)} texts, sha256:{digest}",
        "resamples": evaluation.resamples,
    }


def read_config(path: Path | None, recipe: str = "") -> dict[str, dict[str, Any]]:
    """The settings of each recipe in a file; with a ``recipe`` the file has the settings of that one.

    Raises
    ------
    MitigationError
        If it cannot be read, or has something else than a table for each recipe.
    """
    tables = read_settings(path) if path else {}
    if recipe:
        return {recipe: tables}
    if not all(isinstance(table, dict) for table in tables.values()):
        raise MitigationError(f"{path} has settings outside of a table; give a table with the name of each recipe.")
    return tables


def grid(frame: pd.DataFrame, title: str) -> Grid:
    """A printable table of the scores of a domain: before and after each method, and what papers print."""
    columns = [column for column in COLUMNS if column in set(frame.column)]
    rows = []
    for (method, source), of in frame.groupby(["method", "source"], sort=False):
        for side in ("before", "after") if source == "measured" else ("after",):
            # A printed figure is that after the training, so it has no row before.
            values = dict(zip(of.column, of[side], strict=True))
            if side == "before" and "DS" in values:
                values["DS"] = 100.0  # the differentiation score is of two runs: the model agrees with itself
            texts = [decimals(values[column], 2, missing="") if column in values else "" for column in columns]
            name = f"{method}{f', {side}' if source == 'measured' else ''}"
            rows.append((name, str(source), *texts))
    return text_table(["method", "source", *columns], rows, title)
