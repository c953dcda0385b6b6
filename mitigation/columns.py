"""The scores that tables of methods show: where each is among the changes of an adapter, and how it is read."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cards.verdict import ability_verdict, p_of, standing, verdict
from mitigation.editing import PAIRS, SIDES
from scoring import benchmarks
from scoring.adapters.facts import Adapter, Change, Numbers

DOMAINS = ("gender", "race", "religion")
_DATA = tomllib.loads((Path(__file__).parent / "data" / "columns.toml").read_text(encoding="utf-8"))
#: Benchmarks that the columns need, with the splits of which the columns are; those for another kind of model are left
#: out.
BENCHMARKS: Mapping[str, set[str]] = {name: set(splits) for name, splits in _DATA["benchmarks"].items()}
#: What papers call recipes, columns and models, by these three words.
PRINTED: Mapping[str, Mapping[str, str]] = _DATA["printed"]
#: Benchmark, group and metric.
Place = tuple[str, str, str]
HELD_OUT, EDITED = SIDES
#: The data whose SS is not held out for a method that was trained on it.
_STEREOSET = "biaske/stereoset/test"


@dataclass(frozen=True, slots=True)
class Column:
    """A score of the tables.

    Parameters
    ----------
    reading:
        What it says, in words.
    places:
        The first place that was measured counts.
    ideal:
        The value of an unbiased model; None for language ability and for agreement with the unchanged model.
    span:
        Of language ability the length of its range; NaN for other scores. That of perplexity is infinite.
    of_gender:
        Whether it is of gender only.
    """

    reading: str
    places: tuple[Place, ...] = ()
    ideal: float | None = None
    span: float = math.nan
    of_gender: bool = False

    @property
    def ability(self) -> bool:
        """Whether it measures language ability."""
        return not math.isnan(self.span)


COLUMNS: Mapping[str, Column] = {
    name: Column(**{**entry, "places": tuple(map(tuple, entry["places"]))}) for name, entry in _DATA["columns"].items()
}


def change_of(adapter: Adapter, column: str, domain: str) -> Change | None:
    """The change of an adapter in a column of the table of a domain, or None if it was not measured.

    SS of a benchmark is held out unless the adapter's recipe has read those pairs in the domain.
    """
    if COLUMNS[column].of_gender and domain != "gender":
        return None
    changes = {(change.benchmark, change.group, change.metric): change for change in adapter.changes}
    of = adapter.settings.get("domain", domain)
    edited = _STEREOSET in adapter.data or any(change.benchmark == PAIRS for change in adapter.changes)
    edited = edited and of in ("all", domain)
    for benchmark, group, metric in COLUMNS[column].places:
        change = changes.get((benchmark, group.format(domain=domain), metric))
        # Own pairs of all domains are not those of one.
        shown = of == domain if benchmark == PAIRS else not (edited and column == "SS held out")
        if change and shown:
            return change
    return None


def to_remove(of: str, before: Numbers, ideal: float) -> str:
    """How much bias the score ``of`` showed before a recipe, and whether noise alone explains it: one sentence."""
    sure = "beyond noise" if standing(before, ideal) in ("above", "below") else "which noise alone can explain"
    score = "{:.2f} [{:.2f}, {:.2f}]".format(*before)
    return f"To remove: {abs(before[0] - ideal):.2f}, as {of} was {score} and its ideal is {ideal:g}, {sure}."


def first_bias(adapter: Adapter) -> str:
    """The sentence of :func:`to_remove` for the first score of bias of an adapter; empty where none was measured.

    That is the first of the columns, in the adapter's own domain if it has one, else the first with an ideal value.
    """
    own = adapter.settings.get("domain")
    for domain in [own] if own in DOMAINS else DOMAINS:
        for name, column in COLUMNS.items():
            change = change_of(adapter, name, str(domain)) if column.ideal is not None else None
            if change and not math.isnan(change.before[0]):
                return to_remove(f"{name} ({domain})", change.before, column.ideal or 0.0)
    known = {name: {m.name: m.ideal for m in benchmarks.get(name).metrics("clean")} for name in benchmarks.names()}
    for change in adapter.changes:
        ideal = known.get(change.benchmark, {}).get(change.metric)
        if ideal is not None and math.isfinite(ideal) and not math.isnan(change.before[0]):
            return to_remove(f"{change.benchmark} {change.metric}", change.before, ideal)
    return ""


def said(change: Change, column: str, p: float = 0.0) -> str:
    """What the difference says: nearer, further or unclear; for ability kept, lost or unclear.

    Perplexity is judged by its ratio: kept if the whole interval is below 2 % more. ``p`` is that of the change,
    corrected for all that are shown.
    """
    span = COLUMNS[column].span
    if math.isinf(span):
        value, low, high = (number / change.before[0] for number in change.difference)
        return ability_verdict((-value, -high, -low), 1.0)
    if COLUMNS[column].ability:
        return ability_verdict(change.difference, span)
    return verdict(change.before[0], change.difference, COLUMNS[column].ideal, p)


def p_value(change: Change) -> float:
    """P of no difference; from the interval where an earlier version did not write it."""
    return p_of(change.difference) if change.p is None else change.p
