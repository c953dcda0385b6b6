"""The whole circle through a Hub on this machine, each step a process of its own with the real clients."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cards.common.numbers import supported_digits
from scoring.inference.load_options import BUNDLED
from tests.mitigation.made import bundled, data, quick, tuned
from tests.support.helpers import ROOT
from tests.support.hub import TOKEN, File, Hub, read

NAME, CONFIG = "unstereo", "pronoun-pairs"
ROWS = """
import sys
from datasets import load_dataset
print(len(load_dataset(sys.argv[1], sys.argv[2], split="test", revision=sys.argv[3])))
"""
RESULTS = """
import json, sys
from dataclasses import asdict
from huggingface_hub import HfApi
api = HfApi()
api.merge_pull_request(sys.argv[1], 1)
print(json.dumps([asdict(each) for each in api.model_info(sys.argv[1], expand=["evalResults"]).eval_results]))
"""


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done.stdout


def scored(folder, version, *options):
    """The run of the bundled model on the published data."""
    some = ("--benchmarks", NAME, "--data", f"hub:org@v{version}", "--resamples", 50, "--device", "cpu", *options)
    run("-m", "scoring", "tiny-causal", "--out", folder, *some)
    estimates = json.loads((folder / "results.json").read_text())["estimates"]
    score = next(score for score in estimates if (score["group"], score["metric"]) == (CONFIG, "us_score"))
    return float(supported_digits(score["value"], score["low"], score["high"]))


@pytest.mark.fault(49)
def test_from_data_to_a_score_on_a_models_page_and_to_an_adapter_with_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("PROBES_MIRROR", raising=False)
    tuned(bundled(), quick(), data(tmp_path / "made"), tmp_path / "adapter")
    with Hub(cache=tmp_path / "cache") as hub:
        readme = File(b"---\nlicense: mit\n---\n# Small\n")
        hub.add("model", "org/small", {**read(Path(BUNDLED["tiny-causal"])), "README.md": readme})
        run("-m", "builders.rebuild", NAME, "--offline", "--out", tmp_path / "built")
        manifest = json.loads((tmp_path / "built" / NAME / "manifest.json").read_text())
        version, rows = manifest["version"], manifest["configs"][CONFIG]["splits"]["test"]["rows"]
        run("-m", "builders.push", tmp_path / "built", "--org", "org")
        assert int(run("-c", ROWS, f"org/{NAME}", CONFIG, f"v{version}")) == rows

        own = ("--licence", "mit", "--base", "org/small")
        run("-m", "mitigation.publish", tmp_path / "adapter", "--repo", "org/less", *own)
        for model, options, notes in (
            ("org/small", (), "the model alone"),
            ("org/less", ("--adapter", "org/less"), "adapter org/less"),
        ):
            value = scored(tmp_path / model, version, *options)
            told = run("-m", "scoring.commands.card", model, tmp_path / model, "--org", "org", "--push", "--partial")
            assert f"Pull request: {hub.url}/{model}/discussions/1" in told
            (entry,) = json.loads(run("-c", RESULTS, model))
            assert (entry["dataset_id"], entry["task_id"]) == (f"org/{NAME}", CONFIG)
            assert entry["dataset_revision"] == hub.repos["dataset", f"org/{NAME}"].tags[f"v{version}"]
            assert entry["value"] == value
            assert entry["notes"].endswith(f"; {notes}")
