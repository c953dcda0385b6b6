"""Where a score lies among the published scores of real models.

``data/real_models.csv`` has the rows of reports that others published answers for: a line for each model and score,
with year, kind, size, source, profile and the number of examples. ``python -m tools.real_models`` writes it from
``docs/models/scores.json``. The table has models without a chat template, a prompt or an adapter.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cards.common.sentences import say
from cards.results import Key
from scoring.types import BY_OTHERS, Estimate, Report

TABLE = Path(__file__).parents[1] / "data" / "real_models.csv"
#: The columns of the table.
FIELDS = ("benchmark", "group", "metric", "model", "year", "kind", "size", "source", "profile", "value", "low", "high",
          "n")  # fmt: skip
#: A place among fewer models says little.
FEWEST = 5


@dataclass(frozen=True, slots=True)
class RealModel:
    """The score of a model: a line of the table."""

    model: str
    year: int
    kind: str
    profile: str
    value: float
    n: int


@dataclass(frozen=True, slots=True)
class Among:
    """The values of real models of the kind of a run, and the sentence that places its score among them.

    ``same`` says whether all of them were asked the same examples with the same definitions, and ``brief`` is the place
    in a few words.
    """

    values: Sequence[float]
    sentence: str
    same: bool
    brief: str


@cache
def _table() -> dict[Key, list[RealModel]]:
    rows: dict[Key, list[RealModel]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            model = RealModel(
                line["model"],
                int(line["year"]),
                line["kind"],
                line["profile"],
                float(line["value"]),
                int(line["n"]),
            )
            rows.setdefault((line["benchmark"], line["group"], line["metric"]), []).append(model)
    return rows


def among(report: Report, score: Estimate) -> Among | None:
    """The place of a score of a run; None where no comparable model has one, or the score has no interval.

    The place is a range where the ends of the interval have other places. The sentence says so where the question is
    another one: the number of examples or the definitions differ.
    """
    environment = report.environment
    asked = environment.get("response key") or {}
    plain = report.prompt == "plain" and not (environment.get("chat template") or report.adapter)
    # Models that others asked are in the table themselves.
    if not plain or environment.get("engine") == BY_OTHERS or not math.isfinite(score.low + score.high):
        return None
    kind = {"causal": "base", "masked": "masked"}.get(str(asked.get("kind", "")), "")
    models = [model for model in _table().get(score.key, ()) if model.kind == kind]
    if len(models) < FEWEST:
        return None
    lowest = sum(model.value < score.low for model in models)
    highest = sum(model.value < score.high for model in models)
    place = f"{lowest} to {highest}" if lowest < highest else str(lowest)
    years = f"{min(model.year for model in models)} to {max(model.year for model in models)}"
    sentence = say("among", place=place, count=len(models), kind=kind, years=years)
    same = all((model.profile, model.n) == (report.profile, score.n) for model in models)
    if not same:
        sentence = f"{sentence} {say('among.other')}"
    brief = f"higher than {place} of {len(models)} {kind} models"
    return Among([model.value for model in models], sentence, same, brief)


def place(report: Report, score: Estimate) -> str:
    """The sentence of :func:`among`; empty where there is none."""
    found = among(report, score)
    return found.sentence if found else ""


def places(report: Report, scores: Iterable[Estimate]) -> list[str]:
    """The place of each score whose models were asked the same, with the name of its benchmark, for short texts."""
    found = [(score.benchmark, among(report, score)) for score in scores]
    return [f"{benchmark}: {place.sentence}" for benchmark, place in found if place and place.same]
