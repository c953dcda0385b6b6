"""Tests are kept from the network and the mirror, and the last line of a run says what was not tested."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.helpers import ROOT

#: An address that nobody has (RFC 5737).
NOWHERE = "192.0.2.1"
ASKING = f"""
import contextlib, socket, subprocess, sys
import pytest
from tests.support import helpers

ASK = "import contextlib, socket\\nwith contextlib.suppress(OSError): socket.create_connection(('{NOWHERE}', 80), 1)"

def test_here():
    exec(ASK)

def test_in_a_process():
    subprocess.run([sys.executable, "-c", ASK], check=True)

def test_name():
    with contextlib.suppress(OSError):
        socket.getaddrinfo("upstream.example", 443)

def test_upstream():
    helpers.mirror()

def test_quiet():
    pass

@pytest.mark.system
def test_package():
    helpers.missing_package("chromium")

def test_unmarked_package():
    helpers.missing_package("chromium")

def test_unmarked_program():
    helpers.system_program("chromium")

@pytest.mark.mirror
def test_marked():
    raise AssertionError("runs without sources")
"""


def test_who_asks_without_the_mark_fails_and_what_is_not_tested_is_said_with_the_command(tmp_path):
    (tmp_path / "test_asking.py").write_text(ASKING)
    marks = "  mirror: needs upstream sources\n  system: needs a system package\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{marks}")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    settings = {"PROBES_MIRROR": "", "PYTHONPATH": str(ROOT), "CI": "1"}  # which shortens no line
    known = {name: value for name, value in os.environ.items() if not name.startswith("PROBES_NEEDS")}
    done = subprocess.run([*command, "-rfs"], cwd=tmp_path, env=known | settings, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    for name, host in (("here", NOWHERE), ("in_a_process", NOWHERE), ("name", "upstream.example")):
        assert f"test_{name} - Failed: This test asked the network for {host}; give it what it needs, or" in done.stdout
    reads = "This test reads the mirror of upstream sources; mark it with @pytest.mark.mirror."
    assert f"test_upstream - Failed: {reads}" in done.stdout
    needs = "This test needs the system package chromium; mark it with @pytest.mark.system."
    assert f"test_unmarked_package - Failed: {needs}" in done.stdout
    assert f"test_unmarked_program - Failed: {needs}" in done.stdout
    *_, told, closing = done.stdout.splitlines()
    assert told == (
        "Not tested: 1 tests of the upstream sources (`make test TESTS=mirror` downloads these and runs them), "
        "1 tests of system packages (`apt-get install chromium` as root, then `make test`)."
    )
    assert "= 6 failed, 1 passed, 2 skipped in " in closing


def test_this_machine_may_be_asked():
    with socket.create_server(("127.0.0.1", 0)) as server:
        for host in ("127.0.0.1", "localhost", b"localhost"):
            socket.create_connection((host, server.getsockname()[1]), 5).close()
    with pytest.raises(ConnectionRefusedError, match=f"a test asked {NOWHERE}, and tests have no network"):
        socket.create_connection((NOWHERE, 80), 1)
    Path(os.environ["PROBES_REACHED"]).unlink()  # this test may
