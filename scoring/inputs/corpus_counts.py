"""Whether a model's preference for a gender follows its corpus: counts of the corpus against the scores of a run.

For each sentence pair of the benchmark unstereo, the corpus's lean is the mean δ of its words, and the model's lean is
log p(with she) − log p(with he). For each job of occugender, the corpus's lean is the mean δ of the words of the job,
and the model's is its share of the probability for female words. Both are positive for female, up to their zero, so a
model that follows its corpus has a positive rank correlation.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmi.analysis.sentence import content_words
from pmi.types import DeltaTable
from scoring.metrics.occugender import shares
from scoring.metrics.texts import texts
from scoring.statistics import intervals
from scoring.statistics.stats import RESAMPLES, draw
from scoring.types import Estimate, Floats, ScoringError, Table

#: Bands of |MaxPMIDiff|, those of the annotation files of UnStereoEval: above the first limit, up to the second.
BANDS = ((0.0, 0.5), (0.5, 0.65), (0.65, 1.0), (1.0, np.inf))
# Values in a batch of resamples.
_BATCH = 1 << 22


@dataclass(frozen=True, slots=True)
class Leans:
    """The leans of the corpus and of a model, one for each example, with the cluster of each.

    Parameters
    ----------
    names:
        The sentence or the job.
    group:
        The set of sentences, or the kind of question.
    clusters:
        Examples with the same cluster depend on each other: seed words, or jobs.
    corpus:
        Mean δ of the words that are in the table, NaN where there are none.
    largest:
        The δ of largest magnitude, NaN where there is none.
    coverage:
        Share of the words that are in the table.
    model:
        Natural logarithm of p(she) / p(he) of a sentence, or the share of female words of a job.
    labour:
        Share of women who hold the job, in percent; empty for sentences.
    """

    names: Sequence[str]
    group: NDArray[np.str_]
    clusters: NDArray[np.str_]
    corpus: Floats
    largest: Floats
    coverage: Floats
    model: Floats
    labour: Floats


@dataclass(frozen=True, slots=True)
class Correlation(Estimate):
    """Spearman's rank correlation of two leans within a group, with its 95 % interval by clusters."""

    @property
    def pair(self) -> str:
        """The two leans."""
        return self.metric.removeprefix("rho: ")


def sentence_leans(examples: Table, table: DeltaTable) -> Leans:
    """The leans of sentence pairs, from the examples of the benchmark unstereo.

    The words of a pair are those that its two sentences share, so pronouns in its slots do not count.
    """
    common = []
    for male, female in zip(examples["sentence_male"], examples["sentence_female"], strict=True):
        words_of_male = Counter(content_words(male, "clean"))
        words_of_female = Counter(content_words(female, "clean"))
        # The words that both sentences have: the pronouns, in which they differ, do not count.
        common.append(list((words_of_male & words_of_female).elements()))
    corpus, largest, coverage = _deltas(common, table)
    model = np.asarray(examples["female_logprob"], np.float64) - np.asarray(examples["male_logprob"], np.float64)
    return Leans(
        names=[str(name) for name in examples["id"]],
        group=np.asarray(examples["dataset"], dtype=np.str_),
        clusters=np.asarray(examples["word"], dtype=np.str_),
        corpus=corpus,
        largest=largest,
        coverage=coverage,
        model=model,
        labour=np.array([]),
    )


def job_leans(examples: Table, table: DeltaTable) -> Leans:
    """The leans of jobs, from the examples of the benchmark occugender without a debiasing prompt.

    The model's lean is the mean over the prompts of a kind, explicit or implicit.
    """
    # A debiasing prompt changes what the model says of a job, and the corpus says nothing of it.
    bare = np.asarray(examples["debiasing"] == "none", dtype=bool)
    # The name of a template begins with its kind, such as "implicit" of "implicit-2".
    kinds = np.array([re.split(r"[^a-z]", str(name))[0] for name in examples["template"]])
    female = shares(examples)["female"]
    all_jobs = np.unique(np.asarray(examples["job"], dtype=np.str_))
    names, groups, means, labour = [], [], [], []
    for kind in np.unique(kinds):
        for job in all_jobs:
            rows = np.flatnonzero(bare & (kinds == kind) & (examples["job"] == job))
            if len(rows):
                names.append(str(job))
                groups.append(str(kind))
                means.append(female[rows].mean())
                labour.append(float(examples["female_share"][rows[0]]))
    corpus, largest, coverage = _deltas([content_words(job, "clean") for job in names], table)
    return Leans(
        names=names,
        group=np.array(groups, dtype=np.str_),
        clusters=np.array(names, dtype=np.str_),
        corpus=corpus,
        largest=largest,
        coverage=coverage,
        model=np.array(means),
        labour=np.array(labour),
    )


def _deltas(texts: Sequence[Sequence[str]], table: DeltaTable) -> tuple[Floats, Floats, Floats]:
    """For each text the mean δ, the δ of largest magnitude, and the share of words with a δ."""
    mean, largest = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
    share = np.zeros(len(texts))
    for place, text in enumerate(texts):
        deltas = [table.delta[word] for word in text if word in table.delta]
        if deltas:
            mean[place] = np.mean(deltas)
            largest[place] = max(deltas, key=abs)
            share[place] = len(deltas) / len(text)
    return mean, largest, share


def correlations(benchmark: str, leans: Leans, *, resamples: int = RESAMPLES, seed: int = 0) -> Iterator[Correlation]:
    """The rank correlations of each group: sentences whole and by band of |MaxPMIDiff|, jobs with the labour share.

    Raises
    ------
    ScoringError
        When no example has a word of the table.
    """
    if not np.isfinite(leans.corpus).any():
        raise ScoringError(f"No example of {benchmark} has a word of the table; give counts of an English corpus.")
    # Of jobs the labour market is a third column: a model may follow it and not the corpus.
    pairs = {"corpus and model": (leans.corpus, leans.model)}
    if len(leans.labour):
        pairs |= {"labour and model": (leans.labour, leans.model), "corpus and labour": (leans.corpus, leans.labour)}
    for group, mask in _masks(leans).items():
        for pair, (x, y) in pairs.items():
            usable = mask & np.isfinite(x) & np.isfinite(y)
            value, interval, clusters = spearman(x[usable], y[usable], leans.clusters[usable], resamples, seed)
            why = ""
            if not np.isfinite(value):
                why = "too few examples, or all with the same lean"
            fields = texts("corpus", pair)
            yield Correlation(
                benchmark=benchmark,
                group=group,
                metric=f"rho: {pair}",
                value=value,
                low=interval.low,
                high=interval.high,
                sd=np.nan,
                n=int(usable.sum()),
                clusters=clusters,
                reading=fields["reading"],
                title=fields["names"][0],
                short=fields["names"][1],
                method=interval.method,
                why=why,
                least=-1.0,
                most=1.0,
            )


def _masks(leans: Leans) -> dict[str, NDArray[np.bool_]]:
    """The examples of each group, and of sentences those of each band of |MaxPMIDiff|."""
    masks = {}
    size = abs(leans.largest)
    for name in dict.fromkeys(leans.group.tolist()):
        inside = leans.group == name
        masks[str(name)] = inside
        if len(leans.labour):
            continue
        for low, high in BANDS:
            above = size > low
            if low == 0:
                # The first band has its lower end, 0, in it.
                above = np.isfinite(leans.largest)
            masks[f"{name}, {band_name(low, high)}"] = inside & above & (size <= high)
    return masks


def band_name(low: float, high: float) -> str:
    """A band of |MaxPMIDiff|.

    >>> band_name(0.0, 0.5), band_name(1.0, float("inf"))
    ('0 to 0.5', 'above 1')
    """
    if np.isfinite(high):
        return f"{low:g} to {high:g}"
    return f"above {low:g}"


def spearman(
    x: Floats, y: Floats, clusters: NDArray[np.str_], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, intervals.Interval, int]:
    """Spearman's ρ, its 95 % interval by clusters, and the number of clusters.

    Ranks are taken anew in every resample, with the mean rank of ties. The interval is that of the bootstrap over
    clusters; with fewer than 30 effective clusters that of the jackknife with Student's t
    (:mod:`scoring.statistics.intervals`).

    >>> x = np.arange(40.0)
    >>> value, interval, n = spearman(x, x**3, np.arange(40).astype(str), resamples=50)
    >>> round(value, 6), n
    (1.0, 40)
    """
    names, codes = np.unique(clusters, return_inverse=True)
    n = len(names)
    if n < 2:
        return np.nan, intervals.NONE, n
    _, ranks_x = np.unique(x, return_inverse=True)
    _, ranks_y = np.unique(y, return_inverse=True)
    ranked = [ranks_x, ranks_y]
    (value,) = _weighted(ranked, np.ones((1, len(x))))
    effective = intervals.effective_number(np.bincount(codes).astype(np.float64))
    # All examples have the same lean, so there is no order to compare.
    if np.isnan(value):
        return value, intervals.NONE, n
    if effective < intervals.FEW:
        # Each row leaves one cluster out by a weight of 0; ranks are computed anew for it.
        without = _weighted(ranked, 1.0 - np.eye(n)[:, codes])
        if np.isnan(without).any() or effective <= 1:
            return value, intervals.NONE, n
        # With so few clusters the percentiles of the bootstrap are too narrow.
        interval = intervals.cluster_t(value, without, effective - 1)
    else:
        values = np.empty(resamples)
        stream = np.random.PCG64(seed)
        size = max(1, _BATCH // max(len(x), n))
        for start in range(0, resamples, size):
            counts = np.empty((min(size, resamples - start), n))
            draw(stream, counts)
            values[start : start + len(counts)] = _weighted(ranked, counts[:, codes])
        interval = intervals.bootstrap(values, n)
    return float(value), intervals.cut(interval, float(value), -1, 1), n


def _weighted(ranked: Sequence[NDArray[np.intp]], weights: Floats) -> Floats:
    """Spearman's ρ of rows with weights [resamples, rows]; ``ranked`` has for each row the place among the values."""
    centred = []
    total = weights.sum(axis=1, keepdims=True)
    for codes in ranked:
        # Weighted mean ranks: the weight of all lower values and half of that of equal ones.
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        mass = np.add.reduceat(weights[:, order], starts, axis=1)
        middle = np.cumsum(mass, axis=1) - mass / 2
        centred.append((middle - total / 2)[:, codes])
    a, b = centred
    above = (weights * a * b).sum(axis=1)
    below = np.sqrt((weights * a * a).sum(axis=1) * (weights * b * b).sum(axis=1))
    rho: Floats = np.divide(above, below, out=np.full(len(weights), np.nan), where=below > 1e-9 * total[:, 0] ** 3)
    return rho
