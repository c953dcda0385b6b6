"""Biased-knowledge pairs as tokens: what an edit compares, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builders.parsers.triplets import BLANK
from mitigation.adapters.adapter import MitigationError
from mitigation.training.data import Data
from scoring.inference.tokens import Query, Tokens
from scoring.types import Option, Request, Row

if TYPE_CHECKING:
    import torch

DATASET = "biaske"


@dataclass(frozen=True, slots=True)
class Pair:
    """Questions about one pair: ``biased`` and ``unbiased`` object after the same prompt, and the subject alone.

    ``alone`` reads what follows "{subject} is a", or stands in its place in a masked model.
    """

    id: str
    subject: str
    biased: tuple[Query, ...]
    unbiased: tuple[Query, ...]
    alone: Query


def rows(data: Data, configs: Sequence[str], split: str, domain: str) -> list[Row]:
    """The rows of a domain in configs of biased knowledge, in their order; those of all domains for ``all``.

    Raises
    ------
    DataMissing
        When a config is not there.
    MitigationError
        When no row is left.
    """
    found = [row for config in configs for row in data.load(DATASET, config, split).rows]
    chosen = [row for row in found if domain in ("all", row["domain"])]
    if not chosen:
        domains = ", ".join(sorted({row["domain"] for row in found}))
        raise MitigationError(f"{', '.join(configs)} have no pair of the domain {domain!r}; give all, or of {domains}.")
    return chosen


def subject(row: Row) -> str:
    """Whom a pair is about; where it is not told (CrowS-Pairs), the people that the biased sentence names."""
    return str(row.get("subject") or row["object_biased"])


def pair(tokens: Tokens, row: Row, prefix: str = "", *, whole: bool = True) -> Pair:
    """The questions about a row behind a prefix.

    Parameters
    ----------
    whole:
        Whether a causal model is asked for the object with all that follows it, so that the difference
        is that of the two sentences, or for the object alone, as in the paper. A masked model is asked
        for the object, token by token from left to right.
    """
    texts = [_ask(row, label, prefix, tokens.kind, whole) for label in ("biased", "unbiased")]
    texts.append(Request(f"{row['id']}/alone", f"{subject(row)} is a", (Option(" person", ((1, 7),), "left"),)))
    biased, unbiased, alone = (tuple(options[0]) for options, _ in tokens.queries(texts))
    return Pair(row["id"], subject(row), biased, unbiased, alone[0])


def _ask(row: Row, label: str, prefix: str, kind: str, whole: bool) -> Request:
    before, after = f"{prefix} {row['prompt']}".lstrip().split(BLANK)
    text = f"{before}{row[f'object_{label}']}{after}"
    end = len(text) if kind == "causal" and whole else len(text) - len(after)
    return Request(f"{row['id']}/{label}", options=(Option(text, ((len(before), end),), "left"),))


def read(network: Any, queries: Sequence[Query], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of what each query wants [queries], and of all tokens at its first place [queries, vocabulary].

    Logarithms are natural, in float32; a gradient flows. The first place of a query is where its prompt
    ends, so the distribution there knows nothing of the object.
    """
    import torch

    from scoring.inference.batching import padded

    device, width = network.device, max(len(query.ids) for query in queries)
    ids = torch.from_numpy(padded([query.ids for query in queries], pad, width)).to(device)
    lengths = torch.tensor([len(query.ids) for query in queries], device=device)
    mask = (torch.arange(width, device=device) < lengths[:, None]).long()
    logits = network(input_ids=ids, attention_mask=mask).logits
    row = torch.tensor([n for n, query in enumerate(queries) for _ in query.at], device=device)
    at, want = (torch.tensor([i for q in queries for i in getattr(q, name)], device=device) for name in ("at", "want"))
    logs = logits[row, at].float().log_softmax(-1)
    wanted = logs.gather(1, want[:, None])[:, 0]
    sums = torch.zeros(len(queries), device=device).index_add(0, row, wanted)
    firsts = torch.tensor([0, *(len(query.at) for query in queries[:-1])], device=device).cumsum(0)
    return sums, logs[firsts]
