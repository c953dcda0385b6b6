"""Small models with a planted bias and edits of them, for tests that show the same of both shapes.

The models have the shapes of GPT-2 and BERT. They learn an artificial language, and a bias is trained into one block.
SS after an edit counts the signs of small remaining gaps, so rounding changes it: the same model on another processor
has another SS. Conclusions are therefore about several models together, with intervals.
"""

import io
import math
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console
from scipy.special import stdtrit

from mitigation.editing.locate import locate
from mitigation.recipes.fast import RECIPE
from mitigation.running.evaluate import Evaluation
from mitigation.running.steps import make_and_evaluate
from mitigation.training.data import TrainingData
from scoring import benchmarks
from scoring.asking import run
from scoring.inference.load_options import LoadOptions
from scoring.inference.model import Model
from tests.mitigation.toy_language import Language
from tests.mitigation.toy_models import ToyModelConfig, ToyTrainer, save

RESAMPLES = 50
LANGUAGE = Language(workers=30, lands=6, prompts=3)
CONFIGS = {
    "causal": ToyModelConfig(layers=3, width=32, steps=300, bias_steps=200, learning_rate=6e-3, embedding_scale=4.0),
    "masked": ToyModelConfig(layers=3, width=48, steps=500, bias_steps=200, learning_rate=1e-3),
}
#: The block with the bias.
PLANTED = 1
#: An edit of all pairs of the artificial StereoSet, in its test split, without prefixes. The ratio of units to width is
#: that of the paper. With few pairs, more passes in smaller batches take as many steps. Chosen with models of seeds
#: that no test has. No English sentence that states a gender is kept (delta): the language is an artificial one.
EDIT = {"layer": PLANTED, "held_out": 0.0, "prefixes": 0, "units": 64, "rate": 4e-3, "delta": 0.0}
EDIT |= {"sets": "stereoset", "batch": 8, "passes": 60}
#: Of the distance of SS from 50, at most this share may remain, as a mean over models with its interval.
DISTANCE_LEFT = 0.25
#: Figures of an edit: benchmark, group and metric.
FIGURES = {
    "ss": ("stereoset", "intrasentence test gender", "ss"),
    "lms": ("stereoset", "intrasentence test gender", "lms"),
    "ps": ("biaske", "paraphrases", "ps"),
    "ss_held_out": ("stereoset", "intrasentence validation gender", "ss"),
    "ds_unrelated": ("biaske", "differentiation unrelated", "ds"),
}


class Planted:
    """A model with the bias in one block, also in a folder, and edits of it."""

    def __init__(self, kind, folder, seed=0):
        torch.set_num_threads(1)
        self.kind, self.seed = kind, seed
        self.work, self.edits = folder, 0
        self.source = str(LANGUAGE.build(folder / "data"))
        self.texts = tuple(LANGUAGE.neutral())
        self.trainer = ToyTrainer(LANGUAGE, kind, replace(CONFIGS[kind], seed=seed))
        self.network = self.trainer.train_bias(self.trainer.train_neutral(), PLANTED)
        self.folder = save(self.network, self.trainer.tokenizer, folder / "planted")

    def located(self):
        """The block with the largest average indirect effect."""
        model = Model(self.network, self.trainer.tokenizer, kind=self.kind, name="made")
        return locate(model, list(LANGUAGE.pairs(held_out=False))).layer

    def adapter(self, **changed):
        """The facts of a stamp, evaluated before and after."""
        self.edits += 1
        settings = replace(RECIPE.profiles["clean"], **EDIT | {"seed": self.seed} | changed)
        quiet = Console(file=io.StringIO())
        options, data = LoadOptions(str(self.folder), device="cpu"), TrainingData(self.source)
        return make_and_evaluate(RECIPE, settings, options, data, self.stamp, self._evaluation, quiet, quiet)

    @property
    def stamp(self):
        """The folder of the last stamp."""
        return self.work / f"stamp-{self.edits}"

    def edited(self, **changed):
        return Edited(self.adapter(**changed))

    def _evaluation(self, _):
        parts = run.read([benchmarks.get(name) for name in ("stereoset", "biaske")], self.source, "clean")
        return Evaluation(tuple(parts), self.texts, "clean", RESAMPLES)


class Edited:
    """What an edit changed: figures in percent, and the mean gap of the edited pairs in nats before and after."""

    def __init__(self, adapter):
        changes = {(change.benchmark, change.group, change.metric): change for change in adapter.changes}
        self.changes = {name: changes[key] for name, key in FIGURES.items() if key in changes}
        self.gap = [adapter.measures[f"gap_edited_{when}"][0] for when in ("before", "after")]

    def before(self, name):
        return self.changes[name].before[0]

    def after(self, name):
        return self.changes[name].after[0]


def mean_distance(scores):
    """The mean of |SS - 50| over models with its 95 % interval (Student's t).

    >>> [round(number, 2) for number in mean_distance([46.0, 56.0, 50.0])]
    [3.33, -4.26, 10.92]
    """
    distances = np.abs(np.array(scores) - 50)
    half = float(stdtrit(len(distances) - 1, 0.975) * distances.std(ddof=1)) / math.sqrt(len(distances))
    mean = float(distances.mean())
    return mean, mean - half, mean + half
