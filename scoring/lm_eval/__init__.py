"""The benchmarks as tasks of lm-evaluation-harness: files for its ``--include_path``, made from the registry."""
