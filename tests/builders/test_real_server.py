"""The transport against a server that others wrote: that of transformers, with a small real model behind it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from builders.generate import app
from builders.generation.responses import read_responses
from tests.support.helpers import beside

PAIR = {"id": "p", "domain": "gender", "prompt": "The nurse said [BLANK] is late."}
PAIR |= {"object_biased": "she", "object_unbiased": "he"}
# The model tells stories of a few words; what it replies to a prompt is of no use, and told so.
PIPELINES = (
    (["probes", "--count", "1", "--calls", "2"], 2),
    (["unstereo", "--words", "words.txt", "--length", "5", "--count", "1", "--tries", "1"], 3),
    (["biaske-paraphrases", "--pairs", "pairs.jsonl", "--count", "1"], 1),
    (["biaske-facts", "--groups", "groups.tsv", "--count", "1"], 1),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Address of the server and name of its model."""
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason="needs the server of transformers: pip install transformers[serving]")
    folder = beside("models", "stories260K")
    model = tmp_path_factory.mktemp("served") / "stories"
    shutil.copytree(folder, model)
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model), "--device", "cpu"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with open(model / "log", "w") as log:
        options = ["--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=log)
    try:
        wait(server, port, model / "log")
        yield f"http://127.0.0.1:{port}/v1", str(model)
    finally:
        server.terminate()
        server.wait()


def wait(server, port, log):
    """Until the server is ready, or has ended."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(log.read_text())


@pytest.mark.mirror
@pytest.mark.fault(27)
@pytest.mark.parametrize(
    ("arguments", "least"), PIPELINES, ids=lambda value: value[0] if isinstance(value, list) else ""
)
def test_a_pipeline_runs_against_the_server_of_transformers_and_replays_without_it(
    served, tmp_path, monkeypatch, arguments, least
):
    address, model = served
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "words.txt").write_text("ball\n")
    (tmp_path / "pairs.jsonl").write_text(json.dumps(PAIR) + "\n")
    (tmp_path / "groups.tsv").write_text("domain\tgroup\tother\ngender\twomen\tmen\n")
    done = [run(*arguments, "--model", model, "--base-url", address)]
    made = read_responses(tmp_path / "out" / "replies.jsonl")
    assert len(made) >= least
    for item in made.values():
        assert item.text
        assert item.usage["prompt_tokens"] > 20
        assert 0 < item.usage["completion_tokens"] <= item.request["max_tokens"]
        assert item.finish_reason in ("stop", "length")
    done.append(run(*arguments, "--model", model, "--offline"))
    assert [item.exit_code for item in done] == [1, 1]
    assert f"No row of {arguments[0]} passed" in done[0].output
    assert done[0].output.split() == done[1].output.split()
    assert read_responses(tmp_path / "out" / "replies.jsonl") == made


def run(*arguments):
    return CliRunner().invoke(app, [*arguments, "--out", "out"])


@pytest.mark.mirror
@pytest.mark.fault(31)
def test_a_model_that_the_server_does_not_have_is_told_in_its_own_words(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*PIPELINES[0][0], "--model", "another", "--base-url", served[0])
    assert done.exit_code == 1
    assert "answered 400" in done.output
    assert "requested 'another'" in done.output
