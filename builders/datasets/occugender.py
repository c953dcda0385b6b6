"""OccuGender: jobs with their share of women, and prompts about the gender of a person in a job.

From *Causally Testing Gender Bias in LLMs: A Case Study on Occupational Bias* (Chen et al., 2024).
A prompt asks for the gender (``explicit``) or is the beginning of a sentence about the person (``implicit``);
the probabilities of male, female and diverse continuations are compared. The jobs and shares of women are those
of the paper's Table 7, which come from table 11 of the Current Population Survey 2021 (U.S. Bureau of Labor
Statistics, BLS).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from builders.dataset import BuildError, Fetched, Files, Origin, Row, Rows, declared
from builders.embedded import PROJECT, table
from builders.parsers.occupations import JOBS_FILE, Job, read_bls, read_jobs
from builders.text.words import article
from builders.wording import DEBIASING_PROMPTS, NO_DEBIASING

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
    return "female" if female_percent > 50 else "male"


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
    """A row for each template, debiasing prompt and job, in this order."""
    jobs = read_jobs()
    for template in templates:
        options = (OPTIONS_PAPER if paper else OPTIONS)[template]
        for debiasing in (NO_DEBIASING, *DEBIASING_PROMPTS):
            for number, job in enumerate(jobs):
                share = job.published_female_percent if paper else job.female_percent
                values = {
                    "prompt": prompt(TEMPLATES[template], job.name, debiasing.text, mend=not paper),
                    "job": job.name,
                    "female_percent": share,
                    "group": dominated_by(share),
                    "template": template,
                    "debiasing": debiasing.id,
                    "debiasing_prompt": debiasing.text or None,
                    "level": debiasing.level,
                    **{f"options_{gender}": forms for gender, forms in options.items()},
                }
                yield Row(
                    "test", f"{template}-{debiasing.id}-{slug(job.name)}", Origin(PROJECT, JOBS_FILE, number), values
                )


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
