"""What all tests share: an environment that does not depend on the machine, and seeds that do not depend on the order.

No test gets an answer from the network, and only those with the marker ``mirror`` have the upstream sources. Others
that ask for either fail; with the marker, what the mirror lacks may be asked for, and is told as not available. Only
those with the marker ``real`` have the two real models.

Environment variables are set here at import, because libraries read them when they are imported.
"""

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

#: Environment variables of a user or of a CI service that change what the package does or prints: width and colors
#: of the terminal, tokens and keys, addresses and caches of the Hub, proxies, schedulers, places of WordNet.
_OF_THE_MACHINE = re.compile(
    r"COLUMNS|LINES|TERM|COLORTERM|(FORCE|NO|PY|CLI)_?COLORS?|CLICOLOR_FORCE|TTY_\w+|GITHUB_ACTIONS|_TYPER_\w+"
    r"|\w*(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?"
    r"|(HF|HUGGINGFACE|TRANSFORMERS|DATASETS|OPENAI|SLURM|RAY|WANDB)_\w+"
    r"|(HTTPS?|ALL|FTP)_PROXY|PROBES_(CACHE|DATA)|WNSEARCHDIR|WNHOME|NLTK_DATA|PYTHONWARNINGS|LANGUAGE",
    re.IGNORECASE,
)
GUARD = Path(__file__).with_name("guard")
_FOLDER = tempfile.TemporaryDirectory(prefix="probes-tests-")

for _name in [name for name in os.environ if _OF_THE_MACHINE.fullmatch(name)]:
    del os.environ[_name]
os.environ |= {
    "COLUMNS": "80",
    "HF_HOME": f"{_FOLDER.name}/huggingface",
    "HF_UPDATE_DOWNLOAD_COUNTS": "false",  # the datasets library tells a server what it loads
    "HF_HUB_DISABLE_TELEMETRY": "1",  # the client of the Hub asks it which program it is used by
    "PROBES_CACHE": f"{_FOLDER.name}/cache",
    "NO_PROXY": "localhost,127.0.0.1",
    "PROBES_PROGRESS": "off",  # tests compare what a command prints besides
    "PROBES_REACHED": f"{_FOLDER.name}/reached",
    "PYTHONPATH": os.pathsep.join(filter(None, (str(GUARD), os.environ.get("PYTHONPATH")))),
}

import tests.guard.sitecustomize  # noqa: E402, F401 - after the environment is set
from tests.support import real  # noqa: E402
from tests.support.helpers import BESIDE, ROOT, SOURCES, mirror  # noqa: E402
from tools import real_weights  # noqa: E402

#: The mirror: the named one, one beside the checkout, or what `make sources` has downloaded. Empty for none. The
#: processes of pytest-xdist get it by a name of its own, because no test without the marker may find it.
_FOUND = next((str(path) for path in (ROOT.parent / "shared" / "sources", ROOT / ".sources") if path.is_dir()), "")
_MIRROR = os.environ.pop("PROBES_MIRROR", os.environ.get("PROBES_TESTS_MIRROR", _FOUND))
os.environ["PROBES_TESTS_MIRROR"] = _MIRROR
#: The folder of the real models, in the same way.
_REAL = os.environ.get("PROBES_TESTS_REAL") or str(real_weights.folder().absolute())
os.environ.pop("PROBES_REAL", None)
os.environ["PROBES_TESTS_REAL"] = _REAL

#: The files that take longest, each more than 20 s of a quiet processor.
LONGEST = {
    "test_docs.py",
    "test_families.py",
    "test_gpu.py",
    "test_notebook.py",
    "test_parallel.py",
    "test_pipelines.py",
    "test_planted_shapes.py",
    "test_replay.py",
}

settings.register_profile("untimed", deadline=None)  # a slow machine must not fail a test
settings.load_profile("untimed")

# Runs in the environment of inspect-ai, which the environment of the tests does not have.
collect_ignore = ["scoring/inspecting.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seeds torch before the fixtures of each test; pytest-randomly seeds Python and numpy.

    A test with the marker ``mirror`` gets the mirror, or is skipped with its reason where there is none; so does one
    with the marker ``real``, with the real models. One with the marker ``system`` may need a system package.
    """
    Path(os.environ["PROBES_REACHED"]).unlink(missing_ok=True)
    os.environ.pop("PROBES_MIRROR", None)
    os.environ["PROBES_TESTS_SYSTEM"] = "1" if item.get_closest_marker("system") else ""
    if item.get_closest_marker("mirror"):
        os.environ["PROBES_MIRROR"] = _MIRROR
        mirror()
    os.environ.pop("PROBES_REAL", None)
    if item.get_closest_marker("real"):
        os.environ["PROBES_REAL"] = _REAL
        real.require_models()
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a test that asked the network, in its fixtures too, and also if the code under test went on without."""
    try:
        yield
    finally:
        path = Path(os.environ["PROBES_REACHED"])
        if path.exists() and not item.get_closest_marker("mirror"):
            hosts = ", ".join(sorted(set(path.read_text("utf-8").split())))
            pytest.fail(
                f"This test asked the network for {hosts}; give it what it needs, or mark it with @pytest.mark.mirror "
                "if it needs upstream sources.",
                pytrace=False,
            )


@pytest.hookimpl(trylast=True)  # after pytest-randomly, whose order is kept within both parts
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that take longest, so that no process is left with one of them at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after the summary of pytest
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Says last and in one sentence what was not tested, and what to do that it is."""
    yield
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")]
    sources = sum(reason.endswith(SOURCES) for reason in reasons)
    packages = Counter(reason.rpartition(" ")[2] for reason in reasons if "system package" in reason)
    parts = []
    if sources:
        parts.append(f"{sources:,} tests of {SOURCES} (`make test TESTS=mirror` downloads these and runs them)")
    if packages:
        install = f"apt-get install {' '.join(sorted(packages))}"
        parts.append(f"{packages.total():,} tests of system packages (`{install}` as root, then `make test`)")
    models = sum(reason.endswith(real.MODELS) for reason in reasons)
    if models:
        parts.append(f"{models:,} tests of {real.MODELS} (`make real-weights`, then `make test TESTS=real`)")
    beside = sum(reason.endswith(BESIDE) for reason in reasons)
    if beside:
        parts.append(f"{beside:,} tests of models, tables and scores that are {BESIDE} (not published in one place)")
    if others := len(reasons) - sources - packages.total() - models - beside:
        parts.append(f"{others:,} tests for the reasons above")
    if parts:
        terminalreporter.write_line(f"Not tested: {', '.join(parts)}.")


def pytest_unconfigure() -> None:
    """Removes the folder of the caches."""
    _FOLDER.cleanup()
