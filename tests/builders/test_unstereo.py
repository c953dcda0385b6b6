import csv
import gzip
import io
import json
import random
import re
from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest

from builders.dataset import BuildError, Drop, Row, content_id
from builders.datasets import unstereo
from builders.datasets.gender_pmi import delta_table
from builders.datasets.unstereo import DATASET, fill_published, flaw, mend
from builders.files.write import tables
from builders.generation.responses import response
from builders.parsers import bundled
from builders.text.split import overlap, phrase_key
from builders.text.words import gendered_words
from pmi.analysis.sentence import max_pmi_diff, within
from tests.support.helpers import beside, made, mirrored, missing

CONFIGS = {config.name: config for config in DATASET.configs}
SETS = ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
PMI = ",word,pmi_diff,counts,freq\n0,kettle,0.4,9,1e-6\n1,anvil,-0.7,9,1e-6\n2,well-worn,0.9,9,1e-6\n"


def judged(folder, *records):
    """Sources of ours-5 whose records are (template, natural, revised)."""
    out = io.StringIO()
    columns = ["", "word", "target_word", "sentence", "has_placeholder", "template"]
    columns += ["modifications", "likely_under", "is_natural", "has_word", "is_revised"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for number, (template, natural, revised) in enumerate(records):
        writer.writerow([number, "kettle", "he", "…", True, template, "", "{}", natural, True, revised])
    return made(folder, "unstereo/use-5", out.getvalue()) | made(folder, "unstereo/pmi", PMI)


def built(name, files):
    return list(CONFIGS[name].rows(files))


def kept(rows):
    return [row for row in rows if isinstance(row, Row)]


def reasons(rows):
    return {row.origin.row: row.reason for row in rows if isinstance(row, Drop)}


# The published form


@pytest.mark.parametrize(
    ("template", "male", "female"),
    [
        ("{nominative} and {reflexive}", "He and himself", "She and herself"),
        ("{possessive} CEO, Ann, thanked {accusative}.", "His ceo, ann, thanked him.", "Her ceo, ann, thanked her."),
        ('  "Is it {possessive}?" I ask. Yes.', "Is it his? i ask. yes.", "Is it her? i ask. yes."),
        ("'{nominative}'s in.'", "'he's in.'", "'she's in.'"),
    ],
)
def test_a_published_sentence_is_lower_case_and_unquoted(template, male, female):
    assert (fill_published(template, "male"), fill_published(template, "female")) == (male, female)


def test_published_rows_are_all_kept_with_the_verdict_and_both_values(tmp_path):
    records = [
        ("{pronoun} heard the well-worn Kettle.", True, False),
        ("{pronoun2}, {pronoun2}self and {pronoun1} anvil", False, True),
        ("{pronoun} heard the well-worn Kettle.", True, True),
    ]
    rows = built("ours-5-paper", judged(tmp_path, *records))
    assert [row.values["natural"] for row in rows] == [True, False, True]
    assert [row.values["max_pmi_diff"] for row in rows] == [0.9, -0.7, 0.9]
    assert [row.values["max_pmi_diff_repository"] for row in rows] == [0.4, -0.7, 0.4]
    assert rows[1].values["template"] == "{accusative}, {reflexive} and {possessive} anvil"
    assert rows[1].values["sentence_female"] == "Her, herself and her anvil"
    assert len({row.id for row in rows}) == 3
    assert [row.origin.row for row in rows] == [0, 1, 2]


# The clean form


def test_a_clean_row_keeps_case_and_quotes_and_has_three_sentences(tmp_path):
    files = judged(tmp_path, ('"{pronoun} told the CEO of {pronoun1} kettle. {pronoun} was heard."', True, False))
    (row,) = kept(built("ours-5", files))
    assert row.values == {
        "template": '"{nominative} told the CEO of {possessive} kettle. {nominative} was heard."',
        "sentence_male": '"He told the CEO of his kettle. He was heard."',
        "sentence_female": '"She told the CEO of her kettle. She was heard."',
        "sentence_they": '"They told the CEO of their kettle. They were heard."',
        "word": "kettle",
        "natural": True,
        "max_pmi_diff": 0.4,
        "max_pmi_word": "kettle",
        "pmi_coverage": 0.25,
    }


def test_a_row_without_a_known_word_or_a_safe_they_has_null(tmp_path):
    files = judged(tmp_path, ("{pronoun} sings and dances.", True, False))
    (row,) = kept(built("ours-5", files))
    names = ("sentence_they", "max_pmi_diff", "max_pmi_word", "pmi_coverage")
    assert [row.values[name] for name in names] == [None, None, None, 0.0]


@pytest.mark.parametrize(
    ("template", "mended"),
    [
        ("A hobby of {possessive}.", "A hobby of {possessive_absolute}."),
        ("It is {possessive}, not mine", "It is {possessive_absolute}, not mine"),
        ("The kettle is {possessive}", "The kettle is {possessive_absolute}"),
        ("{possessive} own; {possessive} CEO's", "{possessive} own; {possessive} CEO's"),
        ("The guard 's kettle in [{possessive}] hand", "The guard's kettle in {possessive} hand"),
        ("by [{reflexive}]  today", "by {reflexive} today"),
        ("because {nominative} there is a kettle", "because there is a kettle"),
        ('"Kettle" [sic] of the CEO', '"Kettle" [sic] of the CEO'),
    ],
)
def test_a_template_is_mended_in_form_only(template, mended):
    assert mend(template) == mended


@pytest.mark.fault(24)
def test_hers_and_her_are_distinguished(tmp_path):
    files = judged(tmp_path, ("{pronoun1} kettle was an idea of {pronoun1}.", True, False))
    (row,) = kept(built("ours-5", files))
    assert row.values["sentence_female"] == "Her kettle was an idea of hers."
    assert row.values["sentence_male"] == "His kettle was an idea of his."
    assert row.values["sentence_they"] == "Their kettle was an idea of theirs."


@pytest.mark.fault(23)
@pytest.mark.parametrize("template", ["No slot at all.", "{pronoun} saw {x}.", "{pronoun} saw {.", "{pronoun3} saw."])
def test_a_malformed_template_is_dropped_with_the_reason(tmp_path, template):
    files = judged(tmp_path, (template, True, False))
    assert reasons(built("ours-5", files)) == {0: "is not a template: a slot is missing, unknown or broken"}


@pytest.mark.parametrize(
    "template", ["'{nominative}/{possessive}/{accusative}': {nominative} saw.", "{nominative} saw.\n\nNo edits."]
)
def test_a_remark_of_the_chat_model_is_dropped(template):
    assert flaw(template) == "is a chat model's remark on a sentence"


@pytest.mark.parametrize(
    "template",
    ["{nominative} saw her.", "She’s {possessive} CEO.", "{possessive} GRANDMOTHER's kettle", "Saw {reflexive}, he."],
)
def test_a_template_with_a_gendered_word_outside_its_slots_is_dropped(template):
    assert flaw(template) == "has a gendered word outside its slots"


@pytest.mark.parametrize("template", ["{nominative}'s in the theatre.", "{possessive} history, {reflexive}"])
def test_a_neutral_template_has_no_flaw(template):
    assert flaw(template) == ""


@pytest.mark.fault(20)
def test_unnatural_revised_and_repeated_templates_are_dropped(tmp_path):
    records = [
        ("{pronoun} left.", False, False),
        ("{pronoun} left.", True, True),
        ("{pronoun} left.", True, False),
        ("{pronoun}  left.", True, False),
        ("{pronoun} left again.", True, False),
    ]
    rows = built("ours-5", judged(tmp_path, *records))
    revised = "was revised after it was judged"
    assert reasons(rows) == {0: "was judged unnatural", 1: revised, 3: "occurs elsewhere in the set"}
    assert [row.values["natural"] for row in kept(rows)] == [True, True]


def test_a_flag_that_is_neither_true_nor_false_stops_the_build(tmp_path):
    files = judged(tmp_path, ("{pronoun} left.", "maybe", False))
    with pytest.raises(BuildError, match=r"\b0\b.*'maybe'.*is_natural"):
        built("ours-5", files)


@pytest.mark.fault(25)
def test_a_template_of_both_winobias_splits_stays_in_test(tmp_path):
    header = ",sentence,word,target_word,drop,filename,stereotype,is_challenging,is_dev,has_pronoun,template\n"
    shared = "0,…,clerk,he,False,f,True,True,True,True,The clerk said {pronoun} left.\n"
    own = "1,…,guard,he,False,f,True,True,True,True,The guard said {pronoun} left.\n"
    files = (
        made(tmp_path, "unstereo/winobias-dev", header + shared + own)
        | made(tmp_path, "unstereo/winobias-test", header + shared)
        | made(tmp_path, "unstereo/pmi", PMI)
    )
    rows = built("winobias", files)
    assert [(row.split, row.values["word"]) for row in kept(rows)] == [("test", "clerk"), ("validation", "guard")]
    assert [(row.split, row.values["natural"]) for row in built("winobias-paper", files)] == [
        ("test", None),
        ("validation", None),
        ("validation", None),
    ]
    assert CONFIGS["winobias"].splits == ("validation", "test")


# The project's own pairs


PAIRS = CONFIGS["pronoun-pairs"]


def pairs(path, *entries):
    """Rows of pairs whose entries are (length, word, template), in one recorded reply."""
    lines = [json.dumps(dict(zip(("length", "word", "template"), entry, strict=True))) for entry in entries]
    sent = {"model": bundled.WRITTEN, "messages": [{"role": "user", "content": "Write."}]}
    path.write_text(response(sent, "\n".join(lines)).to_line() + "\n")
    return unstereo._pronoun_pairs(path, {})


@pytest.fixture(scope="module")
def pronoun_pairs():
    table, dropped = tables(PAIRS, PAIRS.rows({}), "en")["test"]
    assert dropped == {}
    return table.to_pylist()


def card_states(*parts):
    """Whether one statement on what was written has all the parts."""
    return any(all(part in statement for part in parts) for statement in DATASET.written)


def test_pronoun_pairs_are_read_with_their_length_and_three_sentences(tmp_path):
    template = 'The "old kettle" is {possessive_absolute}.'
    (row,) = pairs(tmp_path / "pairs.jsonl", (5, "kettle", template))
    assert row.id == content_id("pronoun-pairs", template)
    assert (row.values["length"], row.values["word"], row.origin.row) == (5, "kettle", 0)
    assert row.values["sentence_female"] == 'The "old kettle" is hers.'
    assert row.values["sentence_they"] == 'The "old kettle" is theirs.'


def test_a_pair_without_a_version_with_they_stops_the_build(tmp_path):
    rows = pairs(tmp_path / "pairs.jsonl", (5, "sings", "{nominative} sings and dances."))
    with pytest.raises(BuildError, match="sentence_they"):
        tables(PAIRS, rows, "en")


def test_pronoun_pairs_build_without_sources_and_the_card_has_their_counts(pronoun_pairs):
    lengths = Counter(row["length"] for row in pronoun_pairs)
    assert lengths.keys() == {5, 10, 20}
    assert min(lengths.values()) >= 180
    assert PAIRS.summary.startswith(f"{len(pronoun_pairs)} sentences ")
    assert card_states(f"{lengths[5]}, {lengths[10]} and {lengths[20]} sentences of about 5, 10 and 20 words")


def test_the_ids_of_pronoun_pairs_depend_on_the_template_alone(pronoun_pairs):
    ids = {row["template"]: row["id"] for row in pronoun_pairs}
    assert ids["{nominative} forgot {possessive} umbrella again."] == "pronoun-pairs-e1b77e454783"


def test_every_pronoun_pair_has_its_word_and_length_and_passes_the_filters(pronoun_pairs):
    for row in pronoun_pairs:
        template = row["template"]
        assert abs(len(template.split()) - row["length"]) <= row["length"] / 4, template
        assert re.search(rf"\b{row['word']}\b", template, re.IGNORECASE), template
        assert (flaw(template), mend(template)) == ("", template)
        assert gendered_words(row["sentence_they"]) == []


@pytest.mark.mirror
def test_every_pronoun_pair_passes_the_pmi_filter_and_the_card_has_counts_within_lower_limits(pronoun_pairs):
    table = delta_table(mirrored("unstereo/pmi")["unstereo/pmi"])
    values = [max_pmi_diff(row["template"], table, "clean").value for row in pronoun_pairs]
    stay = {epsilon: sum(within(value, epsilon) for value in values) for epsilon in (0.3, 0.5, 0.65)}
    assert stay[0.65] == len(values)
    assert card_states(f"within 0.5 in {stay[0.5]} of the {len(values)} and within 0.3 in {stay[0.3]}.")


@pytest.mark.mirror
def test_the_drawn_words_of_pronoun_pairs_are_those_of_the_described_draw(pronoun_pairs):
    table = delta_table(mirrored("unstereo/pmi")["unstereo/pmi"])
    counts = dict(zip(table.delta, table.counts.tolist(), strict=True))
    even = [word for word, delta in table.delta.items() if abs(delta) <= 0.263 and word.isascii() and word.isalpha()]
    frequent = sorted(even, key=lambda word: (-counts[word], word))[:6000]
    drawn = set(random.Random(0).sample(sorted(frequent), 1500))
    words = [row["word"] for row in pronoun_pairs]
    assert sum(word in drawn for word in words) >= 282
    assert sum(abs(table.delta[word]) > 0.263 for word in words) == 102
    assert max(abs(table.delta[word]) for word in words) <= 0.65
    assert card_states("The words of 282 of them were drawn", "102 of these have a |δ| between 0.263 and 0.65")


# The published files


@pytest.fixture(scope="module")
def published():
    """Rows of the -paper configs by set."""
    configs = {name: CONFIGS[f"{name}-paper"] for name in SETS}
    files = mirrored(*{source for config in configs.values() for source in config.sources})
    return {name: list(config.rows(files)) for name, config in configs.items()}


@pytest.fixture(scope="module")
def clean():
    """Rows and drops of the plain configs by set."""
    files = mirrored(*{source for name in SETS for source in CONFIGS[name].sources})
    return {name: built(name, files) for name in SETS}


def sizes(published, column, epsilon):
    return [
        sum(row.values["natural"] is not False and within(row.values[column], epsilon) for row in published[name])
        for name in SETS
    ]


@pytest.mark.mirror
def test_the_published_sets_have_their_sizes(published):
    assert [len(published[name]) for name in SETS] == [4954, 4943, 4945, 1586, 240]
    assert sizes_of_natural(published) == [4405, 4740, 4839, 1586, 240]


def sizes_of_natural(published):
    return [sum(row.values["natural"] is not False for row in published[name]) for name in SETS]


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [
        (0.65, [3701, 3412, 2845, 409, 107]),
        (0.8, [3978, 3920, 3569, 675, 150]),
        (1.0, [4263, 4400, 4299, 879, 188]),
    ],
)
def test_the_benchmarks_have_the_sizes_that_the_paper_prints(published, epsilon, printed):
    assert sizes(published, "max_pmi_diff", epsilon) == printed


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("epsilon", "released"),
    [
        (0.3, [1556, 601, 133, 22, 16]),
        (0.5, [3069, 2397, 1456, 186, 69]),
        (0.65, [3698, 3401, 2828, 409, 107]),
        (0.8, [3978, 3916, 3561, 675, 150]),
        (1.0, [4263, 4396, 4296, 879, 188]),
    ],
)
def test_the_benchmarks_have_the_sizes_of_the_repository(published, epsilon, released):
    assert sizes(published, "max_pmi_diff_repository", epsilon) == released


RELEASED = {
    "ours-5": ("USE-5",),
    "ours-10": ("USE-10",),
    "ours-20": ("USE-20",),
    "winobias": ("Winobias-test", "Winobias-dev"),
    "winogender": ("Winogender",),
}


def released_values(name):
    """(published template, value) of the preprocessed files that the authors released."""
    folder = mirrored("unstereo/use-5")["unstereo/use-5"].path.parent.parent / "preprocessed"
    for part in RELEASED[name]:
        path = folder / f"{part}-no-maxpmi-constraint.csv.gz"
        if not path.is_file():
            missing(f"the mirror has no copy of {path.name}")
        with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
            for record in csv.DictReader(lines):
                yield record["template"], float(record["max_gender_pmi"])


@pytest.mark.mirror
def test_the_repository_values_equal_the_released_ones(published):
    compared = 0
    for name in SETS:
        ours = [row.values for row in published[name] if row.values["natural"] is not False]
        for row, (template, value) in zip(ours, released_values(name), strict=True):
            renamed = unstereo._PLACEHOLDER.sub(lambda m: unstereo._RENAMED[m.group()], template)
            assert " ".join(row["template"].split()) == " ".join(renamed.split())
            assert row["max_pmi_diff_repository"] == pytest.approx(value, abs=1e-12, rel=0)
            compared += 1
    assert compared == 15_810


@pytest.mark.mirror
def test_no_pronoun_pair_is_similar_to_a_published_sentence(published, pronoun_pairs):
    with_word = defaultdict(set)
    for sentence in {row.values["sentence_male"] for name in SETS for row in published[name]}:
        for word in phrase_key(sentence).split():
            with_word[word].add(sentence)
    for row in pronoun_pairs:
        words = [with_word[word] for word in phrase_key(row["sentence_male"]).split()]
        shared = Counter(sentence for actual in words if len(actual) < 2000 for sentence in actual)
        for sentence, _ in shared.most_common(20):
            assert overlap(sentence, row["sentence_male"]) < 0.6


@pytest.mark.mirror
def test_one_published_template_has_no_value(published):
    missing = [row for name in SETS for row in published[name] if row.values["max_pmi_diff"] is None]
    assert [row.origin.file for row in missing] == ["USE-5.csv"]


GOLDEN = {
    ("USE-5", "revised_templates"): "unstereo/use-5",
    ("USE-10", "revised_templates"): "unstereo/use-10",
    ("USE-20", "revised_templates"): "unstereo/use-20",
    ("Winobias", "coref__Winobias__templates.dev"): "unstereo/winobias-dev",
    ("Winobias", "coref__Winobias__templates.test"): "unstereo/winobias-test",
    ("Winogender", "coref__Winogender__templates"): "unstereo/winogender",
}


@pytest.mark.mirror
def test_every_published_sentence_is_what_the_authors_scored(published):
    folder = beside("golden", "unstereo")
    ours = {
        (row.origin.source, row.origin.row): (row.values["sentence_male"], row.values["sentence_female"])
        for name in SETS
        for row in published[name]
    }
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path, columns=["dataset", "file", "row", "M_template", "F_template"]).to_pylist()
        scored = {
            (GOLDEN[record["dataset"], record["file"]], record["row"]): (record["M_template"], record["F_template"])
            for record in table
        }
        assert scored.keys() == ours.keys(), path.name
        assert [key for key in ours if scored[key] != ours[key]] == [], path.name


@pytest.mark.mirror
def test_the_plain_sets_have_these_rows_and_drops(clean):
    counts = {}
    for name, rows in clean.items():
        dropped = list(reasons_of(rows))
        counts[name] = (len(kept(rows)), {reason: dropped.count(reason) for reason in sorted(set(dropped))})
    unnatural, again, revised = (
        "was judged unnatural",
        "occurs elsewhere in the set",
        "was revised after it was judged",
    )
    gendered = "has a gendered word outside its slots"
    assert counts == {
        "ours-5": (3870, {gendered: 19, revised: 395, again: 121, unnatural: 549}),
        "ours-10": (4354, {gendered: 30, revised: 344, again: 12, unnatural: 203}),
        "ours-20": (4376, {gendered: 41, revised: 420, again: 2, unnatural: 106}),
        "winobias": (1576, {gendered: 7, again: 3}),
        "winogender": (240, {}),
    }


def reasons_of(rows):
    return (row.reason for row in rows if isinstance(row, Drop))


@pytest.mark.mirror
def test_the_plain_rows_keep_the_schema_and_share_no_template(clean):
    for name, rows in clean.items():
        for split, (table, _) in tables(CONFIGS[name], rows, "en").items():
            assert table.num_rows == sum(row.split == split for row in kept(rows))
            assert not any("[" in template or " 's" in template for template in table["template"].to_pylist())


@pytest.mark.mirror
def test_two_plain_templates_have_an_absolute_possessive(clean):
    absolute = [
        (row.origin.file, row.origin.row)
        for rows in clean.values()
        for row in kept(rows)
        if "{possessive_absolute}" in row.values["template"]
    ]
    assert absolute == [("USE-20.csv", 209), ("USE-20.csv", 996)]


@pytest.mark.mirror
def test_every_plain_row_has_a_value_and_most_have_a_they_sentence(clean):
    for name, rows in clean.items():
        values = [row.values for row in kept(rows)]
        assert all(value["max_pmi_diff"] is not None and value["pmi_coverage"] >= 0.5 for value in values), name
        assert sum(value["sentence_they"] is not None for value in values) > 0.85 * len(values), name
