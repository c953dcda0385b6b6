import pytest

from builders.dataset import BuildError
from builders.parsers import read
from builders.text.split import check_disjoint, leaks, overlap
from tests.support.helpers import mirrored


@pytest.mark.fault(25)
def test_a_phrase_in_two_splits_stops_the_build_with_the_pair():
    splits = {"test": ["is playing a flute"], "train": ["Is  playing, a Flute.", "is here"]}
    with pytest.raises(BuildError, match=r"\b1\b.*'is playing a flute'"):
        check_disjoint("probes", splits)


@pytest.mark.fault(25)
def test_splits_without_a_shared_phrase_pass():
    check_disjoint("probes", {"test": ["is here", "is here"], "train": ["is her"]})


@pytest.mark.mirror
@pytest.mark.fault(25)
def test_the_released_lists_leak_134_and_84_test_phrases_into_training():
    names = [f"debias-llms/{corpus}-{split}" for corpus in ("stsb", "snli") for split in ("train", "test")]
    lists = {
        name: [row["predicate"] for row in read.table(fetched.path, ["predicate"], header=False)]
        for name, fetched in mirrored(*names).items()
    }
    train = set(lists["debias-llms/stsb-train"]) | set(lists["debias-llms/snli-train"])
    shared = {corpus: train & set(lists[f"debias-llms/{corpus}-test"]) for corpus in ("stsb", "snli")}
    assert {corpus: len(phrases) for corpus, phrases in shared.items()} == {"stsb": 134, "snli": 84}
    for corpus in ("stsb", "snli"):
        splits = {"train": sorted(train), "test": lists[f"debias-llms/{corpus}-test"]}
        assert shared[corpus] <= {phrase for phrase, _, _ in leaks(splits)}
        with pytest.raises(BuildError, match="occur in more than one split"):
            check_disjoint(corpus, splits)


def test_overlap_ignores_case_punctuation_and_function_words():
    assert overlap("My friend likes the sea.", "my friend LIKES sea") == 1.0
    assert overlap("My friend likes tea", "My friend hates rain") == 0.0


def test_overlap_of_statements_without_content_words_is_their_equality():
    assert overlap("My friend is", "my friend is!") == 1.0
    assert overlap("My friend is", "My friend has") == 0.0
