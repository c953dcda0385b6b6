"""Progress of long work: a bar in a terminal, a line that is renewed in a notebook, and a line a minute in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from time import monotonic
from typing import Any, TypeVar

from rich import progress
from rich.console import Console

T = TypeVar("T")
#: Seconds between two lines where the output is a file, and between two states of a notebook.
FILE_SECONDS, NOTEBOOK_SECONDS = 60.0, 1.0
#: How much of the work is done before the time that is left is said.
SURE_PERCENT = 2.0


class Progress(progress.Progress):
    """The bars of :class:`rich.progress.Progress`, which are also shown where there is no terminal.

    A notebook has them as text that is renewed, for which it needs no further package. A file gets a line for each
    task a minute, with the share that is done and the time that is left at the mean speed so far.

    >>> with Progress(console=Console(quiet=True)) as bars:
    ...     task = bars.add_task("scoring", total=4)
    ...     bars.advance(task, 1)
    ...     bars.lines()[0].partition(",")[0]
    'scoring: 25 %'
    """

    def __init__(self, *columns: Any, console: Console | None = None, **options: Any) -> None:
        super().__init__(*columns, console=console, **options)
        in_terminal = self.console.is_terminal or self.console.is_jupyter
        self._in_text = not (in_terminal or self.disable or self.console.quiet)
        self._notebook = _notebook() if self._in_text else None
        self._shown_at = monotonic()

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

    def lines(self) -> list[str]:
        """What is said of each task that has begun and is not finished."""
        lines = []
        for task in self.tasks:
            if not task.started or task.finished or not task.visible:
                continue
            line = f"{task.description}: {task.completed:,.0f} done"
            if task.total:
                line = f"{task.description}: {task.percentage:.0f} %"
            elapsed = task.elapsed or 0.0
            line += f", {_duration(elapsed)} so far"
            # The first pieces of work also load and compile, so their speed says nothing of the end.
            if task.total and task.percentage >= SURE_PERCENT:
                left = elapsed * (task.total - task.completed) / task.completed
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
            return
        for line in lines:
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)


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
    with Progress(*progress.Progress.get_default_columns(), console=console, transient=True, disable=disable) as bars:
        task = bars.add_task(description, total=len(items) if isinstance(items, Sized) else total)
        for item in items:
            yield item
            bars.advance(task)
