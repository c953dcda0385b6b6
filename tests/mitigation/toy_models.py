"""Trains small models of two shapes on an artificial language, and then a bias into one block.

The bias is learnt by the weights of one feed-forward part alone. Its output may change at the positions of
workers' names; at all other positions, a penalty keeps it as it was. Facts stay among the training texts.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from scoring.adapters.feed_forward import FeedForward, feed_forwards
from tests.mitigation.toy_language import Language

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
PAD, _, START, END, MASK = range(len(SPECIAL))
#: Module name of the last linear map of attention, by kind.
ATTENTION = {"causal": "attn.c_proj", "masked": "attention.output.dense"}
Kind = Literal["causal", "masked"]
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class ToyModelConfig:
    """The size of a model, and its two trainings: on the neutral language, and then on the biased one."""

    layers: int = 4
    width: int = 48
    steps: int = 400
    bias_steps: int = 500
    learning_rate: float = 4e-3
    bias_learning_rate: float = 1e-2
    batch_size: int = 32
    #: Weight of the penalty for changed outputs at positions other than workers' names.
    penalty: float = 1.0
    #: Factor of the initial word embeddings. With small ones, the first block must copy the subject into the
    #: residual stream, and tracing then finds that block instead of the one with the bias.
    embedding_scale: float = 1.0
    seed: int = 0


def tokenizer(language: Language, kind: Kind) -> Any:
    """A tokenizer whose tokens are words; it adds special tokens around the texts of a masked model."""
    words = pre_tokenizers.Whitespace()
    known = dict.fromkeys(word for text in language.words for word, _ in words.pre_tokenize_str(text))
    made = Tokenizer(models.WordLevel({w: n for n, w in enumerate((*SPECIAL, *known))}, unk_token=SPECIAL[1]))
    made.pre_tokenizer = words
    names = {"pad_token": SPECIAL[PAD], "unk_token": SPECIAL[1]}
    if kind == "causal":
        names |= {"bos_token": SPECIAL[START], "eos_token": SPECIAL[END]}
    else:
        around = [(SPECIAL[START], START), (SPECIAL[END], END)]
        made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=around)
        names |= {"cls_token": SPECIAL[START], "sep_token": SPECIAL[END], "mask_token": SPECIAL[MASK]}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)  # type: ignore[no-untyped-call]


def network(kind: Kind, words: int, config: ToyModelConfig) -> Any:
    """A GPT-2 or BERT with random weights; their standard deviation of 0.1 suits a small width."""
    torch.manual_seed(config.seed)
    layers, width = config.layers, config.width
    shape: dict[str, Any] = {"vocab_size": words, "initializer_range": 0.1, "pad_token_id": PAD}
    if kind == "causal":
        shape |= {"n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": 64}
        shape |= {"bos_token_id": START, "eos_token_id": END}
        shape |= dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.0)
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    shape |= {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 4}
    shape |= {"intermediate_size": 4 * width, "max_position_embeddings": 64}
    shape |= dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    return transformers.BertForMaskedLM(transformers.BertConfig(**shape))


class ToyTrainer:
    """Makes batches of the language for one kind of model, and trains on them."""

    def __init__(self, language: Language, kind: Kind, config: ToyModelConfig) -> None:
        self.language, self.kind, self.config = language, kind, config
        self.tokenizer = tokenizer(language, kind)
        self.predictable = self._ids(language.predictable)
        self.people = self._ids(language.who)

    def _ids(self, words: Any) -> torch.Tensor:
        return torch.tensor(sorted(self.tokenizer.convert_tokens_to_ids(list(words))))

    def batches(self, steps: int, seed: int, *, biased: bool) -> Iterator[Batch]:
        """Batches of one or two sentences per row; in the biased language, labels are the predictable words only."""
        generator, mask_generator = random.Random(seed), torch.Generator().manual_seed(seed)
        for _ in range(steps):
            ids = self._rows(generator, biased=biased)
            predictable = torch.isin(ids, self.predictable)
            labelled = predictable if biased else ids != PAD
            inputs = ids
            if self.kind == "masked":
                masked = torch.rand(ids.shape, generator=mask_generator) < torch.where(predictable, 0.8, 0.05)
                labelled = labelled & masked & (ids > MASK)
                inputs = ids.masked_fill(labelled, MASK)
            yield {
                "input_ids": inputs,
                "attention_mask": (ids != PAD).long(),
                "labels": ids.masked_fill(~labelled, -100),
            }

    def _rows(self, generator: random.Random, *, biased: bool) -> torch.Tensor:
        counts = [1 if biased else generator.choice((1, 1, 2)) for _ in range(self.config.batch_size)]
        texts = [" ".join(self.language.sentence(generator, biased=biased) for _ in range(count)) for count in counts]
        rows = [[START, *ids, END] for ids in self.tokenizer(texts, add_special_tokens=False)["input_ids"]]
        return torch.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])

    def train_neutral(self) -> Any:
        """A network that was trained on the neutral language.

        In half of the batches, the attention of all blocks below a random one is switched off. So every block
        learns to attend to the subject, and a bias in any block can have an effect.
        """
        made = network(self.kind, len(self.tokenizer), self.config)
        with torch.no_grad():
            made.get_input_embeddings().weight.mul_(self.config.embedding_scale)
        generator = random.Random(self.config.seed)
        layers = [
            part.last.rpartition(".mlp" if self.kind == "causal" else ".output")[0] for part in feed_forwards(made)
        ]
        maps = [made.get_submodule(f"{layer}.{ATTENTION[self.kind]}") for layer in layers]

        def loss(batch: Batch) -> torch.Tensor:
            first = generator.choice((0, generator.randrange(len(maps))))
            with ExitStack() as hooks:
                for module in maps[:first]:
                    hooks.callback(module.register_forward_hook(lambda _, __, output: 0 * output).remove)
                return self._cross_entropy(made(**model_inputs(batch)).logits, batch["labels"])

        batches = self.batches(self.config.steps, self.config.seed, biased=False)
        self._train(list(made.parameters()), batches, loss, self.config.steps, self.config.learning_rate)
        return made.eval()

    def train_bias(self, plain: Any, layer: int) -> Any:
        """A copy of a network in which the feed-forward part of one block was trained on the biased language."""
        made = copy.deepcopy(plain).requires_grad_(False)
        part = feed_forwards(made)[layer]
        maps = [made.get_submodule(name) for name in (part.first, part.last)]
        weights = [item.requires_grad_(True) for module in maps for item in module.parameters()]

        def loss(batch: Batch) -> torch.Tensor:
            named = torch.isin(batch["input_ids"], self.people)[..., None]
            with torch.no_grad():
                _, before = run_with_change(plain, part, batch, lambda output: output)
            logits, after = run_with_change(
                made, part, batch, lambda output: torch.where(named, output, output.detach())
            )
            moved = (after - before).square().masked_fill(named, 0).sum(-1).mean()
            return self._cross_entropy(logits, batch["labels"]) + self.config.penalty * moved

        batches = self.batches(self.config.bias_steps, self.config.seed + 1, biased=True)
        self._train(weights, batches, loss, self.config.bias_steps, self.config.bias_learning_rate)
        return made.requires_grad_(False)

    def _cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy over all labels, plus that over the predictable words."""
        if self.kind == "causal":
            logits, labels = logits[:, :-1], labels[:, 1:]
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        predictable = torch.isin(labels.flatten(), self.predictable)
        return losses[labels.flatten() >= 0].mean() + losses[predictable].mean()

    @staticmethod
    def _train(
        weights: Sequence[torch.nn.Parameter],
        batches: Iterator[Batch],
        loss: Callable[[Batch], torch.Tensor],
        steps: int,
        rate: float,
    ) -> None:
        """AdamW with a warm-up of a tenth of the steps and a cosine to zero."""
        optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
        for batch in batches:
            optimizer.zero_grad()
            loss(batch).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()


def model_inputs(batch: Batch) -> Batch:
    """The inputs of a network in a batch."""
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


def run_with_change(
    network: Any, part: FeedForward, batch: Batch, change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of a batch with the output of a part changed, and the unchanged output [rows, tokens, width]."""
    outputs: list[torch.Tensor] = []

    def hook(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        outputs.append(output.view(*batch["input_ids"].shape, -1))
        return change(outputs[0]).view(output.shape)

    handle = network.get_submodule(part.last).register_forward_hook(hook)
    try:
        return network(**model_inputs(batch)).logits, outputs[0]
    finally:
        handle.remove()


def save(network: Any, words: Any, folder: Path) -> Path:
    """Saves a model and its tokenizer into a folder."""
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
