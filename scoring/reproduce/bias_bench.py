"""What others print of StereoSet and CrowS-Pairs as bias-bench computes them, for rows of the tables of FAST.

A notebook of ``ao9000/bias-bench`` has the scores of StereoSet by domain as its output, another one and two files of
results have those of CrowS-Pairs. They are read as printed, so they have no interval. The same repository has scores of
GPT-2 after recipes, and the README of MABEL has those of its BERT.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher
from scoring.responses import BrokenFileError

#: The names that the notebooks and files have for our groups and metrics.
_STEREOSET = {"LM Score": "lms", "SS Score": "ss", "ICAT Score": "icat"}
_CROWS = {"Metric score": "metric_score", "Stereotype score": "stereotype_score"}
_CROWS_GROUPS = {"race-color": "race"}
_PREFIX = "bias-bench-printed/"
#: (group, metric) to value, the ends of its interval and the sd, which are NaN.
Printed = dict[tuple[str, str], Mapping[str, float]]


def printed(model: str, fetcher: Fetcher) -> Printed:
    """The printed scores of a model by group and metric; empty where nobody printed any.

    Raises
    ------
    BuildError
        When a file is neither in the mirror nor in the cache nor on the web.
    BrokenFileError
        When a file is no notebook, or no file of results.
    """
    scores = stereoset(fetcher.get(catalogue().sources[f"{_PREFIX}stereoset"]).path, model)
    for name, source in catalogue().sources.items():
        # For example "bias-bench-printed/crows_pairs-gpt2".
        if name.startswith(f"{_PREFIX}crows_pairs") and name.endswith(f"-{model.rpartition('/')[2]}"):
            scores |= crows(fetcher.get(source).path, model)
    return scores


def printed_after(model: str, recipe: str, fetcher: Fetcher) -> Printed:
    """The printed scores of a model after a recipe such as ``cda-gender-2000``; empty where nobody printed any.

    Raises
    ------
    BuildError, BrokenFileError
        As :func:`printed`.
    """
    label = model.rpartition("/")[2]
    sources = catalogue().sources
    # MABEL is a source of its own, by its authors.
    source = sources.get(f"{_PREFIX}{label}/{recipe}") or sources.get(f"{recipe}/{label}")
    if source is None:
        return {}
    path = fetcher.get(source).path
    if path.suffix == ".md":
        return readme(path)
    # A file with several checkpoints has those of every hundredth training step by their number.
    step = re.search(r"\d+$", recipe)
    return crows(path, model, checkpoint=step[0] if step else "")


def readme(path: Path) -> Printed:
    """The scores of gender that the README of MABEL prints first, which are of its BERT (base)."""
    text = path.read_text(encoding="utf-8")
    scores: Printed = {}
    for group, names in (("intrasentence test gender", _STEREOSET), ("gender", _CROWS)):
        for name, metric in names.items():
            number = re.search(rf"^{name}: ([\d.]+)$", text, re.MULTILINE)
            if number is None:
                raise BrokenFileError(f"{path.name} has no {name}; it is left out.")
            stereo = " stereo" if metric == "stereotype_score" else ""
            scores[group + stereo, metric] = _number(number[1])
    return scores


def stereoset(path: Path, model: str) -> Printed:
    """The scores of a model by domain of the test split, and of all domains, as a notebook prints them."""
    scores: Printed = {}
    for text in outputs(path):
        # The name of the file of predictions has the model and the seed, with _ for the slash.
        if not re.search(rf"predictions_file: \S+_c-{re.escape(model.replace('/', '_'))}_s-\d+\.json", text):
            continue
        group = ""
        for line in text.splitlines():
            # One tab is before a domain, and two are before a score of it.
            if re.fullmatch(r"\t\w+", line):
                domain = line.strip().replace("overall", "")
                group = f"intrasentence test {domain}".strip()
            name, has_score, number = line.strip().partition(": ")
            if group and has_score and line.startswith("\t\t") and name in _STEREOSET:
                scores[group, _STEREOSET[name]] = _number(number)
    return scores


def crows(path: Path, model: str, checkpoint: str = "") -> Printed:
    """The scores of CrowS-Pairs by domain, of a file of results or as a notebook prints them."""
    if path.suffix == ".json":
        results = _document(path)
        by_domain = results.get(checkpoint, results)
    else:
        by_domain = {}
        for text in outputs(path):
            of_domain = re.search(r"bias_type: (\S+)", text)
            if of_domain and f"model_name_or_path: {model}\n" in text:
                by_domain[of_domain[1]] = dict(re.findall(r"^(\w+ score): ([\d.]+)", text, re.MULTILINE))
    scores: Printed = {}
    for domain, numbers in by_domain.items():
        for name, metric in _CROWS.items():
            group = _CROWS_GROUPS.get(domain, domain)
            if metric == "stereotype_score":
                group += " stereo"
            if numbers.get(name) is not None:
                scores[group, metric] = _number(numbers[name])
    return scores


def outputs(path: Path) -> Iterator[str]:
    """The texts that the cells of a notebook print, and the tables that they show as text.

    Raises
    ------
    BrokenFileError
        When the file is no notebook.
    """
    content = _document(path)
    if not isinstance(content.get("cells"), list):
        raise BrokenFileError(f"{path.name} is no notebook; it is left out.")
    for cell in content["cells"]:
        for shown in cell.get("outputs", ()):
            # A notebook has texts as lists of lines, here some of another system.
            text = shown.get("text") or shown.get("data", {}).get("text/plain", ())
            yield "".join(text).replace("\r\n", "\n")


def _document(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise BrokenFileError(f"{path.name} is no notebook and no file of results; it is left out.")
    return content


def _number(text: Any) -> Mapping[str, float]:
    return {"value": float(text), "low": math.nan, "high": math.nan, "sd": math.nan}
