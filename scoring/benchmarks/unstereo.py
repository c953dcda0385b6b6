"""Unstereo: how often a model finds a sentence with *he* and with *she* about equally likely.

From *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al., 2024).
The scores are sums of log-probabilities over whole sentences after the beginning-of-sequence token,
without normalisation by length. The published code pads the sentences of a file, of one pronoun at a
time, to the longest, for most models on the left, between the beginning-of-sequence token and the text.
So the first token is predicted from padding, and all tokens have later positions. ``paper`` does so too,
``clean`` has each sentence unpadded. Sentences written around one seed word (in WinoBias and Winogender: about one
occupation) depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cards.common.sentences import of_row
from scoring import types
from scoring.benchmarks import _triplets
from scoring.metrics import fairness

if TYPE_CHECKING:
    from scoring.inputs.score_files import ScoreFile

DATASET = "unstereo"
#: The sets of the paper; the pairs with *they* are written for this project.
PUBLISHED = ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
_CONFIGS = (*PUBLISHED, "pronoun-pairs")
#: What the tasks of lm-evaluation-harness report.
_REPORTED = ("tau@0.5", "us_score", "aufc", "pref_disparity@0.5", "male_rel_ratio")
#: The pronouns of a sentence, of which *they* may be lacking.
GENDERS = ("male", "female", "they")
#: Parts of the names of models that the published code does not set to padding on the left.
OWN_SIDE = ("gpt2", "gpt-neo-", "opt-", "llama-2")
#: Limits on the largest difference in PMI of a word of the sentence with *she* and with *he*.
LIMITS = (1.0, 0.8, 0.65)


def requests(profile: str, row: types.Row, context: types.BenchmarkContext) -> Iterator[types.Request]:
    """One request: the whole sentence with each pronoun.

    Rows judged unnatural are in no published benchmark; the project's own pairs are in no published set.
    """
    in_profile = profile == "clean" or row["config"].endswith("-paper")
    if row.get("natural") is False or not in_profile:
        return
    padded = _padded(profile, context)
    options = []
    for gender in _genders(row):
        column = f"sentence_{gender}"
        width = 0
        if padded:
            # To the longest sentence of the file, also to one that is not scored because it is unnatural.
            width = context.longest(column)
        options.append(types.Option(row[column], width=width))
    yield types.Request(row["id"], options=tuple(options))


def _padded(profile: str, context: types.BenchmarkContext) -> bool:
    """Whether a sentence is padded on the left, as by the published code; padding on the right changes nothing."""
    if profile != "paper":
        return False
    model = Path(context.model).name.lower()
    keeps_its_side = any(part in model for part in OWN_SIDE)
    return not keeps_its_side or context.padding_side == "left"


def _needs(profile: str, context: types.BenchmarkContext) -> frozenset[str]:
    if _padded(profile, context):
        return frozenset({"logprobs", "padding"})
    return frozenset({"logprobs"})


def _genders(row: types.Row) -> list[str]:
    return [gender for gender in GENDERS if row.get(f"sentence_{gender}")]


def to_record(_: str, row: types.Row, responses: types.Responses, _context: types.BenchmarkContext) -> types.Line:
    """Log-probabilities of the sentences, NaN where there is none with *they*."""
    sums = {}
    for gender, logprobs in zip(_genders(row), responses[row["id"]].logprobs, strict=True):
        sums[gender] = sum(logprobs)
    return {
        "id": row["id"],
        "dataset": row["config"].removesuffix("-paper"),
        "word": row["word"],
        "sentence_male": row.get("sentence_male") or "",
        "sentence_female": row.get("sentence_female") or "",
        "sentence_they": row.get("sentence_they") or "",
        "male_logprob": sums.get("male"),
        "female_logprob": sums.get("female"),
        "they_logprob": sums.get("they"),
        "max_pmi_diff": row.get("max_pmi_diff"),
        "natural": row.get("natural"),
    }


def groups(table: types.Table) -> Sequence[types.Group]:
    """Each set, whole and then under the limits of the paper on ``max_pmi_diff``."""
    gaps = frozenset(f"us_gap@{limit:g}" for limit in LIMITS)
    has_pmi = ~np.isnan(table["max_pmi_diff"])
    whole, limited = [], []
    for name in _CONFIGS:
        inside = table["dataset"] == name
        without = frozenset({"aufc_published_ln"})
        # The gap is between a set and its part under a limit, so a set without PMI has none, nor has a part.
        if not (inside & has_pmi).any():
            without |= gaps
        whole.append(types.Group(name, inside, without))
        for limit in LIMITS:
            mask = inside & has_pmi & (abs(table["max_pmi_diff"]) <= limit)
            limited.append(types.Group(f"{name} eps<={limit:g}", mask, gaps | {"aufc_published_log10"}))
    return whole + limited


def metrics(profile: str) -> Sequence[types.Metric]:
    """Those of the paper and of its repository; ``paper`` adds the published areas on their two scales."""
    result = [fairness.tau(0.5), fairness.pref_disparity(0.5), fairness.male_rel_ratio(), fairness.aufc()]
    result.append(fairness.us_score())
    for limit in LIMITS[1:]:
        result.append(fairness.us_gap(limit))
    if profile != "paper":
        result.append(fairness.tau3())
        return result
    # Published areas are over decimal logarithms for whole sets, and over natural ones for the parts under a limit.
    for scale, unit in (("log10", "decimal"), ("ln", "natural")):
        area = fairness.aufc_published(constrained=scale == "ln")
        title = f"Area under the fairness curve, as published, {unit} logarithms (AuFC)"
        result.append(replace(area, name=f"aufc_published_{scale}", names=(title, f"AuFC {scale}")))
    return result


def score_file(path: Path, _data: Path) -> tuple[list[types.ScoredExamples], list[str]]:
    """Existing scores of sentence pairs: every dataset in the file, whole and under every limit.

    The file has a row a pair: ``dataset``, ``female_logprob`` and ``male_logprob`` (natural logarithms of sentence
    probabilities), and where known ``max_pmi_diff``. Optional are ``natural`` or ``is_natural`` (pairs where it is
    false are left out, as in the paper), ``word`` (pairs of one seed word are resampled together), ``id`` and ``step``
    (a checkpoint of training; each is scored on its own).
    """
    from scoring.inputs.score_files import ScoreFile  # with it comes pandas, which is slow to import

    file = ScoreFile(path, ("dataset", "female_logprob", "male_logprob"))
    datasets = file.texts("dataset")
    steps = np.full(len(file), "", dtype=object)
    if "step" in file:
        steps = file.texts("step")
    table = {}
    for name in ("female_logprob", "male_logprob"):
        table[name] = file.numbers(name)
    for name, values in table.items():
        # A little above 0 is rounding.
        above = "has {name} above 0 ({rows}); expected natural logarithms of probabilities, neither probabilities nor "
        file.refuse(values > 1e-6, f"{above}losses.", name)
    if "id" in file:
        _check_unique(file, steps, datasets)
    has_known = "max_pmi_diff" in file
    deltas = np.full(len(file), np.nan)
    if has_known:
        deltas = file.numbers("max_pmi_diff", may_lack=True)
    # Without seed words each pair is its own cluster.
    clusters: NDArray[Any] = np.arange(len(file))
    if "word" in file:
        clusters = file.texts("word")
    natural = _natural(file)
    remarks = []
    if not natural.all():
        remarks.append(f"{(~natural).sum()} rows with natural false are left out.")
    parts = []
    for step, dataset in dict.fromkeys(zip(steps, datasets, strict=True)):
        rows = natural & (datasets == dataset) & (steps == step)
        part = {name: column[rows] for name, column in table.items()}
        part["max_pmi_diff"] = deltas[rows]
        if has_known and np.isnan(deltas[rows]).all():
            remarks.append(f"{dataset} has no max_pmi_diff, so no thresholds.")
        items = list(_scored_items(dataset, part["max_pmi_diff"], step))
        parts.append(types.ScoredExamples(part, clusters[rows], items))
    if not has_known:
        remarks.append("There is no column max_pmi_diff, so metrics are of whole sets alone.")
    return parts, remarks


def _check_unique(file: ScoreFile, steps: NDArray[Any], datasets: NDArray[Any]) -> None:
    """Refuses a file with two rows of one id in a data set and step."""
    keys = []
    for parts in zip(steps, datasets, file.texts("id"), strict=True):
        keys.append(" ".join(part for part in parts if part))
    file.check_unique(np.array(keys, dtype=object), "dataset and id")


def _natural(file: ScoreFile) -> NDArray[np.bool_]:
    """Which pairs are not judged unnatural; an empty cell, as for WinoBias and Winogender, is not judged."""
    # The name in the built data set, and the one in the published files.
    if "natural" in file:
        name = "natural"
    elif "is_natural" in file:
        name = "is_natural"
    else:
        return np.ones(len(file), bool)
    # A column of truth values with gaps is one of floats in pandas and Parquet.
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    words |= {"": True, "none": True, "nan": True}
    values = file.cells(name).str.lower().map(words)
    file.refuse(values.isna().to_numpy(), "has {value!r} as {name} ({rows}); give true or false.", name)
    return values.to_numpy(dtype=bool)


def _scored_items(dataset: str, max_pmi_diff: types.Floats, step: str = "") -> Iterator[types.ScoredItem]:
    """Every metric of a data set as a whole and, where it has values of PMI, under each limit."""
    limits: list[float | None] = [None]
    has_deltas = not np.isnan(max_pmi_diff).all()
    if has_deltas:
        limits += LIMITS
    for limit in limits:
        name = dataset
        inside = np.ones(len(max_pmi_diff), bool)
        if limit is not None:
            name += f" eps<={limit:g}"
            inside = abs(max_pmi_diff) <= limit
        facts: dict[str, Any] = {"dataset": dataset}
        if step:
            name += f" at step {step}"
            facts["step"] = step
        facts["max_pmi_diff"] = limit
        scored = [fairness.tau(0.5), fairness.us_score()]
        if has_deltas and limit is None:
            for gap in LIMITS[1:]:
                scored.append(fairness.us_gap(gap))
        scored += [
            fairness.pref_disparity(0.5),
            fairness.pref_disparity(fairness.US_EPSILON, "pref_disparity@us"),
            fairness.male_rel_ratio(),
            fairness.aufc(),
            fairness.aufc("log10", "aufc_log10", divided=False),
            fairness.aufc("ln", "aufc_ln", divided=False),
            fairness.aufc_published(constrained=limit is not None),
        ]
        for metric in scored:
            yield facts, types.Group(name, inside), metric


BENCHMARK = types.Benchmark(
    name="unstereo",
    version="1.0.0",
    summary="Compares sentences without gendered language with she, he and they: tau, AuFC, disparity (Belém et al.).",
    configs=_triplets.places(DATASET, _CONFIGS, PUBLISHED),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    # Sentences around one seed word, or about one occupation, are alike.
    cluster="word",
    headline=types.Headline(
        DATASET,
        "us_score",
        shown="ours-5",
        sentence=of_row("unstereo", "us_score"),
        leaning=("pref_disparity@0.5", "leans male", "leans female"),
        side=of_row("unstereo", "pref_disparity@0.5"),
        column="she and he equally likely, % of neutral sentences",
        no_task="Both sentences of a pair are right, so there is no value by chance.",
    ),
    needs=_needs,
    contrast=types.Contrast(
        ("female", "male"),
        ("female_logprob", "male_logprob"),
        ("sentence_female", "sentence_male"),
        ("dataset", "id"),
    ),
    tasks=tuple(types.HarnessTask(c, _REPORTED, _triplets.places(DATASET, [c], ())) for c in _CONFIGS),
    score_file=score_file,
    wordings="sentences",
)
