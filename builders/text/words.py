"""Gendered words and their forms, the neutrality test, and templates with slots for pronouns."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from builders.text.embedded import table
from builders.text.verbs import agree

Gender = Literal["male", "female", "they"]

# Soft hyphen, joiners, direction marks, invisible operators, variation selectors, byte-order mark.
_INVISIBLE = str.maketrans(
    "",
    "",
    "\u00ad\u034f\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff",
)
_ONE_SPELLING = str.maketrans("\u2018\u2019\u02bc\uff07\u2032`\u00b4\u2010\u2011", "'''''''--")


def plain(text: str) -> str:
    """A text in NFKC, with straight apostrophes, without invisible characters, and with single spaces.

    >>> plain("she\u2019s\u00a0 here")
    "she's here"
    """
    # Apostrophes are replaced first: NFKC changes a single acute accent to a space and a combining mark.
    text = unicodedata.normalize("NFKC", text.translate(_ONE_SPELLING).translate(_INVISIBLE))
    return " ".join(text.translate(_ONE_SPELLING).split())


def normalise(text: str) -> str:
    """:func:`plain` in folded case, for comparisons and hashes.

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


#: The names of slots in a template; each is the name of a form.
SLOTS = ("nominative", "accusative", "possessive", "possessive_absolute", "reflexive")

PRONOUNS: dict[Gender, Pronouns] = {
    "male": Pronouns("he", "him", "his", "his", "himself", "he's"),
    "female": Pronouns("she", "her", "her", "hers", "herself", "she's"),
    "they": Pronouns("they", "them", "their", "theirs", "themself", "they're"),
}

#: The 20 pronoun forms (10 pairs of female, male) of dong2023probing, section 6.3, in its order.
PRONOUN_PAIRS: tuple[tuple[str, str], ...] = tuple(
    (change_case(female), change_case(male))
    for change_case in (str, str.capitalize)
    for female, male in (("she", "he"), ("her", "him"), ("hers", "his"), ("herself", "himself"), ("she's", "he's"))
)

#: Pronoun forms of either gender, lower case.
GENDERED_PRONOUNS = frozenset("she her hers herself she's he him his himself he's".split())
#: Forms of *they*, lower case.
THEY_FORMS = frozenset("they them their theirs themself themselves they're they've they'd they'll".split())
_LISTS = {name: words.split() for name, words in table("words")["gender"].items()}
#: Singular nouns and pronouns for a person of any gender.
NEUTRAL: tuple[str, ...] = tuple(_LISTS["neutral"])
_IRREGULAR_PLURALS = {"matriarch": "matriarchs", "patriarch": "patriarchs", "beau": "beaux"}


def _plural(word: str) -> str:
    if word in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[word]
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


#: All gendered words of the neutrality test, in lower case, with plurals.
GENDERED_WORDS: frozenset[str] = (
    GENDERED_PRONOUNS
    | {form for word in _LISTS["nouns"] for form in (word, _plural(word))}
    | set(_LISTS["others"])
    | {before + end for before in _LISTS["before_man"] for end in ("man", "men", "woman", "women")}
)

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_MISS = re.compile(r"Miss [^\W\d_]")
_ENDING = re.compile(r"'(?:s|d|ll|ve|re)$")


def _gendered_parts(word: str) -> list[str]:
    bare = word if word in GENDERED_WORDS else _ENDING.sub("", word)
    if bare in GENDERED_WORDS:
        return [bare]
    if "-" not in bare or bare in _LISTS["neutral_compounds"]:
        return []
    return [gendered for part in bare.split("-") for gendered in _gendered_parts(part)]


def gendered_words(text: str) -> list[str]:
    """The gendered words of a text, in lower case and in their order.

    They are found in any case, Unicode form, plural, possessive, contraction and compound with hyphens, and with
    curly apostrophes, invisible characters and punctuation. A word that only contains a gendered one ("history",
    "man-made") is not gendered. "Miss" only counts before a capital; otherwise it is a verb.

    >>> gendered_words("The WAITRESS\u2019s brother-in-law read a history of Sherry")
    ['waitress', 'brother-in-law']
    """
    text = plain(text)
    gendered = []
    for match in _WORD.finditer(text):
        # Before a capital "Miss" is a title; else it is a verb.
        title = _MISS.match(text, match.start())
        is_title = title is not None and title.group()[-1].isupper()
        gendered += ["miss"] if is_title else _gendered_parts(match.group().casefold())
    return gendered


def is_neutral(text: str) -> bool:
    """Whether a text has no gendered word.

    >>> is_neutral("My friend is a hero of history"), is_neutral("Mrs. Jones, of course")
    (True, False)
    """
    return not gendered_words(text)


def article(noun: str) -> str:
    """The indefinite article of a noun, by its first letter.

    The first letter decides for the words of the data sets: none begins with a silent h or the sound of *you*.

    >>> article("aircraft mechanic"), article("nurse")
    ('an', 'a')
    """
    return "an" if noun[0] in "aeiou" else "a"


class TemplateError(ValueError):
    """A template has no slot, an unknown slot, or a brace without a slot."""


_SLOT = re.compile(r"\{([^{}]*)\}")


def slots(template: str) -> list[str]:
    """The names of the slots of a template, in order. ``str.format`` is never used.

    Raises
    ------
    TemplateError
        When there is no slot, a slot is unknown, or a brace belongs to no slot.

    >>> slots("{nominative} lost {possessive} keys.")
    ['nominative', 'possessive']
    """
    names = _SLOT.findall(template)
    allowed = ", ".join(f"{{{slot}}}" for slot in SLOTS)
    for name in names:
        if name not in SLOTS:
            raise TemplateError(f"The template {template!r} has the unknown placeholder {{{name}}}; use {allowed}.")
    if set("{}") & set(_SLOT.sub("", template)):
        raise TemplateError(f"The template {template!r} has a brace that belongs to no placeholder; use {allowed}.")
    if not names:
        raise TemplateError(f"The template {template!r} has no placeholder; use at least one of {allowed}.")
    return names


_OPENING, _CLOSING = "\"'“‘«(\\[", "\"'”’»)\\]"
_SENTENCE_START = re.compile(rf"(?:^\s*(?:[-–—]\s*)?|([.!?…])([{_CLOSING}]*)\s+)[{_OPENING}]*$")
# Abbreviations that do not end a sentence. Others ("etc.", "p.m.") may, and count as its end.
_ABBREVIATION = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Mx|Prof|Rev|Gen|Capt|Lt|Sgt|vs|cf|e\.g|i\.e|viz|approx)\.\s+$")
_SAYING = re.compile(r" (?:said|asked|cried|replied|answered|whispered|shouted|called|exclaimed|wondered|thought)\b")


def _starts_sentence(before: str, after: str) -> bool:
    match = _SENTENCE_START.search(before)
    if not match or _ABBREVIATION.search(before):
        return False
    # '"Why?" she asked' is one sentence; '"Why not?" She left' is two.
    return not (match[1] in ("!", "?") and match[2] and _SAYING.match(after))


def fill(template: str, gender: Gender) -> str:
    """The template with the forms of one pronoun, capitalised at the beginning of a sentence.

    A sentence begins after ".", "!", "?" or "…", also if quotes or brackets follow, but not after abbreviations
    such as "Dr.". All other text stays unchanged, also verbs: for *they* see :func:`fill_they`.

    >>> fill('{nominative} told the CEO: "{possessive_absolute} was lost."', "female")
    'She told the CEO: "hers was lost."'
    """
    slots(template)
    forms = PRONOUNS[gender]
    filled = ""
    end = 0
    for match in _SLOT.finditer(template):
        filled += template[end : match.start()]
        word: str = getattr(forms, match.group(1))
        filled += word.capitalize() if _starts_sentence(filled, template[match.end() :]) else word
        end = match.end()
    return filled + template[end:]


def fill_they(template: str) -> str | None:
    """The template with singular *they* and verbs that agree; None if :func:`agree` has no result.

    >>> fill_they("{nominative} is here and {nominative} never forgets {possessive} keys.")
    'They are here and they never forget their keys.'
    >>> fill_they("{nominative} sings and dances.") is None
    True
    """
    slots(template)
    agreeing = agree(template)
    return None if agreeing is None else fill(agreeing, "they")
