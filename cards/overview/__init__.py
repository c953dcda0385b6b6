"""A table of many models that is read at once: a column a benchmark and language ability, and trends of families.

:func:`overview` gives a part of a page, which needs nothing outside itself: it is sorted and filtered in the browser.
The leaderboard is made with it; any page of models can be.

>>> from cards.overview.model_matrix import Cell, Column, ModelRow
>>> key = ("unstereo", "ours-5", "us_score")
>>> rows = [ModelRow(name, "", "", {key: Cell(value, value - 2, value + 2, "us_score", 100, 99, "", 0, 100)})
...         for name, value in (("gpt2", 24.0), ("opt-125m", 16.0))]
>>> html = overview(rows, [Column(key, "neutral sentences with she and he equally likely, %", "unstereo")])
>>> html.count("<tr"), "opt-125m" in html
(3, True)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from cards.common.text import grouped, template
from cards.overview.families import place, size_text
from cards.overview.model_matrix import BANDS, Cell, Column, ColumnGroup, ModelRow, matrix
from cards.overview.trends import HEIGHT, LEFT, RIGHT, WIDTH, trends

__all__ = ["SHOWN", "Cell", "Column", "ModelRow", "overview", "placed"]

#: Columns of scores in the first view, with that of language ability: as many as are seen on 1280 pixels.
SHOWN = 9


@dataclass(frozen=True, slots=True)
class Family:
    """The models of one family; a model that has no relatives is a family without a title."""

    title: str
    groups: Sequence[ColumnGroup]


def placed(row: ModelRow, revision: str = "", parameters: float = float("nan")) -> ModelRow:
    """A row with family, parameters and step, as its name and the revision say (:mod:`cards.overview.families`).

    >>> placed(ModelRow("org/pythia-70m", "", ""), "step512").step
    512.0
    """
    family = place(row.model, revision, parameters)
    return replace(row, family=family.family, parameters=family.parameters, step=family.step)


def overview(rows: Iterable[ModelRow], columns: Sequence[Column], *, ability: str = "language ability") -> Markup:
    """The table of models with its trend plots, as a part of an HTML page.

    Parameters
    ----------
    rows:
        The models. An adapter or another setting of a model is below it, with the change of each score.
    columns:
        The scores, the most important first. Those beyond :data:`SHOWN` are shown on demand.
    ability:
        The title of the column of language ability; empty leaves the column out.
    """
    models = list(rows)
    measures = {row.ability.remark for row in models if row.ability}
    page = template("overview.html.j2", html=True)
    return Markup(
        page.render(
            families=_families(models),
            columns=columns,
            shown=SHOWN - 1,
            ability=ability,
            # A column that no row can fill would take the place of a score on a small screen.
            has_ability=bool(ability),
            # The head says what was measured, or each cell where models differ in it.
            ability_of=measures.pop() if len(measures) == 1 else "",
            bands=BANDS,
            figures=trends(models, columns),
            size=(WIDTH, HEIGHT),
            sides=(LEFT, WIDTH - RIGHT),
            size_text=size_text,
            # A step that the name has already is not repeated; the 0 of pythia-70m is no step.
            names_step=lambda row: place(row.model).step == row.step,
            style=Markup(_text("overview.css")),
            script=Markup(_text("overview.js")),
        )
    )


def _families(rows: Sequence[ModelRow]) -> list[Family]:
    """The rows by family, each in the order of its parameters and steps."""
    groups = sorted(matrix(rows).groups, key=_order)
    by_family = grouped(groups, lambda group: group.first.family or group.first.model)
    families = []
    for name, members in by_family.items():
        # A model without relatives needs no heading.
        title = name if len(members) > 1 else ""
        families.append(Family(title, members))
    return sorted(families, key=lambda family: (family.title or family.groups[0].first.model).lower())


def _order(group: ColumnGroup) -> tuple[bool, float, bool, float, str]:
    """Models of unknown size or step are first; NaN has no order of its own."""
    first = group.first
    # No comparison with NaN holds, so an unknown number is neither below nor above another.
    has_size = first.parameters >= 0
    has_step = first.step >= 0
    return has_size, first.parameters if has_size else 0.0, has_step, first.step if has_step else 0.0, first.model


def _text(name: str) -> str:
    return (Path(__file__).parents[1] / "templates" / name).read_text(encoding="utf-8")
