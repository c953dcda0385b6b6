"""The figures that papers print of methods, from ``data/printed.toml``, beside which measured ones stand."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

#: What papers call a recipe of this project; the unchanged model has the name of the model.
RECIPES = {
    "AutoDebias": "auto_debias",
    "CDA": "cda",
    "Dropout": "dropout",
    "FAST": "fast",
    "INLP": "inlp",
    "MABEL": "mabel",
    "SelfDebias": "self_debias",
    "SentDebias": "sentence_debias",
}
#: Names of the unchanged model.
UNCHANGED = ("BERT", "GPT2", "original")
#: The model of the tables whose rows stand beside those of any model of its kind.
MODELS = {"masked": "bert-base-uncased", "causal": "gpt2"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """The values of a method in a domain by column; ``source`` is the printed table, or "measured"."""

    method: str
    domain: str
    source: str
    values: Mapping[str, float]


def printed_rows(model: str, domain: str, kind: str = "") -> list[TableRow]:
    """The rows that papers print for a model in a domain.

    For a model of no table, those of BERT or GPT-2 if it is of that ``kind``, and without a kind those of all models.

    >>> [row.method for row in printed_rows("gpt2", "gender")][-1]
    'FAST'
    """
    content = tomllib.loads((files("mitigation") / "data" / "printed.toml").read_text(encoding="utf-8"))["row"]
    if not any(row["model"] == model for row in content):
        model = MODELS.get(kind, "")
    return [
        TableRow(row["method"], row["domain"], f"Table {row['table']}, {row['model']}", row["values"])
        for row in content
        if row["domain"] == domain and model in ("", row["model"])
    ]
