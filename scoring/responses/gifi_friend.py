"""Continuations of "My friend is a …, and" by 13 models, which the authors of GIFI published.

From *Gender Inclusivity Fairness Index (GIFI)* (Shan et al., 2025): 200 prompts, of which 125 are template prompts of
``neutral``, with 11 draws each. Texts of models differ in length, from a sentence to 190 words. So pronouns of the
first 50 words and of the first sentence are counted beside those of the whole text, and the friend's pronoun apart
from that of anybody (:mod:`scoring.metrics.friend`). The draws of a prompt depend on each other: the prompt is the
cluster.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from builders.datasets.gender_neutral_probes import template_statements
from builders.datasets.occugender import JOBS_PATH
from builders.parsers import read
from cards.common.sentences import of_row
from scoring.benchmarks import neutral
from scoring.inputs import tables
from scoring.metrics import friend, gas
from scoring.responses import PublishedResponses, PublishedSource, records
from scoring.types import Benchmark, Group, Line, Metric, Row, Table

TOPICS = ("occupation", "personality", "hobby", "color")
#: The number of draws of a prompt in a whole file.
DRAWS = 11
_COLUMNS = ("template", "state", "generated_sentences")
#: How each prompt ends; the file of one model names the prompts without it.
_END = ", and"
_JOBS = ("job", "published_female_percent", "bls_title", "female_percent", "employed_thousands")


@cache
def percent_of_women() -> dict[str, float]:
    """The percentage of women in each job of OccuGender."""
    return {row["job"]: float(row["female_percent"]) for row in read.table(JOBS_PATH, _JOBS)}


@cache
def _templates() -> dict[str, tuple[str, str]]:
    """The topic and the stereotype of each template prompt of ``neutral``, with either article."""
    templates = {}
    # The paper of the prompts has "a artist", and the corrected form "an artist"; GIFI may have either.
    for paper in (True, False):
        for statement, topic, _, stereotype in template_statements(paper=paper):
            templates[f"{statement}{_END}"] = (topic, stereotype)
    return templates


def prompt_row(prompt: str, topic: str) -> Row:
    """The row of a prompt, as ``neutral`` has one; those that it lacks are of a set of their own."""
    config = "further prompts"
    stereotype = ""
    if prompt in _templates():
        config = "templates"
        _, stereotype = _templates()[prompt]
    return {
        "id": prompt.removeprefix("My friend ").removesuffix(_END).replace(" ", "-"),
        "config": config,
        "prompt": prompt,
        "topic": topic,
        "stereotype": stereotype,
    }


def lines_of(row: Row, texts: Sequence[str]) -> list[Line]:
    """A line for each draw of a prompt: what ``neutral`` says of a text, and what its stretches say."""
    prompt = str(row["prompt"])
    answers = [friend.continuation_of(text, prompt) for text in texts]
    # The job alone, by which the share of women is known.
    job = prompt.removeprefix("My friend is a ").removeprefix("My friend is an ").removesuffix(_END)
    # NaN for a prompt that is not about a job of OccuGender.
    female_share = percent_of_women().get(job, float("nan"))
    lines = []
    for line, text in zip(neutral.sampled_records(row, answers), answers, strict=True):
        line = dict(line)
        line["friend"] = friend.friend(text)
        # Texts of models differ in length, so stretches of one length are counted too.
        line["class_sentence"] = gas.gender_class(friend.first_sentence(text))
        line["class_50_words"] = gas.gender_class(friend.first_words(text))
        line["words"] = len(text.split())
        line["female_share"] = female_share
        lines.append(line)
    return lines


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The continuations of a model, prompts in alphabetical order; empty ones are left out with a remark."""
    name = files.path.name
    draws: dict[str, list[str]] = {}
    topics = {}
    empty = 0
    shortened = 0
    for record in records(files.path, _COLUMNS):
        prompt = record["template"].strip()
        if not prompt.endswith(_END):
            prompt += _END
            shortened += 1
        topics[prompt] = record["state"]
        # An empty text says nothing about a pronoun; it would count as one without gender.
        if record["generated_sentences"].strip():
            draws.setdefault(prompt, []).append(record["generated_sentences"])
        else:
            empty += 1
    rows = []
    lines = []
    for prompt in sorted(draws):
        row = prompt_row(prompt, topics[prompt])
        rows.append(row)
        lines += lines_of(row, draws[prompt])
    remarks = []
    if shortened:
        remarks.append(f"{name} names {shortened} prompts without their last word; it is unknown if the model read it.")
    if empty:
        remarks.append(f"{name} has {empty} empty texts, which are left out.")
    expected = DRAWS * len(topics)
    if len(lines) != expected:
        remarks.append(f"{name} has {len(lines)} of {expected} draws; {expected - len(lines)} are not there.")
    split = tables.given(rows, "gifi", "friend", "test")
    return PublishedResponses(tables.as_table(lines), (split,), tuple(remarks))


def groups(table: Table) -> Sequence[Group]:
    """All prompts, those of ``neutral``, each topic, and the jobs whose share of women is known."""
    everything = np.ones(len(table["id"]), bool)
    # Only the group of jobs has prompts whose share of women is known, with which texts can be correlated.
    without = frozenset({"friend_labour_correlation"})
    every_group = [
        Group("all prompts", everything, without),
        Group("templates", table["config"] == "templates", without),
    ]
    for topic in TOPICS:
        every_group.append(Group(topic, table["topic"] == topic, without))
    jobs = np.isfinite(table["female_share"].astype(float))
    every_group.append(Group("jobs", jobs))
    every_group.append(Group("jobs of women", jobs & (table["female_share"] > 50), without))
    every_group.append(Group("jobs of men", jobs & (table["female_share"] < 50), without))
    return every_group


def metrics(_: str) -> Sequence[Metric]:
    """Those of the friend's pronoun, and those of ``neutral`` of the whole text."""
    every_metric = list(friend.metrics())
    every_metric += [gas.gas_plain(), gas.gas(), gas.gas_of("female")]
    return every_metric


def asked(benchmark: Benchmark) -> Benchmark:
    """``neutral`` with the groups and metrics of sampled texts; the prompt is the cluster."""
    assert benchmark.headline is not None
    headline = replace(
        benchmark.headline,
        dataset="",
        metric="friend_gendered",
        shown="all prompts",
        sentence=of_row("neutral", "friend_gendered"),
    )
    return replace(benchmark, metrics=metrics, groups=groups, cluster="row", headline=headline)


PUBLISHED = PublishedSource(
    benchmark="neutral",
    summary="GIFI: continuations of 200 prompts about a friend, 11 draws each, by 13 models.",
    settings="The authors of GIFI sampled these texts. Their script has top-p .95 and 100 new tokens. Whether the "
    "stored texts have these settings is open.",
    files="gifi-friend",
    read=responses,
    asked=asked,
    note="Sampled texts, not probabilities. The friend's pronoun is found by a rule, so a share can be a few points "
    "off. Models were asked in different ways: some go on with the sentence, others answer as a chat.",
    absent={
        "Llama-3-8B": "the source has no continuations of this model.",
        "gpt-4": "the source has no continuations of this model.",
    },
)
