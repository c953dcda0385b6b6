"""An inference server that is started for one model, and ends when the model is scored.

``probes score A B --server "vllm serve {model} --port {port} --tensor-parallel-size 4"`` scores models that take
several GPUs: each has its server, which is asked as one that was there before.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO, Any

from cards.common.stored import parsed
from scoring.inference.engines import Call
from scoring.inference.load_options import BUNDLED
from scoring.types import ScoringError

#: Seconds until a server that loads its weights has to answer, and until one that is asked to end has ended.
STARTED, ENDED = 1800.0, 30.0
#: Ports that are tried, from one on that follows from the name of the model, so that a later call finds the same one.
PORTS = range(20_000, 30_000)
#: Asks without the proxy of the environment, which cannot reach this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
#: Ends a group of processes when its standard input ends, as it does with the process that has the other end.
_GUARD = """
import os, signal, sys, time
sys.stdin.read()
for wish in (signal.SIGTERM, signal.SIGKILL):
    try:
        os.killpg(int(sys.argv[1]), wish)
    except OSError:
        break
    time.sleep(float(sys.argv[2]))
"""


@contextmanager
def serving_model(call: Call) -> Iterator[Call]:
    """The call with the server of its model, which runs while the block does.

    Raises
    ------
    ScoringError
        When the command is not one, or the server ends or does not answer.
    """
    model = call.loading.model
    place = str(BUNDLED.get(model, model))
    port = free_port(model)
    words = arguments(call.many.server, place, port)
    with tempfile.TemporaryFile() as log:
        try:
            # A group of its own, because a server has processes for its GPUs that must end with it.
            process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            raise ScoringError(f"{words[0]} cannot be started ({error.strerror}); correct --server.") from None
        # A run that is killed ends no server itself.
        guard = subprocess.Popen(
            [sys.executable, "-I", "-c", _GUARD, str(process.pid), str(ENDED)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}/v1"
            served = _model_at(url, process, log, model)
            servers = replace(
                call.servers,
                base_url=[url],
                model_name=model if model in served else served[0],
                tokenizer=call.servers.tokenizer or place,
            )
            # The model is loaded by the server, so nothing is loaded here.
            loading = replace(call.loading, model="")
            yield replace(call, model="", servers=servers, loading=loading, many=replace(call.many, server=""))
        finally:
            _end(process)
            # The number of the group may belong to others from now on.
            guard.kill()
            guard.communicate()


def arguments(command: str, model: str, port: int) -> list[str]:
    """The words of a command for a model and a port; a model is one word, whatever its name is.

    >>> arguments("vllm serve {model} --port {port}", "org/a b", 20001)
    ['vllm', 'serve', 'org/a b', '--port', '20001']

    Raises
    ------
    ScoringError
        For a command without the places of both.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScoringError(f"The command of --server is no line of a shell ({error}); correct its quotes.") from None
    if "{model}" not in command or "{port}" not in command:
        raise ScoringError(
            f"The command of --server, {command!r}, lacks {{model}} or {{port}}; give one such as "
            "'vllm serve {model} --port {port}'."
        )
    return [word.replace("{model}", model).replace("{port}", str(port)) for word in words]


def free_port(model: str) -> int:
    """A port of this machine that nothing listens on.

    The search begins at a number that follows from the model: stored responses are those of an address, so a call that
    goes on needs the same one.
    """
    # Not hash(), which differs from process to process.
    first = zlib.crc32(model.encode()) % len(PORTS)
    for number in range(len(PORTS)):
        port = PORTS[(first + number) % len(PORTS)]
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise ScoringError(f"No port from {PORTS.start} to {PORTS.stop - 1} is free; end other servers.")


def _model_at(url: str, process: subprocess.Popen[bytes], log: IO[bytes], model: str) -> list[str]:
    """The names of the models of a server, when it answers."""
    began = time.monotonic()
    while time.monotonic() - began < STARTED:
        if process.poll() is not None:
            raise ScoringError(
                f"The server of {model} ended with status {process.returncode} before it answered; it said: "
                f"{_end_of(log)}"
            )
        # A server that loads its model refuses connections, or answers with pages that are no JSON.
        with suppress(OSError, urllib.error.URLError, ValueError, KeyError, TypeError):
            with _DIRECT.open(f"{url}/models", timeout=5) as reply:
                listed: Any = parsed(reply.read())
            names = [str(entry["id"]) for entry in listed["data"]]
            if names:
                return names
        time.sleep(0.2)
    raise ScoringError(f"The server of {model} did not answer within {STARTED:.0f} seconds; it said: {_end_of(log)}")


def _end_of(log: IO[bytes]) -> str:
    # The last lines say why a server ended; its log may be long.
    log.seek(max(0, log.seek(0, os.SEEK_END) - 300))
    return " ".join(log.read().decode(errors="replace").split()) or "nothing."


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a server with all of its processes."""
    # First a request, so that the server can free its GPUs; then by force.
    for wish in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, wish)
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDED)
            break
