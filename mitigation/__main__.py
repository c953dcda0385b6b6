"""Makes a language model less biased: ``probes mitigate RECIPE MODEL --out DIR``."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from cards.common import terminal
from cards.common.options import NearestGroup, UsageError, command_of, ended, parameters, start
from mitigation import recipes
from mitigation.ability.tasks import GlueSettings
from mitigation.api import Options, built, mitigated
from mitigation.commands import glue, table
from mitigation.recipe import Adapter, Console, Recipe, ScoringError, setting_options
from scoring.inference.load_options import Device, Dtype, ModelName, Revision


def command(recipe: Recipe) -> Any:
    """The command of a recipe: the common options, and one option per setting."""
    names = [field.name for field in fields(recipe.profiles["clean"])]

    def call(
        model: ModelName,
        out: Annotated[
            Path | None, typer.Option(metavar="FOLDER", help="The adapter; an older one there is replaced. [required]")
        ] = None,
        **values: Any,
    ) -> None:
        # What is left in ``values`` are the options that all recipes have.
        settings = {}
        for name in names:
            value = values.pop(name)
            if value is not None:
                settings[name] = value
        console, errors = Console(), Console(stderr=True)
        with ended(errors, ScoringError), built():
            if out is None and not values["dry_run"]:
                raise UsageError("Missing option '--out'.")
            made = mitigated(recipe, model, settings, values, out or Path(recipe.name), console, errors)
            if isinstance(made, Adapter) and is_harmful(made):
                # Last, so that all files are there when the exit status says what they do.
                raise typer.Exit(HARMFUL_STATUS)

    # typer shows the docstring as the help.
    call.__doc__ = f"{recipe.summary}\n\n{recipe.source}."
    return command_of(call, list(parameters(Options)) + setting_options(recipe.profiles), recipe.name)


#: The exit status of a command whose recipe is harmful; its result is written.
HARMFUL_STATUS = 5


def is_harmful(adapter: Adapter) -> bool:
    """Whether the verdict of :mod:`mitigation.running.outcome` is ``harmful``."""
    from mitigation.running.outcome import outcome  # with it comes torch

    judged = outcome(adapter.changes)
    return judged is not None and judged.verdict == "harmful"


def merge(
    model: ModelName,
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="An adapter that was made for this model.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the whole model.")],
    revision: Revision = None,
    dtype: Dtype = "auto",
    device: Device = None,
) -> None:
    """Writes a whole model that equals MODEL with ADAPTER, for plain transformers, servers and probes score."""
    from mitigation.adapters import merging  # with it comes torch

    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    with ended(errors, ScoringError):
        merged = merging.merge(model, adapter, out=out, revision=revision, dtype=dtype, device=device)
        terminal.show(console, merged.changes)
        compared = f"its logits differ by at most {merged.difference:.1e} from those of the adapted one"
        terminal.show(console, [f"The model is {out}; {compared}, over {merging.COMPARED} statements."])


_SHARED = [parameter for parameter in parameters(Options) if parameter.name in table.SHARED]
#: Commands that are no recipes, with the options of their settings.
COMMANDS: dict[str, tuple[Callable[..., None], list[inspect.Parameter]]] = {
    "glue": (glue.main, setting_options({"": GlueSettings()}, "Settings of the fine-tuning")),
    "merge": (merge, []),
    # One command under two names: for a page of several recipes, and for the domains of one.
    "methods": (table.main, _SHARED),
    "table": (table.main, _SHARED),
}


class RecipeGroup(NearestGroup):
    """One command per registered recipe, those of ``--include`` among them, and :data:`COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all recipes and other commands."""
        del ctx
        return [*recipes.names(), *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a recipe or another command; None if there is none of that name."""
        del ctx
        if cmd_name in COMMANDS:
            function, options_of_settings = COMMANDS[cmd_name]
            return command_of(function, options_of_settings, cmd_name)
        if cmd_name in recipes.names():
            return command(recipes.get(cmd_name))
        return None


def include(files: list[Path]) -> list[Path]:
    """Registers the recipes of Python files."""
    with ended(Console(stderr=True), ScoringError):
        # Called before the name of the recipe is looked up, because it may be in one of them.
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
    rich_markup_mode=None,
    help="Makes a model less biased; the result is a folder with an adapter or a prompt. Each recipe has its own "
    "--help. Exit status: 1 when something cannot be done, 2 when data is missing or an option is wrong, 5 when the "
    "verdict is harmful.",
)


@app.callback()
def options(include: Include = None) -> None:
    """Options before the name of the recipe."""


if __name__ == "__main__":
    start(app, "python -m mitigation")
