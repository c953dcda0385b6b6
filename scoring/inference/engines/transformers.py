"""A model that is loaded in this process, from a folder or the Hub."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from cards.common.text import did_you_mean, without_home
from scoring import report
from scoring.asking import run, window
from scoring.asking.answering import Asker
from scoring.asking.result import RunResult
from scoring.inference import fetching
from scoring.inference.chat import NO_TEMPLATE
from scoring.inference.engines import MASKED_CHAT, Call, EngineKind, NoModel, score
from scoring.inference.load_options import BUNDLED, place_of
from scoring.inference.parallel import Processes, own_device
from scoring.types import ScoringError


def name(call: Call) -> str:
    """The model as the user named it."""
    # Neither a name nor an address: the command has nothing to score.
    if not call.loading.model:
        raise NoModel("Name a model, such as tiny-causal, or give --base-url.")
    refuse_mistyped(call.loading.model)
    place_of(call.loading.model)  # raises for a model that is not fetched
    return call.loading.model


def refuse_mistyped(model: str) -> None:
    """Refuses a folder that is not there, and a name that is nearly that of a bundled model, before the data are read.

    >>> refuse_mistyped("gpt2")
    >>> refuse_mistyped("tiny-casual")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    scoring.types.ScoringError: 'tiny-casual' (did you mean 'tiny-causal'?) is no bundled model; ...

    Raises
    ------
    ScoringError
        With the folder, or the name that was probably meant.
    """
    with suppress(OSError):  # a text that is too long for a path
        if fetching.is_path(model) and not Path(model).exists():
            raise ScoringError(fetching.NO_FOLDER.format(model))
    if model in BUNDLED or "/" in model:
        return
    meant = did_you_mean(model, BUNDLED)
    # Only a near name is looked up as a folder: the system refuses to look up a text that is longer than a name can be.
    if meant and not Path(model).exists():
        raise ScoringError(f"{model!r}{meant} is no bundled model; give a name of the Hub or a folder.")


def refuse_by_files(call: Call) -> None:
    """Refuses what the small files of a model exclude: another kind, or a chat without a template.

    It takes a second, where loading takes ten, and torch is not imported for it.

    Raises
    ------
    ScoringError
        As :func:`scoring.inference.engines.score`, and for a model that is not there.
    """
    settings, model = call.settings, call.loading.model
    loading = call.loading
    if loading.device not in (None, "auto") and not fetching.is_device(str(loading.device)):
        raise ScoringError(fetching.NO_DEVICE.format(loading.device))
    folder = loading.small_files()
    if loading.revision and (model in BUNDLED or Path(model).exists()):
        raise ScoringError(f"{model!r} is a folder, which has no revision {loading.revision!r}; leave out --revision.")
    fetching.check_model(folder, model)
    of_files = fetching.facts(folder)
    if loading.adapter:
        of_adapter = fetching.fetched(str(loading.adapter), loading.adapter_revision, list(fetching.SMALL))
        if not any((of_adapter / name).is_file() for name in ("adapter_config.json", "config.json")):
            raise ScoringError(fetching.NO_ADAPTER.format(str(loading.adapter)))
    kind = of_files.kind
    if settings.chat:
        if kind == "masked":
            raise ScoringError(MASKED_CHAT.format(model))
        # An adapter may bring a tokenizer with a template.
        if not of_files.has_chat_template and not call.loading.adapter:
            raise ScoringError(NO_TEMPLATE.format(model))
        kind = "chat"
    if kind and settings.benchmarks:
        parts = [run.Part(benchmark) for benchmark in settings.chosen()]
        run.suited(parts, kind, without_home(model), named=True)


def check(call: Call, parts: Sequence[run.Part] = ()) -> tuple[list[run.Part], list[str]]:
    """Checks a call before torch is imported: its settings, the small files of its model, and its longest rows.

    Returns
    -------
    The parts whose rows fit into the context window, and a remark for each other one.

    Raises
    ------
    ScoringError
        For what excludes that the model is scored.
    """
    settings = call.settings
    model = name(call)
    # Settings that contradict each other are refused before the files of a model are looked at.
    prompt = settings.full_prompt()
    if settings.out and not settings.overwrite:
        report.check_settings(settings.out, settings, without_home(model))
    refuse_by_files(call)
    folder = call.loading.small_files()
    kind = fetching.facts(folder).kind
    if not kind or settings.truncate:
        return list(parts), []
    asker = Asker(settings.profile, prompt)
    return window.leave_out_longer(parts, asker, folder, kind, chat=settings.chat, named=bool(settings.benchmarks))


def score_call(call: Call, console: Console, processes: Processes) -> RunResult:
    """Loads the model on the device of this process, and scores it."""
    # Each process of a launcher has a GPU of its own.
    loading = replace(call.loading, device=own_device(processes, call.loading.device))
    model = name(call)
    # A folder is looked at before the data, and what is on the Hub after them, because that needs the network.
    is_folder = False
    with suppress(OSError):  # a text that is too long for a path
        is_folder = Path(model).is_dir()
    if model in BUNDLED or is_folder:
        check(call)
    return score(
        model,
        loading.load,
        call.settings,
        console,
        processes,
        call.shared,
        dry_run=call.sampling.dry_run,
        check=partial(check, call),
    )


ENGINE = EngineKind(
    lambda call: not (call.in_memory or call.sampling.chat_api or call.servers.base_url),
    name,
    score_call,
    check=check,
)
