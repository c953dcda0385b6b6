"""Run by test_rebuild: rebuilds in a child that is killed at its N-th write, for every N."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress

from builders import datasets
from builders.builder import Profile, build_datasets
from builders.sources.fetch import Fetcher

WRITES = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}


def run(out: Path, profile: str) -> None:
    fetcher = Fetcher(out.parent / "cache", None, offline=True)
    build_datasets(["gender-neutral-probes"], fetcher, out, Profile(profile), Progress(disable=True))


def kill_at(number: int, out: Path) -> None:
    """Kills this process at its N-th write: a system call about to be made, or half a Parquet file."""
    count = 0

    def point() -> bool:
        nonlocal count
        count += 1
        return count == number

    def hook(event: str, arguments: tuple) -> None:
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        if (event in WRITES or (opens and str(out) in str(arguments[0]))) and point():
            os.kill(os.getpid(), signal.SIGKILL)

    def half(table: pa.Table, path: Path, **options: str) -> None:
        whole(table, path, **options)
        if point():
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    whole, pq.write_table = pq.write_table, half
    sys.addaudithook(hook)


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_bytes().hex() for p in sorted(folder.rglob("*")) if p.is_file()}


def main(folder: Path) -> None:
    out, name = folder / "out", "gender-neutral-probes"
    datasets.get(name)
    run(out, "paper")
    old = tree(out / name)
    run(folder / "other", "all")
    new = tree(folder / "other" / name)
    shutil.copytree(out, folder / "pristine")
    states: list[str] = []
    while not states or states[-1] != "finished":
        shutil.rmtree(out)
        shutil.copytree(folder / "pristine", out)
        child = os.fork()
        if not child:
            kill_at(len(states) + 1, out)
            run(out, "all")
            os._exit(0)
        finished = not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        result = tree(out / name)
        states.append("finished" if finished else "old" if result == old else "new" if result == new else "MIXTURE")
        run(out, "all")  # whatever was left behind, the next run succeeds
        if tree(out / name) != new:
            states.append("NOT REPAIRED")
    print(json.dumps({"states": states, "left": sorted(p.name for p in out.iterdir())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
