"""Metrics over groups of examples, and their differences between two runs, with 95 % intervals.

Examples that depend on each other (a cluster) are resampled together. A resample draws as many clusters
as the table has, with replacement. Every metric of every group sees the same resamples, so differences
between groups and between runs are paired, and a group is a subpopulation: how many of its clusters a
resample has varies. A resample is a vector of counts: with 3 clusters, (2, 0, 1) has the first cluster twice and the
second never. The columns of a metric are added up within each cluster first. The sums of all resamples are then one
matrix product, counts [resamples, clusters] by sums [clusters, columns], and the metric computes its values from these.
Rare events and few clusters get other intervals than the bootstrap's
(:mod:`scoring.statistics.intervals`).
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cards.common import verdict
from scoring.inputs.columns import ChosenRows, SpooledTable, numbered, numbers_first
from scoring.metrics.sums import uncorrelated
from scoring.statistics import intervals
from scoring.statistics.intervals import Counts, Interval
from scoring.types import Difference, Estimate, Floats, Group, Metric, ScoringError, Table

RESAMPLES = 10_000
# How many counts are drawn at once (to stay in the processor's cache), and multiplied at once (32 MB).
_DRAWN, _COUNTED = 1 << 16, 1 << 22
#: Pairs of a group and a metric whose resamples are in memory together.
_TOGETHER = 100

#: A metric to compute over a group.
Item = tuple[Group, Metric]


def draw(stream: np.random.PCG64, counts: Floats) -> None:
    """Fills ``counts`` [resamples, clusters] with the counts of clusters in the next resamples of the stream.

    A seed gives the same counts on every platform and version, because they follow by exact arithmetic
    from the raw stream of PCG64, which NumPy promises to keep: each half of a 64-bit number, the low half
    first, times ``clusters`` / 2**32 and rounded down is the number of a cluster. (Probabilities differ by
    less than ``clusters`` / 2**32.)

    >>> counts = np.empty((4, 3))
    >>> draw(np.random.PCG64(0), counts)
    >>> counts.sum(axis=1)
    array([3., 3., 3., 3.])
    """
    resamples, clusters = counts.shape
    if not clusters:
        return
    rows = max(1, _DRAWN // clusters)
    for start in range(0, resamples, rows):
        part = counts[start : start + rows]
        # A resample takes whole 64-bit numbers, so the counts do not depend on how many rows are drawn at once.
        raw = stream.random_raw((len(part), (clusters + 1) // 2)).astype("<u8", copy=False)
        halves = raw.view("<u4")[:, :clusters]
        # Exact, as no product reaches 2**53.
        cells = (halves * (clusters * 2.0**-32)).astype(np.intp)
        cells += np.arange(len(part))[:, None] * clusters
        part[:] = np.bincount(cells.ravel(), minlength=part.size).reshape(part.shape)


@dataclass(frozen=True, slots=True)
class Subset:
    """The ``n`` rows of a group, the numbers of their ``clusters``, and the index into these of each row."""

    rows: Table
    n: int
    clusters: NDArray[np.intp]
    codes: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a metric by cluster: ``columns`` [columns, clusters of the subset], flattened from ``shape``.

    ``why`` explains why there is no value.
    """

    subset: Subset
    columns: Floats
    shape: tuple[int, ...]
    why: str

    @property
    def total(self) -> Floats:
        """The sums over all clusters, in the shape of the metric."""
        total: Floats = self.columns.sum(axis=1).reshape(self.shape)
        return total


def _add_up(metric: Metric, subset: Subset) -> Sums:
    with np.errstate(invalid="ignore"):
        values = metric.columns(subset.rows)
    # A metric may be of a file of the user.
    if not isinstance(values, np.ndarray) or len(values) != len(subset.codes):
        raise ScoringError(
            f"The columns of the metric {metric.name} are no array with a row for each of {len(subset.codes)} "
            "examples; return one of shape [examples, k]."
        )
    n, *shape = values.shape
    values = values.reshape(n, math.prod(shape))
    finite = np.isfinite(values)
    why = ""
    if not n:
        why = "no rows"
    elif not finite.all():
        wrong = int((~finite).any(axis=1).sum())
        why = f"{wrong} of {n} rows have no finite value"
        # NaN times a count of 0 is NaN, so one NaN would make the value of every resample NaN.
        values = np.zeros_like(values)
    columns = np.empty((values.shape[1], len(subset.clusters)))
    for number, column in enumerate(values.T):
        columns[number] = np.bincount(subset.codes, column, minlength=len(subset.clusters))
    return Sums(subset, columns, tuple(shape), why)


def added_up(items: Sequence[Item], table: Table, codes: NDArray[np.intp]) -> list[Sums]:
    """The sums by cluster of each metric over its group."""
    subsets: dict[int, Subset] = {}  # items of one group share it
    for group, _ in items:
        if id(group) not in subsets:
            mask = np.asarray(group.mask, dtype=bool)
            chosen = codes
            if not mask.all():
                chosen = codes[mask]
            # As numpy.unique with the inverse, without sorting: the numbers of clusters are small.
            present = np.bincount(chosen, minlength=1) > 0
            clusters = np.flatnonzero(present)
            places = chosen
            if not present.all():
                places = (np.cumsum(present) - 1)[chosen]
            # The columns are made when a metric reads them, so the groups of a large table take no memory together.
            subsets[id(group)] = Subset(ChosenRows(table, mask), len(places), clusters, places)
    return [_add_up(metric, subsets[id(group)]) for group, metric in items]


def _distinct(sums: Sequence[Sums], clusters: int) -> tuple[Floats, list[list[int]]]:
    """The distinct columns [columns, clusters of the table], and for each metric the indices of its own.

    Many metrics share a column, such as the count of a group; it is multiplied once.
    """
    # By a digest, because the columns of a large table would be there twice.
    numbers: dict[bytes, int] = {}
    distinct: list[tuple[Subset, Floats]] = []
    where: list[list[int]] = []
    for metric_sums in sums:
        of_metric = []
        for sums_of_column in metric_sums.columns:
            column = np.zeros(clusters)
            # Groups without a row in a cluster add 0 there, so one draw of clusters serves all groups and metrics.
            column[metric_sums.subset.clusters] = sums_of_column
            # Many metrics share a denominator or a whole column; each costs a row of the product only once.
            number = numbers.setdefault(hashlib.blake2b(column.data).digest(), len(distinct))
            if number == len(distinct):
                distinct.append((metric_sums.subset, sums_of_column))
            of_metric.append(number)
        where.append(of_metric)
    columns = np.zeros((len(distinct), clusters))
    for number, (subset, sums_of_column) in enumerate(distinct):
        columns[number, subset.clusters] = sums_of_column
    return columns, where


def resampled(items: Sequence[Item], sums: Sequence[Sums], clusters: int, resamples: int, seed: int) -> list[Floats]:
    """For each item an array [1 + resamples]: its value, then the values of the resamples; NaN where undefined."""
    columns, where = _distinct(sums, clusters)
    totals = _totals(columns, resamples, seed)
    finals = []
    for (_, metric), metric_sums, rows in zip(items, sums, where, strict=True):
        # Back to the shape of the metric, with the resamples first.
        of_metric = np.moveaxis(totals[rows].reshape(*metric_sums.shape, 1 + resamples), -1, 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = metric.final(of_metric)
        finals.append(np.where(np.isfinite(values), values, np.nan))
    return finals


def _totals(columns: Floats, resamples: int, seed: int) -> Floats:
    """Totals [columns, 1 + resamples] of columns [columns, clusters], first of the table itself."""
    if resamples < 2:
        raise ScoringError(f"An interval of {resamples} resamples was asked for; give at least 2, such as {RESAMPLES}.")
    totals = np.empty((len(columns), 1 + resamples))
    totals[:, 0] = columns.sum(axis=1)
    stream = np.random.PCG64(seed)
    clusters = columns.shape[1]
    counts = np.empty((min(resamples, max(1, _COUNTED // max(1, clusters))), clusters))
    for start in range(1, 1 + resamples, len(counts)):
        part = counts[: 1 + resamples - start]
        draw(stream, part)
        totals[:, start : start + len(part)] = columns @ part.T
    return totals


def _parts(items: Sequence[Item]) -> Iterator[slice]:
    """Slices of items whose resamples are in memory together: those of thousands would take a gigabyte.

    All parts draw the same resamples, because they have the same seed.
    """
    for start in range(0, len(items), _TOGETHER):
        yield slice(start, start + _TOGETHER)


#: More undefined resamples than this share say that the bootstrap is of others than the sample.
_UNDEFINED = 0.05
#: A standard deviation below this share of the range is rounding.
_ROUNDING = 1e-12


def measure(
    items: Sequence[Item],
    table: Table,
    clusters: NDArray[np.generic],
    *,
    benchmark: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Estimate]:
    """Every metric over its group, with intervals from the same resamples.

    Parameters
    ----------
    items:
        Pairs of a group and a metric.
    table:
        One line per example.
    clusters:
        For each example the name of its cluster, such as its target term.

    Raises
    ------
    ScoringError
        When columns, masks or clusters differ in length.

    >>> share = Metric("share", lambda t: np.stack([t["x"], np.ones(len(t["x"]))], 1), lambda s: s[..., 0] / s[..., 1],
    ...                None, 0, 1, "Share of rows.")
    >>> table, every = {"x": np.array([0.0, 1.0, 1.0, 1.0] * 20)}, Group("all", np.ones(80, bool))
    >>> (estimate,) = measure([(every, share)], table, np.arange(80))
    >>> estimate.value, estimate.n, estimate.low < 0.75 < estimate.high
    (0.75, 80, True)
    """
    codes, count = _codes(items, table, clusters)
    sums = added_up(items, table, codes)
    estimates = []
    for part in _parts(items):
        finals = resampled(items[part], sums[part], count, resamples, seed)
        for item, metric_sums, values in zip(items[part], sums[part], finals, strict=True):
            estimates.append(_estimate(benchmark, item, metric_sums, values))
    return estimates


def compare(
    items: Sequence[Item],
    table_a: Table,
    table_b: Table,
    clusters: NDArray[np.generic],
    *,
    benchmark: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Every metric of run a minus that of run b over the same examples, row by row.

    Interval and p belong together, so p is below 0.05 where, and only where, the interval excludes 0. The p-values are
    corrected by :func:`corrected` over all differences that are returned.

    Raises
    ------
    ScoringError
        When the tables hold different examples (column ``id``, where they have it).
    """
    codes, count = _codes(items, table_a, clusters)
    _check_same_examples(table_a, table_b)
    sums_a = added_up(items, table_a, codes)
    sums_b = added_up(items, table_b, codes)
    differences = []
    for part in _parts(items):
        # The same seed for both runs, so that a resample has the same clusters in both.
        finals_a = resampled(items[part], sums_a[part], count, resamples, seed)
        finals_b = resampled(items[part], sums_b[part], count, resamples, seed)
        of_part = zip(items[part], sums_a[part], sums_b[part], finals_a, finals_b, strict=True)
        for item, a, b, values_a, values_b in of_part:
            differences.append(_difference(benchmark, item, a, b, values_a, values_b))
    return corrected(differences)


def corrected(differences: Sequence[Difference], first: Sequence[bool] = ()) -> list[Difference]:
    """Differences with ``p_holm`` and ``p_direction``, corrected for all of them.

    The correction is :func:`cards.common.verdict.corrected`; ``first`` marks the headlines.

    ``detectable`` is the smallest true difference that is shown with a power of 80 %, if it is the only
    one: at its share of the level 0.05 (that of language ability, whose verdict is not corrected, at 0.05), and
    infinite where there are too few clusters for any.
    """
    clusters: list[float] = []
    for difference in differences:
        # Equal answers are no matter of chance, so their p needs no number of clusters.
        if difference.method == "identical":
            clusters.append(math.inf)
        else:
            clusters.append(difference.clusters)
    p_of_change = [difference.p for difference in differences]
    p_of_side = [difference.p_side for difference in differences]
    of_change, of_direction = verdict.corrected(p_of_change, p_of_side, clusters, first)
    # The first step of Holm's method, which a difference meets that is the only one.
    weights = verdict.weights([math.isnan(value) for value in of_change], first)
    whole = max(1.0, sum(weights))
    results = []
    for difference, p_holm, p_direction, number, weight in zip(
        differences, of_change, of_direction, clusters, weights, strict=True
    ):
        level = verdict.LEVEL * weight / whole
        if difference.ability:
            detectable = intervals.detectable(difference.error, difference.freedom, verdict.LEVEL)
        elif verdict.smallest_p(number) < level:
            detectable = intervals.detectable(difference.error, difference.freedom, level)
        else:
            detectable = math.inf
        results.append(replace(difference, p_holm=p_holm, p_direction=p_direction, detectable=_steady(detectable)))
    return results


def _rows(table: Table) -> int:
    if isinstance(table, SpooledTable):
        return table.rows
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{name} {n}" for name, n in lengths.items()) or "no column"
        raise ScoringError(f"The table has columns of different lengths ({listed}); give one value for each row.")
    return next(iter(lengths.values()))


def _codes(items: Sequence[Item], table: Table, clusters: NDArray[np.generic]) -> tuple[NDArray[np.intp], int]:
    """The number of the cluster of each row, and the number of clusters; checks all lengths."""
    rows = _rows(table)
    if len(clusters) != rows:
        raise ScoringError(f"{len(clusters)} cluster names came with {rows} rows; give one for each row.")
    for group, _ in items:
        if len(group.mask) != rows:
            raise ScoringError(f"The group {group.name} marks {len(group.mask)} rows of {rows}; mark every row.")
    return numbered(clusters)


def _check_same_examples(table_a: Table, table_b: Table) -> None:
    rows, other = _rows(table_a), _rows(table_b)
    if rows != other:
        raise ScoringError(f"The runs have {rows} and {other} rows; compare two runs of the same data set version.")
    if "id" in table_a and "id" in table_b:
        differ = np.flatnonzero(table_a["id"] != table_b["id"])
        if len(differ):
            row = int(differ[0])
            raise ScoringError(
                f"The runs differ in {len(differ)} ids, first {table_a['id'][row]} and {table_b['id'][row]} in row "
                f"{row + 1}; compare two runs of the same data set version, in the same order."
            )


def _estimate(benchmark: str, item: Item, sums: Sums, finals: Floats) -> Estimate:
    _, metric = item
    value = math.nan
    if not sums.why:
        value = float(finals[0])
    resampled = finals[1:]
    interval = _over_parts(metric, _interval_of_run(metric, sums, value, resampled), value, sums)
    with_ideal = metric.ideal is not None and math.isfinite(metric.ideal)
    bias = math.nan
    # A score of few rows can be without a value in every resample.
    if metric.pieces is not None and not math.isnan(value) and not np.isnan(resampled).all():
        bias = float(np.nanmean(resampled)) - value
    p = math.nan
    if with_ideal:
        p = _steady(_p_of_ideal(metric, sums, interval, value))
    printed_sd = None
    if metric.sd is not None and not math.isnan(value):
        printed_sd = metric.sd(value, sums.subset.n)
    return Estimate(
        **_fields(benchmark, item, sums, value, interval, resampled, sums.why),
        icc=_icc(metric, sums.subset),
        p=p,
        bias=_steady(bias),
        printed_sd=printed_sd,
        least=metric.low,
        most=metric.high,
        label=metric.label,
    )


def _p_of_ideal(metric: Metric, sums: Sums, interval: Interval, value: float) -> float:
    """Two-sided p that a score is its ideal value; of a bootstrap the larger one of its own and of Student's.

    Percentiles say little of the far tails, where corrected p-values are: of 30 clusters they had a p below 0.01 in up
    to 1.2 % of the samples at the ideal value (``tools/simulations/verdicts.py``).
    """
    ideal = metric.ideal or 0.0
    p = intervals.p_of(interval, value, ideal)
    if interval.method != "bootstrap":
        return p
    without = _without_each(metric, sums)
    if not np.isfinite(without).all():
        return p
    return max(p, intervals.cluster_t(value - ideal, without - ideal, _freedom(sums.subset)).p)


def _interval_of_run(metric: Metric, sums: Sums, value: float, draws: Floats) -> Interval:
    """The interval of a score of one run; which method is used is in the text of the module of intervals."""
    clusters = len(sums.subset.clusters)
    if math.isnan(value) or clusters < 2:
        return intervals.NONE
    effective = intervals.effective_number(np.bincount(sums.subset.codes).astype(float))
    span = metric.high - metric.low
    chosen: Interval | None = None
    if metric.events is not None:
        event, weight = metric.events(sums.subset.rows).T
        counts = Counts.of(event, weight, sums.subset.codes)
        # A signed share has three outcomes, so the interval of two outcomes does not fit it.
        if metric.low < 0 or metric.absolute:
            chosen = _scaled(intervals.signed(counts), metric)
        else:
            icc = math.nan
            if clusters < intervals.FEW:
                icc = _icc(metric, sums.subset)
            exact, method = intervals.binomial(counts, icc)
            if method in ("binomial", "wilson"):
                chosen = _scaled(exact, metric)
            elif method == "cluster-t":
                chosen = _cluster_t(metric, sums, value)
    elif metric.correlation:
        chosen = _of_correlation(metric, sums)
    elif math.isfinite(span) and _sd(draws) <= _ROUNDING * span:
        # All resamples are equal, so the bootstrap would claim certainty; the rule of three bounds what was not seen.
        chosen = intervals.rule_of_three(value, effective, span)
    elif metric.pieces is not None:
        chosen = _extreme(metric, sums)
    elif effective < intervals.FEW:
        chosen = _cluster_t(metric, sums, value)
    if chosen is None and np.isnan(draws).mean() > _UNDEFINED:
        # A resample without any item of a stereotype has no value, and the others are not like the sample. The
        # jackknife takes each item away alone, so it needs two of each.
        chosen = _cluster_t(metric, sums, value)
        if chosen is None:
            return intervals.NONE
    if chosen is None:
        return intervals.bootstrap(draws, clusters)
    return intervals.cut(chosen, value, metric.low, metric.high)


def _difference(benchmark: str, item: Item, a: Sums, b: Sums, finals_a: Floats, finals_b: Floats) -> Difference:
    _, metric = item
    # Both runs are resampled with the same seed, so a resample has the same clusters in both, and its difference is
    # paired.
    finals, why = finals_a - finals_b, a.why or b.why
    value = math.nan
    if not why:
        value = float(finals[0])
    interval = _interval_of_difference(metric, a, b, value, finals[1:])
    if interval.method != "identical":
        interval = _over_parts_of_difference(metric, interval, value, a, b)
    p_side = math.nan
    if not math.isnan(value):
        p_side = _p_of_side(metric, a, b)
    fields = _fields(benchmark, item, a, value, interval, finals[1:], why)
    return Difference(**fields, icc=_icc(metric, a.subset, b.subset), p=interval.p, p_side=p_side)


def _icc(metric: Metric, subset: Subset, other: Subset | None = None) -> float:
    """The intraclass correlation of the events of a proportion, or of what changes between two runs; else NaN."""
    if metric.events is None or not subset.n:
        return math.nan
    events, weights = metric.events(subset.rows).T
    counted = weights > 0
    if other is None:
        values = events[counted] / weights[counted]
    else:
        other_events, other_weights = metric.events(other.rows).T
        counted = counted & (other_weights > 0)
        values = events[counted] / weights[counted] - other_events[counted] / other_weights[counted]
    if not len(values) or not np.isfinite(values).all():
        return math.nan
    return _steady(intervals.correlation_within(values, subset.codes[counted]))


def _p_of_side(metric: Metric, a: Sums, b: Sums) -> float:
    """Two-sided p that the mean of the scores of two runs is the ideal value, from the same clusters as their change.

    It is 0 where the ideal value is an end of the range, NaN without an ideal value, and 1 where it cannot be computed.
    """
    if metric.ideal is None:
        return math.nan
    if metric.ideal in (metric.low, metric.high) or math.isinf(metric.ideal):
        return 0.0
    p = _interval_of_side(metric, metric.ideal, a, b).p
    if math.isnan(p):
        return 1.0
    return p


def _interval_of_side(metric: Metric, ideal: float, a: Sums, b: Sums) -> Interval:
    """The interval of the mean of two scores minus the ideal value; none where it cannot be computed."""
    subset = a.subset
    without_a, without_b = _without_each(metric, a), _without_each(metric, b)
    if len(subset.clusters) < 2 or not np.isfinite(without_a).all() or not np.isfinite(without_b).all():
        return intervals.NONE
    score_a, score_b = float(metric.final(a.total)), float(metric.final(b.total))
    if metric.correlation:
        score_a, without_a = _shrunk(metric, a)
        score_b, without_b = _shrunk(metric, b)
    middle = (score_a + score_b) / 2 - ideal
    without = (without_a + without_b) / 2 - ideal
    if metric.events is not None and not metric.absolute:
        # As a signed share: 1 is the largest distance from the ideal value.
        reach = max(metric.high - ideal, ideal - metric.low)
        weights = (metric.events(subset.rows)[:, 1] + metric.events(b.subset.rows)[:, 1]) / 2
        counts = Counts.of(np.zeros(subset.n), weights, subset.codes)
        share = intervals.with_pseudo_examples(middle / reach, without / reach, counts.examples, counts.clusters)
        interval = replace(share, error=reach * share.error)
    elif metric.correlation:
        interval = intervals.of_correlation(middle, without, _counted(a))
    else:
        interval = intervals.cluster_t(middle, without, _freedom(subset))
    if metric.parts is not None:
        interval = intervals.over_parts(interval, (metric.parts(a.total) + metric.parts(b.total)) / 2)
    return interval


def _interval_of_difference(metric: Metric, a: Sums, b: Sums, value: float, draws: Floats) -> Interval:
    """The interval of a score of run a minus that of run b, always from a standard error over clusters."""
    subset, span = a.subset, metric.high - metric.low
    clusters = len(subset.clusters)
    if math.isnan(value) or clusters < 2:
        return intervals.NONE
    # The same answers differ by nothing, whatever their number: there is no chance in it.
    if _same(a.subset.rows, b.subset.rows):
        return Interval(0.0, 0.0, "identical", 1.0)
    chosen: Interval | None
    # The difference of two sizes is no difference of two proportions.
    if metric.events is not None and not metric.absolute:
        events_a, events_b = metric.events(a.subset.rows), metric.events(b.subset.rows)
        chosen = _of_pairs(events_a, events_b, subset)
        if chosen is None:
            chosen = intervals.signed(_discordant(events_a, events_b, subset))
        chosen = _scaled(chosen, metric)
    elif metric.correlation:
        chosen = _of_correlations(metric, a, b)
    elif math.isfinite(span) and _sd(draws) <= _ROUNDING * span:
        counts = Counts.of(np.zeros(subset.n), np.ones(subset.n), subset.codes)
        chosen = intervals.unchanged(value, counts, span)
    elif metric.pieces is not None:
        chosen = _difference_of_extremes(metric, a, b)
    else:
        chosen = _cluster_t_of_difference(metric, a, b, value)
    if chosen is None:
        return intervals.bootstrap(draws, clusters)
    return intervals.cut(chosen, value, -span, span)


def _over_parts(metric: Metric, interval: Interval, value: float, sums: Sums) -> Interval:
    """The interval of a score with the variance over the parts of its metric."""
    if metric.parts is None or math.isnan(interval.error):
        return interval
    # Wordings are few, and a resample of rows keeps all of them: their variance is added to that of the rows.
    wide = intervals.over_parts(interval, metric.parts(sums.total))
    return intervals.cut(wide, value, metric.low, metric.high)


def _over_parts_of_difference(metric: Metric, interval: Interval, value: float, a: Sums, b: Sums) -> Interval:
    """The interval of a difference with the variance over the parts of its metric."""
    if metric.parts is None or math.isnan(interval.error):
        return interval
    wide = intervals.over_parts(interval, metric.parts(a.total) - metric.parts(b.total))
    span = metric.high - metric.low
    return intervals.cut(wide, value, -span, span)


def _same(a: Table, b: Table) -> bool:
    """Whether two tables have the same values in every column."""
    if a.keys() != b.keys():
        return False
    for name in numbers_first(a):
        x, y = a[name], b[name]
        if not np.array_equal(x, y, equal_nan=x.dtype.kind == y.dtype.kind == "f"):
            return False
    return True


def _fields(
    benchmark: str, item: Item, sums: Sums, value: float, interval: Interval, draws: Floats, why: str
) -> dict[str, Any]:
    """What an estimate and a difference have in common."""
    group, metric = item
    clusters = len(sums.subset.clusters)
    if not why and math.isnan(value):
        why = metric.undefined
    if not why and clusters < 2:
        why = "one cluster, so no interval"
    if not why and math.isnan(interval.low):
        why = "too few rows for an interval"
    sd = math.nan
    if not math.isnan(interval.low):
        sd = _sd(draws)
    return {
        "benchmark": benchmark,
        "group": group.name,
        "metric": metric.name,
        "value": _steady(value),
        "low": _steady(interval.low),
        "high": _steady(interval.high),
        "error": _steady(interval.error),
        "freedom": _steady(interval.freedom),
        "sd": _steady(sd),
        "n": sums.subset.n,
        "clusters": clusters,
        "ideal": metric.ideal,
        "reading": metric.reading,
        "ability": metric.ability,
        "why": why,
        "method": interval.method,
        "detectable": _steady(intervals.detectable(interval.error, interval.freedom)),
        "title": metric.names[0],
        "short": metric.names[1],
    }


def _steady(value: float) -> float:
    """Twelve digits, because sums depend on the processor in the last ones; NaN is that of ``math``."""
    if math.isnan(value):
        return math.nan
    return float(f"{value:.12g}")


def _sd(draws: Floats) -> float:
    """The standard deviation of the defined draws; NaN for fewer than two."""
    defined = draws[~np.isnan(draws)]
    if len(defined) < 2:
        return math.nan
    return float(defined.std(ddof=1))


def _scaled(exact: Interval, metric: Metric) -> Interval:
    """The interval of a proportion in the unit of its metric."""
    low, high = exact.low, exact.high
    if metric.absolute:
        # The size of a signed value: an interval around 0 begins at 0 and reaches as far as its longer side.
        low, high = max(0.0, low, -high), max(-low, high)
    return replace(exact, low=metric.high * low, high=metric.high * high, error=metric.high * exact.error)


def _cluster_t(metric: Metric, sums: Sums, value: float) -> Interval | None:
    """Student's interval of a score; None where its value without a cluster is not defined."""
    without = _without_each(metric, sums)
    if not np.isfinite(without).all():
        return None
    return intervals.cluster_t(value, without, _freedom(sums.subset))


def _of_correlation(metric: Metric, sums: Sums) -> Interval | None:
    """The interval of a correlation; None where its value without a cluster is not defined."""
    shrunk, without = _shrunk(metric, sums)
    if not np.isfinite(without).all():
        return None
    return intervals.of_correlation(shrunk, without, _counted(sums))


def _of_correlations(metric: Metric, a: Sums, b: Sums) -> Interval | None:
    """The interval of the difference of two correlations; None where a value without a cluster is not defined."""
    shrunk_a, without_a = _shrunk(metric, a)
    shrunk_b, without_b = _shrunk(metric, b)
    without = without_a - without_b
    if not np.isfinite(without).all():
        return None
    return intervals.of_correlations(shrunk_a - shrunk_b, without, min(_counted(a), _counted(b)))


def _shrunk(metric: Metric, sums: Sums) -> tuple[float, Floats]:
    """A correlation with pseudo clusters, and the same without one cluster each [clusters]."""
    pseudo = uncorrelated(sums.total, intervals.PSEUDO / max(1.0, _counted(sums)))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(metric.final(sums.total + pseudo))
    return value, _without_each(metric, sums, lambda rest: metric.final(rest + pseudo))


def _counted(sums: Sums) -> float:
    """The effective number of clusters by the rows that count, which are the first column of a correlation."""
    return intervals.effective_number(sums.columns[0])


def _extreme(metric: Metric, sums: Sums) -> Interval | None:
    """The interval of a score that is the smallest or largest of smooth ones; None where these are not defined."""
    pieces, without = _pieces(metric, sums)
    if not np.isfinite(without).all():
        return None
    return intervals.of_extreme(pieces, without, _freedom(sums.subset), metric.extreme)


def _difference_of_extremes(metric: Metric, a: Sums, b: Sums) -> Interval | None:
    """The interval of the difference of two such scores; None where their smooth scores are not defined."""
    pieces_a, without_a = _pieces(metric, a)
    pieces_b, without_b = _pieces(metric, b)
    if not np.isfinite(without_a).all() or not np.isfinite(without_b).all():
        return None
    freedom = _freedom(a.subset)
    return intervals.difference_of_extremes((pieces_a, without_a), (pieces_b, without_b), freedom, metric.extreme)


def _pieces(metric: Metric, sums: Sums) -> tuple[Floats, Floats]:
    """The smooth scores [(parts,) pieces] of a metric, and the same without one cluster each [clusters, …]."""
    assert metric.pieces is not None
    return metric.pieces(sums.total), _without_each(metric, sums, metric.pieces)


def _cluster_t_of_difference(metric: Metric, a: Sums, b: Sums, value: float) -> Interval | None:
    """Student's interval of a difference; None where its value without a cluster is not defined."""
    without_a, without_b = _without_each(metric, a), _without_each(metric, b)
    if not np.isfinite(without_a).all() or not np.isfinite(without_b).all():
        return None
    return intervals.cluster_t(value, without_a - without_b, _freedom(a.subset))


def _freedom(subset: Subset) -> float:
    """The degrees of freedom: effective clusters - 1, at least 1."""
    return max(1.0, intervals.effective_number(np.bincount(subset.codes).astype(float)) - 1)


def _without_each(metric: Metric, sums: Sums, final: Callable[[Floats], Floats] | None = None) -> Floats:
    """Values [clusters] of a metric without one cluster each, or of another function ``final`` of its sums."""
    # Sums without a cluster are the total minus those of the cluster, for all clusters at once.
    rest = sums.columns.sum(axis=1, keepdims=True) - sums.columns
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return (final or metric.final)(np.moveaxis(rest.reshape(*sums.shape, -1), -1, 0))


def _of_pairs(a: Floats, b: Floats, subset: Subset) -> Interval | None:
    """The interval by McNemar's test, where each row is a cluster and 0 or 1 in both runs; else None."""
    # Rows that a metric leaves out have the weight 0 in both runs.
    counted = a[:, 1] > 0
    is_pair = np.isin(np.hstack([a, b]), (0, 1)).all() and np.array_equal(a[:, 1], b[:, 1])
    if len(subset.clusters) != len(a) or not is_pair or counted.sum() < 2:
        return None
    gains = (a[:, 0] - b[:, 0])[counted]
    return intervals.of_pairs(int((gains > 0).sum()), int((gains < 0).sum()), len(gains))


def _discordant(a: Floats, b: Floats, subset: Subset) -> Counts:
    """Gains and losses of run a against run b, from their events and weights [examples, 2].

    An example counts by what it adds to the difference of the two proportions p_a and p_b: with
    p = (p_a + p_b) / 2 and W the mean of the runs' sums of weights, p_a - p_b is exactly
    Σ ((event_a - p · weight_a) - (event_b - p · weight_b)) / W, in which concordant examples are 0.
    """
    events_a, weights_a = a.T
    events_b, weights_b = b.T
    # Where an example has another weight in b, the difference of the weights counts at the mean rate of both.
    p = (events_a.sum() / weights_a.sum() + events_b.sum() / weights_b.sum()) / 2
    return Counts.of(events_a - events_b - p * (weights_a - weights_b), (weights_a + weights_b) / 2, subset.codes)
