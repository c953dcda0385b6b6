"""Pairs about occupations, written for this project: what ``fine_tuning`` and ``fast`` learn from by default.

A pair is a text up to a pronoun or noun whose gender nothing states but the stereotype of an occupation. Each
occupation has :data:`TEXTS` templates, so that the pairs of all are few; half of the texts follow a sentence about
something else. None of the occupations and templates is among those that measure what the recipes did: those that no
recipe learns from in :mod:`scoring.benchmarks.stated_gender`, and the new ones in
``benchmarks/planted/occupations.py``.

Example: ``The florist told us that [BLANK] had already finished.``, with *she* and *he*.
"""

import hashlib
from functools import cache

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.texts import corpora
from scoring.types import Row

#: The word for these pairs among the sets, and their config.
NAME = "jobs"
#: Occupations by the pronoun that a stereotype gives them.
JOBS = {
    "he": (
        "carpenter|bricklayer|blacksmith|lumberjack|truck driver|taxi driver|sailor|detective|bodyguard|"
        "auto mechanic|physicist|mathematician|network architect|insurance broker|stockbroker|economist|senator|"
        "mayor|judge|lawyer|professor|philosopher|butcher|janitor|boxer|referee|astronaut|locksmith|"
        "construction worker|civil engineer|electrical engineer|patrol officer|security guard|farmer|cardiologist|"
        "engineering manager|oil worker|soldier|admiral|captain|plasterer|glazier|forester|hunter|rancher|shepherd|"
        "wrestler|golfer|goalkeeper|guitarist|drummer|composer|architect|geologist|astronomer|chemist|"
        "software developer|system administrator|entrepreneur|investor|chief executive|director|president|"
        "prime minister|governor|ambassador|sheriff|prosecutor|bus driver|courier|bartender|chef"
    ).split("|"),
    "she": (
        "nurse|secretary|receptionist|housekeeper|librarian|hairdresser|beautician|daycare assistant|maid|florist|"
        "milliner|kindergarten teacher|elementary school teacher|flight attendant|interior designer|fashion designer|"
        "makeup artist|caregiver|cashier|stylist|yoga instructor|au pair|midwife|cleaner|bookkeeper|school counselor|"
        "dance teacher|telephone operator|cheerleader|dental assistant|medical assistant|payroll clerk|office clerk|"
        "administrative assistant|veterinary assistant|ballet teacher|figure skater|gymnast|beauty consultant|"
        "jewelry designer|ward nurse|nurse practitioner|occupational therapist|singing teacher|piano teacher|"
        "French teacher|special education teacher|teaching assistant|personal assistant|executive assistant|"
        "translator|interpreter|editor|proofreader|archivist|museum guide|barista|shop assistant|dog groomer|"
        "pharmacist|optician|dermatologist|pediatrician|gynecologist|lab assistant|domestic helper|costume designer|"
        "pilates instructor|choreographer|harpist|fortune teller|wedding singer"
    ).split("|"),
}
#: The forms of the pronoun by the name of their place in a template: those of men, those of women.
FORMS = {
    "he": ("he", "she"),
    "He": ("He", "She"),
    "his": ("his", "her"),
    "him": ("him", "her"),
    "himself": ("himself", "herself"),
    "male": ("male", "female"),
    "nephew": ("nephew", "niece"),
    "grandfather": ("grandfather", "grandmother"),
}
#: What a person does, in the same sentence, in a later one, and after a longer context; {S} begins a sentence.
#: What is kept has these templates too, so that only the person tells a network whether a gender is stated.
TEMPLATES = (
    "{S} told us that {he} had already finished.",
    "{S} stood at the bus stop. {He} was going to work.",
    "{S} laughed because {he} liked the story.",
    "{S} moved into the flat above ours in spring. The stairs were narrow and it rained all day, so we carried the "
    "boxes together. At the end of the day {he} invited us for tea.",
    "As soon as {s} arrived, {he} opened the window.",
    "Last week {s} sold {his} old bicycle.",
    "I called {s} yesterday, but {he} did not answer.",
    "We had lunch with {s}. Afterwards {he} told us about the village.",
    "{S} reads a lot, and {he} writes letters too.",
    "{S} was late this morning. The train had stopped twice in the snow. When the meeting began, {he} was still "
    "outside.",
    "The photograph shows {s} with {his} dog.",
    "{S} apologised; {he} had taken the wrong key.",
    "The guests thanked {s} before {he} left.",
    "{S} lives next to us. On weekdays {he} gets up at five.",
    "If {s} calls again, tell {him} that we have arrived.",
    "I met {s} on the train to the coast. We talked about the weather and shared an apple. Later {he} fell asleep.",
    "Somebody asked {s} about the price, and {he} thought for a moment.",
    "A letter came for {s}, so we took it to {his} door.",
    "{S} bought {himself} a new coat.",
    "In summer {s} goes to the lake, where {he} has a boat.",
    "Where is {s}? I think {he} is in the garden.",
    "{S} thought that {he} had heard a noise.",
    "{S} smiled when {he} read the note.",
    "{S} fell asleep before {he} reached the last page.",
    "{S} left {his} gloves in the carriage.",
    "{S} told us about {his} journey.",
    "{S} wrote to all those who had helped {him}.",
    "{S} ate an apple while {he} waited.",
    "{S} sang a song. Then {he} closed the piano.",
    "{S} knew at once that {he} was right.",
    "{S} painted {his} kitchen blue.",
    "{S} lives on a hill, and the wind often blows there. In winter {he} stays indoors.",
    "{S} carried a basket, and a child followed {him}.",
)
#: The same with a noun that says a gender in place of the pronoun.
NOUNS = (
    "The form says that {s} is {male}.",
    "At the age of sixty {s} became a {grandfather}.",
    "I found out that {s} is the {nephew} of the mayor.",
)
#: How a text names a person by an occupation: what comes first, and the mention.
MENTIONS = (("", "the {job}"), ("", "a {job}"), ("My friend is a {job}. ", "my friend"))
#: Templates of each occupation.
TEXTS = 3


def fingerprint() -> dict[str, str]:
    """The name and the checksum of all pairs, as those of a corpus; changed pairs have another checksum."""
    texts = "".join(f"{row['sentence_biased']}\n" for row in rows())
    return {f"project:{NAME}": hashlib.sha256(texts.encode()).hexdigest()}


def with_job(template: str, job: str) -> str:
    """A template with an occupation, and *an* before a vowel.

    >>> with_job("A {job} met a {job}.", "architect")
    'An architect met an architect.'
    """
    if job[0] in "aeiou":
        template = template.replace("A {job}", "An {job}").replace("a {job}", "an {job}")
    return template.replace("{job}", job)


def after_sentence(text: str, number: int) -> str:
    """A text after one of the ordinary sentences of this project, which name no person.

    >>> after_sentence("The nurse slept.", 1)
    'Heat the oil in a large pan and add the onions, the garlic and a little salt. The nurse slept.'
    """
    sentences = _sentences()
    return f"{sentences[number % len(sentences)]} {text}"


@cache
def _sentences() -> tuple[str, ...]:
    return tuple(corpora.WITHOUT_PEOPLE.read_text("utf-8").splitlines())


def about(template: str, opening: str, mention: str) -> str:
    """A template about a person, after an opening.

    >>> about("{S} said that {he} was late.", "Kim is a nurse. ", "my friend")
    'Kim is a nurse. My friend said that {he} was late.'
    """
    return opening + template.replace("{S}", mention[0].upper() + mention[1:]).replace("{s}", mention)


def rows() -> list[Row]:
    """All pairs, as rows of biased knowledge.

    >>> first = rows()[0]
    >>> first["prompt"], first["object_biased"], first["object_unbiased"]
    ('The carpenter told us that [BLANK] had already finished.', 'he', 'she')
    """
    made: list[Row] = []
    templates = (*TEMPLATES, *NOUNS)
    number = 0
    for gender, jobs in JOBS.items():
        for job in jobs:
            for _ in range(TEXTS):
                # Templates in turn, so that each is as frequent as the others and a job has different ones.
                passed, place = divmod(number, len(templates))
                template = about(templates[place], *MENTIONS[passed % len(MENTIONS)])
                number += 1
                # Half of the texts of each template come after a sentence about something else.
                if (passed + place) % 2:
                    template = after_sentence(template, number)
                slot = next(name for name in FORMS if f"{{{name}}}" in template)
                he, she = FORMS[slot]
                biased, unbiased = (he, she) if gender == "he" else (she, he)
                prompt = with_job(template, job).replace(f"{{{slot}}}", BLANK)
                pair = filled(prompt, biased, unbiased)
                made.append({"id": f"{NAME}-{number}", "config": NAME, "domain": "gender", "subject": job, **pair})
    return made
