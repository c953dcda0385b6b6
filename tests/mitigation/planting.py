"""Small models with a planted bias and edits of them, for tests that show the same of both shapes."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks import fast
from benchmarks.planted import ToyTrainer, save

RESAMPLES = 50


class Planted:
    """A model with the bias in one block, also in a folder, and edits of it."""

    def __init__(self, kind, folder, seed=0):
        torch.set_num_threads(1)
        self.kind, self.seed = kind, seed
        config = replace(fast.SMALL_CONFIGS[kind], seed=seed)
        self.trainer = ToyTrainer(fast.SMALL_LANGUAGE, kind, config)
        self.experiment = fast.StampExperiment(fast.SMALL_LANGUAGE, folder, RESAMPLES)
        self.network = self.trainer.train_bias(self.trainer.train_neutral(), fast.PLANTED)
        self.folder = save(self.network, self.trainer.tokenizer, folder / "planted")

    def located(self):
        return fast.located(self.trainer, self.network)

    def adapter(self, **changed):
        settings = fast.SMALL_EDIT | {"seed": self.seed} | changed
        return self.experiment.edit(self.folder, fast.changed_settings("clean", **settings))

    def edited(self, **changed):
        return Edited(self.adapter(**changed))


class Edited:
    """What an edit changed."""

    def __init__(self, adapter):
        self.figures = fast.figures(adapter)
        self.gap = [adapter.measures[f"gap_edited_{when}"][0] for when in ("before", "after")]

    def before(self, name):
        return self.figures[name]["before"][0]

    def after(self, name):
        return self.figures[name]["after"][0]
