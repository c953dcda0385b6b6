"""PMI with gendered words, δ by pair, their distributions, the agreement of pairs, and the comparison of tables.

PMI(w, g) = ln p(w, g) − ln p(w) − ln p(g), where p(w) is the share of w among all words and p(w, g) the
share of (w, g) among all pairs of words within a window, in either order (UnStereoEval, section 3 and
appendix). There is no smoothing: PMI is undefined where a count is 0.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pmi.counting.counts import Counts
from pmi.types import SHE_HE, ArrowTable, DeltaTable, FloatArray, GenderedPair, IntArray, TableError, as_pairs, words_of

#: Key of the schema metadata that has the rule, the totals and the pairs of a table.
METADATA_KEY = b"gender-neutral-probes-pmi"


def pmi(counts: Counts, word: str) -> FloatArray:
    """PMI of every word with a gendered word, shape (words,); NaN where a count is 0.

    >>> from pmi.types import CorpusTotals, CountRule
    >>> rule = CountRule("toy", 10, "any", "none", gendered=("she",))
    >>> pair_counts, totals = np.array([[4], [0], [0]]), CorpusTotals(words=11, pairs=40)
    >>> counts = Counts(("nurse", "she", "ship"), np.array([5, 4, 2]), pair_counts, rule, totals)
    >>> pmi(counts, "she").round(4)
    array([-0.5025,     nan,     nan])
    """
    pair_counts, count_of_word = counts.pair_counts_of(word), counts.count_of(word)
    values = np.full(len(counts.words), np.nan)
    defined = (pair_counts > 0) & (counts.word_counts > 0)
    if count_of_word and counts.totals.pairs:
        # PMI = log p(w, g) / (p(w) p(g)), with p(w, g) = c(w, g) / pairs and p(w) = c(w) / words.
        constant = 2 * math.log(counts.totals.words) - math.log(counts.totals.pairs) - math.log(count_of_word)
        values[defined] = np.log(pair_counts[defined]) - np.log(counts.word_counts[defined]) + constant
    return values


def table(
    counts: Counts | str | Path, pairs: GenderedPair | Sequence[GenderedPair] = SHE_HE, min_count: int = 1
) -> ArrowTable:
    """PMI and δ of every word.

    Parameters
    ----------
    counts:
        A table of counts or its file.
    pairs:
        The gendered words that δ compares; with several pairs ``delta`` is their weighted mean.
    min_count:
        Words that occur less often are left out.

    Returns
    -------
    pyarrow.Table
        ``word``, ``count``, ``frequency`` (share of all words), ``pmi_WORD`` for each gendered word of the
        pairs, ``delta_FIRST_SECOND`` for each of several pairs and ``delta``; null where undefined. Words
        are in the order of the counts. The metadata of the schema has rule, totals and pairs. For type checkers
        it is a :class:`pmi.types.ArrowTable`.

    Raises
    ------
    TableError
        For a gendered word that was not counted, and for weights that have no mean.
    """
    if not isinstance(counts, Counts):
        counts = Counts.read(counts)
    pairs = as_pairs(pairs)
    enough = counts.word_counts >= min_count
    columns: dict[str, pa.Array] = {
        "word": pa.array(counts.words, pa.string()).filter(pa.array(enough)),
        "count": pa.array(counts.word_counts[enough]),
        "frequency": pa.array(counts.word_counts[enough] / max(counts.totals.words, 1)),
    }
    for word in words_of(pairs):
        columns[f"pmi_{word}"] = _nullable(pmi(counts, word)[enough])
    if len(pairs) > 1:
        # Of one pair this would be the column delta once more.
        for pair in pairs:
            columns[f"delta_{pair.first}_{pair.second}"] = _nullable(counts.delta_values(pair)[enough])
    columns["delta"] = _nullable(counts.delta_values(pairs)[enough])
    metadata = {
        "rule": asdict(counts.rule),
        "totals": asdict(counts.totals),
        "pairs": [asdict(pair) for pair in pairs],
    }
    stored = {METADATA_KEY: json.dumps(metadata, ensure_ascii=False, sort_keys=True)}
    made: ArrowTable = pa.table(columns).replace_schema_metadata(stored)
    return made


def _nullable(values: FloatArray) -> pa.Array:
    # pandas has NaN for a missing value, so "from pandas" turns NaN into null.
    return pa.array(values, pa.float64(), from_pandas=True)


def column_statistics(rows: pa.Table) -> list[Any]:
    """The distribution of every column of PMI and δ of a :func:`table`, a row each.

    A row has ``name``, ``n_defined`` (the number of words that have a value), ``share`` (that number as a share of all
    words, NaN for a table without words), ``mean``, ``sd``, and as ``low``, ``median`` and ``high`` the quantiles 5 %,
    50 % and 95 % of the values, which are NaN when there is no value.
    """
    names = [name for name in rows.column_names if name.startswith(("pmi_", "delta"))]
    values = rows.select(names).to_pandas()
    statistics = values.agg(["count", "mean"]).T.rename(columns={"count": "n_defined"}).astype({"n_defined": int})
    statistics["share"] = values.notna().mean()
    # The words are the whole population and no sample of one, so the divisor is n.
    statistics["sd"] = values.std(ddof=0)
    statistics[["low", "median", "high"]] = values.quantile([0.05, 0.5, 0.95]).T.to_numpy()
    return list(statistics.rename_axis("name").reset_index().itertuples(index=False))


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Rank correlation of δ between pairs of gendered words (UnStereoEval, Figure 6).

    Parameters
    ----------
    pairs:
        The pairs for which at least one word has a δ.
    tau:
        Kendall's τ-b of their δ, shape (pairs, pairs); NaN where it is undefined.
    n_words:
        Number of words that have a δ for both pairs, shape (pairs, pairs).
    """

    pairs: tuple[GenderedPair, ...]
    tau: FloatArray
    n_words: IntArray


def agreement(
    counts: Counts,
    pairs: Sequence[GenderedPair],
    min_count: int = 1,
    track: Callable[[Sequence[tuple[int, int]]], Iterable[tuple[int, int]]] = iter,
) -> Agreement:
    """Kendall's τ-b between the δ of every two pairs, over the words that have both.

    Parameters
    ----------
    min_count:
        Words that occur less often are left out.
    track:
        Wraps the list of comparisons, to show progress.

    Raises
    ------
    TableError
        When there are fewer than two pairs, or a word was not counted.
    """
    if len(pairs) < 2:
        raise TableError(f"There are {len(pairs)} pairs to compare; give at least two pairs that were counted.")
    frequent = counts.word_counts >= min_count
    values = {pair: counts.delta_values(pair)[frequent] for pair in pairs}
    used = tuple(pair for pair in pairs if np.isfinite(values[pair]).any())
    tau = np.eye(len(used))
    n_words = np.diag([int(np.isfinite(values[pair]).sum()) for pair in used]).astype(np.int64)
    comparisons = [(i, j) for i in range(len(used)) for j in range(i + 1, len(used))]
    for i, j in track(comparisons):
        both = np.isfinite(values[used[i]]) & np.isfinite(values[used[j]])
        n_words[i, j] = n_words[j, i] = int(both.sum())
        tau[i, j] = tau[j, i] = kendall(values[used[i]][both], values[used[j]][both])
    return Agreement(used, tau, n_words)


def kendall(x: FloatArray, y: FloatArray) -> float:
    """Kendall's τ-b; NaN for fewer than two values and where x or y is constant.

    >>> round(kendall(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.3, 0.2])), 4), kendall(np.ones(3), np.arange(3.0))
    (0.3333, nan)
    """
    from scipy.stats import kendalltau  # type: ignore[import-untyped]

    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(kendalltau(x, y).statistic)


@dataclass(frozen=True, slots=True, eq=False)
class WordComparison:
    """δ of the words that two tables share, in the order of the first table.

    Parameters
    ----------
    words:
        The shared words.
    first, second:
        Their δ in the first and the second table, shape (words,).
    tau:
        Kendall's τ-b of the two; NaN where it is undefined.
    rank_shift:
        Rank in the second table minus rank in the first, as a share of all words, shape (words,).
    """

    words: tuple[str, ...]
    first: FloatArray
    second: FloatArray
    tau: float
    rank_shift: FloatArray

    def largest_shifts(self, n: int) -> list[int]:
        """The indices of the n words whose ranks differ most."""
        return [int(index) for index in np.argsort(-np.abs(self.rank_shift), kind="stable")[:n]]


def compare(first: DeltaTable, second: DeltaTable, min_count: int = 1) -> WordComparison:
    """Compares two tables; words that occur less often than ``min_count`` in either are left out.

    >>> from pmi.types import CountRule
    >>> rule = CountRule("toy", 10, "any", "none")
    >>> tables = [DeltaTable.of("abc", values, [9, 9, 9], rule) for values in ([0.1, 0.2, 0.3], [0.1, 0.3, 0.2])]
    >>> comparison = compare(*tables)
    >>> comparison.words, round(comparison.tau, 2), comparison.largest_shifts(2)
    (('a', 'b', 'c'), 0.33, [1, 2])
    """
    in_second = set(_frequent_words(second, min_count))
    words = tuple(word for word in _frequent_words(first, min_count) if word in in_second)
    first_values = np.array([first.delta[word] for word in words])
    second_values = np.array([second.delta[word] for word in words])
    shift = (_ranks(second_values) - _ranks(first_values)) / max(len(words), 1)
    return WordComparison(words, first_values, second_values, kendall(first_values, second_values), shift)


def _frequent_words(table: DeltaTable, min_count: int) -> list[str]:
    """The words of a table that occur at least so often, in its order."""
    return [word for word, n in zip(table.delta, table.counts.tolist(), strict=True) if n >= min_count]


def _ranks(values: FloatArray) -> IntArray:
    """The place of each value in their order; equal values are in the order of the words."""
    # The argsort says which value is at each place; its own argsort says at which place each value is.
    ranks: IntArray = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return ranks
