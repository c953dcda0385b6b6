"""Sentence pairs of SNLI with their labels, from the original file or from a copy of it."""

from collections.abc import Iterator, Mapping
from operator import itemgetter

from builders.dataset import Fetched
from builders.parsers import read

ENTAILMENT = "entailment"
#: The labels of the original; "-" says that the annotators did not agree on one.
GOLD = (ENTAILMENT, "neutral", "contradiction", "-")
_ORIGINAL: Mapping[str, str] = {name: name for name in GOLD}
#: Number to label in two copies; that these are the labels is seen from the sentences.
_TSV: Mapping[str, str] = {"0": ENTAILMENT, "1": "neutral", "2": "contradiction"}
_CSV: Mapping[str, str] = {"1": "neutral", "2": "contradiction", "3": ENTAILMENT}


def pairs(fetched: Fetched) -> Iterator[tuple[str, str, str]]:
    """Premise, hypothesis and label in the order of the file; a label that is not in :data:`GOLD` is in quotes."""
    file = fetched.used.files[0].file
    if file.endswith(".jsonl"):
        keys, names, table = ("sentence1", "sentence2", "gold_label"), _ORIGINAL, read.json_lines(fetched.path)
    elif file.endswith(".tsv"):
        keys, names = ("premise", "hypothesis", "label"), _TSV
        table = read.table(fetched.path, keys, delimiter="\t")
    else:
        keys, names = ("premise", "hypothesis", "label"), _CSV
        # This copy has no header, and the label twice.
        columns = ("label", "label_again", "premise", "hypothesis")
        table = read.table(fetched.path, columns, delimiter="\t", header=False, quoted=False)
    for premise, hypothesis, label in map(itemgetter(*keys), table):
        yield premise, hypothesis, names.get(label, repr(label))
