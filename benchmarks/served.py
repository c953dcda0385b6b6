"""The served engine beside the local one and a harness: ``python -m benchmarks.served --data output``.

A network of random weights in the shape of GPT-2 small answers the same requests in three ways, in turns: in this
process; through vLLM on the same processor (``make .venv-served/.ready``) with our served engine; and through the same
server with lm-evaluation-harness (``local-completions``, prompts as token ids, in batches of ``BATCH`` with as many
requests at the same time as ours). All compute in float32 with the same number of threads, and their sums of
log-probabilities are compared. ``waiting_share`` is the share of our wall time in which the server had a request.
"""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import transformers
import typer

from benchmarks import peers
from benchmarks.machine import describe
from benchmarks.scoring import CLOSE, files, in_turn, median, random_model
from scoring import DATA
from scoring.inference.engine import Engine
from scoring.inference.model import Model
from scoring.inference.served.engine import Served, connect
from scoring.options import ServedOptions
from scoring.types import Request, ScoringError
from tools import real_server

RESULT = Path(__file__).with_name("served.json")
#: How many times as fast as the harness through the same server.
GOAL = 2.0
#: Prompts of a request of the harness, and requests at the same time of both.
BATCH, CONCURRENCY = 64, 4
#: Rows of each file.
ROWS = {"occugender": 8, "stereoset": 120, "unstereo": 64}


class Harness:
    """lm-evaluation-harness through a server."""

    def __init__(self, url: str, folder: Path) -> None:
        results = importlib.import_module("lm_eval.models.openai_completions").LocalCompletionsAPI
        self._request = importlib.import_module("lm_eval.api.instance").Instance
        self._model = results(
            base_url=f"{url}/completions",
            model="tiny",
            tokenizer=str(folder),
            tokenizer_backend="huggingface",
            tokenized_requests=True,
            batch_size=BATCH,
            num_concurrent=CONCURRENCY,
            max_length=512,
        )

    def __call__(self, requests: Sequence[Request]) -> list[float]:
        """The options' log-probabilities."""
        pairs = [(request.context, option.text) for request in requests for option in request.options]
        asked = [
            self._request(request_type="loglikelihood", doc={}, arguments=pair, idx=n) for n, pair in enumerate(pairs)
        ]
        return [float(logprob) for logprob, _ in self._model.loglikelihood(asked, disable_tqdm=True)]


def answers(engine: Engine) -> Callable[[Sequence[Request]], list[float]]:
    """The options' log-probabilities by one of our engines."""
    return lambda requests: [sum(values) for response in engine.answer(requests) for values in response.logprobs]


def saved(model: Model, folder: Path) -> None:
    """Writes a model for a server, in the class that transformers and vLLM read."""
    model.network.save_pretrained(folder)
    model.tokens.tokenizer.save_pretrained(folder)


def compared(local: Model, served: Served, harness: Harness | None, requests: Sequence[Request]) -> dict[str, Any]:
    """Seconds of each side, the ratios, and the largest differences from the local engine."""
    sides: dict[str, Callable[[Sequence[Request]], list[float]]] = {"local": answers(local), "served": answers(served)}
    if harness:
        sides["lm_eval_served"] = harness
    for side in sides.values():  # Connections and memory are there when the clock starts.
        side(requests[:1])
    before, waited = replace(served.stats), served.waiting_seconds
    turns = in_turn({name: partial(side, requests) for name, side in sides.items()})
    seconds = {name: median(some) for name, some in turns.items()}
    spent = served.stats.seconds - before.seconds
    count = len(turns["served"])
    reference = np.array(turns["local"][-1].result)
    return {
        "requests": len(requests),
        "options": len(reference),
        "tokens": (served.stats.asked - before.asked) // count,
        "tokens_sent": (served.stats.tokens - before.tokens) // count,
        "waiting_share": round((served.waiting_seconds - waited) / spent, 3),
        "sides": {
            name: {
                "seconds": round(seconds[name], 2),
                "turns": len(some),
                "served_is_faster_by": round(seconds[name] / seconds["served"], 2),
                "largest_difference": float(f"{abs(np.array(some[-1].result) - reference).max():.2g}"),
            }
            for name, some in turns.items()
        },
    }


def measured(local: Model, url: str, folder: Path, requests: Mapping[str, Sequence[Request]]) -> dict[str, Any]:
    """All benchmarks through one server."""
    served = connect(ServedOptions([url], None, str(folder), concurrency=CONCURRENCY), trained=False)
    harness = Harness(url, folder) if peers.harness_version() else None
    try:
        results = {name: compared(local, served, harness, some) for name, some in requests.items()}
    finally:
        served.close()
    agree = [side["largest_difference"] < CLOSE for item in results.values() for side in item["sides"].values()]
    ratios = {n: e["sides"]["lm_eval_served"]["served_is_faster_by"] for n, e in results.items() if harness}
    return {
        "server": served.servers[0].software,
        "lm_eval": peers.harness_version() or "left out, because lm_eval is not installed",
        "benchmarks": results,
        "goals": {name: {"ratio": ratio, "goal": GOAL, "met": ratio >= GOAL} for name, ratio in ratios.items()},
        "agrees": all(agree),
    }


def main(
    data: Annotated[str, typer.Option(help="Folder that python -m builders.rebuild wrote.")] = DATA,
    rows: Annotated[int | None, typer.Option(help="Rows of each file, where not the usual numbers.")] = None,
    layers: Annotated[int, typer.Option(help="Layers of the network; 12 as GPT-2 small.")] = 12,
    threads: Annotated[int, typer.Option(help="Threads of all sides; 0 for one on every core.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = RESULT,
) -> None:
    """Measures, prints and writes the figures; the goal stands beside the ratios."""
    if not real_server.installed():
        raise SystemExit("There is no real server here; run make .venv-served/.ready first.")
    machine = describe("torch", "transformers", "tokenizers", "numpy")
    count = threads or int(machine["cores"])
    torch.set_num_threads(count)
    local = random_model(transformers.GPT2Config(n_layer=layers), data, "cpu", torch.float32)
    requests = {
        name: [request for file in files(name, data, rows or usual) for request in file.drawn]
        for name, usual in ROWS.items()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "model")
        saved(local, folder)
        with real_server.vllm(folder, Path(name, "server.log"), threads=count) as server:
            results = measured(local, server.url, folder, requests)
    result = {"machine": machine, "threads": count, "layers": layers, **results}
    out.write_text(json.dumps(result, indent=2) + "\n")
    for name, goal in results["goals"].items():
        print(f"{name}: {goal['ratio']} times as fast as lm-eval through the same server (goal {goal['goal']})")
    print(f"All figures are in {out}.")


if __name__ == "__main__":
    try:
        typer.run(main)
    except ScoringError as error:
        raise SystemExit(str(error)) from None
