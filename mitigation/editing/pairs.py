"""Biased pairs as token queries: which two sentences an edit compares, and what it must not change.

With the score ``object`` an edit compares the tokens of the objects after the text before them, P[o|p] of FAST (Chen
et al., 2024, section 3). With ``clean`` and ``paper`` it compares the score of the benchmark in that profile
(:mod:`scoring.benchmarks._triplets`). In a causal model that is a mean over all tokens of the sentence: a gap of 3.8
nats at one pronoun of a sentence of 13 tokens is a gap of .29.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch

from builders.text.wording import BLANK, LABELS
from mitigation.recipe import MitigationError, TrainingData
from scoring.benchmarks import _triplets, stereoset
from scoring.inference.tokens import Query, Tokens
from scoring.inputs.tables import DataMissing
from scoring.types import BenchmarkContext, Option, Request, Row, ScoringError

DATASET = "biaske"
PAIR = LABELS[:2]
#: The score that is that of the objects alone.
OBJECT = "object"
#: The configs whose rows the benchmark StereoSet scores; the others are scored as pairs.
STEREOSET = frozenset({"stereoset", "stereoset-intersentence"})
#: Configs with several published wordings of the same statement about a subject: the name of the source, and the column
#: with the wording of a row.
WORDINGS = {"bec_pro": ("BEC-Pro", "template"), "winogender": ("Winogender", "prompt")}
T = TypeVar("T")


class Place(NamedTuple):
    """One of the answers of a query: the number of the query in the list, and of the answer in it."""

    query: int
    answer: int


@dataclass(frozen=True, slots=True)
class EditPair:
    """Queries for one pair: the two sentences, the end of their prompt, and the subject alone.

    ``prompt`` is the place among the queries ``biased`` at which the first token of the object is predicted;
    ``objects`` are the first tokens of both objects. ``alone`` queries the token after "{subject} is a"; in a
    masked model, that position is masked.
    """

    id: str
    subject: str
    biased: tuple[Query, ...]
    unbiased: tuple[Query, ...]
    prompt: Place
    objects: tuple[int, int]
    alone: Query

    @property
    def sides(self) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
        """The queries for the biased and for the unbiased sentence."""
        return self.biased, self.unbiased

    @property
    def lengths(self) -> tuple[int, int]:
        """How many tokens of the biased and of the unbiased sentence are scored."""
        return _answers(self.biased), _answers(self.unbiased)


def pair_rows(data: TrainingData, configs: Sequence[str], split: str, domain: str) -> list[Row]:
    """The rows of a domain in configs of biased knowledge, in their order; of all domains for ``all``.

    Raises
    ------
    DataMissing
        If a config is not available.
    MitigationError
        If no row is left.
    """
    rows: list[Row] = []
    for config in configs:
        rows += data.load(DATASET, config, split).rows
    chosen = [row for row in rows if domain in ("all", row["domain"])]
    if not chosen:
        domains = ", ".join(sorted({row["domain"] for row in rows}))
        raise MitigationError(f"{', '.join(configs)} have no pair of the domain {domain!r}; give all, or of {domains}.")
    return chosen


def split_wordings(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The rows to edit, and those that only measure: a subject in another published wording than its first.

    A row of a config without several wordings (see :data:`WORDINGS`) is to edit.

    >>> rows = [{"config": "winogender", "subject": "cook", "prompt": text} for text in ("The cook …", "One cook …")]
    >>> [[row["prompt"] for row in side] for side in split_wordings(rows)]
    [['The cook …'], ['One cook …']]
    """
    first_wording: dict[tuple[str, str], str] = {}
    edited: list[Row] = []
    measured: list[Row] = []
    for row in rows:
        config = str(row.get("config"))
        wording = ""
        if config in WORDINGS:
            _, column = WORDINGS[config]
            wording = str(row[column])
        # The wording of a subject's first row is that which is edited.
        if first_wording.setdefault((config, subject_of(row)), wording) == wording:
            edited.append(row)
        else:
            measured.append(row)
    return edited, measured


def other_wordings(data: TrainingData, domain: str) -> dict[str, list[Row]]:
    """By source, the rows of a domain that no edit sees; without the sources that are not available."""
    by_source = {}
    for config, (source, _) in WORDINGS.items():
        try:
            # Apart from the data of the recipe: what only measures is not recorded as read.
            rows = pair_rows(TrainingData(data.source, data.limit), [config], "test", domain)
        except (DataMissing, MitigationError):
            continue
        _, others = split_wordings(rows)
        by_source[source] = others
    return by_source


def held_by(row: Row) -> str:
    """By what a row is held out: its subject, or its prompt where a file of pairs names no subject.

    >>> held_by({"id": "a", "prompt": "The Nurse said [BLANK] left.", "object_biased": "she"})
    'the nurse said [blank] left.'
    """
    if row.get("subject") or row.get("config"):
        return subject_of(row).lower()
    return str(row["prompt"]).lower()


def subject_of(row: Row) -> str:
    """Whom a pair is about; without a subject (CrowS-Pairs), the people named by the biased sentence."""
    return str(row.get("subject") or row["object_biased"])


def whole_word(text: str, word: str) -> tuple[int, int] | None:
    """Start and end of the last place where a text has ``word`` as whole words, in any case; None without one.

    >>> whole_word("The chef said he came", "he"), whole_word("These girls", "girl")
    ((14, 16), None)
    """
    place = None
    for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE):
        place = match.span()
    return place


def each_possible(rows: Iterable[Row], make: Callable[[Row], T]) -> tuple[list[tuple[Row, T]], dict[str, str]]:
    """What ``make`` makes of each row, and the reason by id for the rows whose words are not whole tokens."""
    possible, left_out = [], {}
    for row in rows:
        try:
            possible.append((row, make(row)))
        except ScoringError as error:
            left_out[str(row["id"])] = str(error)
    return possible, left_out


def edit_pair(tokens: Tokens, row: Row, prefix: str = "", *, profile: str = OBJECT, family: str = "") -> EditPair:
    """The queries for a row after a prefix.

    Parameters
    ----------
    profile:
        What the edit compares: the objects (:data:`OBJECT`), or the score of the benchmark in a profile.
    family:
        The ``model_type`` of the model, on which StereoSet's published wording depends.

    Raises
    ------
    ScoringError
        If the object or the sentence does not consist of whole tokens, or does not fit into the model's window.
    """
    context = BenchmarkContext(tokens.kind, family=family)
    request = score_request(row, profile, context)
    # The prefix moves the spans of what is scored, and is not scored itself.
    opening = f"{prefix} " if prefix else ""
    length = len(opening)
    if request.context:
        requests = [replace(request, context=opening + request.context)]
    else:
        options = [_after(option, opening) for option in request.options]
        requests = [Request(row["id"], options=tuple(options))]
    requests.append(Request(row["id"], f"{subject_of(row)} is a", (Option(" person", ((1, 7),), "left"),)))
    if tokens.kind == "causal" and profile != OBJECT:
        # The tokens from the object on; the end of the prompt is in front of them.
        start = length + row["prompt"].index(BLANK)
        rest = tuple(replace(option, spans=((start, len(option.text)),)) for option in options)
        requests.append(Request(row["id"], options=rest))
    answered = list(tokens.queries(requests))
    (biased_queries, unbiased_queries), _ = answered[0]
    biased, unbiased = tuple(biased_queries), tuple(unbiased_queries)
    # Where nothing before the object is scored, its first token is the first answer.
    first_biased = first_unbiased = 0
    if len(answered) > 2:
        (biased_rest, unbiased_rest), _ = answered[2]
        first_biased = _answers(biased) - _answers(biased_rest)
        first_unbiased = _answers(unbiased) - _answers(unbiased_rest)
    place_biased = _place(biased, first_biased)
    place_unbiased = _place(unbiased, first_unbiased)
    objects = (
        biased[place_biased.query].want[place_biased.answer],
        unbiased[place_unbiased.query].want[place_unbiased.answer],
    )
    alone = answered[1][0][0][0]
    # "person" may be several tokens; the distribution of the first one is compared.
    alone = alone._replace(at=alone.at[:1], want=alone.want[:1])
    return EditPair(row["id"], subject_of(row), biased, unbiased, place_biased, objects, alone)


def score_request(row: Row, profile: str, context: BenchmarkContext) -> Request:
    """The request for the biased and the unbiased sentence of a row: of its objects, or that of a benchmark."""
    if profile == OBJECT and context.kind == "causal":
        spans = {label: scored_span(row, label) for label in PAIR}
        # Each pair is trained in the form in which it is measured, because the start token may differ: rows of a data
        # set are whole sentences. Of other pairs the text before is a context, as where a benchmark asks for the next
        # word: some tokenizers put no start token before it, and one that is a role marker (SmolLM2) would train
        # another text than users have.
        text_before = ""
        if "split" not in row:
            before = {str(row[f"sentence_{label}"])[:start].rstrip() for label, (start, _) in spans.items()}
            if len(before) == 1:
                text_before = before.pop()
        options = []
        for label, (start, end) in spans.items():
            text = str(row[f"sentence_{label}"])[len(text_before) :]
            options.append(Option(text, ((start - len(text_before), end - len(text_before)),)))
        return Request(row["id"], text_before, tuple(options))
    if profile == OBJECT:
        profile = "clean"  # a masked model predicts the object at its mask, which the benchmark scores too
    if row.get("config") in STEREOSET:
        (request,) = stereoset.requests(profile, row, context)
        return replace(request, options=request.options[:2])
    return _triplets.request(row, PAIR, context)


def scored_span(row: Row, label: str) -> tuple[int, int]:
    """Start and end of the characters of a sentence that a causal model is compared at, with the text before them.

    They are those of the object. What follows the object is not scored: it depends on the object, and a causal model
    does not read it where it predicts the object. Two kinds of rows are compared elsewhere, because nothing before
    their object says whom the sentence is about. Where the subject follows the object (BEC-Pro), the tokens of the
    subject are scored. Where no subject is named (CrowS-Pairs), or no text comes before the object, the object and
    all that follows it are.

    >>> from builders.parsers.triplets import filled
    >>> row = {"subject": "nurse", **filled("The nurse said [BLANK] left.", "she", "he")}
    >>> scored_span(row, "biased"), scored_span(row, "unbiased")
    ((15, 18), (15, 17))
    >>> row = {"subject": "nurse", **filled("My [BLANK] is a nurse.", "aunt", "uncle")}
    >>> scored_span(row, "unbiased")
    (14, 19)
    """
    start = row["prompt"].index(BLANK)
    end = start + len(row[f"object_{label}"])
    before, after = row["prompt"].split(BLANK)
    subject = row.get("subject")
    if subject and not whole_word(before, subject):
        place = whole_word(after, subject)
        if place:
            return end + place[0], end + place[1]
    unnamed = row.get("config") and not subject
    if unnamed or not before.strip():
        return start, len(row[f"sentence_{label}"])
    return start, end


def _after(option: Option, opening: str) -> Option:
    """An option with an opening before its text; no token of the opening is scored."""
    if not opening:
        return option
    length = len(opening)
    spans = option.spans or ((0, len(option.text)),)
    moved = tuple((start + length, end + length) for start, end in spans)
    return replace(option, text=opening + option.text, spans=moved)


def _answers(queries: Iterable[Query]) -> int:
    return sum(len(query.at) for query in queries)


def _place(queries: Sequence[Query], number: int) -> Place:
    """The place of an answer by its number through queries."""
    for which, query in enumerate(queries):
        if number < len(query.at):
            return Place(which, number)
        number -= len(query.at)
    raise MitigationError("No token of an object is scored; give other pairs.")


def mean_scores(logprobs: torch.Tensor, side: torch.Tensor, count: int, profile: str, kind: str) -> torch.Tensor:
    """The scores [count] of sentences whose scored tokens have the log-probabilities ``logprobs`` [tokens].

    ``side`` [tokens] is the number of each token's sentence. The mean is that of the benchmark in a profile
    (:func:`scoring.benchmarks._triplets.scores`), with gradients; that of objects is the mean of logarithms.
    """
    probabilities = _triplets.averages_probabilities(profile, kind)
    values = logprobs.exp() if probabilities else logprobs
    # A sum by sentence that keeps gradients, divided by the number of tokens.
    lengths = torch.bincount(side, minlength=count)
    means = torch.zeros(count, dtype=values.dtype, device=values.device).index_add(0, side, values) / lengths
    return means.log() if probabilities else means
