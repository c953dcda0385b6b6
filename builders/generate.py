"""Makes rows with a chat model or from recorded replies: ``python -m builders.generate PIPELINE …``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import typer
from rich.console import Console

from builders.dataset import BuildError
from builders.generation import pipelines
from builders.generation.responses import ChatError
from builders.generation.run import RunOptions, generate
from cards.command import start


def _command(name: str) -> Callable[..., None]:
    """The command of a pipeline: its options are the fields of its settings and of :class:`RunOptions`."""
    pipeline = pipelines.get(name)

    def command(**values: Any) -> None:
        console = Console(markup=False, highlight=False, soft_wrap=True)
        errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        options, settings = (
            kind(**{option.name: values[option.name] for option in fields(kind)})
            for kind in (RunOptions, pipeline.settings)
        )
        try:
            _check_finite(values)
            generate(name, options, settings, console, errors)
        except BuildError as error:
            errors.print(f"error: {error}", style="red")
            raise typer.Exit(error.exit_code) from None
        except OSError as error:
            errors.print(f"error: {error.filename} cannot be read ({error.strerror}).", style="red")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            errors.print("Interrupted; all replies are kept, so run again to continue.")
            raise typer.Exit(130) from None

    parameters = [*_parameters(pipeline.settings), *_parameters(RunOptions)]
    parameters.sort(key=lambda parameter: parameter.default is not parameter.empty)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = f"""{pipeline.summary}

    Exit status: 0 when the rows are written; 1 when something is wrong; 2 when --offline lacks replies; 3 when
    --budget is reached. In all cases the replies are kept, and the same command continues from there.
    """
    return command


def _check_finite(values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ChatError(f"--{name.replace('_', '-')} is {value}; give a finite number.")


def _parameters(kind: type[Any]) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command."""
    hints = get_type_hints(kind, include_extras=True)
    parameters = []
    for option in fields(kind):
        default = option.default if option.default_factory is MISSING else option.default_factory()
        default = inspect.Parameter.empty if default is MISSING else default
        parameters.append(
            inspect.Parameter(
                option.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[option.name], default=default
            )
        )
    return parameters


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False, no_args_is_help=True)
for _name in pipelines.names():
    app.command(_name, short_help=pipelines.get(_name).summary)(_command(_name))

if __name__ == "__main__":
    start(app, "python -m builders.generate")
