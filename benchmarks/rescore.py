"""Re-scoring of everything from stored replies: ``python -m benchmarks.rescore``.

All rows of all benchmarks of the clean profile, each with a random reply of the shape that the bundled
causal model gives, in a store. On one thread, each step by itself and the smallest of some runs: reading
the rows and asking again, reading the store, looking the replies up, making the tables, and every metric
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
from scoring import asking, benchmarks, run
from scoring.__main__ import BUNDLED
from scoring.asking import Question
from scoring.prompts import get
from scoring.stats import RESAMPLES
from scoring.store import Store
from scoring.tables import DEFAULT
from scoring.types import Ask, Reply, ScoringError

if TYPE_CHECKING:
    from scoring.model import Model

RESULT = Path(__file__).with_name("rescore.json")
RUNS = 5
#: Seconds from the stored replies to the metrics of all benchmarks.
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
    """What every benchmark asks the model, by benchmark."""
    suited = [b for b in map(benchmarks.get, benchmarks.names()) if model.kind in b.kinds]
    parts = [part for part in run.read(suited, data, "clean") if part.splits]
    return {p.benchmark.name: asking.questions(p.benchmark, p.splits, "clean", get("plain"), model) for p in parts}


def replied(model: Model, asks: list[Ask], draw: random.Random) -> list[Reply]:
    """A random reply to each ask: one number a token."""
    lengths = iter([len(e.ids) for e in model.tokens.encode([o.text for ask in asks for o in ask.options])])
    return [
        Reply(
            ask.id,
            tuple(tuple(-draw.expovariate(0.3) for _ in range(next(lengths))) for _ in ask.options),
            tuple(-draw.expovariate(0.2) for _ in ask.watch),
            draw.choice(_TEXTS) if ask.max_new else "",
        )
        for ask in asks
    ]


def score(model: Model, data: str, folder: Path, clock: Clock) -> dict[str, int]:
    """One pass from rows and stored replies to estimates; how many of each there were."""
    with clock.step("questions"):
        questions = asked(model, data)
    with clock.step("store"):
        store = Store(folder, {})
    with store, clock.step("replies"):
        asks = [ask for some in questions.values() for question in some for ask in question.asks.values()]
        replies = {ask.id: reply for ask in asks if (reply := store.get(ask)) is not None}
    with clock.step("tables"):
        tables = {name: run.table(benchmarks.get(name), "clean", some, replies) for name, some in questions.items()}
    with clock.step("metrics"):
        found = [e for name, table in tables.items() for e in run.estimate(benchmarks.get(name), "clean", table)]
    return {
        "replies": len(replies),
        "rows": sum(len(table["id"]) for table in tables.values()),
        "estimates": len(found),
    }


def main(
    data: Annotated[str, typer.Option(help="Built data sets.")] = DEFAULT,
    runs: Annotated[int, typer.Option(min=1, help="Passes, of which the smallest time counts.")] = RUNS,
) -> None:
    """Measures, prints and writes ``rescore.json``."""
    if not ONE_THREAD.items() <= os.environ.items():
        # NumPy reads them when it is loaded.
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.rescore", *sys.argv[1:]], os.environ | ONE_THREAD)
    from scoring.model import load

    model = load(BUNDLED["tiny-causal"])
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            asks = [ask for some in asked(model, data).values() for each in some for ask in each.asks.values()]
        except ScoringError as error:
            raise SystemExit(str(error)) from None
        with Store(Path(scratch), {}) as store:
            for ask, reply in zip(asks, replied(model, asks, random.Random(0)), strict=True):
                store.put(ask, reply)
        counts = [score(model, data, Path(scratch), clock) for _ in range(runs)]
    seconds = {name: round(took, 3) for name, took in clock.seconds.items()}
    from_store = round(sum(seconds[step] for step in ("store", "replies", "tables", "metrics")), 3)
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
