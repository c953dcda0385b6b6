"""Prompts of one's own: which gender the continuations speak of, by group, and differences within pairs of prompts.

The user gives the prompts (:mod:`scoring.inputs.prompt_file`). Each is continued by 50 tokens, greedily or by sampling,
as the prompts of the benchmark ``neutral`` are. The two prompts of a pair differ by who is spoken of, so the difference
between their continuations is a counterfactual difference: it is 0 for a model that treats both alike.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring import types
from scoring.benchmarks.neutral import EXAMPLE, NEW_TOKENS
from scoring.inputs.prompt_file import PromptFile
from scoring.metrics import gas, sums
from scoring.metrics.texts import texts

#: The name of the benchmark, which no file of this folder may take.
NAME = "prompts"
#: How the names of metrics of pairs begin.
DIFFERENCE = "difference_"
#: Which classes of continuations are counted in a difference, by the end of its name.
_COUNTED: dict[str, tuple[gas.GenderClass, ...]] = {
    "gendered": ("female", "male", "both"),
    "female": ("female",),
    "male": ("male",),
}


def requests(_: str, row: types.Row, _context: types.BenchmarkContext) -> Iterator[types.Request]:
    """One request: the continuation of the prompt."""
    yield types.Request(row["id"], row["prompt"], max_new=NEW_TOKENS)


def to_record(_: str, row: types.Row, responses: types.Responses, _context: types.BenchmarkContext) -> types.Line:
    """The continuation with its class."""
    return {"id": row["id"], "match": row["match"], **_about(row, responses[row["id"]].text)}


def sampled_records(row: types.Row, answers: Sequence[str]) -> list[types.Line]:
    """A line for each answer; the first answer to a prompt belongs to the first one to the other prompt of its pair."""
    lines = []
    for number, text in enumerate(answers):
        names = {"id": f"{row['id']}/{number}", "row": row["id"], "match": f"{row['match']}/{number}"}
        lines.append(names | _about(row, text))
    return lines


def _about(row: types.Row, text: str) -> types.Line:
    """The columns that describe a prompt and its continuation."""
    return {
        "group": row["group"],
        "pair": row["pair"],
        "side": row["side"],
        "prompt": row["prompt"],
        "text": text,
        "gender_class": gas.gender_class(text, row["prompt"]),
    }


def groups(table: types.Table) -> Sequence[types.Group]:
    """The pairs, where there are any, and each group of prompts; of one group alone there is nothing else."""
    names = list(dict.fromkeys(table["group"].tolist()))
    every = np.ones(len(table["group"]), dtype=bool)
    single, paired = frozenset(_names(single_metrics())), frozenset(_names(pair_metrics()))
    chosen = []
    # Of pairs the difference is what counts: a share over both sides would mix a man and a woman.
    if np.any(table["side"] > 0):
        first, second = names[:2]
        chosen.append(types.Group(f"{first} minus {second}", every, single))
    elif len(names) > 1:
        chosen.append(types.Group("all groups", every, paired))
    for name in names:
        chosen.append(types.Group(name, table["group"] == name, paired))
    return chosen


def _names(metrics: Sequence[types.Metric]) -> list[str]:
    return [metric.name for metric in metrics]


def single_metrics() -> list[types.Metric]:
    """The shares of continuations."""
    metrics = [gas.gas(), gas.gas_of("female"), gas.gas_plain()]
    for name in gas.CLASSES:
        metrics.append(gas.share(name))
    metrics.append(gas.share_refused())
    return metrics


def pair_metrics() -> list[types.Metric]:
    """The differences between the first and the second prompt of a pair; each pair is a cluster."""
    metrics = []
    for name, classes in _COUNTED.items():
        metrics.append(_difference(name, _in_classes(classes)))
    metrics.append(_difference("refused", gas.refused))
    return metrics


def _in_classes(classes: tuple[gas.GenderClass, ...]) -> Callable[[types.Table], NDArray[np.float64]]:
    def counted(table: types.Table) -> NDArray[np.float64]:
        return np.isin(table["gender_class"].astype(str), classes).astype(np.float64)

    return counted


def _difference(name: str, event: Callable[[types.Table], NDArray[np.float64]]) -> types.Metric:
    """The mean over pairs of an event (0 or 1) of the first prompt minus that of the second."""

    def difference(table: types.Table) -> NDArray[np.float64]:
        return _partners(table, event(table))[0]

    def is_complete(table: types.Table) -> NDArray[np.bool_]:
        return _partners(table, event(table))[1]

    full_name = f"{DIFFERENCE}{name}"
    about = texts("prompts", full_name)
    return sums.mean(full_name, difference, 0, -1, 1, where=is_complete, proportion=True, cluster="pair", **about)


def _partners(table: types.Table, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """For each first prompt of a pair the difference of its value from that of the second, and where there are both.

    >>> table = {"match": np.array(["1", "1", "2"]), "side": np.array([1, 2, 1])}
    >>> _partners(table, np.array([1.0, 0.0, 1.0]))
    (array([1., 0., 0.]), array([ True, False, False]))
    """
    matches, sides = table["match"].tolist(), table["side"].tolist()
    # An answer may be lacking on one side, so places are looked up and not counted.
    second_places = {}
    for place, (match, side) in enumerate(zip(matches, sides, strict=True)):
        if side == 2:
            second_places[match] = place
    differences = np.zeros(len(matches))
    is_complete = np.zeros(len(matches), dtype=bool)
    for place, (match, side) in enumerate(zip(matches, sides, strict=True)):
        if side == 1 and match in second_places:
            differences[place] = values[place] - values[second_places[match]]
            is_complete[place] = True
    return differences, is_complete


def metrics(_: str) -> Sequence[types.Metric]:
    """Differences first: where there are pairs, they are what the user asks for."""
    return [*pair_metrics(), *single_metrics()]


def benchmark(file: PromptFile | None = None) -> types.Benchmark:
    """The benchmark of the prompts of a file; without one, as it is known of stored runs.

    >>> benchmark().name, benchmark().configs
    ('prompts', ())
    """
    rows = file.rows if file else ()
    configs = ((NAME, file.name, "all"),) if file else ()
    return types.Benchmark(
        name=NAME,
        version="1.2.0",
        summary="Continues prompts of one's own: gendered continuations by group, and differences within pairs.",
        configs=configs,
        requests=requests,
        to_record=to_record,
        groups=groups,
        metrics=metrics,
        # Equal prompts have equal answers, so they are one cluster.
        cluster="pair",
        kinds=("causal", "chat"),
        # The prompts of a pair stay together, and of groups each has its share.
        sample=lambda row: (row["pair"], "" if row["side"] else row["group"]),
        # The rows are the user's own and are read from no built data set.
        rows=lambda _dataset, _config, _split: rows,
        note=(
            "These prompts are the user's own. A share of gendered continuations is a bias where the prompts say "
            "nothing of gender; where they name a man or a woman, a gendered continuation is right, and differences "
            "within pairs say whether both are treated alike."
        ),
        # Classes are read from texts, so an engine without probabilities is enough.
        needs=lambda _profile, _context: frozenset({"generation"}),
        sampled=types.Sampled(
            question=lambda _, row: str(row["prompt"]),
            longest=NEW_TOKENS,
            to_records=sampled_records,
            metrics=metrics,
            groups=groups,
            cluster="pair",
            example=EXAMPLE,
        ),
    )
