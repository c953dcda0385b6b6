"""A server that is started for each of several models, and ends with it."""

import os
import sys
import time
from contextlib import suppress

import pytest

import scoring
from scoring.many.own_server import PORTS, arguments, free_port
from scoring.many.sweep import FINISHED
from scoring.types import ScoringError
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows
from tests.support.helpers import ROOT

#: A server as vLLM is one, of the bundled model, at the port of its last argument. It writes its process and the GPUs
#: that it may use into files.
SERVER = f"""
import os, sys, time
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.scoring import inference_server
Path(__file__).with_suffix(".pid").write_text(str(os.getpid()))
Path(__file__).with_suffix(f".{{sys.argv[2]}}").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
inference_server.bound = lambda make: make(int(sys.argv[2]))
with inference_server.serving():
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_set(tmp_path_factory.mktemp("data"), "occugender", {("explicit", "test"): list(job_rows())})


def ended(process):
    for _ in range(100):
        with suppress(ProcessLookupError):
            os.kill(process, 0)
            time.sleep(0.1)
            continue
        return True
    return False


def test_each_model_has_a_server_and_the_numbers_that_it_has_here(data, tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    command = f"{sys.executable} {script} {{model}} {{port}}"
    about = {"data": data, "resamples": 50, "benchmarks": "occugender"}
    swept = scoring.evaluate(["tiny-causal"], out=tmp_path / "all", server=command, **about)
    assert not swept.failed, swept.failed
    assert ended(int(script.with_suffix(".pid").read_text()))
    here = scoring.evaluate("tiny-causal", device="cpu", dtype="float32", **about)
    served = {score.key: score.value for score in swept["tiny-causal"].report.estimates}
    for score in here.report.estimates:
        assert served[score.key] == pytest.approx(score.value, abs=1e-3, nan_ok=True)
    assert (swept.runs["tiny-causal"] / FINISHED).is_file()
    # A finished model has no server any more.
    script.unlink()
    assert list(scoring.evaluate(["tiny-causal"], out=tmp_path / "all", server=command, **about).runs) == [
        "tiny-causal"
    ]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (f"{sys.executable} -c 'import sys; sys.exit(\"no GPU\")' {{model}} {{port}}", "status 1 before it answered"),
        (f"{sys.executable} -c 'import sys; sys.exit(\"no GPU\")' {{model}} {{port}}", "it said: no GPU"),
        ("no-such-program {model} {port}", "no-such-program cannot be started"),
        ("vllm serve {model}", "lacks {model} or {port}"),
        ("vllm 'serve {model} {port}", "is no line of a shell"),
    ],
)
def test_a_server_that_does_not_start_is_the_sentence_of_its_model(data, tmp_path, command, told):
    swept = scoring.evaluate(["tiny-causal"], out=tmp_path / "all", server=command, data=data)
    assert told in swept.failed["tiny-causal"].sentence


def test_a_model_is_one_word_and_has_the_same_port_each_time():
    assert arguments("serve --m={model} {port}", "a; rm b", 7) == ["serve", "--m=a; rm b", "7"]
    port = free_port("org/model")
    assert port in PORTS
    assert free_port("org/model") == port


def test_a_server_is_of_several_models(data):
    with pytest.raises(ScoringError, match="needs several models"):
        scoring.evaluate("tiny-causal", server="x {model} {port}", data=data)


def test_options_of_a_loaded_model_are_refused_with_a_server(data, tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    command = f"{sys.executable} {script} {{model}} {{port}}"
    swept = scoring.evaluate(["tiny-causal"], out=tmp_path / "all", data=data, dtype="float64", server=command)
    assert "--dtype says how a model is loaded" in swept.failed["tiny-causal"].sentence
