"""Run by test_generate: generates in a child that is killed at its N-th write, for every N, and goes on."""

import json
import os
import shutil
import signal
import ssl
import sys
import threading
import urllib.request
from pathlib import Path

from typer.testing import CliRunner

from builders import generate
from builders.generation import endpoint
from builders.generation.responses import read_responses, request_key

assert endpoint  # imported before forking, as every child needs it


def run(url: str, words: Path, out: Path) -> None:
    options = ["--base-url", url, "--model", "m", "--out", str(out), "--words", str(words), "--no-they", "--count", "1"]
    done = CliRunner().invoke(generate.app, ["unstereo", *options, "--concurrency", "3"])
    assert done.exit_code == 0, done.output


def kill_at(number: int) -> None:
    """Kills this process at its N-th write: with a line half written, once it is on the disk, at a rename."""
    guard = threading.Lock()
    count = 0

    def point() -> bool:
        nonlocal count
        with guard:
            count += 1
            return count == number

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def synced(handle: int) -> None:
        if point():
            os.ftruncate(handle, max(0, os.fstat(handle).st_size - 20))
            die()
        whole(handle)
        if point():
            die()

    def hook(event: str, arguments: tuple) -> None:
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        if (event in {"os.rename", "os.mkdir"} or opens) and point():
            die()

    whole, os.fsync = os.fsync, synced
    sys.addaudithook(hook)


def tree(folder: Path) -> dict[str, str]:
    """The finished files but the replies, which stand in the order in which they came."""
    names = ("rows.jsonl", "dropped.jsonl", "manifest.json")
    return {name: (folder / name).read_text() for name in names}


def answered(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url) as response:
        return json.load(response)


def main(url: str, folder: Path) -> None:
    # Certificates, which nobody here shows, take longer to load than all the rest.
    ssl.create_default_context = lambda *_, **__: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    words = folder / "words.txt"
    words.write_text("umbrella\n")
    run(url, words, folder / "whole")
    expected = tree(folder / "whole")
    killed, wrong = 0, []
    while True:
        out = folder / "out"
        child = os.fork()
        if not child:
            kill_at(killed + 1)
            run(url, words, out)
            os._exit(0)
        if not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            break
        killed += 1
        responses = read_responses(out / "replies.jsonl") if (out / "replies.jsonl").exists() else {}
        kept = {request_key(response.request) for response in responses.values()}  # as the server counts them
        before = answered(url)
        run(url, words, out)
        after = answered(url)
        wrong += [f"kill {killed}: a recorded reply was paid for again" for key in kept if after[key] != before[key]]
        if tree(out) != expected:
            wrong.append(f"kill {killed}: the rows differ")
        shutil.rmtree(out)
    print(json.dumps({"killed": killed, "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
