"""The page of claims of the papers, ``docs/claims.md``: ``python -m tools.docs.claims_page [--claims FILE]``.

With ``--claims``, the file of ``probes reproduce claims --json``, the verdicts are kept in ``docs/claims.json``, from
which the page is made. A test holds the page equal to that file, and the file equal to what is computed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from cards.common.files import put
from scoring.reproduce.claims import Judged, counts
from scoring.reproduce.printed import paper
from tools.docs.pages import ROOT, table

PAGE = ROOT / "docs" / "claims.md"
KEPT = ROOT / "docs" / "claims.json"
_INTRO = ROOT / "tools" / "templates" / "claims.md"


def read(path: Path = KEPT) -> list[Judged]:
    """The claims that are kept."""
    return [Judged(**claim) for claim in json.loads(path.read_bytes())]


def page(every_claim: Sequence[Judged]) -> str:
    """The text of the page."""
    names = list(dict.fromkeys(claim.paper for claim in every_claim))
    of_paper = {name: [claim for claim in every_claim if claim.paper == name] for name in names}
    rows = []
    for name, claims in of_paper.items():
        rows.append([paper(name)["title"], *(str(count) for _, count in counts(claims))])
    heads = ["paper", *(verdict for verdict, _ in counts(every_claim))]
    parts = [_INTRO.read_text(encoding="utf-8"), table(heads, rows)]
    for name, claims in of_paper.items():
        body = []
        for claim in claims:
            numbers = claim.numbers or claim.reason
            body.append([claim.says, claim.where, f"**{claim.verdict}**", numbers, claim.units or "–", claim.source])
        parts.append(f"## {paper(name)['title']}\n")
        parts.append(table(("sentence", "section", "verdict", "numbers", "sampled", "from"), body))
    parts.append("Next: [tables of the papers](tables.md), or [differences from the papers](LEDGER.md).\n")
    return "\n".join(parts)


def main() -> None:
    """Writes the page, and with ``--claims`` the file of verdicts too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=Path, help="The file of probes reproduce claims --json, without gaps.")
    options = parser.parse_args()
    if options.claims:
        put(KEPT, options.claims.read_bytes())
    put(PAGE, page(read()).encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
