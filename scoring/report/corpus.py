"""The sections of the page of a run that compare its model with a corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from cards.text import redactor
from pmi.types import CountRule
from scoring.corpus import Correlation, Leans
from scoring.report.numbers import methods
from scoring.report.page import Section, scores

#: The model's lean, by benchmark: the axis of the plot, and what it is.
AXES = {"unstereo": "model: ln p(she) / p(he)", "occugender": "model: share of female words"}


def corpus_sections(leans: Mapping[str, Leans], measured: Sequence[Correlation], rule: CountRule) -> Iterator[Section]:
    """A section for each benchmark: rank correlations by group and by band of |MaxPMIDiff|, and a plot by group."""
    from scoring.report.plots.corpus import follows  # matplotlib is loaded where something is drawn

    for benchmark, values in leans.items():
        # Whole groups first, so that they are seen before anything is unfolded.
        own = (c for c in measured if c.benchmark == benchmark)
        estimates = sorted(own, key=lambda c: c.group not in values.group)
        question = f"Does the model's preference on {benchmark} follow a corpus? Counts of the corpus: {rule.corpus}."
        if not len(values.labour):
            question += " Groups with numbers are bands of |MaxPMIDiff| in this corpus."
        figures = [follows(values, AXES[benchmark])]
        about = [redactor(os.environ)(question)]
        yield Section(f"{benchmark} beside a corpus", about, "", scores(estimates), methods(estimates), figures, [], 0)
