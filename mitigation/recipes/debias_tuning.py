"""Debias tuning: LoRA, on weights in 4 bits where available, trained to give both genders the same probability.

Source: *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), section 5. Only the next-token
distribution after ``My friend …, and`` is trained. The published losses are lowest if no gendered form has
any probability, and a model reaches that by writing about something else. ``clean`` therefore leaves out
L_g, which asks for it, and adds retention: at every position of the prompts, the total probability of all
forms and the probability of each other token stay as in the base model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cards.text import split_list
from mitigation.adapters.write import describe, save_peft
from mitigation.errors import MitigationError
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData, load_prompts, load_test_splits, shared_rows, training_prompts
from scoring.adapters.facts import Adapter
from scoring.types import Request

if TYPE_CHECKING:
    import torch

    from mitigation.training.losses import FormTokens
    from mitigation.training.train import LossTerms, TokenRows, TrainingSchedule
    from scoring.inference.model import Model

#: What is said of training rows that are in a test split.
LEAKED = "{} of the training rows are in a test split, so scores on the neutral probes tell nothing of new text."
_PAPER = "Dong et al. 2024"
_RUN = "names of the published runs"
_OPEN = "not in the paper"


@dataclass(frozen=True, slots=True)
class DebiasTuningSettings:
    """How to tune. A loss with weight 0 is left out, as in the ablations of Table 3."""

    rank: int = setting(64, "Rank of the two LoRA matrices of each linear map.", _PAPER)
    alpha: int = setting(16, "Scale of their product, divided by the rank.", _PAPER)
    dropout: float = setting(0.1, "Share of the inputs of the matrices that training drops.", _PAPER)
    target_modules: str = setting("all-linear", "Linear maps to adapt: all-linear, or names with commas.", _OPEN)
    learning_rate: float = setting(2e-4, "Learning rate of AdamW.", _PAPER)
    warmup: float = setting(0.03, "Share of the steps in which the rate rises; it falls linearly after.", _OPEN)
    steps: int = setting(500, "Training steps.", _PAPER)
    batch_size: int = setting(16, "Prompts per step.", _PAPER)
    max_length: int = setting(512, "Maximum tokens of a prompt.", _PAPER)
    l_d: float = setting(1.0, "Weight of L_d, the divergence of paired forms.", _RUN)
    l_g: float = setting(1.0, "Weight of L_g, the probability of gendered forms.", _RUN)
    l_l: float = setting(1.0, "Weight of L_l, the difference of the genders by their sum.", _RUN)
    l_d_within: bool = setting(False, "L_d compares the shares of forms within each gender.", "fits the printed ADD")
    epsilon: float = setting(1e-8, "Added where a loss divides or takes a logarithm.", _OPEN)
    retention: float = setting(0.0, "Weight of the divergence from the base model.", "this project")
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes to train on, with commas.", _PAPER)
    leaked: bool = setting(False, "Train also on rows of test splits, to reproduce published training.", "this project")
    seed: int = setting(42, "Of the order of rows, the start of the matrices, and dropout.", _PAPER)
    validate_every: int = setting(50, "Steps between validations.", _OPEN)
    validation: int = setting(256, "Maximum prompts of a validation.", _OPEN)
    patience: int = setting(0, "Validations without improvement that end training; 0 never does.", _OPEN)
    checkpoint_every: int = setting(50, "Steps between checkpoints.", _OPEN)
    gradient_checkpointing: bool = setting(False, "Compute activations twice, to need less memory.", _OPEN)
    mixed_precision: str = setting("auto", "Mixed precision: no, bf16, or auto for bf16 on a GPU that has it.", _PAPER)

    def __post_init__(self) -> None:
        counts = ("rank", "alpha", "steps", "batch_size", "max_length", "validate_every", "validation")
        check_ranges(
            self,
            positive=(*counts, "checkpoint_every", "learning_rate", "epsilon"),
            not_negative=("l_d", "l_g", "l_l", "retention", "patience"),
            share=("dropout", "warmup"),
        )
        if not self.l_d + self.l_g + self.l_l:
            raise MitigationError("All three losses are switched off; give l_d, l_g or l_l a weight above 0.")
        if self.mixed_precision not in ("auto", "no", "bf16"):
            raise MitigationError(f"The setting mixed_precision is {self.mixed_precision!r}; give auto, no or bf16.")


def run(model: Model, settings: DebiasTuningSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Tunes, and writes the adapter, its losses and their picture into ``out``."""
    from mitigation.cost import CostMeter, trained_parameters
    from mitigation.plots import write_losses
    from mitigation.training import losses, train
    from mitigation.training.checkpoints import checkpoint_path

    forms = losses.form_tokens(model.tokens, model.name)
    corpora = split_list(settings.corpora)
    prompts = training_prompts(data, corpora, leaked=settings.leaked)
    leaked = shared_rows(prompts, load_test_splits(data.source)) if settings.leaked else {}
    if leaked:
        console.print(LEAKED.format(len(leaked)))
    rows = encode_prompts(model, prompts, settings.max_length)
    held = encode_prompts(model, load_prompts(data, corpora, "validation")[: settings.validation], settings.max_length)
    meter, tuned = CostMeter(model), add_lora(model, settings)
    try:
        trained = trained_parameters(tuned)
        loss = DebiasLoss(tuned, model.tokens.pad, forms, settings)
        checkpoint = checkpoint_path("training", model, settings, data, out)
        schedule = training_schedule(settings, model.device)
        curve = train.fit(tuned, loss, rows, held, schedule, checkpoint, console)
        save_peft(tuned, out, model.name)
    finally:
        model.network = remove_lora(tuned, settings)
    write_losses(curve, out, f"debias_tuning of {model.name}")
    measures = {"leaked training rows": (float(len(leaked)), math.nan, math.nan)} if leaked else {}
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=meter.cost(trained), measures=measures)


def encode_prompts(model: Model, prompts: Sequence[str], max_length: int) -> list[list[int]]:
    """The token ids of prompts, with the beginning-of-sequence token.

    Raises
    ------
    MitigationError
        For a prompt with more tokens than ``max_length``.
    """
    requests = [Request(prompt, prompt, max_new=1) for prompt in prompts]
    encodings = model.tokens.encode(prompts)
    rows = [model.tokens.prompt(request, encoding) for request, encoding in zip(requests, encodings, strict=True)]
    for prompt, ids in zip(prompts, rows, strict=True):
        if len(ids) > max_length:
            raise MitigationError(f"{prompt!r} has {len(ids)} tokens; give a max_length of at least that.")
    return rows


def add_lora(model: Model, settings: DebiasTuningSettings) -> Any:
    """The network with LoRA matrices whose product is zero at first.

    Raises
    ------
    MitigationError
        If the modules of the settings cannot be adapted.
    """
    import torch
    from peft import LoraConfig

    from scoring.adapters.attach import quiet, wrap

    torch.manual_seed(settings.seed)
    all_linear = settings.target_modules == "all-linear"
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=settings.target_modules if all_linear else split_list(settings.target_modules),
        task_type="CAUSAL_LM",
    )
    try:
        network: Any = wrap(model.network, config)
    except ValueError as error:
        raise MitigationError(f"The modules {settings.target_modules!r} cannot be adapted ({error}).") from None
    if settings.gradient_checkpointing:
        with quiet():
            network.get_base_model().gradient_checkpointing_enable({"use_reentrant": False})
    return network


def remove_lora(tuned: Any, settings: DebiasTuningSettings) -> Any:
    """The network as it was before :func:`add_lora`."""
    from scoring.adapters.attach import quiet

    network = tuned.unload()
    if settings.gradient_checkpointing:
        with quiet():
            network.gradient_checkpointing_disable()
    return network.eval()


def training_schedule(settings: DebiasTuningSettings, device: torch.device) -> TrainingSchedule:
    """The settings that belong to the training loop."""
    import torch

    from mitigation.training.train import TrainingSchedule

    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    precision = ("bf16" if bf16 else "no") if settings.mixed_precision == "auto" else settings.mixed_precision
    names = ("steps", "batch_size", "learning_rate", "warmup", "seed", "patience", "validate_every", "checkpoint_every")
    return TrainingSchedule(precision=precision, **{name: getattr(settings, name) for name in names})


class DebiasLoss:
    """The loss of a batch of prompts: the mean of each term over the prompts, and their weighted sum."""

    def __init__(self, tuned: Any, pad: int, forms: FormTokens, settings: DebiasTuningSettings) -> None:
        self.tuned = tuned
        self.pad = pad
        self.forms = forms
        self.settings = settings

    def __call__(self, network: Any, rows: TokenRows) -> LossTerms:
        """The terms by the name of their weight, also those of weight 0, and ``loss``."""
        import torch

        from mitigation.training import losses, train

        inputs = train.network_inputs(rows, self.pad, self.tuned.device)
        last = inputs["attention_mask"].sum(1) - 1  # the position of each row's last token
        logits = network(**inputs, use_cache=False).logits  # [rows, tokens, vocabulary]
        probabilities = logits[torch.arange(len(rows), device=last.device), last].float().softmax(-1)
        epsilon, within = self.settings.epsilon, self.settings.l_d_within
        terms = {
            "l_d": losses.divergence(probabilities, self.forms, epsilon, within=within).mean(),
            "l_g": losses.presence(probabilities, self.forms).mean(),
            "l_l": losses.imbalance(probabilities, self.forms, epsilon).mean(),
        }
        if self.settings.retention:
            terms["retention"] = self._retention(logits, inputs)
        return {"loss": sum(getattr(self.settings, name) * term for name, term in terms.items()), **terms}

    def _retention(self, logits: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The divergence from the base model: the sum over the tokens of a prompt, the mean over the prompts."""
        import torch

        from mitigation.training import losses

        training = self.tuned.training
        with torch.no_grad(), self.tuned.disable_adapter():
            base = self.tuned.eval()(**inputs, use_cache=False).logits
        self.tuned.train(training)
        real = inputs["attention_mask"].bool()
        return losses.retention(base[real], logits[real], self.forms).sum() / len(real)


RECIPE = Recipe(
    name="debias_tuning",
    summary="LoRA that gives female and male forms the same probability; the base may be in 4 bits (QLoRA).",
    source="Disclosure and Mitigation of Gender Bias in LLMs (Dong et al., 2024)",
    cite=("dong2024disclosure",),
    profiles={
        "clean": DebiasTuningSettings(l_g=0.0, retention=1.0, patience=4),
        "paper": DebiasTuningSettings(),
    },
    run=run,
    quantized=True,
)
