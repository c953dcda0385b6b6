"""Writes ``docs/ARCHITECTURES.md``: how each architecture of transformers is scored, as found by its test.

``python -m tools.families`` examines all families and variants (about ten minutes on two cores).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import torch
import transformers

from tests.scoring import families
from tests.scoring.families import Finding

PAGE = Path(__file__).parent.parent / "docs" / "ARCHITECTURES.md"
ABOUT = """# Architectures

Every causal and masked family of transformers {version} that can be built small is tested by
`tests/scoring/test_families.py`: a network with random weights answers requests with shared contexts, whole sentences
of mixed lengths, candidate words, padding on the left and greedy continuations, all in one call. The numbers are
compared with a plain loop: one sequence at a time, without padding, all logits, `log_softmax` in float32. A difference
of more than {close} nats in any log-probability of a token fails the test; in bfloat16 the bound is twice what bfloat16
changes in the plain loop itself, plus 0.02. A family that cannot be scored is refused with a sentence that names it.

`python -m tools.families` writes this page. *Difference* is the largest in float32 and *bfloat16* in that dtype, in
nats; `-` means that nothing was compared. {columns}

{passed} of {tested} families and variants pass, {refused} are refused, {left} have no test.
"""


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
    decisions = sorted({name for finding in findings for name in finding.decided})
    refused = sum(bool(finding.refused) for finding in findings)
    about = ABOUT.format(
        version=transformers.__version__,
        close=families.CLOSE,
        columns="The columns before are what the probes of the model decided.",
        passed=sum(not (finding.refused or finding.wrong or finding.crashed) for finding in findings),
        tested=len(findings),
        refused=refused,
        left=sum(map(len, families.LEFT_OUT.values())),
    )
    parts = [about]
    for kind in families.KINDS:
        of_kind = [finding for finding in findings if finding.kind == kind]
        parts.append(f"## {kind.capitalize()} models\n\n" + "\n".join(_table(of_kind, decisions)) + "\n")
    parts.append("## Without a test\n\n" + "\n".join(_left_out()) + "\n")
    return "\n".join(parts)


def _table(findings: list[Finding], decisions: list[str]) -> Iterator[str]:
    header = ["Family", "Parameters", *decisions, "Difference", "bfloat16", "Refused"]
    yield "| " + " | ".join(header) + " |"
    yield "|---" * len(header) + "|"
    for finding in findings:
        variant = families.VARIANTS.get(finding.name)
        name = f"{finding.name} ({variant['family']})" if variant else finding.name
        cells = [name, f"{finding.parameters:,}", *(finding.decided.get(decision, "-") for decision in decisions)]
        cells += [_number(finding.largest), _number(finding.largest_half), _refusal(finding)]
        yield "| " + " | ".join(cells) + " |"


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.1e}"


def _refusal(finding: Finding) -> str:
    found = {text: aspect for aspect, text in reversed({**finding.refused, **finding.crashed}.items())}
    shown = [text if aspect == "all" else f"{aspect}: {text}" for text, aspect in reversed(found.items())]
    return " ".join(shown).replace("|", "\\|").replace("\n", " ")


def _left_out() -> Iterator[str]:
    for kind, reasons in families.LEFT_OUT.items():
        for name, reason in sorted(reasons.items()):
            yield f"- {name} ({kind}): {reason}"


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
