"""Renders ``eval.yaml``, which makes a data set a benchmark on the Hub, from the manifest of the data set."""

from __future__ import annotations

import json
from typing import Any

#: The identifier of this package among evaluation frameworks.
FRAMEWORK = "gender-neutral-probes"
#: The splits for evaluation, preferred first; a config without one of them has no task.
EVALUATION_SPLITS = ("test", "validation")


def tasks(manifest: str) -> list[dict[str, str]]:
    """The tasks of a data set: each config with the split that models are scored on.

    Scores are published under these ids, so an id must not change when the data change.
    """
    listed = []
    for name, config in json.loads(manifest)["configs"].items():
        split = next((split for split in EVALUATION_SPLITS if split in config["splits"]), None)
        if split:
            listed.append({"id": name, "config": name, "split": split})
    return listed


def eval_yaml(manifest: str) -> str | None:
    """The text of ``eval.yaml``, from the text of ``manifest.json``; None for a data set without a task.

    Parameters
    ----------
    manifest:
        The text of ``manifest.json`` of the published data set.

    Notes
    -----
    Each value is written as JSON, which is valid YAML, so that no text can be read as YAML syntax.
    """
    facts: dict[str, Any] = json.loads(manifest)
    dataset_tasks = tasks(manifest)
    if not dataset_tasks:
        return None
    lines = [
        f"name: {json.dumps(facts['title'], ensure_ascii=False)}",
        f"description: {json.dumps(facts['summary'], ensure_ascii=False)}",
        f"evaluation_framework: {FRAMEWORK}",
        "tasks:",
    ]
    for task in dataset_tasks:
        lines += [
            f"{'- ' if n == 0 else '  '}{key}: {json.dumps(value)}" for n, (key, value) in enumerate(task.items())
        ]
    return "\n".join(lines) + "\n"
