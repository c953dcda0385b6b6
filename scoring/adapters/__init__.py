"""Adapters in folders: read and checked, attached to a model, and the fairness stamp as a method of PEFT.

Importing this package registers the stamp with PEFT: at once if PEFT is imported already, else when it is.
So the seconds that PEFT takes to import are spent only where it is needed.
"""

import logging
from importlib import import_module

from wrapt import register_post_import_hook

# On some processors bitsandbytes, which PEFT imports, warns at import that an optional package is missing.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
register_post_import_hook(lambda _: import_module("scoring.adapters.stamp"), "peft")
