"""The page ``docs/recipes-real.md``: ``python -m tools.real_models.recipes [--data output]``.

What recipes did to GPT-2, Phi-2 and Llama-2-7B on the sentences about gender of StereoSet, from scores of sentences
that others published (:mod:`scoring.responses.stereoset_test`). Each model after a recipe is compared with the model
itself over the same sentences, in pairs; terms are the clusters. All comparisons of the page are corrected together.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from cards.common.files import put
from cards.common.numbers import minus
from cards.common.verdict import ability_verdict, verdict
from scoring import published
from scoring.metrics import stereoset
from scoring.statistics.stats import RESAMPLES, compare, corrected
from scoring.types import Difference, Group, Table
from tools.docs.pages import ROOT, table

SOURCE = "stereoset-test"
PAGE = ROOT / "docs" / "recipes-real.md"
_TEMPLATE = ROOT / "tools" / "templates" / "recipes-real.md"
#: The recipes are trained against gender, or (dropout) against no group.
_OTHER_TARGETS = ("-race", "-religion")


@dataclass(frozen=True, slots=True)
class Row:
    """A model after a recipe: SS before, the differences of SS and LMS, and what is said of both."""

    model: str
    recipe: str
    before: float
    ss: Difference
    lms: Difference

    @property
    def verdicts(self) -> tuple[str, str]:
        """Of SS (corrected for all rows) and of LMS, which is a cost and so not corrected."""
        of_ss = verdict(self.before, self.ss.numbers, self.ss.ideal, self.ss.p_holm, self.ss.p_direction)
        return of_ss, ability_verdict(self.lms.numbers, 100)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the page."""
        of_ss, of_lms = self.verdicts
        name, _, setting = self.recipe.partition("-")
        shown = f"[{name}](recipes.md#{name}) {setting.replace('-', ', ')}".strip()
        p = f"{self.ss.p_holm:.3f}"
        if self.ss.p_holm < 0.0005:
            p = "< 0.001"
        change, cost = with_ends(self.ss), with_ends(self.lms)
        return self.model, shown, f"{self.before:.1f}", change, of_ss, p, cost, of_lms


def with_ends(difference: Difference) -> str:
    """A difference with its 95 % interval."""
    value, low, high = difference.numbers
    return minus(f"{value:+.1f} [{low:+.1f}, {high:+.1f}]")


def of_gender(model: str, data: Path, *, offline: bool) -> Table:
    """The scores of the sentences about gender."""
    run = published.score(SOURCE, model, data, resamples=2, offline=offline)
    whole = run.tables["stereoset"]
    rows = whole["domain"] == "gender"
    return {name: column[rows] for name, column in whole.items()}


def rows_of(data: Path, resamples: int, *, offline: bool) -> list[Row]:
    """Every recipe of every model, compared with the model; the p of SS are corrected over all of them."""
    recipes = [name for name in published.models(SOURCE) if "/" in name]
    names = [name for name in recipes if not any(target in name for target in _OTHER_TARGETS)]
    bases: dict[str, Table] = {}
    found: list[tuple[str, str, float, Difference, Difference]] = []
    for name in names:
        model, _, recipe = name.partition("/")
        if model not in bases:
            bases[model] = of_gender(model, data, offline=offline)
        before, after = bases[model], of_gender(name, data, offline=offline)
        every = Group("", before["domain"] == "gender")
        items = [(every, stereoset.ss()), (every, stereoset.lms())]
        ss, lms = compare(items, after, before, before["subject"], benchmark="stereoset", resamples=resamples)
        value = float(stereoset.ss().value(before, every.mask[None, :].astype(float))[0])
        found.append((model, recipe, value, ss, lms))
        print(f"{name}: {with_ends(ss)}")
    # One correction for the whole page: a reader looks at all rows.
    of_ss = corrected([ss for _, _, _, ss, _ in found])
    return [Row(model, recipe, value, ss, lms) for (model, recipe, value, _, lms), ss in zip(found, of_ss, strict=True)]


def page(rows: list[Row]) -> str:
    """The text of the page."""
    header = ("model", "recipe", "SS before", "change of SS", "verdict", "p, Holm", "change of LMS", "LMS")
    nearer = [row for row in rows if row.verdicts[0] == "nearer"]
    free = [row for row in nearer if row.verdicts[1] == "kept"]
    counts = (
        f"Of {len(rows)} runs {len(nearer)} came nearer to 50 after the correction, {len(free)} of them with language "
        f"ability kept; {sum(row.verdicts[1] == 'lost' for row in rows)} lost language ability."
    )
    text = _TEMPLATE.read_text(encoding="utf-8")
    return text.replace("<!-- counts -->", counts).replace("<!-- table -->", table(header, [row.cells for row in rows]))


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("output"))
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--offline", action="store_true")
    options = parser.parse_args()
    put(PAGE, page(rows_of(options.data, options.resamples, offline=options.offline)).encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
