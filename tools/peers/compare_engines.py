"""Writes docs/ENGINES.md, what three engines give for tiny-causal, and docs/engines.csv, every metric of it.

    python -m tools.peers.compare_engines --data output --out docs/ENGINES.md

It starts vLLM on a CPU (``make .venv-served/.ready``). The served engine asks it for log-probabilities. The chat engine
asks the same server for words: at temperature 0, once, where the continuation is the one of the other engines
(neutral), and at temperature 1 for the explicit questions of OccuGender, which only has sampled answers.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from builders.generation.session import GenerationOptions, opened
from cards.common.files import put
from scoring import benchmarks
from scoring.asking import run
from scoring.asking.answering import key, questions
from scoring.inference.engine import Engine
from scoring.inference.engines import chat_api
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.served.engine import connect
from scoring.inference.store import Store
from scoring.inputs import prompts
from scoring.options import ServedOptions, Settings
from scoring.types import Estimate, Request, Response
from tools.peers import real_server

ROOT = Path(__file__).parents[2]
#: What the page says of servers, below the table.
_SERVERS = ROOT / "tools" / "templates" / "engines.md"
#: Rows of each split that the page is made of; the tests compare all rows.
ROWS = 100
#: Answers to a question of OccuGender.
SAMPLES = 10
#: The largest difference of a log-probability, and of a metric.
LOGPROB, METRIC = 1e-4, 1e-3

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Measured:
    """What one engine answered: responses by the id of the request, and metrics by benchmark, group and name."""

    responses: Mapping[str, Response]
    metrics: Mapping[Key, Estimate]


#: Benchmarks that are compared with few rows and are not on the page: they have many, and ask as the others do.
SAMPLED = ("bbq", "gest", "mbbq", "winogenerated")


def parts(data: str, limit: int | None = None, sampled: bool = False) -> list[run.Part]:
    """The benchmarks for causal models whose data is built; those of :data:`SAMPLED`, or all others."""
    names = [name for name in benchmarks.names() if (name in SAMPLED) is sampled]
    results = run.read([benchmarks.get(name) for name in names], data, "clean", limit)
    return [part for part in results if "causal" in part.benchmark.kinds and part.splits]


def measured(engine: Engine, some: Sequence[run.Part], folder: Path) -> Measured:
    """All answers and metrics of an engine that gives log-probabilities."""
    plain = prompts.get("plain")
    fit, _ = run.able(some, engine, "clean", named=True)
    with Store(folder, key(engine, plain)) as store:
        result = run.score(engine, fit, store, Settings(resamples=2), plain, console=Console(stderr=True))
        asked: list[Request] = [
            request
            for part in fit
            for question in questions(part.benchmark, part.splits, "clean", plain, engine)
            for request in question.requests.values()
        ]
        responses = {request.id: store.get(request) for request in asked}
    assert None not in responses.values()
    return Measured({name: r for name, r in responses.items() if r}, metrics(result.report.estimates))


def metrics(estimates: Iterable[Estimate]) -> dict[Key, Estimate]:
    """Estimates by benchmark, group and metric."""
    return {(e.benchmark, e.group, e.metric): e for e in estimates}


def sampled(url: str, some: Sequence[run.Part], folder: Path) -> Measured:
    """The metrics of answers in words, through the same server as a chat API."""
    results: dict[Key, Estimate] = {}
    for name, sampling in {
        "neutral": chat_api.Sampling(1, 0.0),
        "occugender": chat_api.Sampling(SAMPLES, 1.0),
    }.items():
        benchmark_parts = [part for part in some if part.benchmark.name == name]
        how = "tiny", sampling, Settings(resamples=2), prompts.get("plain")
        options = GenerationOptions("tiny", folder / name, url, concurrency=64)
        with opened(options, Console(stderr=True)) as client:
            answers = chat_api.ask(client, benchmark_parts, *how)
        results |= metrics(chat_api.result(answers, benchmark_parts, *how).report.estimates)
    return Measured({}, results)


def largest_difference(one: Measured, other: Measured) -> tuple[float, int]:
    """The largest difference of log-probabilities, and how many were compared.

    Raises
    ------
    ValueError
        When the engines answered other questions, or other numbers of tokens.
    """
    if one.responses.keys() != other.responses.keys():
        raise ValueError("The engines answered different requests.")
    ours, theirs = (np.array([v for name in one.responses for v in _numbers(m.responses[name])]) for m in (one, other))
    if ours.shape != theirs.shape or (np.isnan(ours) != np.isnan(theirs)).any():
        raise ValueError("The engines answered different numbers of log-probabilities.")
    return float(np.nanmax(abs(ours - theirs))), int((~np.isnan(ours)).sum())


def _numbers(response: Response) -> Iterator[float]:
    for logprobs in response.logprobs:
        yield from logprobs
    yield from response.candidate_logprobs


def other_texts(one: Measured, other: Measured) -> int:
    """How many continuations differ."""
    return sum(one.responses[name].text != other.responses[name].text for name in one.responses)


def differing(one: Measured, other: Measured, close: float = METRIC) -> list[Key]:
    """The metrics that only one engine has, or that differ by more than ``close``, NaN apart from numbers."""
    return unequal_metrics(one.metrics, other.metrics, close)


def unequal_metrics(one: Mapping[Key, Estimate], other: Mapping[Key, Estimate], close: float = METRIC) -> list[Key]:
    """As `differing`, for metrics alone."""
    return sorted(name for name in one.keys() | other.keys() if not _close(one.get(name), other.get(name), close))


def _close(one: Estimate | None, other: Estimate | None, close: float) -> bool:
    if one is None or other is None:
        return False
    return abs(one.value - other.value) <= close or (math.isnan(one.value) and math.isnan(other.value))


def table(local: Measured, served: Measured, chat: Measured) -> pd.DataFrame:
    """The metrics of the three engines; NaN where an engine has none, or its value is not defined."""
    engines = {"transformers": local, "served": served, "chat": chat}
    names = list(dict.fromkeys(name for one in engines.values() for name in one.metrics))
    columns = {
        engine: [one.metrics[name].value if name in one.metrics else math.nan for name in names]
        for engine, one in engines.items()
    }
    return pd.DataFrame(columns, pd.MultiIndex.from_tuples(names, names=["benchmark", "group", "metric"]))


def page(local: Measured, served: Measured, chat: Measured, software: str) -> str:
    """The text of docs/ENGINES.md."""
    apart, count = largest_difference(local, served)
    texts = sum(bool(r.text) for r in local.responses.values())
    lines = [
        "# Engines",
        "",
        "This page is for owners of a served model: does a server give the numbers of a model in the process?",
        "",
        "`python -m tools.peers.compare_engines` writes it. `make test-served` measures it again and fails where it "
        "differs. That test compares vLLM and the engine in the process on all rows (of `bbq` and `mbbq` on 100 of each"
        " split).",
        "",
        f"Three engines score `tiny-causal` in float32, profile `clean`, on the first {ROWS} rows of each split. They "
        f"are the transformers engine, {software} on a CPU through the served engine, and that server as a chat API.",
        "",
        f"- {len(local.responses):,} requests, {count:,} log-probabilities: the served engine differs from the "
        f"transformers engine by at most {apart:.1e}. {other_texts(local, served)} of {texts:,} continuations differ.",
        f"- {len(local.metrics):,} metrics: {len(differing(local, served))} differ by more than {METRIC:g}.",
        "- The chat engine has no log-probabilities. It continues `neutral` at temperature 0, so its scores are those "
        f"of the others. `occugender` has {SAMPLES} sampled answers to each explicit question at temperature 1. Their "
        "shares are no probabilities and are not comparable.",
        "",
        "[engines.csv](engines.csv) has every metric of each engine; an empty cell is one that the engine does not "
        "give, or that is not defined.",
        "",
        "| benchmark | metrics | largest difference, served | metrics of the chat API | largest difference, chat |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for benchmark, rows in table(local, served, chat).groupby("benchmark", sort=False):
        cells = [str(benchmark), f"{rows['transformers'].count():,}", _apart(rows["served"] - rows["transformers"])]
        cells += [f"{rows['chat'].count():,}", _apart(rows["chat"] - rows["transformers"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" + _SERVERS.read_text(encoding="utf-8")


def _apart(differences: pd.Series) -> str:
    """The largest size of a difference; a dash without any."""
    return "–" if differences.isna().all() else f"{differences.abs().max():.2g}"


def main() -> None:
    """Measures the engines and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="output", help="folder that python -m builders.rebuild wrote")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each split")
    parser.add_argument("--base-url", help="a vLLM server of tiny-causal that runs already; else one is started")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "ENGINES.md")
    options = parser.parse_args()
    some = parts(options.data, options.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        local = measured(load(BUNDLED["tiny-causal"], dtype="float32", device="cpu"), some, folder / "local")
        if options.base_url:
            _write(options.out, options.base_url, local, some, folder)
        else:
            with real_server.vllm(BUNDLED["tiny-causal"], folder / "server.log") as server:
                _write(options.out, server.url, local, some, folder)


def _write(path: Path, url: str, local: Measured, some: Sequence[run.Part], folder: Path) -> None:
    """The page, and beside it the table of all metrics."""
    with closing(connect(ServedOptions([url], None, "tiny-causal"))) as engine:
        served = measured(engine, some, folder / "served")
    chat = sampled(url, some, folder / "chat")
    put(path.with_name("engines.csv"), table(local, served, chat).to_csv(float_format="%.6f").encode())
    put(path, page(local, served, chat, engine.servers[0].software).encode())


if __name__ == "__main__":
    main()
