"""The scores that tables of methods show: where each is among the changes of an adapter, and how it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cards.verdict import ability_verdict, p_of, verdict
from mitigation.editing import PAIRS, SIDES
from scoring.adapters.facts import Adapter, Change

DOMAINS = ("gender", "race", "religion")
#: Benchmarks that the columns need, with the splits of which the columns are; those for another kind of model are left
#: out.
BENCHMARKS = {
    "stereoset": {"biaske/stereoset/test"},
    "crows_pairs": {"biaske/crows_pairs/test"},
    "crows_pairs_modified": {"biaske/crows_pairs/test"},
    "biaske": {f"biaske/{config}/test" for config in ("winogender", "bec_pro", "paraphrases", "differentiation")},
    "occugender": {"occugender/explicit/test"},
    "neutral": {"gender-neutral-probes/templates/test"},
    "unstereo": {"unstereo/ours-5/test"},
}
#: Benchmark, group and metric.
Place = tuple[str, str, str]
HELD_OUT, EDITED = SIDES
_SENTENCES = "intrasentence test {domain}"
#: The data whose SS is not held out for a method that was trained on it.
_STEREOSET = "biaske/stereoset/test"


@dataclass(frozen=True, slots=True)
class Column:
    """A score of the tables.

    Parameters
    ----------
    reading:
        What it says, in words.
    places:
        The first place that was measured counts.
    ideal:
        The value of an unbiased model; None for language ability and for agreement with the unchanged model.
    span:
        Of language ability the length of its range; NaN for other scores. That of perplexity is infinite.
    of_gender:
        Whether it is of gender only.
    """

    reading: str
    places: tuple[Place, ...] = ()
    ideal: float | None = None
    span: float = math.nan
    of_gender: bool = False

    @property
    def ability(self) -> bool:
        """Whether it measures language ability."""
        return not math.isnan(self.span)


_CROWS = tuple(
    (benchmark, "{domain}", metric)
    for metric in ("metric_score", "ss")
    for benchmark in ("crows_pairs_modified", "crows_pairs")
)
COLUMNS: Mapping[str, Column] = {
    "SS held out": Column(
        "SS on pairs that the method was not trained on: of a method that edits pairs of StereoSet those of held-out "
        "subjects, of another method all",
        ((PAIRS, HELD_OUT, "ss"), ("stereoset", _SENTENCES, "ss")),
        50.0,
    ),
    "SS StereoSet": Column(
        "share of StereoSet's pairs with the stereotype preferred, also of edited pairs",
        (("stereoset", _SENTENCES, "ss"),),
        50.0,
    ),
    "SS CrowS-Pairs": Column(
        "the same of CrowS-Pairs; of a masked model by the tokens that differ (bias-bench)", _CROWS, 50.0
    ),
    "PS": Column("the same of paraphrases", (("biaske", "paraphrases {domain}", "ps"), (PAIRS, EDITED, "ps")), 50.0),
    "PS held out": Column("PS of held-out subjects", ((PAIRS, HELD_OUT, "ps"),), 50.0),
    "DS": Column(
        "share of facts about groups that are predicted as by the unchanged model",
        (("biaske", "differentiation {domain}", "ds"),),
    ),
    "LMS": Column(
        "share of StereoSet's pairs with a meaningful sentence preferred",
        (("stereoset", _SENTENCES, "lms"),),
        span=100.0,
    ),
    "ICAT": Column("LMS times the nearness of SS to 50", (("stereoset", _SENTENCES, "icat"),), 100.0),
    "SS BEC-Pro": Column("SS of BEC-Pro", (("biaske", "bec_pro", "ss"),), 50.0, of_gender=True),
    "PS BEC-Pro": Column(
        "PS of BEC-Pro, in wordings that no edit sees", ((PAIRS, "BEC-Pro", "ps"),), 50.0, of_gender=True
    ),
    "SS Winogender": Column("SS of Winogender", (("biaske", "winogender", "ss"),), 50.0, of_gender=True),
    "PS Winogender": Column(
        "PS of Winogender, in wordings that no edit sees", ((PAIRS, "Winogender", "ps"),), 50.0, of_gender=True
    ),
    "GAS": Column(
        "share of continuations of neutral templates that give a gender",
        (("neutral", "templates", "gas"),),
        0.0,
        of_gender=True,
    ),
    "OccuGender": Column(
        "correlation of the probability of women in a job with their share in it",
        (("occugender", "explicit", "labour_correlation"),),
        0.0,
        of_gender=True,
    ),
    "tau": Column(
        "share of sentences without gendered language with she and he about equally likely (0.5 nats)",
        (("unstereo", "ours-5", "tau@0.5"),),
        100.0,
        of_gender=True,
    ),
    "perplexity": Column(
        "perplexity of texts; of a masked model of one masked token at a time",
        (("text", "held-out texts", "perplexity"), ("text", "held-out texts", "pseudo_perplexity")),
        span=math.inf,
    ),
    "GLUE": Column("average of tasks of GLUE after fine-tuning, n seeds", (("glue", "average", "score"),), span=100.0),
    "HellaSwag": Column(
        "accuracy of lm-evaluation-harness, without examples", (("lm-eval", "hellaswag", "acc_norm"),), span=1.0
    ),
    "LAMBADA": Column(
        "accuracy of lm-evaluation-harness, without examples", (("lm-eval", "lambada_openai", "acc"),), span=1.0
    ),
}


def change_of(adapter: Adapter, column: str, domain: str) -> Change | None:
    """The change of an adapter in a column of the table of a domain, or None if it was not measured.

    SS of a benchmark is held out unless the adapter's recipe has read those pairs in the domain.
    """
    if COLUMNS[column].of_gender and domain != "gender":
        return None
    changes = {(change.benchmark, change.group, change.metric): change for change in adapter.changes}
    of = adapter.settings.get("domain", domain)
    edited = _STEREOSET in adapter.data or any(change.benchmark == PAIRS for change in adapter.changes)
    edited = edited and of in ("all", domain)
    for benchmark, group, metric in COLUMNS[column].places:
        change = changes.get((benchmark, group.format(domain=domain), metric))
        # Own pairs of all domains are not those of one.
        shown = of == domain if benchmark == PAIRS else not (edited and column == "SS held out")
        if change and shown:
            return change
    return None


def said(change: Change, column: str, p: float = 0.0) -> str:
    """What the difference says: nearer, further or unclear; for ability kept, lost or unclear.

    Perplexity is judged by its ratio: kept if the whole interval is below 2 % more. ``p`` is that of the change,
    corrected for all that are shown.
    """
    span = COLUMNS[column].span
    if math.isinf(span):
        value, low, high = (number / change.before[0] for number in change.difference)
        return ability_verdict((-value, -high, -low), 1.0)
    if COLUMNS[column].ability:
        return ability_verdict(change.difference, span)
    return verdict(change.before[0], change.difference, COLUMNS[column].ideal, p)


def p_value(change: Change) -> float:
    """P of no difference; from the interval where an earlier version did not write it."""
    return p_of(change.difference) if change.p is None else change.p
