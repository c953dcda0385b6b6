"""Runs recipes on one model and writes them side by side: ``probes mitigate table MODEL``, or ``methods MODEL``.

``table RECIPE MODEL`` makes an adapter for each domain with one recipe, as the tables of FAST need, and also prints its
scores beside those that papers print. Printed rows come from ``scoring/data/printed``. They are of other sentences
where the paper did not release its own (PS and DS). ``--sweep`` adds the curves of FAST (Figures 5 to 7): the effect of
each block, and scores by the block that is edited and by the number of units.

A method whose adapter is complete is not run again, so the command continues an interrupted one. The folders of
methods that another machine made can be put into the same folder; ``--methods none`` then only writes the page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from builders.dataset import BuildError
from cards.common import files, numbers, terminal, text
from cards.common.options import ended
from mitigation import recipes
from mitigation.ability.tasks import named
from mitigation.api import Options, planned_evaluation, refuse_recipe
from mitigation.commands.glue import add_to_methods
from mitigation.methods import comparison
from mitigation.recipe import MitigationError, Model, Recipe, TrainingData, read_settings, resolve_settings
from mitigation.running.quantization import choose_quantization
from scoring.adapters.facts import FACTS, read
from scoring.inference.load_options import LoadOptions
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd

    from mitigation.running.evaluate import Evaluation


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
        str, typer.Option(metavar="A,B", help="Recipes; or all; or none, which writes the page alone.")
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

    With RECIPE before MODEL, it runs that recipe alone, in each domain, and prints the scores of papers too.
    """
    console, errors = terminal.terminal(200), Console(stderr=True)
    with ended(errors, ScoringError):
        recipe, model = recipe_and_model(names)
        refuse_recipe(model)
        if out is None:
            out = Path("tables") / f"{recipe or 'methods'}-{Path(model).name}"
        named(text.split_list(glue))  # a wrong name is refused before anything is made
        chosen = [recipes.get(name) for name in names_of_recipes(recipe, methods)]
        domains_of_methods = checked_domains(domains, recipe)
        config_of_recipe = read_config(config, recipe)
        if sweep and (recipe != "fast" or "layer" in config_of_recipe["fast"]):
            raise MitigationError(
                "--sweep is of `table fast MODEL` and searches the block: leave layer out of --config."
            )
        # Before hours of training, because the page would replace what is there.
        comparison.check_files(out)
        evaluation = Options(benchmarks=benchmarks, **values)
        options = LoadOptions(model, device=evaluation.device)
        # Methods that failed in an earlier call keep their reason, until they are made.
        reasons = comparison.reasons_before(out)
        measured = None
        if chosen:
            maker = TableMaker(out, options, evaluation, chosen, reasons, errors)
            measured = maker.measured
            for method in chosen:
                points = maker.swept() if sweep else [{}]
                settings = config_of_recipe.get(method.name, {})
                if domains_of_methods and "sets" in {
                    field.name for field in fields(method.profiles[evaluation.profile])
                }:
                    # The pairs of this project are about gender alone, and the papers' tables are of StereoSet.
                    settings = {"sets": "stereoset", **settings}
                for name, changed in variants(method, evaluation.profile, domains_of_methods, seeds, points):
                    complete = maker.make(method, name, settings, corpus, changed)
                    if not complete and sweep and name == f"fast-{domains_of_methods[0]}":
                        break  # the sweep needs the block that this recipe locates
        if glue:
            add_to_methods(out, options, text.split_list(glue), evaluation.limit, errors)
        if sweep:
            name = f"fast-{domains_of_methods[0]}"
            write_sweep(out, model, name, reasons.get(name, ""))
        from mitigation.methods.comparison_page import write  # with it comes matplotlib

        tables = write(out, model, comparison.rows_of(out, reasons), measured)
        for table in tables:
            if recipe:
                console.print(grid(table.frame, table.domain))
            terminal.show_wrapped(console, f"{table.domain}: {table.conclusion[0]}")
        terminal.show(console, [f"{out / 'methods.html'} has all methods side by side."])


def recipe_and_model(names: Sequence[str]) -> tuple[str, str]:
    """The name of the recipe before that of the model, and the model; an empty text where the model is alone.

    Raises
    ------
    MitigationError
        If there are more than two names.

    >>> recipe_and_model(["fast", "gpt2"]), recipe_and_model(["gpt2"])
    (('fast', 'gpt2'), ('', 'gpt2'))
    """
    if len(names) > 2:
        raise MitigationError(f"{' '.join(names)} are more than a recipe and a model; give one recipe.")
    if len(names) == 2:
        return names[0], names[1]
    return "", names[0]


def names_of_recipes(recipe: str, methods: str) -> Sequence[str]:
    """The recipes of a call: the one before the model, or those of ``--methods``.

    ``all`` is every recipe. ``none`` and an empty text are no recipe, so only the page is written.

    >>> names_of_recipes("", "leace,inlp"), names_of_recipes("", "none")
    (['leace', 'inlp'], [])
    """
    if recipe:
        return [recipe]
    if methods == "all":
        return recipes.names()
    if methods == "none":
        return []
    return text.split_list(methods)


def checked_domains(domains: str, recipe: str) -> list[str]:
    """The domains of ``--domains``; without the option all of them for one recipe, and none for several.

    Raises
    ------
    MitigationError
        With the first that is no domain.
    """
    chosen = text.split_list(domains)
    for name in chosen:
        if name not in comparison.DOMAINS:
            raise MitigationError(f"The domain is {name!r}; give some of {', '.join(comparison.DOMAINS)}.")
    if not chosen and recipe:
        return list(comparison.DOMAINS)
    return chosen


class TableMaker:
    """Makes the adapters of a table one after another on one loaded model.

    The model is loaded once for all methods: each leaves it as it was, and one that fails is followed by a fresh one.

    Parameters
    ----------
    out:
        The folder of the table, with a folder for each adapter.
    evaluation:
        What is scored before and after, for all methods alike.
    chosen:
        The recipes of the table; the benchmarks suit all of them.
    reasons:
        Name of an adapter to the reason why it could not be made; the maker adds and removes reasons.

    Raises
    ------
    MitigationError
        If the folder has methods that were measured otherwise.
    ScoringError
        If the model or the data cannot be used.
    """

    def __init__(
        self,
        out: Path,
        options: LoadOptions,
        evaluation: Options,
        chosen: Sequence[Recipe],
        reasons: dict[str, str],
        errors: Console,
    ) -> None:
        self.out, self.options, self.reasons, self.errors = out, options, reasons, errors
        self.profile, self.device = evaluation.profile, evaluation.device
        self.rows = TrainingData(evaluation.data, evaluation.limit)
        # Any recipe will do: the benchmarks are those of the columns.
        self.planned = planned_columns(chosen[0], evaluation, self.rows)
        with errors.status(f"Loading {options.model} …"):
            self.loaded = options.load()
        self.measured = how_measured(self.planned(self.loaded), evaluation.limit, evaluation.text)
        comparison.check_same(out, self.measured)

    def swept(self) -> list[dict[str, int]]:
        """Settings of FAST for the curves of this model."""
        from scoring.adapters.feed_forward import feed_forwards

        return swept(len(feed_forwards(self.loaded.network)))

    def make(
        self, recipe: Recipe, name: str, config: Mapping[str, Any], corpus: str, changed: Mapping[str, Any]
    ) -> bool:
        """Makes the adapter of a name unless it is complete, and writes the page; False where it cannot be made.

        The reason of a failure is shown and kept among the reasons.
        """
        from mitigation.running import steps  # with it comes torch

        try:
            settings = settings_of(recipe, self.profile, config, corpus, **changed)
            if steps.finished(recipe, settings, self.loaded, self.rows, self.out / name):
                return True
            self.reasons.pop(name, None)
            shared: Model | None = self.loaded
            if choose_quantization(recipe, "auto", self.device)[0]:
                # Weights in 4 bits are of the recipes that want them; the others share the loaded model.
                shared = None
            steps.make_and_evaluate(
                recipe,
                settings,
                self.options,
                replace(self.rows, versions={}),
                self.out / name,
                self.planned,
                Console(quiet=True),
                self.errors,
                loaded=shared,
                answers=self.out / "before",
            )
            self._write_page()
        except (ScoringError, BuildError) as error:
            self.reasons[name] = str(error)
            terminal.show(self.errors, [f"{name}: {error}"])
            self.loaded = self.options.load()  # what a recipe left in the middle is not for the next one
            return False
        return True

    def _write_page(self) -> None:
        # After every method, so that the page can be read while others are made, and an interruption loses one at most.
        from mitigation.methods.comparison_page import write

        write(self.out, self.options.model, comparison.rows_of(self.out, self.reasons), self.measured)


def variants(
    recipe: Recipe, profile: str, domains: Sequence[str], seeds: int, values: Sequence[Mapping[str, int]] = ({},)
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The folder of each adapter of a recipe, and its domain and the number of its seed if it has such settings.

    ``values`` are of other settings, an adapter for each.
    """
    allowed = {field.name for field in fields(recipe.profiles[profile])}
    domains_of_recipe = domains if domains and "domain" in allowed else [""]
    # A recipe that computes without chance is made once.
    count_of_seeds = seeds if "seed" in allowed else 1
    for domain in domains_of_recipe:
        for seed in range(count_of_seeds):
            for value in values:
                name = recipe.name
                settings: dict[str, Any] = {}
                if domain:
                    name += f"-{domain}"
                    settings["domain"] = domain
                if seed:
                    name += f"-seed-{seed}"
                if "seed" in allowed:
                    settings["seed"] = seed
                for setting, number in value.items():
                    name += f"-{setting}-{number}"
                    settings[setting] = number
                yield name, settings


def swept(blocks: int) -> list[dict[str, int]]:
    """Settings of FAST for the curves, first those of the profile.

    >>> swept(1)
    [{}, {'layer': 0}, {'units': 64}, {'units': 256}, {'units': 1024}, {'units': 4096}]
    """
    points: list[dict[str, int]] = [{}]
    for block in range(blocks):
        points.append({"layer": block})
    # The numbers of units of Figure 7 of FAST.
    for units in (64, 256, 1024, 4096):
        points.append({"units": units})
    return points


def write_sweep(out: Path, model: str, name: str, reason: str = "") -> None:
    """Writes the curves of FAST from the adapters of a folder; ``name`` is that with the settings of the profile.

    Raises
    ------
    MitigationError
        When that adapter was not made, because of ``reason``, or its block was not located.
    """
    from scoring.reproduce.figures import SWEEP, chart, swept_panels

    # The recipe writes it where it searched the block.
    located = out / name / "located.json"
    if not located.is_file():
        why = reason.removesuffix(".") or f"{located} is not there; make {out / name} again"
        raise MitigationError(f"The sweep of {model} needs {name}, which was not made: {why}.")
    effects = json.loads(located.read_bytes())["average_indirect_effect"]
    curves = {}
    for label, values in effects.items():
        # An effect has no interval, whose ends are None.
        curves[label] = [[block, value, None, None] for block, value in enumerate(values)]
    content: dict[str, Any] = {"model": model, "effects": curves, "layer": {}, "units": {}}
    points = []
    for facts in out.glob(f"{name}-*/{FACTS}"):
        # The name of a point is NAME-SETTING-NUMBER, such as fast-gender-layer-3.
        _, setting, number = facts.parent.name.rsplit("-", 2)
        if setting in content:
            points.append((int(number), setting, facts.parent))
    for value, setting, folder in sorted(points):
        adapter = read(folder)
        for column, score in comparison.COLUMNS.items():
            change = comparison.change_of(adapter, column, name.rpartition("-")[2])
            in_percent = score.ideal in (50.0, 100.0) or column in ("DS", "LMS")
            if change and in_percent:
                after, low, high = change.after
                content[setting].setdefault(column, []).append([value, after, low, high])
    picture = chart(swept_panels(content), f"fast on {model}")["png"]
    files.put_all(out, {"sweep.json": SWEEP.content(content), "sweep.png": picture}, MitigationError)


def settings_of(
    recipe: Recipe, profile: str, config: Mapping[str, Any], corpus: str, seed: int = 0, **more: Any
) -> Any:
    """The settings of a recipe with its own table of a configuration, the corpus, a seed added to its own, and more."""
    names = {field.name for field in fields(recipe.profiles[profile])}
    values: dict[str, Any] = {}
    if corpus and "corpus" in names:
        values["corpus"] = corpus
    values |= config  # which may name another text for a recipe
    values |= more
    settings = resolve_settings(recipe, profile, None, values)
    if "seed" in names:
        settings = replace(settings, seed=settings.seed + seed)
    return settings


def planned_columns(recipe: Recipe, options: Options, data: TrainingData) -> Callable[[Model], Evaluation]:
    """A function from a model to the evaluation of benchmarks, by default of what the columns need and suits the model.

    Named benchmarks are scored whole; of the others only the splits of the columns, because a table has many methods.
    """
    # Columns are the same for all methods, whatever benchmarks the recipe names for itself.
    planned = planned_evaluation(replace(recipe, benchmarks=tuple(comparison.BENCHMARKS)), options, data)

    def evaluation(model: Model) -> Evaluation:
        whole = planned(model)
        if options.benchmarks:
            return whole
        parts = []
        for part in whole.parts:
            # Published forms of the data are needed too; they have the name of the clean form and -paper.
            needed = comparison.BENCHMARKS[part.benchmark.name]
            splits = tuple(split for split in part.splits if split.name.replace("-paper/", "/") in needed)
            if splits:
                parts.append(replace(part, splits=splits))
        return replace(whole, parts=tuple(parts))

    return evaluation


def how_measured(evaluation: Evaluation, limit: int | None, file: Path | None) -> dict[str, Any]:
    """What has to be the same for all methods of a folder, for :func:`mitigation.methods.comparison.check_same`."""
    # The texts are compared by their content, because a file may change under its name.
    digest = hashlib.sha256("\n".join(evaluation.texts).encode()).hexdigest()
    name = file.name if file else "neutral statements"
    versions = {}
    for part in evaluation.parts:
        for loaded in part.splits:
            versions[loaded.name] = loaded.version
    return {
        "profile": evaluation.profile,
        "benchmarks": sorted(part.benchmark.name for part in evaluation.parts),
        "data": versions,
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
    measured = set(frame.column)
    columns = [column for column in comparison.COLUMNS if column in measured]
    rows = []
    for (method, source), scores in frame.groupby(["method", "source"], sort=False):
        if source != "measured":
            # A printed figure is that after the training, so it has no row before.
            rows.append((str(method), str(source), *_texts_of(scores, "after", columns)))
            continue
        for side in ("before", "after"):
            rows.append((f"{method}, {side}", str(source), *_texts_of(scores, side, columns)))
    return terminal.text_table(["method", "source", *columns], rows, title)


def _texts_of(scores: pd.DataFrame, side: str, columns: Sequence[str]) -> list[str]:
    """The texts of the cells of a method before or after; an empty text for what was not measured."""
    values = dict(zip(scores.column, scores[side], strict=True))
    if side == "before" and "DS" in values:
        values["DS"] = 100.0  # the differentiation score is of two runs: the model agrees with itself
    texts = []
    for column in columns:
        texts.append(numbers.decimals(values[column], 2, missing="") if column in values else "")
    return texts
