"""Progress of long work: a bar in a terminal, a line that is renewed in a notebook, and lines in a file.

A file or a pipe gets a line when a :func:`stage` begins, and then one at least every :data:`FILE_SECONDS`: a thread
says what the innermost work is, so that work that counts nothing is heard of too. The environment variable
PROBES_PROGRESS=off leaves these lines out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from rich import progress
from rich.console import Console
from rich.text import Text

T = TypeVar("T")
#: Seconds between two lines where the output is a file, and between two states of a notebook.
FILE_SECONDS, NOTEBOOK_SECONDS = 20.0, 1.0
#: How much of the work is done before the time that is left is said.
SURE_PERCENT = 2.0


class _Reminder:
    """Says what the innermost work is, where no line was said for :data:`FILE_SECONDS`."""

    def __init__(self) -> None:
        #: The consoles of the work that is under way, the innermost last, and what gives its lines.
        self._work: list[tuple[Console, Callable[[], list[str]]]] = []
        self._said_at = 0.0
        self._lock = Lock()
        self._thread: Thread | None = None

    def begin(self, console: Console, lines: Callable[[], list[str]]) -> Callable[[], None]:
        """Work begins; the returned function says that it has ended."""
        work = (console, lines)
        with self._lock:
            if not self._work:
                self._said_at = monotonic()
            self._work.append(work)
            if self._thread is None:
                self._thread = Thread(target=self._run, daemon=True)
                self._thread.start()

        def end() -> None:
            with self._lock:
                self._work.remove(work)

        return end

    def say(self, console: Console, lines: Iterable[str]) -> None:
        """Prints lines."""
        for line in lines:
            self._said_at = monotonic()
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    def remind(self) -> None:
        """Prints the lines of the innermost work that has some, if it is time."""
        if monotonic() - self._said_at < FILE_SECONDS:
            return
        for console, lines in reversed(list(self._work)):
            said = lines()
            if said:
                self.say(console, said)
                return

    def _run(self) -> None:
        while True:
            time.sleep(0.5)
            with self._lock:
                if not self._work:
                    self._thread = None
                    return
            self.remind()


_REMINDER = _Reminder()


class Progress(progress.Progress):
    """The bars of :class:`rich.progress.Progress`, which are also shown where there is no terminal.

    A notebook has them as text that is renewed, for which it needs no further package. A file gets lines for each task,
    with the share that is done and the time that is left: until the field ``end`` of the task, a time of
    :func:`time.monotonic` or None while it is not known, or else at the mean speed so far.

    >>> with Progress(console=Console(quiet=True)) as bars:
    ...     task = bars.add_task("scoring", total=4)
    ...     bars.advance(task, 1)
    ...     bars.lines()[0].partition(",")[0]
    'scoring: 25 %'
    """

    def __init__(self, *columns: Any, console: Console | None = None, **options: Any) -> None:
        super().__init__(*columns, console=console, **options)
        self._in_text = _is_text(self.console) and not self.disable
        self._notebook = _notebook() if self._in_text else None
        self._shown_at = monotonic()
        self._end: Callable[[], None] | None = None

    def start(self) -> None:
        """As in rich."""
        super().start()
        if self._in_text and not self._notebook and self._end is None:
            self._end = _REMINDER.begin(self.console, self.lines)

    def update(self, task_id: progress.TaskID, **changes: Any) -> None:
        """As in rich."""
        super().update(task_id, **changes)
        self._show()

    def advance(self, task_id: progress.TaskID, advance: float = 1) -> None:
        """As in rich."""
        super().advance(task_id, advance)
        self._show()

    def stop(self) -> None:
        """As in rich, without the empty line that it prints where there is no terminal."""
        self.live.stop()
        if self._end:
            self._end()
            self._end = None

    def say(self, line: str) -> None:
        """A line for a file; a terminal and a notebook have the bar alone."""
        if self._end:
            _REMINDER.say(self.console, [line])

    def lines(self) -> list[str]:
        """What is said of each task that has begun and is not finished."""
        lines = []
        for task in self.tasks:
            if not task.started or task.finished or not task.visible:
                continue
            line = f"{task.description}: {task.completed:,.0f} done"
            if task.total:
                line = f"{task.description}: {task.percentage:.0f} %"
            line += f", {_duration(task.elapsed or 0.0)} so far"
            left = seconds_left(task)
            if left is not None:
                line += f", about {_duration(left)} left"
            lines.append(line)
        return lines

    def _show(self) -> None:
        if not self._in_text:
            return
        seconds = NOTEBOOK_SECONDS if self._notebook else FILE_SECONDS
        now = monotonic()
        if now - self._shown_at < seconds:
            return
        self._shown_at = now
        lines = self.lines()
        if self._notebook:
            self._notebook.update({"text/plain": "\n".join(lines)}, raw=True)
        else:
            _REMINDER.say(self.console, lines)


def seconds_left(task: progress.Task) -> float | None:
    """The seconds until a task ends; None where little of it is done.

    >>> end = monotonic() + 60
    >>> task = progress.Task(progress.TaskID(0), "scoring", 4, 1, _get_time=lambda: 0.0, fields={"end": end})
    >>> 0 < seconds_left(task) <= 60
    True
    """
    # The first pieces of work also load and compile, so their speed says nothing of the end.
    if not task.total or task.percentage < SURE_PERCENT:
        return None
    if "end" in task.fields:
        end: float | None = task.fields["end"]
        return None if end is None else max(0.0, end - monotonic())
    return (task.elapsed or 0.0) * (task.total - task.completed) / task.completed


class LeftColumn(progress.ProgressColumn):
    """The time that is left, as lines of a file say it."""

    max_refresh = 0.5

    def render(self, task: progress.Task) -> Text:
        """The time, or nothing while it is not known."""
        left = None if task.finished else seconds_left(task)
        return Text("" if left is None else f"about {_duration(left)} left", style="progress.remaining")


@contextmanager
def stage(console: Console, what: str, *, bars: bool = False) -> Iterator[None]:
    """Says what begins: a spinner in a terminal, and elsewhere a line, and later ones with the time so far.

    Parameters
    ----------
    bars:
        Whether bars are shown inside, which a terminal then has without a spinner.

    >>> with stage(Console(quiet=True), "Loading the model …"):
    ...     sum(range(10))
    45
    """
    if not _is_text(console):
        if bars or console.quiet:
            yield
            return
        with console.status(what):
            yield
        return
    started = monotonic()
    _REMINDER.say(console, [what])
    end = _REMINDER.begin(console, lambda: [f"{what} {_duration(monotonic() - started)} so far"])
    try:
        yield
    finally:
        end()


def say_lines(console: Console, lines: Iterable[str]) -> None:
    """Prints lines about work that begins, in a terminal too; a saved notebook has none, and PROBES_PROGRESS=off."""
    if os.environ.get("PROBES_PROGRESS") != "off" and not console.is_jupyter:
        _REMINDER.say(console, lines)


def _is_text(console: Console) -> bool:
    """Whether a console is a file, a pipe or a notebook without widgets, which can show no bar and gets lines."""
    if os.environ.get("PROBES_PROGRESS") == "off":
        return False
    return not (console.is_terminal or console.is_jupyter or console.quiet)


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _duration(3725), _duration(59.6)
    ('1:02:05', '0:01:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _notebook() -> Any:
    """A place of the page of a notebook that can be renewed; None outside of a notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    shell = get_ipython()
    # The shell of a terminal has no page.
    if shell is None or type(shell).__name__ == "TerminalInteractiveShell":
        return None
    return display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def track(
    items: Iterable[T], description: str, *, console: Console | None = None, total: float | None = None,
    disable: bool = False,
) -> Iterator[T]:  # fmt: skip
    """The items one after the other, with a bar that is gone at the end.

    >>> list(track([1, 2], "counting", console=Console(quiet=True)))
    [1, 2]
    """
    columns = (*progress.Progress.get_default_columns()[:-1], LeftColumn())
    with Progress(*columns, console=console, transient=True, disable=disable) as bars:
        task = bars.add_task(description, total=len(items) if isinstance(items, Sized) else total)
        for item in items:
            yield item
            bars.advance(task)
