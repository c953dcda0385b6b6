"""The results of a model in the two forms of the Hub: files of ``.eval_results``, and ``model-index`` of the card."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml, parse_eval_result_entries

from cards.evaluation import ALONE, Result
from cards.text import CardError, slug

#: Where the Hub looks for results in the repository of a model.
FOLDER = ".eval_results"
_NOTES = re.compile(
    r"(?P<metric>\S+) of (?P<group>.+?) \([^()]*\)(?:, 95 % interval (?P<low>\S+) to (?P<high>\S+))?, n (?P<n>\d+)"
    r"(?:, ideal (?P<ideal>\S+))?; profile (?P<profile>[^;]*); (?P<setting>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Source:
    """When the numbers were found, and where they come from: a page, its name, and the user who answers for them."""

    date: str
    url: str | None = None
    name: str | None = None
    user: str | None = None


def eval_files(found: list[Result], source: Source, there: Callable[[str], str | None]) -> dict[str, bytes]:
    """The files of ``.eval_results``, one a benchmark, by their path; results of other tasks in them stay.

    Parameters
    ----------
    there:
        The text of a file that the repository has, or None.

    Raises
    ------
    CardError
        When a file of this name has results of another data set, or the Hub's own client reads something
        else back than was written.
    """
    files = {}
    for benchmark in dict.fromkeys(each.score.benchmark for each in found):
        own = [each for each in found if each.score.benchmark == benchmark]
        path = f"{FOLDER}/{'-'.join(slug(part) for part in (benchmark, own[0].setting) if part)}.yaml"
        entries = [*_kept(there(path), path, own), *(_entry(each, source) for each in own)]
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True, width=1000)
        if parsed(text, path) != entries:
            raise CardError(f"{path} does not come back as it was written; score the model again with this version.")
        files[path] = text.encode()
    return files


def _kept(there: str | None, path: str, own: list[Result]) -> list[EvalResultEntry]:
    """The results of a file that are of other tasks of the same data set."""
    entries = parsed(there, path) if there else []
    for entry in entries:
        if entry.dataset_id != own[0].repository:
            raise CardError(
                f"{path} is there with results of {entry.dataset_id}, and is not written over with those of "
                f"{own[0].repository}; rename it in the repository of the model first."
            )
    return [each for each in entries if each.task_id not in {result.config for result in own}]


def _entry(result: Result, source: Source) -> EvalResultEntry:
    return EvalResultEntry(
        dataset_id=result.repository,
        task_id=result.config,
        value=result.value,
        dataset_revision=result.revision,
        date=source.date,
        source_url=source.url,
        source_name=source.name,
        source_user=source.user,
        notes=result.notes,
    )


def parsed(text: str, where: str) -> list[EvalResultEntry]:
    """The entries of a file of ``.eval_results``, by the safe loader and the Hub client's own parser.

    Raises
    ------
    CardError
        When it is no list of results.
    """
    try:
        found = yaml.safe_load(text)
        if not isinstance(found, list):
            raise TypeError("no list")
        return parse_eval_result_entries(found)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise CardError(f"{where} holds no results in the form of the Hub ({type(error).__name__}); mend it.") from None


@dataclass(frozen=True, slots=True)
class Noted:
    """What notes of ours tell of a value; NaN where they tell no interval."""

    metric: str
    low: float
    high: float
    n: int
    ideal: float | None
    setting: str


def noted(notes: str | None) -> Noted | None:
    """What notes tell, where they are ours.

    >>> noted("gas of stsb (test), 95 % interval 0.1 to 0.25, n 364, ideal 0; profile clean; the model alone")
    Noted(metric='gas', low=0.1, high=0.25, n=364, ideal=0.0, setting='')
    >>> noted("with tools")
    """
    found = _NOTES.fullmatch(notes or "")
    try:
        return found and Noted(
            metric=found["metric"],
            low=float(found["low"] or "nan"),
            high=float(found["high"] or "nan"),
            n=int(found["n"]),
            ideal=float(found["ideal"]) if found["ideal"] else None,
            setting="" if found["setting"] == ALONE else found["setting"],
        )
    except ValueError:
        return None


def index(found: list[Result], task: str) -> list[EvalResult]:
    """The results as the Hub's older form, ``model-index``, has them; ``task`` is the model's on the Hub."""
    return [
        EvalResult(
            task_type=task,
            task_name="Gender bias",
            dataset_type=each.repository,
            dataset_name=f"{each.title} ({each.config})",
            dataset_config=each.config,
            dataset_split=each.splits[0] if len(each.splits) == 1 else None,
            dataset_revision=each.revision,
            metric_type=each.score.metric,
            metric_name=f"{each.score.metric} of {each.score.group}" + f" ({each.setting})" * bool(each.setting),
            metric_value=each.value,
            metric_args={"setting": each.setting, "notes": each.notes},
        )
        for each in found
    ]
