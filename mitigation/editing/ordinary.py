"""Ordinary text whose predictions an edit has to keep: L_t, which FAST (Chen et al., 2024) does not have.

L_s1 and L_s2 see edited prompts and subjects only, so nothing in them keeps other text. L_t is the divergence
KL(unchanged || edited) at every token of some ordinary texts, in nats a token. A masked model has to be asked with a
mask: each text has :data:`PARTS` versions. Each version masks another part of the tokens, so after as many passes
each token was asked once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from mitigation.errors import MitigationError
from scoring.inference.model import Model
from scoring.inference.tokens import Query

#: The parts of a text for a masked model, so that one masks about 15 % of it.
PARTS = 7
#: The most tokens of a text; the rest is cut.
LONGEST = 128


class OrdinaryText:
    """Queries for all tokens of ordinary texts, in a new order in every pass over them.

    Parameters
    ----------
    texts:
        The texts; each is cut after :data:`LONGEST` tokens or at the model's window.
    seed:
        Of the order, and of the parts that are masked.

    Raises
    ------
    MitigationError
        If no text has a token.
    """

    def __init__(self, model: Model, texts: Sequence[str], seed: int) -> None:
        tokens = model.tokens
        self.kind, self.seed, self.mask = tokens.kind, seed, tokens.tokenizer.mask_token_id
        # A causal model reads each text after the start token, a masked one between the tokens around a text.
        if tokens.kind == "causal":
            before, after = tokens.start, []
        else:
            before, after = tokens.prefix, tokens.suffix
        self.around = len(before), len(after)
        longest = min(LONGEST, tokens.window or LONGEST) - sum(self.around)
        self.rows = []
        for encoding in tokens.encode(list(texts)):
            ids = encoding.ids[:longest]
            if ids:
                self.rows.append((*before, *ids, *after))
        if not self.rows:
            raise MitigationError("The ordinary text has no line with a token; give other text, or --gamma 0.")

    def batch(self, step: int, size: int) -> list[Query]:
        """The queries of a step over ``size`` texts, or all where there are fewer; a step depends on its number."""
        count, size = len(self.rows), min(size, len(self.rows))
        queries = []
        for position in range(step * size, (step + 1) * size):
            passed, place = divmod(position, count)
            number = int(np.random.default_rng([self.seed, passed]).permutation(count)[place])
            query = self._query(number, passed)
            if query.at:
                queries.append(query)
        return queries

    def halves(self) -> tuple[OrdinaryText, OrdinaryText]:
        """Two of these, of which each has every second text."""
        both = copy.copy(self), copy.copy(self)
        for start, half in enumerate(both):
            half.rows = self.rows[start::2]
        return both

    def _query(self, number: int, passed: int) -> Query:
        """The query for all tokens of a text after those before them, or for a masked part of its tokens."""
        ids = self.rows[number]
        before, after = self.around
        end = len(ids) - after
        if self.kind == "causal":
            # A token is predicted at the position before it.
            return Query(ids, tuple(range(before - 1, end - 1)), ids[before:end])
        # The same order in every pass, so that the parts of a text do not overlap.
        order = np.random.default_rng([self.seed, number]).permutation(end - before)
        part = sorted(before + int(place) for place in order[passed % PARTS :: PARTS])
        hidden = list(ids)
        for place in part:
            hidden[place] = self.mask
        return Query(tuple(hidden), tuple(part), tuple(ids[place] for place in part))
