"""SentenceDebias: removes from the last hidden state the direction in which sentences of two genders differ.

Source: *Towards Debiasing Sentence Representations* (Liang et al., 2020), with the settings of bias-bench (Meade et
al., 2022). Each sentence with a listed word is encoded with that word and with its partner; the first principal
component of the differences is removed. ``clean`` replaces all listed words of a sentence at the same time, also those
with capitals or beside punctuation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mitigation.attribute_words import text_versions
from mitigation.errors import MitigationError
from mitigation.projections.fit import TextSettings, finish, tuple_states
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from mitigation.training.language_settings import CODE
from scoring.adapters.facts import Adapter, Numbers

if TYPE_CHECKING:
    from scoring.inference.model import Model

_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class SentenceDebiasSettings(TextSettings):
    """Which text, and how many directions."""

    components: int = setting(1, "Principal components that are removed.", CODE)

    def __post_init__(self) -> None:
        super(SentenceDebiasSettings, self).__post_init__()
        check_ranges(self, positive=("components",))


def run(model: Model, settings: SentenceDebiasSettings, data: TrainingData, out: Path, _: Console) -> Adapter:
    """Finds the components and writes the projection."""
    import numpy as np

    from mitigation.cost import CostMeter
    from mitigation.projections.subspaces import Projection, principal_directions

    meter = CostMeter(model)
    states = tuple_states(model, settings, data)
    width = states[0].shape[1]
    if settings.components >= width:
        raise MitigationError(
            f"The setting components is {settings.components}, and the hidden state has {width} numbers; give fewer."
        )
    projection = Projection.orthogonal(principal_directions(states, settings.components))
    # How far sentences are apart that differ in the listed words only, as a share of the length of their states.
    apart, length = states[0] - states[1], np.linalg.norm(states[0], axis=1).mean()
    measures: dict[str, Numbers] = {
        "difference before": (float(np.linalg.norm(apart, axis=1).mean() / length), _NAN, _NAN),
        "difference after": (
            float(np.linalg.norm(projection(states[0]) - projection(states[1]), axis=1).mean() / length),
            _NAN,
            _NAN,
        ),
    }
    return finish(model, RECIPE.name, settings, data, out, meter, projection, measures)


RECIPE = Recipe(
    name="sentence_debias",
    summary="Removes from the last hidden state the direction in which sentences with swapped gender differ.",
    source="Towards Debiasing Sentence Representations (Liang et al., 2020), with the settings of bias-bench",
    cite=("meade2022empirical",),
    citations={
        "liang2020towards": """
@inproceedings{liang2020towards,
  title = {Towards Debiasing Sentence Representations},
  author = {Liang, Paul Pu and Li, Irene Mengze and Zheng, Emily and Lim, Yao Chong and Salakhutdinov, Ruslan
    and Morency, Louis-Philippe},
  booktitle = {Proceedings of ACL},
  year = {2020}
}"""
    },
    profiles={
        "clean": SentenceDebiasSettings(published=False, most_tokens=128),
        "paper": SentenceDebiasSettings(sentences=0, most_tokens=128),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
    outside=text_versions,
)
