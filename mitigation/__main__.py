"""Makes a model less biased: ``python -m mitigation RECIPE MODEL --out DIR``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cards.command import start
from mitigation import recipes
from mitigation.adapters.adapter import Adapter
from mitigation.mitigate import Wanted, mitigate
from mitigation.recipe import Recipe, chosen
from mitigation.training.data import Data
from scoring.report.terminal import ended, tell
from scoring.statistics.stats import RESAMPLES
from scoring.tables import DEFAULT


class Profile(StrEnum):
    """Settings and definitions to follow."""

    clean = "clean"
    paper = "paper"


class Quantize(StrEnum):
    """Whether weights are kept in 4 bits."""

    auto = "auto"
    four = "4bit"
    none = "none"


def common(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder or a name on the Hub; tiny-causal comes with the project.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the adapter; an older adapter there is replaced at the end.")],
    config: Annotated[Path | None, typer.Option(help="Settings by name, in TOML or JSON.")] = None,
    profile: Annotated[
        Profile, typer.Option(help="Our own settings and definitions, or the published ones.")
    ] = Profile.clean,
    data: Annotated[
        str, typer.Option(metavar="FOLDER|ORG", help="Built data sets: a folder, or an organisation of the Hub.")
    ] = DEFAULT,
    benchmarks: Annotated[
        str, typer.Option(metavar="A,B", help="Benchmarks for before and after; those that the recipe is about.")
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many rows of each split only.")] = None,
    text: Annotated[
        Path | None, typer.Option(help="Texts whose perplexity is measured, one a line; else neutral statements.")
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Request through the model's chat template.")] = False,
    evaluate: Annotated[bool, typer.Option(help="Measure before and after.")] = True,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the Hub.")] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    quantize: Annotated[
        Quantize, typer.Option(help="Keep weights in 4 bits; auto where the recipe wants it and a GPU is there.")
    ] = Quantize.auto,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model (pin its --revision).")
    ] = False,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="Read pickled weights.")] = False,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = RESAMPLES,
) -> None:
    """The options of every recipe."""


def command(name: str) -> Callable[..., None]:
    """The command of a recipe: the common options, and one for each of its settings."""
    recipe = recipes.get(name)
    clean = recipe.profiles["clean"]
    shared = inspect.signature(common, eval_str=True).parameters

    def run(**options: Any) -> None:
        given = {each.name: options[each.name] for each in fields(clean) if options[each.name] is not None}
        begin(recipe, given, **{option: options[option] for option in shared})

    own = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, **_option(recipe, each)) for each in fields(clean)
    ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shared.values()] + own
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = f"{recipe.summary}\n\n{recipe.source}."
    return run


def _option(recipe: Recipe, each: Any) -> dict[str, Any]:
    """The annotation and the default of a setting's option."""
    values = {name: getattr(settings, each.name) for name, settings in recipe.profiles.items()}
    shown = ", ".join(f"{name} {value}" for name, value in values.items())
    told = f"{each.metadata['help']} ({shown})"
    kind = type(values["clean"])
    return {"annotation": Annotated[kind | None, typer.Option(help=told, rich_help_panel="Settings")], "default": None}


def begin(
    recipe: Recipe,
    given: dict[str, Any],
    *,
    model: str,
    out: Path,
    config: Path | None,
    profile: Profile,
    data: str,
    benchmarks: str,
    limit: int | None,
    text: Path | None,
    chat: bool,
    evaluate: bool,
    revision: str | None,
    dtype: str,
    device: str | None,
    quantize: Quantize,
    trust_remote_code: bool,
    allow_pickle: bool,
    resamples: int,
) -> None:
    """Makes an adapter of MODEL by a recipe, and tells what it changes and what it cost."""
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console = Console(width=160)
    wanted = Wanted(model, revision, dtype, device, quantize, trust_remote_code, allow_pickle)
    with ended(errors):
        settings = chosen(recipe, profile, config, given)
        exam = _exam(recipe, benchmarks, Data(data, limit), profile, text, chat, resamples) if evaluate else None
        tell_done(mitigate(recipe, settings, wanted, Data(data, limit), out, exam, console, errors), out, console)


def _exam(
    recipe: Recipe, benchmarks: str, data: Data, profile: str, text: Path | None, chat: bool, resamples: int
) -> Callable[[Any], Any]:
    """The questions of before and after: their data is read now, and what suits the model is known with it."""
    from mitigation.evaluate import Exam, texts
    from scoring import run
    from scoring.__main__ import chosen as named

    picked = named(benchmarks or ",".join(recipe.benchmarks))
    parts = run.read(picked, data.source, profile, data.limit, named=bool(benchmarks))
    held = texts(data, text)

    def suited(model: Any) -> Exam:
        fit, _ = run.suited(parts, "chat" if chat else model.kind, model.name, named=bool(benchmarks))
        return Exam(tuple(fit), held, profile, resamples, chat)

    return suited


def tell_done(adapter: Adapter | None, out: Path, console: Console) -> None:
    """The cost and the place of an adapter."""
    if adapter is None:
        return
    cost = adapter.cost
    tell(
        console,
        [
            f"{cost.parameters:,} parameters trained in {cost.seconds:.1f} s, at most {cost.memory / 2**30:.2f} GiB "
            f"({cost.device}).",
            f"The adapter is {out}" + f"; the runs before and after are in {out}-work" * bool(adapter.changes) + ".",
        ],
    )


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_show_locals=False,
    no_args_is_help=True,
    help="Makes a model less biased; the result is a folder that anyone can load. Each recipe has its own --help. "
    "Exit status: 1 when something cannot be done, 2 when data is missing or an option is wrong.",
)
for each in recipes.names():
    app.command(each)(command(each))

if __name__ == "__main__":
    start(app, "python -m mitigation")
