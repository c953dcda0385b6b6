import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.text.words import (
    GENDERED_PRONOUNS,
    GENDERED_WORDS,
    NEUTRAL,
    PRONOUN_PAIRS,
    PRONOUNS,
    SLOTS,
    THEY_FORMS,
    TemplateError,
    fill,
    fill_they,
    gendered_words,
    is_neutral,
    normalise,
    plain,
    slots,
)
from tests.support.helpers import mirror

NEAR_MISSES = (Path(__file__).parent / "near_misses.txt").read_text(encoding="utf-8").splitlines()
INVISIBLE = ["\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\ufe0f"]


# What hides a gendered word from a careless search.


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("she\u2019s late", ["she's"]),
        ("SHE\u02bcS late", ["she's"]),
        ("so\u00a0she\u202fleft", ["she"]),
        ("his fiance\u0301e", ["his", "fiancée"]),
        ("his fianc\u00e9e", ["his", "fiancée"]),
        ("a w\u200do\u200bm\u00adan", ["woman"]),
        ("\ufeffHe left", ["he"]),
        ("\uff28\uff45 left", ["he"]),
        ("a brother\u2011in\u2011law", ["brother-in-law"]),
        ("a man\u2011made lake", []),
    ],
)
def test_gendered_words_are_found_in_any_spelling(text, expected):
    assert gendered_words(text) == expected


@pytest.mark.fault(19)
@given(
    word=st.sampled_from(sorted(GENDERED_WORDS)),
    form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    case=st.sampled_from([str.lower, str.upper, str.title, str.swapcase]),
    joiner=st.sampled_from(["", *INVISIBLE]),
    around=st.sampled_from(["{}", "({})", "“{}”", "x/{}", "_{}_", "{},", "{}'s", "{}’s", "the {}?!", "…{}…", "7{}7"]),
)
def test_no_form_of_a_gendered_word_is_neutral(word, form, case, joiner, around):
    hidden = joiner.join(unicodedata.normalize(form, case(word)))
    (actual,) = gendered_words(around.format(hidden))
    assert actual.removesuffix("'s") == word.removesuffix("'s")


@pytest.mark.fault(19)
@given(st.text())
def test_normalising_twice_changes_nothing_more(text):
    assert plain(plain(text)) == plain(text)
    assert normalise(unicodedata.normalize("NFD", text)) == normalise(unicodedata.normalize("NFC", text))


@pytest.mark.fault(22)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mrs. Jones and Mr Smith", ["mrs", "mr"]),
        ("Dear Sir or Madam,", ["sir", "madam"]),
        ("Miss Jones left", ["miss"]),
        ("Ms.Jones", ["ms"]),
        ("two WAITRESSES", ["waitresses"]),
        ("the (waitress)", ["waitress"]),
        ("the ladies' room", ["ladies"]),
        ("the waitress's tray", ["waitress"]),
        ("a boy's bike, the boys' bikes", ["boy", "boys"]),
        ("women's and men's", ["women", "men"]),
        ("mothers-in-law", ["mothers-in-law"]),
        ("his mother-in-law's house", ["his", "mother-in-law"]),
        ("she'd say she'll come", ["she", "she"]),
        ("he/she, s/he or (s)he", ["he", "she", "he", "he"]),
        ("a mother-daughter team", ["mother", "daughter"]),
        ("women-owned and all-male", ["women", "male"]),
        ("a one-man show", ["man"]),
        ("ex-wife", ["wife"]),
        ("a female engineer", ["female"]),
        ("policewomen and a chairman", ["policewomen", "chairman"]),
        ("the patriarchs", ["patriarchs"]),
        ("wives, nannies and nieces", ["wives", "nieces"]),
        ("sir\nmadam", ["sir", "madam"]),
    ],
)
def test_titles_plurals_possessives_and_compounds_are_found_in_order(text, expected):
    assert gendered_words(text) == expected
    assert not is_neutral(text)


@pytest.mark.fault(22)
@pytest.mark.parametrize(
    "text", ["They miss the bus", "MISS THE BUS", "It was a near miss. You left", "Miss, you left"]
)
def test_miss_is_a_title_only_before_a_name(text):
    assert is_neutral(text)


@pytest.mark.fault(22)
def test_the_list_of_near_misses_has_two_hundred_different_entries():
    assert len({normalise(line) for line in NEAR_MISSES}) == len(NEAR_MISSES) == 200
    assert {"hero", "man-made", "mankind", "kingdom", "hermit", "feminist"} <= set(NEAR_MISSES)


@pytest.mark.fault(22)
@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_is_neutral(text):
    assert gendered_words(text) == []


def test_forms_of_they_and_neutral_nouns_are_neutral():
    assert [word for word in (*THEY_FORMS, *NEUTRAL) if not is_neutral(word)] == []
    assert {"person", "someone", "child", "parent"} <= set(NEUTRAL)


def test_every_form_of_she_and_he_is_a_gendered_word_and_none_of_they_is():
    forms = {getattr(PRONOUNS[gender], name) for gender in ("male", "female") for name in (*SLOTS, "contraction")}
    assert forms == GENDERED_PRONOUNS < GENDERED_WORDS
    assert {getattr(PRONOUNS["they"], name) for name in (*SLOTS, "contraction")} <= THEY_FORMS


def test_the_pairs_are_ten_with_a_capital_version_of_each():
    assert len(PRONOUN_PAIRS) == 10
    assert len({form for pair in PRONOUN_PAIRS for form in pair}) == 20
    assert PRONOUN_PAIRS[:2] == (("she", "he"), ("her", "him"))
    assert PRONOUN_PAIRS[5:] == tuple((f.capitalize(), m.capitalize()) for f, m in PRONOUN_PAIRS[:5])


@pytest.mark.mirror
def test_of_the_published_swap_pairs_only_words_of_another_sense_or_of_anyone_are_left_out():
    (path,) = mirror().glob("raw.githubusercontent.com/uclanlp/corefBias/*/WinoBias/wino/generalized_swaps.txt")
    words = {
        word.strip().lower() for line in path.read_text().splitlines() for word in line.split("\t") if word.strip()
    }
    left_out = {word for word in words if is_neutral(word)}
    assert left_out == {"actor", "actors", "chick", "chicks", "groom", "grooms", "mentleman", "miss"}


@pytest.mark.mirror
def test_of_the_published_equalize_pairs_only_words_of_the_body_and_of_places_are_left_out():
    (path,) = mirror().glob("raw.githubusercontent.com/tolga-b/debiaswe/*/data/equalize_pairs.json")
    words = {word.lower() for pair in json.loads(path.read_text()) for word in pair}
    left_out = {word for word in words if is_neutral(word.replace("_", " "))}
    assert left_out - {"catholic_priest", "colt"} == {
        "convent",
        "estrogen",
        "monastery",
        "ovarian_cancer",
        "prostate_cancer",
        "testosterone",
    }


# Templates.


@pytest.mark.fault(23)
@pytest.mark.parametrize("use", [slots, fill_they, lambda template: fill(template, "female")])
@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("My friend is here.", r"\{nominative\}"),
        ("{pronoun} is here.", r"\{pronoun\}.*\{nominative\}"),
        ("{nominative.__class__} is here.", r"\{nominative.__class__\}"),
        ("{0} {nominative}", r"\{0\}"),
        ("{} {nominative}", r"\{\}"),
        ("{nominative} likes {x}.", r"\{x\}"),
        ("{nominative} is {here.", "has a brace that belongs to no placeholder"),
        ("{{nominative}} is here.", "has a brace that belongs to no placeholder"),
        ("{nominative!r} is here.", r"\{nominative!r\}"),
        ("", "has no placeholder"),
    ],
)
def test_a_template_without_exactly_the_known_slots_is_refused(use, template, says):
    with pytest.raises(TemplateError, match=says):
        use(template)


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("template", "male", "female", "they"),
    [
        (
            "The keys are {possessive_absolute}, so {nominative} took {possessive} bag.",
            "The keys are his, so he took his bag.",
            "The keys are hers, so she took her bag.",
            "The keys are theirs, so they took their bag.",
        ),
        (
            "{nominative} hurt {reflexive}.",
            "He hurt himself.",
            "She hurt herself.",
            "They hurt themself.",
        ),
        (
            "Alex, the CEO of NASA, saw {accusative} at IBM.",
            "Alex, the CEO of NASA, saw him at IBM.",
            "Alex, the CEO of NASA, saw her at IBM.",
            "Alex, the CEO of NASA, saw them at IBM.",
        ),
        (
            '"{nominative} left," said Ana, "with {possessive} dog."',
            '"He left," said Ana, "with his dog."',
            '"She left," said Ana, "with her dog."',
            '"They left," said Ana, "with their dog."',
        ),
    ],
)
def test_all_slots_are_filled_and_other_text_is_unchanged(template, male, female, they):
    assert fill(template, "male") == male
    assert fill(template, "female") == female
    assert fill_they(template) == they


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("It rained. {nominative} left.", "It rained. She left."),
        ("It rained.\n{nominative} left.", "It rained.\nShe left."),
        ("Did it rain? {nominative} left!", "Did it rain? She left!"),
        ("It rained… {nominative} left.", "It rained… She left."),
        ("It rained... {nominative} left.", "It rained... She left."),
        ('"It rained." {nominative} left.', '"It rained." She left.'),
        ("“It rained.” “{nominative} left.”", "“It rained.” “She left.”"),
        ("(It rained.) ({nominative} left.)", "(It rained.) (She left.)"),
        ("'{nominative} left.'", "'She left.'"),
        ("[{nominative}] left.", "[She] left."),
        ("  – {nominative} left.", "  – She left."),
        ("Breakfast was at 9 a.m. {nominative} left.", "Breakfast was at 9 a.m. She left."),
        ('"Why not?" {nominative} left.', '"Why not?" She left.'),
    ],
)
def test_a_form_that_begins_a_sentence_has_a_capital(template, filled):
    assert fill(template, "female") == filled


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("It rained; {nominative} left.", "It rained; she left."),
        ("It rained, ({nominative} left).", "It rained, (she left)."),
        ('Ana said: "{nominative} left."', 'Ana said: "she left."'),
        ("The 2.5 km {nominative} ran", "The 2.5 km she ran"),
        ("a doctor, i.e. {possessive} friend", "a doctor, i.e. her friend"),
        ("the Dr. {nominative} saw", "the Dr. she saw"),
        ('"Why not?" {nominative} asked.', '"Why not?" she asked.'),
        ("“Stop!” {nominative} cried.", "“Stop!” she cried."),
        ("e-mail@x.org {nominative} has", "e-mail@x.org she has"),
    ],
)
def test_a_form_within_a_sentence_has_no_capital(template, filled):
    assert fill(template, "female") == filled


@pytest.mark.fault(24)
@given(
    st.lists(st.sampled_from([f"{{{name}}}" for name in SLOTS]), min_size=1, max_size=4),
    st.lists(st.text(st.characters(exclude_characters="{}")), min_size=5, max_size=5),
)
def test_filling_changes_nothing_between_the_slots(names, between):
    template = between[0] + "".join(name + text for name, text in zip(names, between[1:], strict=False))
    for gender in ("male", "female"):
        rest = fill(template, gender)
        for text, name in zip(between, [*names, None], strict=False):
            assert rest.startswith(text)
            rest = rest[len(text) :]
            if name:
                form = getattr(PRONOUNS[gender], name.strip("{}"))
                assert rest[: len(form)].lower() == form
                rest = rest[len(form) :]
        assert rest == ""
