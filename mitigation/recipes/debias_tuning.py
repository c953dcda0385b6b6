"""Debias tuning: LoRA on a model whose weights are kept in 4 bits, trained to give women and men the same chance.

From *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), section 5. Only the output
after the last token of ``My friend …, and`` is trained. The optimum of the published losses gives no
gendered form any probability, and a model gets there by speaking of something else; ``clean`` leaves
out L_g, which asks for it, and holds the probability of all forms together and everything else where
the model had it, at every position of the prompts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mitigation.adapters.adapter import Adapter, MitigationError, describe
from mitigation.recipe import Recipe, setting
from mitigation.training import data as probes
from mitigation.training.data import Data
from scoring.types import Request

if TYPE_CHECKING:
    import torch

    from mitigation.training.losses import Forms
    from mitigation.training.train import Parts, Rows, Schedule
    from scoring.inference.model import Model

_PAPER = "Dong et al. 2024"
_RUN = "names of the published runs"
_OPEN = "not in the paper"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to tune. A weight of 0 leaves a loss out, as the ablations of Table 3 do."""

    rank: int = setting(64, "Rank of the two matrices beside each linear map.", _PAPER)
    alpha: int = setting(16, "Scale of their product, divided by the rank.", _PAPER)
    dropout: float = setting(0.1, "Share of the inputs of the matrices that training drops.", _PAPER)
    target_modules: str = setting("all-linear", "Linear maps to adapt: all-linear, or names with commas.", _OPEN)
    learning_rate: float = setting(2e-4, "Learning rate of AdamW.", _PAPER)
    warmup: float = setting(0.03, "Share of the steps in which the rate rises; it falls linearly after.", _OPEN)
    steps: int = setting(500, "Training steps.", _PAPER)
    batch_size: int = setting(16, "Prompts a step.", _PAPER)
    max_length: int = setting(512, "The most tokens of a prompt.", _PAPER)
    l_d: float = setting(1.0, "Weight of L_d, the divergence of paired forms.", _RUN)
    l_g: float = setting(1.0, "Weight of L_g, the probability of gendered forms.", _RUN)
    l_l: float = setting(1.0, "Weight of L_l, the difference of the genders by their sum.", _RUN)
    l_d_within: bool = setting(False, "L_d compares the shares of forms within each gender.", "fits the printed ADD")
    epsilon: float = setting(1e-8, "Added where a loss divides or takes a logarithm.", _OPEN)
    retention: float = setting(0.0, "Weight of the divergence from the base model.", "this project")
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes to train on, with commas.", _PAPER)
    seed: int = setting(42, "Of the order of rows, the start of the matrices, and dropout.", _PAPER)
    validate_every: int = setting(50, "Steps between measurements on the validation split.", _OPEN)
    validation: int = setting(256, "The most prompts of a measurement.", _OPEN)
    patience: int = setting(0, "Measurements without improvement that end training; 0 never does.", _OPEN)
    checkpoint_every: int = setting(50, "Steps between checkpoints.", _OPEN)
    gradient_checkpointing: bool = setting(False, "Compute activations twice, to need less memory.", _OPEN)
    mixed_precision: str = setting("auto", "Mixed precision: no, bf16, or auto for bf16 on a GPU that has it.", _PAPER)

    def __post_init__(self) -> None:
        counts = (
            "rank",
            "alpha",
            "steps",
            "batch_size",
            "max_length",
            "validate_every",
            "validation",
            "checkpoint_every",
        )
        low = [name for name in counts if getattr(self, name) < 1]
        low += [n for n in ("l_d", "l_g", "l_l", "retention", "patience") if getattr(self, n) < 0]
        low += [n for n in ("learning_rate", "epsilon") if not getattr(self, n) > 0]
        low += [n for n in ("dropout", "warmup") if not 0 <= getattr(self, n) < 1]
        if low:
            raise MitigationError(f"The setting {low[0]} is {getattr(self, low[0])}; give a value in its range.")
        if not self.l_d + self.l_g + self.l_l:
            raise MitigationError("All three losses are switched off; give l_d, l_g or l_l a weight above 0.")
        if self.mixed_precision not in ("auto", "no", "bf16"):
            raise MitigationError(f"The setting mixed_precision is {self.mixed_precision!r}; give auto, no or bf16.")


def run(model: Model, settings: Settings, data: Data, out: Path, console: Console) -> Adapter:
    """Tunes, and puts the adapter, its losses and their picture into ``out``."""
    from mitigation.cost import Meter
    from mitigation.training import losses, train
    from mitigation.training.curves import picture

    forms = losses.forms(model.tokens, model.name)
    corpora = [name.strip() for name in settings.corpora.split(",")]
    rows = encoded(model, probes.learnable(data, corpora), settings.max_length)
    held = encoded(model, probes.prompts(data, corpora, "validation")[: settings.validation], settings.max_length)
    meter, tuned = Meter(model), wrapped(model, settings)
    try:
        trained = sum(each.numel() for each in tuned.parameters() if each.requires_grad)
        objective = Objective(tuned, model.tokens.pad, forms, settings)
        state = checkpoint(model, settings, data, out)
        curve = train.fit(tuned, objective, rows, held, schedule(settings, model.device), state, console)
        told = tuned.peft_config["default"]
        told.base_model_name_or_path, told.target_modules = model.name, sorted(told.target_modules)
        tuned.save_pretrained(out, save_embedding_layers=False)  # to find out, PEFT would request the Hub
        (out / "README.md").unlink(missing_ok=True)  # PEFT's, which says nothing of all this
    finally:
        model.network = restored(tuned, settings)
    (out / "losses.json").write_text(json.dumps(asdict(curve), indent=1) + "\n", encoding="utf-8")
    picture(curve, out / "losses.png", f"debias_tuning of {model.name}")
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=meter.cost(trained))


def encoded(model: Model, prompts: Sequence[str], longest: int) -> list[list[int]]:
    """The tokens of prompts, beginning of sequence included.

    Raises
    ------
    MitigationError
        For one that is too long.
    """
    requests = [Request(prompt, prompt, max_new=1) for prompt in prompts]
    found = [model.tokens.prompt(a, e) for a, e in zip(requests, model.tokens.encode(prompts), strict=True)]
    for prompt, ids in zip(prompts, found, strict=True):
        if len(ids) > longest:
            raise MitigationError(f"{prompt!r} has {len(ids)} tokens; give a max_length of at least that.")
    return found


def wrapped(model: Model, settings: Settings) -> Any:
    """The network with matrices that change nothing yet."""
    import torch
    from peft import LoraConfig

    from mitigation.adapters.attach import beside, quiet

    torch.manual_seed(settings.seed)
    modules: str | list[str] = settings.target_modules
    if modules != "all-linear":
        modules = [name.strip() for name in settings.target_modules.split(",")]
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=modules,
        task_type="CAUSAL_LM",
    )
    try:
        network: Any = beside(model.network, config)
    except ValueError as error:
        raise MitigationError(f"The modules {settings.target_modules!r} cannot be adapted ({error}).") from None
    if settings.gradient_checkpointing:
        with quiet():
            network.get_base_model().gradient_checkpointing_enable({"use_reentrant": False})
    return network


def restored(tuned: Any, settings: Settings) -> Any:
    """The network as it was before :func:`wrapped`."""
    from mitigation.adapters.attach import quiet

    network = tuned.unload()
    if settings.gradient_checkpointing:
        with quiet():
            network.gradient_checkpointing_disable()
    return network.eval()


def schedule(settings: Settings, device: torch.device) -> Schedule:
    """The settings that are the training loop's."""
    import torch

    from mitigation.training.train import Schedule

    halves = device.type == "cuda" and torch.cuda.is_bf16_supported()
    precision = ("bf16" if halves else "no") if settings.mixed_precision == "auto" else settings.mixed_precision
    names = ("steps", "batch_size", "learning_rate", "warmup", "seed", "patience", "validate_every", "checkpoint_every")
    return Schedule(precision=precision, **{name: getattr(settings, name) for name in names})


def checkpoint(model: Model, settings: Settings, data: Data, out: Path) -> Path:
    """Where a training keeps its state: another model, other settings or other data have another file."""
    key = [model.revision, model.dtype, asdict(settings), data.versions]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return out.parent / f"training-{digest}.pt"


class Objective:
    """The loss of a batch of prompts: the mean of each part over the prompts, and their weighted sum."""

    def __init__(self, tuned: Any, pad: int, forms: Forms, settings: Settings) -> None:
        self.tuned = tuned
        self.pad = pad
        self.forms = forms
        self.settings = settings

    def __call__(self, network: Any, rows: Rows) -> Parts:
        """The parts by the name of their setting, those of weight 0 too, and ``loss``."""
        import torch

        from mitigation.training import losses

        inputs, last = self._inputs(rows)
        logits = network(**inputs, use_cache=False).logits
        chances = logits[torch.arange(len(rows), device=last.device), last].float().softmax(-1)
        parts = {
            "l_d": losses.divergence(
                chances, self.forms, self.settings.epsilon, within=self.settings.l_d_within
            ).mean(),
            "l_g": losses.presence(chances, self.forms).mean(),
            "l_l": losses.imbalance(chances, self.forms, self.settings.epsilon).mean(),
        }
        if self.settings.retention:
            parts["retention"] = self._retention(logits, inputs)
        return {"loss": sum(getattr(self.settings, name) * part for name, part in parts.items()), **parts}

    def _inputs(self, rows: Rows) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Rows padded on the right, and the place of the last token of each."""
        import torch

        from scoring.inference.batching import padded

        device, width = self.tuned.device, max(map(len, rows))
        lengths = torch.tensor([len(row) for row in rows], device=device)
        ids = torch.from_numpy(padded(rows, self.pad, width)).to(device)
        mask = (torch.arange(width, device=device) < lengths[:, None]).long()
        return {"input_ids": ids, "attention_mask": mask}, lengths - 1

    def _retention(self, logits: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The divergence from the base model, added up over the tokens of a prompt; the mean over the prompts."""
        import torch

        from mitigation.training import losses

        mode = self.tuned.training
        with torch.no_grad(), self.tuned.disable_adapter():
            base = self.tuned.eval()(**inputs, use_cache=False).logits
        self.tuned.train(mode)
        seen = inputs["attention_mask"].bool()
        return losses.retention(base[seen], logits[seen], self.forms).sum() / len(seen)


RECIPE = Recipe(
    name="debias_tuning",
    summary="LoRA that gives female and male forms the same probability; the base may be kept in 4 bits (QLoRA).",
    source="Disclosure and Mitigation of Gender Bias in LLMs (Dong et al., 2024)",
    cite=("dong2024disclosure",),
    profiles={"clean": Settings(l_g=0.0, retention=1.0, patience=4), "paper": Settings()},
    run=run,
    quantized=True,
)
