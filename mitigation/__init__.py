"""Recipes whose result is a folder that anyone can load: a PEFT adapter, or a named way to put questions.

Importing this makes the fairness stamp known to PEFT: at once, or when PEFT is imported, which takes
seconds that nothing else here has to wait for.
"""

from importlib import import_module

from wrapt import register_post_import_hook

register_post_import_hook(lambda _: import_module("mitigation.editing.stamp"), "peft")
