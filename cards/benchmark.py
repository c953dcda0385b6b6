"""Renders ``eval.yaml``, which makes a data set a benchmark on the Hub, from the manifest of the data set.

The Hub accepts one registered evaluation framework for a data set. The manifest has under ``benchmark``:

``framework``
    its identifier in the Hub's list of frameworks;
``configs``
    the configs that models can be asked by the framework;
``metric``
    the metric that the framework computes, if it is not the main one of the benchmark;
``task``
    further fields of each task, which ``inspect-ai`` requires: ``field_spec``, ``solvers`` and ``scorers``.
"""

from __future__ import annotations

import json
from typing import Any

#: The file that makes a data set a benchmark. The Hub checks it, so it has a commit of its own.
BENCHMARK = "eval.yaml"
#: The splits for evaluation, preferred first; a config without one of them has no task.
EVALUATION_SPLITS = ("test", "validation")


def tasks(manifest: str) -> list[dict[str, str]]:
    """The tasks of a data set: each config that can be asked, with the split that models are scored on.

    A config is left out if text of it is not published. Scores are published under these ids, so an id must not
    change when the data change.
    """
    facts: dict[str, Any] = json.loads(manifest)
    listed = []
    for name in facts.get("benchmark", {}).get("configs", []):
        config = facts["configs"].get(name)
        split = next((split for split in EVALUATION_SPLITS if config and split in config["splits"]), None)
        if split and not withheld_columns(config):
            listed.append({"id": name, "config": name, "split": split})
    return listed


def withheld_columns(config: dict[str, Any]) -> list[str]:
    """The columns that a config of a manifest was published without."""
    return [name for name in config.get("quotes", []) if config["columns"] and name not in config["columns"]]


def eval_yaml(manifest: str) -> str | None:
    """The text of ``eval.yaml``, from the text of ``manifest.json``; None for a data set without a task.

    Notes
    -----
    Each value is written as JSON, which is valid YAML, so that no text can be read as YAML syntax.
    """
    facts: dict[str, Any] = json.loads(manifest)
    listed = tasks(manifest)
    if not listed:
        return None
    benchmark = facts["benchmark"]
    lines = [
        f"{name}: {_json(value)}"
        for name, value in (
            ("name", facts["title"]),
            ("description", facts["summary"]),
            ("evaluation_framework", benchmark["framework"]),
        )
    ]
    lines.append("tasks:")
    for task in listed:
        fields = [f"{key}: {_json(value)}" for key, value in (task | benchmark.get("task", {})).items()]
        lines += [f"{'- ' if n == 0 else '  '}{line}" for n, line in enumerate(fields)]
    return "\n".join(lines) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
