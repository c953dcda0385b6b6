"""The data that recipes learn from, and the check that it contains nothing of a test split."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from builders.text.split import leaks, phrase_key
from mitigation.errors import MitigationError
from mitigation.texts.pairs_file import read_pairs
from scoring import DATA, benchmarks
from scoring.benchmarks import neutral, stated_gender
from scoring.inputs import tables


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Built data sets in a folder or in an organisation of the Hub, and the versions of those that were read.

    ``limit`` is the maximum number of rows per split, as in scoring.
    """

    source: str = DATA
    limit: int | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def load(self, dataset: str, config: str, split: str) -> tables.Loaded:
        """One split; its version is recorded.

        Raises
        ------
        DataMissing
            If it is not available.
        """
        loaded = tables.load(self.source, dataset, config, split, self.limit)
        self.versions[loaded.name] = loaded.version
        return loaded

    def validation_rows(self) -> list[Mapping[str, Any]]:
        """The neutral probes of the validation splits that are available; no recipe trains on them."""
        rows: list[Mapping[str, Any]] = []
        for config in neutral.SETS:
            # A user may have built some of the corpora only.
            with suppress(tables.DataMissing):
                rows += self.load(neutral.DATASET, config, "validation").rows
        return rows


def load_prompts(data: TrainingData, corpora: Sequence[str], split: str) -> list[str]:
    """The prompts of neutral probes in a split, in the order of the corpora.

    Raises
    ------
    DataMissing
        If a corpus has no such split.
    """
    return [row["prompt"] for name in corpora for row in data.load(neutral.DATASET, name, split).rows]


def training_prompts(data: TrainingData, corpora: Sequence[str], *, leaked: bool | None = None) -> list[str]:
    """The training prompts of corpora of neutral probes, after the check against all test splits.

    With ``leaked`` prompts of test splits are allowed, which a reproduction of published training needs; None is for
    a recipe without such a setting.

    Raises
    ------
    DataMissing
        If a corpus has no training split.
    MitigationError
        If a prompt is in a test split and none may be, with the first ten.
    """
    prompts = load_prompts(data, corpora, "train")
    # A reproduction says so by its setting, and its result is marked.
    if not leaked:
        refuse_leaks(prompts, load_test_splits(data.source), leaked is not None)
    return prompts


def load_test_splits(source: str) -> dict[str, list[str]]:
    """Name to prompts of every available test split of neutral probes, clean and published, without a limit.

    Raises
    ------
    DataMissing
        If none is available, so that nothing could be compared.
    """
    splits, missing = {}, []
    # Published forms of a test split share rows with clean training splits.
    for dataset, config, split in neutral.BENCHMARK.configs:
        try:
            loaded = tables.load(source, dataset, config, split)
            splits[loaded.name] = [row["prompt"] for row in loaded.rows]
        except tables.DataMissing as error:
            missing.append(error)
    if not splits:
        raise missing[0]
    return splits


def refuse_leaks(prompts: Iterable[str], test_splits: Mapping[str, Iterable[str]], offered: bool = False) -> None:
    """Refuses training prompts that are in a test split, ignoring case, punctuation and spacing.

    ``offered`` says that the recipe has a setting ``leaked``.

    >>> refuse_leaks(["My friend sings, and"], {"made/a/test": ["My friend waits, and"]})

    Raises
    ------
    MitigationError
        With the number of shared prompts and the first ten, each with its split.
    """
    # Compared without case and punctuation, because corpora write the same sentence differently.
    if shared := shared_rows(prompts, test_splits):
        hint = ", or give --leaked to reproduce published training" if offered else ""
        shown = "; ".join(f"{phrase!r} in {name}" for phrase, name in islice(shared.items(), 10))
        raise MitigationError(
            f"{len(shared)} of the rows to train on are in a test split ({shown}{'; …' * (len(shared) > 10)}); "
            f"train on a clean config, whose splits share nothing{hint}."
        )


def shared_rows(prompts: Iterable[str], test_splits: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The prompts that are in a test split too, ignoring case, punctuation and spacing, with the name of one.

    >>> shared_rows(["My friend sings, and"], {"made/a/test": ["my friend sings and"]})
    {'my friend sings and': 'made/a/test'}
    """
    prompts, shared = list(prompts), dict[str, str]()
    for name, test_prompts in test_splits.items():
        shared = {phrase: name for phrase, _, _ in leaks({name: test_prompts, "train": prompts})} | shared
    return shared


#: Words in a row that a pair and a test row share only where one was taken from the other.
RUN = 8
#: Shorter texts are no sentences, and equal by chance.
FEWEST_WORDS = 4
#: Benchmarks of pairs of sentences, and the one of stated gender.
OF_PAIRS = ("biaske", "stereoset", "crows_pairs", "stated_gender")


def refuse_test_pairs(settings: Any, source: str) -> None:
    """Refuses pairs or a contrast of the user's with rows of the test splits of :data:`OF_PAIRS`.

    A pair is one of a test row if a sentence or the prompt is equal but for case, punctuation and spacing, or has
    :data:`RUN` words in a row with it.

    Parameters
    ----------
    settings:
        Those of a recipe; without ``pairs`` and ``contrast`` nothing is read.
    source:
        Built data sets. What is not built is not compared.

    Raises
    ------
    MitigationError
        With the number of such pairs and the first three, each with its split.
    """
    path = getattr(settings, "pairs", "") or getattr(settings, "contrast", "")
    if not isinstance(path, str) or not path:
        return  # mabel has a number of pairs
    pairs = [_sentences(row) for row in read_pairs(path)]
    shared: dict[int, str] = {}
    for name, rows in _test_rows(source, OF_PAIRS):
        keys: set[str] = set()
        runs: set[tuple[str, ...]] = set()
        for row in rows:
            for key in _sentences(row):
                keys.add(key)
                runs.update(_runs(key))
        for number, sentences in enumerate(pairs):
            if any(key in keys or not runs.isdisjoint(_runs(key)) for key in sentences):
                shared.setdefault(number, f"{sentences[0]!r} in {name}")
    if shared:
        shown = "; ".join(islice(shared.values(), 3))
        raise MitigationError(
            f"{len(shared)} of the {len(pairs)} pairs of {path} are in a test split ({shown}"
            f"{'; …' * (len(shared) > 3)}); give pairs of other sentences."
        )


def shared_test_rows(texts: Iterable[str], source: str) -> dict[str, list[str]]:
    """The ids of test rows that have :data:`RUN` words in a row with a training text, by the name of their split.

    The splits are those of all benchmarks; what is not built in ``source`` is not compared.
    """
    rows_of: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for split, rows in _test_rows(source, benchmarks.names()):
        for number, row in enumerate(rows):
            for key in _sentences(row):
                for run in _runs(key):
                    rows_of.setdefault(run, []).append((split, str(row.get("id", number))))
    shared: dict[str, dict[str, None]] = {}
    for text in texts:
        for run in _runs(phrase_key(text)):
            for split, row_id in rows_of.get(run, ()):
                shared.setdefault(split, {})[row_id] = None
    return {split: list(ids) for split, ids in shared.items()}


def shared_measures(settings: Any, source: str) -> dict[str, tuple[float, float, float]]:
    """The number of test rows of each split that a corpus of the user's shares words with, for the card of an adapter.

    A name has the first three rows. Texts of this project share none.
    """
    if not getattr(settings, "corpus", "") or not hasattr(settings, "texts"):
        return {}
    measures = {}
    for split, ids in shared_test_rows(settings.texts(), source).items():
        shown = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
        name = f"test rows of {split} with {RUN} words in a row of the training text ({shown})"
        measures[name] = (float(len(ids)), math.nan, math.nan)
    return measures


def remark_on_test_rows(settings: Any) -> list[str]:
    """What to say of settings that train on the test split of a data set, as the paper of FAST does; else nothing."""
    sets, split = getattr(settings, "sets", ""), getattr(settings, "split", "")
    # Pairs of the user and of this project have no split.
    if split != "test" or not sets or sets == "jobs" or settings.pairs:
        return []
    return [
        f"The pairs are rows of the test split of {sets}, as in the paper: scores of {sets} after the training are no "
        "evidence of less bias. Give --split validation, or pairs of your own."
    ]


def _test_rows(source: str, names: Iterable[str]) -> Iterator[tuple[str, Iterable[Mapping[str, Any]]]]:
    """The name and the rows of each available test split of benchmarks."""
    for name in names:
        benchmark = benchmarks.get(name)
        for dataset, config, split in benchmark.configs:
            if split != "test":
                continue
            if name == stated_gender.BENCHMARK.name:
                # The package has these rows also without a built folder.
                yield f"{dataset}/{config}/{split}", stated_gender.rows()
                continue
            with suppress(tables.DataMissing):
                yield f"{dataset}/{config}/{split}", tables.load(source, dataset, config, split).rows


def _sentences(row: Mapping[str, Any]) -> list[str]:
    """The sentences of a row, as :func:`builders.text.split.phrase_key` compares them."""
    texts = [value for value in row.values() if isinstance(value, str)]
    if "before" in row:
        # Rows of stated gender are the parts of a sentence.
        texts = [f"{row['before']}{row[side]}{row['after']}" for side in ("male", "female")]
    keys = [phrase_key(text) for text in texts]
    return [key for key in keys if len(key.split()) >= FEWEST_WORDS]


def _runs(key: str) -> Iterator[tuple[str, ...]]:
    words = key.split()
    return zip(*(words[start:] for start in range(RUN)), strict=False)
