"""Reads the ``results.json`` of a scoring run strictly: what was scored, how, and every score with its interval.

This is the one reader of the file. :func:`load` checks names and types of all fields; :func:`read` also
checks that every number is within the range of its metric, which publishing requires.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from cards.stored import opened
from cards.text import CardError, decimals
from cards.validation import first_fault

#: The version of ``results.json`` that is read.
SCHEMA = 1
#: The relative rounding error by which a number may exceed the range of its metric.
_ROUNDING = 1e-9
_STRICT = ConfigDict(extra="forbid", strict=True)


def _decode_infinity(value: Any) -> Any:
    """In ``results.json`` infinities are the strings "inf" and "-inf"."""
    return float(value) if value in ("inf", "-inf") else value


def _decode_number(value: Any) -> Any:
    """In ``results.json`` an undefined number is null."""
    return math.nan if value is None else _decode_infinity(value)


Number = Annotated[float, BeforeValidator(_decode_number)]


#: The version of rows that a benchmark has itself, in no published data set.
UNPUBLISHED = "unpublished"


@dataclass(frozen=True, slots=True, config=_STRICT)
class Headline:
    """The published number of a benchmark: the data set, the metric, and the group by config where names differ.

    ``shown`` is the group that reports show in one row, by default the first. ``sentence`` says in words what that
    row means: ``{ss}`` is the value of the metric ``ss`` as a whole number, ``{gas%}`` a share times 100,
    ``{r:2}`` a number with two decimals, and ``{group}`` what ``names`` calls the group that the row is of.
    ``leaning`` is a metric of the same group, what the model does where it is below its ideal value, and what above.
    """

    dataset: str
    metric: str
    groups: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""
    sentence: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    leaning: tuple[str, str, str] | None = None

    def group(self, config: str) -> str:
        """The group of scores for a config.

        >>> Headline("gender-neutral-probes", "gas").group("stsb-paper")
        'stsb'
        """
        name = config.removesuffix("-paper")
        return self.groups.get(name, name)


@dataclass(frozen=True, slots=True, config=_STRICT)
class Score:
    """A metric over a group of ``n`` examples in ``clusters`` clusters, with its 95 % interval, computed by ``method``.

    An undefined number is NaN, and ``why`` says why. ``least`` and ``most`` are the ends of the metric's
    range, and ``ideal`` is the value of an unbiased model. ``sd`` is the standard deviation of the bootstrap,
    ``printed_sd`` that by the formula of the paper. ``ability`` marks a score of language ability, not of bias.
    ``title`` and ``short`` are names of the metric for readers.
    """

    benchmark: str
    group: str
    metric: str
    value: Number
    low: Number
    high: Number
    sd: Number
    n: int
    clusters: int
    ideal: Annotated[float | None, BeforeValidator(_decode_infinity)]
    reading: str
    why: str
    printed_sd: Annotated[float | None, BeforeValidator(_decode_infinity)]
    least: Number
    most: Number
    method: str = ""
    label: str = ""
    ability: bool = False
    title: str = ""
    short: str = ""

    @property
    def number(self) -> str:
        """The value with its interval as text."""
        if math.isnan(self.value):
            return f"not defined ({self.why})" if self.why else "not defined"
        return interval_text(self.value, self.low, self.high)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def good(self) -> str:
        """Which values are good, in words."""
        return good_values(self.ideal, self.least, self.most)


def good_values(ideal: float | None, least: float = -math.inf, most: float = math.inf) -> str:
    """Which values of a metric are good, in words.

    >>> good_values(0, 0, 1), good_values(100, 0, 100), good_values(50, 0, 100), good_values(None)
    ('lower is better', 'higher is better', 'closer to 50 is better', 'no value is better')
    """
    if ideal is None:
        return "no value is better"
    return {least: "lower is better", most: "higher is better"}.get(ideal, f"closer to {ideal:g} is better")


def supported_digits(value: float, low: float, high: float) -> str:
    """A number with as many digits as its interval supports: the last one is at most a fifth of the interval's width.

    Without an interval, or with one of width zero, it has four significant digits.

    >>> supported_digits(0.25123, 0.1987, 0.3121), supported_digits(32.9, 29.0, 36.7)
    ('0.25', '33')
    >>> supported_digits(0.12344, math.nan, math.nan)
    '0.1234'
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return f"{value:.4g}"
    places = max(0, math.ceil(round(math.log10(5 / width), 9)))
    return decimals(value, places)


def interval_text(value: float, low: float, high: float) -> str:
    """A value with its interval as text, with the digits that the interval supports.

    >>> interval_text(0.25123, 0.1987, 0.3121), interval_text(0.5, math.nan, math.nan)
    ('0.25 [0.20, 0.31]', '0.5')
    """
    if not math.isfinite(high - low):
        return supported_digits(value, low, high)
    return "{} [{}, {}]".format(*(supported_digits(number, low, high) for number in (value, low, high)))


@dataclass(frozen=True, slots=True, config=_STRICT)
class Run:
    """The content of ``results.json``; ``data`` maps DATASET/CONFIG/SPLIT to version, digest and number of rows."""

    schema: Literal[1]
    model: str
    revision: str
    adapter: str
    dtype: str
    prompt: str
    profile: str
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    estimates: tuple[Score, ...]
    speed: Mapping[str, Number] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    headlines: Mapping[str, Headline] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The public name of the model: for an absolute path, only its last part."""
        return PurePath(self.model).name if PurePath(self.model).is_absolute() else self.model

    @property
    def setting(self) -> str:
        """Adapter, prompt, profile and chat template in words; empty for the model alone with the default settings."""
        parts = {
            "adapter": self.adapter.partition("@")[0],
            "prompt": "" if self.prompt == "plain" else self.prompt,
            "profile": "" if self.profile == "clean" else self.profile,
            "chat": "template" if self.environment.get("chat template") else "",
        }
        return ", ".join(f"{name} {text}" for name, text in parts.items() if text)

    @property
    def gaps(self) -> list[str]:
        """What a complete run would have and this one lacks, each in a few words; empty for a complete run."""
        parts = [f"{name}: {text.partition(', ')[2]}" for name, text in self.data.items() if ", " in text]
        return parts + [f"{name}: no data" for name in self.environment.get("data lacking") or []]


_RUN = TypeAdapter(Run)


def load(path: Path) -> Run:
    """The run in a ``results.json``, or in the folder that has one.

    Raises
    ------
    CardError
        When there is no such file, it has another schema, a field is missing, unknown or of another type, or its
        checksum is another. Results of earlier versions have no checksum.
    """
    file = path / "results.json" if path.is_dir() else path
    try:
        data, whole = opened(file.read_bytes())
        run = _RUN.validate_json(data)
        if not whole:
            raise CardError(f"{file} is not as it was written (its checksum is another); score the model again.")
        return run
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except ValidationError as error:
        faults = error.errors(include_url=False)
        if faults[0]["type"] != "json_invalid":
            if any(fault["loc"] in ((), ("schema",)) for fault in faults):
                message = f"{file} is not results of schema {SCHEMA}; score the model again with this version."
                raise CardError(message) from None
            raise CardError(
                f"{file} is not a complete results file ({first_fault(error)}); score the model again."
            ) from None
        reason = faults[0]["msg"]
    raise CardError(f"{file} cannot be read as results ({reason}); give a results.json or its folder.")


def read(path: Path) -> Run:
    """The run of :func:`load`, with all numbers within the range of their metric.

    Raises
    ------
    CardError
        As :func:`load`, and when a number is out of range.
    """
    run = load(path)
    for score in run.estimates:
        for name, number in (("value", score.value), ("low", score.low), ("high", score.high)):
            if not _in_range(number, score.least, score.most):
                raise CardError(
                    f"{score.benchmark}, {score.group}: the {name} of {score.metric} is {number:g}, but the metric "
                    f"ranges from {score.least:g} to {score.most:g}; this run is not published, score the model again."
                )
    return run


def _in_range(value: float, least: float, most: float) -> bool:
    """Whether a number is within its range, apart from rounding; an undefined number is.

    >>> _in_range(1 + 1e-12, 0, 1), _in_range(1.1, 0, 1), _in_range(math.nan, 0, 1)
    (True, False, True)
    """
    tolerance = _ROUNDING * max([1.0, *(abs(end) for end in (least, most) if math.isfinite(end))])
    return math.isnan(value) or least - tolerance <= value <= most + tolerance
