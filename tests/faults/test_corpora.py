"""Files of corpora in forms that are rare: read, or named exactly; counts that were changed are refused."""

import codecs
import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pmi.counting.corpus import CorpusError, shards
from pmi.counting.counts import Counts
from pmi.counting.local import count
from tests.support import commands
from tests.support.helpers import ROOT

TEXTS = ["She saw a ship.", "He saw the captain of the ship.", "She wrote."]
WORDS = {"captain": 1, "he": 1, "saw": 2, "she": 2, "ship": 2, "wrote": 1}


def counted(*files, **options):
    """How often each word of files occurs."""
    result = count(list(files), gendered=["she", "he"], jobs=1, **options)
    return dict(zip(result.words, result.word_counts.tolist(), strict=True))


def long_window(text, log=28):
    """A zstd frame with a window of 2^log bytes and one raw block (RFC 8878, section 3.1.1)."""
    block = (len(text) << 3 | 1).to_bytes(3, "little") + text
    return bytes.fromhex("28b52ffd") + bytes([0, (log - 10) << 3]) + block


@pytest.mark.fault(71)
def test_a_zstd_frame_with_a_long_window_is_refused_and_read_with_the_option(tmp_path):
    file, out = tmp_path / "a.txt.zst", tmp_path / "c.parquet"
    file.write_bytes(long_window(" ".join(TEXTS).encode()))
    done = commands.run("pmi", "count", file, "--out", out)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"error: {file} has a zstd frame with a window of more than 128 MB, as zstd --long writes; give a larger "
        "--max-window, up to 2048."
    )
    assert not out.exists()
    assert commands.run("pmi", "count", file, "--out", out, "--max-window", 256).returncode == 0
    assert Counts.read(out).count_of("ship") == 2
    assert counted(file, max_window=1 << 28) == WORDS


@pytest.mark.fault(71)
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
    ids=str,
)
def test_every_form_of_text_in_parquet_is_read(tmp_path, kind):
    column = pa.array([*TEXTS, None])
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    if pa.types.is_dictionary(kind) and pa.types.is_binary(kind.value_type):
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.binary()))
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    assert counted(tmp_path / "a.parquet") == WORDS


@pytest.mark.fault(71)
@pytest.mark.parametrize(
    ("column", "told"),
    [
        ([[text] for text in TEXTS], "has list<element: string> as 'text'; name a field that holds text"),
        ([1, 2, 3], "has int64 as 'text'; name a field that holds text"),
        ([{"text": "x"}], "has struct<text: string> as 'text'; name a field that holds text"),
    ],
)
def test_another_type_in_parquet_is_named_exactly(tmp_path, column, told):
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(CorpusError) as error:
        counted(tmp_path / "a.parquet")
    assert told in str(error.value)


@pytest.mark.fault(71)
def test_one_file_by_several_names_counts_once(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    file.write_text(" ".join(TEXTS))
    (tmp_path / "b.txt").symlink_to(file)
    os.link(file, tmp_path / "c.txt")
    (tmp_path / "d.txt").write_text("She wrote.")
    monkeypatch.chdir(tmp_path)
    names = [file, "a.txt", "./b.txt", tmp_path / "c.txt", tmp_path, "*.txt", tmp_path / ".." / tmp_path.name / "a.txt"]
    assert len(shards(names)) == 2
    assert counted(*names) == WORDS | {"she": 3, "wrote": 2}


@pytest.mark.fault(71)
def test_a_byte_order_mark_in_json_lines_is_skipped(tmp_path):
    lines = "".join(f'{{"text": "{text}"}}\n' for text in TEXTS).encode()
    (tmp_path / "a.jsonl").write_bytes(codecs.BOM_UTF8 + lines)
    result = count(tmp_path / "a.jsonl", gendered=["she", "he"], jobs=1)
    assert result.totals.losses == ()
    assert result.totals.documents == 3
    assert result.count_of("she") == 2


@pytest.mark.fault(86)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("ending", "content", "status"),
    [
        (".txt", b"She \xff saw\n", 0),
        (".txt.gz", b"\x1f\x8b\x08damaged", 1),
        (".txt.zst", b"(\xb5/\xfddamaged", 1),
        (".jsonl", b"{damaged\n", 1),
        (".parquet", b"PAR1damaged", 1),
        (".unknown", b"She saw", 1),
    ],
)
def test_escape_codes_in_names_of_files_are_printed_as_text(tmp_path, monkeypatch, ending, content, status, strict):
    monkeypatch.chdir(tmp_path)
    name, out = f"\x1b[31m\x1b]0;title\x07\x9bcorpus{ending}", "\x1b[32mcounts.parquet"
    (tmp_path / name).write_bytes(content)
    done = commands.run("pmi", "count", name, "--out", out, *["--strict"] * strict)
    assert done.returncode == (1 if strict else status), done
    told = done.stdout + done.stderr
    assert "\\x1b[" in told
    assert [character for character in told if not character.isprintable() and character != "\n"] == []
    if done.returncode:
        assert re.fullmatch(r"error: .*\\x1b\[31m\\x1b\]0;title\\x07\\x9bcorpus.*\.", done.stderr.strip()), done.stderr
        assert not (tmp_path / out).exists()
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.fault(72)
def test_a_script_without_a_main_guard_counts_files_in_processes(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(" ".join(TEXTS))
    (tmp_path / "script.py").write_text(
        "import pmi\nprint('begun')\n"
        "print(pmi.count(['a.txt', 'b.txt'], gendered=['she', 'he'], jobs=2).count_of('ship'))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("begun\n4\n", "", 0)
