"""What pages say of runs, as it is shown: the sentences of a bundled model, of a random network and of a real model.

``python -m tools.docs.shown RUN…`` writes, between two marks of ``docs/shown.md``, the conclusion of
each run, and each of its rows with the number, the place beside the ideal value, and the sentence. The random network
is made by ``python -m tools.docs.shown --random FOLDER``, with the tokenizer of ``tiny-causal``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cards import results
from cards.common.numbers import interval, minus
from cards.common.text import cell
from scoring import benchmarks
from scoring.report.headlines import answer_of, described, headline_scores
from scoring.types import Report

BEGIN, END = '<span id="shown"></span>', '<span id="shown-end"></span>'


def shown(report: Report, part: str) -> str:
    """The conclusion and the rows of a run in Markdown; ``part`` says how many rows of the data it has."""
    lines = [f"**{described(report)}** ({part})", "", f"> {answer_of(report)}", ""]
    lines += ["| benchmark | score [95 % interval] | beside the ideal | in words |", "| --- | ---: | --- | --- |"]
    for row in headline_scores(report):
        e, on = row.estimate, row.scale
        number = minus(on.brief(e.value) + interval(e.low, e.high, on.brief, " [{}, {}]"))
        place = row.leaning or row.standing or "–"
        lines.append(f"| {e.benchmark} | {number} | {place} | {cell(row.sentence)} |")
    return "\n".join(lines)


def rows_of(report: Report) -> str:
    """Whether all rows of the data were scored, and of which benchmarks."""
    rows = "a part of the rows" if report.partial else "all rows"
    return f"{rows} of {', '.join(report.benchmarks)}"


def with_headlines(report: Report) -> Report:
    """A run with the sentences of this version, which a stored run has from the version that scored it."""
    known = {name: benchmarks.get(name).headline for name in report.benchmarks if benchmarks.known(name)}
    return replace(report, headlines={name: headline for name, headline in known.items() if headline})


def between(page: str, text: str) -> str:
    """A page with another text between the marks.

    >>> between(f"a {BEGIN}old{END} b", "new").splitlines()[1]
    'new'
    """
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def random_network(folder: Path) -> None:
    """Writes a Llama of two layers with random weights."""
    from tools.simulations import random_networks

    random_networks.random_network("llama", "causal", 1).save_pretrained(folder)
    random_networks.tokenizer_of("causal").save_pretrained(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the sentences of runs into a page, or a random network into a folder."""
    parser = argparse.ArgumentParser(description="What pages say of runs.")
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--page", type=Path, default=Path("docs/shown.md"))
    parser.add_argument("--random", type=Path, help="write a random network into this folder")
    options = parser.parse_args(arguments)
    if options.random:
        random_network(options.random)
        return
    reports = [with_headlines(results.load(run)) for run in options.runs]
    text = "\n\n".join(shown(report, rows_of(report)) for report in reports)
    options.page.write_text(between(options.page.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
