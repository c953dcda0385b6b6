"""Scores of published responses for printed numbers and figures: the runs of :mod:`scoring.published`, without a model.

The estimates of a run and its examples are kept by what they are computed from, so they are computed once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders.dataset import Alternative, Remote, Source
from builders.files.manifest import file_sha256, read_manifest
from builders.sources.fetch import Fetcher
from cards.common.stored import Stored
from cards.common.text import slug
from scoring import benchmarks
from scoring import published as runs
from scoring.reproduce.printed import paper, rows_of
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd


SCORES = Stored("a file of estimates from published responses", "delete it, and they are computed again")
_UNSTEREO = "https://raw.githubusercontent.com/ucinlp/unstereo-eval/2aaff91621516d3e03d65db0c0ccedf0b856f623"
#: The file of PMI by gendered word; the pinned commit has it, but few mirrors do, because it is large.
GENDERED_PMI = "pmi_by_gendered_expressions.csv"
#: (group, metric) to value, both ends of the interval, and the sd by the formula of the paper.
Scores = Mapping[tuple[str, str], Mapping[str, Any]]


def printed_models() -> list[str]:
    """The 23 models that the tables of UnStereoEval print; the scores of five more are published.

    >>> len(printed_models()), len(set(runs.models("unstereo")) - set(printed_models()))
    (23, 5)
    """
    terms = paper("unstereo")["terms"]
    return [terms[row["model"]]["model"] for row in rows_of("unstereo-table-5.csv")]


def gendered_pmi() -> Source:
    """The PMI of each word with each of 76 gendered words, by the authors of UnStereoEval."""
    file = Remote(f"{_UNSTEREO}/data/{GENDERED_PMI}", git_blob="9c00ba1801de558008489a4c154d79fad330b26b")
    return Source("unstereo/gendered-pmi", "", "", (Alternative((file,)),))


def kept(source: str, model: str, data: Path, out: Path, resamples: int) -> Path:
    """The file of a model's estimates; its name has a hash of what they are computed from."""
    responses = runs.get(source)
    parts = [str(resamples), benchmarks.get(responses.benchmark).version]
    for file in runs.sources(source)[model].alternatives[0].files:
        parts.append(file.sha256 or file.git_blob)
    for name in responses.datasets:
        manifest = data / name / "manifest.json"
        # The manifest has the digests of all files of the data set.
        if manifest.is_file():
            parts.append(manifest.read_text(encoding="utf-8"))
        else:
            parts.append("")
    # Other data, responses or resamples give another name, so an old file is never taken for a new one.
    digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]
    return out / f"{source}-{slug(model)}-{digest}.json"


def examples_file(path: Path) -> Path:
    """The file of the examples, which :func:`compute` writes next to the estimates ``path``."""
    return path.with_suffix(".parquet")


def compute(source: str, model: str, data: Path, path: Path, resamples: int, fetcher: Fetcher) -> None:
    """Writes the examples of a model's published responses and their estimates, the file ``path`` of :func:`kept`.

    Raises
    ------
    ScoringError
        When the responses are not available, or the data sets that they belong to are not built.
    """
    for name in runs.get(source).datasets:
        if read_manifest(data / name) is None:
            raise ScoringError(f"There is no {name} in {data}; run probes build {name} --out {data}, or give --data.")
    run = runs.score(source, model, data, resamples=resamples, fetcher=fetcher)
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = ""
    for table in run.tables.values():
        pq.write_table(pa.table(dict(table)), examples_file(path))
        digest = file_sha256(examples_file(path))
    estimates = []
    for estimate in run.report.estimates:
        # The standard deviation by the formula of the paper, where it has one.
        sd = estimate.printed_sd
        if sd is None:
            sd = estimate.sd
        entry: dict[str, str | float | None] = {"group": estimate.group, "metric": estimate.metric}
        for name, number in (("value", estimate.value), ("low", estimate.low), ("high", estimate.high), ("sd", sd)):
            # JSON has no form for NaN.
            entry[name] = None
            if math.isfinite(number):
                entry[name] = number
        estimates.append(entry)
    # The estimates come last: a file of them says that the examples are whole, and has their digest.
    SCORES.write(path, {"estimates": estimates, "examples": digest})


def read(path: Path) -> Scores:
    """The estimates that :func:`compute` wrote, by group and metric; what is not defined is NaN."""
    scores: dict[tuple[str, str], Mapping[str, Any]] = {}
    for entry in SCORES.read(path, lambda content: content["estimates"], ScoringError) or []:
        for name, value in entry.items():
            if value is None:
                entry[name] = math.nan
        scores[entry["group"], entry["metric"]] = entry
    return scores


def examples(path: Path) -> pd.DataFrame:
    """The examples that :func:`compute` wrote next to the estimates ``path``.

    Raises
    ------
    ScoringError
        When the file is not the one that was written.
    """
    file = examples_file(path)
    digest = SCORES.read(path, lambda content: content["examples"], ScoringError)
    if not file.is_file() or file_sha256(file) != digest:
        raise ScoringError(f"{file} is not the file that was written beside {path.name}; delete both.")
    table: pd.DataFrame = pq.read_table(file).to_pandas()
    return table
