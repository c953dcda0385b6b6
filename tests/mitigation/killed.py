"""Kills recipes at writes of files, each in a process of its own, and runs them again: the adapter is the same.

``python -m tests.mitigation.killed FOLDER KILLS [RECIPE …]`` prints the recipes with the number of kills, and what the
next run gave: ``same``, a sentence, or a fault; a line of JSON for each recipe.
"""

import json
import os
import signal
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import torch

from mitigation.errors import MitigationError
from mitigation.recipes import get
from mitigation.running.steps import make_and_evaluate
from mitigation.training.data import TrainingData
from scoring.adapters.facts import read
from scoring.inference.load_options import LoadOptions
from scoring.types import ScoringError
from tests.mitigation.made import data, silent
from tests.mitigation.test_fast_rows import rows_of
from tests.mitigation.test_fresh_process import RECIPES
from tests.mitigation.test_projections import planted_corpus
from tests.scoring.made import data_set

CASES = {
    **{name: ("tiny-masked", settings) for name, settings in RECIPES["tiny-masked"].items()},
    **{name: ("tiny-causal", settings) for name, settings in RECIPES["tiny-causal"].items()},
    "prompts": ("tiny-causal", {}),
    "self_debias": ("tiny-causal", {}),
    "decoding": ("tiny-causal", {"grids": "top_k", "seeds": "42", "corpora": "stsb"}),
    "fast": ("tiny-causal", {"layer": 0, "passes": 1, "units": 8, "prefixes": 0}),
}
WRITES = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}


def prepared(folder):
    """The data of the recipes, and the settings that name files."""
    source = data(folder / "data")
    pairs = [{key: row[key] for key in row.keys() - {"config", "split"}} for row in rows_of("stereoset")[:8]]
    data_set(source, "biaske", {("stereoset", "test"): pairs})
    (folder / "prompts.txt").write_text("was in the\nhad a very\n")
    return source, planted_corpus(folder) | {"prompts": str(folder / "prompts.txt")}


def run(name, source, text, out):
    """What ``python -m mitigation NAME`` does, without an evaluation."""
    kind, changed = CASES[name]
    recipe = get(name)
    fields = type(recipe.profiles["clean"]).__dataclass_fields__
    given = {field: value for field, value in text.items() if field in fields and name != "prompts"} | changed
    settings = replace(recipe.profiles["clean"], **given)
    make_and_evaluate(
        recipe, settings, LoadOptions(kind, device="cpu"), TrainingData(str(source)), out, None, silent(), silent()
    )


def child(call, report, kill_at=0, below=""):
    """Calls in a process that is killed at its N-th write below a folder; writes what came of it into a file."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    count = 0

    def hook(event, arguments):
        nonlocal count
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        if (event in WRITES or opens) and str(arguments[0]).startswith(below):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    torch.set_num_threads(1)
    try:
        call()
        told = {"writes": count}
    except (MitigationError, ScoringError) as error:
        told = {"sentence": str(error)}
    except BaseException as error:
        told = {"fault": repr(error)}
    report.write_text(json.dumps(told))
    os._exit(0)


def weights(folder):
    """The files of an adapter that decide what it does, and its facts without times."""
    adapter = read(folder)
    files = {name: digest for name, digest in adapter.files.items() if not name.endswith((".png", "losses.json"))}
    return files, adapter.settings, adapter.data, adapter.base


def main(folder, kills, *names):
    report = folder / "report.json"
    source, text = prepared(folder)
    result = {}
    for name in names or CASES:
        whole = folder / "whole" / name
        child(lambda name=name, whole=whole: run(name, source, text, whole), report, below=str(folder / "whole"))
        writes = json.loads(report.read_text())
        if "writes" not in writes:
            result[name] = writes
            print(json.dumps({name: writes}), flush=True)
            continue
        ends = Counter()
        for turn in range(kills):
            number, out = 1 + round(turn * (writes["writes"] - 1) / max(1, kills - 1)), folder / f"cut-{turn}" / name
            again = lambda name=name, out=out: run(name, source, text, out)  # noqa: E731
            status = child(again, report, number, str(out.parent))
            ends["killed"] += status == -signal.SIGKILL
            child(again, report)
            told = json.loads(report.read_text())
            ends["same" if "writes" in told and weights(out) == weights(whole) else f"other {told}"] += 1
        result[name] = dict(ends)
        print(json.dumps({name: result[name]}), flush=True)
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
