"""Sentence pairs of SNLI with their labels, from the original file or from a copy of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from builders.dataset import Fetched
from builders.parsers import read

ENTAILMENT = "entailment"
#: The gold labels of the original; "-" is none.
GOLD = (ENTAILMENT, "neutral", "contradiction", "-")
#: Number to label in two copies; that these are the labels is seen from the sentences.
_TSV: Mapping[str, str] = {"0": ENTAILMENT, "1": "neutral", "2": "contradiction"}
_CSV: Mapping[str, str] = {"1": "neutral", "2": "contradiction", "3": ENTAILMENT}


def pairs(fetched: Fetched) -> Iterator[tuple[str, str, str]]:
    """Premise, hypothesis and label in the order of the file; a label that is not in :data:`GOLD` is in quotes."""
    file = fetched.used.files[0].file
    if file.endswith(".jsonl"):
        names: Mapping[str, str] = {name: name for name in GOLD}
        rows = ((r["sentence1"], r["sentence2"], r["gold_label"]) for r in read.json_lines(fetched.path))
    elif file.endswith(".tsv"):
        names = _TSV
        table = read.table(fetched.path, ("premise", "hypothesis", "label"), delimiter="\t")
        rows = ((r["premise"], r["hypothesis"], r["label"]) for r in table)
    else:
        names = _CSV
        columns = ("label", "label_again", "premise", "hypothesis")
        table = read.table(fetched.path, columns, delimiter="\t", header=False, quoted=False)
        rows = ((r["premise"], r["hypothesis"], r["label"]) for r in table)
    for premise, hypothesis, label in rows:
        yield premise, hypothesis, names.get(label, repr(label))
