"""The benchmarks as tasks of lm-evaluation-harness: files for its ``--include_path``, made from the registry."""

#: The end of the name of a metric's standard error.
ERROR = "_se"
