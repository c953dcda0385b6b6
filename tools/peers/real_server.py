"""A real inference server on loopback, for tests, figures and the page of engines: vLLM on a CPU.

It runs in an environment of its own (``make .venv-served/.ready``), because vLLM needs an older transformers. The
module of the server is started, not ``vllm serve``, which fails in the build for CPUs. Heads of 32, 64, 80, 96, 112,
128 … units can be served.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv-served"
#: Seconds until a server on a busy machine is ready.
LONGEST = 900
#: Messages one after the other, so that a model without a chat template continues what the user says.
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


@dataclass
class RealServer:
    """A server that runs: the address of its API, and its process."""

    url: str
    process: subprocess.Popen[bytes]
    killed: bool = False

    def kill(self) -> None:
        """Ends the server at once, as a crash does."""
        self.killed = True
        os.killpg(self.process.pid, signal.SIGKILL)


def installed() -> bool:
    """Whether the environment of the server is complete."""
    return (VENV / ".ready").is_file()


@contextmanager
def vllm(
    model: str | Path,
    log: Path,
    *,
    name: str = "tiny",
    threads: int = 1,
    dtype: str = "float32",
    part: int = 0,
    more: Sequence[str] = (),
) -> Iterator[RealServer]:
    """A server of a model, which ends with the block; what it prints goes into ``log``.

    With ``part`` it computes so many tokens at a time, and longer prompts in parts; without, each prompt at once.
    ``more`` are further options of its command line.

    Raises
    ------
    RuntimeError
        When it ends by itself, also while it is used, or is not ready in time.
    """
    port = _free_port()
    template = log.with_suffix(".jinja")
    template.write_text(TEMPLATE)
    options = {
        "--model": model,
        "--served-model-name": name,
        "--dtype": dtype,
        "--host": "127.0.0.1",
        "--port": port,
        "--max-model-len": 512,
        "--max-num-seqs": 64,
        "--max-logprobs": 20,
        "--max-num-batched-tokens": part or 4096,
        "--chat-template": template,
    }
    listed = [str(part) for pair in options.items() for part in pair]
    # vLLM 0.32.0 on a CPU ends with an error when it computes a prompt in parts and the request has a seed ("CPU
    # Generator does not use offset"): it then resets the random numbers, which only those of a GPU can do.
    switches = ["--enforce-eager", "--enable-chunked-prefill" if part else "--no-enable-chunked-prefill"]
    command = [str(VENV / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", *listed, *switches, *more]
    environment = {**os.environ, **_ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}/health", log)
            server = RealServer(f"http://127.0.0.1:{port}/v1", process)
            yield server
            if process.poll() is not None and not server.killed:
                raise RuntimeError(f"The server ended while it was used:\n{log.read_text(errors='replace')[-8000:]}")
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and the processes that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            continue


def _free_port() -> int:
    with socket.socket() as results:
        results.bind(("127.0.0.1", 0))
        return int(results.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"The server ended with status {process.returncode}; see {log}.")
        try:
            with urllib.request.urlopen(address, timeout=5) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise RuntimeError(f"The server is not ready after {LONGEST} s; see {log}.")
