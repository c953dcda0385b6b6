"""Counterfactual text: a sentence in which the words of one group of people take another's place.

*her* is *him* or *his*, and *his* is *her* or *hers*. No tagger is used, because its model would be a download: the
words around the pronoun decide, which is right for 98 or 99 of 100 in sentences of six data sets (docs/LEDGER.md).
"""

import re
from collections.abc import Sequence
from pathlib import Path

from builders.text.words import GENDERED_PRONOUNS
from mitigation.texts.attribute_words import AttributeWords

_FOLDER = Path(__file__).parents[1] / "data"

#: A word with the apostrophes, hyphens and points inside it, and a point after it.
WORD = re.compile(r"\w+(?:['’.-]\w+)*\.?")
#: What a noun or pronoun may end with: the possessive, or a contracted verb.
_ENDING = re.compile(r"['’](?:s|d|ll|ve|re)$", re.IGNORECASE)
#: Compounds whose first part names the person: *mother-in-law*.
_FIRST_PART = re.compile(r"-(?:in-laws?|to-be|in-waiting)$")
#: What comes before a family name: a title, or initials.
_TITLE = re.compile(r"\b(?:(?:Mrs?|Ms|Miss|Messrs|Dr|Prof|Professor|Doctor|Captain|Capt|Rev)\.?|[A-Z]\.) $")
#: What comes before the second part of a word that has both genders already: *s/he*, *(wo)man*.
_BOTH = re.compile(r"(?<!\w)(?:s/|wo/|\(s\)|\(wo\))$", re.IGNORECASE)
#: A capitalised word follows: *Miss Hall*, and not *I miss her*.
_NAME_NEXT = re.compile(r"\s+[A-Z]\w")

# The words around a pronoun. Quotation marks and signs of money may stand before the next one.
_NEXT = re.compile(r"\s+[\"“‘'$£€]*([^\W_]+(?:['’-][^\W_]+)*)")
_LAST = re.compile(r"([^\W_]+(?:['’-][^\W_]+)*)\s+$")
#: The other pronoun of *his/her*, *him or her*, *she/her/hers*, after and before.
_PAIR_NEXT = re.compile(r"(?:\s*/\s*| or | and | nor )(he|she|his|him|hers|her)\b", re.IGNORECASE)
_PAIR_LAST = re.compile(r"\b(he|she|his|him|hers|her)(\s*/\s*| or | and | nor )$", re.IGNORECASE)


def _words(name: str) -> dict[str, frozenset[str]]:
    """The lists of words by their name in a file of lines ``name: words``."""
    lists: dict[str, frozenset[str]] = {}
    for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines():
        title, _, words = line.partition(":")
        lists[title] = frozenset(words.split())
    return lists


_AROUND = _words("around_her.txt")


class Swapper:
    """Puts the words of one group of people in place of another's, all at the same time.

    Capitals, apostrophes and endings are kept (*the king's*, *she’ll*), and parts of a compound are replaced where
    they name the person (*ex-wife*, *mother-in-law*, but not *man-made*). A word of several groups becomes its
    partner in the first of them, except that *her* becomes *his* before a noun and *him* elsewhere, and *his* becomes
    *her* before a noun and *hers* elsewhere. A capitalised word after a title is a name and stays (*Mrs. King*), and
    so do words that have both genders (*s/he*). ``names`` are pairs of first names, which are replaced only where
    they are written like this, also before an apostrophe.

    To swap twice gives the same text where each word is in one pair, and *her* and *his* were read rightly. It does
    not where two words have one partner: *Ms.* becomes *Mr.*, and *Mr.* becomes *Mrs.*

    >>> forms = (("he", "she"), ("him", "her"), ("his", "her"), ("his", "hers"))
    >>> pairs = AttributeWords((*forms, ("mr.", "mrs.")), "", "")
    >>> Swapper(pairs).swap("He met Mrs. Hall and her son, and told HER.")
    'She met Mr. Hall and his son, and told HIM.'
    >>> Swapper(pairs).swap("They hugged her and him, gave her the keys to her old car, and hers is his/her car.")
    'They hugged him and her, gave him the keys to his old car, and his is her/his car.'
    >>> Swapper(pairs, (("Mark", "Rose"),)).swap("Rose's friend said that he saw a rose and Mark.")
    "Mark's friend said that she saw a rose and Rose."
    """

    def __init__(self, words: AttributeWords, names: Sequence[tuple[str, ...]] = ()) -> None:
        self._names: dict[str, str] = {}
        # In reverse, so that a name of several pairs has its partner from the first of them.
        for one, other in reversed(names):
            self._names[one] = other
            self._names[other] = one
        self._partners: dict[str, list[tuple[str, ...]]] = {}
        for group in words.groups:
            for number, word in enumerate(group):
                # The other words of the group, from the next one on and then from its beginning.
                self._partners.setdefault(word, []).append(group[number + 1 :] + group[:number])

    def swap(self, text: str, turn: int = 0) -> str:
        """The text with every listed word replaced; unchanged if it has none.

        ``turn`` chooses among the two other words of a triple.
        """

        def other(match: re.Match[str]) -> str:
            word, start = match.group(), match.start()
            name = re.split(r"['’.]", word, maxsplit=1)[0]
            if name in self._names:
                return self._names[name] + word[len(name) :]
            if _BOTH.search(text, 0, start):
                return word
            for stem in stems(word):
                replaced = self._replaced(stem, text, start, turn)
                if replaced:
                    return replaced + word[len(stem) :]
            return word

        return WORD.sub(other, text)

    def _replaced(self, stem: str, text: str, start: int, turn: int) -> str | None:
        """What takes the place of a word at a place of the text; None if it is not listed, nor its parts."""
        lower, end = _plain(stem), start + len(stem)
        if lower in self._partners:
            if stem[0].isupper() and lower not in GENDERED_PRONOUNS and _TITLE.search(text, 0, start):
                return stem
            if lower == "miss" and not (stem[0].isupper() and _NAME_NEXT.match(text, end)):
                return stem
            groups = self._partners[lower]
            wanted = None
            if lower == "her":
                wanted = "his" if is_possessive(text, start, end) else "him"
            elif lower == "his":
                wanted = "her" if is_before_noun(text, start, end) else "hers"
            for group in groups:
                if group[0] == wanted:
                    return _like(stem, wanted)
            return _like(stem, groups[0][turn % len(groups[0])])
        parts = stem.split("-")
        if len(parts) == 1:
            return None
        # Mother-daughter: all parts. Otherwise the part that names the person.
        places = range(len(parts))
        if _FIRST_PART.search(lower):
            places = range(1)
        elif any(_plain(part) not in self._partners for part in parts):
            places = range(len(parts) - 1, len(parts))
        for place in places:
            groups = self._partners.get(_plain(parts[place]), [])
            if not groups:
                return None
            parts[place] = _like(parts[place], groups[0][turn % len(groups[0])])
        return "-".join(parts)


def stems(word: str) -> list[str]:
    """A word, and what is left of it without a point, and without a possessive or a contracted verb.

    >>> stems("king's"), stems("Mr.")
    (["king's", 'king'], ['Mr.', 'Mr'])
    """
    found = [word]
    # The point ends a sentence, or an abbreviation such as mr.
    for shorter in (word.removesuffix("."), _ENDING.sub("", word.removesuffix("."))):
        if shorter not in found:
            found.append(shorter)
    return found


def is_possessive(text: str, start: int, end: int) -> bool:
    """Whether *her* at this place is the possessive (*her car*), and not the object (*saw her*).

    >>> [is_possessive(text, 4, 7) for text in ("saw her car.", "saw her.", "saw her leave.", "saw her in town.")]
    [True, False, False, False]
    """
    pair_next, pair_last = _PAIR_NEXT.match(text, end), _PAIR_LAST.search(text, 0, start)
    if pair_next and pair_next[1].lower() in ("his", "him"):
        return pair_next[1].lower() == "his"
    if pair_last and pair_last[1].lower() in ("his", "him"):
        # "his or her car", but "that of his and her": the second has no noun after it.
        return pair_last[1].lower() == "his"
    if pair_last and "/" in pair_last[2]:
        return False  # she/her
    following = _NEXT.match(text, end)
    if following is None:
        return False
    word = _plain(following[1])
    after = _NEXT.match(text, following.end())
    after_word = _plain(after[1]) if after else ""
    last = _LAST.search(text, 0, start)
    before = _plain(last[1]) if last else ""
    if word in _AROUND["never after a possessive"]:
        return False
    goes_on = after_word != "" and after_word not in _AROUND["never after a possessive"]
    acts = word in _AROUND["bare verb"] or word in _AROUND["adverb"] or word.endswith(("ing", "ly"))
    if acts and before in _AROUND["see or let"]:
        return False  # "saw her leave", "made her very happy"
    if before in _AROUND["give"] and word not in _AROUND["given away"]:
        # "gave her two coins", but "gave her son a coin", "gave her seat to him"
        return after_word in _AROUND["after a receiver"] and word not in _AROUND["amount"] and not word.isdigit()
    if before in _AROUND["name"] and following[1][0].isupper():
        return False
    if word.endswith("ing") and after_word in _AROUND["before an object"]:
        return False  # "a picture of her holding a cat"
    if word in _AROUND["place"]:
        return before not in _AROUND["move"]  # "took her home", but "swept her home"
    if word in _AROUND["adverb"] or (word.endswith("ly") and word not in _AROUND["no adverb"]):
        return goes_on  # "her newly bought car", but "hugged her tightly."
    return True


def is_before_noun(text: str, start: int, end: int) -> bool:
    """Whether *his* at this place has its noun after it (*his car*), and is not a pronoun (*is his*).

    >>> is_before_noun("It is his car.", 6, 9), is_before_noun("It is his.", 6, 9), is_before_noun("his or hers", 0, 3)
    (True, False, False)
    """
    pair_next, pair_last = _PAIR_NEXT.match(text, end), _PAIR_LAST.search(text, 0, start)
    for pair in (pair_next, pair_last):
        if pair and pair[1].lower() in ("her", "hers"):
            return pair[1].lower() == "her"
    if pair_last and "/" in pair_last[2]:
        return False  # he/him/his
    following = _NEXT.match(text, end)
    if following is None:
        return False
    word = _plain(following[1])
    return word not in _AROUND["never after a possessive"] or word in _AROUND["also before an adjective"]


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")


def _like(word: str, other: str) -> str:
    """A word with the capitals of another.

    >>> _like("He", "she"), _like("HE", "she"), _like("he", "she")
    ('She', 'SHE', 'she')
    """
    if len(word) > 1 and word.isupper():
        return other.upper()
    if word[:1].isupper():
        return other[:1].upper() + other[1:]
    return other
