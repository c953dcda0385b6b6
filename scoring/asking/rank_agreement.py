"""Several runs: whether two ways rank the models in the same order, and more so than two domains asked the same way.

The scores of a model are the sides of its items (``likelihood_side`` of ``stereoset-ways`` and so on). One domain by
two ways should order models alike, which is convergent validity. Two domains by one way should do so less: where they
agree as much, the way is measured and not the bias (Campbell and Fiske, 1959, "Convergent and discriminant validation
by the multitrait-multimethod matrix"). Intervals are on Fisher's scale with the variance (1 + r² / 2) / (n - 3) of n
models (Bonett and Wright, 2000, "Sample size requirements for estimating Pearson, Kendall and Spearman correlations").
A G-study says how much of the variance of an item's side belongs to items, to ways, to models, and to them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table as Grid
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from cards.common.numbers import with_interval
from cards.common.sentences import say
from cards.common.terminal import text_table
from scoring import benchmarks
from scoring.asking.result import RunResult
from scoring.asking.ways import WAYS
from scoring.metrics import variance
from scoring.statistics.intervals import fisher, student
from scoring.statistics.stats import measure
from scoring.types import Estimate, Floats, Report, Table

if TYPE_CHECKING:
    import pandas as pd

#: So few models say nothing of an order: the interval of a correlation of .9 over four models begins below 0.
FEWEST = 5
DOMAINS = ("gender", "profession", "race", "religion")
#: Benchmark, whether it is convergent or discriminant, what is compared, and value and both ends of the interval.
Agreement = tuple[str, str, str, float, float, float]


def correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """The rank correlation of two scores of the same models with its interval; NaN for too few or equal scores.

    >>> [round(x, 2) for x in correlation(range(12), [0, 1, 3, 2, 4, 6, 5, 7, 9, 8, 10, 11])]
    [0.98, 0.9, 1.0]
    """
    if len(one) < FEWEST or min(len(set(one)), len(set(other))) == 1:
        return math.nan, math.nan, math.nan
    r = float(spearmanr(one, other).statistic)
    reach = student(math.inf) * math.sqrt((1 + r**2 / 2) / (len(one) - 3))
    # Fisher's scale, on which the distribution of a correlation is nearly normal, and back.
    low, high = np.tanh([fisher(r) - reach, fisher(r) + reach])
    return r, float(low), float(high)


def of_models(runs: Sequence[Report]) -> Iterator[Agreement]:
    """The agreement of the orders of models, of every score that all runs have."""
    scores: dict[tuple[str, str, str], list[float]] = {}
    for name, group, metric in runs[0].by_key:
        shown = runs[0].headlines[name].shown if name in runs[0].headlines else ""
        # Only sides are on one scale for all ways; of groups the headline's and the domains are compared.
        if metric.endswith("_side") and (group == shown or group.split(" ")[-1] in DOMAINS):
            found = [run.by_key.get((name, group, metric)) for run in runs]
            values = [estimate.value for estimate in found if estimate and math.isfinite(estimate.value)]
            scores |= {(name, group, metric.removesuffix("_side")): values} if len(values) == len(runs) else {}
    # Every two scores once: the same items by two ways, or two domains by one way; other pairs say nothing of either.
    for (name, group, way), (other, other_group, other_way) in combinations(scores, 2):
        (base, _, domain), (other_base, _, other_domain) = group.rpartition(" "), other_group.rpartition(" ")
        numbers = scores[name, group, way], scores[other, other_group, other_way]
        if name == other and group == other_group:
            yield name, "convergent", f"{group}: {way}, {other_way}", *correlation(*numbers)
        elif (name, base, way) == (other, other_base, other_way) and {domain, other_domain} <= {*DOMAINS}:
            yield name, "discriminant", f"{way}: {group}, {other_group}", *correlation(*numbers)


def shares(runs: Sequence[RunResult], resamples: int) -> Iterator[Estimate]:
    """The G-study of every benchmark of ways that all runs have: items × ways × models, with intervals over items.

    Where all runs have the same wordings, these are a facet too. The sides are those of the headline's group; an item
    that a run lacks, or that has no side there, is left out. The shares hold for these ways, wordings and models.
    """
    for name in [name for name in runs[0].tables if name.endswith("-ways") and all(name in run.tables for run in runs)]:
        table, benchmark, shown = runs[0].tables[name], benchmarks.get(name), runs[0].report.headlines[name].shown
        # Of each run only the columns of ways are kept, so that a hundred of them are small.
        frames = [_of_ways(run.tables[name]).reindex(table["id"]) for run in runs]
        shared = [str(column) for column in frames[0] if all(column in frame for frame in frames)]
        worded = {way: [column for column in shared if column.startswith(f"{way}, ")] for way in WAYS}
        # Preferences of different ways have different units; the side of an item is the same for all.
        ways = [columns for columns in worded.values() if columns] or [[way] for way in WAYS if way in shared]
        every = np.sign([[frame[columns].to_numpy(float).T for columns in ways] for frame in frames])
        # From [models, ways, wordings, items]; what has one level, as the plain question alone, is no facet.
        sizes = zip(("models", "ways", "wordings"), every.shape[:3], strict=True)
        facets = [name for name, size in sizes if size > 1]
        sides = np.moveaxis(every.reshape(*(size for size in every.shape[:3] if size > 1), -1), -1, 0)

        # The items are the lines of the first run, so that a resample takes the same ones of all runs.
        def design(t: Table, x: Floats = sides) -> tuple[Floats, Floats]:
            return x[t["line"]], 0 * x[t["line"]]

        study = list(variance.shares(design, facets))
        items = [(group, metric) for group in benchmark.groups(table) if group.name == shown for metric in study]
        lines, clusters = {**table, "line": np.arange(len(sides))}, table[benchmark.cluster]
        yield from measure(items, lines, clusters, benchmark=name, resamples=resamples)


def _of_ways(table: Table) -> pd.DataFrame:
    """The columns of a table of agreements that belong to a way, by the id of the item."""
    import pandas as pd

    own = {name: column for name, column in table.items() if name.partition(", ")[0] in WAYS}
    return pd.DataFrame(own, index=pd.Index(table["id"], name="id"))


def shown(runs: Sequence[Report]) -> Grid | str:
    """The agreements as a table for terminals, or a sentence where nothing can be compared."""
    rows = [(*row[:3], with_interval(row[3:], ".2f", "not defined")) for row in of_models(runs)]
    if not rows:
        return say("compare.no_ways")
    if len(runs) < FEWEST:
        return say("compare.few_models", count=len(runs), fewest=FEWEST)
    return text_table(["benchmark", "validity", "compared", "rank correlation"], rows, f"Order of {len(runs)} models")


def shown_shares(runs: Sequence[RunResult], resamples: int) -> Grid:
    """The G-studies of items, ways and models as a table for terminals."""
    rows = []
    for one in shares(runs, resamples):
        effect = " × ".join(one.metric.split("_")[1:])
        rows.append((one.benchmark, effect, with_interval(one.numbers, ".0f", "not defined")))
    return text_table(["benchmark", "variance of", "%"], rows, f"Sides of items by {len(runs)} models")
