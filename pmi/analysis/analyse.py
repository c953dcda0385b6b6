"""What counts say: PMI by gendered word, δ by pair, how both are spread, and how far pairs agree.

PMI(w, g) = ln p(w, g) − ln p(w) − ln p(g), where p(w) is the share of words and p(w, g) the share of
all pairs of words within a window, in either order (UnStereoEval, section 3 and appendix). It is
undefined where a count is 0, and stays so: no smoothing, no infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pmi.analysis.pairs import PAIRS, gendered
from pmi.counting.counts import Counts
from pmi.types import SHE_HE, Pair, TableError

Floats = npt.NDArray[np.float64]

#: Key of the schema metadata under which a table says how it was made.
META = b"gender-neutral-probes-pmi"

#: Parts of a distribution that are told.
QUANTILES = (0.05, 0.5, 0.95)


def pmi(counts: Counts, word: str) -> Floats:
    """PMI of every word with a gendered one, shape (words,); NaN where a count is 0.

    >>> from pmi.counting.counts import Totals
    >>> from pmi.types import CountRule
    >>> rule = CountRule("toy", 10, "any", "none", gendered=("she",))
    >>> near = np.array([[4], [0], [0]])
    >>> counts = Counts(("nurse", "she", "ship"), np.array([5, 4, 2]), near, rule, Totals(words=11, pairs=40))
    >>> pmi(counts, "she").round(4)
    array([-0.5025,     nan,     nan])
    """
    near, own = counts.near(word), counts.of(word)
    found = np.full(len(counts.words), np.nan)
    known = (near > 0) & (counts.count > 0)
    if own and counts.totals.pairs:
        scale = 2 * math.log(counts.totals.words) - math.log(counts.totals.pairs) - math.log(own)
        found[known] = np.log(near[known]) - np.log(counts.count[known]) + scale
    return found


def delta(counts: Counts, pairs: Pair | Sequence[Pair] = SHE_HE) -> Floats:
    """δ of every word, shape (words,), NaN where undefined; the values of :meth:`pmi.counting.counts.Counts.delta`."""
    table = counts.delta(pairs).delta
    return np.fromiter((table.get(word, math.nan) for word in counts.words), np.float64, len(counts.words))


def table(counts: Counts | str | Path, pairs: Pair | Sequence[Pair] = SHE_HE, min_count: int = 1) -> pa.Table:
    """PMI and δ of every word.

    Parameters
    ----------
    counts:
        A table of counts or its file.
    pairs:
        What is compared; with several pairs ``delta`` is their weighted mean.
    min_count:
        Words that occur less often are left out.

    Returns
    -------
    pyarrow.Table
        ``word``, ``count``, ``frequency`` (share of all words), ``pmi_WORD`` for each gendered word of the
        pairs, ``delta_FIRST_SECOND`` for each of several pairs and ``delta``; null where undefined. Words
        are in the order of the counts. The metadata of the schema tell rule, totals and pairs.

    Raises
    ------
    TableError
        For a gendered word whose company was not counted, and for weights that make no mean.
    """
    counts = counts if isinstance(counts, Counts) else Counts.read(counts)
    wanted = (pairs,) if isinstance(pairs, Pair) else tuple(pairs)
    kept = counts.count >= min_count
    columns: dict[str, pa.Array] = {
        "word": pa.array(counts.words, pa.string()).filter(pa.array(kept)),
        "count": pa.array(counts.count[kept]),
        "frequency": pa.array(counts.count[kept] / max(counts.totals.words, 1)),
    }
    columns |= {f"pmi_{word}": _nullable(pmi(counts, word)[kept]) for word in gendered(wanted)}
    several = wanted if len(wanted) > 1 else ()
    columns |= {f"delta_{pair.first}_{pair.second}": _nullable(delta(counts, pair)[kept]) for pair in several}
    columns["delta"] = _nullable(delta(counts, wanted)[kept])
    made = {"rule": asdict(counts.rule), "totals": asdict(counts.totals), "pairs": [asdict(pair) for pair in wanted]}
    return pa.table(columns).replace_schema_metadata({META: json.dumps(made, ensure_ascii=False, sort_keys=True)})


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)


@dataclass(frozen=True, slots=True)
class Marginal:
    """How the values of one column are spread.

    Parameters
    ----------
    name:
        Of the column.
    defined:
        How many words have a value.
    share:
        That number as a share of all words of the table; NaN for a table without words.
    mean, sd, low, median, high:
        Of the defined values: mean, standard deviation and the :data:`QUANTILES`; NaN when there is none.
    """

    name: str
    defined: int
    share: float
    mean: float
    sd: float
    low: float
    median: float
    high: float


def marginals(found: pa.Table) -> list[Marginal]:
    """The spread of every column of PMI and δ of a :func:`table`."""
    return [_marginal(found, name) for name in found.column_names if name.startswith(("pmi_", "delta"))]


def _marginal(found: pa.Table, name: str) -> Marginal:
    values = pc.drop_null(found[name]).to_numpy()
    share = len(values) / len(found) if len(found) else math.nan
    if not len(values):
        return Marginal(name, 0, share, *[math.nan] * 5)
    low, median, high = (float(q) for q in np.quantile(values, QUANTILES))
    return Marginal(name, len(values), share, float(values.mean()), float(values.std()), low, median, high)


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How far pairs of gendered words order words alike (UnStereoEval, Figure 6).

    Parameters
    ----------
    pairs:
        The pairs of which any word has a δ.
    tau:
        Kendall's τ-b of their δ, shape (pairs, pairs), NaN where it is undefined.
    words:
        How many words have a δ by both, shape (pairs, pairs).
    """

    pairs: tuple[Pair, ...]
    tau: Floats
    words: npt.NDArray[np.int64]


def counted_pairs(counts: Counts, pairs: Sequence[Pair] = PAIRS) -> tuple[Pair, ...]:
    """Those pairs of which the company of both words was counted."""
    known = set(counts.rule.gendered)
    return tuple(pair for pair in pairs if {pair.first, pair.second} <= known)


def agreement(
    counts: Counts,
    pairs: Sequence[Pair],
    min_count: int = 1,
    track: Callable[[Sequence[tuple[int, int]]], Iterable[tuple[int, int]]] = iter,
) -> Agreement:
    """Kendall's τ between the δ of every two pairs, over the words that have both.

    Parameters
    ----------
    min_count:
        Words that occur less often are left out.
    track:
        Told what is to be compared; shows progress.

    Raises
    ------
    TableError
        When there are fewer than two pairs, or the company of a word was not counted.
    """
    if len(pairs) < 2:
        raise TableError(f"There are {len(pairs)} pairs to compare; count the company of at least two pairs.")
    enough = counts.count >= min_count
    values = {pair: delta(counts, pair)[enough] for pair in pairs}
    used = tuple(pair for pair in pairs if np.isfinite(values[pair]).any())
    tau = np.eye(len(used))
    words = np.diag([int(np.isfinite(values[pair]).sum()) for pair in used]).astype(np.int64)
    for i, j in track(list(combinations(range(len(used)), 2))):
        both = np.isfinite(values[used[i]]) & np.isfinite(values[used[j]])
        words[i, j] = words[j, i] = int(both.sum())
        tau[i, j] = tau[j, i] = kendall(values[used[i]][both], values[used[j]][both])
    return Agreement(used, tau, words)


def kendall(one: Floats, other: Floats) -> float:
    """Kendall's τ-b; NaN for fewer than two values and where either side is constant.

    >>> round(kendall(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.3, 0.2])), 4), kendall(np.ones(3), np.arange(3.0))
    (0.3333, nan)
    """
    from scipy.stats import kendalltau  # type: ignore[import-untyped]

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(kendalltau(one, other).statistic)
