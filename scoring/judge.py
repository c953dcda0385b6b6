"""Texts for people to judge, and what their answers say: agreement, corrected scores, errors of a reader.

A score that a program reads from texts has the errors of that program. *Probing Explicit and Implicit Gender Bias*
(section 3) lets people decide texts with both pronouns, UnStereoEval drew samples by the models' preference for people
to read, and FAST had paraphrases written. :func:`sample` draws so many texts of each stratum, in an order that says
nothing, and :func:`read` takes the answers.

Of each stratum h there are N_h texts, of which n_h are judged. The share of an answer over all texts is
Σ N_h / N · p_h, where p_h is its share among the judged ones; of several judges each counts equally in a text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from builders.datasets.unstereo import from_published, mend
from builders.text import words
from cards.common.text import as_text, templates
from scoring.inputs.prompt_file import frame_of_file
from scoring.types import Floats, ScoringError

if TYPE_CHECKING:
    import pandas as pd


TEXTS, PAGE, KEY = "texts.csv", "judge.html", "key.json"
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """What people are asked of a text, and the answers by name with what each means.

    ``of_machine`` translates what a program says into an answer, where the names differ.
    """

    text: str
    answers: Mapping[str, str]
    of_machine: Mapping[str, str] = field(default_factory=dict)


QUESTIONS = {
    "friend": Question(
        "Which gender does the text give to the friend? Read the whole text; other people in it do not count.",
        {
            "female": "a woman",
            "male": "a man",
            "both": "now a woman, now a man",
            "neutral": "the text does not say",
            "nonsense": "the text makes no sense",
        },
    ),
    "natural": Question(
        "Could a person have written this sentence as it is?",
        {"yes": "yes, it sounds natural", "no": "no, something is wrong with it"},
        {"True": "yes", "False": "no"},
    ),
    "fact": Question(
        "Is what the text says correct?",
        {"right": "correct", "wrong": "not correct", "unclear": "it cannot be said"},
        {"True": "right", "False": "wrong"},
    ),
}


@dataclass(frozen=True, slots=True)
class Key:
    """What the judges do not see: of each number its row in the source, its stratum and what a program said of it.

    ``sizes`` is the number of texts of each stratum in the source; ``machine`` has None where nothing said anything.
    """

    question: str
    source: str
    seed: int
    rows: list[int]
    strata: list[str]
    machine: list[str | None]
    sizes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Share:
    """A share in percent with its 95 % interval; ``machine`` is what a program said, NaN where it said nothing."""

    name: str
    value: float
    low: float
    high: float
    machine: float = math.nan


@dataclass(frozen=True, slots=True)
class Judgement:
    """What judges found: Krippendorff's α with its interval, a share for each answer, and the errors of the reader.

    The share named *error* is that of texts of which a program says something else than a judge. ``alpha`` is NaN
    where no two judges answered the same text, or all answers are equal.
    """

    texts: int
    judges: int
    alpha: float
    low: float
    high: float
    shares: list[Share]


def text_of(row: Mapping[Any, Any], column: str) -> str:
    """The text of a row; a template of UnStereoEval is filled with the pronoun that it was written for.

    >>> text_of({"template": "{pronoun} saw {pronoun1} cat.", "target_word": "she"}, "template")
    'She saw her cat.'
    """
    text = str(row[column])
    if "{" not in text or "target_word" not in row:
        return text
    gender: words.Gender = "female" if row["target_word"] == "she" else "male"
    return words.fill(mend(from_published(text)), gender)


def sample(
    frame: pd.DataFrame, question: str, text: str, stratum: str, machine: str, each: int, seed: int, source: str = ""
) -> tuple[list[str], Key]:
    """Texts for judges in a drawn order, at most ``each`` of each stratum, and their key.

    Parameters
    ----------
    text, stratum, machine:
        Columns of the table; an empty ``stratum`` is one stratum, an empty ``machine`` has no program to check.

    Raises
    ------
    ScoringError
        When a column is not there, a text is empty, or a program's word is no answer of the question.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"text": ["a", "b", "c"], "kind": ["x", "x", "y"]})
    >>> texts, key = sample(frame, "natural", "text", "kind", "", 1, 0)
    >>> len(texts), key.sizes, sorted(key.strata)
    (2, {'x': 2, 'y': 1}, ['x', 'y'])
    """
    import pandas as pd

    asked = QUESTIONS[question]
    for column in filter(None, (text, stratum, machine)):
        if column not in frame:
            raise ScoringError(f"There is no column {column!r}; the columns are {', '.join(map(str, frame))}.")
    if each < 1 or frame.empty:
        raise ScoringError(f"There are {len(frame)} texts and {each} of each stratum are asked for; give 1 or more.")
    frame = frame.reset_index(drop=True)
    strata = frame[stratum].astype(str) if stratum else pd.Series(["all"] * len(frame))
    draw = np.random.default_rng(seed)
    chosen: list[int] = []
    for _, members in sorted(strata.groupby(strata).groups.items()):
        chosen += draw.permutation(members.to_numpy())[:each].tolist()
    # Shuffled once more, so that the order says nothing of the stratum.
    chosen = draw.permutation(chosen).tolist()
    said: list[str | None] = []
    for row in chosen:
        word = None
        if machine and frame[machine][row] is not None and str(frame[machine][row]) not in ("", "nan", "None"):
            word = asked.of_machine.get(str(frame[machine][row]), str(frame[machine][row]))
            if word not in asked.answers:
                raise ScoringError(
                    f"Row {row} has {word!r} as {machine}, which is none of {', '.join(asked.answers)}; name another "
                    "column with --machine, or none."
                )
        said.append(word)
    texts = [text_of(row, text) for row in frame.iloc[chosen].to_dict("records")]
    if not all(each_text.strip() for each_text in texts):
        raise ScoringError(f"Row {chosen[[t.strip() for t in texts].index('')]} has an empty {text}; leave it out.")
    sizes = {str(name): int(count) for name, count in strata.value_counts(sort=False).sort_index().items()}
    return texts, Key(question, source, seed, chosen, [strata[row] for row in chosen], said, sizes)


def files(texts: Sequence[str], key: Key) -> dict[str, bytes]:
    """The files for judges, a table and a page, and the key, which is not for them."""
    import pandas as pd

    question = QUESTIONS[key.question]
    table = pd.DataFrame({"number": range(1, len(texts) + 1), "text": [as_text(t) for t in texts], "answer": ""})
    folder = Path(__file__).parent / "report" / "templates"
    page = templates(folder, html=True).get_template("judge.html.j2")
    # A page for other texts must not show the answers that a browser kept for these.
    kept = f"judge {key.source} {key.question} {key.seed} {len(texts)}"
    return {
        TEXTS: table.to_csv(index=False).encode(),
        PAGE: page.render(question=question, texts=texts, kept=kept).encode(),
        KEY: (json.dumps(asdict(key), ensure_ascii=False, indent=1) + "\n").encode(),
    }


def answers_of(path: Path, key: Key) -> list[str | None]:
    """The answers of a judge by number, None where there is none.

    Raises
    ------
    ScoringError
        When the file has no columns ``number`` and ``answer``, or a number or an answer that was not given to judges.
    """
    frame = frame_of_file(path)
    if not {"number", "answer"} <= set(frame):
        raise ScoringError(f"{path} has the columns {', '.join(map(str, frame))}; expected number and answer.")
    known = QUESTIONS[key.question].answers
    answers: list[str | None] = [None] * len(key.rows)
    seen = set()
    for number, answer in zip(frame["number"].astype(str), frame["answer"].fillna("").astype(str), strict=True):
        word = answer.strip().lower()
        place = int(number) if number.isdecimal() else 0
        if not 1 <= place <= len(answers) or place in seen:
            raise ScoringError(f"{path} has the number {number!r}; expected 1 to {len(answers)}, each once.")
        seen.add(place)
        if word and word not in known:
            raise ScoringError(
                f"{path} answers number {number} with {answer!r}; expected {', '.join(known)} or nothing."
            )
        answers[place - 1] = word or None
    return answers


def counts_of(answers: Sequence[Sequence[str | None]], names: Sequence[str]) -> Floats:
    """How many judges gave each answer to each text: an array of texts by answers.

    >>> counts_of([["yes", None], ["no", "no"]], ["yes", "no"]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    counts = np.zeros((len(answers[0]), len(names)))
    for judge in answers:
        for place, answer in enumerate(judge):
            if answer is not None:
                counts[place, names.index(answer)] += 1
    return counts


def alpha(counts: Floats, weights: Floats | None = None) -> Floats:
    """Krippendorff's α for names without an order (Krippendorff, 2011, "Computing Krippendorff's Alpha-Reliability").

    α = 1 − D_o / D_e: the observed disagreement of two judges of a text over that of two answers of any texts. 1 is
    full agreement and 0 that of chance. Texts with one answer do not count.

    Parameters
    ----------
    counts:
        How many judges gave each answer to each text, an array of texts by answers.
    weights:
        How often each text counts, an array of resamples by texts; by default once.

    >>> first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    >>> counts = np.array([[(a == 0) + (b == 0), (a == 1) + (b == 1)] for a, b in zip(first, second)], float)
    >>> alpha(counts).round(3)
    array([0.095])
    """
    judges = counts.sum(axis=1)
    counts = np.where(judges[:, None] > 1, counts, 0.0)
    judges = counts.sum(axis=1)
    # Of the pairs of answers to a text, those that differ; each text has as many pairs a judge as others.
    differing = (judges**2 - (counts**2).sum(axis=1)) / np.maximum(judges - 1, 1)
    weights = np.ones((1, len(counts))) if weights is None else weights
    totals = weights @ counts
    every = totals.sum(axis=1)
    expected = (every**2 - (totals**2).sum(axis=1)) / np.maximum(every - 1, 1)
    observed = weights @ differing
    reached: Floats = 1 - np.divide(observed, expected, out=np.full(len(expected), np.nan), where=expected > 0)
    return reached


def read(answers: Sequence[Sequence[str | None]], key: Key, seed: int = 0) -> Judgement:
    """What the answers of judges say, each a list of one answer a text.

    The interval of α is the percentile bootstrap over texts. That of a share adds up the strata with draws of the two
    beta distributions of Clopper and Pearson's interval, one for each end, so it has a width also where all judged
    texts are equal. A stratum that is judged whole has no error of sampling.

    Raises
    ------
    ScoringError
        When nobody answered a text of some stratum.
    """
    names = list(QUESTIONS[key.question].answers)
    counts = counts_of(answers, names)
    stream = np.random.default_rng(seed)
    value = float(alpha(counts)[0])
    drawn = stream.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), RESAMPLES).astype(float)
    # A resample in which all answers are equal has no α.
    of_resamples = alpha(counts, drawn)
    of_resamples = of_resamples[np.isfinite(of_resamples)]
    low, high = (math.nan, math.nan) if math.isnan(value) else np.quantile(of_resamples, (0.025, 0.975)).tolist()
    judged = counts.sum(axis=1)
    shares = counts / np.maximum(judged, 1)[:, None]
    machine = np.array([names.index(word) if word is not None else -1 for word in key.machine])
    rows = []
    for place, name in enumerate(names):
        said = (machine == place).astype(float) if (machine >= 0).all() else None
        rows.append(_share(name, shares[:, place], said, judged > 0, key, stream))
    if (machine >= 0).all():
        wrong = 1 - shares[np.arange(len(shares)), machine]
        rows.append(_share("error", wrong, None, judged > 0, key, stream))
    return Judgement(int((judged > 0).sum()), len(answers), value, low, high, rows)


def _share(
    name: str, values: Floats, said: Floats | None, judged: np.ndarray, key: Key, stream: np.random.Generator
) -> Share:
    """A share over all texts of the source from those of the judged ones, stratum by stratum."""
    total, point, program = sum(key.sizes.values()), 0.0, 0.0
    lower, upper = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    strata = np.array(key.strata)
    for stratum, size in key.sizes.items():
        inside = judged & (strata == stratum)
        n, weight = int(inside.sum()), size / total
        if not n:
            raise ScoringError(f"No judge answered a text of the stratum {stratum!r}; its share is not known.")
        events = float(values[inside].sum())
        point += weight * events / n
        if said is not None:
            program += weight * float(said[strata == stratum].mean())
        if n == size:
            lower += weight * events / n
            upper += weight * events / n
            continue
        # Of no event the lower end is 0, and of events alone the upper end is 1: a beta has no such limit.
        if events > 0:
            lower += weight * stream.beta(events, n - events + 1, RESAMPLES)
        upper += weight * (stream.beta(events + 1, n - events, RESAMPLES) if events < n else 1.0)
    low, high = np.quantile(lower, 0.025), np.quantile(upper, 0.975)
    return Share(name, 100 * point, 100 * low, 100 * high, math.nan if said is None else 100 * program)
