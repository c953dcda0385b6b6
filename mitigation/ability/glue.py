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
    place = folder / "runs" / _folder_name(models)
    keys = {(d.task.name, seed): run_key(models, d, settings, seed) for d in data for seed in range(settings.seeds)}
    paths = {run: place / f"{run[0]}-seed-{run[1]}.json" for run in keys}
    results = {run: _stored(paths[run], key_digest(key)) for run, key in keys.items()}
    # Runs of an interrupted measurement are read, the others are made.
    by_name = {d.task.name: d for d in data}
    missing = [run for run, metrics in results.items() if metrics is None]
    # The bar is of all fine-tunings, and so is its estimate of the remaining time.
    with progress_bar("fine-tuning", sum(settings.steps(by_name[name]) for name, _ in missing), console) as update:
        for name, seed in missing:
            start = time.perf_counter()
            update(description=f"fine-tuning, {models.name or 'base'}, {name}")
            metrics = fine_tune(models, by_name[name], settings, seed, partial(update, advance=1))
            content = {
                "key": key_digest(keys[name, seed]),
                "response key": shown_key(keys[name, seed]),
                "model": models.options.model,
                "adapter": models.name,
                "task": name,
                "seed": seed,
                "scores": metrics,
                "seconds": round(time.perf_counter() - start, 1),
            }
            RUN.write(paths[name, seed], content)
            results[name, seed] = metrics
    return {run: metrics for run, metrics in results.items() if metrics is not None}


def _folder_name(models: Classifiers) -> str:
    if not models.name:
        return "base"
    return f"{models.name}-{hashlib.sha256(models.digest.encode()).hexdigest()[:8]}"


def run_key(models: Classifiers, data: TaskData, settings: GlueSettings, seed: int) -> dict[str, Any]:
    """What a run depends on (:func:`cards.common.answer_key.answer_key`); the number of seeds is not among it."""
    how = asdict(settings)
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
        return scores if content["key"] == key else None

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
    """Examples as token ids with their labels; token types only for masked models, whose pairs they tell apart."""
    columns = [list(column) for column in zip(*(texts for texts, _ in examples), strict=True)]
    # Causal networks take no segments, which some tokenizers give.
    types = None if models.kind == "masked" else False
    encoded = models.tokenizer(*columns, truncation=True, max_length=length, return_token_type_ids=types)
    labels = [label if classes == 1 else int(label) for _, label in examples]
    return [{**{name: encoded[name][n] for name in encoded}, "labels": label} for n, label in enumerate(labels)]


def by_seed(runs: Runs) -> dict[str, list[float]]:
    """The scores of the seeds by task, and their mean over the tasks as ``average``; a score is the first metric.

    >>> by_seed({("rte", 0): {"accuracy": 50.0}, ("mrpc", 0): {"f1": 70.0, "accuracy": 60.0}})
    {'rte': [50.0], 'mrpc': [70.0], 'average': [60.0]}
    """
    scores: dict[str, list[float]] = {}
    for (name, _), metrics in runs.items():
        scores.setdefault(name, []).append(next(iter(metrics.values())))
    return {**scores, AVERAGE: [float(np.mean(values)) for values in zip(*scores.values(), strict=True)]}


def with_interval(values: Sequence[float]) -> Numbers:
    """The mean over seeds with its 95 % interval, of Student's t; without ends for one seed.

    The interval has the chance of fine-tuning in it, and not that of the examples, which are the same ones.

    >>> [round(number, 2) for number in with_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return mean, math.nan, math.nan
    half = student(count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return mean, mean - half, mean + half


def changes(before: Runs, after: Runs) -> tuple[Change, ...]:
    """The change of each task and of the average; differences are paired by seed, and ``n`` is the number of seeds."""
    old, new = by_seed(before), by_seed(after)
    made = []
    for name in old:
        one, other, difference = map(with_interval, (old[name], new[name], np.subtract(new[name], old[name]).tolist()))
        made.append(Change(BENCHMARK, name, METRIC, one, other, difference, len(old[name])))
    return tuple(made)


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
    if adapted and adapted.effect is Effect.HEAD:
        show(console, [adapted.effect])
        return before, before
    return before, measure(adapted, data, settings, folder, console) if adapted else None


def facts(runs: Runs) -> dict[str, Any]:
    """The scores of runs for a results file: of each seed, with mean, standard deviation and interval by task."""
    scores = by_seed(runs)
    names = [name for name in scores if name != AVERAGE]
    seeds = {name: [dict(metrics) for (task, _), metrics in runs.items() if task == name] for name in names}
    return {
        name: {
            "scores": values,
            "mean": float(np.mean(values)),
            "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "interval": None if len(values) < 2 else list(with_interval(values)[1:]),
            **({"metrics": seeds[name]} if name in seeds else {}),
        }
        for name, values in scores.items()
    }
