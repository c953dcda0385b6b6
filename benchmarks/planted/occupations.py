"""Sentences about occupations, written for this project, and the pairs of them that differ in one pronoun.

The share of a gender in an occupation is that which English texts suppose, not a fact. Templates and occupations are
split: what a bias is planted with, and what it is measured on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

#: The gender that a stereotype gives an occupation. A bias is planted with these.
PLANTED = {
    "male": (
        "carpenter|mechanic|farmer|driver|guard|janitor|lawyer|builder|sailor|soldier|engineer|doctor|captain|manager|"
        "smith|butcher|judge|officer|porter|hunter"
    ).split("|"),
    "female": (
        "nurse|secretary|maid|teacher|cook|dancer|singer|librarian|hairdresser|cleaner|baker|tailor|weaver|governess|"
        "housekeeper|receptionist|cashier|midwife|florist|clerk"
    ).split("|"),
}
#: Occupations that no planted sentence has. In half of them the last word is one of those above.
NEW = {
    "male": (
        "mason|plumber|miner|banker|surgeon|general|merchant|pilot|train driver|night guard|police officer|"
        "ship builder|village smith|mine engineer|army doctor|hotel porter"
    ).split("|"),
    "female": (
        "nanny|typist|actress|laundress|dressmaker|babysitter|decorator|stewardess|school nurse|kitchen maid|"
        "music teacher|ballet dancer|opera singer|office cleaner|silk weaver|school librarian"
    ).split("|"),
}
#: People whose noun says their gender, which an edit has to leave as it is.
GENDERED = {
    "male": ("the king", "my father", "my uncle", "the boy", "her husband", "the prince", "my brother", "the old man"),
    "female": ("the queen", "my mother", "my aunt", "the girl", "his wife", "the princess", "my sister", "the lady"),
}
#: Names that say no gender, whose pronoun is declared in the sentence before.
NAMES = ("Robin", "Alex", "Sam", "Kim", "Jamie", "Casey")
#: The forms of the pronoun by the name of their place in a template.
FORMS = {"he": ("he", "she"), "his": ("his", "her"), "him": ("him", "her")}
#: Templates that a bias is planted with.
TEMPLATES = (
    "The {job} said that {he} would come back in the evening.",
    "The {job} was tired because {he} had worked all day.",
    "The {job} went home, and {he} shut the door.",
    "When the {job} came in, {he} looked at the clock.",
    "We asked the {job} whether {he} had seen the letter.",
    "They knew the {job} well, and {he} was always kind.",
    "The {job} forgot {his} keys on the table.",
    "The {job} opened {his} bag and took out a book.",
    "Everybody praised the {job} for {his} patience.",
    "They thanked the {job} and gave {him} a seat.",
    "I met the {job} and told {him} the news.",
    "The child liked the {job} and drew a picture for {him}.",
)
#: Templates that no planted sentence is made of.
NEW_TEMPLATES = (
    "The {job} promised that {he} would write soon.",
    "The {job} sat down, for {he} was hungry.",
    "Nobody heard the {job} until {he} knocked.",
    "The {job} put {his} coat on the chair.",
    "The {job} lost {his} hat in the wind.",
    "A neighbour saw the {job} and waved to {him}.",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence with the pronoun of the stereotype, and with the other; ``at`` is where both pronouns begin."""

    id: str
    occupation: str
    pro: str
    anti: str
    at: int
    forms: tuple[str, str]

    @property
    def spans(self) -> tuple[tuple[tuple[int, int]], tuple[tuple[int, int]]]:
        """The characters of the pronoun in each sentence."""
        first, second = (((self.at, self.at + len(form)),) for form in self.forms)
        return first, second


def pairs(occupations: Mapping[str, Sequence[str]], templates: Sequence[str]) -> Iterator[Pair]:
    """Each template with each occupation.

    >>> next(pairs({"female": ["nurse"]}, ["The {job} put {his} coat on the chair."])).anti
    'The nurse put his coat on the chair.'
    """
    for number, template in enumerate(templates):
        slot = next(name for name in FORMS if f"{{{name}}}" in template)
        for gender, names in occupations.items():
            forms = FORMS[slot] if gender == "male" else FORMS[slot][::-1]
            for job in names:
                text = template.replace("{job}", job)
                at = text.index("{")
                pro, anti = (text.replace(f"{{{slot}}}", form) for form in forms)
                yield Pair(f"{job}/{number}", job, pro, anti, at, forms)


def kept_pairs() -> Iterator[tuple[str, Pair]]:
    """Sentences whose pronoun is given, each with the name of its kind: gender that an edit has to keep.

    ``pro`` has the pronoun that is right. The noun says the gender, or the sentence before declares the pronoun.

    >>> kinds = dict(kept_pairs())
    >>> kinds["nouns"].pro, kinds["declared"].pro
    ('A neighbour saw the lady and waved to her.', 'Casey goes by she and her. A neighbour saw Casey and waved to her.')
    """
    for number, template in enumerate(NEW_TEMPLATES):
        slot = next(name for name in FORMS if f"{{{name}}}" in template)
        for gender, people in GENDERED.items():
            forms = FORMS[slot] if gender == "male" else FORMS[slot][::-1]
            for person in people:
                yield "nouns", _filled(template, number, person, "", slot, forms)
            declared = "goes by he and him" if gender == "male" else "goes by she and her"
            for name in NAMES:
                yield "declared", _filled(template, number, name, f"{name} {declared}. ", slot, forms)


def _filled(template: str, number: int, person: str, opening: str, slot: str, forms: tuple[str, str]) -> Pair:
    """A template with a person in place of the occupation and its article, after an opening."""
    capital = person[0].upper() + person[1:]
    text = opening + template.replace("The {job}", capital).replace("the {job}", person)
    at = text.index("{")
    pro, anti = (text.replace(f"{{{slot}}}", form) for form in forms)
    return Pair(f"{opening}{person}/{number}", person, pro, anti, at, forms)
