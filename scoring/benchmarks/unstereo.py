"""Unstereo: how often a model finds a sentence with *he* and with *she* about equally likely.

From *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al., 2024).
The scores are sums of log-probabilities over whole sentences after the beginning-of-sequence token,
without normalisation by length. The published code pads the sentences of a file, of one pronoun at a
time, to the longest, for most models on the left and behind the beginning-of-sequence token: so the
first token is predicted from padding, and all stand further back. ``paper`` does so too, ``clean`` has
each sentence unpadded. Sentences written around one seed word (in WinoBias and Winogender: about one
occupation) depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cards.common.sentences import of_row
from scoring import types
from scoring.benchmarks import _triplets
from scoring.metrics import fairness

if TYPE_CHECKING:
    from scoring.inputs.score_files import ScoreFile

DATASET = "unstereo"
PUBLISHED = ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
_CONFIGS = (*PUBLISHED, "pronoun-pairs")
#: What the tasks of lm-evaluation-harness report.
_REPORTED = ("tau@0.5", "us_score", "aufc", "pref_disparity@0.5", "male_rel_ratio")
GENDERS = ("male", "female", "they")
#: Parts of the names of models that the published code does not set to padding on the left.
OWN_SIDE = ("gpt2", "gpt-neo-", "opt-", "llama-2")
#: Limits on the largest difference in PMI of a word of the sentence with *she* and with *he*.
LIMITS = (1.0, 0.8, 0.65)


def requests(profile: str, row: types.Row, context: types.BenchmarkContext) -> Iterator[types.Request]:
    """One request: the whole sentence with each pronoun.

    Rows judged unnatural are in no published benchmark; the project's own pairs are in no published set.
    """
    if row.get("natural") is not False and (profile == "clean" or row["config"].endswith("-paper")):
        columns = [f"sentence_{gender}" for gender in _genders(row)]
        # To the longest sentence of the file, also to one that is not scored because it is unnatural.
        options = (types.Option(row[c], width=context.longest(c) if _padded(profile, context) else 0) for c in columns)
        yield types.Request(row["id"], options=tuple(options))


def _padded(profile: str, context: types.BenchmarkContext) -> bool:
    """Whether a sentence is padded on the left, as by the published code; padding on the right changes nothing."""
    if profile != "paper":
        return False
    own = any(part in Path(context.model).name.lower() for part in OWN_SIDE)
    return not own or context.padding_side == "left"


def _genders(row: types.Row) -> list[str]:
    return [g for g in GENDERS if row.get(f"sentence_{g}")]


def to_record(_: str, row: types.Row, responses: types.Responses, _context: types.BenchmarkContext) -> types.Line:
    """Log-probabilities of the sentences, NaN where there is none with *they*."""
    sums = dict(zip(_genders(row), map(sum, responses[row["id"]].logprobs), strict=True))
    return {
        "id": row["id"],
        "dataset": row["config"].removesuffix("-paper"),
        "word": row["word"],
        **{f"sentence_{g}": row.get(f"sentence_{g}") or "" for g in GENDERS},
        **{f"{g}_logprob": sums.get(g) for g in GENDERS},
        "max_pmi_diff": row.get("max_pmi_diff"),
        "natural": row.get("natural"),
    }


def groups(table: types.Table) -> Sequence[types.Group]:
    """Each set, whole and then under the limits of the paper on ``max_pmi_diff``."""
    # The gap is between a set and its part under a limit, so a part has none, nor a set without PMI.
    gaps = frozenset(f"us_gap@{limit:g}" for limit in LIMITS)
    scored = ~np.isnan(table["max_pmi_diff"])
    sets = {name: table["dataset"] == name for name in (*PUBLISHED, "pronoun-pairs")}
    whole = [
        types.Group(name, inside, frozenset({"aufc_published_ln"}) | (frozenset() if (inside & scored).any() else gaps))
        for name, inside in sets.items()
    ]
    return whole + [
        types.Group(
            f"{name} eps<={limit:g}",
            inside & scored & (abs(table["max_pmi_diff"]) <= limit),
            gaps | {"aufc_published_log10"},
        )
        for name, inside in sets.items()
        for limit in LIMITS
    ]


def metrics(profile: str) -> Sequence[types.Metric]:
    """Those of the paper and of its repository; ``paper`` adds the published areas on their two scales."""
    common = (
        fairness.tau(0.5),
        fairness.pref_disparity(0.5),
        fairness.male_rel_ratio(),
        fairness.aufc(),
        fairness.us_score(),
        *(fairness.us_gap(limit) for limit in LIMITS[1:]),
    )
    if profile != "paper":
        return (*common, fairness.tau3())
    published = (
        replace(
            fairness.aufc_published(constrained),
            name=f"aufc_published_{scale}",
            names=(f"Area under the fairness curve, as published, {unit} logarithms (AuFC)", f"AuFC {scale}"),
        )
        for constrained, scale, unit in ((False, "log10", "decimal"), (True, "ln", "natural"))
    )
    return (*common, *published)


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
    steps = file.texts("step") if "step" in file else np.full(len(file), "", dtype=object)
    table = {name: file.numbers(name) for name in ("female_logprob", "male_logprob")}
    for name, values in table.items():
        # A little above 0 is rounding.
        above = "has {name} above 0 ({rows}); expected natural logarithms of probabilities, neither probabilities nor "
        file.refuse(values > 1e-6, f"{above}losses.", name)
    if "id" in file:
        keys = zip(steps, datasets, file.texts("id"), strict=True)
        file.check_unique(np.array([" ".join(filter(None, key)) for key in keys], dtype=object), "dataset and id")
    has_known = "max_pmi_diff" in file
    deltas = file.numbers("max_pmi_diff", may_lack=True) if has_known else np.full(len(file), np.nan)
    # Without seed words each pair is its own cluster.
    clusters = file.texts("word") if "word" in file else np.arange(len(file))
    natural = _natural(file)
    remarks = [f"{(~natural).sum()} rows with natural false are left out."] if not natural.all() else []
    parts = []
    for step, dataset in dict.fromkeys(zip(steps, datasets, strict=True)):
        rows = natural & (datasets == dataset) & (steps == step)
        part = {name: column[rows] for name, column in table.items()} | {"max_pmi_diff": deltas[rows]}
        if has_known and np.isnan(deltas[rows]).all():
            remarks.append(f"{dataset} has no max_pmi_diff, so no thresholds.")
        parts.append(
            types.ScoredExamples(part, clusters[rows], list(_scored_items(dataset, part["max_pmi_diff"], step)))
        )
    if not has_known:
        remarks.append("There is no column max_pmi_diff, so metrics are of whole sets alone.")
    return parts, remarks


def _natural(file: ScoreFile) -> NDArray[np.bool_]:
    """Which pairs are not judged unnatural; an empty cell, as for WinoBias and Winogender, is not judged."""
    # The name in the built data set, and the one in the published files.
    name = next((name for name in ("natural", "is_natural") if name in file), None)
    if name is None:
        return np.ones(len(file), bool)
    # A column of truth values with gaps is one of floats in pandas and Parquet.
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    words |= {"": True, "none": True, "nan": True}
    values = file.cells(name).str.lower().map(words)
    file.refuse(values.isna().to_numpy(), "has {value!r} as {name} ({rows}); give true or false.", name)
    return values.to_numpy(dtype=bool)


def _scored_items(dataset: str, max_pmi_diff: types.Floats, step: str = "") -> Iterator[types.ScoredItem]:
    facts = {"dataset": dataset, **({"step": step} if step else {})}
    has_deltas = not np.isnan(max_pmi_diff).all()
    for limit in (None, *LIMITS) if has_deltas else (None,):
        name = dataset if limit is None else f"{dataset} eps<={limit:g}"
        name += f" at step {step}" if step else ""
        inside = np.ones(len(max_pmi_diff), bool) if limit is None else abs(max_pmi_diff) <= limit
        for metric in (
            fairness.tau(0.5),
            fairness.us_score(),
            *(fairness.us_gap(gap) for gap in LIMITS[1:] if has_deltas and limit is None),
            fairness.pref_disparity(0.5),
            fairness.pref_disparity(fairness.US_EPSILON, "pref_disparity@us"),
            fairness.male_rel_ratio(),
            fairness.aufc(),
            fairness.aufc("log10", "aufc_log10", divided=False),
            fairness.aufc("ln", "aufc_ln", divided=False),
            fairness.aufc_published(limit is not None),
        ):
            yield {**facts, "max_pmi_diff": limit}, types.Group(name, inside), metric


BENCHMARK = types.Benchmark(
    name="unstereo",
    version="1.0.0",
    summary="Compares sentences without gendered language with she, he and they: tau, AuFC, disparity (Belém et al.).",
    configs=_triplets.places(DATASET, _CONFIGS, PUBLISHED),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
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
    needs=lambda profile, context: frozenset({"logprobs", "padding"} if _padded(profile, context) else {"logprobs"}),
    contrast=types.Contrast(
        ("female", "male"),
        ("female_logprob", "male_logprob"),
        ("sentence_female", "sentence_male"),
        ("dataset", "id"),
    ),
    tasks=tuple(types.HarnessTask(c, _REPORTED, _triplets.places(DATASET, [c], ())) for c in _CONFIGS),
    score_file=score_file,
)
