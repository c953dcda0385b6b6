from pathlib import Path

import pytest

from builders.dataset import BuildError
from builders.parsers import read


def made(folder: Path, content: bytes) -> Path:
    path = folder / "made.csv"
    path.write_bytes(content)
    return path


@pytest.mark.fault(16)
def test_an_unquoted_comma_is_refused_with_its_line_number(tmp_path):
    path = made(tmp_path, b"is here\nis tall, dark\nis gone\n")
    with pytest.raises(BuildError, match=r"made\.csv.*\b2\b.*\b2\b.*\b1\b"):
        list(read.table(path, ["predicate"], header=False))


@pytest.mark.fault(16)
def test_a_quoted_comma_is_part_of_the_value(tmp_path):
    path = made(tmp_path, b'"is tall, dark"\n')
    assert list(read.table(path, ["predicate"], header=False)) == [{"predicate": "is tall, dark"}]


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    "content",
    [
        b'a,b\n1,"x\ny"\n2,z\n',
        b'\xef\xbb\xbfa,b\n1,"x\ny"\n2,z\n',
        b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n',
        b'a,b\r1,"x\ry"\r2,z\r',
        b'a,b\n1  ,"x\ny" \n2,z\t\n',
        b'a,b\n1,"x\ny"\n2,z',
    ],
    ids=["plain", "byte-order mark", "CRLF", "lone CR", "trailing spaces", "no last line end"],
)
def test_line_ends_marks_and_trailing_spaces_give_the_same_rows(tmp_path, content):
    rows = list(read.table(made(tmp_path, content), ["a", "b"]))
    assert rows == [{"a": "1", "b": "x\ny"}, {"a": "2", "b": "z"}]


@pytest.mark.fault(18)
def test_bytes_that_are_not_utf8_are_refused_at_their_offset(tmp_path):
    path = made(tmp_path, "naïve".encode("latin-1"))
    with pytest.raises(BuildError, match=r"made\.csv.*UTF-8.*\b2\b.*UTF-8"):
        read.text(path)


def test_a_header_of_another_file_is_refused(tmp_path):
    path = made(tmp_path, b"a,c\n1,2\n")
    with pytest.raises(BuildError, match=r"'a'.*'c'.*'a'.*'b'"):
        list(read.table(path, ["a", "b"]))


def test_a_quote_that_never_closes_is_refused(tmp_path):
    with pytest.raises(BuildError, match=r"made\.csv.*\b1\b.*CSV"):
        list(read.table(made(tmp_path, b'"is here\n'), ["predicate"], header=False))


def test_a_line_has_all_optional_columns_or_none(tmp_path):
    path = made(tmp_path, b"1\n1\t2\t3\n")
    rows = list(read.table(path, ["a"], optional=["b", "c"], delimiter="\t", header=False))
    assert rows == [{"a": "1"}, {"a": "1", "b": "2", "c": "3"}]
    path = made(tmp_path, b"1\t2\n")
    with pytest.raises(BuildError, match="has 2 fields"):
        list(read.table(path, ["a"], optional=["b", "c"], delimiter="\t", header=False))


def test_without_quoting_quotes_are_text(tmp_path):
    path = made(tmp_path, b'a "b\tc\n')
    assert list(read.table(path, ["x", "y"], delimiter="\t", header=False, quoted=False)) == [{"x": 'a "b', "y": "c"}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a \r\nb\rc\n", ["a", "b", "c"]),
        ("a\u2028b\n".encode(), ["a\u2028b"]),
    ],
)
def test_lines_end_at_line_feeds_and_carriage_returns_alone(tmp_path, content, expected):
    assert read.lines(made(tmp_path, content)) == expected


def test_a_blank_line_of_a_one_column_file_is_an_empty_value(tmp_path):
    rows = list(read.table(made(tmp_path, b"x\n\ny\n"), ["predicate"], header=False))
    assert [row["predicate"] for row in rows] == ["x", "", "y"]


def test_broken_json_is_refused_with_line_and_column(tmp_path):
    with pytest.raises(BuildError, match=r"made\.csv.*\b2\b.*JSON"):
        list(read.json_lines(made(tmp_path, b'{"a": "\xe2\x80\xa8"}\n{"a"\n')))
    with pytest.raises(BuildError, match=r"made\.csv.*JSON.*\b1\b.*\b2\b"):
        read.json_document(made(tmp_path, b"{"))
