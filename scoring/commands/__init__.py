"""The commands ``probes score`` and ``probes rescore``: options, calls of functions, exit status."""
