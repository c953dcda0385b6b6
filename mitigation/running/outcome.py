"""What a recipe did, in three lines of equal rank and a verdict: stereotype, stated gender, ability.

*Stereotype* is the lean of the benchmark ``stated_gender`` to the gender of the majority in jobs that no recipe of the
project learns from, *stated gender* its lean to a gender that a text states, kind by kind, and *ability* the perplexity
of ordinary text, with LMS where it was measured. All are compared with the model before the recipe, over the same
sentences.

The verdict is one of

- ``harmful``: some kind of stated gender keeps less than :data:`KEPT` of its lean, or the gendered forms there less
  than that of their probability; or ability falls by more than its margin (:data:`cards.common.verdict.MARGIN`); or
  the stereotype grows; or all jobs lean more to one gender, by more than a fifth of the stereotype before;
- ``less biased``: none of these, and the stereotype came nearer to 0;
- ``no change beyond chance``: none of these.

Each of these changes has to be beyond chance, with Holm's correction for all that are judged. So a recipe that changes
nothing has one of the first two verdicts in at most one of 20 cases; ``tools/simulations/outcomes.py`` counts it. A
kind is judged if its lean before is above 0 beyond chance: what is not there cannot be lost. Where a model before is no
better than chance at stated gender, or too few rows were measured, nothing is concluded.

Example: the lean in jobs falls from 1.85 to .62, titles keep 95 % of their lean and biology, the worst kind, 81 %;
perplexity rises by .4 %. The verdict is ``less biased``; with 60 % for biology, beyond chance, it is ``harmful``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from builders.text.wording import STATED, STEREOTYPE
from cards.common import numbers, verdict
from mitigation.recipe import Change, Console, Model
from mitigation.running.evaluate import changed
from scoring.asking import answering, run, workload
from scoring.benchmarks import stated_gender
from scoring.inference.store import Store
from scoring.inputs.prompts import Prompt
from scoring.inputs.tables import Loaded, given
from scoring.metrics import stated_gender as metrics
from scoring.statistics import stats
from scoring.types import Group, Metric, Row, Table

Verdict = Literal["less biased", "no change beyond chance", "harmful", ""]
#: The share of a lean, in percent, that every kind of stated gender has to keep.
KEPT = 80.0
#: Units (jobs, persons, names) of each gender that are asked of a kind.
PER_SIDE = 10
#: Fewer sentences of an aim than this are too few for a verdict.
FEWEST = 60
NAME = "stated_gender"


def rows(trained: str = "") -> list[Row]:
    """The sentences that are asked before and after a recipe, of each kind one for each of some units.

    Jobs that the text ``trained`` names are left out of the stereotype, because a recipe learned from them.

    >>> kinds = {row["kind"] for row in rows()}
    >>> {"templates", "titles", "coreference"} <= kinds, {row["held_out"] for row in rows()}
    (True, {True})
    >>> left = rows('{"first": ["The plumber said that [she|he]"]}')
    >>> any(row["unit"] == "plumber" for row in left if row["aim"] == "stereotype")
    False
    """
    units: dict[tuple[str, str], dict[str, list[Row]]] = {}
    lower = trained.lower()
    for row in stated_gender.rows():
        if row["held_out"] and not (row["aim"] == STEREOTYPE and row["unit"] in lower):
            units.setdefault((row["kind"], row["side"]), {}).setdefault(row["unit"], []).append(row)
    chosen = []
    kinds = list(dict.fromkeys(kind for kind, _ in units))
    for (kind, _), by_unit in units.items():
        names = list(by_unit)
        # Each kind begins with another unit and another of its sentences, so that all jobs are asked.
        start = kinds.index(kind) * PER_SIDE
        for place in range(min(PER_SIDE, len(names))):
            of_unit = by_unit[names[(start + place) % len(names)]]
            chosen.append(of_unit[place % len(of_unit)])
    return chosen


def loaded(trained: str = "", limit: int | None = None) -> Loaded:
    """:func:`rows` as a split that a benchmark reads."""
    return given(rows(trained), stated_gender.DATASET, "sentences", "test", limit)


def answers(model: Model, split: Loaded, prompt: Prompt, store: Store, console: Console | None = None) -> Table:
    """The table of the benchmark of a model over :func:`loaded`."""
    questions = answering.questions(stated_gender.BENCHMARK, [split], "clean", prompt, model)
    requests = [request for question in questions for request in question.requests.values()]
    how = {"decoding": answering.decoding(prompt)}
    responses = workload.answer(model, requests, store, how, console, f"scoring {len(requests):,} texts")
    return run.table("clean", questions, responses)


def _items(table: Table) -> list[tuple[Group, Metric]]:
    """What is judged and shown: of the stereotype, of each kind of stated gender, and of all kinds."""
    stereotype = Group("stereotype", table["aim"] == STEREOTYPE)
    stated = Group("stated gender", (table["aim"] == STATED) & np.isin(table["kind"], stated_gender.KINDS))
    items = [(stereotype, metrics.lean()), (stereotype, metrics.male_lean())]
    items += [(stated, metrics.stated_lean()), (stated, metrics.right()), (stated, metrics.pronoun_mass())]
    items.append((stated, metrics.they_mass()))
    for kind in (*stated_gender.KINDS, "neopronouns"):
        items.append((Group(kind, table["kind"] == kind), metrics.stated_lean()))
    return [(group, metric) for group, metric in items if group.mask.any()]


def changes(before: Table, after: Table, resamples: int) -> list[Change]:
    """The changes of the benchmark from one table to another, with paired intervals; and what each kind keeps."""
    if not before or not len(before["id"]):
        return []
    items = _items(before)
    units = before["unit"]
    differences = stats.compare(items, after, before, units, benchmark=NAME, resamples=resamples)
    old = stats.measure(items, before, units, benchmark=NAME, resamples=resamples)
    new = stats.measure(items, after, units, benchmark=NAME, resamples=resamples)
    found = [changed(difference, a, b) for difference, a, b in zip(differences, old, new, strict=True)]
    both = {**after, "base_lean": before["lean"]}
    of_kinds = [(group, metrics.kept()) for group, metric in items if metric.name == "stated_lean"]
    nothing = (math.nan, math.nan, math.nan)
    for share in stats.measure(of_kinds, both, units, benchmark=NAME, resamples=resamples):
        value = share.value, share.low, share.high
        found.append(Change(NAME, share.group, share.metric, nothing, value, nothing, share.n))
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """Three lines, the verdict, and why it is harmful or why nothing is concluded.

    Parameters
    ----------
    stereotype, stated, ability:
        Each with the scores before and after and the change, with intervals.
    """

    stereotype: str
    stated: str
    ability: str
    verdict: Verdict
    why: str = ""

    @property
    def words(self) -> str:
        """The verdict with its reason."""
        reason = f", because {self.why}" if self.why else ""
        return f"{self.verdict or 'nothing is concluded'}{reason}"

    @property
    def lines(self) -> list[str]:
        """The three lines and the verdict, as a command and a card have them."""
        return [
            f"Stereotype: {self.stereotype}.",
            f"Stated gender: {self.stated}.",
            f"Ability: {self.ability}.",
            f"Verdict: {self.words}.",
        ]


#: Where LMS of gender is among the changes.
_LMS = ("stereoset", "intrasentence test gender", "lms")


def outcome(found: Sequence[Change]) -> Outcome | None:
    """The outcome of the changes of an adapter; None where stated gender was not measured."""
    by_key: dict[tuple[str, str, str], Change] = {}
    for change in found:
        # The first: the benchmark itself may have been scored too, also over jobs that a recipe learned from.
        by_key.setdefault((change.benchmark, change.group, change.metric), change)
    stereotype = by_key.get((NAME, "stereotype", "lean"))
    overall = by_key.get((NAME, "stated gender", "stated_lean"))
    if stereotype is None or overall is None:
        return None
    kinds = {kind: by_key[NAME, kind, "stated_lean"] for kind in stated_gender.KINDS if (NAME, kind, "kept") in by_key}
    shares = {kind: by_key[NAME, kind, "kept"].after for kind in kinds}
    perplexity = by_key.get(("text", "held-out texts", "perplexity"))
    perplexity = perplexity or by_key.get(("text", "held-out texts", "pseudo_perplexity"))
    lms = by_key.get(_LMS)
    judged = {kind: change for kind, change in kinds.items() if change.before[1] > 0}
    worst = min(judged, key=lambda kind: shares[kind][0]) if judged else ""
    right = by_key[NAME, "stated gender", "right"]
    words, why = _judge(by_key, stereotype, judged, shares, perplexity, lms)
    if stereotype.n < FEWEST or overall.n < FEWEST:
        words, why = "", f"{stereotype.n} and {overall.n} sentences are too few"
    elif not right.before[1] > 50:
        words, why = "", "the model before is no better than chance at stated gender"
    stated = f"{_arrow(overall)} nats"
    if worst:
        stated += f"; the worst kind, {worst}, keeps {numbers.with_interval(shares[worst], '.0f')} %"
    return Outcome(f"{_arrow(stereotype)} nats", stated, _ability(perplexity, lms), words, why)


def _judge(
    by_key: Mapping[tuple[str, str, str], Change],
    stereotype: Change,
    judged: Mapping[str, Change],
    shares: Mapping[str, tuple[float, float, float]],
    perplexity: Change | None,
    lms: Change | None,
) -> tuple[Verdict, str]:
    """The verdict and its reason, by the rule above."""
    common = by_key[NAME, "stereotype", "male_lean"]
    mass = by_key[NAME, "stated gender", "p_pronouns"]
    tested = {"stereotype": stereotype, "common": common, "mass": mass, **judged}
    if perplexity:
        tested["perplexity"] = perplexity
    if lms:
        tested["lms"] = lms
    p, sides, clusters = [], [], []
    for change in tested.values():
        p.append(verdict.p_of(change.difference) if change.p is None else change.p)
        sides.append(math.nan if change.p_side is None else change.p_side)
        clusters.append(math.inf if change.clusters is None else change.clusters)
    p_holm, p_direction = (dict(zip(tested, some, strict=True)) for some in verdict.corrected(p, sides, clusters))

    def fell(name: str) -> bool:
        return p_holm[name] < verdict.LEVEL and tested[name].difference[0] < 0

    def side(name: str) -> str:
        change = tested[name]
        return verdict.verdict(change.before[0], change.difference, 0.0, p_holm[name], p_direction[name])

    lost = [kind for kind in judged if fell(kind) and shares[kind][0] < KEPT]
    if lost:
        worst = min(lost, key=lambda kind: shares[kind][0])
        return "harmful", f"{worst} keeps {shares[worst][0]:.0f} % of its lean to the stated gender"
    if fell("mass") and mass.after[0] < KEPT / 100 * mass.before[0]:
        return "harmful", f"gendered forms keep {100 * mass.after[0] / mass.before[0]:.0f} % of their probability"
    if perplexity and p_holm["perplexity"] < verdict.LEVEL:
        rise = perplexity.difference[0] / perplexity.before[0]
        if rise > verdict.MARGIN:
            return "harmful", f"perplexity rises by {100 * rise:.1f} %"
    if lms and fell("lms") and lms.difference[0] < -100 * verdict.MARGIN:
        return "harmful", f"LMS falls by {-lms.difference[0]:.1f} points"
    if side("stereotype") == "further":
        return "harmful", "the stereotype grows"
    if side("common") == "further" and abs(common.after[0]) - abs(common.before[0]) > abs(stereotype.before[0]) / 5:
        return "harmful", "all jobs lean more to one gender"
    if side("stereotype") == "nearer":
        return "less biased", ""
    return "no change beyond chance", ""


def _arrow(change: Change, form: str = ".2f") -> str:
    """A score before and after with both intervals."""
    return f"{numbers.with_interval(change.before, form)} → {numbers.with_interval(change.after, form)}"


def _ability(perplexity: Change | None, lms: Change | None) -> str:
    parts = []
    if perplexity:
        share = tuple(100 * value / perplexity.before[0] for value in perplexity.difference)
        parts.append(f"perplexity {_arrow(perplexity, '.1f')}, {numbers.with_interval(share, '+.1f')} %")
    if lms:
        parts.append(f"LMS {_arrow(lms, '.1f')}")
    return "; ".join(parts) or "not measured"
