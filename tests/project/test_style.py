"""Lint, format and types are part of the suite."""

import subprocess
import sys

import pytest

from tests.support.helpers import ROOT


@pytest.mark.parametrize("tool", ["ruff check", "ruff format --check", "mypy"])
def test_the_tree_is_clean(tool):
    command = [sys.executable, "-m", *tool.split(), *(["."] if tool.startswith("ruff") else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
