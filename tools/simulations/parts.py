"""The command of a simulation of several parts, which writes their results beside its file."""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def run_parts(parts: Mapping[str, Callable[[int], dict[str, Any]]], description: str, samples: int, file: str) -> None:
    """Runs the parts that the command line names, all by default, and keeps the results of the others.

    ``samples`` is the number of samples of each case that a part takes without ``--samples``, and ``file`` the module,
    beside which the results are written as JSON.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", choices=parts, help="all by default")
    parser.add_argument("--samples", type=int, default=samples, help="samples of each case")
    parser.add_argument("--out", type=Path, default=Path(file).with_suffix(".json"))
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.parts or parts:
        results[name] = {"samples": arguments.samples, "cases": parts[name](arguments.samples)}
        # After each part, so that an interruption loses one alone.
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")
