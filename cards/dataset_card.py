"""Renders the card of a data set from its manifest, and ``eval.yaml``, which makes it a benchmark on the Hub.

The Hub accepts one registered evaluation framework for a data set. The manifest has under ``benchmark``:

``framework``
    its identifier in the Hub's list of frameworks;
``configs``
    the configs that models can be asked by the framework, none of them a published definition (``-paper``);
``metric``
    the metric that the framework computes, if it is not the main one of the benchmark; higher is better;
``alone``
    true where the framework asks in a way of its own, so that no score of a run has a place on its leaderboard;
``task``
    further fields of each task, which ``inspect-ai`` requires: ``field_spec``, ``solvers`` and ``scorers``, and some
    that it allows, such as ``shuffle_choices``.
"""

import json
from typing import Any

from cards.common.text import CardError, template

#: The Hub's identifier by SPDX identifier; any other licence is "other" on the Hub.
HUB_LICENCES = {name: name.lower() for name in ("Apache-2.0", "MIT", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0")}
#: What the data sets are for.
USES = (
    "Measuring gender bias of language models, and what mitigation does to it, as the papers cited describe.",
    "Not for deciding about people, and not for claims about a model in other languages or tasks.",
)
#: The file that makes a data set a benchmark. The Hub checks it, so it has a commit of its own.
BENCHMARK = "eval.yaml"
#: The splits for evaluation, preferred first; a config without one of them has no task.
EVALUATION_SPLITS = ("test", "validation")


def dataset_card(manifest: str, *, organisation: str = "org", row: dict[str, Any] | None = None) -> str:
    """The README.md of a data set, from the text of its ``manifest.json``.

    Parameters
    ----------
    organisation:
        The organisation that publishes the data set on the Hub.
    row:
        An example row.

    Raises
    ------
    CardError
        When a config or source has no licence, or a citation is missing; the message names it.
    """
    facts: dict[str, Any] = json.loads(manifest)
    for name, config in facts["configs"].items():
        _check_licence_and_citations(facts, name, config)
    licences = licence_keys(facts)
    columns = {name: withheld_columns(config) for name, config in facts["configs"].items()}
    shown = sorted(columns, key=lambda name: (_is_paper(name), bool(columns[name])))
    facts["configs"] = {name: facts["configs"][name] for name in shown}
    return template("dataset_card.md.j2").render(
        {"task_categories": [], **facts},
        organisation=organisation,
        default=default_config(facts),
        without={name: names for name, names in columns.items() if names},
        uses=USES,
        papers=any(map(_is_paper, columns)),
        boards=[f"`{task['id']}`" for task in tasks(manifest)],
        row=row,
        is_dropped=any(entry["dropped"] for c in facts["configs"].values() for entry in c["splits"].values()),
        hub_licences=sorted({HUB_LICENCES.get(key, "other") for key in licences}),
        shown_licences={key: facts["licences"][key] for key in licences},
        shown_citations=[facts["citations"][key] for key in citation_keys(facts)],
        size=_size_category(sum(s["rows"] for c in facts["configs"].values() for s in c["splits"].values())),
        sources=_sources(facts),
    )


def _check_licence_and_citations(facts: dict[str, Any], name: str, config: dict[str, Any]) -> None:
    entries = [(f"config {name}", config), *((f"source {source['name']}", source) for source in config["sources"])]
    for label, entry in entries:
        licence, cited = entry.get("licence"), entry["cite"] if "cite" in entry else [entry.get("citation")]
        if not licence:
            raise CardError(f"{facts['name']}: {label} has no licence; nothing is published without one.")
        if licence not in facts["licences"]:
            raise CardError(
                f"{facts['name']}: {label} has the licence {licence!r}, which is not described; describe it."
            )
        for key in cited:
            if not key:
                raise CardError(f"{facts['name']}: {label} has no citation; nothing is published without one.")
            if not facts["citations"].get(key):
                raise CardError(f"{facts['name']}: {label} cites {key!r}, for which there is no citation.")


def default_config(facts: dict[str, Any]) -> str:
    """The config that is loaded when none is named: the first that is whole and no published definition, if any.

    >>> parts = {"columns": {"id": "string"}, "quotes": ["text"]}
    >>> default_config({"configs": {"a": parts, "b-paper": {"columns": {}}, "c": {"columns": {}}}})
    'c'
    """
    names: list[str] = list(facts["configs"])
    return min(names, key=lambda name: (bool(withheld_columns(facts["configs"][name])), _is_paper(name)))


def _is_paper(name: str) -> bool:
    return name.endswith("-paper")


def licence_keys(facts: dict[str, Any]) -> list[str]:
    """The licences of all configs, and of all sources that something of is in them, sorted."""
    configs = facts["configs"].values()
    sources = {
        source["licence"]
        for config in configs
        for source in config["sources"]
        if source["name"] not in config.get("filters", [])
    }
    return sorted(sources | {config["licence"] for config in configs})


def citation_keys(facts: dict[str, Any]) -> list[str]:
    """The citations of all configs and sources of a manifest, sorted."""
    configs = facts["configs"].values()
    return sorted(
        {key for config in configs for key in config["cite"]}
        | {source["citation"] for config in configs for source in config["sources"]}
    )


def _sources(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Each source once, in order of name, with the configs that use it and those that only leave rows out by it."""
    by_name: dict[str, dict[str, Any]] = {}
    for name, config in facts["configs"].items():
        for source in config["sources"]:
            use = f"{name} (only to leave rows out)" if source["name"] in config.get("filters", []) else name
            by_name.setdefault(source["name"], {**source, "configs": []})["configs"].append(use)
    return [by_name[name] for name in sorted(by_name)]


def _size_category(rows: int) -> str:
    """The Hub's size category of a number of rows.

    >>> _size_category(900), _size_category(65912)
    ('n<1K', '10K<n<100K')
    """
    categories = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    return next((name for limit, name in categories if rows < limit), "1M<n<10M")


def tasks(manifest: str) -> list[dict[str, str]]:
    """The tasks of a data set: each config that can be asked, with the split that models are scored on.

    A config is left out if text of it is not published, and one with a published definition has no leaderboard beside
    that of its plain one. Scores are published under these ids, so an id must not
    change when the data change.
    """
    facts: dict[str, Any] = json.loads(manifest)
    listed = []
    for name in facts.get("benchmark", {}).get("configs", []):
        config = facts["configs"].get(name)
        split = next((split for split in EVALUATION_SPLITS if config and split in config["splits"]), None)
        if split and not withheld_columns(config) and not _is_paper(name):
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
