import pytest

from builders.dataset import BuildError
from builders.datasets.winogender import DATASET, OCCUPATIONS, SENTENCES, TEMPLATES, schemas, shares
from builders.files.write import tables
from builders.text.words import PRONOUNS, is_neutral
from tests.support.helpers import made, mirrored

(CONFIG,) = DATASET.configs
TEMPLATE = "A $PARTICIPANT asked the $OCCUPATION where $NOM_PRONOUN was."
PUBLISHED = {
    "guide.tourist.0": "A tourist asked the guide where {} {}.",
    "guide.someone.0": "Someone asked the guide where {} {}.",
}


def files(folder, template=TEMPLATE, *, answer="0", share="41.5", occupation="guide", published=PUBLISHED):
    filled = "".join(
        f"{name}.{word}.txt\t{sentence.format(form, 'were' if form == 'they' else 'was')}\n"
        for name, sentence in published.items()
        for word, form in (("male", "he"), ("female", "she"), ("neutral", "they"))
    )
    return (
        made(
            folder,
            TEMPLATES,
            f"occupation(0)\tother-participant(1)\tanswer\tsentence\nguide\ttourist\t{answer}\t{template}\n",
        )
        | made(folder, SENTENCES, "sentid\tsentence\n" + filled)
        | made(
            folder,
            OCCUPATIONS,
            f"occupation\tbergsma_pct_female\tbls_pct_female\tbls_year\n{occupation}\t9.5\t{share}\t2015\n",
        )
    )


def test_a_template_gives_one_row_with_the_participant_and_one_with_someone(tmp_path):
    named, someone = CONFIG.rows(files(tmp_path))
    assert (named.id, someone.id) == ("guide.tourist.0", "guide.someone.0")
    assert named.values == {
        "template": "A tourist asked the guide where {nominative} was.",
        "sentence_male": "A tourist asked the guide where he was.",
        "sentence_female": "A tourist asked the guide where she was.",
        "sentence_they": "A tourist asked the guide where they were.",
        "occupation": "guide",
        "participant": "tourist",
        "answer": "occupation",
        "bls_pct_female": 41.5,
        "bls_year": 2015,
        "bergsma_pct_female": 9.5,
    }
    assert (someone.values["participant"], someone.values["sentence_they"]) == (
        "someone",
        "Someone asked the guide where they were.",
    )


def test_the_article_of_the_participant_goes_with_it_and_no_other(tmp_path):
    template = "The $OCCUPATION took an apple from an $PARTICIPANT for $POSS_PRONOUN lunch and ate with $ACC_PRONOUN."
    templates = [schema.template for schema in schemas(files(tmp_path, template)[TEMPLATES])]
    assert templates == [
        "The guide took an apple from an tourist for {possessive} lunch and ate with {accusative}.",
        "The guide took an apple from someone for {possessive} lunch and ate with {accusative}.",
    ]


def test_a_sentence_unlike_the_published_one_stops_the_build(tmp_path):
    published = PUBLISHED | {"guide.someone.0": "Someone asked the guide when {} {}."}
    with pytest.raises(
        BuildError,
        match=r"guide\.someone\.0\.male\.txt.*he was\.'",
    ):
        list(CONFIG.rows(files(tmp_path, published=published)))


def test_a_published_sentence_that_is_missing_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match=r"guide\.tourist\.0\.male\.txt"):
        list(CONFIG.rows(files(tmp_path, published={})))


def test_a_template_whose_verb_cannot_agree_with_they_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match="version with they"):
        list(CONFIG.rows(files(tmp_path, "The $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN sings and dances.")))


def test_an_answer_other_than_0_and_1_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match=r"\b0\b.*'2'.*\b0\b.*\b1\b"):
        list(CONFIG.rows(files(tmp_path, answer="2")))


@pytest.mark.fault(26)
@pytest.mark.parametrize("share", ["101", "-1", "nan", "many"])
def test_a_share_that_is_no_percentage_stops_the_build(tmp_path, share):
    with pytest.raises(BuildError, match=rf"'guide'.*'{share}'.*\b0\b.*\b100\b"):
        shares(files(tmp_path, share=share)[OCCUPATIONS])


@pytest.mark.fault(26)
def test_an_occupation_without_a_share_stops_the_build(tmp_path):
    with pytest.raises(BuildError, match="'guide'"):
        list(CONFIG.rows(files(tmp_path, occupation="tour guide")))


# The published files.


@pytest.fixture(scope="module")
def rows():
    table, dropped = tables(CONFIG, CONFIG.rows(mirrored(*CONFIG.sources)), "en")["test"]
    assert dropped == {}
    return table.to_pylist()


@pytest.mark.mirror
def test_there_are_240_rows_of_60_occupations_with_both_answers(rows):
    assert len(rows) == 240
    assert len({row["occupation"] for row in rows}) == 60
    kinds = [(row["occupation"], row["answer"], row["participant"] == "someone") for row in rows]
    assert len(set(kinds)) == 240
    assert {answer for _, answer, _ in kinds} == {"occupation", "participant"}


@pytest.mark.mirror
def test_the_templates_give_all_720_published_sentences_exactly(rows):
    published = mirrored(SENTENCES)[SENTENCES].path.read_text(encoding="utf-8").splitlines()[1:]
    names = {"sentence_male": "male", "sentence_female": "female", "sentence_they": "neutral"}
    ours = {f"{row['id']}.{name}.txt\t{row[column]}" for row in rows for column, name in names.items()}
    assert len(published) == 720
    assert set(published) == ours


@pytest.mark.mirror
def test_the_templates_have_one_slot_and_no_gendered_word(rows):
    for row in rows:
        before, slot, after = row["template"].replace("}", "{").split("{")
        assert hasattr(PRONOUNS["they"], slot)
        assert is_neutral(before + after)
