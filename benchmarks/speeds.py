"""The table and the plot of the speeds of scoring: ``python -m benchmarks.speeds`` writes both.

They are made from ``scoring.json``, ``scoring_one_thread.json`` (:mod:`benchmarks.scoring`) and ``served.json``
(:mod:`benchmarks.served`). The table is in ``benchmarks/README.md``; the plot is ``benchmarks/speeds.png``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cards.common.draw import DOTTED, PALETTE, canvas, image, styled, titled
from cards.common.files import put

HERE = Path(__file__).parent
PAGE, PLOT = HERE / "README.md", HERE / "speeds.png"
#: Where the page has the table: between these lines.
BEGIN, END = "<!-- speeds -->", "<!-- end of speeds -->"
ROWS = ", 60 rows of each file"
#: What the other sides are called.
SIDES = {
    "one_by_one": "single sequences",
    "padded": "padded loop",
    "lm_eval": "lm-evaluation-harness",
    "lm_eval_served": "lm-evaluation-harness, same server",
}


@dataclass(frozen=True, slots=True)
class Speed:
    """How many times as fast as another side this package is; the limit and the goal where there is one."""

    network: str
    benchmark: str
    side: str
    ratio: float
    processor: float | None
    limit: float | None
    goal: float | None


def speeds() -> Iterator[Speed]:
    """The speeds of all files."""
    yield from _local("scoring.json", "two threads")
    yield from _local("scoring_one_thread.json", f"one thread{ROWS}")
    served = _stored("served.json")
    for benchmark, one in served["benchmarks"].items():
        ratio = one["sides"]["lm_eval_served"]["served_is_faster_by"]
        yield Speed("shape of GPT-2, vLLM on a CPU", benchmark, SIDES["lm_eval_served"], ratio, None, None, None)


def _local(name: str, threads: str) -> Iterator[Speed]:
    for kind, one in _stored(name)["models"].items():
        network = one["model"] if kind == "small" else "shape of GPT-2"
        for benchmark, result in one["benchmarks"].items():
            for side, numbers in result["sides"].items():
                if side in SIDES:
                    limits = (numbers["cpu_ratio"], numbers["limit"], numbers["goal"])
                    yield Speed(f"{network}, {threads}", benchmark, SIDES[side], numbers["ratio"], *limits)


def _stored(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def table() -> str:
    """The speeds as a table in Markdown."""
    lines = [
        "| network | benchmark | beside | times as fast | in processor time | limit | goal |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for one in speeds():
        numbers = [_number(value) for value in (one.ratio, one.processor, one.limit, one.goal)]
        lines.append(f"| {' | '.join([one.network, one.benchmark, one.side, *numbers])} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    """A ratio with three digits.

    >>> _number(28.9), _number(1.0), _number(20), _number(None)
    ('28.9', '1', '20', '–')
    """
    return "–" if value is None else f"{value:.3g}"


def with_table(text: str) -> str:
    """A page with its table replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def plot(path: Path = PLOT) -> None:
    """Draws how many times as fast as the harness the package is, with the limits."""
    rows = [one for one in speeds() if one.side.startswith("lm-evaluation-harness")]
    with styled(**{"font.size": 11}):
        figure = canvas(9.0, 0.32 * len(rows) + 1.2)
        axes = figure.subplots()
        for place, one in enumerate(rows):
            # A bar begins at 1, where both are equally fast.
            axes.barh(place, one.ratio - 1, left=1, color=PALETTE["line-2"], height=0.6)
            if one.limit is not None:
                axes.plot([one.limit] * 2, [place - 0.38, place + 0.38], color=PALETTE["ink"], linewidth=2)
        axes.axvline(1, color=PALETTE["soft"], linestyle=DOTTED)
        axes.set_yticks(range(len(rows)), [f"{one.network.removesuffix(ROWS)}: {one.benchmark}" for one in rows])
        axes.set(xscale="log", xlim=(0.7, 40), ylim=(len(rows) - 0.4, -0.6))
        axes.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axes.minorticks_off()
        titled(axes, "", "times as fast as the harness; black: limit")
        put(path, image(figure, "png"))


def main() -> None:
    """Writes the table and the plot."""
    put(PAGE, with_table(PAGE.read_text(encoding="utf-8")).encode())
    plot()


if __name__ == "__main__":
    main()
