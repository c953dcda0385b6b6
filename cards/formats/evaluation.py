"""Selects what is published of a run: one number for each task of the published data sets, in two formats of the Hub.

The Hub identifies a task by a data set and an id (:mod:`cards.dataset_card`) and takes one value for it, in
``.eval_results/*.yaml`` and in the ``model-index`` of the card. This module defines which metric of which
group that is; the other scores of a run are in the card.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml, parse_eval_result_entries

from cards.common.numbers import formatted, interval, supported_digits
from cards.common.sentences import say
from cards.common.text import CardError, grouped, slug
from cards.dataset_card import tasks
from cards.overview.model_matrix import Cell
from cards.results import LEAST_MASS, UNPUBLISHED, Estimate, Headline, Report

#: The setting in notes for a model that was scored without adapter and with the default settings.
MODEL_ALONE = "the model alone"
#: The folder in the repository of a model that has its results.
FOLDER = ".eval_results"
_NOTES = re.compile(
    r"(?P<metric>\S+) of (?P<group>.+?) \([^()]*\)(?:: (?P<value>[^\s,;]+))?"
    r"(?:, 95 % interval (?P<low>\S+) to (?P<high>\S+))?, n (?P<n>\d+)"
    r"(?:, ideal (?P<ideal>[^\s,;]+))?(?:, range (?P<least>\S+) to (?P<most>[^\s;]+))?(?:; with [^;]*)?"
    r"; profile (?P<profile>[^;]*); (?P<setting>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Result:
    """The published score of a task, with the repository, the version tag and the commit of its data set.

    ``commit`` is empty when the data set was read from a folder. ``computed`` says that the framework of the data set
    computes the value itself. ``also`` are scores that have to be near their ideal values too, and ``beside`` scores
    without one that are shown with it (:class:`cards.results.Headline`).
    """

    repository: str
    title: str
    tag: str
    commit: str
    config: str
    splits: tuple[str, ...]
    score: Estimate
    setting: str
    profile: str
    computed: Estimate | None = None
    also: tuple[Estimate, ...] = ()
    beside: tuple[Estimate, ...] = ()

    @property
    def closeness(self) -> float:
        """100 for the ideal value and 0 for the greatest distance from it, because higher is better on the Hub.

        Of several scores with an ideal value (``also``) the farthest from it counts, so that no model is best that is
        good at one of them alone. A ratio from 0 without an end, such as one of odds, is compared with its ideal as the
        smaller of the two over the larger. What the framework computes, and a metric without an ideal, has its own
        value.

        >>> score = Estimate("b", "g", "ss", 57.3, 54.0, 60.0, 1.5, 99, 99, ideal=50.0, least=0.0, most=100.0)
        >>> Result("o/d", "", "", "", "c", (), score, "", "clean").closeness
        85.0
        """
        computed = self.computed
        if computed:
            return float(supported_digits(computed.value, computed.low, computed.high))
        if self.score.ideal is None:
            return self.value
        return min(_closeness(score) for score in (self.score, *self.also))

    @property
    def value(self) -> float:
        """The value with the digits that its interval supports."""
        return float(self._digits(self.score.value))

    @property
    def notes(self) -> str:
        """What the number is and how it was measured; :func:`parse_notes` reads it."""
        score = self.score
        ends = interval(score.low, score.high, self._digits, ", 95 % interval {} to {}")
        ideal = "" if score.ideal is None else f", ideal {formatted(score.ideal)}"
        value = f"{self._digits(score.value)}{ends}, n {score.n}{ideal}"
        about = f"{score.metric} of {score.group} ({' and '.join(self.splits)}): {value}"
        about += f", range {score.least:g} to {score.most:g}"
        others = []
        for other in (*self.also, *self.beside):
            others.append(f"{other.metric} {supported_digits(other.value, other.low, other.high)}")
        if others:
            about += f"; with {', '.join(others)}"
        return f"{about}; profile {self.profile}; {self.setting or MODEL_ALONE}"

    def _digits(self, number: float) -> str:
        return supported_digits(number, self.score.low, self.score.high)


def _closeness(score: Estimate) -> float:
    """100 for the ideal value of a score that has one, and 0 for the greatest distance from it."""
    ideal = score.ideal or 0.0
    if is_ratio(score):
        value = _nearness(score.value, ideal)
        # The ideal value may be inside the interval, so the ends are in no fixed order.
        low, high = _nearness(score.low, ideal), _nearness(score.high, ideal)
        return float(supported_digits(value, min(low, high), max(low, high, value)))
    # The longer side of the range, so that 0 is the worst possible score on either side.
    percent = 100 / max(score.most - ideal, ideal - score.least)
    value = 100 - percent * abs(score.value - ideal)
    return float(supported_digits(value, percent * score.low, percent * score.high))


def _nearness(ratio: float, ideal: float) -> float:
    """The smaller of a ratio and its ideal value over the larger one, in percent: 2 and 0.5 are equally far from 1."""
    if not ratio > 0:
        return 0.0
    return 100 * min(ratio / ideal, ideal / ratio)


def is_ratio(score: Estimate) -> bool:
    """Whether a score is a ratio from 0 to infinity."""
    return score.least == 0 and score.most == math.inf and bool(score.ideal)


#: ``manifest(data set, version)`` gives the text of ``manifest.json`` of the published data set, and its commit.
Manifests = Callable[[str, str], tuple[str, str]]


def published_results(run: Report, organisation: str, manifest: Manifests) -> tuple[list[Result], list[str]]:
    """The results of a run that may be published, and a remark for each one that may not.

    Parameters
    ----------
    organisation:
        The organisation on the Hub that has the data sets.
    """
    results: list[Result] = []
    remarks: list[str] = []
    for benchmark in run.benchmarks:
        if benchmark not in run.headlines:
            remarks.append(say("card.no_task", benchmark=benchmark))
            continue
        headline = run.headlines[benchmark]
        scores = list(task_scores(run, benchmark))
        if any(version == UNPUBLISHED for _, version, _ in scores):
            remarks.append(say("card.no_rows", benchmark=benchmark))
            continue
        if not scores:
            about = {"benchmark": benchmark, "profile": run.profile, "metric": headline.column or headline.metric}
            remarks.append(say("card.no_metric", **about))
        for config, version, score in scores:
            text, commit = manifest(headline.dataset, version)
            facts = json.loads(text)
            try:
                results.append(_result(run, f"{organisation}/{facts['name']}", facts, commit, headline, config, score))
            except _NotPublished as reason:
                remarks.append(f"{benchmark}, {score.group}: {reason}")
    return results, remarks


class _NotPublished(Exception):
    """A score is not published; the message says why."""


def task_scores(run: Report, benchmark: str) -> Iterator[tuple[str, str, Estimate]]:
    """For each config of a benchmark: its name, the version of its data, and its main score."""
    headline, scores = run.headlines[benchmark], run.by_key
    seen = set()
    for name, version in run.data.items():
        # A name is DATASET/CONFIG/SPLIT; rows of no published data set have a shorter one.
        dataset, _, rest = name.partition("/")
        config = rest.partition("/")[0]
        score = scores.get((benchmark, headline.group(config), headline.metric))
        if dataset == headline.dataset and score and config not in seen:
            seen.add(config)
            yield config, version.split()[0], score


def _result(
    run: Report, repository: str, facts: dict[str, Any], commit: str, headline: Headline, config: str, score: Estimate
) -> Result:
    published = f"{facts['name']} {facts['version']}"
    tasks_by_id = {task["id"]: task for task in tasks(json.dumps(facts))}
    if config not in tasks_by_id:
        raise _NotPublished(say("card.no_config", where=published, config=config))
    task = tasks_by_id[config]
    declared = facts["benchmark"]
    if declared.get("alone"):
        raise _NotPublished(say("card.other_framework", framework=declared["framework"], where=published))
    prefix = f"{facts['name']}/{config}/"
    rows_by_split = {name.split("/")[2]: rows for name, rows in run.data.items() if name.startswith(prefix)}
    splits = sorted(rows_by_split)
    # A config whose group has a name of its own is scored on the split of its task alone.
    if config in headline.groups and task["split"] in rows_by_split:
        splits = [task["split"]]
    for split in splits:
        where = f"{config}/{split} of {published}"
        rows_published = facts["configs"][config]["splits"].get(split, {})
        # For example ``1.2.0 sha256:ab12…, 30 of 40 rows``: version, digest, and the part that was scored. The digest
        # is that of the published rows, or of the rows as they are built.
        digest, _, part = rows_by_split[split].partition("sha256:")[2].partition(", ")
        if digest not in (rows_published.get("content"), rows_published.get("built") or None):
            raise _NotPublished(say("card.other_rows", where=where))
        if part:
            raise _NotPublished(say("card.some_rows", part=part, where=where))
    if score.benchmark in run.inconclusive:
        raise _NotPublished(say("card.inconclusive", why=run.inconclusive[score.benchmark]))
    if (score.benchmark, score.group) in run.low_mass:
        mass = run.low_mass[score.benchmark, score.group]
        raise _NotPublished(say("card.mass", mass=f"{mass:.1f}", least=formatted(LEAST_MASS)))
    if not math.isfinite(score.value):
        raise _NotPublished(say("card.undefined", name=score.full_name, why=score.why or score.value))
    if score.ideal is not None and not math.isfinite(score.most - score.least) and not is_ratio(score):
        raise _NotPublished(say("card.endless", name=score.full_name))
    computed = None
    if "metric" in declared:
        computed = run.by_key.get((score.benchmark, score.group, declared["metric"]))
        if computed is None or not math.isfinite(computed.value):
            raise _NotPublished(say("card.other_metric", metric=declared["metric"], framework=declared["framework"]))
    of_group = {other.metric: other for other in run.estimates if other.key[:2] == score.key[:2]}
    for name in headline.also:
        if name not in of_group or not math.isfinite(of_group[name].value):
            raise _NotPublished(say("card.undefined", name=name, why="the value includes it"))
    return Result(
        repository=repository,
        title=facts["title"],
        tag=f"v{facts['version']}",
        commit=commit,
        config=config,
        splits=tuple(splits),
        score=score,
        setting=run.setting,
        profile=run.profile,
        computed=computed,
        also=tuple(of_group[name] for name in headline.also),
        beside=tuple(of_group[name] for name in headline.beside if name in of_group),
    )


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Where numbers come from: date, address and name of a page, and the Hub's user and organisation responsible."""

    date: str
    url: str | None = None
    name: str | None = None
    user: str | None = None
    org: str | None = None


def eval_files(
    results: list[Result], source: ResultSource, current_text: Callable[[str], str | None]
) -> dict[str, bytes]:
    """The files of ``.eval_results`` by path, one per benchmark; results of other tasks in them are kept.

    Parameters
    ----------
    current_text:
        ``current_text(path)`` gives the text of a file of the repository, or None.

    Raises
    ------
    CardError
        When such a file has results of another data set, or the Hub's own client does not read back what
        was written.
    """
    files = {}
    for benchmark, new in grouped(results, lambda result: result.score.benchmark).items():
        name = slug(benchmark)
        # Each setting has its own file, so that a run of the model alone keeps the results with an adapter.
        if new[0].setting:
            name += f"-{slug(new[0].setting)}"
        path = f"{FOLDER}/{name}.yaml"
        entries = _kept_entries(current_text(path), path, new)
        entries += [_entry(result, source) for result in new]
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True, width=1000)
        # The Hub reads the file with the same parser; what it does not give back would be another result there.
        if parse_entries(text, path) != entries:
            raise CardError(f"{path} is not read back as it was written; score the model again with this version.")
        files[path] = text.encode()
    return files


def _kept_entries(current: str | None, path: str, new: list[Result]) -> list[EvalResultEntry]:
    """The results in a file for other tasks of the same data set."""
    entries = parse_entries(current, path) if current else []
    for entry in entries:
        if entry.dataset_id != new[0].repository:
            raise CardError(
                f"{path} exists with results of {entry.dataset_id}, and is not replaced by those of "
                f"{new[0].repository}; rename it in the repository of the model first."
            )
    # The new results take the place of those of the same task.
    return [entry for entry in entries if entry.task_id not in {result.config for result in new}]


def _entry(result: Result, source: ResultSource) -> EvalResultEntry:
    # Older clients of the Hub have no field for the organisation.
    organisation = {}
    if source.org and "source_org" in EvalResultEntry.__dataclass_fields__:
        organisation["source_org"] = source.org
    return EvalResultEntry(
        dataset_id=result.repository,
        task_id=result.config,
        value=result.closeness,
        dataset_revision=result.commit or None,
        date=source.date,
        source_url=source.url,
        source_name=source.name,
        source_user=source.user,
        notes=result.notes,
        **organisation,
    )


def parse_entries(text: str, path: str) -> list[EvalResultEntry]:
    """The entries of a file of ``.eval_results``, by the safe YAML loader and the Hub client's own parser.

    Raises
    ------
    CardError
        When the text is not a list of results.
    """
    try:
        entries = yaml.safe_load(text)
        if not isinstance(entries, list):
            raise TypeError("not a list")
        return parse_eval_result_entries(entries)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = type(error).__name__
        raise CardError(f"{path} does not have results in the format of the Hub ({reason}); correct it.") from None


def parse_notes(notes: str | None, value: float = math.nan) -> Cell | None:
    """A value with the facts in the notes of its result; None when another program wrote them.

    ``value`` is that of the result, which notes of earlier versions did not repeat.

    >>> about = "gas of stsb (test): 0.2, 95 % interval 0.1 to 0.25, n 364, ideal 0, range 0 to 1"
    >>> score = parse_notes(f"{about}; profile clean; the model alone", 80.0)
    >>> score.metric, score.numbers, score.n, score.ideal, score.setting
    ('gas', (0.2, 0.1, 0.25), 364, 0.0, '')
    >>> parse_notes("with tools")
    """
    # Notes are free text of whoever wrote the result; only the form of this module is read.
    match = _NOTES.fullmatch(notes or "")
    try:
        return match and Cell(
            float(match["value"] or value),
            metric=match["metric"],
            low=float(match["low"] or "nan"),
            high=float(match["high"] or "nan"),
            n=int(match["n"]),
            ideal=float(match["ideal"]) if match["ideal"] else None,
            setting="" if match["setting"] == MODEL_ALONE else match["setting"],
            least=float(match["least"] or "nan"),
            most=float(match["most"] or "nan"),
        )
    except ValueError:
        return None


def model_index(results: list[Result], task: str) -> list[EvalResult]:
    """The results for the Hub's older format, ``model-index``; ``task`` is the task of the model on the Hub."""
    entries = []
    for result in results:
        name = f"{result.score.metric} of {result.score.group}"
        if result.setting:
            name += f" ({result.setting})"
        # The format has room for one split.
        split = result.splits[0] if len(result.splits) == 1 else None
        entry = EvalResult(
            task_type=task,
            task_name="Bias",
            dataset_type=result.repository,
            dataset_name=f"{result.title} ({result.config})",
            dataset_config=result.config,
            dataset_split=split,
            dataset_revision=result.commit or result.tag,
            metric_type=result.score.metric,
            metric_name=name,
            metric_value=result.value,
            metric_args={"setting": result.setting, "notes": result.notes},
        )
        entries.append(entry)
    return entries
