"""Several runs: whether two ways rank the models in the same order, and more so than two domains asked the same way.

The scores of a model are the sides of its items (``likelihood_side`` of ``stereoset-ways`` and so on). One domain by
two ways should rank models in the same order (convergent validity). Two domains by one way should do so less: where
they agree as much, the scores measure the way and not the bias (Campbell and Fiske, 1959, "Convergent and discriminant
validation by the multitrait-multimethod matrix"). Intervals are on Fisher's scale with the variance (1 + r² / 2) / (n -
3) of n models (Bonett and Wright, 2000, "Sample size requirements for estimating Pearson, Kendall and Spearman
correlations"). A G-study says how much of the variance of an item's side belongs to items, to ways, to models, and to
them together. Wordings are a facet of it where all runs have them, and starts (``--start``) where every model has a run
with each.
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
from scoring.statistics.intervals import of_rank_correlation
from scoring.statistics.stats import measure
from scoring.types import Estimate, Floats, Report, Table

if TYPE_CHECKING:
    import pandas as pd

#: Intervals of fewer models contain a high correlation too rarely (``tools/simulations/few.py``).
FEWEST = 8
DOMAINS = ("gender", "profession", "race", "religion")
#: Benchmark, whether it is convergent or discriminant, what is compared, and value and both ends of the interval.
Validity = tuple[str, str, str, float, float, float]


def correlation(scores: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """The rank correlation of two scores of the same models with its interval; NaN for too few or equal scores.

    >>> [round(x, 2) for x in correlation(range(12), [0, 1, 3, 2, 4, 6, 5, 7, 9, 8, 10, 11])]
    [0.98, 0.9, 1.0]
    """
    if len(scores) < FEWEST or len(set(scores)) == 1 or len(set(others)) == 1:
        return math.nan, math.nan, math.nan
    r = float(spearmanr(scores, others).statistic)
    return r, *of_rank_correlation(r, len(scores))


def of_models(runs: Sequence[Report]) -> Iterator[Validity]:
    """The agreement of the orders of models, of every score that all runs have."""
    # Every two scores once: the same items by two ways, or two domains by one way; other pairs say nothing of either.
    scores = _sides(runs)
    for (name, group, way), (other, other_group, other_way) in combinations(scores, 2):
        base, _, domain = group.rpartition(" ")
        other_base, _, other_domain = other_group.rpartition(" ")
        by_one_way = (name, base, way) == (other, other_base, other_way)
        if name == other and group == other_group:
            validity, compared = "convergent", f"{group}: {way}, {other_way}"
        elif by_one_way and domain in DOMAINS and other_domain in DOMAINS:
            validity, compared = "discriminant", f"{way}: {group}, {other_group}"
        else:
            continue
        r, low, high = correlation(scores[name, group, way], scores[other, other_group, other_way])
        yield name, validity, compared, r, low, high


def _sides(runs: Sequence[Report]) -> dict[tuple[str, str, str], list[float]]:
    """The sides of the models by benchmark, group and way, of those that all runs have."""
    scores = {}
    for name, group, metric in runs[0].by_key:
        shown = ""
        if name in runs[0].headlines:
            shown = runs[0].headlines[name].shown
        # Only sides are on one scale for all ways; of groups the headline's and the domains are compared.
        if not metric.endswith("_side") or (group != shown and group.split(" ")[-1] not in DOMAINS):
            continue
        values = []
        for run in runs:
            estimate = run.by_key.get((name, group, metric))
            if estimate and math.isfinite(estimate.value):
                values.append(estimate.value)
        if len(values) == len(runs):
            scores[name, group, metric.removesuffix("_side")] = values
    return scores


def shares(runs: Sequence[RunResult], resamples: int) -> Iterator[Estimate]:
    """The G-study of every benchmark of ways that all runs have: items × ways × models, with intervals over items.

    Where all runs have the same wordings, these are a facet too, and so are starts (``--start``) where every model has
    one run with each. The sides are those of the headline's group; an item that a run lacks, or that has no side there,
    is left out. The shares hold for these ways, wordings, starts and models.
    """
    for name in runs[0].tables:
        if name.endswith("-ways") and all(name in run.tables for run in runs):
            yield from _shares(name, runs, resamples)


def _shares(name: str, runs: Sequence[RunResult], resamples: int) -> Iterator[Estimate]:
    """The G-study of one benchmark of ways."""
    table, benchmark, shown = runs[0].tables[name], benchmarks.get(name), runs[0].report.headlines[name].shown
    runs, models, starts = _grid(runs)
    # Of each run only the columns of ways are kept, so that a hundred of them are small.
    frames = [_of_ways(run.tables[name]).reindex(table["id"]) for run in runs]
    ways = _levels(frames)
    # Preferences of different ways have different units; the side of an item is the same for all.
    sides = []
    for frame in frames:
        sides.append([frame[columns].to_numpy(float).T for columns in ways])
    every = np.sign(sides)
    # From [models × starts, ways, wordings, items]; what has one level, as the plain question alone, is no facet.
    facets, sizes = [], []
    levels = models, starts, *every.shape[1:3]
    for facet, size in zip(("models", "starts", "ways", "wordings"), levels, strict=True):
        if size > 1:
            facets.append(facet)
            sizes.append(size)
    by_item = np.moveaxis(every.reshape([*sizes, -1]), -1, 0)

    # The items are the lines of the first run, so that a resample takes the same ones of all runs.
    def design(lines: Table) -> tuple[Floats, Floats]:
        x = by_item[lines["line"]]
        return x, np.zeros_like(x)

    study = list(variance.shares(design, facets))
    items = []
    for group in benchmark.groups(table):
        if group.name == shown:
            items += [(group, metric) for metric in study]
    lines = {**table, "line": np.arange(len(by_item))}
    yield from measure(items, lines, table[benchmark.cluster], benchmark=name, resamples=resamples)


def _grid(runs: Sequence[RunResult]) -> tuple[list[RunResult], int, int]:
    """The runs by model and then by start, and the numbers of both; without a full grid each run is a model."""
    cells: dict[tuple[str, str, str], dict[str, RunResult]] = {}
    for run in runs:
        report = run.report
        start = report.environment.get("settings", {}).get("start", "")
        cells.setdefault((report.model, report.revision, report.adapter), {})[start] = run
    starts = list(dict.fromkeys(start for of_model in cells.values() for start in of_model))
    if len(starts) == 1 or len(cells) * len(starts) != len(runs):
        return list(runs), len(runs), 1
    # As many runs as cells, so that one is missing only where another is there twice.
    if any(len(of_model) != len(starts) for of_model in cells.values()):
        return list(runs), len(runs), 1
    return [of_model[start] for of_model in cells.values() for start in starts], len(cells), len(starts)


def _levels(frames: Sequence[pd.DataFrame]) -> list[list[str]]:
    """The columns of each way: its wordings where all runs have some, else the plain question."""
    shared = [str(column) for column in frames[0] if all(column in frame for frame in frames)]
    worded = []
    for way in WAYS:
        columns = [column for column in shared if column.startswith(f"{way}, ")]
        if columns:
            worded.append(columns)
    return worded or [[way] for way in WAYS if way in shared]


def _of_ways(table: Table) -> pd.DataFrame:
    """The columns of a table of agreements that belong to a way, by the id of the item."""
    import pandas as pd

    columns = {name: column for name, column in table.items() if name.partition(", ")[0] in WAYS}
    return pd.DataFrame(columns, index=pd.Index(table["id"], name="id"))


def order_table(runs: Sequence[Report]) -> Grid | str:
    """The agreements as a table for terminals, or a sentence where nothing can be compared."""
    rows = []
    for name, validity, compared, r, low, high in of_models(runs):
        rows.append((name, validity, compared, with_interval((r, low, high), ".2f", "not defined")))
    if not rows:
        return say("compare.no_ways")
    if len(runs) < FEWEST:
        return say("compare.few_models", count=len(runs), fewest=FEWEST)
    return text_table(["benchmark", "validity", "compared", "rank correlation"], rows, f"Order of {len(runs)} models")


def share_table(runs: Sequence[RunResult], resamples: int) -> Grid:
    """The G-studies of items, ways, starts and models as a table for terminals."""
    rows = []
    for estimate in shares(runs, resamples):
        effect = " × ".join(estimate.metric.split("_")[1:])
        rows.append((estimate.benchmark, effect, with_interval(estimate.numbers, ".0f", "not defined")))
    return text_table(["benchmark", "variance of", "%"], rows, f"Sides of items in {len(runs)} runs")
