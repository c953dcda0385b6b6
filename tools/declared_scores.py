"""Writes ``cards/data/declared.json``: title, ideal value, range and headline of the metrics of published data sets.

``cards`` imports no other package, and a leaderboard must not take these from the results that others publish.
``tests/cards/test_uploads.py`` compares the file with the registry. ``python -m tools.declared_scores`` writes it anew.
"""

import json
from pathlib import Path

from cards.common.stored import finite
from cards.formats.uploads import DECLARED
from scoring import benchmarks
from scoring.types import Benchmark


def declared_scores() -> str:
    """The text of the file: an object for each data set and metric, one a line."""
    entries: dict[tuple[str, str], dict[str, object]] = {}
    # A mapping without values keeps the order.
    tasks: dict[tuple[str, str], dict[str, None]] = {}
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        dataset = benchmark.headline.dataset if benchmark.headline else ""
        if not dataset:
            continue
        for profile in ("clean", "paper"):
            metrics = [*benchmark.metrics(profile)]
            metrics += benchmark.sampled.metrics(profile) if benchmark.sampled else []
            for metric in metrics:
                if benchmark.headline and metric.name == benchmark.headline.metric:
                    # Several benchmarks may have rows of one data set.
                    tasks.setdefault((dataset, metric.name), {})[headline_task(benchmark)] = None
                entries[dataset, metric.name] = {
                    "dataset": dataset,
                    "metric": metric.name,
                    "title": metric.names[0],
                    "ideal": metric.ideal,
                    "least": float(metric.low),
                    "most": float(metric.high),
                }
    for key, entry in entries.items():
        entry["tasks"] = list(tasks.get(key, {}))
    lines = [json.dumps(finite(entry), sort_keys=True) for _, entry in sorted(entries.items())]
    return "[\n" + ",\n".join(lines) + "\n]\n"


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


if __name__ == "__main__":
    Path(DECLARED).write_text(declared_scores(), encoding="utf-8")
