import json
import socket
import subprocess
import sys
from concurrent.futures import as_completed
from dataclasses import fields

import pytest
from typer.testing import CliRunner

from builders.generate import app
from builders.generation import pipelines
from builders.generation.responses import read_responses
from builders.sources.client import HttpClient
from cards.common.packages import install_command
from tests.support.helpers import ROOT
from tests.support.openai_server import Answer, serving, writer

PAIR = {"id": "p", "domain": "gender", "subject": "nurse", "prompt": "The nurse said [BLANK] is late."}
PAIR |= {"object_biased": "she", "object_unbiased": "he"}
NAMES = ("rows.jsonl", "dropped.jsonl", "manifest.json")


@pytest.fixture
def generate(tmp_path, monkeypatch):
    """Runs the command in a folder that has the inputs."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(HttpClient, "_pause", lambda self, seconds: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("umbrella\nbridge\n")
    (tmp_path / "pairs.jsonl").write_text(json.dumps(PAIR) + "\n")

    def run(*arguments, out="out", model="m"):
        return CliRunner().invoke(app, [*arguments, "--out", out, "--model", model])

    return run


PIPELINES = {
    "probes": ["probes", "--count", "30"],
    "unstereo": ["unstereo", "--words", "words.txt"],
    "unstereo-paper": ["unstereo", "--words", "words.txt", "--profile", "paper"],
    "biaske-paraphrases": ["biaske-paraphrases", "--pairs", "pairs.jsonl"],
    "biaske-facts": ["biaske-facts", "--domain", "race", "--count", "2"],
}


def script(body, n):
    prompt = body["messages"][0]["content"]
    if "Use 'likely' or 'unlikely'" in prompt:
        return "likely"
    if "diverse sentences" in prompt:
        word, pronoun = prompt.split("'")[1], prompt.split("'")[3]
        return f"1. {pronoun.capitalize()} packed the {word}.\n2. {pronoun.capitalize()} sold the {word}."
    return writer(body)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name in (*NAMES, "review.tsv")}


@pytest.mark.fault(27)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_is_replayed_without_key_and_network_byte_for_byte(generate, tmp_path, monkeypatch, name):
    arguments = PIPELINES[name]
    with serving(script) as server:
        done = generate(*arguments, "--base-url", server.url)
    assert done.exit_code == 0, done.output
    made = contents(tmp_path / "out")
    rows = [json.loads(line) for line in made["rows.jsonl"].decode().splitlines()]
    manifest = json.loads(made["manifest.json"])
    assert manifest["rows"]["rows"] == len(rows) > 0
    assert (
        manifest["replies"]["count"] == len(read_responses(tmp_path / "out" / "replies.jsonl")) == server.came.total()
    )
    assert str(tmp_path) not in made["manifest.json"].decode()

    def refuse(*_, **__):
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    replies = ("--also", "out/replies.jsonl")
    assert generate(*arguments, *replies, "--offline", out="offline").exit_code == 0
    assert generate(*arguments, *replies, "--base-url", server.url, out="online").exit_code == 0
    assert contents(tmp_path / "offline") == contents(tmp_path / "online") == made
    assert not (tmp_path / "offline" / "replies.jsonl").exists()


@pytest.mark.fault(27)
def test_a_replay_needs_no_client(generate, tmp_path):
    with serving(script) as server:
        generate(*PIPELINES["biaske-facts"], "--base-url", server.url)
    code = (
        "import sys; sys.modules['httpx'] = None; from builders.generate import app; "
        "app(['biaske-facts', '--domain', 'race', '--count', '2', '--model', 'm', '--out', 'out', '--offline'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0


@pytest.mark.fault(27)
def test_an_offline_run_with_missing_responses_writes_nothing_and_counts_them(generate, tmp_path):
    done = generate(*PIPELINES["unstereo"], "--offline")
    assert done.exit_code == 2
    assert "Stage write needs 6 replies of m that are not recorded (there are none)" in done.output
    assert not (tmp_path / "out").exists()


def test_the_rows_do_not_depend_on_concurrency_or_order_of_responses(generate, tmp_path):
    def slow_first(body, n):
        return Answer(script(body, n), delay=0.05 if "bridge" in body["messages"][0]["content"] else 0)

    for concurrency, answers in (("1", script), ("8", slow_first)):
        with serving(answers) as server:
            generate(*PIPELINES["unstereo"], "--base-url", server.url, "--concurrency", concurrency, out=concurrency)
    assert contents(tmp_path / "1") == contents(tmp_path / "8")


@pytest.mark.fault(30)
def test_a_run_killed_at_any_write_continues_without_sending_recorded_requests_again(tmp_path):
    with serving(writer) as server:
        command = [sys.executable, "-m", "tests.builders.killed_generation", server.url, str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        message = json.loads(done.stdout)
    assert message["wrong"] == []
    assert message["killed"] >= 24  # 5 replies and 3 files, each with at least three points


@pytest.mark.fault(29)
def test_a_dry_run_prints_requests_tokens_and_cost_and_sends_and_writes_nothing(generate, tmp_path):
    with serving(script) as server:
        prices = ("--price-prompt", "0.5", "--price-reply", "1.5", "--base-url", server.url)
        before = generate(*PIPELINES["unstereo"], "--dry-run", *prices)
        assert not (tmp_path / "out").exists()
        assert server.came.total() == 0
        generate(*PIPELINES["unstereo"], *prices)
        sent = server.came.total()
        after = generate(*PIPELINES["unstereo"], "--dry-run", *prices)
        assert server.came.total() == sent

    def line(output, stage):
        return next(line.split() for line in output.splitlines() if line.strip().startswith(f"{stage} "))

    assert line(before.output, "write")[1:3] == ["0", "6"]
    assert line(before.output, "all")[1] == "0"
    assert float(line(before.output, "all")[-2]) > 0
    assert float(line(before.output, "all")[-1]) > float(line(before.output, "all")[-2])
    assert line(after.output, "all")[1:] == [str(sent), "0", "0", "0", "0", "0.0000", "0.0000"]


@pytest.mark.fault(29)
def test_an_unknown_price_is_reported_and_refuses_a_budget(generate):
    done = generate(*PIPELINES["unstereo"], "--dry-run")
    assert done.exit_code == 0
    assert "unknown" in done.output
    assert "The price of m is unknown; give --price-prompt and --price-reply, or --prices" in done.output
    done = generate(*PIPELINES["unstereo"], "--budget", "1")
    assert done.exit_code == 1
    assert "The price of m is unknown, so --budget cannot be kept" in done.output


@pytest.mark.fault(29)
def test_a_reached_budget_exits_with_3_and_a_larger_one_continues(generate, tmp_path):
    (tmp_path / "prices.toml").write_text("[m]\nprompt = 1\nreply = 2\n")
    with serving(script) as server:
        arguments = (*PIPELINES["unstereo"], "--base-url", server.url, "--prices", "prices.toml")
        done = generate(*arguments, "--budget", "0.0013")
        assert done.exit_code == 3, done.output
        assert "The budget of 0.0013 is reached" in done.output
        kept = len(read_responses(tmp_path / "out" / "replies.jsonl"))
        assert 0 < kept == server.came.total()
        assert not (tmp_path / "out" / "rows.jsonl").exists()
        assert generate(*arguments, "--budget", "0.0013").exit_code == 3
        assert server.came.total() == kept
        assert generate(*arguments, "--budget", "0.1").exit_code == 0
    assert set(server.came.values()) == {1}


@pytest.mark.fault(31)
def test_recorded_responses_of_a_removed_model_still_work(generate, tmp_path):
    def retiring(body, n):
        if body["messages"][0]["content"].startswith("Is this"):
            return Answer(status=404, code="model_not_found", text="The model `m` does not exist")
        return script(body, n)

    with serving(retiring) as server:
        done = generate(*PIPELINES["unstereo"], "--base-url", server.url)
    assert done.exit_code == 1
    assert "does not have the model m; this stage lacks" in done.output
    kept = len(read_responses(tmp_path / "out" / "replies.jsonl"))
    assert f"still work ({kept} of m)" in " ".join(done.output.split())


@pytest.mark.fault(28)
@pytest.mark.parametrize("reply", ["", "I'm sorry, I can't.", "__import__('os').mkdir('made')", "[" * 5000])
@pytest.mark.parametrize("name", PIPELINES)
def test_unusable_responses_give_no_rows_and_an_error(generate, tmp_path, name, reply):
    with serving(lambda body, n: reply) as server:
        more = ("--tries", "1") if "unstereo" in name else ("--calls", "2") if name == "probes" else ()
        done = generate(*PIPELINES[name], *more, "--base-url", server.url)
    assert done.exit_code == 1
    assert "passed" in done.output
    assert "The replies are kept" in done.output
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {"replies.jsonl", ".replies.jsonl.lock"}
    assert not (tmp_path / "made").exists()


@pytest.mark.fault(49)
def test_the_api_key_is_in_no_file_and_no_output(generate, tmp_path, monkeypatch):
    secret = "sk-planted-9876543210"
    monkeypatch.setenv("OPENAI_API_KEY", secret)

    def telling(body, n):
        return Answer(status=401, text=f"Incorrect API key provided: {secret}") if n else Answer(status=500)

    with serving(script) as server:
        done = [generate(*PIPELINES["unstereo"], "--base-url", server.url)]
    with serving(telling) as server:
        done.append(generate(*PIPELINES["probes"], "--base-url", server.url, out="refused"))
    assert [result.exit_code for result in done] == [0, 1]
    assert "Incorrect API key provided: [key]" in done[1].output
    assert secret not in "".join(result.output for result in done)
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_verdicts_in_the_review_file_apply_to_the_next_run(generate, tmp_path):
    with serving(script) as server:
        generate(*PIPELINES["biaske-paraphrases"], "--base-url", server.url)
    review = tmp_path / "out" / "review.tsv"
    header, first, second, *rest = review.read_text().splitlines()
    marked = [first.replace("\t\t", "\trejected\tother meaning", 1), second.replace("\t\t", "\taccepted\t", 1)]
    review.write_text("\n".join([header, *marked, *rest]) + "\n")
    assert generate(*PIPELINES["biaske-paraphrases"], "--offline").exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert [row["accepted"] for row in rows] == [True, False]
    assert "other meaning" in review.read_text()
    assert generate(*PIPELINES["biaske-paraphrases"], "--offline", "--only-accepted").exit_code == 0
    assert len((tmp_path / "out" / "rows.jsonl").read_text().splitlines()) == 1


def test_an_unwritable_output_folder_is_an_error_and_keeps_the_responses(generate, tmp_path):
    (tmp_path / "file").write_text("")
    with serving(script) as server:
        arguments = (*PIPELINES["biaske-facts"], "--base-url", server.url, "--replies", "replies.jsonl")
        done = generate(*arguments, out="file")
    assert done.exit_code == 1
    assert "file cannot be written" in done.output
    assert len(read_responses(tmp_path / "replies.jsonl")) == server.came.total() > 0


@pytest.mark.parametrize("address", ["http://[", "localhost:8000", "ftp://example.org", "http://"])
def test_an_invalid_address_is_refused(generate, address):
    done = generate(*PIPELINES["biaske-facts"], "--base-url", address)
    assert done.exit_code == 1
    assert "give --base-url an address such as http://localhost:8000/v1" in " ".join(done.output.split())


def test_an_interrupted_run_keeps_its_responses_and_continues(generate, tmp_path, monkeypatch):
    def interrupted(calls):
        yield from list(as_completed(calls))[:2]
        raise KeyboardInterrupt

    with serving(script) as server:
        with monkeypatch.context() as patch:
            patch.setattr("builders.generation.clients.as_completed", interrupted)
            done = generate(*PIPELINES["unstereo"], "--base-url", server.url)
        assert done.exit_code == 130
        assert "Interrupted; all replies are kept, so run again to continue." in done.output
        assert len(read_responses(tmp_path / "out" / "replies.jsonl")) == server.came.total() > 0
        assert generate(*PIPELINES["unstereo"], "--base-url", server.url).exit_code == 0
    assert set(server.came.values()) == {1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["probes", "--against", "absent.txt"], "absent.txt cannot be used (No such file or directory)"),
        (["probes", "--temperature", "nan"], "--temperature is nan; give a finite number"),
        (["biaske-paraphrases", "--pairs", "absent.jsonl"], "absent.jsonl cannot be read"),
        (["unstereo", "--words", "words.txt", "--pmi", "words.txt"], "words.txt line 1 is not JSON"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(generate, arguments, message):
    done = generate(*arguments, "--offline")
    assert done.exit_code == 1
    assert message in done.output
    assert isinstance(done.exception, SystemExit)


def test_without_the_client_it_says_what_to_install(generate, monkeypatch):
    monkeypatch.setitem(sys.modules, "builders.generation.endpoint", None)
    done = generate(*PIPELINES["biaske-facts"])
    assert done.exit_code == 1
    assert "Sending requests (without --offline) needs the package" in done.output
    assert install_command("generate") in done.output


def test_every_setting_of_every_pipeline_is_an_option():
    for name in pipelines.names():
        shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output
        for setting in fields(pipelines.get(name).settings):
            assert f"--{setting.name.replace('_', '-')}" in shown
