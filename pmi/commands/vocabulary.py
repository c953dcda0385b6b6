"""``probes pmi vocabulary``: the gender-neutral English words of a table, and samples of them."""

from collections.abc import Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import typer
from rich.table import Table

from cards.terminal import show, terminal, text_table
from pmi import vocabulary, wordnet
from pmi.analysis.lookup import TABLE_HELP, delta_table, read_counts
from pmi.files import WRITABLE, read_rows, text_column, write_rows
from pmi.types import PAIRS_HELP, PAIRS_METAVAR, SHE_HE, FloatArray, IntArray, parse_pairs
from pmi.vocabulary import CONFIDENCE, SEEDS, EnglishTest, VocabularyError, WordPool, sample_words

_TESTS = ("fasttext", "wordnet")


def main(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=f"Write all words that pass: {WRITABLE}.")] = None,
    sample: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write samples of them, each word with the seed of its sample.")
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Words per sample.")] = 100,
    seeds: Annotated[str, typer.Option(metavar="N,N", help="Seeds; one sample each.")] = ",".join(map(str, SEEDS)),
    english: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Tests of English, fasttext and wordnet, of which a word must pass one; or none."
        ),
    ] = ",".join(_TESTS),
    confidence: Annotated[float, typer.Option(min=0, max=1, help="fastText's confidence must exceed it.")] = CONFIDENCE,
    model: Annotated[Path | None, typer.Option(help="Another fastText model, such as lid.176.bin.")] = None,
    wordnet_folder: Annotated[
        Path | None, typer.Option("--wordnet", metavar="FOLDER", help="WordNet's folder; gender-pmi needs none.")
    ] = None,
    quantile: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out this share of English words, the least frequent.")
    ] = 0.2,
    floor: Annotated[
        float | None, typer.Option(metavar="COUNT", help="Leave out words up to this count, instead of a share.")
    ] = None,
    width: Annotated[float, typer.Option(min=0, help="The largest |δ|.")] = vocabulary.NEUTRAL_DELTA,
    pairs: Annotated[str | None, typer.Option(metavar=PAIRS_METAVAR, help=PAIRS_HELP)] = None,
    profile: Annotated[
        Literal["clean", "paper"],
        typer.Option(help="paper: ASCII words and the count of UnStereoEval's quantile, for its table of δ."),
    ] = "clean",
    drawn: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Published samples, one file a seed: fit the pool to them. May be repeated."),
    ] = None,
    pool_size: Annotated[int, typer.Option(min=1, help="Words in the pool of --drawn.")] = vocabulary.PUBLISHED_SIZE,
) -> None:
    """List English words that are frequent and gender-neutral, and draw random samples of them.

    With a table of δ, the share of infrequent words refers to the words that have a δ, because such a table
    has no others; with a table of counts it refers to all words.
    """
    console = terminal()
    # Wrong values come before what a machine lacks.
    test_names = _test_names(english)
    chosen_seeds = _parse_seeds(seeds)
    words, counts, values = _columns(table, pairs)
    tests = english_tests(test_names, words, confidence, model, wordnet_folder)
    if profile == "paper":
        # As the draw of UnStereoEval did; its quantile was that of all words, so the count is given.
        ascii_only = np.array([word.isascii() for word in words], dtype=np.bool_)
        words, counts, values = list(compress(words, ascii_only)), counts[ascii_only], values[ascii_only]
        floor = vocabulary.PUBLISHED_FLOOR if floor is None else floor
    choose = partial(vocabulary.neutral_words, words, counts, values, quantile=quantile, max_delta=width)
    pool = choose(tests, min_count=floor)
    if drawn:
        given = [text_column(read_rows(path), "word", path) for path in drawn]
        names, members = choose([], min_count=pool.min_count).words, set(pool.words)
        anchors = vocabulary.anchors(names, given, chosen_seeds, pool_size)
        gaps = anchors.differences(np.array([word in members for word in names], dtype=np.bool_))
        exact = int((gaps == 0).sum())
        show(console, [f"Gaps between sampled words that have the published number of words: {exact} of {len(gaps)}."])
        # Each gap is filled with words that pass a sure test, then with the most probable ones of English.
        score = np.zeros(len(names))
        for name, test in zip(test_names, tests, strict=True):
            if name != "fasttext":
                score[test(names)] = 1
        n_sure, others = int(score.sum()), np.flatnonzero(score == 0)
        score[others] = vocabulary.english_probabilities([names[row] for row in others], model)
        fitted = tuple(compress(names, anchors.fitted(score)))
        equal = len(members & set(fitted))
        show(console, [f"Fitted pool: {len(fitted):,} words, {equal:,} of the {len(members):,} that pass."])
        show(console, [f"Of its words {len(fitted) - n_sure:,} are chosen by the probability of English alone."])
        pool = WordPool(fitted, pool.n_after | {"fitted": len(fitted)}, pool.min_count)
        again = sample_words(pool.words, chosen_seeds, len(given[0]))
        equal = sum(a == b for one, two in zip(again, given, strict=True) for a, b in zip(one, two, strict=True))
        show(console, [f"Sampled words that are equal to those of --drawn: {equal:,} of {sum(map(len, given)):,}."])
    console.print(filter_table(pool))
    if out:
        write_rows(_pool_rows(pool, words, counts, values), out)
        show(console, [f"Words in {out}: {len(pool.words):,}."])
    if sample:
        samples = dict(zip(chosen_seeds, sample_words(pool.words, chosen_seeds, size), strict=True))
        sampled = [word for words in samples.values() for word in words]
        seed_column = [seed for seed, words in samples.items() for _ in words]
        write_rows(pa.table({"word": sampled, "seed": seed_column}), sample)
        show(console, [f"Sampled words in {sample}: {len(sampled):,}, {len(set(sampled)):,} of them different."])


def english_tests(
    names: Sequence[str], words: Sequence[str], confidence: float, model: Path | None, folder: Path | None
) -> list[EnglishTest]:
    """The named tests of English for the words of a table, in the order of the names.

    Raises
    ------
    PmiError
        When a test cannot be used on this machine.
    """
    tests = []
    for name in names:
        if name == "fasttext":
            tests.append(vocabulary.fasttext_test(confidence, model))
        else:
            tests.append(vocabulary.dictionary_test(wordnet.dictionary(words, folder)))
    return tests


def _test_names(names: str) -> list[str]:
    """The tests that a comma-separated list names, in its order; none for ``none``."""
    chosen = [] if names == "none" else [name.strip() for name in names.split(",") if name.strip()]
    if not set(chosen) <= set(_TESTS) or (not chosen and names != "none"):
        raise VocabularyError(f"{names!r} is not a test of English; give {' or '.join(_TESTS)} or both, or none.")
    return chosen


def _parse_seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise VocabularyError(f"The seeds are {text!r}; give whole numbers such as 9123,19223.") from None


def _columns(source: str, pairs: str | None) -> tuple[Sequence[str], IntArray, FloatArray]:
    """Words, counts and δ: of every word of a table of counts, else of the words that have a δ."""
    chosen_pairs = None if pairs is None else parse_pairs(pairs)
    if counts := read_counts(source):
        return counts.words, counts.word_counts, counts.delta_values(chosen_pairs or SHE_HE)
    table = delta_table(source, chosen_pairs)
    return tuple(table.delta), table.counts, np.array(list(table.delta.values()))


def _pool_rows(pool: WordPool, words: Sequence[str], counts: IntArray, values: FloatArray) -> pa.Table:
    index = {word: i for i, word in enumerate(words)}
    rows = [index[word] for word in pool.words]
    return pa.table({"word": pa.array(pool.words, pa.string()), "count": counts[rows], "delta": values[rows]})


def filter_table(pool: WordPool) -> Table:
    """How many words each filter left."""
    rows, before = [], next(iter(pool.n_after.values()))
    for name, left in pool.n_after.items():
        label = f"{name} (more than {pool.min_count:g} times)" if name == "frequent" else name
        rows.append((label, f"{left:,}", f"{left / before:.1%}" if before else "–"))
        before = left
    columns = ("", "words", "of those before")
    return text_table(columns, rows, "Words that pass", numbers=columns)
