"""Runs of every benchmark with made scores, and comparisons of them, for tests of pages and of the terminal."""

from __future__ import annotations

from dataclasses import replace

from cards.common.verdict import p_of
from scoring import benchmarks
from scoring.report.headlines import Comparison
from scoring.types import Difference, Estimate, Report


def score(benchmark, group, metric, share):
    """An estimate at a share of the metric's range, with an interval of a tenth of the range.

    Language ability is at a higher share, better than by chance.
    """
    share = 0.6 + share / 2 if metric.ability else share
    least, most = max(metric.low, -100), min(metric.high, 100)
    span = most - least
    value = least + share * span
    low, high = max(least, value - span / 20), min(most, value + span / 20)
    about = {"ideal": metric.ideal, "reading": metric.reading, "ability": metric.ability, "method": "bootstrap"}
    about |= {"title": metric.names[0], "short": metric.names[1]}
    ends = {"least": metric.low, "most": metric.high, "label": metric.label}
    return Estimate(benchmark, group, metric.name, value, low, high, span / 40, 400, 60, **about, **ends)


def made_run(share=0.3, **changes):
    """A report with every benchmark: all metrics of the group of its headline and of another group."""
    estimates = []
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        shown = benchmark.headline.shown if benchmark.headline else "all"
        estimates += [
            score(name, group, metric, share) for group in ("others", shown) for metric in benchmark.metrics("clean")
        ]
    facts = {
        "model": "org/model",
        "revision": "0123456789abcdef" * 4,
        "adapter": "",
        "dtype": "bfloat16",
        "prompt": "plain",
        "profile": "clean",
        "data": {"biaske/winobias/test": "1.1.0 sha256:aa"},
        "estimates": tuple(estimates),
        "environment": {"torch": "2.4"},
        "speed": {"tokens_per_second": 1.0},
        "headlines": {
            name: benchmarks.get(name).headline for name in benchmarks.names() if benchmarks.get(name).headline
        },
    }
    return Report(**{**facts, **changes})


def made_comparison(before=0.3, after=0.45, reach=0.02):
    """The comparison of two made runs; the interval of each difference is ``reach`` of the range on both sides."""
    base, run = made_run(before), made_run(after, model="/models/folder/edited", adapter="/home/me/adapter@0123456789")
    differences = []
    for old, new in zip(base.estimates, run.estimates, strict=True):
        span = min(new.most, 100) - max(new.least, -100)
        value = new.value - old.value
        about = {"ideal": new.ideal, "reading": new.reading, "ability": new.ability, "p": 0.01, "p_holm": 0.02}
        about |= {"p_side": 0.0, "p_direction": 0.02}
        about |= {"title": new.title, "short": new.short}
        ends = value - reach * span, value + reach * span
        differences.append(Difference(*_key(new), value, *ends, reach * span / 2, 400, 60, **about))
    return Comparison(run, base, tuple(differences))


def with_difference(compared, key, before, value, low, high):
    """The comparison with other numbers for one benchmark, group and metric."""
    numbers = {"value": value, "low": low, "high": high, "p": p_of((value, low, high)), "p_side": 0.0, "clusters": 100}
    changed = tuple(replace(d, **numbers) if _key(d) == key else d for d in compared.differences)
    sides = {
        name: replace(side, estimates=tuple(replace(e, value=number) if _key(e) == key else e for e in side.estimates))
        for name, side, number in (("base", compared.base, before), ("run", compared.run, before + value))
    }
    return replace(compared, differences=changed, **sides)


def _key(result):
    return result.benchmark, result.group, result.metric
