"""The settings of further training as a language model, which are listed without torch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mitigation import corpora
from mitigation.recipe import check_ranges, setting

if TYPE_CHECKING:
    from mitigation.training.train import TrainingSchedule

CODE = "code of Meade et al. 2022"
OPEN = "this project"
#: The size of training in ``clean``: short rows of one text each, and few of them.
CLEAN: Mapping[str, Any] = MappingProxyType(
    {
        "join": False,
        "length": 128,
        "steps": 500,
        "batch_size": 32,
        "learning_rate": 2e-4,
        "rank": 16,
        "alpha": 16,
        "warmup": 0.03,
    }
)


@dataclass(frozen=True, slots=True)
class LanguageSettings:
    """Text, length and speed of the training."""

    corpus: str = setting("", "Text: files, folders, globs or addresses, with commas.", "not available any more")
    field: str = setting("text", "The field of JSON lines or Parquet that has the text.", OPEN)
    lines: int = setting(0, "Use at most this number of first lines of the text; 0 uses all.", CODE)
    steps: int = setting(2000, "Training steps.", CODE)
    batch_size: int = setting(0, "Rows of a step; 0 for 512 in a masked and 256 in a causal model.", CODE)
    at_once: int = setting(16, "Rows that are computed at the same time.", OPEN)
    length: int = setting(512, "Tokens of a row; a longer text is several rows.", CODE)
    join: bool = setting(True, "Fill each row with the texts that follow, instead of one text per row.", CODE)
    learning_rate: float = setting(5e-5, "Learning rate of AdamW.", CODE)
    warmup: float = setting(0.0, "Share of the steps in which the rate rises; it falls linearly after.", CODE)
    masked: float = setting(0.15, "Share of the tokens that a masked model predicts.", CODE)
    rank: int = setting(0, "Rank of the LoRA matrices of each linear map; 0 trains all weights.", CODE)
    alpha: int = setting(64, "Scale of their product, divided by the rank.", OPEN)
    seed: int = setting(0, "Of the order of rows, masks, dropout and the start of the matrices.", CODE)
    validate_every: int = setting(100, "Steps between measurements of held-out rows.", OPEN)
    patience: int = setting(0, "Measurements without improvement that end training; 0 never does.", OPEN)
    checkpoint_every: int = setting(100, "Steps between checkpoints.", OPEN)

    def __post_init__(self) -> None:
        counts = ("steps", "at_once", "length", "alpha", "validate_every", "checkpoint_every", "masked")
        check_ranges(
            self,
            positive=(*counts, "learning_rate"),
            not_negative=("lines", "batch_size", "patience", "rank"),
            share=("warmup", "masked"),
        )

    def schedule(self, kind: str) -> TrainingSchedule:
        """The settings that belong to the training loop."""
        from mitigation.training.train import TrainingSchedule

        names = (
            "steps",
            "at_once",
            "learning_rate",
            "warmup",
            "seed",
            "validate_every",
            "checkpoint_every",
            "patience",
        )
        rows = self.batch_size or (512 if kind == "masked" else 256)
        return TrainingSchedule(batch_size=rows, **{name: getattr(self, name) for name in names})


def shuffled_texts(settings: LanguageSettings) -> list[str]:
    """The texts of the corpus in a random order, at most ``settings.lines`` of them."""
    texts = list(islice(corpora.paragraphs(settings.corpus, settings.field), settings.lines or None))
    random.Random(settings.seed).shuffle(texts)
    return texts


def corpus_versions(settings: LanguageSettings) -> dict[str, str]:
    """Name to fingerprint of the files of the corpus."""
    return corpora.fingerprints(settings.corpus)
