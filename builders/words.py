"""Gendered words: their forms, the neutrality test, and filling pronouns into templates."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Gender = Literal["male", "female", "they"]

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\uff07\u2032`\u00b4"), "'")


def plain(text: str) -> str:
    """One spelling for one text: NFKC, straight apostrophes, no invisible characters, single spaces.

    >>> plain("she\u2019s\u00a0 here")
    "she's here"
    """
    # Characters first: NFKC would turn a lone acute accent into a space and a mark.
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).translate(_INVISIBLE)
    return " ".join(text.translate(_APOSTROPHES).split())


def normalise(text: str) -> str:
    """:func:`plain` without case, for comparing and hashing.

    >>> normalise("  My  FRIEND") == normalise("my friend")
    True
    """
    return plain(text).casefold()


@dataclass(frozen=True, slots=True)
class Pronouns:
    """The forms of one third-person pronoun.

    ``contraction`` is the nominative with *is* or *has*.
    """

    nominative: str
    accusative: str
    possessive: str
    possessive_absolute: str
    reflexive: str
    contraction: str


#: Slots that a template may have, each the name of a form.
SLOTS = ("nominative", "accusative", "possessive", "possessive_absolute", "reflexive")

PRONOUNS: dict[Gender, Pronouns] = {
    "male": Pronouns("he", "him", "his", "his", "himself", "he's"),
    "female": Pronouns("she", "her", "her", "hers", "herself", "she's"),
    "they": Pronouns("they", "them", "their", "theirs", "themself", "they're"),
}

#: The 10 pairs (female, male) of S1 section 6.3, in the order of its list.
PAIRS: tuple[tuple[str, str], ...] = tuple(
    (f(female), f(male))
    for f in (str, str.capitalize)
    for female, male in (("she", "he"), ("her", "him"), ("hers", "his"), ("herself", "himself"), ("she's", "he's"))
)

#: Pronoun forms of either gender, lower case.
GENDERED_PRONOUNS = frozenset("she her hers herself she's he him his himself he's".split())
THEY_FORMS = frozenset("they them their theirs themself themselves they're they've they'd they'll".split())

# Nouns, titles and adjectives that name a gender, in the singular; plurals and possessives are derived.
# Words as often used of anyone (hero, host), or that mean something else too (count, miss), are left out.
_FEMALE = """
woman lady girl female gal lass lassie damsel maiden mother mom mommy mum mummy momma mama ma'am madam madame mrs ms
grandmother grandma granny stepmother godmother mother-in-law daughter granddaughter stepdaughter goddaughter
daughter-in-law sister stepsister sister-in-law aunt auntie niece wife housewife ex-wife widow bride bridesmaid
fiancee fiancée girlfriend schoolgirl cowgirl showgirl queen princess duchess countess baroness empress heiress
hostess stewardess actress waitress goddess priestess nun abbess sorceress enchantress temptress seductress landlady
saleswoman businesswoman policewoman congresswoman chairwoman spokeswoman councilwoman sportswoman fisherwoman
firewoman mailwoman craftswoman noblewoman gentlewoman horsewoman stuntwoman camerawoman washerwoman seamstress
ballerina governess midwife matron matriarch heroine songstress poetess authoress sculptress masseuse usherette
lesbian sorority womanhood motherhood sisterhood womanly girly ladylike motherly feminine pregnant maternal lioness
tigress comedienne chambermaid barmaid milkmaid maid handmaid spinster femininity suffragette tomboy
""".split()
_MALE = """
man gentleman lad boy guy male bloke chap dude fella father dad daddy papa sir mr mister grandfather grandpa
granddad stepfather godfather father-in-law son grandson stepson godson son-in-law brother stepbrother
brother-in-law bro uncle nephew husband househusband ex-husband widower bridegroom groomsman fiance fiancé boyfriend
schoolboy cowboy king prince duke baron emperor waiter monk abbot friar sorcerer warlock landlord salesman
businessman policeman congressman chairman spokesman councilman sportsman fisherman fireman mailman craftsman
nobleman horseman stuntman cameraman milkman postman doorman foreman patriarch masseur manhood fatherhood
brotherhood manly boyish fatherly masculine paternal beard bearded mustache moustache mustached stallion rooster
bachelor masculinity playboy barman repairman workman anchorman
""".split()


def _plural(word: str) -> str:
    if word.endswith("man"):
        return word[:-3] + "men"
    if "-in-law" in word:
        return _plural(word.removesuffix("-in-law")) + "-in-law"
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    if word.endswith("fe"):
        return word[:-2] + "ves"
    return word + "s"


#: Every gendered word of the neutrality test, lower case, with plurals.
GENDERED_WORDS: frozenset[str] = GENDERED_PRONOUNS | {
    form for word in (*_FEMALE, *_MALE) for form in (word, _plural(word))
}

# A word may join parts by apostrophe or hyphen; a trailing possessive is taken off before the look-up.
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


def gendered_words(text: str) -> list[str]:
    """Gendered words in a text, lower case, in order of appearance.

    Case, Unicode form, curly apostrophes, invisible characters, plurals, possessives and
    punctuation do not hide a word; a word that merely contains one ("history", "man-made") is
    not gendered.

    >>> gendered_words("The WAITRESS\u2019s brother-in-law read a history of Sherry")
    ['waitress', 'brother-in-law']
    """
    found = []
    for match in _WORD.finditer(normalise(text)):
        word = match.group()
        bare = word if word in GENDERED_WORDS else word.removesuffix("'s").rstrip("'")
        if bare in GENDERED_WORDS:
            found.append(bare)
    return found


def is_neutral(text: str) -> bool:
    """Whether a text has no gendered word.

    >>> is_neutral("My friend is a hero of history"), is_neutral("Mrs. Jones, of course")
    (True, False)
    """
    return not gendered_words(text)


class TemplateError(ValueError):
    """A template does not have the slots it should have."""


_SLOT = re.compile(r"\{([^{}]*)\}")


def slots(template: str) -> list[str]:
    """Names of the slots of a template, in order.

    Raises
    ------
    TemplateError
        When there is none, one is unknown, or a brace stands alone. A template is never given to
        ``str.format``.

    >>> slots("{nominative} lost {possessive} keys.")
    ['nominative', 'possessive']
    """
    found = _SLOT.findall(template)
    known = ", ".join(f"{{{s}}}" for s in SLOTS)
    if not found:
        raise TemplateError(f"The template {template!r} has no placeholder; use at least one of {known}.")
    for name in found:
        if name not in SLOTS:
            raise TemplateError(f"The template {template!r} has the unknown placeholder {{{name}}}; use {known}.")
    if set("{}") & set(_SLOT.sub("", template)):
        raise TemplateError(f"The template {template!r} has a brace that belongs to no placeholder.")
    return found


_SENTENCE_START = re.compile(r"(?:^|[.!?][\"')\]]*\s+)[\"'(\[]*$")


def fill(template: str, gender: Gender) -> str:
    """The template with the forms of one pronoun; a form that begins a sentence is capitalised.

    Everything else (names, acronyms, quotes) stays as it is. For *they* see :func:`fill_they`.

    >>> fill('{nominative} told the CEO: "{possessive_absolute} was lost."', "female")
    'She told the CEO: "hers was lost."'
    """
    slots(template)
    forms = PRONOUNS[gender]
    out: list[str] = []
    end = 0
    for match in _SLOT.finditer(template):
        out.append(template[end : match.start()])
        word = getattr(forms, match.group(1))
        out.append(word.capitalize() if _SENTENCE_START.search("".join(out)) else word)
        end = match.end()
    return "".join(out) + template[end:]
