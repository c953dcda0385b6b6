"""A model that is loaded in this process, from a folder or the Hub."""

from dataclasses import replace

from rich.console import Console

from scoring.asking.result import RunResult
from scoring.inference.engines import Call, EngineKind, NoModel, score
from scoring.inference.parallel import Processes, own_device


def name(call: Call) -> str:
    """The model as the user named it."""
    # Neither a name nor an address: the command has nothing to score.
    if not call.loading.model:
        raise NoModel("Name a model, such as tiny-causal, or give --base-url.")
    return call.loading.model


def run(call: Call, console: Console, processes: Processes) -> RunResult:
    """Loads the model on the device of this process, and scores it."""
    # Each process of a launcher has a GPU of its own.
    loading = replace(call.loading, device=own_device(processes, call.loading.device))
    return score(name(call), loading.load, call.settings, console, processes, call.shared)


ENGINE = EngineKind(
    lambda call: not (call.in_memory or call.sampling.chat_api or call.servers.base_url),
    name,
    run,
)
