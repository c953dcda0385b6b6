"""Tie: removes from the last hidden state the direction in which the prediction of *he* differs from that of *she*.

A negative control: an edit that must not win. The direction is nearly W[he] - W[she] of the vocabulary head W, so both
words become equally probable after any text. Stereotypes in pronouns fall, as with a recipe that works. But the model
also loses the pronoun of a king, a mother or a person whose pronouns are declared, and keeps stereotypes in nouns
and names. A measure by which this edit wins does not measure what has to be kept, as the benchmark ``stated_gender``
does.

In a masked model, whose head transforms the state first, the direction is the gradient of the log-odds of a listed
word and its partner by the state that predicts them; in a causal one this is the difference of two rows of the head.
"""

from mitigation.projections.sentences import ProjectionSettings
from mitigation.recipe import Adapter, Job, declared


def make(job: Job[ProjectionSettings]) -> Adapter:
    """Finds the direction and writes the projection."""
    from mitigation.projections import subspaces

    towards = subspaces.prediction_directions(job.model, job.settings)
    # A principal component has no sign, so each direction and its opposite keep the mean at zero.
    direction = subspaces.principal_directions([towards, -towards], 1)
    return subspaces.finish(job, subspaces.Projection.orthogonal(direction), {"predictions": len(towards)})


RECIPE = declared("tie", ProjectionSettings, make)
