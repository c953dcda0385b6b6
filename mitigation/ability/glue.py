"""GLUE before and after: a head for classes is fine-tuned on the unchanged and on the mitigated model.

Settings are those of bias-bench (Meade et al., 2022): the whole model is trained with a learning rate of 2e-5 for 3
epochs in batches of 32, texts are cut after 128 tokens, and there are 3 seeds. A seed decides on the new head, the
order of the examples and dropout, alike before and after.

The network is the model with a head for classes in place of its vocabulary head. An adapter of the language model stays
active while the network is fine-tuned: its weights are kept, and those of the model are trained. For a LoRA this is the
same as merging it first. A projection of the last hidden state, which is a LoRA on the map that reads that state, is
put before the new head instead, as bias-bench does for INLP and SentenceDebias.

Each fine-tuning is a file in ``runs`` below the folder, and none is repeated: an interrupted measurement goes on, and
all adapters that are measured in one folder share the runs of the unchanged model.
"""

import copy
import hashlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from peft.tuners.tuners_utils import BaseTunerLayer

from cards.common import answer_key, stored, terminal, text
from mitigation.ability.tasks import Example, GlueSettings, TaskData, scores
from mitigation.adapters.temporary import whole_network
from mitigation.projections.states import reading_map
from mitigation.recipe import Console, MitigationError, Model
from mitigation.training.train import progress_bar
from scoring.adapters import attach
from scoring.adapters.facts import PROMPT, Change, Numbers, digests, is_whole_model
from scoring.inference import fetching, load_options
from scoring.statistics.intervals import student

#: The benchmark and the metric of the changes, and the group of the mean over the tasks.
BENCHMARK, METRIC, AVERAGE = "glue", "score", "average"
RUN = stored.Stored("a run of GLUE", "move it away, and the run is made again")
#: The relative difference up to which a change of the head's outputs is that of a change of its input.
_SAME = 1e-4


class Effect(StrEnum):
    """Where an adapter is in a model with a new head; the values are sentences for results."""

    NONE = "There is no adapter."
    WHOLE = "The trained model is fine-tuned in place of the unchanged one."
    INSIDE = "The adapter is active while the model is fine-tuned; its own weights are not trained."
    PROJECTION = "The adapter is a projection of the last hidden state, and is applied before the new head."
    HEAD = "The adapter changes only the vocabulary head, which GLUE replaces, so GLUE is unchanged by construction."


@dataclass(frozen=True, slots=True)
class StateChange:
    """The change h + left (right h) + shift of a hidden state h; [width, rank], [rank, width] and [width]."""

    left: torch.Tensor
    right: torch.Tensor
    shift: torch.Tensor

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [..., width] after the change."""
        left, right, shift = (part.to(hidden) for part in (self.left, self.right, self.shift))
        return hidden + hidden @ right.T @ left.T + shift


class Classifiers:
    """Makes models with a new head from a language model and at most one adapter.

    Parameters
    ----------
    options:
        How to load the language model, without its adapter.
    adapter:
        The folder of an adapter, or None.

    Attributes
    ----------
    name, digest:
        The name of the adapter and a digest of its files, without its facts; empty without an adapter.
    files:
        The digest of all files of the model and its tokenizer.
    effect:
        Where the adapter is.
    tokenizer, window:
        For texts of the language model.

    Raises
    ------
    MitigationError
        For a prompt, which changes no weights.
    AdapterError
        For an adapter that does not fit the model.
    """

    def __init__(self, options: load_options.LoadOptions, adapter: Path | None = None) -> None:
        if adapter and (adapter / PROMPT).is_file():
            raise MitigationError(
                f"{adapter} is a prompt, and GLUE fine-tunes weights, which a prompt does not change; its GLUE is that "
                "of the model without it."
            )
        self.options = options
        self.name = adapter.resolve().name if adapter else ""
        self.digest = str(sorted(digests(adapter).items())) if adapter else ""
        self.effect = Effect.NONE
        self._inside: Any = None
        self._projection: StateChange | None = None
        model = self.load()
        self.kind, self.revision, self.device = model.kind, model.revision, model.device
        self.files = model.files
        self.tokenizer, self.window = _tokenizer(model), model.tokens.window
        if adapter:
            self._attach(model, adapter)

    def load(self) -> Model:
        """The language model without adapter, in float32."""
        return replace(self.options, dtype="float32").load()

    def _attach(self, model: Model, adapter: Path) -> None:

        if is_whole_model(adapter):
            # A whole model has no adapter that could be attached.
            self.effect, self._inside = Effect.WHOLE, whole_network(model, adapter).base_model
            return
        # Its name is needed below to distinguish a projection from a change of the head.
        reader = _reading_map(model)  # before a layer is inserted
        adapted = attach.attach(model.network, adapter, base=model.name, revision=model.revision, content=model.content)
        network = adapted.get_base_model()
        changed = [name for name, module in network.named_modules() if isinstance(module, BaseTunerLayer)]
        if any(name.startswith(f"{network.base_model_prefix}.") for name in changed):
            self.effect, self._inside = Effect.INSIDE, network.base_model
            return
        self._projection = _projection(network.get_submodule(changed[0])) if changed == [reader] else None
        self.effect = Effect.PROJECTION if self._projection else Effect.HEAD

    def make(self, classes: int, seed: int) -> Any:
        """The network with a new head of ``classes`` outputs; the same seed gives the same head."""
        options, name = self.options, str(load_options.BUNDLED.get(self.options.model, self.options.model))
        code = {"trust_remote_code": options.trust_remote_code}
        folder = fetching.fetched(name, options.revision, None)
        kind = "regression" if classes == 1 else "single_label_classification"
        auto: Any = transformers.AutoModelForSequenceClassification
        # The new head is drawn when the network is made.
        transformers.set_seed(seed)
        try:
            with attach.without_remarks():
                network = auto.from_pretrained(
                    folder,
                    num_labels=classes,
                    problem_type=kind,
                    pad_token_id=self.tokenizer.pad_token_id,
                    dtype=torch.float32,
                    use_safetensors=not options.allow_pickle or None,
                    **code,
                )
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            raise MitigationError(
                f"{options.model} has no form with a head for classes in transformers "
                f"({fetching.first_sentence(error)}); give another model."
            ) from None
        if self._inside is not None:
            _put_inside(network, copy.deepcopy(self._inside))
        if self._projection is not None:
            _project(network, self._projection)
        return network.to(self.device)


def _tokenizer(model: Model) -> Any:
    """A copy of the tokenizer that pads on the right, with a token for it."""
    # A copy, because the model is scored with its own padding.
    tokenizer = copy.deepcopy(model.tokens.tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(model.tokens.pad)
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def _reading_map(model: Model) -> str:
    """The name of the map that reads the last hidden state; empty where there is not exactly one."""
    try:
        return reading_map(model)[0]
    except MitigationError:
        return ""


def _projection(layer: Any) -> StateChange | None:
    """The change of a map's input that has the effect of the LoRA on it; None if there is none.

    The map computes W h + b, and the LoRA adds B A h + c. With B = W L and c = W s that is the map of h + L A h + s.
    """
    (name,) = layer.active_adapters
    if name not in getattr(layer, "lora_A", ()) or name in getattr(layer, "lora_variant", ()):
        return None  # another method, or a variant with more than B A
    b = layer.lora_B[name]
    weight = layer.get_base_layer().weight.detach().double().cpu()
    down = b.weight.detach().double().cpu() * layer.scaling[name]
    bias = torch.zeros(len(down)) if b.bias is None else b.bias.detach().cpu() * layer.scaling[name]
    # Both equations have the same left side, so the bias is one more column.
    wanted = torch.cat([down, bias.double()[:, None]], dim=1)
    # The least-squares solution of W L = B, which is exact where the LoRA is a projection.
    solution = torch.linalg.lstsq(weight, wanted, driver="gelsd").solution
    if torch.linalg.norm(weight @ solution - wanted) > _SAME * torch.linalg.norm(wanted):
        return None
    return StateChange(solution[:, :-1], layer.lora_A[name].weight.detach(), solution[:, -1])


def _put_inside(network: Any, inside: Any) -> None:
    """Puts the body of a language model, with its adapter, in place of the network's own.

    What only the network's own body has, such as the pooler of BERT, is kept.
    """
    for name, child in network.base_model.named_children():
        if getattr(inside, name, None) is None:
            setattr(inside, name, child)
    # transformers finds the body of a network under this name.
    setattr(network, network.base_model_prefix, inside)
    layers: list[Any] = [module for module in inside.modules() if isinstance(module, BaseTunerLayer)]
    network.requires_grad_(True)
    for layer in layers:
        layer.requires_grad_(False)
        for part in layer.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0  # of the training of the adapter
    for layer in layers:
        layer.get_base_layer().requires_grad_(True)


def _project(network: Any, projection: StateChange) -> None:
    """Changes the last hidden state wherever it is read: by a pooler, and after the body."""
    pooler = getattr(network.base_model, "pooler", None)
    if pooler is not None:
        pooler.register_forward_pre_hook(lambda _, given: (projection(given[0]), *given[1:]))

    def change(_: Any, __: Any, output: Any) -> Any:
        output.last_hidden_state = projection(output.last_hidden_state)
        return output

    network.base_model.register_forward_hook(change)


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
            metrics = _stored(path, answer_key.key_digest(key))
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
                "key": answer_key.key_digest(key),
                "response key": answer_key.shown_key(key),
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
    return answer_key.answer_key(
        text.without_home(models.options.model),
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
        scores = {name: stored.number(value) for name, value in content["scores"].items()}
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
    texts_of_examples = [texts for texts, _ in examples]
    texts = [list(column) for column in zip(*texts_of_examples, strict=True)]
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
        terminal.show(console, [adapted.effect])
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
