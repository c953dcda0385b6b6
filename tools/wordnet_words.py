"""Writes which words of the data set gender-pmi WordNet has: ``python -m tools.wordnet_words FOLDER``.

FOLDER is the built data set. WordNet is read from Debian's package wordnet-base, whose version is recorded, or from
another folder that is named with ``--wordnet``.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from cards.common.files import put
from pmi.analysis.lookup import delta_table
from pmi.wordnet import INCLUDED, WordNet, load, packed_bits, words_digest

PACKAGE = "wordnet-base"


def facts(words: list[str], dictionary: WordNet, source: str) -> dict[str, str | int]:
    """What the file states: the words by their digest, WordNet by its source, and a bit for each word."""
    return {
        "content": "One bit for each word of the data set gender-pmi, in the order of code points: 1 where WordNet has "
        "the word or a base form of it. The bits are bytes, compressed with zlib, as base64.",
        "wordnet": source,
        "copyright": "WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved.",
        "licence": "https://wordnet.princeton.edu/license-and-commercial-use",
        "words": len(words),
        "words_sha256": words_digest(words),
        "words_in_wordnet": sum(word in dictionary for word in words),
        "bits": packed_bits(words, dictionary),
    }


def main(
    folder: Path,
    wordnet: Annotated[Path, typer.Option(help="The folder of the WordNet files.")] = Path("/usr/share/wordnet"),
    source: Annotated[str, typer.Option(help="What the file says of the source of WordNet.")] = "",
    out: Path = INCLUDED,
) -> None:
    """Writes the file of the words that WordNet has."""
    if not source:
        query = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
        version = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        source = f"WordNet 3.0, Debian package {PACKAGE} {version}"
    words = list(delta_table(folder).delta)
    text = json.dumps(facts(words, load(wordnet), source), ensure_ascii=False, indent=1)
    put(out, f"{text}\n".encode())


if __name__ == "__main__":
    typer.run(main)
