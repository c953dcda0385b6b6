"""The type of a recipe: its settings with defaults and sources, and a function from a model to an adapter."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from inspect import Parameter
from operator import ge, gt, le, lt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from rich.console import Console
from typer import Option

from cards.common.registry import annotation_of
from cards.common.text import did_you_mean
from mitigation.errors import MitigationError
from mitigation.summaries import DECLARED, SHARED, recipe_of
from mitigation.training.data import TrainingData
from scoring.adapters.facts import Adapter, Change, Numbers
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.model import Model  # without loading torch
else:
    Model = object

#: The text of this name is a corpus of the Hub.
WIKITEXT = "wikitext"
TEXT_FORMAT = "give a UTF-8 file with one text per line"
# Other modules of the package import these from here: what a recipe is given and gives, and its errors.
__all__ = [
    "TEXT_FORMAT",
    "WIKITEXT",
    "WITHOUT_EFFECT",
    "Adapter",
    "Change",
    "Console",
    "Job",
    "Memory",
    "MitigationError",
    "Model",
    "Numbers",
    "Recipe",
    "ScoringError",
    "Settings",
    "TrainingData",
    "declared",
    "defaults",
    "read_settings",
    "resolve_settings",
    "setting",
    "setting_options",
    "trains_all_weights",
]
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
    file: bool = False,
) -> Any:
    """A field of a recipe's settings: its default, what it does, and the source of the default.

    :class:`Settings` checks that a number is above ``above``, at least ``least``, below ``below`` and at most ``most``,
    and that a text is one of ``choices``. One that is ``required`` has no default: a recipe does not run without it.
    A ``file`` names a text file, which :meth:`Job.read` reads and :meth:`Settings.inputs` records.
    """
    metadata = {
        "help": help_,
        "source": source,
        "required": required,
        "above": above,
        "least": least,
        "below": below,
        "most": most,
        "choices": choices,
        "file": file,
    }
    return field(default=default, metadata=metadata)


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
        known: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            if is_dataclass(base):
                known |= {inherited.name: inherited for inherited in fields(base)}
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
        # NaN fails every comparison, so it is asked whether a value is inside and not whether it is outside.
        tests = {"above": gt, "least": ge, "below": lt, "most": le}
        for checked in fields(self):
            value, limits = getattr(self, checked.name), checked.metadata
            _refuse_wrong_type(checked, value)
            for name, test in tests.items():
                if limits.get(name) is not None and not test(value, limits[name]):
                    raise MitigationError(f"The setting {checked.name} is {value}; give a value {range_of(limits)}.")
            if limits.get("choices") and value not in limits["choices"]:
                *others, last = limits["choices"]
                raise MitigationError(f"The setting {checked.name} is {value!r}; give {', '.join(others)} or {last}.")

    def inputs(self) -> dict[str, str]:
        """Name to fingerprint of all that a recipe with these settings reads besides built data sets.

        The facts of the adapter record it, and training is continued only where it is the same. Each name has a colon:
        here the setting and the name of its file. Settings that name something else than a text file, such as a corpus
        or a list of words, extend this method.

        Raises
        ------
        MitigationError
            If a file cannot be read.
        """
        fingerprints = {}
        for named in fields(self):
            path = getattr(self, named.name)
            if named.metadata.get("file") and path:
                digest = hashlib.sha256(_bytes_of(named.name, path)).hexdigest()
                fingerprints[f"{named.name}:{Path(path).name}"] = digest
        return fingerprints


def _refuse_wrong_type(checked: Field[Any], value: Any) -> None:
    """Refuses a value of another type than the annotation of its setting, where that is a plain type."""
    annotation = annotation_of(checked)
    if annotation not in ("str", "int", "float", "bool"):
        return
    given = type(value).__name__
    # A whole number is a number too.
    if given != annotation and not (annotation == "float" and given == "int"):
        raise MitigationError(f"The setting {checked.name} is {value!r}; give a value of type {annotation}.")


def range_of(limits: Mapping[str, Any]) -> str:
    """The range of a setting in words.

    >>> range_of({"above": 0, "most": 1}), range_of({"least": 2})
    ('above 0 and at most 1', 'of at least 2')
    """
    words = {"above": "above", "least": "of at least", "below": "below", "most": "at most"}
    parts = []
    for name, text in words.items():
        if limits.get(name) is not None:
            parts.append(f"{text} {limits[name]:g}")
    return " and ".join(parts)


def _bytes_of(setting_name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise MitigationError(f"{path} cannot be read ({error.strerror}); give --{setting_name} a text file.") from None


#: Settings that change the memory or the log of a training and not its result; the free memory may decide about them.
WITHOUT_EFFECT = ("gradient_checkpointing", "report_to")


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
        frozen dataclass of plain values that inherits from :class:`Settings`; its fields are made by :func:`setting`.
    make:
        ``make(job)`` writes the files of the adapter into the existing folder ``job.out`` and returns
        :meth:`Job.done`. It restores the network of ``job.model`` bit for bit. Files to resume from go to
        ``job.out.parent``, which an interrupted command keeps.
    benchmarks:
        Names of the benchmarks for before and after, unless the user names others; if empty, all that
        fit the model.
    kinds:
        The kinds of models it works for.
    quantized:
        Whether it trains on weights in 4 bits where these are available.
    all_weights:
        Whether it changes all weights whatever its settings, so that they have to be in float32. A recipe whose
        settings have a ``rank`` does so with a rank of 0.
    memory:
        From the network and the settings to what ``make`` keeps in memory besides the network and its activations; for
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
    make: Callable[[Job[Any]], Adapter]
    benchmarks: tuple[str, ...] = ()
    kinds: tuple[Literal["causal", "masked"], ...] = ("causal",)
    quantized: bool = False
    citations: Mapping[str, str] = field(default_factory=dict)
    all_weights: bool = False
    memory: Callable[[Any, Any], Memory] | None = None
    steps: Callable[[Any, TrainingData], int] | None = None

    def __post_init__(self) -> None:
        if "clean" not in self.profiles or not self.profiles.keys() <= {"clean", "paper"}:
            raise MitigationError(
                f"The recipe {self.name} has the profiles {', '.join(self.profiles)}; give clean, and paper if a paper "
                "has other settings."
            )
        for settings in self.profiles.values():
            if not isinstance(settings, Settings):
                raise MitigationError(
                    f"The settings of the recipe {self.name} are no Settings but {type(settings).__name__}; let the "
                    "class inherit from mitigation.recipe.Settings."
                )
            if not callable(settings.inputs):
                raise MitigationError(
                    f"A setting of the recipe {self.name} is called inputs, which is a method of Settings; give it "
                    "another name."
                )

    def apply(self, model: Model, settings: Any, data: TrainingData, out: Path, console: Console) -> Adapter:
        """Makes an adapter of a model in the existing folder ``out``, and returns its facts."""
        return self.make(Job(self.name, model, settings, data, out, console))


def trains_all_weights(recipe: Recipe, settings: Any) -> bool:
    """Whether a recipe with these settings changes all weights of a model, which are then in float32."""
    return recipe.all_weights or getattr(settings, "rank", None) == 0


@dataclass
class Job(Generic[T]):
    """What a recipe makes an adapter from: what it gets, what it reads, and what it costs from now on.

    Parameters
    ----------
    recipe:
        The name of the recipe.
    model:
        The loaded model; the recipe restores its network.
    data:
        Built data sets; the versions of those that the recipe loads are recorded.
    out:
        The folder for the files of the adapter.
    """

    recipe: str
    model: Model
    settings: T
    data: TrainingData
    out: Path
    console: Console

    def __post_init__(self) -> None:
        from mitigation.running.cost import CostMeter  # a recipe is listed without torch

        self.meter = CostMeter(self.model)
        # Now, before anything is trained, so that a change while training is noticed later.
        settings: Any = self.settings
        self.inputs: dict[str, str] = settings.inputs()

    @property
    def versions(self) -> dict[str, str]:
        """The versions of all that was read so far: built data sets, and then what the settings name."""
        return self.data.versions | self.inputs

    def read(self, name: str) -> str:
        """The text of the file that a setting names; empty where it names none.

        The setting is made with ``setting(…, file=True)``, by which the file is recorded: training is continued only
        while the file is the same.

        Raises
        ------
        MitigationError
            If the setting is no file, or the file cannot be read as UTF-8.
        """
        settings: Any = self.settings
        marked = {named.name for named in fields(settings) if named.metadata.get("file")}
        if name not in marked:
            raise MitigationError(
                f"The setting {name} of {self.recipe} is not marked as a file, so a changed file would not be noticed; "
                "make it with setting(…, file=True)."
            )
        path = getattr(settings, name)
        if not path:
            return ""
        try:
            return _bytes_of(name, path).decode("utf-8")
        except UnicodeDecodeError:
            raise MitigationError(f"{path} is not UTF-8; give --{name} a text file.") from None

    def done(
        self,
        parameters: int | None,
        measures: Mapping[str, Numbers | float] | None = None,
        changes: Sequence[Change] = (),
    ) -> Adapter:
        """The facts of the folder ``out``, with the cost so far of training this number of parameters.

        None is for a recipe that computes nothing, which costs nothing and reads no built data. ``measures`` and
        ``changes`` are those of the recipe itself (:func:`mitigation.adapters.write.describe`).
        """
        from mitigation.adapters.write import describe

        cost = self.meter.cost(parameters or 0)
        data = self.versions
        if parameters is None:
            cost = replace(cost, seconds=0.0, memory=0)
            # Built data may have been loaded for the texts of perplexity; the recipe itself has read none.
            data = self.inputs
        facts = describe(self.out, self.model, self.recipe, self.settings, data=data, cost=cost, measures=measures)
        return replace(facts, changes=tuple(changes))


def declared(name: str, settings: type[T], make: Callable[[Job[T]], Adapter], **more: Any) -> Recipe:
    """A recipe of the project; ``data/recipes.toml`` has all but its settings and functions.

    Each profile has the values of the tables of ``shared`` that it is ``like``, and then its own; the rest is as in
    ``settings``.
    """
    # What a recipe does not say itself is said once for all of them.
    shared = DECLARED[SHARED]
    facts = {"benchmarks": shared["benchmarks"], "kinds": shared["kinds"]}
    facts |= recipe_of(name)
    profiles = {}
    for profile in ("clean", "paper"):
        values = dict(facts.pop(profile, {}))
        like = values.pop("like", "")
        profiles[profile] = settings(**shared.get(like, {}) | values)
    for key, value in facts.items():
        if isinstance(value, list):
            facts[key] = tuple(value)  # TOML has no tuples
    return Recipe(name, profiles=profiles, make=make, **facts, **more)


def resolve_settings(recipe: Recipe, profile: str, file: Path | None, options: Mapping[str, Any]) -> Any:
    """The settings of a profile, overridden by a file (TOML or JSON), and then by options of the command line.

    Raises
    ------
    MitigationError
        If there is no such profile, the file cannot be read, or a setting is unknown, of another type or out of its
        range.
    """
    if profile not in recipe.profiles:
        raise MitigationError(
            f"The recipe {recipe.name} has no profile {profile!r}; give --profile {' or '.join(recipe.profiles)}."
        )
    settings = recipe.profiles[profile]
    # The type of a value is that of its default.
    types = {setting.name: type(getattr(settings, setting.name)) for setting in fields(settings)}
    of_file = read_settings(file) if file else {}
    # What the command line says comes last, so that it counts.
    for origin, overrides in ((f" in {file}", of_file), ("", options)):
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
        converted = {name: types[name](value) for name, value in overrides.items()}  # a whole number may be a float
        settings = replace(settings, **converted)
    for needed in fields(settings):
        if needed.metadata.get("required") and not getattr(settings, needed.name):
            option = f"--{needed.name.replace('_', '-')}"
            raise MitigationError(f"The recipe {recipe.name} needs the setting {needed.name}; give it with {option}.")
    return settings


def setting_options(profiles: Mapping[str, Any], title: str = "Settings of the recipe") -> list[Parameter]:
    """The options of settings for a command: None unless given, and the help shows the value in each profile."""
    options = []
    for shown in fields(next(iter(profiles.values()))):
        values = {name: getattr(settings, shown.name) for name, settings in profiles.items()}
        text = shown.metadata["help"]
        if shown.metadata.get("required"):
            text += " (required)"
        elif set(values.values()) != {""}:
            defaults_by_profile = ", ".join(f"{name} {value}".strip() for name, value in values.items())
            text += f" ({defaults_by_profile})"
        kind: Any = type(next(iter(values.values())))
        annotation = Annotated[kind | None, Option(help=text, rich_help_panel=title)]
        options.append(Parameter(shown.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
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
        # JSON may have any ending.
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise MitigationError(f"{file} cannot be read ({error.strerror}); give a TOML or JSON file.") from None
    except (ValueError, RecursionError) as error:
        raise MitigationError(f"{file} is not TOML or JSON ({error}); give settings by their names.") from None
    if not isinstance(content, dict):
        raise MitigationError(f"{file} holds a {type(content).__name__}; give settings by their names.")
    return content
