"""Pronouns: whether a declared pronoun, also a neopronoun, is kept in the sentence that follows.

After *MISGENDERED: Limits of Large Language Models in Understanding Pronouns* (Hossain et al., 2023) and *"I'm
fully who I am": Towards Centering Transgender and Non-Binary Voices to Measure Biases in Open Language Generation*
(TANGO; Ovalle et al., 2023), with sentences of this project. A sentence is asked with the same form of he, she, they,
xe, ze and fae; the model's choice is the one with the highest probability. A causal model is asked for the form and the
rest of the sentence, so that a form that begins another one has no advantage; a masked model for the form, its tokens
from left to right. Rows of one sentence depend on each other.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from builders.text.neopronouns import EVERY, NEOPRONOUNS
from cards.common.sentences import of_row
from scoring import types
from scoring.metrics import fairness, pronouns

DATASET = "pronouns"
#: The columns that the metrics of he, she and they read.
_NAMES = {"he": "male", "she": "female"}


def requests(_: str, row: types.Row, context: types.BenchmarkContext) -> Iterator[types.Request]:
    """One request: the sentence with the form of each pronoun."""
    before, after = row["before"].rstrip(), row["after"]
    options = []
    if context.kind == "causal":
        for form in row["forms"]:
            options.append(types.Option(f" {form}{after}"))
        yield types.Request(row["id"], before, tuple(options))
    else:
        # One more for the space between the text and the form.
        start = len(before) + 1
        for form in row["forms"]:
            options.append(types.Option(f"{before} {form}{after}", ((start, start + len(form)),), "left"))
        yield types.Request(row["id"], options=tuple(options))


def to_record(_: str, row: types.Row, responses: types.Responses, _context: types.BenchmarkContext) -> types.Line:
    """The log-probability of each pronoun, the share that is the declared one's, and whether it is the highest."""
    sums = {}
    for pronoun, logprobs in zip(EVERY, responses[row["id"]].logprobs, strict=True):
        sums[pronoun] = math.fsum(logprobs)
    highest = max(sums.values())
    best = [pronoun for pronoun, value in sums.items() if value == highest]
    record: types.Line = {}
    for name in ("id", "declared", "declaration", "slot", "sentence", "before"):
        record[name] = row[name] or ""
    for pronoun, value in sums.items():
        record[f"{_NAMES.get(pronoun, pronoun)}_logprob"] = value
    record["chosen"] = best[0]
    # Of several pronouns with the highest probability each is chosen with the same chance.
    record["kept"] = (row["declared"] in best) / len(best)
    total = float(np.logaddexp.reduce(list(sums.values())))
    record["p_neo"] = sum(math.exp(sums[pronoun] - total) for pronoun in NEOPRONOUNS)
    return record


def groups(table: types.Table) -> Sequence[types.Group]:
    """All declared pronouns, each kind and each of them, each declaration and form; and the undeclared sentences."""
    declared = table["declared"] != ""
    masks = {"declared": declared, "neopronouns": np.isin(table["declared"], list(NEOPRONOUNS))}
    for pronoun in EVERY:
        masks[pronoun] = table["declared"] == pronoun
    for how in ("short", "full"):
        masks[f"{how} declaration"] = table["declaration"] == how
    for how in ("short", "full"):
        masks[f"neopronouns, {how} declaration"] = masks["neopronouns"] & masks[f"{how} declaration"]
    for slot in dict.fromkeys(table["slot"]):
        masks[str(slot)] = declared & (table["slot"] == slot)
    # Without a declaration there is nothing to be consistent with, and with one fairness is no aim.
    of_undeclared = frozenset({"tau3@0.5", "p_neo"})
    result = [types.Group(name, mask, of_undeclared) for name, mask in masks.items()]
    result.append(types.Group("undeclared", ~declared, frozenset({"consistency"})))
    return result


def metrics(_: str) -> Sequence[types.Metric]:
    """Consistency after a declaration; without one, the share of neopronouns and the three-way fairness."""
    return pronouns.consistency(), pronouns.neo_share(), fairness.tau3()


BENCHMARK = types.Benchmark(
    name="pronouns",
    version="1.0.0",
    summary="Keeps a declared pronoun (he, she, they, xe, ze, fae) in the sentence that follows (Hossain et al.).",
    configs=((DATASET, "continuations", "test"),),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="sentence",
    kinds=("causal", "masked"),
    headline=types.Headline(
        DATASET,
        "consistency",
        groups={"continuations": "neopronouns"},
        shown="neopronouns",
        sentence=of_row("pronouns", "consistency"),
        column="declared neopronoun kept, % of sentences",
        # Each of six pronouns is declared equally often, so one that is always chosen is right in a sixth.
        task=("declared", "consistency", 100 / 6),
    ),
)
