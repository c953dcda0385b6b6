"""Scoring against loops and a harness: ``python -m benchmarks.scoring --data output --model FOLDER``.

Every side answers the same questions with the same network in one process with the same threads. They
take turns, so that what else the machine does meets all alike, and the median of each is taken; a side
whose turn is long has one. The slow sides set how many rows are affordable: a drawn sample, the same rows
for all. Two networks are asked: a small real one, and one of random weights in the shape of GPT-2 small,
whose tokenizer is trained on the questions themselves. ``python -m benchmarks.gpu fast`` does the same on a GPU with
larger shapes.

Beside each ratio stands ``at_peak``, what it would be if our operations ran at the speed of the matrix
product measured in the same turns. Where that is below a goal, no batching reaches it. ``arithmetic_limit`` is
the operations of a side that shares no contexts, divided by ours; a higher ratio comes from speed and padding.
``limit`` is that of one side, with the padding of a padded loop and the vocabulary at every position, and
``cpu_ratio`` the ratio of the processor's seconds, which what else the machine does disturbs less.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tokenizers
import torch
import transformers
import typer

from benchmarks import peers
from benchmarks.machine import RESULTS, describe
from scoring import DATA, benchmarks
from scoring.asking import run
from scoring.inference.engine import Stats
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.model import Model
from scoring.inputs import tables
from scoring.types import BenchmarkContext, Request, ScoringError

RESULT = RESULTS / "scoring.json"
#: Turns of each side, and the seconds of a turn after which a side has no other.
RUNS, LONG = 3, 60
#: How many times as fast as each side, in what share of the matrix-product peak, in how many seconds.
GOALS: Mapping[str, Mapping[str, float]] = {
    "occugender": {"one_by_one": 20, "lm_eval": 2},
    "stereoset": {"one_by_one": 10, "lm_eval": 2},
    "unstereo": {"padded": 5, "lm_eval": 2},
}
PEAK_SHARE = {"gpt2-small-shape": 0.5}
#: The sides that every comparison has.
OWN = ("ours", "lm_eval")
#: The most by which the log-probability of an option may differ between sides.
CLOSE = 1e-3
#: Rows of each file that are asked about. The padded loop needs a full batch of each file.
ROWS: Mapping[str, Mapping[str, int]] = {
    "small": {"occugender": 100, "stereoset": 1000, "unstereo": 200},
    "gpt2-small-shape": {"occugender": 8, "stereoset": 120, "unstereo": 64},
}


@dataclass(frozen=True, slots=True)
class File:
    """The questions of one file: of its drawn rows, and of all."""

    name: str
    drawn: list[Request]
    all: list[Request]


def files(name: str, data: str, rows: int) -> list[File]:
    """The files of a benchmark, with ``rows`` rows drawn of each."""
    results = []
    for place in benchmarks.get(name).configs_of("clean"):
        drawn, every = (asked(name, "clean", tables.load(data, *place, n)) for n in (rows, None))
        results.append(File("/".join(place[1:]), drawn, every))
    return results


def asked(name: str, profile: str, loaded: tables.Loaded) -> list[Request]:
    """What a benchmark requests a causal model of the rows of one file."""
    return [
        replace(request, id="/".join((name, loaded.name, request.id)))
        for row in loaded.rows
        for request in benchmarks.get(name).requests(profile, row, BenchmarkContext("causal"))
    ]


def whole(name: str, data: str, profile: str = "clean", limit: int | None = None) -> list[Request]:
    """All that a benchmark requests of the data that is there, or of so many rows of each file."""
    (part,) = run.read([benchmarks.get(name)], data, profile, limit)
    return [request for loaded in part.splits for request in asked(name, profile, loaded)]


def causal(data: str) -> list[str]:
    """Names of the benchmarks for causal models whose data sets are in a folder."""
    suited = []
    for benchmark in map(benchmarks.get, benchmarks.names()):
        if "causal" in benchmark.kinds and all(Path(data, data_set).is_dir() for data_set, *_ in benchmark.configs):
            suited.append(benchmark.name)
    return suited


class Turn(NamedTuple):
    """What one call took, on the clock and of the processor, and gave."""

    seconds: float
    cpu_seconds: float
    result: Any


def in_turn(sides: Mapping[str, Callable[[], Any]], long: float = LONG) -> dict[str, list[Turn]]:
    """Calls each side in turn, ``RUNS`` times, or once if that takes more than ``long`` seconds."""
    results: dict[str, list[Turn]] = {name: [] for name in sides}
    for number in range(RUNS):
        for name, call in sides.items():
            if number and results[name][0].seconds > long:
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            result = call()
            results[name].append(Turn(time.perf_counter() - wall, time.process_time() - cpu, result))
    return results


def median(turns: Sequence[Turn]) -> float:
    """Seconds on the clock."""
    return statistics.median(turn.seconds for turn in turns)


def cpu_median(turns: Sequence[Turn]) -> float:
    """Seconds of the processor, in all threads: what other work on the machine disturbs less."""
    return statistics.median(turn.cpu_seconds for turn in turns)


def compared(
    model: Model,
    name: str,
    some: Sequence[File],
    harness: peers.Harness | None,
    loops: Collection[str] = ("one_by_one", "padded"),
) -> dict[str, Any]:
    """Every side of one benchmark, of the loops those that are named: seconds, tokens per second, and the ratios."""
    requests = [request for file in some for request in file.drawn]
    together = _together(model, some) if "padded" in GOALS[name] and "padded" in loops else []
    sides = {key: side for key, side in _sides(model, name, together, harness).items() if key in {*loops, *OWN}}
    for key, side in sides.items():  # Threads and memory are there when the clock starts.
        if key != "ours":
            side(requests[:1])
    # The first call measures which ways of batching the network allows; the report has its time by itself.
    started = time.perf_counter()
    sides["ours"](requests)
    first_call = time.perf_counter() - started
    before = replace(model.stats)
    runs = in_turn(
        {"peak": lambda: peak(model)} | {key: lambda side=side: side(requests) for key, side in sides.items()}
    )
    done = _since(model.stats, before, len(runs["ours"]))
    seconds = {key: median(turns) for key, turns in runs.items()}
    ours = runs["ours"][-1].result
    operations = flops(model, requests, done)
    top = max(turn.result for turn in runs["peak"])

    def compare(key: str, turns: Sequence[Turn]) -> dict[str, Any]:
        against = _against(GOALS[name][key], seconds[key], seconds["ours"], operations / top)
        # All positions of all sequences, in a padded loop also those of the padding.
        every = sum(width * len(ids) for _, width, ids in together) if key == "padded" else done.asked
        limit = flops(model, requests, Stats(tokens=every, read=every)) / operations
        cpu = cpu_median(turns) / cpu_median(runs["ours"])
        return against | {"limit": _short(limit), "cpu_ratio": _short(cpu)} | _agreement(ours, turns[-1].result)

    return {
        "files": [file.name for file in some],
        "rows": len(requests),
        "rows_of_files": sum(len(file.all) for file in some),
        "options": len(ours),
        "tokens": done.asked,
        "tokens_computed": done.tokens,
        "padding_computed": done.padding,
        **({"tokens_of_the_padded_loop": sum(width * len(ids) for _, width, ids in together)} if together else {}),
        "sides": {
            key: {
                "seconds": _short(seconds[key]),
                "cpu_seconds": _short(cpu_median(turns)),
                "turns": len(turns),
                "tokens_per_second": round(done.asked / seconds[key]),
                **(compare(key, turns) if key in GOALS[name] else {}),
            }
            for key, turns in runs.items()
            if key != "peak"
        },
        "first_call_seconds": _short(first_call),
        "gflops": _short(operations / 1e9),
        "arithmetic_limit": limits(model, requests, done, operations),
        "gflops_per_second": _short(operations / seconds["ours"] / 1e9),
        "peak_gflops_per_second": _short(top / 1e9),
    }


def _sides(
    model: Model, name: str, together: Sequence[tuple[int, int, set[str]]], harness: peers.Harness | None
) -> dict[str, Callable[[Sequence[Request]], list[float]]]:
    network, tokenizer = model.network, model.tokens.tokenizer

    def ours(requests: Sequence[Request]) -> list[float]:
        return [sum(logprobs) for response in model.answer(requests) for logprobs in response.logprobs]

    sides: dict[str, Callable[[Sequence[Request]], list[float]]] = {"ours": ours}
    if "one_by_one" in GOALS[name]:
        sides["one_by_one"] = lambda requests: peers.one_by_one(network, tokenizer, requests)
    if "padded" in GOALS[name]:
        sides["padded"] = _padded(model, together)
    if harness:
        sides["lm_eval"] = harness
    return sides


def _together(model: Model, some: Sequence[File]) -> list[tuple[int, int, set[str]]]:
    """What the padded loop takes together: of a file the sentences with one pronoun, to the longest of all of them."""
    tokenizer = model.tokens.tokenizer
    results = []
    for file in some:
        for n in range(max(len(request.options) for request in file.all)):
            width = peers.longest(
                tokenizer, (request.options[n].text for request in file.all if n < len(request.options))
            )
            results.append((n, width, {request.id for request in file.drawn if n < len(request.options)}))
    return results


def _padded(model: Model, batches: Sequence[tuple[int, int, set[str]]]) -> Callable[[Sequence[Request]], list[float]]:
    """The padded loop over what it takes together."""
    network, tokenizer = model.network, model.tokens.tokenizer

    def answer(requests: Sequence[Request]) -> list[float]:
        results: dict[tuple[str, int], float] = {}
        for n, width, ids in batches:
            together = [request for request in requests if request.id in ids]
            values = peers.padded(network, tokenizer, [request.options[n].text for request in together], width)
            results |= {(request.id, n): value for request, value in zip(together, values, strict=True)}
        return [results[request.id, n] for request in requests for n in range(len(request.options))]

    return answer


def _since(now: Stats, before: Stats, turns: int) -> Stats:
    """What one of several equal turns computed."""
    names = ("asked", "tokens", "padding", "read")
    return Stats(**{name: (getattr(now, name) - getattr(before, name)) // turns for name in names})


def _against(goal: float, theirs: float, ours: float, least: float) -> dict[str, Any]:
    """How many times their seconds ours are, and the fewest that ours could be."""
    return _judged("ratio", theirs / ours, goal, theirs / ours >= goal) | {"at_peak": _short(theirs / least)}


def _agreement(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    difference = float(np.abs(np.subtract(ours, theirs)).max())
    return {"largest_difference": _short(difference), "agrees": difference < CLOSE}


def _judged(what: str, value: float, goal: float | None, met: bool) -> dict[str, Any]:
    """A figure with its goal beside it, where it has one."""
    return {what: _short(value)} | ({} if goal is None else {"goal": goal, "met": met})


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def flops(model: Model, requests: Sequence[Request], done: Stats) -> float:
    """Multiplications and additions that scoring needs, without padding.

    2 for each weight of the layers and token, the vocabulary for the positions read alone, and in
    attention 4 for each unit of width and pair of tokens that see each other, whose number per token
    is taken from the sequences before sharing.
    """
    network: Any = model.network
    config = network.config
    skipped = {id(m.weight): m.weight for m in network.modules() if isinstance(m, torch.nn.Embedding)}
    head = network.get_output_embeddings().weight
    body = network.num_parameters() - sum(w.numel() for w in {**skipped, id(head): head}.values())
    lengths = np.array([len(q.ids) for options, _ in model.tokens.queries(requests) for o in options for q in o])
    seen = (lengths * (lengths + 1) / 2).sum() / lengths.sum()
    attention = 4 * config.hidden_size * config.num_hidden_layers * seen
    return float(done.tokens * (2 * body + attention) + 2 * head.numel() * done.read)


def limits(model: Model, requests: Sequence[Request], done: Stats, operations: float) -> dict[str, float]:
    """The operations of a side that shares no contexts, divided by ours: its limit at equal speed.

    ``loop`` computes the vocabulary at every position, ``unshared`` at so many as we do.
    """
    sides = {"loop": done.asked, "unshared": done.read}
    return {
        side: _short(flops(model, requests, Stats(tokens=done.asked, read=read)) / operations)
        for side, read in sides.items()
    }


def peak(model: Model) -> float:
    """Operations per second of large matrix products in the dtype and on the device of a model: the fastest of five."""
    size = 2048 if model.device.type == "cpu" else 8192
    one, other = torch.randn(2, size, size, device=model.device).to(model.network.dtype)
    one[:64] @ other
    _wait(model)

    def seconds() -> float:
        started = time.perf_counter()
        one @ other
        _wait(model)
        return time.perf_counter() - started

    return 2 * size**3 / min(seconds() for _ in range(5))


def _wait(model: Model) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize()


def measured(model: Model, kind: str, data: str, limit: int | None) -> dict[str, Any]:
    """All benchmarks with one model."""
    asked = {name: files(name, data, limit or ROWS[kind][name]) for name in GOALS}
    requests = [request for some in asked.values() for file in some for request in file.drawn]
    harness = None
    if peers.harness_version():
        harness = peers.Harness(model.network, model.tokens.tokenizer, requests)
    results = {name: compared(model, name, some, harness) for name, some in asked.items()}
    done = sum(item["gflops"] for item in results.values())
    seconds = sum(item["sides"]["ours"]["seconds"] for item in results.values())
    top = max(item["peak_gflops_per_second"] for item in results.values())
    goal = PEAK_SHARE.get(kind)
    return {
        "model": Path(model.name).name,
        "parameters": model.network.num_parameters(),
        "dtype": model.dtype,
        "benchmarks": results,
        "lm_eval": harness and {"batch": harness.batch, "search_seconds": _short(harness.search_seconds)},
        "peak": _judged("share", done / seconds / top, goal, done / seconds / top >= (goal or 0)),
    }


def random_model(config: Any, data: str, device: str, dtype: torch.dtype) -> Model:
    """A network of random weights with a byte-level BPE tokenizer trained on the questions that are compared."""
    texts = {
        request.context + option.text for name in GOALS for request in whole(name, data) for option in request.options
    }
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    learn: Any = tokenizers.trainers.BpeTrainer
    trained.train_from_iterator(
        iter(sorted(texts)),
        learn(
            vocab_size=config.vocab_size,
            min_frequency=2,
            show_progress=False,
            special_tokens=["<|end|>"],
            initial_alphabet=alphabet,
        ),
    )
    wrap: Any = transformers.PreTrainedTokenizerFast
    tokenizer = wrap(tokenizer_object=trained, bos_token="<|end|>", eos_token="<|end|>")
    make: Any = transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    with torch.device(device):
        network = make.from_config(config, dtype=dtype)
    return Model(network, tokenizer, kind="causal", name=f"random {config.model_type}")


def goals_with_figures(kind: str, results: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The comparisons and shares of one model by a name, with their goals."""
    for name, compared in results["benchmarks"].items():
        for key, side in compared["sides"].items():
            if "goal" in side:
                yield f"{kind} {name} against {key}", side
    if "goal" in results["peak"]:
        yield f"{kind} share of the matrix-product peak", results["peak"]


def goals(result: Mapping[str, Any]) -> dict[str, bool]:
    """Every goal by a name, and whether it is met."""
    results = [line for kind, item in result["models"].items() for line in goals_with_figures(kind, item)]
    return {name: bool(side["met"]) for name, side in results}


def main(
    model: Annotated[str, typer.Option(help="Folder of the small model.")] = str(BUNDLED["tiny-causal"]),
    data: Annotated[str, typer.Option(help="Folder that python -m builders.rebuild wrote.")] = DATA,
    limit: Annotated[int | None, typer.Option(help="Rows of each file, where not the usual numbers.")] = None,
    models: Annotated[
        str, typer.Option(help="Models to compare, with commas: small, gpt2-small-shape.")
    ] = "small,gpt2-small-shape",
    threads: Annotated[int, typer.Option(help="Threads of all sides; 0 for one on every core.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = RESULT,
) -> None:
    """Measures, prints and writes the figures; goals stand beside them."""
    machine = describe("torch", "transformers", "tokenizers", "numpy")
    torch.set_num_threads(threads or int(machine["cores"]))
    makers = {
        "small": lambda: load(model, dtype="float32", device="cpu"),
        "gpt2-small-shape": lambda: random_model(transformers.GPT2Config(), data, "cpu", torch.float32),
    }
    names = [name for name in models.split(",") if name]
    if not set(names) <= set(makers):
        raise typer.BadParameter(f"{models!r} are not all among {', '.join(makers)}.")
    results: dict[str, Any] = {}
    for name in names:
        results[name] = measured(makers[name](), name, data, limit)
        for line, side in goals_with_figures(name, results[name]):
            more = f", limit {side['limit']}, {side['at_peak']} at the peak" if "at_peak" in side else ""
            print(f"{line}: {side.get('ratio', side.get('share'))} (goal {side['goal']}{more})", flush=True)
    result = {
        "machine": machine,
        "threads": torch.get_num_threads(),
        "most_turns": RUNS,
        "lm_eval": peers.harness_version() or "left out, because lm_eval is not installed",
        "models": results,
    }
    reached = goals(result)
    result |= {"goals": reached, "goals_met": all(reached.values())}
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"{sum(reached.values())} of {len(reached)} goals are met; all figures are in {out}.")


if __name__ == "__main__":
    try:
        typer.run(main)
    except ScoringError as error:
        raise SystemExit(str(error)) from None
