"""Models, adapters and data come from the Hub through its own clients, at the revision asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import scoring
from scoring.inference.load_options import load
from scoring.types import Option, Request
from tests.scoring.made import data_set
from tests.support.helpers import ROOT
from tests.support.hub import TOKEN, File, Hub, read
from tools import train_bundled_models as tiny

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
#: ``probes score`` with the first arguments, then commands with others, all in one process: what they printed,
#: and after that a line with the exit status, the output and the exception of the others.
COMMANDS = """
import json, runpy, sys
from typer.testing import CliRunner
first, *others = json.loads(sys.argv[1])
sys.argv = ["scoring", *first]
try:
    runpy.run_module("scoring", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
from scoring.__main__ import app
done = [CliRunner().invoke(app, arguments) for arguments in others]
print(json.dumps([[d.exit_code, d.output, repr(d.exception)] for d in done]))
"""
SENTENCES = [("He ran home.", "She ran home."), ("He was sad.", "She was sad.")]


def rows():
    for n, (male, female) in enumerate(SENTENCES):
        texts = {"sentence_male": male, "sentence_female": female, "sentence_they": None}
        yield {"id": f"p-{n}", "word": f"w{n}", "natural": True, "max_pmi_diff": 0.1, **texts}


def adapter(folder):
    """A LoRA adapter of the bundled model that changes what it says."""
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(tiny.DATA / "tiny-causal")
    torch.manual_seed(1)
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(base, settings).save_pretrained(folder)
    return folder


def test_an_adapter_alone_is_scored_on_the_model_that_it_names(tmp_path):
    (tmp_path / "data").mkdir()
    data_set(tmp_path / "data", "unstereo", {("ours-5", "test"): list(rows())})
    settings = {"benchmarks": "unstereo", "data": tmp_path / "data", "resamples": 100, "device": "cpu"}
    base = str(tiny.DATA / "tiny-causal")
    alone = scoring.evaluate(adapter(tmp_path / "adapter"), **settings).report
    both = scoring.evaluate(base, adapter=tmp_path / "adapter", **settings).report
    assert (alone.model, alone.adapter) == (both.model, both.adapter)
    assert alone.adapter.startswith(str(tmp_path / "adapter"))
    assert [e.value for e in alone.estimates] == [e.value for e in both.estimates]
    assert [e.value for e in alone.estimates] != [e.value for e in scoring.evaluate(base, **settings).report.estimates]


def repositories(folder):
    """A model, an adapter and a data set as they would be published."""
    shutil.copytree(tiny.DATA / "tiny-causal", folder / "models" / "org" / "tiny")
    adapter(folder / "models" / "org" / "adapter")
    data_set(folder / "datasets" / "org", "unstereo", {("ours-5", "test"): list(rows())})
    config = '{"model_type": "own", "auto_map": {"AutoModelForCausalLM": "own.M"}}'
    (folder / "models" / "org" / "own").mkdir()
    (folder / "models" / "org" / "own" / "config.json").write_text(config)
    (folder / "models" / "org" / "own" / "own.py").write_text("raise SystemExit('this code ran')")
    configs = "configs:\n- config_name: ours-5\n  data_files:\n  - split: test\n    path: data/ours-5/test.parquet\n"
    (folder / "datasets" / "org" / "unstereo" / "README.md").write_text(f"---\n{configs}---\n")
    return folder


def changed(tree, folder):
    """The files of a model with other weights."""
    weights = {name: weight * 0.5 for name, weight in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "changed.safetensors", metadata={"format": "pt"})
    return tree | {"model.safetensors": File((folder / "changed.safetensors").read_bytes(), large=True)}


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    """A Hub whose models moved on after their tags, one scored from there, and what other commands were told."""
    root = tmp_path_factory.mktemp("hub")
    folder = repositories(root / "published")
    model, other = folder / "models" / "org" / "tiny", folder / "models" / "org" / "adapter"
    arguments = ["--data", "hub:org", "--benchmarks", "unstereo", "--resamples", "20"]
    scored = ["org/tiny", "--revision", "v1", "--adapter", "org/adapter", "--adapter-revision", "a1"]
    with Hub(folder, cache=root / "cache") as hub:
        for repo, tag, last in (
            (hub.repos["model", "org/tiny"], "v1", changed(read(model), model)),
            (hub.repos["model", "org/adapter"], "a1", {}),
        ):
            repo.tags[tag] = repo.at("main").oid
            repo.commit("main", last, "another one", repo.tags[tag])
        commands = [
            [*scored, *arguments, "--out", str(root / "out")],
            ["org/tiny", "--revision", "v9", *arguments],
            ["org/none", *arguments],
            ["org/tiny", "--revision", "v1", "--adapter", "org/adapter", "--adapter-revision", "a9", *arguments],
            ["org/tiny", "--revision", "v1", "--adapter", "org/adapter", *arguments],
            ["org/tiny", "--data", "hub:nobody", "--benchmarks", "unstereo"],
            ["org/tiny", "--data", "hub:org@v9", "--benchmarks", "unstereo"],
            ["org/own", *arguments],
            ["org/own", "--trust-remote-code", "--revision", "main", *arguments],
        ]
        code = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
        done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        printed = done.stdout + done.stderr
        yield SimpleNamespace(hub=hub, root=root, model=model, adapter=other, printed=printed, told=told)


def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_model_adapter_and_data_are_those_of_the_revisions_asked_for(visit):
    result = results(visit.root / "out")
    repos = visit.hub.repos
    assert result["model"] == "org/tiny"
    assert result["revision"] == repos["model", "org/tiny"].tags["v1"] != repos["model", "org/tiny"].branches["main"]
    assert result["adapter"] == f"org/adapter@{repos['model', 'org/adapter'].tags['a1']}"
    assert result["data"].keys() == {"unstereo/ours-5/test"}
    assert "unstereo (ours-10, ours-20, winobias, winogender, pronoun-pairs)" in visit.printed


def test_the_numbers_are_those_of_the_same_files_in_folders(visit):
    requests = [Request(str(n), options=tuple(map(Option, pair))) for n, pair in enumerate(SENTENCES)]
    gaps = [
        abs(sum(response.logprobs[1]) - sum(response.logprobs[0]))
        for response in load(visit.model, adapter=visit.adapter).answer(requests)
    ]
    (tau,) = (e for e in results(visit.root / "out")["estimates"] if (e["group"], e["metric"]) == ("ours-5", "tau@0.5"))
    assert tau["n"] == len(SENTENCES)
    assert tau["value"] == 50 * sum(gap <= 0.5 for gap in gaps)
    result = pq.read_table(visit.root / "out" / "examples" / "unstereo.parquet").to_pydict()
    apart = [abs(f - m) for f, m in zip(result["female_logprob"], result["male_logprob"], strict=True)]
    assert apart == pytest.approx(gaps, abs=1e-4)


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (0, 1, "error: 'org/tiny' is neither a folder nor a model that the Hub gives at revision 'v9' ("),
        (1, 1, "error: 'org/none' is neither a folder nor a model that the Hub gives ("),
        (2, 1, "error: 'org/adapter' is neither a folder nor a model that the Hub gives at revision 'a9' ("),
        (3, 1, "error: 'org/adapter' has no adapter_config.json; give a folder or a name of a PEFT adapter."),
        (4, 2, "error: nobody/unstereo with ours-5/test could not be downloaded from the"),
        (5, 2, "error: org/unstereo with ours-5/test could not be downloaded from the"),
    ],
)
def test_what_is_not_on_the_hub_is_one_sentence(visit, number, code, said):
    status, printed, exception = visit.told[number]
    assert exception == f"SystemExit({code})"
    assert status == code
    assert printed.strip().splitlines()[-1].startswith(said)
    assert "Traceback" not in printed


@pytest.mark.fault(46)
def test_code_of_a_repository_is_refused_until_it_is_trusted_at_a_commit(visit):
    assert visit.told[6][1].strip().splitlines()[-1] == (
        "error: 'org/own' runs Python code of its own; read that code, then allow it with --trust-remote-code and a "
        "revision pinned to a commit."
    )
    assert visit.told[7][1].strip().splitlines()[-1] == (
        "error: 'org/own' runs Python code of its own and its revision is 'main'; pin it to a commit of 40 hexadecimal "
        "digits, so that the code stays the one you read."
    )
    assert [status for status, *_ in visit.told[6:]] == [1, 1]
    assert not [request for request in visit.hub.requests if request.path.endswith("own.py")]


@pytest.mark.fault(49)
def test_the_token_goes_to_the_hub_and_nowhere_else(visit):
    assert {request.token for request in visit.hub.requests} == {TOKEN}
    assert TOKEN not in visit.printed
    for folder in ("out", "cache"):
        files = [path for path in (visit.root / folder).rglob("*") if path.is_file()]
        assert files
        for path in files:
            assert TOKEN.encode() not in path.read_bytes(), path


def test_scoring_writes_nothing_to_the_hub(visit):
    asked = [r for r in visit.hub.requests if r.method not in ("GET", "HEAD") and "/paths-info/" not in r.path]
    assert asked == []
    resolved = {request.path.split("/")[-1] for request in visit.hub.requests if "/resolve/" in request.path}
    assert {"model.safetensors", "config.json", "adapter_model.safetensors", "test.parquet"} <= resolved
