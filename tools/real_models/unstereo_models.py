"""The page ``docs/unstereo-models.md``: ``python -m tools.real_models.unstereo_models [--data output]``.

Re-scores the published responses of 28 language models to UnStereoEval and of nine models to StereoSet (pinned; read
from the mirror ``PROBES_MIRROR`` or downloaded, 170 MB and 15 MB), and writes the page with its figure. The sentences
of the page state counts that are computed here. ``--resamples`` is for trials.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from cards.common.files import put
from cards.common.verdict import holm, p_of, standings
from scoring import published
from scoring.asking.result import RunResult
from scoring.metrics import fairness, stereoset
from scoring.statistics.intervals import of_rank_correlation
from scoring.statistics.stats import RESAMPLES, compare, corrected
from scoring.types import Difference, Group, Metric, Table
from tools.docs.pages import ROOT, table
from tools.real_models.findings import family

SETS = ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
PAGE, FIGURE = ROOT / "docs" / "unstereo-models.md", ROOT / "docs" / "models" / "tau.svg"
Scores = Mapping[str, Mapping[tuple[str, str], Mapping[str, float]]]
Examples = Mapping[str, pd.DataFrame]


def scores_of(run: RunResult) -> dict[tuple[str, str], dict[str, float]]:
    """Value, interval and number of clusters of each score of a run, by group and metric."""
    scores = {}
    for e in run.report.estimates:
        scores[e.group, e.metric] = {"value": e.value, "low": e.low, "high": e.high, "clusters": e.clusters}
    return scores


def beyond(scores: Scores, group: str, metric: str, value: float) -> tuple[int, int]:
    """How many models are below a value, and how many above it, with Holm's correction over the models."""
    parts = [row[group, metric] for row in scores.values()]
    words = standings([((e["value"], e["low"], e["high"]), value, math.nan, e["clusters"]) for e in parts])
    return words.count("below"), words.count("above")


def number(score: Mapping[str, Any], digits: int = 1) -> str:
    """A value with its interval: ``39.8 [38.0, 41.6]``."""
    low, value, high = (f"{score[name]:.{digits}f}".replace("-", "−") for name in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"


def pairs(examples: Mapping[str, Table], clusters: NDArray[Any], metric: Metric) -> list[tuple[str, str, Difference]]:
    """Every pair of models with the paired difference of a metric; p corrected by Holm's method over all pairs."""
    everything = Group("", np.ones(len(clusters), bool))
    names = list(combinations(examples, 2))
    differences = [
        compare([(everything, metric)], examples[a], examples[b], clusters, resamples=2)[0] for a, b in names
    ]
    return [(a, b, difference) for (a, b), difference in zip(names, corrected(differences), strict=True)]


def that_differ(differences: Sequence[tuple[str, str, Difference]]) -> list[tuple[str, str]]:
    """The pairs whose difference has p below 0.05 after the correction."""
    return [(a, b) for a, b, difference in differences if difference.p_holm < 0.05]


def of_set(frame: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """The rows of a set that are not judged unnatural."""
    return frame[(frame["dataset"] == dataset) & (frame["natural"] != False)]  # noqa: E712


def agreement(scores: Scores, one: str, other: str) -> dict[str, float]:
    """Spearman's correlation of τ over models on two sets, with its interval over models."""
    tau = [[row[name, "tau@0.5"]["value"] for row in scores.values()] for name in (one, other)]
    rho = float(spearmanr(*tau).statistic)
    low, high = of_rank_correlation(rho, len(scores))
    return {"value": rho, "low": low, "high": high}


def gaps(scores: Scores, metric: str) -> Iterator[tuple[str, int, int, int, str]]:
    """By set: models whose US score under a limit is above, below, or not apart from that of the whole set."""
    estimates = {(name, d): row[d, metric] for name, row in scores.items() for d in SETS}
    p = dict(zip(estimates, holm([p_of((e["value"], e["low"], e["high"])) for e in estimates.values()]), strict=True))
    for dataset in SETS:
        results = [(e["value"], p[key] < 0.05) for key, e in estimates.items() if key[1] == dataset]
        up, down = (sum(sure and (value > 0) is above for value, sure in results) for above in (True, False))
        values = [value for value, _ in results]
        spread = f"{np.median(values):+.1f} ({min(values):+.1f} to {max(values):+.1f})".replace("-", "−")
        yield dataset, up, down, len(results) - up - down, spread


def draw(scores: Scores, path: Path) -> None:
    """Writes the figure: a panel for each set, a row for each model, its τ with the interval."""
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = list(scores)[::-1]
    with matplotlib.style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "models", "font.size": 8}]):
        figure = Figure(figsize=(8.6, 5.6), layout="constrained")
        FigureCanvasSVG(figure)
        for axes, dataset in zip(figure.subplots(1, len(SETS), sharey=True), SETS, strict=True):
            rows = [scores[name][dataset, "tau@0.5"] for name in names]
            value, low, high = (np.array([e[end] for e in rows]) for end in ("value", "low", "high"))
            axes.errorbar(
                value, range(len(names)), xerr=[value - low, high - value], fmt="o", ms=3, lw=0.9, color="#0072b2"
            )
            axes.set(title=dataset, xlabel="τ, %", xlim=(0, 55), yticks=range(len(names)), yticklabels=names)
            axes.grid(axis="x", color="#dddddd", lw=0.5)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def unstereo_parts(scores: Scores, examples: Examples) -> dict[str, Any]:
    """Tables and counts of UnStereoEval for the text of the page."""
    number_of_pairs = len(scores) * (len(scores) - 1) // 2
    apart: dict[str, list[tuple[str, str]]] = {}
    for dataset in SETS:
        frames = {name: of_set(frame, dataset) for name, frame in examples.items()}
        columns = ["female_logprob", "male_logprob"]
        tables = {name: {c: frame[c].to_numpy() for c in columns} for name, frame in frames.items()}
        clusters = next(iter(frames.values()))["word"].to_numpy()
        apart[dataset] = that_differ(pairs(tables, clusters, fairness.tau(0.5)))
    ranks = {(a, b): agreement(scores, a, b) for a, b in combinations(SETS, 2)}
    consistent = sum(
        all(pair in apart[d] for d in SETS[:3]) and _one_order(pair, scores) for pair in combinations(scores, 2)
    )
    alone = {n: {d: len(scores) - 1 - sum(n in pair for pair in apart[d]) for d in SETS} for n in scores}
    rows = [[n, *(number(row[d, "tau@0.5"]) for d in SETS)] for n, row in scores.items()]
    leaning = [[n, *(number(row[d, "pref_disparity@0.5"], 0) for d in SETS)] for n, row in scores.items()]
    limits = [[d, str(up), str(down), str(same), spread] for d, up, down, same, spread in gaps(scores, "us_gap@0.65")]
    return {
        "models": len(scores),
        "families": len({family(name) for name in scores}),
        "pairs": number_of_pairs,
        "scores": table(("model", *SETS), rows),
        "leaning": table(("model", *SETS), leaning),
        "apart": table(
            ("set", "pairs that differ", "of"), [[d, str(len(apart[d])), str(number_of_pairs)] for d in SETS]
        ),
        "alone": table(("model", *SETS), [[n, *(str(counts[d]) for d in SETS)] for n, counts in alone.items()]),
        "consistent": consistent,
        "ranks": {sets: number(rho, 2) for sets, rho in ranks.items()},
        "agreement": table(("sets", "ρ"), [[f"{a}, {b}", number(rho, 2)] for (a, b), rho in ranks.items()]),
        "counts": {dataset: len(model_pairs) for dataset, model_pairs in apart.items()},
        "fairer": sum(int(up) for dataset, up, *_ in limits if dataset.startswith("ours")),
        "largest": f"{max(abs(row[d, 'us_gap@0.65']['value']) for row in scores.values() for d in SETS):.1f}",
        "limits": table(
            ("set", "fairer", "less fair", "no difference beyond chance", "median (range), points"), limits
        ),
        "male": {d: beyond(scores, d, "pref_disparity@0.5", 0)[0] for d in SETS},
        "female": {d: beyond(scores, d, "pref_disparity@0.5", 0)[1] for d in SETS},
        "least": min(row[d, "tau@0.5"]["value"] for row in scores.values() for d in SETS[:3]),
        "most": max(row[d, "tau@0.5"]["value"] for row in scores.values() for d in SETS[:3]),
    }


def _one_order(pair: tuple[str, str], scores: Scores) -> bool:
    a, b = pair
    return len({scores[a][d, "tau@0.5"]["value"] > scores[b][d, "tau@0.5"]["value"] for d in SETS[:3]}) == 1


def stereoset_parts(scores: Scores, tables: Mapping[str, Table]) -> dict[str, Any]:
    """Tables and counts of StereoSet for the text of the page."""
    groups = ("intrasentence gender", "intrasentence overall", "intersentence overall")
    header = ("model", *(f"{metric.upper()} {group}" for group in groups for metric in ("ss", "lms")))
    rows = [[n, *(number(row[g, m]) for g in groups for m in ("ss", "lms"))] for n, row in scores.items()]
    result: dict[str, Any] = {"stereoset": table(header, rows)}
    for group, domain in (("gender", "gender"), ("all", "")):
        subsets = {
            n: {k: v[(t["task"] == "intrasentence") & ((t["domain"] == domain) | (not domain))] for k, v in t.items()}
            for n, t in tables.items()
        }
        clusters = next(iter(subsets.values()))["subject"]
        result[f"ss_{group}"] = len(that_differ(pairs(subsets, clusters, stereoset.ss())))
    result["ss_above"] = beyond(scores, "intrasentence overall", "ss", 50)[1]
    return result | {"predictions": len(scores), "ss_pairs": len(scores) * (len(scores) - 1) // 2}


def main() -> None:
    """Writes the page and its figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("output"))
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--offline", action="store_true")
    options = parser.parse_args()
    fetcher = published.default_fetcher(offline=options.offline)
    runs: dict[str, dict[str, RunResult]] = {"unstereo": {}, "stereoset": {}}
    for source, results in runs.items():
        for model in published.models(source):
            results[model] = published.score(source, model, options.data, resamples=options.resamples, fetcher=fetcher)
            print(f"{source}: {model}")
    of_unstereo, official = runs.values()
    scores = {model: scores_of(run) for model, run in of_unstereo.items()}
    scores = dict(sorted(scores.items(), key=lambda item: -sum(item[1][d, "tau@0.5"]["value"] for d in SETS[:3])))
    examples = {model: pd.DataFrame(dict(of_unstereo[model].tables["unstereo"])) for model in scores}
    parts = unstereo_parts(scores, examples)
    tables = {model: run.tables["stereoset"] for model, run in official.items()}
    parts |= stereoset_parts({model: scores_of(run) for model, run in official.items()}, tables)
    draw(scores, FIGURE)
    text = (ROOT / "tools" / "templates" / "models.md.j2").read_text(encoding="utf-8")
    import jinja2

    put(PAGE, jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).render(parts).encode() + b"\n")
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
