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
    first, *others = text.split()
    they = PRONOUNS["they"]
    texts = []
    # A form that two slots share counts as the first of them.
    for slot in SLOTS:
        if getattr(they, slot) == first.lower():
            for pronouns in NEOPRONOUNS.values():
                form = getattr(pronouns, slot)
                if first.istitle():
                    form = form.capitalize()
                # Options begin with a space, as a tokenizer joins it to the word.
                texts.append(" ".join(["", form, *others]))
            break
    return texts
