"""What this project declares of benchmarks and their metrics, for results that others upload.

Whoever uploads a run can write any number and any text into it. So a leaderboard takes ideal values, ranges, titles and
readings from the registry of benchmarks (:mod:`cards.formats.uploads`), and counts the examples of a score itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from cards.formats.uploads import Declared
from cards.results import Headline
from scoring import benchmarks, responses
from scoring.inputs.columns import from_arrow
from scoring.types import BY_OTHERS, Benchmark, Metric, Report, ScoringError

#: The ``dtype`` of a report whose answers were sampled.
SAMPLED = "sampled answers, not probabilities"


def as_asked(benchmark: Benchmark, report: Report) -> Benchmark:
    """A benchmark as a run asked it: sampled answers and published responses have groups and metrics of their own."""
    if report.environment.get("engine") == BY_OTHERS:
        return responses.get(report.environment["source"]).asked(benchmark)
    task = benchmark.sampled
    if report.dtype == SAMPLED and task:
        return replace(benchmark, metrics=task.metrics, groups=task.groups, cluster=task.cluster)
    return benchmark


class Registered:
    """The benchmarks of this project and those that were included, as :class:`cards.formats.uploads.Declarations`.

    >>> from types import SimpleNamespace
    >>> Registered().metrics(SimpleNamespace(environment={}, dtype="", profile="clean"), "unstereo")["us_score"].ideal
    100.0
    """

    def metrics(self, run: Report, benchmark: str) -> Mapping[str, Declared] | None:
        """What is declared of each metric of a benchmark, by name; None where this project does not know it."""
        known = _of_run(run, benchmark)
        if known is None:
            return None
        # The profile is a text of the upload; each other one than ``paper`` is ours.
        profile = "clean"
        if run.profile == "paper":
            profile = "paper"
        return {metric.name: _declared(metric) for metric in known.metrics(profile)}

    def headline(self, run: Report, benchmark: str) -> Headline | None:
        """The published number of a benchmark; None where it has none, or this project does not know it."""
        known = _of_run(run, benchmark)
        if known is None:
            return None
        return known.headline

    def counts(self, run: Report, benchmark: str, file: Path) -> Mapping[str, int] | None:
        """The number of examples in each group of a benchmark, counted in the file of its examples.

        It is None where the file is not what the benchmark of this version makes, so that nothing can be counted.
        """
        known = _of_run(run, benchmark)
        if known is None or run.environment.get(f"benchmark {benchmark}", known.version) != known.version:
            return None
        # The file is one of others, whose columns can be of any name, type and length.
        with suppress(Exception):
            table = from_arrow(pq.read_table(file))
            return {group.name: int(np.count_nonzero(group.mask)) for group in known.groups(table)}
        return None


def _of_run(run: Report, name: str) -> Benchmark | None:
    """The benchmark of a name as a run says that it asked it; None where there is none."""
    if not benchmarks.known(name):
        return None
    try:
        return as_asked(benchmarks.get(name), run)
    except (ScoringError, KeyError, TypeError, AttributeError):  # the source of responses is a text of the upload
        return None


def _declared(metric: Metric) -> Declared:
    title, short = metric.names
    ideal = metric.ideal
    if ideal is not None:
        ideal = float(ideal)
    return Declared(ideal, float(metric.low), float(metric.high), title, short, metric.reading, metric.ability)


#: What the leaderboard of this project knows.
DECLARED = Registered()
