"""The compiled reader of JSON lines says what ``json`` says, or leaves the line to it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmi.counting.jsonlines import texts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "a", 'q"']), inner, max_size=3)
    ),
    max_leaves=6,
)
ROWS = st.dictionaries(st.sampled_from(["text", "id", "tex", "texts", "{", "ünï"]), VALUES, max_size=4)


def encoded(text):
    return text.encode("utf-8", "surrogatepass")


@settings(max_examples=300)
@given(st.lists(ROWS, max_size=5), st.booleans(), st.sampled_from([None, (",", ":"), (" , ", " :\t")]))
def test_every_line_that_is_not_left_to_json_gives_the_text_that_json_gives(rows, ascii_only, separators):
    lines = [encoded(json.dumps(row, ensure_ascii=ascii_only, separators=separators)) for row in rows]
    found, odd, number = texts(b"".join(line + b"\n" for line in lines), "text")
    left = dict(odd)
    assert number == len(rows)
    assert [lines[n] for n in left] == list(left.values())
    expected = [encoded(row["text"]) + b"\xff" for n, row in enumerate(rows) if n not in left]
    assert found == b"".join(expected)
    # Only what has no plain text may be left over.
    assert all(not isinstance(rows[n].get("text"), str) or any("\\" in json.dumps(k) for k in rows[n]) for n in left)


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "cut',
        b'{"text": "cut\\',
        b'{"text": "a"',
        b'{"text": "a"}}',
        b'{"text": "a", "b": [1}',
        b'{"text": "a"} nonsense',
        b'{"text": "a\tb"}',
        b'{"text": "\\x"}',
        b'{"text": "\\u12g4"}',
        b'{"text": "\\u12"}',
        b'{"text": 1}',
        b'{"text": null}',
        b'{"text": {"text": "a"}}',
        b'{"text": ["a"]}',
        b'{"a": {"text": "b"}}',
        b'{"text": "a", "text": "b"}',
        b'{"te\\u0078t": "a"}',
        b'{"text" "a"}',
        b'["text", "a"]',
        b'"text"',
        b"text",
        b"{}",
        b"[" * 100,
    ],
)
def test_a_line_out_of_the_ordinary_is_left_to_json(line):
    assert texts(b'{"text": "one"}\n' + line + b'\n{"text": "two"}', "text") == (b"one\xfftwo\xff", [(1, line)], 3)


@pytest.mark.parametrize(("escape", "text"), [
    (r"\u00e9", "é"), (r"\uD83D\uDE00", "😀"), (r"\u20ac", "€"), (r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
    (r"\ud83d", "\ud83d"), (r"\ude00\ud83d", "\ude00\ud83d"), (r"\ud83d\u0041", "\ud83dA"),
])  # fmt: skip
def test_escapes_are_the_characters_that_they_stand_for(escape, text):
    assert texts(b'{"text":"' + escape.encode() + b'"}', "text")[0] == encoded(text) + b"\xff"


def test_empty_lines_and_other_ends_of_lines_are_no_matter():
    assert texts(b'\n \r\n{"text": "a"}\r\n\n', "text") == (b"a\xff", [], 4)
    assert texts(b"", "text") == (b"", [], 0)


def test_the_field_may_have_any_name():
    assert texts('{"ünï": "a"}'.encode(), "ünï")[0] == b"a\xff"
