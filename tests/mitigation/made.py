"""Neutral probes made on the spot, a bundled model, and short settings, for tests of recipes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
from rich.console import Console

from mitigation.adapters.write import write
from mitigation.recipes import get
from mitigation.training.data import TrainingData
from scoring.inference.load_options import BUNDLED, load
from scoring.metrics import add, pronouns
from scoring.types import Request
from tests.scoring.made import data_set
from tests.support.helpers import ROOT

DOING = ("likes to sing", "waits at the station", "has a red ball", "is a nurse", "works as a pilot", "is at home")
PLACES = ("in the morning", "after the rain", "near the river", "with a smile", "every day", "by the old road")


def statements(split):
    """Statements of a split; no other split has them."""
    ends = {"train": PLACES[:3], "validation": PLACES[3:4], "test": PLACES[4:]}[split]
    return [f"My friend {does} {end}" for does in DOING for end in ends]


def probes(split, config="stsb"):
    return [
        {"id": f"{config}-{split}-{n}", "statement": statement, "prompt": f"{statement}, and"}
        for n, statement in enumerate(statements(split))
    ]


def data(folder, **more):
    """A folder with the probes in three splits; ``more`` has rows of further splits by ``CONFIG_SPLIT``."""
    splits = {("stsb", split): probes(split) for split in ("train", "validation", "test")}
    splits["stsb-paper", "test"] = probes("test", "stsb-paper")
    splits |= {tuple(name.split("_")): rows for name, rows in more.items()}
    return data_set(folder, "gender-neutral-probes", splits)


@cache
def bundled():
    """The model that comes with the project; who changes it must change it back."""
    return load(BUNDLED["tiny-causal"], device="cpu")


def quick(profile="paper", **changed):
    """Settings for a few steps on the made probes."""
    few = {
        "steps": 6,
        "batch_size": 4,
        "rank": 4,
        "learning_rate": 5e-3,
        "corpora": "stsb",
        "validate_every": 3,
        "checkpoint_every": 2,
    }
    return replace(get("debias_tuning").profiles[profile], **(few | {"warmup": 0.0} | changed))


def tuned(model, settings, source, out):
    """An adapter folder made by a few steps of tuning, and its facts."""
    folder = out.with_name(f"{out.name}-work") / "made"
    folder.mkdir(parents=True)
    adapter = get("debias_tuning").apply(model, settings, TrainingData(str(source)), folder, silent())
    write(folder, adapter, out)
    return adapter


def silent():
    return Console(file=io.StringIO())


def scores(model):
    """Pronoun mass, GLD and ADD over the made test prompts."""
    prompts = [row["prompt"] for row in probes("test")]
    lines = [
        pronouns.to_record(response.candidate_logprobs)
        for response in model.answer([Request(p, p, candidates=pronouns.FORMS) for p in prompts])
    ]
    table = {column: np.array([line[column] for line in lines]) for column in lines[0]}
    metrics = (pronouns.pronoun_mass(), pronouns.gld(), add.add_raw())
    return {metric.name: metric.value(table, np.ones((1, len(prompts)))).item() for metric in metrics}


def shared(*arguments):
    """Has two processes with one group run a script or a module, which has to succeed.

    ``accelerate launch --cpu`` starts one process on a single machine, so torch starts them.
    """
    options = "--standalone --nproc_per_node 2".split()
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
