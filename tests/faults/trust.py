"""``make trust``: changes of every kind of file, and what readers do, as a table and ``benchmarks/trust.json``.

``python -m tests.faults.trust NUMBER [KIND …]`` measures only these kinds again, and keeps the rows of the others.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.kinds import KINDS, measure
from tests.helpers import ROOT

ENDS = ("sentence", "harmless", "silent", "traceback", "hang")
#: The rows of the last run, by kind.
TABLE = ROOT / "benchmarks" / "trust.json"


def main(number, *names):
    print("| kind | changes |" + "".join(f" {end} |" for end in ENDS))
    print("| --- | --: |" + " --: |" * len(ENDS), flush=True)
    rows, faults, date = {}, [], time.strftime("%Y-%m-%d", time.gmtime())
    for name in names or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            outcome = measure(name, Path(folder), number)
        rows[name] = {"changes": number, **{end: outcome.counts[end] for end in ENDS}}
        faults += [f"{name}: {fault}" for fault in outcome.faults]
        print(f"| {name} | " + " | ".join(f"{value:,}" for value in rows[name].values()) + " |", flush=True)
        rows[name]["date"] = date
    # Written at the end, so that an interrupted run leaves the figures of the one before.
    rows = json.loads(TABLE.read_text())["kinds"] | rows
    content = {"kinds": {name: rows[name] for name in KINDS if name in rows}}
    TABLE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
