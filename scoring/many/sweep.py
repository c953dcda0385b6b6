"""Several models with one call: each has a folder of its own, and one that fails does not stop the others.

The data are read once, and the questions are made once for each tokenizer and format. While a model is scored, the next
one is downloaded and its files are checked. The weights of a model are freed before the next one is loaded, so that the
models need the memory of the largest of them. A model whose results are there already is known by its files and is not
loaded.

Other machines can do the work (:mod:`scoring.many.cluster`), also with an inference server for each model
(:mod:`scoring.many.own_server`), and the results can be kept in a data set of the Hub too
(:mod:`scoring.many.hub_results`).
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

import cards.results
from cards.common.answer_key import key_digest
from cards.common.files import file_sha256, is_recorded, put
from cards.common.memory import give_back
from cards.common.text import CardError, slug
from scoring.asking.result import RunResult, load
from scoring.asking.run import Shared
from scoring.inference.engines import Call, check_folder, chosen, installed, keep, read, refuse_wrong_name
from scoring.inference.parallel import ALONE
from scoring.options import recorded
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd

    from scoring.asking.run import Part

#: The file of a folder that says which call its results are of.
FINISHED = ".finished.json"


class SomeFailed(ScoringError):
    """Some of several models could not be scored; the others were."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a model: its folder, and where it failed the sentence and the exit status that it has alone.

    ``known`` says that its results were there before.
    """

    name: str
    folder: Path
    seconds: float
    sentence: str = ""
    status: int = 0
    known: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Sweep:
    """The runs of several models, by the name of each; ``failed`` has the models that could not be scored.

    Examples
    --------
    >>> sweep = evaluate(["gpt2", "distilgpt2"], out="runs/small")  # doctest: +SKIP
    >>> sweep["gpt2"].table(), sweep.failed  # doctest: +SKIP
    """

    runs: Mapping[str, Path]
    failed: Mapping[str, Outcome]

    def __repr__(self) -> str:
        """The headlines of each model, a line each, and how many could not be scored."""
        lines = [f"Sweep of {len(self.runs)} models, {len(self.failed)} failed"]
        lines += [repr(self[name]) for name in self.runs]
        return "\n".join(lines)

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
        # pandas refuses to join no frames, and all models may have failed.
        if not frames:
            return pd.DataFrame()
        return pd.concat(frames, ignore_index=True)


def names(lines: Sequence[str]) -> list[str]:
    """The models of a file: one a line, without comments and empty lines; or a table with model and revision.

    A ``#`` begins a comment where a space or nothing is before it, because the name of a folder may have one.

    Raises
    ------
    ScoringError
        For a table with other columns.

    >>> names(["# small ones", "gpt2", "", "EleutherAI/pythia-70m@step1000  # early", "runs/c#3"])
    ['gpt2', 'EleutherAI/pythia-70m@step1000', 'runs/c#3']
    >>> names(["model,revision", "gpt2,", "EleutherAI/pythia-70m,step1000"])
    ['gpt2', 'EleutherAI/pythia-70m@step1000']
    """
    bare = (re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in lines)
    models = [line for line in bare if line]
    head = [column.strip() for column in models[0].lower().split(",")] if models else []
    # A folder of the user may be called model.
    is_table = head[:1] in (["model"], ["models"], ["name"]) and not Path(models[0]).exists()
    if head[1:] not in ([], ["revision"]) or (head[1:] and not is_table):
        raise ScoringError(
            f"The first line of the models is {models[0]!r}; write a model a line, or a table with the head "
            "model,revision."
        )
    if not is_table:
        return models
    cells = [line.partition(",") for line in models[1:]]
    return [f"{model.strip()}@{revision.strip()}".removesuffix("@") for model, _, revision in cells]


def calls(call: Call, models: Sequence[str], revisions: Sequence[str], root: Path) -> dict[str, Call]:
    """A call for each model and revision, by a name for it; each has a folder below ``root``.

    ``NAME@REVISION`` names a revision of a model.

    Raises
    ------
    ScoringError
        For a model that is given twice, and for options of servers, which have one model.
    """
    by_name: dict[str, Call] = {}
    for model in models:
        base, named_revision = model, ""
        # A folder may have the sign in its name.
        if "@" in model and not Path(model).exists():
            base, _, named_revision = model.rpartition("@")
        if named_revision and (revisions or call.loading.revision):
            raise ScoringError(f"{model} has a revision, and --revision or --revisions gives another; leave one out.")
        refuse_wrong_name(base)
        for revision in revisions or [named_revision or call.loading.revision or ""]:
            name = base
            if revision:
                name = f"{base}@{revision}"
            if name in by_name:
                raise ScoringError(f"The model {name} is given twice; give each once.")
            loading = replace(call.loading, model=base, revision=revision or None)
            # A folder for each model, so that a later call finds what was finished.
            settings = replace(call.settings, out=root / folder_name(name))
            by_name[name] = replace(call, model=base, settings=settings, loading=loading)
    return by_name


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
    from scoring.asking.answering import SharedQuestions

    shared = Shared(checked(every), SharedQuestions())
    waiting = []
    # All are checked before the first is loaded; one that is wrong does not stop the others.
    for name, call in every.items():
        try:
            if not call.many.server:
                chosen(call).check(call, shared.parts)
        except ScoringError as error:
            assert call.settings.out
            yield Outcome(name, call.settings.out, 0.0, str(error), error.exit_code)
        else:
            waiting.append((name, replace(call, shared=shared)))
    if not waiting:
        return
    with installed():
        # Two threads that import transformers at one time find it half imported.
        importlib.import_module("scoring.inference.model")
        importlib.import_module("scoring.inference.checkpoint")
    fetching: Future[None] | None = None
    with ThreadPoolExecutor(1) as ahead:
        for place, (name, call) in enumerate(waiting):
            # A model before it may have failed at once; two threads would then download the same files.
            if fetching:
                fetching.result()
            for _, following in waiting[place + 1 : place + 2]:
                fetching = ahead.submit(_fetch, following)
            yield scored(name, call, console)
            free()


def checked(every: Mapping[str, Call]) -> Sequence[Part]:
    """The data of the models of a call.

    Raises
    ------
    ScoringError
        For options of servers that are there, which have one model, and for data that cannot be read.
    """
    first = next(iter(every.values()))
    if chosen(first).remote:
        raise ScoringError(
            "Several models are loaded here, and a server has one; leave out --base-url and --chat-api, or start a "
            "server for each model with --server."
        )
    return read(first.settings)


def scored(name: str, call: Call, console: Console) -> Outcome:
    """Scores a model, unless its results are there, and says what became of it; it raises nothing."""
    folder = call.settings.out
    assert folder
    started = time.perf_counter()
    try:
        check_folder(folder)
        # A task of a cluster gets no shared data, and reads them where it runs.
        if not call.shared:
            call = replace(call, shared=Shared(read(call.settings)))
        asked = digest_of(call)
        if not call.settings.overwrite and is_finished(folder, asked):
            return Outcome(name, folder, 0.0, known=True)
        if call.many.server:
            from scoring.many.own_server import serving_model

            with serving_model(call) as served:
                chosen(served).score(served, console, ALONE)
        else:
            chosen(call).score(call, console, ALONE)
        keep(call)
        marker = _marker(folder, asked)
        # First to the Hub: a model whose results are not there is not finished.
        if call.many.results:
            from scoring.many.hub_results import send

            send(call.many.results, folder, {FINISHED: marker})
        put(folder / FINISHED, marker)
    except ScoringError as error:
        sentence, status = str(error), error.exit_code
    # Networks of others raise anything at all; the other models are scored all the same.
    except Exception as error:
        sentence, status = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", 1
    else:
        sentence, status = "", 0
    return Outcome(name, folder, time.perf_counter() - started, sentence, status)


def digest_of(call: Call) -> str:
    """All that the results of a call depend on and that is known before weights are loaded, by its SHA-256.

    A model of the Hub is known by its commit, of which only small files are fetched; a folder by all of its files.

    Raises
    ------
    ScoringError
        For a model or an adapter that is not there.
    """
    from scoring.asking.answering import PACKAGE, package_version
    from scoring.inference import checkpoint, fetching

    options = call.loading
    folder, config = options.configuration()
    device = options.device
    if device == "auto":
        device = None
    place = checkpoint.torch_device(device)
    adapter = ""
    if options.adapter:
        of_adapter = fetching.fetched(str(options.adapter), options.adapter_revision, None)
        adapter = f"{options.adapter} {checkpoint.content(of_adapter, str(options.adapter))}"
    if call.shared:
        parts = call.shared.parts
    else:
        parts = read(call.settings)
    about = {
        PACKAGE: package_version(),
        "model": options.model,
        "revision": options.revision,
        "files": checkpoint.content(folder, options.model),
        "adapter": adapter,
        "dtype": str(checkpoint.dtype(options.dtype, config, place, exact=options.exact)),
        "exact": options.exact,
        "quantize": options.quantize,
        "settings": recorded(call.settings),
        "prompt": call.settings.full_prompt().json(),
        "benchmarks": [[part.benchmark.name, part.benchmark.version] for part in parts],
        "data": [[split.name, split.version] for part in parts for split in part.splits],
        "server": [call.many.server, call.servers.tokenizer],
    }
    # Through JSON, so that paths are texts and tuples are lists, as in a file.
    return key_digest(json.loads(json.dumps(about, default=str)))


def _marker(folder: Path, asked: str) -> bytes:
    return json.dumps({"call": asked, "results": file_sha256(folder / "results.json")}).encode()


def is_finished(folder: Path, asked: str) -> bool:
    """Whether a folder has the results of a call, as they were written."""
    try:
        if (folder / FINISHED).read_bytes() != _marker(folder, asked):
            return False
        examples = cards.results.load(folder).examples.values()
        return all(is_recorded(folder, of_one["file"]) for of_one in examples)
    except (OSError, CardError, KeyError):
        return False


def _fetch(call: Call) -> None:
    """Downloads and checks a model ahead, unless it is finished; what is wrong is said when it is its turn."""
    with suppress(Exception):
        assert call.settings.out
        if not is_finished(call.settings.out, digest_of(call)):
            call.loading.fetched()


def free() -> None:
    """Frees the weights of a model that nothing refers to any more, and gives their memory back to the system."""
    import torch

    # Modules and their hooks refer to each other, so reference counts alone do not free them.
    gc.collect()
    give_back()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
