"""Words that name a group of people, in pairs or triples, and sentences in which one group takes another's place.

The published list is that of bias-bench (Meade et al., 2022): 57 pairs for gender, 6 triples each for race and
religion. It is fetched from its pinned address, and not part of this project. The project has a list of its own for
gender, in ``data/words.json``. A JSON file of the user's own has the same form, ``{"gender": [["he", "she"], …]}``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from builders.dataset import Fetched
from builders.files.manifest import file_sha256
from builders.sources.catalogue import catalogue
from builders.text.words import GENDERED_PRONOUNS
from cards.common.stored import first_fault
from mitigation.errors import MitigationError
from mitigation.texts.corpora import OWN

#: What the names of pinned sources begin with among the data of an adapter.
SOURCE = "source:"
PUBLISHED, PROJECT = "bias-bench", "project"
_WORDS = "bias-bench/attribute-words"
_FOLDER = Path(__file__).parents[1] / "data"
_LISTS = TypeAdapter(dict[str, list[list[str]]])


@dataclass(frozen=True, slots=True)
class AttributeWords:
    """Groups of words that take each other's place: pairs (male, female) or triples.

    ``version`` is the SHA-256 of the file they are from, ``name`` its name among the data of an adapter.
    """

    groups: tuple[tuple[str, ...], ...]
    name: str
    version: str

    @property
    def all(self) -> frozenset[str]:
        """Every word."""
        return frozenset(word for group in self.groups for word in group)

    def side(self, number: int) -> frozenset[str]:
        """The words at one position of the groups: of pairs, 0 is male and 1 female."""
        return frozenset(group[number] for group in self.groups)


def fetched_source(name: str) -> Fetched:
    """The verified files of a pinned source.

    Raises
    ------
    SourceUnavailable
        If they cannot be fetched.
    """
    # A recipe is listed without the packages that fetch files.
    from builders.sources.fetch import Fetcher, default_cache, default_mirror

    return Fetcher(default_cache(), default_mirror()).get(catalogue().sources[name])


def attribute_words(source: str, domain: str) -> AttributeWords:
    """The words of a domain.

    Parameters
    ----------
    source:
        ``bias-bench`` for the published list, ``project`` for the one of this project, or a JSON file.
    domain:
        gender, race or religion; another name if the file has it.

    Raises
    ------
    MitigationError
        If the file is not such a list, or has no such domain.
    SourceUnavailable
        If the published list cannot be fetched.
    """
    if source == PUBLISHED:
        name, path = f"{SOURCE}{_WORDS}", fetched_source(_WORDS).path
    elif source == PROJECT:
        name, path = f"{OWN}words.json", _FOLDER / "words.json"
    else:
        name, path = f"words:{Path(source).name}", Path(source)
    try:
        lists = _LISTS.validate_json(path.read_bytes())
    except OSError as error:
        raise MitigationError(
            f"{path} cannot be read ({error.strerror}); give {PUBLISHED}, {PROJECT} or a JSON file with lists of words."
        ) from None
    except ValidationError as error:
        raise MitigationError(
            f'{path} has no lists of words ({first_fault(error)}); give {{"gender": [["he", "she"], …]}}.'
        ) from None
    groups = tuple(tuple(group) for group in lists.get(domain, ()))
    if not groups or len({len(group) for group in groups}) != 1 or len(groups[0]) < 2:
        raise MitigationError(
            f"{path} has {len(groups)} groups of words for {domain!r}; give groups of equal size, at least pairs, and "
            f"a domain among {', '.join(lists)}."
        )
    return AttributeWords(groups, name, file_sha256(path))


def replaced(sentence: str, words: AttributeWords) -> Iterator[tuple[str, ...]]:
    """For each word of the list in a sentence, the sentence with each word of its group in that place.

    A word is the text between two spaces, as in bias-bench. A sentence with words of two groups gives two tuples.

    >>> pair = AttributeWords((("he", "she"),), "", "")
    >>> list(replaced("then he said he left", pair))
    [('then he said he left', 'then she said she left')]
    """
    parts = sentence.split(" ")
    present = set(parts)
    for group in words.groups:
        for word in group:
            if word in present:
                variants = []
                for other in group:
                    variants.append(" ".join(other if part == word else part for part in parts))
                yield tuple(variants)


#: A word with the apostrophes and points inside it, and a point after it.
WORD = re.compile(r"\w+(?:['.]\w+)*\.?")
#: The word that follows after a single space.
_NEXT = re.compile(r" ([^\W\d_]+)")
#: What comes before a family name: a title, or initials.
_TITLE = re.compile(r"\b(?:(?:Mrs?|Ms|Miss|Messrs|Dr|Prof|Professor|Doctor|Captain|Capt|Rev)\.?|[A-Z]\.) $")
#: Before these *her* is an object, because none of them comes between a possessive and its noun.
_NO_NOUN = frozenset((_FOLDER / "no_noun.txt").read_text(encoding="utf-8").split())


class Swapper:
    """Puts the words of one group of people in place of another's, all at the same time.

    Capitals are kept. A word of several groups becomes its partner in the first of them, except that *her* before
    a word that may be a noun or belong to one becomes its partner in the last: *his* in the published list, and *him*
    elsewhere, also before words that no possessive stands before (*her and*, *her to*, *her the*). A capitalised word
    after a title is a name and stays (*Mrs. King*). ``names`` are pairs of first names, which are replaced only where
    they are written like this, also before an apostrophe.

    >>> pairs = AttributeWords((("he", "she"), ("mr.", "mrs."), ("him", "her"), ("his", "her")), "", "")
    >>> Swapper(pairs).swap("He met Mrs. Hall and her son, and told HER.")
    'She met Mr. Hall and his son, and told HIM.'
    >>> Swapper(pairs).swap("They hugged her and him, and gave her the keys to her old car.")
    'They hugged him and her, and gave him the keys to his old car.'
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
            word = match.group()
            name = re.split(r"['.]", word, maxsplit=1)[0]
            if name in self._names:
                return self._names[name] + word[len(name) :]
            stem = word
            if word.lower() not in self._partners:
                stem = word.removesuffix(".")  # the point ends a sentence, or an abbreviation such as mr.
            partners = self._partners.get(stem.lower())
            if partners is None:
                return word
            if word[0].isupper() and stem.lower() not in GENDERED_PRONOUNS and _TITLE.search(text, 0, match.start()):
                return word
            group = partners[0]
            after = _NEXT.match(text, match.end())
            if stem.lower() == "her" and after and after[1].lower() not in _NO_NOUN:
                group = partners[-1]  # the list has "him, her" before "his, her"
            return _like(stem, group[turn % len(group)]) + word[len(stem) :]

        return WORD.sub(other, text)


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


def name_pairs(file: str) -> AttributeWords:
    """Pairs of first names that take each other's place, from a JSON file ``{"names": [["John", "Mary"], …]}``.

    Raises
    ------
    MitigationError
        If the file is not such a list, or its groups are no pairs.
    """
    words = attribute_words(file, "names")
    if len(words.groups[0]) != 2:
        raise MitigationError(f"{file} has groups of {len(words.groups[0])} names; give pairs.")
    return replace(words, name=f"names:{Path(file).name}")
