"""Queries become prompts for a server: sequences whose tokens are scored, and contexts with candidate next tokens.

A server scores one token at each position of a prompt, the one that follows, so the log-probabilities of a sentence
come from one prompt. Several tokens at one position (options of one token after the same context, forms of a
pronoun) come from the distribution of the next token, in one prompt for all of them:

    queries                                   prompts
    [a b] wants c, [a b] wants d              context [a b] with the candidates c and d
    [a b c] wants b, c, e                     sequence [a b c e]
    [a b] wants b, c                          nothing: it is read from the sequence before it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cards.text import grouped
from scoring.inference.batching import common
from scoring.inference.served.dialects import TOP
from scoring.inference.tokens import Query

Ids = tuple[int, ...]


@dataclass(slots=True)
class TokenRow:
    """A prompt of which tokens are scored; ``reads`` are pairs of a position (from 1) and the number of an answer."""

    ids: Ids
    reads: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Context:
    """A context with candidates for the next token; ``wanted`` has the numbers of the answers by token."""

    ids: Ids
    wanted: dict[int, list[int]] = field(default_factory=dict)

    def apart(self, tokens: Sequence[int]) -> list[TokenRow]:
        """The same as one prompt for each of these tokens."""
        return [TokenRow((*self.ids, t), [(len(self.ids), n) for n in self.wanted[t]]) for t in tokens]


def planned(queries: Sequence[Query], *, points: bool, share: bool = True) -> tuple[list[TokenRow], list[Context]]:
    """Prompts and contexts that answer all queries; answers are numbered through the queries in order.

    Parameters
    ----------
    points:
        Whether the server gives the probabilities of candidates for the next token; without, each is a prompt.
    share:
        Whether equal prompts are sent once, and a prompt that is the beginning of another is read from it.

    >>> planned([Query((1, 2), (1,), (3,)), Query((1, 2), (1,), (4,)), Query((1,), (0,), (2,))], points=True)
    ([TokenRow(ids=(1, 2), reads=[(1, 2)])], [Context(ids=(1, 2), wanted={3: [0], 4: [1]})])
    """
    prompts: list[TokenRow] = []
    contexts: dict[Ids, Context] = {}
    number = 0
    for query in queries:
        last = len(query.ids) - 1
        answers = range(number, number := number + len(query.at))
        if all(place == last for place in query.at):
            context = contexts.setdefault(query.ids, Context(query.ids))
            for token, answer in zip(query.want, answers, strict=True):
                context.wanted.setdefault(token, []).append(answer)
        else:
            ids = (*query.ids, query.want[-1]) if query.at[-1] == last else query.ids
            prompts.append(
                TokenRow(ids, [(place + 1, answer) for place, answer in zip(query.at, answers, strict=True)])
            )
    alone = [c for c in contexts.values() if len(c.wanted) == 1 or not points]
    prompts += [prompt for context in alone for prompt in context.apart(list(context.wanted))]
    prompts = merged(prompts) if share else prompts
    # In the order of the queries, so that the answers of a request come together and are complete early.
    prompts.sort(key=lambda prompt: min(answer for _, answer in prompt.reads))
    return prompts, [c for c in contexts.values() if len(c.wanted) > 1 and points]


def merged(prompts: Sequence[TokenRow]) -> list[TokenRow]:
    """Prompts that are no beginning of another one, with the reads of those that are.

    >>> [(p.ids, p.reads) for p in merged([TokenRow((1, 2), [(1, 0)]), TokenRow((1, 2, 3), [(2, 1)])])]
    [((1, 2, 3), [(2, 1), (1, 0)])]
    """
    longest: list[TokenRow] = []
    for prompt in sorted(prompts, key=lambda p: p.ids, reverse=True):
        if longest and common(longest[-1].ids, prompt.ids) == len(prompt.ids):
            longest[-1].reads += prompt.reads
        else:
            longest.append(TokenRow(prompt.ids, list(prompt.reads)))
    return longest[::-1]


def batches(prompts: Sequence[TokenRow], tokens: int, size: int) -> Iterator[list[TokenRow]]:
    """Prompts in their order, in batches of at most so many tokens and prompts; one prompt is always allowed."""
    batch: list[TokenRow] = []
    for prompt in prompts:
        if batch and (len(batch) == size or sum(len(p.ids) for p in batch) + len(prompt.ids) > tokens):
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch


def groups(contexts: Sequence[Context], tokens: int, size: int) -> Iterator[tuple[list[Context], list[int]]]:
    """Contexts that want the same tokens, in batches, with at most ``TOP`` of these tokens at one time."""
    for wanted, same_tokens in grouped(contexts, lambda context: tuple(sorted(context.wanted))).items():
        for start in range(0, len(wanted), TOP):
            chosen = list(wanted[start : start + TOP])
            own = sorted(same_tokens, key=lambda c: c.ids)
            room = max(tokens // max(len(c.ids) for c in own), 1)
            step = min(room, size)
            for first in range(0, len(own), step):
                yield own[first : first + step], chosen
