"""Which directions of a hidden state a projection removes: INLP, SentenceDebias and LEACE.

Sources: *Null It Out* (INLP; Ravfogel et al., 2020), *Towards Debiasing Sentence Representations* (SentenceDebias;
Liang et al., 2020), *LEACE: Perfect linear concept erasure in closed form* (Belrose et al., 2023). INLP uses the
classifiers of scikit-learn, SentenceDebias its PCA, LEACE the package concept-erasure.

A projection is written as a LoRA on the map that reads the last hidden state, which computes W h + b. After the
projection h - L R (h - m) it has to compute W h + b - (W L) R h + W L R m. That is a LoRA with A = R and B = -W L, and
a bias W L R m of B. So plain PEFT loads it, and nothing else in the network changes.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from peft import LoraConfig
from scipy import linalg, stats  # type: ignore[import-untyped]
from sklearn import decomposition, exceptions, linear_model, model_selection, pipeline, preprocessing, svm

from mitigation.adapters.write import save_peft
from mitigation.projections import sentences
from mitigation.projections.states import mean_states, prediction_gradients, reading_map
from mitigation.recipe import Adapter, Job, MitigationError, Model, Numbers
from scoring.adapters.attach import wrap
from scoring.types import Floats


@dataclass(frozen=True, slots=True)
class Projection:
    """The map h ↦ h − left · right · (h − mean).

    ``left`` is [width, rank], ``right`` is [rank, width], ``mean`` is [width]; all are float64.
    """

    left: Floats
    right: Floats
    mean: Floats

    @property
    def rank(self) -> int:
        """The number of directions that are removed."""
        return int(self.left.shape[1])

    def __call__(self, states: Floats) -> Floats:
        """The projected states, of the same shape [..., width]."""
        projected: Floats = states - (states - self.mean) @ self.right.T @ self.left.T
        return projected

    @classmethod
    def orthogonal(cls, basis: Floats) -> Self:
        """The projection that removes the span of orthonormal columns [width, rank]."""
        return cls(basis, basis.T.copy(), np.zeros(len(basis)))


def row_space(matrix: Floats) -> Floats:
    """An orthonormal basis [width, rank] of the space of the rows of a matrix [rows, width]."""
    basis: Floats = np.zeros((matrix.shape[1], 0)) if np.allclose(matrix, 0) else linalg.orth(matrix.T)
    return basis


@dataclass(frozen=True, slots=True)
class Nullspace:
    """The result of INLP: the removed directions [width, rank], and the accuracy of each classifier when it was new."""

    basis: Floats
    accuracies: tuple[float, ...]


def inlp(
    train: Floats,
    labels: np.ndarray[Any, Any],
    held: Floats,
    held_labels: np.ndarray[Any, Any],
    classifiers: int,
    margin: float = 0.0,
) -> Nullspace:
    """Fits linear classifiers one after another, each on states without the directions of those before.

    The removed space is that of the sum of the projections on all of them (Ben-Israel, 2013), as in the code of
    the paper.

    Parameters
    ----------
    train, held:
        States [sentences, width].
    labels, held_labels:
        The classes of the sentences.
    classifiers:
        The number of classifiers at most.
    margin:
        If above 0, it ends at a classifier, after the first, that is right on the held-out states in at most the
        share of the largest class plus this many standard errors of that share; its directions are kept.
    """
    width, basis, accuracies = train.shape[1], np.zeros((train.shape[1], 0)), []
    projections = np.zeros((width, width))
    share = np.bincount(held_labels - held_labels.min()).max() / len(held_labels)
    # The standard error of the share of the largest class is what a classifier by chance varies by.
    chance = share + margin * np.sqrt(share * (1 - share) / len(held_labels))
    for _ in range(classifiers):
        removed = Projection.orthogonal(basis)
        classifier = svm.LinearSVC(fit_intercept=False, dual=False, random_state=0)
        with _quiet():
            classifier.fit(removed(train), labels)
        accuracies.append(float(classifier.score(removed(held), held_labels)))
        if margin and basis.shape[1] and accuracies[-1] <= chance:
            break
        rows = row_space(np.atleast_2d(classifier.coef_))
        projections += rows @ rows.T
        basis = row_space(projections)
    return Nullspace(basis, tuple(accuracies))


def principal_directions(groups: Sequence[Floats], components: int) -> Floats:
    """The first principal components [width, components] of states of sentences that differ in one word.

    Each array [sentences, width] has the states with one of the words. They are scaled to length 1, and the
    mean over the words of each sentence is subtracted.
    """
    unit = [group / np.linalg.norm(group, axis=1, keepdims=True) for group in groups]
    mean = sum(unit) / len(unit)
    differences = np.concatenate([group - mean for group in unit])
    directions: Floats = decomposition.PCA(n_components=components, svd_solver="full").fit(differences).components_.T
    return directions.astype(np.float64)


def leace(
    states: Floats, labels: np.ndarray[Any, Any], *, shrinkage: bool = False, tolerance: float = 1e-6
) -> Projection:
    """The affine map of least squared change after which all classes have the same mean.

    No linear classifier of the fitted states is then better than one that always gives the largest class.

    Parameters
    ----------
    states, labels:
        States [sentences, width], and the classes of the sentences, numbered from 0.
    shrinkage:
        Shrinks the covariance of the states, for few sentences; the class means are then not quite the same.
    tolerance:
        A direction in which the classes differ less (as a singular value of the whitened cross-covariance) stays.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package compiles a function by torch.jit
        from concept_erasure import LeaceFitter

    one_hot = torch.from_numpy(np.eye(labels.max() + 1)[labels])
    fitter = LeaceFitter(states.shape[1], one_hot.shape[1], dtype=torch.float64, shrinkage=shrinkage, svd_tol=tolerance)
    eraser = fitter.update(torch.from_numpy(states.astype(np.float64)), one_hot).eraser
    # Columns of zeros are directions below the tolerance.
    used = eraser.proj_left.norm(dim=0) > 0
    return Projection(eraser.proj_left[:, used].numpy(), eraser.proj_right[used].numpy(), eraser.bias.numpy())


@dataclass(frozen=True, slots=True)
class Probe:
    """How often a new linear probe gives the right class of held-out sentences, and the share of the largest class."""

    right: int
    n: int
    majority: float

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The accuracy with its Wilson interval (95 %)."""
        interval = stats.binomtest(self.right, self.n).proportion_ci(method="wilson")
        return self.right / self.n, float(interval.low), float(interval.high)


def probe(train: Floats, labels: np.ndarray[Any, Any], held: Floats, held_labels: np.ndarray[Any, Any]) -> Probe:
    """A logistic regression that is fitted on states and asked about held-out ones."""
    with _quiet():
        regression = linear_model.LogisticRegression(max_iter=200)
        fitted = pipeline.make_pipeline(preprocessing.StandardScaler(), regression).fit(train, labels)
    right = int((fitted.predict(held) == held_labels).sum())
    return Probe(right, len(held_labels), float(np.bincount(held_labels).max() / len(held_labels)))


class _quiet(warnings.catch_warnings):  # noqa: N801
    """Hides that a classifier has not converged: after a projection nothing may be left to learn."""

    def __enter__(self) -> None:

        super().__enter__()
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)


@dataclass(frozen=True, slots=True)
class ClassStates:
    """Mean hidden states [sentences, width] with the numbers of their classes, in three parts, and class names."""

    names: tuple[str, ...]
    fit: tuple[Floats, np.ndarray[Any, Any]]
    choose: tuple[Floats, np.ndarray[Any, Any]]
    held: tuple[Floats, np.ndarray[Any, Any]]


def class_states(model: Model, settings: sentences.ProjectionSettings) -> ClassStates:
    """The states of sentences of each class.

    Raises
    ------
    MitigationError
        If a class has too few sentences.
    """
    read = sentences.published_classes if settings.published else sentences.classes
    classes = read(settings.texts(), settings.listed, settings.sentences, settings.seed).check(sentences.LEAST)
    parts = [mean_states(model, sentences_of_class, settings.most_tokens) for sentences_of_class in classes.sentences]
    states = np.concatenate(parts)
    # The states of a class follow each other.
    labels = np.repeat(np.arange(len(classes.names)), [len(part) for part in parts])
    fit, choose, held = split(states, labels, settings.seed)
    return ClassStates(classes.names, fit, choose, held)


def split(states: Floats, labels: np.ndarray[Any, Any], seed: int) -> list[tuple[Floats, np.ndarray[Any, Any]]]:
    """States and labels in three parts, split as in the code of bias-bench."""
    options = {"test_size": 0.3, "random_state": seed}
    # Twice three tenths: 30 % are held out, 21 % choose and 49 % fit.
    rest, held, rest_labels, held_labels = model_selection.train_test_split(states, labels, **options)
    fit, choose, fit_labels, choose_labels = model_selection.train_test_split(rest, rest_labels, **options)
    return [(fit, fit_labels), (choose, choose_labels), (held, held_labels)]


def tuple_states(model: Model, settings: sentences.ProjectionSettings) -> list[Floats]:
    """The states of sentences with each word of a group, an array [sentences, width] for each place of a group.

    Raises
    ------
    MitigationError
        If there are too few sentences with a listed word.
    """
    places = zip(*_tuples(settings), strict=True)
    return [mean_states(model, sentences_of_place, settings.most_tokens) for sentences_of_place in places]


def prediction_directions(model: Model, settings: sentences.ProjectionSettings) -> Floats:
    """The directions from a listed word's partner to the word where the model predicts it [places, width].

    Raises
    ------
    MitigationError
        If there are too few sentences whose listed words and partners have one token each.
    """
    towards = prediction_gradients(model, _tuples(settings), settings.most_tokens)
    if len(towards) < sentences.LEAST:
        raise MitigationError(
            f"{len(towards)} sentences differ from their partners in words of one token each, and at least "
            f"{sentences.LEAST} are needed; give a larger corpus."
        )
    return towards


def _tuples(settings: sentences.ProjectionSettings) -> list[tuple[str, ...]]:
    """Sentences with each word of a group in one place."""
    lines, words = settings.texts(), settings.listed
    if settings.published:
        chosen = sentences.published_tuples(lines, words, settings.sentences)
    else:
        chosen = sentences.tuples(lines, words, settings.sentences, settings.seed)
    if len(chosen) < sentences.LEAST:
        raise MitigationError(
            f"The corpus has {len(chosen)} sentences with a listed word, and at least {sentences.LEAST} are needed; "
            "give a larger corpus."
        )
    return chosen


def probe_measures(states: ClassStates, projection: Projection) -> dict[str, Numbers | float]:
    """Accuracy on held-out sentences of linear probes fitted before and after, and the share of the largest class."""
    # The probe is fitted on the part on which the projection was fitted, and tested on another one.
    fit, labels = states.fit
    held, held_labels = states.held
    before = probe(fit, labels, held, held_labels)
    after = probe(projection(fit), labels, projection(held), held_labels)
    return {"probe before": before.numbers, "probe after": after.numbers, "largest class": before.majority}


def finish(job: Job[Any], projection: Projection, measures: Mapping[str, Numbers | float]) -> Adapter:
    """Writes the LoRA of a projection and returns the facts of its folder."""
    parameters = write_projection(job.model, projection, job.out)
    return job.done(parameters, {"removed directions": projection.rank, **measures})


def write_projection(model: Model, projection: Projection, out: Path) -> int:
    """Writes the LoRA of a projection of the model's last hidden state, and returns its number of parameters.

    Raises
    ------
    MitigationError
        If the projection removes nothing, or the network has no single map that reads the last hidden state.
    """
    if not projection.rank:
        raise MitigationError("The projection removes no direction, so there is nothing to write; give more text.")
    name, module = reading_map(model)
    left, right = torch.from_numpy(projection.left), torch.from_numpy(projection.right)
    down = -(module.weight.double().cpu() @ left)
    bias = None
    if projection.mean.any():
        # B = -W L, so W L R m is -(B (R m)).
        bias = -(down @ (right @ torch.from_numpy(projection.mean)))
    return write_lora(model, {name: Matrices(right, down, bias)}, out)


class Matrices(NamedTuple):
    """The matrices A [rank, inputs] and B [outputs, rank] of a LoRA, and the bias [outputs] of B or None.

    The inputs of an embedding are the tokens of its vocabulary.
    """

    a: torch.Tensor
    b: torch.Tensor
    bias: torch.Tensor | None = None


def write_lora(model: Model, matrices: Mapping[str, Matrices], out: Path) -> int:
    """Writes a LoRA with given matrices by the names of their modules, and returns its number of parameters.

    All modules have the same rank, and either all of them a bias or none.
    """
    first = next(iter(matrices.values()))
    rank, with_bias = len(first.a), first.bias is not None
    config = LoraConfig(
        r=rank,
        lora_alpha=rank,  # the scale of the product is 1
        target_modules=list(matrices),
        lora_bias=with_bias,
        # GPT-2 stores the weights of its maps with inputs first.
        fan_in_fan_out=any(hasattr(model.network.get_submodule(name), "nf") for name in matrices),
        task_type="CAUSAL_LM" if model.kind == "causal" else None,
    )
    network = wrap(model.network, config)
    try:
        with torch.no_grad():
            for name, parts in matrices.items():
                layer = network.get_base_model().get_submodule(name)
                if "default" in layer.lora_embedding_A:
                    layer.lora_embedding_A["default"].copy_(parts.a)
                    layer.lora_embedding_B["default"].copy_(parts.b)
                    continue
                layer.lora_A["default"].weight.copy_(parts.a)
                layer.lora_B["default"].weight.copy_(parts.b)
                if parts.bias is not None:
                    layer.lora_B["default"].bias.copy_(parts.bias)
        save_peft(network, out, model.name)
    finally:
        model.network = network.unload().eval()
    parameters = 0
    for parts in matrices.values():
        parameters += parts.a.numel() + parts.b.numel()
        if parts.bias is not None:
            parameters += parts.bias.numel()
    return parameters


def without(maps: Mapping[str, torch.Tensor], direction: torch.Tensor) -> dict[str, Matrices]:
    """The LoRA by which maps with weights [width, inputs] no longer write along a unit vector [width].

    Raises
    ------
    MitigationError
        If the blocks and a map have different widths.
    """
    if other := [name for name, weight in maps.items() if len(weight) != len(direction)]:
        raise MitigationError(
            f"{other[0]} writes {len(maps[other[0]])} numbers and the blocks write {len(direction)}, so the direction "
            "cannot be taken out of it; use inlp, sentence_debias or leace."
        )
    return {
        name: Matrices(direction[None] @ weight.double().cpu(), -direction[:, None]) for name, weight in maps.items()
    }
