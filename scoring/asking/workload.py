"""How much a run asks, from a few rows of each split: for the time that is left, and for what a dry run says.

The unit of scored work is a character that is computed: texts that begin alike share what they begin with, so a
sentence after a known context costs only what is new. Tokens that are written take another time and count apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any

from rich import progress
from rich.console import Console

from cards.common.numbers import counted
from cards.common.progress import LeftColumn, Progress
from scoring.asking import answering
from scoring.asking.answering import Asker, Question, context_of, scorable
from scoring.inputs.tables import Loaded
from scoring.types import Benchmark, Request, Response

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.store import Store

#: Blocks of neighbouring rows of a split whose requests are made to see how much its rows ask, and rows of a block.
BLOCKS, BLOCK = 4, 6
#: Responses are of one batch where the processor worked for no more seconds between them. On a busy machine more
#: seconds of the clock may pass. A response that a server computes needs no processor here, so after some seconds of
#: the clock each is a batch of its own.
AT_ONCE, SERVED = 0.002, 2.0
#: The share of what is left that may be of a kind whose speed is not known.
UNTIMED = 0.05
#: Scored characters that take as long as a written token, until both are timed.
WRITTEN = 4.0

#: Characters that are scored, and tokens that are written at most.
Work = tuple[float, float]


def work_of(requests: Sequence[Request]) -> Work:
    """The work of requests that are computed together.

    >>> from scoring.types import Option
    >>> work_of([Request("a", "She is a ", (Option("nurse"), Option("nun")))])
    (17.0, 0.0)
    """
    from scoring.inference.batching import common  # with it comes torch

    texts: set[str] = set()
    written = 0.0
    for request in requests:
        if request.max_new:
            written += _size(request)
            continue
        texts.update(request.context + option.text for option in request.options)
        if request.candidates:
            texts.add(request.context)
    scored, before = 0.0, ""
    for text in sorted(texts):
        # One more, so that a text that another one begins with counts too.
        scored += 1 + len(text) - common(before, text)
        before = text
    return scored, written


def _size(request: Request) -> float:
    """The work of a request by itself, with nothing shared."""
    if request.max_new:
        # A prompt is read at once, so a token of it costs less than one that is written after it.
        return request.max_new + len(request.context) / 16
    return 1.0 + len(request.context) + sum(len(option.text) for option in request.options)


@dataclass(frozen=True, slots=True)
class Split:
    """What a split asks: its rows, the requests of a row and their work, and the ``sample`` of requests they are of.

    ``share_asked`` is the share of rows that have a request, such as the wordings that a causal model can be asked.
    """

    benchmark: str
    config: str
    split: str
    rows: int
    requests: float
    work: Work
    sample: tuple[Request, ...] = field(repr=False)
    share_asked: float = 1.0


def splits(asker: Asker, parts: Iterable[tuple[Benchmark, Sequence[Loaded]]], model: Engine) -> list[Split]:
    """The splits of a run, each from some of its rows."""
    found = []
    for benchmark, loaded_splits in parts:
        for loaded in loaded_splits:
            rows, count = loaded.rows.sample(BLOCKS, BLOCK)
            context = context_of(model, loaded)
            questions = [asker.question(benchmark, row, context) for row in rows]
            share_asked = sum(1 for question in questions if question.requests) / max(len(rows), 1)
            # A run leaves out what this model's tokens do not allow to score.
            questions, _ = scorable(questions, model)
            requests: list[Request] = []
            for question in questions:
                requests += question.requests.values()
            scored, written = work_of(requests)
            of_row = scored / max(len(rows), 1), written / max(len(rows), 1)
            _, config, name = loaded.name.rsplit("/", 2)
            each = len(requests) / max(len(rows), 1)
            found.append(Split(benchmark.name, config, name, count, each, of_row, tuple(requests), share_asked))
    return found


def plan(every: Sequence[Split], groups: str, memory: int) -> list[str]:
    """What a run is about to ask, in three lines: benchmarks with their rows, groups, and requests.

    >>> for line in plan([Split("gest", "sentences", "test", 40, 2.0, (9.0, 0.0), ())], "headline", 2**30):
    ...     print(line)
    Benchmarks: gest (40 rows of sentences).
    Groups: the rows of each headline; --groups all asks further groups, such as debiasing prompts.
    Requests: about 80; 1.0 GiB of memory are used now. --dry-run measures minutes and memory beforehand.
    """
    rows: dict[str, list[str]] = {}
    for split in every:
        rows.setdefault(split.benchmark, []).append(f"{counted(split.rows, 'row')} of {split.config}")
    listed = "; ".join(f"{benchmark} ({', '.join(splits)})" for benchmark, splits in rows.items())
    of_groups = "the rows of each headline; --groups all asks further groups, such as debiasing prompts."
    if groups == "all":
        of_groups = "all, also beyond the headlines; --groups headline asks the rows of the headlines alone."
    requests = sum(split.rows * split.requests for split in every)
    return [
        f"Benchmarks: {listed}.",
        f"Groups: {of_groups}",
        f"Requests: about {requests:,.0f}; {memory / 2**30:.1f} GiB of memory are used now. --dry-run measures minutes "
        "and memory beforehand.",
    ]


class Outlook:
    """What is done of a run, and the seconds until its end.

    The end is what all splits have left, at the speed of this run so far: scored and written work are timed apart,
    responses that were known take no time, and neither does the first batch of a kind, which waits for measurements.
    The responses of a batch come together after its seconds, so a batch counts for the speed when the next one begins.

    Parameters
    ----------
    every:
        From :func:`splits`.
    show:
        Gets the share that is done, and the seconds that are left; None while they are not known.
    first:
        Called at the first response of the model.
    """

    def __init__(
        self,
        every: Sequence[Split],
        show: Callable[[float, float | None], None],
        first: Callable[[], None] = lambda: None,
    ) -> None:
        self._splits = {(split.benchmark, split.config, split.split): split.work for split in every}
        self._rows: dict[tuple[str, str, str], float] = {}
        #: The rows of a split for a question of it: rows without a request are never heard of.
        self._rows_a_question: dict[tuple[str, str, str], float] = {}
        for split in every:
            place = split.benchmark, split.config, split.split
            self._rows[place] = split.rows
            self._rows_a_question[place] = 1 / max(split.share_asked, 1e-9)
        self._show, self._first = show, first
        # Of each kind, scored and written: what is done, what the piece has left and what comes after it.
        self._done, self._of_piece, self._rest = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        # What was timed and its seconds, and the same of the batch whose responses come now.
        self._timed, self._seconds = [0.0, 0.0], [0.0, 0.0]
        self._batch, self._batch_seconds = [0.0, 0.0], [0.0, 0.0]
        self._shared = 1.0
        #: The time of the first response of a kind, and the kinds whose first batch is over.
        self._waited: dict[int, float] = {}
        self._begun: set[int] = set()
        self._last, self._worked = monotonic(), process_time()

    def begin_piece(self, piece: Sequence[Question]) -> None:
        """A piece is asked now, and the one before it is done."""
        requests: list[Request] = []
        for question in piece:
            place = question.benchmark.name, question.row["config"], question.row["split"]
            if place in self._rows:
                self._rows[place] = max(0.0, self._rows[place] - self._rows_a_question[place])
            requests += question.requests.values()
        self._rest = [0.0, 0.0]
        for place, work in self._splits.items():
            for kind in (0, 1):
                self._rest[kind] += self._rows[place] * work[kind]
        self.begin(requests)

    def begin(self, requests: Sequence[Request]) -> None:
        """Requests are asked now, and those before them are done."""
        alone = sum(_size(request) for request in requests if not request.max_new)
        for kind, work in enumerate(work_of(requests)):
            self._done[kind] += self._of_piece[kind]
            self._of_piece[kind] = work
            if not kind and alone:
                self._shared = work / alone
        self._update()

    def note_answers(self, requests: Sequence[Request], *, known: bool = False) -> None:
        """Requests of the piece have a response, from the model or ``known`` before."""
        for request in requests:
            kind = int(bool(request.max_new))
            work = min(_size(request) * (1.0 if kind else self._shared), self._of_piece[kind])
            self._of_piece[kind] -= work
            self._done[kind] += work
            if known:
                continue
            now = monotonic()
            if not self._waited:
                self._first()
            gap, worked = now - self._last, process_time() - self._worked
            is_later = kind in self._waited and now - self._waited[kind] > SERVED
            if kind in self._waited and gap > AT_ONCE and (worked > AT_ONCE or is_later):
                # The batch before this one is complete; the first one is not timed.
                if kind in self._begun:
                    self._timed[kind] += self._batch[kind]
                    self._seconds[kind] += self._batch_seconds[kind]
                self._begun.add(kind)
                self._batch[kind] = self._batch_seconds[kind] = 0.0
            self._batch[kind] += work
            self._batch_seconds[kind] += gap
            self._waited.setdefault(kind, now)
            self._worked = process_time()
            self._last = now
        self._update()

    def _update(self) -> None:
        left = [of_piece + rest for of_piece, rest in zip(self._of_piece, self._rest, strict=True)]
        speeds = [0.0, 0.0]
        for kind, timed in enumerate(self._timed):
            if timed:
                speeds[kind] = timed / self._seconds[kind]
        ratio = WRITTEN
        if all(speeds):
            ratio = speeds[0] / speeds[1]
        done_units = self._done[0] + ratio * self._done[1]
        left_units = left[0] + ratio * left[1]
        seconds: float | None = 0.0
        for kind, units in enumerate((left[0], ratio * left[1])):
            if speeds[kind] and seconds is not None:
                seconds += left[kind] / speeds[kind]
            # Nothing is said of the end while much is left of a kind whose speed is not known.
            elif units > UNTIMED * left_units or not any(speeds):
                seconds = None
        self._show(done_units / max(done_units + left_units, 1e-9), seconds)


@contextmanager
def outlook(every: Sequence[Split], console: Console | None, what: str = "") -> Iterator[Outlook]:
    """The bar of a run, or of other requests that ``what`` names."""
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        LeftColumn(),
    )
    rows = sum(split.rows for split in every)
    with Progress(*columns, console=console, transient=True, disable=console is None) as bars:
        task = bars.add_task(what or f"scoring {rows:,} rows", total=1.0, end=None)
        bars.say(f"Measuring how texts can be computed together, then {what or f'scoring {rows:,} rows'} …")

        def show(share: float, left: float | None) -> None:
            bars.update(task, completed=share, end=None if left is None else monotonic() + left)

        yield Outlook(every, show, lambda: bars.say("The first batch is answered."))


def answer(
    model: Engine,
    requests: Sequence[Request],
    store: Store,
    settings: Mapping[str, Any],
    console: Console | None,
    what: str,
) -> dict[str, Response]:
    """The responses to requests outside a run, as :func:`scoring.asking.answering.answer`, with a bar of their own."""
    with outlook([], console, what) as shown:
        shown.begin(requests)
        return answering.answer(model, requests, store, settings, shown.note_answers)
