"""Tables of any length: what goes to a file and comes back, rows under a mask, and numbers of clusters."""

import json

import numpy as np
import pyarrow as pa
import pytest

import scoring
from scoring import report
from scoring.inputs import tables
from scoring.inputs.columns import ChangedTexts, ChosenRows, Columns, SpooledTable, blocks, from_arrow, length, numbered
from scoring.report.rows import _packed
from scoring.types import ScoringError
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows, pairs


def lines(count):
    for number in range(count):
        yield {
            "id": f"row-{number}",
            "p": None if number % 5 == 0 else -number / 7,
            "word": f"w{number % 3}",
            "n": number,
        }


@pytest.fixture
def small(monkeypatch):
    """Few lines are a block, and few texts stay in memory."""
    monkeypatch.setattr(Columns, "LINES", 4)
    monkeypatch.setattr(Columns, "TEXTS", 6)


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        assert repr(one[name].tolist()) == repr(other[name].tolist())


def test_long_texts_are_in_a_file_and_numbers_and_labels_in_memory(small):
    table = tables.as_table(lines(50))
    assert isinstance(table, SpooledTable)
    assert set(table.kept) == {"p", "word", "n"}
    assert length(table) == 50
    same(dict(table), {name: np.array(c) for name, c in whole(50).items()})


def whole(count):
    """The same table, all in memory."""
    every = list(lines(count))
    numbers = np.array([np.nan if line["p"] is None else line["p"] for line in every])
    texts = {name: np.array([line[name] for line in every], dtype=object) for name in ("id", "word")}
    return {"id": texts["id"], "p": numbers, "word": texts["word"], "n": np.arange(count)}


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_blocks_have_the_rows_in_order(small, size):
    table = tables.as_table(lines(50))
    for some in (list(table), ["id"], ["p", "id"]):
        parts = list(blocks(table, some, size))
        assert [len(part[some[0]]) for part in parts[:-1]] == [size] * (len(parts) - 1)
        same({name: np.concatenate([part[name] for part in parts]) for name in some}, {n: whole(50)[n] for n in some})


def test_a_column_that_begins_without_texts_has_empty_ones(small):
    table = tables.as_table({"id": str(n), "late": None if n < 9 else f"text {n}"} for n in range(40))
    assert table["late"].tolist() == [""] * 9 + [f"text {n}" for n in range(9, 40)]


def test_texts_with_half_a_character_come_back(small):
    odd = [f"\ud800{n}\0" for n in range(20)]
    assert tables.as_table({"id": text} for text in odd)["id"].tolist() == odd


def test_rows_under_a_mask_and_changed_texts_are_made_when_they_are_read(small):
    table = tables.as_table(lines(50))
    mask = np.arange(50) % 2 == 0
    same(dict(ChosenRows(table, mask)), {name: column[mask] for name, column in whole(50).items()})
    changed = ChangedTexts(table, lambda text: text.upper() if isinstance(text, str) else text)
    assert changed["id"][3] == "ROW-3"
    assert changed["word"][3] == "W0"
    assert changed["p"][1] == table["p"][1]
    assert [block["id"][0] for block in blocks(changed, ["id"], 20)] == ["ROW-0", "ROW-20", "ROW-40"]
    assert length(changed) == 50


@pytest.mark.parametrize(
    "values",
    [
        [f"{chr(97 + n * 7 % 26)}{chr(0x3B1 + n % 5)}\U0001f600{n % 4}" for n in range(60)],
        ["b", "a", "b", ""],
        ["b", 2, "a", 2],
        ["\ud800", "a", "\ud800"],
        [3, 1, 2, 1],
        [True, False, True],
    ],
)
def test_clusters_have_the_numbers_of_numpy(values):
    kinds = {type(value) for value in values}
    column = np.array(values, dtype=object if str in kinds else None)
    names, codes = np.unique(column.astype(str) if str in kinds else column, return_inverse=True)
    found, count = numbered(column)
    assert (found.tolist(), count) == (codes.tolist(), len(names))


def test_the_file_of_examples_comes_back_as_it_was(small, tmp_path):
    table = tables.as_table(lines(50))
    report.parquet("made", table, tmp_path / "made.parquet")
    stored = pa.parquet.read_table(tmp_path / "made.parquet")
    same(from_arrow(stored), whole(50))
    odd = pa.table({"id": ["a", "b"], "all": pa.nulls(2), "yes": [True, None], "n": [1, 2]})
    same(
        from_arrow(odd),
        tables.as_table([{"id": "a", "all": None, "yes": True, "n": 1}, {"id": "b", "all": None, "yes": None, "n": 2}]),
    )


def test_a_column_that_mixes_types_is_refused(small, tmp_path):
    table = tables.as_table({"id": str(n), "x": "a" if n < 30 else n} for n in range(60))
    with pytest.raises(ScoringError, match="columns of one"):
        report.parquet("made", table, tmp_path / "made.parquet")


def test_rows_of_a_page_are_packed_up_to_their_room(small):
    import base64
    import zlib

    table = tables.as_table(lines(50))
    packed = _packed("made", table, 10**6)
    shown = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert shown["columns"]["id"] == [f"row-{n}" for n in range(50)]
    assert shown["columns"]["p"][:2] == [None, float(f"{-1 / 7:.6g}")]
    assert shown["shown"] == ["id", "p", "word", "n"]
    assert _packed("made", table, len(packed)) == packed
    assert _packed("made", table, len(packed) - 1) is None


def test_a_run_whose_texts_are_in_a_file_has_the_same_numbers_and_files(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data_set(data, "occugender", {("explicit", "test"): list(job_rows())})
    data_set(data, "unstereo", {("ours-5", "test"): list(pairs("a"))})
    results = []
    for number, most in enumerate((10**6, 2)):
        monkeypatch.setattr(Columns, "TEXTS", most)
        out = tmp_path / f"run-{number}"
        results.append(scoring.evaluate("tiny-causal", data=data, exact=True, resamples=50, device="cpu", out=out))
    plain, spooled = results
    assert any(isinstance(table, SpooledTable) for table in spooled.tables.values())
    assert not any(isinstance(table, SpooledTable) for table in plain.tables.values())
    assert repr(spooled.report.estimates) == repr(plain.report.estimates)
    for name, table in plain.tables.items():
        same(dict(spooled.tables[name]), dict(table))
        file = f"examples/{name}.parquet"
        one, other = (pa.parquet.read_table(tmp_path / run / file) for run in ("run-0", "run-1"))
        assert one.equals(other)
    assert (tmp_path / "run-0/rows.html").read_text() == (tmp_path / "run-1/rows.html").read_text()
    loaded = scoring.load(tmp_path / "run-1")
    assert not loaded.compare(spooled).differences[0].value


def test_a_file_of_rows_that_changes_while_it_is_read_is_named(tmp_path):
    folder = data_set(tmp_path, "made", {("one", "test"): [{"id": str(n)} for n in range(5)]})
    loaded = tables.load(str(folder), "made", "one", "test")
    assert [row["id"] for row in loaded.rows] == ["0", "1", "2", "3", "4"]
    path = folder / "made/data/one/test.parquet"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ScoringError, match="changed while"):
        list(loaded.rows)
    path.unlink()
    with pytest.raises(ScoringError, match="cannot be read"):
        list(loaded.rows)


def test_drawn_rows_of_a_file_are_those_of_the_table(tmp_path, monkeypatch):
    folder = data_set(tmp_path, "made", {("one", "test"): [{"id": str(n)} for n in range(500)]})
    loaded = tables.load(str(folder), "made", "one", "test", limit=50)
    wanted = sorted(tables.random.Random(0).sample(range(500), 50))
    assert [row["id"] for row in loaded.rows] == [str(n) for n in wanted]
