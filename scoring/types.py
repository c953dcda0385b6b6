"""The types of scoring: requests and responses, metrics and benchmarks, comparisons of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cards.common.verdict import verdict
from cards.results import Estimate as Estimate
from cards.results import Headline as Headline
from cards.results import Measurement as Measurement
from cards.results import Report as Report

#: What the environment of a run names as its engine where others published the responses.
BY_OTHERS = "published responses"
#: The folder in which ``probes build`` writes, unless it is given another one.
DATA = "output"
Floats = NDArray[np.float64]
Row = Mapping[str, Any]


class ScoringError(Exception):
    """Scoring cannot continue. The message is one sentence for the person at the terminal."""

    exit_code = 1


def _unknown(what: object) -> Any:
    raise ScoringError(f"The model's tokenizer is not known here, and {what!r} needs it; score with a loaded model.")


@dataclass(frozen=True, slots=True)
class BenchmarkContext:
    """What a benchmark may know besides the row: facts of the model, and of the split that the row is in.

    Parameters
    ----------
    kind:
        ``causal`` or ``masked``.
    encode:
        Gives, for each text, its token ids and the character offsets of its tokens, without special tokens.
    longest:
        The number of tokens of the longest text in a column of the split.
    model, family:
        The name of the model, and the ``model_type`` of its configuration.
    padding_side:
        On which side its tokenizer pads.
    """

    kind: Literal["causal", "masked"]
    encode: Callable[[Sequence[str]], Sequence[Any]] = _unknown
    longest: Callable[[str], int] = _unknown
    model: str = ""
    family: str = ""
    padding_side: str = "right"


@dataclass(frozen=True, slots=True)
class Option:
    """A text whose log-probability is requested.

    ``spans`` are character ranges of ``text`` to which scoring is limited, in order; None means all of
    it. ``mask`` says how a masked model is asked, and a causal model ignores it: ``each`` masks one
    token of the spans at a time and leaves the rest of the sentence as it is; ``left`` replaces a
    span by the tokens revealed so far and one mask, from left to right; ``decoded`` does the same with
    text: the first span is encoded alone, each span is replaced by the decoded text of the tokens
    revealed so far and one mask, and this new text is encoded. ``width`` has a causal model
    read context and option padded to so many tokens, between the beginning-of-sequence token and the
    first of theirs; 0 pads nothing, and a masked model ignores it. ``start`` says which tokens of an
    option without a context follow the start token in a causal model: ``all`` of them, or the ``first``
    alone, and the others follow only the tokens of the option before them; a masked model ignores it.
    """

    text: str
    spans: tuple[tuple[int, int], ...] | None = None
    mask: Literal["each", "left", "decoded"] = "each"
    width: int = 0
    start: Literal["all", "first"] = "all"

    def after_space(self) -> Option:
        """The option with a space before it."""
        spans = self.spans and tuple((start + 1, end + 1) for start, end in self.spans)
        return replace(self, text=f" {self.text}", spans=spans)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    ``options`` are scored as continuations of ``context`` (a leading space belongs to the option; an
    empty context is a whole sentence after the beginning-of-sequence token). ``candidates`` are forms
    whose probability as the next token after the context is wanted. ``max_new`` > 0 continues the
    context by so many tokens.
    """

    id: str
    context: str = ""
    options: tuple[Option, ...] = ()
    candidates: tuple[str, ...] = ()
    max_new: int = 0

    def after(self, text: str) -> Request:
        """The request with a text and a space before its context, or before its options where it has none."""
        if self.context:
            return replace(self, context=f"{text} {self.context}")
        return replace(self, context=text, options=tuple(option.after_space() for option in self.options))


@dataclass(frozen=True, slots=True)
class Response:
    """What a model answered; natural logarithms throughout.

    ``logprobs`` has, per option, the log-probability of each scored token. ``candidate_logprobs`` has, per
    candidate form, the log-probability of its single token with a leading space, or NaN for a form
    that is more than one token. ``text`` is the continuation without special tokens.
    """

    id: str
    logprobs: tuple[tuple[float, ...], ...] = ()
    candidate_logprobs: tuple[float, ...] = ()
    text: str = ""


#: What a model answered to the requests of a row, by the name of the request.
Responses = Mapping[str, Response]
#: An example in a benchmark's table: column to value.
Line = dict[str, Any]
#: A table of one line per example: column name to array, all of one length.
Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A number computed from sums over a table of examples.

    A metric has two parts, so that the bootstrap is fast: what each example adds, and the value of the
    sums. The examples of a cluster are added up first. All resamples of all metrics are then one matrix
    product, counts [resamples, clusters] by sums [clusters, columns].

    Parameters
    ----------
    name:
        The field's standard name, with its setting where it has one (``tau@0.5``).
    columns:
        ``columns(table)`` gives what each example adds, of shape [examples, ..., k]. Pure; the table
        holds the examples of one group.
    final:
        ``final(sums)`` makes values [...] of sums [..., k]; NaN where the value is not defined.
    ideal, low, high:
        The value of an unbiased model (None when there is none) and the range of possible values.
    reading:
        One sentence that says how to read it, with the paper and equation or table.
    names:
        Its title, and a short one of at most 14 letters for terminals; without them it is called by ``name``.
    undefined:
        Why the value may be NaN although there are examples.
    sd:
        ``sd(value, examples)``, the standard deviation that the paper prints, where it has a formula.
    events:
        For a proportion, ``events(table)`` gives an event and a weight for each example, of shape
        [examples, 2]: the value is ``high`` · Σ events / Σ weights, and an event is at most its weight
        in size. Events are 0 or more where ``low`` is 0. Intervals of rare events need it
        (:mod:`scoring.statistics.intervals`).
    absolute:
        The value is the size of that proportion, whose events have both signs.
    label:
        Its name in the plot of scores by group; without one it is not drawn there.
    ability:
        It measures language ability, not bias; comparisons say whether the ability is kept.
    correlation:
        It is Pearson's correlation, ``final`` of sums [..., 6] of :func:`scoring.metrics.sums.products`.
    cluster:
        The column whose equal values depend on each other for this metric, where each example is a cluster of the
        benchmark: a pair of prompts is one for a difference within pairs, and not for a share of texts.
    pieces:
        ``pieces(sums)`` gives smooth scores [..., pieces], of which the value is the smallest or the largest, as
        ``extreme`` says, or [..., parts, pieces], of which it is the mean over parts. A value with such a kink is
        biased where two pieces are equal, and its bootstrap too; its interval follows from those of the pieces
        (:func:`scoring.statistics.intervals.of_extreme`).
    parts:
        ``parts(sums)`` gives values [..., parts] whose mean is the value, and which are drawn at random as clusters
        are, such as those of several wordings; the interval includes the variance between them.
    """

    name: str
    columns: Callable[[Table], Floats]
    final: Callable[[Floats], Floats]
    ideal: float | None
    low: float
    high: float
    reading: str
    undefined: str = "what it divides by is 0 on these rows"
    sd: Callable[[float, int], float] | None = None
    events: Callable[[Table], Floats] | None = None
    absolute: bool = False
    label: str = ""
    ability: bool = False
    correlation: bool = False
    pieces: Callable[[Floats], Floats] | None = None
    cluster: str = ""
    extreme: Literal["smallest", "largest"] = "smallest"
    parts: Callable[[Floats], Floats] | None = None
    names: tuple[str, str] = ("", "")

    def value(self, table: Table, weights: Floats) -> Floats:
        """Values [resamples] of a table whose examples have the weights [resamples, examples]."""
        return self.final(np.tensordot(weights, self.columns(table), axes=1))


@dataclass(frozen=True, slots=True)
class Group:
    """Examples that metrics are computed over: a name such as ``ours-5 eps<=0.65`` and a row mask.

    ``without`` names the metrics that are not reported of it, such as a correlation over jobs for one job.
    """

    name: str
    mask: NDArray[np.bool_]
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two columns of numbers whose difference says what the model prefers; reports show the largest differences.

    ``names`` are those of the two sides, ``sentences`` the columns with their texts, ``about`` the columns that
    describe an example. ``probabilities`` says that the numbers are probabilities, not their logarithms.
    """

    names: tuple[str, str]
    numbers: tuple[str, str]
    sentences: tuple[str, ...] = ()
    about: tuple[str, ...] = ("id",)
    probabilities: bool = False


@dataclass(frozen=True, slots=True)
class HarnessTask:
    """A task of lm-evaluation-harness: ``metrics`` of the rows of some ``configs``.

    ``name`` follows the name of the benchmark, and "" is the benchmark as a whole. ``where`` has the values of
    columns that a row must have. ``group`` says with which tasks it is grouped: those of the whole benchmark by
    default, others of that name, or none.
    """

    name: str
    metrics: tuple[str, ...]
    configs: tuple[tuple[str, str, str], ...]
    where: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = ""


#: What a score is of, in words of the benchmark, with its group and metric.
ScoredItem = tuple[Mapping[str, Any], Group, Metric]


@dataclass(frozen=True, slots=True)
class ScoredExamples:
    """Examples with existing scores: a table, the cluster of each row, and metrics of groups.

    Each item has a metric and its group, described in words of the benchmark such as ``{"dataset": "ours-5"}``.
    """

    table: Table
    clusters: NDArray[Any]
    items: Sequence[ScoredItem]


class Answer(str):
    """A text that a model wrote, with the reason why it ended, as servers name it: ``stop``, ``length`` and others.

    ``logprobs`` has the log-probabilities of the tokens that could begin it, where the server gives them.

    >>> Answer("A. The man", "length").ended, str(Answer("A. The man"))
    ('length', 'A. The man')
    """

    ended: str
    logprobs: Mapping[str, float]

    def __new__(cls, text: str, ended: str = "stop", logprobs: Mapping[str, float] | None = None) -> Answer:
        """The text with its reason."""
        answer = super().__new__(cls, text)
        answer.ended = ended
        answer.logprobs = logprobs or {}
        return answer


@dataclass(frozen=True, slots=True)
class Sampled:
    """How a benchmark is asked where a model only answers in words: each question several times.

    Parameters
    ----------
    question:
        ``question(profile, row)`` gives the text of a user's turn, or several, or nothing for a row that is not asked.
    longest:
        The most tokens of an answer.
    to_records:
        ``to_records(row, answers)`` makes lines of the table from the answers to a row's questions, in order. They are
        texts, from servers as :class:`Answer`.
    metrics, groups, cluster:
        As of :class:`Benchmark`; shares of answers take the place of probabilities.
    example:
        A usual answer, from which a dry run estimates costs.
    opening:
        What is asked before each question, with the model's answer: the samples have one of them after the other.
    letters:
        Whether an answer is a letter, whose log-probabilities a server is then asked for.
    """

    question: Callable[[str, Row], str | Sequence[str]]
    longest: int
    to_records: Callable[[Row, Sequence[str]], Sequence[Line]]
    metrics: Callable[[str], Sequence[Metric]]
    groups: Callable[[Table], Sequence[Group]]
    cluster: str
    example: str
    opening: Sequence[str] = ()
    letters: bool = False


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its data, the requests to a model, the table of records and the metrics of the table.

    A file ``scoring/benchmarks/NAME.py``, or a file outside the project named by ``--include``, defines one
    as ``BENCHMARK``; reports, cards, leaderboard and harness tasks know it by these fields alone.

    Parameters
    ----------
    configs:
        Triples (data set, config, split) to read.
    requests:
        ``requests(profile, row, context)`` gives the requests of a row; their ids begin with the row's. A
        row without requests is not in the profile, or does not suit this kind of model.
    to_record:
        ``to_record(profile, row, responses, context)`` makes one line of the table from the responses by
        id.
    groups:
        ``groups(table)`` gives the groups of rows that are reported.
    metrics:
        ``metrics(profile)`` gives the metrics, the most important first.
    cluster:
        The column whose equal values depend on each other and are resampled together.
    kinds:
        The kinds of models that it suits; ``chat`` is a causal model asked through its chat template.
    agreements:
        Metrics of two runs: of the table of one with the columns of the other, the base, as ``base_…``.
    headline:
        The number that cards and the leaderboard show; None for none.
    contrast:
        What reports show as the most decisive examples; None for none.
    tasks:
        Its tasks of lm-evaluation-harness.
    score_file:
        ``score_file(path, data)`` reads a file of existing scores for ``probes rescore``, and gives examples
        and remarks on the file; ``data`` is the folder of the built data sets.
    rows:
        ``rows(data set, config, split)`` for a benchmark that has its rows itself, not in a built data set.
    note:
        What scores mean and do not mean; without it, the text of the first data set is used.
    needs:
        ``needs(profile, context)`` gives what an engine has to be able to do
        (:data:`scoring.inference.engine.Capability`), besides scoring masks for masked models.
    sampled:
        How it is asked through a chat API; None for a benchmark that needs probabilities.
    each:
        ``each(row)`` gives the rows that are asked in place of one, such as one for each wording.
    joined:
        ``joined(tables)`` makes the table from those of other benchmarks of the run, in place of requests.
    beyond:
        ``beyond(row)`` says whether a row is of other groups than the headline, such as one with a debiasing prompt;
        such rows are asked on request alone (``--groups all``).
    sample:
        ``sample(row)`` gives the cluster of a row and its stratum, by which a part of the rows is drawn
        (``--limit``): as many clusters as possible, and strata in their proportions. By default a row is a cluster.
    wordings:
        The class of neutral texts (``scoring/data/wordings.toml``) that may stand before its items, such as
        ``sentences`` or ``continuations``; ``template`` for the one that the ``template`` of a row begins with. Empty
        for a benchmark whose items have no wordings.
    """

    name: str
    version: str
    summary: str
    configs: tuple[tuple[str, str, str], ...]
    requests: Callable[[str, Row, BenchmarkContext], Iterator[Request]]
    to_record: Callable[[str, Row, Responses, BenchmarkContext], Line]
    groups: Callable[[Table], Sequence[Group]]
    metrics: Callable[[str], Sequence[Metric]]
    cluster: str
    kinds: tuple[Literal["causal", "masked", "chat"], ...] = ("causal",)
    agreements: Callable[[str], Sequence[Metric]] = lambda _: ()
    headline: Headline | None = None
    contrast: Contrast | None = None
    tasks: tuple[HarnessTask, ...] = ()
    score_file: Callable[[Path, Path], tuple[list[ScoredExamples], list[str]]] | None = None
    rows: Callable[[str, str, str], Iterable[Row]] | None = None
    note: str = ""
    needs: Callable[[str, BenchmarkContext], frozenset[str]] = lambda _profile, _context: frozenset({"logprobs"})
    sampled: Sampled | None = None
    each: Callable[[Row], Iterable[Row]] | None = None
    joined: Callable[[Mapping[str, Table]], Table] | None = None
    wordings: str = ""
    beyond: Callable[[Row], bool] | None = None
    sample: Callable[[Row], tuple[str, str]] | None = None

    def configs_of(self, profile: str) -> list[tuple[str, str, str]]:
        """The configs a profile reads: the published form (``-paper``) of those that have one, or the project's own."""
        names = {config for _, config, _ in self.configs}
        places = []
        for place in self.configs:
            _, config, _ = place
            if profile == "paper":
                # A published form takes the place of the project's own.
                if f"{config}-paper" not in names:
                    places.append(place)
            elif not config.endswith("-paper"):
                places.append(place)
        return places

    def items(self, profile: str, table: Table, metrics: Sequence[Metric] | None = None) -> list[tuple[Group, Metric]]:
        """The groups of a table that have rows, each with every metric that is reported of it.

        ``metrics`` are those of the profile by default.
        """
        if metrics is None:
            metrics = self.metrics(profile)
        pairs = []
        for group in self.groups(table):
            if not group.mask.any():
                continue
            for metric in metrics:
                if metric.name not in group.without:
                    pairs.append((group, metric))
        return pairs

    @property
    def validity(self) -> str:
        """What scores mean and do not mean; paragraphs are separated by an empty line."""
        if self.note or self.rows:
            return self.note
        from builders import datasets  # imports every builder, which a list of benchmarks does not need

        return datasets.get(self.configs[0][0]).validity


@dataclass(frozen=True, slots=True)
class Difference(Measurement):
    """The value of a metric in one run minus that in another over the same examples.

    ``p`` is two-sided for no difference, and ``p_side`` for the mean of both scores being the ideal value (0 where the
    ideal value is an end of the range, NaN without one). ``p_holm`` is p, and ``p_direction`` is the p of the direction
    against the ideal value, both corrected for all differences of the comparison
    (:func:`cards.common.verdict.corrected`).
    """

    p: float = math.nan
    p_holm: float = math.nan
    p_side: float = math.nan
    p_direction: float = math.nan


@dataclass(frozen=True, slots=True)
class ComparedScore:
    """A difference with the scores of both runs; None where a run did not report one.

    ``inconclusive`` says in words why nothing is concluded from a run (:attr:`cards.results.Report.inconclusive`); it
    is empty where something is.
    """

    difference: Difference
    before: Estimate | None
    after: Estimate | None
    inconclusive: str = ""

    @property
    def verdict(self) -> str:
        """By :func:`cards.common.verdict.verdict`: ``nearer``, ``further``, ``changed``, ``unclear`` or ``identical``.

        It is empty without an ideal or a value before, and where nothing is concluded from a run.
        """
        d = self.difference
        if self.inconclusive or not self.before:
            return ""
        return verdict(self.before.value, d.numbers, d.ideal, d.p_holm, d.p_direction)
