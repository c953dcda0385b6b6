"""The command ``probes rescore FILE``: metrics from a file of existing scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cards.options import single, start
from scoring import benchmarks
from scoring.options import Include, Resamples
from scoring.report.numbers import aligned, marked, methods
from scoring.rescoring import Answer, document, rescore
from scoring.statistics.stats import RESAMPLES
from scoring.types import DATA, ScoringError


def lines(answers: Sequence[Answer], remarks: Sequence[str]) -> Iterator[str]:
    """The lines of a table of the answers, then how to read each metric and interval."""
    cells: list[tuple[str, ...]] = [("group", "metric", "value", "sd", "95 % interval", "n", "clusters", "")]
    for answer in answers:
        estimate, record = answer.estimate, answer.record()
        numbers = (f"{x:.4f}" if isinstance(x, float) else "–" for x in (record["value"], record["sd"]))
        ends = f"{estimate.low:.4f} to {estimate.high:.4f} {marked(estimate)}".rstrip()
        interval = "–" if record["low"] is None else ends
        counts = str(estimate.n), str(estimate.clusters)
        cells.append((estimate.group, estimate.metric, *numbers, interval, *counts, estimate.why))
    yield from aligned(cells)
    yield ""
    for metric, reading in {answer.estimate.metric: answer.estimate.reading for answer in answers}.items():
        yield f"{metric}: {reading}"
    yield from methods(answer.estimate for answer in answers)
    yield from remarks


def main(
    file: Annotated[Path, typer.Argument(help="Parquet, CSV with a header, or StereoSet's JSON.")],
    benchmark: Annotated[str, typer.Option(help="Whose columns FILE has.")],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")] = False,
    data: Annotated[Path, typer.Option(help="Folder of the built data sets (stereoset needs biaske).")] = Path(DATA),
    resamples: Resamples = RESAMPLES,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    include: Include = (),  # type: ignore[assignment]  # nobody changes it
) -> None:
    """Compute a benchmark's metrics, with intervals, from the scores in FILE.

    unstereo: columns dataset, female_logprob, male_logprob (natural logarithms); where known max_pmi_diff,
    natural, word. stereoset: columns id, score of all sentences of a task of the development set, or of the test
    set, where known task; or the JSON of predictions.
    """
    try:
        for path in include:
            benchmarks.include(path)
        answers, remarks = rescore(benchmark, file, data, resamples, seed)
    except ScoringError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    typer.echo(document(answers, remarks, file, resamples, seed) if as_json else "\n".join(lines(answers, remarks)))


app = single(main)

if __name__ == "__main__":
    start(app, "python -m scoring.rescore")
