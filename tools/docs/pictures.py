"""The pictures of the README: ``python -m tools.docs.pictures --run output/runs/smollm2``, after ``make real``.

``docs/report.png`` is the first screen of the report of that run, of a real model on the embedded data, and
``docs/models.png`` that of the page of real models. Both are taken by chromium, in a light scheme.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.docs.pages import ROOT
from tools.real_models.page import files as model_files
from tools.real_models.scores import read

DOCS = ROOT / "docs"
#: Width and height of the pictures in pixels, narrow enough to read two of them beside each other.
SIZE = (1100, 850)


def screenshot(page: Path, picture: Path) -> None:
    """Takes a picture of the first screen of a page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("error: chromium is not installed; install it (Debian: apt-get install chromium) and try again.")
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--blink-settings=preferredColorScheme=1",
        ]
        command += [f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={picture}"]
        subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=300)


def main() -> None:
    """Takes both pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("output/runs/smollm2"), help="The folder of a run.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        screenshot(options.run.absolute() / "report.html", DOCS / "report.png")
        page = Path(folder) / "index.html"
        page.write_bytes(model_files(read())["index.html"])
        screenshot(page, DOCS / "models.png")
    print(f"The pictures are {DOCS / 'report.png'} and {DOCS / 'models.png'}.")


if __name__ == "__main__":
    main()
