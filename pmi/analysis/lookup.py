"""Reads δ by word from a file, a data-set folder or the Hub."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cards.common.files import RECORD, file_sha256, is_damaged
from pmi.analysis.table import METADATA_KEY
from pmi.counting.counts import Counts, rule_from_json
from pmi.files import ENDINGS, FileError, read_rows
from pmi.types import SHE_HE, CountRule, DeltaTable, GenderedPair, TableError, as_pairs

_COLUMNS = ("word", "delta", "count")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(?:@([\w./-]+))?")

TABLE_HELP = "Counts, a table of δ, the folder of the data set gender-pmi, or its name on the Hub."


def delta_table(source: str | Path, pairs: GenderedPair | Sequence[GenderedPair] | None = None) -> DeltaTable:
    """δ of words from a file, a folder or the Hub.

    Parameters
    ----------
    source:
        A file that ``probes pmi count`` or ``probes pmi table`` wrote, another file with the columns
        word, delta and count, the folder of the built data set gender-pmi, or its name on the Hub
        (``ORG/gender-pmi`` or ``ORG/gender-pmi@REVISION``). A file or folder of that name comes first.
    pairs:
        The gendered words that δ compares, *she* and *he* by default. Only a table of counts leaves the choice.

    Raises
    ------
    PmiError
        When there is no such table, it has other columns, or its δ is not that of ``pairs``.
    """
    path = Path(source)
    if path.is_dir():
        return _from_folder(path, pairs)
    if not path.exists() and not path.suffix and path.parent != Path() and path.parent.is_dir():
        # The Hub would take long to say that it has no such data set.
        raise FileError(f"{source} is not there; give a table of words, or build one with: probes build gender-pmi.")
    if not path.is_file() and path.suffix not in ENDINGS and (name := _HUB_NAME.fullmatch(str(source))):
        return _from_rows(_from_hub(str(source), name[1]), str(source), _unknown_rule(str(source)), pairs)
    counts = read_counts(path)
    if counts:
        return counts.delta(SHE_HE if pairs is None else pairs)
    # Only what this program wrote is listed; a table of somebody else is read as it is.
    if is_damaged(path.parent, path.name):
        raise TableError(
            f"{path} is not as it was written ({RECORD} in its folder has another checksum); make it again with pmi "
            "table, or give it another name if you changed it yourself."
        )
    return _from_rows(read_rows(path), str(path), _unknown_rule(path.name), pairs)


def read_counts(source: str | Path) -> Counts | None:
    """The counts in a file that ``probes pmi count`` wrote; None for any other file."""
    try:
        names = pq.read_schema(source).names
    except (OSError, pa.ArrowException):
        return None
    # A table of δ begins with the same two columns.
    if names[:2] != ["word", "count"] or "delta" in names:
        return None
    return Counts.read(source)


def _from_folder(folder: Path, pairs: GenderedPair | Sequence[GenderedPair] | None) -> DeltaTable:
    files = sorted((folder / "data" / "words").glob("*.parquet"))
    if len(files) != 1:
        raise TableError(
            f"{folder} holds no table of words (data/words/*.parquet); give the folder of the data set gender-pmi, "
            "or a file."
        )
    _check_manifest(folder, files[0])
    return _from_rows(read_rows(files[0]), str(folder), _unknown_rule(folder.name), pairs)


def _check_manifest(folder: Path, path: Path) -> None:
    """Refuses a table of words that is not the one of the manifest, as the readers of all data sets do."""
    try:
        splits = json.loads((folder / "manifest.json").read_bytes())["configs"]["words"]["splits"].values()
        stated = [split["sha256"] for split in splits if folder / split["file"] == path]
        whole = stated == [file_sha256(path)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise TableError(f"{path} is not the file that {folder / 'manifest.json'} describes; build the data set again.")


def _from_hub(name: str, revision: str | None) -> pa.Table:
    from datasets import load_dataset

    try:
        return load_dataset(name.partition("@")[0], "words", split="train", revision=revision).data.table
    except Exception as error:  # the Hub's client raises errors of many types
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise FileError(
            f"{name} is not a file and was not loaded from the Hub ({reason}); give a file, or build the data set: "
            "probes build gender-pmi."
        ) from None


def _unknown_rule(name: str) -> CountRule:
    """The rule of a table that does not say how it was counted."""
    return CountRule(corpus=f"as {name} says", window=10, tokenizer="unknown", stop_words="unknown")


def _from_rows(
    rows: pa.Table, name: str, rule: CountRule, pairs: GenderedPair | Sequence[GenderedPair] | None
) -> DeltaTable:
    missing = [column for column in _COLUMNS if column not in rows.column_names]
    if missing:
        raise TableError(
            f"{name} has no column {missing[0]!r}; a table of δ has {', '.join(_COLUMNS)}, and a table of counts is "
            "made by probes pmi count."
        )
    metadata: dict[str, Any] = json.loads((rows.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    # A table that does not name its pairs compares she and he.
    table_pairs: tuple[GenderedPair, ...] = (SHE_HE,)
    if metadata.get("pairs"):
        table_pairs = tuple(GenderedPair(**pair) for pair in metadata["pairs"])
    if pairs is not None and as_pairs(pairs) != table_pairs:
        names = ",".join(f"{pair.first}:{pair.second}" for pair in table_pairs)
        raise TableError(f"The δ of {name} is that of {names}; give a table of counts to compare other pairs.")
    if "rule" in metadata:
        rule = rule_from_json(metadata["rule"])
    if pa.types.is_string(rows.schema.field("delta").type):  # CSV, where an undefined value is empty
        rows = rows.filter(pc.not_equal(rows["delta"], ""))
    schema = pa.schema([("word", pa.string()), ("delta", pa.float64()), ("count", pa.int64())])
    try:
        typed = rows.select(_COLUMNS).cast(schema)
    except pa.ArrowException as error:
        raise TableError(f"{name} has a value that is not a number ({error}); correct the table.") from None
    defined = typed.filter(pc.is_valid(typed["delta"]))
    try:
        words, delta, counts = (defined[column].to_pylist() for column in _COLUMNS)
        return DeltaTable.of(words, delta, counts, rule, table_pairs)
    except TableError as error:
        raise TableError(f"{name}: {error}") from None
