"""Whether the answers on this device are right: forty architectures, the engines, two processes, the bundled models."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

import scoring
from benchmarks import peers
from benchmarks.gpu import rows, vllm_peer
from benchmarks.gpu.step import Goal, Measured, NotPossible, Part, Setting, Step
from benchmarks.scoring import CLOSE, whole
from scoring import report
from scoring.inference import checkpoint, fetching
from scoring.inference.load_options import BUNDLED, LoadOptions
from scoring.types import ScoringError

families: Any = importlib.import_module("tests.scoring.families")
#: Besides those of every test, so that there are forty.
MORE = {"causal": "qwen2 qwen3 falcon olmo2 cohere".split(), "masked": "roberta distilbert electra".split()}
SMALL = {"causal": ["llama"], "masked": ["bert"]}
#: A form of the weights: the dtype of the products, and how the weights are stored.
FORMS: Mapping[str, tuple[torch.dtype, str | None]] = {
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "8bit": (torch.float16, "8bit"),
    "4bit": (torch.bfloat16, "4bit"),
}
#: The most by which a metric on this device may differ from that of the processor, as a share of its interval's width.
NOISE = 0.05
#: The most by which two equal models of one command may need more memory than one of them, as a share.
MORE_MEMORY = 0.05
SWEEP = "memory of two models, one after the other"
GOALS = (
    *(Goal(f"architectures in {form}", "none differs", "plain loop on this device") for form in ("float32", *FORMS)),
    Goal("engines", f"below {CLOSE} nats", "lm-evaluation-harness, vLLM"),
    Goal("metrics of tiny-causal", "all equal", "CPU"),
    Goal("metrics of tiny-masked", "all equal", "CPU"),
    Goal("two processes", "every number of one, and each answer once", "one process"),
    Goal(SWEEP, f"at most {MORE_MEMORY:.0%} more", "one model"),
)
#: Starts two processes; on a processor they are connected by gloo as well.
TWO = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --module".split()


def parts(setting: Setting) -> dict[str, Callable[[], Part]]:
    """The bundled models and the engines first; then the architectures."""
    chosen = SMALL if setting.small else {kind: families.FAST[kind] + MORE[kind] for kind in MORE}
    result: dict[str, Callable[[], Part]] = {f"metrics of {name}": partial(bundled, setting, name) for name in BUNDLED}
    result |= {"engine of the harness": partial(harness, setting), "engine vLLM": partial(served, setting)}
    result["two processes"] = partial(processes, setting)
    if setting.device == "cuda":
        result["memory of two models"] = partial(several, setting)
    for kind, names in chosen.items():
        result |= {f"{kind} {name}": partial(architecture, setting, kind, name) for name in names}
    return result


def architecture(setting: Setting, kind: str, name: str) -> Part:
    """How far the answers of a small random network are from a plain loop on this device, in every form."""
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    # What is refused on a processor too is refused because of the architecture.
    on_processor, _ = families.examine_float32(name, kind, families.build(name, kind))
    network = families.build(name, kind).to(setting.device)
    finding, plain = families.examine_float32(name, kind, network)
    lacking: dict[str, str] = {}
    if finding.differences:
        for form, (dtype, quantize) in FORMS.items():
            try:
                coarse = in_form(setting, kind, network, dtype, quantize)
            except ScoringError as error:
                lacking[form] = str(error)
                continue
            families.examine_coarse(finding, plain, coarse, f"{form} ")
    return {
        "differences": finding.differences,
        "wrong": finding.wrong,
        "refused": finding.refused,
        "crashed": finding.crashed,
        "refused_here_alone": sorted(set(finding.refused) & set(requests_of(kind)) - set(on_processor.refused)),
        "lacking": lacking,
        "decided": finding.decided,
    }


def requests_of(kind: str) -> list[str]:
    """The kinds of requests that an architecture in float32 is asked."""
    return ["all", *families.requests(kind)]


def in_form(setting: Setting, kind: Any, network: Any, dtype: torch.dtype, quantize: str | None) -> Any:
    """The same network with its weights in another form, loaded as users load one.

    Raises
    ------
    ScoringError
        Where it cannot be loaded in this form on this device.
    """
    with tempfile.TemporaryDirectory(dir=setting.scratch) as folder:
        network.save_pretrained(folder)
        more = {}
        if quantize:
            more["quantization_config"] = checkpoint.quantized(quantize, dtype)
        loaded, _ = checkpoint.network(
            fetching.fetched(folder, None, None),
            type(network).__name__,
            kind,
            dtype=dtype,
            device_map={"": torch.device(setting.device)} if quantize else None,
            **more,
        )
    return loaded.eval() if quantize else loaded.to(setting.device).eval()


def harness(setting: Setting) -> Part:
    """The largest difference of log-probabilities from lm-evaluation-harness and from a loop, on the same network."""
    model = LoadOptions("tiny-causal", device=setting.device).load()
    data = rows.folder(setting.data, setting.scratch / "data")
    few = setting.few(3, 40)
    requests = [item for name in ("occugender", "stereoset", "unstereo") for item in whole(name, data, limit=few)]
    ours = [sum(values) for response in model.answer(requests) for values in response.logprobs]
    network, tokenizer = model.network, model.tokens.tokenizer
    sides = {"one by one": peers.one_by_one(network, tokenizer, requests)}
    if peers.harness_version():
        sides["lm-evaluation-harness"] = peers.Harness(network, tokenizer, requests)(requests)
    return {"options": len(ours), "differences": {name: _largest(ours, theirs) for name, theirs in sides.items()}}


def served(setting: Setting) -> Part:
    """The same through the vLLM engine of lm-evaluation-harness."""
    model = LoadOptions("tiny-causal", device=setting.device, dtype="float32").load()
    data = rows.folder(setting.data, setting.scratch / "data")
    requests = whole("occugender", data, limit=setting.few(3, 40))
    ours = [sum(values) for response in model.answer(requests) for values in response.logprobs]
    done = vllm_peer.asked(setting, BUNDLED["tiny-causal"], requests, (), dtype="float32", dummy=False)
    return {"options": len(ours), "differences": {"vLLM": _largest(ours, done["logprobs"])}}


def _largest(ours: list[float], theirs: list[float]) -> float:
    return max(abs(one - other) for one, other in zip(ours, theirs, strict=True))


def bundled(setting: Setting, name: str) -> Part:
    """Every metric of a bundled model on this device and on the processor."""
    data = rows.folder(setting.data, setting.scratch / "data")
    options: dict[str, Any] = {"data": data, "limit": setting.few(4, 100), "resamples": setting.few(20, 1000)}
    here, there = (
        scoring.evaluate(name, device=device, dtype="float32", **options).report.estimates
        for device in (setting.device, "cpu")
    )
    pairs = {(one.benchmark, one.group, one.metric): (one, other) for one, other in zip(here, there, strict=True)}
    apart = {" ".join(place): _apart(*pair) for place, pair in pairs.items()}
    other = {place: value for place, value in apart.items() if not value <= NOISE}
    return {"metrics": len(pairs), "differing": other}


def processes(setting: Setting) -> Part:
    """A run in float32 by one process and by two that accelerate starts: numbers that differ, and the answers."""
    options = ["--data", rows.folder(setting.data, setting.scratch / "data"), "--exact", "--overwrite"]
    options += ["--resamples", str(setting.few(20, 1000)), "--limit", str(setting.few(2, 40))]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1"}
    if setting.device == "cpu":
        options += ["--device", "cpu"]
        # One thread for each process: how many share a sum changes its last bits.
        environment["OMP_NUM_THREADS"] = "1"
    if setting.small:
        options += ["--benchmarks", "occugender"]
    if setting.device == "cuda" and torch.cuda.device_count() < 2:
        raise NotPossible("two processes need two GPUs")
    launchers = {1: ["-m"], 2: ["-m", "accelerate.commands.launch", "--main_process_port", "0", *TWO]}
    numbers: dict[int, dict[str, str]] = {}
    answers: dict[int, list[bytes]] = {}
    for count, launcher in launchers.items():
        folder = setting.scratch / f"processes-{count}"
        shutil.rmtree(folder, ignore_errors=True)  # answers of an earlier run would be taken
        words = [sys.executable, *launcher, "scoring", "tiny-causal", *options, "--out", str(folder)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{count} processes ended with {done.returncode}: {' '.join(done.stderr.split()[-60:])}")
        numbers[count], answers[count] = _written(folder)
    other = [place for place, value in numbers[1].items() if numbers[2].get(place) != value]
    return {"metrics": len(numbers[1]), "differing": other, "same_answers": answers[1] == answers[2]}


def several(setting: Setting) -> Part:
    """The peak memory of the device for one model and for two equal ones that one command scores."""
    fast: Any = importlib.import_module("benchmarks.gpu.fast")
    shape = fast.LARGE if setting.small else "Llama-3.2-1B"
    model = fast.model_of(setting, shape)
    folders = [str(setting.scratch / f"equal-{number}") for number in (1, 2)]
    for folder in folders:
        fast.save(model, folder)
    weights = sum(weight.nbytes for weight in model.network.parameters())
    del model
    fast.model_of.cache_clear()
    peaks = {}
    for count in (1, 2):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        out = setting.scratch / f"sweep-{count}"
        shutil.rmtree(out, ignore_errors=True)  # answers of an earlier run would be taken
        sweep = scoring.evaluate(
            folders[:count],
            out=out,
            benchmarks="occugender,stereoset",
            data=rows.folder(setting.data, setting.scratch / "data"),
            device=setting.device,
            limit=setting.few(4, 40),
            resamples=20,
        )
        if sweep.failed:
            raise RuntimeError(str(sweep.failed))
        peaks[count] = torch.cuda.max_memory_allocated()
    return {"weights_bytes": weights, "one_model_bytes": peaks[1], "two_models_bytes": peaks[2]}


def _written(folder: Path) -> tuple[dict[str, str], list[bytes]]:
    """The estimates of a run, and its stored answers in a fixed order."""
    numbers = {f"{e.benchmark} {e.group} {e.metric}": repr(e.value) for e in report.read(folder).estimates}
    lines: list[bytes] = []
    for path in (folder / "responses").glob("*.jsonl"):
        lines += path.read_bytes().splitlines()
    return numbers, sorted(lines)


def _apart(one: Any, other: Any) -> float:
    """The difference of two estimates as a share of the width of the second one's interval.

    A metric of one row has an interval without width; there a difference of rounding counts as none.
    """
    if math.isclose(one.value, other.value, rel_tol=CLOSE, abs_tol=CLOSE * CLOSE):
        return 0.0
    if math.isnan(one.value) and math.isnan(other.value):
        return 0.0
    width = other.high - other.low
    return float(abs(one.value - other.value) / width) if width > 0 else math.inf


def figures(done: Mapping[str, Part]) -> dict[str, Measured]:
    """How many architectures differ in each form, the largest difference of engines, and metrics that differ."""
    results = {}
    examined = {name: part for name, part in done.items() if "wrong" in part}
    for form in ("float32", *FORMS) if examined else ():
        prefix = "" if form == "float32" else f"{form} "
        seen = {name for name, part in examined.items() if any(_of(key, prefix) for key in part["differences"])}
        bad = {
            name
            for name, part in examined.items()
            if any(_of(key, prefix) for key in (*part["wrong"], *part["crashed"], *part["refused_here_alone"]))
        }
        lacking = {name for name, part in examined.items() if form in part["lacking"]}
        if lacking and not seen | bad:
            results[f"architectures in {form}"] = Measured(f"not possible here: {_first(examined, form)}")
        elif seen or bad:
            text = f"{len(seen - bad)} of {len(seen | bad)} equal" + f" ({', '.join(sorted(bad))} not)" * bool(bad)
            results[f"architectures in {form}"] = Measured(
                text + f"; {len(lacking)} cannot be loaded" * bool(lacking), not bad
            )
    apart = {who: value for part in done.values() if "options" in part for who, value in part["differences"].items()}
    if apart:
        text = ", ".join(f"{who} {value:.1e}" for who, value in apart.items())
        results["engines"] = Measured(text, max(apart.values()) < CLOSE)
    for name, part in done.items():
        if "two_models_bytes" in part:
            share = part["two_models_bytes"] / part["one_model_bytes"] - 1
            text = f"{part['two_models_bytes'] / 2**30:.2f} GiB, {share:+.1%}"
            text += f"; the weights of one are {part['weights_bytes'] / 2**30:.2f} GiB"
            results[SWEEP] = Measured(text, share <= MORE_MEMORY, f"{part['one_model_bytes'] / 2**30:.2f} GiB")
        if "metrics" in part:
            equal = part["metrics"] - len(part["differing"])
            met = not part["differing"] and part.get("same_answers", True)
            answers = "" if part.get("same_answers", True) else ", other answers"
            results[name] = Measured(f"{equal} of {part['metrics']} equal{answers}", met)
    return results


def _first(examined: Mapping[str, Part], form: str) -> str:
    return next(str(part["lacking"][form]) for part in examined.values() if form in part["lacking"])


def _of(key: str, prefix: str) -> bool:
    """Whether the name of a finding is of a form of the weights."""
    return key.startswith(prefix) if prefix else not key.startswith(tuple(f"{form} " for form in FORMS))


SUMMARY = (
    "Small random networks of forty architectures answer as a plain loop on the same device, in five forms of their "
    "weights; the engines give equal numbers; two processes started by accelerate share the requests of a run and give "
    "every number of one; two models of one command need the memory of one; the two bundled models have the metrics "
    "that they have on a processor."
)


def together(name: str) -> bool:
    """Architectures and metrics need a small part of the device; memory is measured alone."""
    return name.startswith(("causal ", "masked ", "metrics of "))


STEP = Step("right", SUMMARY, GOALS, parts, figures, together=together)
