"""Gender PMI: the difference of the PMI of each word with *she* and with *he*, in the Pile.

From *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al., 2024),
whose authors counted with the tool of Razeghi et al. (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from builders.dataset import BuildError, Config, DataSet, Drop, Fetched, Files, Row, Rows, column, content_id, text
from builders.parsers import read
from pmi.types import CountRule, DeltaTable, TableError

#: The authors' rule of counting, as far as the paper, its repository and the table show it.
RULE = CountRule(
    corpus="the Pile (129,703,637,020 words)",
    window=10,
    tokenizer="lower-cased runs of letters and digits, cut at hyphens but not at apostrophes",
    stop_words="common English words except the six pronouns she, her, hers, he, him and his",
)

# The reader of the authors' notebook treats these two words as missing values.
_NOT_READ = ("nan", "null")


@dataclass(frozen=True, slots=True)
class _Word:
    row: int
    word: str
    delta: float
    count: int
    frequency: float


def _parse(file: str, row: int, fields: dict[str, str]) -> _Word:
    try:
        return _Word(row, fields["word"], float(fields["pmi_diff"]), int(fields["counts"]), float(fields["freq"]))
    except ValueError as error:
        raise BuildError(
            f"{file}: record {row} ({fields['word']!r}) has a field that is not a number ({error}); "
            "the file is not the one this builder reads."
        ) from None


@cache
def _words(fetched: Fetched) -> tuple[_Word, ...]:
    """All records of the published table, in the order of the file."""
    records = read.table(fetched.path, ("", "word", "pmi_diff", "counts", "freq"))
    return tuple(_parse(fetched.path.name, row, fields) for row, fields in enumerate(records))


@cache
def delta_table(fetched: Fetched) -> DeltaTable:
    """The published table with the 65,912 words that the authors used.

    Raises
    ------
    BuildError
        When a word occurs twice, or a value is not a finite number.
    """
    records = [record for record in _words(fetched) if record.word not in _NOT_READ]
    words, deltas, counts = zip(*((r.word, r.delta, r.count) for r in records), strict=True)
    try:
        return DeltaTable.of(words, deltas, counts, RULE)
    except TableError as error:
        raise BuildError(f"{fetched.path.name}: {error}") from None


def _rows(files: Files) -> Rows:
    fetched = files["unstereo/pmi"]
    used = delta_table(fetched).delta
    for record in _words(fetched):
        origin = fetched.origin(record.row)
        if record.word not in used:
            yield Drop("train", origin, "the authors' reader takes the word for a missing value")
            continue
        values = {
            "word": record.word,
            "delta": record.delta,
            "count": record.count,
            "frequency": record.frequency,
        }
        # ascii() gives different ids to spellings that content_id() would normalise to one.
        yield Row("train", content_id("gender-pmi", ascii(record.word)), origin, values)


DATASET = DataSet(
    name="gender-pmi",
    version="1.0.1",
    title="Gender PMI of English words",
    summary=(
        'For each word w, delta = PMI(w, "she") − PMI(w, "he"): above 0 the word co-occurs more with she, below 0 '
        f"with he. Natural logarithm; counted in {RULE.corpus} by windows of {RULE.window} words after removing "
        f"{RULE.stop_words}; words are {RULE.tokenizer}. The count of the word itself cancels out: delta = "
        "ln c(w, she)/c(w, he) − ln c(she)/c(he). A word never seen near one of the two has no delta and no row."
    ),
    validity=(
        "The values describe the co-occurrence with two pronouns in one corpus of 2020, not a meaning or a norm. Those "
        "of rare words rest on few windows, and the table has no intervals. The tokens are as counted: numbers, halves "
        "of words cut by a soft hyphen, and wrongly decoded characters are among them. Nothing is said of they."
    ),
    differences=(
        "The published file has 65,914 records. The words nan and null are dropped, as the authors' own reader drops "
        "them; 65,912 remain, the number they used.",
    ),
    configs=(
        Config(
            "words",
            "65,912 words with their delta, how often each occurs, and that count as a share of all words.",
            "LicenseRef-None-Stated",
            (
                text("word"),
                column("delta", pa.float64()),
                column("count", pa.int64()),
                column("frequency", pa.float64()),
            ),
            _rows,
            sources=("unstereo/pmi",),
            splits=("train",),
        ),
    ),
)
