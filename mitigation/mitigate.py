"""From a model and a recipe to an adapter with its numbers, in steps that a killed run does not repeat.

Beside the adapter's folder stands another with the same name and ``-work``: checkpoints, the adapter
while it has no numbers yet, and a run of scoring ``before`` and ``after``. Where weights are kept in 4
bits, ``before`` is the untouched model in 4 bits, and ``control`` the one in full precision, which tells
what the 4 bits alone have done; its numbers stand in the table and among the facts.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout
from rich.console import Console

from mitigation.adapters.adapter import (
    FACTS,
    PROMPT,
    Adapter,
    Change,
    MitigationError,
    Numbers,
    check_target,
    describe,
    read,
    text,
    write,
)
from mitigation.recipe import Recipe
from mitigation.training.data import Data
from scoring.report.terminal import tell

if TYPE_CHECKING:
    from mitigation.evaluate import Exam, Key
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to load a model, as in :func:`scoring.inference.model.load`; ``quantize`` is ``auto``, ``4bit``, ``none``."""

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str | None = None
    quantize: str = "auto"
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def load(self, quantize: Literal["4bit"] | None) -> Model:
        """The model, on the GPU of this process where there are several."""
        from transformers.utils import logging

        from scoring.__main__ import BUNDLED
        from scoring.inference.model import load

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        own = os.environ.get("LOCAL_RANK")
        found = load(
            BUNDLED.get(self.model, self.model),
            revision=self.revision,
            dtype=self.dtype,
            device=self.device or (f"cuda:{own}" if own and _gpu() else None),
            quantize=quantize,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )
        found.name = self.model
        return found


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def bits(recipe: Recipe, wanted: Wanted) -> tuple[Literal["4bit"] | None, str]:
    """Whether weights are kept in 4 bits, and a remark when that is not what one would expect.

    Raises
    ------
    MitigationError
        When 4 bits were asked for and cannot be had at all.
    """
    if wanted.quantize == "none" or (wanted.quantize == "auto" and not recipe.quantized):
        return None, ""
    gpu = _gpu() and not (wanted.device or "").startswith("cpu")
    package = importlib.util.find_spec("bitsandbytes") is not None
    needs = " and ".join(
        ("a GPU",) * (not gpu) + ("the package bitsandbytes (pip install bitsandbytes)",) * (not package)
    )
    if wanted.quantize == "auto":
        told = f"Weights in 4 bits (QLoRA) need {needs}; this is plain LoRA beside whole weights."
        return (None, told) if needs else ("4bit", "")
    if not package:
        raise MitigationError(
            f"Weights in 4 bits need {needs}; or give --quantize none to train beside weights in float32, which suits "
            "small models."
        )
    return "4bit", "" if gpu else "No GPU is here, so weights in 4 bits are computed by the processor, which is slow."


def mitigate(
    recipe: Recipe,
    settings: Any,
    wanted: Wanted,
    data: Data,
    out: Path,
    exam: Callable[[Model], Exam] | None,
    console: Console,
    errors: Console,
) -> Adapter | None:
    """Runs a recipe, measures before and after, and puts the adapter into ``out``.

    Parameters
    ----------
    exam:
        What is asked before and after, once the model is known; nothing when None.
    console, errors:
        Where results and where progress and remarks are told.

    Returns
    -------
    Adapter | None
        The facts of the adapter; None in a process that only helped to train it.

    Raises
    ------
    MitigationError
        When the recipe is not for this kind of model, or ``out`` is something else.
    """
    check_target(out)
    quantize, remark = bits(recipe, wanted)
    if remark:
        tell(errors, [remark])
    with errors.status(f"Loading {wanted.model} …"):
        model = wanted.load(quantize)
    if model.kind not in recipe.kinds:
        raise MitigationError(
            f"The recipe {recipe.name} is for {' or '.join(recipe.kinds)} models, and {wanted.model} is a {model.kind} "
            "one; give another model."
        )
    work = out.with_name(f"{out.name}-work")
    asked = exam(model) if exam else None  # what cannot be asked should not be found out after training
    if _rank():
        recipe.run(model, settings, data, emptied(work / f"rank-{_rank()}"), errors)
        shutil.rmtree(work / f"rank-{_rank()}")
        return None
    whole: dict[Key, Numbers] = {}
    with alone(work):
        adapter = made(recipe, settings, model, data, work / "made", errors)
        if asked is not None:
            adapter = replace(adapter, changes=examined(model, asked, work, out.name, errors))
            if quantize:
                whole = control(wanted, asked, work, errors)
                adapter = replace(adapter, measures={**adapter.measures, **named(adapter.changes, whole)})
        write(work / "made", adapter, out)
    if asked is not None:
        from mitigation.evaluate import table

        console.print(table(adapter.changes, whole))
    return adapter


def _rank() -> int:
    """The number of this process among those that train together; 0 writes, the others help."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def alone(work: Path) -> Iterator[None]:
    """Keeps a second run out of a folder.

    Raises
    ------
    MitigationError
        When there is one already.
    """
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / ".lock", timeout=0):
            yield
    except Timeout:
        raise MitigationError(f"{work} is in use by another run; wait until it ends, or give another --out.") from None


def emptied(folder: Path) -> Path:
    """A folder with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def made(recipe: Recipe, settings: Any, model: Model, data: Data, folder: Path, errors: Console) -> Adapter:
    """What the recipe makes, in a folder; what an earlier run has made from the same is taken."""
    if known := _known(recipe, settings, model, data, folder):
        return known
    adapter = recipe.run(model, settings, data, emptied(folder), errors)
    (folder / FACTS).write_text(text(adapter), encoding="utf-8")
    return adapter


def _known(recipe: Recipe, settings: Any, model: Model, data: Data, folder: Path) -> Adapter | None:
    """The adapter in a folder, if it is whole and made from this model, these settings and this data."""
    if not (folder / FACTS).is_file():
        return None
    try:
        known = read(folder)
        now_there = replace(data, versions={})  # what an older adapter was made from is none of this one's
        versions = {name: now_there.load(*name.split("/")).version for name in known.data}
    except MitigationError:
        return None
    now = describe(folder, model, recipe.name, settings, data=versions, cost=known.cost, measures=known.measures)
    return known if text(now) == text(known) else None


def examined(model: Model, exam: Exam, work: Path, name: str, errors: Console) -> tuple[Change, ...]:
    """The changes from the model to the model with what was made, which gets a name."""
    from mitigation.adapters.attach import attached
    from mitigation.evaluate import changes
    from scoring.prompts import PROMPTS
    from scoring.prompts import read as read_prompt

    plain, folder = PROMPTS["plain"], work / "made"
    before = exam.take(model, plain, work / "before", errors)
    if (folder / PROMPT).is_file():
        after = exam.take(model, read_prompt(folder / PROMPT), work / "after", errors)
    else:
        with attached(model, folder, name) as tuned:
            after = exam.take(tuned, plain, work / "after", errors)
    return changes(work / "before", work / "after", (before, after), model.kind, exam.resamples)


def control(wanted: Wanted, exam: Exam, work: Path, errors: Console) -> dict[Key, Numbers]:
    """Scores the untouched model in full precision, compares it with the one in 4 bits, and returns its numbers."""
    from mitigation.evaluate import values
    from scoring import compare, report
    from scoring.prompts import PROMPTS

    model = wanted.load(None)
    texts = exam.take(model, PROMPTS["plain"], work / "control", errors)
    report.write_comparison(work / "before", compare.between(work / "before", work / "control", exam.resamples))
    tell(errors, [f"What 4 bits alone change is in {work / 'before' / 'compare.html'}."])
    return values(work / "control", texts, model.kind, exam.resamples)


def named(changes: Sequence[Change], whole: Mapping[Key, Numbers]) -> dict[str, Numbers]:
    """The numbers in full precision of what the table shows, as measures of an adapter."""
    from mitigation.evaluate import first

    keys = [(each.benchmark, each.group, each.metric) for each in first(changes)]
    return {f"{' '.join(key)} in full precision": whole[key] for key in keys if key in whole}
