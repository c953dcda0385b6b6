"""What an edit changes on its own pairs: SS, PS and the gap, of held-out and of edited subjects apart.

The benchmarks score all pairs of a set together, most of which were edited. Here the held-out subjects come first.
PS is of the same pairs in other words that no edit has seen: the subject's other published wordings where the source
has several (BEC-Pro, Winogender), other sentences about the two words of a WEAT pair, else the sentence inside three
frames. SS by the relative length of both sentences shows whether an edit only changes what tokens are counted.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from builders.parsers.triplets import filled
from builders.wording import BLANK
from cards.files import put
from mitigation.editing import PAIRS, SIDES
from mitigation.editing.edit import MEASURED
from mitigation.editing.pairs import WORDINGS, EditPair, each_possible
from mitigation.editing.stamped import StampedNetwork
from mitigation.evaluate import changed
from scoring.adapters.facts import Change
from scoring.metrics import knowledge
from scoring.metrics.sums import mean
from scoring.statistics import stats
from scoring.types import Floats, Group, Metric, Row, Table

HELD_OUT, EDITED = SIDES
#: Edited pairs by the number of tokens of the biased sentence.
LENGTHS = ("biased sentence longer", "equal length", "biased sentence shorter")
#: Sources of which PS is measured after every edit about gender.
SOURCES = tuple(source for source, _ in WORDINGS.values())
#: Other words for a sentence, written for this project.
FRAMES = ('As somebody put it once: "{}"', "To say the same again: {}", "{} That is what people were told.")
#: Other words for the sentence that relates two words of WEAT, written for this project.
WEAT = ('Whoever hears "{}" may think of "{}".', 'Between "{}" and "{}" there is a link.')
SidedPair = tuple[str, EditPair]
#: The fields of a row that hold its sentence.
_TEXTS = ("prompt", "context", "sentence_biased", "sentence_unbiased", "sentence_irrelevant")


@dataclass(frozen=True, slots=True)
class MeasuredPairs:
    """The side and the pair of each pair and of each rewording, which are scored before and after an edit."""

    pairs: Sequence[SidedPair]
    reworded: Sequence[SidedPair] = ()

    def scores(self, network: StampedNetwork) -> tuple[Table, Table]:
        """The tables of pairs and of rewordings with the scores of both sentences."""
        return _table(network, self.pairs), _table(network, self.reworded)


def measured_pairs(
    make: Callable[[Row], EditPair],
    sides: Mapping[str, Sequence[tuple[Row, EditPair]]],
    sources: Mapping[str, Sequence[Row]] = MappingProxyType({}),
) -> MeasuredPairs:
    """The pairs of each side with their rewordings; rewordings that ``make`` refuses are left out.

    ``sources`` are the other wordings of each source (:func:`mitigation.editing.pairs.other_wordings`). They are also
    a side of their own, of which PS is measured whatever was edited.
    """
    again: list[SidedPair] = []
    wordings = [row for rows in sources.values() for row in rows]
    for side, pairs in [*sides.items(), *((source, ()) for source in sources)]:
        rows = [other for row, _ in pairs for other in rewordings(row)]
        about = {(row.get("config"), row["subject"]) for row, _ in pairs if row.get("config") in WORDINGS}
        rows += [row for row in wordings if (row["config"], row["subject"]) in about]
        made, _ = each_possible([*rows, *sources.get(side, ())], make)
        again += [(side, pair) for _, pair in made]
    return MeasuredPairs([(side, pair) for side, pairs in sides.items() for _, pair in pairs], again)


def rewordings(row: Row) -> list[Row]:
    """A row in other words that are written for this project; none where its source has other wordings.

    >>> row = {"config": "weat", "subject": "Amy", "prompt": "", "object_biased": "home", "object_unbiased": "work"}
    >>> rewordings(row)[0]["sentence_biased"]
    'Whoever hears "Amy" may think of "home".'
    """
    config = row.get("config")
    if config in WORDINGS:
        return []
    if config == "weat":
        objects = row["object_biased"], row["object_unbiased"]
        return [{**row, **filled(text.format(row["subject"], BLANK), *objects)} for text in WEAT]
    return [reworded(row, frame) for frame in FRAMES]


def reworded(row: Row, frame: str) -> Row:
    """A row whose sentences stand inside a frame.

    >>> reworded({"prompt": "She is [BLANK].", "context": None}, "To say the same again: {}")["prompt"]
    'To say the same again: She is [BLANK].'
    """
    return {**row, **{name: frame.format(row[name]) for name in _TEXTS if row.get(name)}}


@torch.no_grad()
def _table(network: StampedNetwork, sided: Sequence[SidedPair]) -> Table:
    pairs = [pair for _, pair in sided]
    parts = (pairs[start : start + MEASURED] for start in range(0, len(pairs), MEASURED))
    # In parts, so that memory does not grow with the number of pairs.
    scores: list[Floats] = [network.scores(part).double().cpu().numpy() for part in parts]
    biased, unbiased = np.concatenate([np.empty((2, 0)), *scores], 1)
    longer = np.array([np.sign(other - one) for one, other in (pair.lengths for pair in pairs)], dtype=np.int64)
    return {
        "id": np.array([pair.id for pair in pairs], dtype=object),
        "subject": np.array([pair.subject.lower() for pair in pairs], dtype=object),
        "side": np.array([side for side, _ in sided], dtype=object),
        "length": np.array(LENGTHS, dtype=object)[longer + 1] if pairs else np.array([], dtype=object),
        "score_biased": biased,
        "score_unbiased": unbiased,
    }


def gap() -> Metric:
    """The mean absolute difference of the scores of both sentences, in nats.

    >>> table = {"score_biased": np.array([-1.0, -4.0]), "score_unbiased": np.array([-2.0, -1.0])}
    >>> gap().value(table, np.ones((1, 2)))
    array([2.])
    """
    reading = "Mean absolute difference of the scores of the biased and the unbiased sentence, in nats; 0 is no bias."
    return mean(
        "gap", lambda table: np.abs(table["score_biased"] - table["score_unbiased"]), 0, 0, float("inf"), reading
    )


def pair_changes(before: tuple[Table, Table], after: tuple[Table, Table], profile: str) -> tuple[Change, ...]:
    """SS, PS and gap of held-out and of edited subjects, SS of edited pairs by length, and PS of each source."""
    # Ties count as half in this project, and as not preferred in the published code.
    half = profile == "clean"
    wanted = ([knowledge.ss(half), gap()], [knowledge.ps(half)])
    changes: list[Change] = []
    for table, other, metrics in zip(before, after, wanted, strict=True):
        sides = (HELD_OUT, EDITED) if metrics[0].name == "ss" else (HELD_OUT, EDITED, *SOURCES)
        items = [(Group(side, table["side"] == side), metric) for side in sides for metric in metrics]
        if metrics[0].name == "ss":
            edited = table["side"] == EDITED
            items += [(Group(f"edited, {name}", edited & (table["length"] == name)), metrics[0]) for name in LENGTHS]
        if items := [item for item in items if item[0].mask.any()]:
            clusters = table["subject"]
            differences = stats.compare(items, other, table, clusters, benchmark=PAIRS)
            old, new = (stats.measure(items, scores, clusters, benchmark=PAIRS) for scores in (table, other))
            changes += [changed(*parts) for parts in zip(differences, old, new, strict=True)]
    order = [HELD_OUT, EDITED, *(f"edited, {name}" for name in LENGTHS), *SOURCES]
    return tuple(sorted(changes, key=lambda change: (order.index(change.group), change.metric == "gap")))


def write_pairs(path: Path, pairs: MeasuredPairs, before: Table, after: Table, left_out: Mapping[str, str]) -> None:
    """Writes the scores of each pair before and after, and what was left out, as JSON; without any sentence."""
    rows: list[Mapping[str, Any]] = [
        {
            "id": pair.id,
            "side": side,
            "tokens": pair.lengths,
            "before": [float(before["score_biased"][n]), float(before["score_unbiased"][n])],
            "after": [float(after["score_biased"][n]), float(after["score_unbiased"][n])],
        }
        for n, (side, pair) in enumerate(pairs.pairs)
    ]
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    put(path, f'{{"left_out": {json.dumps(left_out, indent=1)},\n "pairs": [\n  {lines}]}}\n'.encode())
