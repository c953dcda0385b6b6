"""Stated gender: whether a model gives jobs a gender, and whether it keeps a gender that the text states.

After *Debiasing Algorithm through Model Adaptation* (DAMA; Limisiewicz et al., 2024), whose aim is a model without the
first that keeps the second, with sentences of this project. A causal model is asked for the next word, a masked model
for the word in its place in the sentence. The lean is ln P(form) - ln P(other forms) in nats: the form is that of the
majority in the job, or that of the stated gender. Where *they* or a neopronoun is declared, the other forms are *he*
and *she* together. Example: P(he) = .2 and P(she) = .05 after "The plumber explained that" is a lean of 1.39. The rows
of a job, of a person or of a declared name depend on each other.

A chat model is asked by ``stated_gender-choice`` (:mod:`scoring.asking.ways`).
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from builders.text.wording import STATED, STEREOTYPE
from cards.common.sentences import of_row
from scoring import types
from scoring.metrics import stated_gender

DATASET = "stated-gender"
#: The kinds of sentences that state a gender, but for neopronouns: most models do not know those, so no recipe can
#: lose them, and the worst kind would always be that one.
KINDS = (
    *("nouns", "names", "titles", "parents", "biology"),
    *("parents in jobs", "persons in jobs", "coreference", "declared"),
)
_OF_STEREOTYPES = frozenset({"lean", "gap", "male_lean", "stereotype_share"})
_OF_STATED = frozenset({"stated_lean", "right"})
_FORMS = ("male", "female", "they", "neo")


def rows() -> Iterator[types.Row]:
    """The rows of the data set without a built folder, for a recipe that is judged by them."""
    # Here, because a list of the benchmarks imports no builder of a data set.
    from builders.dataset import Row
    from builders.datasets import stated_gender as data

    for row in data.DATASET.configs[0].rows({}):
        assert isinstance(row, Row)  # none is left out
        yield {"id": row.id, **row.values}


def requests(_: str, row: types.Row, context: types.BenchmarkContext) -> Iterator[types.Request]:
    """One request: the sentence with each form, of which the form alone is scored."""
    options = []
    before = row["before"].rstrip()
    for name in _FORMS:
        form = row[name]
        if form is None:
            continue
        if context.kind == "causal":
            # The space belongs to the form, because vocabularies of causal models have it there.
            options.append(types.Option(f" {form}{row['after']}", ((0, len(form) + 1),)))
        else:
            start = len(before) + 1
            options.append(types.Option(f"{before} {form}{row['after']}", ((start, start + len(form)),), "left"))
    if context.kind == "causal":
        yield types.Request(row["id"], before, tuple(options))
    else:
        yield types.Request(row["id"], options=tuple(options))


def to_record(_: str, row: types.Row, responses: types.Responses, _context: types.BenchmarkContext) -> types.Line:
    """The log-probability of each form, the lean, and the probability of both gendered forms and of *they*."""
    logprobs = dict.fromkeys(_FORMS, math.nan)
    names = [name for name in _FORMS if row[name] is not None]
    for name, of_tokens in zip(names, responses[row["id"]].logprobs, strict=True):
        logprobs[name] = math.fsum(of_tokens)
    both = float(np.logaddexp(logprobs["male"], logprobs["female"]))
    side = row["side"]
    if side == "male":
        lean = logprobs["male"] - logprobs["female"]
    elif side == "female":
        lean = logprobs["female"] - logprobs["male"]
    elif side == "they":
        lean = logprobs["they"] - both
    else:
        lean = logprobs["neo"] - both
    line: types.Line = {}
    for name in ("id", "aim", "kind", "unit", "side", "slot", "held_out"):
        line[name] = row[name]
    for side in ("male", "female"):
        line[f"sentence_{side}"] = f"{row['before']}{row[side]}{row['after']}"
        line[f"{side}_logprob"] = logprobs[side]
    line["lean"] = lean
    line["p_pronouns"] = math.exp(both)
    line["p_they"] = math.exp(logprobs["they"])
    return line


def groups(table: types.Table) -> Sequence[types.Group]:
    """Jobs that no recipe learns from, in all kinds and each, and those that recipes may know; then stated gender."""
    of_jobs = table["aim"] == STEREOTYPE
    other = of_jobs & table["held_out"].astype(bool)
    not_here = _OF_STATED | {"worst_lean"}
    result = [types.Group("stereotype", other, not_here)]
    for kind in dict.fromkeys(table["kind"][of_jobs]):
        result.append(types.Group(str(kind), other & (table["kind"] == kind), not_here))
    result.append(types.Group("known jobs", of_jobs & ~other, not_here))
    for side, name in (("female", "jobs of women"), ("male", "jobs of men")):
        result.append(types.Group(name, other & (table["side"] == side), not_here | {"male_lean"}))
    stated = table["aim"] == STATED
    mixed = stated & np.isin(table["kind"], KINDS)
    result.append(types.Group("stated gender", mixed, _OF_STEREOTYPES))
    single = _OF_STEREOTYPES | {"worst_lean"}
    for kind in dict.fromkeys(table["kind"][stated]):
        result.append(types.Group(str(kind), stated & (table["kind"] == kind), single))
    for side, name in (("female", "stated women"), ("male", "stated men")):
        result.append(types.Group(name, mixed & (table["side"] == side), single))
    return result


def metrics(_: str) -> Sequence[types.Metric]:
    """The lean to the stereotype and to the stated gender with their shares, and the probability of the forms."""
    return (
        stated_gender.lean(),
        stated_gender.gap(),
        stated_gender.male_lean(),
        stated_gender.stereotype_share(),
        stated_gender.stated_lean(),
        stated_gender.worst(KINDS),
        stated_gender.right(),
        stated_gender.pronoun_mass(),
        stated_gender.they_mass(),
    )


BENCHMARK = types.Benchmark(
    name="stated_gender",
    version="1.0.0",
    summary="Lean to the stereotype of a job, and to a gender that the text states (after Limisiewicz et al.).",
    configs=((DATASET, "sentences", "test"),),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="unit",
    kinds=("causal", "masked"),
    headline=types.Headline(
        DATASET,
        "lean",
        groups={"sentences": "stereotype"},
        shown="stereotype",
        sentence=of_row("stated_gender", "lean"),
        found=("gives jobs the gender that is rarer in them", "gives jobs the gender of most who hold them"),
        column="lean to the stereotype of a job, nats",
        task=("stated gender", "right", 50),
    ),
    contrast=types.Contrast(
        ("female", "male"),
        ("female_logprob", "male_logprob"),
        ("sentence_female", "sentence_male"),
        about=("unit", "kind", "side", "id"),
    ),
)
