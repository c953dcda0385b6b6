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
import re
from collections.abc import Sequence
from typing import Any

from cards.common.numbers import interval_text
from cards.common.text import CardError, template
from cards.common.verdict import Numbers

#: The Hub's identifier by SPDX identifier; any other licence is "other" on the Hub.
HUB_LICENCES = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC-BY-4.0": "cc-by-4.0",
    "CC-BY-SA-4.0": "cc-by-sa-4.0",
    "CC-BY-NC-4.0": "cc-by-nc-4.0",
}
_ARXIV = re.compile(r"(?:arXiv:|eprint = \{)(\d{4}\.\d{4,5})")
_DOI, _URL = re.compile(r"doi = \{(.+?)\}"), re.compile(r"url = \{(.+?)\}")
_TITLE = re.compile(r"title = \{(.*?)\},\n", re.DOTALL)
_REPOSITORY = re.compile(r"https://raw\.githubusercontent\.com/([^/]+/[^/]+)/")
#: What the data sets are for.
USES = (
    "Measuring gender bias of language models, and what mitigation does to it, as the papers cited describe.",
    "Not for deciding about people, and not for claims about a model in other languages or tasks.",
)
#: The columns that every row has; the card names them once.
COMMON = ("id", "language", "source", "source_file", "source_row", "licence")
#: The file that makes a data set a benchmark. The Hub checks it, so it has a commit of its own.
BENCHMARK = "eval.yaml"
#: The splits for evaluation, preferred first; a config without one of them has no task.
EVALUATION_SPLITS = ("test", "validation")


def dataset_card(
    manifest: str,
    *,
    organisation: str = "org",
    row: dict[str, Any] | None = None,
    scores: Sequence[tuple[str, Numbers, int]] = (),
    picture: str = "",
) -> str:
    """The README.md of a data set, from the text of its ``manifest.json``.

    Parameters
    ----------
    organisation:
        The organisation that publishes the data set on the Hub.
    row:
        An example row.
    scores, picture:
        Scores of published models with the number of examples, and the path of a picture of them.

    Raises
    ------
    CardError
        When a config or source has no licence, or a citation is missing; the message names it.
    """
    facts: dict[str, Any] = json.loads(manifest)
    for name, config in facts["configs"].items():
        _check_licence_and_citations(facts, name, config)
    without, papers, rows = {}, False, 0
    for name, config in facts["configs"].items():
        papers = papers or _is_paper(name)
        if withheld_columns(config):
            without[name] = withheld_columns(config)
        for split in config["splits"].values():
            rows += split["rows"]
    # Configs with their whole text come first, and published definitions last.
    shown = sorted(facts["configs"], key=lambda name: (_is_paper(name), name in without))
    facts["configs"] = {name: facts["configs"][name] for name in shown}
    licences = {key: facts["licences"][key] for key in licence_keys(facts)}
    citations = [facts["citations"][key] for key in citation_keys(facts)]
    boards = [f"`{task['id']}`" for task in tasks(manifest)]
    # Manifests of earlier versions do not say these.
    for name in ("task_categories", "benchmarks", "annotations_creators", "language_creators"):
        facts.setdefault(name, [])
    facts.setdefault("changes", {})
    return template("dataset_card.md.j2").render(
        facts,
        organisation=organisation,
        default=default_config(facts),
        without=without,
        uses=USES,
        papers=papers,
        boards=boards,
        columns=_columns(facts),
        row=row,
        models=[(name, interval_text(*numbers), n) for name, numbers, n in scores],
        picture=picture,
        is_dropped=any(entry["dropped"] for c in facts["configs"].values() for entry in c["splits"].values()),
        hub_licences=sorted({HUB_LICENCES.get(key, "other") for key in licences}),
        other_licences=[key.removeprefix("LicenseRef-").lower() for key in licences if key not in HUB_LICENCES],
        papers_and_code=_links(facts, citations),
        own=not any(config["sources"] for config in facts["configs"].values()),
        shown_licences=licences,
        shown_citations=citations,
        size=_size_category(rows),
        sources=_sources(facts),
    )


def _check_licence_and_citations(facts: dict[str, Any], name: str, config: dict[str, Any]) -> None:
    entries = [(f"config {name}", config)]
    entries += [(f"source {source['name']}", source) for source in config["sources"]]
    for label, entry in entries:
        licence = entry.get("licence")
        # A config may cite several works beyond those of its sources; a source is cited as one.
        if "cite" in entry:
            cited = entry["cite"]
        else:
            cited = [entry.get("citation")]
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
    """The config that is loaded when none is named: the first that is whole, no published definition, and asks models.

    >>> parts = {"columns": {"id": "string"}, "quotes": ["text"]}
    >>> default_config({"configs": {"a": parts, "b-paper": {"columns": {}}, "c": {"columns": {}}}})
    'c'
    """
    names: list[str] = list(facts["configs"])
    tasks_of_hub = facts.get("benchmark", {}).get("configs") or names
    order = {}
    for name in names:
        order[name] = (bool(withheld_columns(facts["configs"][name])), _is_paper(name), name not in tasks_of_hub)
    # min keeps the first of equal names, which is the order of the data set.
    return min(names, key=lambda name: order[name])


def _is_paper(name: str) -> bool:
    return name.endswith("-paper")


def licence_keys(facts: dict[str, Any]) -> list[str]:
    """The licences of all configs, and of all sources that something of is in them, sorted."""
    licences = set()
    for config in facts["configs"].values():
        licences.add(config["licence"])
        for source in config["sources"]:
            # A source that only decides which rows are left out binds nobody.
            if source["name"] not in config.get("filters", []):
                licences.add(source["licence"])
    return sorted(licences)


def citation_keys(facts: dict[str, Any]) -> list[str]:
    """The citations of all configs and sources of a manifest, sorted."""
    keys = set()
    for config in facts["configs"].values():
        keys.update(config["cite"])
        # Unlike its licence, the citation of a source that only leaves rows out is due.
        keys.update(source["citation"] for source in config["sources"])
    return sorted(keys)


def _sources(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Each source once, in order of name, with the configs that use it and those that only leave rows out by it."""
    by_name: dict[str, dict[str, Any]] = {}
    for name, config in facts["configs"].items():
        for source in config["sources"]:
            entry = by_name.setdefault(source["name"], {**source, "configs": []})
            if source["name"] in config.get("filters", []):
                entry["configs"].append(f"{name} (only to leave rows out)")
            else:
                entry["configs"].append(name)
    return [by_name[name] for name in sorted(by_name)]


def _links(facts: dict[str, Any], citations: list[str]) -> list[str]:
    r"""The papers and repositories of a data set as links in Markdown; the Hub tags the arXiv ids in them.

    >>> config = {"sources": [{"files": [{"url": "https://raw.githubusercontent.com/org/code/main/a.csv"}]}]}
    >>> _links({"configs": {"a": config}}, ["@article{a,\n  title = {{A} title},\n  eprint = {2405.09341}}"])
    ['[A title](https://arxiv.org/abs/2405.09341)', '[org/code](https://github.com/org/code)']
    """
    links = []
    for citation in citations:
        title = _TITLE.search(citation)
        for pattern, address in ((_ARXIV, "https://arxiv.org/abs/{}"), (_DOI, "https://doi.org/{}"), (_URL, "{}")):
            found = pattern.search(citation)
            if title and found:
                name = " ".join(re.sub("[{}]", "", title[1]).split())
                links.append(f"[{name}]({address.format(found[1])})")
                break
    repositories = set()
    for config in facts["configs"].values():
        for source in config["sources"]:
            for file in source["files"]:
                repositories.update(_REPOSITORY.findall(file["url"]))
    return links + [f"[{name}](https://github.com/{name})" for name in sorted(repositories)]


def _columns(facts: dict[str, Any]) -> list[tuple[list[str], tuple[tuple[str, str], ...]]]:
    """The columns with their types that not every row has, each list once, with the configs that have it.

    >>> wide, narrow = {"id": "string", "word": "string"}, {"id": "string"}
    >>> _columns({"configs": {"a": {"columns": wide}, "b": {"columns": wide}, "c": {"columns": narrow}}})
    [(['a', 'b'], (('word', 'string'),)), (['c'], ())]
    """
    by_columns: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, config in facts["configs"].items():
        others = tuple(item for item in config["columns"].items() if item[0] not in COMMON)
        by_columns.setdefault(others, []).append(name)
    return [(names, columns) for columns, names in by_columns.items()]


def _size_category(rows: int) -> str:
    """The Hub's size category of a number of rows.

    >>> _size_category(900), _size_category(65912)
    ('n<1K', '10K<n<100K')
    """
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")):
        if rows < limit:
            return name
    return "1M<n<10M"


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
        # A config may be left out of the manifest because its sources were not available.
        if config is None or withheld_columns(config) or _is_paper(name):
            continue
        splits = [split for split in EVALUATION_SPLITS if split in config["splits"]]
        if splits:
            listed.append({"id": name, "config": name, "split": splits[0]})
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
        f"name: {_json(facts['title'])}",
        f"description: {_json(facts['summary'])}",
        f"evaluation_framework: {_json(benchmark['framework'])}",
        "tasks:",
    ]
    for task in listed:
        # A hyphen begins an entry of a list in YAML; its further lines are indented as far.
        mark = "- "
        for key, value in (task | benchmark.get("task", {})).items():
            lines.append(f"{mark}{key}: {_json(value)}")
            mark = "  "
    return "\n".join(lines) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
