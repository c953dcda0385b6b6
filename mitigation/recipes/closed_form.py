"""Closed form: a LoRA from one least-squares problem, after which occupations say less of a gender; no training.

Texts of an occupation should have no lean log p(he) - log p(she), texts that state a gender keep theirs, and for
ordinary text nearly the same leaves the last maps of feed-forward parts (:mod:`mitigation.editing.least_squares`). The
problem is linear, so texts are read once, forwards and backwards, and there is no rate and no step. The ridge keeps the
edit small: asked to remove a lean, it leaves a third of it at edited pairs of SmolLM2 and Gemma 3 270M, and .51 and .67
of it at occupations that are not among them. So half more than the lean is asked for (``strength``), after which nearly
none is left at edited pairs. More would turn their stereotype around.

The result is a plain LoRA of PEFT, which servers load and which merges into the weights. By default the pairs are those
of this project about occupations; ``pairs`` names a file of your own.

Sources: that a linear change of such maps can remove stereotypes and keep stated gender is shown by DAMA (Limisiewicz
et al., 2024) and 2DAMA (2025), and that the covariance of other text keeps it by MEMIT (Meng et al., 2023). They find
what should leave a map by gradient steps for each text; here its first derivative is enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from cards.common import terminal
from mitigation.editing.settings import AT_ONCE, OWN, TextSettings
from mitigation.recipe import Adapter, Job, Memory, MitigationError, TrainingData, declared, setting
from scoring.types import Floats

#: The fewest pairs that are edited.
FEWEST = 10
#: One of so many pairs of texts that state a gender is held out.
HELD_STATED = 10


@dataclass(frozen=True)
class ClosedFormSettings(TextSettings):
    """Which texts the problem has, and how much of the maps the edit may use."""

    kept: int = setting(600, "Sentences that state a gender; 0 for none.", OWN, least=0)
    strength: float = setting(
        1.5,
        "Fall of a lean that is asked for, as a multiple of it; a third of what is asked for does not happen.",
        OWN,
        above=0,
    )
    margin: float = setting(0.4, "Share by which a lean at a stated gender is to rise.", OWN, least=0)
    mass: float = setting(0.1, "Weight of the probability of both words of a pair, which is kept.", OWN, least=0)
    ridge: float = setting(0.1, "Weight of a small edit against wanted values that are met.", OWN, above=0)
    first: float = setting(0.3, "Where the edited blocks begin, as a share of all.", OWN, least=0, below=1)
    last: float = setting(0.95, "Where they end.", OWN, above=0, most=1)
    rank: int = setting(8, "Rank of the LoRA of each map.", OWN, above=0)
    held_out: float = setting(
        0.1, "Share of the subjects whose pairs measure the edit and are not edited.", OWN, least=0, below=1
    )
    seed: int = setting(42, "Of the held-out subjects, and of the texts that are kept.", OWN)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first >= self.last:
            raise MitigationError(f"The edited blocks begin at {self.first} and end at {self.last}; give --last above.")

    @property
    def batch_size(self) -> int:
        """The texts that are computed at once."""
        return AT_ONCE

    @property
    def length(self) -> int:
        """About how many tokens a text has; those of this project have 21 on average with the tokenizer of SmolLM2."""
        return 21


def make(job: Job[ClosedFormSettings]) -> Adapter:
    """Solves the problem, writes the LoRA, and measures it at pairs about held-out subjects."""
    from mitigation.adapters.temporary import attached
    from mitigation.editing import kept, least_squares
    from mitigation.projections import subspaces

    model, settings = job.model, job.settings
    maps = edited_maps(model, settings)
    fitted, held = places_of_pairs(model, settings)
    stated, held_stated = places_of_stated(model, settings)
    terminal.show(job.console, [f"Reading {len(fitted)} pairs and {len(stated)} texts that state a gender …"])
    before, tokens = least_squares.derivatives(model, [*fitted, *stated], maps, len(fitted))
    texts = kept.OrdinaryText(model, settings.texts(), settings.seed)
    ordinary = least_squares.inputs_of_text(model, texts.rows, maps)
    leans = len(fitted) + len(stated)
    # After the leans come the probabilities of both words of a pair together, which are kept by their weight.
    weights = np.full(len(before), settings.mass)
    weights[:leans] = 1
    differences = np.zeros(len(before))
    differences[: len(fitted)] = -settings.strength * before[: len(fitted)]
    differences[len(fitted) : leans] = settings.margin * np.abs(before[len(fitted) : leans])
    terminal.show(job.console, [f"Solving for {len(before)} values in {len(maps)} maps …"])
    problem = least_squares.Edit(tokens, ordinary, weights, settings.ridge)
    coefficients = problem.coefficients(differences)
    matrices = {}
    for name in maps:
        matrices[name] = least_squares.of_rank(problem.change(name, coefficients), settings.rank)
    parameters = subspaces.write_lora(model, matrices, job.out)

    measures: dict[str, float] = {"edited pairs": len(fitted), "held-out pairs": len(held)}
    groups = {"edited pairs": fitted, "stated gender": held_stated, "held-out pairs": held}
    groups = {name: places for name, places in groups.items() if places}
    # An adapter changes the modules of the network itself, so all of them are measured before it is attached.
    before_edit = {name: leans_at(model, places) for name, places in groups.items()}
    with attached(model, job.out) as edited:
        after_edit = {name: leans_at(edited, places) for name, places in groups.items()}
    for name, old in before_edit.items():
        new = after_edit[name]
        measures |= {f"lean of {name} before": float(old.mean()), f"lean of {name} after": float(new.mean())}
        line = f"Lean of {name}: {old.mean():.2f} to {new.mean():.2f} nats; in size {size(old):.2f} to {size(new):.2f}."
        terminal.show(job.console, [line])
    # Without held-out pairs the edited ones are all that can say whether it helped.
    judged = "held-out pairs" if held else "edited pairs"
    if size(after_edit[judged]) >= size(before_edit[judged]):
        raise MitigationError(
            f"The leans of {judged} of {model.name} are {size(before_edit[judged]):.3f} nats in size before and "
            f"{size(after_edit[judged]):.3f} after; give more pairs, or a lower --strength."
        )
    return job.done(parameters, measures)


def size(leans: Floats) -> float:
    """The root of the mean square of leans, in nats."""
    return float(np.sqrt((leans**2).mean()))


def edited_maps(model: Any, settings: ClosedFormSettings) -> list[str]:
    """The names of the maps that are edited: the last ones of feed-forward parts, at least one."""
    from scoring.adapters.feed_forward import feed_forwards

    parts = feed_forwards(model.network)
    first = min(round(settings.first * len(parts)), len(parts) - 1)
    last = max(round(settings.last * len(parts)), first + 1)
    return [part.last for part in parts[first:last]]


def places_of_pairs(model: Any, settings: ClosedFormSettings) -> tuple[list[Any], list[Any]]:
    """The places of the pairs that are edited, and of those about held-out subjects.

    Pairs whose words are several tokens are left out.

    Raises
    ------
    MitigationError
        If too few are left, or the share of held-out subjects does not fit.
    """
    from mitigation.editing import least_squares, pairs
    from mitigation.editing.session import split_subjects

    places = {}
    possible, _ = pairs.each_possible(settings.own_pairs(), lambda row: pairs.edit_pair(model.tokens, row))
    for row, pair in possible:
        place = least_squares.place_of(pair.biased, pair.unbiased)
        if place is not None:
            places[row["id"]] = place
    rows = [row for row, _ in possible if row["id"] in places]
    edited, held = split_subjects(rows, settings.held_out, settings.seed)
    if len(edited) < FEWEST:
        raise MitigationError(
            f"{len(edited)} pairs with words of one token each are left to edit, and at least {FEWEST} are needed; "
            "give more pairs."
        )
    return [places[row["id"]] for row in edited], [places[row["id"]] for row in held]


def places_of_stated(model: Any, settings: ClosedFormSettings) -> tuple[list[Any], list[Any]]:
    """Places in texts that state a gender, those that are kept and held-out ones."""
    from mitigation.editing import kept, least_squares

    if not settings.kept:
        return [], []
    batch = kept.StatedGender(model, settings.seed).batch(0, settings.kept)
    kept_places: list[Any] = []
    held: list[Any] = []
    for number, (query, (right, other)) in enumerate(zip(batch.queries, batch.forms, strict=True)):
        # Both texts of a pair, about a man and about a woman, are on one side.
        side = kept_places if number // 2 % HELD_STATED else held
        side.append(least_squares.Place(query.ids, query.at[0], right, other))
    return kept_places, held


def leans_at(model: Any, places: Sequence[Any]) -> Floats:
    """Log p(first word) - log p(second word) at places [places], in nats."""
    from mitigation.editing import least_squares

    leans: Floats = least_squares.values(model, places)[:, 0]
    return leans


def memory(network: Any, settings: ClosedFormSettings) -> Memory:
    """What is in memory besides the network: tokens of texts and of ordinary text in each map, at most in float32."""
    from mitigation.editing import least_squares
    from scoring.adapters.feed_forward import INPUTS, OUTPUTS, features

    pairs = len(settings.own_pairs())
    tokens = (2 * pairs + settings.kept) * least_squares.TOKENS
    numbers = trained = 0
    for name in edited_maps(SimpleNamespace(network=network), settings):
        module = network.get_submodule(name)
        inputs, outputs = features(module, INPUTS), features(module, OUTPUTS)
        numbers += tokens * (outputs + inputs) + least_squares.KEPT_TOKENS * inputs
        trained += settings.rank * (inputs + outputs)
    return Memory({"tokens of texts, in the memory of the processor": 4 * numbers}, trained)


def batches(settings: ClosedFormSettings, data: TrainingData) -> int:
    """About how many batches of texts are read."""
    del data
    return math.ceil((len(settings.own_pairs()) + settings.kept) / AT_ONCE)


RECIPE = declared("closed_form", ClosedFormSettings, make, memory=memory, steps=batches)
