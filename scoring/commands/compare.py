"""The command ``probes compare RUN BASE``: paired differences of two runs over the same examples."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards.common.options import ended, single
from cards.common.sentences import say
from cards.common.terminal import show, show_wrapped
from cards.results import folder_of
from scoring.options import Resamples, Verbose
from scoring.report.conditions import failed, failing, verdicts_of
from scoring.report.headlines import Comparison
from scoring.report.terminal import comparison
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError


def show_comparison(run: Path, base: Path, out: Path, resamples: int, console: Console, *, verbose: bool) -> Comparison:
    """Writes the comparison of two runs into a folder and prints its headlines; with ``verbose`` every metric."""
    from scoring.api import compare as compared_runs
    from scoring.report import write_comparison

    compared = compared_runs(run, base, resamples)
    write_comparison(out, compared)
    for part in comparison(compared, verbose=verbose):
        if isinstance(part, str):
            show_wrapped(console, part)
        else:
            console.print(part)
    show(console, [say("compare.written", file=out / "compare.html")])
    return compared


def main(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Folder of the earlier run to compare it with.")],
    more: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[MORE]...", help="Further runs, to rank the models by each way to ask."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for compare.html and compare.json; RUN by default.")] = None,
    resamples: Resamples = RESAMPLES,
    verbose: Verbose = False,
    fail_on: Annotated[
        str, typer.Option(help="Exit with status 3 if a headline is worse, further, lost, changed or unclear.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON, as in compare.json.")] = False,
) -> None:
    """Compare RUN with BASE: each metric before and after, the paired difference with its interval, and a verdict.

    The minimum detectable effect is the smallest true change that 80 % of such comparisons show.

    Exit status: 1 when the runs cannot be compared, 3 when --fail-on holds; the comparison is written then too.
    """
    console, errors = Console(), Console(stderr=True)
    with ended(errors, ScoringError):
        # With --json only the comparison goes to standard output.
        aside = errors if as_json else console
        verdicts: frozenset[str] = frozenset()
        if fail_on:
            # Read before the comparison, so that a wrong word is refused at once.
            verdicts = verdicts_of(fail_on)
        # A file of a run, such as its report, means the run.
        run = folder_of(run)
        compared = show_comparison(run, base, out or run, resamples, aside, verbose=verbose)
        if more:
            from scoring.asking.rank_agreement import order_table, share_table
            from scoring.asking.result import load

            runs = [load(folder) for folder in (run, base, *more)]
            orders = order_table([result.report for result in runs])
            aside.print(orders, share_table(runs, resamples), sep="\n")
        if as_json:
            # As it was written, so that the file and the output are the same to the byte.
            typer.echo(((out or run) / "compare.json").read_text(encoding="utf-8"), nl=False)
        # Last, because the comparison is written and shown in every case.
        failed(failing(compared, verdicts))


app = single(main)
