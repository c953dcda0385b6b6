"""Runs and results of others: what a page takes from them, and what it computes again.

Whoever has the folder of a run can write any number into its ``results.json``. So a leaderboard and a card compute each
value and interval from the examples, with the metrics of this version. What they cannot compute is reported by its
owner: runs without their examples, with examples of another version, published results. Ideal values, ranges, titles
and readings are those of the registry in any case. A benchmark that this project does not know is shown under its name,
without an ideal value and so without a verdict.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import isclose, isnan, nan
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cards.common.stored import parsed
from cards.leaderboard import Declarations, Published
from cards.results import Headline, Upload
from scoring import benchmarks
from scoring.asking.estimates import as_asked, estimate
from scoring.asking.result import load
from scoring.inputs.columns import from_arrow
from scoring.report import file_name
from scoring.report.comparison import comparison
from scoring.report.real_models import place
from scoring.types import Benchmark, Estimate, Metric, Report, ScoringError


def checked_run(report: Report, folder: Path) -> Upload:
    """A run of somebody, with the scores of its examples in ``folder``.

    Ideal values, ranges, titles and headlines are those of the registry. A benchmark is reported by its owner where
    there are no examples that this version can read, or its data have a version that this project does not have.
    """
    estimates: list[Estimate] = []
    headlines: dict[str, Headline] = {}
    reported, unknown, changed = set(), set(), set()
    for name in report.benchmarks:
        given = {score.key: score for score in report.estimates if score.benchmark == name}
        benchmark = _of_run(report, name)
        uploaded = report.headlines.get(name)
        if benchmark is None:
            unknown.add(name)
            reported.add(name)
            # Without a declaration there is no ideal value, so the owner cannot make a score look unbiased.
            estimates += [_with_declaration(score, None) for score in given.values()]
            if uploaded:
                # Only the names of groups and metrics are taken: sentences of others are not put on a page.
                headlines[name] = Headline(uploaded.dataset, uploaded.metric, uploaded.groups, uploaded.shown)
            continue
        if uploaded and benchmark.headline:
            headlines[name] = benchmark.headline
        computed = _again(report, benchmark, folder)
        if computed is None:
            reported.add(name)
            metrics = {metric.name: metric for metric in benchmark.metrics(_profile(report))}
            estimates += [_with_declaration(score, metrics.get(score.metric)) for score in given.values()]
            continue
        if not _has_known_data(report, benchmark):
            reported.add(name)
        shown = [score for score in computed if score.key in given]
        estimates += shown
        if not all(_is_same(score, given[score.key]) for score in shown):
            changed.add(name)
    checked = replace(report, estimates=tuple(estimates), headlines=headlines)
    return Upload(checked, frozenset(reported), frozenset(unknown), frozenset(changed))


def _profile(report: Report) -> str:
    """The profile of a run, which is a text of the upload; each other one than ``paper`` is ours."""
    return "paper" if report.profile == "paper" else "clean"


def _again(report: Report, benchmark: Benchmark, folder: Path) -> list[Estimate] | None:
    """The scores of the examples of a benchmark; None where this version cannot compute them."""
    if report.environment.get(f"benchmark {benchmark.name}", benchmark.version) != benchmark.version:
        return None
    # The file is one of others, whose columns can be of any name, type and length.
    with suppress(Exception):
        table = from_arrow(pq.read_table(folder / "examples" / file_name(benchmark.name)))
        return estimate(benchmark, _profile(report), table)
    return None


def _has_known_data(report: Report, benchmark: Benchmark) -> bool:
    """Whether a benchmark was asked over rows of a version that this project has, as far as versions are numbers."""
    from builders import datasets  # imports every builder

    used = {dataset for dataset, _, _ in benchmark.configs}
    for name, version in report.data.items():
        dataset, number = name.partition("/")[0], version.partition(" ")[0]
        is_ours = dataset in used and dataset in datasets.names()
        # Rows that were read from a branch or commit of the Hub have its name in place of a version.
        if is_ours and re.fullmatch(r"[\d.]+", number) and number != datasets.get(dataset).version:
            return False
    return True


def _is_same(one: Estimate, other: Estimate) -> bool:
    """Whether two values are the same but for rounding."""
    if isnan(one.value) or isnan(other.value):
        return isnan(one.value) and isnan(other.value)
    return isclose(one.value, other.value, rel_tol=1e-6, abs_tol=1e-9)


def _of_run(report: Report, name: str) -> Benchmark | None:
    """The benchmark of a name as a run says that it asked it; None where there is none."""
    if not benchmarks.known(name):
        return None
    try:
        return as_asked(benchmarks.get(name), report)
    except (ScoringError, KeyError, TypeError, AttributeError):  # the source of responses is a text of the upload
        return None


def _with_declaration(score: Estimate, metric: Metric | None) -> Estimate:
    """A score of others with what this project declares of its metric."""
    if metric is None:
        return replace(score, ideal=None, least=nan, most=nan, title="", short="", reading="", ability=False)
    title, short = metric.names
    about: dict[str, Any] = {"title": title, "short": short, "reading": metric.reading, "ability": metric.ability}
    ideal = None if metric.ideal is None else float(metric.ideal)
    return replace(score, ideal=ideal, least=float(metric.low), most=float(metric.high), **about)


def changes(folder: Path, base: Path) -> dict[str, Any]:
    """The comparison of two runs as ``compare.json`` has it; empty for runs that cannot be compared."""
    try:
        return parsed(comparison(load(folder).compare(load(base))).encode())
    except ScoringError:
        return {}


@cache
def _of_data_sets() -> dict[tuple[str, str], tuple[Metric, list[str]]]:
    """Each metric over published data sets, with the configs whose score reports show in one row."""
    metrics: dict[tuple[str, str], tuple[Metric, list[str]]] = {}
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        headline = benchmark.headline
        if not headline or not headline.dataset:
            continue
        for profile in ("clean", "paper"):
            declared = list(benchmark.metrics(profile))
            if benchmark.sampled:
                declared += benchmark.sampled.metrics(profile)
            for metric in declared:
                # Several benchmarks may have rows of one data set.
                _, tasks = metrics.get((headline.dataset, metric.name), (metric, []))
                task = headline_task(benchmark)
                if metric.name == headline.metric and task not in tasks:
                    tasks.append(task)
                metrics[headline.dataset, metric.name] = metric, tasks
    return metrics


def published_metric(dataset: str, metric: str) -> Published | None:
    """What this project declares of a metric over a published data set; None for one that it does not know.

    >>> published_metric("unstereo", "us_score").tasks
    ['ours-5']
    """
    found = _of_data_sets().get((dataset, metric))
    if found is None:
        return None
    declared, tasks = found
    ideal = None if declared.ideal is None else float(declared.ideal)
    return Published(declared.names[0], ideal, float(declared.low), float(declared.high), tasks)


def headline_task(benchmark: Benchmark) -> str:
    """The config of the published data set whose score reports show in one row.

    >>> headline_task(benchmarks.get("unstereo")), headline_task(benchmarks.get("pronouns"))
    ('ours-5', 'continuations')
    """
    headline = benchmark.headline
    if headline is None:
        return ""
    configs = [config.removesuffix("-paper") for _, config, _ in benchmark.configs]
    for config in configs:
        if headline.group(config) == headline.shown:
            return config
    # Where the group that is shown is of no config, or of none in particular, it is the first.
    return configs[0]


def datasets_of_headlines() -> tuple[str, ...]:
    """The data sets of which a benchmark has a headline, and so a score that can be published."""
    names = []
    for name in benchmarks.names():
        headline = benchmarks.get(name).headline
        if headline and headline.dataset not in names:
            names.append(headline.dataset)
    return tuple(names)


#: What the leaderboard takes from this project.
DECLARATIONS = Declarations(checked_run, published_metric, changes, datasets_of_headlines, place)
