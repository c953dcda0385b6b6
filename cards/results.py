"""The ``results.json`` of a scoring run, read strictly: what was scored, how, and every score with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from cards.text import CardError

#: The version of ``results.json`` that is read.
SCHEMA = 1
#: How far rounding may take a number beyond the end of its range.
_ROUNDING = 1e-9


#: The version of rows that a benchmark has itself, in no published data set.
UNPUBLISHED = "unpublished"


@dataclass(frozen=True, slots=True)
class Headline:
    """The one number of a benchmark: the metric, the data set, and the group of a config where it has another name."""

    dataset: str
    metric: str
    groups: Mapping[str, str] = field(default_factory=dict)

    def group(self, config: str) -> str:
        """The group that a config is scored as.

        >>> Headline("gender-neutral-probes", "gas").group("stsb-paper")
        'stsb'
        """
        name = config.removesuffix("-paper")
        return self.groups.get(name, name)


@dataclass(frozen=True, slots=True)
class Score:
    """A metric over a group of ``n`` examples with its 95 % interval; NaN is not defined, and ``why`` says why.

    ``least`` and ``most`` are the ends of the metric's range, ``ideal`` the value of an unbiased model.
    """

    benchmark: str
    group: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    ideal: float | None
    reading: str
    why: str
    least: float
    most: float

    @property
    def number(self) -> str:
        """The value with its interval, for people."""
        if math.isnan(self.value):
            return f"not defined ({self.why})" if self.why else "not defined"
        return f"{shown(self.value)} [{shown(self.low)}, {shown(self.high)}]" if self.bounded else shown(self.value)

    @property
    def bounded(self) -> bool:
        """Whether it has an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def shown(value: float) -> str:
    """Four digits that tell.

    >>> shown(0.12344), shown(52.3154), shown(0), shown(-0.00004)
    ('0.1234', '52.32', '0', '-4e-05')
    """
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Run:
    """What was scored and how.

    ``data`` maps DATASET/CONFIG/SPLIT to version, digest and how many rows; ``headlines`` has the one
    number of each benchmark that has one.
    """

    model: str
    revision: str
    adapter: str
    dtype: str
    prompt: str
    profile: str
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    scores: tuple[Score, ...]
    headlines: Mapping[str, Headline] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model as others may know it: of a path on somebody's disk, the last part."""
        return PurePath(self.model).name if PurePath(self.model).is_absolute() else self.model

    @property
    def setting(self) -> str:
        """What the model was scored with besides itself, in words; empty for the model alone as it is by default."""
        parts = {
            "adapter": self.adapter.partition("@")[0],
            "prompt": "" if self.prompt == "plain" else self.prompt,
            "profile": "" if self.profile == "clean" else self.profile,
            "chat": "template" if self.environment.get("chat template") else "",
        }
        return ", ".join(f"{name} {text}" for name, text in parts.items() if text)


def read(folder: Path) -> Run:
    """The run in a folder, or in a ``results.json``.

    Raises
    ------
    CardError
        When there is no such file, a field is missing or of another type, or a number is outside the
        range of its metric.
    """
    file = folder / "results.json" if folder.is_dir() else folder
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CardError(
            f"{file} cannot be read as results ({type(error).__name__}); give the folder of a scoring run."
        ) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise CardError(f"{file} is not results of schema {SCHEMA}; score the model again with this version.")
    try:
        texts = {name: _text(found, name) for name in ("model", "revision", "adapter", "dtype", "prompt", "profile")}
        data = {str(name): str(version) for name, version in _of(found, "data", dict).items()}
        scores = tuple(_score(entry) for entry in _of(found, "estimates", list))
        named = _of(found, "headlines", dict) if "headlines" in found else {}
        return Run(
            **texts,
            data=data,
            environment=_of(found, "environment", dict),
            scores=scores,
            headlines={str(benchmark): _headline(entry) for benchmark, entry in named.items()},
        )
    except (KeyError, TypeError) as error:
        raise CardError(f"{file} is no whole results file ({error}); score the model again.") from None


def _of(entry: Any, name: str, kind: type) -> Any:
    if not isinstance(entry, dict):
        raise TypeError("an estimate is no object")
    if name not in entry:
        raise KeyError(f"lacks {name}")
    if not isinstance(entry[name], kind) or isinstance(entry[name], bool):
        raise TypeError(f"{name} is {entry[name]!r:.40}")
    return entry[name]


def _text(entry: Any, name: str) -> str:
    return str(_of(entry, name, str))


def _number(entry: Any, name: str) -> float:
    """A number, where null is not defined and infinities are words."""
    value = _of(entry, name, object)
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return float(value)
    raise TypeError(f"{name} is {value!r:.40}")


def _headline(entry: Any) -> Headline:
    groups = {str(config): _text({"group": group}, "group") for config, group in _of(entry, "groups", dict).items()}
    return Headline(_text(entry, "dataset"), _text(entry, "metric"), groups)


def _score(entry: Any) -> Score:
    ideal = _number(entry, "ideal")
    score = Score(
        benchmark=_text(entry, "benchmark"),
        group=_text(entry, "group"),
        metric=_text(entry, "metric"),
        value=_number(entry, "value"),
        low=_number(entry, "low"),
        high=_number(entry, "high"),
        n=_of(entry, "n", int),
        ideal=None if math.isnan(ideal) else ideal,
        reading=_text(entry, "reading"),
        why=_text(entry, "why"),
        least=_number(entry, "least"),
        most=_number(entry, "most"),
    )
    for name, number in (("value", score.value), ("low", score.low), ("high", score.high)):
        if not _within(number, score.least, score.most):
            raise CardError(
                f"{score.benchmark}, {score.group}: the {name} of {score.metric} is {number:g}, and the metric goes "
                f"from {score.least:g} to {score.most:g}; nothing of this run is published, score the model again."
            )
    return score


def _within(value: float, least: float, most: float) -> bool:
    """Whether a number is in its range, but for rounding; what is not defined is nowhere.

    >>> _within(1 + 1e-12, 0, 1), _within(1.1, 0, 1), _within(math.nan, 0, 1)
    (True, False, True)
    """
    room = _ROUNDING * max([1.0, *(abs(end) for end in (least, most) if math.isfinite(end))])
    return math.isnan(value) or least - room <= value <= most + room
