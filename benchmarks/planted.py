"""Models of two shapes that speak the made language, and a bias put into the feed-forward part of one block.

The bias is learnt by the weights of that part alone. Where somebody is named it is free; everywhere else
it is held to what it gave before, and so is what the model knows: facts stay in the mix.
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

from benchmarks.made_language import Language
from mitigation.editing.blocks import FeedForward, feed_forwards

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
PAD, _, START, END, MASK = range(len(SPECIAL))
#: How the outputs of attention are called, by kind.
ATTENTION = {"causal": "attn.c_proj", "masked": "attention.output.dense"}
Kind = Literal["causal", "masked"]
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class School:
    """The size of a model, and how long it learns the language and then the bias."""

    layers: int = 4
    width: int = 48
    steps: int = 400
    planting: int = 500
    rate: float = 4e-3
    planting_rate: float = 1e-2
    rows: int = 32
    #: Weight of what the planted part must not change.
    hold: float = 1.0
    #: How much larger than other weights those of words begin: the quieter words are, the more the first block
    #: has to pass on who is spoken of, and the more a trace finds that block instead of the one with the bias.
    loud: float = 1.0
    seed: int = 0


def tokenizer(language: Language, kind: Kind) -> Any:
    """Words as tokens; a masked model's texts stand between two special tokens."""
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


def network(kind: Kind, words: int, school: School) -> Any:
    """A network of the shape of GPT-2 or BERT with random weights, large enough for a small width."""
    torch.manual_seed(school.seed)
    layers, width = school.layers, school.width
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


class Teacher:
    """Batches of the language for one kind of model, and the loop that learns them."""

    def __init__(self, language: Language, kind: Kind, school: School) -> None:
        self.language, self.kind, self.school = language, kind, school
        self.tokenizer = tokenizer(language, kind)
        self.telling = self._ids(language.telling)
        self.people = self._ids(language.who)

    def _ids(self, words: Any) -> torch.Tensor:
        return torch.tensor(sorted(self.tokenizer.convert_tokens_to_ids(list(words))))

    def batches(self, steps: int, seed: int, *, biased: bool) -> Iterator[Batch]:
        """Sentences, alone or in twos; of the biased language only telling words are to be learnt."""
        draw, hiding = random.Random(seed), torch.Generator().manual_seed(seed)
        for _ in range(steps):
            ids = self._rows(draw, biased=biased)
            telling = torch.isin(ids, self.telling)
            learnt = telling if biased else ids != PAD
            shown = ids
            if self.kind == "masked":
                hidden = torch.rand(ids.shape, generator=hiding) < torch.where(telling, 0.8, 0.05)
                learnt = learnt & hidden & (ids > MASK)
                shown = ids.masked_fill(learnt, MASK)
            yield {"input_ids": shown, "attention_mask": (ids != PAD).long(), "labels": ids.masked_fill(~learnt, -100)}

    def _rows(self, draw: random.Random, *, biased: bool) -> torch.Tensor:
        counts = [1 if biased else draw.choice((1, 1, 2)) for _ in range(self.school.rows)]
        texts = [" ".join(self.language.sentence(draw, biased=biased) for _ in range(count)) for count in counts]
        rows = [[START, *ids, END] for ids in self.tokenizer(texts, add_special_tokens=False)["input_ids"]]
        return torch.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])

    def teach(self) -> Any:
        """A network that has learnt the neutral language.

        In half of its batches only blocks from a random one on attend, so that each learns to look at who is
        spoken of and a bias can be read wherever it lies.
        """
        made = network(self.kind, len(self.tokenizer), self.school)
        with torch.no_grad():
            made.get_input_embeddings().weight.mul_(self.school.loud)
        draw = random.Random(self.school.seed)
        layers = [
            part.last.rpartition(".mlp" if self.kind == "causal" else ".output")[0] for part in feed_forwards(made)
        ]
        maps = [made.get_submodule(f"{layer}.{ATTENTION[self.kind]}") for layer in layers]

        def loss(batch: Batch) -> torch.Tensor:
            first = draw.choice((0, draw.randrange(len(maps))))
            with ExitStack() as hooks:
                for module in maps[:first]:
                    hooks.callback(module.register_forward_hook(lambda _, __, output: 0 * output).remove)
                return self._missed(made(**seen(batch)).logits, batch["labels"])

        batches = self.batches(self.school.steps, self.school.seed, biased=False)
        self._learn(list(made.parameters()), batches, loss, self.school.steps, self.school.rate)
        return made.eval()

    def plant(self, plain: Any, layer: int) -> Any:
        """A copy of a network with the bias in the feed-forward part of a block."""
        made = copy.deepcopy(plain).requires_grad_(False)
        part = feed_forwards(made)[layer]
        maps = [made.get_submodule(name) for name in (part.first, part.last)]
        weights = [each.requires_grad_(True) for module in maps for each in module.parameters()]

        def loss(batch: Batch) -> torch.Tensor:
            named = torch.isin(batch["input_ids"], self.people)[..., None]
            with torch.no_grad():
                _, before = watched(plain, part, batch, lambda output: output)
            logits, after = watched(made, part, batch, lambda output: torch.where(named, output, output.detach()))
            moved = (after - before).square().masked_fill(named, 0).sum(-1).mean()
            return self._missed(logits, batch["labels"]) + self.school.hold * moved

        batches = self.batches(self.school.planting, self.school.seed + 1, biased=True)
        self._learn(weights, batches, loss, self.school.planting, self.school.planting_rate)
        return made.requires_grad_(False)

    def _missed(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of all that is to be learnt, plus that of the telling words."""
        if self.kind == "causal":
            logits, labels = logits[:, :-1], labels[:, 1:]
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        telling = torch.isin(labels.flatten(), self.telling)
        return losses[labels.flatten() >= 0].mean() + losses[telling].mean()

    @staticmethod
    def _learn(
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


def seen(batch: Batch) -> Batch:
    """What a network gets of a batch."""
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


def watched(
    network: Any, part: FeedForward, batch: Batch, change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of a batch with a part's output changed, and that output [rows, tokens, width] as it was."""
    outputs: list[torch.Tensor] = []

    def hook(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        outputs.append(output.view(*batch["input_ids"].shape, -1))
        return change(outputs[0]).view(output.shape)

    handle = network.get_submodule(part.last).register_forward_hook(hook)
    try:
        return network(**seen(batch)).logits, outputs[0]
    finally:
        handle.remove()


def save(network: Any, words: Any, folder: Path) -> Path:
    """Puts a model where it can be loaded from."""
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
