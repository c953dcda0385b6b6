"""Re-scoring of everything from stored responses: ``python -m benchmarks.rescore``.

All rows of all benchmarks of the clean profile, each with a random response of the shape that the bundled
causal model gives, in a store. On one thread, each step by itself and the smallest of some runs: reading
the rows and asking again, reading the store, looking the responses up, making the tables, and every metric
of every group with 10,000 resamples.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.machine import describe
from scoring import DATA, benchmarks
from scoring.asking import answering, run
from scoring.asking.answering import Question
from scoring.inference.load_options import BUNDLED
from scoring.inference.store import Store
from scoring.inputs.prompts import get
from scoring.statistics.stats import RESAMPLES
from scoring.types import Request, Response, ScoringError

if TYPE_CHECKING:
    from scoring.inference.model import Model

RESULT = Path(__file__).with_name("rescore.json")
RUNS = 5
#: Seconds from the stored responses to the metrics of all benchmarks.
GOAL = 2.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_TEXTS = (" she went to see her friend.", " he said that he was tired.", " they went home.", " I'm at home.")


class Clock:
    """Seconds by step, the smallest over the runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times a step."""
        start = time.perf_counter()
        yield
        took = time.perf_counter() - start
        self.seconds[name] = min(took, self.seconds.get(name, took))


def asked(model: Model, data: str) -> dict[str, list[Question]]:
    """What every benchmark requests the model, by benchmark."""
    suited = [b for b in map(benchmarks.get, benchmarks.names()) if model.kind in b.kinds]
    parts = [part for part in run.read(suited, data, "clean") if part.splits]
    return {p.benchmark.name: answering.questions(p.benchmark, p.splits, "clean", get("plain"), model) for p in parts}


def replied(model: Model, requests: list[Request], draw: random.Random) -> list[Response]:
    """A random response to each request: one number a token."""
    lengths = iter([len(e.ids) for e in model.tokens.encode([o.text for request in requests for o in request.options])])
    return [
        Response(
            request.id,
            tuple(tuple(-draw.expovariate(0.3) for _ in range(next(lengths))) for _ in request.options),
            tuple(-draw.expovariate(0.2) for _ in request.candidates),
            draw.choice(_TEXTS) if request.max_new else "",
        )
        for request in requests
    ]


def score(model: Model, data: str, folder: Path, clock: Clock) -> dict[str, int]:
    """One pass from rows and stored responses to estimates; how many of each there were."""
    with clock.step("questions"):
        questions = asked(model, data)
    with clock.step("store"):
        store = Store(folder, {})
    with store, clock.step("responses"):
        requests = [
            request for some in questions.values() for question in some for request in question.requests.values()
        ]
        responses = {request.id: response for request in requests if (response := store.get(request)) is not None}
    with clock.step("tables"):
        tables = {name: run.table("clean", some, responses) for name, some in questions.items()}
    with clock.step("metrics"):
        results = [e for name, table in tables.items() for e in run.estimate(benchmarks.get(name), "clean", table)]
    return {
        "responses": len(responses),
        "rows": sum(len(table["id"]) for table in tables.values()),
        "estimates": len(results),
    }


def main(
    data: Annotated[str, typer.Option(help="Built data sets.")] = DATA,
    runs: Annotated[int, typer.Option(min=1, help="Passes, of which the smallest time counts.")] = RUNS,
) -> None:
    """Measures, prints and writes ``rescore.json``."""
    if not ONE_THREAD.items() <= os.environ.items():
        # NumPy reads them when it is loaded.
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.rescore", *sys.argv[1:]], os.environ | ONE_THREAD)
    from scoring.inference.load_options import load

    model = load(BUNDLED["tiny-causal"])
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            requests = [
                request for some in asked(model, data).values() for item in some for request in item.requests.values()
            ]
        except ScoringError as error:
            raise SystemExit(str(error)) from None
        with Store(Path(scratch), {}) as store:
            for request, response in zip(requests, replied(model, requests, random.Random(0)), strict=True):
                store.put(request, response)
        counts = [score(model, data, Path(scratch), clock) for _ in range(runs)]
    seconds = {name: round(took, 3) for name, took in clock.seconds.items()}
    from_store = round(sum(seconds[step] for step in ("store", "responses", "tables", "metrics")), 3)
    result = {
        "machine": describe("numpy", "pyarrow"),
        "threads": 1,
        "runs": runs,
        "resamples": RESAMPLES,
        **counts[0],
        "seconds": seconds,
        "whole_s": round(sum(seconds.values()), 3),
        "from_store_s": from_store,
        "goals": {"from_store_s": GOAL},
        "goals_met": from_store <= GOAL,
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    typer.run(main)
