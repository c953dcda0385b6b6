"""Whether minimum detectable effects have their power: the share of verdicts where that is the true difference.

``python -m tools.simulations.power`` draws runs with the cluster sizes of the benchmarks. For each case it looks for
the true difference that equals the mean ``detectable`` of runs which have it, draws further runs with that difference,
and counts those with a verdict on the right side. The nominal share is 80 %. It writes ``power.json`` beside this file
and prints the table of docs/verdicts-measured.md (about three minutes).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cards.common.verdict import LEVEL, standing
from scoring.commands.power import factor
from scoring.metrics.sums import mean
from scoring.statistics.intervals import detectable
from scoring.statistics.stats import compare, corrected, measure
from scoring.types import Floats, Group

RATE = mean("rate", lambda table: table["x"], 50, 0, 100, "Share of events.", scale=100, proportion=True)
VALUE = mean("value", lambda table: table["x"], 50, 0, 100, "A mean of numbers.", scale=100)
RESAMPLES = 500
#: Whether a run has a verdict on the right side, and its minimum detectable effect.
Seen = tuple[bool, float]


@dataclass(frozen=True, slots=True)
class Case:
    """Clusters of these sizes; ``icc`` is the correlation in a cluster, ``changed`` the share of changed examples."""

    name: str
    sizes: Sequence[int]
    icc: float
    look: Callable[[Case, np.random.Generator, float], Seen]
    changed: float = 0.0
    tests: int = 1

    @property
    def codes(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of the cluster of each example."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def planned(self) -> float:
        """What ``probes power`` says before the run, in points; clusters count as if they had one size."""
        unit = factor(sum(self.sizes), len(self.sizes), self.icc)
        error = 100 * (np.sqrt(self.changed) if self.changed else 0.5) * unit
        return detectable(error, len(self.sizes) - 1, LEVEL / self.tests)


def _rates(case: Case, draw: np.random.Generator, rate: float) -> Floats:
    """A rate for each example, which varies between clusters so that examples of one are correlated by ``icc``."""
    rate = float(np.clip(rate, 1e-6, 1 - 1e-6))
    total = 1 / case.icc - 1
    return draw.beta(rate * total, (1 - rate) * total, len(case.sizes))[case.codes]


def score(case: Case, draw: np.random.Generator, points: float) -> Seen:
    """A score of one run, so many points above the ideal value."""
    x = (draw.random(len(case.codes)) < _rates(case, draw, 0.5 + points / 100)).astype(float)
    groups = [(Group("", np.ones(len(x), bool)), RATE)]
    (estimate,) = measure(groups, {"x": x}, case.codes, resamples=RESAMPLES)
    return standing(estimate.numbers, 50) == "above", estimate.detectable


def values(case: Case, draw: np.random.Generator, points: float) -> Seen:
    """A mean of numbers from 0 to 1, whose clusters differ."""
    level = 0.1 * draw.standard_normal(len(case.sizes))[case.codes]
    x = np.clip(0.5 + points / 100 + level + 0.2 * draw.standard_normal(len(case.codes)), 0, 1)
    groups = [(Group("", np.ones(len(x), bool)), VALUE)]
    (estimate,) = measure(groups, {"x": x}, case.codes, resamples=RESAMPLES)
    return standing(estimate.numbers, 50) == "above", estimate.detectable


def paired(case: Case, draw: np.random.Generator, points: float) -> Seen:
    """The difference of two runs, one of ``tests`` differences of which the others are 0."""
    gains = (case.changed + points / 100) / 2
    base = draw.random(len(case.codes)) < 0.5
    which = draw.random(len(case.codes))
    # An example can only be gained where the base lacks it.
    up, down = (2 * _rates(case, draw, share) for share in (gains, max(case.changed - gains, 1e-6)))
    run = np.where(base, which >= down, which < up)
    groups = [(Group("", np.ones(len(base), bool)), RATE)]
    tables = [{"x": side.astype(float)} for side in (run, base)]
    differences = compare(groups, tables[0], tables[1], case.codes, resamples=2)
    # The other differences of the page have no p below that of this one.
    difference = corrected([differences[0], *([replace(differences[0], p=1.0)] * (case.tests - 1))])[0]
    return difference.p_holm < LEVEL and difference.value > 0, difference.detectable


CASES = (
    Case("StereoSet gender, score (30 terms of 26)", [26] * 30, 0.05, score),
    Case("StereoSet religion, score (9 terms of 9)", [9] * 9, 0.05, score),
    Case("CrowS-Pairs, score (1,508 pairs)", [1] * 1508, 0.01, score),
    Case("UnStereoEval, score (490 words)", [12] * 100 + [6] * 390, 0.05, score),
    Case("WinoBias, score (40 jobs of 40)", [40] * 40, 0.1, score),
    Case("a mean of numbers, 12 clusters of 20", [20] * 12, 0.05, values),
    Case("StereoSet gender, difference, 20 % change", [26] * 30, 0.05, paired, 0.2),
    Case("StereoSet gender, difference, 20 % change, one of 10", [26] * 30, 0.05, paired, 0.2, 10),
    Case("StereoSet religion, difference, 30 % change", [9] * 9, 0.05, paired, 0.3),
    Case("WinoBias, difference, 10 % change", [40] * 40, 0.05, paired, 0.1),
    Case("UnStereoEval, difference, 10 % change", [12] * 100 + [6] * 390, 0.02, paired, 0.1),
)


def measured(case: Case, samples: int, seed: int = 0) -> dict[str, Any]:
    """The difference of a case, what was planned, and the share of runs with a verdict."""
    draw = np.random.default_rng([seed, *case.name.encode()])
    points = case.planned()
    for _ in range(4):
        points = float(np.mean([case.look(case, draw, points)[1] for _ in range(max(20, samples // 10))]))
    runs = [case.look(case, draw, points) for _ in range(samples)]
    seen = np.array([said for _, said in runs])
    return {
        "case": case.name,
        "points": round(points, 2),
        "spread": [round(float(end), 2) for end in np.quantile(seen, (0.1, 0.9))],
        "planned": round(case.planned(), 2) if case.look is not values else None,
        "seen": round(100 * float(np.mean([is_seen for is_seen, _ in runs])), 1),
        "samples": samples,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table in Markdown."""
    lines = [
        "| case | minimum detectable effect, points | of 80 % of the runs | planned | verdict, % |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        low, high = row["spread"]
        planned = "" if row["planned"] is None else f"{row['planned']:.1f}"
        lines.append(
            f"| {row['case']} | {row['points']:.1f} | {low:.1f} to {high:.1f} | {planned} | {row['seen']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures all cases and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    rows = [measured(case, options.samples) for case in CASES]
    options.out.write_text(json.dumps({"nominal": 80, "cases": rows}, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
