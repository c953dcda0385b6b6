"""How words keep company with gendered words in a corpus, and what that says of a sentence."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmi.analysis.analyse import table
    from pmi.analysis.sentence import max_pmi_diff
    from pmi.counting.counts import delta
    from pmi.counting.local import count

__all__ = ["count", "delta", "max_pmi_diff", "table"]

# A function is fetched when it is first asked for: counting needs a compiler, scoring a sentence nothing.
_HOMES = {
    "count": "counting.local",
    "delta": "counting.counts",
    "max_pmi_diff": "analysis.sentence",
    "table": "analysis.analyse",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pmi' has no attribute {name!r}")
    return getattr(import_module(f"pmi.{_HOMES[name]}"), name)
