"""Instructions and cache misses of counting, ours and the scan in C: ``python -m benchmarks.pmi_counters FILE…``.

Where ``perf`` gives no counters (most virtual machines), valgrind runs the program on a simulated processor whose
caches have the sizes of this one, and counts each instruction and each access to memory. Each side counts two texts,
one the beginning of the other; the difference is what the text alone takes, without Python's start. Neither side uses
more than the instructions of any x86-64 processor there, so the seconds of these programs are taken too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.pmi import RESULT, STOP, blocks, counted
from benchmarks.pmi_peers import compiled
from pmi.counting.corpus import shards
from pmi.counting.local import GENDERED_WORDS
from pmi.counting.reading import RECORD_END

#: Code for any x86-64 processor, because valgrind does not know all instructions of new ones.
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}
#: Bytes of text: tables have most of their words after the first.
FIRST, SECOND = 16_000_000, 24_000_000
#: What cachegrind counts: instructions, accesses, misses of the first and of the last cache; branches and misses.
EVENTS = {
    "instructions": ("Ir",),
    "accesses": ("Dr", "Dw"),
    "first_cache_misses": ("D1mr", "D1mw"),
    "last_cache_misses": ("DLmr", "DLmw"),
    "branches": ("Bc", "Bi"),
    "branch_misses": ("Bcm", "Bim"),
}


def asked(side: str, text: bytes, folder: Path) -> float:
    """Seconds in which one side counts a text."""
    if side == "c_scan":
        scan, zeroed = compiled(folder), text.replace(RECORD_END, b"\0")
        started = time.perf_counter()
        scan(zeroed, GENDERED_WORDS, STOP)
    else:
        pieces = [text[at : at + (1 << 20)] for at in range(0, len(text), 1 << 20)]
        counted([b"he is"])
        started = time.perf_counter()
        counted(pieces)
    return time.perf_counter() - started


def caches() -> dict[str, str]:
    """The sizes of the first cache of data and of the last that a core has alone, as options of cachegrind."""
    found = {}
    for name, level, kind in (("--D1", "1", "Data"), ("--LL", "2", "Unified")):
        for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
            files = ("level", "type", "size", "ways_of_associativity", "coherency_line_size")
            facts = {file: (index / file).read_text().strip() for file in files}
            if (facts["level"], facts["type"]) == (level, kind):
                size = int(facts["size"].rstrip("K")) * 1024
                found[name] = f"{size},{facts['ways_of_associativity']},{facts['coherency_line_size']}"
    return found


def simulated(side: str, path: Path, size: int, folder: Path) -> dict[str, int]:
    """The events of one process that counts the beginning of a text."""
    out = folder / f"{side}-{size}"
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", f"--cachegrind-out-file={out}"]
    command += [f"{option}={value}" for option, value in caches().items()]
    command += [sys.executable, "-m", "benchmarks.pmi_counters", str(path), "--inside", side, "--size", str(size)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **GENERIC})
    text = out.read_text()
    names = re.search("^events: (.*)$", text, re.MULTILINE)
    sums = re.search("^summary: (.*)$", text, re.MULTILINE)
    assert names
    assert sums
    return dict(zip(names[1].split(), map(int, sums[1].split()), strict=True))


def measured(path: Path, folder: Path) -> dict[str, Any]:
    """Each side's events and nanoseconds for each byte of the text between the two sizes."""
    results = {}
    for side in ("c_scan", "ours"):
        one, other = (simulated(side, path, size, folder) for size in (FIRST, SECOND))
        row: dict[str, float] = {
            name: _short(sum(other[event] - one[event] for event in events) / (SECOND - FIRST))
            for name, events in EVENTS.items()
        }
        results[side] = row
    return results


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def main(
    corpus: Annotated[list[Path], typer.Argument(help="Files or folders of real text.")],
    inside: Annotated[str, typer.Option(help="Only counts, as this side.", hidden=True)] = "",
    size: Annotated[int, typer.Option(help="So many bytes of the text.", hidden=True)] = 0,
    out: Annotated[Path, typer.Option(help="Figures of benchmarks.pmi, to which these are added.")] = RESULT,
) -> None:
    """Measures, prints and adds the figures for one byte of text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if inside:
            with corpus[0].open("rb") as file:
                print(asked(inside, file.read(size), folder))
            return
        path = folder / "text"
        path.write_bytes(text_of(corpus, SECOND))
        result = {"caches": caches(), "for_each_byte": measured(path, folder)}
    whole = json.loads(out.read_text()) | {"counters": result}
    out.write_text(json.dumps(whole, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def text_of(corpus: Sequence[Path], size: int) -> bytes:
    """The records of a corpus, up to so many bytes."""
    found = b""
    for shard in shards(corpus):
        for block in blocks(shard):
            found += block
            if len(found) >= size:
                return found[:size]
    raise SystemExit(f"The corpus has {len(found):,} bytes of text, and {size:,} are counted; give more files.")


if __name__ == "__main__":
    typer.run(main)
