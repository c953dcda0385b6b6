import csv
import re
from dataclasses import replace

import pytest

from builders.text.embedded import table
from mitigation.projections.sentences import classes, tuples, word_set
from mitigation.recipes import get
from mitigation.running.steps import make_adapter
from mitigation.texts.attribute_words import PROJECT, PUBLISHED, AttributeWords, attribute_words
from mitigation.texts.swaps import Swapper, is_possessive
from mitigation.training.data import TrainingData
from scoring.benchmarks import stated_gender
from tests.mitigation.made import bundled, silent
from tests.mitigation.texts import snli_lines
from tests.support.helpers import mirror

#: A text | the same text about the other gender; two rows that swap back to each other have = between them.
ROWS = """
The car is his. = The car is hers.
That book of his is old. = That book of hers is old.
His is the red one. = Hers is the red one.
The choice was his to make. = The choice was hers to make.
It was his, she said. = It was hers, he said.
His car is red. = Her car is red.
She took his hat and his coat. = He took her hat and her coat.
His then girlfriend left. | Her then boyfriend left.
She earned $5 with his $10 coin. = He earned $5 with her $10 coin.
Her husband's car broke down. = His wife's car broke down.
Her husband’s car broke down. = His wife’s car broke down.
The king's queen smiled. = The queen's king smiled.
The men's coats and the girls' hats = The women's coats and the boys' hats
His mother's father is here. = Her father's mother is here.
She'll call, and he'd answer. = He'll call, and she'd answer.
She’ll call, and he’d answer. = He’ll call, and she’d answer.
SHE'LL CALL HIM. = HE'LL CALL HER.
She's here, and he’s not. = He's here, and she’s not.
Each guest has his/her seat. = Each guest has her/his seat.
Each guest has his or her seat. = Each guest has her or his seat.
Ask him/her today. = Ask her/him today.
Ask him or her. = Ask her or him.
His and hers | Hers and his
The pronouns she/her are hers. = The pronouns he/him are his.
The pronouns are she/her/hers. = The pronouns are he/him/his.
Robin goes by he and him. = Robin goes by she and her.
Each guest said that s/he liked it. = Each guest said that s/he liked it.
Each guest said that (s)he liked it. = Each guest said that (s)he liked it.
A wo/man and a (wo)man = A wo/man and a (wo)man
He/she may leave. = She/he may leave.
The policewoman met two firemen. = The policeman met two firewomen.
A Chairman and a SPOKESWOMAN = A Chairwoman and a SPOKESMAN
The lake is man-made. = The lake is man-made.
A human in a German king-size bed = A human in a German king-size bed
His mother-in-law's cat = Her father-in-law's cat
Two brothers-in-law and an ex-wife = Two sisters-in-law and an ex-husband
A mother-daughter dance for the step-son = A father-son dance for the step-daughter
Mrs. Hall met Mr. King. = Mr. Hall met Mrs. King.
Ms. Hall met him. | Mr. Hall met her.
Ms Hall met him. | Mr Hall met her.
Miss Hall will miss him. | Mr. Hall will miss her.
I miss King Arthur. = I miss Queen Arthur.
Yes, ma'am. | Yes, sir.
My grandma and my grandpas = My grandpa and my grandmas
My mum and my mom | My dad and my dad
A waitress and an actor = A waiter and an actress
They saw her leave early. = They saw him leave early.
It made her very happy. = It made him very happy.
Let her go home. = Let him go home.
They watched her running a race. = They watched him running a race.
I gave her two coins. = I gave him two coins.
I gave her advice. = I gave him advice.
I gave her son a coin. = I gave his daughter a coin.
They took her home. = They took him home.
She was alone in her home. = He was alone in his home.
They hugged her tightly. = They hugged him tightly.
Her newly bought car, and her "best" = His newly bought car, and his "best"
I told her (twice) that it is "hers". = I told him (twice) that it is "his".
Behind her, the door closed on her and me. = Behind him, the door closed on him and me.
I know her. The boss does not know her = I know him. The boss does not know him
A picture of her holding a cat = A picture of him holding a cat
They call her Robin. = They call him Robin.
Her lovely family, her early years = His lovely family, his early years
They believe in her and her 3 friends. = They believe in him and his 3 friends.
Himself a father, he shaved HIS beard. = Herself a mother, she shaved HER beard.
""".strip().splitlines()

SWAPPER = Swapper(attribute_words(PROJECT, "gender"))


def test_the_table_has_at_least_sixty_rows():
    assert len(set(ROWS)) == len(ROWS) >= 60


@pytest.mark.parametrize("row", ROWS)
def test_text_is_about_the_other_gender_and_swaps_back_where_the_row_says_so(row):
    text, sign, swapped = re.split(r" ([=|]) ", row)
    assert SWAPPER.swap(text) == swapped
    if sign == "=":
        assert SWAPPER.swap(swapped) == text


def test_words_ending_in_man_are_pairs_of_the_list():
    listed = attribute_words(PROJECT, "gender").all
    before = set(table("words")["gender"]["before_man"].split()) - {"gentle", "mer", "lay"}
    assert {stem + end for stem in before for end in ("man", "woman", "men", "women")} <= listed


@pytest.mark.mirror
def test_the_own_list_has_every_word_of_the_published_one_on_the_same_side():
    own, published = attribute_words(PROJECT, "gender"), attribute_words(PUBLISHED, "gender")
    for side in (0, 1):
        assert published.side(side) <= own.side(side)
        assert own.side(side).isdisjoint(own.side(1 - side))


@pytest.mark.mirror
def test_every_premise_of_snli_swaps_back_but_for_words_with_two_partners():
    groups = attribute_words(PROJECT, "gender").groups
    words = [word for group in groups for word in group]
    one_partner = {word for word in words if words.count(word) == 1}
    clean = tuple(group for group in groups if set(group) <= one_partner or group[0] in ("him", "his"))
    swapper = Swapper(AttributeWords(clean, "", ""))
    lines = [line for line in snli_lines() if swapper.swap(line) != line]
    wrong = [line for line in lines if swapper.swap(swapper.swap(line)) != line]
    assert len(lines) > 500
    # Only where "him" or "his" cannot be told from the words around.
    assert len(wrong) <= 0.02 * len(lines)
    assert all(re.search(r"\b(?:him|his)\b", line, re.IGNORECASE) for line in wrong)


@pytest.mark.mirror
def test_her_is_read_rightly_where_a_sentence_about_a_man_is_made_one_about_a_woman():
    """The sentence as written says whether *him* or *his* is right."""
    (path,) = mirror().glob("raw.githubusercontent.com/nyu-mll/crows-pairs/*/data/crows_pairs_anonymized.csv")
    with path.open(encoding="utf-8", newline="") as file:
        texts = [row[side] for row in csv.DictReader(file) for side in ("sent_more", "sent_less")]
    texts += snli_lines()
    right, all_of_them = 0, 0
    for text in dict.fromkeys(texts):
        # Without "is his.", where the woman's form is not her.
        for place in re.finditer(r"\b(?:him|his(?= \w))\b", text):
            female = text[: place.start()] + "her" + text[place.end() :]
            right += is_possessive(female, place.start(), place.start() + 3) == (place.group() == "his")
            all_of_them += 1
    assert all_of_them > 700
    assert right / all_of_them > 0.97


def test_texts_of_occupations_state_no_gender_and_are_as_often_about_each_side():
    settings = replace(get("leace").profiles["clean"], domain="jobs")
    texts, words = settings.texts(), settings.listed
    gender = attribute_words(PROJECT, "gender").all
    assert len(texts) == 320
    assert not any(word_set(text) & gender for text in texts)
    found = classes(texts, words, 1000, 0)
    assert [len(some) for some in found.sentences] == [160, 160]
    assert set(settings.inputs()) == {"project:jobs.txt", "project:words.json"}
    assert all(pair[0] != pair[1] for pair in tuples(texts, words, 0, 0))


def test_no_occupation_of_the_texts_is_one_that_only_measures():
    measured = {row["unit"] for row in stated_gender.rows() if row["aim"] == "stereotype" and row["held_out"]}
    assert measured
    assert measured.isdisjoint(attribute_words(PROJECT, "jobs").all)


def test_a_corpus_of_the_users_is_read_also_for_occupations(tmp_path):
    (tmp_path / "mine.txt").write_text("The nurse sings.\n")
    settings = replace(get("leace").profiles["clean"], domain="jobs", corpus=str(tmp_path / "mine.txt"))
    assert settings.texts() == ["The nurse sings."]
    assert set(settings.inputs()) == {"corpus:mine.txt", "project:words.json"}
    assert replace(settings, domain="gender", corpus="").texts()[0].startswith("The man at the gate")


@pytest.mark.parametrize("name", ["leace", "ablation"])
def test_a_projection_learns_from_texts_of_occupations(name, tmp_path):
    settings = replace(get(name).profiles["clean"], domain="jobs", lines=80)
    facts = make_adapter(get(name), settings, bundled(), TrainingData(str(tmp_path)), tmp_path / "made", silent())
    assert set(facts.data) == {"project:jobs.txt", "project:words.json"}
