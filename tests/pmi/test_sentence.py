import subprocess
import sys

import pytest

from pmi.analysis.sentence import SentenceScore, content_words, max_pmi_diff, within
from pmi.types import CountRule, DeltaTable
from pmi.words import PRONOUNS

DELTA = {
    "she": 1.1,
    "he": -0.3,
    "her": 1.7,
    "him": 0.1,
    "his": -1.7,
    "hers": 1.3,
    "nurse": 0.9,
    "captain": -0.9,
    "bridge": -0.1,
    "cherish": 0.5,
    "gon": -0.1,
    "won": -0.35,
    "o'clock": -0.2,
    "café": 0.3,
    "worn": 0.05,
    "the": 3.0,
    "?": 2.0,
}
TABLE = DeltaTable.of(DELTA, DELTA.values(), [1] * len(DELTA), CountRule("made up", 10, "any", "none"))
RULES = ("clean", "nltk", "spacy")


@pytest.mark.parametrize("rule", RULES)
def test_the_word_of_largest_magnitude_decides_and_keeps_its_sign(rule):
    score = max_pmi_diff("{nominative} saw the bridge, the café and the captain.", TABLE, rule)
    assert (score.value, score.word) == (-0.9, "captain")


@pytest.mark.parametrize("rule", RULES)
def test_of_two_words_of_equal_magnitude_the_first_is_taken(rule):
    assert max_pmi_diff("Nurse met captain", TABLE, rule).word == "nurse"
    assert max_pmi_diff("Captain met nurse", TABLE, rule).word == "captain"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("text", ["{nominative} xyzzy.", "The umbrella!", "{nominative} was {reflexive}."])
def test_a_sentence_with_no_known_word_has_no_value(rule, text):
    score = max_pmi_diff(text, TABLE, rule)
    assert (score.value, score.word, score.known, score.coverage) == (None, None, 0, 0.0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("text", ["", "   ", "?!", "{nominative}", "\n\n"])
def test_an_empty_sentence_has_no_words(rule, text):
    assert max_pmi_diff(text, TABLE, rule) == SentenceScore(None, None, 0, 0)


@pytest.mark.parametrize("rule", RULES)
def test_coverage_is_the_share_of_known_words_without_stop_words(rule):
    score = max_pmi_diff("The nurse painted the old bridge.", TABLE, rule)
    assert (score.known, score.total, score.coverage) == (2, 4, 0.5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pronoun", sorted(PRONOUNS))
def test_a_literal_pronoun_counts(rule, pronoun):
    score = max_pmi_diff(f"{{nominative}} saw {pronoun.capitalize()}.", TABLE, rule)
    assert (score.value, score.word) == (DELTA[pronoun], pronoun)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slot", ["nominative", "accusative", "possessive", "possessive_absolute", "reflexive"])
def test_a_slot_is_not_a_word(rule, slot):
    assert max_pmi_diff(f"Bridge {{{slot}}}, {{{slot}}}'s {{{slot}}}’ll", TABLE, rule) == SentenceScore(
        -0.1, "bridge", 1, 1
    )


@pytest.mark.parametrize("rule", RULES)
def test_stop_words_and_punctuation_are_ignored_although_the_table_has_them(rule):
    assert max_pmi_diff("Is the bridge the one?", TABLE, rule).word == "bridge"


@pytest.mark.fault(19)
@pytest.mark.parametrize("text", ["She’s here", "SHEʼS here", "s\u200dhe's here", "she＇s here"])
def test_apostrophes_and_invisible_characters_do_not_hide_a_pronoun(text):
    assert max_pmi_diff(text, TABLE) == SentenceScore(1.1, "she", 1, 1)


@pytest.mark.fault(19)
def test_composed_and_decomposed_letters_are_one_word():
    assert max_pmi_diff("cafe\u0301", TABLE) == max_pmi_diff("caf\u00e9", TABLE) == SentenceScore(0.3, "café", 1, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It was nine o'clock, wasn't it?", ["o'clock"]),
        ("They'd won; we've lost, can't win.", ["won", "lost", "win"]),
        ("A self-made, well-worn map", ["self", "map", "worn"]),
        (
            "The skaters' and the nurse's 2,000 steps in 1.5 hours",
            ["skaters", "nurse", "2,000", "steps", "1.5", "hours"],
        ),
        ("the 49ers — “quoted”…ok", ["49ers", "quoted", "ok"]),
    ],
)
def test_the_clean_rule_cuts_at_hyphens_and_keeps_whole_words(text, words):
    assert sorted(content_words(text, "clean")) == sorted(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'Cherish' it", ["'cherish"]),
        ("to cherish' it", ["cherish"]),
        ("gonna cherish", ["gon", "na", "cherish"]),
        ("He'll lose, won't he, dr. bridge?", ["he", "lose", "wo", "he", "dr.", "bridge"]),
        (
            "A bridge. A captain... nurse--nurse, (café); 2,000",
            ["bridge", "captain", "nurse", "nurse", "café", "2,000"],
        ),
        ("self-made & “worn”", ["self-made", "worn"]),
        ("the captain's 'tis cannot", ["captain", "'t"]),
    ],
)
def test_the_nltk_rule_follows_the_penn_treebank_and_leaves_an_opening_single_quote_on(text, words):
    assert content_words(text, "nltk") == words


@pytest.mark.parametrize("rule", ["clean", "nltk"])
def test_a_rule_of_this_package_loads_no_library(rule):
    code = (
        "import sys; from pmi.analysis.sentence import content_words; "
        f"assert content_words('An old bridge', {rule!r}) == ['old', 'bridge']; "
        "sys.exit(bool({'nltk', 'spacy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_rule_is_refused_with_the_names_of_the_known_ones():
    with pytest.raises(ValueError, match="'NLTK'"):
        max_pmi_diff("A bridge", TABLE, "NLTK")


@pytest.mark.parametrize(
    ("value", "kept"), [(0.65, True), (-0.65, True), (0.0, True), (0.6501, False), (None, False), (float("nan"), False)]
)
def test_a_sentence_stays_when_its_value_is_within_the_threshold(value, kept):
    assert within(value, 0.65) is kept


@pytest.mark.parametrize("epsilon", [-0.1, float("nan")])
def test_a_negative_threshold_is_refused(epsilon):
    with pytest.raises(ValueError, match="threshold is"):
        within(0.1, epsilon)
