"""Pairs about occupations, written for this project: what ``fine_tuning`` and ``fast`` learn from by default.

A pair is a text up to a pronoun or noun whose gender nothing states but the stereotype of an occupation. Each
occupation has :data:`TEXTS` templates, so that the pairs of all are few. None of the occupations and templates is among
those that measure what the recipes did: those that no recipe learns from in :mod:`scoring.benchmarks.stated_gender`,
and the new ones of ``benchmarks/planted/occupations.py``.

Example: ``The florist told us that [BLANK] had already finished.``, with *she* and *he*.
"""

import hashlib

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
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
#: In the same sentence, in a later one, and after a longer context.
TEMPLATES = (
    "The {job} told us that {he} had already finished.",
    "A {job} stood at the bus stop. {He} was going to work.",
    "The {job} laughed because {he} liked the story.",
    "A {job} moved into the flat above ours in spring. The stairs were narrow and it rained all day, so we carried "
    "the boxes together. At the end of the day {he} invited us for tea.",
    "As soon as the {job} arrived, {he} opened the window.",
    "Last week the {job} sold {his} old bicycle.",
    "I called the {job} yesterday, but {he} did not answer.",
    "We had lunch with a {job}. Afterwards {he} told us about the village.",
    "The {job} reads a lot, and {he} writes letters too.",
    "The {job} was late this morning. The train had stopped twice in the snow. When the meeting began, {he} was still "
    "outside.",
    "The photograph shows a {job} with {his} dog.",
    "The {job} apologised; {he} had taken the wrong key.",
    "The guests thanked the {job} before {he} left.",
    "A {job} lives next to us. On weekdays {he} gets up at five.",
    "If the {job} calls again, tell {him} that we have arrived.",
    "There was a {job} on the train to the coast. We talked about the weather and shared an apple. Later {he} fell "
    "asleep.",
    "Somebody asked the {job} about the price, and {he} thought for a moment.",
    "A letter came for the {job}, so we took it to {his} door.",
    "The {job} bought {himself} a new coat.",
    "My friend is a {job}. In summer {he} goes to the lake.",
    "Where is the {job}? I think {he} is in the garden.",
    "The form says that the {job} is {male}.",
    "At the age of sixty the {job} became a {grandfather}.",
    "The {job} who just came in is my {nephew}.",
)
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


def rows() -> list[Row]:
    """All pairs, as rows of biased knowledge.

    >>> first = rows()[0]
    >>> first["prompt"], first["object_biased"], first["object_unbiased"]
    ('The carpenter told us that [BLANK] had already finished.', 'he', 'she')
    """
    made: list[Row] = []
    number = 0
    for gender, jobs in JOBS.items():
        for job in jobs:
            for _ in range(TEXTS):
                # Templates in turn, so that each is as frequent as the others and a job has different ones.
                template = TEMPLATES[number % len(TEMPLATES)]
                number += 1
                slot = next(name for name in FORMS if f"{{{name}}}" in template)
                he, she = FORMS[slot]
                biased, unbiased = (he, she) if gender == "he" else (she, he)
                prompt = with_job(template, job).replace(f"{{{slot}}}", BLANK)
                pair = filled(prompt, biased, unbiased)
                made.append({"id": f"{NAME}-{number}", "config": NAME, "domain": "gender", "subject": job, **pair})
    return made
