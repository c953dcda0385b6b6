"""The benchmarks as tasks of lm-evaluation-harness: a folder for its ``--include_path``."""

from pathlib import Path

#: The folder with the tasks.
FOLDER = Path(__file__).parent
