"""The settings that all recipes with biased pairs share, which are listed without torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np

from cards.common.text import split_list
from mitigation.editing import jobs
from mitigation.recipe import ScoringError, Settings, TrainingData, defaults, setting
from mitigation.texts import corpora, pairs_file
from mitigation.training.settings import CorpusSettings
from scoring.types import Row

#: The most tokens of an ordinary text that a step asks for: the head of a large vocabulary costs as much as the blocks
#: of a small network.
READ = 8
#: Texts that the least-squares edit computes at once.
AT_ONCE = 16
PAPER, OPEN, OWN = "Chen et al. 2024", "not in the paper", "this project"
#: Prefixes for a masked model, which cannot generate any.
OPENINGS = tuple((Path(__file__).parents[1] / "data" / "openings.txt").read_text(encoding="utf-8").splitlines())


def order_of_pass(seed: int, passed: int, count: int) -> list[int]:
    """The numbers below ``count`` in the order of a pass, which depends on the seed and the number of the pass.

    >>> sorted(order_of_pass(42, 3, 4)), order_of_pass(42, 3, 4) == order_of_pass(42, 3, 4)
    ([0, 1, 2, 3], True)
    """
    order: list[int] = np.random.default_rng([seed, passed]).permutation(count).tolist()
    return order


@dataclass(frozen=True)
class EditingSchedule(Settings):
    """How pairs are trained.

    In one pass, as in the paper, each batch has an Adam of its own and ends with the weights that ``keep`` says,
    of its best step or of its last, in the order of the pairs. Several passes share one Adam and draw a new order
    each; the rate falls linearly by pass, the weights of L_s1 and L_s2 with its square. Those of L_m, L_t and L_g stay.
    With a number of steps the rate falls by step.
    """

    batch: int = setting(16, "Pairs per batch.", OWN, above=0)
    iterations: int = setting(1, "Optimizer steps per batch and pass.", OWN, above=0)
    rate: float = setting(1e-3, "Learning rate of Adam.", OWN, above=0)
    alpha: float = setting(10.0, "Weight of L_s1, which keeps all other tokens after a prompt.", OWN, least=0)
    beta: float = setting(0.1, "Weight of L_s2, which keeps the tokens after a subject alone.", PAPER, least=0)
    gamma: float = setting(5.0, "Weight of L_t, which keeps all tokens of ordinary text.", OWN, least=0)
    delta: float = setting(1.0, "Weight of L_g, which keeps the pronoun where a text states a gender.", OWN, least=0)
    kappa: float = setting(0.0, "Weight of L_k, which keeps the lean where a text states a gender.", OWN, least=0)
    margin: float = setting(
        0.2,
        "Share by which L_k wants a lean to rise, since sentences that are not trained keep less than trained ones.",
        OWN,
        least=0,
    )
    mass: float = setting(0.0, "Weight of L_m, which keeps the probability of both objects together.", OWN, least=0)
    compare: str = setting(
        "log",
        "What L_e compares: probability, log for its logarithm, or square for the square of its difference.",
        OWN,
        choices=("probability", "log", "square"),
    )
    passes: int = setting(6, "Passes over all pairs; with 1 each batch is trained to its end.", OWN, above=0)
    steps: int = setting(
        0, "Optimizer steps in place of passes, however many pairs there are; 0 for passes.", OWN, least=0
    )
    at_once: int = setting(
        8, "Pairs of a batch that are computed at the same time; fewer need less memory.", OWN, above=0
    )
    seed: int = setting(42, "Of the held-out subjects, prefixes, traces, order, and the start of the matrices.", OPEN)
    keep: str = setting(
        "best",
        "Of one pass, the step of a batch whose weights are kept: best, or last.",
        OPEN,
        choices=("best", "last"),
    )
    divergence: str = setting(
        "sum",
        "L_s1 and L_s2: sum over the vocabulary, or mean, PyTorch's division by its size.",
        OPEN,
        choices=("sum", "mean"),
    )
    value_rate: float = setting(
        1.0,
        "Multiple of the rate for a stamp's second matrix; 1 / units divides the stamp's output by them.",
        OPEN,
        above=0,
    )

    @property
    def several_passes(self) -> bool:
        """Whether all pairs are trained together, and not each batch to its end."""
        return bool(self.steps) or self.passes > 1

    def batches_per_pass(self, count: int) -> int:
        """The number of batches in a pass over ``count`` pairs."""
        return math.ceil(count / self.batch)

    def batches(self, count: int) -> int:
        """The number of batches of the whole training.

        >>> EditingSchedule(batch=2, passes=3).batches(3), EditingSchedule(batch=2, steps=50).batches(3)
        (6, 50)
        """
        return self.steps or self.passes * self.batches_per_pass(count)

    def pair_numbers(self, step: int, count: int) -> list[int]:
        """The numbers of the pairs in the batch of a step.

        >>> schedule = EditingSchedule(batch=2, passes=3)
        >>> sorted(schedule.pair_numbers(0, 3) + schedule.pair_numbers(1, 3))
        [0, 1, 2]
        >>> EditingSchedule(batch=2, passes=1).pair_numbers(1, 3)
        [2]
        """
        # Steps are counted over all passes, so that a checkpoint needs one number.
        passed, batch = divmod(step, self.batches_per_pass(count))
        # The paper trains the pairs in the order of the file.
        order: Sequence[int] = range(count)
        if self.several_passes:
            order = order_of_pass(self.seed, passed, count)
        return list(order[batch * self.batch : (batch + 1) * self.batch])

    def at_step(self, step: int, count: int) -> Self:
        """The schedule with the rate and the weights of a step.

        >>> schedule = EditingSchedule(batch=2, rate=0.1, alpha=40.0, beta=0.4, passes=4).at_step(5, 3)
        >>> schedule.rate, schedule.alpha, schedule.beta
        (0.05, 10.0, 0.1)
        """
        if self.steps:
            left = 1 - step / self.steps
        else:
            # The share of the passes that are left, so that the last pass still learns.
            left = 1 - step // self.batches_per_pass(count) / self.passes
        return replace(self, rate=self.rate * left, alpha=self.alpha * left**2, beta=self.beta * left**2)


@dataclass(frozen=True)
@defaults(OWN, lines=2000)
class TextSettings(CorpusSettings):
    """Which pairs are edited, and which ordinary text is kept."""

    corpus: str = setting(
        "",
        "Ordinary text: files, folders, globs or addresses, with commas; without it 100 sentences of this project, "
        "which name no person.",
        OWN,
    )
    pairs: str = setting(
        "",
        "A JSON file of pairs of your own in place of those of this project: two lists, first and second, of four "
        "texts or more with a choice such as [he|she]; or a list of prompts with two objects, or of two sentences.",
        OWN,
    )

    def inputs(self) -> dict[str, str]:
        """The pairs, and the ordinary text."""
        of_pairs = corpora.fingerprints(self.pairs) if self.pairs else jobs.fingerprint()
        return of_pairs | corpora.fingerprints(self.corpus, corpora.WITHOUT_PEOPLE)

    def texts(self) -> list[str]:
        """The first lines with text of the corpus; without one, sentences of this project that name no person."""
        return list(islice(corpora.paragraphs(self.corpus, self.field, corpora.WITHOUT_PEOPLE), self.lines or None))

    def own_pairs(self) -> list[Row]:
        """The pairs of a file or of this project."""
        return pairs_file.read_pairs(self.pairs) if self.pairs else jobs.rows()


@dataclass(frozen=True)
class PairSettings(TextSettings, EditingSchedule):
    """Which pairs are trained, how long, and what must not change."""

    sets: str = setting("jobs", "Configs of biaske to edit, with commas; jobs: pairs of this project.", OWN)
    split: str = setting("test", "Their split.", PAPER)
    domain: str = setting("gender", "gender, race, religion, or all.", PAPER)
    held_out: float = setting(
        0.2, "Share of the subjects whose pairs are measured but not edited.", OWN, least=0, below=1
    )
    score: str = setting(
        "object",
        "What L_e compares: the object after the text before it; or clean or paper, the benchmark's score.",
        OWN,
        choices=("object", "clean", "paper"),
    )
    prefixes: int = setting(
        5, "Texts put before each prompt, besides none; with several passes, one each in the first half.", OPEN, least=0
    )
    prefix_tokens: int = setting(10, "Tokens of a prefix, which a causal model generates.", OPEN, above=0)

    def inputs(self) -> dict[str, str]:
        """The file of pairs, and the ordinary text where it has a weight."""
        fingerprints: dict[str, str] = {}
        if self.pairs:
            fingerprints |= corpora.fingerprints(self.pairs)
        elif self.sets == jobs.NAME:
            fingerprints |= jobs.fingerprint()
        if self.gamma:
            # Without a weight of L_t the corpus is not opened.
            fingerprints |= corpora.fingerprints(self.corpus, corpora.WITHOUT_PEOPLE)
        return fingerprints

    def rows_of_pair(self) -> int:
        """The rows of a step for each pair, with those of what is kept.

        Up to their object both sentences are equal and are one row; after a prefix they are another one.
        """
        prefixed = min(self.prefixes, 1) if self.several_passes else self.prefixes
        sides = 1 if self.score == "object" else 2
        return sides * (1 + prefixed) + bool(self.beta) + bool(self.gamma) + bool(self.delta)

    def places_of_pair(self) -> int:
        """The places of a step for each pair where the distributions of two networks are compared."""
        # Ordinary text is asked for several tokens of a text.
        return self.rows_of_pair() + (READ - 1) * bool(self.gamma)

    def tokens_of_row(self) -> int:
        """About how many tokens a row has, of own pairs; 0 where they are those of data sets."""
        rows = self.own_pairs()
        words = sum(len(str(row["prompt"]).split()) for row in rows)
        # English has about 1.4 tokens a word in vocabularies of 30,000 and more, with punctuation and start token.
        return math.ceil(1.4 * words / len(rows)) + 1 if rows else 0

    def own_pairs(self) -> list[Row]:
        """The pairs of a file or of this project; empty where pairs are those of data sets."""
        if self.pairs or self.sets == jobs.NAME:
            return super().own_pairs()
        return []


def number_of_steps(settings: PairSettings, data: TrainingData) -> int:
    """The optimizer steps of a training on built pairs, if every pair can be edited; 0 where no pair is built."""
    # With it comes torch, and this module is listed without it.
    from mitigation.editing.pairs import pair_rows, split_wordings

    configs = split_list(settings.sets)
    if settings.steps:
        return settings.steps
    try:
        rows = settings.own_pairs()
        if not rows:
            rows, _ = split_wordings(pair_rows(data, configs, settings.split, settings.domain))
    except ScoringError:
        return 0
    # Subjects are held out and not rows, so this is the expected number.
    edited = round(len(rows) * (1 - settings.held_out))
    return settings.passes * settings.batches_per_pass(edited) * settings.iterations
