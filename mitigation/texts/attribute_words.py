"""Words that name a group of people, in pairs or triples, and sentences with another word of a group.

The published list is that of bias-bench (Meade et al., 2022): 57 pairs for gender, 6 triples each for race and
religion. It is fetched from its pinned address, and not part of this project. The project has a list of its own for
gender, in ``data/words.json``. A JSON file of the user's own has the same form, ``{"gender": [["he", "she"], …]}``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from builders.dataset import Fetched
from builders.files.manifest import file_sha256
from builders.sources.catalogue import catalogue
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
