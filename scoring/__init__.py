"""Questions to a model become numbers with intervals: ``python -m scoring MODEL``."""

#: The folder in which ``python -m builders.rebuild`` writes, unless it is given another one.
DATA = "output"
