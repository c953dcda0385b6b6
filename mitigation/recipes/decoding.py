"""How continuations are drawn: the sampling setting under which a model names a gender least.

From *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), whose tables print the best of
13 sampled settings, each drawn once, as "Hyperparameter". Greedy decoding is measured beside them and
never chosen, so a chosen setting may be worse. Choosing by the split that is reported flatters the
choice; ``clean`` chooses by the validation split, with three draws. A ban of all forms of he and she,
in every spelling, is there to be asked for; its GAS is near 0 by construction, and tells nothing of the
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from mitigation.adapters.adapter import PROMPT, Adapter, MitigationError, Numbers, describe
from mitigation.recipe import Recipe, setting
from mitigation.training.data import Data
from scoring import answering
from scoring.benchmarks import neutral
from scoring.inference.store import Store
from scoring.metrics.gas import gas
from scoring.prompts import PROMPTS, Prompt
from scoring.run import table
from scoring.statistics.stats import estimate
from scoring.tables import Loaded
from scoring.types import Estimate, Table

if TYPE_CHECKING:
    from scoring.inference.model import Model

_PAPER = "Dong et al. 2024"
GRIDS = ("temperature", "top_p", "top_k")
GREEDY, BANNED = "plain", "no-pronouns"


@dataclass(frozen=True, slots=True)
class Settings:
    """Which settings are tried, and on what."""

    grids: str = setting(",".join(GRIDS), "Which of temperature, top_p and top_k to try, with commas.", _PAPER)
    seeds: str = setting("42", "Seeds of the draws, with commas; the first one is published.", _PAPER)
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes, with commas.", _PAPER)
    split: str = setting("test", "The split to choose by.", "the paper names none beside test")
    constrained: bool = setting(False, "Publish the ban of all forms of he and she instead.", "an option of its code")

    def __post_init__(self) -> None:
        if unknown := [name for name in listed(self.grids) if name not in GRIDS]:
            raise MitigationError(f"There is no grid {unknown[0]!r}; the grids are {', '.join(GRIDS)}.")
        if not listed(self.grids) or not listed(self.corpora):
            raise MitigationError("The settings grids and corpora are lists with commas; give each at least one name.")
        if not listed(self.seeds) or not all(seed.isdecimal() for seed in listed(self.seeds)):
            raise MitigationError(f"The seeds are {self.seeds!r}; give whole numbers with commas.")
        if self.split not in ("validation", "test"):
            raise MitigationError(f"The split is {self.split!r}; give validation or test.")


def listed(text: str) -> list[str]:
    """The names of a list with commas.

    >>> listed("a, b,")
    ['a', 'b']
    """
    return [name for part in text.split(",") if (name := part.strip())]


def run(model: Model, settings: Settings, data: Data, out: Path, console: Console) -> Adapter:
    """Measures every setting, and puts the best of the sampled ones into ``out``."""
    from mitigation.cost import Meter

    meter = Meter(model)
    splits = [data.load(neutral.DATASET, name, settings.split) for name in listed(settings.corpora)]
    tried = [PROMPTS[GREEDY], PROMPTS[BANNED], *sampled(listed(settings.grids))]
    seeds = [int(seed) for seed in listed(settings.seeds)]
    found = {
        each.name: measured(model, seeded(each, seeds), splits, out.parent / "responses", console) for each in tried
    }
    best = BANNED if settings.constrained else chosen(found)
    (out / PROMPT).write_text(seeded(PROMPTS[best], seeds)[0].json(), encoding="utf-8")
    console.print(grid(found, best))
    measures: dict[str, Numbers] = {f"gas {name}": (e.value, e.low, e.high) for name, e in found.items()}
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=meter.cost(0), measures=measures)


def sampled(grids: Sequence[str]) -> list[Prompt]:
    """The sampled settings of the grids."""
    return [each for each in PROMPTS.values() if each.decoding.keys() & set(grids)]


def seeded(prompt: Prompt, seeds: Sequence[int]) -> list[Prompt]:
    """A setting once for each seed; what is not drawn once."""
    if not prompt.decoding.keys() & set(GRIDS):
        return [prompt]
    return [
        prompt
        if seed == prompt.decoding.get("seed", 42)
        else replace(prompt, name=f"{prompt.name}-seed-{seed}", decoding={**prompt.decoding, "seed": seed})
        for seed in seeds
    ]


def measured(
    model: Model, prompts: Sequence[Prompt], splits: Sequence[Loaded], store: Path, console: Console
) -> Estimate:
    """GAS over the draws of all seeds; those of one prompt are one cluster."""
    drawn = [asked(model, prompt, splits, store, console) for prompt in prompts]
    whole = {name: np.concatenate([each[name] for each in drawn]) for name in drawn[0]}
    return estimate(gas(), whole, clusters=whole["id"])


def asked(model: Model, prompt: Prompt, splits: Sequence[Loaded], folder: Path, console: Console) -> Table:
    """The table of the benchmark over splits of its data; responses that are known are not drawn again."""
    questions = answering.questions(neutral.BENCHMARK, splits, "clean", prompt, model)
    requests = [request for question in questions for request in question.requests.values()]
    with Store(folder, answering.key(model, prompt)) as store:
        responses = answering.answer(model, requests, store, {"decoding": answering.decoding(prompt)}, console)
    return table(neutral.BENCHMARK, "clean", questions, responses)


def chosen(found: dict[str, Estimate]) -> str:
    """The sampled setting of the least GAS, the first of equal ones."""
    return min((name for name in found if name not in (GREEDY, BANNED)), key=lambda name: found[name].value)


def grid(found: dict[str, Estimate], best: str) -> Grid:
    """Every setting with its GAS and interval; the published one is marked."""
    shown = Grid("setting", "GAS", "95 % interval", "", box=None, pad_edge=False)
    for row in _rows(found, best):
        shown.add_row(*row)
    return shown


def _rows(found: dict[str, Estimate], best: str) -> Iterator[tuple[str, ...]]:
    apart = {GREEDY: "greedy, kept apart", BANNED: "constrained, kept apart"}
    for name, each in found.items():
        remark = ", ".join(filter(None, (apart.get(name), "published" if name == best else "")))
        yield name, f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}", remark


RECIPE = Recipe(
    name="decoding",
    summary="The sampling setting of least GAS, or a ban of all forms of he and she.",
    source="Disclosure and Mitigation of Gender Bias in LLMs (Dong et al., 2024)",
    cite=("dong2024disclosure",),
    profiles={"clean": Settings(seeds="42,43,44", split="validation"), "paper": Settings()},
    run=run,
    benchmarks=("neutral",),
)
