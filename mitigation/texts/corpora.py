"""Text that recipes learn from: sentences of files, and the fingerprint by which a changed file is noticed.

A corpus is a file, a folder, a glob or an address that fsspec knows, such as ``hf://datasets/ORG/NAME/FILE``;
several are separated by commas. Plain text, JSON lines and Parquet are read, compressed or not, by the reader
of :mod:`pmi`.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from builders.files.manifest import file_sha256
from mitigation.errors import MitigationError
from pmi.counting.corpus import CorpusError, Shard, shards
from pmi.counting.reading import RECORD_END, read

#: What the names of corpora begin with among the data of an adapter, and those of texts and lists of this project.
CORPUS, OWN = "corpus:", "project:"
#: The text without ``--corpus``: 300 sentences that were written for this project, as many about men as about women.
SENTENCES = Path(__file__).parents[1] / "data" / "sentences.txt"
#: 320 sentences of this project about 16 occupations of men and 16 of women, in which nothing states a gender.
JOBS = SENTENCES.with_name("jobs.txt")
#: 100 sentences of many kinds of text, written for this project, in which no person is named: what an edit keeps.
WITHOUT_PEOPLE = SENTENCES.with_name("without_people.txt")


def files(corpus: str, own: Path = SENTENCES) -> list[Shard]:
    """The files of a corpus; without one, sentences of this project.

    Raises
    ------
    MitigationError
        If one cannot be found, or its name does not say how it is read.
    """
    try:
        return shards(_names(corpus) or [own])
    except CorpusError as error:
        raise MitigationError(str(error).replace(", or give the format", "")) from None


def _names(corpus: str) -> list[str]:
    """The files of a corpus, with commas between them; a name may have spaces in it."""
    return [name.strip() for name in corpus.split(",") if name.strip()]


def fingerprints(corpus: str, own: Path = SENTENCES) -> dict[str, str]:
    """Name to fingerprint of the files of a corpus; a changed file has another fingerprint.

    That of a local file is its SHA-256; that of a remote one depends on what its server says of its version.
    """
    fingerprints: dict[str, str] = {}
    for shard in files(corpus, own):
        name = f"{CORPUS if _names(corpus) else OWN}{PurePosixPath(shard.address).name}"
        before = fingerprints.get(name, "")  # two folders may have files of the same name
        remote = "://" in shard.address
        digest = shard.digest() if remote else _digest_of(shard.address, shard.size, shard.version)
        fingerprints[name] = hashlib.sha256((before + digest).encode()).hexdigest() if before else digest
    return fingerprints


@cache
def _digest_of(path: str, size: int, version: str) -> str:
    """SHA-256 of a file; it is read again when its size or time of change is another."""
    del size, version
    return file_sha256(Path(path))


def paragraphs(corpus: str, field: str = "text", own: Path = SENTENCES) -> Iterator[str]:
    """The lines with text of a corpus, in the order of its files.

    Raises
    ------
    MitigationError
        If a file cannot be read, wholly or in part.
    """

    def refuse(fault: str) -> None:
        raise MitigationError(f"{fault.rstrip('.')}; mend the corpus, because results would depend on the fault.")

    for shard in files(corpus, own):
        rest = b""
        try:
            for block in read(shard, field, refuse, lambda _: None):
                # A block may end inside a line, whose beginning waits for the next block.
                *lines, rest = (rest + block).replace(RECORD_END, b"\n").split(b"\n")
                yield from _texts(lines)
        except CorpusError as error:
            raise MitigationError(str(error)) from None
        yield from _texts([rest])


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        if text := line.decode("utf-8", errors="replace").strip():
            yield text


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph, by NLTK's Punkt without its list of abbreviations, which is a download.

    >>> sentences("She left. He stayed at home.")
    ['She left.', 'He stayed at home.']
    """
    return list(_splitter().tokenize(text))


@cache
def _splitter() -> Any:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    return PunktSentenceTokenizer()
