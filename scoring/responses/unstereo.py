"""Log-probabilities of sentences with *he* and with *she* by 28 models, which the authors of UnStereoEval published.

From *Are Models Biased on Text without Gender-related Language?* (Belém et al., 2024): six files a model, one for each
set, WinoBias in two parts. A line has the natural log-probability of a sentence with each pronoun and no id; lines
belong to the rows of the built data set by their place, which their words confirm. Rows that were judged unnatural are
in the files and in no score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from builders.dataset import Fetched
from scoring.benchmarks import unstereo
from scoring.inputs.tables import Loaded
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, built
from scoring.types import Table

if TYPE_CHECKING:
    import pandas as pd


#: The configs and splits of the built data set whose rows are those of the six files of a model, in order.
PLACES = (
    ("ours-5-paper", "test"),
    ("ours-10-paper", "test"),
    ("ours-20-paper", "test"),
    ("winobias-paper", "validation"),
    ("winobias-paper", "test"),
    ("winogender-paper", "test"),
)
#: The columns of a built row that a scored one has too.
_OF_ROW = ["id", "word", "sentence_male", "sentence_female", "max_pmi_diff", "natural"]


def splits(data: Path) -> tuple[Loaded, ...]:
    """The splits of the built data set ``unstereo`` that the six files have scores of, in their order.

    Raises
    ------
    ScoringError
        When they are not built in ``data``.
    """
    manifest = data / "unstereo" / "manifest.json"
    # The checks of six files take as long as the scores of a model; other rows have another manifest.
    version = b""
    if manifest.is_file():
        version = manifest.read_bytes()
    return _splits(data, version)


@lru_cache(maxsize=1)
def _splits(data: Path, _: bytes) -> tuple[Loaded, ...]:
    # One entry: all models of a call have the same rows.
    return tuple(built(data, "unstereo", config, split) for config, split in PLACES)


def score_rows(paths: Sequence[Path], rows: Sequence[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The scores of the six files of a model with the built rows, a table for each file.

    Parameters
    ----------
    rows:
        The built rows of each file, with at least ``id`` and ``word``.

    Raises
    ------
    BrokenFileError
        When a file has other rows than the built data set, or lacks a column or a number.
    """
    import pandas as pd

    for path, released in zip(paths, rows, strict=True):
        try:
            scores = pd.read_csv(path, usecols=["word", "F_logprob", "M_logprob"], keep_default_na=False)
            male = scores["M_logprob"].astype(float)
            female = scores["F_logprob"].astype(float)
        except ValueError as error:
            raise BrokenFileError(f"{path.name} cannot be read ({error}); it is left out.") from None
        # A line has no id; the words in their order say that line and row belong together.
        if scores["word"].tolist() != released["word"].tolist():
            raise BrokenFileError(f"{path} has other rows than the built data set unstereo; build it again.")
        dataset = released["id"].str.partition("-paper")[0]
        yield released.assign(dataset=dataset, male_logprob=male, female_logprob=female)


def table_of(paths: Sequence[Path], loaded: Sequence[Loaded]) -> Table:
    """The scores of a model in the columns of the benchmark, without rows that were judged unnatural."""
    import pandas as pd

    frames = [split.whole.select(_OF_ROW).to_pandas() for split in loaded]
    scored = pd.concat(score_rows(paths, frames), ignore_index=True)
    # An empty cell, as for WinoBias and Winogender, is not judged.
    scored = scored[scored["natural"] != False]  # noqa: E712 - not a truth value where the cell is empty
    table: dict[str, np.ndarray[Any, np.dtype[Any]]] = {}
    for name in ("id", "dataset", "word"):
        table[name] = scored[name].to_numpy(dtype=object)
    # The files have no sentence with *they*.
    for gender in unstereo.GENDERS:
        column = f"sentence_{gender}"
        table[column] = np.full(len(scored), "", dtype=object)
        if column in scored:
            table[column] = scored[column].to_numpy(dtype=object)
    for gender in unstereo.GENDERS:
        column = f"{gender}_logprob"
        table[column] = np.full(len(scored), np.nan)
        if column in scored:
            table[column] = scored[column].to_numpy(np.float64)
    table["max_pmi_diff"] = scored["max_pmi_diff"].to_numpy(np.float64)
    table["natural"] = scored["natural"].astype(float).to_numpy()
    return table


def responses(files: Fetched, data: Path) -> PublishedResponses:
    """The log-probabilities of a model, a row for each pair of sentences."""
    loaded = splits(data)
    return PublishedResponses(table_of(files.paths, loaded), loaded)


PUBLISHED = PublishedSource(
    benchmark="unstereo",
    summary="UnStereoEval: log-probabilities of all sentences by 28 base models, 23 of which are in its tables.",
    settings="The authors of UnStereoEval computed log-probabilities of whole sentences, in 32 bits (Llama-2: 16).",
    files="unstereo-scores",
    read=responses,
    profile="paper",
    datasets=("unstereo",),
)
