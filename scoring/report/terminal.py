"""What the commands print."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from scoring import benchmarks
from scoring.prompts import PROMPTS
from scoring.report.clean import redactor
from scoring.report.headlines import changes, conclusion, described, headline_changes, headline_scores
from scoring.report.names import short_name
from scoring.report.numbers import Scale, by_metric, metric_range
from scoring.types import Comparison, Measurement, Report, ScoringError

#: From so many columns on, the summary of a run has sentences.
WIDE = 120
#: How many changes and agreements of a comparison fit on one screen of 24 lines.
CHANGES, AGREEMENTS = 15, 2


def catalogue() -> Iterator[str]:
    """Lines with the name and summary of each benchmark and prompt."""
    width = max(map(len, (*benchmarks.names(), *PROMPTS)))
    yield "Benchmarks (--benchmarks):"
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        yield f"  {name:{width}}  {benchmark.summary} [{', '.join(benchmark.kinds)}]"
    yield "With --chat (where listed) the context is the user's turn, and options or continuation begin the response;"
    yield "of a transcript Q: … A: … the text after Q: is the user's turn, and the text after A: begins the response."
    yield "Prompts (--prompt), or your own JSON file:"
    yield from (f"  {name:{width}}  {prompt.summary}" for name, prompt in PROMPTS.items())


def summary(report: Report, width: int) -> Grid:
    """One line a benchmark: its headline score with interval, the ideal value, and where the score is.

    From :data:`WIDE` columns on the last column says in a sentence what the score means.
    """
    grid = _grid("benchmark", "score", "value [95 % interval]", "ideal", "vs ideal", "meaning" if width >= WIDE else "")
    for headline in headline_scores(report):
        e, on = headline.estimate, headline.scale
        ideal = "–" if e.ideal is None else f"{e.ideal:g}"
        cells = [e.benchmark, short_name(e.metric), _with_interval(e, on), ideal, headline.standing or "–"]
        grid.add_row(*map(Text, [*cells, headline.sentence] if width >= WIDE else cells))
    return grid


def details(benchmark: str, report: Report) -> Grid:
    """Every group and metric of a benchmark."""
    grid = _grid("group", "score", "value [95 % interval]", "ideal", "n")
    grid.title, grid.title_justify = Text(benchmark, "bold"), "left"
    for estimates in by_metric(e for e in report.estimates if e.benchmark == benchmark).values():
        on = metric_range(estimates)
        for e in estimates:
            ideal = "–" if e.ideal is None else f"{e.ideal:g}"
            grid.add_row(*map(Text, (e.group, short_name(e.metric), _with_interval(e, on), ideal, str(e.n))))
    return grid


def comparison(compared: Comparison, *, verbose: bool = False) -> Iterator[Grid | str]:
    """The names of two runs, a table of changes, and a conclusion; without ``verbose`` at most one screen.

    The table has the headline of each benchmark and its language ability, or with ``verbose`` every metric.
    """
    headlines = headline_changes(compared)
    yield f"{described(compared.run)} compared with {described(compared.base)}"
    grid = _grid("benchmark", "group", "score", "before", "after", "difference [95 %]", "verdict", gap=1)
    if not verbose:
        grid = _grid("benchmark", "score", "before", "after", "difference [95 %]", "verdict", gap=1)
    shown = [*headlines, *(c for c in changes(compared) if verbose and c not in headlines)]
    for change in shown if verbose else shown[:CHANGES]:
        d, on = change.difference, change.scale
        ends = "" if math.isnan(d.low) else f" [{on.brief(d.low)}, {on.brief(d.high)}]"
        names = [d.benchmark, d.group, short_name(d.metric)] if verbose else [d.benchmark, short_name(d.metric)]
        values = [on.brief(change.before.value), on.brief(change.after.value)]
        grid.add_row(*map(Text, [*names, *values, f"{on.brief(d.value, signed=True)}{ends}", change.verdict or "–"]))
    agreements = {a.benchmark: a for a in reversed(compared.agreements)}.values()
    for a in compared.agreements if verbose else list(agreements)[:AGREEMENTS]:
        names = [a.benchmark, a.group, short_name(a.metric)] if verbose else [a.benchmark, short_name(a.metric)]
        grid.add_row(*map(Text, [*names, "–", metric_range([a]).brief(a.value), "–", "–"]))
    yield grid
    if len(shown) > CHANGES and not verbose:
        yield f"{len(shown) - CHANGES} more benchmarks are shown with --verbose."
    yield conclusion(headlines)


def _grid(*columns: str, gap: int = 2) -> Grid:
    """A table without lines, whose names and numbers are not broken unless the terminal is too narrow for them."""
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for name in filter(None, columns):
        grid.add_column(Text(name), overflow="fold", no_wrap=name in ("benchmark", "before", "after"))
    return grid


def _with_interval(e: Measurement, on: Scale) -> str:
    ends = "" if math.isnan(e.low) or math.isnan(e.value) else f" [{on.brief(e.low)}, {on.brief(e.high)}]"
    return f"{on.brief(e.value)}{ends}"


def want(lacking: Sequence[str], data: str) -> list[str]:
    r"""A sentence that names the missing data and the command that builds it.

    >>> lacking = ["unstereo/ours-5/test", "unstereo/winobias/validation", "unstereo/winobias/test"]
    >>> print(*want(lacking, "output")[0].split("; "), sep="\n")
    Left out for want of data: unstereo (ours-5, winobias)
    python -m builders.rebuild unstereo --out output builds it.
    """
    sets: dict[str, dict[str, None]] = {}
    for name in lacking:
        dataset, config, _ = name.split("/")
        sets.setdefault(dataset, {})[config] = None
    missing = ", ".join(f"{dataset} ({', '.join(configs)})" for dataset, configs in sets.items())
    again = f"python -m builders.rebuild {' '.join(sets)} --out {data}"
    return [f"Left out for want of data: {missing}; {again} builds it."] if sets else []


def speed(report: Report) -> str:
    """A sentence with the speed of a run."""
    facts = report.speed
    loading = f"loading took {facts['load_seconds']:.1f} s"
    if not facts["tokens_per_second"]:
        return f"The model was not used, as all responses were stored; {loading}."
    return (
        f"{facts['tokens_per_second']:,.0f} tokens/s over {facts['seconds']:.1f} s, "
        f"{facts['padding_share']:.0%} padding, {facts['shared_share']:.0%} saved by shared contexts; {loading}."
    )


def tell(console: Console, lines: Iterable[str]) -> None:
    """Prints lines without markup or wrapping; secrets are hidden."""
    hide = redactor(os.environ)
    for line in lines:
        console.print(hide(line), markup=False, highlight=False, soft_wrap=True)


def tell_wrapped(console: Console, line: str) -> None:
    """Prints a sentence, broken between words where the terminal ends; secrets are hidden."""
    console.print(Text(str(redactor(os.environ)(line))))


@contextmanager
def ended(errors: Console) -> Iterator[None]:
    """Prints an expected error of the block as one sentence and ends the command with its exit status."""
    try:
        yield
    except ScoringError as error:
        tell(errors, [f"error: {error}"])
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        problem = f"{error.filename or 'A file'} cannot be used ({error.strerror or type(error).__name__})"
        tell(errors, [f"error: {problem}; give a name or a folder that can be read and written."])
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        tell(errors, ["Interrupted; start the same command again to go on."])
        raise typer.Exit(130) from None
