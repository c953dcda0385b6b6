"""Peak memory of several equal models in one command beside one: ``python -m benchmarks.many_models --data output``.

The models are copies of one network of random weights in the shape of GPT-2 small (about 100 million parameters,
0.4 GB in float32) with the tokenizer of ``tiny-causal``, so the weights are most of the memory. Each number of models
is scored by a process of its own. A model whose weights were kept while the next one is loaded would add 0.4 GB.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from benchmarks.machine import describe, measure
from scoring import DATA
from scoring.inference.load_options import BUNDLED

RESULT = Path(__file__).with_name("many_models.json")
#: Numbers of models, and the most that the peak of several may be above that of one.
COUNTS, GOAL = (1, 2, 4), 1.05
HOW = ("--benchmarks", "occugender", "--limit", "4", "--resamples", "100", "--device", "cpu")


def write_models(folder: Path, count: int) -> list[str]:
    """Writes copies of a random network, and returns their folders."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])
    torch.manual_seed(0)
    network = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0))
    folders = [folder / f"model-{number}" for number in range(count)]
    for place in folders:
        network.save_pretrained(place)
        tokenizer.save_pretrained(place)
    return [str(place) for place in folders]


def main(data: Annotated[str, typer.Option(help="Built data sets, with occugender.")] = DATA) -> None:
    """Measures the peaks and writes them beside this file."""
    megabytes = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        models = write_models(folder, max(COUNTS))
        for count in COUNTS:
            out = str(folder / f"out-{count}")
            command = [sys.executable, "-m", "scoring", *models[:count], "--data", data, "--out", out, *HOW]
            megabytes[count] = measure(command)["peak_mb"]
    ratios = {count: round(peak / megabytes[1], 3) for count, peak in megabytes.items()}
    result = {
        "machine": describe("torch", "transformers"),
        "peak_mb": {count: round(peak) for count, peak in megabytes.items()},
        "ratios": ratios,
        "goal": GOAL,
        "reached": max(ratios.values()) <= GOAL,
    }
    text = json.dumps(result, indent=1)
    RESULT.write_text(text + "\n", encoding="utf-8")
    typer.echo(text)


if __name__ == "__main__":
    typer.run(main)
