"""The settings that several recipes share, each declared once with its help; they are listed without torch."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from builders.files.manifest import file_sha256
from mitigation.recipe import Settings, defaults, setting
from mitigation.texts import attribute_words, corpora

if TYPE_CHECKING:
    from mitigation.training.train import TrainingSchedule

CODE = "code of Meade et al. 2022"
OPEN = "this project"
#: Where losses can be logged; each name is also that of the package.
TRACKERS = ("none", "tensorboard", "wandb", "mlflow")


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How :func:`mitigation.training.train.fit` trains a LoRA or all weights."""

    batch_size: int = setting(32, "Rows of a step.", above=0)
    learning_rate: float = setting(5e-5, "Learning rate of the optimizer; it falls linearly to zero.", above=0)
    rank: int = setting(0, "Rank of the LoRA matrices of each linear map; 0 trains all weights.", least=0)
    alpha: int = setting(64, "Scale of their product, divided by the rank.", OPEN, above=0)
    seed: int = setting(0, "Of the held-out rows, the order, masks, dropout and the first matrices.", OPEN)
    checkpoint_every: int = setting(50, "Steps between checkpoints.", OPEN, above=0)
    gradient_checkpointing: bool = setting(False, "Compute activations twice, to need less memory.", OPEN)
    validate_every: int = setting(50, "Steps between measurements of held-out rows.", OPEN, above=0)
    report_to: str = setting(
        "none", "Log the losses also to tensorboard, wandb or mlflow, through accelerate.", OPEN, choices=TRACKERS
    )
    patience: int = setting(0, "Measurements without improvement that end training; 0 never does.", OPEN, least=0)
    loss_limit: float = setting(
        0.0,
        "Measure he against she and the loss of neutral texts; end where that rose by more nats a token. 0: neither.",
        OPEN,
        least=0,
    )

    most_change: float = setting(
        0.0,
        "The most nats a token by which the first step may change ordinary text, else the rate is halved; training "
        "ends where the loss of such text rises by twice as much. 0: neither.",
        OPEN,
        least=0,
    )

    def schedule(self, **computed: Any) -> TrainingSchedule:
        """The settings that belong to the training loop; ``computed`` ones are those that a recipe computes."""
        from mitigation.training.train import TrainingSchedule

        values: dict[str, Any] = {}
        for part in fields(TrainingSchedule):
            # A recipe may have no setting for a part of the schedule, which then keeps its default.
            values[part.name] = getattr(self, part.name, part.default)
        return TrainingSchedule(**values | computed)


@dataclass(frozen=True)
class CorpusSettings(Settings):
    """Which text a recipe reads."""

    corpus: str = setting(
        "",
        "Text: files, folders, globs or addresses, with commas; without it 300 sentences of this project, for a trial.",
        "not available any more",
    )
    field: str = setting("text", "The field of JSON lines or Parquet that has the text.", OPEN)
    lines: int = setting(0, "Use at most this number of first lines of the text; 0 uses all.", CODE, least=0)

    def inputs(self) -> dict[str, str]:
        """The files of the corpus, and what other settings name."""
        # The corpus comes before the words, as in the facts of earlier versions.
        if self._names_jobs:
            return {f"{corpora.OWN}{corpora.JOBS.name}": file_sha256(corpora.JOBS)} | super().inputs()
        return corpora.fingerprints(self.corpus) | super().inputs()

    def texts(self) -> list[str]:
        """The first lines with text of the corpus."""
        corpus = str(corpora.JOBS) if self._names_jobs else self.corpus
        # Read in order and not drawn, so that a large corpus is not read to its end.
        return list(islice(corpora.paragraphs(corpus, self.field), self.lines or None))

    @property
    def _names_jobs(self) -> bool:
        return not self.corpus and getattr(self, "domain", "") == "jobs"


@dataclass(frozen=True)
class WordSettings(Settings):
    """Which words for groups of people a recipe reads."""

    words: str = setting(
        "", "The list of words: project (default), bias-bench (with --corpus in paper), or a JSON file.", CODE
    )
    domain: str = setting(
        "gender",
        "gender, race or religion; jobs: occupations of this project, whose text states no gender; or another name in "
        "the list.",
        CODE,
    )

    @property
    def listed(self) -> attribute_words.AttributeWords:
        """The words; without a setting those of this project, and for published settings those of bias-bench."""
        words = self.words
        if not words:
            words = attribute_words.PROJECT
            published = getattr(self, "published", False) or self.domain not in ("gender", "jobs")
            # The project's own sentences have other words than the published list, and it has gender only.
            if published and getattr(self, "corpus", ""):
                words = attribute_words.PUBLISHED
        return attribute_words.attribute_words(words, self.domain)

    def inputs(self) -> dict[str, str]:
        """The list of words, and what other settings name."""
        listed = self.listed
        return {listed.name: listed.version} | super().inputs()


@dataclass(frozen=True)
@defaults(CODE, learning_rate=5e-5, rank=0, seed=0)
@defaults(OPEN, validate_every=100, checkpoint_every=100)
class LanguageSettings(CorpusSettings, TrainingSettings):
    """Text, length and speed of further training as a language model."""

    batch_size: int = setting(0, "Rows of a step; 0 for 512 in a masked and 256 in a causal model.", CODE, least=0)
    steps: int = setting(2000, "Training steps.", CODE, above=0)
    at_once: int = setting(16, "Rows that are computed at the same time.", OPEN, above=0)
    length: int = setting(512, "Tokens of a row; a longer text is several rows.", CODE, above=0)
    join: bool = setting(True, "Fill each row with the texts that follow, instead of one text per row.", CODE)
    warmup: float = setting(
        0.0, "Share of the steps in which the rate rises; it falls linearly after.", CODE, least=0, below=1
    )
    masked: float = setting(0.15, "Share of the tokens that a masked model predicts.", CODE, above=0, below=1)

    def shuffled_texts(self) -> list[str]:
        """The texts of the corpus in a random order, at most ``lines`` of them."""
        texts = self.texts()
        # Lines of a corpus follow each other, and held-out ones are the last.
        random.Random(self.seed).shuffle(texts)
        return texts
