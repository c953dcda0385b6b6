"""Metrics from a file of existing scores, without a model.

A benchmark that can be computed from scores alone reads the file (``score_file`` of
:class:`scoring.types.Benchmark`). ``unstereo`` reads a row a sentence pair, ``stereoset`` a row a sentence; their
functions name the columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scoring import benchmarks
from scoring.statistics.stats import measure
from scoring.types import Estimate, ScoringError


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


def names() -> list[str]:
    """Names of the benchmarks that can be computed from scores alone."""
    return [name for name in benchmarks.names() if benchmarks.get(name).score_file]


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
        raise ScoringError(f"{benchmark} is not computed from scores alone; give one of {', '.join(names())}.")
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
