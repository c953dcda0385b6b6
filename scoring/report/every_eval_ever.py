"""The results of a run in the format of Every Eval Ever, version 0.3.0 of its schema.

The `schema <https://github.com/evaleval/every_eval_ever>`_ has a file of scores and a file of lines, one for each
example and score, at ``data/COLLECTION/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl``. Each of its scores has a
direction, so a metric whose ideal value lies inside its range is given as its distance from it, and a metric of which
no value is better is left out. No line has text of a data set, whose licence may forbid it: the input of a line is the
name of its row.
"""

import hashlib
import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, get_args

from cards.common.text import slug
from scoring.asking.answering import PACKAGE
from scoring.report.example_scores import ExampleScores, example_scores
from scoring.types import BY_OTHERS, Estimate, Report, ScoringError, Table

#: The version of the schema.
SCHEMA = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who publishes the results: an organisation, what it is to the model's maker, and who has the data sets.

    ``model`` is the name of the model on the Hub, if the run has another one. ``organisation`` is the one of the Hub
    with the data sets; without it, they have no address.
    """

    name: str
    relationship: Relationship = "third_party"
    model: str = ""
    organisation: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ScoringError("The format names who publishes the results; give --source-org NAME.")
        if self.relationship not in get_args(Relationship):
            choices = ", ".join(get_args(Relationship))
            raise ScoringError(f"The relationship {self.relationship!r} is not known; give one of {choices}.")


def files(run: Report, tables: dict[str, Table], publisher: Publisher, timestamp: int) -> dict[str, bytes]:
    """Both files of a run by their paths; ``timestamp`` is the time of its results in seconds since 1970.

    The same run gives the same bytes.

    Raises
    ------
    ScoringError
        When the run has no score with a direction.
    """
    model = _model(run, publisher)
    # All by which two exports of one run are the same, and two runs are different.
    identity = json.dumps([run.name, run.setting, run.revision, run.profile, dict(run.data), timestamp])
    digest = hashlib.sha256(identity.encode()).digest()
    evaluation = f"{PACKAGE}/{model['id']}/{digest.hex()[:16]}"
    scores = []
    ids = set()
    for score in run.estimates:
        # A metric of which no value is better, or a score that is not defined, has no place in the format.
        if math.isfinite(score.value) and score.ideal is not None:
            scores.append(_result(run, score, publisher))
            ids.add(result_id(score))
    if not scores:
        raise ScoringError(f"The run of {run.name} has no score with a direction; give another run.")
    lines: list[dict[str, Any]] = []
    for examples in example_scores(run, tables):
        if result_id(examples.estimate) in ids:
            lines += _lines(examples, evaluation, model["id"])
    place = f"data/{PACKAGE}/{slug(model['developer'])}/{slug(PurePath(model['id']).name)}"
    # A UUID of version 4 by its form, made of what it names, so that a second export replaces the first one.
    name = f"{place}/{uuid.UUID(bytes=digest[:16], version=4)}"
    document: dict[str, Any] = {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "retrieved_timestamp": str(timestamp),
        "source_metadata": {
            "source_name": PACKAGE,
            "source_type": "evaluation_run",
            "source_organization_name": publisher.name,
            "evaluator_relationship": publisher.relationship,
        },
        "eval_library": {
            "name": PACKAGE,
            "version": str(run.environment.get(PACKAGE, "unknown")),
            "additional_details": {"profile": run.profile},
        },
        "model_info": model,
        "evaluation_results": scores,
    }
    samples = "".join(f"{_json(line)}\n" for line in lines).encode()
    if lines:
        document["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{name}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples).hexdigest(),
            "total_rows": len(lines),
        }
    contents = {f"{name}.json": f"{_json(document, indent=1)}\n".encode()}
    if lines:
        contents[f"{name}_samples.jsonl"] = samples
    return contents


def _model(run: Report, publisher: Publisher) -> dict[str, Any]:
    """What the format says of a model; a model of a folder has no developer."""
    # The name on the Hub is the one by which others find the model; a path of this machine says nothing to them.
    name = publisher.model or run.name
    if not publisher.model and (PurePath(name).is_absolute() or name.count("/") != 1):
        name = f"unknown/{PurePath(name).name}"
    engine = str(run.environment.get("engine", "transformers"))
    if engine == BY_OTHERS:
        deployment = "unknown"
        availability = "unknown"
    elif engine == "chat API":
        # The service has the weights, and does not say whether others have them too.
        deployment = "externally_managed"
        availability = "unknown"
    else:
        deployment = "self_deployed"
        availability = "open_weights"
    details = {"deployment_type": deployment, "model_availability": availability}
    for field in ("revision", "adapter", "dtype", "prompt"):
        if getattr(run, field):
            details[field] = getattr(run, field)
    return {
        "name": PurePath(run.name).name,
        "id": name,
        "developer": name.partition("/")[0],
        "inference_engine": {"name": engine, "version": str(run.environment.get(engine, "unknown"))},
        "additional_details": details,
    }


def result_id(score: Estimate) -> str:
    """The name of a score in the format, which its lines refer to.

    >>> result_id(Estimate("stereoset", "gender", "ss", 60.0, 55.0, 65.0, 2.0, 9, 9))
    'stereoset/gender/ss'
    """
    return "/".join(score.key)


def distance(score: Estimate, value: float) -> float:
    """How far a value of a score is from its ideal value: of a ratio, one less the smaller over the larger of both.

    >>> score = Estimate("b", "g", "g_s", 2.0, 1.5, 2.5, 0.1, 9, 9, ideal=1, least=0, most=math.inf)
    >>> distance(score, 2.0), distance(score, 0.5)
    (0.5, 0.5)
    """
    ideal = float(score.ideal or 0)
    if not _is_ratio(score):
        return abs(value - ideal)
    if value > 0:
        return 1 - min(value / ideal, ideal / value)
    # A ratio of 0 is as far as possible, and cannot be divided by.
    return 1.0


def _is_ratio(score: Estimate) -> bool:
    return score.least == 0 and score.most == math.inf and bool(score.ideal)


def _result(run: Report, score: Estimate, publisher: Publisher) -> dict[str, Any]:
    """A score: itself where an end of its range is ideal, otherwise its distance from the ideal value."""
    details = {"n": str(score.n), "clusters": str(score.clusters), "profile": run.profile}
    metric = f"{PACKAGE}.{score.benchmark}.{score.metric}"
    if score.ideal in (score.least, score.most):
        name = score.full_name
        lower_is_better = score.ideal == score.least
        value, low, high = score.numbers
        least = score.least
        most = score.most
    else:
        # The format has a direction for each score, and of a score inside its range neither direction is better.
        ideal = float(score.ideal or 0)
        details["value"] = repr(score.value)
        details["low"] = repr(score.low)
        details["high"] = repr(score.high)
        details["ideal"] = f"{score.ideal:g}"
        name = f"{score.full_name}, distance from {score.ideal:g}"
        metric = f"{metric}.distance"
        lower_is_better = True
        value = distance(score, score.value)
        low, high = sorted([distance(score, score.low), distance(score, score.high)])
        # An interval on both sides of the ideal value has distances from 0 on.
        if score.low <= ideal <= score.high:
            low = 0.0
        least = 0.0
        # The distance of a ratio is a share (see `distance`); any other is at most the longer side of the range.
        if _is_ratio(score):
            most = 1.0
        else:
            most = max(score.most - ideal, ideal - score.least)
    uncertainty: dict[str, Any] = {"num_samples": score.n}
    # The error of a ratio is not that of its distance, which is not linear in it.
    if math.isfinite(score.error) and not _is_ratio(score):
        uncertainty["standard_error"] = {"value": score.error, "method": f"{score.method}, {score.clusters} clusters"}
    if math.isfinite(low) and math.isfinite(high):
        interval = {"lower": low, "upper": high, "confidence_level": 0.95, "method": score.method}
        uncertainty["confidence_interval"] = interval
    return {
        "evaluation_result_id": result_id(score),
        "evaluation_name": f"{score.benchmark}.{score.group}",
        "source_data": _source(run, score.benchmark, publisher),
        "metric_config": {
            "evaluation_description": score.reading or name,
            "metric_id": metric,
            "metric_name": name,
            "lower_is_better": lower_is_better,
            "score_type": "continuous",
            "min_score": _bound(least),
            "max_score": _bound(most),
        },
        "score_details": {
            # The value of an estimate with a correction may lie outside its range.
            "score": min(max(value, least), most),
            "uncertainty": uncertainty,
            "details": details,
        },
    }


def _bound(number: float) -> float | str:
    """The end of a range, which the format writes as a text where it is infinite."""
    if math.isfinite(number):
        return number
    if number > 0:
        return "Infinity"
    return "-Infinity"


def _source(run: Report, benchmark: str, publisher: Publisher) -> dict[str, Any]:
    """The data set that a benchmark read, with its version and digests."""
    # The benchmarks of one data set share its name; one without a headline has the name of its data set.
    dataset = benchmark
    if benchmark in run.headlines:
        dataset = run.headlines[benchmark].dataset
    read = {name: version for name, version in run.data.items() if name.startswith(f"{dataset}/")}
    if not publisher.organisation or not read:
        return {"dataset_name": dataset, "source_type": "other", "additional_details": read}
    return {
        "dataset_name": dataset,
        "source_type": "hf_dataset",
        "hf_repo": f"{publisher.organisation}/{dataset}",
        "additional_details": read,
    }


def _lines(examples: ExampleScores, evaluation: str, model: str) -> Iterator[dict[str, Any]]:
    """The line of each example of a score; right is an example that has the ideal value at an end of the range."""
    score = examples.estimate
    texts = examples.rows.get("text", [""] * len(examples.scores))
    for row, cluster, value, text in zip(examples.rows["id"], examples.clusters, examples.scores, texts, strict=True):
        raw = f"{score.benchmark}/{row}"
        # Canonical JSON, so that a row has the same hash in every run.
        hashed = json.dumps({"raw": raw, "reference": []}, sort_keys=True, separators=(",", ":"))
        yield {
            "schema_version": SCHEMA,
            "evaluation_id": evaluation,
            "model_id": model,
            "evaluation_name": f"{score.benchmark}.{score.group}",
            "evaluation_result_id": result_id(score),
            "sample_id": str(row),
            "sample_hash": hashlib.sha256(hashed.encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": raw, "reference": []},
            "output": {"raw": [str(text) or f"{value:g}"]},
            "answer_attribution": [
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": f"{value:g}",
                    "extraction_method": f"{PACKAGE}.{score.benchmark}.{score.metric}",
                    "is_terminal": True,
                }
            ],
            "evaluation": {
                "score": float(value),
                "is_correct": bool(score.ideal in (score.least, score.most) and value == score.ideal),
            },
            "metadata": {"cluster": str(cluster), "group": score.group, "metric": score.metric},
        }


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
