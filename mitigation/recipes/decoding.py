"""Decoding: the sampling setting under which a model's continuations are least gendered.

Source: *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024). Its tables print the best of 13
sampled settings, each with one sample per prompt, as "Hyperparameter". Greedy decoding is measured too but
never chosen, so the chosen setting may be worse than greedy. Choosing on the split that is reported makes the
result look better than it is; ``clean`` chooses on the validation split, with three samples per prompt. The
setting ``constrained`` bans all forms of he and she, in every spelling; its GAS is near 0 by construction
and says nothing about the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid

from cards.common import files, terminal, text
from mitigation.recipe import Adapter, Console, Job, MitigationError, Model, Settings, declared, setting
from scoring.adapters.facts import PROMPT
from scoring.asking import answering, workload
from scoring.asking.run import table
from scoring.benchmarks import neutral
from scoring.inference.store import Store
from scoring.inputs.prompts import PROMPTS, Prompt
from scoring.inputs.tables import Loaded
from scoring.metrics.gas import gas
from scoring.statistics.stats import measure
from scoring.types import Estimate, Group, Request, Table

_PAPER = "Dong et al. 2024"
#: The parameters of decoding that are tried, one at a time.
GRIDS = ("temperature", "top_p", "top_k")
GREEDY, BANNED = "plain", "no-pronouns"


@dataclass(frozen=True)
class DecodingSettings(Settings):
    """Which decoding settings are tried, and on what data."""

    grids: str = setting(",".join(GRIDS), "Which of temperature, top_p and top_k to try, with commas.", _PAPER)
    seeds: str = setting("42", "Seeds of the samples, with commas; the prompt file has the first.", _PAPER)
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes, with commas.", _PAPER)
    split: str = setting("test", "The split to choose by.", "the paper names only test")
    constrained: bool = setting(False, "Choose the ban of all forms of he and she instead.", "an option of its code")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in text.split_list(self.grids):
            if name not in GRIDS:
                raise MitigationError(f"There is no grid {name!r}; the grids are {', '.join(GRIDS)}.")
        if not text.split_list(self.grids) or not text.split_list(self.corpora):
            raise MitigationError("The settings grids and corpora are lists with commas; give each at least one name.")
        if not text.split_list(self.seeds) or not all(seed.isdecimal() for seed in text.split_list(self.seeds)):
            raise MitigationError(f"The seeds are {self.seeds!r}; give whole numbers with commas.")
        if self.split not in ("validation", "test"):
            raise MitigationError(f"The split is {self.split!r}; give validation or test.")


def make(job: Job[DecodingSettings]) -> Adapter:
    """Measures every setting, and writes the best of the sampled ones into ``out``."""
    settings = job.settings
    splits = [job.data.load(neutral.DATASET, name, settings.split) for name in text.split_list(settings.corpora)]
    candidates = [PROMPTS[GREEDY], PROMPTS[BANNED]]
    candidates += sampled_prompts(text.split_list(settings.grids))
    seeds = [int(seed) for seed in text.split_list(settings.seeds)]
    # Beside the folder of the result, so that an interrupted command asks for no continuation again.
    cache = job.out.parent / "responses"
    scores: dict[str, Estimate] = {}
    for prompt in candidates:
        scores[prompt.name] = measure_gas(job.model, with_seeds(prompt, seeds), splits, cache, job.console)
    # Greedy decoding and the ban are shown for comparison; only samples are chosen among.
    if settings.constrained:
        best = BANNED
    else:
        best = least_gas(scores)
    files.put(job.out / PROMPT, with_seeds(PROMPTS[best], seeds)[0].json().encode())
    job.console.print(score_table(scores, best))
    measures = {f"gas {name}": (score.value, score.low, score.high) for name, score in scores.items()}
    return job.done(0, measures)


def sampled_prompts(grids: Sequence[str]) -> list[Prompt]:
    """The prompts whose decoding sets a parameter of the grids."""
    return [prompt for prompt in PROMPTS.values() if prompt.decoding.keys() & set(grids)]


def with_seeds(prompt: Prompt, seeds: Sequence[int]) -> list[Prompt]:
    """A sampled prompt once per seed; one that is not sampled once."""
    # Greedy decoding gives the same text for each seed.
    if not prompt.decoding.keys() & set(GRIDS):
        return [prompt]
    prompts = []
    for seed in seeds:
        # The prompt itself has the first seed, and keeps its name.
        if seed == prompt.decoding.get("seed", 42):
            prompts.append(prompt)
        else:
            decoding: Any = {**prompt.decoding, "seed": seed}
            prompts.append(replace(prompt, name=f"{prompt.name}-seed-{seed}", decoding=decoding))
    return prompts


def measure_gas(
    model: Model, prompts: Sequence[Prompt], splits: Sequence[Loaded], cache: Path, console: Console
) -> Estimate:
    """GAS over the samples of all seeds; the samples of one neutral prompt are one cluster."""
    samples = [sample_table(model, prompt, splits, cache, console) for prompt in prompts]
    pooled = {}
    for name in samples[0]:
        pooled[name] = np.concatenate([sample[name] for sample in samples])
    # One cluster for all samples of a prompt: they are not independent.
    all_prompts = Group("", np.ones(len(pooled["id"]), bool))
    (estimate,) = measure([(all_prompts, gas())], pooled, pooled["id"])
    return estimate


def sample_table(model: Model, prompt: Prompt, splits: Sequence[Loaded], cache: Path, console: Console) -> Table:
    """The table of the benchmark ``neutral`` over splits; responses in the cache are reused."""
    questions = answering.questions(neutral.BENCHMARK, splits, "clean", prompt, model)
    requests: list[Request] = []
    for question in questions:
        requests += question.requests.values()
    # The key has the decoding, so settings do not share continuations.
    how = {"decoding": answering.decoding(prompt)}
    with Store(cache, answering.key(model, prompt)) as store:
        model.recognise(store)
        responses = workload.answer(model, requests, store, how, console, f"continuing {len(requests):,} texts")
    return table("clean", questions, responses)


def least_gas(scores: Mapping[str, Estimate]) -> str:
    """The sampled setting with the lowest GAS, the first of equal ones."""
    sampled = [name for name in scores if name not in (GREEDY, BANNED)]
    return min(sampled, key=lambda name: scores[name].value)


def score_table(scores: Mapping[str, Estimate], best: str) -> Grid:
    """A printable table of every setting with its GAS and interval; the chosen one is marked."""
    rows = []
    never_chosen = {GREEDY: "greedy, for comparison", BANNED: "constrained, for comparison"}
    for name, score in scores.items():
        remarks = []
        if name in never_chosen:
            remarks.append(never_chosen[name])
        if name == best:
            remarks.append("chosen")
        interval = f"{score.low:.3f} to {score.high:.3f}"
        rows.append((name, f"{score.value:.3f}", interval, ", ".join(remarks)))
    return terminal.text_table(["setting", "GAS", "95 % interval", ""], rows)


RECIPE = declared("decoding", DecodingSettings, make)
