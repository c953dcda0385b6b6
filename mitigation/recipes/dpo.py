"""DPO: preference tuning after which *she* and *he* are equally probable where nothing says who is meant.

Source: *Direct Preference Optimization* (Rafailov et al., 2023). A row is a prompt of the gender-neutral
probes (training split) with one pronoun chosen and the other rejected. With as many rows for each gender, the optimum
of DPO would be the base model itself, because DPO adds the preference to the base model's. So *she* is chosen in a
share p of the rows with logit(p) = β log(P(he) / P(she)) of the base model: the optimum of DPO on these rows then
has both pronouns equally probable after each prompt, and the divergence from the base model is what DPO limits anyway.

With ``pairs`` of the user's the prompt is the text before the blank, and the two answers are the objects. There are few
of them, so each is a row with the share p itself in place of a drawn preference: the mean of DPO's loss over draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cards.common import terminal, text
from mitigation.recipe import Adapter, Job, MitigationError, Model, declared, defaults, setting
from mitigation.recipes.debias_tuning import encode_prompts
from mitigation.texts import corpora, pairs_file
from mitigation.training.data import load_prompts, training_prompts
from mitigation.training.settings import OPEN, TrainingSettings
from scoring.types import Floats, Request

if TYPE_CHECKING:
    from mitigation.editing.pairs import EditPair

_PAPER = "Rafailov et al. 2023"
#: The pronouns that are preferred and rejected; the ratio of their probabilities is what is balanced.
PRONOUNS = ("she", "he")


class Preference(NamedTuple):
    """A row of the loss: a prompt as token ids, two answers of one token, and the preference between them.

    ``share`` is how often the first answer is preferred, and ``ratio`` the base model's log P(first) - log P(second).
    """

    ids: list[int]
    answers: tuple[int, int]
    share: float
    ratio: float


@dataclass(frozen=True)
@defaults(_PAPER, learning_rate=1e-6, batch_size=64)
@defaults(OPEN, alpha=16, checkpoint_every=100, validate_every=100)
class DpoSettings(TrainingSettings):
    """How strongly the base model is kept, and how long is trained."""

    beta: float = setting(0.1, "How strongly divergence from the base model costs.", _PAPER, above=0)
    optimizer: str = setting("rmsprop", "rmsprop or adamw.", _PAPER, choices=("rmsprop", "adamw"))
    warmup: int = setting(150, "Steps in which the rate rises.", _PAPER, least=0)
    steps: int = setting(1000, "Training steps.", OPEN, above=0)
    rank: int = setting(16, "Rank of the two LoRA matrices of each linear map.", OPEN, above=0)
    max_length: int = setting(512, "Maximum tokens of a prompt.", OPEN, above=0)
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes to train on, with commas.", OPEN)
    held: int = setting(256, "Validation prompts that are measured, at most.", OPEN, above=0)
    pairs: str = setting(
        "", "A file of pairs of your own, whose objects are preferred and rejected, in place of --corpora.", OPEN
    )
    held_out: float = setting(0.2, "Share of the subjects of --pairs that are held out.", OPEN, above=0, below=1)

    @property
    def read(self) -> int:
        """The tokens of a row where the head computes."""
        return 1

    def inputs(self) -> dict[str, str]:
        """The file of pairs, if there is one."""
        if self.pairs:
            return corpora.fingerprints(self.pairs)
        return {}


def make(job: Job[DpoSettings]) -> Adapter:
    """Trains, and writes the adapter, its losses and their picture into ``out``."""
    from mitigation.training import losses, trainable

    model, settings = job.model, job.settings
    measures: dict[str, float] = {}
    if settings.pairs:
        rows, held_rows = pair_preferences(job)
    else:
        names = text.split_list(settings.corpora)
        prompts = training_prompts(job.data, names)
        held = load_prompts(job.data, names, "validation")[: settings.held]
        rows, female = preferences(model, prompts, settings)
        held_rows, _ = preferences(model, held, settings)
        measures["share of rows that prefer she"] = float(female.mean())
    # The schedule counts a share of the steps, and the paper a number of them.
    schedule = settings.schedule(warmup=settings.warmup / settings.steps)
    tuned = trainable.tune(job, losses.PreferenceLoss(model, settings.beta), rows, held_rows, schedule)
    for when, terms in (("before", tuned.curve.held[0]), ("after", tuned.after)):
        measures |= {f"held-out {name} {when}": terms[name] for name in ("log ratio", "absolute log ratio")}
    terminal.show(job.console, [f"{name}: {mean:.3f}" for name, mean in measures.items()])
    return job.done(tuned.parameters, measures)


def preferences(
    model: Model, prompts: list[str], settings: DpoSettings
) -> tuple[list[Preference], np.ndarray[Any, Any]]:
    """A row of :class:`mitigation.training.losses.PreferenceLoss` for each prompt, and in which [prompts] is *she*."""
    # Of the unchanged model: no adapter is attached yet.
    ratios = log_ratios(model, prompts)
    # Preferences are set in a random order, so that neighbouring rows of a corpus are not treated alike.
    order = np.random.default_rng(settings.seed).permutation(len(prompts))
    female = np.zeros(len(prompts), dtype=bool)
    female[order] = prefers_first(ratios[order], settings.beta)
    encoded = encode_prompts(model, prompts, settings.max_length)
    she, he = (int(token) for token in model.tokens.words(PRONOUNS) if token is not None)
    rows = []
    for ids, prefers_she, ratio in zip(encoded, female.tolist(), ratios.tolist(), strict=True):
        rows.append(Preference(ids, (she, he), float(prefers_she), ratio))
    return rows, female


def pair_preferences(job: Job[DpoSettings]) -> tuple[list[Preference], list[Preference]]:
    """The rows of a file of pairs to train, and those of held-out subjects.

    The first answer of a row is the unbiased object. Objects of several tokens are compared by their first one.

    Raises
    ------
    MitigationError
        If no pair has two objects with different first tokens, or no subject can be held out.
    """
    from mitigation.editing.pairs import each_possible, edit_pair
    from mitigation.editing.session import split_subjects, tell_left_out

    model, settings = job.model, job.settings
    file_rows = pairs_file.read_pairs(settings.pairs)
    possible, left_out = each_possible(file_rows, lambda row: edit_pair(model.tokens, row))
    rows, pairs = [], {}
    for row, pair in possible:
        # Such a pair would prefer and reject the same token.
        if pair.objects[0] == pair.objects[1]:
            left_out[str(row["id"])] = "both objects begin with the same token"
        else:
            rows.append(row)
            pairs[str(row["id"])] = pair
    tell_left_out(left_out, len(file_rows), "compared", job.console)
    if not rows:
        raise MitigationError(
            f"None of the {len(file_rows)} pairs of {settings.pairs} can be compared; give other pairs."
        )
    trained, held = split_subjects(rows, settings.held_out, settings.seed)
    beta = settings.beta
    return (
        [pair_preference(model, pairs[str(row["id"])], beta) for row in trained],
        [pair_preference(model, pairs[str(row["id"])], beta) for row in held],
    )


def pair_preference(model: Model, pair: EditPair, beta: float) -> Preference:
    """A row whose share of the unbiased object makes both objects equally probable at the optimum of DPO."""
    import torch

    query = pair.biased[pair.prompt.query]
    # The tokens before the object are the same in both sentences.
    prompt = list(query.ids[: query.at[pair.prompt.answer] + 1])
    biased, unbiased = pair.objects
    with torch.inference_mode():
        logits = model.network(input_ids=torch.tensor([prompt], device=model.device)).logits[0, -1].double()
    # The normalization of both probabilities is the same, so logits suffice.
    ratio = float(logits[unbiased] - logits[biased])
    share = float(1 / (1 + np.exp(beta * ratio)))
    return Preference(prompt, (unbiased, biased), share, ratio)


def log_ratios(model: Model, prompts: list[str]) -> Floats:
    """By how much *she* is more probable than *he* as the next token after each prompt [prompts], in nats.

    Raises
    ------
    MitigationError
        If a pronoun is more than one token of the model.
    """
    answers = model.answer([Request(str(number), prompt, candidates=PRONOUNS) for number, prompt in enumerate(prompts)])
    logs: Floats = np.array([answer.candidate_logprobs for answer in answers])
    if np.isnan(logs).any():
        raise MitigationError(
            f"In the vocabulary of {model.name} she or he is more than one token, so they cannot be compared; give a "
            "model with larger tokens."
        )
    ratios: Floats = logs[:, 0] - logs[:, 1]
    return ratios


def prefers_first(ratios: Floats, beta: float) -> np.ndarray[Any, Any]:
    """In which rows the first pronoun is preferred, for the base model's log-ratios of both [rows].

    The share at any place in the order is that of the mean probability, with an error of one row (systematic
    sampling), so that the number of rows adds no noise of its own.

    >>> prefers_first(np.array([2.0, 2.0, 2.0, 2.0, -9.0, -9.0]), 9.0).tolist()
    [False, False, False, False, True, True]
    >>> int(prefers_first(np.zeros(10), 0.1).sum())
    5
    """
    # logit(p) = β log(P(he) / P(she)), see the first paragraph of this module.
    shares = 1 / (1 + np.exp(beta * ratios))
    whole = np.floor(np.cumsum(shares) + 0.5)
    chosen: np.ndarray[Any, Any] = np.diff(whole, prepend=0) > 0
    return chosen


RECIPE = declared("dpo", DpoSettings, make)
