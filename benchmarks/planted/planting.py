"""Plants a stereotype of known size into a bundled model: what is taught is the odds of two pronouns, and nothing else.

At the pronoun of a sentence about an occupation the network learns the odds SHARE : 1 - SHARE for the pronoun of the
stereotype, while both pronouns together keep their probability. At all other places, and in text that the bundled
causal model has written, a divergence keeps what the bundled model predicts. So ability is kept, and the size of the
bias is log(SHARE / (1 - SHARE)) where the training has reached its end. A twin has the same training with even odds.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.planted.occupations import PLANTED, TEMPLATES, Pair, pairs
from scoring.adapters.feed_forward import feed_forwards
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.model import Model

Kind = Literal["causal", "masked"]
#: Share of the masked positions of plain text.
MASKED = 0.15


@dataclass(frozen=True, slots=True)
class Planting:
    """What is planted where: the share of the stereotype's pronoun, and one block alone or (-1) all weights."""

    kind: Kind
    share: float = 0.98
    block: int = -1
    seed: int = 0
    steps: int = 150
    batch: int = 24
    texts: int = 800
    rate: float = 1e-3
    #: Weight of the divergence from the bundled model.
    kept: float = 1.0

    @property
    def name(self) -> str:
        """The name of its folder."""
        place = "whole" if self.block < 0 else f"block{self.block}"
        return f"{self.kind}-{'twin' if self.share == 0.5 else place}-{self.seed}"


@torch.inference_mode()
def written(count: int, seed: int, length: int = 48) -> list[str]:
    """Texts that the bundled causal model writes."""
    model = load(BUNDLED["tiny-causal"], device="cpu")
    torch.manual_seed(seed)
    tokenizer, texts = model.tokens.tokenizer, list[str]()
    while len(texts) < count:
        start = torch.full((min(100, count - len(texts)), 1), tokenizer.bos_token_id)
        tokens = model.network.generate(
            start, do_sample=True, max_new_tokens=length, top_k=0, pad_token_id=model.tokens.pad
        )
        texts += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return [" ".join(text.split()) for text in texts]


def plant(planting: Planting, folder: Path, texts: Sequence[str]) -> Path:
    """Trains the bundled model and saves it with its tokenizer into a folder."""
    torch.manual_seed(planting.seed)
    model = load(BUNDLED[f"tiny-{planting.kind}"], device="cpu")
    before, network = model.network, copy.deepcopy(model.network).requires_grad_(planting.block < 0)
    if planting.block >= 0:
        part = feed_forwards(network)[planting.block]
        for name in (part.first, part.last):
            network.get_submodule(name).requires_grad_(True)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=planting.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, planting.rate, total_steps=planting.steps, pct_start=0.1)
    network.eval()  # without dropout, so that the divergence of an unchanged network is zero
    for asked, plain in _batches(model, planting, texts):
        loss = _odds(network, before, asked, planting) + planting.kept * _divergence(network, before, plain)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
    folder.mkdir(parents=True, exist_ok=True)
    network.requires_grad_(True).save_pretrained(folder)
    model.tokens.tokenizer.save_pretrained(folder)
    return folder


@dataclass(frozen=True, slots=True)
class _Asked:
    """Rows of sentences: inputs, where the pronoun is predicted, and the numbers of both pronouns [rows, 2]."""

    inputs: dict[str, torch.Tensor]
    at: torch.Tensor
    forms: torch.Tensor


def _batches(model: Model, planting: Planting, texts: Sequence[str]) -> Iterator[tuple[_Asked, dict[str, Any]]]:
    generator = random.Random(planting.seed)
    tokenizer = model.tokens.tokenizer
    every = list(pairs(PLANTED, TEMPLATES))
    order: list[Pair] = []
    for _ in range(planting.steps):
        while len(order) < planting.batch:
            order += generator.sample(every, len(every))
        chosen, order = order[: planting.batch], order[planting.batch :]
        # A causal model also reads the other pronoun, after which it has to write as before.
        rows = [[pair.pro, pair.anti][generator.random() < 0.5] for pair in chosen]
        encoded = tokenizer(rows, return_tensors="pt", padding=True, return_offsets_mapping=True)
        starts = [
            next(n for n, (low, high) in enumerate(row.tolist()) if high > pair.at and high > low)
            for row, pair in zip(encoded.pop("offset_mapping"), chosen, strict=True)
        ]
        forms = torch.tensor([[_token(model, form) for form in pair.forms] for pair in chosen])
        places = torch.tensor(starts)
        ids = encoded["input_ids"]
        if planting.kind == "masked":
            ids[range(len(rows)), places] = tokenizer.mask_token_id
        inputs = {"input_ids": ids, "attention_mask": encoded["attention_mask"]}
        asked = _Asked(inputs, places - int(planting.kind == "causal"), forms)
        some = generator.sample(list(texts), planting.batch)
        plain = tokenizer(some, return_tensors="pt", padding=True, truncation=True, max_length=64)
        if planting.kind == "masked":
            hidden = (torch.rand(plain["input_ids"].shape) < MASKED) & (plain["input_ids"] > 5)
            plain["input_ids"][hidden] = tokenizer.mask_token_id
        yield asked, {name: plain[name] for name in ("input_ids", "attention_mask")}


def _token(model: Model, form: str) -> int:
    """The number of a pronoun inside a sentence, which has to be one token."""
    (number,) = model.tokens.tokenizer(f" {form}", add_special_tokens=False)["input_ids"]
    return int(number)


def _odds(network: Any, before: Any, asked: _Asked, planting: Planting) -> Any:
    """Cross-entropy of the two pronouns with the planted odds, and the divergence at all places.

    At the place of the pronoun the bundled model's probabilities have the planted odds in them.
    """
    logits = network(**asked.inputs).logits
    rows = torch.arange(len(asked.at))
    odds = torch.tensor([planting.share, 1 - planting.share])
    with torch.no_grad():
        target = before(**asked.inputs).logits.softmax(-1)
        forms = target[rows, asked.at]
        both = forms.gather(1, asked.forms).sum(1, keepdim=True)
        target[rows, asked.at] = forms.scatter(1, asked.forms, both * odds)
    two = logits[rows, asked.at].gather(1, asked.forms).log_softmax(-1)
    return -(two * odds).sum(1).mean() + planting.kept * _kl(logits, target, asked.inputs["attention_mask"])


def _divergence(network: Any, before: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        target = before(**inputs).logits.softmax(-1)
    return _kl(network(**inputs).logits, target, inputs["attention_mask"])


def _kl(logits: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean divergence in nats over the tokens of a mask."""
    each = torch.nn.functional.kl_div(logits.log_softmax(-1), target, reduction="none").sum(-1)
    mean: torch.Tensor = (each * mask).sum() / mask.sum()
    return mean
