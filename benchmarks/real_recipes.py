"""What recipes did to real models, as a table: ``python -m benchmarks.real_recipes FOLDER…`` (docs/recipes.md).

A folder is what ``probes mitigate RECIPE MODEL --out FOLDER`` wrote; its facts have all changes with their intervals.
The rows are written into ``results/real_recipes.json`` and printed as Markdown. ``gone`` is the share of the stereotype
that is gone, ``worst`` the kind of stated gender of which the least is left. A kind counts if its lean before is above
0 beyond chance.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS
from cards.common.files import put
from cards.common.numbers import with_interval
from mitigation.running.outcome import NAME, outcome
from scoring.adapters.facts import read
from scoring.benchmarks.stated_gender import KINDS

RESULT = RESULTS / "real_recipes.json"
HEAD = (
    "| model | recipe | seed | stereotype, nats | gone, % | worst kind | it keeps, % | perplexity, % | s | verdict |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | ---: | --- |"
)


def row(folder: Path) -> dict[str, Any]:
    """What a recipe did: its numbers with intervals, and whether it meets the conditions of a recommendation."""
    adapter = read(folder)
    changes = {(change.benchmark, change.group, change.metric): change for change in reversed(adapter.changes)}
    stereotype = changes[NAME, "stereotype", "lean"]
    before = stereotype.before[0]
    value, low, high = stereotype.difference
    gone = [100 * -bound / before for bound in (value, high, low)]
    kept = {}
    for kind in KINDS:
        if (NAME, kind, "kept") in changes and changes[NAME, kind, "stated_lean"].before[1] > 0:
            kept[kind] = changes[NAME, kind, "kept"].after
    worst = min(kept, key=lambda kind: kept[kind][0])
    perplexity = changes["text", "held-out texts", "perplexity"]
    rise = [100 * bound / perplexity.before[0] for bound in perplexity.difference]
    judged = outcome(adapter.changes)
    return {
        "model": Path(adapter.base).name,
        "recipe": adapter.recipe,
        "settings": dict(adapter.settings),
        "stereotype": [before, stereotype.after[0]],
        "gone": gone,
        "worst": worst,
        "kept": kept,
        "perplexity": rise,
        "seconds": adapter.cost.seconds,
        "verdict": judged.verdict if judged else "",
        "recommended": gone[1] >= 200 / 3 and kept[worst][0] >= 90 and rise[0] <= 1 and adapter.cost.seconds <= 900,
    }


def line(facts: dict[str, Any]) -> str:
    """A row of the table in Markdown."""
    before, after = facts["stereotype"]
    recipe = facts["recipe"]
    seed = str(facts["settings"].get("seed", ""))
    cells = [facts["model"], f"[{recipe}](#{recipe})", seed, f"{before:.2f} → {after:.2f}"]
    cells += [with_interval(facts["gone"], ".0f"), facts["worst"], with_interval(facts["kept"][facts["worst"]], ".0f")]
    cells += [with_interval(facts["perplexity"], "+.1f"), f"{facts['seconds']:.0f}", facts["verdict"]]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    rows = [row(Path(folder)) for folder in sys.argv[1:]]
    put(RESULT, (json.dumps(rows, indent=1) + "\n").encode())
    sys.stdout.write("\n".join([HEAD, *map(line, rows)]) + "\n")
