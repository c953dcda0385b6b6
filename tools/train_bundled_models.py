"""Trains the small models bundled with this package: ``python -m tools.train_bundled_models causal --corpus FILE…``.

The models are for demonstrations without network and for tests, not for claims. The same corpus, seed, versions and
kind of processor give the same weights. ``training.json`` beside the weights has the facts of the training, and the
card (``tools/templates/bundled_model.md.j2``) says nothing else.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from safetensors.torch import save_file

from builders.files.manifest import file_sha256
from cards.common.text import templates
from scoring.types import ScoringError
from tools.bundled_kinds import KINDS, Kind, Recipe

Tokens = NDArray[np.uint16]
#: The content of ``training.json``.
Facts = dict[str, Any]
DATA = Path(__file__).parents[1] / "scoring" / "data"
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
#: Scored after training, so that a later reading of the folder can be compared.
REFERENCE = "The nurse told the farmer that she would come again in the morning."
_PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "…": "...", "_": None})
_SENTENCE = re.compile(r"""(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)(?<!St\.)(?:(?<=[.!?])|(?<=[.!?]["']))\s+(?=["']?[A-Z])""")


class Document(NamedTuple):
    """A text of the corpus, and its name in the file."""

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
    r"""Runs of whole sentences of at least ``length`` characters, on one line, with ASCII quotes and dashes.

    >>> passages("“Come in,” said Mrs. Poyser.\nShe _smiled_. He sat\ndown.", length=20)
    ['"Come in," said Mrs. Poyser.', 'She smiled. He sat down.']
    """
    runs = [""]
    for sentence in _SENTENCE.split(" ".join(text.translate(_PLAIN).split())):
        runs[-1] = f"{runs[-1]} {sentence}".lstrip()
        if len(runs[-1]) >= length:
            runs.append("")
    return runs if runs[-1] else runs[:-1]


def divide(texts: Sequence[str], share: float = 0.01) -> tuple[list[str], list[str]]:
    """Passages for training and, from the end of every text, the share that is held out."""
    train: list[str] = []
    held_out: list[str] = []
    for text in texts:
        runs = passages(text)
        cut = len(runs) - math.ceil(share * len(runs))
        train += runs[:cut]
        held_out += runs[cut:]
    return train, held_out


def stream(tokenizer: Any, texts: Sequence[str]) -> tuple[Tokens, NDArray[np.int64]]:
    """All tokens of the passages one after another, and the place at which each passage starts."""
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    parts, lengths = [], [0]
    for start in range(0, len(texts), 10_000):
        for encoding in tokenizer.backend_tokenizer.encode_batch(list(texts[start : start + 10_000])):
            parts.append(np.array(encoding.ids + end, np.uint16))
            lengths.append(len(parts[-1]))
    return np.concatenate(parts), np.cumsum(lengths[:-1])


def rows_at(tokens: Tokens, starts: NDArray[np.int64], context: int) -> torch.Tensor:
    """Rows [starts, context] of the token stream."""
    return torch.from_numpy(tokens[starts[:, None] + np.arange(context)].astype(np.int64))


def whole_rows(tokens: Tokens, starts: NDArray[np.int64], context: int) -> NDArray[np.int64]:
    """The starts after which there are enough tokens for a whole row.

    Raises
    ------
    ScoringError
        When there is none.
    """
    whole = starts[starts + context <= len(tokens)]
    if not len(whole):
        raise ScoringError(
            f"The corpus has {len(tokens)} tokens in one of its two parts, and a row takes {context}; "
            "give a longer corpus or a smaller --context."
        )
    return whole


def train(kind: Kind, model: Any, tokens: Tokens, starts: NDArray[np.int64], recipe: Recipe, log: Console) -> float:
    """AdamW with a warm-up and a cosine to zero; rows start at passages drawn with the seed.

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
            rows = rows_at(tokens, draw.choice(starts, recipe.batch), recipe.context)
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


def held_out_loss(kind: Kind, model: Any, tokens: Tokens, starts: NDArray[np.int64], recipe: Recipe) -> float:
    """Mean loss over up to 2,048 evenly spaced rows, with a mask pattern of its own seed."""
    chosen = starts[np.linspace(0, len(starts) - 1, min(2048, len(starts))).astype(int)]
    generator = torch.Generator().manual_seed(recipe.seed + 1)
    losses = []
    with torch.inference_mode():
        for start in range(0, len(chosen), recipe.batch):
            part = chosen[start : start + recipe.batch]
            losses.append(len(part) * kind.loss(model, rows_at(tokens, part, recipe.context), generator).item())
    return math.fsum(losses) / len(chosen)


def unigram_entropy(kind: Kind, train: Tokens, held_out: Tokens, vocabulary: int) -> float:
    """Nats per predicted held-out token of the frequencies in the training part, one added to each count."""
    train, held_out = (
        part[kind.predicted(torch.from_numpy(part.astype(np.int64))).numpy()] for part in (train, held_out)
    )
    counts = np.bincount(train, minlength=vocabulary) + 1
    return float(-np.log(counts / counts.sum())[held_out].mean())


def to_float16(model: Any) -> dict[str, torch.Tensor]:
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
    train_texts, held_out_texts = divide([document.text for file in texts.values() for document in file])
    if not train_texts:
        raise ScoringError("The corpus has no two passages to learn from and to hold out; give --corpus longer texts.")
    tokenizer = kind.tokenizer(train_texts, recipe.vocabulary, recipe.context)
    tokens, starts = stream(tokenizer, train_texts)
    held_out, held_out_starts = stream(tokenizer, held_out_texts)
    starts = whole_rows(tokens, starts, recipe.context)
    held_out_starts = whole_rows(held_out, held_out_starts, recipe.context)
    model = kind.network(tokenizer, recipe)
    train_loss = train(kind, model, tokens, starts, recipe, log)
    weights = to_float16(model)
    loss = held_out_loss(kind, model, held_out, held_out_starts, recipe)
    facts: Facts = {
        "architecture": type(model).__name__,
        "parameters": sum(weight.numel() for weight in weights.values()),
        "stored_as": "float16",
        **asdict(origin),
        "recipe": asdict(recipe),
        "corpus": [
            {"file": path.name, "sha256": file_sha256(path), "documents": [document.name for document in texts[path]]}
            for path in corpus
        ],
        "tokens": {
            "seen": recipe.steps * recipe.batch * recipe.context,
            "training_part": len(tokens),
            "held_out_part": len(held_out),
        },
        "nats_per_token": {
            "training": round(train_loss, 4),
            "held_out": round(loss, 4),
            "held_out_unigram": round(unigram_entropy(kind, tokens, held_out, len(tokenizer)), 4),
            "uniform": round(math.log(len(tokenizer)), 4),
        },
        "held_out_perplexity": round(math.exp(loss), 2),
        "illustration": kind.word_probabilities(model, tokenizer),
        "reference": {"sentence": REFERENCE, "logprobs": kind.logprobs(model, tokenizer, REFERENCE)},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
    }
    write(kind, model, weights, tokenizer, facts, out)
    return facts


def write(kind: Kind, model: Any, weights: Mapping[str, torch.Tensor], tokenizer: Any, facts: Facts, out: Path) -> None:
    """Writes the model folder; every file takes the place of an old one in one step."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".writing-") as name:
        folder = Path(name)
        model.config.architectures = [type(model).__name__]
        model.config.dtype = torch.float32  # how it is loaded; float16 is only how it is stored
        model.config.save_pretrained(folder)
        if model.can_generate():
            model.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        # The tokenizer class that every release since 4 knows, instead of the one that version 5 writes.
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        settings.pop("backend", None)
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "training.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(card(kind, facts), encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)
            file.replace(out / file.name)


def card(kind: Kind, facts: Facts) -> str:
    """The model card."""
    template = templates(Path(__file__).with_name("templates")).get_template("bundled_model.md.j2")
    return template.render(**facts, kind=kind, count=sum(len(file["documents"]) for file in facts["corpus"]))


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


def command(options: argparse.Namespace) -> str:
    """The command that trains the same model, without the folders of the person who ran it.

    >>> command(arguments().parse_args(["causal", "--corpus", "/home/me/a.txt", "--steps", "9", "--out", "/x"]))
    'python -m tools.train_bundled_models causal --corpus a.txt --steps 9'
    """
    corpus = [path.name for path in options.corpus]
    words = ["python", "-m", "tools.train_bundled_models", options.kind, "--corpus", *corpus]
    for option, value in vars(options).items():
        if option not in {"kind", "corpus", "out"} and value != arguments().get_default(option):
            words += [f"--{option.replace('_', '-')}", str(value)]
    return shlex.join(words)


def main(words: Sequence[str] | None = None) -> int:
    """Trains as the command line says; returns the exit status."""
    options = arguments().parse_args(words)
    log = Console(stderr=True, soft_wrap=True, highlight=False)
    recipe = Recipe(**{field.name: getattr(options, field.name) for field in fields(Recipe)})
    origin = Origin(options.provenance, options.licence, command(options))
    out = options.out or DATA / f"tiny-{options.kind}"
    try:
        facts = build(KINDS[options.kind], options.corpus, out, recipe, origin, log)
    except ScoringError as error:
        log.print(f"error: {error}", style="red", markup=False)
        return error.exit_code
    shown = ("parameters", "nats_per_token", "held_out_perplexity", "illustration")
    print(json.dumps({key: facts[key] for key in shown}))
    print(f"The model is in {out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
