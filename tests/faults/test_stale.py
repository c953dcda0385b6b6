"""What belongs to a stored answer, a folder and a budget: each input and setting is changed between two commands.

Tried as a user would: two servers under one model name, other weights in a folder of the same name, another file of the
same size and time. A stored answer is used only where all is as it was; results of other settings stay.
"""

import json
import os
import shutil
from decimal import Decimal

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tenacity import wait_none
from typer.testing import CliRunner

import pmi
from builders.generate import app as generate
from builders.generation.responses import read_responses
from builders.sources import retries
from builders.sources.client import HttpClient
from scoring.__main__ import app
from scoring.inference.load_options import BUNDLED, load
from scoring.report import read
from tests.scoring import inference_server as stand_in
from tests.scoring.made import data_set
from tests.scoring.test_chat_api import jobs
from tests.scoring.test_chat_api import writer as answers
from tests.scoring.test_run import pairs
from tests.support.openai_server import Answer, serving, writer

torch.set_num_threads(1)
PRICED = ("--price-prompt", "10", "--price-reply", "100")


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(HttpClient, "_pause", lambda self, seconds: None)
    monkeypatch.setattr(retries, "_BACKOFF", wait_none())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): [r for r in jobs() if r["template"] == "explicit"]})
    return data_set(folder, "unstereo", {("ours-5", "test"): list(pairs("a"))})


def command(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def scored(data, out, *arguments):
    done = command(*arguments, "--data", data, "--resamples", "20", "--out", out)
    assert done.exit_code == 0, done.output
    return {e.key: e.value for e in read(out).estimates}


def refused(data, out, *arguments):
    """What a command says that must not replace the results of another one."""
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    done = command(
        *arguments, *(() if "--resamples" in arguments else ("--resamples", "20")), "--data", data, "--out", out
    )
    assert done.exit_code == 1, done.output
    assert done.output.strip().count("\n") == 0, done.output
    for path in ("results.json", "report.html"):
        assert (out / path).read_bytes() == before[out / path]
    return done.output


def chat(server, *more):
    return "--chat-api", "--base-url", server.url, "--model-name", "m", "--benchmarks", "occugender", *more


# servers of chat models


@pytest.mark.fault(88)
def test_a_second_chat_server_of_the_same_model_name_is_asked_itself(data, tmp_path):
    with serving(answers) as one, serving(lambda *_: "male") as other:
        first = scored(data, tmp_path, *chat(one))
        assert f"(server {one.url}, now {other.url})" in refused(data, tmp_path, *chat(other))
        asked = len(other.prompts)
        assert asked == len(one.prompts)
        second = scored(data, tmp_path, *chat(other, "--overwrite"))
        assert first != second
        assert read(tmp_path).environment["response key"]["server"] == other.url
        # Both have their replies now, so none is asked again.
        assert scored(data, tmp_path, *chat(one, "--overwrite")) == first
        assert (len(other.prompts), len(one.prompts)) == (asked, asked)


@pytest.mark.fault(88)
def test_a_second_server_of_the_same_name_writes_the_texts_of_a_pipeline_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("umbrella\n")
    with serving(writer) as one, serving(writer) as other:
        for server in (one, other, one):
            arguments = ["unstereo", "--words", "words.txt", "--out", "out", "--model", "m", "--base-url", server.url]
            done = CliRunner().invoke(generate, arguments)
            assert done.exit_code == 0, done.output
            assert json.loads((tmp_path / "out" / "manifest.json").read_text())["replies"]["servers"] == [server.url]
        assert len(one.prompts) == len(other.prompts) > 0
    of_both = [*arguments[:-2], "--offline"]
    done = CliRunner().invoke(generate, of_both)
    assert done.exit_code == 1
    assert f"has replies of 2 servers ({', '.join(sorted((one.url, other.url)))}); name one" in done.output
    assert CliRunner().invoke(generate, [*of_both, "--base-url", other.url]).exit_code == 0


@pytest.mark.fault(88)
def test_replies_that_name_no_server_are_used_only_where_the_user_says_so(data, tmp_path):
    with serving(answers) as server:
        whole = scored(data, tmp_path / "whole", *chat(server))
        asked = len(server.prompts)
        path = tmp_path / "old" / "replies.jsonl"
        path.parent.mkdir()
        # With those to the control rows.
        replies = list(read_responses(tmp_path / "whole" / "replies.jsonl").values())
        path.write_text("".join(f"{reply.of_server('').to_line()}\n" for reply in replies))
        assert scored(data, tmp_path / "old", *chat(server, "--offline")) == whole
        assert len(server.prompts) == asked
        done = command(*chat(server), "--data", data, "--resamples", "20", "--out", tmp_path / "old", "--overwrite")
        assert f"{len(replies)} replies in {path} do not say which server responded" in done.output
        assert len(server.prompts) == 2 * asked


@pytest.mark.fault(91)
def test_two_model_names_and_two_servers_have_one_budget(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("umbrella\nbridge\n")
    limit, spent = Decimal("0.02"), Decimal(0)

    def reply(body, _):
        return Answer(writer(body), usage=(100, 10))

    with serving(reply) as one, serving(reply) as other:
        for server, model, price in ((one, "m", 10), (one, "n", 1), (other, "m", 10), (other, "o", 1)):
            before = len(server.prompts)
            arguments = ["unstereo", "--words", "words.txt", "--out", "out", "--model", model, "--budget", str(limit)]
            prices = ["--price-prompt", str(price), "--price-reply", str(10 * price), "--concurrency", "1"]
            done = CliRunner().invoke(generate, [*arguments, *prices, "--base-url", server.url])
            assert done.exit_code in (0, 3), done.output
            spent += (len(server.prompts) - before) * Decimal(price * 200) / 1_000_000
        assert len(one.prompts) > 0
    assert spent <= limit


# weights and files of a model


def changed_weights(folder):
    """Has the weights of a model differ by 1 %, with the size and the time of their file as they were."""
    path = folder / "model.safetensors"
    times, draw = path.stat(), torch.Generator().manual_seed(0)
    weights = {name: w * (1 + 0.01 * torch.randn(w.shape, generator=draw)) for name, w in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.fault(88)
def test_a_folder_with_the_name_of_a_commit_is_known_by_its_content(data, tmp_path):
    model = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "models--org--m" / "snapshots" / ("a" * 40))
    common = (model, "--benchmarks", "occugender", "--dtype", "float32")
    before = scored(data, tmp_path / "out", *common)
    changed_weights(model)
    assert "another files" in refused(data, tmp_path / "out", *common)
    assert scored(data, tmp_path / "out", *common, "--overwrite") == scored(data, tmp_path / "new", *common) != before


@pytest.mark.fault(88)
def test_the_files_of_a_tokenizer_are_a_part_of_the_key_whatever_their_names_are(tmp_path):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    (tmp_path / "vocab.txt").write_text("he 9\nshe 9\na 9\n")
    (tmp_path / "bpe.codes").write_text("s he</w> 5\nh e</w> 4\n")
    tokenizer = transformers.PhobertTokenizer(str(tmp_path / "vocab.txt"), str(tmp_path / "bpe.codes"))
    tokenizer.save_pretrained(tmp_path)
    transformers.RobertaForMaskedLM(transformers.RobertaConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(
        tmp_path
    )
    before = load(tmp_path, device="cpu")
    (tmp_path / "README.md").write_text("A card changes no answer.")
    assert load(tmp_path, device="cpu").files == before.files
    (tmp_path / "bpe.codes").write_text("h e</w> 5\ns he</w> 4\n")
    after = load(tmp_path, device="cpu")
    assert after.files != before.files
    assert after.revision != before.revision


@pytest.mark.fault(88)
def test_a_server_is_known_by_its_address_and_its_weights(data, tmp_path):
    server = stand_in.Server()
    more = ("--tokenizer", "tiny-causal", "--benchmarks", "occugender")
    with stand_in.serving(server) as running, stand_in.serving() as other:
        before = scored(data, tmp_path, "--base-url", running.url, *more)
        known = read(tmp_path).environment["response key"]
        assert (known["server"], known["model"]) == (running.url, "tiny")
        said = refused(data, tmp_path, "--base-url", other.url, *more)
        assert f"(server {running.url}, now {other.url})" in said
        server.scale = 1.01
        said = refused(data, tmp_path, "--base-url", running.url, *more)
        assert "now serves another model than the one whose responses are stored" in said
        assert scored(data, tmp_path / "new", "--base-url", running.url, *more) != before


# corpora


@pytest.mark.fault(88)
def test_a_corpus_file_of_the_same_size_and_time_is_counted_again(tmp_path):
    one, two = tmp_path / "a.txt", tmp_path / "b.txt"
    one.write_text("She saw a nurse. " * 50)
    two.write_text("He saw a ship. " * 50)
    times = one.stat()
    settings = {"gendered": ["she", "he"], "work_folder": tmp_path / "parts", "jobs": 1}
    before = pmi.count([one, two], **settings)
    one.write_text("She saw a baker. " * 50)
    os.utime(one, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert one.stat().st_size == times.st_size
    after = pmi.count([one, two], **settings)
    fresh = pmi.count([one, two], **settings | {"work_folder": tmp_path / "other"})
    assert "nurse" in before.words
    assert "nurse" not in after.words
    assert (after.words, after.word_counts.tolist()) == (fresh.words, fresh.word_counts.tolist())


# settings


@pytest.mark.fault(89)
@pytest.mark.parametrize(
    ("option", "named"),
    [
        (("--ways", "choice,text"), "ways"),
        (("--wordings", "2"), "wordings"),
        (("--truncate",), "truncate"),
        (("--exact",), "exact"),
        (("--limit", "2"), "limit"),
        (("--resamples", "30"), "resamples"),
        (("--benchmarks", "occugender,unstereo"), "benchmarks"),
    ],
)
def test_other_settings_of_a_local_run_are_refused_by_name(option, named, data, first_run):
    said = refused(data, first_run, "tiny-causal", "--benchmarks", "occugender", *option)
    differing = said.partition("holds results with other settings (")[2]
    assert f"{named} " in differing.partition(")")[0]
    assert "give another --out, or --overwrite to replace them." in said


@pytest.fixture(scope="module")
def first_run(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("first")
    scored(data, out, "tiny-causal", "--benchmarks", "occugender")
    return out


@pytest.mark.fault(89)
@pytest.mark.parametrize("option", ["samples", "temperature", "seed"])
def test_other_settings_of_a_chat_run_are_refused_before_anything_is_asked(option, data, tmp_path):
    with serving(lambda *_: "male") as server:
        scored(data, tmp_path, *chat(server, "--samples", "2", "--temperature", "0.5"))
        asked = len(server.prompts)
        common = {"--samples": "2", "--temperature": "0.5", "--resamples": "20", f"--{option}": "3"}
        said = refused(data, tmp_path, *chat(server), *(part for pair in common.items() for part in pair))
        assert said.count(f"{option} ") == 1
        assert len(server.prompts) == asked
    recorded = read(tmp_path).environment
    assert recorded["settings"]["seed"] == 0
    assert "seeds 0 to 1" in recorded["answers"]
