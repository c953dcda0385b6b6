"""The time that is left of a run: honest early and late, whatever its benchmarks cost and whatever was known before."""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from scoring.asking import workload
from scoring.asking.answering import Question
from scoring.asking.workload import Outlook, Split, work_of
from scoring.inputs.tables import Rows
from scoring.types import Option, Request

SHORT, LONG, TEXT = "short", "long", "text"
#: The seconds that a scored character and a written token take.
SCORED, WRITTEN = 0.01, 0.5


def made_request(name, number):
    if name == TEXT:
        return Request(f"{name}/{number}", f"{number} wrote that", max_new=20)
    words = "word " * (1 if name == SHORT else 40)
    return Request(f"{name}/{number}", f"{number:06} {words}", (Option("she"), Option("he")))


def question(name, number):
    request = made_request(name, number)
    row = {"config": "all", "split": "test"}
    return Question(SimpleNamespace(name=name), row, None, {"request": request})


def made_split(name, rows, times=1.0):
    sample = tuple(made_request(name, number) for number in range(20))
    scored, written = work_of(sample)
    return Split(name, "all", "test", rows, 1.0, (times * scored / 20, times * written / 20), sample)


def run(monkeypatch, splits, *, known=0, measuring=60.0, batch=10, busy=0.0, told=None):
    """(seconds left in truth, seconds left as said) by the time, and the seconds of the run.

    ``told`` are the splits that the bar knows, where these are others than the questions.
    """
    clock = [0.0, 0.0]
    monkeypatch.setattr(workload, "monotonic", lambda: clock[0])
    monkeypatch.setattr(workload, "process_time", lambda: clock[1])
    said = []
    outlook = Outlook(told or splits, lambda share, left: said.append((clock[0], share, left)))
    questions = [question(split.benchmark, number) for split in splits for number in range(split.rows)]
    clock[0] += measuring
    for start in range(0, len(questions), 500):
        piece = questions[start : start + 500]
        outlook.begin_piece(piece)
        requests = [each.requests["request"] for each in piece]
        before = [request for request in requests if known > 0 and int(request.id.partition("/")[2]) < known]
        outlook.note_answers(before, known=True)
        rest = [request for request in requests if request not in before]
        for first in range(0, len(rest), batch):
            together = rest[first : first + batch]
            scored, written = work_of(together)
            seconds = SCORED * scored + WRITTEN * written
            clock[0] += seconds
            clock[1] += seconds
            for request in together:
                # The machine is busy, so the clock goes on between the responses of a batch, and the processor hardly.
                clock[0] += busy * seconds / len(together)
                clock[1] += 0.0001
                outlook.note_answers([request])
    end = clock[0]
    # The responses of a batch come at one time, and the last of them says what is seen.
    last = {at: (share, end - at, left) for at, share, left in said}
    return list(last.values()), end - measuring


@pytest.mark.parametrize(
    "order", [(SHORT, LONG, TEXT), (LONG, SHORT), (TEXT, SHORT), (LONG,), (SHORT, TEXT, LONG)], ids="-".join
)
def test_the_end_is_honest_at_5_50_and_95_percent_of_the_time(monkeypatch, order):
    splits = [made_split(name, 2000 if name != TEXT else 300) for name in order]
    states, seconds = run(monkeypatch, splits)
    for part in (0.05, 0.5, 0.95):
        _, truth, left = next(state for state in states if state[1] <= (1 - part) * seconds)
        # Before a token is written it is not known how long that takes, and nothing is said.
        if TEXT in order and left is None and part < 0.95:
            continue
        assert truth / 1.25 < left < truth * 1.25, (part, truth, left)


def test_the_end_is_honest_on_a_busy_machine(monkeypatch):
    states, seconds = run(monkeypatch, [made_split(SHORT, 2000)], busy=1.0)
    for part in (0.05, 0.5, 0.95):
        _, truth, left = next(state for state in states if state[1] <= (1 - part) * seconds)
        assert truth / 1.25 < left < truth * 1.25, (part, truth, left)


def test_rows_that_ask_nothing_are_not_waited_for(monkeypatch):
    # Half of the rows have no request, so the run has 2,000 questions.
    split = made_split(SHORT, 2000)
    halved = tuple(amount / 2 for amount in split.work)
    states, seconds = run(monkeypatch, [split], told=[replace(split, rows=4000, work=halved, share_asked=0.5)])
    for part in (0.05, 0.5, 0.95):
        _, truth, left = next(state for state in states if state[1] <= (1 - part) * seconds)
        assert truth / 1.25 < left < truth * 1.25, (part, truth, left)
    assert states[-1][0] == pytest.approx(1.0)


def test_what_was_known_before_takes_no_time_and_makes_the_end_no_earlier(monkeypatch):
    states, seconds = run(monkeypatch, [made_split(SHORT, 3000)], known=1500)
    _, truth, left = next(state for state in states if state[1] <= 0.5 * seconds)
    assert truth / 1.25 < left < truth * 1.25


def test_a_sample_that_is_wrong_is_replaced_by_what_was_asked(monkeypatch):
    states, seconds = run(monkeypatch, [made_split(SHORT, 3000, times=3.0)])
    _, truth, left = next(state for state in states if state[1] <= 0.05 * seconds)
    assert truth / 1.5 < left < 1.5 * truth
    assert states[-1][0] == pytest.approx(1.0)


def test_before_the_second_batch_nothing_is_said_of_the_end(monkeypatch):
    states, _ = run(monkeypatch, [made_split(LONG, 10)], batch=10)
    assert {left for _, _, left in states} == {None}


def test_texts_that_begin_alike_are_counted_once():
    context = "The nurse said that " * 5
    together = [Request(str(n), context, (Option(word),)) for n, word in enumerate(("she", "he", "it"))]
    alone = work_of(together[:1])[0]
    assert work_of(together)[0] < alone + 10
    assert work_of([Request("a", "", max_new=30)]) == (0.0, 30.0)


def test_a_sample_has_rows_from_all_over_a_table():
    table = pa.table({"n": list(range(1000))})
    rows, count = Rows(table, {}, lambda row: [row] * 2).sample(4, 3)
    assert count == 2000
    assert [row["n"] for row in rows[::2]] == [0, 1, 2, 250, 251, 252, 500, 501, 502, 750, 751, 752]
    assert Rows(table.slice(0, 2), {}).sample(4, 6)[0] == [{"n": 0}, {"n": 1}]
    assert Rows(table.slice(0, 0), {}).sample(4, 6) == ([], 0)
