"""The table and the picture of :mod:`benchmarks.planted_recipes`, both made from its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cards.draw import DOTTED, PALETTE, canvas, image, interval, styled, titled
from cards.files import put
from cards.verdict import ability_verdict, corrected, verdict

#: The sets of pairs; the first decides what a recipe is said to do.
SETS = TEMPLATES, OCCUPATIONS, WINOBIAS = ("new templates", "new occupations", "WinoBias test")
#: Where a page has the table: between these lines.
BEGIN, END = "![The gap that each recipe leaves](planted.png)", "What the tables say:"
PICTURE = Path(__file__).parents[1] / "docs" / "planted.png"
_COLOURS = {"removes": PALETTE["line-2"], "adds": PALETTE["line-3"], "no change": PALETTE["third"]}


def verdicts(model: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Of each recipe, what it does to the gap and to language ability; p are corrected for all gaps of the model."""
    made = {name: one for name, one in model["recipes"].items() if "scores" in one}
    cells = [(name, each) for name in made for each in SETS if each in made[name]["scores"]]
    # The gap is a mean of sizes, so 0 is the end of its range, and all gaps are on one side of it.
    p = [made[name]["scores"][each]["p of gap"][0] for name, each in cells]
    tests = dict(zip(cells, zip(*corrected(p, [0.0] * len(p), [math.inf] * len(p)), strict=True), strict=True))
    found: dict[str, tuple[str, str]] = {}
    for name, one in made.items():
        change = one["scores"][TEMPLATES]["change of gap"]
        before = one["scores"][TEMPLATES]["gap"][0] - change[0]
        share = abs(change[0]) / before
        words = {"nearer": "removes", "further": "adds"}.get(
            verdict(before, tuple(change), 0.0, *tests[name, TEMPLATES])
        )
        text, lost = one["scores"]["texts"], next(key for key in one["scores"]["texts"] if key.endswith("perplexity"))
        was = text[lost][0] - text[f"change of {lost}"][0]
        value, low, high = (number / was for number in text[f"change of {lost}"])
        ability = ability_verdict((-value, -high, -low), 1.0)
        found[name] = (f"{words} {share:.0%}" if words else "no change", ability)
    return found


def table(result: Mapping[str, Any]) -> str:
    """The tables of all models as Markdown."""
    return "\n\n".join("\n".join(_rows(name, model)) for name, model in result["models"].items())


def _rows(name: str, model: Mapping[str, Any]) -> Iterator[str]:
    said = verdicts(model)
    kind, _, place = name.partition(", ")
    where = "in all weights" if place == "whole" else "in the feed-forward part of one block"
    shown = [each for each in SETS if each in model["before"]["planted"]]
    head = [f"`tiny-{kind}`, planted {where}", "what it does", *(f"gap, {each}" for each in shown)]
    head += ["SS, new templates", "perplexity", "parameters", "CPU time", "seeds", "remark"]
    yield f"| {' | '.join(head)} |"
    yield f"| --- | --- |{' ---: |' * (len(head) - 3)} --- |"
    labels = {"bundled": "bundled model", "twin": "twin, taught without stereotype", "planted": "**planted model**"}
    for label, text in labels.items():
        if label not in model["before"]:
            continue
        scores = model["before"][label]
        cells = [text, "", *(_value(scores[each]["gap"]) for each in shown), _value(scores[TEMPLATES]["ss"], 1)]
        cells += [f"{_perplexity(scores)[0]:.1f}", "", "", str(scores["seeds"]), ""]
        yield f"| {' | '.join(cells)} |"
    order = sorted(said, key=lambda recipe: model["recipes"][recipe]["scores"][TEMPLATES]["gap"][0])
    for recipe in order:
        one = model["recipes"][recipe]
        scores = one["scores"]
        gaps = [f"{scores[each]['gap'][0]:.2f} ({_value(scores[each]['change of gap'], sign=True)})" for each in shown]
        value, change = _perplexity(scores)
        words, ability = said[recipe]
        cost = [f"{one['parameters']:,}", f"{one['seconds']:.0f} s", str(one["seeds"])]
        shorter = ", ".join(f"{key} {value}" for key, value in one["shorter"].items())
        does = f"**{words}**" if words != "no change" else words
        does += f", ability {ability}" if ability else ""
        cells = [_link(recipe), does, *gaps, f"{scores[TEMPLATES]['ss'][0]:.1f}"]
        lost = f"{100 * change / (value - change):+.1f} %".replace("-", "−")
        yield f"| {' | '.join([*cells, lost, *cost, shorter])} |"
    for recipe, one in model["recipes"].items():
        if "refused" in one:
            yield f"| {_link(recipe)} | refused | {' | '.join([''] * (len(head) - 3))} | {one['refused']} |"


def _link(recipe: str) -> str:
    """The name of a recipe, perhaps with an option, as a link to its section."""
    name, *options = recipe.split(" --")
    return f"[{name}](#{name})" + "".join(f" `--{option}`" for option in options)


def _short(recipe: str) -> str:
    """The name of a recipe with the values of its options, or with the name of one whose value is a number.

    >>> _short("sentence_debias --reads predictions"), _short("cda --loss_limit 0.05 --validate_every 5")
    ('sentence_debias (predictions)', 'cda (loss_limit)')
    """
    name, *options = (option.split() for option in recipe.split(" --"))
    shown = [option[0] if option[-1][0].isdecimal() else option[-1] for option in options]
    return name[0] + "".join(f" ({option})" for option in shown if option != "validate_every")


def _value(numbers: list[float], digits: int = 2, *, sign: bool = False) -> str:
    value, low, high = (f"{number:{'+' if sign else ''}.{digits}f}".replace("-", "−") for number in numbers)
    return f"{value} [{low}, {high}]"


def _perplexity(scores: Mapping[str, Any]) -> tuple[float, float]:
    """The perplexity, and its change where there is one."""
    text = scores["texts"]
    name = next(key for key in text if key.endswith("perplexity"))
    return text[name][0], text.get(f"change of {name}", [0.0])[0]


def with_table(text: str, result: Mapping[str, Any]) -> str:
    """A page with its table replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table(result)}\n\n{END}{after}"


def picture(result: Mapping[str, Any], path: Path = PICTURE) -> None:
    """Draws the gap that each recipe leaves, a panel for each model; large letters, for narrow pages."""
    from matplotlib.ticker import MultipleLocator

    models = {name: model for name, model in result["models"].items() if name.endswith("whole")}
    heights = [2.5 + len(verdicts(model)) for model in models.values()]
    with styled(**{"font.size": 12}):
        figure = canvas(6.6, 0.27 * sum(heights) + 0.5 * len(models))
        panels = figure.subplots(len(models), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (name, model) in zip(panels, models.items(), strict=True):
            said = verdicts(model)
            order = sorted(said, key=lambda recipe: model["recipes"][recipe]["scores"][TEMPLATES]["gap"][0])
            for row, recipe in enumerate(order):
                score = model["recipes"][recipe]["scores"][TEMPLATES]["gap"]
                colour = _COLOURS[" ".join(said[recipe][0].split()[: 2 if said[recipe][0] == "no change" else 1])]
                lost = said[recipe][1] == "lost"
                interval(axes, tuple(score), row, colour, inside=PALETTE["paper"] if lost else "")
            for text in ("planted", "twin"):
                if text not in model["before"]:
                    continue
                value = model["before"][text][TEMPLATES]["gap"][0]
                axes.axvline(value, color=PALETTE["soft"], linestyle=DOTTED, linewidth=1.4, zorder=0)
                axes.text(value, -0.8, text, ha="center", va="bottom", color=PALETTE["soft"], backgroundcolor="white")
            axes.set_yticks(range(len(order)), [_short(recipe) for recipe in order])
            axes.set(xlim=(0, None), ylim=(len(order) - 0.4, -2.2))
            axes.xaxis.set_major_locator(MultipleLocator(1))
            axes.grid(axis="x", color=PALETTE["rule"])
            titled(axes, "", "gap that is left, nats" if axes is panels[-1] else "")
            axes.set_title(f"tiny-{name.partition(',')[0]}", fontsize=13, loc="left")
        marks = [(words, {"color": colour}) for words, colour in _COLOURS.items()]
        handles = [axes.plot([], [], "o", label=words, **more)[0] for words, more in marks]
        hollow = {"color": PALETTE["ink"], "markerfacecolor": PALETTE["paper"]}
        handles.append(axes.plot([], [], "o", label="ability lost", **hollow)[0])
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        put(path, image(figure, "png"))
