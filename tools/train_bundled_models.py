"""Trains the small models bundled with this package: ``python -m tools.train_bundled_models causal --corpus FILE…``.

They let a fresh machine without network see real numbers and give the tests a model that has learnt
something; they are no object of study. The same corpus, seed, versions and kind of processor give the
same weights. What a model was made of and what it reached is written beside its weights as
``training.json``, and its card says nothing that is not in there.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import platform
import re
import shlex
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from scoring.types import ScoringError

Tokens = NDArray[np.uint16]
#: A tokenizer of transformers, whose classes are not typed.
Tokenizing = Any
DATA = Path(__file__).parents[1] / "scoring" / "data"
_PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "…": "...", "_": None})
#: What ``training.json`` says of a model.
Facts = dict[str, Any]
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
#: Scored after training, so that a later reading of the folder can be compared.
REFERENCE = "The nurse told the farmer that she would come again in the morning."
_SENTENCE = re.compile(r"""(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)(?<!St\.)(?:(?<=[.!?])|(?<=[.!?]["']))\s+(?=["']?[A-Z])""")

CARD = """---
language: en
license: {licence}
library_name: transformers
pipeline_tag: {task}
---
# tiny-{name}: a small language model for demonstrations and tests

{summary}; {parameters:,} parameters,
kept in {stored_as} and meant to be computed in float32.

It is bundled with gender-neutral-probes so that every command shows real numbers on a machine without
network, and so that tests have a model that has learnt something. It is **not** for claims: it has seen
{seen:,} tokens, knows little of the world, and what it says of women and men is what its texts say.

## What it was made of
{provenance} {count} texts, by name with the
digests of their files in `training.json`. The last hundredth of each text was held out.

## What it reached
| nats per {target} | |
| --- | --- |
| held out | {nats[held_out]} (perplexity {held_out_perplexity}) |
| held out, by token frequency alone | {nats[held_out_unigram]} |
| uniform over the vocabulary | {nats[uniform]} |
| end of training | {nats[training]} |

In “{text}”: {chances}.

## How it was trained
{r[steps]:,} steps of {r[batch]} rows of {r[context]} tokens; AdamW at {r[rate]} with {r[warmup]} steps of warm-up and a
cosine to zero, weight decay {r[weight_decay]}, seed {r[seed]}, one thread. {school} To train it again:

```
{command}
```
"""


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


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the corpus; ``name`` is the one its file gives."""

    name: str
    text: str


def documents(path: Path) -> Iterator[Document]:
    """Texts of a file: JSON lines with ``text`` and perhaps ``meta.name``, or plain text for any other name.

    A name that ends in .zst, .gz or .bz2 is decompressed.

    Raises
    ------
    ScoringError
        When the file cannot be read or a line is not such an object.
    """
    if not path.is_file():
        raise ScoringError(f"There is no corpus file {path}; give --corpus the paths of text files or of JSON lines.")
    try:
        with io.TextIOWrapper(pa.input_stream(str(path), compression="detect"), encoding="utf-8") as lines:
            if ".jsonl" not in path.name:
                yield Document(path.name, lines.read())
                return
            for number, line in enumerate(lines, 1):
                record = json.loads(line)
                yield Document(record.get("meta", {}).get("name", f"{path.name} line {number}"), record["text"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ScoringError(
            f"The corpus file {path} could not be read ({error}); give --corpus the path of a text file or of "
            "JSON lines with a text field, plain or compressed."
        ) from error


def passages(text: str, length: int = 120) -> list[str]:
    r"""Runs of whole sentences of at least so many characters, on one line, with ASCII quotes and dashes.

    >>> passages("“Come in,” said Mrs. Poyser.\nShe _smiled_. He sat\ndown.", length=20)
    ['"Come in," said Mrs. Poyser.', 'She smiled. He sat down.']
    """
    found, run = [], ""
    for sentence in _SENTENCE.split(" ".join(text.translate(_PLAIN).split())):
        run = f"{run} {sentence}".lstrip()
        if len(run) >= length:
            found.append(run)
            run = ""
    return [*found, run] if run else found


def divide(texts: Sequence[str], share: float = 0.01) -> tuple[list[str], list[str]]:
    """Passages for training and, from the end of every text, the share that is held out."""
    train: list[str] = []
    held: list[str] = []
    for text in texts:
        found = passages(text)
        cut = len(found) - math.ceil(share * len(found))
        train += found[:cut]
        held += found[cut:]
    return train, held


class Kind(ABC):
    """What differs between the two models; each is asked about he and she where ``shown`` says."""

    name: str
    task: str
    summary: str
    target: str
    school: str
    shown: tuple[str, str, str]

    @abstractmethod
    def tokenizer(self, texts: Sequence[str], size: int, context: int) -> Tokenizing:
        """A tokenizer of at most so many tokens, learnt from the texts, for rows of so many."""

    @abstractmethod
    def network(self, tokenizer: Tokenizing, recipe: Recipe) -> Any:
        """The untrained model."""

    @abstractmethod
    def predicted(self, rows: torch.Tensor) -> torch.Tensor:
        """Which tokens of rows the loss is about; the others follow from how rows are made."""

    @abstractmethod
    def loss(self, model: Any, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Mean loss in nats per predicted token of rows [batch, context]."""

    @abstractmethod
    def logprobs(self, model: Any, tokenizer: Tokenizing, sentence: str) -> list[float]:
        """Natural log-probability of each token of a sentence but the special ones."""

    @abstractmethod
    def place(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """Logits [vocabulary] of the next token after ids [tokens], or of the masked one among them."""

    def chances(self, model: Any, tokenizer: Tokenizing) -> dict[str, Any]:
        """Probabilities of he and she in one place, as an illustration."""
        text, *words = self.shown
        with torch.inference_mode():
            found = self.place(model, torch.tensor(tokenizer(text)["input_ids"])).double().softmax(-1)
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words]
        return {"text": text, "probability": {w: round(float(found[i]), 4) for w, i in zip(words, ids, strict=True)}}


class Causal(Kind):
    """A Llama with a byte-level BPE tokenizer."""

    name = "causal"
    task = "text-generation"
    summary = "`LlamaForCausalLM` with a byte-level BPE tokenizer that puts `<s>` in front of every text"
    target = "next token"
    school = "Each token was predicted from those before it."
    shown = ("My friend is a nurse, and", " he", " she")

    def tokenizer(self, texts: Sequence[str], size: int, context: int) -> Tokenizing:
        """Byte-level BPE without a space added in front, so that " she" after a text is one token."""
        bpe = Tokenizer(models.BPE())
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
        return _wrapped(
            bpe,
            model_max_length=2 * context,
            model_input_names=["input_ids", "attention_mask"],
            bos_token="<s>",
            eos_token="</s>",
            pad_token="<pad>",
        )

    def network(self, tokenizer: Tokenizing, recipe: Recipe) -> Any:
        """A Llama with tied embeddings; rotary positions serve texts somewhat longer than the rows."""
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=recipe.width,
                intermediate_size=recipe.width * 8 // 24 * 8,
                num_hidden_layers=recipe.layers,
                num_attention_heads=recipe.heads,
                max_position_embeddings=2 * recipe.context,
                tie_word_embeddings=True,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )

    def predicted(self, rows: torch.Tensor) -> torch.Tensor:
        """All but ``<s>``."""
        return rows > 0

    def loss(self, model: Any, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Cross-entropy of each token given those before it in the row."""
        del generator
        hidden = model.model(rows, use_cache=False).last_hidden_state[:, :-1]
        targets = rows[:, 1:]
        chosen = self.predicted(targets)
        return torch.nn.functional.cross_entropy(model.lm_head(hidden[chosen]), targets[chosen])

    def logprobs(self, model: Any, tokenizer: Tokenizing, sentence: str) -> list[float]:
        """Each token given those before it and ``<s>``."""
        ids = torch.tensor(tokenizer(sentence)["input_ids"])
        with torch.inference_mode():
            found = model(ids[None]).logits[0, :-1].double().log_softmax(-1)
        return [float(row[token]) for row, token in zip(found, ids[1:], strict=True)]

    def place(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """After the last token."""
        logits: torch.Tensor = model(ids[None]).logits[0, -1]
        return logits


class Masked(Kind):
    """A BERT with an uncased WordPiece tokenizer."""

    name = "masked"
    task = "fill-mask"
    summary = "`BertForMaskedLM` with an uncased WordPiece tokenizer that puts `[CLS]` and `[SEP]` around every text"
    share = 0.3
    target = f"masked token where {share:.0%} are masked"
    school = "The heads of the first layer began by looking at the four nearest tokens."
    shown = ("My friend is a nurse, and [MASK] has a kind heart.", "he", "she")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

    def tokenizer(self, texts: Sequence[str], size: int, context: int) -> Tokenizing:
        """Uncased WordPiece as BERT has it."""
        pieces = Tokenizer(models.WordPiece(word_pieces(texts, size, self.special), unk_token="[UNK]"))
        pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
        pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        pieces.decoder = decoders.WordPiece()
        pieces.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        names = {f"{token.strip('[]').lower()}_token": token for token in self.special}
        return _wrapped(pieces, model_max_length=context, **names)

    def network(self, tokenizer: Tokenizing, recipe: Recipe) -> Any:
        """A BERT without dropout, which a model this small has no use for."""
        model = BertForMaskedLM(
            BertConfig(
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
        )
        look_at_neighbours(model)
        return model

    def predicted(self, rows: torch.Tensor) -> torch.Tensor:
        """All but special tokens."""
        return rows >= len(self.special)

    def loss(self, model: Any, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Cross-entropy of a random part of the tokens, all replaced by the mask."""
        chosen = self.predicted(rows) & (torch.rand(rows.shape, generator=generator) < self.share)
        hidden = model.bert(rows.masked_fill(chosen, self.special.index("[MASK]"))).last_hidden_state[chosen]
        return torch.nn.functional.cross_entropy(model.cls(hidden), rows[chosen])

    def logprobs(self, model: Any, tokenizer: Tokenizing, sentence: str) -> list[float]:
        """Each token given all others: the terms of a pseudo-log-likelihood (Salazar et al. 2020)."""
        ids = torch.tensor(tokenizer(sentence)["input_ids"])
        found = []
        with torch.inference_mode():
            for at in range(1, len(ids) - 1):
                masked = ids.clone()
                masked[at] = self.special.index("[MASK]")
                found.append(float(self.place(model, masked).double().log_softmax(-1)[ids[at]]))
        return found

    def place(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """At the mask."""
        logits: torch.Tensor = model(ids[None]).logits[0, ids.tolist().index(self.special.index("[MASK]"))]
        return logits


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (Causal(), Masked())}


def _wrapped(tokenizer: Tokenizer, **settings: Any) -> Tokenizing:
    make: Any = PreTrainedTokenizerFast
    return make(tokenizer_object=tokenizer, **settings)


def word_pieces(texts: Sequence[str], size: int, special: Sequence[str]) -> dict[str, int]:
    """Pieces of words and their ids, those inside a word marked with ``##``, at most so many.

    Learnt as BPE with the beginning of a word marked, because the trainer of the tokenizers library for
    WordPiece breaks ties in another order at every run.
    """
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.BertNormalizer(lowercase=True)
    begin = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), begin])
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, limit_alphabet=100, show_progress=False))
    learnt = sorted(bpe.get_vocab(), key=bpe.get_vocab().__getitem__)
    letters = [token for token in learnt if len(token) == 1 and token != "▁"]
    marked = [token[1:] if token[0] == "▁" else f"##{token}" for token in learnt if token != "▁"]
    tokens = dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *marked])
    return {token: number for number, token in enumerate([*tokens][:size])}


@torch.no_grad()
def look_at_neighbours(model: Any, amplitude: float = 0.2) -> None:
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


def stream(tokenizer: Any, texts: Sequence[str]) -> tuple[Tokens, NDArray[np.int64]]:
    """All tokens of the passages one after another, and where each passage begins."""
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    parts, lengths = [], [0]
    for start in range(0, len(texts), 10_000):
        for encoding in tokenizer.backend_tokenizer.encode_batch(list(texts[start : start + 10_000])):
            parts.append(np.array(encoding.ids + end, np.uint16))
            lengths.append(len(parts[-1]))
    return np.concatenate(parts), np.cumsum(lengths[:-1])


def rows_at(tokens: Tokens, begins: NDArray[np.int64], context: int) -> torch.Tensor:
    """Rows [begins, context] of the token stream."""
    return torch.from_numpy(tokens[begins[:, None] + np.arange(context)].astype(np.int64))


def usable(tokens: Tokens, begins: NDArray[np.int64], context: int) -> NDArray[np.int64]:
    """The passages that have a whole row behind their beginning.

    Raises
    ------
    ScoringError
        When there is none.
    """
    whole = begins[begins + context <= len(tokens)]
    if not len(whole):
        raise ScoringError(
            f"The corpus has {len(tokens)} tokens in one of its two parts, and a row takes {context}; "
            "give a longer corpus or a smaller --context."
        )
    return whole


def train(kind: Kind, model: Any, tokens: Tokens, begins: NDArray[np.int64], recipe: Recipe, log: Console) -> float:
    """AdamW with a warm-up and a cosine to zero; rows begin at passages drawn with the seed.

    Returns the mean loss of the last twentieth of the steps.

    Raises
    ------
    ScoringError
        At the first loss that is not a finite number.
    """
    draw, generator = np.random.default_rng(recipe.seed), torch.Generator().manual_seed(recipe.seed)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, recipe))
    losses: list[float] = []
    stride = math.ceil(recipe.steps / 20)
    model.train()
    with Progress(console=log) as progress:
        task = progress.add_task("training", total=recipe.steps)
        for step in range(recipe.steps):
            rows = rows_at(tokens, draw.choice(begins, recipe.batch), recipe.context)
            loss = kind.loss(model, rows, generator)
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise ScoringError(f"The loss of step {step} is {losses[-1]}; train again with a smaller --rate.")
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            progress.advance(task)
            if len(losses) % stride == 0:
                progress.console.print(f"step {len(losses)}: loss {math.fsum(losses[-stride:]) / stride:.3f}")
    model.eval()
    return math.fsum(losses[-stride:]) / len(losses[-stride:])


def rate(step: int, recipe: Recipe) -> float:
    """Share of the full learning rate at a step.

    >>> [round(rate(step, Recipe(steps=300, warmup=100)), 2) for step in (0, 99, 200, 299)]
    [0.01, 1.0, 0.5, 0.0]
    """
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    return 0.5 + 0.5 * math.cos(math.pi * (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup))


def held_out_loss(kind: Kind, model: Any, tokens: Tokens, begins: NDArray[np.int64], recipe: Recipe) -> float:
    """Mean loss over up to 2,048 evenly spaced rows, with a mask pattern of its own seed."""
    chosen = begins[np.linspace(0, len(begins) - 1, min(2048, len(begins))).astype(int)]
    generator = torch.Generator().manual_seed(recipe.seed + 1)
    losses = []
    with torch.inference_mode():
        for start in range(0, len(chosen), recipe.batch):
            part = chosen[start : start + recipe.batch]
            losses.append(len(part) * kind.loss(model, rows_at(tokens, part, recipe.context), generator).item())
    return math.fsum(losses) / len(chosen)


def unigram_entropy(kind: Kind, learnt: Tokens, held: Tokens, vocabulary: int) -> float:
    """Nats per predicted held-out token of the frequencies in the training part, one added to each count."""
    learnt, held = (part[kind.predicted(torch.from_numpy(part.astype(np.int64))).numpy()] for part in (learnt, held))
    counts = np.bincount(learnt, minlength=vocabulary) + 1
    return float(-np.log(counts / counts.sum())[held].mean())


def halved(model: Any) -> dict[str, torch.Tensor]:
    """The weights in float16, each once; the model takes their rounded values."""
    state = {}
    for name, weight in model.named_parameters():
        state[name] = weight.data.half().contiguous()
        weight.data = state[name].float()
    return state


@dataclass(frozen=True, slots=True)
class Origin:
    """What the person who trains says about the corpus, word for word in the card."""

    provenance: str
    licence: str
    command: str


def build(kind: Kind, corpus: Sequence[Path], out: Path, recipe: Recipe, origin: Origin, log: Console) -> Facts:
    """Trains a model and writes its folder; returns what ``training.json`` says.

    Raises
    ------
    ScoringError
        When the corpus cannot be read or is too small, or the loss is not finite.
    """
    torch.set_num_threads(1)  # sums in another order would give other weights
    torch.manual_seed(recipe.seed)
    texts = {path: list(documents(path)) for path in corpus}
    learnt, held = divide([d.text for found in texts.values() for d in found])
    if not learnt:
        raise ScoringError("The corpus has no two passages to learn from and to hold out; give --corpus longer texts.")
    tokenizer = kind.tokenizer(learnt, recipe.vocabulary, recipe.context)
    tokens, begins = stream(tokenizer, learnt)
    held_tokens, held_begins = stream(tokenizer, held)
    begins, held_begins = usable(tokens, begins, recipe.context), usable(held_tokens, held_begins, recipe.context)
    model = kind.network(tokenizer, recipe)
    train_loss = train(kind, model, tokens, begins, recipe, log)
    weights = halved(model)
    loss = held_out_loss(kind, model, held_tokens, held_begins, recipe)
    facts: Facts = {
        "architecture": type(model).__name__,
        "parameters": sum(weight.numel() for weight in weights.values()),
        "stored_as": "float16",
        **asdict(origin),
        "recipe": asdict(recipe),
        "corpus": [{"file": p.name, "sha256": sha256(p), "documents": [d.name for d in texts[p]]} for p in corpus],
        "tokens": {
            "seen": recipe.steps * recipe.batch * recipe.context,
            "training_part": len(tokens),
            "held_out_part": len(held_tokens),
        },
        "nats_per_token": {
            "training": round(train_loss, 4),
            "held_out": round(loss, 4),
            "held_out_unigram": round(unigram_entropy(kind, tokens, held_tokens, len(tokenizer)), 4),
            "uniform": round(math.log(len(tokenizer)), 4),
        },
        "held_out_perplexity": round(math.exp(loss), 2),
        "illustration": kind.chances(model, tokenizer),
        "reference": {"sentence": REFERENCE, "logprobs": kind.logprobs(model, tokenizer, REFERENCE)},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
    }
    write(kind, model, weights, tokenizer, facts, out)
    return facts


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(kind: Kind, model: Any, weights: Mapping[str, torch.Tensor], tokenizer: Any, facts: Facts, out: Path) -> None:
    """Writes the model folder; every file takes the place of an old one in one step."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".writing-") as name:
        folder = Path(name)
        model.config.architectures = [type(model).__name__]
        model.config.dtype = torch.float32  # how it is loaded; float16 is only how it is kept
        model.config.save_pretrained(folder)
        if model.can_generate():
            model.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _portable(folder / "tokenizer_config.json")
        save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "training.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(card(kind, facts), encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)
            file.replace(out / file.name)


def _portable(path: Path) -> None:
    """Names the tokenizer class that every release since 4 knows instead of the one that version 5 writes."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("backend", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def card(kind: Kind, facts: Facts) -> str:
    """The model card."""
    shown = facts["illustration"]
    chances = ", ".join(f"p({word.strip()}) = {p}" for word, p in shown["probability"].items())
    return CARD.format(
        **facts,
        **{name: getattr(kind, name) for name in ("name", "task", "summary", "target", "school")},
        count=sum(len(file["documents"]) for file in facts["corpus"]),
        text=shown["text"],
        chances=chances,
        nats=facts["nats_per_token"],
        seen=facts["tokens"]["seen"],
        r=facts["recipe"],
    )


def arguments() -> argparse.ArgumentParser:
    """The command line; every field of the recipe is an option."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.train_bundled_models", description="Train a small bundled model again."
    )
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("--corpus", nargs="+", type=Path, required=True, metavar="FILE", help="text or JSON lines")
    parser.add_argument("--out", type=Path, help="folder of the model (default: the bundled one)")
    parser.add_argument("--provenance", default="Not stated.", help="where the corpus comes from, for the card")
    parser.add_argument("--licence", default="other", help="Hub identifier of the weights' licence, for the card")
    for field in fields(Recipe):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    return parser


def command(given: argparse.Namespace) -> str:
    """The command that trains the same model, without the folders of the person who gave it.

    >>> command(arguments().parse_args(["causal", "--corpus", "/home/me/a.txt", "--steps", "9", "--out", "/x"]))
    'python -m tools.train_bundled_models causal --corpus a.txt --steps 9'
    """
    words = [
        "python",
        "-m",
        "tools.train_bundled_models",
        given.kind,
        "--corpus",
        *(path.name for path in given.corpus),
    ]
    for option, value in vars(given).items():
        if option not in {"kind", "corpus", "out"} and value != arguments().get_default(option):
            words += [f"--{option.replace('_', '-')}", str(value)]
    return shlex.join(words)


def main(words: Sequence[str] | None = None) -> int:
    """Trains as the command line says; returns the exit status."""
    words = sys.argv[1:] if words is None else words
    given = arguments().parse_args(words)
    log = Console(stderr=True, soft_wrap=True, highlight=False)
    recipe = Recipe(**{field.name: getattr(given, field.name) for field in fields(Recipe)})
    out = given.out or DATA / f"tiny-{given.kind}"
    try:
        facts = build(
            KINDS[given.kind], given.corpus, out, recipe, Origin(given.provenance, given.licence, command(given)), log
        )
    except ScoringError as error:
        log.print(f"error: {error}", style="red", markup=False)
        return error.exit_code
    print(
        json.dumps({key: facts[key] for key in ("parameters", "nats_per_token", "held_out_perplexity", "illustration")})
    )
    print(f"The model is in {out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
