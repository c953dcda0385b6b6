"""Engines: one file each, whose ``ENGINE`` says which options choose it, what its runs are called and how it scores.

An engine in the sense of :mod:`scoring.inference.engine` answers requests; :func:`score` reads the data, asks such an
engine and computes the result. :mod:`scoring.inference.engines.chat_api` has answers in words alone, and scores
otherwise.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from builders import datasets
from builders.generation.session import CACHE
from cards.common.files import LOCK, locked, put_all, strays
from cards.common.options import filled
from cards.common.packages import required
from cards.common.progress import stage
from cards.common.registry import Registry
from cards.common.terminal import show
from scoring import benchmarks, report
from scoring.asking import run, starts, workload
from scoring.asking.result import RunResult, runs_beside
from scoring.inference import fetching
from scoring.inference.chat import Chat
from scoring.inference.load_options import LoadOptions
from scoring.inference.parallel import ALONE, Processes
from scoring.inputs import prompt_file, run_file
from scoring.options import ManyModels, Sampling, ServedOptions, Settings
from scoring.report.terminal import want
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.engine import Engine

#: A block that needs the packages for models; without them it ends in one sentence.
installed = partial(required, "Scoring a model", "score", ScoringError)
#: Options that say how to load a model here, which a server has done already; a revision is that of its tokenizer.
LOADING = tuple(field.name for field in fields(LoadOptions) if field.name not in ("model", "revision"))


class NoModel(ScoringError):
    """Options without a model, or with more than one."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Call:
    """What is scored and how: the model as it was given, its tokenizer, and the checked options by their groups.

    ``shared`` has the data where they were read before, as for several models; without it they are read.
    """

    model: Any
    tokenizer: Any
    settings: Settings
    sampling: Sampling
    servers: ServedOptions
    loading: LoadOptions
    many: ManyModels = field(default_factory=ManyModels)
    shared: run.Shared | None = None

    @classmethod
    def of(cls, model: Any, values: Mapping[str, Any]) -> Call:
        """The call of :func:`scoring.evaluate` with these values of its parameters.

        Raises
        ------
        ScoringError
            When a value is not of the type or in the range of its option.
        """
        tokenizer = values["tokenizer"]
        texts = dict(values)
        texts["model"] = name_of(model)
        # The tokenizer of a loaded model is an object, and the option with this name is a text.
        texts["tokenizer"] = None
        # Read once; from here on they are rows, whatever they were given as.
        if texts.get("prompts") is not None:
            texts["prompts"] = prompt_file.read(texts["prompts"])
        if isinstance(tokenizer, (str, Path)):
            texts["tokenizer"] = str(tokenizer)
        call = cls(
            model,
            tokenizer,
            filled(Settings, texts, ScoringError),
            filled(Sampling, texts, ScoringError),
            filled(ServedOptions, texts, ScoringError),
            filled(LoadOptions, texts, ScoringError),
            filled(ManyModels, texts, ScoringError),
        )
        benchmarks.include(*call.settings.include)
        # What is wrong with names is seen here, before the packages of models are imported.
        call.settings.chosen()
        if isinstance(model, str):
            refuse_wrong_name(model)
        return call

    def with_base(self) -> Call:
        """The call with the base model of the folder of an adapter, and the folder as its adapter; else as it is."""
        if self.in_memory or self.loading.adapter or self.servers.base_url or self.sampling.chat_api:
            return self
        base, revision = fetching.base_of(Path(self.model))
        if not base:
            return self
        revision = self.loading.revision or revision
        loading = replace(self.loading, model=base, revision=revision, adapter=str(self.model))
        return replace(self, model=base, loading=loading)

    @property
    def in_memory(self) -> bool:
        """Whether the model is an object and no name."""
        return not isinstance(self.model, (str, Path))


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A way to get responses.

    Parameters
    ----------
    suits:
        Whether the options of a call choose it; one kind suits a call.
    name:
        The name of a run; raises a ``ScoringError`` for options that contradict each other.
    score:
        Scores the model of a call.
    remote:
        Whether servers do the work, so that one process is enough.
    folder:
        Further texts that make another default folder of a run.
    check:
        Raises before torch is imported for what a call gets wrong; the parts that the model can be asked, and a remark
        for each other one.
    """

    suits: Callable[[Call], bool]
    name: Callable[[Call], str]
    score: Callable[[Call, Console, Processes], RunResult]
    remote: bool = False
    folder: Callable[[Call], Sequence[str]] = lambda _: ()
    check: Callable[[Call, Sequence[run.Part]], tuple[list[run.Part], list[str]]] = lambda _, parts: (list(parts), [])


MASKED_CHAT = "{!r} is a masked model, which does not chat; leave out --chat."
REGISTRY = Registry((__name__, __path__), "ENGINE", EngineKind, "engine", ScoringError)


def chosen(call: Call) -> EngineKind:
    """The kind of engine that the options of a call choose.

    Raises
    ------
    ScoringError
        With the first option of another kind, which would do nothing.
    """
    if not (call.sampling.chat_api or is_function(call.model)):
        # What a run will take can be said of a model on this machine too.
        names = [option.name for option in fields(call.sampling)]
        if not (call.servers.base_url or call.in_memory):
            names.remove("dry_run")
        refuse(call.sampling, "is of answers that a chat API samples; leave it out, or add --chat-api.", names)
        if not (call.servers.base_url or call.in_memory):
            refuse(call.servers, "is of servers; leave it out, or give their --base-url.")
    # Each call has exactly one, so their order does not matter.
    kinds = [REGISTRY.get(name) for name in REGISTRY.names()]
    return next(kind for kind in kinds if kind.suits(call))


def is_function(model: Any) -> bool:
    """Whether a model is a function of the user, and neither a name, an engine nor a network."""
    return callable(model) and not any(hasattr(model, name) for name in ("capabilities", "config", "forward", "model"))


def name_of(model: Any) -> str:
    """The name of a model as it was given; of a loaded one that it was loaded by, a folder by its last part."""
    if is_function(model):
        return str(getattr(model, "__name__", type(model).__name__))
    if isinstance(model, (str, Path)):
        return str(model)
    if hasattr(model, "capabilities"):
        return str(model.name)
    # transformers keeps the name or folder in the configuration; a model that was made in memory has none.
    config = getattr(model, "config", None)
    name = str(getattr(config, "_name_or_path", "")) or type(model).__name__
    if Path(name).is_absolute():
        return Path(name).name
    return name


def refuse_wrong_name(model: str) -> None:
    """Refuses what can be no model: a benchmark, a data set, an address, or a path of Windows that is not there.

    Raises
    ------
    ScoringError
        With what it is, and what to give.

    >>> refuse_wrong_name("stereoset")
    Traceback (most recent call last):
    scoring.types.ScoringError: 'stereoset' is a benchmark and no model; write MODEL --benchmarks stereoset.
    """
    with suppress(OSError):  # a text that is too long for a path
        if Path(model).is_file() and Path(model).suffix != ".gguf":
            raise ScoringError(
                f"{model!r} is a file and no model; give the folder of a model or its name on the Hub. Prompts of your "
                "own are given with --prompts, and a list of models with --models."
            )
        if Path(model).exists():
            return
    if benchmarks.known(model):
        raise ScoringError(f"{model!r} is a benchmark and no model; write MODEL --benchmarks {model}.")
    if model in datasets.names():
        raise ScoringError(f"{model!r} is a data set and no model; probes list has the benchmarks that read it.")
    if "://" in model:
        # An address of a data set or a Space names no model.
        on_hub = re.match(
            r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/((?!datasets/|spaces/)[\w.-]+/[\w.-]+)", model
        )
        meant = on_hub[1] if on_hub else "org/name"
        raise ScoringError(
            f"{model!r} is an address; give a model by its name on the Hub ({meant}), or by its folder. "
            "The address of a server is given with --base-url."
        )
    if Path(model).suffix == ".gguf":
        raise ScoringError(f"There is no file {model!r}; give a GGUF file that is there, or a folder that has one.")
    if "," in model:
        raise ScoringError(f"{model!r} has a comma; give several models as a list, or in a command one by one.")
    if "\\" in model:
        raise ScoringError(fetching.NO_FOLDER.format(model))


def refuse_loading(call: Call) -> None:
    """Refuses a model, and options for loading one, together with a server.

    Raises
    ------
    ScoringError
        With the first such option.
    """
    if call.loading.model:
        raise ScoringError(
            f"Both the model {call.loading.model!r} and a server are given; name the server's model with --model-name, "
            "or leave out --base-url."
        )
    why = "says how a model is loaded, and a server has loaded it already; leave it out, or start the server with it."
    refuse(call.loading, why, LOADING)


def refuse(options: Any, why: str, names: Collection[str] = ()) -> None:
    """Refuses options, of these names or all, that have another value than their default.

    Raises
    ------
    ScoringError
        With the first such option.
    """
    for option in fields(options):
        if names and option.name not in names:
            continue
        # An option that was not given is None, False or an empty list, which counts as its default.
        value = getattr(options, option.name) or option.default
        if value != option.default:
            raise ScoringError(f"--{option.name.replace('_', '-')} {why}")


def check_folder(folder: Path) -> None:
    """Refuses a folder with files in which no run was begun; in that of a run, files of the user stay as they are."""
    for place in (folder, *folder.parents):
        if place.is_file():
            raise ScoringError(f"{place} is a file, and a run has its own folder; give another --out.")
    others = [name for name in strays(folder, ()) if CACHE not in name]  # a run may read recorded answers there
    if not others:
        return
    # A run has a lock from its beginning, and results at its end.
    if (folder / LOCK).is_file() or (folder / "results.json").is_file():
        return
    raise ScoringError(
        f"{folder / others[0]} was not written by this program, and a run has its own folder; give another --out."
    )


def keep(call: Call) -> None:
    """Writes ``run.yaml`` into the folder of a run, with which ``probes score --config`` makes the same run again.

    A model or a prompt that is an object of Python has no such file.
    """
    if not call.settings.out or call.in_memory:
        return
    many = replace(call.many, executor=None, cluster=(), results="")
    content = run_file.text(str(call.model), (call.settings, call.loading, call.servers, call.sampling, many))
    if content:
        put_all(call.settings.out, {run_file.NAME: content.encode()}, ScoringError)


def read(settings: Settings) -> list[run.Part]:
    """The data of the benchmarks of a run.

    Raises
    ------
    ScoringError
        When a benchmark has no data, or a file is not the one of its manifest.
    """
    named = bool(settings.benchmarks)
    return run.read(
        settings.chosen(), settings.data, settings.profile, settings.limit, named=named, groups=settings.groups
    )


def score(
    name: str,
    load: Callable[[], Engine],
    settings: Settings,
    console: Console,
    processes: Processes = ALONE,
    shared: run.Shared | None = None,
    *,
    dry_run: bool = False,
    check: Callable[[Sequence[run.Part]], tuple[list[run.Part], list[str]]] | None = None,
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
    shared:
        The data and questions of several models, where they were read before (:func:`read`).
    dry_run:
        Print on the console what the run will take, and score nothing.
    check:
        Called after the data are read and before torch is imported (:attr:`EngineKind.check`).

    Raises
    ------
    ScoringError
        When the model or the data cannot be used.
    """
    prompt = settings.full_prompt()
    others = runs_beside(settings.beside, settings.profile)
    from scoring.asking.answering import Asker, decoding, key

    # What a dry run says is all that goes to its console.
    errors = Console(stderr=True, quiet=console.quiet) if dry_run else console
    named = bool(settings.benchmarks)
    questions = None
    with stage(errors, f"Reading the data for {name} …"):
        if prompt.decoding:
            # Only a prompt with settings can have an impossible one, and to say so imports torch.
            with installed():
                decoding(prompt)
        if shared:
            parts = list(shared.parts)
            questions = shared.questions
        else:
            parts = read(settings)
        too_long: list[str] = []
        if check:
            parts, too_long = check(parts)
        # Only now, because it imports torch, which takes longest.
        with installed():
            from scoring.asking.dry_run import forecast
            from scoring.inference.store import Store
    lacking = [missing.name for part in parts for missing in part.lacking]
    with stage(errors, "Loading the model …"), installed():
        model = load()
    with closing(model):
        if settings.chat and model.kind == "masked":
            raise ScoringError(MASKED_CHAT.format(name))
        model.tokens.begin(settings.start)
        chat = None
        kind: str = model.kind
        if settings.chat:
            chat = Chat(model.tokens.tokenizer, name, prompt.system)
            kind = "chat"
        # What was asked for, suits the model and is not there, also where a benchmark has no data at all.
        missing = [split.name for part in parts if kind in part.benchmark.kinds for split in part.lacking]
        parts, unsuited = run.suited(parts, kind, model.name, named=named)
        parts, unable = run.able(parts, model, settings.profile, named=named)
        if dry_run:
            asker = Asker(settings.profile, prompt, chat)
            with stage(errors, "Measuring a second of work …"):
                some = workload.splits(asker, [(part.benchmark, part.splits) for part in parts], model)
                will_take = forecast(model, some, prompt, settings.batch_tokens)
            console.print(will_take.table())
            show(console, ["", will_take.sentence(), *too_long])
            return RunResult(run.model_report(model, parts, settings, prompt, chat), {})
        stored = key(model, prompt, truncate=settings.truncate, chat=chat)
        validity = {part.benchmark.name: part.benchmark.validity for part in parts}
        with ExitStack() as stack:
            # Responses are stored in any case; without a folder they are kept for this run alone.
            folder = Path(settings.out or stack.enter_context(tempfile.TemporaryDirectory()))
            if processes.first:
                stack.enter_context(locked(folder, ScoringError))
                # Refused before anything is asked: a run of hours must not end at a folder that it may not replace.
                planned = run.model_report(model, parts, settings, prompt, chat)
                report.check_finished(folder, planned, overwrite=settings.overwrite)
            stack.enter_context(processes.connected())
            store = stack.enter_context(Store(folder / "responses", stored, processes.rank))
            # A server may have got another model since the responses were stored.
            model.recognise(store)
            result = run.score(model, parts, store, settings, prompt, chat, console, processes, questions)
            environment = {**result.report.environment, "data lacking": missing}
            result = replace(result, report=replace(result.report, environment=environment))
            remarks = too_long + unsuited + unable + list(result.remarks) + list(model.remarks)
            if not (chat or settings.start):
                remarks += starts.remarks(model.tokens)
            for line in store.damaged:
                remarks.append(f"{store.path} line {line} was not as it was written; its question was asked again.")
            remarks += _notes(parts)
            remarks += want(lacking, settings.data)
            result = replace(result, validity=validity, remarks=tuple(remarks))
            if settings.out:
                with stage(console, "Writing the report …"):
                    report.write(folder, result.report, result.tables, result.validity, others)
    return result


def _notes(parts: Sequence[run.Part]) -> list[str]:
    """The notes on the data of a run, each once: several configs of a data set have the same note."""
    notes: list[str] = []
    for part in parts:
        for loaded in part.splits:
            if loaded.note and loaded.note not in notes:
                notes.append(loaded.note)
    return notes
