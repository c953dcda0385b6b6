"""Foreign files of any content: a loader returns, or raises its own error with one sentence; never anything else."""

import json
from dataclasses import fields

import pytest
import zstandard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import cards.results
from builders.dataset import BuildError
from builders.files.manifest import Manifest, read_manifest
from builders.generation.costs import cost_model
from builders.generation.responses import ResponseCache
from builders.sources.catalogue import catalogue
from cards.common.text import CardError
from pmi.analysis.lookup import delta_table
from pmi.counting.local import count
from pmi.files import read_rows
from pmi.types import PmiError
from scoring.adapters import facts
from scoring.adapters.attach import peft_config, tensor_shapes
from scoring.adapters.facts import Adapter
from scoring.commands import rescore
from scoring.inference import checkpoint
from scoring.inputs import prompts
from scoring.inputs.prompts import Prompt
from scoring.types import ScoringError
from tests.scoring.made import data_set
from tests.scoring.test_run import pairs
from tests.support import commands

#: Names of fields that loaders look for.
NAMES = {
    "model": ["architectures", "model_type", "auto_map", "torch_dtype", "is_encoder_decoder", "transformers_weights",
              "weight_map", "AutoModelForCausalLM", "attn_implementation", "text_config"],
    "adapter": ["peft_type", "r", "target_modules", "auto_mapping", "megatron_config", "task_type", "rank_pattern",
                *(field.name for field in fields(Adapter))],
    "corpus": ["text", "id"],
    "settings": [field.name for field in fields(Prompt)],
    "replies": ["key", "request", "reply", "model", "date", "usage", "finish_reason", "sha256"],
    "results": ["schema", "model", "estimates", "data", "sha256", "environment", "examples"],
    "manifest": [field.name for field in fields(Manifest)],
}  # fmt: skip
#: Values that mean something to a loader, besides any others.
VALUES = ["LORA", "XLORA", "gpt2", "GPT2LMHeadModel", "org/repo--own.Class", "../x", "model.safetensors", "weights.bin",
          "She saw a ship.", "(a+)+$", "1.0.0", "none", "\ud83d"]  # fmt: skip
FUZZ = settings(
    max_examples=60,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a failing example is small already, and making it smaller takes long
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def documents(kind):
    """Bytes: JSON with the known names, also cut or followed by other bytes, or any bytes at all."""
    scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(VALUES)
    names = st.sampled_from(NAMES[kind]) | st.text(max_size=5)
    nested = st.recursive(
        scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=8
    )
    whole = st.dictionaries(names, nested, max_size=8).map(json.dumps).map(str.encode)
    cut = st.tuples(whole, st.integers(0, 99), st.binary(max_size=9)).map(lambda parts: parts[0][: parts[1]] + parts[2])
    deep = st.sampled_from([b"[" * 9999, b'{"text":' * 9999, b"\xef\xbb\xbf{}", b"\x00", b"PAR1", b"PK\x03\x04"])
    return whole | whole | cut | st.lists(whole, max_size=3).map(b"\n".join) | st.binary(max_size=60) | deep


def sentence(call, *errors):
    """Calls a loader, and checks that an error is one of its own with one sentence."""
    try:
        call()
    except errors as error:
        said = str(error)
    else:
        return
    assert said.strip()
    assert "\n" not in said
    assert "Traceback" not in said


@pytest.mark.fault(61)
@FUZZ
@given(content=documents("manifest"))
def test_manifests(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    sentence(lambda: read_manifest(tmp_path), BuildError)


@pytest.mark.fault(62)
@FUZZ
@given(config=documents("model"), tokenizer=documents("model"), index=documents("model"))
def test_model_folders(tmp_path, config, tokenizer, index):
    for name, content in (
        ("config.json", config), ("tokenizer_config.json", tokenizer), ("model.safetensors.index.json", index)
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)

    def judge():
        result = checkpoint.config(tmp_path, "m")
        sentence(lambda: checkpoint.check_code(tmp_path, result, "m", None, trusted=True), ScoringError)
        sentence(lambda: checkpoint.check_code(tmp_path, result, "m", None, trusted=False), ScoringError)
        names = checkpoint.weight_files(tmp_path, result.get("transformers_weights"))
        sentence(lambda: checkpoint.check_pickle(names, "m", allowed=False), ScoringError)
        checkpoint.kind(result, "m")
        checkpoint.dtype("auto", result, checkpoint.torch.device("cpu"), exact=False)

    sentence(judge, ScoringError)


@pytest.mark.fault(63)
@pytest.mark.filterwarnings("ignore")
@FUZZ
@given(config=documents("adapter"), described=documents("adapter"), weights=documents("adapter"))
def test_adapters(tmp_path, config, described, weights):
    (tmp_path / facts.CONFIG).write_bytes(config)
    (tmp_path / facts.FACTS).write_bytes(described)
    (tmp_path / facts.WEIGHTS).write_bytes(len(weights).to_bytes(8, "little") + weights)
    sentence(lambda: peft_config(tmp_path), ScoringError)
    sentence(lambda: facts.read(tmp_path), ScoringError)
    sentence(lambda: tensor_shapes(tmp_path / facts.WEIGHTS), ScoringError)


@pytest.mark.fault(71)
@FUZZ
@given(
    documents("corpus"), st.sampled_from(["txt", "jsonl", "parquet", "txt.zst", "jsonl.gz", "txt.xz"]), st.booleans()
)
def test_corpora(tmp_path, content, ending, packed):
    path = tmp_path / f"corpus.{ending}"
    path.write_bytes(zstandard.compress(content) if packed and ending.endswith("zst") else content)
    sentence(lambda: count([path], gendered=["she", "he"], jobs=1), PmiError)


@pytest.mark.fault(71)
@pytest.mark.parametrize("ending", [".txt", ".csv", ".tsv", ".jsonl", ".parquet"])
@settings(FUZZ, max_examples=20)
@given(content=documents("corpus"))
def test_files_of_rows_and_tables(tmp_path, content, ending):
    path = tmp_path / f"rows{ending}"
    path.write_bytes(content)
    sentence(lambda: read_rows(path), PmiError)
    sentence(lambda: delta_table(path), PmiError)


@pytest.mark.fault(69)
@FUZZ
@given(
    documents("corpus") | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from([b"", b"dataset,female_logprob,male_logprob\n", b"id,dataset,female_logprob\n,,\n"]),
)
def test_score_files(tmp_path, content, header):
    path = tmp_path / "scores.csv"
    path.write_bytes(header + content)
    sentence(lambda: rescore.rescore("unstereo", path, tmp_path, 10, 0), ScoringError)


@pytest.mark.fault(66)
@FUZZ
@given(content=documents("replies"))
def test_replies(tmp_path, content):
    path = tmp_path / "replies.jsonl"
    path.write_bytes(content)

    def read():
        with ResponseCache(path, writable=False):
            pass

    sentence(read, BuildError)


@pytest.mark.fault(69)
@FUZZ
@given(content=documents("results"))
def test_results(tmp_path, content):
    (tmp_path / "results.json").write_bytes(content)
    sentence(lambda: cards.results.load(tmp_path), CardError)


@pytest.mark.fault(73)
@FUZZ
@given(content=documents("settings"))
def test_settings(tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    sentence(lambda: prompts.read(path), ScoringError)
    sentence(lambda: cost_model("m", None, None, path), BuildError)
    sentence(lambda: catalogue(path), BuildError)


#: For each command with a foreign file: the kind of the file, its name, and the arguments with {} for the folder.
COMMANDS = {
    "pmi count": ("corpus", "corpus.jsonl", ["pmi", "count", "{}/corpus.jsonl", "--out", "{}/counts.parquet"]),
    "pmi score": ("corpus", "rows.jsonl", ["pmi", "score", "{}/rows.jsonl", "--table", "{}/rows.jsonl"]),
    "a model": ("model", "model/config.json", ["scoring", "{}/model", "--data", "{}/data", "--out", "{}/out"]),
    "an adapter": (
        "adapter",
        "adapter/adapter_config.json",
        ["scoring", "tiny-causal", "--adapter", "{}/adapter", "--data", "{}/data", "--out", "{}/out"],
    ),
    "settings": (
        "settings",
        "prompt.json",
        ["scoring", "tiny-causal", "--prompt", "{}/prompt.json", "--data", "{}/data", "--out", "{}/out"],
    ),
    "scores": ("corpus", "scores.csv", ["scoring.commands.rescore", "{}/scores.csv", "--benchmark", "unstereo"]),
    "results": ("results", "run/results.json", ["scoring.commands.card", "{}/model", "{}/run", "--org", "org",
                "--data", "{}/data", "--out", "{}/out"]),
    "replies": ("replies", "r.jsonl", ["builders.generate", "probes", "--offline", "--replies", "{}/r.jsonl", "--model",
                "m", "--out", "{}/out"]),
    "a manifest": ("manifest", "built/occugender/manifest.json", ["builders.rebuild", "--offline", "--check", "--out",
                   "{}/built", "occugender"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return data_set(folder, "unstereo", {(f"ours-5{end}", "test"): list(pairs("a")) for end in ("", "-paper")})


@pytest.mark.fault(71)
@pytest.mark.parametrize("name", COMMANDS)
@settings(FUZZ, max_examples=12)
@given(draw=st.data())
def test_a_command_ends_with_a_documented_status(name, data, tmp_path, draw):
    kind, file, (module, *arguments) = COMMANDS[name]
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw.draw(documents(kind)))
    if name == "an adapter":
        (path.parent / facts.WEIGHTS).write_bytes((2).to_bytes(8, "little") + b"{}")
    (tmp_path / "data").unlink(missing_ok=True)
    (tmp_path / "data").symlink_to(data)
    done = commands.run(module, *(argument.replace("{}", str(tmp_path)) for argument in arguments))
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == 0 or "error: " in done.stderr + done.stdout
