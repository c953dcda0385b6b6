"""One file for each pipeline, found by its name. Files that begin with an underscore are shared by pipelines.

>>> "probes" in names()
True
>>> get("probes").review_columns
()
"""

from builders.dataset import BuildError
from builders.generation.pipeline import Pipeline
from cards.common.registry import Registry

REGISTRY = Registry((__name__, __path__), "PIPELINE", Pipeline, "pipeline", BuildError, dash=True)
names, get = REGISTRY.names, REGISTRY.get
