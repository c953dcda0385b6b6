"""The outputs that README shows: ``python -m tools.docs.readme`` runs its lines and writes what they print.

README has a mark before each output, such as ``<!-- output: python -->``, and a block of text after it. The lines run
in a temporary folder with the embedded data, without network: the first block of Python of README, the two commands
below it, and ``probes score`` as ``make real`` gives it. All are of SmolLM2, which ``make real-weights`` makes.
``tests/project/test_readme.py`` compares the words with a new run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from cards.common.files import put

PAGE = Path(__file__).parents[2] / "README.md"
#: The width of a line of an output in README.
WIDTH = 88
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
_OUTPUT = re.compile(r"(<!-- output: (\w+) -->\n```text\n).*?(```)", re.DOTALL)
_NUMBER = re.compile(r"[+−-]?\d[\d,.]*\d|[+−-]?\d")


def printed(folder: Path, *arguments: str) -> str:
    """What a command of Python prints in a folder, on a wide terminal, from the embedded data alone."""
    nothing = {"PROBES_MIRROR": "", "PROBES_CACHE": str(folder / "cache"), "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **nothing, "PYTHONPATH": str(PAGE.parent), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"error: {' '.join(arguments)[:200]} failed: {done.stderr[-2000:]}")
    return done.stdout


def wrapped(text: str) -> str:
    """Each line in lines of at most :data:`WIDTH` characters."""
    lines = []
    for line in text.strip().splitlines():
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=" ") or [""]
    return "\n".join(lines) + "\n"


def compared(output: str) -> str:
    r"""The table of a comparison and its count of verdicts.

    >>> compared("a with b\nbenchmark score\nx 1\nMinimum …\nOf 1 score: 1 unclear.\nThe page is c.")
    'benchmark score\nx 1\nOf 1 score: 1 unclear.\n'
    """
    lines = [line.rstrip() for line in output.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("benchmark"))
    end = next(number for number, line in enumerate(lines) if line.startswith("Minimum"))
    counts = [line for line in lines if re.match(r"Of \d+ scores?:", line)]
    return "\n".join([*lines[start:end], *counts]) + "\n"


def concluded(output: str) -> str:
    r"""The conclusion of a run: from the line with the number of benchmarks to the end of its sentence.

    >>> concluded("benchmark  score\nIn 1 of 2 benchmarks it leans\nmale (a).\nMDE: …")
    'In 1 of 2 benchmarks it leans male (a).\n'
    """
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("In "))
    end = next(number for number, line in enumerate(lines) if number >= start and line.rstrip().endswith("."))
    return wrapped(" ".join(line.strip() for line in lines[start : end + 1]))


def outputs(page: str) -> dict[str, str]:
    """What each mark of a page stands for, from a new run."""
    block = _PYTHON.search(page)
    if block is None:
        sys.exit("error: README has no block of Python.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The progress of the builder goes to standard error or stands before the two lines that are shown.
        lines = printed(folder, "-c", block[1]).strip().splitlines()
        python = [line for line in lines if line.startswith("<")]
        comparison = printed(folder, "-m", "probes", "compare", "after", "before")
        printed(folder, "-m", "builders.rebuild", "--offline", "--out", "embedded")
        score = printed(folder, "-m", "scoring", "smollm2", "--data", "embedded", "--limit", "20", "--out", "run")
    return {"python": wrapped("\n".join(python)), "score": concluded(score), "compare": compared(comparison)}


def with_outputs(page: str, texts: dict[str, str]) -> str:
    r"""A page with other outputs behind its marks.

    >>> with_outputs("<!-- output: a -->\n```text\nold\n```", {"a": "new\n"}).splitlines()[2]
    'new'
    """
    return _OUTPUT.sub(lambda match: match[1] + texts[match[2]] + match[3], page)


def words(text: str) -> str:
    """A text with N for each number and single spaces: what does not depend on the last digit of a processor.

    >>> words("0.07 → 0.08,  unclear")
    'N → N, unclear'
    """
    return " ".join(_NUMBER.sub("N", text).split())


def shown(page: str) -> dict[str, str]:
    """The outputs that a page has, by mark."""
    return {match[2]: match[0].split("```text\n", 1)[1].removesuffix("```") for match in _OUTPUT.finditer(page)}


def main() -> None:
    """Writes the outputs of a new run into README."""
    page = PAGE.read_text(encoding="utf-8")
    put(PAGE, with_outputs(page, outputs(page)).encode())


if __name__ == "__main__":
    main()
