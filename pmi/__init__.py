"""Co-occurrence (PMI) of words with gendered words in a corpus, and MaxPMIDiff of sentences."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmi.analysis.sentence import max_pmi_diff
    from pmi.analysis.table import table
    from pmi.counting.counts import delta
    from pmi.counting.local import count

__all__ = ["count", "delta", "max_pmi_diff", "table"]

# A function is imported at its first use: counting loads a compiler, and MaxPMIDiff needs nothing.
_MODULES = {
    "count": "counting.local",
    "delta": "counting.counts",
    "max_pmi_diff": "analysis.sentence",
    "table": "analysis.table",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pmi' has no attribute {name!r}")
    return getattr(import_module(f"pmi.{_MODULES[name]}"), name)
