"""Recipes that make a language model less biased; the result is a folder: a PEFT adapter or a prompt.

From Python::

    import mitigation

    made = mitigation.mitigate("debias_tuning", "gpt2", out="fair", limit=100)
    made.table()     # a DataFrame: each score before and after, with the paired difference and its interval
    mitigation.merge("gpt2", "fair", out="merged")    # a whole model for plain transformers and servers

From the terminal: ``probes mitigate RECIPE MODEL --out DIR``. Importing this package registers the fairness
stamp with PEFT (see :mod:`scoring.adapters`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import scoring.adapters  # noqa: F401  (registers the fairness stamp)

if TYPE_CHECKING:
    from mitigation.adapters.merging import merge
    from mitigation.api import Mitigated, mitigate
    from mitigation.errors import MitigationError

__all__ = ["Mitigated", "MitigationError", "merge", "mitigate"]

# Imported at first use, because loading a stamp needs nothing of them.
_MODULES = {"Mitigated": "api", "MitigationError": "errors", "merge": "adapters.merging", "mitigate": "api"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mitigation' has no attribute {name!r}")
    return getattr(import_module(f"mitigation.{_MODULES[name]}"), name)
