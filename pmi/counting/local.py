"""Counts a corpus on one machine: a process a core, a file at a time, and what is finished is not read again."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pmi.analysis.pairs import THEY, gendered
from pmi.counting.corpus import CorpusError, Format, Shard, shards
from pmi.counting.counts import Counts, merge, readable, write_rows
from pmi.counting.reading import read, records
from pmi.counting.scanner import Scanner
from pmi.types import Boundary, CountRule, TableError
from pmi.words import TOKENIZER, stop_words

#: The words whose company is counted by default. The commonest come first: their columns are written to most.
GENDERED = tuple(dict.fromkeys((*"she he her his him they them their".split(), *THEY, *gendered())))

#: Takes how many bytes of files have been read, of how many.
Progress = Callable[[int, int], None]

# Seconds between two looks at how far the processes are.
_LOOK = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """How files are read and counted, the same for all.

    Parameters
    ----------
    rule:
        How is counted.
    folder:
        Where the table of each finished file goes.
    field:
        The field that holds the text, in JSON lines and Parquet.
    strict:
        Whether what cannot be read, or is no UTF-8, stops everything.
    """

    rule: CountRule
    folder: Path
    field: str = "text"
    strict: bool = False

    def part(self, shard: Shard) -> Path:
        """Where the table of a file goes: a name that stands for the file as it is and for how it is counted."""
        how = json.dumps([asdict(self.rule), self.field, self.strict], sort_keys=True)
        return self.folder / f"{shard.digest(how)}.parquet"


#: Makes the tables of all files of a job, telling how many bytes of how many are done.
Runner = Callable[[Job, Sequence[Shard], Progress], None]


def count(
    corpus: str | Path | Iterable[Any],
    *,
    words: Sequence[str] = GENDERED,
    window: int = 10,
    stop: str | Iterable[str] = "clean",
    boundary: Boundary = "record",
    name: str = "",
    field: str = "text",
    format: Format | None = None,
    strict: bool = False,
    jobs: int | None = None,
    run: Runner | None = None,
    work: str | Path | None = None,
    progress: Progress = lambda *_: None,
) -> Counts:
    """How often every word of a corpus occurs, and how often near every gendered word.

    Parameters
    ----------
    corpus:
        Names of files, folders and globs, or addresses (``hf://…``, ``s3://…``): one, or a list. Any
        other iterable gives rows: mappings with a text, as a streaming data set of ``datasets`` does,
        or texts.
    words:
        The gendered words.
    window:
        Words that stand within so many words of each other are in company. It is laid over the words
        that are left when the stop words are taken out.
    stop:
        The stop words: ``clean``, ``nltk``, ``none``, or words. A gendered word is never one of them.
    boundary:
        What no window crosses: a ``record`` (a row, a whole file of plain text), a ``line``, or ``none``.
    name:
        What the corpus is called in the table; by default the names that were given.
    field:
        The field that holds the text in JSON lines, Parquet and mappings.
    format:
        ``text``, ``json`` or ``parquet``, where names of files do not tell.
    strict:
        Stop at what cannot be read or is no UTF-8, instead of counting the rest and telling.
    jobs:
        Processes; by default one a core, and never more than files.
    run:
        Counts files elsewhere, such as :func:`pmi.counting.cluster.on_ray`; then ``work`` is a folder of all machines.
    work:
        A folder for the tables of finished files; with the same folder an interrupted count goes on.
    progress:
        Is told from time to time how many bytes of files have been read, of how many.

    Raises
    ------
    PmiError
        When there is no such corpus, a file cannot be read, or an option is wrong.

    >>> counts = count(iter(["She saw a ship.", "He saw the captain of the ship."]), words=["she", "he"])
    >>> counts.words, counts.count.tolist(), counts.near("he").tolist()
    (('captain', 'he', 'saw', 'she', 'ship'), [1, 1, 2, 1, 2], [1, 0, 1, 0, 1])
    """
    options = (words, window, stop, boundary, name, field, format, strict, jobs, run, work, progress)
    with parts(corpus, *options) as tables:
        return merge(tables)


@contextmanager
def parts(
    corpus: str | Path | Iterable[Any],
    words: Sequence[str] = GENDERED,
    window: int = 10,
    stop: str | Iterable[str] = "clean",
    boundary: Boundary = "record",
    name: str = "",
    field: str = "text",
    format: Format | None = None,
    strict: bool = False,
    jobs: int | None = None,
    run: Runner | None = None,
    work: str | Path | None = None,
    progress: Progress = lambda *_: None,
) -> Iterator[list[Path]]:
    """The tables of the single files of a corpus, which :func:`count` adds up; options are as there."""
    files = _named(corpus)
    rule = rule_of(name or ", ".join(map(str, files)) or "rows", words, window, stop, boundary)
    with nullcontext(work) if work else tempfile.TemporaryDirectory() as folder:
        job = Job(rule, Path(folder), field, strict)
        if files:
            wanted = shards(files, format)
            (run or partial(_run, jobs or _cores()))(job, wanted, progress)
            yield [job.part(shard) for shard in wanted]
        else:
            part = job.folder / "rows.parquet"
            _count_blocks(job, "A row", records(cast(Iterable[Any], corpus), field), [], part)
            yield [part]


def rule_of(
    corpus: str,
    words: Sequence[str] = GENDERED,
    window: int = 10,
    stop: str | Iterable[str] = "clean",
    boundary: Boundary = "record",
) -> CountRule:
    """The rule that :func:`count` counts by, from options of the same names.

    Raises
    ------
    TableError
        When an option is wrong.
    """
    name, out = _stopped(stop)
    return CountRule(
        corpus=corpus,
        window=window,
        tokenizer=TOKENIZER,
        stop_words=name,
        boundary=boundary,
        stopped=tuple(sorted(out - set(words))),
        gendered=tuple(words),
    )


def _stopped(stop: str | Iterable[str]) -> tuple[str, frozenset[str]]:
    """What a list of stop words is called, and the list.

    >>> _stopped("none"), _stopped(["The"])
    (('none', frozenset()), ('1 given words', frozenset({'the'})))
    """
    if not isinstance(stop, str):
        given = frozenset(word.lower() for word in stop)
        return f"{len(given)} given words", given
    if stop == "none":
        return stop, frozenset()
    if stop not in ("clean", "nltk"):
        raise TableError(f"There are no stop words {stop!r}; give clean, nltk or none.")
    return stop, stop_words(stop)


def _named(corpus: Any) -> list[str | Path]:
    """The names of files that a corpus is given as; none when it is given as rows."""
    if isinstance(corpus, str | Path):
        return [corpus]
    if isinstance(corpus, list | tuple) and all(isinstance(name, str | Path) for name in corpus):
        return list(corpus)
    return []


def count_shard(job: Job, shard: Shard, progress: Callable[[int], None] = lambda _: None) -> Path:
    """Counts one file, unless that was done, and gives where its table is.

    Raises
    ------
    PmiError
        When the file cannot be read; when strict, also where it is damaged or no UTF-8.
    """
    part = job.part(shard)
    if readable(part):
        progress(shard.size)
        return part
    losses: list[str] = []
    blocks = read(shard, job.field, losses.append, progress)
    _count_blocks(job, shard.address, blocks, losses, part)
    return part


def _count_blocks(job: Job, name: str, blocks: Iterable[bytes], losses: list[str], part: Path) -> None:
    """Counts a stream of blocks into a table."""
    rule = job.rule
    scanner = Scanner(rule.gendered, rule.stopped, rule.window, rule.boundary)
    for block in blocks:
        scanner.feed(block)
        if job.strict and scanner.invalid:
            raise CorpusError(f"{name} has bytes that are no UTF-8; convert it, or count it without --strict.")
        if job.strict and losses:
            break
    if job.strict and losses:
        raise CorpusError(f"{losses[0].rstrip('.')}; mend it, or count it without --strict.")
    words, counted, near, totals = scanner.result()
    write_rows(part, words, counted, near, rule, replace(totals, losses=tuple(losses)))


def _run(jobs: int, job: Job, wanted: Sequence[Shard], progress: Progress) -> None:
    """Counts files, in processes where there are several."""
    total = sum(shard.size for shard in wanted)
    # Large files first, so that no core is left with one at the end.
    ordered = sorted(wanted, key=lambda shard: -shard.size)
    if min(jobs, len(ordered)) > 1:
        _spread(job, ordered, min(jobs, len(ordered)), lambda done: progress(done, total))
        return
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    for shard in ordered:
        count_shard(job, shard, add)


def _spread(job: Job, wanted: Sequence[Shard], jobs: int, progress: Callable[[int], None]) -> None:
    """Counts files in processes; at an error or an interruption those under way are ended, finished ones stay."""
    # A fresh process each: a copy of this one would inherit locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    pool = ProcessPoolExecutor(jobs, context, _begin, (done,))
    try:
        left = {pool.submit(_in_process, job, shard) for shard in wanted}
        while left:
            ready, left = wait(left, _LOOK, FIRST_EXCEPTION)
            for future in ready:
                future.result()
            progress(done.value)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


# How many bytes all processes have read; set when a process begins.
_done: Any = None


def _begin(done: Any) -> None:
    """An interruption is the business of the first process, which ends the others."""
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_process(job: Job, shard: Shard) -> None:
    def add(size: int) -> None:
        with _done.get_lock():
            _done.value += size

    count_shard(job, shard, add)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
