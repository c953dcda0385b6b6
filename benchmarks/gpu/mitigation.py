"""What recipes cost on this device with large shapes, and whether all recipes do here what they do on a processor."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console

import mitigation
from benchmarks import scoring as bench
from benchmarks.gpu import fast
from benchmarks.gpu.step import Goal, Measured, NotPossible, Part, Setting, Step
from mitigation import recipes
from mitigation.errors import MitigationError
from scoring.adapters.facts import Change
from scoring.inference.load_options import BUNDLED
from tools.bundled_kinds import KINDS

MINUTE, GIB = 60.0, 2**30
#: Few steps for the bundled models, and fewer for a trial; a recipe takes those that it has.
FEW: dict[str, Any] = {
    "steps": 60,
    "passes": 4,
    "trial": 1,
    "traced": 16,
    "units": 64,
    "rank": 8,
    "prefixes": 1,
    "validation": 32,
    "sentences": 400,
    "held": 50,
    "classifiers": 5,
    "epochs": 1,
    "seeds": "42",
    "search_length": 2,
    "search_beam": 10,
    "search_words": 100,
}
FEWER = FEW | {"steps": 3, "passes": 1, "traced": 4, "units": 8}
#: Steps that show seconds a step and the memory, with a shape of 7 billion weights.
LARGE: Mapping[str, dict[str, Any]] = {
    "debias_tuning": {"steps": 40},
    "fast": {"passes": 2, "traced": 32, "prefixes": 1, "trial": 1},
}
#: GiB that are free on the device when a recipe chooses how it loads the large shape.
FREE = (16, 24, 40)
#: Recipes that choose between weights as they are and 4 bits.
CHOOSING = ("debias_tuning", "dpo")
TOO_LARGE = "Llama-2-7B, a step that does not fit"


def little_memory(recipe: str) -> str:
    """The name of the part in which a recipe loads the large shape with little free memory."""
    return f"{recipe}, Llama-2-7B, {FREE[0]} GiB free"


#: A recipe here does what it does on a processor where a difference is apart by no more of their two intervals.
NOISE = 1.0
KIND_OF = {"tiny-causal": "causal", "tiny-masked": "masked"}
GOALS = (
    Goal("debias_tuning in 4 bits, Llama-2-7B", "runs; peak memory"),
    Goal("fast, Llama-2-7B", "runs; peak memory"),
    Goal("fast, BERT-base", f"at most {MINUTE:.0f} s"),
    *(Goal(little_memory(recipe), "fits", "estimate of --dry-run") for recipe in CHOOSING),
    Goal(TOO_LARGE, "one sentence with options that help"),
    *(Goal(f"recipes on {name}", "all within noise", "CPU") for name in BUNDLED),
)


def parts(setting: Setting) -> dict[str, Callable[[], Part]]:
    """The large shapes, and then each recipe on each bundled model that it is for."""
    large: dict[str, Callable[[], Part]] = {
        GOALS[2].what: partial(bert, setting),
        GOALS[0].what: partial(made, setting, "debias_tuning", "4bit"),
        GOALS[1].what: partial(made, setting, "fast", "none"),
    }
    if setting.device == "cuda":
        for recipe in CHOOSING:
            large[little_memory(recipe)] = partial(fitted, setting, recipe)
        large[TOO_LARGE] = partial(too_large, setting)
    names = ["debias_tuning"] if setting.small else recipes.names()
    pairs = [(name, model) for model in KIND_OF for name in names if KIND_OF[model] in recipes.get(name).kinds]
    return large | {f"{name} on {model}": partial(beside, setting, name, model) for name, model in pairs}


def few(setting: Setting, recipe: str) -> dict[str, Any]:
    """The settings for few steps that a recipe has, with the text that it needs."""
    profile = recipes.get(recipe).profiles["clean"]
    chosen: dict[str, Any] = dict(FEWER if setting.small else FEW) | {"corpus": str(text(setting))}
    known = {field.name: getattr(profile, field.name) for field in fields(profile)}
    return {name: value for name, value in chosen.items() if name in known and type(known[name]) is type(value)}


def text(setting: Setting) -> Path:
    """A file of sentences for the recipes that learn from text: those of the data sets, with both genders named."""
    path = setting.scratch / "text.txt"
    if not path.is_file():
        requests = bench.whole("unstereo", fast.data_of(setting), limit=setting.few(200, 2000))
        path.write_text("\n".join(option.text for request in requests for option in request.options[:2]) + "\n")
    return path


def folder_of(setting: Setting) -> Path:
    """A folder with random weights in the large shape, which recipes load as users do."""
    folder = setting.scratch / "large"
    if not (folder / ".ready").is_file():
        model = fast.model_of(setting, fast.LARGE)
        fast.save(model, folder)
        (folder / ".ready").touch()
        del model
        fast.model_of.cache_clear()
        if setting.device == "cuda":
            torch.cuda.empty_cache()
    return folder


def made(setting: Setting, recipe: str, quantize: Any) -> Part:
    """Seconds and memory of one recipe on the large shape."""
    known = {field.name for field in fields(recipes.get(recipe).profiles["clean"])}
    settings: Any = {name: value for name, value in setting.few(FEWER, LARGE[recipe]).items() if name in known}
    measured = cost(setting, recipe, folder_of(setting), quantize=quantize, dtype="bfloat16", **settings)
    measured.update(settings)
    return measured


def bert(setting: Setting) -> Part:
    """Seconds of an edit with the settings of the project, on random weights in the shape of BERT-base."""
    folder = setting.scratch / "bert"
    sentences = text(setting).read_text().splitlines()
    tokenizer = KINDS["masked"].tokenizer(sentences, 30522, 512)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    config: Any = transformers.BertConfig
    network: Any = transformers.BertForMaskedLM(config(vocab_size=len(tokenizer), **setting.few(shape, {})))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    few_steps: Any = {name: FEWER[name] for name in ("passes", "traced", "units")}
    return cost(setting, "fast", folder, **setting.few(few_steps, {}))


def cost(setting: Setting, recipe: str, model: Path, **options: Any) -> Part:
    """Seconds, memory and trained parameters of a recipe on a model in a folder, without an evaluation."""
    estimated: Any = mitigation.mitigate(
        recipe,
        str(model),
        data=fast.data_of(setting),
        device=setting.device,
        dry_run=True,
        console=Console(quiet=True),
        **options,
    )
    result: Any = mitigation.mitigate(
        recipe,
        str(model),
        out=emptied(setting.scratch / f"{recipe}-{model.name}"),
        data=fast.data_of(setting),
        limit=setting.few(20, None),
        evaluate=False,
        device=setting.device,
        **options,
    )
    spent = result.facts.cost
    return {
        "recipe_seconds": spent.seconds,
        "recipe_memory": spent.memory,
        "estimated_memory": estimated.most,
        "estimated_lines": list(estimated.lines),
        "parameters": spent.parameters,
        "seconds_of": {n: v[0] for n, v in result.facts.measures.items() if n.startswith("seconds_")},
    }


@contextmanager
def only_free(size: float) -> Iterator[int]:
    """Takes all memory of the device but so many GiB; gives the bytes that it took."""
    torch.cuda.empty_cache()
    taken = int(torch.cuda.mem_get_info()[0] - size * GIB)
    block = torch.empty(taken, dtype=torch.uint8, device="cuda")
    try:
        yield taken
    finally:
        del block
        torch.cuda.empty_cache()


def fitted(setting: Setting, recipe: str) -> Part:
    """How a recipe loads the large shape with little free memory, and what a few steps then need."""
    folder = str(folder_of(setting))
    chosen = {}
    for size in FREE:
        with only_free(size):
            planned: Any = mitigation.mitigate(
                recipe, folder, device="cuda", dry_run=True, steps=3, console=Console(quiet=True)
            )
        chosen[f"{size} GiB"] = {"estimated_memory": planned.most, "lines": list(planned.lines)}
    with only_free(FREE[0]) as taken:
        measured = cost(setting, recipe, folder_of(setting), steps=3)
    measured["recipe_memory"] -= taken
    return measured | {"chosen": chosen}


def too_large(setting: Setting) -> Part:
    """What a user reads where a step does not fit, though the free memory seemed to suffice."""
    folder = folder_of(setting)
    share = 16 * GIB / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share)
    try:
        cost(setting, "dpo", folder, quantize="none", steps=2)
    except MitigationError as error:
        return {"sentence": str(error).replace(str(folder), "MODEL")}
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    raise RuntimeError("A step ran in less memory than its weights and activations need.")


def emptied(out: Path) -> Path:
    """The folder of an adapter, without an earlier adapter and its steps."""
    for folder in (out, out.with_name(f"{out.name}-work")):
        shutil.rmtree(folder, ignore_errors=True)
    return out


def beside(setting: Setting, recipe: str, model: str) -> Part:
    """The changes that a recipe makes here and on the processor, with few steps; what differs by more than noise."""
    changes: list[dict[tuple[str, str, str], Change]] = []
    reasons = []
    for device in (setting.device, "cpu"):
        out = emptied(setting.scratch / f"{recipe}-{model}-{device}-{len(changes)}")
        try:
            result: Any = mitigation.mitigate(
                recipe,
                model,
                out=out,
                data=fast.data_of(setting),
                limit=setting.few(20, 200),
                benchmarks="stereoset",
                resamples=setting.few(20, 1000),
                device=device,
                dtype="float32",
                quantize="none",
                **few(setting, recipe),
            )
        except MitigationError as error:
            reasons.append(str(error))
            continue
        changes.append({(c.benchmark, c.group, c.metric): c for c in result.facts.changes})
    if len(reasons) == 2:
        raise NotPossible(reasons[0])
    if reasons:
        raise MitigationError(f"On one of the two devices only: {reasons[0]}")
    here, there = changes
    apart = {" ".join(place): _apart(here[place], there[place]) for place in here.keys() & there.keys()}
    turned = [" ".join(place) for place in here.keys() & there.keys() if _turned(here[place], there[place])]
    return {"changes": len(apart), "differing": {n: v for n, v in apart.items() if v > NOISE}, "turned": turned}


def _turned(one: Change, other: Change) -> bool:
    """Whether both differences are clear and of other signs."""
    (_, low, high), (_, other_low, other_high) = one.difference, other.difference
    return (low > 0 and other_high < 0) or (high < 0 and other_low > 0)


def _apart(one: Change, other: Change) -> float:
    """How far two differences are apart, as a share of half of the widths of both intervals."""
    (value, low, high), (other_value, other_low, other_high) = one.difference, other.difference
    width = (high - low + other_high - other_low) / 2
    # Where nothing changes, the interval has no width: a hundredth is then the unit.
    return 0.0 if value == other_value or width != width else float(abs(value - other_value) / max(width, 0.01))


def figures(done: Mapping[str, Part]) -> dict[str, Measured]:
    """Seconds and memory of the large shapes, and how many recipes are within noise of the processor."""
    results = {}
    for name, part in done.items():
        if "recipe_seconds" in part:
            text = f"{part['recipe_seconds']:.1f} s, {part['recipe_memory'] / GIB:.2f} GiB"
            text += f", {part['steps']} steps" if "steps" in part and "debias" in name else ""
            met = part["recipe_seconds"] <= MINUTE if name == GOALS[2].what else True
            results[name] = Measured(text, met, f"at most {part['estimated_memory'] / GIB:.2f} GiB estimated")
        if "sentence" in part:
            results[name] = Measured(f"“{part['sentence']}”", "; give " in part["sentence"])
    for model in BUNDLED:
        compared = {name: part for name, part in done.items() if name.endswith(f" on {model}") and "changes" in part}
        if compared:
            bad = [name.split(" on ")[0] for name, part in compared.items() if part["turned"] or part["differing"]]
            text = f"{len(compared) - len(bad)} of {len(compared)}" + f" ({', '.join(bad)} not)" * bool(bad)
            results[f"recipes on {model}"] = Measured(text, not bad)
    return results


SUMMARY = (
    "Debias tuning in 4 bits and the fairness stamp on random weights in the shape of Llama-2-7B with their peak "
    "memory beside the estimate; how recipes load it with little free memory; the stamp with the settings of the "
    "project on the shape of BERT-base; and every recipe on the two bundled models with few steps: the changes of the "
    "scores are those on a processor, within their intervals."
)


def together(name: str) -> bool:
    """The changes of recipes on small models; seconds and memory of large shapes are measured alone."""
    return name.endswith(tuple(f" on {model}" for model in BUNDLED))


STEP = Step("mitigation", SUMMARY, GOALS, parts, figures, together=together)
