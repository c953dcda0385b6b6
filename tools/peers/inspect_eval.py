"""What ``inspect eval`` prints on data sets, beside this package: ``python -m tools.peers.inspect_eval FOLDER``.

The data sets of FOLDER (``probes build``) are published on a Hub on this machine. The commands of docs/REGISTRATION.md
run on it in the environment of inspect-ai (``make environments``): with the bundled model by the provider ``hf``, and
with the mock of inspect-ai. The table in that page is what this command prints: accuracy and standard error as
inspect-ai prints them, and the score of this package on the same answers. ``--log FILE`` keeps all that it printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from scoring.benchmarks import bbq as benchmark
from scoring.inference.load_options import BUNDLED
from scoring.inputs.tables import as_table
from scoring.metrics import gas
from tests.support.hub import Hub
from tools.docs.pages import ROOT, table

INSPECT = ROOT / ".venv-inspect" / "bin" / "inspect"
PROBES = "gender-neutral-probes"
#: Without a template the provider puts the name of the role before a prompt.
TEMPLATE = "chat_template='{{ messages[0].content }}'"
MODEL = ("--model", "hf/local", "-M", f"model_path={BUNDLED['tiny-causal']}", "-M", TEMPLATE)
MOCK = ("--model", "mockllm/model")
#: The mock counts tokens with a vocabulary that inspect-ai downloads; here it counts words, without a network.
WORDS = """
import tiktoken

class Words:
    def encode(self, text, **_):
        return text.split()

tiktoken.get_encoding = lambda _: Words()
"""
Samples = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A command of inspect-ai: the task of a published data set, a model, and further options."""

    task: str
    model: tuple[str, ...]
    more: tuple[str, ...] = ()

    def command(self, organisation: str) -> list[str]:
        """The arguments of ``inspect``."""
        return ["eval", f"hf/{organisation}/{self.task}", *self.model, *self.more]


#: Questions of a model get a limit: it has 50 tokens for each answer and answers no letter.
EVALUATIONS = (
    Evaluation(f"{PROBES}/llm-1", MODEL),
    Evaluation(f"{PROBES}/templates", MODEL),
    Evaluation("bbq", MODEL, ("--limit", "40", "--max-tokens", "16")),
    Evaluation(f"{PROBES}/llm-1", MOCK),
    Evaluation(f"{PROBES}/templates", MOCK),
    Evaluation("bbq", MOCK, ("--limit", "40")),
)


def samples_of(log: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The samples of a log: prompt, choices in their order, the answer of the model, and whether it is right."""
    return [
        {
            "input": sample["input"],
            "choices": sample.get("choices"),
            "text": sample["output"]["choices"][0]["message"]["content"],
            "right": next(iter(sample["scores"].values()))["value"] == "C",
        }
        for sample in log["samples"]
    ]


def share_neutral(samples: Samples) -> float:
    """The share of continuations without a gendered word, by this package."""
    classes = np.array([gas.gender_class(sample["text"], sample["input"]) for sample in samples])
    return float(gas.share("neutral").value({"gender_class": classes}, np.ones((1, len(classes))))[0])


def questions(folder: Path, samples: Samples) -> dict[str, Any]:
    """Our table of the same answers: each question with its answers in the order that the model saw."""
    rows = {row["input"]: row for row in pq.read_table(folder / "bbq" / "data" / "gender" / "test.parquet").to_pylist()}
    lines: list[Any] = []
    for sample in samples:
        row = rows[sample["input"]]
        seen = [sample["choices"].index(answer) for answer in row["answers"]]
        places = {name: row[name] if row[name] is None else seen[row[name]] for name in ("label", "unknown", "biased")}
        shown = row | {"answers": sample["choices"], "config": "gender"} | places
        assert benchmark.BENCHMARK.sampled is not None
        lines += benchmark.BENCHMARK.sampled.to_records(shown, [sample["text"]])
    return as_table(lines)


def share_right(folder: Path, samples: Samples) -> float:
    """The share of questions whose answer is right, by this package; one that names no answer is wrong."""
    return float(np.mean(questions(folder, samples)["right"]))


def inspected(evaluation: Evaluation, organisation: str, logs: Path) -> tuple[str, dict[str, Any]]:
    """What a command prints, and its log.

    Raises
    ------
    SystemExit
        With what it printed, when it fails.
    """
    logs.mkdir(parents=True)
    command = [str(INSPECT), *evaluation.command(organisation), "--display", "plain", "--log-dir", str(logs)]
    environment = {**os.environ, "INSPECT_LOG_FORMAT": "json", "COLUMNS": "200"}
    if evaluation.model == MOCK:
        (logs / "sitecustomize.py").write_text(WORDS, encoding="utf-8")
        environment["PYTHONPATH"] = str(logs)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (path,) = logs.glob("*.json") if done.returncode == 0 else (None,)
    if path is None:
        raise SystemExit(f"{shlex.join(command)} failed.\n{done.stdout}{done.stderr}")
    log: dict[str, Any] = json.loads(path.read_bytes())
    if log["status"] != "success":
        raise SystemExit(f"{shlex.join(command)} failed.\n{done.stdout}{done.stderr}")
    return done.stdout, log


def printed_number(text: str, name: str) -> str:
    r"""A metric as inspect-ai prints it at the end; the lines before it say how far the command is.

    >>> printed_number("accuracy: 0.50 |\npattern\naccuracy  0.250\nstderr    0.070", "accuracy")
    '0.250'
    """
    numbers = re.findall(rf"\b{name}\W+(\d[\d.]*)", text)
    return numbers[-1] if numbers else "–"


def rows(
    folder: Path, organisation: str, logs: Path, evaluations: Sequence[Evaluation]
) -> tuple[list[list[str]], list[str]]:
    """A line of the table for each evaluation, and what each printed."""
    lines, texts = [], []
    for number, evaluation in enumerate(evaluations):
        text, log = inspected(evaluation, organisation, logs / str(number))
        samples = samples_of(log)
        ours = share_right(folder, samples) if evaluation.task == "bbq" else share_neutral(samples)
        model = "`tiny-causal`" if evaluation.model == MODEL else "mock"
        numbers = [printed_number(text, name) for name in ("accuracy", "stderr")]
        lines.append([f"`{evaluation.task}`", model, f"{len(samples)}", *numbers, f"{ours:.4f}"])
        texts.append(f"$ inspect {shlex.join(evaluation.command(organisation))}\n{text}")
    return lines, texts


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.peers.inspect_eval", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path, help="built data sets, with gender-neutral-probes and bbq")
    parser.add_argument("--log", type=Path, help="what the commands printed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place, Hub(cache=Path(place) / "cache"):
        for name in (PROBES, "bbq"):
            (Path(place) / "built").mkdir(exist_ok=True)
            (Path(place) / "built" / name).symlink_to((options.folder / name).resolve())
        push = [sys.executable, "-m", "builders.push", str(Path(place) / "built"), "--org", "org"]
        pushed = subprocess.run(push, cwd=ROOT, capture_output=True, text=True, check=False)
        if pushed.returncode:
            raise SystemExit(pushed.stderr)
        lines, texts = rows(options.folder, "org", Path(place) / "logs", EVALUATIONS)
    if options.log:
        options.log.write_text("\n".join(texts), encoding="utf-8")
    heads = ("task", "model", "samples", "inspect-ai: accuracy", "its standard error", "this package, same answers")
    print(table(heads, lines))


if __name__ == "__main__":
    main()
