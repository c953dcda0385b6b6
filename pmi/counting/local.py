"""Counts a corpus on one machine: one process per core, one file at a time. Finished files are not read again."""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cards.common.text import without_home
from pmi.counting.corpus import CorpusError, Format, Shard, shards
from pmi.counting.counts import Counts, contents, merge, write_counts
from pmi.counting.reading import MAX_WINDOW, read, records
from pmi.counting.scanner import Scanner
from pmi.types import THEY_FORMS, Boundary, CountRule, PmiError, TableError, words_of
from pmi.words import TOKENIZER, stop_words

_FREQUENT = ("she", "he", "her", "his", "him", "they", "them", "their")
#: The words whose co-occurrence is counted by default. The most frequent come first, because their columns are
#: written most often.
GENDERED_WORDS = tuple(dict.fromkeys(_FREQUENT + THEY_FORMS + words_of()))

#: Receives the number of bytes of files that have been read, and the number of all bytes.
Progress = Callable[[int, int], None]

_SECONDS_BETWEEN_PROGRESS = 0.2


@dataclass(frozen=True, slots=True)
class CountingJob:
    """How the files of a corpus are read and counted.

    Parameters
    ----------
    rule:
        How words are counted.
    folder:
        Where the table of each finished file is written.
    field:
        The field that holds the text, in JSON lines and Parquet.
    strict:
        Whether to stop at what cannot be read or is not valid UTF-8.
    max_window:
        The largest window of a zstd frame in bytes.
    """

    rule: CountRule
    folder: Path
    field: str = "text"
    strict: bool = False
    max_window: int = MAX_WINDOW

    def part(self, shard: Shard) -> Path:
        """The path of the table of a file; its name depends on the version of the file and on the job."""
        how = json.dumps([asdict(self.rule), self.field, self.strict], sort_keys=True)
        return self.folder / f"{shard.digest(how)}.parquet"


#: Writes the tables of all files of a job.
Runner = Callable[[CountingJob, Sequence[Shard], Progress], None]


def count(
    corpus: str | Path | Iterable[Any],
    *,
    gendered: Sequence[str] = GENDERED_WORDS,
    window: int = 10,
    stop: str | Iterable[str] = "clean",
    boundary: Boundary = "record",
    name: str = "",
    field: str = "text",
    format: Format | None = None,
    strict: bool = False,
    jobs: int | None = None,
    runner: Runner | None = None,
    work_folder: str | Path | None = None,
    progress: Progress = lambda *_: None,
    max_window: int = MAX_WINDOW,
) -> Counts:
    """How often every word of a corpus occurs, and how often it co-occurs with each gendered word.

    Parameters
    ----------
    corpus:
        Files, folders, globs or addresses (``hf://…``, ``s3://…``): one, or a list. Any other iterable
        gives rows: texts, or mappings with a text as a streaming data set of ``datasets`` gives them.
    gendered:
        The gendered words.
    window:
        Two words co-occur when they are at most this many words apart. Stop words are removed before
        windows are formed.
    stop:
        The stop words: ``clean``, ``nltk``, ``none``, or a list of words. A gendered word is never a stop word.
    boundary:
        What a window does not cross: a ``record`` (a row, or a line of plain text), a ``line``, or ``none``.
    name:
        The name of the corpus in the table; by default the names of the files.
    field:
        The field that holds the text, in JSON lines, Parquet and mappings.
    format:
        ``text`` (each line is a record), ``document`` (a file of plain text is one record), ``json`` or
        ``parquet``, when the names of files do not say it. Files that end in ``.txt`` are ``text``.
    strict:
        Whether to stop at what cannot be read or is not valid UTF-8, instead of reporting it.
    jobs:
        Number of processes; by default one per core, and never more than files.
    runner:
        Counts the files elsewhere, such as :func:`pmi.counting.cluster.on_ray`; ``work_folder`` must then be
        a folder that all machines share.
    work_folder:
        A folder for the tables of finished files. With the same folder, an interrupted count continues.
    progress:
        Receives the number of bytes of files read so far, and the number of all bytes.
    max_window:
        The largest window of a zstd frame in bytes, which each process keeps in memory.

    Raises
    ------
    PmiError
        When the corpus does not exist, a file cannot be read, or an option is wrong.

    >>> counts = count(iter(["She saw a ship.", "He saw the captain of the ship."]), gendered=["she", "he"])
    >>> counts.words, counts.word_counts.tolist(), counts.pair_counts_of("he").tolist()
    (('captain', 'he', 'saw', 'she', 'ship'), [1, 1, 2, 1, 2], [1, 0, 1, 0, 1])
    """
    if not isinstance(corpus, Path | Iterable) or corpus in ([], ()) or not isinstance(window, int):
        raise PmiError(
            f"A corpus is files or texts, and a window is a whole number; given are corpus={corpus!r:.40} and "
            f"window={window!r}."
        )
    if not name:
        # The table may be passed on, so it does not name the user of this machine.
        name = without_home(", ".join(str(file) for file in _file_names(corpus))) or "rows"
    rule = rule_of(name, gendered, window, stop, boundary)
    with nullcontext(work_folder) if work_folder else tempfile.TemporaryDirectory() as folder:
        job = CountingJob(rule, Path(folder), field, strict, max_window)
        return merge(count_parts(corpus, job, format, jobs, runner, progress))


def count_parts(
    corpus: Any, job: CountingJob, format: Format | None, jobs: int | None, runner: Runner | None, progress: Progress
) -> list[Path]:
    """The files with the counts of each file of a corpus, in the folder of the job; as :func:`count`."""
    names = _file_names(corpus)
    if names:
        files = shards(names, format)
        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            # A container or a queue may allow fewer cores than the machine has.
            cores = len(os.sched_getaffinity(0))
        if runner:
            runner(job, files, progress)
        else:
            _count_files(jobs or cores, job, files, progress)
        return [job.part(shard) for shard in files]
    part = job.folder / "rows.parquet"
    _count_blocks(job, "A row", records(corpus, job.field), [], part)
    return [part]


def rule_of(
    corpus: str, gendered: Sequence[str], window: int, stop: str | Iterable[str], boundary: Boundary
) -> CountRule:
    """The rule that :func:`count` uses, from its options.

    Raises
    ------
    TableError
        When an option is wrong.
    """
    if not isinstance(stop, str):
        stopped = frozenset(word.lower() for word in stop)
        stop = f"{len(stopped)} given words"
    elif stop in ("clean", "nltk", "none"):
        stopped = frozenset() if stop == "none" else stop_words(stop)
    else:
        raise TableError(f"There are no stop words {stop!r}; give clean, nltk or none.")
    return CountRule(
        corpus=corpus,
        window=window,
        tokenizer=TOKENIZER,
        stop_words=stop,
        boundary=boundary,
        stopped=tuple(sorted(stopped - set(gendered))),
        gendered=tuple(gendered),
    )


def _file_names(corpus: Any) -> list[str | Path]:
    """The names of files that a corpus consists of; empty when it consists of rows."""
    if isinstance(corpus, str | Path):
        return [corpus]
    if isinstance(corpus, list | tuple) and all(isinstance(name, str | Path) for name in corpus):
        return list(corpus)
    return []


def count_shard(job: CountingJob, shard: Shard, progress: Callable[[int], None] = lambda _: None) -> Path:
    """Counts one file, unless its table exists already and is of the same bytes; returns the path of the table.

    Raises
    ------
    PmiError
        When the file cannot be read; for a strict job also when it is damaged or not valid UTF-8.
    """
    part, content = job.part(shard), shard.content()
    # A file of the same size and time may have been put in place of the one that was counted.
    if contents(part) == content:
        progress(shard.size)
        return part
    losses: list[str] = []
    blocks = read(shard, job.field, losses.append, progress, job.max_window)
    _count_blocks(job, shard.address, blocks, losses, part, content)
    return part


def _count_blocks(
    job: CountingJob, name: str, blocks: Iterable[bytes], losses: list[str], part: Path, content: tuple[str, ...] = ()
) -> None:
    """Counts a stream of blocks and writes the table, with the digests of the files that they are of."""
    rule = job.rule
    scanner = Scanner(rule.gendered, rule.stopped, rule.window, rule.boundary)
    for block in blocks:
        scanner.feed(block)
        if job.strict and scanner.invalid_bytes:
            raise CorpusError(f"{name} has bytes that are not valid UTF-8; convert it, or count it without --strict.")
        if job.strict and losses:
            break
    if job.strict and losses:
        raise CorpusError(f"{losses[0].rstrip('.')}; repair it, or count it without --strict.")
    words, word_counts, pair_rows, totals = scanner.result()
    # The identity says whether the counts of a file are added up twice: its name, words and counts.
    lines = "".join(f"{word}\n" for word in words.to_pylist())
    # Little-endian, so that every machine has the same identity; the last part is of earlier versions.
    parts = (name.encode(), lines.encode(), np.ascontiguousarray(word_counts, "<i8").tobytes(), b"")
    identity = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    totals = replace(totals, losses=tuple(losses), inputs=(identity,), contents=content)
    write_counts(part, words, word_counts, pair_rows, rule, totals)


def _count_files(jobs: int, job: CountingJob, files: Sequence[Shard], progress: Progress) -> None:
    """Counts files, in several processes when there are several files."""
    total = sum(shard.size for shard in files)
    # Large files first, so that all cores finish at about the same time.
    ordered = sorted(files, key=lambda shard: -shard.size)
    # A process for each file at most: each takes some seconds to start.
    jobs = min(jobs, len(ordered))
    if jobs > 1:
        _count_in_processes(job, ordered, jobs, lambda done: progress(done, total))
        return
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    for shard in ordered:
        count_shard(job, shard, add)


def _count_in_processes(job: CountingJob, files: Sequence[Shard], jobs: int, progress: Callable[[int], None]) -> None:
    """Counts files in processes. After an error or an interruption, finished tables remain."""
    # Spawned, because a forked process would inherit locks that threads of this one hold.
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    pool = ProcessPoolExecutor(jobs, context, _begin, (done,))
    try:
        with _without_script():
            pending = {pool.submit(_in_process, job, shard) for shard in files}
        while pending:
            finished, pending = wait(pending, _SECONDS_BETWEEN_PROGRESS, FIRST_EXCEPTION)
            for future in finished:
                future.result()
            progress(done.value)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            # shutdown alone would wait for files that take hours.
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_script() -> Iterator[None]:
    """Hides the user's script from processes that begin: they need nothing of it, and would run it again.

    Without this, a script that counts files and does not test ``__name__ == "__main__"`` would start processes
    from its own processes.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


# The number of bytes that all processes have read; set when a process begins.
_done: Any = None


def _begin(done: Any) -> None:
    """Prepares a process. It ignores an interruption, because the first process ends the others."""
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_process(job: CountingJob, shard: Shard) -> None:
    def add(size: int) -> None:
        with _done.get_lock():
            _done.value += size

    count_shard(job, shard, add)
