"""Gender-neutral probes: which gender a model's continuation gives to a friend of whom nothing is said.

From *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024) and *Probing Explicit and
Implicit Gender Bias through LLM Conditional Text Generation* (Dong et al., 2023). Each prompt ``My
friend …, and`` is continued greedily by 50 tokens, and the probabilities of the 20 forms of *she* and
*he* as its first token are kept. Each prompt is a cluster: a model is given, and prompts are what another
sample would have others of. A page says how many different texts there are, because a small model gives many
prompts one answer. In a chat the prompt is the user's turn, and the continuation and its first token are those
of the response; the papers have no chat.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cards.common.sentences import of_row
from cards.results import STATUSES
from scoring import types
from scoring.asking import answers
from scoring.metrics import add, friend, gas, pronouns, statuses, sums

DATASET = "gender-neutral-probes"
#: The sets of prompts: from two corpora, from two language models, and from templates about topics.
SETS = ("stsb", "snli", "llm-1", "llm-2", "templates")
#: The length of a continuation in both papers, in tokens.
NEW_TOKENS = 50
#: A continuation of about so many tokens, from which a dry run estimates costs.
EXAMPLE = " they have been at it for years, and they like it very much. " * 2


def requests(_: str, row: types.Row, _context: types.BenchmarkContext) -> Iterator[types.Request]:
    """One request: the probabilities of the forms as next token, and the continuation."""
    yield types.Request(row["id"], row["prompt"], candidates=pronouns.FORMS, max_new=NEW_TOKENS)


def to_record(_: str, row: types.Row, responses: types.Responses, _context: types.BenchmarkContext) -> types.Line:
    """The continuation with its class, JSD, and the probability of each form; NaN for one that is several tokens."""
    response = responses[row["id"]]
    chances = pronouns.to_record(response.candidate_logprobs)
    forms = {name: np.array([chance]) for name, chance in chances.items()}
    female, male = pronouns.mass(forms)
    record = {"id": row["id"]} | _about(row, response.text)
    record["female_mass"] = float(female[0])
    record["male_mass"] = float(male[0])
    # Stored with each row, so that a table of examples shows which prompts make the mean.
    record["jsd"] = float(sums.ratio(add.jsd().columns(forms))[0])
    return record | chances


def _about(row: types.Row, text: str) -> types.Line:
    """The columns that describe a prompt and a continuation."""
    return {
        "config": row["config"].removesuffix("-paper"),
        "topic": row.get("topic", ""),
        "stereotype": row.get("stereotype", ""),
        "prompt": row["prompt"],
        "text": text,
        "gender_class": gas.gender_class(text, row["prompt"]),
        "friend": friend.friend(friend.continuation_of(text, row["prompt"])),
    }


#: How names of metrics of a continuation's text begin.
OF_TEXT = ("gas", "friend_", "share_")


def groups(table: types.Table) -> Sequence[types.Group]:
    """Each set of prompts, and the template prompts by topic."""
    by_topic = frozenset({"gas_by_topic"})
    sets = []
    for name in SETS:
        # Only the template prompts have topics.
        without = by_topic
        if name == "templates":
            without = frozenset()
        sets.append(types.Group(name, table["config"] == name, without))
    for topic in np.unique(table["topic"]):
        if topic:
            sets.append(types.Group(f"templates {topic}", table["topic"] == topic, by_topic))
    return sets


def metrics(_: str) -> Sequence[types.Metric]:
    """Those of both papers; the alternative pairing of possessive forms shows how much the pairing matters."""
    names = "Average distribution divergence, her paired with his (ADD)", "ADD her/his"
    other = replace(add.add_raw(pronouns.POSSESSIVE_PAIRS), name="add_raw_her_his", names=names)
    return (
        gas.gas(),
        gas.gas_of("female"),
        pronouns.gld(),
        pronouns.pronoun_mass(),
        friend.gendered(),
        friend.female(),
        gas.gas_plain(),
        gas.gas_by_topic(),
        gas.gas_of("male"),
        gas.gas_gap(),
        add.add_raw(),
        other,
        add.add_log(),
        add.jsd(),
        pronouns.ratio_of("female"),
        pronouns.ratio_of("male"),
        *(gas.share(name) for name in gas.CLASSES),
        gas.share_refused(),
    )


def sampled_records(row: types.Row, texts: Sequence[str]) -> list[types.Line]:
    """A line for each answer, with its class."""
    lines = []
    for number, answer in enumerate(texts):
        text, ending = answers.final(answer)
        status: str = ending
        # A continuation is as long as the limit allows, so its end is not one of an answer.
        if status == answers.CUT and text:
            status = ""
        if not status and answers.declines(friend.continuation_of(text, row["prompt"])):
            status = answers.REFUSED
        line = {"id": f"{row['id']}/{number}", "row": row["id"]}
        lines.append(line | _about(row, text) | statuses.shares([status]))
    return lines


def sampled_groups(table: types.Table) -> list[types.Group]:
    """The groups of the answers that have a continuation, and of all answers for the shares of the others.

    A refusal counts as a continuation, which is neutral, as in the papers.
    """
    is_text = statuses.unanswered(table) - table["p_refused"] == 0
    kinds = frozenset(STATUSES)
    others = frozenset(metric.name for metric in sampled_metrics("clean")) - kinds
    result = []
    for group in groups(table):
        result.append(replace(group, mask=group.mask & is_text, without=group.without | kinds))
    for group in groups(table):
        result.append(replace(group, without=group.without | others))
    return result


def sampled_metrics(profile: str) -> Sequence[types.Metric]:
    """Those of the text of a continuation alone, and the shares of answers that have none."""
    of_text = [metric for metric in metrics(profile) if metric.name.startswith(OF_TEXT)]
    return [*of_text, *statuses.statuses()]


BENCHMARK = types.Benchmark(
    name="neutral",
    version="1.2.0",
    summary="Continues texts about a friend of unstated gender: GAS, GLD, ADD, R, JSD, pronoun mass (Dong et al.).",
    configs=tuple((DATASET, config + end, "test") for config in SETS for end in ("", "-paper")),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="id",
    kinds=("causal", "chat"),
    headline=types.Headline(
        DATASET,
        "gas",
        shown="templates",
        sentence=of_row("neutral", "gas"),
        leaning=("friend_female", "leans male", "leans female"),
        side=of_row("neutral", "friend_female"),
        column="share of continuations with a gendered pronoun",
        no_task="A continuation is neither right nor wrong, and nothing says how many are gendered by chance.",
    ),
    needs=lambda _profile, _context: frozenset({"logprobs", "generation"}),
    sampled=types.Sampled(
        question=lambda _, row: str(row["prompt"]),
        longest=NEW_TOKENS,
        to_records=sampled_records,
        metrics=sampled_metrics,
        groups=sampled_groups,
        # Several answers to a prompt depend on each other.
        cluster="row",
        example=EXAMPLE,
    ),
    contrast=types.Contrast(
        ("female", "male"),
        ("female_mass", "male_mass"),
        about=("config", "topic", "gender_class", "id"),
        probabilities=True,
    ),
    wordings="continuations",
)
