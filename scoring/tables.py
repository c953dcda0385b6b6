"""Built data sets, from a folder of this machine or from the Hub."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from builders import datasets
from builders.dataset import BuildError
from builders.manifest import file_sha256, read_manifest
from builders.publish.restore import lacking, restored
from builders.write import content_digest
from cards.results import UNPUBLISHED
from scoring.types import DATA, Benchmark, Row, ScoringError, Table

_ORGANISATION = re.compile(r"hub:(\w[\w.-]*)(?:@([\w./-]+))?")


class DataMissing(ScoringError):
    """A split does not exist; ``name`` is its ``dataset/config/split``."""

    exit_code = 2

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows of one split.

    ``name`` is ``dataset/config/split``, and ``version`` has the version and the hash of the rows. Every row has
    the columns ``config`` and ``split`` besides its own. ``whole`` is the split as it was before rows were drawn, and
    ``note`` says from where text was restored that may not be published.
    """

    name: str
    version: str
    rows: tuple[Row, ...]
    whole: pa.Table = field(repr=False, compare=False)
    note: str = ""


def load(source: str, dataset: str, config: str, split: str, limit: int | None = None) -> Loaded:
    """Reads one split of a built data set.

    Parameters
    ----------
    source:
        A folder that ``probes build --out`` wrote, or ``hub:ORG`` or ``hub:ORG@REVISION``, an organisation of the
        Hub that the data sets were published under.
    limit:
        The number of rows to take, drawn from the whole split, always the same ones.

    Raises
    ------
    DataMissing
        When there is no such data set, config or split.
    ScoringError
        When a file is not the one of its manifest.
    """
    table, version, note = (_hub if _ORGANISATION.fullmatch(source) else _local)(source, dataset, config, split)
    return replace(_loaded(table, version, dataset, config, split, limit), note=note)


def given(rows: Iterable[Row], dataset: str, config: str, split: str, limit: int | None = None) -> Loaded:
    """The rows of a benchmark that has its rows itself, as :func:`load` gives those of a built data set.

    >>> given([{"id": "a"}, {"id": "b"}], "mine", "all", "test").rows[1]
    {'id': 'b', 'config': 'all', 'split': 'test'}
    """
    table = pa.Table.from_pylist([dict(row) for row in rows])
    return _loaded(table, f"{UNPUBLISHED} sha256:{content_digest(table)}", dataset, config, split, limit)


def of_benchmark(
    benchmark: Benchmark, source: str, dataset: str, config: str, split: str, limit: int | None = None
) -> Loaded:
    """One split that a benchmark reads: its own rows (:func:`given`), or those of a built data set (:func:`load`)."""
    if benchmark.rows:
        found = given(benchmark.rows(dataset, config, split), dataset, config, split, limit)
    else:
        found = load(source, dataset, config, split, limit)
    return replace(found, rows=tuple(chain.from_iterable(map(benchmark.each, found.rows)))) if benchmark.each else found


def _loaded(table: pa.Table, version: str, dataset: str, config: str, split: str, limit: int | None) -> Loaded:
    names = {"config": config, "split": split}
    drawn = table
    if limit is not None and limit < table.num_rows:
        # Not every n-th row: rows may repeat a pattern, such as one row a job.
        drawn = table.take(sorted(random.Random(0).sample(range(table.num_rows), limit)))
    rows = tuple(row | names for row in drawn.to_pylist())
    note = "" if len(rows) == table.num_rows else f", {len(rows)} of {table.num_rows} rows"
    return Loaded(f"{dataset}/{config}/{split}", version + note, rows, table)


def _local(source: str, dataset: str, config: str, split: str) -> tuple[pa.Table, str, str]:
    folder, name = Path(source) / dataset, f"{dataset}/{config}/{split}"
    again = f"run probes build {dataset} --out {source}"
    if source.startswith("hub:"):
        raise ScoringError(f"{source} names no organisation of the Hub; give hub:ORG or hub:ORG@REVISION.")
    if not Path(source).is_dir() and source != DATA:
        raise DataMissing(name, f"There is no folder {source}; {again}, or give --data another folder or hub:ORG.")
    try:
        manifest = read_manifest(folder)
    except BuildError as error:
        raise ScoringError(str(error)) from None
    if manifest is None:
        raise DataMissing(
            name,
            f"There is no built data set {dataset} in {source}; {again}, or give --data another folder or hub:ORG.",
        )
    entry = manifest.configs[config].splits.get(split) if config in manifest.configs else None
    if entry is None:
        reason = manifest.left_out.get(config, "it was not built")
        message = f"{folder} lacks {config}/{split} ({reason.rstrip('.')}); {again} with its sources at hand."
        raise DataMissing(name, message)
    path = folder / entry.file
    if not path.is_file() or file_sha256(path) != entry.sha256:
        raise ScoringError(f"{path} is not the file that its manifest describes; {again} to put it right.")
    return pq.read_table(path), f"{manifest.version} sha256:{entry.content}", ""


def _hub(source: str, dataset: str, config: str, split: str) -> tuple[pa.Table, str, str]:
    from datasets import load_dataset  # slow to import, and not needed for a folder

    organisation, _, revision = source.removeprefix("hub:").partition("@")
    name = f"{organisation}/{dataset}"
    try:
        table = load_dataset(name, config, split=split, revision=revision or None).with_format("arrow")[:]
    except (OSError, ValueError) as error:
        raise DataMissing(
            f"{dataset}/{config}/{split}",
            f"{name} with {config}/{split} could not be had from the Hub ({type(error).__name__}); give --data another "
            "organisation, or a folder that probes build wrote.",
        ) from None
    note = ""
    try:
        if lacking(table.column_names):
            table = restored(table, dataset, config)
            (licence,) = (own.licence for own in datasets.get(dataset).configs if own.name == config)
            note = (
                f"The text of {dataset}/{config} is not on the Hub, because of its licence ({licence}), and was read "
            )
            note += "from its source; do not publish it."
    except BuildError as error:
        raise DataMissing(f"{dataset}/{config}/{split}", str(error)) from None
    return table, f"{revision or 'main'} sha256:{content_digest(table)}", note


def as_table(lines: Iterable[dict[str, Any]]) -> Table:
    """Lines with the same keys, as columns; None in a column of numbers becomes NaN.

    >>> as_table([{"id": "a", "p": 0.5}, {"id": "b", "p": None}])["p"]
    array([0.5, nan])
    """
    rows = list(lines)
    return {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _column(values: Sequence[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    kinds = set(map(type, values))
    lacking = type(None) in kinds
    if any(issubclass(kind, str) for kind in kinds):
        # Objects, because an array of fixed width takes the memory of the longest text for every text.
        return np.array(["" if v is None else v for v in values] if lacking else values, dtype=object)
    if lacking or any(issubclass(kind, float) for kind in kinds):
        return np.array(values, dtype=np.float64)
    return np.array(values)
