"""Converts results to the two formats of the Hub: ``.eval_results`` files, and ``model-index`` of the card."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml, parse_eval_result_entries

from cards.evaluation import MODEL_ALONE, Result
from cards.matrix import Cell
from cards.text import CardError, slug

#: The folder in the repository of a model that has its results.
FOLDER = ".eval_results"
_NOTES = re.compile(
    r"(?P<metric>\S+) of (?P<group>.+?) \([^()]*\)(?:, 95 % interval (?P<low>\S+) to (?P<high>\S+))?, n (?P<n>\d+)"
    r"(?:, ideal (?P<ideal>[^\s,;]+))?(?:, range (?P<least>\S+) to (?P<most>[^\s;]+))?"
    r"; profile (?P<profile>[^;]*); (?P<setting>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Where numbers come from: the date, the address and name of a page, and the Hub user who is responsible."""

    date: str
    url: str | None = None
    name: str | None = None
    user: str | None = None


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
    for benchmark in dict.fromkeys(result.score.benchmark for result in results):
        new = [result for result in results if result.score.benchmark == benchmark]
        path = f"{FOLDER}/{'-'.join(slug(part) for part in (benchmark, new[0].setting) if part)}.yaml"
        entries = [*_kept_entries(current_text(path), path, new), *(_entry(result, source) for result in new)]
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True, width=1000)
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
    return [entry for entry in entries if entry.task_id not in {result.config for result in new}]


def _entry(result: Result, source: ResultSource) -> EvalResultEntry:
    return EvalResultEntry(
        dataset_id=result.repository,
        task_id=result.config,
        value=result.value,
        dataset_revision=result.commit or None,
        date=source.date,
        source_url=source.url,
        source_name=source.name,
        source_user=source.user,
        notes=result.notes,
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

    >>> about = "gas of stsb (test), 95 % interval 0.1 to 0.25, n 364, ideal 0, range 0 to 1"
    >>> score = parse_notes(f"{about}; profile clean; the model alone", 0.2)
    >>> score.metric, score.numbers, score.n, score.ideal, score.setting
    ('gas', (0.2, 0.1, 0.25), 364, 0.0, '')
    >>> parse_notes("with tools")
    """
    match = _NOTES.fullmatch(notes or "")
    try:
        return match and Cell(
            value,
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
    return [
        EvalResult(
            task_type=task,
            task_name="Bias",
            dataset_type=result.repository,
            dataset_name=f"{result.title} ({result.config})",
            dataset_config=result.config,
            dataset_split=result.splits[0] if len(result.splits) == 1 else None,
            dataset_revision=result.commit or result.tag,
            metric_type=result.score.metric,
            metric_name=f"{result.score.metric} of {result.score.group}"
            + f" ({result.setting})" * bool(result.setting),
            metric_value=result.value,
            metric_args={"setting": result.setting, "notes": result.notes},
        )
        for result in results
    ]
