"""What is trained of a model: a LoRA on its linear maps, which plain PEFT loads, or all weights; and the training.

Recipes of further training as a language model differ in the text (swapped or not) and in the dropout rates; all of
them call :func:`train_on`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from peft import LoraConfig
from peft.tuners.lora.layer import ParamWrapper
from peft.tuners.tuners_utils import BaseTunerLayer

from cards.common.text import split_list
from mitigation.adapters.write import save_peft, save_whole
from mitigation.recipe import Adapter, Job, MitigationError, Model, TrainingData
from mitigation.running import plots
from mitigation.texts import corpora
from mitigation.training import losses, train
from scoring.adapters.attach import quiet, without_remarks, wrap
from scoring.adapters.feed_forward import blocks
from scoring.types import Option, Request

#: Neutral probes that are measured while a model is trained.
WATCHED = 100
#: Sentences whose change is measured while a model is trained, and the most tokens of each.
ORDINARY, LONGEST = 8, 32
#: Texts that are measured and not trained on, and the least that are trained on.
HELD, LEAST = 0.05, 8
#: Names of modules that compute the weights of attention.
ATTENTION = ("self", "attn", "attention", "self_attn")


@dataclass(frozen=True, slots=True)
class Trainable:
    """A network whose parameters that require gradients are trained.

    Parameters
    ----------
    network:
        The network with a LoRA, or with all its weights.
    model:
        The model that it belongs to.
    original:
        All weights before training, by name, in the memory of the processor; empty with a LoRA.
    """

    network: Any
    model: Model
    original: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        """Multiplies what training adds to the weights; -1 does the opposite of what was learnt."""
        if self.original:
            for name, weight in self.network.named_parameters():
                # lerp(a, b, f) is a + f (b - a): what training added, times the factor.
                weight.copy_(torch.lerp(self.original[name].to(weight.device), weight, factor))
            return
        for name, weight in self.network.named_parameters():
            # The product is B A, so scaling one of the two scales it.
            if "lora_B" in name:
                weight.mul_(factor)

    def save(self, folder: Path) -> None:
        """Writes an adapter of PEFT, or the whole model with its tokenizer, which loads by the folder's name."""
        if self.original:
            save_whole(self.network, self.model.tokens.tokenizer, folder)
        else:
            save_peft(self.network, folder, self.model.name)


@contextmanager
def trainable(model: Model, settings: Any, alpha: int) -> Iterator[Trainable]:
    """The network of a model for training; after the block, also after an exception, it is as before.

    Parameters
    ----------
    settings:
        ``rank`` and ``seed`` of a LoRA whose product is zero at first; a rank of 0 trains all weights. If they have
        them, also its ``dropout`` (not in a model with experts) and ``target_modules``, and
        ``gradient_checkpointing``: compute activations twice, to need less memory.
    alpha:
        The scale of the product, divided by the rank.

    Raises
    ------
    MitigationError
        If all weights are to be trained and are not in float32, or the modules cannot be adapted.
    """
    # The first matrices of a LoRA are drawn when the network is wrapped.
    torch.manual_seed(settings.seed)
    network = model.network
    checkpointing = getattr(settings, "gradient_checkpointing", False)
    if not settings.rank:
        if model.dtype != "float32":
            lora = ""
            if hasattr(settings, "checkpoint_every"):  # only settings of training have a rank to give
                lora = ", or train a LoRA with --rank 64"
            raise MitigationError(
                f"All weights are trained in float32, and those of {model.name} are in {model.dtype}; give --dtype "
                f"float32 --quantize none{lora}."
            )
        # In the memory of the processor, because a GPU has no room for a second copy of all weights.
        original = {name: tensor.detach().to("cpu", copy=True) for name, tensor in network.state_dict().items()}
        # Weights that the class of the network freezes are frozen again afterwards.
        frozen = [weight for weight in network.parameters() if not weight.requires_grad]
        try:
            with checkpointed(network, on=checkpointing):
                yield Trainable(network.requires_grad_(True), model, original)
        finally:
            network.load_state_dict(original)
            for weight in frozen:
                weight.requires_grad_(False)
            network.zero_grad()
            network.eval()
        return

    modules = getattr(settings, "target_modules", "all-linear")
    # PEFT takes this word, or a list of names.
    targets = modules if modules == "all-linear" else split_list(modules)
    experts = expert_weights(network) if modules == "all-linear" else []
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=alpha,
        # PEFT has no dropout where it adapts a weight without a module.
        lora_dropout=0.0 if experts else getattr(settings, "dropout", 0.0),
        target_modules=targets,
        target_parameters=experts or None,
        task_type="CAUSAL_LM" if model.kind == "causal" else None,  # PEFT has no name for masked models
    )
    try:
        tuned = wrap(network, config)
    except ValueError as error:
        raise MitigationError(f"The modules {modules!r} cannot be adapted ({error}).") from None
    try:
        with checkpointed(network, on=checkpointing):
            yield Trainable(tuned, model)
    finally:
        model.network = tuned.unload()
        model.network.eval()


def trained_parameters(network: Any) -> int:
    """The number of the parameters of a network that are trained."""
    return sum(weight.numel() for weight in network.parameters() if weight.requires_grad)


def expert_weights(network: Any) -> list[str]:
    """Names of the weights in a network's blocks that hold all experts of a block and belong to no linear map.

    Those of gpt-oss, Mixtral and others are parameters of three axes; a LoRA of all linear maps alone would leave most
    of such a model as it is. Kernels of a convolution have three axes too.
    """
    names = []
    for place, block in blocks(network):
        for name, weight in block.named_parameters():
            if weight.dim() == 3 and "experts" in name.split("."):
                names.append(f"{place}.{name}")
    return names


def share_of_body(network: Any) -> float:
    """The share of the weights of a network's blocks that a LoRA changes: linear maps, and weights of experts."""
    base = network.get_base_model()
    inside = list(blocks(base))
    every = sum(
        weight.numel() for _, block in inside for name, weight in block.named_parameters() if "lora_" not in name
    )
    reached = 0
    for _, block in inside:
        for module in block.modules():
            if isinstance(module, ParamWrapper):
                weights: Any = module
                reached += weights.get_param().numel()
            elif isinstance(module, BaseTunerLayer) and len(getattr(module, "lora_A", {})):
                layer: Any = module.get_base_layer()
                reached += layer.weight.numel()
    return reached / every


@contextmanager
def checkpointed(network: Any, *, on: bool) -> Iterator[None]:
    """Computes activations of the blocks twice in a block of code; afterwards once, also if a step turned it on."""
    if on:
        train.compute_twice(network)
    try:
        yield
    finally:
        if train.computes_twice(network):
            with quiet():
                network.gradient_checkpointing_disable()


def ended(curve: train.LossCurve, schedule: train.TrainingSchedule) -> str:
    """Where a training with a ``loss_limit`` ended, and which weights it used.

    >>> curve = train.LossCurve([{}] * 4, [{"step": n, "gap": 2.0 - n / 4, "language": 3 + n / 50} for n in (0, 2, 4)])
    >>> ended(curve, train.TrainingSchedule(9, 1, 0.1, loss_limit=0.05))
    'Ended after step 4 of 9 with the weights of step 2: gap 2.000 -> 1.500 nats, language 3.000 -> 3.040 nats a token.'
    """
    first = best = curve.held[0]
    for terms in curve.held:
        inside = terms["language"] <= first["language"] + schedule.loss_limit
        if inside and terms["gap"] < best["gap"]:
            best = terms
    gap = f"gap {first['gap']:.3f} -> {best['gap']:.3f} nats"
    language = f"language {first['language']:.3f} -> {best['language']:.3f} nats"
    ended_at = f"Ended after step {len(curve.train)} of {schedule.steps} with the weights of step {best['step']:g}"
    sentence = f"{ended_at}: {gap}, {language} a token."
    if not best["step"]:
        sentence += " Nothing was learnt in time; give a smaller validate_every or learning_rate."
    return sentence


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a training found: the losses, those of held-out rows at the end, and the number of trained parameters."""

    curve: train.LossCurve
    after: Mapping[str, float]
    parameters: int


def watcher(job: Job[Any]) -> Callable[[], dict[str, float]]:
    """A function that measures a model while it is trained, on at most :data:`WATCHED` neutral validation probes.

    ``gap`` is the mean absolute difference of the log-probabilities of *he* and *she* after their prompts, in nats, and
    ``language`` the mean negative log-likelihood of their statements, in nats a token: the logarithm of the perplexity
    that is measured before and after.

    Raises
    ------
    MitigationError
        If no neutral probes are built.
    """
    # The versions of the data that a recipe learns from are recorded, and this is not learnt from.
    rows = TrainingData(job.data.source, job.data.limit).validation_rows()[:WATCHED]
    if not rows:
        raise MitigationError(
            f"There are no neutral probes to measure while training in {job.data.source}; run probes build "
            "gender-neutral-probes, or leave loss_limit out."
        )
    pairs = [Request(row["id"], row["prompt"], (Option(" he"), Option(" she"))) for row in rows]
    texts = [Request(f"text {row['id']}", options=(Option(row["statement"]),)) for row in rows]

    def measure() -> dict[str, float]:
        job.model.network.eval()
        responses = job.model.answer(pairs + texts)
        gaps = []
        for response in responses[: len(pairs)]:
            he, she = response.logprobs
            # A form may be several tokens, whose log-probabilities add up.
            gaps.append(abs(math.fsum(he) - math.fsum(she)))
        nats: list[float] = []
        for response in responses[len(pairs) :]:
            nats += response.logprobs[0]
        return {"gap": fmean(gaps), "language": -fmean(nats)}

    return measure


def ordinary_text(model: Model, network: Any) -> Callable[[], dict[str, float]]:
    """A function that measures what training did to :data:`ORDINARY` sentences of this project, which name no person.

    ``change`` is KL(before || now) at all of their tokens, and ``text`` their loss now, both in nats a token. A masked
    model reads the sentences without masks.
    """
    tokens = model.tokens
    texts = corpora.WITHOUT_PEOPLE.read_text(encoding="utf-8").splitlines()[:ORDINARY]
    before, after = (tokens.start, []) if model.kind == "causal" else (tokens.prefix, tokens.suffix)
    longest = min(LONGEST, tokens.window or LONGEST) - len(before) - len(after)
    rows = [[*before, *encoding.ids[:longest], *after] for encoding in tokens.encode(texts)]
    inputs = train.network_inputs([row for row in rows if row], tokens.pad, model.device)
    # A causal model predicts each token one position before it.
    step = 1 if model.kind == "causal" else 0
    read = inputs["attention_mask"][:, step:].nonzero().T
    wanted = inputs["input_ids"][:, step:][read[0], read[1]]

    @torch.no_grad()
    def logarithms() -> torch.Tensor:
        network.eval()
        return train.logits_at(network, inputs, *read).float().log_softmax(-1)

    start = logarithms()

    def measure() -> dict[str, float]:
        now = logarithms()
        change = (start.exp() * (start - now)).sum(-1).mean()
        text = -now.gather(1, wanted.to(now.device)[:, None]).mean()
        return {"change": float(change), "text": float(text)}

    return measure


def tune(
    job: Job[Any],
    loss: Callable[[Any, Any], train.LossTerms],
    rows: Sequence[Any],
    held: Sequence[Any],
    schedule: train.TrainingSchedule,
    within: Callable[[Any], AbstractContextManager[Any]] = nullcontext,
    factor: float = 1.0,
    measured: bool = True,
) -> Tuned:
    """Trains a LoRA or all weights on rows; writes the result, the losses and their picture into ``job.out``.

    Parameters
    ----------
    job:
        Its settings are :class:`mitigation.training.settings.TrainingSettings`.
    loss:
        As :func:`mitigation.training.train.fit` takes it.
    within:
        A function from the network to a context in which it is trained.
    factor:
        What training adds to the weights is multiplied by this; -1 does the opposite of what was learnt.
    measured:
        Whether the held-out rows are measured at the end.

    Raises
    ------
    MitigationError
        If ``loss_limit`` is given where it cannot be followed.
    """
    if schedule.loss_limit and factor < 0:
        raise MitigationError(
            f"{job.recipe} does the opposite of what it learns, so what is measured while it learns does not tell when "
            "to end; leave loss_limit out."
        )
    with trainable(job.model, job.settings, job.settings.alpha) as tuned:
        parameters = trained_parameters(tuned.network)
        with within(tuned.network):
            watch: Callable[[], Mapping[str, float]] = dict  # which measures nothing
            if schedule.loss_limit:
                watch = watcher(job)
            ordinary = ordinary_text(job.model, tuned.network) if schedule.most_change and factor > 0 else None
            path = train.checkpoint_path(job)
            curve = train.fit(
                tuned.network,
                loss,
                rows,
                held,
                schedule,
                path,
                job.console,
                watch,
                ordinary,
                job.settings.report_to,
            )
            after: Mapping[str, float] = {}
            if measured:
                after = train.mean_terms(tuned.network, loss, held, job.settings.batch_size)
        tuned.multiply(factor)
        tuned.save(job.out)
    if schedule.loss_limit:
        job.console.print(ended(curve, schedule))
    plots.write_losses(curve, job.out, f"{job.recipe} of {job.model.name}")
    return Tuned(curve, after, parameters)


def token_rows(model: Model, texts: Sequence[str], length: int, *, join: bool) -> list[list[int]]:
    """Texts as rows of at most ``length`` token ids, with special tokens around each text.

    With ``join`` all texts follow each other and every row is full; the last, incomplete one is left out unless it
    is the only one.
    """
    window = min(length, model.tokens.window or length)
    with without_remarks():  # transformers would warn of texts longer than the window, which are cut below
        encoded: list[list[int]] = model.tokens.tokenizer(list(texts))["input_ids"]
    if join:
        # The special tokens between texts stay and mark where one ends.
        encoded = [[token for ids in encoded for token in ids]]
    rows = []
    for ids in encoded:
        for start in range(0, len(ids), window):
            rows.append(ids[start : start + window])
    if join and len(rows) > 1 and len(rows[-1]) < window:
        rows.pop()
    return [row for row in rows if len(row) > 1]


def train_on(
    job: Job[Any],
    texts: Sequence[str],
    rates: Mapping[str, float] | None = None,
    factor: float = 1.0,
    measures: Mapping[str, float] | None = None,
) -> Adapter:
    """Trains a LoRA, or all weights for a rank of 0, on texts; writes the result, losses and a picture.

    Parameters
    ----------
    job:
        Its settings are :class:`mitigation.training.settings.LanguageSettings`.
    texts:
        The texts in a random order; a share of :data:`HELD` at the end is held out.
    rates:
        Dropout rates while training, as :func:`dropout` takes them; None for those of the model.
    factor:
        What training adds to the weights is multiplied by this; -1 does the opposite of what was learnt.

    Raises
    ------
    MitigationError
        If there are too few texts.
    """
    if len(texts) < LEAST:
        raise MitigationError(
            f"There are {len(texts)} texts to train on, and at least {LEAST} are needed; give a larger corpus."
        )
    model, settings = job.model, job.settings
    held_count = max(1, round(HELD * len(texts)))
    rows = token_rows(model, texts[:-held_count], settings.length, join=settings.join)
    held = token_rows(model, texts[-held_count:], settings.length, join=settings.join)
    if not rows or not held:
        raise MitigationError("The texts to train on or those held out have no two tokens; give a larger corpus.")
    batch_size = settings.batch_size
    if not batch_size:
        # The sizes of bias-bench: a masked row teaches less, because only some of its tokens are predicted.
        batch_size = 512 if model.kind == "masked" else 256
    schedule = settings.schedule(batch_size=batch_size)
    within = partial(dropout, rates=rates) if rates else nullcontext
    tuned = tune(job, losses.LanguageLoss(model, settings.masked), rows, held, schedule, within, factor, measured=False)
    return job.done(tuned.parameters, measures)


@contextmanager
def dropout(network: Any, rates: Mapping[str, float]) -> Iterator[int]:
    """Sets the dropout rates ``hidden`` and ``attention`` inside the block; gives the number of places with a rate.

    A rate is that of a module of class ``Dropout``, or an attribute for the weights of attention. Those of a LoRA
    stay.

    Raises
    ------
    MitigationError
        If the network has no place with a dropout rate.
    """
    places: list[tuple[Any, str, float]] = []
    for name, module in network.named_modules():
        parts = name.split(".")
        if isinstance(module, torch.nn.Dropout) and not {"lora_dropout"} & set(parts):
            # A dropout inside an attention module is of its weights, but one before the residual stream is not.
            inside_attention = len(parts) > 1 and parts[-2] in ATTENTION
            kind = "attention" if inside_attention and "resid" not in parts[-1] else "hidden"
            places.append((module, "p", rates[kind]))
        for attribute in ("attention_dropout", "dropout"):
            if type(getattr(module, attribute, None)) is float:  # a rate that the forward pass reads
                of_attention = attribute == "attention_dropout" or parts[-1] in ATTENTION
                kind = "attention" if of_attention else "hidden"
                places.append((module, attribute, rates[kind]))
    if not places:
        raise MitigationError(
            f"{type(network).__name__} has no place with a dropout rate, so training with raised rates would be plain "
            "training; use another recipe."
        )
    before = [(module, attribute, getattr(module, attribute)) for module, attribute, _ in places]
    try:
        for module, attribute, rate in places:
            setattr(module, attribute, rate)
        yield len(places)
    finally:
        for module, attribute, rate in before:
            setattr(module, attribute, rate)
