"""Runs many recipes on one model and writes them side by side: ``probes mitigate methods MODEL``.

``probes mitigate table MODEL --methods all`` is the same command.

A method whose adapter is complete is not run again, so the command goes on where it was interrupted. The folders of
methods that another machine made can be put into the same folder; ``--methods ""`` then only writes the page.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from builders.dataset import BuildError
from cards.text import split_list
from mitigation import comparison, recipes
from mitigation.ability.tasks import named
from mitigation.api import Text
from mitigation.columns import planned_columns
from mitigation.commands.glue import add_to_methods
from mitigation.errors import MitigationError
from mitigation.quantization import choose_quantization
from mitigation.recipe import Recipe, resolve_settings
from mitigation.run import finished, mitigate
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.inference.load_options import Device, LoadOptions, ModelName
from scoring.options import Data, Limit, Profile, Resamples
from scoring.statistics.stats import RESAMPLES
from scoring.terminal import ended, tell
from scoring.types import ScoringError

if TYPE_CHECKING:
    from mitigation.evaluate import Evaluation


def settings_of(recipe: Recipe, profile: str, given: dict[str, Any], corpus: str, seed: int) -> Any:
    """The settings of a recipe with its own table of a configuration, the corpus, and a seed added to its own."""
    settings = resolve_settings(recipe, profile, None, given)
    names = {field.name for field in fields(settings)}
    own = "corpus" in given  # a configuration may name another text for a recipe
    changes: dict[str, Any] = {"corpus": corpus} if corpus and "corpus" in names and not own else {}
    if "seed" in names:
        changes["seed"] = settings.seed + seed
    return replace(settings, **changes)


def main(
    model: ModelName,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the adapters and of methods.html, .md, .json; tables/methods-MODEL by default."),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="Recipes, all of them, or none to write the page alone.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Adapters of each recipe that has a seed.")] = 1,
    corpus: Annotated[str, typer.Option(help="Text for the recipes that learn from text.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML with a table of settings for each recipe.")] = None,
    profile: Profile = "clean",
    data: Data = DATA,
    benchmarks: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Benchmarks of every method; by default what the columns of the page need and suits the model, "
            "some 16,000 rows of a causal model; unstereo takes half of the time.",
        ),
    ] = "",
    limit: Limit = None,
    text: Text = None,
    device: Device = None,
    resamples: Resamples = RESAMPLES,
    glue: Annotated[
        str, typer.Option(metavar="A,B", help="Tasks of GLUE, each fine-tuned three times for every method.")
    ] = "",
) -> None:
    """Makes an adapter or prompt of MODEL with each recipe, and writes all before and after scores on one page."""
    console, errors = Console(), Console(stderr=True)
    with ended(errors):
        out = out or Path("tables") / f"methods-{Path(model).name}"
        named(split_list(glue))  # a wrong name is refused before anything is made
        names = list(recipes.names()) if methods == "all" else split_list(methods)
        chosen = [recipes.get(name) for name in names]
        given = read_config(config)
        comparison.check_files(out)
        reasons = comparison.reasons_before(out)
        measured = None
        if chosen:
            rows, options = TrainingData(data, limit), LoadOptions(model, device=device)
            planned = planned_columns(chosen[0], split_list(benchmarks), rows, profile, text, resamples)
            with errors.status(f"Loading {model} …"):
                loaded = options.load()
            measured = how_measured(planned(loaded), limit, text)
            comparison.check_same(out, measured)
        for recipe in chosen:
            for seed in range(seeds if "seed" in asdict(recipe.profiles[profile]) else 1):
                row = f"{recipe.name}-seed-{seed}" if seed else recipe.name
                try:
                    settings = settings_of(recipe, profile, given.get(recipe.name, {}), corpus, seed)
                    if finished(recipe, settings, loaded, rows, out / row):
                        continue
                    reasons.pop(row, None)
                    # Weights in 4 bits are of the recipes that want them; the others share the loaded model.
                    shared = None if choose_quantization(recipe, "auto", device)[0] else loaded
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
                    comparison.write(out, model, comparison.rows_of(out, reasons), measured)
                except (ScoringError, BuildError) as error:
                    reasons[row] = str(error)
                    tell(errors, [f"{row}: {error}"])
                    loaded = options.load()  # what a recipe left in the middle is not for the next one
        if glue:
            add_to_methods(out, LoadOptions(model, device=device), split_list(glue), limit, errors)
        page = comparison.write(out, model, comparison.rows_of(out, reasons), measured)
        tell(console, [f"{page} has all methods side by side."])


def how_measured(evaluation: Evaluation, limit: int | None, text: Path | None) -> dict[str, Any]:
    """What has to be the same for all methods of a folder, for :func:`mitigation.comparison.check_same`."""
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


def read_config(path: Path | None) -> dict[str, dict[str, Any]]:
    """The settings of each recipe in a TOML file.

    Raises
    ------
    MitigationError
        If it cannot be read, or has something else than a table for each recipe.
    """
    if path is None:
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MitigationError(f"{path} is not TOML ({error}); give a table of settings for each recipe.") from None
    if not all(isinstance(table, dict) for table in tables.values()):
        raise MitigationError(f"{path} has settings outside of a table; give a table with the name of each recipe.")
    return tables
