"""Pronouns besides he, she and they, with the sources of their forms in ``builders/data/pronouns.toml``."""

from builders.text.embedded import table
from builders.text.words import PRONOUNS, SLOTS, Pronouns

#: The forms of each neopronoun by its nominative.
NEOPRONOUNS: dict[str, Pronouns] = {name: Pronouns(**forms) for name, forms in table("pronouns")["neopronouns"].items()}
#: The forms of he, she, they and the neopronouns, by the nominative.
EVERY: dict[str, Pronouns] = {forms.nominative: forms for forms in PRONOUNS.values()} | NEOPRONOUNS


def in_the_place_of_they(text: str) -> list[str]:
    """A text that begins with a form of *they*, with that form of each neopronoun; nothing for another text.

    >>> in_the_place_of_they(" They"), in_the_place_of_they(" them about")[0], in_the_place_of_they(" Neutral")
    ([' Xe', ' Ze', ' Fae'], ' xem about', [])
    """
    word, *rest = text.split()
    slot = next((slot for slot in SLOTS if getattr(PRONOUNS["they"], slot) == word.lower()), None)
    forms = [getattr(pronouns, slot) for pronouns in NEOPRONOUNS.values()] if slot else []
    return [" ".join(["", form.capitalize() if word.istitle() else form, *rest]) for form in forms]
