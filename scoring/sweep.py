"""Several models with one call: each has a folder of its own, and one that fails does not stop the others.

The data are read once. While a model is scored, the next one is downloaded and its files are checked. The weights of a
model are freed before the next one is loaded, so that the models need the memory of the largest of them.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cards.text import slug
from scoring.engines import Call, check_folder, chosen, installed, read
from scoring.inference.parallel import ALONE
from scoring.result import RunResult, load
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd


class SomeFailed(ScoringError):
    """Some of several models could not be scored; the others were."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a model: its folder, and where it failed the sentence and the exit status that it has alone."""

    name: str
    folder: Path
    seconds: float
    sentence: str = ""
    status: int = 0


@dataclass(frozen=True, slots=True)
class Sweep:
    """The runs of several models, by the name of each; ``failed`` has the models that could not be scored.

    Examples
    --------
    >>> sweep = evaluate(["gpt2", "distilgpt2"], out="runs/small")  # doctest: +SKIP
    >>> sweep["gpt2"].table(), sweep.failed  # doctest: +SKIP
    """

    runs: Mapping[str, Path]
    failed: Mapping[str, Outcome]

    def __getitem__(self, name: str) -> RunResult:
        """The run of a model, read from its folder."""
        return load(self.runs[name])

    def table(self) -> pd.DataFrame:
        """The scores of all models, as :meth:`RunResult.table` with the model in the first column."""
        import pandas as pd

        frames = []
        for name in self.runs:
            frame = self[name].table()
            frame.insert(0, "model", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def names(lines: Sequence[str]) -> list[str]:
    """The models of a file: one a line, without comments and empty lines.

    >>> names(["# small ones", "gpt2", "", "EleutherAI/pythia-70m@step1000  # early"])
    ['gpt2', 'EleutherAI/pythia-70m@step1000']
    """
    bare = (line.partition("#")[0].strip() for line in lines)
    return [line for line in bare if line]


def calls(call: Call, models: Sequence[str], revisions: Sequence[str], root: Path) -> dict[str, Call]:
    """A call for each model and revision, by a name for it; each has a folder below ``root``.

    ``NAME@REVISION`` names a revision of a model.

    Raises
    ------
    ScoringError
        For a model that is given twice, and for options of servers, which have one model.
    """
    found: dict[str, Call] = {}
    for model in models:
        base, _, own = model.rpartition("@") if not Path(model).exists() and "@" in model else (model, "", "")
        if own and (revisions or call.loading.revision):
            raise ScoringError(f"{model} has a revision, and --revision or --revisions gives another; leave one out.")
        for revision in revisions or [own or call.loading.revision or ""]:
            name = f"{base}@{revision}" if revision else base
            if name in found:
                raise ScoringError(f"The model {name} is given twice; give each once.")
            loading = replace(call.loading, model=base, revision=revision or None)
            settings = replace(call.settings, out=root / folder_name(name))
            found[name] = replace(call, model=base, settings=settings, loading=loading)
    return found


def folder_name(name: str) -> str:
    """The name of the folder of a model.

    >>> folder_name("EleutherAI/pythia-70m@step1"), folder_name("tiny-causal")
    ('EleutherAI-pythia-70m-step1-574d1b61', 'tiny-causal')
    """
    return slug(name)


def sweep(every: Mapping[str, Call], console: Console) -> Iterator[Outcome]:
    """Scores models one after the other, and says of each what became of it.

    Raises
    ------
    ScoringError
        Before a model is loaded, where the data cannot be read: that would be so for all of them.
    """
    first = next(iter(every.values()))
    if chosen(first).remote:
        raise ScoringError("Several models are loaded here, and a server has one; leave out --base-url and --chat-api.")
    parts = read(first.settings)
    with installed():
        # Two threads that import transformers at one time find it half imported.
        importlib.import_module("scoring.inference.model")
        importlib.import_module("scoring.inference.checkpoint")
    waiting = list(every.values())
    with ThreadPoolExecutor(1) as ahead:
        for place, (name, call) in enumerate(every.items()):
            for following in waiting[place + 1 : place + 2]:
                ahead.submit(_fetch, following)
            yield _scored(name, replace(call, parts=parts), console)
            _free()


def _scored(name: str, call: Call, console: Console) -> Outcome:
    assert call.settings.out
    started = time.perf_counter()
    try:
        check_folder(call.settings.out)
        chosen(call).run(call, console, ALONE)
    except ScoringError as error:
        sentence, status = str(error), error.exit_code
    # Networks of others raise anything at all; the other models are scored all the same.
    except Exception as error:
        sentence, status = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", 1
    else:
        sentence, status = "", 0
    return Outcome(name, call.settings.out, time.perf_counter() - started, sentence, status)


def _fetch(call: Call) -> None:
    """Downloads and checks a model ahead; what is wrong with it is said when it is its turn."""
    with suppress(Exception):
        call.loading.fetched()


def _free() -> None:
    """Frees the weights of a model that nothing refers to any more."""
    import torch

    # Modules and their hooks refer to each other, so reference counts alone do not free them.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
