"""Metrics from a file of existing scores or texts, without a model: ``probes rescore FILE``.

A benchmark that can be computed from scores alone reads the file (``score_file`` of
:class:`scoring.types.Benchmark`). ``unstereo`` reads a row a sentence pair, ``stereoset`` and ``gest`` a sentence;
their functions name the columns.

A benchmark that can be asked in words (``sampled``), such as ``neutral`` and ``occugender``, reads texts: a file with a
column ``answer``, and with ``id`` or ``prompt`` of the row that was asked. A row may have several answers, the draws of
a model; they depend on each other and are resampled together.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from cards.common.numbers import formatted, interval
from cards.common.options import ended, single, start
from scoring import benchmarks
from scoring.inputs.tables import DataMissing, as_table, of_benchmark
from scoring.options import Include, Resamples
from scoring.report.numbers import aligned, marked, methods
from scoring.statistics.stats import RESAMPLES, measure
from scoring.types import DATA, Benchmark, Estimate, Line, Row, ScoredExamples, ScoringError


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate, and the ``facts`` that it describes: columns of the benchmark such as dataset and max_pmi_diff."""

    facts: Mapping[str, Any]
    estimate: Estimate

    def record(self) -> dict[str, Any]:
        """The answer for JSON; ``sd`` is by the formula of the paper where it has one."""
        fields = asdict(self.estimate)
        printed = fields.pop("printed_sd")
        fields["bootstrap_sd"] = fields["sd"]
        if printed is not None:
            fields["sd"] = printed
        for name, value in fields.items():
            # JSON has neither NaN nor infinity.
            if isinstance(value, float) and not math.isfinite(value):
                fields[name] = None
        return {"benchmark": fields.pop("benchmark"), **self.facts, **fields}


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
    chosen = benchmarks.get(benchmark)
    if chosen.score_file:
        parts, remarks = chosen.score_file(path, data)
    elif chosen.sampled:
        parts, remarks = read_texts(chosen, path, data)
    else:
        possible = []
        for name in benchmarks.names():
            other = benchmarks.get(name)
            if other.score_file or other.sampled:
                possible.append(other.name)
        raise ScoringError(
            f"{benchmark} is computed neither from scores nor from texts alone; give one of {', '.join(possible)}."
        )
    answers = []
    for part in parts:
        # Each part has other clusters, so its resamples are its own.
        items = [(group, metric) for _, group, metric in part.items]
        estimates = measure(items, part.table, part.clusters, benchmark=benchmark, resamples=resamples, seed=seed)
        for (facts, _, _), estimate in zip(part.items, estimates, strict=True):
            answers.append(Answer(facts, estimate))
    return answers, remarks


def read_texts(benchmark: Benchmark, path: Path, data: Path) -> tuple[list[ScoredExamples], list[str]]:
    """Existing answers in words to the questions of a benchmark, and remarks on the file.

    The file has ``answer``, and ``id`` (that of a row of the built data sets) or ``prompt`` (its text); a row may have
    many answers.

    Raises
    ------
    ScoringError
        When a row is unknown or an answer is lacking, or no data set of the benchmark is built in ``data``.
    """
    from scoring.inputs.score_files import ScoreFile

    task = benchmark.sampled
    assert task is not None
    file = ScoreFile(path, ("answer",))
    if "id" in file:
        key = "id"
    elif "prompt" in file:
        key = "prompt"
    else:
        raise ScoringError(f"{path} has neither a column id nor prompt; give one: it names the question of each text.")
    rows = _asked(benchmark, key, data)
    names, answers = file.texts(key), file.texts("answer")
    unknown = ~np.isin(names, list(rows))
    file.refuse(unknown, f"has the {{name}} {{value!r}} ({{rows}}), which no row of {benchmark.name} has.", key)
    by_row: dict[str, list[str]] = {}
    for name, text in zip(names, answers, strict=True):
        by_row.setdefault(name, []).append(text)
    lines: list[Line] = []
    for name, texts in by_row.items():
        lines += task.to_records(rows[name], texts)
    table = as_table(lines)
    # Answers in words have groups and metrics of their own.
    of_answers = replace(benchmark, metrics=task.metrics, groups=task.groups, cluster=task.cluster)
    items = [({"group": group.name}, group, metric) for group, metric in of_answers.items("clean", table)]
    remark = f"{path.name} has {len(answers)} answers to {len(by_row)} of the {len(rows)} rows of {benchmark.name}."
    return [ScoredExamples(table, table[task.cluster], items)], [remark]


def _asked(benchmark: Benchmark, key: str, data: Path) -> dict[str, Row]:
    """The rows of a benchmark that have one question in words, by their id or by their prompt."""
    task = benchmark.sampled
    rows: dict[str, Row] = {}
    lacking: list[DataMissing] = []
    assert task is not None
    for dataset, config, split in benchmark.configs_of("clean"):
        try:
            loaded = of_benchmark(benchmark, str(data), dataset, config, split)
        except DataMissing as error:
            lacking.append(error)
            continue
        for row in loaded.rows:
            question = task.question("clean", row)
            if not isinstance(question, str):
                # A file has one prompt a row, so it cannot say which of several questions an answer is to.
                raise ScoringError(f"{benchmark.name} asks several questions of a row; score it with --chat-api.")
            if question:
                # Rows of several configs may have the same prompt, whose answers count once.
                rows.setdefault(str(row[key]), row)
    if not rows:
        raise lacking[0]
    return rows


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
    # NaN is no JSON; the records have None in its place.
    return json.dumps(content, indent=2, allow_nan=False)


def lines(answers: Sequence[Answer], remarks: Sequence[str]) -> Iterator[str]:
    """The lines of a table of the answers, then how to read each metric and interval."""
    cells: list[tuple[str, ...]] = [("group", "metric", "value", "sd", "95 % interval", "n", "clusters", "")]
    for answer in answers:
        estimate, record = answer.estimate, answer.record()
        ends = interval(estimate.low, estimate.high, "{:.4f}".format, "{} to {} " + marked(estimate))
        cells.append(
            (
                estimate.group,
                estimate.metric,
                formatted(record["value"], ".4f"),
                formatted(record["sd"], ".4f"),
                # An interval that is not defined has no text.
                ends.rstrip() or "–",
                str(estimate.n),
                str(estimate.clusters),
                estimate.why,
            )
        )
    yield from aligned(cells)
    yield ""
    # A metric is read in the same way in every group.
    readings = {answer.estimate.metric: answer.estimate.reading for answer in answers}
    for metric, reading in readings.items():
        yield f"{metric}: {reading}"
    yield from methods(answer.estimate for answer in answers)
    yield from remarks


def main(
    file: Annotated[Path, typer.Argument(help="Parquet, CSV with a header, or StereoSet's JSON.")],
    benchmark: Annotated[str, typer.Option(help="The benchmark of the scores in FILE.")],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")] = False,
    data: Annotated[Path, typer.Option(help="Folder of the built data sets (stereoset needs biaske).")] = Path(DATA),
    resamples: Resamples = RESAMPLES,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    include: Include = (),  # type: ignore[assignment]  # nobody changes it
) -> None:
    """Compute a benchmark's metrics, with intervals, from the scores or texts in FILE.

    unstereo: columns dataset, female_logprob, male_logprob (natural logarithms); where known max_pmi_diff,
    natural, word. stereoset: columns id, score of all sentences of a task of the development set, or of the test
    set, where known task; or the JSON of predictions. gest: id, log_ratio, where known wording. neutral, occugender:
    texts in the column answer, and the id or the prompt of the row that was asked.
    """
    with ended(Console(stderr=True), ScoringError):
        # Before the benchmark is looked up, which may be one of these files.
        benchmarks.include(*include)
        answers, remarks = rescore(benchmark, file, data, resamples, seed)
    if as_json:
        typer.echo(document(answers, remarks, file, resamples, seed))
    else:
        typer.echo("\n".join(lines(answers, remarks)))


app = single(main)

if __name__ == "__main__":
    start(app, "python -m scoring.commands.rescore")
