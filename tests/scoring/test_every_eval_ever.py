"""Runs in the format of Every Eval Ever: its own schema accepts them, and their numbers are those of the run."""

import hashlib
import json
import math
import tomllib
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from builders.sources.fetch import mirror_path
from scoring import benchmarks, report
from scoring.asking import run
from scoring.report import every_eval_ever
from scoring.report.every_eval_ever import Publisher, distance
from scoring.types import Estimate, Report, ScoringError
from tests.support import commands
from tests.support.helpers import ROOT, mirror

LAB = Publisher("The lab", organisation="org")
TIME = 1_700_000_000


def schema(name):
    """A schema with the pinned bytes, in the mirror or in what `make test TESTS=mirror` downloads."""
    files = tomllib.loads((ROOT / "tests" / "sources.toml").read_text())["files"]
    (address,) = [address for address in files if address.endswith(f"schemas/{name}.schema.json")]
    for folder in (mirror(), ROOT / ".sources"):
        path = folder / mirror_path(address)
        if path.is_file():
            data = path.read_bytes()
            assert hashlib.sha256(data).hexdigest() == files[address]
            return jsonschema.Draft7Validator(json.loads(data))
    # A mirror of the sources of data sets need not have it.
    pytest.skip(f"neither the mirror nor .sources has {address}")


def stereoset(n=40):
    draw = np.random.default_rng(0)
    table = {name: draw.normal(size=n) for name in ("score_biased", "score_unbiased", "score_irrelevant")}
    table |= {"id": np.array([f"s{i}" for i in range(n)], dtype=object), "domain": np.full(n, "gender", dtype=object)}
    table |= {f"sentence_{label}": table["id"] for label in ("biased", "unbiased", "irrelevant")}
    table |= {"subject": np.array([f"t{i % 7}" for i in range(n)], dtype=object)}
    return table | {
        name: np.full(n, text, dtype=object) for name, text in (("task", "intrasentence"), ("split", "test"))
    }


def gest(n=64):
    draw = np.random.default_rng(1)
    table = {"id": np.array([f"g{i}" for i in range(n)], dtype=object), "log_ratio": draw.normal(0.2, 1, n)}
    table |= {"stereotype": np.arange(n) % 16 + 1, "item": table["id"], "wording": np.full(n, "he-last", dtype=object)}
    table |= {"name": np.full(n, "x", dtype=object), "about": np.full(n, "men", dtype=object)}
    return table


@pytest.fixture(scope="module")
def result():
    """A run of two benchmarks: scores with an ideal value inside the range, at its ends, and a ratio."""
    made = {"stereoset": stereoset(), "gest": gest()}
    scores = [one for name, table in made.items() for one in run.estimate(benchmarks.get(name), "clean", table, 200)]
    scores.append(replace(scores[0], metric="without", ideal=None))
    facts = {"model": "org/base", "revision": "1" * 40, "adapter": "", "dtype": "float32", "prompt": "plain"}
    data = {"biaske/stereoset/test": "1.1.1 sha256:aa", "gest/sentences/test": "1.0.1 sha256:bb"}
    headlines = {name: benchmarks.get(name).headline for name in made}
    facts |= {"profile": "clean", "data": data, "environment": {"transformers": "5.23.0"}, "headlines": headlines}
    return Report(**facts, estimates=tuple(scores)), made


@pytest.fixture(scope="module")
def written(result):
    """The document and the lines, with their paths."""
    (path, document), (samples, lines) = every_eval_ever.files(*result, LAB, TIME).items()
    return path, json.loads(document), samples, [json.loads(line) for line in lines.decode().splitlines()]


@pytest.mark.mirror
def test_the_published_schemas_accept_both_files(written):
    _, document, _, lines = written
    schema("eval").validate(document)
    per_line = schema("instance_level_eval")
    for line in lines:
        per_line.validate(line)
    broken = {**document, "evaluation_results": [{**document["evaluation_results"][0], "metric_config": {}}]}
    with pytest.raises(jsonschema.ValidationError):
        schema("eval").validate(broken)


def test_every_score_with_a_direction_is_there_and_no_other(result, written):
    scores, _ = result
    wanted = {"/".join(one.key) for one in scores.estimates if one.ideal is not None and math.isfinite(one.value)}
    assert {one["evaluation_result_id"] for one in written[1]["evaluation_results"]} == wanted
    assert len(wanted) < len(scores.estimates)


def test_a_score_is_its_own_or_its_distance_from_the_ideal_with_error_and_interval(result, written):
    by_key = result[0].by_key
    for one in written[1]["evaluation_results"]:
        score = by_key[tuple(one["evaluation_result_id"].split("/"))]
        config, details = one["metric_config"], one["score_details"]
        value = details["score"]
        inside = score.ideal not in (score.least, score.most)
        assert value == pytest.approx(distance(score, score.value) if inside else score.value)
        assert config["lower_is_better"] == (inside or score.ideal == score.least)
        least, most = (float(config[name]) for name in ("min_score", "max_score"))
        assert least <= value <= most
        interval = details["uncertainty"].get("confidence_interval", {"lower": value, "upper": value})
        assert ("confidence_interval" in details["uncertainty"]) == score.has_interval
        assert interval["lower"] <= value + 1e-9
        assert value - 1e-9 <= interval["upper"]
        told = details["uncertainty"].get("standard_error", {}).get("value")
        assert told == (score.error if not score.metric.startswith("g_s") and math.isfinite(score.error) else None)
        if inside:
            assert float(details["details"]["value"]) == score.value


def test_the_lines_are_the_examples_and_their_mean_is_the_score(result, written):
    scores, tables = result
    path, document, samples, lines = written
    told = document["detailed_evaluation_results"]
    assert told["file_path"] == samples == path.replace(".json", "_samples.jsonl")
    assert told["total_rows"] == len(lines)
    data = every_eval_ever.files(*result, LAB, TIME)[samples]
    assert told["checksum"] == hashlib.sha256(data).hexdigest()
    assert {line["evaluation_id"] for line in lines} == {document["evaluation_id"]}
    for key in {line["evaluation_result_id"] for line in lines}:
        own = [line["evaluation"]["score"] for line in lines if line["evaluation_result_id"] == key]
        assert np.mean(own) == pytest.approx(scores.by_key[tuple(key.split("/"))].value)
    assert {line["sample_id"] for line in lines} <= {*tables["stereoset"]["id"], *tables["gest"]["id"]}


def test_no_text_of_a_data_set_is_in_a_file(result):
    scores, tables = result
    secret = "A sentence whose licence forbids it."
    texts = {name: np.full(40, secret, dtype=object) for name in tables["stereoset"] if name.startswith("sentence_")}
    changed = {**tables, "stereoset": tables["stereoset"] | texts}
    assert not [
        name for name, data in every_eval_ever.files(scores, changed, LAB, TIME).items() if secret.encode() in data
    ]


def test_the_same_run_gives_the_same_files_and_another_model_others(result):
    scores, tables = result
    assert every_eval_ever.files(scores, tables, LAB, TIME) == every_eval_ever.files(scores, tables, LAB, TIME)
    folder = replace(scores, model="/home/me/models/tiny")
    (path, document), _ = every_eval_ever.files(folder, tables, LAB, TIME).items()
    assert path.startswith("data/gender-neutral-probes/unknown/tiny/")
    assert b"/home/me" not in document


@pytest.mark.parametrize(("value", "expected"), [(1.0, 0.0), (2.0, 0.5), (0.5, 0.5), (0.0, 1.0), (4.0, 0.75)])
def test_a_ratio_and_its_inverse_are_equally_far_from_the_ideal(value, expected):
    ratio = Estimate("gest", "overall", "g_s", value, 0.1, 9, 1, 9, 9, ideal=1, least=0, most=math.inf)
    assert distance(ratio, value) == expected


def test_who_publishes_has_to_be_named(result):
    with pytest.raises(ScoringError, match="give --source-org NAME"):
        Publisher("  ")
    with pytest.raises(ScoringError, match=r"'friend'.*first_party"):
        Publisher("The lab", "friend")
    scores, tables = result
    without = replace(scores, estimates=tuple(replace(one, ideal=None) for one in scores.estimates))
    with pytest.raises(ScoringError, match="has no score with a direction"):
        every_eval_ever.files(without, tables, LAB, TIME)


def test_the_command_writes_the_files_and_says_where(result, tmp_path):
    report.write(tmp_path / "run", *result, {})
    done = commands.run("probes", "export", tmp_path / "run", "--format", "eee", "--source-org", "The lab")
    assert done.returncode == 0, done.stderr
    made = sorted((tmp_path / "run" / "export" / "data").rglob("*.json*"))
    assert [path.suffix for path in made] == [".json", ".jsonl"]
    assert json.loads(made[0].read_text())["source_metadata"]["source_organization_name"] == "The lab"
    done = commands.run("probes", "export", tmp_path / "run", "--format", "eee")
    assert done.returncode == 1
    assert "error: The format names who publishes the results; give --source-org NAME." in done.stderr
