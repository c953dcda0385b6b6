"""The two kinds of bundled models: tokenizer, network, loss, and what their cards say."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

#: A tokenizer of transformers, whose classes are not typed.
Tokenizing = Any
_FAST: Any = PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is shaped and trained; rows are of ``context`` tokens, ``batch`` of them a step."""

    vocabulary: int = 3072
    width: int = 128
    layers: int = 4
    heads: int = 4
    context: int = 256
    batch: int = 8
    steps: int = 4500
    rate: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.1
    seed: int = 0


class Kind(ABC):
    """What differs between the two models.

    ``target`` says what the loss is per, ``training_note`` is a sentence for the card, and ``illustration`` has a text
    with two words for one place in it: the mask, or the end. ``pronouns`` says whether the bundled model uses the
    context for he and she; ``tests/scoring/test_tiny.py`` measures it.
    """

    name: str
    task: str
    summary: str
    target: str
    training_note: str
    illustration: tuple[str, str, str]
    pronouns: str

    @abstractmethod
    def tokenizer(self, texts: Sequence[str], size: int, context: int) -> Tokenizing:
        """A tokenizer of at most ``size`` tokens, trained on the texts, for rows of ``context`` tokens."""

    @abstractmethod
    def network(self, tokenizer: Tokenizing, recipe: Recipe) -> Any:
        """The untrained model."""

    @abstractmethod
    def predicted(self, rows: torch.Tensor) -> torch.Tensor:
        """Which tokens of rows can be predicted: all but special tokens."""

    @abstractmethod
    def loss(self, model: Any, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Mean loss in nats per predicted token of rows [batch, context]."""

    @abstractmethod
    def logprobs(self, model: Any, tokenizer: Tokenizing, sentence: str) -> list[float]:
        """Natural log-probability of each token of a sentence but the special ones."""

    @abstractmethod
    def logits(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """Logits [vocabulary] of the next token after ids [tokens], or of the masked one among them."""

    def word_probabilities(self, model: Any, tokenizer: Tokenizing) -> dict[str, Any]:
        """The probabilities of the two words of ``illustration`` in its text."""
        text, *words = self.illustration
        with torch.inference_mode():
            probabilities = self.logits(model, torch.tensor(tokenizer(text)["input_ids"])).double().softmax(-1)
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words]
        return {
            "text": text,
            "probability": {w: round(float(probabilities[i]), 4) for w, i in zip(words, ids, strict=True)},
        }


class _Causal(Kind):
    """A Llama with a byte-level BPE tokenizer."""

    name = "causal"
    task = "text-generation"
    summary = "`LlamaForCausalLM` with a byte-level BPE tokenizer that puts `<s>` in front of every text"
    target = "next token"
    training_note = "Each token was predicted from those before it."
    illustration = ("My friend is a nurse, and", " he", " she")
    pronouns = "It uses the context for he and she: after *man* it prefers he, and after *woman* she."

    def tokenizer(self, texts: Sequence[str], size: int, context: int) -> Tokenizing:
        bpe = Tokenizer(models.BPE())
        # Without a space in front of a text, so that " she" after a text is one token.
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=["<s>", "</s>", "<pad>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        bpe.train_from_iterator(texts, trainer)
        template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
        bpe.post_processor = template
        names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
        inputs = ["input_ids", "attention_mask"]
        return _FAST(tokenizer_object=bpe, model_max_length=2 * context, model_input_names=inputs, **names)

    def network(self, tokenizer: Tokenizing, recipe: Recipe) -> Any:
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=recipe.width,
            intermediate_size=recipe.width * 8 // 24 * 8,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            max_position_embeddings=2 * recipe.context,  # rotary: it serves texts somewhat longer than the rows
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        return LlamaForCausalLM(config)

    def predicted(self, rows: torch.Tensor) -> torch.Tensor:
        return rows > 0  # all but <s>

    def loss(self, model: Any, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        del generator
        hidden = model.model(rows, use_cache=False).last_hidden_state[:, :-1]
        targets = rows[:, 1:]
        predicted = self.predicted(targets)
        return torch.nn.functional.cross_entropy(model.lm_head(hidden[predicted]), targets[predicted])

    def logprobs(self, model: Any, tokenizer: Tokenizing, sentence: str) -> list[float]:
        ids = torch.tensor(tokenizer(sentence)["input_ids"])
        with torch.inference_mode():
            logprobs = model(ids[None]).logits[0, :-1].double().log_softmax(-1)
        return [float(row[token]) for row, token in zip(logprobs, ids[1:], strict=True)]

    def logits(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(ids[None]).logits[0, -1]
        return logits


class _Masked(Kind):
    """A BERT with an uncased WordPiece tokenizer."""

    name = "masked"
    task = "fill-mask"
    summary = "`BertForMaskedLM` with an uncased WordPiece tokenizer that puts `[CLS]` and `[SEP]` around every text"
    share = 0.3
    target = f"masked token where {share:.0%} are masked"
    training_note = "The heads of the first layer began by looking at the four nearest tokens."
    illustration = ("My friend is a nurse, and [MASK] has a kind heart.", "he", "she")
    pronouns = (
        "It does not use the context for he and she: it prefers he as much after *woman* as after *man*. So what a "
        "recipe does to such a use cannot be judged with this model."
    )
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    mask = special.index("[MASK]")

    def tokenizer(self, texts: Sequence[str], size: int, context: int) -> Tokenizing:
        pieces = Tokenizer(models.WordPiece(word_pieces(texts, size, self.special), unk_token="[UNK]"))
        pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
        pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        pieces.decoder = decoders.WordPiece()
        pieces.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        names = {f"{token.strip('[]').lower()}_token": token for token in self.special}
        return _FAST(tokenizer_object=pieces, model_max_length=context, **names)

    def network(self, tokenizer: Tokenizing, recipe: Recipe) -> Any:
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=recipe.width,
            intermediate_size=recipe.width * 4,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            max_position_embeddings=recipe.context,
            initializer_range=0.05,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=tokenizer.pad_token_id,
        )
        model = BertForMaskedLM(config)
        attend_to_neighbours(model)
        return model

    def predicted(self, rows: torch.Tensor) -> torch.Tensor:
        return rows >= len(self.special)

    def loss(self, model: Any, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        # Drawn on the processor, so that the masks are the same on every device.
        drawn = (torch.rand(rows.shape, generator=generator) < self.share).to(rows.device)
        masked = self.predicted(rows) & drawn
        hidden = model.bert(rows.masked_fill(masked, self.mask)).last_hidden_state[masked]
        return torch.nn.functional.cross_entropy(model.cls(hidden), rows[masked])

    def logprobs(self, model: Any, tokenizer: Tokenizing, sentence: str) -> list[float]:
        # Each token given all others: the terms of a pseudo-log-likelihood (Salazar et al., 2020).
        ids = torch.tensor(tokenizer(sentence)["input_ids"])
        logprobs = []
        with torch.inference_mode():
            for place in range(1, len(ids) - 1):
                masked = ids.clone()
                masked[place] = self.mask
                logprobs.append(float(self.logits(model, masked).double().log_softmax(-1)[ids[place]]))
        return logprobs

    def logits(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(ids[None]).logits[0, ids.tolist().index(self.mask)]
        return logits


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (_Causal(), _Masked())}


def word_pieces(texts: Sequence[str], size: int, special: Sequence[str]) -> dict[str, int]:
    """At most ``size`` pieces of words and their ids; those inside a word begin with ``##``.

    They are trained as BPE with the beginning of a word marked, because the trainer of the tokenizers library for
    WordPiece breaks ties in another order at every run.
    """
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.BertNormalizer(lowercase=True)
    begin = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), begin])
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, limit_alphabet=100, show_progress=False))
    trained = sorted(bpe.get_vocab(), key=bpe.get_vocab().__getitem__)
    letters = [token for token in trained if len(token) == 1 and token != "▁"]
    marked = [token[1:] if token[0] == "▁" else f"##{token}" for token in trained if token != "▁"]
    tokens = dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *marked])
    return {token: number for number, token in enumerate([*tokens][:size])}


@torch.no_grad()
def attend_to_neighbours(model: Any, amplitude: float = 0.2) -> None:
    """Begins a BERT with heads of its first layer that attend 2 and 1 tokens back, 1 and 2 ahead.

    Positions begin as waves; a head's query matrix turns them by its offset, and its key matrix leaves
    them as they are. A masked model this small that must find out about neighbours by itself stays at
    the frequencies of tokens for longer than its whole training.
    """
    positions = model.bert.embeddings.position_embeddings.weight
    attention = model.bert.encoder.layer[0].attention.self
    size = attention.attention_head_size
    waves = torch.logspace(math.log10(3.0), math.log10(0.15), size // 2)
    angles = torch.arange(len(positions))[:, None] * waves
    positions.zero_()
    positions[:, :size] = amplitude * torch.cat([angles.sin(), angles.cos()], 1)
    for head, offset in enumerate((-2, -1, 1, 2)[: attention.num_attention_heads]):
        sin, cos = (waves * offset).sin().diag(), (waves * offset).cos().diag()
        rows = slice(head * size, (head + 1) * size)
        turn = torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])
        for weight, begin in ((attention.query.weight, turn), (attention.key.weight, torch.eye(size))):
            weight[rows] = 0
            weight[rows, :size] = begin
