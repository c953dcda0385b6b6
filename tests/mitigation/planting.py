"""Small models with a planted bias and edits of them, for tests that show the same of both shapes."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks import fast
from benchmarks.made_language import Language
from benchmarks.planted import School, Teacher, save

LANGUAGE = Language(workers=30, lands=6, prompts=3)
SCHOOLS = {
    "causal": School(layers=3, width=32, steps=300, planting=200, rate=6e-3, loud=4.0),
    "masked": School(layers=3, width=48, steps=500, planting=200, rate=1e-3),
}
#: Fewer pairs need more passes in smaller batches to have taken as many steps.
EDIT = fast.MADE | {"batch": 8, "passes": 60}
RESAMPLES = 50


class Planted:
    """A model with the bias in one block, also in a folder, and edits of it."""

    def __init__(self, kind, folder, seed=0):
        torch.set_num_threads(1)
        self.kind, self.seed = kind, seed
        self.teacher = Teacher(LANGUAGE, kind, replace(SCHOOLS[kind], seed=seed))
        self.bench = fast.Bench(LANGUAGE, folder, RESAMPLES)
        self.network = self.teacher.plant(self.teacher.teach(), fast.PLANTED)
        self.folder = save(self.network, self.teacher.tokenizer, folder / "planted")

    def located(self):
        return fast.located(self.teacher, self.network)

    def adapter(self, **changed):
        settings = EDIT | {"seed": self.seed} | changed
        return self.bench.edit(self.folder, fast.changed_settings("clean", **settings))

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
