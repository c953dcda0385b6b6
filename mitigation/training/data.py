"""What recipes may learn from: built data sets, and the check that nothing of a test split is among it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from builders.text.split import leaks
from mitigation.adapters.adapter import MitigationError
from scoring import tables
from scoring.benchmarks import neutral
from scoring.tables import DataMissing, Loaded


@dataclass(frozen=True, slots=True)
class Data:
    """Built data sets of a folder or an organisation of the Hub, and the versions of those that were read.

    ``limit`` takes so many rows of each split only, as in scoring.
    """

    source: str = tables.DEFAULT
    limit: int | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def load(self, dataset: str, config: str, split: str) -> Loaded:
        """One split; its version is remembered.

        Raises
        ------
        DataMissing
            When it is not there.
        """
        found = tables.load(self.source, dataset, config, split, self.limit)
        self.versions[found.name] = found.version
        return found


def prompts(data: Data, corpora: Sequence[str], split: str) -> list[str]:
    """The prompts of neutral probes in a split, in the order of the corpora.

    Raises
    ------
    DataMissing
        When a corpus has no such split.
    """
    return [row["prompt"] for name in corpora for row in data.load(neutral.DATASET, name, split).rows]


def learnable(data: Data, corpora: Sequence[str]) -> list[str]:
    """The training prompts of corpora of neutral probes, none of which stands in a test split of any corpus.

    Raises
    ------
    DataMissing
        When a corpus has no training split.
    MitigationError
        When a prompt stands in a test split, with the first ten.
    """
    found = prompts(data, corpora, "train")
    refuse_leaks(found, tests(data.source))
    return found


def tests(source: str) -> dict[str, list[str]]:
    """Every whole test split of neutral probes that is there, in its clean and its published form.

    Raises
    ------
    DataMissing
        When there is none, so that nothing could be held against it.
    """
    found, lacking = {}, []
    for dataset, config, split in neutral.BENCHMARK.configs:
        try:
            loaded = tables.load(source, dataset, config, split)
            found[loaded.name] = [row["prompt"] for row in loaded.rows]
        except DataMissing as error:
            lacking.append(error)
    if not found:
        raise lacking[0]
    return found


def refuse_leaks(rows: Iterable[str], tests: Mapping[str, Iterable[str]]) -> None:
    """Refuses to learn from what is tested with, whatever its case, punctuation and spacing.

    >>> refuse_leaks(["My friend sings, and"], {"made/a/test": ["My friend waits, and"]})

    Raises
    ------
    MitigationError
        With the number of shared prompts and the first ten, each with its split.
    """
    rows = list(rows)
    found: dict[str, str] = {}
    for name, prompts in tests.items():
        found = {phrase: name for phrase, _, _ in leaks({name: prompts, "train": rows})} | found
    if found:
        shown = "; ".join(f"{phrase!r} in {name}" for phrase, name in islice(found.items(), 10))
        raise MitigationError(
            f"{len(found)} of the rows to train on stand in a test split ({shown}{'; …' * (len(found) > 10)}); "
            "train on a clean config, whose splits share nothing."
        )
