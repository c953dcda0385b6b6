"""The page ``docs/published.md``: its text is a template, and its tables are made from the kept scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from cards.common.text import templates
from scoring.responses.pythia_bias import change
from tools.docs.pages import ROOT, table
from tools.real_models.scores import Collected, Model, Score

PAGE = ROOT / "docs" / "published.md"
#: For each table the source, and its columns: head, group, metric, digits, and whether the interval is shown.
Column = tuple[str, str, str, int, bool]
TABLES: Mapping[str, tuple[str, Sequence[Column]]] = {
    "jobs": (
        "occugender-jobs",
        (
            ("implicit", "implicit", "labour_correlation_jobs", 2, True),
            ("explicit", "explicit", "labour_correlation_jobs", 2, True),
        ),
    ),
    "friend": (
        "gifi-friend",
        (
            ("GAS, text", "all prompts", "gas_plain", 3, False),
            ("GAS, 50 words", "all prompts", "gas_50_words", 3, False),
            ("GAS, sentence", "all prompts", "gas_sentence", 3, False),
            ("she or he", "all prompts", "friend_gendered", 3, True),
            ("they", "all prompts", "friend_they", 3, True),
            ("she of both", "all prompts", "friend_female", 3, True),
            ("r, jobs", "jobs", "friend_labour_correlation", 2, True),
            ("GLD, draws", "all prompts", "gld_draws", 3, False),
        ),
    ),
    "pronouns": (
        "gifi-pronouns",
        (
            ("xe, kept", "xe", "kept", 1, True),
            ("eight neopronouns, kept", "neopronouns", "kept", 1, True),
            ("the same, after the sentence", "neopronouns", "kept_after", 1, True),
            ("they, kept", "they", "kept", 1, True),
            ("sentence said again, %", "declared", "repeats", 0, False),
        ),
    ),
}
#: Of swapped pronouns: the source, groups with one metric, the ideal and the least value, and models before and after.
SWAPPED = {
    "swapped-crows": (
        "pythia-bias",
        "ss",
        ("gender",),
        (50.0, 0.0),
        [(f"pythia-{size} (first suite)", f"pythia-{size}-swapped (first suite)") for size in ("19m", "350m", "1.3b")]
        + [("pythia-1.3b (first suite)", "pythia-1.3b-swapped-long (first suite)")]
        + [("pythia-6.9b (first suite)", "pythia-6.9b-swapped (first suite)")],
    ),
    "swapped-winobias": (
        "pythia-winobias",
        "pro_less_anti",
        ("type 1, stands for", "type 1, refers to", "type 2, stands for", "type 2, refers to"),
        (0.0, -100.0),
        [(f"pythia-{size} (second suite)", f"pythia-{size}-swapped (second suite)") for size in ("410m", "1.4b")]
        + [("pythia-1.4b (second suite)", "pythia-1.4b-swapped-long (second suite)")]
        + [("pythia-6.9b (second suite)", "pythia-6.9b-swapped (second suite)")],
    ),
}


def text(numbers: Sequence[float], digits: int, *, ends: bool, sign: str = "") -> str:
    """A value, and its interval, without the 0 before the point of a number below 1.

    >>> text((0.9182, 0.9, 0.931), 3, ends=True), text((-3.44, -11.1, 4.31), 1, ends=True, sign="+")
    ('.918 [.900, .931]', '−3.4 [−11.1, +4.3]')
    """
    written = []
    for number in numbers:
        one = f"{number:{sign}.{digits}f}".replace("-", "−")
        written.append(re.sub(r"^(\D?)0\.", r"\1.", one) if digits > 1 else one)
    value, low, high = written
    return f"{value} [{low}, {high}]" if ends else value


def rows_of(models: Mapping[str, Model], source: str, columns: Sequence[Column]) -> Iterator[list[str]]:
    """A row for each model that has one of the scores."""
    for name, model in models.items():
        scores: list[Score | None] = [model.score(source, group, metric) for _, group, metric, *_ in columns]
        if any(scores):
            cells = []
            for score, (*_, digits, ends) in zip(scores, columns, strict=True):
                cells.append(text((score.value, score.low, score.high), digits, ends=ends) if score else "–")
            yield [name.partition(" (GIFI")[0], *cells]


def swapped_rows(models: Mapping[str, Model], name: str) -> Iterator[list[str]]:
    """A row for each group and pair of models: both scores, their difference, and what is said of it."""
    source, metric, groups, (ideal, least), pairs = SWAPPED[name]
    for group in groups:
        for pair in pairs:
            before, after = (models[one].score(source, group, metric) for one in pair)
            if before and after:
                both = [(score.value, score.low, score.high) for score in (before, after)]
                done = change(both[1], both[0], ideal, least)
                size = re.sub(r"pythia-| \(.*", "", pair[0]) + ", long" * ("-long" in pair[1])
                cells = [text(numbers, 1, ends=True) for numbers in both]
                difference = text(done.change, 1, ends=True, sign="+")
                yield [size, group, *cells, difference, done.verdict, f"{done.detectable:.1f}"]


def page(collected: Collected) -> str:
    """The page with its tables."""
    models = collected.models
    tables = {}
    for name, (source, columns) in TABLES.items():
        tables[name] = table(["model", *(head for head, *_ in columns)], list(rows_of(models, source, columns))).strip()
    heads = ["size", "group", "plain", "swapped", "difference", "verdict", "MDE"]
    for name in SWAPPED:
        tables[name] = table(heads, list(swapped_rows(models, name))).strip()
    text_of_page = templates(ROOT / "tools" / "templates").get_template("published.md.j2").render(tables=tables)
    return f"{text_of_page.rstrip()}\n"
