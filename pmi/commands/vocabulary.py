"""``probes pmi vocabulary``: the gender-neutral English words of a table, and samples of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from cards.common.terminal import show, terminal, text_table
from pmi import vocabulary, wordnet
from pmi.analysis.lookup import TABLE_HELP, delta_table, read_counts
from pmi.files import WRITABLE, read_rows, text_column, write_rows
from pmi.types import PAIRS_HELP, PAIRS_METAVAR, SHE_HE, FloatArray, IntArray, parse_pairs

_TESTS = ("fasttext", "wordnet")


def main(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=f"Write all words that pass: {WRITABLE}.")] = None,
    sample: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write samples of them, each word with the seed of its sample.")
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Words per sample.")] = 100,
    seeds: Annotated[str, typer.Option(metavar="N,N", help="Seeds; one sample each.")] = ",".join(
        map(str, vocabulary.SEEDS)
    ),
    english: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Tests of English, fasttext and wordnet, of which a word must pass one; or none."
        ),
    ] = ",".join(_TESTS),
    confidence: Annotated[
        float, typer.Option(min=0, max=1, help="fastText's confidence must exceed it.")
    ] = vocabulary.CONFIDENCE,
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
        rows = [row for row, word in enumerate(words) if word.isascii()]
        words = [words[row] for row in rows]
        counts = counts[rows]
        values = values[rows]
        if floor is None:
            floor = vocabulary.PUBLISHED_FLOOR

    def choose(english: Sequence[vocabulary.EnglishTest], min_count: float | None) -> vocabulary.WordPool:
        return vocabulary.neutral_words(
            words, counts, values, english, quantile=quantile, min_count=min_count, max_delta=width
        )

    pool = choose(tests, floor)
    if drawn:
        samples = [text_column(read_rows(path), "word", path) for path in drawn]
        # Only a test of a dictionary is sure; fastText gives a probability.
        sure_tests = [test for name, test in zip(test_names, tests, strict=True) if name != "fasttext"]
        # The words among which the pool was drawn: those of its frequency and δ, English or not.
        names = choose([], pool.min_count).words
        anchors = vocabulary.anchors(names, samples, chosen_seeds, pool_size)
        pool = _fitted_pool(console, pool, names, anchors, sure_tests, model)
        _show_equal_words(console, vocabulary.sample_words(pool.words, chosen_seeds, len(samples[0])), samples)
    console.print(filter_table(pool))
    if out:
        write_rows(_pool_rows(pool, words, counts, values), out)
        show(console, [f"Words in {out}: {len(pool.words):,}."])
    if sample:
        sampled: list[str] = []
        seed_column: list[int] = []
        for seed, sampled_words in zip(
            chosen_seeds, vocabulary.sample_words(pool.words, chosen_seeds, size), strict=True
        ):
            sampled += sampled_words
            seed_column += [seed] * len(sampled_words)
        write_rows(pa.table({"word": sampled, "seed": seed_column}), sample)
        show(console, [f"Sampled words in {sample}: {len(sampled):,}, {len(set(sampled)):,} of them different."])


def _fitted_pool(
    console: Console,
    pool: vocabulary.WordPool,
    names: Sequence[str],
    anchors: vocabulary.Anchors,
    sure_tests: Sequence[vocabulary.EnglishTest],
    model: Path | None,
) -> vocabulary.WordPool:
    """The pool that agrees with published samples, and in the terminal how it differs from the words that pass."""
    passed = set(pool.words)
    gaps = anchors.differences(np.array([word in passed for word in names], dtype=np.bool_))
    n_equal_gaps = int((gaps == 0).sum())
    show(console, [f"Gaps between sampled words with the published number of words: {n_equal_gaps} of {len(gaps)}."])
    # Each gap is filled with words that pass a sure test, then with the most probable ones of English.
    score = np.zeros(len(names))
    for test in sure_tests:
        score[test(names)] = 1
    n_sure = int(score.sum())
    others = np.flatnonzero(score == 0)
    score[others] = vocabulary.english_probabilities([names[row] for row in others.tolist()], model)
    fitted = tuple(names[row] for row in np.flatnonzero(anchors.fitted(score)).tolist())
    n_both = len(passed & set(fitted))
    show(console, [f"Fitted pool: {len(fitted):,} words, {n_both:,} of the {len(passed):,} that pass."])
    show(console, [f"Of its words {len(fitted) - n_sure:,} are chosen by the probability of English alone."])
    return vocabulary.WordPool(fitted, pool.n_after | {"fitted": len(fitted)}, pool.min_count)


def _show_equal_words(console: Console, drawn: Sequence[Sequence[str]], published: Sequence[Sequence[str]]) -> None:
    """How many words a draw from the fitted pool has at the places of the published samples."""
    n_words = n_equal = 0
    for words, published_words in zip(drawn, published, strict=True):
        n_words += len(published_words)
        # By place: a sample lists its words in the order in which they were drawn.
        for word, published_word in zip(words, published_words, strict=False):
            n_equal += word == published_word
    show(console, [f"Sampled words that are equal to those of --drawn: {n_equal:,} of {n_words:,}."])


def english_tests(
    names: Sequence[str], words: Sequence[str], confidence: float, model: Path | None, folder: Path | None
) -> list[vocabulary.EnglishTest]:
    """The named tests of English for the words of a table, in the order of the names.

    Raises
    ------
    PmiError
        When a test cannot be used on this machine.
    """
    tests: list[vocabulary.EnglishTest] = []
    for name in names:
        if name == "fasttext":
            tests.append(vocabulary.fasttext_test(confidence, model))
        else:
            tests.append(vocabulary.dictionary_test(wordnet.dictionary(words, folder)))
    return tests


def _test_names(names: str) -> list[str]:
    """The tests that a comma-separated list names, in its order; none for ``none``."""
    if names == "none":
        return []
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    # An empty list is an error and not "none": without a test words of all languages pass.
    if not chosen or not set(chosen) <= set(_TESTS):
        raise vocabulary.VocabularyError(
            f"{names!r} is not a test of English; give {' or '.join(_TESTS)} or both, or none."
        )
    return chosen


def _parse_seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise vocabulary.VocabularyError(f"The seeds are {text!r}; give whole numbers such as 9123,19223.") from None


def _columns(source: str, pairs: str | None) -> tuple[Sequence[str], IntArray, FloatArray]:
    """Words, counts and δ: of every word of a table of counts, else of the words that have a δ."""
    chosen_pairs = None if pairs is None else parse_pairs(pairs)
    counts = read_counts(source)
    if counts:
        return counts.words, counts.word_counts, counts.delta_values(chosen_pairs or SHE_HE)
    table = delta_table(source, chosen_pairs)
    return tuple(table.delta), table.counts, np.array(list(table.delta.values()))


def _pool_rows(pool: vocabulary.WordPool, words: Sequence[str], counts: IntArray, values: FloatArray) -> pa.Table:
    row_of_word = {word: row for row, word in enumerate(words)}
    rows = [row_of_word[word] for word in pool.words]
    return pa.table({"word": pa.array(pool.words, pa.string()), "count": counts[rows], "delta": values[rows]})


def filter_table(pool: vocabulary.WordPool) -> Table:
    """How many words each filter left."""
    rows = []
    before = next(iter(pool.n_after.values()))
    for name, left in pool.n_after.items():
        label = name
        if name == "frequent":
            # Of a share of words only the count that it gives can be compared between tables.
            label = f"{name} (more than {pool.min_count:g} times)"
        share = f"{left / before:.1%}" if before else "–"
        rows.append((label, f"{left:,}", share))
        before = left
    columns = ("", "words", "of those before")
    return text_table(columns, rows, "Words that pass", numbers=columns)
