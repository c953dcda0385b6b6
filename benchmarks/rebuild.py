"""Rebuild of all data sets from the mirror: ``python -m benchmarks.rebuild``.

Three whole processes, each repeated and the median taken: a fresh build, the same command again when
nothing changed, and ``--check``. Beside them stands the floor: reading and hashing every source file
and writing the same tables again with pyarrow, with nothing computed in between.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import RESULTS, describe, measure
from builders.sources.fetch import default_mirror

RESULT = RESULTS / "rebuild.json"
RUNS = 3
GOALS = {"fresh": {"wall_s": 60, "peak_mb": 1000}, "unchanged": {"wall_s": 3}}

_FLOOR = """
import hashlib, sys
from pathlib import Path
import pyarrow.parquet as pq
from builders.sources.catalogue import catalogue, mirror_path
mirror, out, scratch = map(Path, sys.argv[1:])
for source in catalogue().sources.values():
    for alternative in source.alternatives:
        for file in alternative.files:
            path = mirror / mirror_path(file.url)
            if path.is_file():
                hashlib.sha256(path.read_bytes()).hexdigest()
for number, path in enumerate(sorted(out.rglob("*.parquet"))):
    pq.write_table(pq.read_table(path), scratch / f"{number}.parquet", compression="zstd")
"""


def median(run: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Median of each figure over the runs."""
    figures = [run() for _ in range(RUNS)]
    return {name: statistics.median(f[name] for f in figures) for name in figures[0]}


def main() -> None:
    """Measures, prints and writes ``rebuild.json``."""
    mirror = default_mirror()
    if not mirror:
        raise SystemExit("Set PROBES_MIRROR to the mirror of upstream sources.")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def rebuild(out: str, *more: str) -> dict[str, float]:
            options = ("--offline", "--mirror", str(mirror), "--out", str(folder / out), *more)
            return measure([sys.executable, "-m", "builders.rebuild", *options])

        def floor() -> dict[str, float]:
            target = Path(tempfile.mkdtemp(dir=scratch))
            return measure([sys.executable, "-c", _FLOOR, str(mirror), str(folder / "kept"), str(target)])

        rebuild("kept")
        fresh = iter(range(RUNS))
        figures = {
            "fresh": median(lambda: rebuild(f"fresh-{next(fresh)}")),
            "unchanged": median(lambda: rebuild("kept")),
            "check": median(lambda: rebuild("kept", "--check")),
            "floor": median(floor),
        }
    result = {
        "machine": describe("pyarrow", "spacy"),
        "runs": RUNS,
        **figures,
        "fresh_over_floor": round(figures["fresh"]["wall_s"] / figures["floor"]["wall_s"], 2),
        "goals": GOALS,
        "goals_met": all(figures[k][f] <= v for k, goal in GOALS.items() for f, v in goal.items()),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
