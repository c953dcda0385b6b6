"""The pool of words that published samples were drawn from, recovered from the samples.

A sample without replacement takes places of the pool that depend only on the seed and on the size of the pool. So each
sampled word states its rank in the pool, and two neighbours among these words, the anchors, state how many words of
the pool are between them. A filter reproduces the pool where it lets that many words pass in every gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmi.types import FloatArray, IntArray
from pmi.vocabulary import SEEDS, Mask, VocabularyError

#: The number of words in the pool of UnStereoEval: of sizes from 8,000 to 26,000 only this one fits its samples.
PUBLISHED_SIZE = 21_733

#: Words of the pool of UnStereoEval occur more often than this: the 0.2 quantile of the counts of all ASCII words.
PUBLISHED_FLOOR = 2_918


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
        edges = zip(
            [-1, *self.ranks], [-1, *self.rows], [*self.ranks, self.size], [*self.rows, self.n_words], strict=True
        )
        for first_rank, first, last_rank, last in edges:
            needed = int(last_rank - first_rank - 1)
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
    known: dict[int, int] = {}
    for seed, sample in zip(seeds, samples, strict=True):
        if not 0 < len(sample) <= size:
            raise VocabularyError(f"A sample has {len(sample)} words and the pool {size}; give a sample of the pool.")
        missing = [word for word in sample if word not in place]
        if missing:
            raise VocabularyError(
                f"The sampled word {missing[0]!r} is not among the words; give the table of the draw."
            )
        ranks = np.random.RandomState(seed).choice(size, len(sample), replace=False)
        for rank, word in zip(ranks.tolist(), sample, strict=True):
            if known.setdefault(rank, place[word]) != place[word]:
                raise VocabularyError(
                    f"Two samples have different words at rank {rank}; the pool is not of {size} words."
                )
    ordered = sorted(known.items())
    ranks, rows = (np.array(column, dtype=np.int64) for column in zip(*ordered, strict=True))
    if (np.diff(rows) < np.diff(ranks)).any():
        raise VocabularyError(
            f"The sampled words are not in the order of a pool of {size} words; give the table and seeds of the draw."
        )
    return Anchors(ranks, rows, size, len(words))
