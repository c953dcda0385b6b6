"""What may be learnt from, and what may not."""

import doctest
from types import SimpleNamespace

import pytest

from builders.parsers import read
from builders.text.split import phrase_key
from mitigation.errors import MitigationError
from mitigation.training import data as of
from mitigation.training.data import (
    RUN,
    TrainingData,
    load_test_splits,
    refuse_leaks,
    shared_measures,
    shared_rows,
    training_prompts,
)
from scoring.benchmarks import stated_gender
from scoring.inputs.tables import DataMissing
from tests.mitigation.made import data, probes, statements
from tests.scoring.made import version_of
from tests.support.helpers import mirrored


def test_the_training_prompts_are_those_of_the_train_split(tmp_path):
    known = TrainingData(str(data(tmp_path)))
    assert training_prompts(known, ["stsb"]) == [f"{statement}, and" for statement in statements("train")]
    assert list(known.versions) == ["gender-neutral-probes/stsb/train"]
    version = version_of("gender-neutral-probes")
    assert known.versions["gender-neutral-probes/stsb/train"].startswith(f"{version} sha256:")


@pytest.mark.fault(56)
def test_a_row_of_a_test_split_in_another_spelling_is_refused(tmp_path):
    rows = probes("train")
    rows[1] |= {"prompt": "MY friend likes — to sing, every DAY; and"}
    with pytest.raises(MitigationError) as error:
        training_prompts(TrainingData(str(data(tmp_path, stsb_train=rows))), ["stsb"], leaked=False)
    assert str(error.value) == (
        "1 of the rows to train on are in a test split ('My friend likes to sing every day, and' in "
        "gender-neutral-probes/stsb/test); train on a clean config, whose splits share nothing, or give --leaked to "
        "reproduce published training."
    )
    known = TrainingData(str(tmp_path))
    with pytest.raises(MitigationError, match=r"splits share nothing\.$"):  # a recipe without that setting
        training_prompts(known, ["stsb"])
    prompts = training_prompts(known, ["stsb"], leaked=True)
    assert shared_rows(prompts, load_test_splits(known.source)) == {
        "My friend likes to sing every day, and": "gender-neutral-probes/stsb/test"
    }


@pytest.mark.fault(56)
def test_test_splits_of_other_corpora_are_checked_too(tmp_path):
    source = data(tmp_path, **{"llm-1_test": probes("train", "llm-1")[:2]})
    with pytest.raises(MitigationError, match=r"\b2\b.*/llm-1/test"):
        training_prompts(TrainingData(str(source)), ["stsb"])


@pytest.mark.fault(56)
def test_a_limit_on_rows_does_not_limit_the_test_splits_of_the_leak_check(tmp_path):
    source = data(tmp_path, stsb_train=probes("test"))
    with pytest.raises(MitigationError, match="stsb/test"):
        training_prompts(TrainingData(str(source), limit=2), ["stsb"])


@pytest.mark.fault(56)
@pytest.mark.mirror
@pytest.mark.parametrize(("corpus", "count"), [("stsb", 135), ("snli", 84)])
def test_the_published_training_lists_are_refused(corpus, count):
    lists = "debias-llms/stsb-train", "debias-llms/snli-train", f"debias-llms/{corpus}-test"
    data_sets = mirrored(*lists)
    one, other, test = ([f"My friend {line}, and" for line in released(data_sets[name].path)] for name in lists)
    assert len({phrase_key(t) for t in one + other} & {phrase_key(t) for t in test}) == count
    with pytest.raises(MitigationError, match=f"{count}"):
        refuse_leaks(one + other, {f"{corpus}-paper/test": test})


def released(path):
    return [row["predicate"] for row in read.table(path, ["predicate"], header=False) if row["predicate"]]


def test_without_any_test_split_training_is_refused(tmp_path):
    source = data(tmp_path)
    (source / "gender-neutral-probes" / "manifest.json").unlink()
    with pytest.raises(DataMissing, match="data set gender-neutral-probes"):
        load_test_splits(str(source))


def test_a_corpus_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataMissing, match="lacks snli/train"):
        training_prompts(TrainingData(str(data(tmp_path))), ["stsb", "snli"])


def test_the_doctests_of_the_leak_check_pass():
    assert doctest.testmod(of).failed == 0


def test_the_test_rows_that_a_training_text_shares_are_named(tmp_path):
    row = next(iter(stated_gender.rows()))
    text = f"{row['before']}{row['male']}{row['after']}"
    assert len(text.split()) >= RUN
    (tmp_path / "text.txt").write_text(f"Nothing of a test row is in this line of ordinary words.\n{text.upper()}\n")
    settings = SimpleNamespace(corpus=str(tmp_path / "text.txt"))
    settings.texts = (tmp_path / "text.txt").read_text().splitlines
    ((name, (count, *_)),) = shared_measures(settings, str(tmp_path)).items()
    assert str(row["id"]) in name
    assert "stated-gender" in name
    assert count >= 1
    settings.texts = lambda: ["Nothing of a test row is in this line of ordinary words."]
    assert shared_measures(settings, str(tmp_path)) == {}
