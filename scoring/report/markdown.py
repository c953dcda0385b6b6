"""The estimates as one Markdown table."""

from __future__ import annotations

from cards.text import cell
from scoring.report.numbers import Scale, by_benchmark, by_metric, facts, interval, marked, methods, scale
from scoring.types import Estimate, Report


def markdown(report: Report) -> str:
    """The text of ``results.md``."""
    lines = ["# Scores", "", *(f"- {name}: {cell(text)}" for name, text in facts(report).items()), ""]
    lines += ["| benchmark | group | metric | value [95 % interval] | ideal | n | clusters |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for estimates in by_benchmark(report.estimates).values():
        scales = {name: scale(group) for name, group in by_metric(estimates).items()}
        lines += [_line(e, scales[e.metric]) for e in estimates]
    lines += ["", *(f"- {sentence}" for sentence in methods(report.estimates))]
    return "\n".join(lines) + "\n"


def _line(e: Estimate, on: Scale) -> str:
    value = " ".join(filter(None, (on.text(e.value), interval(e, on), marked(e), e.why and f"({cell(e.why)})")))
    ideal = "" if e.ideal is None else on.text(e.ideal)
    return f"| {' | '.join([*map(cell, (e.benchmark, e.group, e.metric)), value, ideal, str(e.n), str(e.clusters)])} |"
