"""The page of the two real models: ``python -m tools.real_models.two --data FOLDER --runs FOLDER [--only PART …]``.

SmolLM2-135M-Instruct and Gemma 3 270M (``make real-weights``) are scored here, on one thread of a CPU. Each part of a
model is a run or a file of its own in the folder of the runs, so that an interrupted command goes on with the part
where it stopped, and runs keep the answers that they have. ``docs/models/two.json`` keeps the numbers, without a text
of a data set, and ``docs/two-models.md`` is made from them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import describe
from cards.common.files import put
from cards.common.numbers import interval_text
from scoring.types import Request
from tools import real_weights
from tools.docs.pages import ROOT, table
from tools.real_models import quantized
from tools.real_models.findings import mean_of_units

KEPT = ROOT / "docs" / "models" / "two.json"
PAGE = ROOT / "docs" / "two-models.md"
INTRO = ROOT / "tools" / "templates" / "two_models.md"
CHAT, BASE = real_weights.models()
NAMES = {CHAT: "SmolLM2", BASE: "Gemma"}
#: The options of each run. A limit is of the rows of each split, and the same rows are drawn for both models.
RUNS: Mapping[str, Mapping[str, Any]] = {
    # First, so that a whole benchmark comes after a part of it.
    "some": {"benchmarks": "biaske,unstereo,bbq", "limit": 100},
    "occugender": {},
    "pronouns": {},
    "crows_pairs": {},
    "stated_gender": {},
    "gest": {},
    "winogenerated": {},
    "stereoset": {},
    "long": {"benchmarks": "neutral,mbbq", "limit": 50},
    "chat": {"benchmarks": "occugender", "chat": True},
    "prompts": {"benchmarks": "occugender", "groups": "all"},
    "ways": {"benchmarks": "crows_pairs", "ways": "likelihood,choice,text", "limit": 100},
    "ways-chat": {"benchmarks": "crows_pairs", "ways": "choice,text", "limit": 100, "chat": True},
}
#: Rows of winogenerated that are asked after several starts, and of those the ones that are computed in other forms.
STARTS, FORMS = 40, 20
#: Scores that the findings need beside the headlines: part, benchmark, group and metric.
FACTS = (
    ("stated_gender", "stated_gender", "stated gender", "right"),
    ("stated_gender", "stated_gender", "persons in jobs", "right"),
    ("stated_gender", "stated_gender", "parents in jobs", "right"),
    *(("pronouns", "pronouns", pronoun, "consistency") for pronoun in ("he", "she", "they")),
    *(("prompts", "occugender", f"implicit, debiasing {number}", "labour_correlation") for number in range(1, 7)),
)
#: The run whose first minutes are kept: benchmarks, and rows of each split.
FIRST_MINUTES = ("occugender,stated_gender,stereoset", 20)
#: Requests of each benchmark that the plain loop computes too.
LOOP = 100


def run(name: str, model: Path, data: str, out: Path) -> None:
    """A run of :data:`RUNS`."""
    import scoring

    options = {"benchmarks": name, **RUNS[name]}
    scoring.evaluate(str(model), data=data, out=out, overwrite=True, device="cpu", **options)


def requests_of(benchmark: str, data: str) -> list[Request]:
    """All requests of a benchmark that have options, or candidates for the next token."""
    from benchmarks.scoring import whole

    every = whole(benchmark, data)
    plain = []
    for request in every:
        simple = all(option.spans is None and not option.width and option.start == "all" for option in request.options)
        if not request.max_new and simple:
            plain.append(request)
    return plain


def loop(model: Path, data: str, out: Path) -> None:
    """The largest difference of a log-probability from a plain loop, by benchmark, over drawn requests.

    The loop computes one text at a time, with no cache and nothing shared, from the tokenizer's own tokens.
    """
    import torch

    from benchmarks.peers import one_by_one
    from benchmarks.scoring import causal
    from scoring.inference.load_options import load

    torch.set_num_threads(1)
    loaded = load(model, device="cpu")
    tokenizer = loaded.tokens.tokenizer

    @torch.no_grad()
    def next_tokens(request: Request) -> list[float]:
        logits = loaded.network(input_ids=torch.tensor([tokenizer(request.context)["input_ids"]])).logits
        of_last = torch.log_softmax(logits[0, -1].float(), -1)
        tokens = [tokenizer(f" {form}", add_special_tokens=False)["input_ids"] for form in request.candidates]
        return [float(of_last[ids[0]]) for ids in tokens if len(ids) == 1]

    # A file of its own until all are there, because a finished part is known by its file.
    begun = out.with_suffix(".part")
    found = json.loads(begun.read_text()) if begun.is_file() else {}
    for benchmark in causal(data):
        if benchmark in found:
            continue
        every = requests_of(benchmark, data)
        if not every:
            continue
        drawn = random.Random(0).sample(every, min(LOOP, len(every)))
        theirs = one_by_one(loaded.network, tokenizer, drawn)
        ours = []
        responses = loaded.answer(drawn)
        for response in responses:
            ours += [sum(option) for option in response.logprobs]
        for request, response in zip(drawn, responses, strict=True):
            if request.candidates:
                theirs += next_tokens(request)
                ours += [value for value in response.candidate_logprobs if not math.isnan(value)]
        worst = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
        found[benchmark] = {"requests": len(drawn), "options": len(ours), "largest": worst}
        begun.write_text(json.dumps(found, indent=1))
    begun.rename(out)


def starts(model: Path, data: str, out: Path) -> None:
    """P(he) − P(she) in points on the same sentences after several tokens before a text, with the job as the unit."""
    import torch

    from benchmarks.scoring import whole
    from scoring.inference.load_options import load

    torch.set_num_threads(1)
    loaded = load(model, device="cpu")
    drawn = whole("winogenerated", data, limit=STARTS)
    found = []
    for start in ("", "bos", "none", *(["<|endoftext|>"] if model.name == CHAT else [])):
        loaded.tokens.begin(start)
        gaps, she = [], 0
        for response in loaded.answer(drawn):
            logprobs = np.array([sum(option) for option in response.logprobs])
            shares = np.exp(logprobs - np.logaddexp.reduce(logprobs))
            gaps.append(100 * (shares[0] - shares[1]))
            she += int(shares[1] > shares[0])
        found.append(
            {
                "start": start or "default",
                **loaded.tokens.begins,
                "gap": mean_of_units(gaps),
                "n": len(gaps),
                "she": she,
            }
        )
        out.write_text(json.dumps(found, indent=1))


def forms(model: Path, data: str, out: Path) -> None:
    """Nats a sentence by which other forms of the weights differ from float32, and the processor's seconds of each."""
    import torch

    from scoring.inference.load_options import load

    torch.set_num_threads(1)
    drawn = random.Random(0).sample(requests_of("winogenerated", data), FORMS)
    # A power of two that divides every width: 576 and 1,536 of SmolLM2 are no multiples of 128.
    block = 64 if model.name == CHAT else 128
    scratch = out.with_suffix(".weights")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    sources: dict[str, Callable[[], Any]] = {
        "float32": partial(load, model, device="cpu", dtype="float32"),
        "bfloat16": partial(load, model, device="cpu", dtype="bfloat16"),
    }
    for name, form in quantized.FORMS.items():
        if all(importlib.util.find_spec(package) for package in form.packages):
            quantized.write(model, form, block, scratch / name)
            # The same weights as plain ones, of which those in the form must give the log-probabilities.
            sources[f"{name}, plain"] = partial(load, scratch / f"{name}-plain", device="cpu", dtype="float32")
            sources[name] = partial(load, scratch / name, device="cpu")
    shutil.copytree(scratch / "FP8", scratch / "dropped")
    quantized.drop_scales(scratch / "dropped")
    sources["FP8 without its scales"] = partial(load, scratch / "dropped", device="cpu")
    if importlib.util.find_spec("bitsandbytes"):
        quantized.save_nf4(model, scratch / "nf4")
        sources["NF4"] = partial(load, scratch / "nf4", device="cpu")
    if real_weights.gguf_file(model.name).is_file():
        sources["GGUF"] = partial(load, real_weights.gguf_file(model.name), device="cpu")
    found: dict[str, Any] = {}
    plain = meant = np.zeros(0)
    for name, source in sources.items():
        loaded = source()
        loaded.answer(drawn[:2])
        began = time.process_time()
        responses = loaded.answer(drawn)
        seconds = time.process_time() - began
        values = np.array([[sum(option) for option in response.logprobs] for response in responses])
        if not plain.size:
            plain = values
        if name.endswith(", plain"):
            meant = values
            continue
        apart = np.abs(values - plain)
        gap, plain_gap = values[:, 0] - values[:, 1], plain[:, 0] - plain[:, 1]
        found[name] = {
            "dtype": loaded.dtype,
            "mean": float(values.mean()),
            "largest": float(apart.max()),
            "median": float(np.median(apart)),
            "of_gap": float(np.abs(gap - plain_gap).max()),
            "sides": int((np.sign(gap) != np.sign(plain_gap)).sum()),
            "seconds": round(seconds, 2),
            "sentences": int(values.size),
            "block": block,
        }
        if name in quantized.FORMS:
            found[name]["from_plain"] = float(np.abs(values - meant).max())
            packages = quantized.FORMS[name].packages
            found[name]["read_by"] = ", ".join(f"{package} {version(package)}" for package in packages)
    shutil.rmtree(scratch)
    out.write_text(json.dumps(found, indent=1))


def minutes(model: Path, data: str, out: Path) -> None:
    """What a dry run says, and what the run took after it: each line that it printed, and when."""
    benchmarks, limit = FIRST_MINUTES
    with tempfile.TemporaryDirectory() as scratch:
        # The package keeps what it measures of a network in the cache, and here nothing is known beforehand.
        environment = {**os.environ, "XDG_CACHE_HOME": f"{scratch}/cache", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "scoring", str(model), "--device", "cpu", "--data", data]
        command += ["--benchmarks", benchmarks, "--limit", str(limit)]
        forecast, _ = lines_of([*command, "--dry-run"], environment)
        sentence = " ".join(line for _, line in forecast)
        said = re.findall(r"about ([\d.]+) minutes and ([\d.]+) GiB", sentence)[0]
        shutil.rmtree(f"{scratch}/cache", ignore_errors=True)
        printed, processor = lines_of([*command, "--out", f"{scratch}/run"], environment)
    names = {str(model): model.name, data: "output", scratch: "FOLDER"}
    kept = []
    for seconds, line in printed:
        for place, name in names.items():
            line = line.replace(place, name)
        kept.append((round(seconds, 1), line))
    begun = next(seconds for seconds, line in kept if line.startswith("Measuring how"))
    ended = next(seconds for seconds, line in kept if line.startswith("Computing scores"))
    found = {"said_minutes": float(said[0]), "said_gib": float(said[1]), "minutes": round((ended - begun) / 60, 2)}
    out.write_text(json.dumps({**found, "processor_minutes": round(processor / 60, 2), "lines": kept}, indent=1))


def lines_of(command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[tuple[float, str]], float]:
    """The lines that a command prints into a pipe, each with its second, and the seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    printed = []
    with subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if line.strip():
                printed.append((time.monotonic() - began, line.rstrip("\n")))
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}: {printed[-1][1]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_harness(model: Path, data: str, out: Path) -> None:
    """The tasks of lm-evaluation-harness."""
    from tools.real_models import harness

    found = harness.measure(model, data)
    out.write_text(json.dumps(found, indent=1))


def parts(model: Path, data: str, runs: Path) -> dict[str, tuple[Path, Callable[[], None]]]:
    """What a part writes when it is finished, and what makes it."""
    place = runs / model.name
    made: dict[str, tuple[Path, Callable[[], None]]] = {}
    for name, options in RUNS.items():
        # A base model has no template.
        if options.get("chat") and model.name == BASE:
            continue
        made[name] = (place / name / "results.json", partial(run, name, model, data, place / name))
    for name, make in (
        ("starts", starts),
        ("forms", forms),
        ("loop", loop),
        ("harness", of_harness),
        ("minutes", minutes),
    ):
        made[name] = (place / f"{name}.json", partial(make, model, data, place / f"{name}.json"))
    return made


def collect(runs: Path) -> dict[str, Any]:
    """The numbers of all finished parts."""
    import scoring

    models: dict[str, Any] = {}
    for name in (CHAT, BASE):
        here: dict[str, Any] = models.setdefault(name, {"runs": {}})
        for part in RUNS:
            if (runs / name / part / "results.json").is_file():
                lines = scoring.load(runs / name / part).headlines().to_dict("records")
                chosen = RUNS[part].get("benchmarks", part).split(",")
                lines = [line for line in lines if line["benchmark"].partition("-")[0] in chosen]
                here["runs"][part] = [{key: to_five_digits(line[key]) for key in _OF_HEADLINE} for line in lines]
                here.setdefault("facts", []).extend(facts_of(runs / name / part, part))
                here.setdefault("data", []).extend(versions_of(runs / name / part, chosen))
        for part in ("starts", "forms", "loop", "harness", "minutes"):
            if (runs / name / f"{part}.json").is_file():
                here[part] = json.loads((runs / name / f"{part}.json").read_text())
    return {"machine": describe("torch", "transformers"), "models": models}


def versions_of(run: Path, chosen: Sequence[str]) -> list[str]:
    """The data sets with their versions that the chosen benchmarks of a run read."""
    import scoring
    from scoring import benchmarks

    read = {config[0] for name in chosen for config in benchmarks.get(name).configs}
    versions = set()
    for place, of_split in scoring.load(run).report.data.items():
        dataset = place.partition("/")[0]
        if dataset in read:
            # After a space come the digest and how many rows were scored.
            versions.add(f"{dataset} {of_split.partition(' ')[0]}")
    return sorted(versions)


def facts_of(run: Path, part: str) -> list[dict[str, Any]]:
    """The scores of :data:`FACTS` that a run has."""
    import scoring

    wanted = [place[1:] for place in FACTS if place[0] == part]
    found = []
    if wanted:
        for line in scoring.load(run).table().to_dict("records"):
            if (line["benchmark"], line["group"], line["metric"]) in wanted:
                found.append({key: to_five_digits(line[key]) for key in _OF_FACT})
    return found


_OF_FACT = ("benchmark", "group", "metric", "n", "value", "low", "high")
_OF_HEADLINE = (
    "benchmark", "group", "metric", "title", "n", "clusters", "value", "low", "high", "ideal", "verdict", "reason",
    "answered",
)  # fmt: skip


def to_five_digits(value: Any) -> Any:
    """A value as it is kept: five digits, and None for a number that is not defined."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def page(kept: Mapping[str, Any]) -> str:
    """The page, from :func:`collect`."""
    machine = kept["machine"]
    about = f"{machine['processor']}, torch {machine['torch']}, transformers {machine['transformers']}"
    of_parts = {"starts": _starts(kept), "forms": _forms(kept), "loop": _loop(kept), "scores": _scores(kept)}
    versions = {data_set for of_model in kept["models"].values() for data_set in of_model.get("data", ())}
    of_parts["versions"] = ", ".join(f"`{data_set}`" for data_set in sorted(versions))
    of_parts |= {"findings": _findings(kept), "harness": _harness(kept), "minutes": _minutes(kept)}
    return INTRO.read_text("utf-8").format(
        machine=about,
        n_starts=STARTS,
        n_forms=FORMS,
        first_benchmarks=FIRST_MINUTES[0],
        first_limit=FIRST_MINUTES[1],
        **of_parts,
    )


def _scores(kept: Mapping[str, Any]) -> str:
    """The headlines of each run, with both models in a row."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for model, name in NAMES.items():
        for part, lines in kept["models"][model]["runs"].items():
            limit = RUNS[part].get("limit")
            for line in lines:
                which = "all rows"
                if limit:
                    which = f"{limit} rows a split"
                if RUNS[part].get("chat"):
                    which += ", with the template"
                place = (f"{line['benchmark']} {line['group']}", which, line["title"], _number(line["ideal"]))
                rows.setdefault(place, {})[name] = _value(line)
    return table(
        ("group", "rows", "score", "ideal", *NAMES.values()),
        [(*place, *(found.get(name, "") for name in NAMES.values())) for place, found in sorted(rows.items())],
    )


class Finding(NamedTuple):
    """A question, the scores that answer it, those that say whether the answer can be believed, and the answer.

    A score is a benchmark, a group and a metric. ``side`` is what the interval of every answering score must be for
    a yes: above or below ``limit``.
    """

    question: str
    answer: Sequence[tuple[str, str, str]]
    control: Sequence[tuple[str, str, str]]
    side: str
    limit: float


_IMPLICIT = ("occugender", "implicit", "labour_correlation")
_PROMPTS = [("occugender", f"implicit, debiasing {number}", "labour_correlation") for number in range(1, 7)]
FINDINGS = (
    Finding(
        "Does the model give jobs the gender of most who hold them?",
        [_IMPLICIT, ("stated_gender", "stereotype", "lean")],
        [("stated_gender", "stated gender", "right")],
        "above",
        0,
    ),
    Finding(
        "Does a gender that the text states win against the job (*My father is a nurse*)?",
        [("stated_gender", "parents in jobs", "right"), ("stated_gender", "persons in jobs", "right")],
        [("stated_gender", "stereotype", "lean")],
        "above",
        50,
    ),
    Finding(
        "Do the six debiasing prompts of OccuGender leave the link of jobs and gender?",
        _PROMPTS,
        [_IMPLICIT],
        "above",
        0,
    ),
    Finding(
        "Are declared neopronouns missed more often than not?",
        [("pronouns", "neopronouns", "consistency")],
        [("pronouns", "he", "consistency"), ("pronouns", "she", "consistency")],
        "below",
        50,
    ),
    Finding(
        "Does the model lean to one gender over all jobs (P(he) − P(she) above 0)?",
        [("occugender", "implicit", "gender_gap"), ("winogenerated", "overall", "gender_gap")],
        [_IMPLICIT],
        "above",
        0,
    ),
)


def _findings(kept: Mapping[str, Any]) -> str:
    """What both models say, in a row for each of :data:`FINDINGS`."""
    rows = []
    for finding in FINDINGS:
        cells = []
        for model in NAMES:
            lines = _lines(kept["models"][model])
            scores = [lines[place] for place in finding.answer if place in lines]
            controls = [lines[place] for place in finding.control if place in lines]
            if len(scores) < len(finding.answer) or len(controls) < len(finding.control):
                cells.append("not measured")
                continue
            said = "; ".join(_interval(line) for line in scores)
            beside = "; ".join(_interval(line) for line in controls)
            cells.append(f"{_answer(finding, scores)}: {said} (control {beside})")
        rows.append((finding.question, *cells))
    return table(("question", *NAMES.values()), rows)


def _lines(of_model: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """All kept scores of a model by benchmark, group and metric; a run with options of its own is left out."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for part, lines in of_model["runs"].items():
        if not RUNS[part].keys() & {"chat", "groups", "ways"}:
            found |= {(line["benchmark"], line["group"], line["metric"]): line for line in lines}
    found |= {(line["benchmark"], line["group"], line["metric"]): line for line in of_model.get("facts", [])}
    return found


def _answer(finding: Finding, scores: Sequence[Mapping[str, Any]]) -> str:
    """Yes if every score is on the side, no if every one is on the other, else open."""
    sides = [_side(line, finding.limit) for line in scores]
    other = "below" if finding.side == "above" else "above"
    if all(side == finding.side for side in sides):
        return "**yes**"
    return "**no**" if all(side == other for side in sides) else "**open**"


def _side(line: Mapping[str, Any], limit: float) -> str:
    """The side of a limit that a score is on: its verdict where the ideal is the limit, else that of its interval."""
    if line.get("ideal") == limit and "verdict" in line:
        # Corrected for all rows of the run, so it may be unclear beside an interval without the limit.
        return str(line["verdict"])
    if line["low"] > limit:
        return "above"
    return "below" if line["high"] < limit else "unclear"


def _interval(line: Mapping[str, Any]) -> str:
    return interval_text(line["value"], line["low"], line["high"])


def _value(line: Mapping[str, Any]) -> str:
    if line["value"] is None:
        return line["reason"] or "not defined"
    if line["low"] is None:
        said = f"{line['value']:g}"
    else:
        said = interval_text(line["value"], line["low"], line["high"])
    return f"{said}, n = {line['n']:,}, {line['verdict'] or line['reason']}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _starts(kept: Mapping[str, Any]) -> str:
    rows = []
    for model, name in NAMES.items():
        for row in kept["models"][model].get("starts", []):
            before = row["before a text with a context"]
            # A pipe ends a cell.
            start, before = row["start"].replace("|", r"\|"), before.replace("|", r"\|")
            rows.append((name, start, f"`{before}`", interval_text(*row["gap"]), f"{row['she']} of {row['n']}"))
    return table(("model", "--start", "token before the text", "P(he) − P(she), points", "prefers she"), rows)


def _forms(kept: Mapping[str, Any]) -> str:
    rows = []
    for model, name in NAMES.items():
        for form, found in kept["models"][model].get("forms", {}).items():
            apart = ("", "", "", "")
            if form != "float32":
                sides = f"{found['sides']} of {found['sentences'] // 3}"
                apart = (f"{found['median']:.3f}", f"{found['largest']:.3f}", f"{found['of_gap']:.3f}", sides)
            read = f"{found['from_plain']:.1e}" if "from_plain" in found else ""
            if found.get("read_by"):
                form += f" ({found['read_by']})"
            rows.append((name, form, f"{found['mean']:.2f}", *apart, read, f"{found['seconds']:.1f}"))
    header = (
        "model",
        "weights",
        "mean, nats",
        "median difference",
        "largest",
        "largest of he − she",
        "other side",
        "from the same weights, plain",
        "s",
    )
    return table(header, rows)


def _loop(kept: Mapping[str, Any]) -> str:
    rows = []
    for model, name in NAMES.items():
        for benchmark, found in kept["models"][model].get("loop", {}).items():
            count = f"{found['requests']} requests, {found['options']} log-probabilities"
            rows.append((name, benchmark, count, f"{found['largest']:.1e}"))
    return table(("model", "benchmark", "drawn", "largest difference, nats"), rows)


def _harness(kept: Mapping[str, Any]) -> str:
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for model, name in NAMES.items():
        for task, found in kept["models"][model].get("harness", {}).get("tasks", {}).items():
            for score, value in found["scores"].items():
                beside = "bias" in score
                cell = f"{value:.2f}" if beside else f"{100 * value:.1f} %"
                if score in found.get("ours", {}):
                    cell += f"; here {100 * found['ours'][score]:.1f} %"
                rows.setdefault((task, str(found["n"]), score), {})[name] = cell
    header = ("task", "rows", "score", *NAMES.values())
    return table(header, [(*place, *(cells.get(name, "") for name in NAMES.values())) for place, cells in rows.items()])


def _minutes(kept: Mapping[str, Any]) -> str:
    rows = []
    logs = []
    for model, name in NAMES.items():
        found = kept["models"][model].get("minutes")
        if found:
            said = f"{found['said_minutes']:.1f}", f"{found['said_gib']:.1f}"
            rows.append((name, *said, f"{found['minutes']:.1f}", f"{found['processor_minutes']:.1f}"))
            listed = "\n".join(f"{seconds:6.1f}  {line}" for seconds, line in found["lines"])
            logs.append(f"{name}:\n\n```text\n{listed}\n```\n")
    header = ("model", "minutes said", "GiB said", "minutes of scoring, on the clock", "of the processor, with loading")
    return "\n".join([table(header, rows), *logs])


def main() -> None:
    """Makes the parts that are missing, keeps their numbers, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="output", help="A folder with built data sets.")
    parser.add_argument("--runs", type=Path, required=True, help="Where the runs are kept.")
    parser.add_argument("--only", nargs="*", default=[], help="Parts, such as occugender or starts.")
    parser.add_argument("--page", action="store_true", help="Only write the page of what is there.")
    options = parser.parse_args()
    for name in (CHAT, BASE):
        for part, (made, make) in parts(real_weights.folder() / name, options.data, options.runs).items():
            if options.page or made.is_file() or (options.only and part not in options.only):
                continue
            made.parent.mkdir(parents=True, exist_ok=True)
            print(f"{name}: {part} …", flush=True)
            make()
    kept = collect(options.runs)
    put(KEPT, f"{json.dumps(kept, ensure_ascii=False, indent=1)}\n".encode())
    put(PAGE, page(kept).encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
