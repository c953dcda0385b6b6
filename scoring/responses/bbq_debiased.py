"""BBQ, gender: probabilities of the letters of Llama-8B, plain, under seven debiasing prompts and after a fine-tuning.

From ``chahatraj/DebiasItYourself`` (commit 09bf496). By the names of the files, a prompt defines a strategy against
prejudice with one example: counter imaging, individuating, positive contact or stereotype replacement. It begins with
the strategy or with the testing, as in ``llama-8b/individuating-testing``. The files do not have its words.

Each question was asked once, with the answers in the order of the data, so a preference for a letter is in the scores.
"""

import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from scoring.benchmarks import _bbq
from scoring.inputs.tables import as_table
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, built, records
from scoring.types import Benchmark, Floats

_ANSWERS = ("ans0", "ans1", "ans2")
_COLUMNS = ("example_id", "context", "question", *_ANSWERS, "option_probs")


def responses(files: Fetched, data: Path) -> PublishedResponses:
    """The share of each answer is the probability of its letter, for the questions of the built data set."""
    name = files.path.name
    by_id = {f"bbq-{record['example_id']}": record for record in records(files.path, _COLUMNS)}
    split = built(data, "bbq", "gender")
    lines = []
    for row in split.rows:
        # Both people of the question are of one gender.
        if row["biased"] is None:
            continue
        record = by_id.get(row["id"])
        asked = record and (record["context"], record["question"], [record[answer] for answer in _ANSWERS])
        if record is None or asked != (row["context"], row["question"], list(row["answers"])):
            raise BrokenFileError(f"{name} has other questions than the data set, such as at {row['id']}; left out.")
        shares = _shares(record["option_probs"], name)
        biased, other = _bbq.people(row)
        line = _bbq.about(row) | _bbq.counts("", row, shares)
        line |= {"p_biased": float(shares[biased]), "p_other": float(shares[other])}
        lines.append(line)
    remarks: tuple[str, ...] = ()
    if len(by_id) > len(split.rows):
        remarks = (f"{len(by_id) - len(split.rows):,} of {len(by_id):,} questions are not in the built data set.",)
    return PublishedResponses(as_table(lines), (split,), remarks)


def _shares(text: str, name: str) -> Floats:
    """The probabilities of the three letters [3], which a file has as the text of a Python mapping.

    >>> _shares("{'A': 0.5, 'B': 0.25, 'C': 0.25}", "a.csv")
    array([0.5 , 0.25, 0.25])
    """
    try:
        chances = ast.literal_eval(text)
        shares = np.array([float(chances[letter]) for letter in _bbq.LETTERS])
    except (ValueError, SyntaxError, KeyError, TypeError):
        shares = np.zeros(3)
    if not math.isclose(shares.sum(), 1, abs_tol=1e-3) or (shares < 0).any():
        raise BrokenFileError(f"{name} has {text[:60]!r} in place of the probabilities of A, B and C; left out.")
    return shares


def asked(benchmark: Benchmark) -> Benchmark:
    """The benchmark with one way to ask: each letter once."""
    return replace(benchmark, metrics=lambda _: _bbq.metrics("paper"))


PUBLISHED = PublishedSource(
    benchmark="bbq",
    summary="BBQ, gender: Llama-8B plain, under seven debiasing prompts and after a fine-tuning.",
    settings="Others computed the probabilities of A, B and C (commit 09bf496), with one order of the answers. The "
    "prompts are not in the files.",
    files="bbq-debiased",
    read=responses,
    datasets=("bbq",),
    asked=asked,
    note="The model says that it cannot be known in nine of ten questions whose text has the answer. So a bias score "
    "near 0 in ambiguous contexts says little: read it together with the accuracy in disambiguated ones.",
)
