"""Access tokens of any provider are neither printed nor stored, wherever they were written."""

import json

import pytest

from builders.generation.endpoint import Endpoint
from builders.generation.responses import ResponseCache, request_body
from cards.common.text import secrets
from pmi.counting.counts import Counts
from tests.support import commands
from tests.support.openai_server import Answer, serving

#: Tokens in the documented forms of providers; none was ever valid.
TOKENS = {
    "Hugging Face": "hf_" + "aB3" * 11,
    "OpenAI": "sk-proj-" + "aB3" * 14,
    "Anthropic": "sk-ant-api03-" + "aB3" * 12,
    "GitHub": "ghp_" + "aB3" * 12,
    "GitHub, fine-grained": "github_pat_" + "aB3" * 20,
    "GitLab": "glpat-" + "aB3" * 7,
    "AWS": "AKIA" + "ABCDEFGH12345678",
    "Google": "AIza" + "aB3" * 11 + "aB",
    "Slack": "xoxb-" + "123456789012-abcdefghijkl",
    "npm": "npm_" + "aB3" * 12,
    "Groq": "gsk_" + "aB3" * 12,
    "a web token": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
}
VARIABLES = [
    "AZURE_OPENAI_KEY", "GITHUB_PAT", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "MYSQL_PWD",
    "GOOGLE_CREDENTIALS", "AZURE_STORAGE_CONNECTION_STRING", "SSH_PASSPHRASE", "REPLICATE_API_TOKEN", "DB_PASS",
]  # fmt: skip
COMMANDS = [
    ("builders.rebuild", "--out"),
    ("builders.generate", "probes", "--out"),
    ("builders.push",),
    ("pmi", "count"),
    ("pmi", "count", "a.txt", "--name"),
    ("scoring",),
    ("scoring", "tiny-causal", "--prompt"),
    ("scoring.commands.rescore",),
    ("mitigation", "prompts", "tiny-causal", "--out"),
    ("scoring.commands.card",),
]


def placed(token):
    """A token in a path, in addresses, in a name, and alone."""
    return (
        token,
        f"/data/{token}/corpus",
        f"https://example.org/file?a=b&token={token}",
        f"https://user:{token}@example.org/file",
        f"run-of-{token}",
        f"s3://bucket/{token}.jsonl",
    )


@pytest.mark.fault(73)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_token_in_an_argument_is_refused_without_being_printed(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    token = TOKENS["GitHub, fine-grained"]
    for argument in (*placed(token), "https://example.org/x?api_key=short-one", "postgres://me:hunter2@db/x"):
        done = commands.run(*command, argument)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert not {token, "short-one", "hunter2"} & set((done.stdout + done.stderr).split())
        assert token not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault(73)
@pytest.mark.parametrize("provider", TOKENS)
def test_the_tokens_of_providers_are_found_by_their_form_alone(provider):
    for text in placed(TOKENS[provider]):
        assert TOKENS[provider] not in secrets({}).sub("[redacted]", f"in {text} here")


@pytest.mark.fault(73)
@pytest.mark.parametrize("variable", VARIABLES)
def test_the_values_of_the_usual_variables_are_found_in_any_place(tmp_path, monkeypatch, variable):
    secret = "plain-words-of-nobody"
    monkeypatch.setenv(variable, secret)
    monkeypatch.chdir(tmp_path)
    done = commands.run("pmi", "count", f"/data/{secret}/x.txt")
    assert done.returncode == 2
    assert secret not in done.stdout + done.stderr


@pytest.mark.fault(73)
@pytest.mark.parametrize(
    "text",
    [
        "/home/me/models/hf_models/task-oriented-dialogue-systems-1b",
        "org/risk-assessment-model-of-2026-with-a-long-name",
        "hf://datasets/org/name@main/file.jsonl",
        "http://localhost:8000/v1",
        "https://example.org/search?q=key",
        "sha256:" + "0123456789abcdef" * 4,
        "AKIA",
    ],
)
def test_what_is_no_token_is_left_alone(text):
    assert secrets({"PWD": "/home/me", "HOME": "/home/me", "PATH": "/usr/bin"}).search(text) is None


@pytest.mark.fault(73)
def test_a_token_in_a_prompt_file_is_in_no_file_and_no_line(tmp_path):
    token, prompt, out = TOKENS["Anthropic"], tmp_path / "prompt.json", tmp_path / "out"
    prompt.write_text(json.dumps({"name": f"mine {token}", "version": "1.0.0", "instruction": f"Use {token}."}))
    assert (
        commands.run("builders.rebuild", "gender-neutral-probes", "--offline", "--out", tmp_path / "d").returncode == 0
    )
    done = commands.run("scoring", "tiny-causal", "--benchmarks", "neutral", "--data", tmp_path / "d", "--limit", 2,
                        "--prompt", prompt, "--out", out, "--resamples", 10)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert token not in done.stdout + done.stderr
    files = [path for path in out.rglob("*") if path.is_file()]
    assert (out / "results.json") in files
    assert all(token.encode() not in path.read_bytes() and token not in str(path) for path in files)


@pytest.mark.fault(73)
def test_every_secret_of_the_environment_is_replaced_in_stored_replies(tmp_path, monkeypatch):
    known = {"HF_TOKEN": "words-of-nobody-1", "OPENAI_API_KEY": "words-of-nobody-2", "DB_PASS": "words-of-nobody-3"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    told = " and ".join(known.values())
    with serving(lambda body, before: Answer(f"You told me {told}.")) as server:
        client = Endpoint(server.url)
        try:
            reply = client.send(request_body("m", "What do you know?", temperature=0, max_tokens=50))
        finally:
            client.close()
        with ResponseCache(tmp_path / "r.jsonl") as cache:
            cache.put(reply)
    assert reply.text == "You told me [redacted] and [key] and [redacted]."
    assert not any(value.encode() in (tmp_path / "r.jsonl").read_bytes() for value in known.values())


@pytest.mark.fault(73)
def test_a_name_that_only_looks_like_a_word_is_stored(tmp_path):
    (tmp_path / "a.txt").write_text("She saw a ship.")
    done = commands.run(
        "pmi", "count", tmp_path / "a.txt", "--out", tmp_path / "c.parquet", "--name", "my token corpus"
    )
    assert done.returncode == 0
    assert Counts.read(tmp_path / "c.parquet").rule.corpus == "my token corpus"
