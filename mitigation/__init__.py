"""Recipes whose result is a folder that anyone can load: a PEFT adapter, or a named way to put questions.

Importing this makes the fairness stamp known to PEFT.
"""

from mitigation import stamp as stamp
