"""What all tests share: an environment that does not depend on the machine, and seeds that do not depend on the order.

Environment variables are set here at import, because libraries read them when they are imported.
"""

import os
import re
import sys
import tempfile

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
_FOLDER = tempfile.TemporaryDirectory(prefix="probes-tests-")

for _name in [name for name in os.environ if _OF_THE_MACHINE.fullmatch(name)]:
    del os.environ[_name]
os.environ |= {
    "COLUMNS": "80",
    "HF_HOME": f"{_FOLDER.name}/huggingface",
    "PROBES_CACHE": f"{_FOLDER.name}/cache",
    "NO_PROXY": "localhost,127.0.0.1",
}

from tests.helpers import ROOT, mirror  # noqa: E402 - after the environment is set

#: A mirror beside the checkout is used as if it were named.
if (ROOT.parent / "shared" / "sources").is_dir():
    os.environ.setdefault("PROBES_MIRROR", str(ROOT.parent / "shared" / "sources"))

#: The files that take longest, each more than 20 s of a quiet processor.
LONGEST = {
    "test_docs.py",
    "test_families.py",
    "test_notebook.py",
    "test_parallel.py",
    "test_pipelines.py",
    "test_planted_shapes.py",
    "test_replay.py",
}

settings.register_profile("untimed", deadline=None)  # a slow machine must not fail a test
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seeds torch before the fixtures of each test; pytest-randomly seeds Python and numpy.

    A test with the marker ``mirror`` is skipped with its reason where there is no mirror.
    """
    if item.get_closest_marker("mirror"):
        mirror()
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.hookimpl(trylast=True)  # after pytest-randomly, whose order is kept within both parts
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that take longest, so that no process is left with one of them at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_unconfigure() -> None:
    """Removes the folder of the caches."""
    _FOLDER.cleanup()
