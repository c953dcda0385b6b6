"""What a run says at the terminal."""

from __future__ import annotations

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
from scoring.types import Report, ScoringError

#: How much of a benchmark is shown; the rest is in the report.
GROUPS, METRICS = 6, 4


def catalogue() -> Iterator[str]:
    """Benchmarks and prompts, a line each."""
    width = max(map(len, (*benchmarks.names(), *PROMPTS)))
    yield "Benchmarks (--benchmarks):"
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        yield f"  {name:{width}}  {benchmark.summary} [{', '.join(benchmark.kinds)}]"
    yield "With --chat (where listed) a context is the user's turn, and options or continuation begin its response;"
    yield "of a transcript Q: … A: … the question is that turn, and what stands after A: begins the response."
    yield "Prompts (--prompt), or a JSON file of one's own:"
    yield from (f"  {name:{width}}  {prompt.summary}" for name, prompt in PROMPTS.items())


def summary(benchmark: str, report: Report) -> Grid:
    """The first groups and metrics of a benchmark; the report has all of them."""
    from scoring.report import interval, scale

    found = {(e.group, e.metric): e for e in report.estimates if e.benchmark == benchmark}
    groups, metrics = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
    shown = {m: scale(e for (_, metric), e in found.items() if metric == m) for m in metrics[:METRICS]}
    grid = Grid(box=None, pad_edge=False, title=Text(benchmark, "bold"), title_justify="left")
    grid.add_column("group", no_wrap=True)
    grid.add_column("n", justify="right")
    for metric in shown:
        grid.add_column(Text(metric))
    for group in groups[:GROUPS]:
        each = [(found.get((group, metric)), on) for metric, on in shown.items()]
        cells = [f"{on.text(e.value)} {interval(e, on)}" if e else "" for e, on in each]
        grid.add_row(*map(Text, (group, str(next(e.n for e, _ in each if e)), *cells)))
    if len(groups) > GROUPS or len(metrics) > METRICS:
        grid.caption = Text(f"All {len(groups)} groups and {len(metrics)} metrics are in the report.")
        grid.caption_justify = "left"
    return grid


def want(lacking: Sequence[str], data: str) -> list[str]:
    r"""What was left out for want of data, in a sentence.

    >>> lacking = ["unstereo/ours-5/test", "unstereo/winobias/validation", "unstereo/winobias/test"]
    >>> print(*want(lacking, "output")[0].split("; "), sep="\n")
    Left out for want of data: unstereo (ours-5, winobias)
    python -m builders.rebuild unstereo --out output builds it.
    """
    sets: dict[str, dict[str, None]] = {}
    for name in lacking:
        dataset, config, _ = name.split("/")
        sets.setdefault(dataset, {})[config] = None
    told = ", ".join(f"{dataset} ({', '.join(configs)})" for dataset, configs in sets.items())
    again = f"python -m builders.rebuild {' '.join(sets)} --out {data}"
    return [f"Left out for want of data: {told}; {again} builds it."] if sets else []


def speed(report: Report) -> str:
    """What the run took, in a line."""
    told = report.speed
    loading = f"loading took {told['load_seconds']:.1f} s"
    if not told["tokens_per_second"]:
        return f"Nothing was asked, as all responses were known; {loading}."
    return (
        f"{told['tokens_per_second']:,.0f} tokens/s over {told['seconds']:.1f} s, {told['peak_share']:.0%} of what "
        f"matrix products reach here, {told['padding_share']:.0%} padding, {told['shared_share']:.0%} saved by shared "
        f"contexts; {loading}."
    )


def tell(console: Console, lines: Iterable[str]) -> None:
    """Prints lines as they are, but for secrets: no markup, no wrapping."""
    hide = redactor(os.environ)
    for line in lines:
        console.print(hide(line), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def ended(errors: Console) -> Iterator[None]:
    """Ends a command with one sentence and its exit status, whatever the block raises that a person can mend."""
    try:
        yield
    except ScoringError as error:
        tell(errors, [f"error: {error}"])
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        told = f"{error.filename or 'A file'} cannot be used ({error.strerror or type(error).__name__})"
        tell(errors, [f"error: {told}; give a name or a folder that can be read and written."])
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        tell(errors, ["Interrupted; start the same command again to go on."])
        raise typer.Exit(130) from None
