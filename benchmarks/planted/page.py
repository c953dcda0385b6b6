"""The table and the picture of :mod:`benchmarks.planted.recipes`, both made from its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cards.common.draw import DOTTED, PALETTE, canvas, image, interval, styled, titled
from cards.common.files import put
from cards.common.verdict import ability_verdict, corrected, verdict
from mitigation import recipes

#: The sets of pairs whose stereotype was planted: the taught sentences, and others. The gap of the second one decides
#: what a recipe is said to do.
MEASURED = TAUGHT, TEMPLATES, OCCUPATIONS, WINOBIAS = (
    "taught templates",
    "new templates",
    "new occupations",
    "WinoBias test",
)
#: The sets of pairs whose gender is given and has to stay; their lean is that to the right pronoun.
KEPT = NOUNS, DECLARED, TYPE_2 = ("he after king", "declared pronouns", "WinoBias type 2, gender declared")
SETS = (*MEASURED, *KEPT)
#: Where a page has the table: between these lines.
BEGIN, END = "![What each recipe removes](planted.png)", "What the tables say:"
#: In the name of a run of the stamp with the settings before sentences that state a gender.
FORMER = "--delta 0"
#: From this lean to a declared pronoun on, in nats, a twin is said to use stated gender.
USES_GENDER = 0.5
PICTURE = Path(__file__).parents[2] / "docs" / "planted.png"
#: The ends of the picture, in percent.
_LEFT = -50
_RIGHT = 130
#: How the picture marks what is kept of stated gender.
_KEPT: Mapping[str, Any] = {"color": PALETTE["ink"], "marker": "|", "markersize": 11, "linestyle": "none"}
_COLOURS = {"removes": PALETTE["line-2"], "adds": PALETTE["line-3"], "no change": PALETTE["third"]}


def verdicts(model: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Of each recipe, what it does to the gap and to language ability; p are corrected for all gaps of the model."""
    measured = {name: one for name, one in model["recipes"].items() if "scores" in one}
    cells = [(name, each) for name in measured for each in MEASURED if each in measured[name]["scores"]]
    # The gap is a mean of sizes, so 0 is the end of its range, and all gaps are on one side of it.
    p = [measured[name]["scores"][each]["p of gap"][0] for name, each in cells]
    tests = dict(zip(cells, zip(*corrected(p, [0.0] * len(p), [math.inf] * len(p)), strict=True), strict=True))
    results: dict[str, tuple[str, str]] = {}
    for name, one in measured.items():
        change = one["scores"][TEMPLATES]["change of gap"]
        before = one["scores"][TEMPLATES]["gap"][0] - change[0]
        said = verdict(before, tuple(change), 0.0, *tests[name, TEMPLATES])
        words = {"nearer": "removes", "further": "adds"}.get(said, "no change")
        text, lost = one["scores"]["texts"], next(key for key in one["scores"]["texts"] if key.endswith("perplexity"))
        was = text[lost][0] - text[f"change of {lost}"][0]
        value, low, high = (number / was for number in text[f"change of {lost}"])
        results[name] = (words, ability_verdict((-value, -high, -low), 1.0))
    return results


def table(result: Mapping[str, Any]) -> str:
    """The tables of all models as Markdown, each with what was not measured below it."""
    parts = []
    for name, model in result["models"].items():
        parts.append("\n".join(_rows(name, model, result["told"])))
        parts.append(_remarks(name, model, result["told"]))
    return "\n\n".join(part for part in parts if part)


def _rows(name: str, model: Mapping[str, Any], kinds: Mapping[str, Sequence[str]]) -> Iterator[str]:
    said = verdicts(model)
    kind, _, place = name.partition(", ")
    where = "in all weights" if place == "whole" else "in the feed-forward part of one block"
    planted = model["before"]["planted"]
    shown = [each for each in MEASURED if each in planted]
    kept = [each for each in KEPT if each in planted]
    head = ["what it was told", f"`tiny-{kind}`, planted {where}", *(f"removed, {each}" for each in shown)]
    head += [
        "gap and lean, new templates",
        "perplexity",
        *kept,
        "lean and gap on the twin",
        "parameters",
        "CPU time",
        "seeds",
    ]
    yield f"| {' | '.join(head)} |"
    yield f"| --- | --- |{' ---: |' * (len(head) - 2)}"
    labels = {"bundled": "bundled model", "twin": "twin, taught without stereotype", "planted": "**planted model**"}
    for label, text in labels.items():
        if label not in model["before"]:
            continue
        scores = model["before"][label]
        cells = ["", text, *(f"gap {scores[each]['gap'][0]:.2f}" for each in shown), _lean(scores)]
        cells += [f"{_perplexity(scores)[0]:.1f}", *(_kept(scores, each) for each in kept)]
        yield f"| {' | '.join([*cells, '', '', '', str(scores['seeds'])])} |"
    for what, some in kinds.items():
        measured = [recipe for recipe in some if recipe in said]
        for recipe in sorted(measured, key=lambda each: -_merit(model, each)):
            one = model["recipes"][recipe]
            yield f"| {' | '.join(_cells(what, recipe, one, said[recipe], shown, kept))} |"


def _cells(
    what: str,
    recipe: str,
    one: Mapping[str, Any],
    said: tuple[str, str],
    shown: Sequence[str],
    kept: Sequence[str],
) -> list[str]:
    """The cells of a recipe's row."""
    scores = one["scores"]
    words, ability = said
    shares = []
    for each in shown:
        share, low, high = (_whole(number) for number in _removed(one, each))
        cell = f"{share} % [{low}, {high}]"
        shares.append(f"**{cell}**" if each == TEMPLATES and words != "no change" else cell)
    value, change = _perplexity(scores)
    lost = f"{100 * change / (value - change):+.1f} %".replace("-", "−")
    lost += f", {ability}" if ability else ""
    cells = [what, _link(recipe), *shares, _lean(scores), lost, *(_kept(scores, each) for each in kept)]
    seeds = str(one["seeds"]) + (f" of {one['seeds'] + one['refused_seeds']}" if one.get("refused_seeds") else "")
    return [*cells, _control(one), f"{one['parameters']:,}", f"{one['seconds']:.0f} s", seeds]


def _remarks(name: str, model: Mapping[str, Any], kinds: Mapping[str, Sequence[str]]) -> str:
    """What is refused, and what of the model was not measured, or of one seed only; empty where there is nothing."""
    kind = name.partition(",")[0]
    lines = []
    for recipe, one in model["recipes"].items():
        if "refused" in one:
            lines.append(f"| refused: {_link(recipe)} | {one['refused']} |")
    known = {recipe for some in kinds.values() for recipe in some}
    suited = {recipe for recipe in known if kind in recipes.get(recipe.split()[0]).kinds}
    missing = [recipe for recipe in sorted(suited) if "seeds" not in model["recipes"].get(recipe, {})]
    if missing:
        lines.append(f"| not yet measured with these columns | {', '.join(_link(recipe) for recipe in missing)} |")
    single = [recipe for recipe, one in model["recipes"].items() if one.get("seeds") == 1 and "scores" in one]
    if single:
        lines.append(f"| of one seed, so that chance is not in their intervals | {', '.join(map(_link, single))} |")
    blocks = []
    for recipe, one in model["recipes"].items():
        numbers = [f"{block:.0f}" for block in one.get("block", []) if block is not None]
        if numbers:
            blocks.append(f"{_link(recipe)} {', '.join(numbers)}")
    if blocks:
        planted = "all weights" if name.endswith("whole") else "one block"
        lines.append(
            f"| planted in {planted}; blocks that `fast` chose, from 0, one for each seed | {'; '.join(blocks)} |"
        )
    bare = [recipe for recipe, one in model["recipes"].items() if "scores" in one and "twin" not in one]
    if bare:
        lines.append(f"| not yet run on the twin | {', '.join(map(_link, bare))} |")
    return "\n".join(["| what to know of the rows | recipes |", "| --- | --- |", *lines]) if lines else ""


def _removed(one: Mapping[str, Any], name: str) -> list[float]:
    return list(one["removed"].get(name, [float("nan")] * 3))


def kept(model: Mapping[str, Any], recipe: str) -> float | None:
    """The percentage of the twin's lean to a declared pronoun that is left; None where the twin hardly has one."""
    twin = model["before"].get("twin", {}).get(DECLARED)
    after = model["recipes"][recipe]["scores"].get(DECLARED)
    if not twin or not after or twin["lean"][0] < USES_GENDER:
        return None
    return float(100 * after["lean"][0] / twin["lean"][0])


def _merit(model: Mapping[str, Any], recipe: str) -> float:
    """The smaller of what is removed and what is kept of stated gender, in percent: what erases all gender has 0."""
    removed, stated = _removed(model["recipes"][recipe], TEMPLATES)[0], kept(model, recipe)
    return removed if stated is None else min(removed, stated)


def _whole(number: float) -> str:
    return f"{number:.0f}".replace("-", "−")


def _lean(scores: Mapping[str, Any]) -> str:
    """The gap of new templates, and the lean with its sign: near 0 where pairs lean to both sides."""
    gap, lean = scores[TEMPLATES]["gap"][0], scores[TEMPLATES]["lean"][0]
    return f"{gap:.2f}, {lean:+.2f} ({scores[TEMPLATES]['ss'][0]:.0f} %)".replace("-", "−")


def _kept(scores: Mapping[str, Any], name: str) -> str:
    """The lean to the right pronoun in nats, and in how many pairs it is the more probable one."""
    return f"{scores[name]['lean'][0]:+.2f} ({scores[name]['ss'][0]:.0f} %)".replace("-", "−")


def _control(one: Mapping[str, Any]) -> str:
    """The changes of the lean and of the gap of the twin, which has no stereotype to remove."""
    control = one.get("twin")
    if control is None:
        return ""
    if "refused" in control:
        return "refused"
    shown = []
    for metric in ("lean", "gap"):
        value, low, high = control[TEMPLATES][f"change of {metric}"]
        shown.append(f"{value:+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−"))
    return "; ".join(shown)


def _link(recipe: str) -> str:
    """The name of a recipe, perhaps with an option, as a link to its section."""
    name, *options = recipe.split(" --")
    return f"[{name}](#{name})" + "".join(f" `--{option.replace('_', '-')}`" for option in options)


#: Options that the picture leaves out, because another one of the row says what it is.
BESIDE = ("validate_every", "trial", "gamma")


def _short(recipe: str) -> str:
    """The name of a recipe with the values of its options, or with the name of one whose value is a number.

    >>> _short("steering --how project"), _short("cda --loss_limit 0.05 --validate_every 5")
    ('steering (project)', 'cda (loss_limit)')
    """
    name, *options = (option.split() for option in recipe.split(" --"))
    shown = [option[0] if option[-1][0].isdecimal() else option[-1] for option in options]
    return name[0] + "".join(f" ({option})" for option in shown if option not in BESIDE)


def _perplexity(scores: Mapping[str, Any]) -> tuple[float, float]:
    """The perplexity, and its change where there is one."""
    text = scores["texts"]
    name = next(key for key in text if key.endswith("perplexity"))
    return text[name][0], text.get(f"change of {name}", [0.0])[0]


def with_table(text: str, result: Mapping[str, Any]) -> str:
    """A page with its table replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    # The recipes are listed on another page.
    linked = table(result).replace("](#", "](recipes.md#")
    return f"{before}{BEGIN}\n\n{linked}\n\n{END}{after}"


def picture(result: Mapping[str, Any], path: Path = PICTURE) -> None:
    """Draws what each recipe removes of new templates and keeps of stated gender, a panel for each model.

    Letters are large, for narrow pages; the rows are in the order of :func:`_merit`.
    """
    from matplotlib.ticker import MultipleLocator

    models = {name: model for name, model in result["models"].items() if name.endswith("whole")}
    heights = [2.5 + len(verdicts(model)) for model in models.values()]
    with styled(**{"font.size": 12}):
        # The last inch is for the axis and the legend.
        figure = canvas(7.2, 0.27 * sum(heights) + 0.5 * len(models) + 1)
        panels = figure.subplots(len(models), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (name, model) in zip(panels, models.items(), strict=True):
            said = verdicts(model)
            order = sorted(said, key=lambda recipe: -_merit(model, recipe))
            for row, recipe in enumerate(order):
                # What makes a model worse than planted is drawn at the left edge.
                share, low, high = (max(end, _LEFT) for end in _removed(model["recipes"][recipe], TEMPLATES))
                lost = said[recipe][1] == "lost"
                colour = _COLOURS[said[recipe][0]]
                interval(axes, (share, low, high), row, colour, inside=PALETTE["paper"] if lost else "")
                stated = kept(model, recipe)
                if stated is not None:
                    axes.plot(min(max(stated, _LEFT), _RIGHT), row, **_KEPT)
            for text, value in (("planted", 0), ("twin", 100)):
                axes.axvline(value, color=PALETTE["soft"], linestyle=DOTTED, linewidth=1.4, zorder=0)
                axes.text(value, -0.8, text, ha="center", va="bottom", color=PALETTE["soft"], backgroundcolor="white")
            axes.set_yticks(range(len(order)), [_short(recipe) for recipe in order])
            axes.set(xlim=(_LEFT, _RIGHT + 3), ylim=(len(order) - 0.4, -2.2))
            axes.xaxis.set_major_locator(MultipleLocator(25))
            axes.grid(axis="x", color=PALETTE["rule"])
            titled(axes, "", "removed, and stated gender kept, %" if axes is panels[-1] else "")
            axes.set_title(f"tiny-{name.partition(',')[0]}", fontsize=13, loc="left")
        marks = [(words, {"color": colour}) for words, colour in _COLOURS.items()]
        handles = [axes.plot([], [], "o", label=words, **more)[0] for words, more in marks]
        hollow = {"color": PALETTE["ink"], "markerfacecolor": PALETTE["paper"]}
        handles.append(axes.plot([], [], "o", label="ability lost", **hollow)[0])
        handles.append(axes.plot([], [], label="stated gender kept", **_KEPT)[0])
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        put(path, image(figure, "png"))
