"""Downloads what the tests with the marker ``mirror`` read: ``python -m tools.fetch_sources FOLDER``.

The folder gets the pinned sources and the files of ``tests/sources.toml`` as HOST/PATH, so that it can be named as
PROBES_MIRROR. Where a source has alternatives, the first of plain files is taken, because tests read files as they
lie in a mirror. A file that is there is verified and kept. The exit status is 2 when a source is not available.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.progress import Progress

from builders.dataset import Alternative, Remote, Source, SourceUnavailable
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher
from tools.real_models.training_steps import PREFIX

EXTRA = Path(__file__).parent.parent / "tests" / "sources.toml"


def wanted() -> Iterator[Source]:
    """The sources of the catalogue but the checkpoints of :mod:`tools.real_models.training_steps`, and tests' files."""
    for name, source in catalogue().sources.items():
        plain = tuple(each for each in source.alternatives if not any(file.member for file in each.files))
        if plain and not name.startswith(PREFIX):
            yield replace(source, alternatives=plain)
    for url, sha256 in tomllib.loads(EXTRA.read_text("utf-8"))["files"].items():
        yield Source(url, "of its repository", "", (Alternative((Remote(url, sha256=sha256),)),))


def main(folder: Path) -> int:
    """Downloads all into the folder; what is not available is told in a sentence each, after all others are there."""
    lacking = 0
    with Progress() as progress:
        fetcher = Fetcher(folder, progress=progress)
        for source in progress.track(tuple(wanted()), description="Sources of the tests"):
            try:
                fetcher.get(source)
            except SourceUnavailable as error:
                lacking += 1
                print(f"error: {error}", file=sys.stderr)
    return 2 if lacking else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Give the folder to download into: python -m tools.fetch_sources FOLDER")
    raise SystemExit(main(Path(sys.argv[1])))
