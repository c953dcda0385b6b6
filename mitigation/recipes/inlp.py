"""INLP: removes from the last hidden state what linear classifiers of gender, race or religion read there.

Source: *Null It Out* (Ravfogel et al., 2020), with the settings of bias-bench (Meade et al., 2022). Sentences with
male, female or no listed words are encoded as the mean of their last hidden states. A linear classifier is fitted, its
directions are removed, and the next one is fitted on what is left. ``clean`` tells people from people (male from
female sentences, without neutral ones), and ends when a new classifier is no better than chance; the published 80
classifiers of three classes remove up to 240 directions, and language ability with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mitigation.attribute_words import text_versions
from mitigation.projections.fit import TextSettings, class_states, finish, probe_measures
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from mitigation.training.language_settings import CODE, OPEN
from scoring.adapters.facts import Adapter
from scoring.terminal import tell

if TYPE_CHECKING:
    from scoring.inference.model import Model

_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class InlpSettings(TextSettings):
    """Which text, and how many classifiers."""

    classifiers: int = setting(80, "Linear classifiers that are fitted one after another, at most.", CODE)
    margin: float = setting(0.0, "End at a classifier within so many standard errors of chance; 0 never ends.", OPEN)

    def __post_init__(self) -> None:
        super(InlpSettings, self).__post_init__()
        check_ranges(self, positive=("classifiers", "sentences"), not_negative=("margin",))


def run(model: Model, settings: InlpSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Fits the classifiers and writes the projection."""
    from mitigation.cost import CostMeter
    from mitigation.projections.subspaces import Projection, inlp

    meter = CostMeter(model)
    states = class_states(model, settings, data)
    nullspace = inlp(*states.fit, *states.choose, settings.classifiers, settings.margin)
    projection = Projection.orthogonal(nullspace.basis)
    first, last = nullspace.accuracies[0], nullspace.accuracies[-1]
    tell(console, [f"{len(nullspace.accuracies)} classifiers; accuracy {first:.3f} to {last:.3f}."])
    measures = probe_measures(states, projection)
    measures |= {"first classifier": (first, _NAN, _NAN)}
    measures |= {"last classifier": (last, _NAN, _NAN)}
    return finish(model, RECIPE.name, settings, data, out, meter, projection, measures)


RECIPE = Recipe(
    name="inlp",
    summary="Removes from the last hidden state the directions that linear classifiers of gender use.",
    source="Null It Out (INLP; Ravfogel et al., 2020), with the settings of bias-bench (Meade et al., 2022)",
    cite=("meade2022empirical",),
    citations={
        "ravfogel2020null": """
@inproceedings{ravfogel2020null,
  title = {Null It Out: Guarding Protected Attributes by Iterative Nullspace Projection},
  author = {Ravfogel, Shauli and Elazar, Yanai and Gonen, Hila and Twiton, Michael and Goldberg, Yoav},
  booktitle = {Proceedings of ACL},
  year = {2020}
}"""
    },
    profiles={"clean": InlpSettings(published=False, margin=2.0), "paper": InlpSettings()},
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
    outside=text_versions,
)
