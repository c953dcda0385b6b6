"""Finds the block whose feed-forward part carries a bias: causal tracing by restoration.

Source: *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024),
section 3. The model reads a biased statement about one subject, then the same statement about another subject. In
the second pass, the output of one block's feed-forward part is replaced by its output in the first pass. The indirect
effect of that block is the increase of the probability of the biased object.

The paper replaces outputs at the tokens of the subject (Appendix B.1), and ``paper`` does. There the last block can
have no effect on an answer that comes later, although the paper finds the last block of BERT and of GPT2-XL. Where
the answer is predicted alone, the first block only knows the token there, and the paper finds the first block of
GPT2. Only at all positions can both be found, so ``clean`` replaces all.

Example: "The nurse said that she …" gives "she" 0.6, and "The farmer said that …" gives "she" 0.1. With the
output of block 1 for "nurse" put in place of that for "farmer", "she" has 0.4. The indirect effect of block
1 is 0.4 - 0.1 = 0.3, and the total effect is 0.6 - 0.1 = 0.5.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from builders.text.wording import BLANK
from cards.common.progress import track
from mitigation.editing import POSITIONS, pairs
from mitigation.recipe import Console, MitigationError, Model
from scoring.adapters.feed_forward import feed_forwards
from scoring.inference.tokens import Query, Tokens
from scoring.types import Floats, Option, Request, Row, ScoringError

#: Why a row without a trace has none.
UNTRACED = "it has no subject before or after its blank"


@dataclass(frozen=True, slots=True)
class Trace:
    """A statement that is read with two subjects.

    ``text`` has ``{}`` in place of the subject and a blank in that of ``answer``. For a causal model the
    blank follows the subject; for a masked one it may be anywhere. ``subjects`` are that of the biased
    statement and the other one.
    """

    id: str
    text: str
    answer: str
    subjects: tuple[str, str]


@dataclass(frozen=True, slots=True)
class IndirectEffects:
    """Effects on each trace, in probability.

    Parameters
    ----------
    by_position:
        The indirect effect of each block [traces, blocks], by the position that is restored.
    total:
        The total effect [traces].
    position:
        The position by which the block is chosen, one of :data:`POSITIONS`.
    left_out:
        The reason by id for the rows that could not be traced.
    """

    by_position: Mapping[str, Floats]
    total: Floats
    position: str = "all"
    left_out: Mapping[str, str] = field(default_factory=dict)

    def average(self, position: str = "") -> Floats:
        """The average indirect effect of each block [blocks], by default at the position of the choice."""
        average: Floats = self.by_position[position or self.position].mean(0)
        return average

    @property
    def layer(self) -> int:
        """The block with the largest average indirect effect."""
        return int(self.average().argmax())


def traces(rows: Sequence[Row], kind: str, seed: int = 42) -> list[Trace]:
    """The traces of rows of biased knowledge, without rows that cannot be traced.

    If the subject precedes the blank as a whole word, the other subject is that of another row of the same domain,
    drawn with the seed, and the biased object is the answer. If the blank itself names the person (BEC-Pro), its
    two objects are the two subjects, and the row's subject, which follows the blank, is the answer.
    """
    generator = np.random.default_rng(seed)
    by_domain: dict[str, set[str]] = {}
    for row in rows:
        by_domain.setdefault(row["domain"], set()).add(pairs.subject_of(row))
    # Sorted, so that the draw does not depend on the order of a set.
    names = {domain: sorted(subjects) for domain, subjects in by_domain.items()}
    traced = []
    for row in rows:
        name = pairs.subject_of(row)
        others = [other for other in names[row["domain"]] if other.lower() != name.lower()]
        before, after = row["prompt"].split(BLANK)
        place_before = pairs.whole_word(before, name)
        place_after = pairs.whole_word(after, name)
        if others and place_before:
            start, end = place_before
            text = f"{before[:start]}{{}}{before[end:]}{BLANK}{after}"
            other = others[generator.integers(len(others))]
            if before[start].isupper():
                # At the beginning of a sentence the other subject has a capital too.
                other = other[:1].upper() + other[1:]
            traced.append(Trace(row["id"], text, row["object_biased"], (before[start:end], other)))
        elif place_after:
            start, end = place_after
            text = f"{before}{{}}{after[:start]}{BLANK}{after[end:]}"
            traced.append(Trace(row["id"], text, after[start:end], (row["object_biased"], row["object_unbiased"])))
    if kind == "masked":
        return traced
    # A causal model predicts the answer only from a subject before it.
    return [trace for trace in traced if trace.text.index("{}") < trace.text.index(BLANK)]


def locate(
    model: Model, rows: Sequence[Row], seed: int = 42, position: str = "all", console: Console | None = None
) -> IndirectEffects:
    """The effects of every block, over the rows that can be traced.

    Raises
    ------
    MitigationError
        If no row can be traced.
    AdapterError
        If the model has no feed-forward parts.
    """
    names = [part.last for part in feed_forwards(model.network)]
    traced = traces(rows, model.kind, seed)
    named = {trace.id for trace in traced}
    left_out = {str(row["id"]): UNTRACED for row in rows if row["id"] not in named}
    effects = []
    for trace in track(traced, "locating", console=console, disable=console is None):
        try:
            effects.append(_effects(model, trace, names))
        except ScoringError as error:
            left_out[trace.id] = str(error)
    if not effects:
        raise MitigationError(
            f"None of the {len(rows)} pairs has a subject before or after its blank in tokens of its own, so no block "
            "can be located; give other pairs, or the layer by number."
        )
    total = np.array([effect for _, effect in effects])
    by_position = {}
    for name in POSITIONS:
        by_position[name] = np.array([indirect[name] for indirect, _ in effects])
    return IndirectEffects(by_position, total, position, left_out)


class Reading(NamedTuple):
    """A query for (a part of) the answer, and the range of the subject's tokens in it."""

    query: Query
    start: int
    end: int


@torch.inference_mode()
def _effects(model: Model, trace: Trace, names: Sequence[str]) -> tuple[dict[str, Floats], float]:
    """Indirect effect of each block [blocks] by position, and the total effect, on the probability of the answer.

    An answer of several tokens can be several queries, whose log-probabilities are added up. In the array of
    log-probabilities, entry 0 is for the first subject, the last for the second one, and those between for
    the second one with one block restored at one position; the second and following entries are rows of one batch.
    """
    count = len(names)
    # In float64: an answer of several tokens adds up small log-probabilities.
    logs = torch.zeros(len(POSITIONS) * count + 2, dtype=torch.float64)
    first_subject, second_subject = trace.subjects
    readings_of_first = _readings(model.tokens, trace, first_subject)
    readings_of_second = _readings(model.tokens, trace, second_subject)
    for first, second in zip(readings_of_first, readings_of_second, strict=True):
        first_logs, outputs = _record(model.network, first.query, names)
        logs[0] += first_logs[0]
        logs[1:] += _restore(model.network, second.query, outputs, pairs_of_positions(first, second))
    probabilities = logs.exp().numpy()
    # The last row is the second pass without restoring; all effects are differences from it.
    indirect = probabilities[1:-1] - probabilities[-1]
    by_position = {name: indirect[n * count : (n + 1) * count] for n, name in enumerate(POSITIONS)}
    return by_position, float(probabilities[0] - probabilities[-1])


def pairs_of_positions(first: Reading, second: Reading) -> dict[str, tuple[list[int], list[int]]]:
    """The positions of the first reading and those of the second one that correspond to them, by what is restored.

    Tokens before the subject correspond from the left, those of the subject and after it from the right. So of
    subjects with different numbers of tokens, the last tokens correspond.

    >>> one = Reading(Query(tuple("anurse,m"), (7,), (0,)), 1, 6)
    >>> other = Reading(Query(tuple("acook,m"), (6,), (0,)), 1, 5)
    >>> pairs_of_positions(one, other)["all"]
    ([0, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6])
    >>> pairs_of_positions(one, other)["subject"]
    ([2, 3, 4, 5], [1, 2, 3, 4])
    """
    # Subjects of different numbers of tokens move everything after them.
    before = range(min(first.start, second.start))
    within = range(1, min(first.end - first.start, second.end - second.start) + 1)
    lengths = len(first.query.ids), len(second.query.ids)
    after = range(1, min(lengths[0] - first.end, lengths[1] - second.end) + 1)
    subjects: list[list[int]] = []
    everything: list[list[int]] = []
    for reading, length in zip((first, second), lengths, strict=True):
        subject = sorted(reading.end - n for n in within)
        subjects.append(subject)
        everything.append(list(before) + subject + sorted(length - n for n in after))
    return {
        "subject": (subjects[0], subjects[1]),
        "answer": (list(first.query.at), list(second.query.at)),
        "all": (everything[0], everything[1]),
    }


def _readings(tokens: Tokens, trace: Trace, subject: str) -> Iterator[Reading]:
    """Queries for the answer in a trace with a subject, each with the range of the subject's tokens."""
    start = trace.text.index("{}")
    before, after = trace.text.replace("{}", subject).split(BLANK)
    text = before + trace.answer + after
    # The subject follows the blank, which the answer replaces by a text of another length.
    if start > len(before):
        start += len(trace.answer) - len(BLANK)
    span = (len(before), len(before) + len(trace.answer))
    requests = [
        Request(trace.id, "", (Option(text, (span,), "left"),)),
        Request(trace.id, "", (Option(text, ((start, start + len(subject)),), "each"),)),
    ]
    (answer_options, _), (subject_options, _) = tokens.queries(requests)
    answers, subjects = answer_options[0], subject_options[0]
    # A causal model predicts a token at the position before it.
    shift, length = int(tokens.kind == "causal"), len(subjects[-1].ids)
    first, last = subjects[0].at[0] + shift, subjects[-1].at[-1] + shift
    for query in answers:
        moved = 0
        if tokens.kind == "masked" and start > span[0]:
            # Masked answers drop the tokens to be predicted later, which moves a subject after them to the left.
            moved = length - len(query.ids)
        yield Reading(query, first - moved, last - moved + 1)


def _record(network: Any, query: Query, names: Sequence[str]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The log-probability of a query [1], and the output of each part [tokens, width]."""
    outputs: dict[str, torch.Tensor] = {}

    def record(name: str, output: torch.Tensor) -> None:
        outputs[name] = output[0].clone()

    return _logprobs(network, query, 1, names, record), outputs


def _restore(
    network: Any,
    query: Query,
    outputs: Mapping[str, torch.Tensor],
    positions: Mapping[str, tuple[list[int], list[int]]],
) -> torch.Tensor:
    """The log-probability of a query with each part restored at each position, and without [positions · parts + 1]."""
    number = {name: n for n, name in enumerate(outputs)}

    def restore(name: str, output: torch.Tensor) -> None:
        # Each row of the batch restores one block at one position, so one pass measures all of them.
        for n, (first, second) in enumerate(positions.values()):
            output[n * len(number) + number[name], second] = outputs[name][first]

    return _logprobs(network, query, len(positions) * len(number) + 1, list(outputs), restore)


def _logprobs(
    network: Any, query: Query, count: int, names: Sequence[str], hook: Callable[[str, torch.Tensor], None]
) -> torch.Tensor:
    """Log-probability of a query in equal rows [count].

    ``hook`` is called with the name and the output [count, tokens, width] of each part, and may change it. The head
    runs at the positions of the answer alone, where it can be hooked.
    """
    ids = torch.tensor([query.ids] * count, device=network.device)
    head, at, chosen = network.get_output_embeddings(), list(query.at), []

    def forward_hook(name: str, _: Any, __: Any, output: torch.Tensor) -> None:
        hook(name, output.view(count, len(query.ids), -1))

    def answer_only(_: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
        # A head that already gets chosen positions is left alone.
        if arguments[0].shape[:2] != ids.shape:
            return None
        chosen.append(True)
        return (arguments[0][:, at], *arguments[1:])

    with ExitStack() as hooks:
        for name in names:
            hooks.enter_context(network.get_submodule(name).register_forward_hook(partial(forward_hook, name)))
        if head is not None:
            hooks.callback(head.register_forward_pre_hook(answer_only).remove)
        logits = network(input_ids=ids).logits
    if not chosen:
        logits = logits[:, at]
    logits = logits.double().log_softmax(-1)
    wanted = torch.tensor(query.want, device=logits.device)
    logprobs: torch.Tensor = logits[:, torch.arange(len(wanted)), wanted].sum(1).cpu()
    return logprobs
