"""The part of ``python -m scoring`` that samples answers from a chat API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from builders.dataset import BuildError
from builders.generation.clients import DryRunClient
from builders.generation.run import RunOptions, opened, print_costs
from cards.files import locked
from scoring.chat_api import SAMPLED, Sampling, ask, result, sampled
from scoring.report.terminal import summary, tell, want
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.api import Settings


class ChatFailed(ScoringError):
    """An error of the chat API, with the exit status that it has in ``builders.generate``."""

    def __init__(self, error: BuildError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code


def sample(options: RunOptions, sampling: Sampling, settings: Settings, console: Console, errors: Console) -> None:
    """Asks a chat API, writes the report and prints a summary; or prints what that would cost.

    Raises
    ------
    ScoringError
        For data that is missing, a benchmark that needs probabilities, and a failure of the API; all replies are kept.
    """
    from scoring import report
    from scoring.run import read

    prompt = settings.full_prompt()
    if prompt.decoding:
        raise ScoringError(
            f"The prompt {prompt.name!r} has decoding settings, and a chat API takes --temperature alone; give another "
            "one."
        )
    named = bool(settings.benchmarks)
    benchmarks, remarks = sampled(settings.chosen(), named=named)
    parts = read(benchmarks, settings.data, settings.profile, settings.limit, named=named)
    lacking = [missing.name for part in parts for missing in part.lacking]
    parts = [part for part in parts if part.splits]
    about: dict[str, Any] = {"sampling": sampling, "profile": settings.profile, "prompt": prompt}
    try:
        with opened(options, errors) as client:
            answers = ask(client, parts, model=options.model, **about)
            if isinstance(client, DryRunClient):
                print_costs(client, options, console)
                return
    except BuildError as error:
        raise ChatFailed(error) from None
    out = settings.out or Path()
    scored = result(answers, parts, model=options.model, resamples=settings.resamples, **about)
    notes = {part.benchmark.name: f"{SAMPLED}\n\n{part.benchmark.validity}" for part in parts}
    with locked(out, ScoringError):
        if not settings.overwrite:
            report.check_finished(out, scored.report)
        report.write(out, scored.report, scored.tables, notes)
    console.print(summary(scored.report, console.width))
    where = f"The report is {out / 'report.html'}; all numbers are in the same folder."
    tell(console, [*remarks, *want(lacking, settings.data), f"{sampling}. {SAMPLED}", where])
