"""MABEL: further training of a masked model on entailment pairs and their copies with the words of the other gender.

Source: *MABEL: Attenuating Gender Bias using Textual Entailment Data* (He et al., 2022). A contrastive loss brings
each premise near its hypothesis, an alignment loss makes the similarity of a pair equal to that of its swapped copy,
and masked tokens keep the language. The pairs are those of SNLI with a listed word, fetched from their pinned
address. The authors' own model is on the Hub as ``princeton-nlp/mabel-bert-base-uncased`` and can be scored by that
name like any other model.
"""

import random
from dataclasses import dataclass
from functools import partial
from itertools import islice

from builders.files.manifest import file_sha256
from builders.parsers import snli
from mitigation.recipe import Adapter, Job, MitigationError, declared, defaults, setting
from mitigation.texts.attribute_words import PUBLISHED, SOURCE, fetched_source
from mitigation.texts.swaps import Swapper
from mitigation.training.settings import OPEN, TrainingSettings, WordSettings

CODE = "code of He et al. 2022"
PAIRS = "snli/train"
#: The least pairs that can be trained on.
LEAST = 8


@dataclass(frozen=True)
@defaults(CODE, batch_size=32, learning_rate=5e-5, rank=0, seed=21, domain="gender")
@defaults(OPEN, words=PUBLISHED)
class MabelSettings(WordSettings, TrainingSettings):
    """Words, weights of the losses, and how long is trained."""

    pairs: int = setting(0, "Use at most this number of first entailment pairs of SNLI; 0 uses all.", OPEN, least=0)
    temperature: float = setting(0.05, "What cosines are divided by.", CODE, above=0)
    aligned: float = setting(0.05, "Weight of the alignment loss.", CODE, least=0)
    weight: float = setting(0.1, "Weight of the loss of masked tokens.", CODE, least=0)
    mlp: bool = setting(True, "Train a network of two layers above the first token, and throw it away.", CODE)
    masked: float = setting(0.15, "Share of the tokens that are predicted.", CODE, above=0, below=1)
    epochs: int = setting(
        2, "Times that each pair is trained; a step has pairs with their swapped copies.", CODE, above=0
    )
    length: int = setting(128, "The most tokens of a sentence.", CODE, above=0)
    held_out: float = setting(0.05, "Share of the pairs that are measured but not trained.", OPEN, above=0, below=1)

    def inputs(self) -> dict[str, str]:
        """The list of words and the file of pairs."""
        words = self.listed
        # A swapped copy needs one other group.
        if len(words.groups[0]) != 2:
            raise MitigationError(f"The words for {self.domain!r} are no pairs; give a domain with pairs of words.")
        return super().inputs() | {f"{SOURCE}{PAIRS}": file_sha256(fetched_source(PAIRS).path)}


def make(job: Job[MabelSettings]) -> Adapter:
    """Trains on the pairs and their swapped copies, and writes the adapter."""
    from mitigation.training import losses, trainable

    model, settings = job.model, job.settings
    rows = losses.entailment_rows(model, entailment_pairs(settings.pairs), Swapper(settings.listed), settings.length)
    if len(rows) < LEAST:
        raise MitigationError(
            f"{len(rows)} entailment pairs have a listed word, and at least {LEAST} are needed; give other words or "
            "more pairs."
        )
    # Neighbouring pairs of SNLI may have the same premise.
    random.Random(settings.seed).shuffle(rows)
    held_count = max(1, round(settings.held_out * len(rows)))
    held, trained = rows[:held_count], rows[held_count:]
    loss = losses.EntailmentLoss(model, settings.temperature, settings.aligned, settings.weight, settings.masked)
    # The paper counts epochs, and the loop counts steps.
    schedule = settings.schedule(steps=max(1, settings.epochs * len(trained) // settings.batch_size), warmup=0.0)
    # The network above the first token is trained with the rest and then thrown away.
    within = partial(loss.trained_head, wanted=settings.mlp)
    tuned = trainable.tune(job, loss, trained, held, schedule, within)
    measures: dict[str, float] = {}
    for when, terms in (("before", tuned.curve.held[0]), ("after", tuned.after)):
        measures |= {f"{name}_held_out_{when}": terms[name] for name in ("contrastive", "alignment", "masked")}
    measures |= {"pairs_trained": len(trained), "pairs_held_out": len(held)}
    return job.done(tuned.parameters, measures)


def entailment_pairs(most: int = 0) -> list[tuple[str, str]]:
    """The first ``most`` entailment pairs of SNLI's training split, or all for 0, in the order of the file.

    Raises
    ------
    SourceUnavailable
        If the file cannot be fetched.
    """
    entailed = (
        (premise, hypothesis)
        for premise, hypothesis, label in snli.pairs(fetched_source(PAIRS))
        if label == snli.ENTAILMENT
    )
    return list(islice(entailed, most or None))


RECIPE = declared("mabel", MabelSettings, make)
