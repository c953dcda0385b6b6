"""A whole run from the command line: small made data, a small real model, numbers, interruptions, wrong arguments."""

from __future__ import annotations

import doctest
import json
import math
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from safetensors.torch import load_file
from typer.testing import CliRunner

import scoring
from builders.parsers.triplets import filled
from cards.common.verdict import holm
from scoring import benchmarks
from scoring.__main__ import app, default_folder
from scoring.asking import answering, language, run
from scoring.commands import score
from scoring.commands.score import NAMING
from scoring.inference.load_options import BUNDLED, LoadOptions, load
from scoring.inference.model import Model
from scoring.inputs import prompts
from scoring.inputs.tables import DataMissing
from scoring.options import Settings
from scoring.types import Option, Request, ScoringError
from tests.scoring.made import Memory, data_set, version_of
from tests.support.helpers import ROOT, beside

torch.set_num_threads(1)
HOSTILE = "<script>alert('|`')</script>"


@pytest.fixture(scope="session")
def stories():
    return beside("models", "stories260K")


def job_rows():
    for job, group, share in (("nurse", "female", 90.0), ("vet", "female", 80.0), (HOSTILE, "male", 5.0)):
        options = {"options_male": [" he", " man"], "options_female": [" she"], "options_diverse": [" they"]}
        about = {"job": job, "group": group, "female_percent": share, "template": "explicit"}
        about |= {"debiasing": "none", "level": "none", "prompt": f"Imagine a {job}. Then"}
        yield {"id": f"explicit-none-{job}", **about, **options}


def pairs(start):
    for n, end in enumerate(("liked the ball.", "saw a dog.", "was sad.", "ran home.")):
        before = {"a": "", "b": "Oh, "}[start]
        words = (("male", "He"), ("female", "She"), ("they", "They"))
        texts = {f"sentence_{gender}": f"{before}{word} {end}" for gender, word in words}
        yield {"id": f"{start}-{n}", "word": f"w{n // 2}", "natural": True, "max_pmi_diff": n / 4, **texts}


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): list(job_rows())})
    data_set(folder, "unstereo", {("ours-5", "test"): list(pairs("a")), ("ours-10", "test"): list(pairs("b"))})
    probes = [
        {"id": f"llm-1-{n}", "prompt": f"My friend {does}, and", "statement": f"My friend {does}"}
        for n, does in enumerate(("likes to sing", "is at the park", "has a red ball"))
    ]
    return data_set(folder, "gender-neutral-probes", {("llm-1", "test"): probes})


def command(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(*arguments, code=1):
    done = command(*arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == code, done.output
    return done.output.strip()


def results(folder, without=("speed", "sha256")):
    result = json.loads((folder / "results.json").read_text())
    return {k: v for k, v in result.items() if k not in without}


ALL = ("--benchmarks", "occugender,unstereo,neutral", "--resamples", "200", "--exact")


@pytest.fixture(scope="session")
def whole(stories, data, tmp_path_factory):
    """An uninterrupted run, and what it printed."""
    out = tmp_path_factory.mktemp("whole")
    done = command(stories, *ALL, "--data", data, "--out", out)
    assert done.exit_code == 0, done.output
    return out, done.output


@pytest.mark.mirror
def test_a_run_writes_the_report_and_says_where(whole):
    out, printed = whole
    assert {p.name for p in out.iterdir()} >= {"results.json", "results.md", "report.html", "examples"}
    assert f"The report is {out / 'report.html'}; all numbers are in the same folder." in printed
    assert re.search(r"[\d,]+ tokens/s over .* s, \d+% padding", printed)
    assert "unstereo" in printed


@pytest.mark.mirror
def test_what_data_is_lacking_is_said_with_the_command_that_builds_it(whole, data):
    out, printed = whole
    assert (
        "Left out, because their data are not built: occugender (implicit), "
        "unstereo (ours-20, winobias, winogender, pronoun-pairs), "
        "gender-neutral-probes (stsb, snli, llm-2, templates); probes build occugender unstereo "
        f"gender-neutral-probes --out {data} builds them.\n"
    ) in printed
    assert "unstereo/winobias/validation" in results(out)["environment"]["data lacking"]


@pytest.mark.mirror
def test_the_results_name_data_model_profile_and_prompt(whole):
    result = results(whole[0])
    assert result["data"].keys() == {
        "occugender/explicit/test",
        "unstereo/ours-5/test",
        "unstereo/ours-10/test",
        "gender-neutral-probes/llm-1/test",
    }
    assert result["data"]["unstereo/ours-5/test"].startswith(f"{version_of('unstereo')} sha256:")
    assert (result["profile"], result["prompt"], result["dtype"]) == ("clean", "plain", "float32")
    assert result["environment"]["benchmark unstereo"] == "1.0.0"
    groups = {e["group"] for e in result["estimates"] if e["benchmark"] == "unstereo"}
    assert groups == {"ours-5", "ours-10", *(f"ours-{n} eps<={e}" for n in (5, 10) for e in ("1", "0.8", "0.65"))}


@pytest.mark.mirror
def test_estimates_are_those_of_the_written_examples(whole):
    table = pq.read_table(whole[0] / "examples" / "unstereo.parquet").to_pandas()
    gap = table.female_logprob - table.male_logprob
    expected = 100 * (gap[table.dataset == "ours-5"].abs() <= 0.5).mean()
    (tau,) = (e for e in results(whole[0])["estimates"] if (e["group"], e["metric"]) == ("ours-5", "tau@0.5"))
    assert tau["value"] == pytest.approx(expected)
    assert (tau["n"], tau["clusters"]) == (4, 2)


@pytest.mark.mirror
def test_a_second_run_asks_nothing_and_finds_the_same(whole, stories, data, monkeypatch):
    out, _ = whole
    before = results(out)
    asked = []
    answer = Model.answer
    monkeypatch.setattr(
        Model, "answer", lambda self, requests, **k: asked.extend(requests) or answer(self, requests, **k)
    )
    done = command(stories, *ALL, "--data", data, "--out", out)
    assert done.exit_code == 0, done.output
    # The control rows are asked in each run, because the model is known by them.
    assert [request.id for request in asked] == ["control"]
    assert results(out) == before
    assert "The run read stored responses and did not use the model; loading took" in done.output


KILLED = """
import os, signal, sys
import torch; torch.set_num_threads(1)
from scoring.inference import store
from scoring.__main__ import app
put, count = store.Store.put, [int(sys.argv.pop(1))]
def dying(self, *arguments):
    put(self, *arguments)
    count[0] -= 1
    if not count[0]:
        os.kill(os.getpid(), signal.SIGKILL)
store.Store.put = dying
app()
"""


@pytest.mark.mirror
@pytest.mark.fault(41)
@pytest.mark.parametrize("after", [5])
def test_a_killed_run_goes_on_and_finds_what_an_uninterrupted_one_does(
    whole, stories, data, tmp_path, monkeypatch, after
):
    arguments = [str(a) for a in (stories, *ALL, "--data", data, "--out", tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(after), *arguments], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "results.json").exists()
    asked = []
    answer = Model.answer
    monkeypatch.setattr(
        Model, "answer", lambda self, requests, **k: asked.extend(requests) or answer(self, requests, **k)
    )
    assert command(*arguments).exit_code == 0
    # One of the stored responses is that to the control rows, which are asked again.
    rows = [request for request in asked if request.id != "control"]
    assert len(rows) == 3 + 8 + 3 + len(language.sentences()) - (after - 1)
    assert results(tmp_path) == results(whole[0])


@pytest.mark.mirror
def test_two_runs_are_compared_pair_by_pair(whole, stories, data, tmp_path):
    out, _ = whole
    with_prompt = ("--prompt", "instruction", "--out", tmp_path, "--compare", out)
    done = command(stories, *ALL, "--data", data, *with_prompt)
    assert done.exit_code == 0, done.output
    again = command(tmp_path, "--compare", out, "--resamples", "200")
    assert again.exit_code == 0, again.output
    table = again.output[again.output.index("benchmark ") :]
    assert done.output.endswith(table)
    assert "verdict" in table.splitlines()[0]
    values = [
        next(e["value"] for e in results(f)["estimates"] if (e["group"], e["metric"]) == ("llm-1", "pronoun_mass"))
        for f in (tmp_path, out)
    ]
    shown = json.loads((tmp_path / "compare.json").read_text(encoding="utf-8"))["differences"]
    (difference,) = [d["value"] for d in shown if (d["group"], d["metric"]) == ("llm-1", "pronoun_mass")]
    assert difference == pytest.approx(values[0] - values[1])


@pytest.mark.mirror
def test_p_values_are_corrected_over_all_rows_of_a_comparison(whole, stories, data, tmp_path):
    out, _ = whole
    assert command(stories, *ALL, "--data", data, "--prompt", "complete", "--out", tmp_path).exit_code == 0
    result = scoring.compare(tmp_path, out, resamples=500).differences
    floored = [item.p if item.method == "identical" else max(item.p, 2.0 ** (1 - item.clusters)) for item in result]
    assert [item.p_holm for item in result] == pytest.approx(holm(floored), nan_ok=True)
    assert {item.benchmark for item in result} == {"occugender", "unstereo", "neutral"}


@pytest.mark.mirror
def test_a_run_does_not_differ_from_itself(whole):
    done = command(whole[0], "--compare", whole[0], "--resamples", "50")
    assert done.exit_code == 0
    assert "The two runs are identical" in done.output
    assert "nearer" not in done.output
    assert "further" not in done.output
    differences = scoring.compare(whole[0], whole[0], resamples=50).differences
    assert {difference.value for difference in differences if not math.isnan(difference.value)} == {0.0}


@pytest.mark.mirror
def test_runs_of_other_profiles_or_data_are_not_compared(whole, stories, data, tmp_path):
    out, _ = whole
    limited = ("--benchmarks", "unstereo", "--resamples", "20", "--limit", "2", "--data", data, "--out", tmp_path)
    assert command(stories, *limited).exit_code == 0
    message = refused(tmp_path, "--compare", out)
    assert "compare two runs over the same data." in message
    assert "2 of 4 rows" in message
    assert refused(out, "--compare", tmp_path / "nowhere").startswith("error: ")


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--benchmarks", "nothing"),
            f"error: No benchmark is called 'nothing'; the names are {benchmarks.names()[0]}, ",
        ),
        (("--prompt", "nothing"), "error: No prompt is called 'nothing'; the names are plain, instruction, "),
        (("--benchmarks", HOSTILE), f"error: No benchmark is called {HOSTILE!r}; the names are"),
    ],
)
def test_wrong_names_are_one_sentence(stories, data, arguments, told):
    assert refused(stories, "--data", data, *arguments).startswith(told)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("m", "--profile", "both"),
        ("m", "--dtype", "int8"),
        ("m", "--limit", "0"),
        ("m", "--resamples", "0"),
        ("m", "--batch-tokens", "-1"),
    ],
)
def test_wrong_options_are_usage_errors(arguments):
    assert "rror: " in refused(*arguments, code=2)


def test_missing_data_is_told_before_the_model_is_loaded(tmp_path):
    message = refused("no-such-model", "--data", tmp_path / "none", "--benchmarks", "unstereo", code=2)
    assert message.startswith(f"error: There is no folder {tmp_path}/none; run probes build unstereo")
    assert "no-such-model" not in message


NOWHERE = ["a|b", "CON", "org/none", "x" * 300, "org/" + "x" * 300, "a\0b", ""]
NO_FOLDERS = ["./no/such/folder", "../no-such-x", "/no/such", "~/no-such-x", "no/such/folder"]


@pytest.mark.parametrize("model", NO_FOLDERS)
@pytest.mark.fault(15)
def test_a_folder_that_is_not_there_is_one_sentence(data, model):
    said = f"There is no folder {model!r}; give a folder that is there, or a name on the Hub."
    assert refused(model, "--data", data) == f"error: {said}"
    with pytest.raises(ScoringError, match=f"^{re.escape(said)}$"):
        load(model)
    with pytest.raises(ScoringError, match=f"^{re.escape(said)}$"):
        load(BUNDLED["tiny-causal"], adapter=model)


@pytest.mark.parametrize("model", NOWHERE[:-1])
@pytest.mark.fault(15)
def test_a_model_that_is_not_there_is_one_sentence(data, model, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    message = refused(model, "--data", data)
    assert message.startswith(f"error: {model!r} is neither a folder nor a model that the Hub gives (")
    assert "; check its name, the network and, for a gated model, the login." in message
    assert "\n" not in message


@pytest.mark.parametrize("name", NOWHERE)
@pytest.mark.fault(15)
def test_the_functions_refuse_what_is_not_there_as_the_command_does(name, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    said = re.escape(f"{name!r} is neither a folder nor a model that the Hub gives")
    with pytest.raises(ScoringError, match=f"^{said} \\("):
        load(name)
    with pytest.raises(ScoringError, match=f"^{said} at revision 'v1' \\("):
        load(name, revision="v1")
    with pytest.raises(ScoringError, match=f"^{said} at revision 'v1' \\("):
        load(BUNDLED["tiny-causal"], adapter=name, adapter_revision="v1")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"model_type": "ll', "is no whole JSON (Unterminated string"),
        (b"\xff\xfe", "is no whole"),
        (b"[]", "holds no"),
    ],
)
def test_a_damaged_configuration_is_one_sentence(data, tmp_path, content, said):
    (tmp_path / "config.json").write_bytes(content)
    message = refused(tmp_path, "--data", data)
    assert message.startswith(f"error: The config.json of '{tmp_path}' {said}")
    assert message.endswith("; fetch or save the model again.")


@pytest.mark.fault(46)
def test_code_and_pickles_are_refused_until_they_are_allowed(data, tmp_path):
    kept = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "pickled")
    torch.save(load_file(kept / "model.safetensors"), kept / "pytorch_model.bin")
    (kept / "model.safetensors").unlink()
    arguments = ("--data", data, "--benchmarks", "unstereo", "--resamples", "20", "--out", tmp_path / "out")
    assert refused(kept, *arguments) == (
        f"error: '{kept}' has its weights in pickle files (pytorch_model.bin), which can run code when read; "
        "convert them to safetensors, or allow them with --allow-pickle and a pinned revision."
    )
    assert command(kept, *arguments, "--allow-pickle").exit_code == 0
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.json").write_text('{"model_type": "own", "auto_map": {"AutoModelForCausalLM": "own.M"}}')
    (own / "own.py").write_text("raise SystemExit('this code ran')")
    assert refused(own, *arguments[:-1], tmp_path / "other") == (
        f"error: '{own}' runs Python code of its own; read that code, then allow it with --trust-remote-code and a "
        "revision pinned to a commit."
    )


@pytest.mark.fault(46)
def test_an_adapter_in_a_pickle_is_refused_until_it_is_allowed(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(ScoringError, match=r"adapter_model\.bin"):
        load(BUNDLED["tiny-causal"], adapter=tmp_path)


@pytest.mark.fault(42)
@pytest.mark.parametrize("changed", ["name", "revision", "files", "kind", "dtype", "adapter", "exact"])
def test_replies_of_another_model_are_not_reused(changed):
    about = dict.fromkeys(("name", "revision", "files", "kind", "dtype", "adapter", "exact"), "x") | {"store_key": {}}
    about |= {"tokens": SimpleNamespace(begins={}), "answers": ""}
    plain = prompts.get("plain")
    one, other = (answering.key(SimpleNamespace(**{**about, **more}), plain) for more in ({}, {changed: "y"}))
    assert one != other
    assert one == answering.key(SimpleNamespace(**about), plain)


@pytest.mark.fault(42)
def test_replies_of_another_prompt_decoding_or_package_are_not_reused(monkeypatch):
    model = SimpleNamespace(
        **dict.fromkeys(("name", "revision", "files", "kind", "dtype", "adapter", "exact"), "x"),
        store_key={},
        tokens=SimpleNamespace(begins={}),
        answers="",
    )
    mine = prompts.Prompt("mine", version="1.0.0", instruction="Be fair.")
    others = [mine, replace(mine, instruction="Be fair!"), replace(mine, decoding={"top_k": 5})]
    others += [replace(mine, placement={"neutral": "none"}), replace(mine, version="2")]
    keys = [answering.key(model, item) for item in others] + [answering.key(model, mine, truncate=True)]
    monkeypatch.setattr(answering, "version", lambda _: "9.9.9")
    keys.append(answering.key(model, mine))
    assert keys[-1][answering.PACKAGE] == "9.9.9"
    assert len({json.dumps(key) for key in keys}) == len(keys)


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    """A masked model that is never asked."""
    path = tmp_path_factory.mktemp("masked")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    (path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "he", "she"]))
    transformers.BertTokenizer(str(path / "vocab.txt")).save_pretrained(path)
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=8, **sizes)).save_pretrained(path)
    return path


def test_a_benchmark_asked_for_by_name_must_suit_the_model(masked, data):
    assert refused(masked, "--data", data, "--benchmarks", "unstereo") == (
        f"error: The benchmark unstereo is for causal models, and {masked} is a masked one; leave the benchmark "
        "out, or give another model."
    )


@pytest.mark.parametrize("name", BUNDLED)
def test_the_models_that_come_with_the_project_are_known_by_their_word(tmp_path, name):
    words = {"context": "The nurse is BLANK.", "domain": "gender", "subject": "nurse"}
    rows = [
        {"id": str(n), **words, **filled("The nurse is [BLANK].", "kind", "old", end)} for n, end in enumerate("ab")
    ]
    data = data_set(tmp_path, "biaske", {("stereoset", "test"): rows})
    arguments = ("--data", data, "--benchmarks", "stereoset", "--resamples", "20", "--out", tmp_path / "out")
    done = command(name, *arguments)
    assert done.exit_code == 0, done.output
    result = results(tmp_path / "out")
    assert result["model"] == name
    assert {e["n"] for e in result["estimates"]} == {2}


@pytest.mark.fault(44)
def test_an_encoder_decoder_is_one_sentence(data, tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": true}'
    )
    assert "is an encoder-decoder, which has no head for the next or a masked token" in refused(
        tmp_path, "--data", data
    )


@pytest.mark.mirror
@pytest.mark.fault(38)
def test_a_text_longer_than_the_window_is_refused_or_marked(stories, tmp_path):
    rows = [
        {**item, "sentence_male": item["sentence_male"] + " He ran." * 300 * (n == 1)}
        for n, item in enumerate(pairs("a"))
    ]
    data = data_set(tmp_path, "unstereo", {("ours-5", "test"): rows})
    arguments = (stories, "--data", data, "--benchmarks", "unstereo", "--resamples", "20", "--out", tmp_path / "out")
    message = refused(*arguments)
    assert message.startswith("error: unstereo/ours-5/test/a-1 ")
    assert "the model's context window is 512" in message
    for _ in range(2):  # The second time from the store.
        assert command(*arguments, "--truncate").exit_code == 0
        table = pq.read_table(tmp_path / "out" / "examples" / "unstereo.parquet")
        assert table["truncated"].to_pylist() == [False, True, False, False]


@pytest.mark.fault(38)
def test_a_debiasing_row_that_is_too_long_is_left_out_by_name_and_one_of_the_headline_is_refused(tmp_path, monkeypatch):
    model = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "short")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 40}))
    rows = list(job_rows())
    long = {**rows[0], "id": "long", "debiasing": "1", "level": "high", "prompt": "We are fair. " * 30}
    data = data_set(tmp_path / "data", "occugender", {("explicit", "test"): [*rows, long]})
    about = {"data": data, "benchmarks": "occugender", "groups": "all", "resamples": 20, "device": "cpu"}
    result = scoring.evaluate(str(model), **about)
    (remark,) = [remark for remark in result.remarks if "skipped" in remark]
    assert re.search(r"1 row is skipped.*occugender/explicit/test/long needs \d+ tokens .* window is 40", remark)
    assert len(result.examples("occugender")) == len(rows)
    assert (
        scoring.evaluate(str(model), truncate=True, **about).examples("occugender")["truncated"].tolist().count(True)
        == 1
    )
    too_long = [{**rows[0], "prompt": "We are fair. " * 30}, *rows[1:]]
    data_set(tmp_path / "other", "occugender", {("explicit", "test"): too_long})
    # Before weights are loaded, by the configuration and the file of the tokenizer.
    monkeypatch.setattr(LoadOptions, "load", None)
    with pytest.raises(ScoringError, match=r"explicit-none-nurse needs at least \d+ tokens .* window is 40"):
        scoring.evaluate(str(model), **{**about, "data": tmp_path / "other"})
    monkeypatch.undo()
    # A benchmark that was not named is left out, and the others are scored.
    data_set(tmp_path / "other", "unstereo", {("ours-5", "test"): list(pairs("a"))})
    result = scoring.evaluate(str(model), data=tmp_path / "other", resamples=20, device="cpu")
    assert list(result.validity) == ["unstereo"]
    assert any(re.search(r"needs at least .* the benchmark is left out", remark) for remark in result.remarks)


@pytest.mark.mirror
@pytest.mark.fault(39)
def test_numbers_that_are_none_stop_the_run_with_the_request_and_dtype(stories, data, tmp_path, monkeypatch):
    whole = LoadOptions.load

    def broken(options):
        model = whole(options)
        model.network.model.norm.weight.data[:] = float("nan")
        return model

    monkeypatch.setattr(LoadOptions, "load", broken)
    message = refused(stories, "--data", data, "--benchmarks", "occugender", "--out", tmp_path)
    assert message.startswith("error: control: "), "the control rows are asked first"
    assert "float32" in message
    assert not (tmp_path / "results.json").exists()


SECRET = "hf_" + "a1b2c3d4e5" * 4
PASSWORD = "no shape of its own"


@pytest.fixture
def secrets(monkeypatch):
    """A Hub that cannot be reached, and secrets in the environment."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", PASSWORD)
    return SECRET, PASSWORD


@pytest.mark.fault(49)
def test_a_secret_in_environment_data_and_arguments_is_in_no_file_and_no_line(secrets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{**item, "word": " ".join(secrets), "sentence_they": " ".join(secrets)} for item in pairs("a")]
    data_set(tmp_path / "data", "unstereo", {("ours-5", "test"): rows})
    model = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / f"tiny {SECRET}")
    prompt = tmp_path / "prompt.json"
    prompt.write_text(json.dumps({"name": SECRET, "version": PASSWORD, "instruction": " ".join(secrets)}))
    done = command(model, "--prompt", prompt, "--data", "data", "--benchmarks", "unstereo", "--resamples", "20")
    assert done.exit_code == 0, done.output
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert {"results.json", "results.md", "report.html", "unstereo.parquet"} <= {path.name for path in files}
    assert any(path.suffix == ".jsonl" for path in files)
    table = pq.read_table(next(path for path in files if path.suffix == ".parquet")).to_pylist()
    told = done.output + str(table) + str(files).replace(str(model), "")
    for secret in secrets:
        assert secret not in told
        assert not [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.fault(49)
@pytest.mark.parametrize(
    "arguments",
    [
        ("org/{}",),
        ("tiny-causal", "--revision", "{}", "--adapter", "org/{}"),
        ("tiny-causal", "--adapter", "org/name", "--adapter-revision", "{}"),
        ("tiny-causal", "--benchmarks", "{}"),
        ("tiny-causal", "--prompt", "{}"),
        ("tiny-causal", "--prompt", "{}.json"),
        ("tiny-causal", "--data", "./{}"),
        ("tiny-causal", "--benchmarks", "unstereo", "--compare", "{}"),
    ],
)
def test_an_error_about_an_argument_hides_a_secret_in_it(secrets, data, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    for secret in secrets:
        words = [word.format(secret) for word in arguments]
        done = command(*words, *([] if "--data" in words else ["--data", data]), "--resamples", "20", "--limit", "1")
        assert done.exit_code in (1, 2)
        assert done.output.strip()
        assert "[redacted]" in done.output
        assert secret not in done.output + repr(done.exception)


@pytest.mark.mirror
@pytest.mark.fault(50)
def test_hostile_names_in_the_data_stay_text(whole):
    out, _ = whole
    assert HOSTILE not in (out / "report.html").read_text()
    assert "<script>alert" not in (out / "results.md").read_text()
    assert any(HOSTILE in e["group"] for e in results(out)["estimates"])


def test_the_list_needs_no_torch_and_no_builder():
    code = (
        "import sys; from scoring.__main__ import app\n"
        "try: app(['--list'])\n"
        "except SystemExit:\n"
        "    print({'torch', 'transformers', 'datasets', 'matplotlib', 'builders.dataset'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("set()\n"), done.stdout + done.stderr
    for name in (*benchmarks.names(), *prompts.PROMPTS):
        assert f"\n  {name} " in done.stdout


def test_every_option_names_the_default_folder_or_is_known_not_to():
    declared = {field.name for group in (Settings, LoadOptions) for field in fields(group)}
    # A run with another value of these has the same default folder, and is compared with the results in it.
    others = {"model", "benchmarks", "data", "out", "limit", "resamples", "overwrite", "beside", "include"}
    others |= {"batch_tokens", "device", "device_map", "exact", "truncate", "trust_remote_code", "allow_pickle"}
    others |= {"ways", "wordings", "prompts", "groups"}
    # Named last, so that the folders of runs without it keep their names.
    last = {"start"}
    assert declared == {*NAMING, *last, *others}, (
        "a new option is in NAMING of scoring/commands/score.py, or named here"
    )


@pytest.mark.fault(15)
@pytest.mark.parametrize("model", ["../no-such-x", "a|b", "CON", "x" * 300, "a\0b", "org/model", "/", ""])
def test_the_default_folder_is_a_safe_name_below_runs(model):
    folder = default_folder(model, "clean")
    assert folder.parent == Path("runs")
    assert len(folder.name) < 100
    assert folder.name.replace("-", "").replace(".", "").replace("_", "").isalnum()
    assert folder.name.upper() != "CON"
    assert folder != default_folder(model + "y", "clean")


def test_a_prompt_goes_before_contexts_and_before_sentences_that_have_none():
    prompt = prompts.get("instruction")
    before = "Continue the sentence without gender mentions:"
    assert prompt.put(Request("a", "My friend sings, and")).context == f"{before} My friend sings, and"
    sentence = prompt.put(Request("b", options=(Option("He ran.", ((0, 2),)),)))
    assert (sentence.context, sentence.options) == (before, (Option(" He ran.", ((1, 3),)),))
    plain = Request("c", "x")
    assert prompts.get("plain").put(plain) is plain


def test_sampling_prompts_have_the_published_grids():
    grids = {name: dict(p.decoding) for name, p in prompts.PROMPTS.items() if p.summary.startswith("continuations")}
    assert len(grids) == 4 + 4 + 5
    assert grids["top-k-200"] == {"top_k": 200}
    assert grids["temperature-1"] == {"temperature": 1.0}


def test_the_paper_profile_reads_published_forms_where_there_are_any():
    names = {p: [c for _, c, _ in benchmarks.get("biaske").configs_of(p)] for p in ("clean", "paper")}
    assert names["clean"][:5] == ["weat", "winobias", "winobias", "winogender", "bec_pro"]
    assert names["paper"][:5] == ["weat-paper", "winobias-paper", "winobias-paper", "winogender", "bec_pro"]


def test_without_any_data_the_first_lack_is_the_error(tmp_path):
    with pytest.raises(DataMissing, match="no built data set occugender in"):
        run.read([benchmarks.get("occugender"), benchmarks.get("unstereo")], str(tmp_path), "clean")


def test_a_benchmark_asked_for_by_name_must_have_data(data):
    both = [benchmarks.get("unstereo"), benchmarks.get("stereoset")]
    assert [bool(part.splits) for part in run.read(both, str(data), "clean")] == [True, False]
    with pytest.raises(DataMissing, match="no built data set biaske in"):
        run.read(both, str(data), "clean", named=True)


def test_benchmarks_that_do_not_suit_are_remarked_upon(data):
    parts = run.read([benchmarks.get("unstereo"), benchmarks.get("stereoset")], str(data), "clean")
    parts += [run.Part(benchmarks.get("crows_pairs_modified"), ())]
    fit, remarks = run.suited(parts, "causal", "m", named=False)
    assert [part.benchmark.name for part in fit] == ["unstereo"]
    assert remarks == ["The benchmark crows_pairs_modified is for masked models, and m is a causal one."]
    with pytest.raises(ScoringError, match=r"unstereo .*m is"):
        run.suited(parts, "masked", "m", named=False)


@pytest.mark.mirror
def test_equal_questions_are_put_once_and_answered_under_each_id(stories):
    requests = [Request(name, options=(Option("He ran."),)) for name in ("a", "b")]
    asked = []
    model = load(stories)
    model.answer = lambda requests, **k: asked.extend(requests) or Model.answer(model, requests, **k)
    responses = answering.answer(model, requests, Memory(), {})
    assert [request.id for request in asked] == ["a"]
    assert {name: response.id for name, response in responses.items()} == {"a": "a", "b": "b"}
    assert responses["a"].logprobs == responses["b"].logprobs


def test_an_empty_table_has_no_estimates():
    assert run.estimate(benchmarks.get("unstereo"), "clean", {}) == []


def test_the_examples_in_the_command_hold():
    assert doctest.testmod(score).failed == 0
