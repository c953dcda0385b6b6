"""How often the verdict on a recipe is wrong, with answers of known truth: ``python -m tools.simulations.outcomes``.

A model has a lean for each sentence of :func:`mitigation.running.outcome.rows`: a true one, a part that all sentences
of a job or a person share, and one of the sentence alone. A recipe changes the true leans by a given amount and adds
chance of both kinds. The verdict is computed as a command does. ``outcomes.json`` beside this file has the counts.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from mitigation.running import outcome
from scoring.types import Row, Table

OUT = Path(__file__).with_suffix(".json")
#: The leans before, in nats, as those of small models are.
STEREOTYPE, STATED = 1.8, 3.0


@cache
def _rows() -> tuple[Row, ...]:
    return tuple(outcome.rows())


def table(leans: np.ndarray, both: float = 0.3) -> Table:
    """The table of the benchmark with given leans [sentences] to the side of each sentence."""
    rows = _rows()
    columns = {
        name: np.array([row[name] for row in rows], dtype=object) for name in ("id", "aim", "kind", "unit", "side")
    }
    return {**columns, "lean": leans, "p_pronouns": np.full(len(rows), both), "p_they": np.full(len(rows), 0.01)}


def drawn(generator: np.random.Generator, sd: float) -> np.ndarray:
    """Chance of each sentence: half of its variance is that of its job or person."""
    units = [row["unit"] for row in _rows()]
    _, codes = np.unique(units, return_inverse=True)
    of_units = generator.normal(size=codes.max() + 1)[codes]
    chance: np.ndarray = sd * np.sqrt(0.5) * (of_units + generator.normal(size=len(units)))
    return chance


def counted(repeats: int, change: float, kept: float, noise: float, seed: int, resamples: int = 200) -> Counter[str]:
    """The verdicts on so many recipes.

    Parameters
    ----------
    change:
        What the recipe does to the stereotype, in nats.
    kept:
        The share of the lean to the stated gender that one kind keeps; the others keep all.
    noise:
        The standard deviation of the change of a sentence that is chance.
    """
    generator = np.random.default_rng(seed)
    rows = _rows()
    of_jobs = np.array([row["aim"] == "stereotype" for row in rows])
    lost = np.array([row["kind"] == "titles" for row in rows])
    true = np.where(of_jobs, STEREOTYPE, STATED)
    verdicts: Counter[str] = Counter({"less biased": 0, "no change beyond chance": 0, "harmful": 0})
    for _ in range(repeats):
        before = true + drawn(generator, 1.0)
        after = (
            before + drawn(generator, noise) + np.where(of_jobs, change, 0.0) - np.where(lost, STATED * (1 - kept), 0)
        )
        judged = outcome.outcome(outcome.changes(table(before), table(after), resamples))
        assert judged is not None
        verdicts[judged.verdict] += 1
    return verdicts


def main() -> None:
    """Writes the counts of recipes that change nothing, and of those that do."""
    results = []
    for change, kept in ((0.0, 1.0), (-0.4, 1.0), (-1.2, 1.0), (-1.2, 0.9), (-1.2, 0.6)):
        for noise in (0.3, 0.9):
            counts = counted(300, change, kept, noise, seed=1)
            results.append({"change": change, "kept": kept, "noise": noise, "recipes": 300, "verdicts": dict(counts)})
            print(results[-1])
    OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
