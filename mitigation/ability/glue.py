"""GLUE before and after: a head for classes is fine-tuned on the unchanged and on the mitigated model.

Settings are those of bias-bench (Meade et al., 2022): the whole model is trained with a learning rate of 2e-5 for 3
epochs in batches of 32, texts are cut after 128 tokens, and there are 3 seeds. A seed decides on the new head, the
order of the examples and dropout, alike before and after.

Each fine-tuning is a file in ``runs`` below the folder, and none is repeated: an interrupted measurement goes on, and
all adapters that are measured in one folder share the runs of the unchanged model.
"""

import hashlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from cards.common.answer_key import answer_key, key_digest, shown_key
from cards.common.stored import Stored, number
from cards.common.terminal import show
from cards.common.text import without_home
from mitigation.ability.classifier import Classifiers, Effect
from mitigation.ability.tasks import Example, GlueSettings, TaskData, scores
from mitigation.errors import MitigationError
from mitigation.training.train import progress_bar
from scoring.adapters.facts import Change, Numbers
from scoring.statistics.intervals import student

#: The benchmark and the metric of the changes, and the group of the mean over the tasks.
BENCHMARK, METRIC, AVERAGE = "glue", "score", "average"
RUN = Stored("a run of GLUE", "move it away, and the run is made again")


#: The metrics of each fine-tuning, by task and seed.
Runs = Mapping[tuple[str, int], Mapping[str, float]]


def measure(
    models: Classifiers, data: Sequence[TaskData], settings: GlueSettings, folder: Path, console: Console
) -> Runs:
    """Fine-tunes a model on each task with each seed, unless the folder has the run, and returns all scores.

    Raises
    ------
    MitigationError
        If a fine-tuning diverges, or a file in the folder is no run of GLUE.
    """
    folder_of_runs = folder / "runs" / _folder_name(models)
    results: dict[tuple[str, int], Mapping[str, float]] = {}
    missing: list[tuple[TaskData, int, Path, dict[str, Any]]] = []
    steps = 0
    # Runs of an interrupted measurement are read, the others are made.
    for task_data in data:
        name = task_data.task.name
        for seed in range(settings.seeds):
            path = folder_of_runs / f"{name}-seed-{seed}.json"
            key = run_key(models, task_data, settings, seed)
            # Scores are in the order of tasks and seeds, whichever of them are made now.
            metrics = _stored(path, key_digest(key))
            if metrics is None:
                missing.append((task_data, seed, path, key))
                steps += settings.steps(task_data)
            results[name, seed] = metrics or {}
    # The bar is of all fine-tunings, and so is its estimate of the remaining time.
    with progress_bar("fine-tuning", steps, console) as update:
        for task_data, seed, path, key in missing:
            name = task_data.task.name
            start = time.perf_counter()
            update(description=f"fine-tuning, {models.name or 'base'}, {name}")
            metrics = fine_tune(models, task_data, settings, seed, partial(update, advance=1))
            content = {
                "key": key_digest(key),
                "response key": shown_key(key),
                "model": models.options.model,
                "adapter": models.name,
                "task": name,
                "seed": seed,
                "scores": metrics,
                "seconds": round(time.perf_counter() - start, 1),
            }
            RUN.write(path, content)
            results[name, seed] = metrics
    return results


def _folder_name(models: Classifiers) -> str:
    if not models.name:
        return "base"
    return f"{models.name}-{hashlib.sha256(models.digest.encode()).hexdigest()[:8]}"


def run_key(models: Classifiers, data: TaskData, settings: GlueSettings, seed: int) -> dict[str, Any]:
    """What a run depends on (:func:`cards.common.answer_key.answer_key`); the number of seeds is not among it."""
    how = asdict(settings)
    # A fourth seed leaves the runs of the first three as they are.
    del how["seeds"]
    return answer_key(
        without_home(models.options.model),
        weights=models.revision,
        files=models.files,
        adapter=models.digest,
        effect=str(models.effect),
        task=data.task.name,
        data=data.digest,
        seed=seed,
        **how,
    )


def _stored(path: Path, key: str) -> dict[str, float] | None:
    """The scores in the file of a run; None if there is no file, or it is of another model, data or settings."""

    def scores_of(content: dict[str, Any]) -> dict[str, float] | None:
        scores = {name: number(value) for name, value in content["scores"].items()}
        if content["key"] != key:
            return None
        return scores

    return RUN.read(path, scores_of, MitigationError)


def fine_tune(
    models: Classifiers, data: TaskData, settings: GlueSettings, seed: int, advance: Callable[[], None]
) -> dict[str, float]:
    """The scores of one fine-tuned model on the validation split; ``advance`` is called after each step.

    Raises
    ------
    MitigationError
        If the outputs of the fine-tuned model are not finite.
    """
    import transformers

    class Advance(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            advance()

    network = models.make(data.task.classes, seed)
    # Positions after the window of a model have no embedding.
    length = min(settings.length, models.window or settings.length)
    with tempfile.TemporaryDirectory() as temporary:
        arguments = transformers.TrainingArguments(
            output_dir=temporary,
            learning_rate=settings.learning_rate,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch_size,
            per_device_eval_batch_size=settings.batch_size,
            optim="adamw_torch",
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=models.device.type == "cpu",
            dataloader_pin_memory=models.device.type != "cpu",
        )
        # With several GPUs the Trainer would take a batch for each, and the steps would be others.
        arguments._n_gpu = min(arguments.n_gpu, 1)
        trainer = transformers.Trainer(
            network,
            arguments,
            data_collator=transformers.DataCollatorWithPadding(models.tokenizer),
            train_dataset=_encoded(models, data.train, length, data.task.classes),
            callbacks=[Advance()],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        outputs = trainer.predict(_encoded(models, data.validation, length, data.task.classes)).predictions
    # Some heads also give hidden states; the logits come first.
    values = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs, dtype=np.float64)
    if not np.isfinite(values).all():
        raise MitigationError(
            f"The fine-tuning on {data.task.name} with seed {seed} ended in NaN or infinity; lower the learning rate."
        )
    return scores(data.task, np.array([label for _, label in data.validation]), values)


def _encoded(models: Classifiers, examples: Sequence[Example], length: int, classes: int) -> Any:
    """Examples as token ids with their labels; only masked models get token types, which mark the second text."""
    texts = [list(column) for column in zip(*(texts for texts, _ in examples), strict=True)]
    # Causal networks take no segments, which some tokenizers give; None leaves the choice to the tokenizer.
    types = None if models.kind == "masked" else False
    # One text or two: an example has as many as its task.
    encoded = models.tokenizer(*texts, truncation=True, max_length=length, return_token_type_ids=types)
    rows = []
    for number_of_example, (_, label) in enumerate(examples):
        row: dict[str, Any] = {name: encoded[name][number_of_example] for name in encoded}
        # A regression has values as labels, and a classification numbers of classes.
        row["labels"] = label if classes == 1 else int(label)
        rows.append(row)
    return rows


def by_seed(runs: Runs) -> dict[str, list[float]]:
    """The scores of the seeds by task, and their mean over the tasks as ``average``; a score is the first metric.

    >>> by_seed({("rte", 0): {"accuracy": 50.0}, ("mrpc", 0): {"f1": 70.0, "accuracy": 60.0}})
    {'rte': [50.0], 'mrpc': [70.0], 'average': [60.0]}
    """
    scores: dict[str, list[float]] = {}
    for (name, _), metrics in runs.items():
        # The first metric of a task is the score that bias-bench reports.
        scores.setdefault(name, []).append(next(iter(metrics.values())))
    averages = [float(np.mean(values)) for values in zip(*scores.values(), strict=True)]
    return scores | {AVERAGE: averages}


def with_interval(values: Sequence[float]) -> Numbers:
    """The mean over seeds with its 95 % interval, of Student's t; without ends for one seed.

    The interval has the chance of fine-tuning in it, and not that of the examples, which are the same ones.

    >>> [round(number, 2) for number in with_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return mean, math.nan, math.nan
    # Student's t, because there are three seeds and their spread is estimated.
    half = student(count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return mean, mean - half, mean + half


def changes(before: Runs, after: Runs) -> tuple[Change, ...]:
    """The change of each task and of the average; differences are paired by seed, and ``n`` is the number of seeds."""
    old, new = by_seed(before), by_seed(after)
    changes = []
    for name in old:
        difference = with_interval(np.subtract(new[name], old[name]).tolist())
        changes.append(
            Change(
                BENCHMARK,
                name,
                METRIC,
                with_interval(old[name]),
                with_interval(new[name]),
                difference,
                len(old[name]),
            )
        )
    return tuple(changes)


def compare(
    base: Classifiers,
    adapted: Classifiers | None,
    data: Sequence[TaskData],
    settings: GlueSettings,
    folder: Path,
    console: Console,
) -> tuple[Runs, Runs | None]:
    """The runs of a model in a folder, without and with an adapter; None without one.

    For an adapter that GLUE does not see, the runs with it are those without, and this is said.
    """
    before = measure(base, data, settings, folder, console)
    if adapted is None:
        return before, None
    if adapted.effect is Effect.HEAD:
        show(console, [adapted.effect])
        return before, before
    return before, measure(adapted, data, settings, folder, console)


def facts(runs: Runs) -> dict[str, Any]:
    """The scores of runs for a results file: of each seed, with mean, standard deviation and interval by task."""
    scores = by_seed(runs)
    content: dict[str, Any] = {}
    for name, values in scores.items():
        facts_of_task: dict[str, Any] = {
            "scores": values,
            "mean": float(np.mean(values)),
            "sd": None,
            "interval": None,
        }
        if len(values) > 1:
            facts_of_task["sd"] = float(np.std(values, ddof=1))
            facts_of_task["interval"] = list(with_interval(values)[1:])
        if name != AVERAGE:
            facts_of_task["metrics"] = [dict(metrics) for (task, _), metrics in runs.items() if task == name]
        content[name] = facts_of_task
    return content
