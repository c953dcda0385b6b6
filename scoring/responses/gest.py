"""Predictions of 34 models on GEST, which its authors published: a logarithm of a ratio for each sentence.

A file has a line for each sentence of the first release, in its order, with log10(P(male word) / P(female word)); a
model has a file for each wording, two for a causal and four for a masked model. The published code shows that the
logarithms are decimal ones (``generative_score`` and ``masked_logprob_score``); the table has natural ones.
"""

import math
from pathlib import Path

from builders.dataset import Fetched
from builders.datasets.gest import row_id
from builders.parsers import read
from scoring.benchmarks import gest
from scoring.inputs.tables import as_table
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, built
from scoring.types import Line, Row

#: The wordings of the files of a model by their number, which is that of the file.
CAUSAL: tuple[str, ...] = ("he-last", "man-last")
MASKED = ("he-first", "man-first", "he-last", "man-last")


def ratios(path: Path, sentences: int) -> list[float]:
    """The natural logarithms of the ratios in a file.

    Raises
    ------
    BrokenFileError
        When a line is no finite number, or there are more or fewer lines than sentences.
    """
    lines = read.lines(path)
    # Lines have no ids, so a missing one would shift all after it to other sentences.
    if len(lines) != sentences:
        raise BrokenFileError(f"{path.name} has {len(lines)} lines, and GEST {sentences} sentences; it is left out.")
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BrokenFileError(f"{path.name} line {number} is {line!r} and no finite number; it is left out.")
        # From decimal to natural logarithms.
        values.append(value * math.log(10))
    return values


def lines_of(rows: dict[str, Row], wording: str, values: list[float]) -> list[Line]:
    """A line of the table for each sentence in a wording."""
    lines = []
    for number, value in enumerate(values):
        row = rows[row_id(number)]
        asked = {**row, "id": f"{row['id']}/{wording}", "item": row["id"], "wording": wording}
        # The files have the ratio alone, not the probabilities of both words.
        lines.append({**gest.about("paper", asked), "log_ratio": value})
    return lines


def responses(files: Fetched, data: Path) -> PublishedResponses:
    """The log-ratios of a model, a row for each sentence and wording; a broken file is left out with a remark."""
    split = built(data, "gest", "sentences")
    rows = {row["id"]: row for row in split.rows}
    # A causal model is asked only where the gendered word comes last, after the sentence that it may depend on.
    wordings = CAUSAL
    if len(files.paths) > len(CAUSAL):
        wordings = MASKED
    lines = []
    remarks = []
    for path, wording in zip(files.paths, wordings, strict=True):
        try:
            lines += lines_of(rows, wording, ratios(path, len(rows)))
        except BrokenFileError as error:
            remarks.append(str(error))
    if not lines:
        raise BrokenFileError(" ".join(remarks))
    return PublishedResponses(as_table(lines), (split,), tuple(remarks))


PUBLISHED = PublishedSource(
    benchmark="gest",
    summary="GEST: predictions of 23 causal models in 2 wordings and of 11 masked models in 4.",
    settings="The authors of GEST computed these probabilities. Causal models of 7 billion parameters and more ran in "
    "16 bits or 8 bits, the others in 32.",
    files="gest-predictions",
    read=responses,
    profile="paper",
    datasets=("gest",),
)
