import errno
import os

import pyarrow.parquet as pq
import pytest

from builders.dataset import BuildError, Config, Drop, Origin, Row, columns, content_id
from builders.files import folders, write

HERE = Origin("made", "made.csv", 7)


def config(rows, **more):
    schema = columns("prompt score:double?")
    return Config("made", "Made.", "MIT", schema, lambda _: iter(rows), **more)


def row(id_="a", split="test", **values):
    return Row(split, id_, HERE, {"prompt": "p", "score": None} | values)


def tables(*rows, **more):
    made = config(rows, **more)
    return write.tables(made, made.rows({}), "en")


def test_rows_carry_their_provenance_and_the_configs_licence():
    table, dropped = tables(row())["test"]
    assert table.to_pylist() == [
        {
            "id": "a",
            "prompt": "p",
            "score": None,
            "language": "en",
            "source": "made",
            "source_file": "made.csv",
            "source_row": 7,
            "licence": "MIT",
        }
    ]
    assert dropped == {}


def test_a_row_may_have_a_licence_of_its_own():
    mixed = Row("test", "a", HERE, {"prompt": "p", "score": 1.0}, licence="CC-BY-4.0")
    assert tables(mixed)["test"][0]["licence"].to_pylist() == ["CC-BY-4.0"]


@pytest.mark.fault(20)
def test_drops_are_counted_by_reason():
    drops = [Drop("test", HERE, "row is blank")] * 2 + [Drop("test", HERE, "label is '-1'")]
    assert tables(row(), *drops)["test"][1] == {"label is '-1'": 1, "row is blank": 2}


@pytest.mark.fault(20)
def test_a_duplicate_id_is_refused_with_both_places():
    message = r"made: made.csv row 7 has the id 'a', which made: made.csv row 7 has too; ids must be unique"
    with pytest.raises(BuildError, match=message):
        tables(row("a"), row("a"))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(split="dev"), "'dev'"),
        (row(extra=1), "differs from the config's columns in extra"),
        (row(prompt=None), "has no prompt; the column may not be null"),
        (row(prompt=""), "has '' as prompt; expected text without control characters"),
        (row(prompt="a\x00b"), "'a.x00b'"),
        (row(score="high"), "made has a value of another type than its column"),
        (row(prompt=3), "made has a value of another type than its column"),
    ],
)
def test_a_row_that_is_not_what_its_config_says_is_refused(bad, message):
    with pytest.raises(BuildError, match=message):
        tables(bad)


def test_a_split_without_rows_is_refused():
    with pytest.raises(BuildError, match=r"made\b.*train"):
        tables(row(), splits=("train", "test"))


@pytest.mark.fault(19)
def test_ids_do_not_depend_on_unicode_form_case_apostrophe_or_spacing():
    forms = ["The caf\u00e9 isn't here", "the cafe\u0301  isn\u2019t\u00a0HERE", "The caf\u00e9 isn't\u200d here"]
    assert len({content_id("x", form) for form in forms}) == 1
    assert content_id("x", "a", "b") != content_id("x", "ab")


def test_the_content_digest_is_of_the_rows_and_not_of_their_encoding(tmp_path):
    table, _ = tables(row("a"), row("b", score=0.1))["test"]
    for compression in ("zstd", "none"):
        pq.write_table(table, tmp_path / compression, compression=compression)
    digests = {write.content_digest(pq.read_table(tmp_path / name)) for name in ("zstd", "none")}
    assert digests == {write.content_digest(table)}
    assert write.content_digest(table.slice(1)) not in digests
    assert write.content_digest(table.take([1, 0])) not in digests


def folder(path, content):
    path.mkdir()
    (path / "file").write_text(content)
    return path


@pytest.mark.parametrize("swaps", [True, False])
def test_a_new_folder_takes_the_place_of_the_old_one(tmp_path, monkeypatch, swaps):
    if not swaps:
        monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    new, target = folder(tmp_path / "new", "new"), folder(tmp_path / "target", "old")
    folders.replace_folder(new, target)
    assert (target / "file").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_a_folder_moved_aside_is_put_back_after_an_interruption(tmp_path):
    folder(tmp_path / ".old-target", "old")
    folders.recover_folder(tmp_path / "target", lambda _: {"file"}, BuildError)
    assert (tmp_path / "target" / "file").read_text() == "old"


def test_a_folder_moved_aside_is_removed_when_the_new_one_stands(tmp_path):
    folder(tmp_path / ".old-target", "old")
    folder(tmp_path / "target", "new")
    folders.recover_folder(tmp_path / "target", lambda _: {"file"}, BuildError)
    assert (tmp_path / "target" / "file").read_text() == "new"
    assert not (tmp_path / ".old-target").exists()


def test_exchange_tells_what_the_system_says(tmp_path):
    if not folders.exchange(folder(tmp_path / "a", "a"), folder(tmp_path / "b", "b")):
        pytest.skip("this file system cannot exchange two folders")
    assert (tmp_path / "a" / "file").read_text() == "b"
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        folders.exchange(tmp_path / "a", tmp_path / "none")
