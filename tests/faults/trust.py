"""``make trust``: what users meet, drawn at random, and what changes between two commands, as two tables.

The tables are printed and kept in ``benchmarks/results/trust.json``. ``python -m tests.faults.trust NUMBER [NAME …]``
measures only these kinds or commands again, and keeps the rows of the others; ``kinds`` and ``commands`` are all of one
table.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.faults import between, met, twice
from tests.faults.met import KINDS
from tests.support.helpers import ROOT

#: A command is run twice for each change, so a byte of each of its files is changed once for so many changes of a kind.
PER_BYTE = 100
#: The rows of the last run: of kinds, and of commands.
TABLE = ROOT / "benchmarks" / "results" / "trust.json"


def heading(*columns):
    print("| " + " | ".join(columns) + " |")
    print("| --- |" + " --: |" * (len(columns) - 1), flush=True)


def kind_row(name, number):
    """How the cases of a kind end, and what must not be."""
    with tempfile.TemporaryDirectory() as folder:
        ends, faults = met.measure(name, Path(folder), number)
    row = {"cases": number, **ends}
    print(f"| {name} | " + " | ".join(f"{value:,}" for value in row.values()) + " |", flush=True)
    return row, faults


def command_rows(name, number):
    """How changes between two runs of a command end, by what is changed, and what must not be."""
    with tempfile.TemporaryDirectory() as folder:
        command, times = twice.COMMANDS[name], max(1, number // PER_BYTE)
        ends, faults, read = between.measure(command, name, Path(folder), share=command.share, number=times)
    rows = {change: {"changes": sum(of.values()), **of} for change, of in ends.items()}
    for change, row in rows.items():
        print(f"| {name} | {change} | " + " | ".join(f"{value:,}" for value in row.values()) + " |", flush=True)
    return {**rows, "read": read}, faults


def main(number, *names):
    torch.set_num_threads(1)  # processes are forked
    date = time.strftime("%Y-%m-%d", time.gmtime())
    all_of = {"kinds": list(KINDS), "commands": list(twice.COMMANDS)}
    chosen = [inner for name in names or all_of for inner in all_of.get(name, [name])]
    kinds, commands, faults = {}, {}, []
    heading("kind", "cases", *met.ENDS)
    for name in (name for name in chosen if name in KINDS):
        row, found = kind_row(name, number)
        kinds[name] = row | {"date": date}
        faults += found
    heading("command", "what changes", "changes", *between.ENDS)
    for name in (name for name in chosen if name in twice.COMMANDS):
        rows, found = command_rows(name, number)
        commands[name] = rows | {"date": date}
        faults += [f"{name}: {fault}" for fault in found]
    # Written at the end, so that an interrupted run leaves the figures of the one before.
    before = json.loads(TABLE.read_text())
    kinds, commands = before["kinds"] | kinds, before.get("commands", {}) | commands
    content = {
        "kinds": {name: kinds[name] for name in KINDS if name in kinds},
        "commands": {name: commands[name] for name in twice.COMMANDS if name in commands},
        "before": before.get("before", {}),  # what the same changes led to in an earlier commit
    }
    TABLE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
