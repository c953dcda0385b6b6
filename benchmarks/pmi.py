"""Counting against other ways to count: ``python -m benchmarks.pmi FILE…``.

All sides count the same real text in one process on one core and take turns, so that what else the machine
does meets all alike; the median of each is taken. The slow sides count a part of the text. Beside them
stand whole runs of the command: from plain text, from JSON lines in zstd, with one process and with two,
with workers of Ray where it is installed, and with a vocabulary of a million words, of which the peak of
memory is taken.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
import zstandard

from benchmarks.machine import describe, measure
from benchmarks.pmi_peers import NEEDS, PEERS, WINDOW, compiled
from pmi.counting.corpus import Shard, shards
from pmi.counting.local import GENDERED_WORDS
from pmi.counting.reading import RECORD_END, read
from pmi.counting.scanner import Scanner
from pmi.words import stop_words

RESULT = Path(__file__).with_name("pmi.json")
RUNS = 3
#: How many times as fast two processes are; megabytes of memory. The rates of one core are shares of the scan in C.
GOALS = {"two_processes": 1.9, "memory": 1000}
STOP = stop_words("clean") - set(GENDERED_WORDS)


def blocks(shard: Shard) -> Iterator[bytes]:
    """The records of a file."""
    return read(shard, "text", print, lambda _: None)


def counted(pieces: Iterator[bytes] | Sequence[bytes]) -> int:
    """Our scan, in this process; gives how many pairs with gendered words it counted."""
    scanner = Scanner(GENDERED_WORDS, STOP, WINDOW, "record")
    for piece in pieces:
        scanner.feed(piece)
    scanner.feed(b"", final=True)
    return int(scanner.pair_counts.sum())


def in_turn(sides: Mapping[str, Callable[[], int]], runs: int) -> dict[str, dict[str, Any]]:
    """Calls each side in turn; median seconds on the clock and of the processor, and the pairs it counted."""
    results: dict[str, list[tuple[float, float, int]]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, call in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            pairs = call()
            results[name].append((time.perf_counter() - wall, time.process_time() - cpu, pairs))
    return {
        name: {
            "seconds": statistics.median(turn[0] for turn in turns),
            "cpu_seconds": statistics.median(turn[1] for turn in turns),
            "pairs": turns[-1][2],
        }
        for name, turns in results.items()
    }


def rated(turns: dict[str, dict[str, Any]], sizes: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """With megabytes of text per second of the processor, which what else the machine does disturbs less."""
    for name, turn in turns.items():
        megabytes = sizes[name] / 1e6
        turn["megabytes"] = round(megabytes, 1)
        turn["mb_per_s"] = _short(megabytes / turn["seconds"])
        turn["mb_per_cpu_s"] = _short(megabytes / turn["cpu_seconds"])
        turn["seconds"], turn["cpu_seconds"] = _short(turn["seconds"]), _short(turn["cpu_seconds"])
    return turns


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def compared(corpus: Sequence[Path], repeat: int, part: int, runs: int, folder: Path) -> dict[str, Any]:
    """All sides on one core: ours from memory, from plain text and from JSON lines, and the others."""
    texts = [text.decode("utf-8", "replace") for shard in shards(corpus) for text in _records(shard)] * repeat
    memory = b"".join(text.encode() + RECORD_END for text in texts)
    plain, lines = folder / "plain.txt", folder / "lines.jsonl.zst"
    plain.write_bytes(memory.replace(RECORD_END, b"\n"))
    _write_lines(lines, texts)
    some = list(islice(_until(texts, part), len(texts)))
    scan = compiled(folder)
    zeroed = memory.replace(RECORD_END, b"\0")
    files = {path: shards([path])[0] for path in (plain, lines)}
    pieces = [memory[at : at + (1 << 20)] for at in range(0, len(memory), 1 << 20)]
    fast: dict[str, Callable[[], int]] = {
        "c_scan": lambda: scan(zeroed, GENDERED_WORDS, STOP),
        "ours_memory": lambda: counted(pieces),
        "ours_plain": lambda: counted(blocks(files[plain])),
        "ours_json_zstd": lambda: counted(blocks(files[lines])),
    }
    slow: dict[str, Callable[[], int]] = {
        name: partial(peer, some, GENDERED_WORDS, STOP) for name, peer in PEERS.items() if find_spec(NEEDS[name])
    }
    small = sum(len(text.encode()) for text in some)
    slow["ours_part"] = lambda: counted([b"".join(text.encode() + RECORD_END for text in some)])
    counted(pieces[:1])  # Compiled before the clock starts.
    sides = rated(in_turn(fast, runs), dict.fromkeys(fast, len(memory))) | rated(
        in_turn(slow, 1), dict.fromkeys(slow, small)
    )
    for name in slow:
        sides[name]["pairs_against_ours"] = _short(sides[name]["pairs"] / sides["ours_part"]["pairs"])
    speed = {name: side["mb_per_cpu_s"] for name, side in sides.items()}
    return {
        "sides": sides,
        "times_as_fast_as": {name: _short(speed["ours_part"] / speed[name]) for name in slow if name != "ours_part"},
        "share_of_c_scan": {
            name: _short(speed[side] / speed["c_scan"])
            for name, side in (("memory", "ours_memory"), ("plain", "ours_plain"), ("json", "ours_json_zstd"))
        },
        "left_out": sorted(set(PEERS) - set(slow)),
    }


def _records(shard: Shard) -> Iterator[bytes]:
    rest = b""
    for block in blocks(shard):
        *whole, rest = (rest + block).split(RECORD_END)
        yield from whole


def _until(texts: Sequence[str], size: int) -> Iterator[str]:
    """Texts up to so many characters, the last cut."""
    for text in texts:
        if size <= 0:
            return
        yield text[:size]
        size -= len(text)


def _write_lines(path: Path, texts: Sequence[str]) -> None:
    with zstandard.open(path, "wt", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


def _judged(value: float, goal: float, most: bool = False) -> dict[str, Any]:
    return {"value": value, "goal": goal, "met": value <= goal if most else value >= goal}


def scaled(folder: Path, copies: int) -> dict[str, Any]:
    """The command on copies of the JSON lines, with one process, with two, and with two workers of Ray."""
    many = folder / "many"
    many.mkdir()
    for n in range(copies):
        # A copy, because one file counts once under all its names.
        shutil.copyfile(folder / "lines.jsonl.zst", many / f"{n:03}.jsonl.zst")
    command = [sys.executable, "-m", "pmi", "count", str(many), "--out", str(folder / "counts.parquet")]
    ways = {"one_process": ["--jobs", "1"], "two_processes": ["--jobs", "2"]}
    if find_spec("ray") and find_spec("datatrove"):
        ways["two_ray_workers"] = ["--engine", "ray", "--cluster", "workers=2"]
    results: dict[str, Any] = {name: measure([*command, *options]) for name, options in ways.items()}
    tables = folder / "counts.parquet"
    ratio = results["one_process"]["wall_s"] / results["two_processes"]["wall_s"]
    return {
        "copies": copies,
        "runs": results,
        "table_bytes": tables.stat().st_size,
        "two_against_one": _judged(_short(ratio), GOALS["two_processes"]),
    }


def large_vocabulary(folder: Path, words: int = 1_000_000) -> dict[str, Any]:
    """The command on text of a million different words, each near gendered ones."""
    path = folder / "vocabulary.txt"
    chance = random.Random(0)
    with open(path, "w", encoding="ascii") as file:
        for start in range(0, words, 10):
            some = " ".join(f"{chance.choice('bcdfghjk')}w{n:x}" for n in range(start, min(start + 10, words)))
            file.write(f"{some} {chance.choice(GENDERED_WORDS)}\n")
    run = measure([sys.executable, "-m", "pmi", "count", str(path), "--out", str(folder / "v.parquet"), "--jobs", "1"])
    return {"words": words, **run, "memory": _judged(run["peak_mb"], GOALS["memory"], most=True)}


def main(
    corpus: Annotated[list[Path], typer.Argument(help="Files or folders of real text.")],
    repeat: Annotated[int, typer.Option(help="How often the text is repeated, to be long enough.")] = 4,
    part: Annotated[int, typer.Option(help="Characters that the slow sides count.")] = 5_000_000,
    copies: Annotated[int, typer.Option(help="Copies of that for runs of the command; 0 for none.")] = 12,
    runs: Annotated[int, typer.Option(help="Turns of which the median is taken.")] = RUNS,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = RESULT,
) -> None:
    """Measures, prints and writes the figures; goals stand beside them."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    packages = [name for name in ("numba", "numpy", "spacy", "polars", "duckdb", "ray", "datatrove") if find_spec(name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = {
            "machine": describe(*packages),
            "runs": runs,
            "repeat": repeat,
            "window": WINDOW,
            "gendered_words": len(GENDERED_WORDS),
            "one_core": compared(corpus, repeat, part, runs, folder),
            "command": scaled(folder, copies) if copies else "left out",
            "large_vocabulary": large_vocabulary(folder),
        }
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    typer.run(main)
