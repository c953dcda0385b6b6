"""Makes rows with a chat model or from recorded replies: ``probes generate PIPELINE …``."""

import inspect
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from builders.dataset import BuildError
from builders.generation import pipelines
from builders.generation.pipeline import REPLAY_OPTIONS, Pipeline
from builders.generation.responses import ChatError
from builders.generation.session import GenerationOptions, generate
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from cards.common.options import HelpCommand, ended, group, parameters, start, with_options
from cards.common.progress import Progress


def _command(name: str) -> Callable[..., None]:
    """The command of a pipeline: its options are the fields of its settings and of :class:`GenerationOptions`."""
    pipeline = pipelines.get(name)

    def command(**values: Any) -> None:
        console = Console(markup=False, highlight=False, soft_wrap=True)
        errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        with ended(errors, BuildError, interrupted="all replies are kept, so run again to continue"):
            for option, value in values.items():
                # The parser takes nan and inf for numbers, and nan is within every limit, as no comparison with it
                # holds.
                if isinstance(value, float) and not math.isfinite(value):
                    raise ChatError(f"--{option.replace('_', '-')} is {value}; give a finite number.")
            if replay := values.get("replay"):
                _replay(name, pipeline, replay, values, console)
                return
            for p in _parameters(pipeline):
                # Required options became optional for --replay, so without it what is missing is named here.
                if p.default is p.empty and values[p.name] is None:
                    raise ChatError(f"--{p.name.replace('_', '-')} is missing; give it, or --replay.")
            common = {option.name: values[option.name] for option in fields(GenerationOptions)}
            settings = pipeline.settings(**{option.name: values[option.name] for option in fields(pipeline.settings)})
            generate(name, GenerationOptions(**common), settings, console, errors)

    options = _parameters(pipeline)
    if pipeline.replays:
        # A record has the settings of its generation, so then only --out is required.
        options = [option if option.name == "out" else _optional(option) for option in options]
        replays = f"Repeat a recorded generation without a chat model: {', '.join(pipeline.replays)}."
        # Made from another parameter, because a new one would need its kind again.
        kind = Annotated[str | None, typer.Option(metavar="NAME", help=replays)]
        options.append(options[0].replace(name="replay", default=None, annotation=kind))
    command.__doc__ = f"""{pipeline.summary}

    Exit status: 0 when the rows are written; 1 when something is wrong; 2 when --offline lacks replies; 3 when
    --budget is reached. In all cases the replies are kept, and the same command continues from there.
    """
    return with_options(command, options)


def _parameters(pipeline: Pipeline) -> list[inspect.Parameter]:
    """The options of a pipeline without ``--replay``."""
    return parameters(pipeline.settings) + parameters(GenerationOptions)


def _replay(name: str, pipeline: Pipeline, replay: str, values: dict[str, Any], console: Console) -> None:
    """Runs a pipeline over a recorded generation."""
    if replay not in pipeline.replays:
        raise ChatError(
            f"There is no recorded generation {replay!r} of {name}; give --replay {' or '.join(pipeline.replays)}."
        )
    for parameter in _parameters(pipeline):
        default = None if parameter.default is parameter.empty else parameter.default
        # An option that may be repeated is an empty list where it is not named.
        is_set = values[parameter.name] not in (default, [])
        if is_set and parameter.name not in REPLAY_OPTIONS:
            option = parameter.name.replace("_", "-")
            raise ChatError(f"The recorded generation {replay} has its own --{option}; leave it out.")
    with Progress(transient=True, console=Console(stderr=True)) as progress:
        fetcher = Fetcher(default_cache(), default_mirror(), values["offline"], progress)
        pipeline.replays[replay](values, fetcher, console)


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with None for its default if it has none."""
    if parameter.default is not parameter.empty:
        return parameter
    # The annotation is Annotated[type, option]; only the type changes.
    kind, *metadata = get_args(parameter.annotation)
    return parameter.replace(default=None, annotation=Annotated[kind | None, *metadata])


app = group()
for _name in pipelines.names():
    app.command(_name, cls=HelpCommand, short_help=pipelines.get(_name).summary)(_command(_name))

if __name__ == "__main__":
    start(app, "python -m builders.generate")
