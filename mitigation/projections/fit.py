"""What the recipes of projections share: their settings, reading the text, the probe, and writing the LoRA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mitigation.projections import sentences
from mitigation.recipe import Adapter, Job, MitigationError, Model, Numbers, setting
from mitigation.training.settings import CODE, CorpusSettings, WordSettings
from scoring.types import Floats

if TYPE_CHECKING:
    from mitigation.projections.subspaces import Projection

#: The least sentences of a class, and the least sentences with a listed word.
LEAST = 20
#: The shares of sentences for fitting and for choosing; the rest is for the probe. As in the code of bias-bench.
FITTED, CHOSEN = 0.49, 0.21


@dataclass(frozen=True)
class SentenceSettings(CorpusSettings, WordSettings):
    """Which sentences with listed words a recipe reads."""

    sentences: int = setting(
        10_000, "Sentences of a class, or with a listed word; 0 for all of the latter.", CODE, least=0
    )
    most_tokens: int = setting(512, "Tokens after which a sentence is cut.", CODE, above=0)
    seed: int = setting(0, "Of the order of lines, the clipping and the split into parts.", CODE)


@dataclass(frozen=True)
class ProjectionSettings(SentenceSettings):
    """Which text a projection is fitted on."""

    published: bool = setting(
        True, "Read sentences as bias-bench does: clipped, lower-case, words between spaces.", CODE
    )


@dataclass(frozen=True, slots=True)
class ClassStates:
    """Mean hidden states [sentences, width] with the numbers of their classes, in three parts, and class names."""

    names: tuple[str, ...]
    fit: tuple[Floats, np.ndarray[Any, Any]]
    choose: tuple[Floats, np.ndarray[Any, Any]]
    held: tuple[Floats, np.ndarray[Any, Any]]


def class_states(model: Model, settings: ProjectionSettings) -> ClassStates:
    """The states of sentences of each class.

    Raises
    ------
    MitigationError
        If a class has too few sentences.
    """
    from mitigation.projections.states import mean_states

    read = sentences.published_classes if settings.published else sentences.classes
    classes = read(settings.texts(), settings.listed, settings.sentences, settings.seed).check(LEAST)
    parts = [mean_states(model, sentences_of_class, settings.most_tokens) for sentences_of_class in classes.sentences]
    states = np.concatenate(parts)
    # The states of a class follow each other.
    labels = np.repeat(np.arange(len(classes.names)), [len(part) for part in parts])
    fit, choose, held = split(states, labels, settings.seed)
    return ClassStates(classes.names, fit, choose, held)


def split(states: Floats, labels: np.ndarray[Any, Any], seed: int) -> list[tuple[Floats, np.ndarray[Any, Any]]]:
    """States and labels in three parts, split as in the code of bias-bench."""
    from sklearn.model_selection import train_test_split

    # Twice three tenths: 30 % are held out, 21 % choose and 49 % fit.
    rest, held, rest_labels, held_labels = train_test_split(states, labels, test_size=0.3, random_state=seed)
    fit, choose, fit_labels, choose_labels = train_test_split(rest, rest_labels, test_size=0.3, random_state=seed)
    return [(fit, fit_labels), (choose, choose_labels), (held, held_labels)]


def tuple_states(model: Model, settings: ProjectionSettings, *, mean: bool = True) -> list[Floats]:
    """The states of sentences with each word of a group, an array [sentences, width] for each place of a group.

    Instead of ``mean`` states they are the directions from one word to the other where the model predicts them.

    Raises
    ------
    MitigationError
        If there are too few sentences with a listed word, or the words are no pairs.
    """
    from mitigation.projections.states import mean_states, prediction_gradients

    lines, words = settings.texts(), settings.listed
    if settings.published:
        chosen = sentences.published_tuples(lines, words, settings.sentences)
    else:
        chosen = sentences.tuples(lines, words, settings.sentences, settings.seed)
    if len(chosen) < LEAST:
        raise MitigationError(
            f"The corpus has {len(chosen)} sentences with a listed word, and at least {LEAST} are needed; give a "
            "larger corpus."
        )
    if mean:
        places = zip(*chosen, strict=True)
        return [mean_states(model, sentences_of_place, settings.most_tokens) for sentences_of_place in places]
    towards = prediction_gradients(model, chosen, settings.most_tokens)
    if len(towards) < LEAST:
        raise MitigationError(
            f"{len(towards)} sentences differ from their partners in words of one token each, and at least {LEAST} are "
            "needed; give a larger corpus, or read sentences."
        )
    # A principal component has no sign, so each direction and its opposite keep the mean at zero.
    return [towards, -towards]


def probe_measures(states: ClassStates, projection: Projection) -> dict[str, Numbers | float]:
    """Accuracy on held-out sentences of linear probes fitted before and after, and the share of the largest class."""
    from mitigation.projections.subspaces import probe

    # The probe is fitted on the part on which the projection was fitted, and tested on another one.
    fit, labels = states.fit
    held, held_labels = states.held
    before = probe(fit, labels, held, held_labels)
    after = probe(projection(fit), labels, projection(held), held_labels)
    return {"probe before": before.numbers, "probe after": after.numbers, "largest class": before.majority}


def finish(job: Job[Any], projection: Projection, measures: Mapping[str, Numbers | float]) -> Adapter:
    """Writes the LoRA of a projection and returns the facts of its folder."""
    from mitigation.projections.lora import write_projection

    parameters = write_projection(job.model, projection, job.out)
    return job.done(parameters, {"removed directions": projection.rank, **measures})
