"""Writes ``docs/ARCHITECTURES.md``: how each architecture of transformers is scored, as found by its test.

``python -m tools.families`` examines all families and variants (about ten minutes on two cores).
"""

from __future__ import annotations

import os
import warnings
from multiprocessing import get_context
from pathlib import Path

import torch
import transformers

from cards.common.text import templates
from tests.scoring import families
from tests.scoring.families import Finding

PAGE = Path(__file__).parent.parent / "docs" / "ARCHITECTURES.md"


def examine(case: tuple[str, str]) -> Finding:
    """What is found of one family, in a process of its own."""
    kind, name = case
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    try:
        return families.examine(name, kind)
    except Exception as error:  # One family that cannot be built does not take the page with it.
        return Finding(name, kind, crashed={"all": f"{type(error).__name__}: {error}"})


def page(findings: list[Finding]) -> str:
    """The page of all findings."""
    environment = templates(Path(__file__).with_name("templates"))
    environment.filters |= {"nats": _number, "refusal": _refusal}
    return environment.get_template("architectures.md.j2").render(
        version=transformers.__version__,
        close=families.CLOSE,
        kinds=families.KINDS,
        variants=families.VARIANTS,
        findings=findings,
        decisions=sorted({name for finding in findings for name in finding.decided}),
        passed=sum(not (finding.refused or finding.wrong or finding.crashed) for finding in findings),
        left_out=[(kind, *entry) for kind, reasons in families.LEFT_OUT.items() for entry in sorted(reasons.items())],
    )


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.1e}"


def _refusal(finding: Finding) -> str:
    # Of several aspects with the same sentence, the first is named.
    aspects = {text: aspect for aspect, text in reversed({**finding.refused, **finding.crashed}.items())}
    sentences = [text if aspect == "all" else f"{aspect}: {text}" for text, aspect in reversed(aspects.items())]
    return " ".join(sentences).replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Examines all and writes the page."""
    cases = [(kind, name) for kind in families.KINDS for name in families.names(kind)]
    cases += [(variant["kind"], name) for name, variant in families.VARIANTS.items()]
    with get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=40) as pool:
        findings = []
        for finding in pool.imap(examine, cases):
            findings.append(finding)
            print(
                finding.kind, finding.name, _number(finding.largest), finding.wrong or "", _refusal(finding), flush=True
            )
    PAGE.write_text(page(findings))


if __name__ == "__main__":
    main()
