"""What the commands print of a run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.table import Table as Grid
from rich.text import Text

from cards.common.numbers import Scale, detectable_text, formatted, interval, shared_places
from cards.common.sentences import say
from cards.common.terminal import text_table
from cards.common.text import grouped
from scoring.report.headlines import (
    Comparison,
    answer_of,
    changes,
    conclusion,
    described,
    headline_changes,
    headline_scores,
    sharing_places,
)
from scoring.report.numbers import by_metric, metric_range
from scoring.types import DATA, Measurement, Report

#: From so many columns on, the summary of a run has sentences.
WIDE = 120
#: How many changes and agreements of a comparison, and minimum detectable effects, fit on one screen of 24 lines.
CHANGES, AGREEMENTS, EFFECTS = 15, 2, 4
#: The head of the column of minimum detectable effects.
DETECTABLE = "MDE"


def summary(report: Report, width: int) -> Grid:
    """One line a benchmark: its headline score with interval, the ideal value, and where the score is.

    The last column, or below :data:`WIDE` columns a line under the table, says in a sentence what the score means, and
    the last line which way the model leans.
    """
    wide = width >= WIDE
    columns = ["benchmark", "score", "value [95 % interval]", "ideal", DETECTABLE, "vs ideal", *["meaning"] * wide]
    headlines, rows = headline_scores(report), []
    ideals = _ideals(headline.estimate.ideal for headline in headlines)
    for headline in headlines:
        e, on = headline.estimate, headline.scale
        effect = detectable_text(e.detectable, on, "") if headline.standing else ""
        cells = [e.benchmark, e.short_name, _with_interval(e, on), ideals[e.ideal], effect, headline.standing or "–"]
        rows.append([*cells, *[headline.sentence] * wide])
    grid = text_table(columns, rows, whole=("benchmark",), gap=1 + wide)
    lines = [f"{h.estimate.benchmark}: {h.sentence}" for h in headlines if not wide]
    lines.append(answer_of(report))
    if any(row[columns.index(DETECTABLE)] for row in rows):
        lines.append(say("power.head"))
    grid.caption, grid.caption_justify = Text("\n".join(filter(None, lines))) or None, "left"
    return grid


def details(benchmark: str, report: Report) -> Grid:
    """Every group and metric of a benchmark."""
    rows = []
    groups = by_metric(e for e in report.estimates if e.benchmark == benchmark).values()
    ideals = _ideals(e.ideal for estimates in groups for e in estimates)
    places = shared_places(metric_range(estimates) for estimates in groups)
    for estimates in groups:
        on = replace(metric_range(estimates), places=places)
        rows += [(e.group, e.short_name, _with_interval(e, on), ideals[e.ideal], str(e.n)) for e in estimates]
    return text_table(["group", "score", "value [95 % interval]", "ideal", "n"], rows, benchmark)


def comparison(compared: Comparison, *, verbose: bool = False) -> Iterator[Grid | str]:
    """The names of two runs, a table of changes, and a conclusion; without ``verbose`` at most one screen.

    The table has the headline of each benchmark and its language ability, or with ``verbose`` every metric.
    """
    headlines, rows = headline_changes(compared), []
    yield f"{described(compared.run)} compared with {described(compared.base)}"
    columns = [
        "benchmark",
        *["group"] * verbose,
        "score",
        "before",
        "after",
        "difference [95 %]",
        *[DETECTABLE] * verbose,
    ]
    known = {change.difference.key for change in headlines}
    shown = [*headlines, *(c for c in changes(compared) if verbose and c.difference.key not in known)]
    shown = sharing_places(shown)
    for change in shown if verbose else shown[:CHANGES]:
        d, on = change.difference, change.scale
        ends = interval(d.low, d.high, on.brief, " [{}, {}]")
        names = [d.benchmark, d.group, d.short_name] if verbose else [d.benchmark, d.short_name]
        before, after, difference = change.texts
        effect = [detectable_text(d.detectable, on, "") if change.verdict else ""] * verbose
        rows.append([*names, before, after, f"{difference}{ends}", *effect, change.verdict or "–"])
    # Of each benchmark the first agreement, which is the most important one: of equal keys the last value stays.
    agreements = {a.benchmark: a for a in reversed(compared.agreements)}.values()
    for a in compared.agreements if verbose else list(agreements)[:AGREEMENTS]:
        names = [a.benchmark, a.group, a.short_name] if verbose else [a.benchmark, a.short_name]
        rows.append([*names, "–", metric_range([a]).brief(a.value), "–", *[""] * verbose, "–"])
    yield text_table([*columns, "verdict"], rows, whole=("benchmark", "before", "after"), gap=1)
    effects = []
    for change in headlines:
        d = change.difference
        text = detectable_text(d.detectable, change.scale)
        if change.verdict and text:
            effects.append(f"{d.benchmark} {d.short_name} {text}")
    if effects:
        yield say("power.change", effects=", ".join(effects[:EFFECTS]))
    if len(shown) > CHANGES and not verbose:
        yield say("compare.more", count=len(shown) - CHANGES)
    yield compared.speechless or conclusion(headlines)


def _ideals(values: Iterable[float | None]) -> dict[float | None, str]:
    """Ideal values as texts that share their decimals."""
    distinct = set(values)
    places = max((len(f"{value:g}".partition(".")[2]) for value in distinct if value is not None), default=0)
    return {value: formatted(value, f".{places}f") for value in distinct}


def _with_interval(e: Measurement, on: Scale) -> str:
    return on.brief(e.value) + interval(e.low, e.high, on.brief, " [{}, {}]")


def want(lacking: Sequence[str], data: str) -> list[str]:
    r"""A sentence that names the missing data and the command that builds it.

    >>> lacking = ["unstereo/ours-5/test", "unstereo/winobias/validation", "unstereo/winobias/test"]
    >>> print(*want(lacking, "output")[0].split("; "), sep="\n")
    Left out, because their data are not built: unstereo (ours-5, winobias)
    probes build unstereo --out output builds them.
    >>> want(["unstereo/ours-5/test"], "hub:org")[0].partition("; ")[2]
    'probes build unstereo --out output builds them, and --data output reads it.'
    """
    sets = grouped((name.split("/") for name in lacking), lambda parts: parts[0])
    configs = {dataset: ", ".join(dict.fromkeys(config for _, config, _ in own)) for dataset, own in sets.items()}
    missing = ", ".join(f"{dataset} ({names})" for dataset, names in configs.items())
    folder = DATA if data.startswith("hub:") else data
    also = "" if folder == data else f", and --data {folder} reads it"
    if not sets:
        return []
    return [say("run.lacking", missing=missing, sets=" ".join(sets), folder=folder, also=also)]


def speed(report: Report) -> str:
    """A sentence with the speed of a run."""
    facts = report.speed
    loading = f"{facts['load_seconds']:.1f}"
    if not facts["tokens_per_second"]:
        return say("run.stored", loading=loading)
    return say(
        "run.speed",
        tokens=f"{facts['tokens_per_second']:,.0f}",
        seconds=f"{facts['seconds']:.1f}",
        padding=f"{facts['padding_share']:.0%}",
        shared=f"{facts['shared_share']:.0%}",
        loading=loading,
    )
