"""Wrong command lines and wrong calls: each ends in one sentence, without a traceback and without the network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from typer.testing import CliRunner

import builders
import mitigation
import pmi
import probes
import scoring
from builders.dataset import BuildError
from pmi.types import PmiError
from scoring.asking.result import RunResult
from scoring.inference.load_options import BUNDLED, LoadOptions
from scoring.statistics.stats import RESAMPLES
from scoring.types import Report
from tests.project import wrong
from tests.support.helpers import ROOT

#: A call, and how its sentence begins.
CALLS = """
evaluate("tiny-causal", benchmarks="ocugender") -> No benchmark is called 'ocugender' (did you mean 'occugender'?)
evaluate("tiny-causal", benchmarks=["occugender", "nutral"]) -> No benchmark is called 'nutral' (did you mean 'neutr
evaluate("tiny-causal", benchmarks=7) -> benchmarks is 7
evaluate("tiny-causal", benchmarks=[7]) -> benchmarks is [7]
evaluate("tiny-causal", profile="papr") -> profile is 'papr'; give 'clean' or 'paper' (did you mean 'paper'?)
evaluate("tiny-causal", profile=None) -> profile is None
evaluate("tiny-causal", limit=-3) -> limit is -3
evaluate("tiny-causal", limit=0) -> limit is 0
evaluate("tiny-causal", limit=2.5) -> limit is 2.5
evaluate("tiny-causal", limit="many") -> limit is 'many'
evaluate("tiny-causal", limit=True) -> limit is True
evaluate("tiny-causal", resamples=1) -> resamples is 1
evaluate("tiny-causal", resamples=None) -> resamples is None
evaluate("tiny-causal", batch_tokens=0) -> batch_tokens is 0
evaluate("tiny-causal", prompt="debias-7") -> No prompt is called 'debias-7' (did you mean 'debias-6'?)
evaluate("tiny-causal", prompt="missing.json") -> The prompt file missing.json cannot be read
evaluate("tiny-causal", prompt=3) -> prompt is 3
evaluate("tiny-causal", chat="yes") -> chat is 'yes'
evaluate("tiny-causal", chat=True, truncate=True) -> A chat is not cut to the context window
evaluate("tiny-causal", system="hello") -> Only a chat has a system text
evaluate("tiny-causal", system=None) -> system is None
evaluate("tiny-causal", data="nowhere") -> There is no folder nowhere
evaluate("tiny-causal", data=None) -> data is None
evaluate("tiny-causal", data=Path("nowhere"), benchmarks="occugender") -> There is no folder nowhere
evaluate("tiny-causal", out=3) -> out is 3
evaluate("tiny-causal", console="yes") -> console is 'yes'; give an instance of Console
evaluate("tiny-causal", wordings=99) -> There are no '99' wordings
evaluate("tiny-causal", ways=["likelyhood"]) -> No way to ask is called 'likelyhood'
evaluate("tiny-causal", beside="nowhere") -> nowhere cannot be read as results
result.save(3) -> folder is 3
result.save("/dev/null/run") -> /dev/null/run cannot be written (Not a directory); choose another folder=….
mitigate("prompts", "tiny-causal", out=3) -> out is 3
evaluate("tiny-causal", dtype="int8") -> dtype is 'int8'
evaluate("tiny-causal", dtype=torch.float32) -> dtype is of type dtype; give 'auto', 'float32', 'bfloat16', 'float16' or
evaluate("tiny-causal", quantize="3bit") -> quantize is '3bit'; give '4bit' or '8bit' (did you mean '8bit'?)
evaluate("tiny-causal", quantize=4) -> quantize is 4
evaluate("tiny-causal", revision=1) -> revision is 1
evaluate("tiny-causal", adapter=1) -> adapter is 1
evaluate("tiny-causal", device=0) -> device is 0
evaluate("tiny-causal", device_map=3) -> device_map is 3
evaluate("tiny-causal", exact=1) -> exact is 1
evaluate("tiny-causal", trust_remote_code="yes") -> trust_remote_code is 'yes'
evaluate("tiny-causal", overwrite="no") -> overwrite is 'no'
evaluate("tiny-causal", include="nowhere.py") -> nowhere.py is not a Python file
evaluate("tiny-causal", include=3) -> include is 3
evaluate("tiny-causal", concurrency=0) -> concurrency is 0
evaluate("tiny-causal", timeout=0) -> timeout is 0
evaluate("tiny-causal", timeout=float("nan")) -> timeout is nan
evaluate("tiny-causal", base_url=3) -> base_url is 3
evaluate("tiny-causal", base_url="http://127.0.0.1:9/v1") -> Both the model 'tiny-causal' and a server are given
evaluate("tiny-causal", dry_run=True) -> There is no built data set bbq in output
evaluate("tiny-causal", timeout=3.0) -> timeout=… is of servers
evaluate(base_url="http://127.0.0.1:9/v1", device="cpu") -> device=… says how a model is loaded, and a server has lo
evaluate(base_url="http://127.0.0.1:9/v1", trust_remote_code=True) -> trust_remote_code=… says how a model is loaded
evaluate(base_url="http://127.0.0.1:9/v1", model_name=3) -> model_name is 3
evaluate(chat_api=True) -> A chat API needs the name of a model
evaluate(chat_api=True, model_name="m", samples=0) -> samples is 0
evaluate(chat_api=True, model_name="m", temperature=-1) -> temperature is -1
evaluate(chat_api=True, model_name="m", temperature="hot") -> temperature is 'hot'
evaluate(chat_api=True, model_name="m", seed=-1) -> seed is -1
evaluate(chat_api=True, model_name="m", budget=5) -> budget is 5
evaluate(chat_api=True, model_name="m", benchmarks="crows_pairs") -> The benchmark crows_pairs needs log-probabiliti
evaluate(chat_api=True, model_name="m", prompt="temperature-0.5") -> The prompt 'temperature-0.5' has decoding setti
evaluate("tiny-causal", chat_api=True, model_name="m") -> Both the model 'tiny-causal' and a server are given
evaluate() -> Name a model, such as tiny-causal, or give base_url=…
evaluate(linear) -> The model is a Linear
evaluate(pipeline) -> The model is a TextGenerationPipeline
evaluate(network) -> A loaded model needs its loaded tokenizer
evaluate(network, tokenizer="gpt2") -> A loaded model needs its loaded tokenizer
evaluate(network, tokenizer=tokenizer, device="cpu") -> device is an option of loading, and this model is loaded
evaluate(network, tokenizer=tokenizer, revision="v1") -> revision is an option of loading, and this model is loaded
evaluate(None) -> No model was given
load_model("tiny-causal", device="gpu") -> No device is called 'gpu'
load_model("tiny-causal", device="cuda:64") -> torch finds no GPU here, so the device cannot be cuda:64
scoring.load("nowhere") -> nowhere cannot be read as results
scoring.load(3) -> folder is 3
result.compare("nowhere") -> compare takes the result of an earlier run, not 'nowhere'
result.compare(None) -> compare takes the result of an earlier run, not None
result.examples("stereoset") -> The run has no examples of 'stereoset'
mitigate("fst", "tiny-causal") -> No recipe is called 'fst' (did you mean 'fast'?)
mitigate("fast", "tiny-causal", profile="papr") -> profile is 'papr'; give 'clean' or 'paper' (did you mean 'paper'?
mitigate("fast", "tiny-causal", limit=-3) -> limit is -3
mitigate("fast", "tiny-causal", quantize="8bit") -> quantize is '8bit'; give 'auto', '4bit' or 'none' (did you mean
mitigate("fast", "tiny-causal", dtype="int8") -> dtype is 'int8'
mitigate("fast", "tiny-causal", stepz=3) -> fast has no setting 'stepz' (did you mean 'steps'?)
mitigate("debias_tuning", "tiny-causal", stepz=3) -> debias_tuning has no setting 'stepz' (did you mean 'steps'?)
mitigate("debias_tuning", "tiny-causal", steps="many") -> The setting steps is 'many'
mitigate("debias_tuning", "tiny-causal", steps=-1) -> The setting steps is -1
mitigate("fast", "tiny-causal", config="nowhere.toml") -> nowhere.toml cannot be read
mitigate("fast", "tiny-causal", data="nowhere") -> There is no folder nowhere
mitigate("fast", "tiny-causal", benchmarks="ocugender") -> No benchmark is called 'ocugender' (did you mean 'occugen
mitigate("fast", "tiny-causal", include="nowhere.py") -> nowhere.py is not a Python file
mitigate("fast", "tiny-causal", evaluate="no") -> evaluate is 'no'
mitigate("fast", "tiny-causal", resamples=0) -> resamples is 0
mitigate("fast", network) -> A loaded model needs its loaded tokenizer
mitigate("fast", network, tokenizer=tokenizer, device="cpu") -> device is an option of loading, and this model is loa
mitigate("fast", linear) -> The model is a Linear
mitigate("prompts", "tiny-causal", prompt="nothing") -> No prompt is called 'nothing'
build("ocugender") -> No data set is called 'ocugender' (did you mean 'occugender'?)
build("occugender", profile="papr") -> profile is 'papr'; give 'all', 'clean' or 'paper' (did you mean 'paper'?)
build("occugender", out=3) -> out is 3
build("occugender", mirror=3) -> mirror is 3
build("occugender", offline="yes") -> offline is 'yes'
build("occugender", include="nowhere.py") -> nowhere.py is not a Python file
build(3) -> names is
builders.load("occugender") -> output/occugender has no data set
builders.load(3) -> name is 3
pmi.count(3) -> A corpus is files or texts, and a window is a whole number
pmi.count([]) -> A corpus is files or texts, and a window is a whole number
pmi.count(["nowhere.txt"], window="a") -> A corpus is files or texts, and a window is a whole number
pmi.max_pmi_diff("she", 3) -> max_pmi_diff has 'she' and 3; give a text and the δ of pmi.delta
pmi.max_pmi_diff(3, None) -> max_pmi_diff has 3 and None; give a text and the δ of pmi.delta
builders.load("occugender", "jobs", out="nowhere") -> nowhere/occugender has no data set
"""


def table(text):
    rows = [line.split(" -> ") for line in text.strip().splitlines()]
    return [pytest.param(*row, id=row[0]) for row in rows]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def of_lines(tmp_path_factory):
    """What became of each line, all in one process without torch."""
    environment = {**os.environ, "COLUMNS": "80", "HF_HUB_OFFLINE": "1", "PROBES_PROGRESS": "off"}
    place = tmp_path_factory.mktemp("lines")
    command = [sys.executable, "-m", "tests.project.wrong"]
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "TMPDIR": str(place)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {one["line"]: one for one in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(("line", "status", "start"), [pytest.param(*row, id=row[0]) for row in wrong.table()])
def test_a_wrong_command_line_ends_in_one_sentence_without_torch(line, status, start, of_lines):
    found = of_lines[line]
    assert not found["wanted"], found
    assert not found["slow"] or line.startswith(wrong.READS), found
    assert not found["raised"], found
    assert found["status"] == status, found["output"]
    sentences = [text for text in found["output"].splitlines() if text.lower().startswith("error: ")]
    assert len(sentences) == 1, found["output"]
    assert sentences[0] == found["output"].splitlines()[-1]
    assert sentences[0][len("error: ") :].startswith(start)


@pytest.fixture(scope="module")
def names():
    """What calls may name; a model is loaded once."""
    network = transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])
    return {
        "Path": Path,
        "build": builders.build,
        "builders": builders,
        "evaluate": scoring.evaluate,
        "linear": torch.nn.Linear(2, 2),
        "load_model": lambda model, **options: LoadOptions(model, **options).load(),
        "mitigate": mitigation.mitigate,
        "network": network,
        "pmi": pmi,
        "pipeline": transformers.pipeline("text-generation", model=network, tokenizer=tokenizer),
        "result": RunResult(Report("m", "", "", "", "", "", {}, (), {}), {}),
        "scoring": scoring,
        "tokenizer": tokenizer,
        "torch": torch,
    }


@pytest.mark.parametrize(("call", "start"), table(CALLS))
def test_a_wrong_call_ends_in_one_sentence_in_the_words_of_python(call, start, names):
    error = {"pmi": PmiError, "build": BuildError, "builders": BuildError}
    kind = error.get(re.split(r"\W", call)[0], scoring.ScoringError)
    with pytest.raises(kind, match=f"^{re.escape(start)}") as raised:
        eval(call, dict(names))
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert not re.search(r"(?<!\w)--\w", re.sub(r"probes build .*?,", "", sentence)), sentence


def test_an_unknown_parameter_is_named_by_python():
    with pytest.raises(TypeError, match="benchmark"):
        scoring.evaluate("tiny-causal", benchmark="occugender")


def test_editors_complete_each_option_of_evaluate_and_its_help_lists_it():
    import inspect

    from scoring.api import EvaluateOptions

    declared = set(inspect.signature(scoring.evaluate).parameters) - {"model"}
    assert set(EvaluateOptions.__annotations__) == declared
    for name in declared - {"console", "device_map", "revisions"}:
        assert f"    {name}:" in scoring.evaluate.__doc__, name


def test_evaluate_has_the_default_that_an_option_declares():
    import inspect

    options = inspect.signature(scoring.evaluate).parameters
    assert options["resamples"].default == RESAMPLES
    assert options["chat"].default is False


def test_the_help_of_score_fits_80_columns_with_the_common_options_first():
    lines = CliRunner().invoke(probes.app, ["score", "--help"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Arguments:",
        "Options:",
        "The run:",
        "The model:",
        "Several models:",
        "Inference servers:",
        "Chat API:",
    ]


def test_names_are_completed():
    from cards.common.options import completing

    assert completing(lambda: ["neutral", "occugender"])("neutral,o") == ["neutral,occugender"]
    command = probes.imported("score")
    completed = {}
    for parameter in command.params:
        if parameter.name in ("models", "benchmarks", "prompt"):
            context = command.make_context("score", ["x"], resilient_parsing=True)
            items = parameter.shell_complete(context, "")
            completed[parameter.name] = {item.value for item in items}
    assert completed["models"] == {"tiny-causal", "tiny-masked", "smollm2"}
    assert "occugender" in completed["benchmarks"]
    assert "debias-1" in completed["prompt"]
