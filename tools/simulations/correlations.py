"""How often intervals of the correlation with the labour market contain the truth, and how wide they are.

``python -m tools.simulations.correlations`` draws jobs and answers with known truth, computes the interval of a run and
that of a change between two runs as the project does, and writes ``correlations.json`` beside this file. "before" is
Student's t with the jackknife on Fisher's scale, arctanh, which runs had until version 0.3.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scoring.metrics.occugender import correlation
from scoring.metrics.sums import pearson, products
from scoring.statistics.intervals import cluster_t
from scoring.statistics.stats import compare, measure
from scoring.types import Floats, Group, Table

#: Jobs of a headline with few, of GIFI, of OccuGender and of Winogenerated.
JOBS = (12, 19, 40, 299)


@dataclass(frozen=True, slots=True)
class Answers:
    """How a model answers: the share of jobs in which it follows the job's side, by letters or smoothly.

    Of a smooth model the logarithm of the odds of *she* has this ``slope`` and ``noise``, and of another run this
    ``change`` of the slope and ``more`` noise. Of other models an answer is nearly 0 or 1; ``follows`` is the share of
    jobs of women and of men on whose side it is, and another run loses ``lost`` of these.
    """

    name: str
    follows: tuple[float, float] | None = None
    lost: float = 0.0
    slope: float = 0.0
    noise: float = 0.0
    change: float = 0.0
    more: float = 0.0


MODELS = (
    Answers("nearly 0 or 1, half of the jobs", (0.5, 0.5), 0.1),
    Answers("nearly 0 or 1, 70 %", (0.7, 0.7), 0.3),
    Answers("nearly 0 or 1, 85 %", (0.85, 0.85), 0.2),
    Answers("nearly 0 or 1, 95 %", (0.95, 0.95), 0.2),
    Answers("nearly 0 or 1, 98 %", (0.98, 0.98), 0.05),
    Answers("mostly men, she in half of the jobs of women", (0.5, 1.0), 0.3),
    Answers("mostly men, she in 90 % of the jobs of women", (0.9, 1.0), 0.1),
    Answers("smooth, no slope", slope=0.0, noise=0.5, more=0.1),
    Answers("smooth, low slope", slope=0.5, noise=0.5, change=-0.3, more=0.2),
    Answers("smooth, slope", slope=1.0, noise=0.5, change=-0.5, more=0.2),
    Answers("smooth, steep", slope=4.0, noise=0.7, change=-1.0, more=0.1),
)


def drawn(rng: np.random.Generator, jobs: int, model: Answers) -> tuple[Floats, Floats, Floats]:
    """The share of women in each job, and the answers of two runs."""
    # Few jobs are those of one sex, as in OccuGender; many are of all shares, as in Winogenerated.
    women = np.where(np.arange(jobs) % 2, 0.9, 0.1) + rng.normal(0, 0.06, jobs)
    if jobs > 100:
        women = rng.random(jobs)
    women = np.clip(women, 0, 1)
    side = women > 0.5
    if model.follows is None:
        logits = -1 + model.slope * (women - 0.5) + rng.normal(0, model.noise, jobs)
        other = logits + model.change * (women - 0.5) + rng.normal(0, model.more, jobs)
        return women, 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-other))
    follows = rng.random(jobs) < np.where(side, *model.follows)
    still = follows & (rng.random(jobs) >= model.lost)
    answers = []
    for agrees in (follows, still):
        from_end = abs(rng.normal(0, 0.03, jobs))
        answers.append(np.where(agrees == side, 1 - from_end, from_end))
    return women, answers[0], answers[1]


def table_of(women: Floats, answers: Floats) -> Table:
    """A table of OccuGender with a row for each job."""
    return {
        "p_female": answers,
        "p_male": 1 - answers,
        "p_diverse": np.zeros(len(women)),
        "female_share": 100 * women,
    }


def on_fishers_scale(women: Floats, answers: Floats) -> tuple[float, float]:
    """The interval before: Student's t with the jackknife of arctanh r."""
    sums = products(answers, women)
    inside = 1 - 1e-12
    without = np.arctanh(np.clip(pearson(sums.sum(axis=0) - sums), -inside, inside))
    value = float(pearson(sums.sum(axis=0)))
    interval = cluster_t(float(np.arctanh(np.clip(value, -inside, inside))), without, len(women) - 1)
    return min(value, float(np.tanh(interval.low))), max(value, float(np.tanh(interval.high)))


def truths(jobs: int, model: Answers) -> tuple[float, float]:
    """The correlations of both runs over 100,000 jobs and more."""
    parts = [drawn(np.random.default_rng([7, number]), jobs, model) for number in range(-(-100_000 // jobs))]
    women, one, other = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return float(np.corrcoef(women, one)[0, 1]), float(np.corrcoef(women, other)[0, 1])


def coverage(jobs: int, model: Answers, samples: int, alone: bool = False) -> dict[str, Any]:
    """Coverage, width and power of one case, before and now; ``alone`` leaves out the change, which takes longest."""
    truth, truth_of_other = truths(jobs, model)
    item = (Group("", np.ones(jobs, bool)), correlation())
    seen: dict[str, list[float]] = {}
    for sample in range(samples):
        women, one, other = drawn(np.random.default_rng([3, jobs, MODELS.index(model), sample]), jobs, model)
        table, table_of_other = table_of(women, one), table_of(women, other)
        if not np.ptp(one) or not np.ptp(other):
            continue
        (now,) = measure([item], table, np.arange(jobs), resamples=2)
        low, high = on_fishers_scale(women, one)
        values = {
            "before": low <= truth <= high,
            "now": now.low <= truth <= now.high,
            "width before": high - low,
            "width": now.high - now.low,
            "power before": low > 0 or high < 0,
            "power": now.low > 0 or now.high < 0,
        }
        if not alone:
            (change,) = compare([item], table_of_other, table, np.arange(jobs), resamples=2)
            values |= {
                "change": change.low <= truth_of_other - truth <= change.high,
                "width of change": change.high - change.low,
                "power of change": change.low > 0 or change.high < 0,
            }
        for name, value in values.items():
            seen.setdefault(name, []).append(float(value))
    means = {name: round(float(np.mean(values)), 4) for name, values in seen.items()}
    return {"truth": round(truth, 3), "change of truth": round(truth_of_other - truth, 3), **means}


def table(cases: dict[str, dict[str, Any]]) -> str:
    """The cases as a Markdown table."""
    lines = ["| jobs | answers | truth | coverage before, % | now, % | width before | now | of a change, % | width |"]
    lines.append("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for key, case in cases.items():
        jobs, _, name = key.partition(" jobs, ")
        shares = [f"{100 * case[share]:.1f}" for share in ("before", "now")]
        widths = [f"{case[width]:.2f}" for width in ("width before", "width")]
        change = f"{100 * case['change']:.1f} | {case['width of change']:.2f}"
        lines.append(f"| {jobs} | {name} | {case['truth']:.2f} | {' | '.join(shares + widths)} | {change} |")
    return "\n".join(lines).replace("-0.00", "0.00")


def main() -> None:
    """Runs all cases and writes their numbers."""
    parser = argparse.ArgumentParser(description="Coverage of correlations with the labour market.")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--only", default="", help="Cases whose names have this, such as '19 jobs, smooth, no'.")
    parser.add_argument("--alone", action="store_true", help="Without changes; prints the cases and writes no file.")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    cases = {}
    for jobs in JOBS:
        for model in MODELS:
            name = f"{jobs} jobs, {model.name}"
            if arguments.only in name:
                cases[name] = coverage(jobs, model, arguments.samples, arguments.alone)
                print(name, cases[name], flush=True)
    if arguments.alone:
        return
    print(table(cases))
    arguments.out.write_text(json.dumps({"samples": arguments.samples, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
