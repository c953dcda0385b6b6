"""Which directions of a hidden state a projection removes: INLP, SentenceDebias and LEACE.

Sources: *Null It Out* (INLP; Ravfogel et al., 2020), *Towards Debiasing Sentence Representations* (SentenceDebias;
Liang et al., 2020), *LEACE: Perfect linear concept erasure in closed form* (Belrose et al., 2023). INLP uses the
classifiers of scikit-learn, SentenceDebias its PCA, LEACE the package concept-erasure.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import orth  # type: ignore[import-untyped]
from scipy.stats import binomtest  # type: ignore[import-untyped]
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

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
    def orthogonal(cls, basis: Floats) -> Projection:
        """The projection that removes the span of orthonormal columns [width, rank]."""
        return cls(basis, basis.T.copy(), np.zeros(len(basis)))


def row_space(matrix: Floats) -> Floats:
    """An orthonormal basis [width, rank] of the space of the rows of a matrix [rows, width]."""
    basis: Floats = np.zeros((matrix.shape[1], 0)) if np.allclose(matrix, 0) else orth(matrix.T)
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
        classifier = LinearSVC(fit_intercept=False, dual=False, random_state=0)
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
    directions: Floats = PCA(n_components=components, svd_solver="full").fit(differences).components_.T
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
        interval = binomtest(self.right, self.n).proportion_ci(method="wilson")
        return self.right / self.n, float(interval.low), float(interval.high)


def probe(train: Floats, labels: np.ndarray[Any, Any], held: Floats, held_labels: np.ndarray[Any, Any]) -> Probe:
    """A logistic regression that is fitted on states and asked about held-out ones."""
    with _quiet():
        fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(train, labels)
    right = int((fitted.predict(held) == held_labels).sum())
    return Probe(right, len(held_labels), float(np.bincount(held_labels).max() / len(held_labels)))


class _quiet(warnings.catch_warnings):  # noqa: N801
    """Hides that a classifier has not converged: after a projection nothing may be left to learn."""

    def __enter__(self) -> None:

        super().__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)
