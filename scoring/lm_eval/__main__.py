"""Prints the folder of tasks: ``lm_eval run --include_path "$(python -m scoring.lm_eval)" …``."""

from scoring.lm_eval import FOLDER

if __name__ == "__main__":
    print(FOLDER)
