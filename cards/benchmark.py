"""What makes a data set a benchmark on the Hub: ``eval.yaml`` at its root, from the data set's manifest."""

from __future__ import annotations

import json
from typing import Any

#: The identifier of this package among evaluation frameworks.
FRAMEWORK = "gender-neutral-probes"
#: The splits a model is asked about; a config without one of them is for training or looking up.
ASKED = ("test", "validation")


def tasks(manifest: str) -> list[dict[str, str]]:
    """The tasks of a data set: each config with the split that models are scored on.

    Scores are published for these ids, so an id stays what it is when the data change.
    """
    found = []
    for name, config in json.loads(manifest)["configs"].items():
        split = next((split for split in ASKED if split in config["splits"]), None)
        if split:
            found.append({"id": name, "config": name, "split": split})
    return found


def eval_yaml(manifest: str) -> str | None:
    """The text of ``eval.yaml``, from the text of ``manifest.json``; None where no model is asked anything.

    Parameters
    ----------
    manifest:
        Facts of the data set as it is published.

    Notes
    -----
    Each value is written as JSON, which is YAML, so that no text can be taken for markup.
    """
    facts: dict[str, Any] = json.loads(manifest)
    found = tasks(manifest)
    if not found:
        return None
    lines = [
        f"name: {json.dumps(facts['title'], ensure_ascii=False)}",
        f"description: {json.dumps(facts['summary'], ensure_ascii=False)}",
        f"evaluation_framework: {FRAMEWORK}",
        "tasks:",
    ]
    for task in found:
        lines += [
            f"{'- ' if n == 0 else '  '}{key}: {json.dumps(value)}" for n, (key, value) in enumerate(task.items())
        ]
    return "\n".join(lines) + "\n"
