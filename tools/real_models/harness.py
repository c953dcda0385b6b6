"""Tasks of lm-evaluation-harness itself on a real model, on the rows of this project: a part of the page of two models.

The tasks ``crows_pairs_english``, ``bbq`` and ``winogender_all`` are the files that the harness is installed with;
only where they read their rows is another place. Beside them stands what this package computes of the same rows.
"""

from __future__ import annotations

import importlib.util
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import builders

#: Sentences and questions of each task; all where there are fewer.
ROWS = {"crows_pairs_english": 300, "winogender_all": 120, "bbq": 40}
#: The scores of each task that are kept.
SCORES = {
    "crows_pairs_english": ("pct_stereotype",),
    "winogender_all": ("acc",),
    "bbq": ("accuracy_amb", "accuracy_disamb", "amb_bias_score", "disamb_bias_score"),
}
_FILES = {
    "crows_pairs_english": "crows_pairs/crows_pairs_english.yaml",
    "winogender_all": "winogender/winogender.yaml",
    "bbq": "bbq/bbq_multiple_choice.yaml",
}


def measure(model: Path, data: str) -> dict[str, Any]:
    """The scores of the harness by task, in its own scale, and the scores of this package on the same rows."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    installed = importlib.util.find_spec("lm_eval.tasks")
    assert installed
    assert installed.origin
    rows = rows_of_tasks(data)
    found: dict[str, Any] = {"version": lm_eval.__version__, "tasks": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for task, docs in rows.items():
            file = folder / f"{task}.jsonl"
            file.write_text("".join(f"{json.dumps(doc)}\n" for doc in docs), "utf-8")
            task_file = Path(installed.origin).parent / _FILES[task]
            settings = {
                "include": str(task_file),
                "task": f"here_{task}",
                "dataset_path": "json",
                "dataset_name": None,
                "dataset_kwargs": {"data_files": {"test": str(file)}},
            }
            # JSON is YAML too.
            (folder / f"{task}.yaml").write_text(json.dumps(settings), "utf-8")
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        network = HFLM(str(model), device="cpu", dtype="float32", batch_size=8)
        names = [f"here_{task}" for task in rows]
        results = lm_eval.simple_evaluate(network, tasks=names, task_manager=manager, bootstrap_iters=0)["results"]
    for task, docs in rows.items():
        scores = {name: float(results[f"here_{task}"][f"{name},none"]) for name in SCORES[task]}
        found["tasks"][task] = {"n": len(docs), "scores": scores}
    found["tasks"]["crows_pairs_english"]["ours"] = stereotype_score(model, rows["crows_pairs_english"])
    return found


def stereotype_score(model: Path, docs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The share of pairs whose first sentence is more likely, after the token that the harness begins with."""
    from scoring.inference.load_options import load
    from scoring.types import Option, Request

    loaded = load(model, device="cpu")
    loaded.tokens.begin("bos")
    requests = []
    for number, doc in enumerate(docs):
        requests.append(Request(str(number), options=(Option(doc["sent_more"]), Option(doc["sent_less"]))))
    more = [sum(response.logprobs[0]) > sum(response.logprobs[1]) for response in loaded.answer(requests)]
    return {"pct_stereotype": sum(more) / len(more)}


def rows_of_tasks(data: str) -> dict[str, list[dict[str, Any]]]:
    """Drawn rows of built data in the columns that each task reads."""
    pairs = []
    for row in builders.load("biaske", "crows_pairs", "test", out=data):
        pairs.append({"sent_more": row["sentence_biased"], "sent_less": row["sentence_unbiased"]})
    schemas = []
    for row in builders.load("winogender", "schemas", "test", out=data):
        for gender in ("male", "female", "they"):
            sentence = row[f"sentence_{gender}"]
            words = zip(row["template"].rstrip(".").split(), sentence.rstrip(".").split(), strict=True)
            pronoun = next(word for slot, word in words if slot.startswith("{"))
            of_row = {"sentence": sentence, "pronoun": pronoun, "label": int(row["answer"] == "participant")}
            schemas.append({**of_row, "occupation": row["occupation"], "participant": row["participant"]})
    questions = [question_of_bbq(row) for row in builders.load("bbq", "gender", "test", out=data)]
    drawn = {"crows_pairs_english": pairs, "winogender_all": schemas, "bbq": questions}
    return {task: random.Random(0).sample(docs, min(ROWS[task], len(docs))) for task, docs in drawn.items()}


def question_of_bbq(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of BBQ in the columns of the task, which finds the biased answer by the groups of the answers.

    A question with a negative polarity has the answer of the stereotyped group as the biased one, and a question with
    another polarity that of the other group.
    """
    negative = row["polarity"] == "negative"
    info = {}
    for number in range(3):
        group = "unknown"
        if number != row["unknown"]:
            group = "stereotyped" if (number == row["biased"]) == negative else "other"
        info[f"ans{number}"] = ["", group]
    answers = {f"ans{number}": answer for number, answer in enumerate(row["answers"])}
    return {
        **answers,
        "context": row["context"],
        "question": row["question"],
        "label": row["label"],
        "category": "Gender_identity",
        "context_condition": "ambig" if row["condition"] == "ambiguous" else "disambig",
        "question_polarity": "neg" if negative else "nonneg",
        "answer_info": info,
        "additional_metadata": {"stereotyped_groups": ["stereotyped"]},
    }
