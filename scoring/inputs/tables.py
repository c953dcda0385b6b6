"""Built data sets, from a folder of this machine or from the Hub."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from builders import datasets
from builders.dataset import BuildError
from builders.files.manifest import file_sha256, read_manifest
from builders.files.write import content_digest
from builders.publish.restore import lacking, restored
from cards.results import UNPUBLISHED
from scoring.inputs.columns import Columns
from scoring.types import DATA, Benchmark, Line, Row, ScoringError, Table

_ORGANISATION = re.compile(r"hub:(\w[\w.-]*)(?:@([\w./-]+))?")


class DataMissing(ScoringError):
    """A split does not exist; ``name`` is its ``dataset/config/split``."""

    exit_code = 2

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class TableFile:
    """A Parquet file as a table that is read in parts, so that its length takes no memory.

    Raises
    ------
    ScoringError
        When it is read after the file was changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state = self._now()
        with pq.ParquetFile(path) as file:
            self.num_rows: int = file.metadata.num_rows

    def _now(self) -> tuple[int, int, int]:
        state = self.path.stat()
        # A file that is replaced has another inode, one that is written into another size or time.
        return state.st_ino, state.st_size, state.st_mtime_ns

    def to_batches(self, max_chunksize: int) -> Iterator[pa.RecordBatch]:
        """The rows in parts."""
        with self._opened() as file:
            yield from file.iter_batches(batch_size=max_chunksize)

    def column(self, name: str) -> pa.ChunkedArray:
        """The values of a column."""
        with self._opened() as file:
            return file.read([name]).column(name)

    def select(self, names: Sequence[str]) -> pa.Table:
        """Some columns, in memory."""
        with self._opened() as file:
            return file.read(list(names))

    def to_pandas(self) -> Any:
        """The whole table as a DataFrame, in memory."""
        with self._opened() as file:
            return file.read().to_pandas()

    def take(self, places: Sequence[int]) -> pa.Table:
        """Some rows, in ascending order."""
        parts = []
        start = 0
        for batch in self.to_batches(1 << 16):
            # Batch by batch, so that only the rows that are taken are in memory.
            inside = [place - start for place in places if start <= place < start + len(batch)]
            # Slices, because an array of places imports pandas, which takes a second.
            parts.append(batch.slice(0, 0))  # has the columns where no row is taken
            parts += [batch.slice(place, 1) for place in inside]
            start += len(batch)
        return pa.Table.from_batches(parts).combine_chunks()

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        try:
            if self._now() != self._state:
                raise ScoringError(f"{self.path} was changed while it was read; start the same command again.")
            with pq.ParquetFile(self.path) as file:
                yield file
        except OSError as error:
            raise ScoringError(
                f"{self.path} cannot be read ({type(error).__name__}); start the same command again."
            ) from None


class Rows(Sequence[Row]):
    """The rows of a table with further ``names`` in each, made when they are read: a table takes a tenth of the memory.

    ``each(row)`` gives the rows that are asked in place of one.

    >>> rows = Rows(pa.table({"id": ["a", "b"]}), {"split": "test"}, lambda row: [row, row])
    >>> len(rows), rows[3]
    (4, {'id': 'b', 'split': 'test'})
    """

    #: Rows that are made at one time.
    MADE = 1000

    def __init__(
        self, table: pa.Table | TableFile, names: Mapping[str, str], each: Callable[[Row], Iterable[Row]] | None = None
    ) -> None:
        self.table, self.names, self.each = table, names, each

    def __iter__(self) -> Iterator[Row]:
        for batch in self.table.to_batches(max_chunksize=self.MADE):
            for row in batch.to_pylist():
                named = row | self.names
                if self.each:
                    yield from self.each(named)
                else:
                    yield named

    def __len__(self) -> int:
        if self.each:
            # Only the rows say how many each of them makes.
            return sum(1 for _ in self)
        return int(self.table.num_rows)

    def sample(self, blocks: int, size: int) -> tuple[list[Row], int]:
        """Blocks of neighbouring rows from all over the table, and how many rows there are about in all.

        >>> rows = Rows(pa.table({"id": list("abcdefgh")}), {}, lambda row: [row, row])
        >>> [row["id"] for row in rows.sample(2, 1)[0]], rows.sample(2, 1)[1]
        (['a', 'a', 'e', 'e'], 16)
        """
        count = int(self.table.num_rows)
        places = sorted({min(count * block // blocks + n, count - 1) for block in range(blocks) for n in range(size)})
        if not count:
            return [], 0
        rows = list(Rows(self.table.take(places), self.names, self.each))
        return rows, round(count * len(rows) / max(len(places), 1))

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # rows are dictionaries, which have no hash


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows of one split.

    ``name`` is ``dataset/config/split``, and ``version`` has the version and the hash of the rows. Every row has
    the columns ``config`` and ``split`` besides its own. ``whole`` is the split as it was before rows were drawn, and
    ``note`` says from where text was restored that may not be published.
    """

    name: str
    version: str
    rows: Rows
    whole: pa.Table | TableFile = field(repr=False, compare=False)
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
    table: pa.Table | TableFile
    if _ORGANISATION.fullmatch(source):
        table, version, note = _hub(source, dataset, config, split)
    else:
        table, version, note = _local(source, dataset, config, split)
    return replace(_loaded(table, version, dataset, config, split, limit), note=note)


def given(rows: Iterable[Row], dataset: str, config: str, split: str, limit: int | None = None) -> Loaded:
    """The rows of a benchmark that has its rows itself, as :func:`load` gives those of a built data set.

    >>> given([{"id": "a"}, {"id": "b"}], "mine", "all", "test").rows[1]
    {'id': 'b', 'config': 'all', 'split': 'test'}
    """
    table = pa.Table.from_pylist([dict(row) for row in rows])
    return _loaded(table, f"{UNPUBLISHED} sha256:{content_digest(table)}", dataset, config, split, limit)


def of_benchmark(
    benchmark: Benchmark,
    source: str,
    dataset: str,
    config: str,
    split: str,
    limit: int | None = None,
    groups: Literal["headline", "all"] = "all",
) -> Loaded:
    """One split that a benchmark reads: its own rows (:func:`given`), or those of a built data set (:func:`load`).

    With ``groups`` as ``headline`` the rows beyond the headline (:attr:`Benchmark.beyond`) are not asked. ``limit``
    rows are drawn as :func:`drawn` says.
    """
    if benchmark.rows:
        loaded = given(benchmark.rows(dataset, config, split), dataset, config, split)
    else:
        loaded = load(source, dataset, config, split)
    table, version = loaded.rows.table, loaded.version
    each = benchmark.each
    beyond = benchmark.beyond if groups == "headline" else None
    if limit is not None and limit < table.num_rows:
        first, others = [], []
        for place, row in enumerate(loaded.rows):
            cluster, stratum = str(place), ""
            if benchmark.sample:
                cluster, stratum = benchmark.sample(row)
            if benchmark.beyond and benchmark.beyond(row):
                others.append((place, cluster, stratum))
            else:
                first.append((place, cluster, stratum))
        # Rows beyond the headline are drawn only where all of its own are.
        places = drawn(first, limit, whole=bool(benchmark.rows))
        if beyond is None and len(places) < limit:
            places = sorted([*places, *drawn(others, limit - len(places), whole=bool(benchmark.rows))])
        # A part of the rows is another version of the data: runs of both cannot be compared.
        version += f", {len(places)} of {table.num_rows} rows"
        table = table.take(places)
    elif beyond is not None:
        each = _without(beyond, each)
    return replace(loaded, version=version, rows=Rows(table, loaded.rows.names, each))


def _without(
    beyond: Callable[[Row], bool], each: Callable[[Row], Iterable[Row]] | None
) -> Callable[[Row], Iterable[Row]]:
    """The rows that are asked in place of one: none for a row beyond the headline."""

    def chosen(row: Row) -> Iterable[Row]:
        if beyond(row):
            return ()
        if each:
            return each(row)
        return (row,)

    return chosen


def drawn(rows: Sequence[tuple[int, str, str]], limit: int, *, whole: bool = False) -> list[int]:
    """The places of ``limit`` rows, always the same ones: of as many clusters as possible, and of all strata.

    Parameters
    ----------
    rows:
        The place of each row, its cluster and its stratum. Clusters are drawn so that each stratum has its share of
        them. A second row of a cluster is taken when each has one.
    whole:
        Clusters are taken as a whole, as the two prompts of a pair: at least one, and at most ``limit`` rows.

    >>> rows = [(place, f"job {place // 3}", "women" if place < 6 else "men") for place in range(12)]
    >>> [place // 3 for place in drawn(rows, 4)], len(drawn(rows, 2)), len(drawn(rows, 7, whole=True))
    ([0, 1, 2, 3], 2, 6)
    """
    stream = random.Random(0)
    shuffled = list(rows)
    stream.shuffle(shuffled)
    # A cluster is in the stratum of its first row.
    clusters: dict[str, list[int]] = {}
    strata: dict[str, list[str]] = {}
    for place, cluster, stratum in shuffled:
        if cluster not in clusters:
            strata.setdefault(stratum, []).append(cluster)
        clusters.setdefault(cluster, []).append(place)
    # The r-th of n clusters of a stratum stands at (r + 1/2) / n, so each beginning of the order has all strata in
    # their proportions.
    positions = []
    for stratum, names in strata.items():
        for rank, name in enumerate(names):
            positions.append(((rank + 0.5) / len(names), stratum, name))
    order = [name for _, _, name in sorted(positions)]
    chosen: list[int] = []
    if whole:
        for name in order:
            if not chosen or len(chosen) + len(clusters[name]) <= limit:
                chosen += clusters[name]
        return sorted(chosen)
    for turn in range(max(map(len, clusters.values()), default=0)):
        for name in order:
            if turn < len(clusters[name]) and len(chosen) < limit:
                chosen.append(clusters[name][turn])
    return sorted(chosen)


def _loaded(
    table: pa.Table | TableFile, version: str, dataset: str, config: str, split: str, limit: int | None
) -> Loaded:
    names = {"config": config, "split": split}
    drawn = table
    if limit is not None and limit < table.num_rows:
        # Not every n-th row: rows may repeat a pattern, such as one row a job.
        drawn = table.take(sorted(random.Random(0).sample(range(table.num_rows), limit)))
    rows = Rows(drawn, names)
    # A part of the rows is another version of the data: runs of both cannot be compared.
    if len(rows) != table.num_rows:
        version += f", {len(rows)} of {table.num_rows} rows"
    return Loaded(f"{dataset}/{config}/{split}", version, rows, table)


def _local(source: str, dataset: str, config: str, split: str) -> tuple[TableFile, str, str]:
    folder, name = Path(source) / dataset, f"{dataset}/{config}/{split}"
    source = source or "."
    again = f"run probes build {dataset} --out {source}"
    # What begins so and is no organisation would else be taken for a folder.
    if source.startswith("hub:"):
        raise ScoringError(f"{source} names no organisation of the Hub; give hub:ORG or hub:ORG@REVISION.")
    # The default folder may not be there before the first build; then the sentence names the data set.
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
    # Scores name the data by the manifest, so other bytes under its name would be a wrong statement.
    if not path.is_file() or file_sha256(path) != entry.sha256:
        raise ScoringError(f"{path} is not the file that its manifest describes; {again} to put it right.")
    return TableFile(path), f"{manifest.version} sha256:{entry.content}", ""


def _hub(source: str, dataset: str, config: str, split: str) -> tuple[pa.Table, str, str]:
    from datasets import load_dataset  # slow to import, and not needed for a folder

    organisation, _, revision = source.removeprefix("hub:").partition("@")
    name = f"{organisation}/{dataset}"
    try:
        table = load_dataset(name, config, split=split, revision=revision or None).with_format("arrow")[:]
    except (OSError, ValueError) as error:
        raise DataMissing(
            f"{dataset}/{config}/{split}",
            f"{name} with {config}/{split} could not be downloaded from the Hub ({type(error).__name__}); give --data "
            "another organisation, or a folder that probes build wrote.",
        ) from None
    note = ""
    try:
        # A licence may forbid to publish a text; then the Hub has the rows without it.
        if lacking(table.column_names):
            table = restored(table, dataset, config)
            (licence,) = (entry.licence for entry in datasets.get(dataset).configs if entry.name == config)
            note = (
                f"The text of {dataset}/{config} is not on the Hub, because of its licence ({licence}), and was read "
                "from its source; do not publish it."
            )
    except BuildError as error:
        raise DataMissing(f"{dataset}/{config}/{split}", str(error)) from None
    return table, f"{revision or 'main'} sha256:{content_digest(table)}", note


def as_table(lines: Iterable[Line]) -> Table:
    """Lines with the same keys, as columns; None in a column of numbers becomes NaN.

    >>> as_table([{"id": "a", "p": 0.5}, {"id": "b", "p": None}])["p"]
    array([0.5, nan])
    """
    columns = Columns()
    for line in lines:
        columns.add(line)
    return columns.table()
