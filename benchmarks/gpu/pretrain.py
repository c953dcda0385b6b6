"""Trains a causal and a masked model of 25 to 30 million parameters, and scores them with all benchmarks.

Texts, tokenizers, networks and losses are those of the bundled models (``tools/train_bundled_models.py``). The loop is
for a GPU: bfloat16, a budget of tokens, and checkpoints from which the next run goes on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import scoring
from benchmarks.gpu import fast
from benchmarks.gpu.mitigation import text
from benchmarks.gpu.step import Goal, Measured, Part, Setting, Step, Unfinished
from cards.common.draw import PALETTE, canvas, image, styled, titled
from cards.common.files import put, replacing
from cards.common.text import templates
from tools import train_bundled_models as bundled
from tools.bundled_kinds import KINDS, Kind, Recipe

#: 26.6 and 27.4 million parameters with a vocabulary of 16,384.
LARGE = Recipe(vocabulary=16384, width=448, layers=8, heads=7, context=256, batch=256, rate=1e-3, warmup=300, steps=0)
SMALL = Recipe(vocabulary=600, width=32, layers=2, heads=2, context=160, batch=2, rate=2e-3, warmup=4, steps=0)
#: Tokens to train on, and of the corpus at most; the seconds between two checkpoints.
BUDGET, FEW_TOKENS, TEXTS, SAVED = 300_000_000, 6_000, 20_000, 60.0
#: The most bytes of a file of weights; a tensor larger than that would have a file of its own.
SHARD = 16 * 2**20
PARAMETERS = (25e6, 30e6)
GOALS = tuple(
    Goal(f"{kind} {what}", goal, peer)
    for kind in KINDS
    for what, goal, peer in (
        ("parameters", "25 to 30 million", "none"),
        ("training", "the budget of tokens", "token frequency alone"),
        ("files of weights", "at most 16 MiB each", "none"),
        ("suite", "all benchmarks that suit it", "bundled model"),
    )
)


def parts(setting: Setting) -> dict[str, Callable[[], Part]]:
    """Each model is trained, then scored."""
    makers = {"training": trained, "suite": suite}
    return {f"{kind} {what}": partial(make, setting, KINDS[kind]) for kind in KINDS for what, make in makers.items()}


def documents(setting: Setting) -> list[str]:
    """The texts of the corpus, or sentences of the data sets where none is given."""
    files = sorted(Path(setting.corpus).glob("*.jsonl.zst")) if setting.corpus else []
    found = [document.text for path in files for document in bundled.documents(path)]
    if setting.small and found:
        found = [document[:200_000] for document in found[:2]]
    return found or [text(setting).read_text()]


def corpus(setting: Setting, kind: Kind, recipe: Recipe) -> tuple[Any, Any, Any, Any, Any]:
    """The tokenizer, and tokens and starts of the passages for training and of those held out; kept on the disk."""
    folder = setting.scratch / f"corpus-{kind.name}-{Path(setting.corpus).name or 'made'}"
    names = ("train", "starts", "held_out", "held_out_starts")
    if not (folder / ".ready").is_file():
        training, held_out = bundled.divide(documents(setting))
        draw = np.random.default_rng(recipe.seed)
        some = [training[n] for n in draw.permutation(len(training))[: setting.few(2000, 200_000)]]
        tokenizer = kind.tokenizer(some, recipe.vocabulary, recipe.context)
        folder.mkdir(exist_ok=True)
        tokenizer.save_pretrained(folder)
        arrays: Any = (*bundled.stream(tokenizer, training), *bundled.stream(tokenizer, held_out))
        for name, array in zip(names, arrays, strict=True):
            np.save(folder / f"{name}.npy", array)
        (folder / ".ready").touch()
    load: Any = transformers.AutoTokenizer
    tokenizer = load.from_pretrained(folder)
    train, starts, held, held_starts = (np.load(folder / f"{name}.npy") for name in names)
    whole = (bundled.whole_rows(train, starts, recipe.context), bundled.whole_rows(held, held_starts, recipe.context))
    return tokenizer, train, whole[0], held, whole[1]


def trained(setting: Setting, kind: Kind) -> Part:
    """A model trained for its budget of tokens, with its curve, card and files of weights.

    Raises
    ------
    Unfinished
        When the time is over; a checkpoint has what was trained.
    """
    recipe = setting.few(SMALL, LARGE)
    tokenizer, tokens, starts, held, held_starts = corpus(setting, kind, recipe)
    torch.manual_seed(recipe.seed)
    model = kind.network(tokenizer, recipe).to(setting.device)
    budget = min(setting.few(FEW_TOKENS, BUDGET), 20 * len(tokens))
    steps = max(budget // (recipe.batch * recipe.context), 2)
    recipe = Recipe(**asdict(recipe) | {"steps": steps, "warmup": min(recipe.warmup, steps // 2)})
    curve, seconds = fit(setting, kind, model, tokens, starts, recipe)
    loss = evaluated(setting, kind, model, held, held_starts, recipe)
    frequency = bundled.unigram_entropy(kind, tokens, held, len(tokenizer))
    folder = folder_of(setting, kind)
    facts = {
        "parameters": model.num_parameters(),
        "corpus": [path.name for path in sorted(Path(setting.corpus).glob("*.jsonl.zst"))] if setting.corpus else [],
        "corpus_tokens": len(tokens),
        "trained_tokens": steps * recipe.batch * recipe.context,
        "training_seconds": seconds,
        "held_out_nats": loss,
        "token_frequency_nats": frequency,
        "uniform_nats": math.log(len(tokenizer)),
        "recipe": asdict(recipe),
        "device": torch.cuda.get_device_name() if setting.device == "cuda" else "cpu",
    }
    save(folder, model, tokenizer)
    put(folder / "loss.json", json.dumps(curve).encode())
    put(folder / "loss.png", drawn(kind, curve, facts))
    template = templates(Path(__file__).parent).get_template("pretrained.md.j2")
    put(folder / "README.md", template.render(kind=kind, **facts).encode())
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    return {**facts, "files_of_weights": len(sizes), "largest_file": max(sizes)}


def folder_of(setting: Setting, kind: Kind) -> Path:
    """The folder of a trained model."""
    return setting.out / "models" / f"{'small' if setting.small else '27m'}-{kind.name}"


def fit(
    setting: Setting, kind: Kind, model: Any, tokens: Any, starts: Any, recipe: Recipe
) -> tuple[list[tuple[int, float]], float]:
    """Trains all weights; returns the mean loss of every hundredth of the steps by tokens, and the seconds."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: bundled.rate(step, recipe))
    path = setting.scratch / f"{kind.name}.pt"
    state: dict[str, Any] = {"step": 0, "losses": [], "seconds": 0.0}
    if path.is_file():
        loaded = torch.load(path, map_location=setting.device, weights_only=True)
        if loaded["recipe"] == asdict(recipe):
            state = loaded
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
    losses, begun = list(state["losses"]), time.monotonic()
    saved, before = begun, state["seconds"]
    stride = max(recipe.steps // 100, 1)
    part = torch.zeros((), device=setting.device)
    model.train()
    for step in range(state["step"], recipe.steps):
        # Rows and masks depend on the number of the step alone, so that a resumed training is the same.
        draw = np.random.default_rng((recipe.seed, step))
        generator = torch.Generator().manual_seed(step)
        rows = bundled.rows_at(tokens, draw.choice(starts, recipe.batch), recipe.context).to(setting.device)
        with torch.autocast(setting.device, torch.bfloat16):
            loss = kind.loss(model, rows, generator)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        part += loss.detach().float()
        last = step + 1 == recipe.steps
        if (step + 1) % stride == 0:
            losses.append(((step + 1) * recipe.batch * recipe.context, part.item() / stride))
            part.zero_()
            over = time.monotonic() > setting.until - 2 * SAVED
            if last or over or time.monotonic() > saved + SAVED:
                saved = time.monotonic()
                state = {
                    "recipe": asdict(recipe),
                    "step": step + 1,
                    "losses": losses,
                    "seconds": before + saved - begun,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                }
                with replacing(path) as file:
                    torch.save(state, file)
                if over and not last:
                    raise Unfinished
    return [tuple(pair) for pair in losses], before + time.monotonic() - begun


@torch.inference_mode()
def evaluated(setting: Setting, kind: Kind, model: Any, tokens: Any, starts: Any, recipe: Recipe) -> float:
    """The mean loss over up to 2,048 evenly spaced held-out rows, in float32."""
    model.eval()
    chosen = starts[np.linspace(0, len(starts) - 1, min(setting.few(64, 2048), len(starts))).astype(int)]
    generator, total = torch.Generator().manual_seed(recipe.seed + 1), 0.0
    for start in range(0, len(chosen), recipe.batch):
        part = chosen[start : start + recipe.batch]
        rows = bundled.rows_at(tokens, part, recipe.context).to(setting.device)
        total += len(part) * float(kind.loss(model, rows, generator))
    return total / len(chosen)


def save(folder: Path, model: Any, tokenizer: Any) -> None:
    """Writes a model in bfloat16, in several small files."""
    half = model.to(torch.bfloat16)
    half.config.dtype = torch.bfloat16
    half.save_pretrained(folder, max_shard_size=SHARD)
    tokenizer.save_pretrained(folder)


def drawn(kind: Kind, curve: list[tuple[int, float]], facts: Mapping[str, Any]) -> bytes:
    """A picture of the loss by tokens, with what the frequencies of tokens alone would reach."""
    with styled():
        figure = canvas(5.5, 3.2)
        axes = figure.subplots()
        axes.plot(*zip(*curve, strict=True), color=PALETTE["line-1"], label="training")
        axes.axhline(facts["token_frequency_nats"], color=PALETTE["soft"], linestyle=":", label="token frequency alone")
        axes.plot(curve[-1][0], facts["held_out_nats"], "o", color=PALETTE["male"], label="held out")
        axes.legend(frameon=False)
        titled(axes, f"{kind.name}, {facts['parameters']:,} parameters", "tokens", f"nats per {kind.target}")
        return image(figure, "png")


def suite(setting: Setting, kind: Kind) -> Part:
    """All benchmarks on the trained model and on the bundled one; the headline score of each."""
    options: dict[str, Any] = {
        "data": fast.data_of(setting),
        "limit": setting.few(3, None),
        "resamples": setting.few(20, 10_000),
        "device": setting.device,
    }
    folder = folder_of(setting, kind)
    if not (folder / "README.md").is_file():
        raise Unfinished
    result = scoring.evaluate(str(folder), out=None, **options)
    bundled_result = scoring.evaluate(f"tiny-{kind.name}", **options)
    return {"scores": _headlines(result), "bundled_scores": _headlines(bundled_result)}


def _headlines(result: Any) -> dict[str, tuple[float, float, float]]:
    """The first estimate of each benchmark, with its interval."""
    first: dict[str, tuple[float, float, float]] = {}
    for e in result.report.estimates:
        if not math.isnan(e.value):
            first.setdefault(f"{e.benchmark} {e.group} {e.metric}".replace("  ", " "), (e.value, e.low, e.high))
    by_benchmark: dict[str, str] = {}
    for name in first:
        by_benchmark.setdefault(name.split()[0], name)
    return {name: first[name] for name in by_benchmark.values()}


def figures(done: Mapping[str, Part]) -> dict[str, Measured]:
    """Parameters, tokens and losses, sizes of files, and the scores beside those of the bundled model."""
    results = {}
    for name, part in done.items():
        kind = name.split()[0]
        if "trained_tokens" in part:
            low, high = PARAMETERS
            small = part["recipe"]["width"] < LARGE.width
            count, tokens, seconds = (part[key] for key in ("parameters", "trained_tokens", "training_seconds"))
            results[f"{kind} parameters"] = Measured(f"{count:,}", None if small else low <= count <= high)
            speed = f"{tokens:,} tokens in {seconds:.0f} s, {tokens / seconds:,.0f} a second"
            learnt = part["held_out_nats"] < part["token_frequency_nats"]
            text = f"{part['held_out_nats']:.2f} nats held out; {speed}"
            peer = f"{part['token_frequency_nats']:.2f} nats"
            results[f"{kind} training"] = Measured(text, None if small else learnt, peer)
            sizes = f"{part['files_of_weights']} files, the largest {part['largest_file'] / 2**20:.1f} MiB"
            results[f"{kind} files of weights"] = Measured(sizes, part["largest_file"] <= SHARD)
        elif "scores" in part:
            shown, peer = (
                "; ".join(f"{place} {value:.3g}" for place, (value, *_) in part[side].items())
                for side in ("scores", "bundled_scores")
            )
            results[name] = Measured(shown, bool(part["scores"]), peer)
    return results


SUMMARY = (
    "A causal and a masked model of 25 to 30 million parameters, trained in bfloat16 on a corpus with checkpoints, "
    "saved in small files with their curve and card, and scored with all benchmarks."
)
STEP = Step("pretrain", SUMMARY, GOALS, parts, figures)
