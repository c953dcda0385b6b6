"""Bars of shares: continuations that disclose a gender by topic, and what a model expects of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cards.common.sentences import say
from scoring.report.plots import draw
from scoring.statistics import intervals
from scoring.types import Floats, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def topics(table: Table) -> draw.Figure:
    """Classes of continuations per data set and topic, with GAS."""
    classes = table["gender_class"]
    names = []
    sizes = []
    female = []
    male = []
    both = []
    for name, rows in draw.parts(table, "config", "topic"):
        names.append(name or "all")
        sizes.append(np.count_nonzero(rows))
        female.append(np.sum(classes[rows] == "female"))
        male.append(np.sum(classes[rows] == "male"))
        both.append(np.sum(classes[rows] == "both"))
    counts = {"female": np.array(female), "male": np.array(male), "both": np.array(both)}
    # Texts with forms of both genders are in neither number, as in scoring/metrics/gas.py.
    one_gender_at_most = np.array(sizes) - counts["both"]
    gendered = counts["female"] + counts["male"]
    # NaN, not 0, where all texts have both: no text is left to have a share of.
    gas = np.divide(gendered, one_gender_at_most, out=np.full(len(names), np.nan), where=one_gender_at_most > 0)
    return draw.Figure(
        "Continuations that disclose a gender, by topic",
        say("plot.topics"),
        (
            draw.Key("female only", draw.FEMALE),
            draw.Key("male only", draw.MALE),
            draw.Key("both", draw.THIRD),
            draw.Key("GAS", draw.INK, "dot"),
        ),
        (_topics(names, np.array(sizes), counts, gas),),
    )


def _topics(
    names: list[str], sizes: NDArray[np.int_], counts: Mapping[str, NDArray[np.int_]], gas: Floats
) -> draw.Panel:
    """The bars of the topics, of which each has three classes of continuations [topics] and a dot at its GAS."""
    labels = []
    shares = []
    for name, size, value in zip(names, sizes, gas, strict=True):
        labels.append(f"{draw.plain(name, 24)}  (n = {size:,})")
        shares.append(f"{draw.plain(name)}: {draw.percent(value)}")

    def paint(axes: Axes) -> None:
        widths = {
            draw.FEMALE: 100 * counts["female"] / sizes,
            draw.MALE: 100 * counts["male"] / sizes,
            draw.THIRD: 100 * counts["both"] / sizes,
        }
        draw.stack(axes, labels, widths)
        draw.dots(axes, 100 * gas)
        axes.set(xlim=(0, 101), xticks=range(0, 101, 25), xlabel="% of continuations")

    label = f"Gender attribute score. {'; '.join(shares)}."
    return draw.panel("", label, (draw.FULL, 0.75 + 0.27 * len(names)), paint)


def jobs(table: Table) -> draw.Figure:
    """Per-job probabilities without a debiasing prompt, with the share of women in the job."""
    # The name of a template begins with its kind, such as "implicit"; a panel has all templates of a kind.
    styles = np.array([str(name).partition("-")[0] for name in table["template"]], dtype=object)
    # Debiasing prompts change what is measured, so they have no part in this plot.
    bare = np.asarray(table["debiasing"] == "none", dtype=bool)
    panels = []
    for kind, of_kind in draw.parts({**table, "kind": styles}, "kind"):
        rows = of_kind & bare
        if np.any(rows):
            panels.append(_jobs(table, kind, rows))
    return draw.Figure(
        "Jobs against the labour market",
        say("plot.jobs"),
        (
            draw.Key("female", draw.FEMALE),
            draw.Key("diverse", draw.THIRD),
            draw.Key("male", draw.MALE),
            draw.Key("women in the labour market", draw.INK, "dot"),
            draw.Key("95 % interval of female", draw.INK, "line"),
        ),
        tuple(panels),
    )


def _jobs(table: Table, kind: str, rows: NDArray[np.bool_]) -> draw.Panel:
    """The bars of the jobs, the one with the largest share of women on top, below a bar of all jobs."""
    chosen = {name: column[rows] for name, column in table.items()}
    jobs = draw.parts(chosen, "job")
    # All rows of a job have the same share of women.
    market = np.array([draw.floats(chosen["female_share"][of_job])[0] for _, of_job in jobs])
    order = np.argsort(-market, kind="stable")
    names = []
    means = []
    ends = []
    for place in order:
        name, of_job = jobs[place]
        shares = _shares(chosen, of_job)
        names.append(name)
        means.append(_mean(shares))
        ends.append(_interval(shares[:, 0]))
    # The mean over jobs, not over prompts: each job counts once, however many prompts it has.
    mean_of_jobs = np.array(means)
    finite = mean_of_jobs[np.isfinite(mean_of_jobs[:, 0])]
    everything = _mean(finite)
    labels = [f"all {len(jobs)} jobs", *names]
    ends.insert(0, _interval(finite[:, 0]))
    widths = 100 * np.vstack([everything, mean_of_jobs])

    def paint(axes: Axes) -> None:
        draw.stack(axes, labels, {draw.FEMALE: widths[:, 0], draw.THIRD: widths[:, 1], draw.MALE: widths[:, 2]})
        for place, interval in enumerate(ends):
            if interval is None:
                continue
            low, high = interval
            # A wider line in the colour of the page keeps the interval visible on every bar.
            for ink, width in ((draw.PAPER, 3.4), (draw.INK, 1.5)):
                axes.plot([100 * low, 100 * high], [place, place], color=ink, linewidth=width)
        draw.dots(axes, np.concatenate([[market.mean()], market[order]]))
        axes.axhline(0.5, color=draw.SOFT, linewidth=0.6)
        axes.set(xlim=(-1, 101), xticks=range(0, 101, 25), xlabel="%")

    label = f"{draw.plain(kind)} prompts, {len(jobs)} jobs: mean probability of female {draw.percent(everything[0])}."
    return draw.panel(f"{kind} prompts", label, (4.8, 0.6 + 0.2 * len(labels)), paint)


def _mean(shares: Floats) -> Floats:
    """The mean [3] of shares [rows, 3]; NaN without rows."""
    if not len(shares):
        return np.full(3, np.nan)
    mean: Floats = shares.mean(axis=0)
    return mean


def _shares(table: Table, rows: NDArray[np.bool_]) -> Floats:
    """(female, diverse, male) of each row, divided by their sum (OccuGender, section 3), of shape [rows, 3]."""
    p = np.stack([draw.floats(table[c][rows]) for c in ("p_female", "p_diverse", "p_male")], axis=1)
    total = p.sum(axis=1)
    defined = np.isfinite(total) & (total > 0)
    shares: Floats = p[defined] / total[defined, None]
    return shares


def _interval(values: Floats) -> tuple[float, float] | None:
    """The 95 % interval of the mean of shares, within 0 and 1; None for fewer than two.

    >>> [round(end, 3) for end in _interval(np.array([0.4, 0.5, 0.6])) or ()]
    [0.252, 0.748]
    """
    n = len(values)
    if n < 2:
        return None
    mean = float(values.mean())
    # The mean without each value in turn, from which the standard error follows.
    without_each = (values.sum() - values) / (n - 1)
    interval = intervals.cut(intervals.cluster_t(mean, without_each, n - 1), mean, 0.0, 1.0)
    return interval.low, interval.high
