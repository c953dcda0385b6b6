"""The tables of methods on one model: a table for each domain, a row for each method, a column for each score."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from cards.verdict import LEVEL, holm, p_of
from mitigation.columns import COLUMNS, DOMAINS, change_of, p_value, said
from mitigation.editing import PAIRS
from mitigation.printed import RECIPES, UNCHANGED, TableRow, printed_rows
from scoring.adapters.facts import Adapter, Change, Numbers
from scoring.statistics.intervals import student

_SEED = re.compile(r"(.+)-seed-\d+")


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the name of its folder, its adapter, or the sentence that says why it could not be made."""

    name: str
    adapter: Adapter | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ScoreCell:
    """A score of a method in a table.

    ``difference`` is the change from the unchanged model with its interval, ``verdict`` what it says (as
    :func:`mitigation.columns.said`), ``remarks`` what else has to be known.
    """

    value: str
    difference: str = ""
    verdict: str = ""
    remarks: Sequence[str] = ()

    @property
    def tone(self) -> str:
        """``kept`` for what is better or kept beyond noise, ``lost`` for what is worse or is paid with ability."""
        if self.verdict in ("nearer, ability kept", "kept"):
            return "kept"
        return "lost" if self.verdict in ("nearer, ability lost", "further", "lost") else ""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A row of a table; ``number`` is that of the method in the plot, and ``ability`` what is left of that.

    ``kind`` is base, measured, printed or reason; ``seeds`` are the rows of each seed, if there are several.
    """

    name: str
    kind: str
    cells: Sequence[ScoreCell | None] = ()
    cost: Sequence[str] = ()
    number: int = 0
    ability: str = ""
    note: str = ""
    seeds: Sequence[ScoreRow] = ()


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A method in the plot: the distance of SS from 50 and the difference of LMS, each with its interval."""

    number: int
    distance: Numbers
    ability: Numbers


@dataclass(frozen=True, slots=True)
class DomainTable:
    """The table of a domain; ``base`` is the distance of SS of the unchanged model from 50.

    ``tests`` is the number of changes of bias scores that it shows, for whose number their p-values are corrected.
    """

    domain: str
    columns: Sequence[str]
    rows: Sequence[ScoreRow]
    points: Sequence[PlotPoint] = field(default=())
    base: float = math.nan
    tests: int = 0

    @property
    def by_chance(self) -> float:
        """How many p-values would be below 0.05 where no method changed anything."""
        return LEVEL * self.tests


def domain_tables(model: str, methods: Sequence[Method]) -> list[DomainTable]:
    """The tables of the domains in which any method has a score of bias."""
    named = by_method(methods)
    adapters = [adapter for group in named.values() for adapter in group.values()]
    tables = []
    for domain in DOMAINS:
        columns = [name for name in COLUMNS if any(change_of(adapter, name, domain) for adapter in adapters)]
        if all(COLUMNS[name].ability for name in columns):
            continue
        rows = [_base(model, adapters, columns, domain)]
        printed = printed_rows(model, domain, kind_of(adapters))
        rows += [_printed(row, columns) for row in printed if row.method in UNCHANGED]
        later = [row for row in printed if row.method not in UNCHANGED]
        points: list[PlotPoint] = []
        p = corrected(named, columns, domain)
        last = {next(iter(group.values())).recipe: name for name, group in named.items()}
        for number, (name, group) in enumerate(named.items(), 1):
            rows.append(_measured(name, group, columns, domain, p, number))
            recipe = next(iter(group.values())).recipe
            if last[recipe] == name:
                rows += [_printed(row, columns) for row in later if RECIPES.get(row.method) == recipe]
                later = [row for row in later if RECIPES.get(row.method) != recipe]
            points += _point(list(group.values()), domain, number)
        rows += [ScoreRow(method.name, "reason", note=method.reason) for method in methods if not method.adapter]
        rows += [_printed(row, columns, "from paper, not run here: ") for row in later]
        of_base = (change.before[0] for a in adapters if (change := change_of(a, "SS StereoSet", domain)))
        tables.append(DomainTable(domain, columns, rows, points, abs(next(of_base, math.nan) - 50), len(p)))
    return tables


#: A method and a column.
_Cell = tuple[str, str]


def corrected(named: Mapping[str, Mapping[str, Adapter]], columns: Sequence[str], domain: str) -> dict[_Cell, float]:
    """P of each change of a bias score in the table of a domain, by method and column, corrected by Holm's method.

    All methods of a table are read together, so at most one table in 20 has a verdict where no method changed
    anything. Scores of ability are not corrected, see :func:`cards.verdict.ability_verdict`.
    """
    found = {}
    for name, group in named.items():
        for column in columns:
            changes = [change for adapter in group.values() if (change := change_of(adapter, column, domain))]
            if changes and COLUMNS[column].ideal is not None and not COLUMNS[column].ability:
                found[name, column] = p_value(mean_change(changes))
    found = {cell: p for cell, p in found.items() if not math.isnan(p)}
    return dict(zip(found, holm(list(found.values())), strict=True))


def by_method(methods: Sequence[Method]) -> dict[str, dict[str, Adapter]]:
    """The adapters of each method, by the names of their folders; ``NAME-seed-1`` is a seed of ``NAME``."""
    made = {method.name: method.adapter for method in methods if method.adapter}
    groups: dict[str, dict[str, Adapter]] = {}
    for name, adapter in made.items():
        match = _SEED.fullmatch(name)
        of_seed = match and match[1] in made and made[match[1]].recipe == adapter.recipe
        groups.setdefault(match[1] if match and of_seed else name, {})[name] = adapter
    return groups


def kind_of(adapters: Sequence[Adapter]) -> str:
    """The kind of the model, which the metric of the texts tells; empty without texts."""
    metrics = {change.metric for adapter in adapters for change in adapter.changes}
    return "masked" if "pseudo_perplexity" in metrics else "causal" if "perplexity" in metrics else ""


def mean_change(changes: Sequence[Change]) -> Change:
    """The mean of the changes of several seeds, with one interval for the chance of seeds and of examples.

    p follows from that interval.
    """
    if len(changes) == 1:
        return changes[0]
    before, after, difference = (
        over_seeds([getattr(change, name) for change in changes]) for name in ("before", "after", "difference")
    )
    return replace(changes[0], before=before, after=after, difference=difference, p=p_of(difference))


def over_seeds(numbers: Sequence[Numbers]) -> Numbers:
    """The mean over seeds and its interval: that of the seeds and that of the examples, added as variances.

    The seeds are a sample of all seeds, with Student's t; the examples are the same for every seed, so their part is
    the mean over seeds. ``benchmarks/intervals.py`` simulates the coverage.

    >>> [round(end, 2) for end in over_seeds([(1.0, 0.0, 2.0), (3.0, 2.0, 4.0), (2.0, 1.0, 3.0)])]
    [2.0, -0.68, 4.68]
    """
    values, lows, highs = (list(column) for column in zip(*numbers, strict=True))
    mean = fmean(values)
    of_seeds = student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    below, above = fmean(values) - fmean(lows), fmean(highs) - fmean(values)
    return mean, mean - math.hypot(of_seeds, below), mean + math.hypot(of_seeds, above)


def _measured(
    name: str,
    group: Mapping[str, Adapter],
    columns: Sequence[str],
    domain: str,
    p: Mapping[_Cell, float],
    number: int = 0,
) -> ScoreRow:
    changes = {column: [c for a in group.values() if (c := change_of(a, column, domain))] for column in columns}
    verdicts = {
        column: said(mean_change(own), column, p.get((name, column), 0.0)) for column, own in changes.items() if own
    }
    ability = ability_of([verdict for column, verdict in verdicts.items() if COLUMNS[column].ability])
    cells = [_cell(own, verdicts[column], ability) if (own := changes[column]) else None for column in columns]
    seeds = (
        [
            _measured(one, {one: own}, columns, domain, corrected({one: {one: own}}, columns, domain))
            for one, own in group.items()
        ]
        if len(group) > 1
        else []
    )
    costs = [adapter.cost for adapter in group.values()]
    cost = (
        f"{fmean(c.seconds for c in costs):,.0f} s" + " a seed" * (len(costs) > 1),
        f"{max(c.parameters for c in costs):,} parameters",
        f"{max(c.memory for c in costs) / 2**30:.2f} GiB",
    )
    return ScoreRow(name, "measured", cells, cost, number, ability, seeds=seeds)


def ability_of(verdicts: Sequence[str]) -> str:
    """What all scores of language ability of a method say together.

    >>> ability_of(["kept", "lost"]), ability_of(["kept", "kept"]), ability_of(["kept", "unclear"]), ability_of([])
    ('lost', 'kept', 'unclear', 'not measured')
    """
    kinds = set(verdicts) - {""}
    if not kinds:
        return "not measured"
    return "lost" if "lost" in kinds else "kept" if kinds == {"kept"} else "unclear"


def _cell(changes: Sequence[Change], verdict: str, ability: str) -> ScoreCell:
    change = mean_change(changes)
    value, low, high = change.difference
    difference = "" if math.isnan(low) else f"{value:+.2f} [{low:.2f}, {high:.2f}], n {change.n:,}"
    if math.isnan(value) and not math.isnan(change.after[1]):
        difference = f"[{change.after[1]:.2f}, {change.after[2]:.2f}], n {change.n:,}"
    remarks = []
    if change.benchmark == PAIRS:
        remarks.append(f"before {change.before[0]:.2f}")
    if len(changes) > 1:
        scores = [change.after[0] for change in changes]
        remarks.append(f"{len(scores)} seeds {min(scores):.2f} to {max(scores):.2f}, SD {stdev(scores):.2f}")
    # No sentence says less bias without what the method does to ability.
    words = f"nearer, ability {ability}" if verdict == "nearer" else verdict
    return ScoreCell(number_text(change.after[0]), difference, words, remarks)


def number_text(value: float) -> str:
    """A score with two decimals; empty for NaN."""
    return "" if math.isnan(value) else f"{value:,.2f}"


def _base(model: str, adapters: Sequence[Adapter], columns: Sequence[str], domain: str) -> ScoreRow:
    """The row of the unchanged model; scores of the own pairs of a method stand in the row of the method."""
    cells = []
    for column in columns:
        changes = (change_of(adapter, column, domain) for adapter in adapters)
        change = next((change for change in changes if change and change.benchmark != PAIRS), None)
        # The differentiation score is of two runs: the model agrees with itself.
        before = 100.0 if column == "DS" else change.before[0] if change else math.nan
        cells.append(ScoreCell(number_text(before)) if change else None)
    return ScoreRow(model, "base", cells, note="unchanged")


def _printed(row: TableRow, columns: Sequence[str], how: str = "printed: ") -> ScoreRow:
    cells = [ScoreCell(number_text(row.values[name])) if name in row.values else None for name in columns]
    return ScoreRow(row.method, "printed", cells, note=f"{how}{row.source}")


def _point(adapters: Sequence[Adapter], domain: str, number: int) -> Iterator[PlotPoint]:
    for column in ("SS held out", "SS StereoSet"):
        bias, ability = ([c for a in adapters if (c := change_of(a, name, domain))] for name in (column, "LMS"))
        if bias and ability:
            point = PlotPoint(number, _distance(mean_change(bias).after), mean_change(ability).difference)
            if math.isfinite(point.distance[0] + point.ability[0]):
                yield point
            return


def _distance(score: Numbers) -> Numbers:
    """|score − 50| with the ends of its interval.

    >>> _distance((53.0, 48.0, 58.0)), _distance((40.0, 38.0, 43.0))
    ((3.0, 0.0, 8.0), (10.0, 7.0, 12.0))
    """
    value, low, high = score
    far = abs(value - 50)
    if math.isnan(low):
        return far, far, far
    ends = sorted((abs(low - 50), abs(high - 50)))
    return far, 0.0 if low <= 50 <= high else ends[0], ends[1]
