"""Biased pairs as token queries: which two objects an edit compares, and what it must not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builders.wording import BLANK
from mitigation.errors import MitigationError
from mitigation.training.data import TrainingData
from scoring.inference.tokens import Query, Tokens
from scoring.types import Option, Request, Row

if TYPE_CHECKING:
    import torch

DATASET = "biaske"


@dataclass(frozen=True, slots=True)
class EditPair:
    """Queries for one pair: the biased and the unbiased object after the same prompt, and the subject alone.

    ``alone`` queries the token after "{subject} is a"; in a masked model, that position is masked.
    """

    id: str
    subject: str
    biased: tuple[Query, ...]
    unbiased: tuple[Query, ...]
    alone: Query


def pair_rows(data: TrainingData, configs: Sequence[str], split: str, domain: str) -> list[Row]:
    """The rows of a domain in configs of biased knowledge, in their order; of all domains for ``all``.

    Raises
    ------
    DataMissing
        If a config is not available.
    MitigationError
        If no row is left.
    """
    rows = [row for config in configs for row in data.load(DATASET, config, split).rows]
    chosen = [row for row in rows if domain in ("all", row["domain"])]
    if not chosen:
        domains = ", ".join(sorted({row["domain"] for row in rows}))
        raise MitigationError(f"{', '.join(configs)} have no pair of the domain {domain!r}; give all, or of {domains}.")
    return chosen


def subject_of(row: Row) -> str:
    """Whom a pair is about; without a subject (CrowS-Pairs), the people named by the biased sentence."""
    return str(row.get("subject") or row["object_biased"])


def edit_pair(tokens: Tokens, row: Row, prefix: str = "", *, whole: bool = True) -> EditPair:
    """The queries for a row after a prefix.

    Parameters
    ----------
    whole:
        Whether a causal model scores the object and everything after it, so that the difference of
        two objects is that of two sentences, or the object alone as in the paper. A masked model scores
        the object, token by token from left to right.
    """
    requests = [_object_request(row, label, prefix, tokens.kind, whole) for label in ("biased", "unbiased")]
    requests.append(Request(f"{row['id']}/alone", f"{subject_of(row)} is a", (Option(" person", ((1, 7),), "left"),)))
    biased, unbiased, alone = (tuple(options[0]) for options, _ in tokens.queries(requests))
    return EditPair(row["id"], subject_of(row), biased, unbiased, alone[0])


def _object_request(row: Row, label: str, prefix: str, kind: str, whole: bool) -> Request:
    before, after = f"{prefix} {row['prompt']}".lstrip().split(BLANK)
    text = f"{before}{row[f'object_{label}']}{after}"
    end = len(text) if kind == "causal" and whole else len(text) - len(after)
    return Request(f"{row['id']}/{label}", options=(Option(text, ((len(before), end),), "left"),))


def query_logprobs(network: Any, queries: Sequence[Query], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The log-probability of each query [queries], and of all tokens at its first position [queries, vocabulary].

    Natural logarithms in float32; gradients flow. The first position of a query is the end of its prompt, so
    the distribution there does not depend on the object.
    """
    import torch

    from mitigation.training.train import network_inputs

    device = network.device
    logits = network(**network_inputs([query.ids for query in queries], pad, device)).logits
    # One entry per wanted token: its row, its position, and its id.
    row = torch.tensor([n for n, query in enumerate(queries) for _ in query.at], device=device)
    at, want = (torch.tensor([i for q in queries for i in getattr(q, name)], device=device) for name in ("at", "want"))
    logs = logits[row, at].float().log_softmax(-1)
    wanted = logs.gather(1, want[:, None])[:, 0]
    sums = torch.zeros(len(queries), device=device).index_add(0, row, wanted)
    first = torch.tensor([0, *(len(query.at) for query in queries[:-1])], device=device).cumsum(0)
    return sums, logs[first]
