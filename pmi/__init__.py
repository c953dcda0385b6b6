"""How words keep company with gendered words in a corpus, and what that says of a sentence."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmi.analyse import table
    from pmi.counting import count
    from pmi.counts import delta
    from pmi.sentence import max_pmi_diff

__all__ = ["count", "delta", "max_pmi_diff", "table"]

# A function is fetched when it is first asked for: counting needs a compiler, scoring a sentence nothing.
_HOMES = {"count": "counting", "delta": "counts", "max_pmi_diff": "sentence", "table": "analyse"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pmi' has no attribute {name!r}")
    return getattr(import_module(f"pmi.{_HOMES[name]}"), name)
