"""What the commands print."""

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


def summary(benchmark: str, report: Report) -> Grid:
    """The first groups and metrics of a benchmark; the report has all of them."""
    from scoring.report import interval, scale

    own = {(e.group, e.metric): e for e in report.estimates if e.benchmark == benchmark}
    groups, metrics = (list(dict.fromkeys(names)) for names in zip(*own, strict=True))
    shown = {m: scale(e for (_, metric), e in own.items() if metric == m) for m in metrics[:METRICS]}
    grid = Grid(box=None, pad_edge=False, title=Text(benchmark, "bold"), title_justify="left")
    grid.add_column("group", no_wrap=True)
    grid.add_column("n", justify="right")
    for metric in shown:
        grid.add_column(Text(metric))
    for group in groups[:GROUPS]:
        row = [(own.get((group, metric)), on) for metric, on in shown.items()]
        cells = [f"{on.text(e.value)} {interval(e, on)}" if e else "" for e, on in row]
        grid.add_row(*map(Text, (group, str(next(e.n for e, _ in row if e)), *cells)))
    if len(groups) > GROUPS or len(metrics) > METRICS:
        grid.caption = Text(f"All {len(groups)} groups and {len(metrics)} metrics are in the report.")
        grid.caption_justify = "left"
    return grid


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
