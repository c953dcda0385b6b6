"""MABEL: further training of a masked model on entailment pairs and their copies with the words of the other gender.

Source: *MABEL: Attenuating Gender Bias using Textual Entailment Data* (He et al., 2022). A contrastive loss brings
each premise near its hypothesis, an alignment loss makes the similarity of a pair equal to that of its swapped copy,
and masked tokens keep the language. The pairs are those of SNLI with a listed word, fetched from their pinned
address. The authors' own model is on the Hub as ``princeton-nlp/mabel-bert-base-uncased`` and can be scored by that
name like any other model.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from builders.manifest import file_sha256
from builders.parsers import snli
from mitigation.adapters.write import describe
from mitigation.attribute_words import PUBLISHED, SOURCE, Swapper, attribute_words, fetched_source
from mitigation.errors import MitigationError
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from scoring.adapters.facts import Adapter

if TYPE_CHECKING:
    from mitigation.training.train import TrainingSchedule
    from scoring.inference.model import Model

CODE, OPEN = "code of He et al. 2022", "this project"
PAIRS = "snli/train"
#: The least pairs that can be trained on.
LEAST = 8
_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class MabelSettings:
    """Words, weights of the losses, and how long is trained."""

    words: str = setting(PUBLISHED, "The list of words: bias-bench, or a JSON file.", OPEN)
    domain: str = setting("gender", "gender, or another name of pairs in the list.", CODE)
    pairs: int = setting(0, "Use at most this number of first entailment pairs of SNLI; 0 uses all.", OPEN)
    temperature: float = setting(0.05, "What cosines are divided by.", CODE)
    aligned: float = setting(0.05, "Weight of the alignment loss.", CODE)
    weight: float = setting(0.1, "Weight of the loss of masked tokens.", CODE)
    mlp: bool = setting(True, "Train a network of two layers above the first token, and throw it away.", CODE)
    masked: float = setting(0.15, "Share of the tokens that are predicted.", CODE)
    epochs: int = setting(2, "Times that each pair is trained.", CODE)
    batch_size: int = setting(32, "Pairs of a step, each with its swapped copy.", CODE)
    length: int = setting(128, "The most tokens of a sentence.", CODE)
    learning_rate: float = setting(5e-5, "Learning rate of AdamW; it falls linearly to zero.", CODE)
    held_out: float = setting(0.05, "Share of the pairs that are measured but not trained.", OPEN)
    rank: int = setting(0, "Rank of the LoRA matrices of each linear map; 0 trains all weights.", CODE)
    alpha: int = setting(64, "Scale of their product, divided by the rank.", OPEN)
    seed: int = setting(21, "Of the held-out pairs, order, masks, dropout and the first matrices.", CODE)
    validate_every: int = setting(50, "Steps between measurements of held-out pairs.", OPEN)
    patience: int = setting(0, "Measurements without improvement that end training; 0 never does.", OPEN)
    checkpoint_every: int = setting(50, "Steps between checkpoints.", OPEN)

    def __post_init__(self) -> None:
        trained = ("epochs", "batch_size", "length", "learning_rate", "alpha", "temperature", "masked")
        check_ranges(
            self,
            positive=(*trained, "held_out", "validate_every", "checkpoint_every"),
            not_negative=("pairs", "aligned", "weight", "patience", "rank"),
            share=("held_out", "masked"),
        )

    def schedule(self, rows: int) -> TrainingSchedule:
        """The schedule for a number of rows."""
        from mitigation.training.train import TrainingSchedule

        names = ("batch_size", "learning_rate", "seed", "validate_every", "checkpoint_every", "patience")
        steps = max(1, self.epochs * rows // self.batch_size)
        return TrainingSchedule(steps=steps, warmup=0.0, **{name: getattr(self, name) for name in names})


def run(model: Model, settings: MabelSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains on the pairs and their swapped copies, and writes the adapter."""
    from mitigation.cost import CostMeter, trained_parameters
    from mitigation.plots import write_losses
    from mitigation.training import train
    from mitigation.training.checkpoints import checkpoint_path
    from mitigation.training.entailment import EntailmentLoss, entailment_rows
    from mitigation.training.trainable import trainable

    data.versions.update(input_versions(settings))
    words = attribute_words(settings.words, settings.domain)
    rows = entailment_rows(model, entailment_pairs(settings.pairs), Swapper(words), settings.length)
    if len(rows) < LEAST:
        raise MitigationError(
            f"{len(rows)} entailment pairs have a listed word, and at least {LEAST} are needed; give other words or "
            "more pairs."
        )
    random.Random(settings.seed).shuffle(rows)
    held_count = max(1, round(settings.held_out * len(rows)))
    meter = CostMeter(model)
    loss = EntailmentLoss(model, settings.temperature, settings.aligned, settings.weight, settings.masked)
    held, trained_rows = rows[:held_count], rows[held_count:]
    with trainable(model, settings.rank, settings.alpha, settings.seed) as tuned:
        trained = trained_parameters(tuned.network)
        path = checkpoint_path(RECIPE.name, model, settings, data, out)
        schedule = settings.schedule(len(trained_rows))
        with loss.trained_head(tuned.network, settings.mlp):
            curve = train.fit(tuned.network, loss, trained_rows, held, schedule, path, console)
            after = train.mean_terms(tuned.network, loss, held, settings.batch_size)
        tuned.save(out)
    write_losses(curve, out, f"{RECIPE.name} of {model.name}")
    values = {f"{name}_held_out_before": curve.held[0][name] for name in ("contrastive", "alignment", "masked")}
    values |= {f"{name}_held_out_after": after[name] for name in ("contrastive", "alignment", "masked")}
    values |= {"pairs_trained": len(trained_rows), "pairs_held_out": len(held)}
    measures = {name: (float(value), _NAN, _NAN) for name, value in values.items()}
    cost = meter.cost(trained)
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=cost, measures=measures)


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


def input_versions(settings: MabelSettings) -> dict[str, str]:
    """Name to fingerprint of the list of words and of the file of pairs."""
    words = attribute_words(settings.words, settings.domain)
    if len(words.groups[0]) != 2:
        raise MitigationError(f"The words for {settings.domain!r} are no pairs; give a domain with pairs of words.")
    return {words.name: words.version, f"{SOURCE}{PAIRS}": file_sha256(fetched_source(PAIRS).path)}


RECIPE = Recipe(
    name="mabel",
    summary="Contrastive training on entailment pairs and their gender-swapped copies, for masked models (LoRA).",
    source="MABEL (He et al., 2022); the authors' model is princeton-nlp/mabel-bert-base-uncased",
    cite=("bowman2015snli",),
    citations={
        "he2022mabel": """
@inproceedings{he2022mabel,
  title = {{MABEL}: Attenuating Gender Bias using Textual Entailment Data},
  author = {He, Jacqueline and Xia, Mengzhou and Fellbaum, Christiane and Chen, Danqi},
  booktitle = {Proceedings of EMNLP},
  year = {2022}
}"""
    },
    profiles={
        "clean": MabelSettings(learning_rate=2e-4, rank=16, alpha=16, patience=3, mlp=False),
        "paper": MabelSettings(),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("masked",),
    outside=input_versions,
)
