"""How fast scoring is with large shapes: random weights in bfloat16, beside the engines of lm-evaluation-harness."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks import peers
from benchmarks import scoring as bench
from benchmarks.gpu import rows, vllm_peer
from benchmarks.gpu.step import Goal, Measured, Part, Setting, Step
from scoring.inference.engine import Stats
from scoring.inference.model import Model
from scoring.types import Request

_LLAMA: Any = transformers.LlamaConfig
#: The shapes of published models, without their weights.
SHAPES: Mapping[str, Callable[[], Any]] = {
    "Llama-2-7B": partial(_LLAMA, max_position_embeddings=4096),
    "Llama-3.2-1B": partial(
        _LLAMA,
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        max_position_embeddings=131072,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        tie_word_embeddings=True,
    ),
    "GPT-2": transformers.GPT2Config,
}
LARGE = "Llama-2-7B"
SMALL: Mapping[str, Callable[[], Any]] = {
    LARGE: partial(
        _LLAMA,
        vocab_size=1000,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
}
BENCHMARKS = ("occugender", "stereoset", "unstereo")
#: Rows of each file that all sides are asked about.
ROWS: Mapping[str, int] = {"occugender": 40, "stereoset": 400, "unstereo": 200}
#: Dense products in bfloat16 a second, by a part of the device's name (data sheets of NVIDIA); the first match counts.
DATA_SHEET = {"H100 PCIe": 756e12, "H100": 989.4e12, "H200": 989.4e12, "A100": 312e12}
SHARE, SUITE, TIMES = 0.6, 60.0, 2.0
#: A side that takes more seconds than this is called once.
LONG = 5.0
HARNESS, VLLM = "lm-evaluation-harness", "its vLLM engine"
GOALS = (
    Goal(f"{LARGE}: share of the peak", f"at least {SHARE:.0%}", "data sheet; matrix product here"),
    Goal(f"{LARGE}: suite", f"at most {SUITE:.0f} s"),
    *(
        Goal(f"{shape}: {what}", f"{TIMES:.0f} times as fast", peer)
        for shape in SHAPES
        for peer, names in (
            (HARNESS, (*BENCHMARKS, "continuations")),
            (VLLM, ("scoring by vLLM", "continuing by vLLM")),
        )
        for what in names
    ),
    *(
        Goal(f"{shape}: {what}", "none")
        for shape in SHAPES
        if shape != LARGE
        for what in ("share of the peak", "suite")
    ),
)


def parts(setting: Setting) -> dict[str, Callable[[], Part]]:
    """For each shape all requests, then the comparisons."""
    result: dict[str, Callable[[], Part]] = {}
    for shape in SMALL if setting.small else SHAPES:
        result[f"{shape}: suite"] = partial(suite, setting, shape)
        result |= {f"{shape}: {name}": partial(compared, setting, shape, name) for name in BENCHMARKS}
        result[f"{shape}: continuations"] = partial(continuations, setting, shape)
        result[f"{shape}: vLLM"] = partial(served, setting, shape)
    return result


@lru_cache(1)
def model_of(setting: Setting, shape: str) -> Model:
    """Random weights in a shape, drawn on the device, with a tokenizer trained on what is asked."""
    config = (SMALL if setting.small else SHAPES)[shape]()
    return bench.random_model(config, data_of(setting), setting.device, torch.bfloat16)


def save(model: Model, folder: Path | str) -> None:
    """Writes a model of random weights as one that users load by its folder."""
    model.network.config.architectures = [type(model.network).__name__]
    model.network.save_pretrained(folder)
    model.tokens.tokenizer.save_pretrained(folder)


def data_of(setting: Setting) -> str:
    """The folder of built data sets."""
    return rows.folder(setting.data, setting.scratch / "data")


@lru_cache(1)
def harness_of(setting: Setting, shape: str) -> peers.Harness | None:
    """The harness with the network of a shape; None where it is not installed."""
    if not peers.harness_version():
        return None
    model = model_of(setting, shape)
    return peers.Harness(model.network, model.tokens.tokenizer, drawn(setting))


def drawn(setting: Setting) -> list[Request]:
    """The requests of the comparisons."""
    return [request for name in BENCHMARKS for file in files(setting, name) for request in file.drawn]


@lru_cache
def files(setting: Setting, name: str) -> list[bench.File]:
    """The files of a benchmark with the rows that are compared."""
    return bench.files(name, data_of(setting), setting.few(2, ROWS[name]))


def suite(setting: Setting, shape: str) -> Part:
    """All that the benchmarks with built data request of a causal model: seconds, tokens and the share of the peak."""
    model, data, few = model_of(setting, shape), data_of(setting), setting.few(2, None)
    requests = [item for name in bench.causal(data) for item in bench.whole(name, data, limit=few) if item.options]
    prompts = bench.whole("neutral", data, "paper", few)
    model.answer([*requests[:64], replace(prompts[0], max_new=2)])
    before = replace(model.stats)
    turns = bench.in_turn({"peak": lambda: bench.peak(model), "ours": lambda: len(model.answer(requests))}, LONG)
    done: Stats = bench._since(model.stats, before, len(turns["ours"]))
    seconds, top = bench.median(turns["ours"]), statistics.median(turn.result for turn in turns["peak"])
    operations = bench.flops(model, requests, done)
    continued = bench.median(bench.in_turn({"ours": lambda: len(model.answer(prompts))}, LONG)["ours"])
    name = torch.cuda.get_device_name() if setting.device == "cuda" else ""
    sheet = next((value for part, value in DATA_SHEET.items() if part in name), None)
    return {
        "parameters": model.network.num_parameters(),
        "benchmarks": bench.causal(data),
        "requests": len(requests),
        "scoring_seconds": seconds,
        "tokens_per_second": done.asked / seconds,
        "tokens_computed_per_second": done.tokens / seconds,
        "prompts": len(prompts),
        "new_tokens": prompts[0].max_new,
        "generation_seconds": continued,
        "operations_per_second": operations / seconds,
        "share_of_matrix_product": operations / seconds / top,
        "share_of_data_sheet": operations / seconds / sheet if sheet else None,
    }


def compared(setting: Setting, shape: str, name: str) -> Part:
    """One benchmark by us and by the harness, in turns."""
    model, harness = model_of(setting, shape), harness_of(setting, shape)
    return bench.compared(model, name, files(setting, name), harness, ())


def continuations(setting: Setting, shape: str) -> Part:
    """All neutral prompts continued by us and by the harness, in turns."""
    model, harness = model_of(setting, shape), harness_of(setting, shape)
    prompts = bench.whole("neutral", data_of(setting), "paper", setting.few(2, None))
    model.answer(prompts[:2])
    sides: dict[str, Callable[[], Any]] = {"ours": lambda: model.answer(prompts)}
    if harness:
        sides["lm_eval"] = lambda: harness.continued(prompts)
    seconds = {side: bench.median(turns) for side, turns in bench.in_turn(sides, LONG).items()}
    return {"prompts": len(prompts), "side_seconds": seconds}


def served(setting: Setting, shape: str) -> Part:
    """The compared requests and all prompts by us, and then by vLLM with weights that it draws itself."""
    requests, model = drawn(setting), model_of(setting, shape)
    prompts = bench.whole("neutral", data_of(setting), "paper", setting.few(2, None))
    seconds = {}
    for what, some in (("scoring", requests), ("continuing", prompts)):
        model.answer(some[:8])
        started = time.perf_counter()
        model.answer(some)
        seconds[what] = time.perf_counter() - started
    folder = setting.scratch / "shape"
    model.network.config.architectures = [type(model.network).__name__]
    model.network.config.save_pretrained(folder)
    model.tokens.tokenizer.save_pretrained(folder)
    del model  # vLLM takes the memory of the device
    harness_of.cache_clear()
    model_of.cache_clear()
    if setting.device == "cuda":
        torch.cuda.empty_cache()
    done = vllm_peer.asked(setting, folder, requests, prompts, dtype="bfloat16", dummy=True)
    theirs = {"scoring": done["seconds"], "continuing": done["generation_seconds"]}
    return {"ours_seconds": seconds, "vllm_seconds": theirs}


def figures(done: Mapping[str, Part]) -> dict[str, Measured]:
    """Shares of the peak, seconds of the suite, and how many times as fast as each peer."""
    results = {}
    for name, part in done.items():
        shape, _, _ = name.partition(": ")
        large = shape == LARGE
        if "scoring_seconds" in part:
            share, sheet = part["share_of_matrix_product"], part["share_of_data_sheet"]
            text = f"{sheet:.0%} of the data sheet" if sheet else "device without a known data sheet"
            met = (sheet or share) >= SHARE if large else None
            results[f"{shape}: share of the peak"] = Measured(text, met, f"{share:.0%} of a matrix product")
            whole = part["scoring_seconds"] + part["generation_seconds"]
            speed = f"{part['tokens_per_second']:,.0f} tokens/s, {part['tokens_computed_per_second']:,.0f} computed"
            continued = f"{part['generation_seconds']:.1f} of them for {part['prompts']:,} continuations"
            text = f"{whole:.1f} s, {continued}; {speed}"
            results[name] = Measured(text, whole <= SUITE if large else None)
        elif "lm_eval" in (sides := part.get("sides", {})):
            ratio = sides["lm_eval"]["seconds"] / sides["ours"]["seconds"]
            text = f"{ratio:.2f} times; {sides['ours']['tokens_per_second']:,} tokens/s"
            apart = f"{sides['lm_eval']['tokens_per_second']:,} tokens/s"
            results[name] = Measured(text, ratio >= TIMES, apart)
        elif "lm_eval" in (seconds := part.get("side_seconds", {})):
            results[name] = _ratio(seconds["ours"], seconds["lm_eval"])
        elif "vllm_seconds" in part:
            for kind, ours in part["ours_seconds"].items():
                results[f"{shape}: {kind} by vLLM"] = _ratio(ours, part["vllm_seconds"][kind])
    return results


def _ratio(ours: float, theirs: float) -> Measured:
    return Measured(f"{theirs / ours:.2f} times; {ours:.2f} s", theirs / ours >= TIMES, f"{theirs:.2f} s")


SUMMARY = (
    "Random weights in the shapes of published models, drawn on the device in bfloat16: tokens a second, the share of "
    "the peak in operations with weights and attention, and the seconds for all benchmarks, beside the two engines of "
    "lm-evaluation-harness at the same requests."
)
STEP = Step("fast", SUMMARY, GOALS, parts, figures, timed=True)
