"""Scoring a model from Python; the command ``probes score`` calls the same functions."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from rich.console import Console

from builders.generation.run import RunOptions
from builders.generation.spending import Spending
from cards.files import locked
from cards.options import filled, in_python, visible_console
from cards.packages import required
from scoring import benchmarks as registry
from scoring import report, run
from scoring.chat_api import sample
from scoring.inference.chat import Chat
from scoring.inference.load_options import LoadOptions
from scoring.inference.parallel import ALONE, Processes, own_device
from scoring.options import Sampling, ServedOptions, Settings
from scoring.prompts import Prompt
from scoring.report.terminal import want
from scoring.result import RunResult
from scoring.statistics.stats import RESAMPLES
from scoring.types import DATA, ScoringError

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.model import Model
    from scoring.inference.served.engine import Served

#: A block that needs the packages for models; without them it ends in one sentence.
installed = partial(required, "Scoring a model", "score", ScoringError)
#: Options that say how to load a model here, which a server has done already.
LOADING = ("adapter", "device", "quantize", "trust_remote_code", "allow_pickle", "exact", "dtype")


class NoModel(ScoringError):
    """Options without a model, or with more than one."""

    exit_code = 2


def evaluate(
    model: Any = "",
    *,
    tokenizer: Any = None,
    benchmarks: str | Sequence[str] = (),
    data: str | Path = DATA,
    out: str | Path | None = None,
    profile: Literal["clean", "paper"] = "clean",
    prompt: str | Prompt = "plain",
    chat: bool = False,
    limit: int | None = None,
    system: str = "",
    truncate: bool = False,
    batch_tokens: int | None = None,
    resamples: int = RESAMPLES,
    overwrite: bool = False,
    include: str | Path | Sequence[str | Path] = (),
    revision: str | None = None,
    adapter: str | Path | None = None,
    adapter_revision: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto",
    device: str | None = None,
    quantize: Literal["4bit", "8bit"] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
    exact: bool = False,
    base_url: str | Sequence[str] = (),
    model_name: str | None = None,
    concurrency: int = 4,
    timeout: float = 600.0,
    chat_api: bool = False,
    samples: int = 5,
    temperature: float = 1.0,
    seed: int = 0,
    offline: bool = False,
    dry_run: bool = False,
    budget: str | None = None,
    price_prompt: str | None = None,
    price_reply: str | None = None,
    limit_name: str = "max_tokens",
    console: Console | None = None,
) -> RunResult:
    """Scores a model on benchmarks; the parameters are the options of ``probes score`` and have their defaults.

    Parameters
    ----------
    model:
        A name on the Hub, a folder, a bundled model (``tiny-causal``, ``tiny-masked``), a loaded transformers or
        PEFT model, or an engine of your own. A loaded model is afterwards as it was before: mode, generation settings,
        hooks and dtype.
    tokenizer:
        The tokenizer of a loaded model, or the folder or name of that of a served one.
    benchmarks, profile, limit, resamples:
        One name or several, by default all that suit the model and have data; definitions of this project (``clean``)
        or the published ones (``paper``); so many rows of each split; resamples of the bootstrap.
    data, out, overwrite:
        A folder that :func:`builders.build` wrote, or ``hub:ORG``. A folder for the files of the run: responses are
        stored there as they arrive, so an interrupted call continues where it stopped. Without it nothing is written;
        see :meth:`scoring.result.RunResult.save`. ``overwrite`` replaces a run with other settings there.
    prompt, system, chat, truncate, batch_tokens:
        How requests are put: a prompt by name, by file or as an object; a system text; the model's chat template; cut
        texts that are too long; the most tokens of a batch.
    revision, adapter, adapter_revision, dtype, device, quantize, trust_remote_code, allow_pickle, device_map, exact:
        How a model is loaded (:func:`scoring.inference.loading.load`).
    base_url, model_name, concurrency, timeout:
        Addresses of inference servers instead of a model in this process, and how they are asked.
    chat_api, samples, temperature, seed, offline, dry_run, budget, price_prompt, price_reply, limit_name:
        Answers in words are sampled from a chat API (:class:`scoring.options.Sampling`). With ``dry_run`` the cost is
        printed, and the result has no scores.
    include:
        Python files outside the project that define a ``BENCHMARK``.
    console:
        Where progress is shown; by default in a terminal and a notebook.

    Raises
    ------
    ScoringError
        When the model or the data cannot be used, or a value is wrong or contradicts another; one sentence.

    Examples
    --------
    >>> result = evaluate("tiny-causal", benchmarks="occugender", limit=5)  # doctest: +SKIP
    >>> result.table()  # doctest: +SKIP
    """
    values = dict(locals())
    with in_python(ScoringError):
        return evaluated(values.pop("model"), values, console or visible_console())


def evaluated(model: Any, values: Mapping[str, Any], console: Console, processes: Processes = ALONE) -> RunResult:
    """The result of :func:`evaluate`, whose parameters are the ``values``; the command calls it too."""
    in_memory = not isinstance(model, (str, Path))
    settings, sampling, servers, options = settings_of(name_of(model) if in_memory else str(model), values)
    for path in settings.include:
        registry.include(path)
    if in_memory:
        check_loaded(model, values["tokenizer"], options)
        with unchanged(model):
            load = (lambda: model) if own_engine(model) else partial(engine_of, model, values["tokenizer"])
            return score(options.model, load, settings, console, processes)
    if sampling.chat_api:
        asked = RunOptions(
            run_name(options.model, values),
            settings.out or Path(),
            next(iter(servers.base_url), None),
            concurrency=servers.concurrency,
            timeout=servers.timeout,
            **{field.name: getattr(sampling, field.name) for field in fields(Spending)},
        )
        with ExitStack() as stack:
            if settings.out is None:
                asked = replace(asked, out=Path(stack.enter_context(tempfile.TemporaryDirectory())))
            return sample(asked, sampling, replace(settings, chat=True), console)
    if servers.base_url:
        return score(run_name(options.model, values), partial(connect_to, servers, options.revision), settings, console)
    options = replace(options, device=own_device(processes, options.device))
    return score(run_name(options.model, values), options.load, settings, console, processes)


def check_loaded(model: Any, tokenizer: Any, options: LoadOptions) -> None:
    """Refuses an object that is no loaded model, one without its tokenizer, and options that say how to load one.

    Raises
    ------
    ScoringError
        In one sentence.
    """
    default = LoadOptions(options.model)
    for field in fields(options):
        if getattr(options, field.name) != getattr(default, field.name):
            raise ScoringError(f"{field.name} says how to load a model, and this one is loaded; leave it out.")
    if own_engine(model):
        return
    if hasattr(model, "model") and hasattr(model, "tokenizer"):
        raise ScoringError(
            f"A {type(model).__name__} was given as the model; give what it holds: the pipeline's .model as the model, "
            "and tokenizer= its .tokenizer."
        )
    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise ScoringError(
            f"A {type(model).__name__} was given as the model; give a name, a folder, or a loaded transformers or PEFT "
            "model."
        )
    if tokenizer is None or isinstance(tokenizer, str):
        raise ScoringError("A loaded model needs its loaded tokenizer; give tokenizer=….")


def own_engine(model: Any) -> bool:
    """Whether an object is an engine that the user made (:class:`scoring.inference.engine.Engine`)."""
    return hasattr(model, "capabilities")


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
                planned = run.report_of(model, parts, settings.profile, prompt, chat, (), settings.resamples)
                report.check_finished(folder, planned, overwrite=settings.overwrite)
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
            notes = dict.fromkeys(loaded.note for part in parts for loaded in part.splits if loaded.note)
            remarks = (
                *unsuited,
                *unable,
                *result.remarks,
                *model.remarks,
                *damaged,
                *notes,
                *want(lacking, settings.data),
            )
            result = replace(result, validity=validity, remarks=remarks)
            if settings.out:
                result.save(folder)
    return result


def connect_to(options: ServedOptions, revision: str | None = None) -> Served:
    """The engine of these servers; the HTTP client is only imported here."""
    with required("Asking a server", "serve", ScoringError):
        from scoring.inference.served.connect import connect

    return connect(
        options.base_url,
        options.model_name,
        options.tokenizer,
        revision,
        concurrency=options.concurrency,
        timeout=options.timeout,
    )


def settings_of(model: str, values: Mapping[str, Any]) -> tuple[Settings, Sampling, ServedOptions, LoadOptions]:
    """The values of :func:`evaluate` as settings, each checked."""
    tokenizer = values["tokenizer"]
    # The tokenizer of a loaded model is an object.
    values = {**values, "model": model, "tokenizer": str(tokenizer) if isinstance(tokenizer, (str, Path)) else None}
    fill = partial(filled, values=values, error=ScoringError)
    return fill(Settings), fill(Sampling), fill(ServedOptions), fill(LoadOptions)


def run_name(model: str, values: Mapping[str, Any]) -> str:
    """The name of a run: of the model, of the model at a server, or of the server.

    Raises
    ------
    ScoringError
        For options that contradict each other.
    """
    _, sampling, servers, options = settings_of(model, values)
    if not (sampling.chat_api or servers.base_url):
        if not model:
            raise NoModel("Name a model, such as tiny-causal, or give --base-url.")
        return model
    if sampling.chat_api and (not servers.model_name or len(servers.base_url) > 1):
        raise NoModel("A chat API needs the name of a model (--model-name), and at most one --base-url.")
    if options.model:
        raise ScoringError(
            f"Both the model {options.model!r} and a server are given; name the server's model with --model-name, or "
            "leave out --base-url."
        )
    given = [name for name in LOADING if getattr(options, name) not in (None, False, "auto")]
    if given:
        raise ScoringError(
            f"--{given[0].replace('_', '-')} says how a model is loaded, and a server has loaded it already; leave it "
            "out, or start the server with it."
        )
    hosts = [urlsplit(url).netloc.rpartition("@")[2] for url in servers.base_url]
    return servers.model_name or " ".join(filter(None, hosts)) or "server"


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """Gives a loaded model back as it was: the mode of every module, and the generation settings."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    training = {module: module.training for module in getattr(model, "modules", tuple)()}
    generation = getattr(bare, "generation_config", None)
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode
        if generation is not None:
            bare.generation_config = generation


def name_of(model: Any) -> str:
    """The name that a loaded model was loaded by, a folder by its last part; of an engine its own."""
    if hasattr(model, "capabilities"):
        return str(model.name)
    name = str(getattr(getattr(model, "config", None), "_name_or_path", "")) or type(model).__name__
    return Path(name).name if Path(name).is_absolute() else name


def engine_of(model: Any, tokenizer: Any) -> Model:
    """A loaded transformers or PEFT model as an engine, after :func:`check_loaded`."""
    from scoring.inference import checkpoint
    from scoring.inference.model import Model

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
