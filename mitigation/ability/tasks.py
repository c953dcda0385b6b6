"""The nine tasks of GLUE: their rows and the metrics that GLUE and bias-bench report.

Source: *GLUE* (Wang et al., 2019). Every task is on the Hub as ``nyu-mll/glue``; five come from pinned files instead,
which are verified and need no Hub. The labels of the test splits are not public, so scores are of the validation split.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from mitigation.recipe import MitigationError, Settings, setting
from scoring.types import Floats

#: The name of GLUE on the Hub.
HUB = "nyu-mll/glue"
#: The texts of an example, one or two, and its label: the number of a class, or a value.
Example = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Pinned:
    """The pinned files of a task: their sources by split, and the columns of a file without quoting.

    ``texts`` and ``label`` name columns. ``classes`` are the labels in the file in the order of their numbers on the
    Hub, if they are not numbers themselves.
    """

    sources: Mapping[str, str]
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    label: str
    header: bool = True
    optional: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def read(self, split: str) -> list[Example]:
        """The examples of a split."""
        from builders.parsers.read import table
        from mitigation.texts.attribute_words import fetched_source

        path = fetched_source(self.sources[split]).path
        rows = table(path, self.columns, optional=self.optional, delimiter="\t", header=self.header, quoted=False)
        examples = []
        for row in rows:
            texts = tuple(row[name] for name in self.texts)
            label = row[self.label]
            # The Hub numbers the classes, and some files name them.
            number = self.classes.index(label) if self.classes else label
            examples.append((texts, float(number)))
        return examples


@dataclass(frozen=True, slots=True)
class GlueTask:
    """A task: the columns of its texts on the Hub, its number of classes (1 for a value), and its metrics.

    The first metric is the score of bias-bench: F1 for MRPC and QQP, Matthews' correlation for CoLA, Spearman's for
    STS-B, else accuracy.
    """

    name: str
    texts: tuple[str, ...]
    classes: int = 2
    metrics: tuple[str, ...] = ("accuracy",)
    validation: str = "validation"
    pinned: Pinned | None = None


_DATA = tomllib.loads((Path(__file__).parents[1] / "data" / "glue.toml").read_text(encoding="utf-8"))
# The name of a task is that of its table.
_NAMED = {name: {"name": name, **task} for name, task in _DATA.items()}
TASKS = TypeAdapter(dict[str, GlueTask]).validate_python(_NAMED)
#: Tasks whose rows are in pinned files.
PINNED = tuple(name for name, task in TASKS.items() if task.pinned)


@dataclass(frozen=True, slots=True)
class TaskData:
    """A task with the examples that are trained on and those that are scored; ``digest`` is their SHA-256."""

    task: GlueTask
    train: Sequence[Example]
    validation: Sequence[Example]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        rows = json.dumps([self.train, self.validation], ensure_ascii=False).encode()
        object.__setattr__(self, "digest", hashlib.sha256(rows).hexdigest())


@dataclass(frozen=True)
class GlueSettings(Settings):
    """How a head is fine-tuned; the defaults are those of bias-bench."""

    seeds: int = setting(3, "Fine-tunings of each task.", above=0)
    learning_rate: float = setting(2e-5, "Learning rate, which falls to 0.", above=0)
    epochs: int = setting(3, "Passes over the examples.", above=0)
    batch_size: int = setting(32, "Examples of a step.", above=0)
    length: int = setting(128, "Tokens after which texts are cut.", above=0)

    def steps(self, data: TaskData) -> int:
        """Steps of the optimizer in one fine-tuning."""
        return self.epochs * math.ceil(len(data.train) / self.batch_size)


def named(names: Sequence[str]) -> list[GlueTask]:
    """The tasks of these names, each once.

    Raises
    ------
    MitigationError
        For an unknown task.
    """
    for name in names:
        if name not in TASKS:
            raise MitigationError(f"{name!r} is no task of GLUE; give some of {', '.join(TASKS)}.")
    return [TASKS[name] for name in dict.fromkeys(names)]


def load(names: Sequence[str], limit: int | None = None) -> list[TaskData]:
    """The rows of tasks, at most ``limit`` of each split, from pinned files or else from the Hub.

    Raises
    ------
    MitigationError
        For an unknown task, and for one that cannot be had from the Hub.
    SourceUnavailable
        For a pinned file that cannot be had.
    """
    tasks_data = []
    for task in named(names):
        if task.pinned:
            train, validation = task.pinned.read("train"), task.pinned.read("validation")
        else:
            train, validation = _from_hub(task, "train"), _from_hub(task, "validation")
        tasks_data.append(TaskData(task, train[:limit], validation[:limit]))
    return tasks_data


def _from_hub(task: GlueTask, split: str) -> list[Example]:
    from datasets import load_dataset  # slow to import, and not needed for pinned files

    if split == "validation":
        split = task.validation  # MNLI has two of them
    try:
        rows: Any = load_dataset(HUB, task.name, split=split)
    except (OSError, ValueError) as error:
        raise MitigationError(
            f"The task {task.name} could not be downloaded from {HUB} on the Hub ({type(error).__name__}); the tasks "
            f"that need no Hub are {', '.join(PINNED)}."
        ) from None
    examples = []
    for row in rows:
        examples.append((tuple(row[name] for name in task.texts), float(row["label"])))
    return examples


def _metric(name: str, labels: Floats, predicted: Floats) -> float:
    """A correlation of scipy, or a score of scikit-learn; without variation both are 0."""
    from scipy import stats  # type: ignore[import-untyped]
    from sklearn import metrics

    if name in ("pearson", "spearman"):
        if np.ptp(predicted) == 0:
            return 0.0  # scipy has NaN for a constant prediction, where Matthews' correlation of scikit-learn is 0
        correlation = stats.pearsonr if name == "pearson" else stats.spearmanr
        return float(correlation(labels, predicted).statistic)
    classes, predicted_classes = labels.astype(int), predicted.astype(int)
    if name == "accuracy":
        return float(metrics.accuracy_score(classes, predicted_classes))
    if name == "f1":
        # Without a positive example or prediction the quotient is 0 / 0.
        return float(metrics.f1_score(classes, predicted_classes, zero_division=0))
    return float(metrics.matthews_corrcoef(classes, predicted_classes))


def scores(task: GlueTask, labels: Floats, outputs: Floats) -> dict[str, float]:
    """The metrics of a task times 100, by name.

    Parameters
    ----------
    labels, outputs:
        The labels [examples], and the outputs of the head [examples, classes].

    >>> scores(TASKS["mrpc"], np.array([1.0, 0, 1]), np.array([[0, 1.0], [1, 0], [1, 0]]))
    {'f1': 66.66666666666666, 'accuracy': 66.66666666666666}
    """
    if task.classes == 1:
        predicted = outputs[:, 0]  # a regression has one output, the value
    else:
        predicted = outputs.argmax(1).astype(float)
    return {name: 100 * _metric(name, labels, predicted) for name in task.metrics}
