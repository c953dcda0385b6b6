"""δ by word, from wherever a table of it is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pmi.analysis.analyse import META
from pmi.counting.counts import Counts
from pmi.files import ENDINGS, FileFault, read_rows
from pmi.types import SHE_HE, CountRule, DeltaTable, Pair, TableError

_COLUMNS = ("word", "delta", "count")
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(?:@([\w./-]+))?")


def delta_table(source: str | Path, pairs: Pair | Sequence[Pair] | None = None) -> DeltaTable:
    """δ of words from a file, a folder or the Hub.

    Parameters
    ----------
    source:
        A file that ``python -m pmi count`` or ``python -m pmi table`` wrote, another file with the columns
        word, delta and count, the folder of the built data set gender-pmi, or its name on the Hub
        (``ORG/gender-pmi`` or ``ORG/gender-pmi@REVISION``). What is on this machine comes first.
    pairs:
        What δ compares, where the source is a table of counts; elsewhere it is fixed. *She* and *he* by default.

    Raises
    ------
    PmiError
        When there is no such table, it has other columns, or its δ cannot be of those pairs.
    """
    path = Path(source)
    if path.is_dir():
        return _of_folder(path, pairs)
    if not path.is_file() and path.suffix not in ENDINGS and (name := _HUB.fullmatch(str(source))):
        return _of_rows(_from_hub(str(source), name[1]), str(source), _published(str(source)), pairs)
    if counts := read_counts(path):
        return counts.delta(SHE_HE if pairs is None else pairs)
    return _of_rows(read_rows(path), str(path), _published(path.name), pairs)


def read_counts(source: str | Path) -> Counts | None:
    """The counts of a file that ``python -m pmi count`` wrote; None for everything else, readable or not."""
    try:
        names = pq.read_schema(source).names
    except (OSError, pa.ArrowInvalid):
        return None
    return Counts.read(source) if names[:2] == ["word", "count"] and "delta" not in names else None


def _of_folder(folder: Path, pairs: Pair | Sequence[Pair] | None) -> DeltaTable:
    files = sorted((folder / "data" / "words").glob("*.parquet"))
    if len(files) != 1:
        raise TableError(
            f"{folder} holds no table of words (data/words/*.parquet); give the folder of the data set gender-pmi, "
            "or a file."
        )
    return _of_rows(read_rows(files[0]), str(folder), _published(folder.name), pairs)


def _from_hub(name: str, revision: str | None) -> pa.Table:
    from datasets import load_dataset

    try:
        return load_dataset(name.partition("@")[0], "words", split="train", revision=revision).data.table
    except Exception as error:  # the Hub's client raises errors of a dozen kinds
        told = " ".join(str(error).split())[:200].rstrip(".")
        raise FileFault(f"{name} is no file here and was not loaded from the Hub ({told}); give a file.") from None


def _published(name: str) -> CountRule:
    """What is known of a table that does not say how it was counted."""
    return CountRule(corpus=f"as {name} says", window=10, tokenizer="not told", stop_words="not told")


def _of_rows(rows: pa.Table, name: str, rule: CountRule, pairs: Pair | Sequence[Pair] | None) -> DeltaTable:
    lacking = [column for column in _COLUMNS if column not in rows.column_names]
    if lacking:
        raise TableError(
            f"{name} has no column {lacking[0]!r}; a table of δ has {', '.join(_COLUMNS)}, and a table of counts is "
            "made by python -m pmi count."
        )
    made: dict[str, Any] = json.loads((rows.schema.metadata or {}).get(META, b"{}"))
    own = tuple(Pair(**pair) for pair in made.get("pairs", [])) or (SHE_HE,)
    asked = (pairs,) if isinstance(pairs, Pair) else pairs
    if asked is not None and tuple(asked) != own:
        there = ",".join(f"{pair.first}:{pair.second}" for pair in own)
        raise TableError(f"The δ of {name} is that of {there}; give a table of counts to compare other pairs.")
    if "rule" in made:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in made["rule"].items()}
        rule = CountRule(**fields)
    if pa.types.is_string(rows.schema.field("delta").type):  # CSV, where an undefined value is empty
        rows = rows.filter(pc.not_equal(rows["delta"], ""))
    try:
        known = rows.select(_COLUMNS).cast(
            pa.schema(zip(_COLUMNS, (pa.string(), pa.float64(), pa.int64()), strict=True))
        )
    except pa.ArrowInvalid as error:
        raise TableError(f"{name} has a value that is no number ({error}); mend the table.") from None
    known = known.filter(pc.is_valid(known["delta"]))
    try:
        return DeltaTable.of(
            known["word"].to_pylist(), known["delta"].to_pylist(), known["count"].to_pylist(), rule, own
        )
    except TableError as error:
        raise TableError(f"{name}: {error}") from None
