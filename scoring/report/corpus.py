"""The sections of the page of a run that compare its model with a corpus."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence

from cards.text import redactor
from pmi.types import CountRule
from scoring.corpus import Correlation, Leans
from scoring.report.numbers import methods
from scoring.report.page import Section, scores
from scoring.types import Estimate

#: The model's lean, by benchmark: the axis of the plot, and what it is.
AXES = {"unstereo": "model: ln p(she) / p(he)", "occugender": "model: share of female words"}
#: How to read each correlation, its full and its short name.
_PAIRS = {
    "corpus and model": (
        "Spearman's ρ of δ and the model's lean. A model that follows this corpus has "
        "a positive one, a model that does not follow it has 0.",
        *("Corpus and model (Spearman's ρ)", "ρ corpus"),
    ),
    "labour and model": (
        "Share of women who hold the job, and model.",
        *("Labour market and model (Spearman's ρ)", "ρ labour"),
    ),
    "corpus and labour": (
        "Corpus, and share of women who hold the job.",
        *("Corpus and labour market (Spearman's ρ)", "ρ corpus, jobs"),
    ),
}


def corpus_sections(leans: Mapping[str, Leans], measured: Sequence[Correlation], rule: CountRule) -> Iterator[Section]:
    """A section for each benchmark: rank correlations by group and by band of |MaxPMIDiff|, and a plot by group."""
    from scoring.report.plots.corpus import follows  # matplotlib is loaded where something is drawn

    for benchmark, values in leans.items():
        # Whole groups first, so that they are seen before anything is unfolded.
        own = sorted((c for c in measured if c.benchmark == benchmark), key=lambda c: c.group not in values.group)
        estimates = [_estimate(correlation) for correlation in own]
        said = f"Does the model's preference on {benchmark} follow a corpus? Counts of the corpus: {rule.corpus}."
        if not len(values.labour):
            said += " Groups with numbers are bands of |MaxPMIDiff| in this corpus."
        figures = [follows(values, AXES[benchmark])]
        said = redactor(os.environ)(said)
        yield Section(f"{benchmark} beside a corpus", [said], "", scores(estimates), methods(estimates), figures, [], 0)


def _estimate(correlation: Correlation) -> Estimate:
    reading, title, short = _PAIRS[correlation.pair]
    return Estimate(
        correlation.benchmark,
        correlation.group,
        f"rho: {correlation.pair}",
        correlation.value,
        correlation.low,
        correlation.high,
        math.nan,
        correlation.n,
        correlation.clusters,
        reading=reading,
        title=title,
        short=short,
        method=correlation.method,
        why="" if math.isfinite(correlation.value) else "too few examples, or all with the same lean",
        least=-1.0,
        most=1.0,
    )
