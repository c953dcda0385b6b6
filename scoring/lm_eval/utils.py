"""Functions that lm-evaluation-harness calls: the rows of a task, the record of a row, and the metrics.

Requests, tables and metrics are those of :mod:`scoring.benchmarks`; the harness runs the model. The
harness gives only the sum of an option's log-probabilities, so each row has the tokens of its options.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from datasets import Dataset

from scoring import DATA, benchmarks
from scoring.asking.estimates import cluster_of
from scoring.inference.fetching import first_sentence
from scoring.inference.tokens import Encoding, Tokens
from scoring.inputs import tables
from scoring.lm_eval import ERROR
from scoring.statistics.stats import measure
from scoring.types import Benchmark, BenchmarkContext, Group, HarnessTask, Metric, Request, Response, Row, ScoringError


def rows(*, benchmark: str, task: str, **arguments: Any) -> dict[str, Dataset]:
    """The rows of a task, each with the context and the options that the model is asked about.

    The data sets are in what the environment variable ``PROBES_DATA`` names: a folder that
    ``probes build`` wrote (``output`` when not set), or ``hub:ORG`` or
    ``hub:ORG@REVISION``.

    Parameters
    ----------
    benchmark, task:
        The name of the benchmark, and that of one of its ``tasks``.
    arguments:
        The arguments of the model in the harness, of which the name of the tokenizer is used.

    Raises
    ------
    ScoringError
        When the data is not there, no tokenizer is known, or a tokenizer merges a context with an option.
    """
    source = os.environ.get("PROBES_DATA") or DATA
    questions = [
        (row, request)
        for row in _rows(benchmarks.get(benchmark), _task(benchmark, task), source)
        for request in benchmarks.get(benchmark).requests("clean", row, BenchmarkContext("causal"))
    ]
    ids = _ids([request for _, request in questions], arguments)
    lines = [
        {
            **row,
            "benchmark": benchmark,
            "harness_task": task,
            "ask_context": request.context,
            "ask_options": [option.text for option in request.options],
            "ask_ids": tokens,
        }
        for (row, request), tokens in zip(questions, ids, strict=True)
    ]
    return {"test": Dataset.from_list(lines)}


def _rows(benchmark: Benchmark, task: HarnessTask, source: str) -> Iterator[Row]:
    for place in task.configs:
        for row in tables.of_benchmark(benchmark, source, *place).rows:
            if all(row[column] == value for column, value in task.where.items()):
                yield row


def _task(benchmark: str, name: str) -> HarnessTask:
    return next(task for task in benchmarks.get(benchmark).tasks if task.name == name)


def _ids(requests: Sequence[Request], arguments: Mapping[str, Any]) -> list[list[list[int]]]:
    """Per request and option the tokens whose probability is wanted."""
    name = next((arguments[key] for key in ("tokenizer", "pretrained", "model") if arguments.get(key)), None)
    if not isinstance(name, str):
        raise ScoringError(
            "The tokenizer of the model is not known, and scores per token need it; name it to the harness with "
            """--metadata '{"tokenizer": "NAME OR FOLDER"}'."""
        )
    more = {key: arguments[key] for key in ("revision", "trust_remote_code") if key in arguments}
    queries = Tokens(_tokenizer(name, **more), "causal").queries(requests)
    return [[list(query.want) for option in options for query in option] for options, _ in queries]


@cache
def _tokenizer(name: str, **more: Any) -> Any:
    from transformers import AutoTokenizer  # slow to import

    try:
        return AutoTokenizer.from_pretrained(name, **more)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ScoringError(f"The tokenizer {name!r} cannot be loaded: {first_sentence(error)}.") from None


def results(row: Row, responses: Sequence[tuple[float, bool]]) -> dict[str, dict[str, Any]]:
    """The line of a row in the table of its benchmark, for each metric that is made of it.

    Texts, which no metric looks at, are left out, because the harness logs the line once a metric.
    """
    benchmark = benchmarks.get(row["benchmark"])
    tokens: dict[str, list[int]] = dict(zip(row["ask_options"], row["ask_ids"], strict=True))
    context = BenchmarkContext("causal", lambda texts: [Encoding(text, tokens[text], tuple) for text in texts])
    # The sum is spread evenly over the tokens: no score of a causal model rests on a single one.
    logprobs = tuple((sum_ / len(ids),) * len(ids) for (sum_, _), ids in zip(responses, row["ask_ids"], strict=True))
    line = benchmark.to_record("clean", row, {row["id"]: Response(row["id"], logprobs)}, context)
    columns = {name: value for name, value in line.items() if not name.startswith(("sentence_", "prompt"))}
    reported = _task(benchmark.name, row["harness_task"]).metrics
    lines = {metric: {"benchmark": benchmark.name, "metric": metric, **columns} for metric in reported}
    return lines | {f"{metric}{ERROR}": lines[metric] for metric in reported}


def aggregate(lines: Sequence[Mapping[str, Any]]) -> float:
    """The metric that the lines name, of the table they make."""
    table = tables.as_table(map(dict, lines))
    return float(_metric(lines).value(table, np.ones((1, len(lines))))[0])


def standard_error(lines: Sequence[Mapping[str, Any]]) -> float:
    """The standard error of the metric that the lines name, by the clusters of its benchmark; NaN where it has none.

    The harness has no standard error of a metric of a whole table and no clusters, so the error is a metric of its own.
    """
    metric, table = _metric(lines), tables.as_table(map(dict, lines))
    every = Group("all", np.ones(len(lines), bool))
    cluster = cluster_of(benchmarks.get(lines[0]["benchmark"]), metric, table)
    (found,) = measure([(every, metric)], table, table[cluster])
    return float(found.error)


def _metric(lines: Sequence[Mapping[str, Any]]) -> Metric:
    metrics = benchmarks.get(lines[0]["benchmark"]).metrics("clean")
    return next(metric for metric in metrics if metric.name == lines[0]["metric"])
