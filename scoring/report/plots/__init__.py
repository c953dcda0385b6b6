"""Plots of examples and estimates as inline SVG.

A plot is chosen by the columns a table has, or by the metrics that were estimated, not by the name of
its benchmark. matplotlib lays it out; the SVG that leaves this package has text as text, no date, no
font, no style sheet and no colour of its own: colours are variables of the page (``var(--female)``),
so that one drawing serves light and dark. What comes from data is plain text to matplotlib, never
mathematics or markup.
"""

from collections.abc import Callable, Sequence

from scoring.inputs.columns import length
from scoring.report.plots import stereotypes
from scoring.report.plots.draw import Figure, Key, Panel
from scoring.report.plots.fairness import fairness, preference
from scoring.report.plots.shares import jobs, topics
from scoring.types import Estimate, Table

__all__ = ["PLOTS", "Figure", "Key", "Panel", "fairness", "figures", "jobs", "preference", "topics"]

#: Each plot of examples with the columns it needs.
PLOTS: tuple[tuple[frozenset[str], Callable[[Table], Figure]], ...] = (
    (frozenset({"id", "female_logprob", "male_logprob"}), fairness),
    (frozenset({"id", "female_logprob", "male_logprob"}), preference),
    (frozenset({"id", "job", "female_share", "template", "debiasing", "p_male", "p_female", "p_diverse"}), jobs),
    (frozenset({"id", "gender_class"}), topics),
    (frozenset({"id", "score_biased", "score_unbiased"}), stereotypes.strengths),
)


def figures(table: Table, estimates: Sequence[Estimate] = ()) -> list[Figure]:
    """The plots that a table has the columns for, after those of the estimates."""
    drawings = [stereotypes.scores(estimates)]
    for columns, draw in PLOTS:
        if columns <= table.keys() and length(table):
            drawings.append(draw(table))
    # A figure may have no panel, such as one of estimates of which none has a label.
    return [figure for figure in drawings if figure.panels]
