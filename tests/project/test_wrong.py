"""Wrong command lines and wrong calls: each ends in one sentence, without a traceback and without the network."""

from __future__ import annotations

import re
import shlex
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

#: A command line after ``probes``, its exit status, and how its sentence begins.
LINES = """
scroe tiny-causal -> 2 No command is called 'scroe' (did you mean 'score'?)
score -> 2 Name a model, such as tiny-causal, or give --base-url
score tiny-causal --limit 0 -> 2 Invalid value for '--limit'
score tiny-causal --limit -3 -> 2 Invalid value for '--limit'
score tiny-causal --limit many -> 2 Invalid value for '--limit'
score tiny-causal --profile papr -> 2 Invalid value for '--profile': 'papr' is not one of 'clean', 'paper' (did you
score tiny-causal --dtype int8 -> 2 Invalid value for '--dtype': 'int8' is not one of 'auto', 'float32',
score tiny-causal --quantize 3bit -> 2 Invalid value for '--quantize': '3bit' is not one of '4bit', '8bit' (did you
score tiny-causal --resamples 1 -> 2 Invalid value for '--resamples'
score tiny-causal --batch-tokens 0 -> 2 Invalid value for '--batch-tokens'
score tiny-causal --bencmarks occugender -> 2 No such option: --bencmarks
score tiny-causal --benchmarks ocugender -> 1 No benchmark is called 'ocugender' (did you mean 'occugender'?)
score tiny-causal --benchmarks occugender,nutral -> 1 No benchmark is called 'nutral' (did you mean 'neutral'?)
score tiny-causal --benchmarks stereoset --benchmarks nutral -> 1 No benchmark is called 'nutral' (did you mean 'neutral
score stereoset -> 1 'stereoset' is a benchmark and no model; write MODEL --benchmarks stereoset.
score stereoset tiny-causal -> 1 'stereoset' is a benchmark and no model
score tiny-causal stereoset -> 1 'stereoset' is a benchmark and no model
score gender-neutral-probes -> 1 'gender-neutral-probes' is a data set and no model
score https://huggingface.co/org/name -> 1 'https://huggingface.co/org/name' is an address; give a model by its name on
score tiny-causal http://127.0.0.1:8000/v1 -> 1 'http://127.0.0.1:8000/v1' is an address
score 'C:\\models\\name' -> 1 There is no folder 'C:
score tiny-causal --fail-if occugender.gapp>20 -> 1 --fail-if 'occugender.gapp>20' names no metric of occugender
score tiny-causal --fail-if ocugender.gap>20 -> 1 --fail-if 'ocugender.gap>20' names no benchmark
build occugender,nuetral -> 1 No data set is called 'nuetral'
build stereoset -> 1 No data set is called 'stereoset'
score tiny-causal --prompt debias-7 -> 1 No prompt is called 'debias-7' (did you mean 'debias-6'?)
score tiny-causal --prompt missing.json -> 1 The prompt file missing.json cannot be read
mitigate nowhere tiny-causal -> 2 No command is called 'nowhere'; give one of ablation, auto_debias,
score tiny-causal --data nowhere -> 2 There is no folder nowhere
score tiny-causal --data nowhere --benchmarks occugender -> 2 There is no folder nowhere
score tiny-causal --data hub: -> 1 hub: names no organisation of the Hub
score tiny-causal --system hello -> 1 Only a chat has a system text
score tiny-causal --chat --truncate -> 1 A chat is not cut to the context window
score tiny-causal --compare nowhere -> 1 nowhere has no results.json to compare with
score nowhere --compare nowhere -> 1 nowhere has no results.json to compare with
score tiny-causal --include nowhere.py -> 1 nowhere.py is not a Python file
score tiny-causal --include . -> 1 . is not a Python file
score tiny-causal --dry-run -> 2 There is no built data set bbq in output
score tiny-causal --budget 3 -> 1 --budget is of answers that a chat API samples
score tiny-causal --concurrency 3 -> 1 --concurrency is of servers; leave it out, or give their --base-url
score --base-url http://127.0.0.1:9/v1 --samples 3 -> 1 --samples is of answers that a chat API samples
score --base-url http://127.0.0.1:9/v1 --device cpu -> 1 --device says how a model is loaded, and a server has loade
score --base-url http://127.0.0.1:9/v1 --dtype float32 -> 1 --dtype says how a model is loaded, and a server has loa
score --base-url http://127.0.0.1:9/v1 --exact -> 1 --exact says how a model is loaded, and a server has loaded it a
score --base-url http://127.0.0.1:9/v1 --concurrency 0 -> 2 Invalid value for '--concurrency'
score --base-url http://127.0.0.1:9/v1 --timeout 0 -> 2 Invalid value for '--timeout'
score --chat-api -> 2 A chat API needs the name of a model
score --chat-api --model-name m --base-url http://a/v1 --base-url http://b/v1 -> 2 A chat API needs the name of a mo
score --chat-api --model-name m --samples 0 -> 2 Invalid value for '--samples'
score --chat-api --model-name m --temperature -1 -> 2 Invalid value for '--temperature'
score --chat-api --model-name m --prompt temperature-0.5 -> 1 The prompt 'temperature-0.5' has decoding settings, an
score --chat-api --model-name m --benchmarks crows_pairs -> 1 The benchmark crows_pairs needs log-probabilities, whi
score --chat-api tiny-causal --model-name m -> 1 Both the model 'tiny-causal' and a server are given
score tiny-causal --revision -> 2 Option '--revision' requires an argument
compare -> 2 Missing argument 'RUN'
compare nowhere -> 2 Missing argument 'BASE'
compare nowhere elsewhere -> 1 nowhere cannot be read as results
compare nowhere elsewhere --resamples 0 -> 2 Invalid value for '--resamples'
compare . . -> 1 results.json cannot be read as results
published nothing -> 1 No published source is called 'nothing'
published gest --model nothing -> 1 gest has no model 'nothing'
published gest --resamples 1 -> 2 Invalid value for '--resamples'
rescore -> 2 Missing argument 'file'
rescore nowhere.csv -> 2 Missing option '--benchmark'
rescore nowhere.csv --benchmark unstereo -> 1 There is no file nowhere.csv
rescore nowhere.csv --benchmark unsterio -> 1 No benchmark is called 'unsterio' (did you mean 'unstereo'?)
rescore nowhere.csv --benchmark occugender -> 1 There is no file nowhere.csv
rescore nowhere.csv --benchmark biaske -> 1 biaske is computed neither from scores nor from texts alone
rescore nowhere.csv --benchmark unstereo --resamples 1 -> 2 Invalid value for '--resamples'
build nothing -> 1 No data set is called 'nothing'
build ocugender -> 1 No data set is called 'ocugender' (did you mean 'occugender'?)
build --profile papr -> 2 Invalid value for '--profile': 'papr' is not one of 'all', 'clean', 'paper'
build occugender --include nowhere.py -> 1 nowhere.py is not a Python file
build --ofline -> 2 No such option: --ofline
build occugender --mirror -> 2 Option '--mirror' requires an argument
mitigate nothing tiny-causal --out x -> 2 No command is called 'nothing'
mitigate fst tiny-causal --out x -> 2 No command is called 'fst' (did you mean 'fast'?)
mitigate fast -> 2 Missing argument 'MODEL'
mitigate fast tiny-causal -> 2 Missing option '--out'
mitigate fast tiny-causal --out x --profile papr -> 2 Invalid value for '--profile': 'papr' is not one of 'clean', '
mitigate fast tiny-causal --out x --limit 0 -> 2 Invalid value for '--limit'
mitigate fast tiny-causal --out x --stepz many -> 2 No such option: --stepz
mitigate fast tiny-causal --out x --quantize 8bit -> 2 Invalid value for '--quantize': '8bit' is not one of 'auto',
mitigate fast tiny-causal --out x --dtype int8 -> 2 Invalid value for '--dtype': 'int8' is not one of 'auto', 'float
mitigate fast tiny-causal --out x --config nowhere.toml -> 1 nowhere.toml cannot be read
mitigate fast tiny-causal --out x --benchmarks ocugender -> 1 No benchmark is called 'ocugender' (did you mean 'occu
mitigate fast tiny-causal --out x --data nowhere -> 2 There is no folder nowhere
mitigate prompts tiny-causal --out x --prompt nothing -> 1 No prompt is called 'nothing'
mitigate prompts tiny-causal --out x --text nowhere.txt -> 1 nowhere.txt cannot be read as text
mitigate prompts tiny-causal --out x --resamples 0 -> 2 Invalid value for '--resamples'
mitigate --include nowhere.py prompts tiny-causal --out x -> 1 nowhere.py is not a Python file
mitigate methods -> 2 Missing argument '[RECIPE] MODEL
mitigate methods tiny-causal --methods fst -> 1 No recipe is called 'fst' (did you mean 'fast'?)
mitigate methods tiny-causal --seeds 0 -> 2 Invalid value for '--seeds'
mitigate methods tiny-causal --config nowhere.toml -> 1 nowhere.toml cannot be read
mitigate table fast inlp tiny-causal -> 1 fast inlp tiny-causal are more than a recipe and a model
mitigate methods tiny-causal --glue nothing -> 1 'nothing' is no task of GLUE
mitigate methods tiny-causal --data nowhere -> 2 There is no folder nowhere
mitigate table -> 2 Missing argument '[RECIPE] MODEL
mitigate table fst tiny-causal -> 1 No recipe is called 'fst' (did you mean 'fast'?)
mitigate table fast tiny-causal --domains age -> 1 The domain is 'age'
mitigate glue -> 2 Missing argument 'MODEL'
mitigate glue tiny-causal -> 2 Missing option '--out'
mitigate glue tiny-causal --out x --tasks nothing -> 1 'nothing' is no task of GLUE
mitigate glue tiny-causal --out x --seeds 0 -> 1 The setting seeds is 0
mitigate glue tiny-causal --out x --tasks "" -> 1 There is no task
publish -> 2 Missing argument 'DIR'
publish nowhere --repo org/name --dry-run -> 1 nowhere/mitigation.json cannot be read
publish . -> 2 Missing option '--repo'
push -> 2 Missing argument 'DIR'
push nowhere --org me --dry-run -> 1 nowhere has no built data set
push nowhere -> 2 Invalid value: --org is ''; name one organisation or user of the Hub
push nowhere --org "a b" --dry-run -> 2 Invalid value: --org is 'a b'; name one
push nowhere --org me/too --dry-run -> 2 Invalid value: --org is 'me/too'; name one
card -> 2 Missing argument 'MODEL'
card org/name -> 2 Missing argument 'RUN'
card org/name nowhere -> 2 Invalid value: --org is ''; name the organisation
card org/name nowhere --org me -> 1 nowhere cannot be read as results
leaderboard -> 2 Missing argument 'RUN|ORG|ORG/MODEL|ORG/DATASET...'
pmi cuont -> 2 No command is called 'cuont' (did you mean 'count'?)
pmi count -> 2 Missing argument 'CORPUS...'
pmi count nowhere.txt --window 0 --out x -> 2 Invalid value for '--window'
pmi table -> 2 Missing argument 'COUNTS'
pmi table nowhere.npz -> 1 There is no file nowhere.npz
pmi table nowhere.npz --min-count 0 -> 2 Invalid value for '--min-count'
pmi table nowhere.npz --format pdf -> 2 Invalid value for '--format': 'pdf' is not one of 'svg', 'png'
pmi compare a -> 2 Missing argument 'TABLE'
pmi compare a b -> 1 a has the ending ''
pmi score nowhere.txt -> 2 Missing option '--table'
pmi merge -> 2 Missing argument 'COUNTS...'
pmi vocabulary nowhere -> 1 nowhere has the ending ''
pmi compare-model nowhere -> 2 Missing option '--table'
generate nothing -> 2 No command is called 'nothing'
generate prbes -> 2 No command is called 'prbes' (did you mean 'probes'?)
generate probes -> 2 Missing option '--model'
generate probes --model m -> 2 Missing option '--out'
generate probes --model m --out x --count 0 -> 2 Invalid value for '--count'
generate probes --model m --out x --overlap 2 -> 2 Invalid value for '--overlap'
generate probes --model m --out x --temperature nan -> 1 --temperature is nan
generate probes --model m --out x --concurrency 0 -> 2 Invalid value for '--concurrency'
generate probes --model m --out x --against nowhere.txt --dry-run -> 1 nowhere.txt cannot be used
generate unstereo --model m --out x --words nowhere.txt --dry-run -> 1 The words in nowhere.txt cannot be read
generate unstereo --out x --replay nothing -> 1 There is no recorded generation 'nothing' of unstereo
generate unstereo --out x --model m -> 1 --words is missing
doctor --data -> 2 Option '--data' requires an argument
list extra -> 2 Got unexpected extra argument(s)
"""

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


@pytest.mark.parametrize(("line", "said"), table(LINES))
def test_a_wrong_command_line_ends_in_one_sentence(line, said):
    status, start = said.split(" ", 1)
    done = CliRunner().invoke(probes.app, shlex.split(line))
    assert isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == int(status), done.output
    sentences = [text for text in done.output.splitlines() if text.lower().startswith("error: ")]
    assert len(sentences) == 1, done.output
    assert sentences[0] == done.output.splitlines()[-1]
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
