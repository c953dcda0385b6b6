"""Recipes that make a language model less biased; the result is a folder: a PEFT adapter or a prompt.

From Python::

    import mitigation

    made = mitigation.mitigate("debias_tuning", "gpt2", out="fair", limit=100)
    made.table()     # a DataFrame: each score before and after, with the paired difference and its interval
    mitigation.merge("gpt2", "fair", out="merged")    # a whole model for plain transformers and servers

From the terminal: ``probes mitigate RECIPE MODEL --out DIR``. Importing this package registers the fairness
stamp with PEFT (see :mod:`scoring.adapters`).
"""

from lazy_loader import attach_stub as _attach_stub

import scoring.adapters as _adapters  # noqa: F401  (registers the fairness stamp)

# What the stub beside this file imports; a name is imported at its first use, so that importing the package is cheap.
__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
