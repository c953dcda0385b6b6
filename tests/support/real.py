"""The two real models that tests with the marker ``real`` score; ``make real-weights`` makes their folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.helpers import missing
from tools import real_weights

#: What a test with the marker ``real`` needs, as reasons of skipped tests name it.
MODELS = "the two real models"
_SMOLLM2, _GEMMA = real_weights.models()


def smollm2() -> Path:
    """The folder of SmolLM2-135M-Instruct, a chat model with a template, whose BOS is the marker of a role."""
    return _folder(_SMOLLM2)


def gemma() -> Path:
    """The folder of Gemma 3 270M, a base model with a vocabulary of 262,144, which needs its BOS."""
    return _folder(_GEMMA)


def smollm2_gguf() -> Path:
    """The GGUF file that the folder of SmolLM2 was made of."""
    smollm2()
    path = real_weights.gguf_file(_SMOLLM2)
    return path if path.is_file() else missing(f"needs {path.name}, beside the folder", "PROBES_NEEDS_REAL")


def require_models() -> None:
    """Skips the test where one of the models is not there, or fails it if PROBES_NEEDS_REAL is set."""
    smollm2()
    gemma()


def _folder(name: str) -> Path:
    folder = os.environ.get("PROBES_REAL")
    if folder is None:
        pytest.fail("This test reads a real model; mark it with @pytest.mark.real.", pytrace=False)
    path = Path(folder) / name
    return path if path.is_dir() else missing(f"needs {MODELS}", "PROBES_NEEDS_REAL")
