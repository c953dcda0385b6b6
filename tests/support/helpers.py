"""What several tests share: the mirror of upstream sources, made sources, and what a test needs of the machine."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import pytest

from builders.dataset import Alternative, Fetched, Remote, Source
from builders.sources import fetch
from builders.sources.catalogue import catalogue, mirror_path
from builders.sources.retries import retrying

ROOT = Path(__file__).parents[2]

#: What a test with the marker ``mirror`` needs, as reasons of skipped tests name it.
SOURCES = "the upstream sources"
BESIDE = "beside the mirror"


def mirror() -> Path:
    """The mirror folder; skips the test with a reason if there is none, and fails a test without the marker."""
    folder = os.environ.get("PROBES_MIRROR")
    if folder is None:
        pytest.fail("This test reads the mirror of upstream sources; mark it with @pytest.mark.mirror.")
    if not folder or not Path(folder).is_dir():
        missing(f"needs {SOURCES}")
    return Path(folder)


def beside(*parts: str) -> Path:
    """A file or folder that lies beside the mirror, as ``models/NAME``; skips the test with a reason without it."""
    path = mirror().parent.joinpath(*parts)
    return path if path.exists() else missing(f"needs {'/'.join(parts)} {BESIDE}")


def manifest_text(facts: dict[str, Any]) -> str:
    """The text of a manifest with edited facts."""
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def one_attempt() -> AbstractContextManager[object]:
    """A block in which what the mirror lacks is asked for once.

    On a machine without a network, tests would spend most of their time in the pauses between attempts.
    """
    return mock.patch.object(fetch, "retrying", lambda _, sleep: retrying(1, sleep))


def missing(what: str, needed: str = "PROBES_NEEDS_MIRROR") -> NoReturn:
    """Skips the test, or fails it if the environment variable ``needed`` is set."""
    if os.environ.get(needed):
        pytest.fail(what)
    pytest.skip(what)


def system_program(name: str) -> str:
    """The path of a program of a system package; a test without the mark fails where the package is installed too."""
    _require_system_mark(name)
    return shutil.which(name) or missing_package(name)


def missing_package(name: str) -> NoReturn:
    """Skips the test because a system package is not installed, or fails it if PROBES_NEEDS_SYSTEM is set."""
    _require_system_mark(name)
    missing(f"needs the system package {name}: apt-get install {name}", "PROBES_NEEDS_SYSTEM")


def _require_system_mark(name: str) -> None:
    assert name in (ROOT / "tests" / "system-packages.txt").read_text().split("\n")
    if not os.environ.get("PROBES_TESTS_SYSTEM"):
        pytest.fail(f"This test needs the system package {name}; mark it with @pytest.mark.system.", pytrace=False)


def mirrored(*names: str) -> dict[str, Fetched]:
    """Sources found in the mirror, by the first alternative whose files are all there."""
    folder = mirror()
    result = {}
    for name in names:
        source = catalogue().sources[name]
        for number, alternative in enumerate(source.alternatives):
            paths = tuple(folder / mirror_path(file.url) for file in alternative.files)
            if all(p.is_file() for p in paths):
                result[name] = Fetched(source, number, paths)
                break
        else:
            missing(f"the mirror has no copy of {name}")
    return result


def made(folder: Path, name: str, *contents: str | bytes, licence: str = "MIT") -> dict[str, Fetched]:
    """A source of one alternative whose files have these contents."""
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}-{name.replace('/', '-')}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        paths.append(path)
    remotes = tuple(Remote(f"https://example.org/{p.name}", sha256="0" * 64) for p in paths)
    return {name: Fetched(Source(name, licence, "made", (Alternative(remotes),)), 0, tuple(paths))}
