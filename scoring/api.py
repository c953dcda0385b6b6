"""Scoring a model from Python; the command ``python -m scoring`` calls the same functions."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from cards.files import locked
from cards.packages import required
from scoring import DATA, report, run
from scoring import benchmarks as registry
from scoring.inference.chat import Chat
from scoring.inference.load_options import LoadOptions
from scoring.inference.parallel import ALONE, Processes
from scoring.prompts import Prompt, get
from scoring.report.terminal import want
from scoring.result import RunResult
from scoring.statistics.stats import RESAMPLES
from scoring.types import Benchmark, ScoringError

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.model import Model

#: A block that needs the packages for models; without them it ends in one sentence.
installed = partial(required, "Scoring a model", "score", ScoringError)


@dataclass(frozen=True, slots=True)
class Settings:
    """What to score and how; the parameters of :func:`evaluate` and options of the same names."""

    benchmarks: Sequence[str] = ()
    data: str = DATA
    out: Path | None = None
    profile: str = "clean"
    prompt: str | Prompt = "plain"
    chat: bool = False
    system: str = ""
    batch_tokens: int | None = None
    limit: int | None = None
    truncate: bool = False
    resamples: int = RESAMPLES
    overwrite: bool = False

    def full_prompt(self) -> Prompt:
        """The prompt, with the system text.

        Raises
        ------
        ScoringError
            For settings that contradict each other.
        """
        prompt = get(self.prompt) if isinstance(self.prompt, str) else self.prompt
        if self.system and prompt.system:
            raise ScoringError(
                f"Both --system and the prompt {prompt.name!r} give a system text; leave one of them out."
            )
        if (self.system or prompt.system) and not self.chat:
            raise ScoringError("A system text is a part of a chat alone; add --chat, or leave the system text out.")
        if self.chat and self.truncate:
            raise ScoringError("A chat is not cut to the context window; leave out --truncate or --chat.")
        return replace(prompt, system=self.system or prompt.system)

    def chosen(self) -> list[Benchmark]:
        """The benchmarks in their order, each once; all of them if none is named.

        >>> [benchmark.name for benchmark in Settings(["unstereo", "neutral", "unstereo"]).chosen()]
        ['unstereo', 'neutral']
        """
        return [registry.get(name) for name in dict.fromkeys(self.benchmarks) or registry.names()]


def evaluate(
    model: Any = "",
    *,
    tokenizer: Any = None,
    benchmarks: Sequence[str] = (),
    data: str | Path = DATA,
    out: str | Path | None = None,
    profile: Literal["clean", "paper"] = "clean",
    prompt: str | Prompt = "plain",
    chat: bool = False,
    system: str = "",
    limit: int | None = None,
    truncate: bool = False,
    batch_tokens: int | None = None,
    resamples: int = RESAMPLES,
    overwrite: bool = False,
    base_url: Sequence[str] = (),
    model_name: str | None = None,
    include: Sequence[str | Path] = (),
    console: Console | None = None,
    **options: Any,
) -> RunResult:
    """Scores a model on benchmarks.

    Parameters
    ----------
    model:
        A name on the Hub, a folder, a bundled model (``tiny-causal``, ``tiny-masked``), or a loaded transformers or
        PEFT model. A loaded model is afterwards as it was before: mode, generation settings, hooks and dtype.
    tokenizer:
        The tokenizer of a loaded model, or the folder or name of that of a served one.
    benchmarks:
        Names of benchmarks; by default all that suit the model and have data.
    data:
        A folder that :func:`builders.build` wrote, or an organisation of the Hub.
    out:
        A folder for the files of the run. Responses are stored there as they arrive, so an interrupted call
        continues where it stopped. Without it nothing is written; see :meth:`scoring.result.RunResult.save`.
        ``overwrite`` replaces the results of a run with other settings there.
    profile:
        Definitions of this project (``clean``), or the published ones (``paper``).
    prompt, system, chat:
        How requests are put: a prompt by name, by file or as an object; a system text; the model's chat template.
    limit:
        Take so many rows of each split only.
    truncate, batch_tokens, resamples:
        As the options of ``python -m scoring``.
    base_url, model_name:
        Addresses of inference servers, and the model's name there, instead of a model in this process.
    include:
        Python files outside the project that define a ``BENCHMARK``.
    console:
        Where progress is shown; by default nowhere.
    options:
        How to load a model, by the names in :class:`scoring.inference.load_options.LoadOptions`: ``revision``,
        ``adapter``, ``dtype``, ``device``, ``quantize``, ``exact`` and others.

    Raises
    ------
    ScoringError
        When the model or the data cannot be used, or settings contradict each other; one sentence.
    TypeError
        For an option that does not exist.

    Examples
    --------
    >>> result = evaluate("tiny-causal", benchmarks=["occugender"], limit=5)  # doctest: +SKIP
    >>> result.table()  # doctest: +SKIP
    """
    unknown = sorted(options.keys() - {field.name for field in fields(LoadOptions)})
    if unknown:
        raise TypeError(f"evaluate() has no parameter {unknown[0]!r}; see help(scoring.evaluate).")
    for path in include:
        registry.include(Path(path))
    settings = Settings(
        benchmarks, str(data), Path(out) if out else None, profile, prompt, chat, system, batch_tokens, limit, truncate,
        resamples, overwrite,
    )  # fmt: skip
    console = console or Console(quiet=True)
    if isinstance(model, (str, Path)):
        if base_url:
            from scoring.commands.servers import ServedOptions, connect_to, served_as

            name = served_as(base_url, model_name, LoadOptions(str(model), **options))
            served = ServedOptions(base_url, model_name, tokenizer, options.get("revision"))
            result = score(name, partial(connect_to, served), settings, console)
        else:
            result = score(str(model), LoadOptions(str(model), **options).load, settings, console)
    else:
        if options:
            raise TypeError(f"The option {next(iter(options))!r} says how to load a model, and this one is loaded.")
        with unchanged(model):
            result = score(name_of(model), partial(engine_of, model, tokenizer), settings, console)
    return result


def score(
    name: str,
    load: Callable[[], Engine],
    settings: Settings,
    console: Console,
    processes: Processes = ALONE,
) -> RunResult:
    """Reads the data, loads the model and runs the benchmarks.

    Settings and data are checked first, because a model takes long to load.

    Parameters
    ----------
    name:
        The model as the user named it.
    load:
        Loads it, or connects to its servers.
    console:
        Where progress is shown.
    processes:
        The processes that share the requests.

    Raises
    ------
    ScoringError
        When the model or the data cannot be used.
    """
    prompt = settings.full_prompt()
    benchmarks = settings.chosen()
    from scoring.answering import decoding, key

    with installed():
        decoding(prompt)  # raises for an impossible setting
        from scoring.inference.store import Store
    named = bool(settings.benchmarks)
    parts = run.read(benchmarks, settings.data, settings.profile, settings.limit, named=named)
    with console.status("Loading the model …"), installed():
        model = load()
    with closing(model):
        if settings.chat and model.kind == "masked":
            raise ScoringError(f"{name!r} is a masked model, which does not chat; leave out --chat.")
        chat = Chat(model.tokens.tokenizer, name, prompt.system) if settings.chat else None
        lacking = [missing.name for part in parts for missing in part.lacking]
        parts, unsuited = run.suited(parts, "chat" if chat else model.kind, model.name, named=named)
        parts, unable = run.able(parts, model, settings.profile, named=named)
        stored = key(model, prompt, truncate=settings.truncate, chat=chat)
        validity = {part.benchmark.name: part.benchmark.validity for part in parts}
        with ExitStack() as stack:
            folder = Path(settings.out or stack.enter_context(tempfile.TemporaryDirectory()))
            if processes.first:
                stack.enter_context(locked(folder, ScoringError))
                if not settings.overwrite:
                    planned = run.report_of(model, parts, settings.profile, prompt, chat, (), settings.resamples)
                    report.check_finished(folder, planned)
            stack.enter_context(processes.connected())
            store = stack.enter_context(Store(folder / "responses", stored, processes.rank))
            model.recognise(store)
            result = run.run(
                model,
                parts,
                store,
                profile=settings.profile,
                prompt=prompt,
                chat=chat,
                batch_tokens=settings.batch_tokens,
                truncate=settings.truncate,
                resamples=settings.resamples,
                console=console,
                processes=processes,
            )
            damaged = [
                f"{store.path} line {line} was not as it was written; its question was asked again."
                for line in store.damaged
            ]
            remarks = (*unsuited, *unable, *model.remarks, *damaged, *want(lacking, settings.data))
            result = replace(result, validity=validity, remarks=remarks)
            if settings.out:
                result.save(folder)
    return result


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """Gives a loaded model back as it was: the mode of every module, and the generation settings."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    training = {module: module.training for module in model.modules()}
    generation = getattr(bare, "generation_config", None)
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode
        if generation is not None:
            bare.generation_config = generation


def name_of(model: Any) -> str:
    """The name that a loaded model was loaded by; a folder by its last part."""
    name = str(getattr(getattr(model, "config", None), "_name_or_path", "")) or type(model).__name__
    return Path(name).name if Path(name).is_absolute() else name


def engine_of(model: Any, tokenizer: Any) -> Model:
    """A loaded transformers or PEFT model as an engine."""
    from scoring.inference import checkpoint
    from scoring.inference.model import Model

    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise ScoringError(
            f"A {type(model).__name__} was given as the model; give a name, a folder, or a loaded transformers or PEFT "
            "model."
        )
    if tokenizer is None or isinstance(tokenizer, str):
        raise ScoringError("A loaded model needs its loaded tokenizer; give tokenizer=….")
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    classes = {"architectures": [type(bare).__name__], "model_type": bare.config.model_type}
    kind = checkpoint.kind(classes, name_of(model))
    adapters = ", ".join(getattr(model, "active_adapters", None) or ()) if hasattr(model, "peft_config") else ""
    return Model(model, tokenizer, kind=kind, name=name_of(model), revision=_digest(model), adapter=adapters)


def _digest(model: Any) -> str:
    """The weights as they are in memory, by a hash: stored responses of other weights must not be taken."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return f"in memory, weights sha256:{digest.hexdigest()[:16]}"
