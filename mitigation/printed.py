"""The figures that papers print of methods, from :mod:`scoring.reproduce`, beside which measured ones stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scoring.reproduce.printed import printed_tables

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
#: The columns of the printed tables by their name in ours.
COLUMNS = {
    "SS_StereoSet": "SS StereoSet",
    "SS_CrowS": "SS CrowS-Pairs",
    "SS_BEC": "SS BEC-Pro",
    "PS_BEC": "PS BEC-Pro",
    "SS_Winogender": "SS Winogender",
    "PS_Winogender": "PS Winogender",
    **{name: name for name in ("PS", "DS", "LMS", "ICAT")},
}
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
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for table in printed_tables("fast"):
        for cell in table.cells:
            of, column = str(cell.place.get("model")), cell.column.removeprefix(f"{cell.place['domain']}_")
            if column in COLUMNS and cell.place["domain"] == domain:
                method = cell.row.rpartition(", ")[2].replace("Ours", "FAST")
                key = of, method, f"Table {table.name.removeprefix('table-')}, {of}"
                rows.setdefault(key, {})[COLUMNS[column]] = float(cell.text)
    if not any(of == model for of, *_ in rows):
        model = MODELS.get(kind, "")
    return [
        TableRow(method, domain, source, values) for (of, method, source), values in rows.items() if model in ("", of)
    ]
