"""The page ``docs/recipes-real.md``: ``python -m tools.real_models.recipes [--data output]``.

What recipes did to GPT-2, Phi-2 and Llama-2-7B on the sentences about gender of StereoSet, from scores of sentences
that others published (:mod:`scoring.responses.stereoset_test`), and what prompts and a fine-tuning did to Llama-8B on
BBQ (:mod:`scoring.responses.bbq_debiased`). Each model after a recipe is compared with the model itself over the same
examples, in pairs; terms and templates are the clusters. All comparisons of a table are corrected together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cards.common.files import put
from cards.common.numbers import minus
from cards.common.verdict import ability_verdict, verdict
from scoring import published
from scoring.metrics import bbq, stereoset
from scoring.statistics.stats import RESAMPLES, compare, corrected
from scoring.types import Difference, Group, Table
from tools.docs.pages import ROOT, table

SOURCE = "stereoset-test"
QUESTIONS = "bbq-debiased"
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
        change, cost = with_ends(self.ss), with_ends(self.lms)
        return self.model, shown, f"{self.before:.1f}", change, of_ss, shown_p(self.ss), cost, of_lms


def shown_p(difference: Difference) -> str:
    """The corrected p in three decimals."""
    if difference.p_holm < 0.0005:
        return "< 0.001"
    return f"{difference.p_holm:.3f}"


def with_ends(difference: Difference, scale: float = 1) -> str:
    """A difference with its 95 % interval; a ``scale`` of 100 gives points of a share."""
    value, low, high = (scale * number for number in difference.numbers)
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
    # One correction for the whole table: a reader looks at all rows.
    of_ss = corrected([ss for _, _, _, ss, _ in found])
    return [Row(model, recipe, value, ss, lms) for (model, recipe, value, _, lms), ss in zip(found, of_ss, strict=True)]


def questions(data: Path, resamples: int, *, offline: bool) -> list[tuple[str, ...]]:
    """The rows of the table of BBQ: the model under each prompt and after its fine-tuning, less the model itself."""
    base = published.models(QUESTIONS)[0]
    before = published.score(QUESTIONS, base, data, resamples=2, offline=offline).tables["bbq"]
    open_questions = Group("ambiguous", before["condition"] == "ambiguous")
    answered = Group("disambiguated", before["condition"] == "disambiguated")
    items = [(open_questions, bbq.bias_score()), (open_questions, bbq.accuracy()), (answered, bbq.accuracy())]
    found: list[tuple[str, Sequence[Difference]]] = []
    for name in published.models(QUESTIONS)[1:]:
        after = published.score(QUESTIONS, name, data, resamples=2, offline=offline).tables["bbq"]
        changes = compare(items, after, before, before["template"], benchmark="bbq", resamples=resamples)
        found.append((name.partition("/")[2], changes))
    biases = corrected([changes[0] for _, changes in found])
    values = [100 * float(metric.value(before, group.mask[None, :].astype(float))[0]) for group, metric in items]
    rows: list[tuple[str, ...]] = [("none", *(f"{value:.1f}" for value in values), "–", "–")]
    for (name, (_, *accuracies)), bias in zip(found, biases, strict=True):
        said = verdict(values[0] / 100, bias.numbers, bias.ideal, bias.p_holm, bias.p_direction)
        cells = [with_ends(change, 100) for change in (bias, *accuracies)]
        lost = {ability_verdict(change.numbers, 1) for change in accuracies}
        # The worse of both kinds of questions.
        ability = next(word for word in ("lost", "unclear", "kept") if word in lost)
        # The one training is named as the recipe of ours, and all others are prompts.
        setting = name.removeprefix("fine_tuning-")
        recipe = "prompts" if setting == name else "fine_tuning"
        shown = f"[{recipe}](recipes.md#{recipe}) {setting.replace('-', ', ')}"
        rows.append((shown, *cells, f"{said}, {shown_p(bias)}", ability))
    return rows


def page(rows: list[Row], of_questions: list[tuple[str, ...]]) -> str:
    """The text of the page."""
    header = ("model", "recipe", "SS before", "change of SS", "verdict", "p, Holm", "change of LMS", "LMS")
    nearer = [row for row in rows if row.verdicts[0] == "nearer"]
    free = [row for row in nearer if row.verdicts[1] == "kept"]
    counts = (
        f"Of {len(rows)} runs {len(nearer)} came nearer to 50 after the correction, {len(free)} of them with language "
        f"ability kept; {sum(row.verdicts[1] == 'lost' for row in rows)} lost language ability."
    )
    heads = ("prompt or training", "lean, open", "right, open", "right, answered", "verdict, p", "right answers")
    text = _TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("<!-- counts -->", counts).replace("<!-- table -->", table(header, [row.cells for row in rows]))
    return text.replace("<!-- questions -->", table(heads, of_questions))


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("output"))
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--offline", action="store_true")
    options = parser.parse_args()
    rows = rows_of(options.data, options.resamples, offline=options.offline)
    put(PAGE, page(rows, questions(options.data, options.resamples, offline=options.offline)).encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
