"""The result of a scoring run, and its file ``results.json``: what was scored, how, and every score with its interval.

This is the one writer and reader of the file. :func:`load` checks names and types of all fields; :func:`read` also
checks that every number is within the range of its metric, which publishing requires.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePath, PureWindowsPath
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, TypeAdapter, ValidationError, WrapValidator
from pydantic.dataclasses import dataclass as pydantic_dataclass

from cards.common.numbers import interval_text
from cards.common.sentences import say, unanswered_text
from cards.common.stored import STRICT, document, first_fault, parsed, without_checksum
from cards.common.text import CardError
from cards.common.verdict import Numbers

#: The version of ``results.json`` that is written and read.
SCHEMA: Literal[1] = 1
#: A lean or a gap between the answers to a question is concluded where the answer words have this much of the
#: probability, in percent. Below it the model rarely answers at all, and what it would say is a guess.
LEAST_MASS = 10.0
#: A test of language ability rejects chance with a p below this, so that random networks hardly ever pass.
LANGUAGE_LEVEL = 0.001
#: What a sampled answer can be that names no option; each is a metric of benchmarks asked in words, in percent.
STATUSES = ("refused", "unknown", "unclear", "cut", "empty", "blocked")
#: Above this percentage of such answers nothing is concluded: they could turn any side that the others show.
MOST_UNANSWERED = 50.0
#: The relative rounding error by which a number may exceed the range of its metric.
_ROUNDING = 1e-9


def _decode_infinity(value: Any) -> Any:
    """In ``results.json`` infinities are the strings "inf" and "-inf"."""
    if value in ("inf", "-inf"):
        return float(value)
    return value


#: In ``results.json`` an undefined number is null.
Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else _decode_infinity(value))]
MaybeNumber = Annotated[float | None, BeforeValidator(_decode_infinity)]
#: Benchmark, group and metric.
Key = tuple[str, str, str]


#: Facts of the environment: the branch, tag or commit that was asked for, and the number of the model's parameters.
NAMED_REVISION, PARAMETERS = "revision asked for", "parameters"
#: The version of rows that a benchmark has itself, in no published data set.
UNPUBLISHED = "unpublished"


@pydantic_dataclass(frozen=True, slots=True, config=STRICT)
class Headline:
    """The published number of a benchmark: the data set, the metric, and the group by config where names differ.

    ``shown`` is the group that reports show in one row, by default the first. ``sentence`` says in words what that
    row means: ``{ss}`` is the value of the metric ``ss`` as a whole number, ``{gas%}`` a share times 100,
    ``{r:2}`` a number with two decimals, and ``{group}`` what ``names`` calls the group that the row is of.
    ``unclear`` takes its place where the interval of the metric holds its ideal value. ``found`` says what the model
    does where the metric is below its ideal value, and what above. ``styles`` are groups with rows of their own after
    that of ``shown``: the same question in another form.
    ``leaning`` is a metric of the same group, what the model does where it is below its ideal value, and what above.
    Where it is not the metric of the headline, it has a row of its own, whose sentence is ``side``.
    ``column`` says in a few words what the metric is, for the head of a column of numbers. ``task`` is the task that a
    model has to be better at than by chance for a verdict: a group (empty for the one of the headline), a metric of
    which higher is better, and its value by chance. ``no_task`` says why there is none, in one sentence. ``mass`` is a
    metric of the same group, the probability of all answer words in percent: below :data:`LEAST_MASS` nothing is
    concluded of the group. ``also`` are metrics of the same group whose ideal values the published number has to reach
    as well: each of them is blind to what the others measure. ``beside`` are metrics without an ideal value, which a
    published number is shown with.
    """

    dataset: str
    metric: str
    groups: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""
    sentence: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    leaning: tuple[str, str, str] | None = None
    column: str = ""
    unclear: str = ""
    side: str = ""
    task: tuple[str, str, float] | None = None
    no_task: str = ""
    found: tuple[str, str] | None = None
    styles: tuple[str, ...] = ()
    mass: str = ""
    also: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def group(self, config: str) -> str:
        """The group of scores for a config.

        >>> Headline("gender-neutral-probes", "gas").group("stsb-paper")
        'stsb'
        """
        name = config.removesuffix("-paper")
        return self.groups.get(name, name)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A metric over a group of ``n`` examples in ``clusters`` clusters, with its 95 % interval.

    ``method`` names how the interval was computed (:mod:`scoring.statistics.intervals`). ``sd`` is that of the
    bootstrap. ``why`` explains a number that is not defined, which is NaN. ``ideal`` is the value of an unbiased model,
    ``reading`` says how to read the metric, ``ability`` marks one of language ability, and ``title`` and ``short`` are
    its names for readers. ``error`` is the standard error of the interval, before it is cut at the ends of the range,
    with its degrees of ``freedom``; ``detectable`` is the smallest true difference from the ideal value (of a
    difference: from 0) that a run of this size shows with a power of 80 %, infinite where it shows none. ``icc`` is the
    intraclass correlation of the examples of a cluster, of proportions; docs/intervals-measured.md says up to which the
    intervals hold.
    """

    __pydantic_config__ = STRICT
    benchmark: str
    group: str
    metric: str
    value: Number
    low: Number
    high: Number
    sd: Number
    n: int
    clusters: int
    ideal: MaybeNumber = None
    reading: str = ""
    why: str = ""
    method: str = ""
    ability: bool = False
    title: str = ""
    short: str = ""
    error: Number = math.nan
    freedom: Number = math.inf
    detectable: Number = math.nan
    icc: Number = math.nan

    @property
    def key(self) -> Key:
        """Benchmark, group and metric, by which a score is found in another run."""
        return self.benchmark, self.group, self.metric

    @property
    def full_name(self) -> str:
        """The full name of the metric; its name in files of earlier versions, and without a title."""
        return self.title or self.metric

    @property
    def short_name(self) -> str:
        """The short name of the metric, in the same way."""
        return self.short or self.metric

    @property
    def numbers(self) -> Numbers:
        """The value and both ends of its interval."""
        return self.value, self.low, self.high

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True, slots=True)
class Estimate(Measurement):
    """The value of a metric.

    ``printed_sd`` is the standard deviation by the formula of the paper where it has one, ``least`` and ``most`` are
    the ends of the metric's range, and ``label`` names it in the plot of scores by group. ``p`` is two-sided for the
    score being the ideal value, and ``bias`` is what the bootstrap finds the value to be too high (below 0: too low) on
    average, of a score that is the smallest or largest of several.
    """

    printed_sd: MaybeNumber = None
    least: Number = -math.inf
    most: Number = math.inf
    label: str = ""
    p: Number = math.nan
    bias: Number = math.nan

    @property
    def number(self) -> str:
        """The value with its interval as text."""
        if not math.isnan(self.value):
            return interval_text(self.value, self.low, self.high)
        if self.why:
            return f"not defined ({self.why})"
        return "not defined"

    @property
    def good(self) -> str:
        """Which values are good, in words."""
        return good_values(self.ideal, self.least, self.most)


def good_values(ideal: float | None, least: float = -math.inf, most: float = math.inf) -> str:
    """Which values of a metric are good, in words.

    >>> good_values(0, 0, 1), good_values(100, 0, 100), good_values(50, 0, 100), good_values(None)
    ('lower is better', 'higher is better', 'closer to 50 is better', 'no value is better')
    """
    if ideal is None:
        return "no value is better"
    return {least: "lower is better", most: "higher is better"}.get(ideal, f"closer to {ideal:g} is better")


def _complete(value: Any, validate: pydantic.ValidatorFunctionWrapHandler) -> Any:
    """A score of a file, which has also the fields that Python knows a default of, but for those of later versions."""
    score = validate(value)
    for declared in fields(score):
        # Otherwise a file from which a field was removed would be read with its default.
        if declared.name not in value and declared.name not in _LATER:
            details: Any = [{"type": "missing", "loc": (declared.name,), "input": value}]
            raise ValidationError.from_exception_data("results.json", details)
    return score


@dataclass(frozen=True, slots=True)
class Language:
    """Whether a model is better than chance at language, by :mod:`scoring.asking.language`.

    ``sentences`` is the number of neutral sentences in the tests.

    ``nats`` is the mean negative log-likelihood of a token, ``unigram`` that of a unigram model over the same tokens,
    and ``order`` the share of sentences that are more likely than their words in another order. ``p_unigram`` and
    ``p_order`` are one-sided for no difference from the unigram model, and from a half.
    """

    __pydantic_config__ = STRICT
    sentences: int
    nats: Number
    unigram: Number
    p_unigram: Number
    order: Number
    p_order: Number

    @property
    def speaks(self) -> bool:
        """Whether the model is better than chance in both tests."""
        return self.p_unigram < LANGUAGE_LEVEL and self.p_order < LANGUAGE_LEVEL

    @property
    def sentence(self) -> str:
        """What the tests found, in words.

        >>> Language(40, 7.9, 5.2, 1.0, 0.525, 0.4).sentence.partition(":")[0]
        'The model answers at chance'
        """
        # The exponential of the mean is the perplexity; above 700 it would be too large for a float.
        model = math.exp(min(self.nats, 700.0))
        frequencies = math.exp(min(self.unigram, 700.0))
        return say(
            "run.speaks" if self.speaks else "run.chance",
            model=f"{model:,.0f}",
            frequencies=f"{frequencies:,.0f}",
            ordered=round(self.order * self.sentences),
            count=self.sentences,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run found and what it was found with: the content of ``results.json``.

    ``data`` maps DATASET/CONFIG/SPLIT to version, digest and number of rows, and ``headlines`` has the published
    number of each benchmark that has one. ``examples`` describes the files with the examples, once they are written.
    ``language`` says whether the model is better than chance at language; None where it was not measured, as of models
    that give no probabilities. ``summary`` has the sentence and the headlines in words
    (:mod:`scoring.report.summary`), for readers of the file.
    """

    __pydantic_config__ = STRICT
    model: str
    revision: str
    adapter: str
    dtype: str
    prompt: str
    profile: str
    data: Mapping[str, str]
    estimates: tuple[Annotated[Estimate, WrapValidator(_complete)], ...]
    environment: Mapping[str, Any]
    speed: Mapping[str, Number] = field(default_factory=dict)
    headlines: Mapping[str, Headline] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    language: Language | None = None
    summary: Mapping[str, Any] = field(default_factory=dict, compare=False)
    schema: Literal[1] = SCHEMA

    @property
    def at_chance(self) -> frozenset[str]:
        """The benchmarks of which nothing is concluded, because the model is not better than chance at their task.

        They are all benchmarks of a model that is at chance at language (:attr:`Language.speaks`), and those at whose
        own task it is (:attr:`Headline.task`): the interval of that score holds its value by chance.
        """
        if self.language and not self.language.speaks:
            return frozenset(self.benchmarks)
        benchmarks = set()
        for benchmark, headline in self.headlines.items():
            if headline.task is None:
                continue
            group, metric, chance = headline.task
            score = self.by_key.get((benchmark, group or headline.shown, metric))
            # An interval below chance counts too: such a model has not understood the task either.
            if score and score.has_interval and score.low <= chance:
                benchmarks.add(benchmark)
        return frozenset(benchmarks)

    def unanswered(self, benchmark: str) -> dict[str, float]:
        """The percentage of each kind of sampled answers that name no option (:data:`STATUSES`), the largest first.

        It is of the group that the headline shows, or of the first one. Kinds without answers are left out.
        """
        scores = [e for e in self.estimates if e.benchmark == benchmark and e.metric in STATUSES]
        headline = self.headlines.get(benchmark)
        groups = [e.group for e in scores]
        if headline and headline.shown in groups:
            groups.insert(0, headline.shown)
        shares = {e.metric: e.value for e in scores if e.group == groups[0] and e.value > 0}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    @property
    def inconclusive(self) -> dict[str, str]:
        """Why nothing is concluded from a benchmark, in words, for each one of which that holds.

        They are those at chance (:attr:`at_chance`), and those with more than :data:`MOST_UNANSWERED` % of answers
        that name no option.
        """
        reasons = dict.fromkeys(sorted(self.at_chance), say("lean.chance"))
        for benchmark in self.benchmarks:
            shares = self.unanswered(benchmark)
            if sum(shares.values()) > MOST_UNANSWERED:
                reasons[benchmark] = say("lean.silent", shares=unanswered_text(shares))
        return reasons

    @property
    def low_mass(self) -> dict[tuple[str, str], float]:
        """The groups of which nothing is concluded, with the probability of their answer words in percent.

        It is below :data:`LEAST_MASS`. A group is named by its benchmark and its name.
        """
        groups = {}
        for score in self.estimates:
            headline = self.headlines.get(score.benchmark)
            if headline and score.metric == headline.mass and score.value < LEAST_MASS:
                groups[score.benchmark, score.group] = score.value
        return groups

    @property
    def name(self) -> str:
        """The public name of the model: of a path only its last part; a name ORG/MODEL of the Hub stays whole."""
        return last_part(self.model)

    @property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks, in their order."""
        return list(dict.fromkeys(score.benchmark for score in self.estimates))

    @property
    def by_key(self) -> dict[Key, Estimate]:
        """The scores by benchmark, group and metric."""
        return {score.key: score for score in self.estimates}

    @property
    def setting(self) -> str:
        """Adapter, prompt, profile and chat template in words; empty for the model alone with the default settings."""
        if not self.adapter:
            return self.settings()
        return self.settings(f"adapter {self.adapter.partition('@')[0]}")

    def settings(self, *more: str) -> str:
        """``more`` and what differs from the usual way to score, in words; empty for the usual way."""
        parts = [part for part in more if part]
        if self.prompt not in ("plain", ""):
            parts.append(f"prompt {self.prompt}")
        if self.profile not in ("clean", ""):
            parts.append(f"profile {self.profile}")
        if self.environment.get("chat template"):
            parts.append("chat template")
        return ", ".join(parts)

    @property
    def gaps(self) -> list[str]:
        """What a complete run would have and this one lacks, each in a few words; empty for a complete run."""
        parts = [f"{name}: {text.partition(', ')[2]}" for name, text in self.data.items() if ", " in text]
        return parts + [f"{name}: no data" for name in self.environment.get("data lacking") or []]

    @property
    def partial(self) -> bool:
        """Whether only a part of the rows of any split was scored."""
        return any(", " in version for version in self.data.values())


#: What a page says of a benchmark that this project does not know.
UNKNOWN = "not of this project"


@dataclass(frozen=True, slots=True)
class Upload:
    """A run as a page may show it, with the scores of its examples (``scoring.uploads.checked_run``).

    ``reported`` has the benchmarks whose scores only the owner of the run can know, ``unknown`` those that this project
    does not know, and ``changed`` those whose results say other values than their examples.
    """

    run: Report
    reported: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()

    def dataset(self, benchmark: str) -> str:
        """The data set of a benchmark; of an unknown one a name that no data set of this project has."""
        return f"{benchmark} ({UNKNOWN})" if benchmark in self.unknown else self.run.headlines[benchmark].dataset

    def sentences(self, where: str) -> Iterator[str]:
        """What a reader of the page has to know of the run, which is called ``where``."""
        if self.unknown:
            names = ", ".join(f"{name:.80}" for name in sorted(self.unknown))
            yield say("leaderboard.unknown", where=where, names=names, unknown=UNKNOWN)
        if self.changed:
            yield say("leaderboard.changed", where=where, names=", ".join(sorted(self.changed)))

    def remarks(self) -> Iterator[str]:
        """What a reader of the card of a model has to know of the run."""
        if self.reported:
            yield say("card.reported", names=", ".join(sorted(self.reported)))
        if self.changed:
            yield say("card.changed", names=", ".join(sorted(self.changed)))


_REPORT = TypeAdapter(Report)
#: Fields that the scores of the first versions did not have.
_LATER = ("method", "label", "ability", "title", "short", "error", "freedom", "detectable", "icc", "p", "bias")


def last_part(name: str, always: bool = False) -> str:
    """The last part of a path; a name ORG/MODEL of the Hub stays whole unless ``always`` the last part is wanted."""
    path = PureWindowsPath(name) if "\\" in name else PurePath(name)
    is_path = path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2
    return path.name or name if always or is_path else name


def text(report: Report, examples: Mapping[str, Any]) -> str:
    """The text of ``results.json``: sorted, and harmless inside a page."""
    return document(asdict(replace(report, examples=examples)), 2, in_page=True).decode()


def folder_of(path: Path) -> Path:
    """The folder of a run, also where a file of it is given, such as its ``report.html``."""
    return path.parent if path.is_file() else path


def runs_in(folder: Path) -> list[Path]:
    """The folders of runs that lie in a folder, as several models have theirs with one ``--out``."""
    return sorted(file.parent for file in folder.glob("*/results.json"))


def load(path: Path) -> Report:
    """The run in a ``results.json``, in the folder that has one, or of another file in that folder.

    Raises
    ------
    CardError
        When there is no such file, it has another schema, or a field is missing, unknown or of another type.
    """
    file = path
    if path.is_dir() or path.suffix in (".html", ".md"):
        file = folder_of(path) / "results.json"
    other = f"{file} is not results of schema {SCHEMA}; score the model again with this version."
    try:
        data = without_checksum(file.read_bytes())
        run = _REPORT.validate_json(data)
        if "schema" not in parsed(data):
            raise CardError(other)
        return run
    except OSError as error:
        runs = runs_in(path)
        if runs:
            raise CardError(
                f"{path} has {len(runs)} runs, such as {runs[0]}, and is none itself; name one of them."
            ) from None
        reason = error.strerror or type(error).__name__
    except ValidationError as error:
        faults = error.errors(include_url=False)
        if any(fault["loc"] in ((), ("schema",)) and fault["type"] != "json_invalid" for fault in faults):
            raise CardError(other) from None
        if faults[0]["type"] != "json_invalid":
            problem = f"{file} is not a complete results file ({first_fault(error)}); score the model again."
            raise CardError(problem) from None
        reason = faults[0]["msg"]
    raise CardError(f"{file} cannot be read as results ({reason}); give a results.json or its folder.")


#: The most characters of a name.
LONGEST = 300


def check_names(where: str, names: Iterable[str]) -> None:
    """Refuses a name that no page can hold.

    Raises
    ------
    CardError
        With its length.
    """
    for name in names:
        if len(name) > LONGEST:
            raise CardError(
                f"{where:.80} has a name of {len(name):,} characters, and {LONGEST} are the most; shorten it."
            )


def check_score(where: str, numbers: Numbers, ends: tuple[float, float], *counts: int) -> None:
    """Refuses what no score can be: a count below 0, an interval whose ends are exchanged, a value out of range.

    Parameters
    ----------
    ends:
        The least and the greatest value of the metric; NaN where they are not known.

    Raises
    ------
    CardError
        With the first such number.
    """
    _, low, high = numbers
    if low > high:
        raise CardError(f"{where} has an interval from {low:g} to {high:g}; score the model again.")
    for count in counts:
        if count < 0:
            raise CardError(f"{where} counts {count} examples or clusters, and 0 is the least; score the model again.")
    # Sums in another order, as on another processor, differ in the last digits.
    slack = _ROUNDING * max([1.0, *(abs(end) for end in ends if math.isfinite(end))])
    for name, number in zip(("value", "low", "high"), numbers, strict=True):
        # An undefined number is NaN, which is neither above nor below.
        if number < ends[0] - slack or number > ends[1] + slack:
            raise CardError(
                f"{where}: the {name} is {number:g}, but the metric ranges from {ends[0]:g} to {ends[1]:g}; this run "
                "is not published, score the model again."
            )


def check(where: str, run: Report) -> Report:
    """A run with all numbers within the range of their metric, and names that a page can hold.

    Raises
    ------
    CardError
        With the first number or name that cannot be.
    """
    check_names(where, (run.model, run.adapter, run.dtype, run.prompt, run.profile, *run.data, *run.headlines))
    check_names(where, (headline.dataset for headline in run.headlines.values()))
    for score in run.estimates:
        check_names(where, (*score.key, score.title, score.short, score.label))
        name = f"{score.benchmark}, {score.group}: {score.metric}"
        check_score(name, score.numbers, (score.least, score.most), score.n, score.clusters)
    return run


def read(path: Path) -> Report:
    """The run of :func:`load`, checked by :func:`check`.

    Raises
    ------
    CardError
        As :func:`load`, and as :func:`check`.
    """
    return check(str(path), load(path))
