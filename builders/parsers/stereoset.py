"""StereoSet examples, from the released files and from a list of sentences without contexts and ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from builders.dataset import BuildError, Fetched, Files, Origin, Row, Rows, content_id
from builders.parsers import read
from builders.parsers.triplets import filled, triplet
from builders.wording import BLANK, LABELS

Task = Literal["intrasentence", "intersentence"]

_GOLD = {"stereotype": "biased", "anti-stereotype": "unbiased", "unrelated": "irrelevant"}
_LIST_KEYS = {"biased": "stereo-sentence", "unbiased": "anti-sentence", "irrelevant": "unrelated-sentence"}
_SPLITS = {"stereoset/dev": "validation", "stereoset/test": "test"}
_LIST_SPLIT = "StereoSet test set"


@dataclass(frozen=True, slots=True)
class StereoSetExample:
    """A target term, its context, and three sentences about it.

    ``sentences`` and ``sentence_ids`` have the keys ``biased``, ``unbiased`` and ``irrelevant``. The context and
    the ids are None where the file does not have them.
    """

    origin: Origin
    domain: str
    target: str
    sentences: Mapping[str, str]
    context: str | None = None
    id: str | None = None
    sentence_ids: Mapping[str, str] | None = None


def examples(fetched: Fetched, task: Task) -> Iterator[StereoSetExample]:
    """The examples of one task, in the order of the files.

    A released file has all its domains. A list of sentences (the test set without contexts and ids) adds the
    domains that no earlier released file has.

    Raises
    ------
    BuildError
        When an example does not have one sentence of each label.
    """
    released: set[str] = set()
    for number, path in enumerate(fetched.paths):
        document = read.json_document(path)
        if isinstance(document, list):
            yield from _listed(fetched, number, document, released)
            continue
        for row, entry in enumerate(document["data"][task]):
            released.add(entry["bias_type"])
            yield _released(fetched.origin(row, number), entry)


def _released(origin: Origin, entry: Mapping[str, Any]) -> StereoSetExample:
    by_label = {_GOLD.get(s["gold_label"], s["gold_label"]): s for s in entry["sentences"]}
    if by_label.keys() != set(_GOLD.values()) or len(entry["sentences"]) != len(_GOLD):
        labels = ", ".join(s["gold_label"] for s in entry["sentences"])
        raise BuildError(
            f"{origin.file} row {origin.row} (id {entry['id']}) has sentences labelled {labels}; "
            f"expected one each of {', '.join(_GOLD)}."
        )
    return StereoSetExample(
        origin,
        entry["bias_type"],
        entry["target"],
        {label: s["sentence"] for label, s in by_label.items()},
        entry["context"],
        entry["id"],
        {label: s["id"] for label, s in by_label.items()},
    )


def _listed(
    fetched: Fetched, file: int, entries: list[dict[str, str]], released: set[str]
) -> Iterator[StereoSetExample]:
    for row, entry in enumerate(entries):
        domain = entry["Target group type"]
        if entry["Source"] == _LIST_SPLIT and domain not in released:
            sentences = {label: entry[key] for label, key in _LIST_KEYS.items()}
            yield StereoSetExample(fetched.origin(row, file), domain, entry["subject_word"], sentences)


def _row(task: Task, split: str, example: StereoSetExample) -> Row:
    sentences = [example.sentences[label] for label in LABELS]
    parts = triplet(*sentences) if task == "intrasentence" else filled(f"{example.context} {BLANK}", *sentences)
    objects = [parts[f"object_{label}"] for label in LABELS]
    ids = example.sentence_ids or {}
    values = {
        "domain": example.domain,
        "subject": example.target,
        "context": example.context,
        "example_id": example.id,
        **{f"sentence_id_{label}": ids.get(label) for label in LABELS},
        **parts,
    }
    return Row(split, content_id("stereoset", example.target, parts["prompt"], *objects), example.origin, values)


def rows(task: Task, files: Files) -> Rows:
    """The rows of one task from the released files, each of which is a split."""
    for name, fetched in files.items():
        for example in examples(fetched, task):
            yield _row(task, _SPLITS[name], example)
