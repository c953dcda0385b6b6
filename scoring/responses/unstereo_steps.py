"""Log-probabilities of UnStereoEval's sentences by Pythia 6.9B at 13 steps of training, three of an intervention.

The authors have these scores in another repository (PastelBelem8/gender-bias-diagnosis-benchmark), not in the paper.
The name of a model ends with its step; ``-intervened`` was trained on text with swapped pronouns from there on.
"""

from scoring.responses import PublishedSource
from scoring.responses.unstereo import responses

PUBLISHED = PublishedSource(
    benchmark="unstereo",
    summary="UnStereoEval: log-probabilities of all sentences by Pythia 6.9B at ten steps of training, and three of an "
    "intervention.",
    settings="The authors of UnStereoEval computed log-probabilities of whole sentences, in 32 bits.",
    files="unstereo-steps",
    read=responses,
    profile="paper",
    datasets=("unstereo",),
)
