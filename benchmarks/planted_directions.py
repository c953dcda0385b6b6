"""Why recipes fail on a masked model with a planted stereotype: ``python -m benchmarks.planted_directions``.

A projection helps as far as the direction that it removes is the one along which the state at the pronoun differs
between the two kinds of occupations. This measures the cosines with that direction, and what the prefix of Self-Debias
does to both pronouns. The models are those of ``benchmarks.planted_recipes``, in the same ``--work``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console

from benchmarks.machine import describe
from benchmarks.occupations import NEW_TEMPLATES, PLANTED, pairs
from benchmarks.planted_recipes import KINDS, WHOLE, Bed, Run
from cards.common.files import put
from mitigation import recipes
from mitigation.projections import stream
from mitigation.projections.fit import tuple_states
from mitigation.projections.states import differing_words
from mitigation.projections.subspaces import principal_directions
from mitigation.recipes.self_debias import SelfDebiasSettings
from scoring import DATA
from scoring.inference.load_options import load
from scoring.inference.model import Model
from scoring.inference.self_debias import SelfDebiased, SelfDebiasing, debiased_logprobs
from scoring.types import Floats

RESULT = Path(__file__).with_suffix(".json")
LONGEST = 128


def cosine(one: Floats, other: Floats) -> float:
    """How far two directions are the same, without their signs."""
    one, other = one.ravel(), other.ravel()
    return float(abs(one @ other) / np.linalg.norm(one) / np.linalg.norm(other))


def directions(model: Model) -> dict[str, float]:
    """The cosines of directions with that between the states that predict the pronouns of both kinds of occupations."""
    kinds = [
        [(pair.pro, pair.anti) for pair in pairs({gender: names}, NEW_TEMPLATES)] for gender, names in PLANTED.items()
    ]
    planted = stream.predicting_difference(model, kinds, "", LONGEST)
    settings: Any = recipes.get("sentence_debias").profiles["clean"]
    written, _ = stream.text_pairs(model, recipes.get("steering").profiles["clean"])
    same = stream.predicting_difference(model, (written[::2], written[1::2]), "", LONGEST)
    return {
        "mean states of swapped sentences": cosine(principal_directions(tuple_states(model, settings), 1), planted),
        "states at the words of the same sentences": cosine(same, planted),
        "gradient of the answer": cosine(principal_directions(tuple_states(model, settings, mean=False), 1), planted),
    }


@torch.inference_mode()
def prefixed(model: Model, prefixes: Sequence[str]) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Of each pair the log-probabilities [2] of both pronouns: plain, after the prefix, and self-debiased."""
    settings = SelfDebiasing(tuple(prefixes))
    engine = SelfDebiased(model, settings)
    for pair in pairs(PLANTED, NEW_TEMPLATES):
        words = differing_words(model, (pair.pro, pair.anti), LONGEST)
        assert words
        ids = words.inputs[0, 0].tolist()
        (after,) = rows = engine._prefixed(ids)
        plain, behind = engine._logits([ids])[0, words.at], engine._logits(rows)[:, words.at + len(after) - len(ids)]
        debiased = debiased_logprobs(plain, behind, settings.decay, settings.epsilon)
        both = (plain.log_softmax(-1), behind[0].log_softmax(-1), debiased)
        one, two, three = (logs[0, words.ids[:, 0]].double().numpy() for logs in both)
        yield one, two, three


def effect(model: Model, prefixes: Sequence[str]) -> dict[str, float]:
    """What the prefix does to the pronoun of the stereotype and to the other one, as means over pairs."""
    plain, after, debiased = (np.array(column) for column in zip(*prefixed(model, prefixes), strict=True))
    lowered = plain - debiased
    return {
        "other pronoun is more probable after the prefix, %": float(100 * np.mean(after[:, 1] > plain[:, 1])),
        "p of the other pronoun": float(np.exp(plain[:, 1]).mean()),
        "p of the other pronoun after the prefix": float(np.exp(after[:, 1]).mean()),
        "pronoun of the stereotype is lowered by, nats": float(lowered[:, 0].mean()),
        "other pronoun is lowered by, nats": float(lowered[:, 1].mean()),
        "gap, nats": float(np.abs(plain[:, 0] - plain[:, 1]).mean()),
        "gap with Self-Debias, nats": float(np.abs(debiased[:, 0] - debiased[:, 1]).mean()),
    }


def rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    """The numbers with three decimals."""
    return {name: round(number, 3) for name, number in numbers.items()}


def main(
    work: Annotated[Path, typer.Option(help="Folder of the planted models; what lacks is made.")],
    data: Annotated[str, typer.Option(help="Built data sets.")] = DATA,
    seeds: Annotated[int, typer.Option(min=1, help="Planted models of each kind.")] = 3,
    out: Annotated[Path, typer.Option(help="The JSON.")] = RESULT,
) -> None:
    """Measures the planted models and writes the result."""
    console = Console(stderr=True)
    bed, found = Bed(work, data, ["It was late."], console), dict[str, Any]()
    for kind in KINDS:
        for seed in range(seeds):
            model = load(bed.planted(run := Run(kind, WHOLE, seed)), device="cpu")
            cosines = rounded(directions(model))
            found[run.model] = {"cosines": cosines, "prefix": rounded(effect(model, SelfDebiasSettings().all_prefixes))}
            console.log(run.model, found[run.model])
    put(out, json.dumps({"machine": describe("torch", "transformers"), "models": found}, indent=1).encode() + b"\n")


if __name__ == "__main__":
    typer.run(main)
