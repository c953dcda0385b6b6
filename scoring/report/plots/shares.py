"""Bars of shares: continuations that disclose a gender by topic, and what a model expects of a job."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cards.common.sentences import say
from scoring.report.plots import draw
from scoring.statistics import intervals
from scoring.types import Floats, Table


def topics(table: Table) -> draw.Figure:
    """Classes of continuations per data set and topic, with GAS."""
    subsets = draw.parts(table, "config", "topic")
    counts = {
        name: np.array([np.sum(table["gender_class"][rows] == name) for _, rows in subsets])
        for name in ("female", "male", "both")
    }
    sizes = np.array([np.count_nonzero(r) for _, r in subsets])
    # Texts with forms of both genders are in neither number, as in scoring/metrics/gas.py.
    one_gender_at_most = sizes - counts["both"]
    gendered = counts["female"] + counts["male"]
    gas = np.divide(gendered, one_gender_at_most, out=np.full(len(subsets), np.nan), where=one_gender_at_most > 0)
    return draw.Figure(
        "Continuations that disclose a gender, by topic",
        say("plot.topics"),
        (
            draw.Key("female only", draw.FEMALE),
            draw.Key("male only", draw.MALE),
            draw.Key("both", draw.THIRD),
            draw.Key("GAS", draw.INK, "dot"),
        ),
        (_topics([n or "all" for n, _ in subsets], sizes, counts, gas),),
    )


def _topics(
    names: list[str], sizes: NDArray[np.int_], counts: Mapping[str, NDArray[np.int_]], gas: Floats
) -> draw.Panel:
    def paint(axes: Axes) -> None:
        inks = {draw.FEMALE: "female", draw.MALE: "male", draw.THIRD: "both"}
        labels = [f"{draw.plain(name, 24)}  (n = {n:,})" for name, n in zip(names, sizes, strict=True)]
        draw.stack(axes, labels, {ink: 100 * counts[name] / sizes for ink, name in inks.items()})
        draw.dots(axes, 100 * gas)
        axes.set(xlim=(0, 101), xticks=range(0, 101, 25), xlabel="% of continuations")

    shares = "; ".join(f"{draw.plain(name)}: {draw.percent(value)}" for name, value in zip(names, gas, strict=True))
    return draw.panel("", f"Gender attribute score. {shares}.", (draw.FULL, 0.75 + 0.27 * len(names)), paint)


def jobs(table: Table) -> draw.Figure:
    """Per-job probabilities without a debiasing prompt, with the share of women in the job."""
    styles = np.array([str(name).partition("-")[0] for name in table["template"]], dtype=object)
    bare = np.asarray(table["debiasing"] == "none", dtype=bool)
    kinds = {**table, "kind": styles}
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
        tuple(_jobs(table, name, rows & bare) for name, rows in draw.parts(kinds, "kind") if np.any(rows & bare)),
    )


def _jobs(table: Table, kind: str, rows: NDArray[np.bool_]) -> draw.Panel:
    chosen = {name: column[rows] for name, column in table.items()}
    jobs = draw.parts(chosen, "job")
    market = np.array([draw.floats(chosen["female_share"][r])[0] for _, r in jobs])
    order = np.argsort(-market, kind="stable")
    prompts = [_shares(chosen, jobs[i][1]) for i in order]
    means = np.array([rows.mean(axis=0) if len(rows) else np.full(3, np.nan) for rows in prompts])
    finite = means[np.isfinite(means[:, 0])]
    everything = finite.mean(axis=0) if len(finite) else np.full(3, np.nan)
    shares = np.vstack([everything, means])
    names = [f"all {len(jobs)} jobs", *(jobs[i][0] for i in order)]
    ends = [_interval(rows[:, 0]) for rows in (finite, *prompts)]

    def paint(axes: Axes) -> None:
        draw.stack(axes, names, dict(zip((draw.FEMALE, draw.THIRD, draw.MALE), 100 * shares.T, strict=True)))
        for place, interval in enumerate(ends):
            if interval:
                # A wider line in the colour of the page keeps the interval visible on every bar.
                for ink, width in ((draw.PAPER, 3.4), (draw.INK, 1.5)):
                    axes.plot([100 * end for end in interval], [place, place], color=ink, linewidth=width)
        draw.dots(axes, np.concatenate([[market.mean()], market[order]]))
        axes.axhline(0.5, color=draw.SOFT, linewidth=0.6)
        axes.set(xlim=(-1, 101), xticks=range(0, 101, 25), xlabel="%")

    label = f"{draw.plain(kind)} prompts, {len(jobs)} jobs: mean probability of female {draw.percent(everything[0])}."
    return draw.panel(f"{kind} prompts", label, (4.8, 0.6 + 0.2 * len(names)), paint)


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
    interval = intervals.cut(intervals.cluster_t(mean, (values.sum() - values) / (n - 1), n - 1), mean, 0.0, 1.0)
    return interval.low, interval.high
