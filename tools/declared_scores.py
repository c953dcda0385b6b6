"""Writes ``cards/data/declared.json``: title, ideal value and range of every metric of a published data set.

``cards`` imports no other package, and a leaderboard must not take these from the results that others publish.
``tests/cards/test_uploads.py`` compares the file with the registry. ``python -m tools.declared_scores`` writes it anew.
"""

import json
from pathlib import Path

from cards.common.stored import finite
from cards.formats.uploads import DECLARED
from scoring import benchmarks


def declared_scores() -> str:
    """The text of the file: an object for each data set and metric, one a line."""
    entries = {}
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        dataset = benchmark.headline.dataset if benchmark.headline else ""
        if not dataset:
            continue
        for profile in ("clean", "paper"):
            metrics = [*benchmark.metrics(profile)]
            metrics += benchmark.sampled.metrics(profile) if benchmark.sampled else []
            for metric in metrics:
                entries[dataset, metric.name] = {
                    "dataset": dataset,
                    "metric": metric.name,
                    "title": metric.names[0],
                    "ideal": metric.ideal,
                    "least": float(metric.low),
                    "most": float(metric.high),
                }
    lines = [json.dumps(finite(entry), sort_keys=True) for _, entry in sorted(entries.items())]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    Path(DECLARED).write_text(declared_scores(), encoding="utf-8")
