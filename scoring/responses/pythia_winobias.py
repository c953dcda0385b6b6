"""WinoBias as questions, of Pythia models by step of training, plain and with swapped pronouns in the text.

From *Pythia: A Suite for Analyzing Large Language Models Across Training and Scaling* (Biderman et al., 2023), section
4.1. A fork of lm-evaluation-harness asked whom a pronoun refers to, in two prompts; the files have the share of exact
answers with its standard error for sentences that follow the stereotype (pro) and that go against it (anti), in two
types of sentences. The score is the first share minus the second. Whether a pair of sentences is answered alike is not
known, so the standard errors are added as if it were not, which makes the interval too wide rather than too narrow.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

from builders.dataset import Fetched
from cards.results import Estimate
from scoring.inputs import tables
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource
from scoring.types import Benchmark

#: The prompts of the harness with the words of their groups, the one that is shown first.
PROMPTS = {"What does p stand for": "stands for", "refers_to": "refers to"}
TYPES = ("type1", "type2")
METRIC = "pro_less_anti"
_READING = (
    "Exact answers to sentences that follow the stereotype minus those to sentences against it, in percentage points; "
    "0: alike."
)
#: Share of exact answers with its standard error, by the name of the task and of the prompt.
Shares = Mapping[tuple[str, str], tuple[float, float]]


def shares_of(path: Path) -> tuple[int, Shares]:
    """The step of a file, and the shares of exact answers by task and prompt.

    Raises
    ------
    BrokenFileError
        When it is no file of results of WinoBias.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content["table_results"].values()
        # Of later files there is a short form, which has the settings at its top.
        if "model_args" in content:
            settings = content["model_args"]
        else:
            settings = content["config"]["model_args"]
        shares = {}
        for row in rows:
            shares[row["task_name"], row["prompt_name"]] = (float(row["em"]), float(row["em_stderr"]))
        # A file without one of the shares is refused here, where its name is known.
        for kind in TYPES:
            for side in ("pro", "anti"):
                for prompt in PROMPTS:
                    shares[f"wino_bias_{kind}_{side}", prompt]
        return int(settings["iteration"]), shares
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFileError(f"{path.name} has no results of WinoBias ({error!r}); it is left out.") from None


def estimate(group: str, pro: tuple[float, float], anti: tuple[float, float]) -> Estimate:
    """The difference of two shares with their standard errors, in percentage points, with a normal interval.

    >>> score = estimate("type 1, stands for", (0.5, 0.03), (0.3, 0.04))
    >>> [round(number, 1) for number in (score.value, score.low, score.high, score.error)]
    [20.0, 10.2, 29.8, 5.0]
    """
    share, error_of_share = pro
    other_share, error_of_other = anti
    value = 100 * (share - other_share)
    # The variances are added: whether a pair of sentences is answered alike is not known.
    error = 100 * math.hypot(error_of_share, error_of_other)
    reach = NormalDist().inv_cdf(0.975) * error
    # The standard error of a share p of n sentences is √(p (1 - p) / (n - 1)) in the harness.
    sentences = 0
    if error_of_share:
        sentences = round(share * (1 - share) / error_of_share**2 + 1)
    return Estimate(
        benchmark="biaske",
        group=group,
        metric=METRIC,
        value=value,
        # A normal interval can reach beyond the possible values.
        low=max(-100.0, value - reach),
        high=min(100.0, value + reach),
        sd=error,
        n=sentences,
        clusters=sentences,
        ideal=0.0,
        reading=_READING,
        method="standard error of the source",
        title="Exact answers with the stereotype minus those against it",
        short="pro less anti",
        error=error,
        least=-100.0,
        most=100.0,
        label="pro less anti, points",
    )


def estimates_of(shares: Shares, end: str) -> Iterator[Estimate]:
    """The score of each type of sentences in each prompt; ``end`` closes the names of the groups."""
    for kind in TYPES:
        for prompt, words in PROMPTS.items():
            pro = shares[f"wino_bias_{kind}_pro", prompt]
            anti = shares[f"wino_bias_{kind}_anti", prompt]
            yield estimate(f"type {kind[-1]}, {words}{end}", pro, anti)


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The scores of a model, the last step first; a broken file is left out with a remark."""
    by_step = {}
    remarks = []
    for path in files.paths:
        try:
            step, shares = shares_of(path)
        except BrokenFileError as error:
            remarks.append(str(error))
            continue
        by_step[step] = shares
    if not by_step:
        raise BrokenFileError(remarks[0])
    last = max(by_step)
    estimates: list[Estimate] = []
    for step in sorted(by_step, reverse=True):
        # The last step is the model itself, so its groups have no step in their names.
        end = ""
        if step != last:
            end = f", step {step}"
        estimates += estimates_of(by_step[step], end)
    remarks.append(f"Groups without a step are of the last one, {last}.")
    tasks = [{"id": f"{kind}, {prompt}"} for kind in TYPES for prompt in PROMPTS]
    split = tables.given(tasks, "winobias-questions", "lm-evaluation-harness", "test")
    return PublishedResponses({}, (split,), tuple(remarks), tuple(estimates))


def asked(benchmark: Benchmark) -> Benchmark:
    """``biaske`` with the difference between both kinds of sentences of WinoBias as its headline."""
    assert benchmark.headline is not None
    headline = replace(
        benchmark.headline,
        dataset="",
        metric=METRIC,
        groups={},
        shown="type 1, stands for",
        sentence=f"Answers {{{METRIC}}} more of 100 sentences with the stereotype than against it.",
        leaning=(METRIC, "answers better against the stereotype", "answers better with the stereotype"),
        column="WinoBias, with the stereotype minus against it, points",
        names={},
    )
    return replace(benchmark, headline=headline)


PUBLISHED = PublishedSource(
    benchmark="biaske",
    summary="Pythia: WinoBias as questions by step of training, plain and with swapped pronouns; no single answers.",
    settings="The authors of Pythia ran a fork of lm-evaluation-harness on their second models (410M, 1.4B, 6.9B), "
    "with two prompts without examples. Each share has the standard error of the harness.",
    files="pythia-winobias",
    read=responses,
    asked=asked,
    note="Scores with standard errors, without examples: shares of exact answers in words, another question than the "
    "probabilities of `biaske`. Compare the runs of this source with each other alone.",
)
