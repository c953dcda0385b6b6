"""Refuses every connection that leaves this machine and notes its host; a test that may not ask fails then.

``tests/conftest.py`` puts this folder first in PYTHONPATH. Python imports a module of this name when it starts, so the
processes that tests start are kept from the network too. The file named by PROBES_REACHED gets a line for each host.
"""

import os
import sys

#: Ray asks here whether it runs in a cloud; the answer is no, and no test fails for it.
_CLOUD = ("169.254.169.254", "metadata.google.internal")


def _is_here(host: object) -> bool:
    """Whether a host is this machine: one of its addresses, a name of it, or none."""
    import ipaddress  # only where it is needed: this module is part of every start of Python
    import socket

    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost", "0.0.0.0", "::", socket.gethostname()):
        return True
    if name in _CLOUD:
        raise ConnectionRefusedError("tests run in no cloud")
    name = str(name).removeprefix("datasets-server.")  # put before the address of the Hub, which is a test's server
    try:
        address = ipaddress.ip_address(name)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as own:
            own.bind((name, 0))  # only an address of this machine can be
    except (ValueError, OSError):
        return False
    return True


def _watch(event: str, arguments: tuple) -> None:
    if event == "socket.connect":
        host = arguments[1][0] if isinstance(arguments[1], tuple) else None  # a path is on this machine
        if arguments[0].type.name == "SOCK_DGRAM":  # sends nothing; Ray learns the address of the machine so
            return
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    else:
        return
    if "PROBES_REACHED" in os.environ and not _is_here(host):
        with open(os.environ["PROBES_REACHED"], "a", encoding="utf-8") as file:
            file.write(f"{host}\n")
        raise ConnectionRefusedError(f"a test asked {host}, and tests have no network")


if not hasattr(sys, "network_is_watched"):  # a process of pytest-xdist imports this when it starts and by conftest.py
    sys.addaudithook(_watch)
    sys.network_is_watched = True
