"""Run by test_load under several interpreters: loads every config and split of folders, prints the rows."""

import json
import sys

import datasets


def loaded(folder):
    result = {}
    for config in datasets.get_dataset_config_names(folder):
        for split, rows in datasets.load_dataset(folder, config).items():
            columns = rows[:]  # at once; one by one takes minutes
            result[f"{config}/{split}"] = [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
    return result


if __name__ == "__main__":
    found = {folder: loaded(folder) for folder in sys.argv[1:]}
    sys.stdout.write(json.dumps({"version": datasets.__version__, "rows": found}))
