"""A line of JSON gives the text that ``json`` gives, or the fault that ``json`` finds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmi.counting.corpus import shards
from pmi.counting.reading import json_text, read

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
@given(ROWS, st.booleans(), st.sampled_from([None, (",", ":"), (" , ", " :\t")]))
def test_a_line_gives_the_text_that_json_gives(row, ascii_only, separators):
    text, fault = json_text(encoded(json.dumps(row, ensure_ascii=ascii_only, separators=separators)), "text")
    if isinstance(row.get("text"), str):
        assert (text, fault) == (encoded(row["text"]), "")
    else:
        assert text is None
        assert fault.startswith("has no text 'text' but the fields ")


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "cut',
        b'{"text": "cut\\',
        b'{"text": "a"',
        b'{"text": "a"}}',
        b'{"text": "a", "b": [1}',
        b'{"text": "a", "b": 1e}',
        b'{"text": "a"} nonsense',
        b'{"text": "a\tb"}',
        b'{"text": "\\x"}',
        b'{"text": "\\u12g4"}',
        b'{"text": "\\u12"}',
        b'{"text" "a"}',
        b"text",
        b"[" * 100,
        b"[" * 100_000,
        b'\xef\xbb\xbf{"text": "a"}',
    ],
)
def test_a_line_that_is_not_json_is_reported(line):
    assert json_text(line, "text") == (None, "is not JSON")


@pytest.mark.parametrize("line", [b'["text", "a"]', b'"text"', b"3", b"null"])
def test_a_line_that_is_not_an_object_is_reported(line):
    assert json_text(line, "text") == (None, "is not a JSON object")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b'{"text": 1}', "'text'"),
        (b'{"text": null}', "'text'"),
        (b'{"text": {"text": "a"}}', "'text'"),
        (b'{"text": ["a"]}', "'text'"),
        (b'{"a": {"text": "b"}, "b": 1}', "'a', 'b'"),
        (b"{}", ""),
    ],
)
def test_a_line_without_a_text_is_reported_with_its_fields(line, fields):
    assert json_text(line, "text") == (None, f"has no text 'text' but the fields {fields}")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text": "a", "text": "b"}', b"b"),
        (b'{"te\\u0078t": "a"}', b"a"),
        (b' \t{"text": "a"} \r', b"a"),
        (b'{"text": "a", "b": NaN}', b"a"),
        (b'{"text": "caf\xe9", "b": "\xff"}', b"caf\xe9"),
        (b'{"text": "a\xffb"}', b"a\xfeb"),
        (b'{"text": ""}', b""),
    ],
)
def test_an_unusual_line_has_its_text(line, text):
    assert json_text(line, "text") == (text, "")


@pytest.mark.parametrize(("escape", "text"), [
    (r"\u00e9", "é"), (r"\uD83D\uDE00", "😀"), (r"\u20ac", "€"), (r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
    (r"\ud83d", "\ud83d"), (r"\ude00\ud83d", "\ude00\ud83d"), (r"\ud83d\u0041", "\ud83dA"),
])  # fmt: skip
def test_escapes_are_decoded_to_their_characters(escape, text):
    assert json_text(b'{"text":"' + escape.encode() + b'"}', "text") == (encoded(text), "")


def test_empty_lines_and_other_line_ends_are_accepted(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\n \r\n{"text": "a"}\r\n\n[]\n{"text": ""}')
    reports = []
    data = b"".join(read(shards([tmp_path / "a.jsonl"])[0], "text", reports.append, lambda _: None))
    assert data == b"a\xff\xff"
    assert reports == [
        f"{tmp_path}/a.jsonl has 1 lines left out, the first of them line 5, which is not a JSON object."
    ]


def test_the_field_may_have_any_name():
    assert json_text('{"ünï": "a"}'.encode(), "ünï")[0] == b"a"
