"""Progress where there is no terminal: lines in a file, and text that is renewed in a notebook."""

import io
import re

import pytest
from rich.console import Console
from rich.progress import TextColumn

from cards.common import progress
from cards.common.progress import Progress, stage, track


@pytest.fixture(autouse=True)
def lines(monkeypatch):
    """Lines of progress, which other tests do without."""
    monkeypatch.delenv("PROBES_PROGRESS")


@pytest.fixture
def file():
    return io.StringIO()


def bars(file, **options):
    return Progress(TextColumn("{task.description}"), console=Console(file=file, width=40), transient=True, **options)


def test_a_file_gets_a_line_for_each_task_that_is_under_way(file, monkeypatch):
    monkeypatch.setattr(progress, "FILE_SECONDS", 0.0)
    with bars(file) as shown:
        first = shown.add_task("scoring 2,000 [requests]", total=10)
        shown.add_task("continuing", total=10, start=False)
        shown.advance(first, 5)
        shown.update(first, completed=10)
    lines = file.getvalue().splitlines()
    assert len(lines) == 1, "a task that is finished and one that was not begun have no line"
    assert re.fullmatch(r"scoring 2,000 \[requests\]: 50 %, \d+:\d\d:\d\d so far, about \d+:\d\d:\d\d left", lines[0])


def test_a_file_gets_a_line_now_and_then(file, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    with bars(file) as shown:
        task = shown.add_task("scoring", total=10_000)
        for second in range(0, 130, 10):
            clock[0] = float(second)
            shown.advance(task)
    lines = file.getvalue().splitlines()
    assert len(lines) == 6
    assert "left" not in lines[0], "the first pieces say nothing of the end"


def test_work_that_counts_nothing_is_heard_of_again(file, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    console = Console(file=file, width=40)
    with stage(console, "Loading [the] model …"), stage(console, "Reading its weights …"):
        for second in range(100):
            clock[0] = float(second)
            progress._REMINDER.remind()
        times = [f"Reading its weights … 0:{second // 60:02}:{second % 60:02} so far" for second in (20, 40, 60, 80)]
        assert file.getvalue().splitlines() == ["Loading [the] model …", "Reading its weights …", *times]
    clock[0] = 1000.0
    progress._REMINDER.remind()
    assert file.getvalue().count("\n") == 6, "what has ended is not heard of"


def test_the_innermost_work_with_a_line_is_heard_of(file, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    console = Console(file=file, width=40)
    with stage(console, "Scoring the model …", bars=True), Progress(console=console, transient=True) as shown:
        task = shown.add_task("scoring", total=10)
        for second in range(50):
            clock[0] = float(second)
            progress._REMINDER.remind()
        shown.update(task, completed=10)
        for second in range(50, 70):
            clock[0] = float(second)
            progress._REMINDER.remind()
    heard = [line.partition(",")[0] for line in file.getvalue().splitlines()[1:]]
    assert heard == ["scoring: 0 %", "scoring: 0 %", "Scoring the model … 0:01:00 so far"]


def test_a_quiet_console_and_a_disabled_bar_say_nothing(file, monkeypatch):
    monkeypatch.setattr(progress, "FILE_SECONDS", 0.0)
    for options in ({"disable": True}, {}):
        console = Console(file=file, quiet=not options)
        with Progress(TextColumn("x"), console=console, transient=True, **options) as shown:
            shown.advance(shown.add_task("scoring", total=10))
    assert not file.getvalue()


def test_a_terminal_has_the_bar_alone(file, monkeypatch):
    monkeypatch.setattr(progress, "FILE_SECONDS", 0.0)
    console = Console(file=file, force_terminal=True, width=40)
    with Progress(TextColumn("{task.description}"), console=console, transient=True) as shown:
        shown.advance(shown.add_task("scoring", total=10))
    assert "so far" not in file.getvalue()


def test_lines_can_be_left_out(file, monkeypatch):
    monkeypatch.setattr(progress, "FILE_SECONDS", 0.0)
    monkeypatch.setenv("PROBES_PROGRESS", "off")
    console = Console(file=file, width=40)
    with stage(console, "Loading the model …"):
        assert list(track([1, 2, 3], "editing", console=console)) == [1, 2, 3]
    assert not file.getvalue()


def test_what_is_tracked_comes_as_it_is(file, monkeypatch):
    monkeypatch.setattr(progress, "FILE_SECONDS", 0.0)
    console = Console(file=file, width=40)
    assert list(track(iter([1, 2, 3]), "editing", console=console)) == [1, 2, 3]
    assert file.getvalue().startswith("editing: 1 done")


def test_a_notebook_has_text_that_is_renewed():
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    # The console is that of a notebook without the package ipywidgets.
    code = """
from rich.console import Console

from cards.common import progress

progress.NOTEBOOK_SECONDS = 0.0
console = Console(stderr=True, force_jupyter=False, force_terminal=False)
with progress.Progress(console=console, transient=True) as bars:
    bars.advance(bars.add_task("scoring", total=4))
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=600).execute()
    shown = [output["data"]["text/plain"] for output in notebook.cells[0].outputs if "data" in output]
    assert any(text.startswith("scoring: 25 %") for text in shown), notebook.cells[0].outputs
