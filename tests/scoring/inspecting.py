"""Runs tasks of a Hub in inspect-ai, in an environment of its own: ``python inspecting.py RUNS OUT``.

A run has the name of its task, a model with its arguments, and for a mock the answers it gives in turn. What inspect-ai
found is written as JSON: each task's accuracy with its standard error, and its samples.
"""

import itertools
import json
import sys
from pathlib import Path

from inspect_ai import eval as inspect_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

#: Without it the mock counts tokens with a vocabulary that it downloads.
USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)


def outputs(answers):
    for answer in itertools.cycle(answers):
        output = ModelOutput.from_content("mockllm/model", answer)
        output.usage = USAGE
        yield output


def found(log):
    metrics = log.results.scores[0].metrics
    samples = [
        {
            "input": sample.input,
            "choices": sample.choices,
            "target": sample.target,
            "text": sample.output.completion,
            "right": next(iter(sample.scores.values())).value == "C",
        }
        for sample in log.samples
    ]
    return {
        "status": log.status,
        "accuracy": metrics["accuracy"].value,
        "stderr": metrics["stderr"].value,
        "samples": samples,
    }


def main(runs, out):
    logs = []
    for run in json.loads(Path(runs).read_text()):
        answers = run.get("answers")
        model = get_model("mockllm/model", custom_outputs=outputs(answers)) if answers else run["model"]
        (log,) = inspect_eval(
            run["task"],
            model=model,
            model_args=run.get("arguments", {}),
            limit=run.get("limit"),
            max_tokens=run.get("max_tokens"),
            max_connections=1 if answers else 8,
            log_dir=str(Path(out).parent / "logs"),
            display="none",
        )
        logs.append(found(log) if log.status == "success" else {"status": log.status, "error": log.error.message})
    Path(out).write_text(json.dumps(logs))


if __name__ == "__main__":
    main(*sys.argv[1:])
