"""lm-evaluation-harness with its vLLM engine, in an environment of its own: ``make .venv-gpu-vllm/.ready``.

vLLM pins other versions of torch and transformers. So this file is also a program that imports nothing of the project:
it reads pairs of context and option and prompts from a JSON file, and writes log-probabilities and seconds. With
``dummy`` vLLM draws random weights for a configuration itself, so that no large file is written; then only speeds can
be compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.gpu.step import Setting
    from scoring.types import Request

PYTHON = Path(__file__).parents[2] / ".venv-gpu-vllm" / "bin" / "python"
#: Seconds until it is given up.
LONGEST = 240.0


def asked(
    setting: Setting,
    folder: Path,
    requests: Sequence[Request],
    prompts: Sequence[Request],
    *,
    dtype: str,
    dummy: bool,
) -> dict[str, Any]:
    """What the peer gave: ``logprobs`` of the options, ``seconds`` for them and ``generation_seconds``.

    Raises
    ------
    NotPossible
        Where it is not installed or does not run.
    """
    from benchmarks.gpu.step import NotPossible

    if not PYTHON.with_name(".works").is_file():
        raise NotPossible("vLLM is not installed here (make .venv-gpu-vllm/.ready)")
    task = {
        "model": str(folder),
        "dtype": dtype,
        "dummy": dummy,
        "pairs": [(request.context, option.text) for request in requests for option in request.options],
        "prompts": [(request.context, request.max_new) for request in prompts],
    }
    questions, answers = setting.scratch / "asked.json", setting.scratch / "answered.json"
    questions.write_text(json.dumps(task))
    answers.unlink(missing_ok=True)
    command = [str(PYTHON), __file__, str(questions), str(answers)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise NotPossible(f"vLLM did not answer within {LONGEST:.0f} s") from None
    if not answers.is_file():
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise NotPossible(f"vLLM does not run here: {lines[-1][:300]}")
    result: dict[str, Any] = json.loads(answers.read_text())
    return result


def main(questions: str, answers: str) -> None:
    """Answers a file, each question once before the clock starts."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.vllm_causallms import VLLM

    task = json.loads(Path(questions).read_text())
    more = {"load_format": "dummy"} if task["dummy"] else {}
    model = VLLM(
        pretrained=task["model"],
        dtype=task["dtype"],
        gpu_memory_utilization=0.85,
        max_model_len=512,
        batch_size="auto",
        seed=0,
        **more,
    )
    result: dict[str, Any] = {}

    def scored(pairs: Sequence[Any]) -> list[float]:
        asked = [Instance(request_type="loglikelihood", doc={}, arguments=tuple(p), idx=n) for n, p in enumerate(pairs)]
        return [float(logprob) for logprob, _ in model.loglikelihood(asked, disable_tqdm=True)]

    def written(prompts: Sequence[Any]) -> None:
        settings = [(text, {"until": [], "max_gen_toks": new, "do_sample": False}) for text, new in prompts]
        asked = [Instance(request_type="generate_until", doc={}, arguments=p, idx=n) for n, p in enumerate(settings)]
        model.generate_until(asked, disable_tqdm=True)

    if task["pairs"]:
        scored(task["pairs"][:8])
        started = time.perf_counter()
        result["logprobs"] = scored(task["pairs"])
        result["seconds"] = time.perf_counter() - started
    if task["prompts"]:
        written(task["prompts"][:8])
        started = time.perf_counter()
        written(task["prompts"])
        result["generation_seconds"] = time.perf_counter() - started
    Path(answers).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
