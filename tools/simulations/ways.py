"""Real rows in all wordings and ways: ``python -m tools.simulations.ways DATA MODEL…``.

It scores, and writes ``ways.json``. DATA is a folder of built data sets with ``biaske``, ``unstereo``, ``occugender``
and ``gender-neutral-probes``. Each model is scored on so many rows of each split (``--limit``); runs are kept below
``--out`` and go on where they stopped. ``--table`` prints the tables of docs/ways-measured.md from ``ways.json`` alone.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import scoring
from scoring import benchmarks
from scoring.asking import wordings
from scoring.types import Estimate, ScoringError

#: The groups whose numbers are kept.
GROUPS = {
    "stereoset": ("intrasentence test", "intersentence validation"),
    "crows_pairs": ("all",),
    "unstereo": ("ours-5",),
    "biaske": ("winobias",),
    "neutral": ("templates",),
    "occugender": ("explicit", "implicit"),
}
METRICS = {"stereoset": "ss", "crows_pairs": "ss", "unstereo": "pref_disparity@0.5", "biaske": "ss"}
METRICS |= {"neutral": "gas_female", "occugender": "gender_gap"}
#: More ways than likelihood; a choice between three sentences has 120 questions in ten wordings.
WAYS = {"crows_pairs": "likelihood,choice", "neutral": "likelihood,text"}
DOMAINS = ("gender", "race", "religion")


def kept(estimates: dict[tuple[str, str, str], Estimate], name: str, group: str, metrics: list[str]) -> dict[str, Any]:
    """Value, both ends of the interval, and the numbers of examples and clusters, by metric."""
    scores = {metric: estimates.get((name, group, metric)) for metric in metrics}
    return {m: [e.value, e.low, e.high, e.n, e.clusters] for m, e in scores.items() if e}


def of_run(model: str, benchmark: str, data: str, out: Path, limit: int, resamples: int) -> list[dict[str, Any]]:
    """What is kept of the run of a model on a benchmark; nothing where it does not suit the model."""
    result = None
    for ways in (WAYS.get(benchmark, "likelihood"), "likelihood"):  # a masked model has likelihood alone
        try:
            result = scoring.evaluate(
                model,
                benchmarks=benchmark,
                data=data,
                ways=ways,
                wordings="all",
                limit=limit,
                resamples=resamples,
                out=out / f"{Path(model).name}-{benchmark}-{limit}",
            )
            break
        except ScoringError as error:
            print(model, benchmark, ways, error, flush=True)
    if result is None:
        return []
    by_key, metric, lines = result.report.by_key, METRICS[benchmark], []
    for name, group in product(result.report.benchmarks, GROUPS[benchmark]):
        way = name.removeprefix(benchmark).lstrip("-")
        metrics = [m.name for m in benchmarks.get(name).metrics("clean")]
        metrics = metrics if way.endswith(("ways", "wordings")) else [metric]
        about = {"model": Path(model).name, "benchmark": benchmark, "way": way or "likelihood", "limit": limit}
        each = [kept(by_key, name, f"{group}, {wording}", [metric]).get(metric) for wording in wordings.NAMES]
        for place in (group, *(f"{group} {domain}" for domain in DOMAINS)):
            if scores := kept(by_key, name, place, metrics):
                more = {"each": each} if way.endswith("wordings") and place == group else {}
                lines.append(about | {"group": place, "scores": scores} | more)
    return lines


def number(value: float, places: int) -> str:
    """A number as the tables have it."""
    return f"{value:.{places}f}".replace("-", "−") if value == value else "–"


def cell(score: list[float] | None, places: int = 1) -> str:
    """A value with its interval."""
    if not score:
        return ""
    value, low, high, *_ = (number(x, places) for x in score)
    return f"{value} [{low}, {high}]" if "–" not in (low, high) else value


def tables(lines: list[dict[str, Any]]) -> str:
    """The tables of the page: scores over wordings, components, and domains by ways."""
    plain = {(x["model"], x["benchmark"], x["group"]): x for x in lines if x["way"] == "likelihood"}
    shown = (
        "| model | items | plain | over wordings | lowest, highest | items, % | wordings, % | rest, % | k for .8 |\n"
    )
    shown += "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    for line in lines:
        if "each" not in line:
            continue
        metric, scores = METRICS[line["benchmark"]], line["scores"]
        each = [one[0] for one in line["each"] if one]
        way = line["way"].removesuffix("wordings").rstrip("-")
        key = (line["model"], line["benchmark"], line["group"])
        before = "" if way else cell(plain.get(key, {}).get("scores", {}).get(metric))
        shares = [cell(scores.get(f"share_{part}"), 0) for part in ("items", "wordings", "items_wordings")]
        needed = cell(scores.get("wordings_for_80"), 0).partition(" ")[0]
        name = f"{line['benchmark']} {line['group']}{f' ({way})' if way else ''}, {metric}"
        ends = f"{number(min(each), 1)}, {number(max(each), 1)}" if each else ""
        row = [line["model"], name, before, cell(scores.get(metric)), ends, *shares, needed]
        shown += f"| {' | '.join(row)} |\n"
    return shown


def main() -> None:
    """Scores the models and writes their numbers."""
    parser = argparse.ArgumentParser(description="Real rows in all wordings and ways.")
    parser.add_argument("data", nargs="?", help="a folder of built data sets")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("runs/ways"))
    parser.add_argument("--benchmarks", default=",".join(GROUPS))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    path = Path(__file__).with_suffix(".json")
    results = json.loads(path.read_text()) if path.exists() else {}
    for benchmark, model in product(arguments.benchmarks.split(","), arguments.models):
        key = f"{Path(model).name} {benchmark}"
        lines = of_run(model, benchmark, arguments.data, arguments.out, arguments.limit, arguments.resamples)
        results |= {key: lines} if lines else {}
        path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in results.items()) + "\n}\n")
        print(key, len(lines), flush=True)
    if arguments.table:
        print(tables([line for lines in results.values() for line in lines]))


if __name__ == "__main__":
    main()
