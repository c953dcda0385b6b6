"""Gender PMI: the difference of the PMI of each word with *she* and with *he*, in the Pile.

From *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al., 2024),
whose authors counted with the tool of Razeghi et al. (2022).
"""

from functools import cache
from typing import Any

from builders.dataset import BuildError, Drop, Fetched, Files, Row, Rows, content_id, declared
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


_NAMES = ("word", "delta", "count", "frequency")


@cache
def _records(fetched: Fetched) -> tuple[dict[str, Any], ...]:
    """The records of the published table, in the order of the file."""
    records = []
    for row, fields in enumerate(read.table(fetched.path, ("", "word", "pmi_diff", "counts", "freq"))):
        _, word, delta, count, frequency = fields.values()
        try:
            values = word, float(delta), int(count), float(frequency)
        except ValueError as error:
            raise BuildError(
                f"{fetched.path.name}: record {row} ({word!r}) has a field that is not a number ({error}); "
                "the file is not the one this builder reads."
            ) from None
        records.append(dict(zip(_NAMES, values, strict=True)))
    return tuple(records)


@cache
def delta_table(fetched: Fetched) -> DeltaTable:
    """The published table with the 65,912 words that the authors used.

    Raises
    ------
    BuildError
        When a word occurs twice, or a value is not a finite number.
    """
    records = [record for record in _records(fetched) if record["word"] not in _NOT_READ]
    words, deltas, counts = ([record[name] for record in records] for name in _NAMES[:3])
    try:
        return DeltaTable.of(words, deltas, counts, RULE)
    except TableError as error:
        raise BuildError(f"{fetched.path.name}: {error}") from None


def _rows(files: Files) -> Rows:
    fetched = files["unstereo/pmi"]
    used = delta_table(fetched).delta
    for row, record in enumerate(_records(fetched)):
        if record["word"] in used:
            # ascii() gives different ids to spellings that content_id() would normalise to one.
            yield Row("train", content_id("gender-pmi", ascii(record["word"])), fetched.origin(row), record)
        else:
            yield Drop("train", fetched.origin(row), "the authors' reader takes the word for a missing value")


DATASET = declared("gender-pmi", {"words": _rows})
