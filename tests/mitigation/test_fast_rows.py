"""The fairness stamp on real rows of every source of biased knowledge, with three kinds of tokenizers."""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import datasets
import pytest
from rich.console import Console

from builders.datasets import get as data_sets
from builders.files.write import tables
from builders.text.wording import BLANK
from mitigation.editing import locate, pairs
from mitigation.editing import session as measure
from mitigation.errors import MitigationError
from mitigation.recipes import fast, get
from mitigation.running.evaluate import held_out_texts
from mitigation.training.data import TrainingData
from scoring.inference.load_options import BUNDLED, load
from tests.scoring.made import data_set
from tests.scoring.models import real
from tests.support.helpers import mirrored

pytestmark = pytest.mark.mirror
CONFIGS = ("stereoset", "crows_pairs", "weat", "winobias", "winogender", "bec_pro")
#: Byte level, WordPiece and SentencePiece.
MODELS = ("tiny-causal", "tiny-masked", "stories260K")
WRITTEN = ("adapter_config.json", "adapter_model.safetensors")
#: Rows of each domain of a config.
FEW = 40


@cache
def all_rows(name):
    """The test split of a config, as a data set gives it."""
    (config,) = (config for config in data_sets("biaske").configs if config.name == name)
    made = tables(config, config.rows(mirrored(*config.sources)), "en")["test"][0].to_pylist()
    return [row | {"config": name, "split": "test"} for row in made]


@cache
def rows_of(name):
    """Some rows of each domain of a config."""
    chosen = []
    for domain in ("gender", "race", "religion"):
        of_domain = [row for row in all_rows(name) if row["domain"] == domain]
        chosen += of_domain[:: max(1, len(of_domain) // FEW)][:FEW]
    return chosen


@cache
def model(name):
    return load(BUNDLED[name], device="cpu") if name in BUNDLED else real(name)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", MODELS)
def test_pairs_of_every_source_can_be_edited(name, config):
    tokens = model(name).tokens
    for profile in ("clean", "paper"):
        made, left_out = pairs.each_possible(
            rows_of(config), lambda row, profile=profile: pairs.edit_pair(tokens, row, profile=profile)
        )
        assert len(left_out) <= 0.05 * len(rows_of(config)), left_out
        assert all(pair.id == row["id"] and min(pair.lengths) > 0 for row, pair in made)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", MODELS)
def test_subjects_of_every_source_are_whole_words_of_whole_tokens(name, config):
    tokens, rows = model(name).tokens, rows_of(config)
    traced = locate.traces(rows, tokens.kind)
    result = 0
    for trace in traced[:: max(1, len(traced) // 20)]:
        for subject in trace.subjects:
            for reading in locate._readings(tokens, trace, subject):
                decoded = tokens.tokenizer.decode(reading.query.ids[reading.start : reading.end])
                result += decoded.replace(" ", "").lower() == subject.replace(" ", "").lower()
                assert reading.start < reading.end
    assert result or config == "crows_pairs", "a pair of CrowS-Pairs names no subject"
    for trace in traced:
        start = trace.text.index("{}")
        around = trace.text[max(start - 1, 0) : start] + trace.text[start + 2 : start + 3]
        assert not any(character.isalnum() for character in around), trace


def test_the_rows_that_once_could_not_be_edited_are_edited():
    rows = [row for row in rows_of("stereoset") if row["domain"] == "gender"]
    inside = [
        row for row in rows if row["subject"] in row["prompt"] and not pairs.whole_word(row["prompt"], row["subject"])
    ]
    made, left_out = pairs.each_possible(rows, lambda row: pairs.edit_pair(model("tiny-masked").tokens, row))
    assert not left_out
    assert len(made) == len(rows)
    assert {row["id"] for row in inside}.isdisjoint(trace.id for trace in locate.traces(inside, "masked"))


@pytest.mark.parametrize("name", MODELS)
def test_reworded_pairs_of_every_source_have_scores(name):
    for config in CONFIGS:
        some = rows_of(config)[:3]
        rows = [measure.reworded(row, frame) for row in some for frame in measure.FRAMES]
        assert all(row["prompt"].count(BLANK) == 1 for row in rows)
        assert all(row["prompt"].replace(BLANK, row["object_biased"]) == row["sentence_biased"] for row in rows)
        made, _ = pairs.each_possible(rows, lambda row: pairs.edit_pair(model(name).tokens, row))
        assert made


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The gender rows of StereoSet as a built data set."""
    rows = [row for row in rows_of("stereoset") if row["domain"] == "gender"]
    stored = [{name: value for name, value in row.items() if name not in ("config", "split")} for row in rows]
    return data_set(tmp_path_factory.mktemp("data"), "biaske", {("stereoset", "test"): stored})


@pytest.mark.parametrize("profile", ["clean", "paper"])
@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_both_profiles_edit_real_rows_from_end_to_end(name, profile, built, tmp_path, undrawn):
    few = {"traced": 4, "units": 16, "prefixes": 1, "prefix_tokens": 4}
    few |= {"sets": "stereoset", "passes": 2} if profile == "clean" else {"iterations": 4, "rate": 1e-3, "alpha": 0.0}
    settings = replace(get("fast").profiles[profile], **few)
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    adapter = fast.RECIPE.apply(model(name), settings, TrainingData(str(built), 16), out, Console(quiet=True))
    measures = {key: value for key, (value, *_) in adapter.measures.items()}
    assert measures["pairs_edited"] + measures["pairs_held_out"] + measures["pairs_left_out"] == 16
    groups = list(dict.fromkeys(change.group for change in adapter.changes))
    assert groups[0] == (measure.HELD_OUT if profile == "clean" else measure.EDITED)
    assert {change.metric for change in adapter.changes if change.group == groups[0]} == {"ss", "ps", "gap"}
    gaps = {change.group: change for change in adapter.changes if change.metric == "gap"}
    assert gaps[measure.EDITED].after[0] != gaps[measure.EDITED].before[0]
    assert set(adapter.files) >= {"pairs.json", "pairs.png", "located.json", "located.png", "losses.json"}


@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_fine_tuning_edits_the_same_real_rows(name, built, tmp_path, undrawn):
    few = {"sets": "stereoset", "steps": 0, "passes": 2, "prefixes": 1, "prefix_tokens": 4, "batch": 4, "rank": 4}
    settings = replace(get("fine_tuning").profiles["clean"], **few)
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    adapter = get("fine_tuning").apply(model(name), settings, TrainingData(str(built), 12), out, Console(quiet=True))
    measures = {key: value for key, (value, *_) in adapter.measures.items()}
    assert measures["pairs_edited"] + measures["pairs_held_out"] + measures["pairs_left_out"] == 12
    assert measures["gap_edited_after"] < measures["gap_edited_before"]
    assert list(adapter.data) == ["biaske/stereoset/test", "project:without_people.txt"]
    assert set(adapter.files) == {*WRITTEN, "losses.json", "losses.png", "pairs.json", "pairs.png"}


def test_pairs_of_which_none_can_be_edited_are_refused(built, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise MitigationError("no whole token")

    monkeypatch.setattr(pairs, "edit_pair", refuse)
    with pytest.raises(MitigationError, match="the 4 pairs"):
        fast.RECIPE.apply(
            model("tiny-causal"),
            replace(get("fast").profiles["clean"], sets="stereoset"),
            TrainingData(str(built), 4),
            tmp_path,
            Console(quiet=True),
        )


def test_wikitext_is_read_by_its_name(monkeypatch, tmp_path):
    asked = []

    def load_dataset(*place, **options):
        asked.append((place, options))
        return {"text": ["", " = A heading = \n", " A river flows . \n", " It is long . \n"]}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert held_out_texts(TrainingData(), Path("wikitext")) == ("A river flows .", "It is long .")
    assert asked == [(("Salesforce/wikitext", "wikitext-2-raw-v1"), {"split": "test"})]
    (tmp_path / "wikitext").write_text("mine\n")
    assert held_out_texts(TrainingData(), Path("wikitext")) == ("mine",), "a file of that name comes first"


def test_wikitext_that_cannot_be_had_is_one_sentence(monkeypatch, tmp_path):
    def load_dataset(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(MitigationError, match="ConnectionError"):
        held_out_texts(TrainingData(), Path("wikitext"))


@pytest.mark.parametrize("config", pairs.WORDINGS)
def test_an_edit_sees_one_wording_of_a_subject_and_ps_is_of_the_others(config):
    tokens, names = model("tiny-masked").tokens, sorted({row["subject"] for row in all_rows(config)})
    rows = [row for row in all_rows(config) if row["subject"] in names[:4]]
    source, column = pairs.WORDINGS[config]
    edited, others = pairs.split_wordings(rows)
    assert len(edited) + len(others) == len(rows)
    seen = {row["subject"]: row[column] for row in edited}
    assert all(row[column] == seen[row["subject"]] for row in edited)
    assert {row["subject"] for row in others} == set(names[:4])
    assert all(row[column] != seen[row["subject"]] for row in others)
    half = [(row, pairs.edit_pair(tokens, row)) for row in edited[: len(edited) // 2]]
    make = partial(pairs.edit_pair, tokens)
    again = measure.measured_pairs(make, {measure.EDITED: half}, {source: others}).reworded
    subjects = {row["subject"] for row, _ in half}
    expected = [(measure.EDITED, row["id"]) for row in others if row["subject"] in subjects]
    assert [(side, pair.id) for side, pair in again] == expected + [(source, row["id"]) for row in others]


def test_the_other_words_of_a_weat_pair_relate_the_same_words():
    rows = rows_of("weat")[:3]
    again = measure.rewordings(rows[0])
    assert len(again) == 2
    for row in again:
        assert row["prompt"] != rows[0]["prompt"]
        assert [row["subject"] in row["sentence_biased"], row["object_biased"] in row["sentence_biased"]] == [True] * 2
        assert row["sentence_unbiased"] == row["prompt"].replace(BLANK, row["object_unbiased"])
