"""Two real models beside a harness and a plain loop: ``PROBES_REAL=FOLDER python -m benchmarks.real --data output``.

The folder is that of ``make real-weights``. Each side scores the same requests of drawn rows, in a process of its own
and on one thread: this package, the log-likelihoods of lm-evaluation-harness, and a loop that pads texts to the
longest of their batch and computes logits at every position. Where ``make .venv-served/.ready`` has installed vLLM
for CPUs, this package also asks a vLLM server of the model, whose processes are then measured too. The seconds are
those of the processor without loading, and the memory is the peak of the whole process. The first call of this
package also measures which ways of batching the network allows; its seconds are apart.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import psutil
import torch
import typer

from benchmarks import peers
from benchmarks.machine import RESULTS, describe, measure
from scoring import DATA
from scoring.inference.load_options import load
from scoring.inference.served.engine import connect
from scoring.options import ServedOptions
from scoring.types import Request
from tools import real_weights
from tools.peers import real_server

RESULT = RESULTS / "real.json"
#: Rows of each file, by benchmark.
ROWS = {"occugender": 20, "stereoset": 20, "bbq": 5}
#: Options of a batch of the loop and of the harness.
BATCH = 16


@torch.no_grad()
def padded_loop(network: Any, tokenizer: Any, requests: Sequence[Request]) -> list[float]:
    """The log-probability of each option, in batches in the given order, with logits at every position."""
    rows = [peers.encode(tokenizer, request.context, option.text) for request in requests for option in request.options]
    results: list[float] = []
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        width = max(len(ids) for _, ids in batch)
        tokens = torch.tensor([ids + [0] * (width - len(ids)) for _, ids in batch])
        mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for _, ids in batch])
        logprobs = torch.log_softmax(network(input_ids=tokens, attention_mask=mask).logits[:, :-1].float(), -1)
        of_tokens = logprobs.gather(2, tokens[:, 1:, None])[..., 0]
        for row, (start, ids) in enumerate(batch):
            results.append(float(of_tokens[row, start - 1 : len(ids) - 1].sum()))
    return results


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The processor's seconds of a call, and what it gives."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def through_server(folder: str, requests: Sequence[Request]) -> tuple[float, float, list[float], float]:
    """The processor's seconds of a first and a second call through vLLM, its values, and the server's peak in MB."""
    with tempfile.TemporaryDirectory() as scratch, real_server.vllm(folder, Path(scratch, "log")) as server:
        tree = psutil.Process(server.process.pid)
        processes = [tree, *tree.children(recursive=True)]

        def processor_seconds() -> float:
            times = [process.cpu_times() for process in processes]
            return float(sum(each.user + each.system for each in times)) + time.process_time()

        seconds = []
        with closing(connect(ServedOptions([server.url], None, folder))) as engine:
            for _ in range(2):
                begun = processor_seconds()
                responses = engine.answer(requests)
                seconds.append(processor_seconds() - begun)
        values = [sum(option) for response in responses for option in response.logprobs]
        peak = sum(peak_of(process.pid) for process in processes)
    return seconds[0], seconds[1], values, peak


def peak_of(pid: int) -> float:
    """The most memory that a process has had, in MB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def side(name: str, folder: str, data: str, benchmark: str, out: Path) -> None:
    """Scores with one side, and writes its seconds and log-probabilities."""
    from benchmarks.scoring import whole

    torch.set_num_threads(1)
    model = load(folder, dtype="float32", device="cpu")
    server_peak = 0.0
    requests = [request for request in whole(benchmark, data, limit=ROWS[benchmark]) if request.options]
    network, tokenizer = model.network, model.tokens.tokenizer
    first = 0.0
    if name == "ours":
        first, _ = timed(lambda: model.answer(requests))
        seconds, responses = timed(lambda: model.answer(requests))
        values = [sum(option) for response in responses for option in response.logprobs]
    elif name == "vllm":
        first, seconds, values, server_peak = through_server(folder, requests)
    elif name == "lm_eval":
        harness = peers.Harness(network, tokenizer, requests, BATCH)
        seconds, values = timed(lambda: harness(requests))
    else:
        seconds, values = timed(lambda: padded_loop(network, tokenizer, requests))
    found = {"seconds": seconds, "first": first, "requests": len(requests), "values": values}
    out.write_text(json.dumps({**found, "server_peak_mb": server_peak}))


def compare(folder: Path, data: str, benchmark: str, sides: Sequence[str]) -> dict[str, Any]:
    """Seconds and peak memory of each side, and the largest difference of an option's log-probability from ours."""
    results: dict[str, Any] = {}
    ours: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in sides:
            out = Path(scratch, name)
            command = [sys.executable, "-m", "benchmarks.real", "--side", name, "--model", str(folder)]
            process = measure([*command, "--data", data, "--benchmark", benchmark, "--out", str(out)])
            found = json.loads(out.read_text())
            values = found.pop("values")
            ours = ours or values
            results[name] = {
                "cpu_seconds": round(found["seconds"], 2),
                "first_call_cpu_seconds": round(found["first"], 2),
                "peak_mb": round(found["server_peak_mb"]) or process["peak_mb"],
                "options": len(values),
                "largest_difference": max(abs(a - b) for a, b in zip(values, ours, strict=True)),
            }
            print(folder.name, benchmark, name, results[name], flush=True)
    return results


def main(
    data: Annotated[str, typer.Option(help="Built data.")] = DATA,
    out: Annotated[Path, typer.Option(help="The file of the results.")] = RESULT,
    model: Annotated[str, typer.Option(hidden=True)] = "",
    benchmark: Annotated[str, typer.Option(help="Only this benchmark.")] = "",
    one_side: Annotated[str, typer.Option("--side", hidden=True)] = "",
) -> None:
    """Measures both models on each benchmark, and keeps what earlier calls measured."""
    if one_side:
        side(one_side, model, data, benchmark, out)
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    sides = ["ours", "padded_loop"]
    if peers.harness_version():
        sides.append("lm_eval")
    if real_server.installed():
        sides.append("vllm")
    kept = json.loads(out.read_text())["models"] if out.is_file() else {}
    for name in real_weights.models():
        for chosen in [benchmark] if benchmark else ROWS:
            kept.setdefault(name, {})[chosen] = compare(real_weights.folder() / name, data, chosen, sides)
            about = {"machine": describe("torch", "transformers", "lm_eval"), "threads": 1, "rows_of_a_file": ROWS}
            out.write_text(json.dumps({**about, "models": kept}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(main)
