"""Debias tuning: LoRA, on weights in 4 bits where available, trained to give both genders the same probability.

Source: *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), section 5. Only the next-token
distribution after ``My friend …, and`` is trained. The published losses are lowest if no gendered form has
any probability, and a model reaches that by writing about something else. ``clean`` therefore leaves out
L_g, which asks for it, and adds retention: at every position of the prompts, the total probability of all
forms and the probability of each other token stay as in the base model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cards.common.text import split_list
from mitigation.recipe import Adapter, Job, MitigationError, Model, declared, defaults, setting
from mitigation.training.data import load_prompts, load_test_splits, shared_rows, training_prompts
from mitigation.training.settings import TrainingSettings
from scoring.types import Request

#: What is said of training rows that are in a test split.
LEAKED = "{} of the training rows are in a test split, so scores on the neutral probes tell nothing of new text."
_PAPER = "Dong et al. 2024"
_PUBLISHED = "names of the published adapters"
_OPEN = "not in the paper"


@dataclass(frozen=True)
@defaults(_PAPER, alpha=16, learning_rate=2e-4, batch_size=16, seed=42)
class DebiasTuningSettings(TrainingSettings):
    """How to tune. A loss with weight 0 is left out, as in the ablations of Table 3."""

    rank: int = setting(64, "Rank of the two LoRA matrices of each linear map.", _PAPER, above=0)
    dropout: float = setting(0.1, "Share of the inputs of the matrices that training drops.", _PAPER, least=0, below=1)
    target_modules: str = setting("all-linear", "Linear maps to adapt: all-linear, or names with commas.", _OPEN)
    warmup: float = setting(0.03, "Share of the steps in which the rate rises.", _OPEN, least=0, below=1)
    steps: int = setting(500, "Training steps.", _PAPER, above=0)
    max_length: int = setting(512, "Maximum tokens of a prompt.", _PAPER, above=0)
    l_d: float = setting(1.0, "Weight of L_d, the divergence of paired forms.", _PUBLISHED, least=0)
    l_g: float = setting(1.0, "Weight of L_g, the probability of gendered forms.", _PUBLISHED, least=0)
    l_l: float = setting(1.0, "Weight of L_l, the difference of the genders by their sum.", _PUBLISHED, least=0)
    l_d_within: bool = setting(False, "L_d compares the shares of forms within each gender.", "fits the printed ADD")
    epsilon: float = setting(1e-8, "Added where a loss divides or takes a logarithm.", _OPEN, above=0)
    retention: float = setting(0.0, "Weight of the divergence from the base model.", "this project", least=0)
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes to train on, with commas.", _PAPER)
    leaked: bool = setting(False, "Train also on rows of test splits, to reproduce published training.", "this project")
    validation: int = setting(256, "Maximum prompts of a validation.", _OPEN, above=0)
    mixed_precision: str = setting(
        "auto",
        "Mixed precision: no, bf16, or auto for bf16 on a GPU that has it.",
        _PAPER,
        choices=("auto", "no", "bf16"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.l_d + self.l_g + self.l_l:
            raise MitigationError("All three losses are switched off; give l_d, l_g or l_l a weight above 0.")

    @property
    def read(self) -> int:
        """The tokens of a row where the head computes: the last one, or all for 0, where all are kept."""
        return 0 if self.retention else 1

    def precision(self, device: Any) -> str:
        """The mixed precision on a device: no or bf16."""
        import torch

        # Older GPUs compute bfloat16 in software, which is slower than float32.
        bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return ("bf16" if bf16 else "no") if self.mixed_precision == "auto" else self.mixed_precision


def make(job: Job[DebiasTuningSettings]) -> Adapter:
    """Tunes, and writes the adapter, its losses and their picture into ``out``."""
    from mitigation.training import losses, trainable

    model, settings, data = job.model, job.settings, job.data
    # Refused here, before the corpora are read and the network is wrapped.
    forms = losses.form_tokens(model.tokens, model.name)
    corpora = split_list(settings.corpora)
    prompts = training_prompts(data, corpora, leaked=settings.leaked)
    # Training on test rows is allowed to repeat the published training, and is always said.
    leaked = shared_rows(prompts, load_test_splits(data.source)) if settings.leaked else {}
    if leaked:
        job.console.print(LEAKED.format(len(leaked)))
    rows = encode_prompts(model, prompts, settings.max_length)
    # Measured while training, so they are neither of the training nor of the test split.
    held = encode_prompts(model, load_prompts(data, corpora, "validation")[: settings.validation], settings.max_length)
    schedule = settings.schedule(precision=settings.precision(model.device))
    tuned = trainable.tune(job, losses.DebiasLoss(model, forms, settings), rows, held, schedule, measured=False)
    return job.done(tuned.parameters, {"leaked training rows": len(leaked)} if leaked else {})


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


RECIPE = declared("debias_tuning", DebiasTuningSettings, make)
