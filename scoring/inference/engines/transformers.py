"""A model that is loaded in this process, from a folder or the Hub."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cards.common.text import did_you_mean
from scoring.asking.result import RunResult
from scoring.inference.engines import Call, EngineKind, NoModel, score
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
    """Refuses a name that is nearly that of a bundled model, before the data are read.

    >>> refuse_mistyped("gpt2")
    >>> refuse_mistyped("tiny-casual")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    scoring.types.ScoringError: 'tiny-casual' (did you mean 'tiny-causal'?) is no bundled model; ...

    Raises
    ------
    ScoringError
        With the name that was probably meant.
    """
    if model in BUNDLED or "/" in model:
        return
    meant = did_you_mean(model, BUNDLED)
    # Only a near name is looked up as a folder: the system refuses to look up a text that is longer than a name can be.
    if meant and not Path(model).exists():
        raise ScoringError(f"{model!r}{meant} is no bundled model; give a name of the Hub or a folder.")


def score_call(call: Call, console: Console, processes: Processes) -> RunResult:
    """Loads the model on the device of this process, and scores it."""
    # Each process of a launcher has a GPU of its own.
    loading = replace(call.loading, device=own_device(processes, call.loading.device))
    dry_run = call.sampling.dry_run
    return score(name(call), loading.load, call.settings, console, processes, call.shared, dry_run=dry_run)


ENGINE = EngineKind(
    lambda call: not (call.in_memory or call.sampling.chat_api or call.servers.base_url),
    name,
    score_call,
)
