"""The one reader of pairs of one's own, and what recipes do with them."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.planted.occupations import NEW_TEMPLATES, PLANTED, TEMPLATES, pairs
from mitigation import mitigate
from mitigation.editing.pairs import edit_pair
from mitigation.editing.session import split_subjects
from mitigation.errors import MitigationError
from mitigation.recipes import auto_debias, cda, dpo, get
from mitigation.texts import pairs_file
from mitigation.training import data as of
from mitigation.training import trainable
from mitigation.training.data import TrainingData
from scoring.benchmarks import stated_gender
from scoring.inputs.tables import DataMissing
from tests.mitigation.made import bundled, silent

CONTRAST = {
    "first": [f"The {job} said that [he|she] left." for job in ("smith", "guard", "judge", "miner")],
    "second": [f"The {job} said that [he|she] left." for job in ("nurse", "maid", "clerk", "nanny")],
}
LIST = [
    {"prompt": "The nurse lost [BLANK] hat.", "object_biased": "her", "object_unbiased": "his"},
    {"sentence_biased": "The smith lost his hat.", "sentence_unbiased": "The smith lost her hat.", "subject": "smith"},
]


def written(tmp_path, content, name="mine.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_contrast_has_the_stereotype_of_each_kind_and_its_subjects(tmp_path):
    rows = pairs_file.read_pairs(written(tmp_path, CONTRAST))
    assert [(row["subject"], row["object_biased"], row["object_unbiased"]) for row in (rows[0], rows[-1])] == [
        ("smith", "he", "she"),
        ("nanny", "she", "he"),
    ]
    assert rows[0]["prompt"] == "The smith said that [BLANK] left."
    assert rows[0]["sentence_unbiased"] == "The smith said that she left."
    assert len({row["id"] for row in rows}) == len(rows) == 8


def test_prompts_with_objects_and_whole_sentences_are_the_same_rows_in_json_and_in_json_lines(tmp_path):
    array = pairs_file.read_pairs(written(tmp_path, LIST))
    lines = pairs_file.read_pairs(written(tmp_path, "\n".join(map(json.dumps, LIST)), "mine.jsonl"))
    assert array == lines
    assert array[1]["prompt"] == "The smith lost [BLANK] hat."
    assert [row["object_biased"] for row in array] == ["her", "his"]
    assert [row["subject"] for row in array] == ["nurse", "smith"], "one is found, one is named"
    (single,) = pairs_file.read_pairs(written(tmp_path, LIST[0], "one.jsonl"))
    assert single["subject"] == "", "nothing to compare with, so nobody is found"


def test_subjects_of_the_planted_sentences_are_their_occupations():
    made = list(pairs(PLANTED, TEMPLATES))
    prompts = [f"{p.pro[: p.at]}[BLANK]{p.pro[p.at + len(p.forms[0]) :]}" for p in made]
    assert pairs_file.subjects(prompts) == [pair.occupation for pair in made]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "are neither JSON nor JSON lines"),
        ("[]", "are empty"),
        ({"first": ["a [he|she]"], "second": []}, "cannot be read"),
        ([{"prompt": "No blank.", "object_biased": "a", "object_unbiased": "b"}], "cannot be read"),
        ([{"prompt": "One [BLANK].", "object_biased": "a"}], "cannot be read"),
        ([{"prompt": "One [BLANK].", "object_biased": "a", "object_unbiased": "a"}], "Both objects of"),
        ([{"sentence_biased": "Same.", "sentence_unbiased": "Same."}], "leave no blank"),
        ([{"text": "The nurse [he|she]."}], "cannot be read"),
    ],
)
def test_files_that_are_no_pairs_are_refused_with_what_is_expected(content, message, tmp_path):
    with pytest.raises(MitigationError, match=message):
        pairs_file.read_pairs(written(tmp_path, content))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MitigationError, match="cannot be read"):
        pairs_file.read_pairs(str(tmp_path / "none.json"))


def test_pairs_without_a_subject_are_held_out_by_their_prompt(tmp_path):
    lines = [
        {"prompt": f"{text}, and [BLANK] left.", "object_biased": "he", "object_unbiased": "she"}
        for text in ("It rained", "Nobody knew why", "They had come late", "We were glad of that", "Snow had fallen")
    ]
    rows = pairs_file.read_pairs(written(tmp_path, lines))
    edited, held = split_subjects(rows, 0.2, 0)
    assert (len(edited), len(held)) == (4, 1)


def made(name, path, out, **changed):
    out.mkdir(parents=True)
    settings = replace(get(name).profiles["clean"], pairs=path, **changed)
    return get(name).apply(bundled(), settings, TrainingData(str(out / "none")), out, silent())


def occupations(tmp_path):
    """The planted sentences of two templates as a contrast."""
    kinds = {"first": "male", "second": "female"}
    texts = {}
    for kind, gender in kinds.items():
        some = pairs({gender: PLANTED[gender][:6]}, NEW_TEMPLATES[:2])
        texts[kind] = [f"{p.pro[: p.at]}[he|she]{p.pro[p.at + len(p.forms[0]) :]}" for p in some]
    return written(tmp_path, texts)


def test_dpo_makes_the_objects_of_pairs_more_alike(tmp_path):
    facts = made("dpo", occupations(tmp_path), tmp_path / "w" / "made", steps=40, batch_size=8, validate_every=20)
    before, after = (facts.measures[f"held-out absolute log ratio {when}"][0] for when in ("before", "after"))
    assert after < before
    assert list(facts.data) == ["corpus:mine.json"]


def test_the_share_of_a_pair_makes_balance_the_optimum(tmp_path):
    rows = pairs_file.read_pairs(occupations(tmp_path))
    model = bundled()
    pair = dpo.pair_preference(model, edit_pair(model.tokens, rows[0]), 0.5)
    # DPO adds logit(share) / beta to the base model's log-ratio.
    assert np.log(pair.share / (1 - pair.share)) / 0.5 + pair.ratio == pytest.approx(0, abs=1e-6)


def test_auto_debias_aligns_the_objects_after_opposite_prompts(tmp_path):
    path = occupations(tmp_path)
    chosen = auto_debias.opposite_prompts(pairs_file.read_pairs(path))
    rows = {row["id"]: row for row in pairs_file.read_pairs(path)}
    assert len(chosen) == 2 * 6 * 6, "each of a kind with each of the other, in both templates"
    for one, other in chosen:
        assert rows[one]["object_biased"] == rows[other]["object_unbiased"]
    few = {"batch_size": 8, "epochs": 4, "validate_every": 10, "learning_rate": 1e-3, "patience": 0}
    facts = made("auto_debias", path, tmp_path / "w" / "made", held_out=0.0, **few)
    before, after = (facts.measures[f"divergence_trained_{when}"][0] for when in ("before", "after"))
    assert after < before


def test_pairs_of_one_kind_cannot_be_aligned(tmp_path):
    path = written(tmp_path, [LIST[0] | {"prompt": f"The {job} lost [BLANK] hat."} for job in ("nurse", "maid")])
    with pytest.raises(MitigationError, match="have opposite stereotypes"):
        made("auto_debias", path, tmp_path / "w" / "made", held_out=0.0)


def test_cda_trains_on_both_sentences_of_a_pair_and_swaps_nothing(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(trainable, "train_on", lambda job, texts, measures: seen.extend(texts))
    made("cda", occupations(tmp_path), tmp_path / "w" / "made")
    assert len(seen) == 2 * 24
    assert sum(" she " in f" {text} " for text in seen) > 0
    with pytest.raises(MitigationError, match="both sentences"):
        cda.CdaSettings(pairs="a.json", corpus="b.txt")


def of_test(folder, *sentences):
    """A folder of built data sets with these pairs in the test split of WinoBias in biaske."""
    rows = []
    for number, (prompt, biased, unbiased) in enumerate(sentences):
        row = {"id": f"w{number}", "prompt": prompt, "object_biased": biased, "object_unbiased": unbiased}
        row["sentence_biased"] = prompt.replace("[BLANK]", biased)
        rows.append(row | {"sentence_unbiased": prompt.replace("[BLANK]", unbiased)})
    return lambda source, dataset, config, split: rows if (config, split) == ("winobias", "test") else None


@pytest.mark.parametrize(
    ("prompt", "refused"),
    [
        ("The clerk called the smith because [BLANK] was late.", True),
        ("the clerk called the SMITH, because [BLANK] was late", True),
        ("Yesterday the clerk called the smith because [BLANK] was late and tired.", True),
        ("The clerk called the smith at noon, because [BLANK] was bored.", False),
    ],
)
def test_pairs_with_rows_of_a_test_split_are_refused(tmp_path, monkeypatch, prompt, refused):
    rows = of_test(tmp_path, ("The clerk called the smith because [BLANK] was late.", "he", "she"))

    def load(source, dataset, config, split, limit=None):
        found = rows(source, dataset, config, split)
        if found is None:
            raise DataMissing("", "none")
        return SimpleNamespace(rows=found)

    monkeypatch.setattr(of.tables, "load", load)
    pair = {"prompt": prompt, "object_biased": "he", "object_unbiased": "she"}
    settings = replace(get("fast").profiles["clean"], pairs=written(tmp_path, [*LIST, pair]))
    if refused:
        with pytest.raises(MitigationError, match=r"^1 of the 3 pairs .* in biaske/winobias/test"):
            of.refuse_test_pairs(settings, "made")
    else:
        of.refuse_test_pairs(settings, "made")
    contrast = {side: [*texts, prompt.replace("[BLANK]", "[he|she]")] for side, texts in CONTRAST.items()}
    steering = replace(get("steering").profiles["clean"], contrast=written(tmp_path, contrast, "contrast.json"))
    if refused:
        with pytest.raises(MitigationError, match=r"^2 of the 10 pairs"):
            of.refuse_test_pairs(steering, "made")
    else:
        of.refuse_test_pairs(steering, "made")


def test_sentences_of_the_benchmark_of_stated_gender_are_refused_and_others_of_jobs_are_not(tmp_path):
    row = next(iter(stated_gender.rows()))
    pair = {"prompt": f"{row['before']}[BLANK]{row['after']}", "object_biased": row["male"]}
    pair["object_unbiased"] = row["female"]
    settings = replace(get("fast").profiles["clean"], pairs=written(tmp_path, [*LIST, pair]))
    with pytest.raises(MitigationError, match=r"^1 of the 3 pairs .* in stated-gender/sentences/test"):
        of.refuse_test_pairs(settings, str(tmp_path))
    planted = []
    for pair in pairs(PLANTED, TEMPLATES):
        planted.append({"sentence_biased": pair.pro, "sentence_unbiased": pair.anti})
    of.refuse_test_pairs(replace(settings, pairs=written(tmp_path, planted)), str(tmp_path))


def test_a_recipe_without_pairs_of_the_users_reads_no_test_split(monkeypatch):
    monkeypatch.setattr(of, "_test_rows", lambda _: pytest.fail("read"))
    for name in ("fast", "mabel", "inlp", "steering"):
        of.refuse_test_pairs(get(name).profiles["clean"], "made")


def test_a_command_refuses_pairs_of_a_test_split_before_it_loads_a_model(tmp_path):
    row = next(iter(stated_gender.rows()))
    pair = {"prompt": f"{row['before']}[BLANK]{row['after']}", "object_biased": row["male"]}
    path = written(tmp_path, [pair | {"object_unbiased": row["female"]}] * 4)
    model = tmp_path / "without-weights"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}')
    with pytest.raises(MitigationError, match="in stated-gender/sentences/test"):
        mitigate("fast", str(model), pairs=path, out=tmp_path / "out", evaluate=False)


def test_a_training_on_rows_of_a_test_split_says_so():
    paper = replace(get("fast").profiles["paper"], sets="stereoset", split="test")
    (remark,) = of.remark_on_test_rows(paper)
    assert "test split of stereoset" in remark
    assert of.remark_on_test_rows(replace(paper, sets="winobias", split="validation")) == []
    assert of.remark_on_test_rows(replace(paper, pairs="mine.json")) == []
    for name in ("leace", "decoding", "mabel", "dpo"):
        assert of.remark_on_test_rows(get(name).profiles["clean"]) == []
