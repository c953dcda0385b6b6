import json
import re
from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.dataset import Alternative, BuildError, Fetched, Source
from builders.datasets import biaske
from builders.datasets.biaske import DATASET
from builders.files import write
from builders.generation.responses import response
from builders.parsers import bundled
from builders.parsers.triplets import blank, filled
from builders.text.split import phrase_key
from builders.text.wording import BLANK, LABELS
from tests.support.helpers import made, mirrored

CONFIGS = {config.name: config for config in DATASET.configs}
LABELLED = {"stereotype": "biased", "anti-stereotype": "unbiased", "unrelated": "irrelevant"}


def rows(name, files):
    """Rows of a config as they would be published, split by split; checks columns, types and ids."""
    config = CONFIGS[name]
    tables = write.tables(config, config.rows(files), "en")
    return [{"split": split, **row} for split, (table, _) in tables.items() for row in table.to_pylist()]


@cache
def built(name):
    return rows(name, mirrored(*CONFIGS[name].sources))


def domains(actual):
    return dict(Counter(row["domain"] for row in actual))


def difference(about, containing):
    (sentence,) = [d for d in DATASET.differences if d.startswith(about) and containing in d]
    return sentence


# Blanks


SENTENCES = st.lists(st.sampled_from(["a", "b", "a's", ",", "."]), min_size=1, max_size=6).flatmap(
    lambda words: st.lists(st.sampled_from([" ", "  ", ""]), min_size=len(words), max_size=len(words)).map(
        lambda spaces: "".join(word + space for word, space in zip(words, spaces, strict=True)).strip()
    )
)


@given(st.lists(SENTENCES, min_size=2, max_size=3).filter(lambda s: len(set(s)) > 1))
def test_filling_the_blank_restores_the_sentences(sentences):
    prompt, objects = blank(*sentences)
    assert prompt.count(BLANK) == 1
    assert [prompt.replace(BLANK, o) for o in objects] == sentences
    assert all(o.strip() for o in objects)


@pytest.mark.parametrize(
    ("sentences", "prompt", "objects"),
    [
        (("He is a cook.", "She is a cook."), "[BLANK] is a cook.", ("He", "She")),
        (("It was red!", "It was blue!", "It was two!"), "It was [BLANK]!", ("red", "blue", "two")),
        (("He cut his hair.", "She cut her hair."), "[BLANK] hair.", ("He cut his", "She cut her")),
        (("They do not.", "They do."), "They [BLANK].", ("do not", "do")),
        (("Not they.", "they."), "[BLANK].", ("Not they", "they")),
        (("a pre-war man", "a pre-paid man"), "a [BLANK] man", ("pre-war", "pre-paid")),
        (("x  y z", "x y z"), "[BLANK] z", ("x  y", "x y")),
    ],
)
def test_the_blank_covers_whole_words_from_the_first_to_the_last_difference(sentences, prompt, objects):
    assert blank(*sentences) == (prompt, objects)


def test_equal_sentences_are_refused():
    with pytest.raises(BuildError, match=r"'Same\.'.*'Same\.'"):
        blank("Same.", "Same.")


def test_a_prompt_without_exactly_one_blank_is_refused():
    with pytest.raises(BuildError, match=r"'\[BLANK\] and \[BLANK\]'.*\b2\b.*BLANK"):
        filled("[BLANK] and [BLANK]", "he", "she")


# StereoSet


def example(number, domain, template="Term {number} is BLANK.", words=("kind", "mean", "blue")):
    context = template.format(number=number)
    sentences = [
        {"sentence": context.replace("BLANK", word), "id": f"{domain}{number}{word}", "gold_label": label}
        for word, label in zip(words, LABELLED, strict=True)
    ]
    return {
        "id": f"{domain}-{number}",
        "target": f"term {number}",
        "bias_type": domain,
        "context": context,
        "sentences": sentences[::-1],
    }


def released(*examples):
    return json.dumps({"version": "1", "data": {"intersentence": [], "intrasentence": examples}})


def listed(number, domain, source="StereoSet test set"):
    sentences = {
        f"{key}-sentence": f"Term {number} is {word}."
        for key, word in (("stereo", "kind"), ("anti", "mean"), ("unrelated", "blue"))
    }
    return {**sentences, "Source": source, "Target group type": domain, "subject_word": f"term {number}"}


def stereoset(tmp_path, *test_files):
    dev = made(tmp_path, "stereoset/dev", released(example(-1, "gender")))
    return rows("stereoset", dev | made(tmp_path, "stereoset/test", *test_files))


def test_the_complete_test_file_has_all_examples_of_the_paper(tmp_path):
    sizes = {"gender": 771, "race": 2976, "religion": 247}
    actual = stereoset(tmp_path, released(*(example(f"{d} {n}", d) for d, size in sizes.items() for n in range(size))))
    assert domains(row for row in actual if row["split"] == "test") == sizes


def test_a_released_example_keeps_its_ids_and_context(tmp_path):
    row = stereoset(tmp_path, released(example(7, "race")))[1]
    assert (row["split"], row["source_file"], row["source_row"]) == ("test", "0-stereoset-test", 0)
    assert (row["subject"], row["context"], row["example_id"]) == ("term 7", "Term 7 is BLANK.", "race-7")
    assert row["prompt"] == "Term 7 is [BLANK]."
    for label, word in zip(LABELS, ("kind", "mean", "blue"), strict=True):
        assert row[f"object_{label}"] == word
        assert row[f"sentence_{label}"] == f"Term 7 is {word}."
        assert row[f"sentence_id_{label}"] == f"race7{word}"


def test_two_blanks_of_a_context_become_one_blank(tmp_path):
    row = stereoset(tmp_path, released(example(7, "race", "Term {number} is BLANK and not BLANK.")))[1]
    assert row["prompt"] == "Term 7 is [BLANK]."
    assert row["object_unbiased"] == "mean and not mean"


def test_a_list_of_sentences_adds_the_domains_that_no_released_file_has(tmp_path):
    entries = [listed(1, "race"), listed(2, "gender"), listed(3, "race", "StereoSet development set")]
    actual = stereoset(tmp_path, released(example(9, "gender")), json.dumps(entries))[1:]
    assert [(row["domain"], row["subject"], row["source_file"]) for row in actual] == [
        ("gender", "term 9", "0-stereoset-test"),
        ("race", "term 1", "1-stereoset-test"),
    ]


def test_a_table_adds_its_originals_with_contexts_of_domains_that_no_released_file_has(tmp_path):
    lines = []
    for entry in (example(1, "race"), example(2, "gender")):
        original = [entry["target"], entry["context"], entry["bias_type"]]
        for sentence in entry["sentences"]:
            original += [sentence["sentence"], sentence["gold_label"]]
        lines.append(",".join(f"{text},adapted" for text in original))
    file = "\n".join([",".join(biaske._TABLE_COLUMNS), *lines])
    actual = stereoset(tmp_path, released(example(9, "gender")), file, json.dumps([listed(1, "race")]))[1:]
    assert [(row["domain"], row["source_file"]) for row in actual] == [
        ("gender", "0-stereoset-test"),
        ("race", "1-stereoset-test"),
    ]
    (whole,) = stereoset(tmp_path, released(example(1, "race")))[1:]
    lacking = {name for name in whole if whole[name] != actual[1][name]} - {"source_file"}
    assert lacking == {"example_id", *(f"sentence_id_{label}" for label in LABELS)}


def test_a_listed_example_is_the_released_one_without_context_and_ids(tmp_path):
    (whole,) = stereoset(tmp_path, released(example(1, "race")))[1:]
    (alone,) = stereoset(tmp_path, json.dumps([listed(1, "race")]))[1:]
    lacking = {name for name in whole if whole[name] != alone[name]}
    assert lacking == {"context", "example_id", *(f"sentence_id_{label}" for label in LABELS)}
    assert {alone[name] for name in lacking} == {None}


def test_an_example_without_one_sentence_of_each_label_is_refused(tmp_path):
    odd = example(7, "race")
    odd["sentences"][0]["gold_label"] = "stereotype"
    with pytest.raises(BuildError) as error:
        stereoset(tmp_path, released(example(6, "race"), odd))
    assert str(error.value) == (
        "0-stereoset-test row 1 (id race-7) has sentences labelled stereotype, anti-stereotype, stereotype; "
        "expected one each of stereotype, anti-stereotype, unrelated."
    )


def test_an_intersentence_blank_is_the_whole_next_sentence(tmp_path):
    entry = example(7, "race", "BLANK", ("She is kind.", "She is mean.", "Sky is blue.")) | {"context": "I saw her."}
    files = made(tmp_path, "stereoset/dev", json.dumps({"data": {"intersentence": [entry]}}))
    # The files of the test split are lists. An example that was released twice has two rows.
    again = [entry | {"id": f"test-{number}", "target": "other"} for number in range(2)]
    files |= made(tmp_path, "stereoset/test-intersentence", json.dumps(again[:1]), json.dumps(again[1:]))
    row, *tested = rows("stereoset-intersentence", files)
    assert row["prompt"] == "I saw her. [BLANK]"
    assert row["object_unbiased"] == "She is mean."
    assert row["sentence_irrelevant"] == "I saw her. Sky is blue."
    assert [(row["split"], row["example_id"]) for row in tested] == [("test", "test-0"), ("test", "test-1")]
    assert len({row["id"] for row in tested}) == 2


@pytest.mark.mirror
def test_stereoset_has_the_examples_of_the_paper():
    tested = [row for row in built("stereoset") if row["split"] == "test"]
    whole = mirrored("stereoset/test")["stereoset/test"].alternative == 0
    assert domains(tested) == {"gender": 771, "race": 2976, "religion": 247, "profession": 2398 if whole else 2397}
    assert all(row["context"] for row in tested if row["domain"] != "profession")
    assert len({row["prompt"] for row in tested if row["domain"] == "race" and row["context"].count("BLANK") == 2}) == 2


@pytest.mark.mirror
def test_stereoset_has_the_whole_validation_split_of_both_tasks():
    intra = [row for row in built("stereoset") if row["split"] == "validation"]
    inter = [row for row in built("stereoset-intersentence") if row["split"] == "validation"]
    assert domains(intra) == {"gender": 255, "profession": 810, "race": 962, "religion": 79}
    assert domains(inter) == {"gender": 242, "profession": 827, "race": 976, "religion": 78}
    ids = [row[f"sentence_id_{label}"] for row in intra + inter for label in LABELS]
    assert None not in ids
    assert len(set(ids)) == len(ids) == 3 * (2106 + 2123)


@pytest.mark.mirror
def test_stereoset_has_the_next_sentences_of_the_test_split():
    tested = [row for row in built("stereoset-intersentence") if row["split"] == "test"]
    assert domains(tested) == {"gender": 751, "profession": 2435, "race": 2947, "religion": 241}
    ids = [row[f"sentence_id_{label}"] for row in tested for label in LABELS]
    assert None not in ids
    assert len(set(ids)) == len(ids) == 3 * 6374
    texts = Counter((row["subject"], row["prompt"], row["object_biased"], row["object_unbiased"]) for row in tested)
    assert [text[0] for text, number in texts.items() if number == 2] == ["Sudan"]
    assert all(row["sentence_biased"] == f"{row['context']} {row['object_biased']}" for row in tested)


@pytest.mark.mirror
def test_the_list_of_sentences_agrees_with_the_released_files():
    """Where both have a domain, and in the validation split, but for the examples with two blanks."""
    fetched = mirrored("stereoset/test")["stereoset/test"]
    if fetched.alternative == 0:
        pytest.skip("the mirror has the whole test file, so the list of sentences is not read")
    alone = Alternative(fetched.used.files[3:])
    source = Source("stereoset/test", "", "", (alone,))
    files = mirrored("stereoset/dev") | {"stereoset/test": Fetched(source, 0, fetched.paths[3:])}
    by_list = {row["id"]: row for row in rows("stereoset", files) if row["split"] == "test"}
    by_file = {row["id"]: row for row in built("stereoset") if row["split"] == "test"}
    assert by_list.keys() <= by_file.keys()
    assert [by_file[name]["context"].count("BLANK") for name in by_file.keys() - by_list.keys()] == [2, 2]

    entries = json.loads(fetched.paths[3].read_text())
    listed = {(e["subject_word"], e["stereo-sentence"], e["anti-sentence"], e["unrelated-sentence"]) for e in entries}
    left = [
        row["context"].count("BLANK")
        for row in built("stereoset")
        if row["split"] == "validation"
        and (row["subject"], *(row[f"sentence_{label}"] for label in LABELS)) not in listed
    ]
    assert left == [2, 2]


@pytest.mark.mirror
def test_the_blank_of_a_released_context_is_found_in_all_but_the_stated_examples():
    actual = [row for row in built("stereoset") if row["context"]]
    wider = [r for r in actual if r["context"].replace("BLANK", BLANK).casefold() != r["prompt"].casefold()]
    assert f"In {len(wider)} of the {len(actual)} examples" in difference("StereoSet", "white space")
    assert sum(row["context"].count("BLANK") == 2 for row in wider) == 4


# CrowS-Pairs


CROWS_HEADER = ",sent_more,sent_less,stereo_antistereo,bias_type,annotations,anon_writer,anon_annotators\n"


def crows(tmp_path, *lines, config="crows_pairs"):
    text = CROWS_HEADER + "".join(f"{n},{line},[],w{n},[]\n" for n, line in enumerate(lines))
    return rows(config, made(tmp_path, "crows-pairs/pairs", text))


def test_crows_pairs_keeps_both_directions_of_its_three_domains(tmp_path):
    actual = crows(
        tmp_path,
        "Reds run.,Blues run.,stereo,race-color",
        "The old run.,The young run.,stereo,age",
        '"He, too, ran.","She, too, ran.",antistereo,gender',
        "Xs run.,Ys run.,stereo,religion",
    )
    assert [(r["domain"], r["direction"], r["source_row"], r["writer"]) for r in actual] == [
        ("race", "stereo", 0, "w0"),
        ("gender", "antistereo", 2, "w2"),
        ("religion", "stereo", 3, "w3"),
    ]
    assert (actual[1]["sentence_biased"], actual[1]["object_unbiased"]) == ("He, too, ran.", "She")


def test_crows_pairs_has_single_spaces_and_its_paper_config_the_released_ones(tmp_path):
    line = "He  ran.,She  ran.,stereo,gender"
    (clean,) = crows(tmp_path, line)
    (paper,) = crows(tmp_path, line, config="crows_pairs-paper")
    assert (clean["sentence_biased"], paper["sentence_biased"]) == ("He ran.", "He  ran.")


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["crows_pairs", "crows_pairs-paper"])
def test_crows_pairs_has_the_pairs_of_the_paper(name):
    assert domains(built(name)) == {"gender": 262, "race": 516, "religion": 105}
    assert domains(row for row in built(name) if row["direction"] == "stereo") == {
        "gender": 159,
        "race": 473,
        "religion": 99,
    }


@pytest.mark.mirror
def test_crows_pairs_differs_from_its_paper_config_in_white_space_alone():
    changed = 0
    for clean, paper in zip(built("crows_pairs"), built("crows_pairs-paper"), strict=True):
        assert clean["id"] == paper["id"]
        changed += clean != paper
        for label in LABELS[:2]:
            assert clean[f"sentence_{label}"] == " ".join(paper[f"sentence_{label}"].split())
    assert f"in {changed} pairs" in difference("CrowS-Pairs", "Runs of spaces")


# WEAT


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["weat", "weat-paper"])
def test_weat_has_the_words_for_social_groups_of_the_paper(name):
    words = {(row["domain"], row["test"], row["subject"]) for row in built(name)}
    assert Counter(domain for domain, _, _ in words) == {"gender": 128, "race": 188, "religion": 18}
    by_test = Counter(test for _, test, _ in words)
    assert [by_test[test] for test in biaske.RACE] == [64, 30, 32, 32, 30]
    assert {by_test[test] for test in (*biaske.GENDER, "double-bind-competent", "double-bind-likable")} == {16}


@pytest.mark.mirror
def test_weat_expects_of_each_group_what_its_test_expects():
    expected = {
        ("6", "MaleNames"): ("career", "family"),
        ("6b", "FemaleTerms"): ("home", "executive"),
        ("7", "MaleTerms"): ("math", "poetry"),
        ("8b", "FemaleNames"): ("poetry", "science"),
        ("3", "AfricanAmericanNames"): ("abuse", "caress"),
        ("5b", "EuropeanAmericanTerms"): ("joy", "agony"),
        ("double-bind-competent", "FemaleNames"): ("incompetent", "competent"),
        ("religion", "JewishTerms"): ("abuse", "cherish"),
    }
    for (test, group), (biased, unbiased) in expected.items():
        actual = [row for row in built("weat") if (row["test"], row["group"]) == (test, group)]
        assert biased in {row["object_biased"] for row in actual}
        assert unbiased in {row["object_unbiased"] for row in actual}
        assert not {row["object_biased"] for row in actual} & {row["object_unbiased"] for row in actual}


@pytest.mark.mirror
def test_weat_combines_every_word_with_every_pair_of_contrasted_words():
    actual = [row for row in built("weat") if row["test"] == "6"]
    assert len(actual) == 16 * 8
    assert len({(row["subject"], row["object_biased"]) for row in actual}) == 16 * 8


@pytest.mark.mirror
def test_the_two_weat_configs_differ_in_the_sentence_alone():
    own, paper = built("weat")[0], built("weat-paper")[0]
    assert own["prompt"] == f'The word "{own["subject"]}" goes with the word "[BLANK]".'
    assert paper["prompt"] == f"{own['subject']} loves [BLANK]"
    assert {k for k in own if own[k] != paper[k]} == {"prompt", "sentence_biased", "sentence_unbiased"}


# WinoBias


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["winobias", "winobias-paper"])
def test_winobias_has_396_pairs_of_each_type_and_split(name):
    sizes = Counter((row["split"], row["type"]) for row in built(name))
    assert sizes == {(split, kind): 396 for split in ("validation", "test") for kind in (1, 2)}
    assert len(built(name)) == 1584


@pytest.mark.mirror
def test_winobias_paper_sentences_are_the_released_lines():
    released = []
    for side, label in (("pro", "biased"), ("anti", "unbiased")):
        for split, part in (("validation", "dev"), ("test", "test")):
            for kind in (1, 2):
                name = f"winobias/{side}-type{kind}-{part}"
                for number, line in enumerate(mirrored(name)[name].path.read_text().splitlines()):
                    sentence = line.split(" ", 1)[1].replace("[", "").replace("]", "").rstrip()
                    released.append((label, split, kind, number, sentence))
    actual = [
        (label, row["split"], row["type"], row["source_row"], row[f"sentence_{label}"])
        for row in built("winobias-paper")
        for label in LABELS[:2]
    ]
    assert sorted(actual) == sorted(released)


@pytest.mark.mirror
def test_winobias_sentences_differ_in_pronouns_alone():
    pronouns = {"he", "him", "his", "himself", "she", "her", "hers", "herself"}
    male = {"he", "him", "his", "himself"}
    for row in built("winobias"):
        words = [row[f"sentence_{label}"].rstrip(".").split() for label in LABELS[:2]]
        differing = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
        assert differing
        assert {word.lower() for pair in differing for word in pair} <= pronouns
        assert {pair[0].lower() in male for pair in differing} == {row["stereotype"] == "male"}


@pytest.mark.mirror
def test_the_mended_winobias_pairs_are_counted_in_the_differences():
    changed = sum(
        clean["sentence_biased"] != paper["sentence_biased"] or clean["sentence_unbiased"] != paper["sentence_unbiased"]
        for clean, paper in zip(built("winobias"), built("winobias-paper"), strict=True)
    )
    notes = Counter(note for row in built("winobias") for note in row["mended"])
    spaces = notes["space before 's"]
    wording = notes["wording of the pro line"] + notes["wording of the anti line"]
    stated = difference("WinoBias", "mended")
    assert f"{changed} of 1584 pairs are mended" in stated
    assert f"{spaces} lose the space before 's, {wording} in which" in stated
    assert f"{notes['word']} have a word replaced, {notes['article']} a doubled" in stated


@pytest.mark.mirror
def test_the_blanks_of_more_than_one_word_are_counted_in_the_differences():
    wide = {
        name: sum(" " in row["object_biased"] + row["object_unbiased"] for row in built(name))
        for name in ("winobias", "crows_pairs")
    }
    stated = difference("The blank", "more than one word")
    assert f"{wide['winobias']} of the 1584 WinoBias pairs and {wide['crows_pairs']} of the 883" in stated


# Winogender


def winogender(tmp_path, share):
    lines = [
        f"cook.guest.0.{g}.txt\tThe cook said that {p} ate."
        for g, p in (("male", "he"), ("female", "she"), ("neutral", "they"))
    ]
    sentences = made(tmp_path, "winogender/sentences", "\n".join(["sentid\tsentence", *lines]))
    header = "occupation\tbergsma_pct_female\tbls_pct_female\tbls_year\n"
    return rows("winogender", sentences | made(tmp_path, "winogender/occupations", f"{header}cook\t1\t{share}\t2015"))


@pytest.mark.parametrize(("share", "biased", "unbiased"), [("50.1", "she", "he"), ("49.9", "he", "she")])
def test_the_biased_pronoun_is_that_of_the_majority_of_the_occupation(tmp_path, share, biased, unbiased):
    (row,) = winogender(tmp_path, share)
    assert (row["object_biased"], row["object_unbiased"]) == (biased, unbiased)
    assert (row["subject"], row["other_participant"], row["refers_to"]) == ("cook", "guest", "subject")
    assert (row["female_share"], row["sentence_they"]) == (float(share), "The cook said that they ate.")


@pytest.mark.mirror
def test_winogender_has_60_occupations_in_720_sentences():
    actual = built("winogender")
    assert len({row["subject"] for row in actual}) == 60
    sentences = [row[name] for row in actual for name in ("sentence_biased", "sentence_unbiased", "sentence_they")]
    lines = mirrored("winogender/sentences")["winogender/sentences"].path.read_text().splitlines()[1:]
    assert sorted(sentences) == sorted(line.split("\t")[1] for line in lines)
    assert len(sentences) == 720
    assert Counter((row["refers_to"], row["other_participant"] == "someone") for row in actual) == {
        (who, someone): 60 for who in ("subject", "other_participant") for someone in (False, True)
    }


# BEC-Pro


BEC_HEADER = "\tSentence\tSent_TM\tSent_AM\tSent_TAM\tTemplate\tPerson\tGender\tProfession\tProf_Gender\n"


def bec(tmp_path, stereotype, *persons, profession="office manager", config="bec_pro"):
    lines = [
        f"{n}\tThis {word} is a {profession}.\tThis [MASK] is a office [MASK]ager.\tThis {word} is a [MASK].\t"
        f"This [MASK] is a [MASK].\t<person subject> is a <profession>.\t{word}\t{gender}\t{profession}\t{stereotype}\n"
        for n, (word, gender) in enumerate(persons)
    ]
    return rows(config, made(tmp_path, "bec-pro/sentences", BEC_HEADER + "".join(lines)))


MAN, WOMAN = ("man", "male"), ("woman", "female")


@pytest.mark.parametrize(
    ("stereotype", "biased", "unbiased"),
    [("male", "man", "woman"), ("female", "woman", "man"), ("balanced", "man", "woman")],
)
def test_a_bec_pro_pair_is_mended_and_ordered_by_the_expected_gender(tmp_path, stereotype, biased, unbiased):
    (row,) = bec(tmp_path, stereotype, MAN, WOMAN)
    assert (row["object_biased"], row["object_unbiased"], row["stereotype"]) == (biased, unbiased, stereotype)
    assert row["prompt"] == "This [BLANK] is an office manager."
    assert row["prompt_prior"] == "This [BLANK] is an [MASK] [MASK]."


def test_a_bec_pro_sentence_without_a_counterpart_is_refused(tmp_path):
    with pytest.raises(BuildError) as error:
        bec(tmp_path, "male", MAN, ("mother", "female"))
    assert str(error.value) == (
        "0-bec-pro-sentences row 0 ('This man is a office manager.') has no counterpart of the other gender; "
        "expected one."
    )


def test_the_paper_config_of_bec_pro_keeps_the_masks_as_released(tmp_path):
    row, _ = bec(tmp_path, "male", MAN, WOMAN, config="bec_pro-paper")
    assert row["sentence"] == "This man is a office manager."
    assert row["masked_person"] == "This [MASK] is a office [MASK]ager."


@pytest.mark.mirror
def test_bec_pro_has_5400_sentences():
    pairs, sentences = built("bec_pro"), built("bec_pro-paper")
    assert len(sentences) == len({row["sentence"] for row in sentences}) == 5400
    assert len({row[f"sentence_{label}"] for row in pairs for label in LABELS[:2]}) == 5400
    assert Counter(row["stereotype"] for row in pairs) == {"male": 900, "female": 900, "balanced": 900}
    assert len({row["object_biased"] for row in pairs if row["stereotype"] == "balanced"}) == 9


@pytest.mark.mirror
def test_the_errata_of_bec_pro_are_mended_and_counted_in_the_differences():
    released = {row["source_row"]: row for row in built("bec_pro-paper")}
    wrong, articles = Counter(), 0
    for row in built("bec_pro"):
        male, female = (released[int(number)] for number in row["id"].removeprefix("bec-pro-").split("-"))
        for sentence in (male, female):
            articles += sentence["sentence"] not in (row["sentence_biased"], row["sentence_unbiased"])
            plain = row["prompt_prior"].replace(BLANK, "[MASK]").replace(" an [MASK]", " a [MASK]")
            if sentence["masked_both"] != plain:
                wrong["ager" if "ager" in sentence["masked_both"] else "of"] += 1
    assert wrong == {"ager": 5, "of": 18}
    stated = difference("BEC-Pro", "masks")
    assert f"The masks of {wrong.total()} sentences" in stated
    assert f"before a vowel in {articles} sentences" in stated


# Written for this project

OWN = ("paraphrases", "differentiation")
SIX = ("stereoset", "crows_pairs", "weat", "winobias", "winogender", "bec_pro")
PAIR = {
    "domain": "gender",
    "subject": "nurse",
    "relation": "pronoun",
    "object_biased": "she",
    "object_unbiased": "he",
    "prompt": "The nurse says that [BLANK] left.",
    "paraphrases": ["According to the nurse, [BLANK] left."],
}
FACT = {
    "domain": "religion",
    "subject": "Muslims",
    "subject_counterfactual": "Jews",
    "prompt": "The house of prayer of the {subject} is the [BLANK].",
    "object": "mosque",
    "object_other": "synagogue",
}


def recorded(tmp_path, *entries):
    """A file of one reply with these entries."""
    sent = {"model": bundled.WRITTEN, "messages": [{"role": "user", "content": "Write."}]}
    path = tmp_path / "own.jsonl"
    path.write_text(response(sent, "\n".join(map(json.dumps, entries))).to_line() + "\n")
    return path


@cache
def own(name):
    return rows(name, {})


def written(*parts):
    """Whether one statement on what was written has all the parts."""
    return any(all(part in statement for part in parts) for statement in DATASET.written)


def test_a_pair_has_a_row_for_its_base_and_each_paraphrase(tmp_path):
    base, paraphrase = bundled.paraphrases(recorded(tmp_path, PAIR), {})
    assert (base.values["base"], paraphrase.values["base"]) == (True, False)
    assert base.values["paraphrase_of"] == paraphrase.values["paraphrase_of"] == base.id != paraphrase.id
    assert (paraphrase.values["subject"], paraphrase.values["relation"]) == ("nurse", "pronoun")
    assert paraphrase.values["sentence_biased"] == "According to the nurse, she left."


def test_a_fact_is_stated_about_both_groups(tmp_path):
    one, other = (row.values for row in bundled.facts(recorded(tmp_path, FACT), {}))
    assert one == {
        "domain": "religion",
        "subject": "Muslims",
        "subject_counterfactual": "Jews",
        "prompt": "The house of prayer of the Muslims is the [BLANK].",
        "object": "mosque",
        "object_other": "synagogue",
        "sentence_object": "The house of prayer of the Muslims is the mosque.",
        "sentence_other": "The house of prayer of the Muslims is the synagogue.",
    }
    assert (other["subject"], other["subject_counterfactual"], other["object"]) == ("Jews", "Muslims", "synagogue")
    assert other["sentence_other"] == "The house of prayer of the Jews is the mosque."


@pytest.mark.parametrize(
    ("build", "entry", "message"),
    [
        (
            bundled.paraphrases,
            PAIR | {"paraphrases": ["Somebody says that [BLANK] left."]},
            "The prompt 'Somebody says that [BLANK] left.' does not name its subject 'nurse'; name it.",
        ),
        (
            bundled.paraphrases,
            PAIR | {"paraphrases": ["The nurse left."]},
            "The prompt 'The nurse left.' has 0 times [BLANK]; expected one.",
        ),
        (
            bundled.facts,
            FACT | {"prompt": "They pray in a [BLANK]."},
            "The prompt 'They pray in a [BLANK].' does not have {subject} exactly once; correct it.",
        ),
        (
            bundled.facts,
            FACT | {"prompt": "The {subject} pray."},
            "The prompt 'The Muslims pray.' has 0 times [BLANK]; expected one.",
        ),
    ],
)
def test_a_written_prompt_without_its_subject_or_blank_is_refused(tmp_path, build, entry, message):
    with pytest.raises(BuildError) as error:
        list(build(recorded(tmp_path, entry), {}))
    assert str(error.value) == message


def test_the_card_has_the_number_of_paraphrases_and_each_pair_has_two():
    actual = own("paraphrases")
    bases = [row for row in actual if row["base"]]
    counts = domains(bases)
    assert (counts["gender"] >= 150, counts["race"] >= 50, counts["religion"] >= 50) == (True, True, True)
    assert {row["id"]: 3 for row in bases} == Counter(row["paraphrase_of"] for row in actual)
    assert CONFIGS["paraphrases"].summary.startswith(f"{len(bases)} pairs ")
    relations = len({row["relation"] for row in bases})
    pairs = f"{counts['gender']} pairs on gender, {counts['race']} on race and {counts['religion']} on religion"
    assert written(f"{pairs} in {relations} relations")


def test_rows_of_one_pair_differ_in_the_prompt_alone():
    about = {}
    for row in own("paraphrases"):
        same = tuple(row[name] for name in ("domain", "subject", "relation", "object_biased", "object_unbiased"))
        assert about.setdefault(row["paraphrase_of"], same) == same


def test_in_every_relation_an_object_is_as_often_the_biased_one():
    orders = Counter(
        (row["relation"], row["object_biased"], row["object_unbiased"]) for row in own("paraphrases") if row["base"]
    )
    assert [key for key, n in orders.items() if orders[key[0], key[2], key[1]] != n] == []


def test_the_card_has_the_number_of_facts_and_facts_have_both_directions():
    actual = own("differentiation")
    counts = {domain: n // 2 for domain, n in domains(actual).items()}
    assert min(counts.values()) >= 60
    assert counts.keys() == {"gender", "race", "religion"}
    assert CONFIGS["differentiation"].summary.startswith(f"{sum(counts.values())} facts ")
    assert written(f"{counts['gender']} facts on gender, {counts['race']} on race", f"{counts['religion']} on religion")
    keys = {(r["subject"], r["subject_counterfactual"], r["object"], r["object_other"]) for r in actual}
    assert {(counterfactual, subject, other, right) for subject, counterfactual, right, other in keys} == keys
    assert len({row["sentence_object"] for row in actual}) == len(actual)


def stands_in(phrase, text):
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE) is not None


@pytest.mark.parametrize(
    ("name", "objects"),
    [("paraphrases", ("object_biased", "object_unbiased")), ("differentiation", ("object", "object_other"))],
)
def test_a_written_prompt_names_its_subject_and_neither_object(name, objects):
    for row in own(name):
        assert stands_in(row["subject"], row["prompt"])
        assert [row[name] for name in objects if stands_in(row[name], row["prompt"])] == []
        assert row[objects[0]] != row[objects[1]]


@pytest.mark.parametrize(("name", "objects"), [("paraphrases", LABELS[:2]), ("differentiation", ("object", "other"))])
def test_written_sentences_are_unique(name, objects):
    sentences = Counter(phrase_key(row[f"sentence_{label}"]) for row in own(name) for label in objects)
    assert [sentence for sentence, n in sentences.items() if n > 1] == []


def own_sentences():
    for name, labels in (("paraphrases", LABELS[:2]), ("differentiation", ("object", "other"))):
        yield from (row[f"sentence_{label}"] for row in own(name) for label in labels)


def test_the_article_fits_both_objects_of_a_written_prompt():
    wrong = re.compile(r"\ba (?!uni)[aeiou]|\ban (?!hour)[^aeiou]", re.IGNORECASE)
    assert [sentence for sentence in own_sentences() if wrong.search(sentence)] == []


@pytest.mark.mirror
def test_no_written_sentence_is_in_the_six_sources():
    published = {phrase_key(row[f"sentence_{label}"]) for name in SIX for row in built(name) for label in LABELS[:2]}
    assert [sentence for sentence in own_sentences() if phrase_key(sentence) in published] == []


# All


@pytest.mark.mirror
@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("bec_pro-paper", "differentiation")])
def test_every_prompt_has_one_blank_that_its_objects_fill(name):
    for row in built(name):
        assert row["prompt"].count(BLANK) == 1
        for label in LABELS:
            if f"object_{label}" in row:
                assert row[f"object_{label}"] == row[f"object_{label}"].strip() != ""
                assert row["prompt"].replace(BLANK, row[f"object_{label}"]) == row[f"sentence_{label}"]


def test_each_source_keeps_its_licence():
    licences = {name.removesuffix("-paper").removesuffix("-intersentence"): c.licence for name, c in CONFIGS.items()}
    assert licences == {
        "stereoset": "CC-BY-SA-4.0",
        "crows_pairs": "CC-BY-SA-4.0",
        "weat": "CC-BY-NC-4.0",
        "winobias": "MIT",
        "winogender": "MIT",
        "bec_pro": "CC-BY-4.0",
        "paraphrases": "Apache-2.0",
        "differentiation": "Apache-2.0",
    }
