import json
from itertools import combinations

import pytest

from builders.dataset import Drop, Row
from builders.datasets.gender_neutral_probes import DATASET, SPLITS, select, template_statements
from builders.parsers import read
from builders.text.split import leaks, overlap
from builders.text.words import THEY_FORMS, gendered_words, is_neutral
from tests.support.helpers import made, mirror, mirrored, missing

CONFIGS = {config.name: config for config in DATASET.configs}


def rows(items):
    return [item for item in items if isinstance(item, Row)]


def predicates(items):
    return [row.values["predicate"] for row in rows(items)]


def released(name):
    return [row["predicate"] for row in read.table(mirrored(name)[name].path, ["predicate"], header=False)]


def build(name):
    config = CONFIGS[name]
    return list(config.rows(mirrored(*config.sources)))


def stsb(*pairs):
    return "".join(f"g\tf\t2012\t{n}\t{score}\t{a}\t{b}\n" for n, (score, a, b) in enumerate(pairs))


@pytest.mark.mirror
@pytest.mark.parametrize(("split", "count"), [("train", 1127), ("validation", 380), ("test", 364)])
def test_the_rule_gives_the_released_stsb_lists_in_content_and_order(split, count):
    name = f"stsb/{split}"
    actual = predicates(select("stsb", split, mirrored(name)[name]))
    assert actual == released(f"debias-llms/stsb-{split}")
    assert len(actual) == count


@pytest.mark.mirror
@pytest.mark.parametrize(("split", "hits", "of"), [("test", 310, 317), ("validation", 297, 301)])
def test_the_rule_finds_the_released_snli_lists_with_no_extra_row(split, hits, of):
    name = f"snli/{split}"
    fetched = mirrored(name)[name]
    actual, expected = predicates(select("snli", split, fetched)), released(f"debias-llms/snli-{split}")
    assert len(expected) == of
    assert [p for p in expected if p in set(actual)] == actual
    # The complete corpus has the pairs without a gold label too; copies without them lose a few rows.
    assert len(actual) == (of if fetched.alternative == 0 else hits)


@pytest.mark.mirror
def test_pairs_without_a_gold_label_are_used_where_the_source_has_them(tmp_path):
    """A partial copy of the official file, which is not one of the sources, has 39 such pairs of the dev set."""
    parts = sorted(mirror().glob("raw.githubusercontent.com/Deltaus/sBiMPM/*/snli_1.0/snli_1.0_*.jsonl"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    unlabelled = [line for line in lines if json.loads(line)["gold_label"] == "-"]
    if not unlabelled:
        missing("the mirror has no copy of SNLI with unlabelled pairs")
    files = made(tmp_path, "snli/validation.jsonl", "\n".join(unlabelled))
    actual = predicates(select("snli", "validation", files["snli/validation.jsonl"]))
    expected = set(released("debias-llms/snli-validation"))
    assert len(unlabelled) == 39
    assert actual
    assert set(actual) <= expected


def snli(*rows):
    fields = ("sentence1", "sentence2", "gold_label")
    return "\n".join(json.dumps(dict(zip(fields, row, strict=True))) for row in rows)


@pytest.mark.fault(21)
def test_a_pair_with_an_unknown_label_is_dropped_with_a_reason(tmp_path):
    pairs = [("A person waits.", "A person runs.", "-1"), ("A person sits.", "The person sings.", "-")]
    files = made(tmp_path, "snli/test.jsonl", snli(*pairs))
    items = list(select("snli", "test", files["snli/test.jsonl"]))
    assert predicates(items) == ["sits", "sings"]
    assert [item.reason for item in items if isinstance(item, Drop)] == ["label is '-1'"] * 2


@pytest.mark.fault(21)
@pytest.mark.parametrize("score", ["nan", "-0.1", "5.1", "", "high"])
def test_a_pair_with_an_impossible_score_is_dropped_with_a_reason(tmp_path, score):
    files = made(tmp_path, "stsb/test", stsb((score, "A man waits.", "A man runs."), (5, "A boy sits.", "A dog sits.")))
    items = list(select("stsb", "test", files["stsb/test"]))
    assert predicates(items) == ["sits"]
    assert sum(isinstance(item, Drop) and item.reason == "score is not in [0, 5]" for item in items) == 2


def test_the_rule_uses_first_sentences_before_second_ones_and_keeps_the_first_of_equal_predicates(tmp_path):
    pairs = [(1, "A man waits.", "The girl waits."), (1, "The  Lady watches T.V.", "A person smiles at 3 p.m.")]
    files = made(tmp_path, "stsb/test", stsb(*pairs))
    assert predicates(select("stsb", "test", files["stsb/test"])) == ["waits", "watches tv", "smiles at 3 pm"]


def test_the_rule_tests_whole_white_space_tokens(tmp_path):
    kept, excluded = "A person feeds the baby, slowly.", "A person feeds the baby slowly."
    files = made(tmp_path, "snli/test.jsonl", snli((kept, excluded, "neutral")))
    assert predicates(select("snli", "test", files["snli/test.jsonl"])) == ["feeds the baby, slowly"]


@pytest.mark.fault(20)
def test_a_blank_row_of_a_released_list_is_dropped_with_a_reason(tmp_path):
    files = {}
    for split in SPLITS:
        files |= made(tmp_path, f"debias-llms/snli-{split}", "sits\n\nruns\n")
    items = list(CONFIGS["snli-paper"].rows(files))
    assert [item.reason for item in items if isinstance(item, Drop)] == ["row is blank"] * 3
    assert [row.values["prompt"] for row in rows(items)[:2]] == ["My friend sits, and", "My friend runs, and"]


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("stsb-paper", {"train": 1127, "validation": 380, "test": 364}),
        ("snli-paper", {"train": 12165, "validation": 301, "test": 317}),
        ("llm-1-paper", {"test": 200}),
        ("llm-2-paper", {"test": 200}),
    ],
)
def test_the_released_lists_have_the_sizes_of_the_paper(name, counts):
    actual = rows(build(name))
    assert {split: sum(row.split == split for row in actual) for split in counts} == counts
    assert all(row.values["prompt"].startswith("My friend ") for row in actual)


@pytest.mark.mirror
def test_rebuilt_splits_share_no_phrase_and_are_neutral():
    splits = {split: [] for split in ("test", "validation", "train")}
    for name in ("stsb", "snli"):
        for row in rows(build(name)):
            splits[row.split].append(row.values["statement"])
    assert leaks(splits) == []
    assert [s for statements in splits.values() for s in statements if not is_neutral(s)] == []
    assert min(map(len, splits.values())) > 500


@pytest.mark.mirror
def test_every_record_of_the_raw_corpus_is_a_row_or_a_drop_with_a_reason():
    items = [item for item in build("stsb") if item.split == "test"]
    assert len(items) == 2 * 1379
    assert all(item.reason for item in items if isinstance(item, Drop))


def statements(name):
    return [row.values["statement"] for row in CONFIGS[name].rows({})]


def test_the_embedded_lists_hold_200_neutral_statements_each():
    for name, seed in (("llm-1", "My friend likes blue"), ("llm-2", "My friend is talking on the phone")):
        actual = statements(name)
        assert len(actual) == 200
        assert seed in actual
        assert all(s.startswith("My friend ") and s[-1].isalnum() for s in actual)
        assert [s for s in actual if gendered_words(s) or THEY_FORMS & set(s.lower().split())] == []


def test_no_two_embedded_statements_are_near_duplicates():
    assert all(overlap(*pair) < 0.5 for pair in combinations(statements("llm-1") + statements("llm-2"), 2))


def test_templates_are_four_topics_of_forty_with_twenty_of_each_stereotype():
    actual = [row.values for row in CONFIGS["templates"].rows({})]
    count = {(v["topic"], v["stereotype"]) for v in actual}
    assert len(actual) == len({v["statement"] for v in actual}) == 160
    assert all(sum((v["topic"], v["stereotype"]) == key for v in actual) == 20 for key in count)
    assert len(count) == 8


def test_only_articles_differ_between_the_published_templates_and_ours():
    ours = [s for s, *_ in template_statements(paper=False)]
    published = [s for s, *_ in template_statements(paper=True)]
    changed = {p: o for o, p in zip(ours, published, strict=True) if o != p}
    nouns = "attendant assistant auditor accountant editor analyst".split()
    assert changed == {f"My friend is a {noun}": f"My friend is an {noun}" for noun in nouns}
    assert "My friend is a CEO" in ours
    assert "My friend likes ivory color" in ours
