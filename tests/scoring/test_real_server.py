"""The whole causal suite through a real server, compared with the local engine: ``make test-served``."""

import json
import os
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import httpx2
import pandas as pd
import pytest
import torch
from peft import PeftModel
from typer.testing import CliRunner

import mitigation
import scoring
from builders.sources.client import HttpError
from cards.results import STATUSES
from mitigation import recipes
from mitigation.adapters.temporary import attached
from mitigation.training.trainable import trainable
from scoring import benchmarks
from scoring.__main__ import app
from scoring.asking import run
from scoring.asking.ways import asked
from scoring.inference.chat import Chat
from scoring.inference.load_options import BUNDLED, LoadOptions, load
from scoring.inference.served.engine import connect
from scoring.options import ServedOptions
from scoring.report import read
from scoring.types import Answer, Option, Request
from tests.mitigation import test_merge
from tests.scoring.made import data_set
from tests.scoring.test_benchmarks_bbq import question
from tests.support import real
from tests.support.helpers import ROOT
from tools.peers import compare_engines, real_server

pytestmark = pytest.mark.skipif(
    "PROBES_SERVED" not in os.environ or not real_server.installed(),
    reason="needs a real inference server, which make test-served installs and starts",
)


@pytest.fixture(scope="module")
def parts():
    return compare_engines.parts(str(ROOT / "output"))


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with real_server.vllm(BUNDLED["tiny-causal"], tmp_path_factory.mktemp("server") / "server.log") as server:
        yield server.url


@pytest.fixture(scope="module")
def local(parts, tmp_path_factory):
    model = load(BUNDLED["tiny-causal"], dtype="float32", device="cpu")
    return compare_engines.measured(model, parts, tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def served(url, parts, tmp_path_factory):
    with closing(connect(ServedOptions([url], None, "tiny-causal"))) as engine:
        assert engine.servers[0].points
        return compare_engines.measured(engine, parts, tmp_path_factory.mktemp("served"))


def test_every_benchmark_for_causal_models_is_there(parts):
    assert {part.benchmark.name for part in parts} == {
        "biaske",
        "crows_pairs",
        "neutral",
        "occugender",
        "pronouns",
        "stated_gender",
        "stereoset",
        "unstereo",
    }


def test_every_log_probability_is_that_of_the_local_engine(local, served):
    apart, count = compare_engines.largest_difference(local, served)
    print(f"{count:,} log-probabilities differ by at most {apart:.1e}.")
    assert apart < compare_engines.LOGPROB


def test_every_metric_is_that_of_the_local_engine(local, served):
    assert compare_engines.differing(local, served) == []


def test_large_benchmarks_have_the_log_probabilities_and_metrics_of_the_local_engine_on_few_rows(url, tmp_path):
    some = compare_engines.parts(str(ROOT / "output"), compare_engines.ROWS, sampled=True)
    assert {part.benchmark.name for part in some} == set(compare_engines.SAMPLED)
    (tmp_path / "local").mkdir()
    (tmp_path / "served").mkdir()
    local = compare_engines.measured(
        load(BUNDLED["tiny-causal"], dtype="float32", device="cpu"), some, tmp_path / "local"
    )
    with closing(connect(ServedOptions([url], None, "tiny-causal"))) as engine:
        served = compare_engines.measured(engine, some, tmp_path / "served")
    apart, count = compare_engines.largest_difference(local, served)
    print(f"{count:,} log-probabilities of few rows differ by at most {apart:.1e}.")
    assert apart < compare_engines.LOGPROB
    assert compare_engines.differing(local, served) == []


def test_the_page_of_engines_has_every_metric(url, tmp_path):
    parts = compare_engines.parts(str(ROOT / "output"), compare_engines.ROWS)
    local = compare_engines.measured(load(BUNDLED["tiny-causal"], dtype="float32", device="cpu"), parts, tmp_path)
    with closing(connect(ServedOptions([url], None, "tiny-causal"))) as engine:
        served = compare_engines.measured(engine, parts, tmp_path)
    assert compare_engines.differing(local, served) == []
    chat = compare_engines.sampled(url, parts, tmp_path)
    made = compare_engines.table(local, served, chat)
    told = pd.read_csv(ROOT / "docs" / "engines.csv", index_col=["benchmark", "group", "metric"])
    assert made.index.equals(told.index)
    pd.testing.assert_frame_equal(made, told, atol=compare_engines.METRIC, rtol=0)
    # Only a chat API gives answers that are empty, cut or blocked: the local engine has no such shares.
    of_text = {name for name in chat.metrics if name[0] == "neutral" and name[2] not in STATUSES}
    assert of_text
    for name in of_text:
        assert chat.metrics[name].value == pytest.approx(local.metrics[name].value, abs=1e-3, nan_ok=True)


def test_a_new_user_gets_one_sentence_for_a_wrong_tokenizer(url, tmp_path):
    arguments = [
        "--base-url",
        url,
        "--tokenizer",
        "tiny-masked",
        "--data",
        str(ROOT / "output"),
        "--out",
        str(tmp_path),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "give --tokenizer the tokenizer of the model that is served." in done.output


def test_a_run_through_two_servers_of_which_one_is_killed_has_the_numbers_of_an_undisturbed_one(url, tmp_path):
    common = ["--tokenizer", "tiny-causal", "--data", str(ROOT / "output"), "--resamples", "2", "--batch-tokens", "512"]
    common += ["--benchmarks", "stereoset,unstereo", "--limit", "100"]
    undisturbed = CliRunner().invoke(app, ["--base-url", url, *common, "--out", str(tmp_path / "undisturbed")])
    assert undisturbed.exit_code == 0, undisturbed.output
    with real_server.vllm(BUNDLED["tiny-causal"], tmp_path / "second.log") as second:

        def kill_when_answered():
            while not any(path.stat().st_size for path in (tmp_path / "run").rglob("*.jsonl")):
                time.sleep(0.02)
            second.kill()

        killer = threading.Thread(target=kill_when_answered, daemon=True)
        killer.start()
        both = ["--base-url", url, "--base-url", second.url]
        done = CliRunner().invoke(app, [*both, *common, "--out", str(tmp_path / "run")])
        killer.join(60)
        assert second.killed
    assert done.exit_code == 0, done.output
    assert "A server was dropped" in done.output
    one, other = (compare_engines.metrics(read(tmp_path / name).estimates) for name in ("undisturbed", "run"))
    assert one.keys() == other.keys()
    assert compare_engines.unequal_metrics(one, other) == []


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
# One recipe for each form that a merge writes: a low-rank matrix, further units, and a projection.
@pytest.mark.parametrize("recipe", ["cda", "fast", "sentence_debias"])
def test_a_merged_model_is_served_with_the_log_probabilities_of_the_adapted_one(recipe, tmp_path):
    few = compare_engines.parts(str(ROOT / "output"), 5)
    model = LoadOptions("tiny-causal", device="cpu", dtype="float32").load()
    folder = test_merge.adapter(recipe, model, tmp_path)
    mitigation.merge("tiny-causal", folder, out=tmp_path / "merged")
    with attached(model, folder) as adapted:
        local = compare_engines.measured(adapted, few, tmp_path / "local")
    with (
        real_server.vllm(tmp_path / "merged", tmp_path / "server.log") as server,
        closing(connect(ServedOptions([server.url], None, str(tmp_path / "merged")))) as engine,
    ):
        served = compare_engines.measured(engine, few, tmp_path / "served")
    apart, count = compare_engines.largest_difference(local, served)
    print(f"{recipe}: {count:,} log-probabilities differ by at most {apart:.1e}.")
    assert apart < compare_engines.LOGPROB


def lora_of_rank(rank, folder):
    """A LoRA of `tiny-causal` whose second matrices are random, so that it changes what the model says."""
    torch.manual_seed(0)
    model = LoadOptions("tiny-causal", device="cpu", dtype="float32").load()
    with trainable(model, SimpleNamespace(rank=rank, seed=0), rank) as tuned:
        for name, weight in tuned.network.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.05)
        tuned.save(folder)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_a_lora_of_the_rank_of_debias_tuning_is_served_with_the_option_that_the_page_names(tmp_path):
    rank = recipes.get("debias_tuning").profiles["clean"].rank
    option = f"--max-lora-rank {rank}"
    assert option in (ROOT / "docs" / "adapters.md").read_text()
    folder = tmp_path / "adapter"
    folder.mkdir()
    lora_of_rank(rank, folder)
    model = LoadOptions("tiny-causal", device="cpu", dtype="float32").load()
    tokenizer = model.tokens.tokenizer
    ids = tokenizer("My friend is a doctor, and", return_tensors="pt").input_ids
    adapted = PeftModel.from_pretrained(model.network, folder).eval()
    expected = adapted.generate(input_ids=ids, do_sample=False, max_new_tokens=8)[0, ids.shape[1] :].tolist()
    switches = ["--enable-lora", *option.split(), "--lora-modules", f"adapted={folder}"]
    with real_server.vllm(BUNDLED["tiny-causal"], tmp_path / "server.log", more=switches) as server:
        body = {"prompt": ids[0].tolist(), "max_tokens": 8, "temperature": 0, "return_token_ids": True}
        texts = {}
        for name in ("tiny", "adapted"):
            reply = httpx2.post(f"{server.url}/completions", json={"model": name, **body}, timeout=120).json()
            texts[name] = reply["choices"][0]["text"]
    assert texts["adapted"] == tokenizer.decode(ids[0].tolist() + expected)[len(tokenizer.decode(ids[0])) :]
    assert texts["adapted"] != texts["tiny"]


def test_prompts_that_a_server_computes_in_parts_have_the_numbers_of_the_local_engine(tmp_path):
    texts = [" ".join([sentence] * 36) for sentence in ("She saw the old man.", "He was at home.")]
    requests = [Request(str(n), options=(Option(text),)) for n, text in enumerate(texts)]
    local = load(BUNDLED["tiny-causal"], dtype="float32", device="cpu").answer(requests)
    with (
        real_server.vllm(BUNDLED["tiny-causal"], tmp_path / "server.log", part=64) as server,
        closing(connect(ServedOptions([server.url], None, "tiny-causal"))) as engine,
    ):
        served = engine.answer(requests)
    for one, other in zip(local, served, strict=True):
        assert len(one.logprobs[0]) > 128
        assert one.logprobs[0] == pytest.approx(other.logprobs[0], abs=compare_engines.LOGPROB)


@pytest.fixture(scope="module")
def rows_with_lists(tmp_path_factory):
    """Data whose questions list their options after letters: BBQ, MBBQ, and pairs of sentences for a choice."""
    folder = tmp_path_factory.mktemp("listed")
    for name, config in (("bbq", "gender"), ("mbbq", "en")):
        rows = [question(number, config=config) for number in range(6)]
        rows = [{column: value for column, value in row.items() if not callable(value)} for row in rows]
        data_set(folder, name, {(config, "test"): rows})
    pairs = []
    for number in range(4):
        pair = {"sentence_male": f"He saw number {number}.", "sentence_female": f"She saw number {number}."}
        pairs.append({"id": str(number), "word": f"w{number}", "natural": True, "max_pmi_diff": 0.1, **pair})
    return data_set(folder, "unstereo", {("ours-5", "test"): pairs})


@pytest.mark.real
def test_letters_of_a_chat_api_have_the_probabilities_of_the_local_engine(rows_with_lists, tmp_path, monkeypatch):
    """BBQ, MBBQ and a forced choice of SmolLM2, through its chat template on both sides: letters and scores."""
    folder = real.smollm2()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    template = ["--chat-template", str(folder / "chat_template.jinja")]
    tables, lines = {}, []
    with real_server.vllm(folder, tmp_path / "server.log", name="smol", more=template) as server:
        for names, way in (("bbq,mbbq", "likelihood"), ("unstereo", "choice")):
            out = tmp_path / way
            settings = {"model_name": "smol", "chat_api": True, "base_url": server.url, "temperature": 0.0}
            settings |= {"data": rows_with_lists, "resamples": 2, "samples": 1, "out": out}
            tables |= scoring.evaluate(benchmarks=names, ways=way, **settings).tables
            lines += [json.loads(line) for line in (out / "replies.jsonl").read_text().splitlines()]
    model = load(str(folder), dtype="float32", device="cpu")
    chat = Chat(model.tokens.tokenizer, "smol")
    answers = {}
    for line in lines:
        if "logprobs" not in line["request"]:
            continue  # a control row
        prompt = line["request"]["messages"][-1]["content"]
        letters = [letter for letter in "ABC" if f"\n{letter}. " in prompt]
        (response,) = model.answer([Request("", chat.text(prompt), tuple(map(Option, letters)))])
        local = {letter: tokens[0] for letter, tokens in zip(letters, response.logprobs, strict=True)}
        given = line["logprobs"]
        assert {letter: given[letter] for letter in letters} == pytest.approx(local, abs=1e-3)
        answers[prompt] = Answer(line["reply"], line["finish_reason"], local)
    assert len(answers) == 6 + 4 * 4  # BBQ and MBBQ have the same questions
    begun = sum(answer[:1] in ("A", "B", "C") for answer in answers.values())
    print(f"{begun} of {len(answers)} replies begin with a letter.")
    assert begun
    for benchmark in (benchmarks.get("bbq"), benchmarks.get("mbbq"), asked(benchmarks.get("unstereo"), "choice")):
        (part,) = run.read([benchmark], str(rows_with_lists), "clean", None)
        for number, row in enumerate(part.splits[0].rows):
            prompts = benchmark.sampled.question("clean", row)
            of_row = [answers[prompt] for prompt in ([prompts] if isinstance(prompts, str) else prompts)]
            (record,) = benchmark.sampled.to_records(row, of_row)
            table = tables[benchmark.name]
            for column in ("biased", "known", "female_logprob", "male_logprob"):
                if column in record:
                    assert table[column][number] == pytest.approx(record[column], abs=1e-3)


def test_a_token_outside_the_vocabulary_is_refused_by_the_server(url):
    body = {"model": "tiny", "prompt": [[0, 10**6]], "max_tokens": 1}
    with (
        closing(connect(ServedOptions([url], None, "tiny-causal"))) as engine,
        pytest.raises(HttpError, match="answered 400"),
    ):
        engine.servers[0].client.post(f"{url}/completions", body)
