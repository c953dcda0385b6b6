"""Runs and manifests made on the spot, in the form that scoring and building write them."""

import hashlib
import json
import os
from dataclasses import replace

from scoring import report
from scoring.benchmarks import get, names
from scoring.types import Estimate, Report
from tests.support import commands

DIGEST = "ab" * 32
#: The first commit of org/model on the Hub of the tests.
HEAD = hashlib.sha1(b"model org/model 0 initial commit").hexdigest()
PROBES, PAIRS = "gender-neutral-probes", "unstereo"


def manifest(name=PROBES, version="1.2.0", **changes):
    """The text of a manifest whose configs all have the same rows."""
    configs = {PROBES: ("stsb", "templates"), PAIRS: ("pronoun-pairs",)}[name]
    benchmark = {"framework": "gender-neutral-probes", "configs": [*configs, "stsb-paper"]}
    split = {"file": "data/x/test.parquet", "rows": 40, "bytes": 9, "sha256": "0" * 64, "content": DIGEST}
    return json.dumps(
        {
            "name": name,
            "version": version,
            "title": f"The {name}",
            "validity": f"What {name} means | and does not.",
            "configs": {config: {"splits": {"test": split}} for config in configs},
            "benchmark": benchmark,
        }
        | changes
    )


def data(folder, **changes):
    """A folder of built data sets, as far as their manifests go."""
    for name in (PROBES, PAIRS):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "manifest.json").write_text(manifest(name, **changes))
    return folder


def estimate(benchmark="neutral", group="stsb", metric="gas", value=0.25, low=0.2, high=0.31, **more):
    fields = {
        "sd": 0.02,
        "n": 40,
        "clusters": 40,
        "ideal": 0.0,
        "reading": f"How to read {metric}.",
        "least": 0,
        "most": 1,
    }
    return Estimate(benchmark, group, metric, value, low, high, **(fields | more))


ESTIMATES = (
    estimate(),
    estimate(metric="gld", value=0.125, low=0.1, high=0.15),
    estimate(group="templates"),
    estimate(group="templates hobby"),
    estimate("unstereo", "pronoun-pairs", "us_score", 55, 50, 60, ideal=100.0, most=100),
)
RUN = Report(
    model="org/model",
    revision=HEAD,
    adapter="",
    dtype="float32",
    prompt="plain",
    profile="clean",
    data={
        f"{PROBES}/stsb/test": f"1.2.0 sha256:{DIGEST}",
        f"{PROBES}/templates/test": f"1.2.0 sha256:{DIGEST}",
        f"{PAIRS}/pronoun-pairs/test": f"1.2.0 sha256:{DIGEST}",
    },
    estimates=ESTIMATES,
    headlines={name: get(name).headline for name in names() if get(name).headline},
    environment={"python": "3.11.0", "gender-neutral-probes": "0.1.0", "data lacking": []},
)


def declared(name):
    """The metrics of a benchmark by their name."""
    return {metric.name: metric for metric in get(name).metrics("clean")}


def run(folder, **changes):
    """The folder of a scoring run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(report.results(replace(RUN, **changes), {}))
    os.utime(folder / "results.json", (1_700_000_000, 1_700_000_000))  # 2023-11-14
    return folder


def cards(model, folder, *options):
    """What ``probes card`` tells."""
    return commands.run("scoring.commands.card", model, folder, "--org", "org", *options)
