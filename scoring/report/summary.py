"""The summary of a run: its sentence, and what is known of each headline; every page and table of a run has it.

It is in ``results.json``, in ``summary.md`` for a job summary of continuous integration, in the DataFrame of
``RunResult.headlines()``, and in what Python and the terminal print.
"""

import math
from collections.abc import Mapping
from typing import Any

from cards.common.numbers import counted, interval, minus
from cards.common.sentences import say
from cards.common.text import cell
from scoring.report.headlines import HeadlineScore, answer_of, described, headline_scores, ranked
from scoring.report.real_models import place, places
from scoring.types import Report

#: The columns of :func:`lines_of`, in their order.
COLUMNS = (
    "benchmark", "group", "metric", "title", "n", "clusters", "value", "low", "high", "ideal", "verdict", "reason",
    "language", "start", "answered", "place", "again",
)  # fmt: skip
#: How many lines ``summary.md`` has at most.
LINES = 15


def summary_of(report: Report) -> dict[str, Any]:
    """The summary as plain values: ``sentence``, and ``headlines`` with the values of :data:`COLUMNS`.

    ``verdict`` is ``above`` or ``below`` the ideal value, ``unclear``, or empty where nothing is concluded, and
    ``reason`` says why. ``language`` says whether the model is better than chance at language, ``start`` has the tokens
    before the texts, each once, ``answered`` is the probability of the answer words in percent, ``place`` says where
    the score lies among real models, and ``again`` is the line of Python that makes the value again.
    """
    return {"sentence": answer_of(report), "headlines": lines_of(report)}


def lines_of(report: Report) -> list[dict[str, Any]]:
    """A mapping for each row of the report, the clear ones first; its keys are :data:`COLUMNS`."""
    language = "not measured"
    if report.language:
        language = "at chance"
        if report.language.speaks:
            language = "better than chance"
    return [_line(report, row, language) for row in ranked(headline_scores(report))]


def _line(report: Report, row: HeadlineScore, language: str) -> dict[str, Any]:
    score = row.estimate
    answered = math.nan
    headline = report.headlines.get(score.benchmark)
    if headline and headline.mass:
        mass = report.by_key.get((score.benchmark, score.group, headline.mass))
        if mass:
            answered = mass.value
    ideal = math.nan
    if score.ideal is not None:
        ideal = score.ideal
    # Before a sentence it may be another token than before a text with a context.
    starts = report.environment.get("start of a text")
    start = ""
    if isinstance(starts, Mapping):
        start = ", ".join(dict.fromkeys(map(str, starts.values())))
    values = (
        score.benchmark,
        score.group,
        score.metric,
        score.full_name,
        score.n,
        score.clusters,
        score.value,
        score.low,
        score.high,
        ideal,
        row.standing,
        row.why,
        language,
        start,
        answered,
        place(report, score),
        f"result.again({score.benchmark!r}, {score.metric!r}, {score.group!r})",
    )
    return dict(zip(COLUMNS, values, strict=True))


def markdown(report: Report) -> str:
    """The text of ``summary.md``: at most :data:`LINES` lines, ready for ``$GITHUB_STEP_SUMMARY``."""
    rows = ranked(headline_scores(report))
    lines = [f"### {cell(described(report))}", "", cell(answer_of(report)) or say("summary.none"), ""]
    among_real = places(report, (row.estimate for row in rows))
    if among_real:
        lines += [cell(" ".join(among_real)), ""]
    lines.append("| benchmark | group | score | value [95 % interval] | ideal | verdict | n |")
    lines.append("| --- | --- | --- | ---: | ---: | --- | ---: |")
    shown = rows
    # The last line says how many rows are left out.
    if len(rows) > LINES - len(lines):
        shown = rows[: LINES - len(lines) - 1]
    for row in shown:
        lines.append(_markdown_row(row))
    if len(shown) < len(rows):
        lines.append(f"| {counted(len(rows) - len(shown), 'more row')} in results.json | | | | | | |")
    return "\n".join(lines) + "\n"


def _markdown_row(row: HeadlineScore) -> str:
    score, brief = row.estimate, row.scale.brief
    value = "not defined"
    if math.isfinite(score.value):
        value = brief(score.value) + interval(score.low, score.high, brief, " [{}, {}]")
    ideal = ""
    if score.ideal is not None:
        ideal = brief(score.ideal)
    verdict = row.standing or "–"
    if row.why:
        verdict += f" ({row.why})"
    cells = (score.benchmark, score.group, score.short_name, minus(value), minus(ideal), verdict, f"{score.n:,}")
    return f"| {' | '.join(cell(text) for text in cells)} |"


def latex(report: Report, citations: Mapping[str, str]) -> str:
    r"""A table for a paper, with a caption that has the model, the settings and the keys of ``citations``.

    ``citations`` has the entries of BibTeX by their key; they follow the table as comments.
    """
    lines = [r"\begin{table}", r"\centering", r"\begin{tabular}{llrrrl}", r"\hline"]
    lines.append(r"benchmark (group) & score & value & 95\,\% interval & ideal & verdict \\ \hline")
    for row in ranked(headline_scores(report)):
        score, brief = row.estimate, row.scale.brief
        ends = interval(score.low, score.high, brief) or "--"
        ideal = "--"
        if score.ideal is not None:
            ideal = brief(score.ideal)
        value = "--"
        if math.isfinite(score.value):
            value = brief(score.value)
        cells = (f"{score.benchmark} ({score.group})", score.short_name, value, ends, ideal, row.standing or "--")
        lines.append(" & ".join(_escaped(text) for text in cells) + r" \\")
    cited = ""
    if citations:
        cited = rf" \cite{{{','.join(sorted(citations))}}}"
    caption = _escaped(say("summary.caption", model=described(report), dtype=report.dtype or "unknown"))
    lines += [r"\hline", r"\end{tabular}", rf"\caption{{{caption}{cited}}}", r"\end{table}"]
    for key in sorted(citations):
        lines += [f"% {line}" for line in citations[key].strip().splitlines()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    r"""A text with the signs of LaTeX escaped.

    >>> print(_escaped("a_b: 5 % − 3"))
    a\_b: 5 \% $-$ 3
    """
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$"}
    signs |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    return "".join(signs.get(sign, sign) for sign in text)
