"""Scores of published responses: files of the authors of UnStereoEval and StereoSet, without a model.

The files are fetched from the pinned repositories, or read from a mirror, and re-scored as :mod:`scoring.rescore`
does for anybody's scores. The estimates are kept by what they were computed from, so they are computed once.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from builders.dataset import Alternative, Remote, Source
from builders.sources.catalogue import catalogue
from cards.stored import Stored
from cards.text import slug
from scoring.reproduce.printed import rows_of
from scoring.rescore import document, rescore
from scoring.types import ScoringError

SCORES = Stored("a file of estimates from published responses", "delete it, and they are computed again")
_UNSTEREO = "https://raw.githubusercontent.com/ucinlp/unstereo-eval/2aaff91621516d3e03d65db0c0ccedf0b856f623"
#: The file of PMI by gendered word; the pinned commit has it, but few mirrors do, because it is large.
GENDERED_PMI = "pmi_by_gendered_expressions.csv"
#: The names of sources with the scores at steps of training; those of the intervention have a longer name.
_STEPS = "unstereo-development/steps-"
_STEREOSET = "https://raw.githubusercontent.com/moinnadeem/StereoSet/ead7d086a64a192a1eca88e0dd2fd163de375218"
#: The configs and splits of the built data set whose rows are those of the six files of a model, in order.
PLACES = (
    *((f"ours-{length}-paper", "test") for length in (5, 10, 20)),
    ("winobias-paper", "validation"),
    ("winobias-paper", "test"),
    ("winogender-paper", "test"),
)
#: The columns of a score file of UnStereoEval.
COLUMNS = ("id", "dataset", "word", "natural", "max_pmi_diff", "female_logprob", "male_logprob")
#: (group, metric) to value, both ends of the interval, and the sd by the formula of the paper.
Scores = Mapping[tuple[str, str], Mapping[str, Any]]


def sources(benchmark: str) -> dict[str, Source]:
    """The published responses to a benchmark, by the name of the model in the papers; of ``unstereo-steps`` by step.

    >>> len(sources("unstereo")), len(sources("stereoset")["gpt2"].alternatives[0].files)
    (28, 1)
    """
    if benchmark == "unstereo-steps":
        steps = {name.removeprefix(_STEPS): source for name, source in catalogue().sources.items() if _STEPS in name}
        return {step: steps[step] for step in sorted(filter(str.isdecimal, steps), key=int)}
    rows = rows_of(f"{benchmark}-scores.csv")
    return {row["label"]: Source(f"{benchmark}-scores/{row['label']}", "", "", (_files(row),)) for row in rows}


def printed_models() -> list[str]:
    """The 23 models that the tables of UnStereoEval print; the scores of five more are published.

    >>> len(printed_models()), len(set(sources("unstereo")) - set(printed_models()))
    (23, 5)
    """
    return [row["model"] for row in rows_of("unstereo-table-5.csv")]


def gendered_pmi() -> Source:
    """The PMI of each word with each of 76 gendered words, by the authors of UnStereoEval."""
    file = Remote(f"{_UNSTEREO}/data/{GENDERED_PMI}", git_blob="9c00ba1801de558008489a4c154d79fad330b26b")
    return Source("unstereo/gendered-pmi", "", "", (Alternative((file,)),))


def _files(row: Mapping[str, str]) -> Alternative:
    if "sha256" in row:
        return Alternative((Remote(f"{_STEREOSET}/code/predictions/{row['file']}", sha256=row["sha256"]),))
    blobs = ((path, blob) for path, blob in row.items() if path.startswith("results/"))
    return Alternative(
        tuple(Remote(f"{_UNSTEREO}/{path}__scores__{row['file']}.csv", git_blob=blob) for path, blob in blobs)
    )


def built_rows(data: Path) -> list[pd.DataFrame]:
    """The rows of the built data set ``unstereo`` behind each published file.

    Raises
    ------
    ScoringError
        When it is not built.
    """
    paths = [data / "unstereo" / "data" / config / f"{split}.parquet" for config, split in PLACES]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise ScoringError(f"There is no {missing[0]}; run probes build unstereo --out {data}, or give --data.")
    return [pq.read_table(path, columns=["id", "word", "natural", "max_pmi_diff"]).to_pandas() for path in paths]


def score_rows(paths: Sequence[Path], built: Sequence[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The scores of six published files in the columns of a score file, a table for each.

    Raises
    ------
    ScoringError
        When a file has other rows than the built data set.
    """
    for path, released in zip(paths, built, strict=True):
        scores = pd.read_csv(path, usecols=["word", "F_logprob", "M_logprob"], keep_default_na=False)
        # The files have no ids: rows belong together by their place, which their words confirm.
        if scores["word"].tolist() != released["word"].tolist():
            raise ScoringError(f"{path} has other rows than the built data set unstereo; build it again.")
        logprobs = {
            f"{name}_logprob": scores[f"{name[0].upper()}_logprob"].astype(float) for name in ("female", "male")
        }
        yield released.assign(dataset=released["id"].str.partition("-paper")[0], **logprobs)


def score_table(benchmark: str, paths: Sequence[Path], built: Sequence[pd.DataFrame]) -> pa.Table:
    """The published files of a model as one score file for :func:`scoring.rescore.rescore`."""
    if benchmark != "stereoset":
        return pa.Table.from_pandas(pd.concat(score_rows(paths, built))[[*COLUMNS]], preserve_index=False)
    content = json.loads(paths[0].read_bytes())
    return pa.Table.from_pylist([{"task": task, **row} for task, rows in content.items() for row in rows])


def kept(benchmark: str, label: str, data: Path, out: Path, resamples: int) -> Path:
    """The file of a model's estimates; its name has a hash of what they are computed from."""
    of = [str(resamples), *(file.sha256 or file.git_blob for file in sources(benchmark)[label].alternatives[0].files)]
    manifest = data / ("biaske" if benchmark == "stereoset" else "unstereo") / "manifest.json"
    # Other data, responses or resamples give another name, so an old file is never taken for a new one.
    of.append(manifest.read_text(encoding="utf-8") if manifest.is_file() else "")
    return out / f"{benchmark}-{slug(label)}-{hashlib.sha256(' '.join(of).encode()).hexdigest()[:12]}.json"


def scores_file(benchmark: str, label: str, folder: Path) -> Path:
    """The score file of a model's published responses, which :func:`compute` writes beside the estimates."""
    return folder / f"{benchmark}-{slug(label)}.parquet"


def compute(
    benchmark: str, label: str, data: Path, path: Path, files: Sequence[Path], resamples: int, built: Sequence[Any]
) -> None:
    """Writes the score file of a model's published responses and its estimates, the file ``path`` of :func:`kept`.

    Raises
    ------
    ScoringError
        When the responses do not belong to the built data sets.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    table = scores_file(benchmark, label, path.parent)
    pq.write_table(score_table(benchmark, files, built), table)
    answers, remarks = rescore(benchmark.partition("-")[0], table, data, resamples, 0)
    SCORES.write(path, json.loads(document(answers, remarks, table, resamples, 0)))


def read(path: Path) -> Scores:
    """The estimates that :func:`compute` wrote, by group and metric; what is not defined is NaN."""
    estimates = SCORES.read(path, lambda content: content["estimates"], ScoringError) or []
    return {(e["group"], e["metric"]): {k: math.nan if v is None else v for k, v in e.items()} for e in estimates}
