"""Metrics from a file of existing scores, without a model: ``probes rescore FILE``.

A benchmark that can be computed from scores alone reads the file (``score_file`` of
:class:`scoring.types.Benchmark`). ``unstereo`` reads a row a sentence pair, ``stereoset`` a row a sentence; their
functions name the columns.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cards.numbers import formatted, interval
from cards.options import ended, single, start
from scoring import benchmarks
from scoring.options import Include, Resamples
from scoring.report.numbers import aligned, marked, methods
from scoring.statistics.stats import RESAMPLES, measure
from scoring.types import DATA, Estimate, ScoringError


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate, and what it describes: columns of the benchmark such as dataset and max_pmi_diff."""

    of: Mapping[str, Any]
    estimate: Estimate

    def record(self) -> dict[str, Any]:
        """The answer for JSON; ``sd`` is by the formula of the paper where it has one."""
        fields = asdict(self.estimate)
        printed = fields.pop("printed_sd")
        fields["bootstrap_sd"] = fields["sd"]
        fields["sd"] = fields["sd"] if printed is None else printed
        cleaned = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
        return {"benchmark": cleaned.pop("benchmark"), **self.of, **cleaned}


def rescore(benchmark: str, path: Path, data: Path, resamples: int, seed: int) -> tuple[list[Answer], list[str]]:
    """The metrics of a benchmark over the scores in a file, and remarks on the file.

    Parameters
    ----------
    data:
        The folder of the built data sets.

    Raises
    ------
    ScoringError
        When the benchmark cannot be computed from scores alone, or the file is not as the benchmark wants it.
    """
    score_file = benchmarks.get(benchmark).score_file
    if score_file is None:
        given = ", ".join(name for name in benchmarks.names() if benchmarks.get(name).score_file)
        raise ScoringError(f"{benchmark} is not computed from scores alone; give one of {given}.")
    parts, remarks = score_file(path, data)
    answers = []
    for part in parts:
        items = [(group, metric) for _, group, metric in part.items]
        estimates = measure(items, part.table, part.clusters, benchmark=benchmark, resamples=resamples, seed=seed)
        answers += [Answer(facts, result) for (facts, _, _), result in zip(part.items, estimates, strict=True)]
    return answers, remarks


def document(answers: Sequence[Answer], remarks: Sequence[str], path: Path, resamples: int, seed: int) -> str:
    """The answers as JSON; what is not defined is null with its reason in ``why``."""
    content = {
        "file": str(path),
        "interval": "95 %, by the method of each estimate",
        "resamples": resamples,
        "seed": seed,
        "remarks": list(remarks),
        "estimates": [answer.record() for answer in answers],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def lines(answers: Sequence[Answer], remarks: Sequence[str]) -> Iterator[str]:
    """The lines of a table of the answers, then how to read each metric and interval."""
    cells: list[tuple[str, ...]] = [("group", "metric", "value", "sd", "95 % interval", "n", "clusters", "")]
    for answer in answers:
        estimate, record = answer.estimate, answer.record()
        numbers = (formatted(x, ".4f") for x in (record["value"], record["sd"]))
        ends = interval(estimate.low, estimate.high, "{:.4f}".format, "{} to {} " + marked(estimate)).rstrip() or "–"
        counts = str(estimate.n), str(estimate.clusters)
        cells.append((estimate.group, estimate.metric, *numbers, ends, *counts, estimate.why))
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
    with ended(Console(stderr=True), ScoringError):
        benchmarks.include(*include)
        answers, remarks = rescore(benchmark, file, data, resamples, seed)
    typer.echo(document(answers, remarks, file, resamples, seed) if as_json else "\n".join(lines(answers, remarks)))


app = single(main)

if __name__ == "__main__":
    start(app, "python -m scoring.rescore")
