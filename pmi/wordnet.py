"""Tests whether WordNet has a word, from the files of the WordNet database alone.

WordNet has a word when one of its base forms is a lemma: it has *surrenders*, because of *surrender*.
Base forms are found as in WordNet's own morphological processor (morphy(7WN)): a list of exceptions for
each part of speech, and rules that replace endings, applied repeatedly.

Which words of the data set gender-pmi WordNet 3.0 has is a file of this package, so its vocabulary needs no WordNet
on the machine. ``python -m tools.wordnet_words`` makes that file.
"""

import base64
import hashlib
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from pmi.types import PmiError

#: Which words of the data set gender-pmi WordNet has: one bit for each word, in the order of code points.
INCLUDED = Path(__file__).parent / "data" / "wordnet-gender-pmi.json"

#: By part of speech: endings with their replacements.
_ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}


class WordNetError(PmiError):
    """WordNet cannot be read."""


@dataclass(frozen=True, slots=True)
class _PartOfSpeech:
    """Lemmas and irregular forms of one part of speech."""

    lemmas: frozenset[str]
    exceptions: dict[str, list[str]]
    endings: tuple[tuple[str, str], ...]

    def has(self, word: str) -> bool:
        """Whether the word or one of its base forms is a lemma."""
        if word in self.exceptions:  # an irregular form has no regular one
            return word in self.lemmas or not self.lemmas.isdisjoint(self.exceptions[word])
        forms = {word}
        while forms and self.lemmas.isdisjoint(forms):
            shorter = set()
            # All rules are applied to all forms, and then again to what they give.
            for form in forms:
                for old, new in self.endings:
                    if form.endswith(old):
                        shorter.add(form[: -len(old)] + new)
            forms = shorter
        return bool(forms)


@dataclass(frozen=True, slots=True)
class WordNet:
    """The words of a WordNet database: ``word in wordnet`` for a word in lower case."""

    parts: tuple[_PartOfSpeech, ...]

    def __contains__(self, word: object) -> bool:
        if not isinstance(word, str):
            return False
        return any(part.has(word) for part in self.parts)


def dictionary(words: Sequence[str], folder: Path | None = None) -> Container[str]:
    """The words that WordNet has, for the words of one table.

    For the words of the data set gender-pmi this is read from a file of this package, unless a folder is named. So
    the answer does not depend on the machine. For other words WordNet itself is read.

    Raises
    ------
    WordNetError
        When the words are those of another table, and WordNet is not found.
    """
    if folder is None:
        facts = json.loads(INCLUDED.read_text("utf-8"))
        if words_digest(words) == facts["words_sha256"]:
            return _with_bits(words, facts["bits"])
    return load(folder)


def words_digest(words: Sequence[str]) -> str:
    """The SHA-256 of a set of words, as hexadecimal digits; their order has no effect.

    >>> words_digest(["oak", "elm"]) == words_digest(["elm", "oak"])
    True
    """
    return hashlib.sha256("\n".join(sorted(words)).encode("utf-8", "surrogatepass")).hexdigest()


def packed_bits(words: Sequence[str], known: Container[str]) -> str:
    """One bit for each word in the order of code points, 1 for a known one; compressed, as text.

    >>> sorted(_with_bits(["oak", "elm", "ash"], packed_bits(["oak", "elm", "ash"], {"elm", "ash"})))
    ['ash', 'elm']
    """
    # In the order of code points, so that the bits do not depend on the order of the words.
    bits = np.array([word in known for word in sorted(words)], dtype=np.bool_)
    return base64.b64encode(zlib.compress(np.packbits(bits).tobytes(), level=9)).decode("ascii")


def _with_bits(words: Sequence[str], text: str) -> frozenset[str]:
    """The words whose bit is 1."""
    data = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    bits = np.unpackbits(data, count=len(words))
    return frozenset(word for word, bit in zip(sorted(words), bits, strict=True) if bit)


def load(folder: Path | None = None) -> WordNet:
    """WordNet from a folder, or from the usual places.

    These are ``$WNSEARCHDIR``, ``$WNHOME/dict``, ``/usr/share/wordnet`` (Debian's package
    wordnet-base) and the folders that NLTK downloads to, where it may be a zip file.

    Raises
    ------
    WordNetError
        When WordNet is not found.
    """
    for place in [folder] if folder else _places():
        opened: Traversable = place
        # NLTK reads its packages from the zip files that it downloads, so they may never be unpacked.
        if place.suffix == ".zip" and place.is_file():
            opened = zipfile.Path(place, "wordnet/")
        if opened.joinpath("index.noun").is_file():
            parts = [_part_of_speech(opened, name) for name in _ENDINGS]
            return WordNet(tuple(parts))
    if folder:
        where = f"{folder} has no WordNet files (index.noun …)"
    else:
        where = "WordNet was not found on this machine, and only the words of gender-pmi are known without it"
    raise WordNetError(
        f"{where}; install it with 'apt install wordnet-base' or nltk.download('wordnet'), name its folder, "
        "or leave this test out (--english fasttext), which lets fewer words pass."
    )


def _places() -> Iterator[Path]:
    """Where WordNet may be: first the folders of its environment variables."""
    if "WNSEARCHDIR" in os.environ:
        yield Path(os.environ["WNSEARCHDIR"])
    if "WNHOME" in os.environ:
        yield Path(os.environ["WNHOME"]) / "dict"
    yield Path("/usr/share/wordnet")
    folders = []
    for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep):
        if folder:
            folders.append(Path(folder))
    # Where NLTK puts and looks for its data by default.
    for root in (Path.home(), sys.prefix, "/usr/share", "/usr/local/share"):
        folders.append(Path(root) / "nltk_data")
    for data in folders:
        yield data / "corpora" / "wordnet"
        yield data / "corpora" / "wordnet.zip"


def _part_of_speech(folder: Traversable, name: str) -> _PartOfSpeech:
    # An index begins with its licence, in lines that start with a space.
    index = folder.joinpath(f"index.{name}").read_text("utf-8").splitlines()
    exceptions = folder.joinpath(f"{name}.exc").read_text("utf-8").splitlines()
    lemmas = frozenset(line.split(" ", 1)[0] for line in index if not line.startswith(" "))
    bases_of_form = {}
    for line in exceptions:
        # An irregular form, then its base forms.
        fields = line.split()
        if fields:
            bases_of_form[fields[0]] = fields[1:]
    endings = []
    for pair in _ENDINGS[name].split():
        old, _, new = pair.partition(":")
        endings.append((old, new))
    return _PartOfSpeech(lemmas, bases_of_form, tuple(endings))
