"""Further training as a language model: token rows of a text, and the loss of both kinds of models.

Recipes differ in the text (swapped or not) and in the dropout rates; all of them call :func:`train_on`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from mitigation.recipe import Job, MitigationError, Model
from mitigation.training import train, trainable
from scoring.adapters import attach, facts

#: Texts that are measured and not trained on, and the least that are trained on.
HELD, LEAST = 0.05, 8
#: Of the tokens that a masked model predicts, the shares that are masked and that are replaced by another token (BERT).
MASKED, OTHER = 0.8, 0.1
#: Names of modules that compute the weights of attention.
ATTENTION = ("self", "attn", "attention", "self_attn")


def token_rows(model: Model, texts: Sequence[str], length: int, *, join: bool) -> list[list[int]]:
    """Texts as rows of at most ``length`` token ids, with special tokens around each text.

    With ``join`` all texts follow each other and every row is full; the last, incomplete one is left out unless it
    is the only one.
    """
    window = min(length, model.tokens.window or length)
    with attach.without_remarks():  # transformers would warn of texts longer than the window, which are cut below
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


class LanguageLoss:
    """The mean negative log-likelihood in nats of the next tokens, or of masked ones, as ``loss``."""

    def __init__(self, model: Model, share: float) -> None:
        self.kind = model.kind
        self.pad = model.tokens.pad
        self.share = share
        self.special = torch.tensor(sorted({*model.tokens.tokenizer.all_special_ids, self.pad}))
        self.mask = model.tokens.tokenizer.mask_token_id
        self.size = model.network.config.get_text_config().vocab_size

    def __call__(self, network: Any, rows: train.TokenRows) -> train.LossTerms:
        """The loss of a batch of rows."""
        device = next(network.parameters()).device
        inputs = train.network_inputs(rows, self.pad, device)
        ids = inputs["input_ids"]
        if self.kind == "causal":
            logits = network(**inputs, use_cache=False).logits[:, :-1]
            wanted, counted = ids[:, 1:], inputs["attention_mask"][:, 1:].bool()
        else:
            # Held-out rows have the same masks in every measurement.
            seed = int(torch.randint(2**31, (1,))) if network.training else 0
            generator = torch.Generator().manual_seed(seed)
            corrupted, counted = self.corrupt(ids.cpu(), generator)
            wanted, counted = ids, counted.to(device)
            logits = network(**inputs | {"input_ids": corrupted.to(device)}).logits
        losses = torch.nn.functional.cross_entropy(logits[counted].float(), wanted[counted])
        return {"loss": losses}

    def corrupt(self, ids: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids [rows, tokens] as a masked model reads them, and which of them it predicts [rows, tokens].

        At least one token is predicted, so that the mean is defined.
        """
        # Special tokens and padding are never predicted.
        ordinary = ~torch.isin(ids, self.special)
        chosen = (torch.rand(ids.shape, generator=generator) < self.share) & ordinary
        if not chosen.any():
            chosen[tuple(ordinary.nonzero()[0])] = True
        # One draw decides which of the three a chosen token becomes.
        part = torch.rand(ids.shape, generator=generator)
        other = torch.randint(self.size, ids.shape, generator=generator)
        corrupted = torch.where(chosen & (part < MASKED), torch.tensor(self.mask), ids)
        return torch.where(chosen & (part >= MASKED) & (part < MASKED + OTHER), other, corrupted), chosen


def train_on(
    job: Job[Any],
    texts: Sequence[str],
    rates: Mapping[str, float] | None = None,
    factor: float = 1.0,
    measures: Mapping[str, float] | None = None,
) -> facts.Adapter:
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
    tuned = trainable.tune(
        job, LanguageLoss(model, settings.masked), rows, held, schedule, within, factor, measured=False
    )
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
