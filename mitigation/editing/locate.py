"""Which block's feed-forward part decides: causal tracing by restoration.

From *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024), section 3: a model
reads a biased statement about one subject, then the same with another subject; the second time the
output of one block's feed-forward part at the subject's last token is put back to what it was the
first time. What the probability of the biased object gains is the indirect effect of that block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from builders.parsers.triplets import BLANK
from mitigation.adapters.adapter import MitigationError
from mitigation.editing.blocks import feed_forwards
from mitigation.editing.pairs import subject
from scoring.inference.tokens import Query, Tokens
from scoring.types import Floats, Option, Request, Row

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Trace:
    """One statement with two subjects: the same text before and after them, and what is wanted after.

    ``answer`` lies in ``text`` behind the subject for a causal model, anywhere for a masked one.
    ``subjects`` are the biased statement's and the other one; ``{}`` marks their place in ``text``.
    """

    id: str
    text: str
    answer: str
    subjects: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Effects:
    """Indirect effect of each block on each trace [traces, blocks], and the total effect [traces], in probability."""

    indirect: Floats
    total: Floats

    @property
    def average(self) -> Floats:
        """The average indirect effect of each block [blocks]."""
        found: Floats = self.indirect.mean(0)
        return found

    @property
    def layer(self) -> int:
        """The block with the largest average indirect effect."""
        return int(self.average.argmax())


def traces(rows: Sequence[Row], kind: str, seed: int = 42) -> list[Trace]:
    """Statements that can be traced, of rows of biased knowledge.

    Where the subject stands before the blank, it changes places with one of another row of the same
    domain and set, drawn with the seed, and the biased object is the answer. Where the blank itself
    names the person (BEC-Pro), its two objects are the two subjects, and the row's subject, which stands
    behind it, is the answer. Rows with neither are left out.
    """
    drawn = np.random.default_rng(seed)
    found = []
    for row in rows:
        others = sorted({subject(r) for r in rows if r["domain"] == row["domain"]} - {subject(row)})
        before, after = row["prompt"].split(BLANK)
        name = subject(row)
        if others and name in before:
            start = before.rindex(name)
            text = f"{before[:start]}{{}}{before[start + len(name) :]}{BLANK}{after}"
            found.append(Trace(row["id"], text, row["object_biased"], (name, others[drawn.integers(len(others))])))
        elif name in after:
            text = f"{before}{{}}{after.replace(name, BLANK, 1)}"
            found.append(Trace(row["id"], text, name, (row["object_biased"], row["object_unbiased"])))
    return [trace for trace in found if kind == "masked" or trace.text.index("{}") < trace.text.index(BLANK)]


def locate(model: Model, rows: Sequence[Row], seed: int = 42) -> Effects:
    """The effects of every block, over the rows that can be traced.

    Raises
    ------
    MitigationError
        When no row can be traced, or the model has no feed-forward parts.
    """
    chosen = traces(rows, model.kind, seed)
    if not chosen:
        raise MitigationError(
            f"None of the {len(rows)} pairs has a subject before its blank or behind it, so no block can be located; "
            "give other pairs, or the layer by number."
        )
    names = [part.last for part in feed_forwards(model.network)]
    found = [_effects(model, trace, names) for trace in chosen]
    return Effects(np.array([each for each, _ in found]), np.array([total for _, total in found]))


@torch.inference_mode()
def _effects(model: Model, trace: Trace, names: Sequence[str]) -> tuple[Floats, float]:
    """Indirect effect of each block, and the total effect, on the probability of the answer.

    Each way to put the question has one row for the other subject as it is, and one for each block that
    is restored in it.
    """
    logs = torch.zeros(len(names) + 2, dtype=torch.float64)
    ways = [list(_questions(model.tokens, trace, name)) for name in trace.subjects]
    for (own, place), (other, there) in zip(*ways, strict=True):
        own_logs, kept = _remembered(model.network, own, place, names)
        logs[0] += own_logs[0]
        logs[1:] += _restored(model.network, other, there, kept)
    chances = logs.exp().numpy()
    return chances[1:-1] - chances[-1], float(chances[0] - chances[-1])


def _questions(tokens: Tokens, trace: Trace, name: str) -> Iterator[tuple[Query, int]]:
    """Queries for the answer in a trace with a subject, and the place of the subject's last token in each."""
    start = trace.text.index("{}")
    text = trace.text.replace("{}", name)
    before, after = text.split(BLANK)
    whole = before + trace.answer + after
    if start > len(before):
        start += len(trace.answer) - len(BLANK)
    span = (len(before), len(before) + len(trace.answer))
    requests = [
        Request(trace.id, "", (Option(whole, (span,), "left"),)),
        Request(trace.id, "", (Option(whole, ((start, start + len(name)),), "each"),)),
    ]
    wanted, about = (options[0] for options, _ in tokens.queries(requests))
    # A causal model reads one token before the wanted one.
    place, length = about[-1].at[-1] + (tokens.kind == "causal"), len(about[-1].ids)
    for query in wanted:
        yield query, place - (length - len(query.ids) if tokens.kind == "masked" and start > span[0] else 0)


def _remembered(
    network: Any, query: Query, place: int, names: Sequence[str]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probability of a query [1], and the output of each part at a place."""
    kept: dict[str, torch.Tensor] = {}

    def remember(name: str, output: torch.Tensor) -> None:
        kept[name] = output[0, place].clone()

    return _ask(network, query, 1, names, remember), kept


def _restored(network: Any, query: Query, place: int, kept: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Log-probability of a query with each part restored at a place, and as it is [parts + 1]."""
    row = {name: number for number, name in enumerate(kept)}

    def restore(name: str, output: torch.Tensor) -> None:
        output[row[name], place] = kept[name]

    return _ask(network, query, len(kept) + 1, list(kept), restore)


def _ask(
    network: Any, query: Query, count: int, names: Sequence[str], look: Callable[[str, torch.Tensor], None]
) -> torch.Tensor:
    """Log-probability of a query in equal rows [count]; ``look`` gets each part's output [count, tokens, width]."""
    ids = torch.tensor([query.ids] * count, device=network.device)

    def seen(name: str, _: Any, __: Any, output: torch.Tensor) -> None:
        look(name, output.view(count, len(query.ids), -1))

    with ExitStack() as hooks:
        for name in names:
            handle = network.get_submodule(name).register_forward_hook(partial(seen, name))
            hooks.callback(handle.remove)
        logits = network(input_ids=ids).logits[:, list(query.at)].double().log_softmax(-1)
    want = torch.tensor(query.want, device=logits.device)
    found: torch.Tensor = logits[:, torch.arange(len(want)), want].sum(1).cpu()
    return found


def picture(effects: Effects, path: Path, title: str) -> None:
    """Draws the average indirect effect of each block."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(5, 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = ["#1b4f8f" if layer == effects.layer else "#9aa5b1" for layer in range(len(effects.average))]
    axes.bar(range(len(effects.average)), effects.average, color=colours)
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel("block", fontsize=8)
    axes.set_ylabel("average indirect effect", fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.axhline(0, color="#333333", linewidth=0.6)
    axes.tick_params(labelsize=7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=150, metadata={"Software": None})
