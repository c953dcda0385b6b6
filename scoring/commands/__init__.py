"""The commands ``python -m scoring`` and ``python -m scoring.rescore``: options, calls of functions, exit status."""
