"""The word lists of the association tests about groups of people: WEAT, and the additions of SEAT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from builders.dataset import Files, Origin, Row, Rows, content_id
from builders.embedded import PROJECT, table
from builders.parsers import read
from builders.parsers.triplets import filled

#: The name of the file of the word lists of SEAT and of Meade et al. in the rows, which is that of version 1.0.0.
RECORDED_FILE = "builders/weat.py"

#: Tests on social groups, by domain. The other tests are about flowers, instruments, diseases and age.
RACE = ("3", "3b", "4", "5", "5b")
GENDER = ("6", "6b", "7", "7b", "8", "8b")


@dataclass(frozen=True, slots=True)
class WordGroup:
    """Words for one social group in one test.

    ``biased`` has the words that the test expects to be associated with the group, ``unbiased`` the words of the
    other list in the same order. ``origins`` has the origin of each of the ``words``.
    """

    test: str
    domain: str
    name: str
    words: tuple[str, ...]
    biased: tuple[str, ...]
    unbiased: tuple[str, ...]
    origins: tuple[Origin, ...]


def groups(files: Files) -> Iterator[WordGroup]:
    """The groups of the race, gender and religion tests; ``files`` has the sources ``weat/…`` of the first two."""
    for domain, tests in (("race", RACE), ("gender", GENDER)):
        for test in tests:
            yield from _published(files, test, domain)
    yield from _double_bind(files)
    yield from _religion()


def _lists(files: Files, test: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    document = read.json_document(files[f"weat/{test}"].path)
    return {key: (entry["category"], tuple(entry["examples"])) for key, entry in document.items()}


def _published(files: Files, test: str, domain: str) -> Iterator[WordGroup]:
    """The groups of a published test: its targets or, in tests 7 and 8, its attributes."""
    lists = _lists(files, test)
    people, things = ("attr", "targ") if test[0] in "78" else ("targ", "attr")
    origins = map(files[f"weat/{test}"].origin, count())
    for own, other in ((1, 2), (2, 1)):
        name, words = lists[f"{people}{own}"]
        expected, contrasted = lists[f"{things}{own}"][1], lists[f"{things}{other}"][1]
        yield WordGroup(test, domain, name, words, expected, contrasted, tuple(islice(origins, len(words))))


def _embedded() -> Iterator[Origin]:
    return (Origin(PROJECT, RECORDED_FILE, row) for row in count())


def _double_bind(files: Files) -> Iterator[WordGroup]:
    names = _lists(files, "6")
    origins = _embedded()
    for test, lists in table("seat")["double_bind"].items():
        expected = [tuple(words.split()) for words in lists]
        for key, (own, other) in (("targ1", expected), ("targ2", expected[::-1])):
            name, words = names[key]
            yield WordGroup(test, "gender", name, words, own, other, tuple(islice(origins, len(words))))


def _religion() -> Iterator[WordGroup]:
    religion = table("seat")["religion"]
    good, bad = (tuple(religion[name].split()) for name in ("good", "bad"))
    origins = _embedded()
    for name, terms in religion["groups"].items():
        words = tuple(terms.split(", "))
        own, other = (good, bad) if name == "ChristianityTerms" else (bad, good)
        yield WordGroup("religion", "religion", name, words, own, other, tuple(islice(origins, len(words))))


def rows(pattern: str, files: Files) -> Rows:
    """Rows for each word of a group with each pair of contrasted words; ``{}`` in the pattern stands for the word."""
    for group in groups(files):
        for word, origin in zip(group.words, group.origins, strict=True):
            for biased, unbiased in zip(group.biased, group.unbiased, strict=True):
                values = {
                    "domain": group.domain,
                    "test": group.test,
                    "group": group.name,
                    "subject": word,
                    **filled(pattern.replace("{}", word), biased, unbiased),
                }
                yield Row("test", content_id("weat", group.test, word, biased, unbiased), origin, values)
