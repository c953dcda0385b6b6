"""Makes a language model less biased: ``python -m mitigation RECIPE MODEL --out DIR``."""

from __future__ import annotations

import inspect
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperGroup

from cards.command import start
from cards.text import split_list
from mitigation import recipes
from mitigation.api import planned_evaluation
from mitigation.commands import glue, methods, table
from mitigation.recipe import Recipe, resolve_settings
from mitigation.run import mitigate
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.adapters.facts import Adapter, is_whole_model
from scoring.inference.load_options import LoadOptions
from scoring.report.terminal import ended, tell
from scoring.statistics.stats import RESAMPLES


def run(
    recipe: Recipe,
    overrides: dict[str, Any],
    *,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder or a name on the Hub; tiny-causal comes with the project.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the adapter; an older adapter there is replaced at the end.")],
    config: Annotated[Path | None, typer.Option(help="Settings by name, in TOML or JSON.")] = None,
    profile: Annotated[
        Literal["clean", "paper"], typer.Option(help="This project's settings and definitions, or the published ones.")
    ] = "clean",
    data: Annotated[
        str, typer.Option(metavar="FOLDER|ORG", help="Built data sets: a folder, or an organisation of the Hub.")
    ] = DATA,
    benchmarks: Annotated[
        str, typer.Option(metavar="A,B", help="Benchmarks for before and after; by default those of the recipe.")
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most this number of rows per split.")] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|wikitext", help="Texts for perplexity, one per line; by default neutral statements."
        ),
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Use the model's chat template.")] = False,
    evaluate: Annotated[bool, typer.Option(help="Evaluate before and after.")] = True,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the Hub.")] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    quantize: Annotated[
        Literal["auto", "4bit", "none"],
        typer.Option(help="Load weights in 4 bits; auto if the recipe uses them and there is a GPU."),
    ] = "auto",
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model (pin its --revision).")
    ] = False,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="Read pickled weights.")] = False,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = RESAMPLES,
) -> None:
    """Makes an adapter of MODEL with a recipe, and prints what it changes and what it cost."""
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console = Console(width=160)
    options = LoadOptions(
        model,
        revision=revision,
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
    )
    rows = TrainingData(data, limit)
    with ended(errors):
        settings = resolve_settings(recipe, profile, config, overrides)
        evaluation = (
            planned_evaluation(recipe, split_list(benchmarks), rows, profile, text, chat, resamples)
            if evaluate
            else None
        )
        adapter = mitigate(recipe, settings, options, rows, out, evaluation, console, errors, quantize=quantize)
        if adapter:
            print_cost(adapter, out, console)


def print_cost(adapter: Adapter, out: Path, console: Console) -> None:
    """Prints the cost of an adapter and where it is."""
    cost, what = adapter.cost, "model" if is_whole_model(out) else "adapter"
    tell(
        console,
        [
            f"{cost.parameters:,} parameters trained in {cost.seconds:.1f} s, at most {cost.memory / 2**30:.2f} GiB "
            f"({cost.device}).",
            f"The {what} is {out}" + f"; the runs before and after are in {out}-work" * bool(adapter.changes) + ".",
        ],
    )


def command(recipe: Recipe) -> Any:
    """The command of a recipe: the common options, and one option per setting."""
    common = inspect.signature(run, eval_str=True).parameters.values()
    settings = fields(recipe.profiles["clean"])

    def call(**options: Any) -> None:
        overrides = {field.name: options.pop(field.name) for field in settings}
        run(recipe, {name: value for name, value in overrides.items() if value is not None}, **options)

    parameters = [parameter for parameter in common if parameter.kind is parameter.KEYWORD_ONLY]
    parameters += [_option(recipe, field) for field in settings]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = f"{recipe.summary}\n\n{recipe.source}."
    single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    single.command(recipe.name)(call)
    return typer.main.get_command(single)


def _option(recipe: Recipe, field: Field[Any]) -> inspect.Parameter:
    """The option of a setting; its help shows the value in each profile."""
    values = {name: getattr(settings, field.name) for name, settings in recipe.profiles.items()}
    profiles = ", ".join(f"{name} {value}" for name, value in values.items())
    option = typer.Option(help=f"{field.metadata['help']} ({profiles})", rich_help_panel="Settings")
    annotation = Annotated[type(values["clean"]) | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


#: Commands that are no recipes.
COMMANDS = {"glue": glue.command, "methods": methods.command, "table": table.command}


class RecipeGroup(TyperGroup):
    """One command per registered recipe, those of ``--include`` among them, and those of :mod:`mitigation.commands`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all recipes and other commands."""
        del ctx
        return [*recipes.names(), *COMMANDS]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the arguments; ``table MODEL --methods A,B`` is the command ``methods``."""
        if args[0] == "table" and any(arg.partition("=")[0] == "--methods" for arg in args):
            args = ["methods", *args[1:]]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a recipe or another command; None if there is none of that name."""
        del ctx
        if cmd_name in COMMANDS:
            return COMMANDS[cmd_name]()
        return command(recipes.get(cmd_name)) if cmd_name in recipes.names() else None


def include(files: list[Path]) -> list[Path]:
    """Registers the recipes of Python files."""
    with ended(Console(stderr=True)):
        for file in files or ():
            recipes.include(file)
    return files


#: The option for recipes outside the project, which comes before the name of the recipe.
Include = Annotated[
    list[Path] | None,
    typer.Option(
        "--include", metavar="FILE.py", is_eager=True, callback=include, help="Add the recipe of a Python file."
    ),
]
app = typer.Typer(
    cls=RecipeGroup,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    no_args_is_help=True,
    help="Makes a model less biased; the result is a folder with an adapter or a prompt. Each recipe has its own "
    "--help. Exit status: 1 when something cannot be done, 2 when data is missing or an option is wrong.",
)


@app.callback()
def options(include: Include = None) -> None:
    """Options before the name of the recipe."""


if __name__ == "__main__":
    start(app, "python -m mitigation")
