"""Counting a corpus gives one table, whatever the order, the number of processes and the interruptions."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from typer.testing import CliRunner

import pmi
from pmi.__main__ import app
from pmi.counting import local as counting
from pmi.counting.corpus import CorpusError
from pmi.counting.counts import Counts
from pmi.counting.local import GENDERED_WORDS, count
from pmi.types import PUBLISHED_PAIRS, THEY_FORMS, TableError
from pmi.words import stop_words
from tests.pmi import reference
from tests.support.helpers import beside

VOCABULARY = "she he her his they woman man nurse captain ship bridge the of a naïve don't 3.14 self-made".split()


def texts(seed, n=30):
    chance = random.Random(seed)
    return [" ".join(chance.choices(VOCABULARY, k=chance.randint(0, 60))) for _ in range(n)]


@pytest.fixture
def corpus(tmp_path):
    """Three files of JSON lines, by name; the folder that they are in is ``corpus``."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for n in range(3):
        lines = [json.dumps({"text": text}) for text in texts(n)]
        (folder / f"{n}.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def content(counts):
    return counts.words, counts.word_counts.tolist(), counts.pair_counts.tolist(), counts.rule, counts.totals


def run(*arguments):
    return CliRunner().invoke(app, ["count", *map(str, arguments)])


def opened(monkeypatch):
    """The addresses of files that are read, as they are."""
    seen = []
    real = counting.read
    monkeypatch.setattr(counting, "read", lambda shard, *rest: seen.append(shard.address) or real(shard, *rest))
    return seen


def test_a_corpus_has_the_counts_of_the_reference_implementation(corpus):
    counts = count(corpus, jobs=1)
    all_texts = [text for n in range(3) for text in texts(n)]
    expected, near, pairs = reference.counted(all_texts, set(GENDERED_WORDS), stop_words("clean"), 10)
    assert dict(zip(counts.words, counts.word_counts.tolist(), strict=True)) == dict(expected)
    result = {
        (w, g): n
        for g in GENDERED_WORDS
        for w, n in zip(counts.words, counts.pair_counts_of(g).tolist(), strict=True)
        if n
    }
    assert result == dict(near)
    assert (counts.totals.words, counts.totals.pairs, counts.totals.documents) == (expected.total(), pairs, 90)
    assert counts.totals.bytes == sum(len(text.encode()) for text in all_texts)


def test_by_default_the_words_of_all_pairs_and_forms_of_they_are_gendered_words():
    assert set(GENDERED_WORDS) == {word for pair in PUBLISHED_PAIRS for word in (pair.first, pair.second)} | set(
        THEY_FORMS
    )


@pytest.mark.fault(34)
def test_any_order_of_files_and_any_number_of_processes_give_the_same_bytes(corpus, tmp_path):
    files = sorted(corpus.iterdir())
    orders = [(files, 1), (files[::-1], 1), ([files[1], files[2], files[0]], 2)]
    size = sum(path.stat().st_size for path in files)
    for n, (order, jobs) in enumerate(orders):
        reports = []
        progress = partial(lambda reports, *sizes: reports.append(sizes), reports)
        counts = count(order, name="made", jobs=jobs, progress=progress)
        counts.write(tmp_path / f"{n}.parquet")
        assert reports[-1] == (size, size), "progress tells how many bytes of how many"
        assert reports == sorted(reports)
    assert len({(tmp_path / f"{n}.parquet").read_bytes() for n in range(len(orders))}) == 1


def test_rows_in_memory_have_the_counts_of_their_file(corpus):
    rows = ({"text": text} for n in range(3) for text in texts(n))
    assert content(count(rows, name="made")) == content(count(corpus, name="made", jobs=1))


def test_a_finished_file_is_not_read_again(corpus, tmp_path, monkeypatch):
    seen = opened(monkeypatch)
    first = count(corpus, jobs=1, work_folder=tmp_path / "parts")
    assert sorted(seen) == [str(corpus / f"{n}.jsonl") for n in range(3)]
    seen.clear()
    assert content(count(corpus, jobs=1, work_folder=tmp_path / "parts")) == content(first)
    assert seen == []


def test_a_file_that_changed_is_read_again_and_so_is_each_under_another_rule(corpus, tmp_path, monkeypatch):
    count(corpus, jobs=1, work_folder=tmp_path / "parts")
    seen = opened(monkeypatch)
    (corpus / "1.jsonl").write_text('{"text": "she saw the ship"}\n')
    assert count(corpus, jobs=1, work_folder=tmp_path / "parts").totals.documents == 61
    assert seen == [str(corpus / "1.jsonl")]
    seen.clear()
    count(corpus, jobs=1, window=5, work_folder=tmp_path / "parts")
    assert len(seen) == 3


def test_a_table_of_a_file_that_is_half_written_is_made_again(corpus, tmp_path):
    whole = count(corpus, jobs=1, work_folder=tmp_path / "parts")
    part = next((tmp_path / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    assert content(count(corpus, jobs=1, work_folder=tmp_path / "parts")) == content(whole)


def test_an_error_in_one_process_ends_the_count_and_keeps_what_is_finished(corpus, tmp_path):
    (corpus / "broken.parquet").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"broken\.parquet"):
        count(corpus, jobs=2, work_folder=tmp_path / "parts")
    (corpus / "broken.parquet").unlink()
    assert count(corpus, jobs=1, work_folder=tmp_path / "parts").totals.documents == 90


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_ends_with_130_and_the_next_start_continues(tmp_path, jobs):
    """The second file is a pipe that nobody writes to, so that the count is surely under way."""
    for n in range(2):
        (tmp_path / f"{n}.txt").write_text("she saw the ship " * 50)
    os.mkfifo(tmp_path / "pipe.txt")
    out = tmp_path / "out.parquet"
    arguments = [f"{tmp_path}/0.txt", f"{tmp_path}/1.txt", "--name", "x", "--out", str(out), "--jobs", str(jobs)]
    holder = os.open(tmp_path / "pipe.txt", os.O_RDWR)
    parts = tmp_path / "out.parquet.parts"
    more = [f"{tmp_path}/pipe.txt"]

    def heed():
        """A process that was started in the background ignores interruptions, and its children would too."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        [sys.executable, "-m", "pmi", "count", *arguments, *more],
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=heed,
    ) as blocked:
        while len(list(parts.glob("[!.]*.parquet")) if parts.exists() else []) < 2:
            assert blocked.poll() is None, blocked.stderr.read()
            time.sleep(0.05)
        os.killpg(blocked.pid, signal.SIGINT)
        output = blocked.communicate(timeout=60)[1].decode()
    os.close(holder)
    assert blocked.returncode == 130
    assert "Interrupted; finished files are kept, and the same command continues from there." in output
    assert "Traceback" not in output
    assert not out.exists()
    before = {path.name: path.stat().st_mtime_ns for path in parts.glob("[!.]*.parquet")}
    assert len(before) == 2
    assert run(*arguments).exit_code == 0
    assert Counts.read(out).count_of("ship") == 100


def test_the_command_writes_the_table_and_leaves_nothing_else(corpus, tmp_path):
    out = tmp_path / "counts.parquet"
    result = run(corpus, "--out", out, "--jobs", 1, "--name", "made")
    assert result.exit_code == 0
    counts = Counts.read(out)
    assert content(counts) == content(count(corpus, name="made", jobs=1))
    sizes = f"{len(counts.words)} different words, {counts.totals.words:,} word tokens"
    assert f"{sizes}, in 90 records of" in result.stdout
    assert "Gendered words that do not occur: him, them, their" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "counts.parquet"]


def test_words_and_stop_words_come_from_files(tmp_path):
    (tmp_path / "a.txt").write_text("The nurse saw the queen")
    (tmp_path / "words.txt").write_text("queen # and no king\n")
    (tmp_path / "stop.txt").write_text("The\n")
    out = tmp_path / "c.parquet"
    options = ("--words", tmp_path / "words.txt", "--stop-words", tmp_path / "stop.txt", "--window", 1)
    assert run(tmp_path / "a.txt", "--out", out, *options).exit_code == 0
    counts = Counts.read(out)
    assert counts.words == ("nurse", "queen", "saw")
    assert counts.pair_counts_of("queen").tolist() == [0, 0, 1]
    rule = counts.rule
    assert (rule.window, rule.stopped, rule.stop_words, rule.gendered) == (1, ("the",), "1 given words", ("queen",))


def test_the_boundary_can_be_a_line(tmp_path):
    (tmp_path / "a.txt").write_text("nurse\nshe saw\n")
    for options in ({}, {"boundary": "line"}, {"boundary": "line", "format": "document"}):
        assert count(tmp_path / "a.txt", **options).pair_counts_of("she").tolist() == [0, 1, 0]
    assert count(tmp_path / "a.txt", format="document").pair_counts_of("she").tolist() == [1, 1, 0]


def test_lines_of_text_and_of_json_have_equal_counts(tmp_path):
    texts = ["She saw a nurse.", "He met the doctor, and the doctor met him.", "The man ran."]
    (tmp_path / "a.txt").write_text("\n\n".join(texts))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    of_text, of_json = (count(tmp_path / name, name="c") for name in ("a.txt", "a.jsonl"))
    assert of_text.words == of_json.words
    assert of_text.word_counts.tolist() == of_json.word_counts.tolist()
    assert of_text.pair_counts.tolist() == of_json.pair_counts.tolist()
    assert of_text.totals.documents == of_json.totals.documents == 3
    assert of_text.totals.bytes == of_json.totals.bytes


@pytest.mark.parametrize("text", ["", "?! …"])
def test_a_corpus_without_a_word_ends_with_status_1_and_keeps_the_table(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    out = tmp_path / "counts.parquet"
    (tmp_path / "b.txt").write_text("She saw.")
    assert run(tmp_path / "b.txt", "--out", out).exit_code == 0
    before = out.read_bytes()
    result = run(tmp_path / "a.txt", "--out", out)
    assert result.exit_code == 1
    assert "No word was counted in" in result.stderr
    assert out.read_bytes() == before


def test_the_rule_for_records_of_text_is_said(tmp_path):
    (tmp_path / "a.txt").write_text("She saw.")
    (tmp_path / "a.jsonl").write_text('{"text": "She saw."}')
    assert "Each line of a text file is a record" in run(tmp_path / "a.txt", "--out", tmp_path / "t.parquet").stdout
    assert "Each line" not in run(tmp_path / "a.jsonl", "--out", tmp_path / "j.parquet").stdout
    as_document = run(tmp_path / "a.txt", "--out", tmp_path / "d.parquet", "--format", "document")
    assert "Each line" not in as_document.stdout


@pytest.mark.fault(32)
@pytest.mark.parametrize("text", ["", "ship", "ship bridge"])
def test_a_corpus_without_a_gendered_word_has_counts_and_no_delta(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    counts = count(tmp_path / "a.txt", jobs=1)
    assert list(counts.words) == sorted(text.split())
    assert not counts.pair_counts.any()
    assert len(counts.delta().delta) == 0
    assert counts.totals.words == len(text.split())


def test_a_gendered_word_that_never_occurs_is_reported(tmp_path):
    (tmp_path / "a.txt").write_text("she saw")
    (tmp_path / "words.txt").write_text("she he")
    result = run(tmp_path / "a.txt", "--out", tmp_path / "c.parquet", "--words", tmp_path / "words.txt")
    assert "Gendered words that do not occur: he." in result.stdout
    assert Counts.read(tmp_path / "c.parquet").pair_counts_of("he").tolist() == [0, 0]


@pytest.mark.fault(33)
def test_unreadable_data_is_reported_and_stored_in_the_table_or_refused_when_strict(tmp_path):
    import gzip

    whole = gzip.compress(b"she saw the ship " * 5000)
    (tmp_path / "a.txt.gz").write_bytes(whole[:-20])
    out = tmp_path / "c.parquet"
    result = run(tmp_path / "a.txt.gz", "--out", out)
    message = f"{tmp_path}/a.txt.gz ends in the middle of its compressed stream; the part before was counted."
    assert result.exit_code == 0
    assert message in result.stderr
    assert Counts.read(out).totals.losses == (message,)
    assert Counts.read(out).count_of("ship") > 0
    strict = run(tmp_path / "a.txt.gz", "--out", tmp_path / "strict.parquet", "--strict")
    assert strict.exit_code == 1
    assert "counted; repair it, or count it without --strict." in strict.stderr
    assert not (tmp_path / "strict.parquet").exists()


@pytest.mark.fault(18)
def test_invalid_utf8_is_counted_and_reported_or_refused_when_strict(tmp_path):
    (tmp_path / "a.txt").write_bytes("she saw the café".encode("latin-1"))
    out = tmp_path / "c.parquet"
    result = run(tmp_path / "a.txt", "--out", out)
    assert "1 bytes are not valid UTF-8." in result.stdout
    assert Counts.read(out).totals.invalid_bytes == 1
    strict = run(tmp_path / "a.txt", "--out", out, "--strict")
    assert strict.exit_code == 1
    assert "a.txt has bytes that are not valid UTF-8; convert it, or count it without --strict." in strict.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stop-words", "clear"], "There are no stop words 'clear'; give clean, nltk or none."),
        (["--words", "nowhere.txt"], "The words in nowhere.txt cannot be read"),
        (["--words", "EMPTY"], "has no word; give a file with at least one."),
        (["nowhere.txt"], "There is no file nowhere.txt; give files, folders, globs or addresses of a corpus."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(corpus, tmp_path, options, message):
    (tmp_path / "empty.txt").write_text("# nothing")
    options = [str(tmp_path / "empty.txt") if option == "EMPTY" else option for option in options]
    result = run(corpus, "--out", tmp_path / "c.parquet", *options)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_the_same_words_count_in_a_sentence_and_in_a_corpus():
    text = "“Don’t,” said the fiancée of ﬁve — she'd 1,000 self-made co\u00adoperatives."
    counts = count(iter([text]), gendered=("she",))
    from pmi.analysis.sentence import content_words

    assert sorted(content_words(text, "clean")) == sorted(
        word for word, n in zip(counts.words, counts.word_counts, strict=True) for _ in range(n)
    )


def test_the_package_gives_its_functions_without_loading_what_they_need():
    code = (
        "import sys, pmi; assert not {'numba', 'pyarrow', 'numpy'} & set(sys.modules); "
        "import pmi.counting.local, pmi.counting.counts, pmi.types; "
        "assert all(callable(getattr(pmi, name)) for name in pmi.__all__)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="nothing"):
        _ = pmi.nothing


def test_an_unknown_list_of_stop_words_is_refused():
    with pytest.raises(TableError, match="'english'"):
        count(iter(["x"]), stop="english")


@pytest.mark.mirror
def test_real_text_has_the_counts_of_the_reference_implementation():
    import zstandard

    path = beside("corpora", "wikipedia.jsonl.zst")
    with zstandard.open(path, "rt", encoding="utf-8") as file:
        sample = [json.loads(next(file))["text"] for _ in range(500)]
    counts = count(iter(sample))
    expected, near, pairs = reference.counted(sample, set(GENDERED_WORDS), stop_words("clean"), 10)
    assert dict(zip(counts.words, counts.word_counts.tolist(), strict=True)) == dict(expected)
    assert int(counts.pair_counts.sum()) == near.total()
    assert counts.totals.pairs == pairs
