"""``python -m pmi vocabulary``: the neutral English words of a table, and samples of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from pmi import wordnet
from pmi.analysis.analyse import Floats, delta
from pmi.analysis.lookup import delta_table, read_counts
from pmi.analysis.pairs import parse
from pmi.files import write_rows
from pmi.types import SHE_HE
from pmi.vocabulary import (
    CONFIDENCE,
    SEEDS,
    WIDTH,
    Check,
    Pool,
    VocabularyError,
    by_dictionary,
    by_language,
    draw,
    pool,
)

_TESTS = ("fasttext", "wordnet")


def main(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="Counts, a table of δ, the folder of the data set gender-pmi, or its name on the Hub."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all words that pass: .parquet, .csv, .tsv or .jsonl.")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the drawn words with the seed of their sample.")
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Words of a sample.")] = 100,
    seeds: Annotated[str, typer.Option(metavar="N,N", help="A sample for each.")] = ",".join(map(str, SEEDS)),
    english: Annotated[
        str, typer.Option(metavar="A,B", help="Tests of which a word must pass one: fasttext, wordnet; or none.")
    ] = ",".join(_TESTS),
    confidence: Annotated[float, typer.Option(min=0, max=1, help="What fastText's must exceed.")] = CONFIDENCE,
    model: Annotated[Path | None, typer.Option(help="Another fastText model, such as lid.176.bin.")] = None,
    wordnet_folder: Annotated[
        Path | None, typer.Option("--wordnet", metavar="FOLDER", help="Where the files of WordNet are.")
    ] = None,
    quantile: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out this share of English words, the rarest.")
    ] = 0.2,
    floor: Annotated[
        float | None, typer.Option(metavar="COUNT", help="Leave out words up to this count, instead of a share.")
    ] = None,
    width: Annotated[float, typer.Option(min=0, help="The largest |δ|.")] = WIDTH,
    pairs: Annotated[
        str | None,
        typer.Option(metavar="A:B,C:D=W", help="What δ compares, where TABLE holds counts; she:he by default."),
    ] = None,
) -> None:
    """List English words that are not rare and lean to neither gender, and draw samples of them.

    A table of δ knows only the words that have one, so the share of rare words is one of those; a table
    of counts knows all.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    checks = chosen(english, confidence, model, wordnet_folder)
    words, counts, values = _words(table, pairs)
    found = pool(words, counts, values, checks, quantile=quantile, floor=floor, width=width)
    console.print(funnel(found))
    if out:
        write_rows(_kept(found, words, counts, values), out)
        console.print(f"Words in {out}: {len(found.words):,}.", markup=False, highlight=False, soft_wrap=True)
    if sample:
        drawn = draw(found.words, _numbers(seeds), size)
        rows = [(word, seed) for seed, words in zip(_numbers(seeds), drawn, strict=True) for word in words]
        write_rows(pa.table({"word": [word for word, _ in rows], "seed": [seed for _, seed in rows]}), sample)
        told = f"Drawn words in {sample}: {len(rows):,}, {len({word for word, _ in rows}):,} of them different."
        console.print(told, markup=False, highlight=False, soft_wrap=True)


def chosen(names: str, confidence: float, model: Path | None, folder: Path | None) -> list[Check]:
    """The tests of a list with commas, in its order; none for ``none``.

    Raises
    ------
    PmiError
        For a test that there is not, and when what one needs is missing.
    """
    wanted = [] if names == "none" else [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in _TESTS]
    if unknown or (not wanted and names != "none"):
        raise VocabularyError(f"{names!r} names no test of English; give {' or '.join(_TESTS)} or both, or none.")
    makers = {
        "fasttext": lambda: by_language(confidence, model),
        "wordnet": lambda: by_dictionary(wordnet.load(folder)),
    }
    return [makers[name]() for name in wanted]


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise VocabularyError(f"The seeds are {text!r}; give whole numbers such as 9123,19223.") from None


def _words(source: str, pairs: str | None) -> tuple[Sequence[str], npt.NDArray[np.int64], Floats]:
    """Words, counts and δ; of a table of counts every word, elsewhere those that have a δ."""
    wanted = None if pairs is None else parse(pairs)
    if counts := read_counts(source):
        return counts.words, counts.count, delta(counts, SHE_HE if wanted is None else wanted)
    known = delta_table(source, wanted)
    return tuple(known.delta), known.counts, np.fromiter(known.delta.values(), np.float64, len(known.delta))


def _kept(found: Pool, words: Sequence[str], counts: npt.NDArray[np.int64], values: Floats) -> pa.Table:
    at = {word: place for place, word in enumerate(words)}
    rows = [at[word] for word in found.words]
    return pa.table({"word": pa.array(found.words, pa.string()), "count": counts[rows], "delta": values[rows]})


def funnel(found: Pool) -> Table:
    """How many words each filter left."""
    table = Table("", "words", "of those before", title="Words that pass")
    for column in table.columns[1:]:
        column.justify = "right"
    before = next(iter(found.steps.values()))
    for name, left in found.steps.items():
        shown = f"{name} (more than {found.floor:g} times)" if name == "frequent" else name
        table.add_row(shown, f"{left:,}", f"{left / before:.1%}" if before else "–")
        before = left
    return table
