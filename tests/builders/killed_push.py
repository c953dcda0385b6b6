"""Run by test_push: pushes in a child that is killed before or after its N-th request, for every N, to a Hub here."""

import json
import os
import signal
import sys
from pathlib import Path

import httpx2

import builders
from builders.files.manifest import read_manifest
from tests.support import commands
from tests.support.hub import Hub

NAME = "occugender"


def kill_at(number, *, after):
    """Kills this process at its N-th request, which the Hub has not got yet, or has answered."""
    count, send = 0, httpx2.Client.send

    def counted(*arguments, **options):
        nonlocal count
        count += 1
        if count == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        response = send(*arguments, **options)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return response

    httpx2.Client.send = counted


def push(out):
    return commands.run("builders.push", out, "--org", "org").returncode


def tree(hub, revision):
    """The files of a revision, without the address of the Hub, whose port is another each time."""
    files = hub.repos["dataset", f"org/{NAME}"].at(revision).tree
    return {path: file.data.replace(hub.url.encode(), b"") for path, file in files.items() if path != ".gitattributes"}


def main(folder):
    out = folder / "out"
    builders.build(NAME, out=out, offline=True, profile="paper")
    tag = f"v{read_manifest(out / NAME).version}"
    with Hub(cache=folder / "whole") as hub:
        assert push(out) == 0
        whole, tagged = tree(hub, "main"), tree(hub, tag)
    states = []
    for after in (False, True):
        number, killed = 0, True
        while killed:
            number += 1
            with Hub(cache=folder / f"cut-{after}-{number}") as hub:
                child = os.fork()
                if not child:
                    kill_at(number, after=after)
                    os._exit(push(out))
                killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
                repo = hub.repos.get(("dataset", f"org/{NAME}"))
                if repo is None:
                    states.append("nothing")
                elif tag in repo.tags:
                    states.append("published" if tree(hub, tag) == tagged else "HALF A VERSION")
                else:
                    states.append("no version" if tree(hub, "main").items() <= whole.items() else "OTHER FILES")
                if push(out) or tree(hub, tag) != tagged or tree(hub, "main") != whole:
                    states.append("NOT REPAIRED")
    print(json.dumps(states))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
