"""``python -m tools.real_models``: the page of real models, from pinned files or from the scores that are kept."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cards.common.files import put, put_all
from scoring.report.real_models import TABLE
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError
from tools.docs.pages import ROOT
from tools.real_models import published
from tools.real_models.page import default_plots, files, markdown
from tools.real_models.scores import SCORES, collect, read, read_examples, table_of_package, write, write_examples

PAGE = ROOT / "docs" / "MODELS.md"


def main() -> None:
    """Writes the page of the documentation, and with ``--out`` the site part with a page for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Folder for index.html and a page for each model.")
    parser.add_argument("--kept", action="store_true", help="Use docs/models/scores.json; make no runs.")
    parser.add_argument("--data", type=Path, default=Path("output"), help="Folder of the built data sets.")
    parser.add_argument("--offline", action="store_true", help="Use no network: mirror and cache only.")
    parser.add_argument("--resamples", type=int, default=RESAMPLES, help="Bootstrap resamples, for trials.")
    options = parser.parse_args()
    if options.kept:
        collected = read()
    else:
        collected = collect(options.data, offline=options.offline, resamples=options.resamples, say=print)
        write(collected)
        write_examples(collected)
        # What is kept has fewer digits; the pages are made from it, so that both ways give the same bytes.
        collected = read()
    read_examples(collected)
    put(TABLE, table_of_package(collected).encode())
    put(PAGE, markdown(collected).encode())
    put(published.PAGE, published.page(collected).encode())
    for path, content in default_plots(collected).items():
        put(path, content)
    if options.out:
        put_all(options.out, files(collected), ScoringError)
        sys.stdout.write(f"The page is {options.out / 'index.html'}.\n")
    sys.stdout.write(f"The page of the documentation is {PAGE}; its scores are {SCORES}.\n")


if __name__ == "__main__":
    main()
