"""Gendered words: their forms, the neutrality test, and filling pronouns into templates."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from builders.text.agreement import agree

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
    """One spelling for one text: NFKC, straight apostrophes, no invisible characters, single spaces.

    >>> plain("she\u2019s\u00a0 here")
    "she's here"
    """
    # Characters first: NFKC would turn a lone acute accent into a space and a mark.
    text = unicodedata.normalize("NFKC", text.translate(_ONE_SPELLING).translate(_INVISIBLE))
    return " ".join(text.translate(_ONE_SPELLING).split())


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

#: The 20 forms (10 pairs, female and male) of "Probing Explicit and Implicit Gender Bias", section 6.3, in its order.
PAIRS: tuple[tuple[str, str], ...] = tuple(
    (f(female), f(male))
    for f in (str, str.capitalize)
    for female, male in (("she", "he"), ("her", "him"), ("hers", "his"), ("herself", "himself"), ("she's", "he's"))
)

#: Pronoun forms of either gender, lower case.
GENDERED_PRONOUNS = frozenset("she her hers herself she's he him his himself he's".split())
#: Forms of *they*, lower case.
THEY_FORMS = frozenset("they them their theirs themself themselves they're they've they'd they'll".split())
#: Nouns and pronouns for a person that name no gender, singular.
NEUTRAL: tuple[str, ...] = tuple(
    """person someone somebody anyone anybody everyone everybody individual human adult grown-up child kid baby infant
    toddler newborn teenager adolescent youth youngster parent grandparent stepparent godparent guardian sibling twin
    cousin grandchild stepchild godchild relative spouse partner friend companion roommate classmate teammate colleague
    neighbor neighbour acquaintance stranger guest visitor passer-by bystander newcomer member citizen resident
    inhabitant pupil student participant customer client patient passenger pedestrian""".split()
)

# A word is gendered when it names the gender of the one it is said of, in its only or usual sense. Left
# out are words as often said of anyone (hero, host, actor, heir, wizard, master, freshman, feminist), words
# with another common sense (count, groom, knight, bull, mummy), parts and states of the body other than
# pregnancy and the beard, first names, and words that stand for all people (mankind).
_NOUNS = """
woman lady girl female gal lass lassie damsel maiden mother mom mommy mum mama mamma momma mammy madam madame
mademoiselle missus señora senora señorita senorita grandmother grandma granny grannie grandmom grandmum grandaunt
stepmother stepmom stepmum godmother mother-in-law daughter granddaughter stepdaughter goddaughter daughter-in-law
sister stepsister sis sister-in-law aunt auntie aunty niece grandniece wife housewife midwife widow bride bridesmaid
fiancée fiancee divorcée girlfriend schoolgirl cowgirl showgirl bellgirl salesgirl choirgirl queen princess duchess
countess viscountess marchioness baroness empress tsarina czarina heiress hostess stewardess actress waitress goddess
priestess nun abbess sorceress enchantress witch temptress seductress murderess adulteress villainess giantess
huntress shepherdess patroness benefactress proprietress conductress landlady seamstress ballerina governess mistress
headmistress schoolmistress postmistress matron matriarch heroine songstress poetess authoress sculptress masseuse
usherette comedienne chanteuse dominatrix lesbian sorority suffragette tomboy spinster bachelorette belle dame wench
maid maidservant handmaid handmaiden chambermaid barmaid milkmaid mermaid lioness tigress mare filly ewe hen
man gentleman gent lord lad laddie boy guy male bloke chap dude fella father dad daddy papa sir mister monsieur señor
senor grandfather grandpa grandad granddad granddaddy stepfather stepdad godfather father-in-law son grandson stepson
godson son-in-law brother stepbrother bro brother-in-law uncle nephew grandnephew husband hubby househusband widower
bridegroom suitor beau fiancé fiance boyfriend schoolboy cowboy bellboy busboy choirboy playboy king prince duke
viscount baron marquess marquis emperor waiter monk abbot friar sorcerer enchanter warlock landlord headmaster
manservant masseur patriarch bachelor womanizer womaniser fraternity beard moustache mustache stallion gelding rooster
tomcat brotherhood sisterhood masculinity femininity
""".split()
_OTHERS = """
mrs ms ma'am womanly womanhood womankind womenfolk girly girlish girlhood ladylike motherly motherhood mothered
mothering sisterly wifely feminine maternal maternity pregnant pregnancy mr gramps brethren menservants manly
manliness manhood menfolk boyish boyhood fatherly fatherhood fathered fathering brotherly masculine effeminate virile
virility macho paternal paternity bearded moustached mustached mustachioed
""".split()
# Each stands before -man, -woman, -men and -women.
_BEFORE_MAN = """
air alder anchor assembly bar business camera cave chair church clergy committee con congress council country crafts
crew dairy door dutch english fire fisher fore french front frontiers gentle grooms guards gun handy head hench herds
horse hunts irish lay line mail marks mer middle milk noble oars outdoors patrol police post repair sales scots sea
service show spokes sports states strong stunt super swords trades tribes washer watch weather welsh work yachts
""".split()
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


#: Every gendered word of the neutrality test, lower case, with plurals.
GENDERED_WORDS: frozenset[str] = (
    GENDERED_PRONOUNS
    | {form for word in _NOUNS for form in (word, _plural(word))}
    | set(_OTHERS)
    | {before + end for before in _BEFORE_MAN for end in ("man", "men", "woman", "women")}
)
# Compounds that name no gender although a part of them would.
_NEUTRAL_COMPOUNDS = frozenset(
    """man-made man-hour man-hours man-eating king-size king-sized queen-size queen-sized mother-of-pearl
    daddy-long-legs witch-hunt witch-hunts""".split()
)

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_MISS = re.compile(r"Miss [^\W\d_]")
_ENDING = re.compile(r"'(?:s|d|ll|ve|re)$")


def _gendered_parts(word: str) -> list[str]:
    bare = word if word in GENDERED_WORDS else _ENDING.sub("", word)
    if bare in GENDERED_WORDS:
        return [bare]
    if "-" not in bare or bare in _NEUTRAL_COMPOUNDS:
        return []
    return [found for part in bare.split("-") for found in _gendered_parts(part)]


def gendered_words(text: str) -> list[str]:
    """Gendered words in a text, lower case, in order of appearance.

    Case, Unicode form, curly apostrophes, invisible characters, plurals, possessives, contractions,
    hyphens and punctuation do not hide a word. A word that merely contains one ("history",
    "man-made") is not gendered. "Miss" counts before a capital only: else it is a verb.

    >>> gendered_words("The WAITRESS\u2019s brother-in-law read a history of Sherry")
    ['waitress', 'brother-in-law']
    """
    text = plain(text)
    found = []
    for match in _WORD.finditer(text):
        title = _MISS.match(text, match.start())
        is_title = title is not None and title.group()[-1].isupper()
        found += ["miss"] if is_title else _gendered_parts(match.group().casefold())
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
    for name in found:
        if name not in SLOTS:
            raise TemplateError(f"The template {template!r} has the unknown placeholder {{{name}}}; use {known}.")
    if set("{}") & set(_SLOT.sub("", template)):
        raise TemplateError(f"The template {template!r} has a brace that belongs to no placeholder; use {known}.")
    if not found:
        raise TemplateError(f"The template {template!r} has no placeholder; use at least one of {known}.")
    return found


_OPENING, _CLOSING = "\"'“‘«(\\[", "\"'”’»)\\]"
_SENTENCE_START = re.compile(rf"(?:^\s*(?:[-–—]\s*)?|([.!?…])([{_CLOSING}]*)\s+)[{_OPENING}]*$")
# Abbreviations that end no sentence. Others ("etc.", "p.m.") may, and count as its end.
_ABBREVIATION = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Mx|Prof|Rev|Gen|Capt|Lt|Sgt|vs|cf|e\.g|i\.e|viz|approx)\.\s+$")
_SAYING = re.compile(r" (?:said|asked|cried|replied|answered|whispered|shouted|called|exclaimed|wondered|thought)\b")


def _starts_sentence(before: str, after: str) -> bool:
    found = _SENTENCE_START.search(before)
    if not found or _ABBREVIATION.search(before):
        return False
    # '"Why?" she asked' goes on; '"Why not?" She left' does not.
    return not (found[1] in ("!", "?") and found[2] and _SAYING.match(after))


def fill(template: str, gender: Gender) -> str:
    """The template with the forms of one pronoun; a form that begins a sentence is capitalised.

    A sentence begins after ".", "!", "?" or "…", behind quotes and brackets too, but not after
    abbreviations such as "Dr.". Everything else (names, acronyms, quotes) stays as it is. Verbs do not
    change: for *they* see :func:`fill_they`.

    >>> fill('{nominative} told the CEO: "{possessive_absolute} was lost."', "female")
    'She told the CEO: "hers was lost."'
    """
    slots(template)
    forms = PRONOUNS[gender]
    out = ""
    end = 0
    for match in _SLOT.finditer(template):
        out += template[end : match.start()]
        word: str = getattr(forms, match.group(1))
        out += word.capitalize() if _starts_sentence(out, template[match.end() :]) else word
        end = match.end()
    return out + template[end:]


def fill_they(template: str) -> str | None:
    """The template with singular *they*, its verbs agreeing; None where that takes guessing.

    >>> fill_they("{nominative} is here and {nominative} never forgets {possessive} keys.")
    'They are here and they never forget their keys.'
    >>> fill_they("{nominative} sings and dances.") is None
    True
    """
    slots(template)
    agreeing = agree(template)
    return None if agreeing is None else fill(agreeing, "they")
