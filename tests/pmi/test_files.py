import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pmi.files import FileError, read_rows, replacing, text_column, write_rows


def read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_rows(path)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_plain_text_is_a_row_a_line(tmp_path, ending, last):
    rows = read(tmp_path, "a.txt", ending.join(["one", "", "three"]) + ending * last)
    assert rows.to_pydict() == {"text": ["one", "", "three"]}


@pytest.mark.fault(17)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path, name):
    content = {"a.csv": "text,n\nhi,1\n", "a.tsv": "text\tn\nhi\t1\n", "a.txt": "hi\n", "a.jsonl": '{"text": "hi"}\n'}
    assert read(tmp_path, name, b"\xef\xbb\xbf" + content[name].encode())["text"].to_pylist() == ["hi"]


@pytest.mark.fault(17)
def test_csv_keeps_commas_and_line_ends_in_quotes_and_guesses_no_type(tmp_path):
    rows = read(tmp_path, "a.csv", 'text,n\r\n"a, ""b""\nc",007\r\nNA,null\r\n')
    assert rows.to_pydict() == {"text": ['a, "b"\nc', "NA"], "n": ["007", "null"]}


def test_json_lines_keep_their_columns(tmp_path):
    rows = read(tmp_path, "a.jsonl", '{"text": "é", "n": 1}\n{"text": "b", "n": null}\n')
    assert rows.to_pydict() == {"text": ["é", "b"], "n": [1, None]}


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_an_empty_file_has_no_rows(tmp_path, name):
    assert read(tmp_path, name, "").num_rows == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv"),
        ("a.csv", "text,n\nhi\n", r"a\.csv"),
        ("a.csv", "text,text\nhi,ho\n", r"a\.csv.*'text'"),
        ("a.jsonl", '{"text": \n', r"a\.jsonl"),
        ("a.parquet", "no Parquet", r"a\.parquet"),
        ("a.txt", b"caf\xe9 \n", r"a\.txt.*UTF-8.*\b3\b"),
        ("a.csv", b"text\ncaf\xe9\n", r"a\.csv.*UTF-8.*\b8\b"),
        ("a.jsonl", b'{"text": "\xe9"}\n', r"a\.jsonl.*UTF-8.*\b10\b"),
        (
            "a.xlsx",
            "x",
            "'.xlsx'",
        ),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_in_a_sentence(tmp_path, name, content, message):
    with pytest.raises(FileError, match=message) as caught:
        read(tmp_path, name, content)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(FileError, match=r"gone\.csv"):
        read_rows(tmp_path / "gone.csv")


def test_the_text_of_a_dictionary_column_is_read():
    assert text_column(pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode()}), "text", "f") == [
        "a",
        "b",
        "a",
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("body", "'body'"),
        ("n", "'n'"),
        ("text", r"\b1\b.*'text'"),
    ],
)
def test_a_column_without_texts_is_refused(column, message):
    with pytest.raises(FileError, match=message):
        text_column(pa.table({"text": ["a", None], "n": [1, 2]}), column, "f")


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.tsv", "a.jsonl"])
def test_written_rows_are_read_back(tmp_path, name):
    table = pa.table({"text": ['a, "b"\tc\n', "é"], "n": ["1", "2"]})
    write_rows(table, tmp_path / "new" / name)
    assert read_rows(tmp_path / "new" / name).to_pydict() == table.to_pydict()


def test_an_undefined_value_is_null_in_json_lines_and_empty_in_csv(tmp_path):
    table = pa.table({"word": ["a"], "delta": pa.array([None], pa.float64())})
    write_rows(table, tmp_path / "a.jsonl")
    write_rows(table, tmp_path / "a.csv")
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {"word": "a", "delta": None}
    assert (tmp_path / "a.csv").read_text() == '"word","delta"\n"a",\n'


def test_another_ending_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(FileError, match=r"'.xlsx'"):
        write_rows(pa.table({"a": [1]}), tmp_path / "a.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stays_when_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new" * (1 // 0))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileError, match=r"file/a\.txt"),
        replacing(tmp_path / "file" / "a.txt") as file,
    ):
        file.write(b"x")


def test_parquet_keeps_its_types(tmp_path):
    pq.write_table(pa.table({"text": ["a"], "n": [1]}), tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet").schema.field("n").type == pa.int64()
