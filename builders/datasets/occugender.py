"""OccuGender: jobs with their share of women, and prompts about the gender of a person in a job.

From *Causally Testing Gender Bias in LLMs: A Case Study on Occupational Bias* (Chen et al., 2024).
A prompt asks for the gender (``explicit``) or is the beginning of a sentence about the person (``implicit``);
the probabilities of male, female and diverse continuations are compared. The jobs and shares of women are those
of the paper's Table 7, which come from table 11 of the Current Population Survey 2021 (U.S. Bureau of Labor
Statistics, BLS).
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from openpyxl import load_workbook

from builders.dataset import BuildError, DataSet, Fetched, Files, Origin, Row, Rows, declared
from builders.parsers import read
from builders.text.embedded import DATA, PROJECT, table
from builders.text.wording import DEBIASING_PROMPTS, NO_DEBIASING
from builders.text.words import article

#: The source of the BLS table.
BLS = "bls/cpsaat11"

_WORDING = table("occugender")
#: Prompt templates by identifier, with the places ``{debiasing}`` and ``{job}``.
TEMPLATES: Mapping[str, str] = _WORDING["templates"]
EXPLICIT = ("explicit",)
IMPLICIT = ("implicit-2", "implicit-3", "implicit-4")


#: The published continuations, and this project's, by template and by what they say of the gender.
OPTIONS_PAPER: Mapping[str, Mapping[str, list[str]]] = _WORDING["published"]
OPTIONS: Mapping[str, Mapping[str, list[str]]] = _WORDING["continuations"]


def prompt(template: str, job: str, debiasing: str = "", *, mend: bool = True) -> str:
    """A template filled with a job and, optionally, a debiasing prompt after "Q:".

    With ``mend=False`` every job has the published article "a".

    >>> prompt("Q:{debiasing} Imagine a {job}.", "electrician", "Be fair.")
    'Q: Be fair. Imagine an electrician.'
    >>> prompt("Q:{debiasing} Imagine a {job}.", "electrician", mend=False)
    'Q: Imagine a electrician.'
    """
    if mend:
        template = template.replace("a {job}", f"{article(job)} {{job}}")
    return template.replace("{job}", job).replace("{debiasing}", debiasing and f" {debiasing}")


def slug(job: str) -> str:
    """The job in a row identifier: its words joined by hyphens.

    >>> slug("aircraft mechanic")
    'aircraft-mechanic'
    """
    return job.replace(" ", "-")


def dominated_by(female_percent: float) -> str:
    """The gender of most people in a job, ``female`` or ``male``.

    >>> dominated_by(98.2), dominated_by(1.1)
    ('female', 'male')
    """
    # Exactly half is called male; no job of the list has it.
    return "female" if female_percent > 50 else "male"


# The job list, and the table of the Bureau of Labor Statistics

#: The job list, as rows record it, and its path.
JOBS_FILE = "builders/data/occugender_jobs.csv"
JOBS_PATH = DATA / "occugender_jobs.csv"


@dataclass(frozen=True, slots=True)
class Occupation:
    """One row of the BLS table; the share is None where the table has a dash."""

    row: int
    employed_thousands: int
    female_percent: float | None

    @property
    def figures(self) -> str:
        """The share and the number of people, for an error message."""
        share = "no share of" if self.female_percent is None else f"{self.female_percent}%"
        return f"{share} women of {self.employed_thousands} thousand"


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the paper with its published share of women, and the title and figures of its row in the BLS table."""

    name: str
    published_female_percent: float
    bls_title: str
    female_percent: float
    employed_thousands: int


def share_of_women(value: object, place: str) -> float:
    """A percentage as a number; ``place`` is the beginning of the error message.

    Raises
    ------
    BuildError
        When it is not a number from 0 to 100.

    >>> share_of_women("98.2", "A job")
    98.2
    """
    try:
        number = float(str(value))
    except ValueError:
        # Refused below: no comparison with nan holds.
        number = math.nan
    if not 0 <= number <= 100:
        raise BuildError(f"{place} has the share of women {value!r}, expected 0 to 100; correct the share.")
    return number


_COLUMNS = ("job", "published_female_percent", "bls_title", "female_percent", "employed_thousands")
_NAME = re.compile(r"[a-z]+(?: [a-z]+)*")


def read_jobs(path: Path = JOBS_PATH) -> tuple[Job, ...]:
    """The job list, in the order of Table 7 of the paper.

    Raises
    ------
    BuildError
        When a share is not a percentage, or a name occurs twice or is not in lower case.

    >>> len(read_jobs()), read_jobs()[0].name
    (40, 'skincare specialist')
    """
    jobs: dict[str, Job] = {}
    for row in read.table(path, _COLUMNS):
        name, place = row["job"], f"{path.name}: {row['job']!r}"
        if name in jobs or not _NAME.fullmatch(name):
            raise BuildError(f"{place} is not a new name in lower-case words with single spaces; correct the name.")
        jobs[name] = Job(
            name,
            share_of_women(row["published_female_percent"], place),
            row["bls_title"],
            share_of_women(row["female_percent"], place),
            int(row["employed_thousands"]),
        )
    return tuple(jobs.values())


_HEADER = ("Occupation", "Total Employed", "Percent of total employed Women")
_DASH = "–"  # fewer than 50,000 people: the share is not published


def read_bls(path: Path) -> dict[str, Occupation]:
    """The rows of table 11 of the Current Population Survey, by title.

    The rows above the header have titles and units. Below it, rows without a count (blank rows, the footnote)
    are not occupations. Employment is in thousands.

    Raises
    ------
    BuildError
        When there is no header, a title occurs twice, or a share is not a percentage.
    """
    with path.open("rb") as file:
        # Read-only mode keeps the file open, so it is opened and closed here.
        workbook = load_workbook(file, read_only=True, data_only=True)
        rows = [tuple(map(_cell, row)) for row in workbook.worksheets[0].iter_rows(max_col=3, values_only=True)]
        workbook.close()
    if _HEADER not in rows:
        raise BuildError(f"{path.name} has no row {_HEADER}; the file is not the one this builder reads.")
    occupations: dict[str, Occupation] = {}
    first = rows.index(_HEADER) + 1
    for number, (title, employed, share) in enumerate(rows[first:], first):
        if not isinstance(employed, int):
            continue
        place = f"{path.name}: {title!r}"
        if title in occupations:
            raise BuildError(f"{place} is in two rows, expected one; the file is not the one this builder reads.")
        occupations[title] = Occupation(number, employed, None if share == _DASH else share_of_women(share, place))
    return occupations


def _cell(value: Any) -> Any:
    """A value of a cell; text with single spaces."""
    return " ".join(value.split()) if isinstance(value, str) else value


# Rows


def derive(jobs: Iterable[Job], fetched: Fetched) -> Rows:
    """A row for each job with the figures of the BLS table.

    Raises
    ------
    BuildError
        When the table has no row for a job, or other figures than the job list.
    """
    figures, file = read_bls(fetched.path), fetched.used.files[0].file
    for job in jobs:
        if job.bls_title not in figures:
            raise BuildError(
                f"The job {job.name!r} is missing from {file}, which has no row {job.bls_title!r}; "
                f"give it a title of the table in {JOBS_FILE}."
            )
        # The list repeats the figures of the table, so that a wrong title or another year is noticed.
        bls = figures[job.bls_title]
        if (bls.female_percent, bls.employed_thousands) != (job.female_percent, job.employed_thousands):
            raise BuildError(
                f"The job {job.name!r} has {job.female_percent}% women of {job.employed_thousands} thousand in "
                f"{JOBS_FILE}, but {bls.figures} in {file}; take the figures of the table."
            )
        values = {
            "job": job.name,
            "bls_title": job.bls_title,
            "female_percent": bls.female_percent,
            "employed_thousands": bls.employed_thousands,
            "group": dominated_by(job.female_percent),
            "published_female_percent": job.published_female_percent,
        }
        yield Row("test", slug(job.name), fetched.origin(bls.row), values)


def _published(_: Files) -> Rows:
    for number, job in enumerate(read_jobs()):
        share = job.published_female_percent
        values = {"job": job.name, "female_percent": share, "group": dominated_by(share)}
        yield Row("test", slug(job.name), Origin(PROJECT, JOBS_FILE, number), values)


def _prompts(templates: tuple[str, ...], paper: bool, _: Files) -> Rows:
    """A row for each template, debiasing prompt and job of the list, in this order."""
    shares = {job.name: job.published_female_percent if paper else job.female_percent for job in read_jobs()}
    texts = {template: TEMPLATES[template] for template in templates}
    return _prompt_rows(shares, texts, OPTIONS_PAPER if paper else OPTIONS, JOBS_FILE, mend=not paper)


def _prompt_rows(
    shares: Mapping[str, float],
    templates: Mapping[str, str],
    options: Mapping[str, Mapping[str, list[str]]],
    file: str,
    *,
    mend: bool,
    debiased: bool = True,
) -> Rows:
    """A row for each template, debiasing prompt (none without ``debiased``) and job of ``shares``, in this order."""
    for template, text in templates.items():
        for debiasing in (NO_DEBIASING, *(DEBIASING_PROMPTS if debiased else ())):
            for number, (job, share) in enumerate(shares.items()):
                values = {
                    "prompt": prompt(text, job, debiasing.text, mend=mend),
                    "job": job,
                    "female_percent": share,
                    "group": dominated_by(share),
                    "template": template,
                    "debiasing": debiasing.id,
                    "debiasing_prompt": debiasing.text or None,
                    "level": debiasing.level,
                    **{f"options_{gender}": forms for gender, forms in options[template].items()},
                }
                yield Row("test", f"{template}-{debiasing.id}-{slug(job)}", Origin(PROJECT, file, number), values)


# Other labour markets and languages


def read_shares(path: Path) -> dict[str, float]:
    """The percentage of women in each job of a table with the columns ``job`` and ``women``, as a user writes it.

    Raises
    ------
    BuildError
        When the file is not there, has other columns, a job twice, a share outside 0 to 100, or fewer than four jobs.
    """
    if not path.is_file():
        raise BuildError(f"There is no file {path}; write a CSV with the columns job and women (percentage of women).")
    shares: dict[str, float] = {}
    for row in read.table(path, ("job", "women")):
        place = f"{path.name}: {row['job']!r}"
        if not row["job"] or row["job"] in shares:
            raise BuildError(f"{place} is no new job; give each job one line.")
        shares[row["job"]] = share_of_women(row["women"], place)
    if len({dominated_by(share) for share in shares.values()}) < 2 or len(shares) < 4:
        raise BuildError(f"{path.name} has {len(shares)} jobs; give four or more, some with a majority of men.")
    return shares


def labour_market(
    shares: Path,
    name: str = "occugender",
    templates: Mapping[str, str] = TEMPLATES,
    options: Mapping[str, Mapping[str, list[str]]] = OPTIONS,
    language: str = "en",
) -> DataSet:
    """OccuGender with the jobs and the shares of women of a file, for another country or another language.

    Parameters
    ----------
    shares:
        A table that :func:`read_shares` reads. Its rows are the user's own, so nothing of them is published.
    templates, options:
        Prompts with a place ``{job}``, and the words that continue each, by ``male``, ``female`` and ``diverse``. Names
        begin with ``explicit`` or ``implicit``. English prompts have the right article and the debiasing prompts.
    """
    jobs = read_shares(shares)
    base = {config.name: config for config in DATASET.configs}

    def rows(style: str, _: Files) -> Rows:
        texts = {name: templates[name] for name in sorted(templates) if name.startswith(style)}
        is_english = language == "en"
        return _prompt_rows(jobs, texts, options, shares.name, mend=is_english, debiased=is_english)

    configs = []
    for style in ("explicit", "implicit"):
        summary = f"{base[style].summary.partition(', for')[0]}, for {len(jobs)} jobs of {shares.name}."
        configs.append(replace(base[style], summary=summary, rows=partial(rows, style), embedded=(), cite=CITED))
    differences = (f"Jobs and shares of women are those of {shares.name}, which this project did not check.",)
    # No version of the project has these rows, so no score of them can be taken for one of its own.
    return replace(
        DATASET,
        name=name,
        version="0.0.0",
        title=f"OccuGender with the shares of {shares.name}",
        configs=tuple(configs),
        differences=differences,
        language=language,
        benchmark={},
        changes={"0.0.0": "Rows of a file of the user."},
    )


CITED = ("chen2024occugender",)

DATASET = declared(
    "occugender",
    {
        "jobs": lambda files: derive(read_jobs(), files[BLS]),
        "jobs-paper": _published,
        "explicit": partial(_prompts, EXPLICIT, False),
        "explicit-paper": partial(_prompts, EXPLICIT, True),
        "implicit": partial(_prompts, IMPLICIT, False),
        "implicit-paper": partial(_prompts, IMPLICIT, True),
    },
)
