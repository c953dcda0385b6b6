"""Finds the block whose feed-forward part carries a bias: causal tracing by restoration.

Source: *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024), section 3. The model
reads a biased statement about one subject, then the same statement about another subject. In the second run,
the output of one block's feed-forward part at the last token of the subject is replaced by its output in the
first run. The indirect effect of that block is the increase of the probability of the biased object.

Example: "The nurse said that she …" gives "she" 0.6, and "The farmer said that …" gives "she" 0.1. With the
output of block 1 for "nurse" put in the place of that for "farmer", "she" has 0.4. The indirect effect of block
1 is 0.4 - 0.1 = 0.3, and the total effect is 0.6 - 0.1 = 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from builders.wording import BLANK
from mitigation.editing.pairs import subject_of
from mitigation.errors import MitigationError
from scoring.adapters.feed_forward import feed_forwards
from scoring.inference.tokens import Query, Tokens
from scoring.types import Floats, Option, Request, Row

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Trace:
    """A statement that is read with two subjects.

    ``text`` has ``{}`` in the place of the subject and a blank in that of ``answer``. For a causal model the
    blank follows the subject; for a masked one it may be anywhere. ``subjects`` are that of the biased
    statement and the other one.
    """

    id: str
    text: str
    answer: str
    subjects: tuple[str, str]


@dataclass(frozen=True, slots=True)
class IndirectEffects:
    """Indirect effect of each block on each trace [traces, blocks], and total effect [traces], in probability."""

    indirect: Floats
    total: Floats

    @property
    def average(self) -> Floats:
        """The average indirect effect of each block [blocks]."""
        average: Floats = self.indirect.mean(0)
        return average

    @property
    def layer(self) -> int:
        """The block with the largest average indirect effect."""
        return int(self.average.argmax())


def traces(rows: Sequence[Row], kind: str, seed: int = 42) -> list[Trace]:
    """The traces of rows of biased knowledge, without rows that cannot be traced.

    If the subject precedes the blank, the other subject is that of another row of the same domain, drawn
    with the seed, and the biased object is the answer. If the blank itself names the person (BEC-Pro), its
    two objects are the two subjects, and the row's subject, which follows the blank, is the answer.
    """
    generator = np.random.default_rng(seed)
    traced = []
    for row in rows:
        others = sorted({subject_of(r) for r in rows if r["domain"] == row["domain"]} - {subject_of(row)})
        before, after = row["prompt"].split(BLANK)
        name = subject_of(row)
        if others and name in before:
            start = before.rindex(name)
            text = f"{before[:start]}{{}}{before[start + len(name) :]}{BLANK}{after}"
            subjects = name, others[generator.integers(len(others))]
            traced.append(Trace(row["id"], text, row["object_biased"], subjects))
        elif name in after:
            text = f"{before}{{}}{after.replace(name, BLANK, 1)}"
            traced.append(Trace(row["id"], text, name, (row["object_biased"], row["object_unbiased"])))
    return [trace for trace in traced if kind == "masked" or trace.text.index("{}") < trace.text.index(BLANK)]


def locate(model: Model, rows: Sequence[Row], seed: int = 42) -> IndirectEffects:
    """The effects of every block, over the rows that can be traced.

    Raises
    ------
    MitigationError
        If no row can be traced.
    AdapterError
        If the model has no feed-forward parts.
    """
    traced = traces(rows, model.kind, seed)
    if not traced:
        raise MitigationError(
            f"None of the {len(rows)} pairs has a subject before or after its blank, so no block can be located; "
            "give other pairs, or the layer by number."
        )
    names = [part.last for part in feed_forwards(model.network)]
    effects = [_effects(model, trace, names) for trace in traced]
    indirect, total = zip(*effects, strict=True)
    return IndirectEffects(np.array(indirect), np.array(total))


@torch.inference_mode()
def _effects(model: Model, trace: Trace, names: Sequence[str]) -> tuple[Floats, float]:
    """Indirect effect of each block [blocks], and the total effect, on the probability of the answer.

    An answer of several tokens can be several queries, whose log-probabilities are added up. In the array of
    log-probabilities, entry 0 is for the first subject, the last for the second one, and those between for
    the second one with one block restored; the second and following entries are rows of one batch.
    """
    logs = torch.zeros(len(names) + 2, dtype=torch.float64)
    queries = [list(_queries(model.tokens, trace, name)) for name in trace.subjects]
    for (first, first_position), (second, second_position) in zip(*queries, strict=True):
        first_logs, outputs = _record(model.network, first, first_position, names)
        logs[0] += first_logs[0]
        logs[1:] += _restore(model.network, second, second_position, outputs)
    probabilities = logs.exp().numpy()
    return probabilities[1:-1] - probabilities[-1], float(probabilities[0] - probabilities[-1])


def _queries(tokens: Tokens, trace: Trace, subject: str) -> Iterator[tuple[Query, int]]:
    """Queries for the answer in a trace with a subject, each with the position of the subject's last token."""
    start = trace.text.index("{}")
    before, after = trace.text.replace("{}", subject).split(BLANK)
    text = before + trace.answer + after
    if start > len(before):
        start += len(trace.answer) - len(BLANK)
    span = (len(before), len(before) + len(trace.answer))
    requests = [
        Request(trace.id, "", (Option(text, (span,), "left"),)),
        Request(trace.id, "", (Option(text, ((start, start + len(subject)),), "each"),)),
    ]
    answers, subjects = (options[0] for options, _ in tokens.queries(requests))
    # A causal model predicts a token at the position before it.
    position, length = subjects[-1].at[-1] + (tokens.kind == "causal"), len(subjects[-1].ids)
    for query in answers:
        # Masked answers drop the tokens to be predicted later, which moves a subject after them to the left.
        moved = length - len(query.ids) if tokens.kind == "masked" and start > span[0] else 0
        yield query, position - moved


def _record(
    network: Any, query: Query, position: int, names: Sequence[str]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The log-probability of a query [1], and the output of each part at a position."""
    outputs: dict[str, torch.Tensor] = {}

    def record(name: str, output: torch.Tensor) -> None:
        outputs[name] = output[0, position].clone()

    return _run(network, query, 1, names, record), outputs


def _restore(network: Any, query: Query, position: int, outputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The log-probability of a query with each part restored at a position, and without [parts + 1]."""
    row = {name: number for number, name in enumerate(outputs)}

    def restore(name: str, output: torch.Tensor) -> None:
        output[row[name], position] = outputs[name]

    return _run(network, query, len(outputs) + 1, list(outputs), restore)


def _run(
    network: Any, query: Query, count: int, names: Sequence[str], hook: Callable[[str, torch.Tensor], None]
) -> torch.Tensor:
    """Log-probability of a query in equal rows [count].

    ``hook`` is called with the name and the output [count, tokens, width] of each part, and may change it.
    """
    ids = torch.tensor([query.ids] * count, device=network.device)

    def forward_hook(name: str, _: Any, __: Any, output: torch.Tensor) -> None:
        hook(name, output.view(count, len(query.ids), -1))

    with ExitStack() as hooks:
        for name in names:
            handle = network.get_submodule(name).register_forward_hook(partial(forward_hook, name))
            hooks.callback(handle.remove)
        logits = network(input_ids=ids).logits[:, list(query.at)].double().log_softmax(-1)
    wanted = torch.tensor(query.want, device=logits.device)
    logprobs: torch.Tensor = logits[:, torch.arange(len(wanted)), wanted].sum(1).cpu()
    return logprobs
