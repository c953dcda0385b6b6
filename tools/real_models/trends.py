"""The page of trends of published answers: ``python -m tools.real_models.trends FILE``. The site has it too.

Sizes of Pythia and OPT are from ``docs/models/scores.json``, the kept scores of published answers, and the training
steps of Pythia-6.9B (deduplicated) from the table of ``docs/UNSTEREO.md``, which
``python -m tools.real_models.training_steps`` measured. The table and the plots are those that ``probes leaderboard``
draws of runs (:mod:`cards.overview`).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from cards.common.files import put
from cards.overview import overview, placed
from cards.overview.model_matrix import Cell, Column, ModelRow

DOCS = Path(__file__).parents[2] / "docs"
SCORES, TABLE = DOCS / "models" / "scores.json", DOCS / "UNSTEREO.md"
FAMILIES = ("EleutherAI/pythia", "facebook/opt")
#: Data sets and metrics of UnStereoEval, with what their columns are called.
SETS = {"ours-5": "Ours-5", "ours-20": "Ours-20", "winobias": "WinoBias"}
METRICS = {
    "tau@0.5": ("both pronouns nearly equally likely, %", 100.0, 0.0, 100.0),
    "pref_disparity@0.5": ("female minus male preferred, points", 0.0, -100.0, 100.0),
}
COLUMNS = []
for named, (title, *_) in METRICS.items():
    for data_set, shown in SETS.items():
        COLUMNS.append(Column(("unstereo", data_set, named), f"{title}, {shown}"))
STYLE = """body { font: 16px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1rem; }
body { color: #1b1b3a; background: #fff; }
@media (prefers-color-scheme: dark) { body { color: #e8e8ee; background: #16161d; } }"""
#: A value with its interval in a table of the documentation.
_SCORE = re.compile(r"([+−]?[\d.]+) \[([+−]?[\d.]+), ([+−]?[\d.]+)\]")


def cell(metric: str, value: float, low: float, high: float, n: int, clusters: int) -> Cell:
    """A score of UnStereoEval as a cell of the table."""
    _, ideal, least, most = METRICS[metric]
    return Cell(value, low, high, metric, ideal, n, least=least, most=most, clusters=clusters)


def sizes() -> Iterator[ModelRow]:
    """The models of the families, by size."""
    for model in json.loads(SCORES.read_text(encoding="utf-8"))["models"]:
        if not model["name"].startswith(FAMILIES):
            continue
        cells = {}
        for source, _, group, metric, value, low, high, n, clusters in model["scores"]:
            if source == "unstereo" and group in SETS and metric in METRICS:
                cells["unstereo", group, metric] = cell(metric, value, low, high, n, clusters)
        if cells:
            yield placed(ModelRow(model["name"], "", "", cells))


def steps() -> Iterator[ModelRow]:
    """The checkpoints of Pythia-6.9B by step, without those of its intervention."""
    table = TABLE.read_text(encoding="utf-8").partition("| step | τ")[2].partition("\n\n")[0]
    last = next(row for row in sizes() if row.model == "EleutherAI/pythia-6.9b-deduped")
    for line in table.splitlines()[2:]:
        step, *scores = (field.strip() for field in line.strip("|").split("|"))
        if "intervened" in step:
            continue
        cells = {}
        for column, score in zip(COLUMNS, scores, strict=True):
            match = _SCORE.fullmatch(score)
            assert match, score
            numbers = [float(number.replace("−", "-")) for number in match.groups()]
            # Each step is scored on the same rows.
            rows = last.cells[column.key]
            cells[column.key] = cell(column.key[2], *numbers, rows.n, int(rows.clusters))
        name = f"training of pythia-6.9b-deduped step{step.replace(',', '')}"
        yield placed(ModelRow(name, "", "", cells))


def page(rows: list[ModelRow]) -> str:
    """The text of the page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Steps and sizes</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        "<h1>Steps of training and sizes of models</h1>\n"
        "<p>Scores of UnStereoEval from published answers, with the intervals of this project. "
        "No model was run here.</p>\n"
        f"{overview(rows, COLUMNS, ability='')}\n</body>\n</html>\n"
    )


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    put(options.out, page([*steps(), *sizes()]).encode())


if __name__ == "__main__":
    main()
