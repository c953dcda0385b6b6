"""Intervals over items and wordings, and variance components, in samples with known truth.

``python -m tools.simulations.wordings simulate`` draws items and wordings, counts the intervals that contain the truth
and writes ``wordings.json``. ``python -m tools.simulations.wordings peer`` compares the components with those that
statsmodels finds by restricted maximum likelihood; it needs numpy, pandas, scipy and statsmodels, which is no
dependency of the project.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from scoring.metrics import variance
from scoring.metrics.sums import percentage
from scoring.statistics.stats import measure
from scoring.types import Floats, Group

#: Clusters of items, items of each, wordings, and the standard deviations of clusters, items, wordings and the rest.
CASES = tuple(
    (*sizes, *sds)
    for sizes in ((60, 1, 5), (60, 1, 10), (300, 1, 5), (30, 10, 5), (30, 10, 10))
    for sds in ((0.3, 1.0, 0.0, 1.0), (0.3, 1.0, 0.1, 1.0), (0.3, 1.0, 0.4, 1.0), (0.1, 0.3, 0.05, 1.0))
)


def drawn(rng: np.random.Generator, case: tuple[Any, ...]) -> tuple[Floats, Any]:
    """Preferences [items, wordings] around 0, and the cluster of each item."""
    clusters, each, wordings, of_cluster, of_item, of_wording, rest = case
    codes = np.repeat(np.arange(clusters), each)
    items = rng.normal(0, of_cluster, clusters)[codes] + rng.normal(0, of_item, len(codes))
    x = items[:, None] + rng.normal(0, of_wording, wordings) + rng.normal(0, rest, (len(codes), wordings))
    return x, codes


def coverage(case: tuple[Any, ...], runs: int) -> dict[str, Any]:
    """The share of intervals of the percentage above 0, which is 50 in truth, with wordings at random and as given."""
    from dataclasses import replace

    from scoring.asking.wordings import averaged

    share = percentage("above", lambda t: t["x"] > 0, 50, "")
    random, fixed = averaged(share), replace(averaged(share), parts=None)
    hits, widths = np.zeros(2), np.zeros(2)
    for run in range(runs):
        x, codes = drawn(np.random.default_rng([run, CASES.index(case)]), case)
        table = {"x": x.ravel(), "wording": np.tile(np.arange(x.shape[1]), len(x))}
        group = Group("", np.ones(x.size, bool))
        estimates = measure(
            [(group, random), (group, fixed)], table, np.repeat(codes, x.shape[1]), resamples=400, seed=run
        )
        hits += [e.low <= 50 <= e.high for e in estimates]
        widths += [e.high - e.low for e in estimates]
    names = ("clusters", "items of each", "wordings", "sd cluster", "sd item", "sd wording", "sd rest")
    about = dict(zip(names, case, strict=True))
    return about | {
        "coverage": [round(float(hit) / runs, 4) for hit in hits],
        "width": [round(float(width) / runs, 3) for width in widths],
    }


def components(runs: int) -> list[dict[str, Any]]:
    """Mean and standard deviation of the estimated components of items by wordings, beside the planted ones."""
    lines = []
    for items, wordings, sds in product((30, 100), (5, 10), ((1.0, 0.0, 1.0), (1.0, 0.5, 1.0), (0.3, 0.3, 1.0))):
        rng = np.random.default_rng([items, wordings])
        values = []
        for _ in range(runs):
            x = (
                rng.normal(0, sds[0], (items, 1))
                + rng.normal(0, sds[1], wordings)
                + rng.normal(0, sds[2], (items, wordings))
            )
            variances = variance.components(variance.moments(x, np.zeros_like(x)).sum(axis=0), ["wordings"])
            values.append([float(variances[frozenset(e)]) for e in (["items"], ["wordings"], ["items", "wordings"])])
        mean, sd = np.mean(values, axis=0), np.std(values, axis=0)
        lines.append(
            {"items": items, "wordings": wordings, "planted": [round(s**2, 4) for s in sds]}
            | {"mean": mean.round(4).tolist(), "sd": sd.round(4).tolist()}
        )
    return lines


def peer(sizes: Sequence[tuple[int, int]] = (*[(20, 5)] * 10, (100, 10), (200, 10))) -> dict[str, Any]:
    """The largest difference from statsmodels' MixedLM on small designs, and the seconds that both take by size."""
    import pandas as pd
    import statsmodels  # type: ignore[import-not-found]
    import statsmodels.formula.api as formula  # type: ignore[import-not-found]

    far, seconds = 0.0, {}
    for seed, (n, k) in enumerate(sizes):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 1, (n, 1)) + rng.normal(0, 0.8, k) + rng.normal(0, 0.7, (n, k))
        start = time.perf_counter()
        variances = variance.components(variance.moments(x, np.zeros_like(x)).sum(axis=0), ["wordings"])
        our_seconds = time.perf_counter() - start
        items, wordings = np.indices(x.shape).reshape(2, -1)
        frame = pd.DataFrame({"x": x.ravel(), "item": items, "wording": wordings, "one": 1})
        start = time.perf_counter()
        parts = {"item": "0 + C(item)", "wording": "0 + C(wording)"}
        fit = formula.mixedlm("x ~ 1", frame, groups="one", vc_formula=parts).fit(reml=True, method=["lbfgs"])
        seconds[f"{n} items, {k} wordings"] = [round(time.perf_counter() - start, 3), round(our_seconds, 5)]
        ours = [float(variances[frozenset(e)]) for e in (["items"], ["wordings"], ["items", "wordings"])]
        far = max(far, float(np.abs(np.array([*fit.vcomp, fit.scale]) - ours).max()))
    about = {"statsmodels": statsmodels.__version__, "designs": len(sizes), "largest difference": far}
    return about | {"seconds of statsmodels and of this project": seconds}


def table(results: dict[str, Any]) -> str:
    """The coverage as a Markdown table."""
    lines = ["| clusters × items | wordings | SD of wordings | rest / items | coverage, % | as if given, % | width |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for c in results["coverage"]:
        both, one = (100 * share for share in c["coverage"])
        lines.append(
            f"| {c['clusters']} × {c['items of each']} | {c['wordings']} | {c['sd wording']:g} | "
            f"{c['sd rest'] / math.hypot(c['sd item'], c['sd cluster']):.1f} | {both:.1f} | {one:.1f} | "
            f"{c['width'][0]:.1f} ({c['width'][1]:.1f}) |"
        )
    return "\n".join(lines)


def main() -> None:
    """Runs one of the commands and writes its results beside this file."""
    parser = argparse.ArgumentParser(description="Intervals over wordings and variance components with known truth.")
    parser.add_argument("command", nargs="?", choices=("simulate", "peer"), default="simulate")
    parser.add_argument("--runs", type=int, default=1000, help="samples of each case")
    arguments = parser.parse_args()
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if out.exists() else {}
    if arguments.command == "peer":
        results["peer"] = peer()
        print(results["peer"])
    else:
        results["runs"] = arguments.runs
        results["components"] = components(arguments.runs)
        results["coverage"] = [coverage(case, arguments.runs) for case in CASES]
        print(table(results))
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
