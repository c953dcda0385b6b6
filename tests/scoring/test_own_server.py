"""A server that is started for each of several models, and ends with it."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import pytest

import scoring
from builders.sources.client import HttpClient
from scoring.many.own_server import PORTS, arguments, free_port
from scoring.many.sweep import FINISHED
from scoring.types import ScoringError
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows
from tests.support.helpers import ROOT
from tests.support.openai_server import serving

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


#: Starts a server that never answers, and waits for it.
WAITING = f"""
import subprocess
import sys
sys.path.insert(0, {str(ROOT)!r})
from types import SimpleNamespace
from scoring.many.own_server import serving_model
many = SimpleNamespace(server=sys.argv[1])
with serving_model(SimpleNamespace(loading=SimpleNamespace(model="m"), many=many)):
    pass
"""


def test_the_server_of_a_run_that_is_killed_ends(tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(
        "import os, sys, time\nopen(sys.argv[0] + '.pid', 'w').write(f'{os.getpid()}.')\ntime.sleep(600)\n"
    )
    written = script.with_suffix(".py.pid")
    command = f"{sys.executable} {script} {{model}} {{port}}"
    with subprocess.Popen([sys.executable, "-c", WAITING, command]) as run:
        while not (written.is_file() and written.read_text().endswith(".")):
            assert run.poll() is None, "the run ended before it was killed"
            time.sleep(0.1)
        run.kill()
    assert ended(int(written.read_text()[:-1]))


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_of_this_machine(monkeypatch):
    with serving(lambda body, _before: "yes") as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        client = HttpClient(server.url, attempts=1)
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}
        assert client.post(f"{client.base_url}/chat/completions", body)["choices"]
        client.close()
