"""The type of a recipe: its settings with defaults and sources, and a function from a model to an adapter."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from inspect import Parameter
from operator import ge, gt, le, lt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

# The types of what a recipe is given and gives, which are imported under their own names, are taken from here by the
# files of recipes.
from rich.console import Console as Console
from typer import Option

from cards.common.text import did_you_mean
from mitigation.errors import MitigationError
from mitigation.summaries import DECLARED, SHARED, recipe_of
from mitigation.training.data import TrainingData as TrainingData
from scoring.adapters.facts import Adapter as Adapter
from scoring.adapters.facts import Change, Numbers

if TYPE_CHECKING:
    from scoring.inference.model import Model as Model  # without loading torch
else:
    Model = object

T = TypeVar("T")


def setting(
    default: Any,
    help_: str,
    source: str = "",
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    required: bool = False,
) -> Any:
    """A field of a recipe's settings: its default, what it does, and the source of the default.

    :class:`Settings` checks that a number is above ``above``, at least ``least``, below ``below`` and at most ``most``,
    and that a text is one of ``choices``. One that is ``required`` has no default: a recipe does not run without it.
    """
    limits = {"required": required, "above": above, "least": least, "below": below, "most": most, "choices": choices}
    return field(default=default, metadata={"help": help_, "source": source, **limits})


def defaults(source: str, **values: Any) -> Callable[[type[T]], type[T]]:
    """A decorator of settings: other defaults of fields of its bases, and the source of these; the rest stays.

    >>> @dataclass(frozen=True)
    ... class Base(Settings):
    ...     rank: int = setting(0, "Rank.", "a", least=0)
    >>> @dataclass(frozen=True)
    ... @defaults("b", rank=8)
    ... class Own(Base):
    ...     pass
    >>> Own().rank, fields(Own)[0].metadata["help"], fields(Own)[0].metadata["source"]
    (8, 'Rank.', 'b')
    """

    def changed(kind: type[T]) -> type[T]:
        known = {own.name: own for base in reversed(kind.__mro__) if is_dataclass(base) for own in fields(base)}
        for name, value in values.items():
            kind.__annotations__[name] = known[name].type
            setattr(kind, name, field(default=value, metadata={**known[name].metadata, "source": source}))
        return kind

    return changed


@dataclass(frozen=True)
class Settings:
    """Settings whose values are checked: NaN is in no range.

    Raises
    ------
    MitigationError
        With the first setting out of its range or choices.
    """

    def __post_init__(self) -> None:
        for own in fields(self):
            value, limits = getattr(self, own.name), own.metadata
            tests = {"above": gt, "least": ge, "below": lt, "most": le}
            if any(limits.get(name) is not None and not test(value, limits[name]) for name, test in tests.items()):
                raise MitigationError(f"The setting {own.name} is {value}; give a value in its range.")
            if limits.get("choices") and value not in limits["choices"]:
                *some, last = limits["choices"]
                raise MitigationError(f"The setting {own.name} is {value!r}; give {', '.join(some)} or {last}.")


#: Settings that change the memory of a run and not its result: the free memory may decide about them in each run.
WITHOUT_EFFECT = ("gradient_checkpointing",)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a recipe keeps in the memory of the device besides the network: name to bytes, and trained parameters."""

    parts: Mapping[str, int]
    trained: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method that makes a model less biased.

    Parameters
    ----------
    name:
        The name of its file without ``.py``.
    summary:
        One line.
    source:
        The paper, in words.
    cite:
        Keys of the papers among the citations of ``sources.toml``.
    citations:
        BibTeX entries by key, for papers that are not among those.
    profiles:
        Settings by profile: ``clean`` is this project's choice, ``paper`` the published one. All are of one
        frozen dataclass of plain values; its fields are made by :func:`setting`. If it is a :class:`Settings`, values
        out of range are refused.
    run:
        ``run(model, settings, data, out, console)`` writes the files of the adapter into the existing folder
        ``out`` and returns :func:`mitigation.adapters.write.describe`. It restores the network of ``model``
        bit for bit. Files to resume from go to ``out.parent``, which an interrupted run keeps.
    benchmarks:
        Names of the benchmarks for before and after, unless the user names others; if empty, all that
        fit the model.
    kinds:
        The kinds of models it works for.
    quantized:
        Whether it trains on weights in 4 bits where these are available.
    outside:
        From settings to the fingerprint of each thing that ``run`` reads besides built data sets, such as a corpus,
        by the name under which ``run`` records it among the data. Each name has a colon. Without it, a changed
        corpus would not be noticed when a run is continued.
    all_weights:
        Whether it changes all weights whatever its settings, so that they have to be in float32. A recipe whose
        settings have a ``rank`` does so with a rank of 0.
    memory:
        From the network and the settings to what ``run`` keeps in memory besides the network and its activations; for
        a recipe that learns something else than a LoRA, a stamp or all weights.
    steps:
        From the settings and built data to the number of training steps; 0 where the data is not built. For a recipe
        that makes passes over its rows; others have a setting ``steps``.
    """

    name: str
    summary: str
    source: str
    cite: tuple[str, ...]
    profiles: Mapping[str, Any]
    run: Callable[[Model, Any, TrainingData, Path, Console], Adapter]
    benchmarks: tuple[str, ...] = ()
    kinds: tuple[Literal["causal", "masked"], ...] = ("causal",)
    quantized: bool = False
    citations: Mapping[str, str] = field(default_factory=dict)
    outside: Callable[[Any], Mapping[str, str]] | None = None
    all_weights: bool = False
    memory: Callable[[Any, Any], Memory] | None = None
    steps: Callable[[Any, TrainingData], int] | None = None


def trains_all_weights(recipe: Recipe, settings: Any) -> bool:
    """Whether a recipe with these settings changes all weights of a model, which are then in float32."""
    return recipe.all_weights or getattr(settings, "rank", None) == 0


#: A recipe whose before and after are the benchmarks of stereotypes; for models of both kinds unless it says otherwise.
stereotype_recipe = partial(Recipe, benchmarks=("stereoset", "crows_pairs", "biaske"), kinds=("causal", "masked"))


@dataclass
class Job(Generic[T]):
    """One run of a recipe: what it is given, as ``Recipe.run`` is, and what it costs from now on."""

    recipe: str
    model: Model
    settings: T
    data: TrainingData
    out: Path
    console: Console

    def __post_init__(self) -> None:
        from mitigation.running.cost import CostMeter  # a recipe is listed without torch

        self.meter = CostMeter(self.model)

    def done(
        self,
        parameters: int | None,
        measures: Mapping[str, Numbers | float] | None = None,
        changes: Sequence[Change] = (),
    ) -> Adapter:
        """The facts of the folder ``out``, with the cost so far of training this number of parameters.

        None is for a recipe that computes nothing, which costs nothing and reads no data. ``measures`` and ``changes``
        are those of the recipe itself (:func:`mitigation.adapters.write.describe`).
        """
        from mitigation.adapters.write import describe

        cost, data = self.meter.cost(parameters or 0), self.data.versions
        if parameters is None:
            cost, data = replace(cost, seconds=0.0, memory=0), {}
        made = describe(self.out, self.model, self.recipe, self.settings, data=data, cost=cost, measures=measures)
        return replace(made, changes=tuple(changes))


def declared(name: str, settings: type[T], run: Callable[[Job[T]], Adapter], **more: Any) -> Recipe:
    """A recipe of the project, of which ``data/recipes.toml`` has all but its settings and functions.

    Each profile has the values of the tables of ``shared`` that it is ``like``, and then its own; the rest is as in
    ``settings``.
    """
    shared = DECLARED[SHARED]
    facts = {key: shared[key] for key in ("benchmarks", "kinds")} | dict(recipe_of(name))
    profiles = {}
    for profile in ("clean", "paper"):
        own = dict(facts.pop(profile, {}))
        profiles[profile] = settings(**shared.get(own.pop("like", ""), {}) | own)
    facts = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    return Recipe(name, profiles=profiles, run=lambda *given: run(Job(name, *given)), **facts, **more)


def resolve_settings(recipe: Recipe, profile: str, file: Path | None, options: Mapping[str, Any]) -> Any:
    """The settings of a profile, overridden by a file (TOML or JSON), and then by options of the command line.

    Raises
    ------
    MitigationError
        If the file cannot be read, or a setting is unknown, of another type or out of its range.
    """
    settings = recipe.profiles[profile]
    types = {setting.name: type(getattr(settings, setting.name)) for setting in fields(settings)}
    for origin, overrides in ((f" in {file}", read_settings(file) if file else {}), ("", options)):
        for name, value in overrides.items():
            if name not in types:
                near = did_you_mean(name, types)
                raise MitigationError(
                    f"{recipe.name} has no setting {name!r}{origin}{near}; its settings are {', '.join(types)}."
                )
            if type(value) is not types[name] and not (types[name] is float and type(value) is int):
                raise MitigationError(
                    f"The setting {name} is {value!r}{origin}; give a value of type {types[name].__name__}."
                )
        settings = replace(settings, **{name: types[name](value) for name, value in overrides.items()})
    for own in fields(settings):
        if own.metadata.get("required") and not getattr(settings, own.name):
            option = f"--{own.name.replace('_', '-')}"
            raise MitigationError(f"The recipe {recipe.name} needs the setting {own.name}; give it with {option}.")
    return settings


def setting_options(profiles: Mapping[str, Any], title: str = "Settings of the recipe") -> list[Parameter]:
    """The options of settings for a command: None unless given, and the help shows the value in each profile."""
    options = []
    for own in fields(next(iter(profiles.values()))):
        values = {name: getattr(settings, own.name) for name, settings in profiles.items()}
        shown = ", ".join(f"{name} {value}".strip() for name, value in values.items())
        shown = "required" if own.metadata.get("required") else shown if any(v != "" for v in values.values()) else ""
        text = f"{own.metadata['help']} ({shown})" if shown else own.metadata["help"]
        kind: Any = type(next(iter(values.values())))
        annotation = Annotated[kind | None, Option(help=text, rich_help_panel=title)]
        options.append(Parameter(own.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return options


def read_settings(file: Path) -> dict[str, Any]:
    """The settings in a TOML or JSON file.

    Raises
    ------
    MitigationError
        If it cannot be read, or holds something else.
    """
    try:
        text = file.read_text(encoding="utf-8")
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise MitigationError(f"{file} cannot be read ({error.strerror}); give a TOML or JSON file.") from None
    except (ValueError, RecursionError) as error:
        raise MitigationError(f"{file} is not TOML or JSON ({error}); give settings by their names.") from None
    if not isinstance(content, dict):
        raise MitigationError(f"{file} holds a {type(content).__name__}; give settings by their names.")
    return content
