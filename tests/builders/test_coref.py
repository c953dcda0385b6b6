import re

import pytest

from builders import datasets
from builders.dataset import BuildError
from builders.datasets.winobias import winobias_pairs
from builders.text.words import PRONOUNS, fill, gendered_words, slots
from tests.support.helpers import made, mirrored

SOURCES = datasets.get("winobias").configs[0].sources
PRO = ["[The cook] fed the nurse because [he] was kind."]
ANTI = ["[The cook] fed the nurse because [she] was kind."]


def sources(folder, pro, anti, *, number="{} "):
    """The ten sources; all four pairs of files have the same lines."""
    lines = {"pro": pro, "anti": anti}
    texts = {side: "\n".join(number.format(n) + line for n, line in enumerate(lines[side], 1)) for side in lines}
    files = {}
    for name in SOURCES:
        side = name.removeprefix("winobias/").split("-")[0]
        jobs = {"male": "cook\nchief\nconstruction worker", "female": "nurse\nclerk"}
        files |= made(folder, name, texts.get(side) or jobs[side])
    return files


def first(folder, pro, anti):
    return next(winobias_pairs(sources(folder, [pro], [anti])))


def test_a_pair_has_both_lines_the_participants_and_the_stereotype(tmp_path):
    pairs = list(winobias_pairs(sources(tmp_path, PRO, ANTI)))
    assert [(p.split, p.type, p.line) for p in pairs] == [
        ("validation", 1, 1),
        ("validation", 2, 1),
        ("test", 1, 1),
        ("test", 2, 1),
    ]
    pair = pairs[3]
    assert (pair.occupation, pair.other_participant, pair.stereotype) == ("cook", "nurse", "male")
    assert (pair.source("pro"), pair.source("anti")) == ("winobias/pro-type2-test", "winobias/anti-type2-test")
    assert pair.template == "The cook fed the nurse because {nominative} was kind."
    assert (slots(pair.template), pair.mended) == (["nominative"], ())
    assert pair.sentence("male") == pair.pro
    assert pair.sentence("female") == pair.anti


def test_the_other_line_decides_whether_her_is_possessive(tmp_path):
    pro = "The chief met [the nurse] and gave [her] [her] key, which was [hers]."
    anti = "The chief met [the nurse] and gave [him] [his] key, which was [his]."
    assert slots(first(tmp_path, pro, anti).template) == ["accusative", "possessive", "possessive_absolute"]


@pytest.mark.parametrize(
    ("start", "mended", "note"),
    [
        ("The [the cook]", "[The cook]", "article"),
        ("The [cook]", "[The cook]", "article"),
        ("the [ cook]", "[the cook]", "article"),
        ("[A cook]", "[A cook]", ""),
        ("[The cook] 's friend", "[The cook]'s friend", "space before 's"),
    ],
)
def test_brackets_have_one_article_and_there_is_no_space_before_s(tmp_path, start, mended, note):
    pair = first(tmp_path, f"{start} saw the nurse and [he] left.", f"{start} saw the nurse and [she] left.")
    assert pair.marked == f"{mended} saw the nurse and {{nominative}} left."
    assert pair.mended == ((note,) if note else ())


def test_a_job_of_two_words_and_capitals_is_found(tmp_path):
    pro, anti = (f"[The Construction Worker] saw the CLERK and [{form}] left." for form in ("he", "she"))
    pair = first(tmp_path, pro, anti)
    assert (pair.occupation, pair.other_participant) == ("construction worker", "clerk")


def test_lines_that_differ_in_an_unknown_way_stop_the_build(tmp_path):
    with pytest.raises(BuildError, match="type 1 line 1:"):
        first(tmp_path, PRO[0], ANTI[0].replace("kind", "nice"))


def test_a_line_without_its_number_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match=r"pro-type1-dev.* line 1"):
        list(winobias_pairs(sources(tmp_path, PRO, ANTI, number="{}0 ")))


def test_a_line_without_a_known_participant_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match=r"line 1: '\[The pilot\]"):
        first(tmp_path, PRO[0].replace("cook", "pilot"), ANTI[0].replace("cook", "pilot"))


def test_a_line_without_its_counterpart_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match="1 pro and 2 anti"):
        list(winobias_pairs(sources(tmp_path, PRO, ANTI * 2)))


# The published files.

KIN = {("validation", 2, 166): "mother", ("test", 1, 259): "mom", ("test", 1, 357): "son", ("test", 2, 358): "son"}
ANY = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b")


@pytest.fixture(scope="module")
def pairs():
    return list(winobias_pairs(mirrored(*SOURCES)))


def key(pair):
    return pair.split, pair.type, pair.line


def skeleton(line):
    """A line with one mark for all pronouns in brackets."""
    return re.sub(r"\[" + ANY.pattern[2:-2] + r"\]", "[]", line)


@pytest.mark.mirror
def test_there_are_396_pairs_of_each_type_and_split_half_of_each_gender(pairs):
    counts = {}
    for pair in pairs:
        counts[pair.split, pair.type, pair.stereotype] = counts.get((pair.split, pair.type, pair.stereotype), 0) + 1
    assert counts == {(s, t, g): 198 for s in ("validation", "test") for t in (1, 2) for g in ("male", "female")}
    assert len({pair.occupation for pair in pairs}) == len({pair.other_participant for pair in pairs}) == 40


def marked(pair, gender):
    """The corrected sentence with the brackets of the published lines around the entity and its pronouns."""
    return fill(re.sub(r"\{\w+\}", r"[\g<0>]", pair.marked), gender)


@pytest.mark.mirror
def test_a_pair_without_a_note_has_the_published_sentences(pairs):
    others = {"male": "female", "female": "male"}
    for pair in pairs:
        lines = [line.partition(" ")[2] for line in (pair.pro_line, pair.anti_line)]
        published = [marked(pair, pair.stereotype), marked(pair, others[pair.stereotype])] == lines
        assert published == (not pair.mended), key(pair)


@pytest.mark.mirror
def test_each_note_is_on_exactly_the_lines_with_that_correction(pairs):
    for pair in pairs:
        lines = pair.pro_line, pair.anti_line
        differ = skeleton(lines[0]) != skeleton(lines[1])
        assert ("space before 's" in pair.mended) == any(" 's" in line for line in lines), key(pair)
        assert ("article" in pair.mended) == any(re.search(r"\b[Tt]he \[", line) for line in lines), key(pair)
        # One pair differs in the case of the pronoun only, two in an article that the rule above mends.
        wording = any(note.startswith("wording") for note in pair.mended)
        assert wording == (differ and "article" not in pair.mended) or key(pair) == ("validation", 2, 171), key(pair)


@pytest.mark.mirror
def test_twelve_pairs_have_replaced_words_and_one_sentence_for_all_pronouns(pairs):
    replaced = [pair for pair in pairs if "word" in pair.mended]
    assert len(replaced) == 12
    for pair in replaced:
        kept = {pair.pro_line, pair.anti_line}
        assert all(sentence not in line for line in kept for sentence in map(pair.sentence, ("male", "female")))


@pytest.mark.mirror
def test_a_mended_sentence_has_no_markup_and_no_gendered_word_but_relatives(pairs):
    for pair in pairs:
        assert not re.search(r"\[|\]|  | 's|\bthe the\b", pair.template), key(pair)
        assert len(re.findall(r"\[[^\]]+\]", pair.marked)) == 1, key(pair)
        assert gendered_words(pair.template.translate(str.maketrans("{}_", "   "))) == (
            [KIN[key(pair)]] if key(pair) in KIN else []
        )


@pytest.mark.mirror
def test_the_kept_wording_is_that_of_a_published_line(pairs):
    for pair in pairs:
        for note in pair.mended:
            if note.startswith("wording") and "word" not in pair.mended:
                side = note.split()[3]
                gender = pair.stereotype
                if side == "anti":
                    gender = "female" if gender == "male" else "male"
                published = {"pro": pair.pro, "anti": pair.anti}[side].replace(" 's", "'s")
                if key(pair) not in {("test", 2, 384), ("test", 2, 382)}:
                    assert fill(pair.template, gender) == published, key(pair)


@pytest.mark.mirror
def test_the_pronouns_are_the_forms_of_the_slots(pairs):
    for pair in pairs:
        for gender in ("male", "female"):
            forms = [getattr(PRONOUNS[gender], slot) for slot in slots(pair.template)]
            brackets = [text.lower() for text in re.findall(r"\[([^\[\]]+)\]", marked(pair, gender))]
            entity = [text for text in brackets if text not in forms]
            assert [text for text in brackets if text in forms] == forms
            assert len(entity) == 1
