"""Files of every kind give the same records, and what cannot be read is reported."""

import bz2
import glob
import gzip
import json
import lzma
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pmi.counting import reading
from pmi.counting.corpus import CorpusError, shards
from pmi.counting.reading import read, records

TEXTS = ["She saw a ship.\nHe did not.", "Ünïcode “quotes” — and \u2028 lines", "", 'a "quoted" \\ word\t\u0007 😀']
COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    ".zstd": lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
}


def lines(texts, field="text"):
    return "".join(json.dumps({"id": n, field: text}) + "\n" for n, text in enumerate(texts)).encode()


def written(path, data):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    (shard,) = shards([path])
    return shard


def given(shard, field="text"):
    """The records of a file and the reports about it."""
    messages, sizes = [], []
    data = b"".join(read(shard, field, messages.append, sizes.append))
    assert sum(sizes) == shard.size or messages
    assert not data or data.endswith(b"\xff")
    return data.split(b"\xff")[:-1], messages


def in_bytes(texts):
    return [text.encode() for text in texts]


@pytest.mark.parametrize("ending", COMPRESS)
def test_json_lines_give_their_texts_however_they_are_compressed(tmp_path, ending):
    shard = written(tmp_path / f"a.jsonl{ending}", COMPRESS[ending](lines(TEXTS)))
    assert given(shard) == (in_bytes(TEXTS), [])


@pytest.mark.parametrize("ending", COMPRESS)
def test_each_line_of_text_is_a_record_however_it_is_compressed(tmp_path, ending):
    texts = [text.replace("\n", " ") for text in TEXTS if text]
    path = tmp_path / f"a.txt{ending}"
    shard = written(path, COMPRESS[ending](("\r\n\n" + "\n\n".join(texts)).encode()))
    assert given(shard) == (in_bytes(texts), [])
    (shard,) = shards([path], "document")
    assert given(shard) == ([("\r\n\n" + "\n\n".join(texts)).encode()], [])


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_line_of_text_ends_at_cr_too_and_at_no_line_separator(tmp_path, end):
    texts = ["She saw a ship.", "one \u2028 two \x85 three", "He did not."]
    assert given(written(tmp_path / "a.txt", end.join(texts).encode())) == (in_bytes(texts), [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be", "utf-32-be"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_text_in_utf_16_and_utf_32_with_a_mark_gives_the_records_of_utf_8(monkeypatch, tmp_path, encoding, ending):
    # Blocks of 5 bytes end inside characters.
    monkeypatch.setattr(reading, "_BLOCK", 5)
    mark = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    for name, content in [
        ("a.txt", "\n".join(text.replace("\n", " ") for text in TEXTS)),
        ("a.jsonl", lines(TEXTS).decode()),
    ]:
        expected = given(written(tmp_path / "plain" / name, content.encode()))
        shard = written(tmp_path / f"{name}{ending}", COMPRESS[ending]((mark + content).encode(encoding)))
        assert given(shard) == expected


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_wide_text_without_a_mark_is_refused(tmp_path, encoding):
    shard = written(tmp_path / "a.txt", "She saw it.\n".encode(encoding))
    with pytest.raises(CorpusError, match="UTF-16"):
        given(shard)


def test_a_single_zero_byte_in_text_is_read(tmp_path):
    assert given(written(tmp_path / "a.txt", b"She saw \0 a long line of text.\n")) == (
        [b"She saw \0 a long line of text."],
        [],
    )


def test_ends_of_lines_at_the_ends_of_blocks_make_no_record(monkeypatch, tmp_path):
    monkeypatch.setattr(reading, "_BLOCK", 4)
    monkeypatch.setattr(reading, "_COMPRESSED_PIECE", 1)
    # In pieces of one byte every boundary of a block is tried.
    for number in range(6):
        text = "x" * number + "\n\none\n\n\ntwo\n"
        path = tmp_path / f"{number}.txt.gz"
        expected = [b"x" * number] * bool(number) + [b"one", b"two"]
        assert given(written(path, gzip.compress(text.encode()))) == (expected, [])


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_all_streams_of_a_compressed_file_are_read(tmp_path, ending):
    parts = [COMPRESS[ending](lines([text])) for text in TEXTS]
    assert given(written(tmp_path / f"a.jsonl{ending}", b"".join(parts))) == (in_bytes(TEXTS), [])


def test_parquet_gives_the_texts_of_its_column(tmp_path):
    pq.write_table(pa.table({"id": range(4), "body": TEXTS}), tmp_path / "a.parquet", row_group_size=3)
    assert given(shards([tmp_path / "a.parquet"])[0], "body") == (in_bytes(TEXTS), [])


def test_rows_of_parquet_without_text_are_reported(tmp_path):
    pq.write_table(pa.table({"text": ["one", None, "two", None]}), tmp_path / "a.parquet")
    records, messages = given(shards([tmp_path / "a.parquet"])[0])
    assert records == [b"one", b"two"]
    assert messages == [f"{tmp_path}/a.parquet has 2 rows left out, which have no text."]


def test_rows_in_memory_are_texts_or_mappings():
    assert b"".join(records(iter(TEXTS), "text")) == b"".join(records([{"body": t} for t in TEXTS], "body"))
    assert b"".join(records(TEXTS, "text")).split(b"\xff")[:-1] == in_bytes(TEXTS)


def test_a_streaming_data_set_is_rows():
    import datasets

    rows = datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset()
    assert b"".join(records(rows, "text")).split(b"\xff")[:-1] == in_bytes(TEXTS)


@pytest.mark.parametrize("row", [{"body": "x"}, {"text": None}, 3])
def test_a_row_without_text_is_refused(row):
    with pytest.raises(CorpusError, match="'text'"):
        list(records([row], "text"))


def test_addresses_of_other_file_systems_are_read():
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe("/corpus/a.jsonl.gz", gzip.compress(lines(TEXTS)))
    system.pipe("/corpus/b.txt", b"text")
    files = shards(["memory://corpus"])
    assert [(shard.format, shard.size > 0) for shard in files] == [("json", True), ("text", True)]
    assert [given(shard)[0] for shard in files] == [in_bytes(TEXTS), [b"text"]]
    assert shards(["memory://corpus/*.txt"]) == files[1:]


def test_folders_and_globs_name_files_each_once_in_order(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("b.txt", "in/a.jsonl.zst", ".hidden.txt", "picture.png"):
        (tmp_path / name).write_bytes(b"")
    texts = f"{glob.escape(str(tmp_path))}/*.txt"
    names = [shard.address.removeprefix(f"{tmp_path}/") for shard in shards([tmp_path, texts])]
    assert names == ["b.txt", "in/a.jsonl.zst"]


def test_a_given_format_has_priority_over_the_file_name(tmp_path):
    (tmp_path / "corpus").write_bytes(lines(TEXTS))
    assert given(shards([tmp_path / "corpus"], "json")[0])[0] == in_bytes(TEXTS)


def test_a_file_name_without_a_known_format_is_refused(tmp_path):
    (tmp_path / "corpus.pdf").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"corpus\.pdf"):
        shards([tmp_path / "corpus.pdf"])


@pytest.mark.parametrize("name", ["nothing.txt", "none/*.txt", "memory://nothing"])
def test_a_name_that_matches_nothing_is_refused(tmp_path, name):
    with pytest.raises(CorpusError, match="no file"):
        shards([name if "://" in name else tmp_path / name])


def test_an_address_of_an_unknown_kind_is_refused():
    with pytest.raises(CorpusError, match=r"nowhere://x .*listed"):
        shards(["nowhere://x"])


def test_a_changed_file_is_another_shard(tmp_path):
    before = written(tmp_path / "a.txt", b"one")
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    assert shards([tmp_path / "a.txt"])[0].digest() != before.digest()
    assert before.digest("rule") != before.digest()


@pytest.mark.fault(33)
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_the_part_before_the_cut_is_read_and_the_cut_reported(tmp_path, ending):
    texts = [os.urandom(300).hex() for _ in range(2000)]
    whole = COMPRESS[ending](lines(texts))
    shard = written(tmp_path / f"a.jsonl{ending}", whole[: len(whole) * 9 // 10])
    records, messages = given(shard)
    assert messages[0] == f"{shard.address} ends in the middle of its compressed stream; the part before was counted."
    # bzip2 gives a block of 900 kB at a time.
    assert len(records) > (1000 if ending != ".bz2" else 500)
    assert records == in_bytes(texts)[: len(records)]


@pytest.mark.fault(33)
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_the_part_before_the_damage_is_read_and_the_damage_reported(tmp_path, ending):
    texts = [os.urandom(300).hex() for _ in range(4000)]
    whole = bytearray(COMPRESS[ending](lines(texts)))
    middle = len(whole) * 3 // 4
    whole[middle : middle + 64] = bytes(64)
    shard = written(tmp_path / f"a.jsonl{ending}", bytes(whole))
    records, messages = given(shard)
    assert any("is damaged (" in sentence and "the part before was counted" in sentence for sentence in messages)
    assert len(records) > 1000


@pytest.mark.fault(33)
def test_bytes_after_a_gzip_stream_are_reported(tmp_path):
    records, messages = given(written(tmp_path / "a.txt.gz", gzip.compress(b"text") + b"garbage"))
    assert records == [b"text"]
    assert "is damaged (" in messages[0]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.jsonl.zst"])
def test_an_empty_file_has_no_words_and_no_loss(tmp_path, name):
    assert given(written(tmp_path / name, b"")) == ([], [])


def test_an_empty_file_is_no_parquet(tmp_path):
    with pytest.raises(CorpusError, match=r"a\.parquet"):
        given(written(tmp_path / "a.parquet", b""))


def test_lines_that_are_not_json_are_reported_together(tmp_path):
    data = lines(["one"]) + b'{"text": "cut\n\n[1]\n{"text": null}\nnonsense\n' + lines(["two"])
    records, messages = given(written(tmp_path / "a.jsonl", data))
    assert records == [b"one", b"two"]
    assert [sentence.removeprefix(f"{tmp_path}/a.jsonl has ") for sentence in messages] == [
        "2 lines left out, the first of them line 2, which is not JSON.",
        "1 lines left out, the first of them line 4, which is not a JSON object.",
        "1 lines left out, the first of them line 5, which has no text 'text' but the fields 'text'.",
    ]


def test_a_field_that_no_line_has_is_refused(tmp_path):
    message = r"a\.jsonl line 1 has no text 'body' but the fields 'id', 'text'; name the field that holds the text\."
    with pytest.raises(CorpusError, match=message):
        given(written(tmp_path / "a.jsonl", lines(TEXTS)), "body")


def test_a_column_that_parquet_does_not_have_is_refused(tmp_path):
    pq.write_table(pa.table({"id": [1], "body": ["x"]}), tmp_path / "a.parquet")
    for field, told in (
        ("text", "has no text 'text' but 'id', 'body'; name the field"),
        ("id", "has int64 as 'id'; name"),
    ):
        with pytest.raises(CorpusError, match=told):
            given(shards([tmp_path / "a.parquet"])[0], field)


@pytest.mark.parametrize("ending", ["", "\n"])
def test_the_last_line_needs_no_line_end(tmp_path, ending):
    data = lines(TEXTS).removesuffix(b"\n") + ending.encode()
    assert given(written(tmp_path / "a.jsonl", data))[0] == in_bytes(TEXTS)


@pytest.mark.parametrize("block", [1, 10, 100])
def test_lines_are_the_same_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(reading, "_BLOCK", block)
    assert given(written(tmp_path / "a.jsonl", lines(TEXTS)))[0] == in_bytes(TEXTS)


def test_a_line_too_long_for_memory_is_skipped_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 1000)
    monkeypatch.setattr(reading, "_BLOCK", 100)
    records, messages = given(written(tmp_path / "a.jsonl", lines(["one", "x" * 5000, "two", "y" * 5000])))
    assert records == [b"one", b"two"]
    assert messages[0].endswith("has 2 lines left out, the first of them line 2, which is longer than 1000 bytes.")


def test_bytes_and_escapes_that_are_not_text_stay_invalid(tmp_path):
    data = b'{"text": "a\xff\xfeb\xe2"}\n{"text": "\\ud800 c"}\n'
    records, messages = given(written(tmp_path / "a.jsonl", data))
    assert messages == []
    assert [sum(c > "\udc7f" for c in text.decode("utf-8", "surrogateescape")) for text in records] == [3, 3]


def test_the_byte_ff_in_a_file_does_not_end_a_record(tmp_path):
    assert given(written(tmp_path / "a.txt", b"one\xfftwo"))[0] == [b"one\xfetwo"]


PEAK = """
import pmi
counts = pmi.count({path!r}, jobs=1)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(counts.count_of("ship"), peak.split()[1])
"""


@pytest.mark.fault(33)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory where Linux tells it")
@pytest.mark.parametrize("ending", [".txt", ".txt.zst"])
def test_a_line_without_end_needs_little_memory(tmp_path, ending):
    """A line of 64 MB needs little more than one of 1 MB, so that nothing grows with a line."""
    peaks = []
    for megabytes in (1, 64):
        path = tmp_path / f"{megabytes}{ending}"
        path.write_bytes(COMPRESS[ending.removeprefix(".txt")](b"she saw the ship " * (megabytes * 60_000)))
        code = PEAK.format(path=str(path))
        # The least of three processes: what the allocator keeps differs by some MiB from one to the next.
        needed = []
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            found, peak = map(int, done.stdout.split())
            assert found == megabytes * 60_000
            needed.append(peak / 1024)
        peaks.append(min(needed))
    assert peaks[1] < peaks[0] + 24
