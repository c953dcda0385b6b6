"""``make trust``: changes of every kind of file, and what readers do, as a table and ``benchmarks/trust.json``."""

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.kinds import KINDS, measure
from tests.helpers import ROOT

ENDS = ("sentence", "harmless", "silent", "traceback", "hang")
#: A model is loaded for each change of its files, so that these are a tenth.
LOADED = tuple(
    f"foreign {name}"
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                 "special_tokens_map.json", "model.safetensors")
)  # fmt: skip


def main(number):
    print("| kind | changes |" + "".join(f" {end} |" for end in ENDS))
    print("| --- | --: |" + " --: |" * len(ENDS), flush=True)
    rows, faults = {}, []
    for name in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            count = max(1, number // 10) if name in LOADED else number
            outcome = measure(name, Path(folder), count)
        rows[name] = {"changes": count, **{end: outcome.counts[end] for end in ENDS}}
        faults += [f"{name}: {fault}" for fault in outcome.faults]
        print(f"| {name} | " + " | ".join(f"{value:,}" for value in rows[name].values()) + " |", flush=True)
    # Written at the end, so that an interrupted run leaves the figures of the one before.
    content = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "number": number, "kinds": rows}
    (ROOT / "benchmarks" / "trust.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
