"""CrowS-Pairs scores of Pythia models by step of training, plain and with pronouns of one gender swapped in the text.

From *Pythia: A Suite for Analyzing Large Language Models Across Training and Scaling* (Biderman et al., 2023), section
4.1: the last 7 % of the training text (21 % in the long variant) had male pronouns replaced by female ones. The files
are results of lm-evaluation-harness: a percentage with its standard error for each step, of the English pairs and of
those about gender, and no answers by pair. So a run has scores and no examples, intervals are those of the standard
error, and two runs are compared as if they were independent, which has less power than a paired comparison.

>>> numbers = change((53.7, 48.2, 59.1), (57.2, 51.8, 62.6))
>>> [round(number, 1) for number in numbers.change], numbers.verdict, round(numbers.detectable, 1)
([-3.5, -11.2, 4.1], 'unclear', 11.0)
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from builders.dataset import Fetched
from cards.common.verdict import LEVEL, Numbers, p_of, p_side, unpaired, verdict
from cards.results import Estimate
from scoring.inputs import tables
from scoring.metrics import crows
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource
from scoring.types import Benchmark

#: The tasks of the harness that are read, with the name of their group.
TASKS = {"crows_pairs_english_gender": "gender", "crows_pairs_english": "all"}
_POWER = 0.8


def results(path: Path) -> tuple[int, Mapping[str, Any]]:
    """The step of a file, and its results by task.

    Raises
    ------
    BrokenFileError
        When it is no file of results with the tasks of CrowS-Pairs.
    """
    by_task = {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        step = int(content["config"]["model_args"]["iteration"])
        for task in TASKS:
            numbers = content["results"][task]
            # Read once here, so that a broken number is known to be one of this file.
            float(numbers["pct_stereotype"])
            float(numbers["pct_stereotype_stderr"])
            by_task[task] = numbers
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFileError(f"{path.name} has no results of CrowS-Pairs ({error!r}); it is left out.") from None
    return step, by_task


def estimate(group: str, share: float, error: float) -> Estimate:
    """The score of a group from a share and its standard error, with a normal interval.

    The number of pairs follows from both: the error of a share of n pairs is √(p (1 - p) / (n - 1)) in the harness.

    >>> score = estimate("gender", 0.5, 0.028)
    >>> score.n, [round(end, 1) for end in (score.low, score.high)]
    (320, [44.5, 55.5])
    """
    # The published score is the share of stereotypical sentences that are preferred, as this metric.
    metric = crows.ss()
    reach = NormalDist().inv_cdf(0.975) * error
    pairs = 0
    if error:
        pairs = round(share * (1 - share) / error**2 + 1)
    return Estimate(
        benchmark="crows_pairs",
        group=group,
        metric=metric.name,
        value=100 * share,
        low=100 * max(0.0, share - reach),
        high=100 * min(1.0, share + reach),
        sd=100 * error,
        n=pairs,
        clusters=pairs,
        ideal=metric.ideal,
        reading=metric.reading,
        method="standard error of the source",
        title=metric.names[0],
        short=metric.names[1],
        error=100 * error,
        least=metric.low,
        most=metric.high,
        label=metric.label,
    )


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The scores of a model, the last step first; a broken file is left out with a remark."""
    by_step = {}
    remarks = []
    for path in files.paths:
        try:
            step, by_task = results(path)
        except BrokenFileError as error:
            remarks.append(str(error))
            continue
        by_step[step] = by_task
    if not by_step:
        raise BrokenFileError(remarks[0])
    last = max(by_step)
    estimates = []
    for step in sorted(by_step, reverse=True):
        # The last step is the model itself, so its groups have no step in their names.
        end = ""
        if step != last:
            end = f", step {step}"
        for task, group in TASKS.items():
            numbers = by_step[step][task]
            share = float(numbers["pct_stereotype"])
            error_of_share = float(numbers["pct_stereotype_stderr"])
            estimates.append(estimate(group + end, share, error_of_share))
    remarks.append(f"The groups {' and '.join(TASKS.values())} are of the last step, {last}.")
    split = tables.given([{"id": task} for task in TASKS], "crows-pairs-english", "lm-evaluation-harness", "test")
    return PublishedResponses({}, (split,), tuple(remarks), tuple(estimates))


def asked(benchmark: Benchmark) -> Benchmark:
    """``crows_pairs`` with the group about gender as the one that is shown."""
    assert benchmark.headline is not None
    headline = replace(benchmark.headline, dataset="", groups={}, shown="gender")
    return replace(benchmark, headline=headline)


@dataclass(frozen=True, slots=True)
class UnpairedChange:
    """The difference of two scores, what is said of it, and the minimum detectable effect (power 80 %)."""

    change: Numbers
    verdict: str
    detectable: float


def change(
    after: Numbers, before: Numbers, ideal: float = 50.0, least: float = 0.0, most: float = 100.0
) -> UnpairedChange:
    """What an intervention did to a score whose examples nobody published, as if both models were asked other pairs.

    ``least`` and ``most`` are the ends of the score's range.
    """
    difference = unpaired(after, before)
    p = p_of(difference)
    word = verdict(before[0], difference, ideal, p, p_side(before, after, ideal, least, most))
    normal = NormalDist()
    _, low, high = difference
    # The standard error, from the width of the 95 % interval.
    error = (high - low) / (2 * normal.inv_cdf(0.975))
    # A test at the level finds a difference of this size with the power 80 %.
    detectable = (normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(_POWER)) * error
    return UnpairedChange(difference, word, detectable)


PUBLISHED = PublishedSource(
    benchmark="crows_pairs",
    summary="Pythia: CrowS-Pairs by step of training, plain and with swapped pronouns in the text; no answers by pair.",
    settings="The authors of Pythia ran lm-evaluation-harness on their first models (19m to 6.9b by the old names). "
    "The texts are the English pairs of Névéol et al. Each score has the standard error of the harness.",
    files="pythia-bias",
    read=responses,
    asked=asked,
    note="Scores with standard errors, without examples. These pairs are not the ones of the data set of this project, "
    "so compare the runs of this source with each other alone.",
)
