"""Recipes that make a language model less biased; the result is a folder: a PEFT adapter or a prompt.

Importing this package registers the fairness stamp with PEFT (see :mod:`scoring.adapters`).
"""

import scoring.adapters  # noqa: F401  (registers the fairness stamp)
