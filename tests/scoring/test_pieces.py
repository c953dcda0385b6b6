"""A run asks its questions in pieces of bounded size: the same numbers, and never more than a piece at one time."""

import pytest

import scoring
from scoring.asking import answering, language
from scoring.inference import model
from scoring.inference.store import Places, Store
from scoring.inputs import columns, tables
from scoring.types import Option, Request, Response
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows, pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): list(job_rows())})
    return data_set(folder, "unstereo", {("ours-5", "test"): list(pairs("a")), ("ours-10", "test"): list(pairs("b"))})


def test_a_run_in_many_pieces_has_the_numbers_of_one_piece(data, monkeypatch):
    """With ``exact`` every number is the same to the last bit, however the questions are divided."""
    sizes = []
    answer = answering.answer

    def counted(model, requests, *arguments):
        if requests != language.requests():
            sizes.append(len(requests))
        return answer(model, requests, *arguments)

    monkeypatch.setattr(answering, "answer", counted)
    results = []
    most = {}
    for characters in (1, 300, 10**9):
        monkeypatch.setattr(model, "PIECE", characters)
        sizes.clear()
        results.append(scoring.evaluate("tiny-causal", data=data, exact=True, resamples=50, device="cpu"))
        most[characters] = max(sizes), len(sizes)
    assert most[1][0] < most[300][0] < most[10**9][0]
    assert most[10**9][1] == 1, "small benchmarks fill the batches together"
    one, *others = results
    for other in others:
        assert repr(other.report.estimates) == repr(one.report.estimates)
        assert {name: repr(table) for name, table in other.tables.items()} == {
            name: repr(table) for name, table in one.tables.items()
        }


def test_without_exact_pieces_change_numbers_by_rounding_alone(data, monkeypatch):
    results = []
    for characters in (300, 10**9):
        monkeypatch.setattr(model, "PIECE", characters)
        found = scoring.evaluate("tiny-causal", data=data, resamples=50, device="cpu", dtype="float32")
        results.append({score.key: score.value for score in found.report.estimates})
    one, other = results
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert value == pytest.approx(other[key], rel=1e-3, abs=1e-3, nan_ok=True), key


def request(number, length):
    return Request(str(number), "x" * length)


def test_a_piece_ends_at_its_size_and_order_stays():
    every = [answering.Question(None, {}, None, {"a": request(n, length)}) for n, length in enumerate([9] * 10)]
    pieces = list(answering.pieces(iter(every), size=25))
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1]
    assert [question for piece in pieces for question in piece] == every
    assert list(answering.pieces([], size=5)) == []


def test_questions_are_made_when_they_are_asked():
    made = []

    def every():
        for number in range(100):
            made.append(number)
            yield answering.Question(None, {}, None, {"a": request(number, 10)})

    next(answering.pieces(every(), size=30))
    assert len(made) < 5


@pytest.mark.parametrize(
    "lines",
    [
        [{"id": str(n), "p": n, "word": "nurse"} for n in range(7)],
        [{"id": str(n), "p": None if n < 3 else n / 7, "word": None if n > 4 else "vet"} for n in range(7)],
        [{"id": "a", "p": True, "word": n if n < 3 else n / 2} for n in range(7)],
        [{"id": "a", "p": None, "word": None if n < 4 else "late"} for n in range(7)],
    ],
)
def test_columns_in_blocks_are_those_of_all_lines_at_once(lines, monkeypatch):
    whole = tables.as_table(lines)
    monkeypatch.setattr(columns.Columns, "LINES", 2)
    blocks = tables.as_table(lines)
    for name, column in whole.items():
        assert blocks[name].dtype == column.dtype
        assert repr(blocks[name].tolist()) == repr(column.tolist())


def test_equal_texts_of_a_column_are_one_object():
    words = tables.as_table({"word": "".join(["nur", "se"])} for _ in range(5))["word"]
    assert len({id(word) for word in words}) == 1


def test_places_of_responses_are_found_after_many(monkeypatch):
    monkeypatch.setattr(Places, "LIMIT", 10)
    places = Places()
    names = [f"{number * 2654435761 % 2**64:016x}{number:016x}" for number in range(95)]
    for place, name in enumerate(names):
        places.put(name, place)
    for name in names[::7]:
        places.put(name, 1000)
    assert [places.get(name) for name in names] == [1000 if n % 7 == 0 else n for n in range(95)]
    assert len(places) == 95
    assert places.get("f" * 32) is None


def test_a_store_keeps_no_response_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(Places, "LIMIT", 4)
    asked = [Request(str(n), f"text {n}", (Option(" x"),)) for n in range(30)]
    for _ in range(2):
        with Store(tmp_path, {"model": "m"}) as store:
            for n, one in enumerate(asked):
                store.put(one, Response(str(n), ((-n / 7,),)))
            assert [store.get(one).logprobs for one in asked] == [((-n / 7,),) for n in range(30)]
            held = [value for value in vars(store).values() if isinstance(value, (dict, list)) and len(value) > 5]
            assert held == []
    with Store(tmp_path, {"model": "m"}) as store:
        assert len(store) == 30
