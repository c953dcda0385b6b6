"""Ordinary text whose predictions an edit has to keep: L_t, which FAST (Chen et al., 2024) does not have.

L_s1 and L_s2 see edited prompts and subjects only, so nothing in them keeps other text. L_t is the divergence
KL(unchanged || edited) at every token of some ordinary texts, in nats a token. A masked model has to be asked with a
mask: each text has :data:`PARTS` versions, of which every one masks another part of its tokens, so that after as many
passes each token was asked once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mitigation.errors import MitigationError
from scoring.adapters.attach import without_remarks
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
        The texts, each of which is cut after :data:`LONGEST` tokens or at the model's window.
    seed:
        Of the order, and of the parts that are masked.

    Raises
    ------
    MitigationError
        If no text has two tokens.
    """

    def __init__(self, model: Model, texts: Sequence[str], seed: int) -> None:
        window = min(LONGEST, model.tokens.window or LONGEST)
        tokenizer = model.tokens.tokenizer
        self.kind, self.seed, self.mask = model.kind, seed, tokenizer.mask_token_id
        self.special = frozenset(tokenizer.all_special_ids)
        with without_remarks():  # transformers would warn of texts longer than the window, which are cut here
            encoded = tokenizer(list(texts), truncation=True, max_length=window)["input_ids"] if texts else []
        self.rows = [tuple(ids) for ids in encoded if len(ids) > 1]
        if not self.rows:
            raise MitigationError("The ordinary text has no line of two tokens; give other text, or --gamma 0.")

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

    def _query(self, number: int, passed: int) -> Query:
        """The query for all tokens of a text after those before them, or for a masked part of its tokens."""
        ids = self.rows[number]
        if self.kind == "causal":
            return Query(ids, tuple(range(len(ids) - 1)), ids[1:])
        ordinary = [place for place, token in enumerate(ids) if token not in self.special]
        order = np.random.default_rng([self.seed, number]).permutation(len(ordinary))
        part = sorted(ordinary[n] for n in order[passed % PARTS :: PARTS])
        hidden = [self.mask if place in part else token for place, token in enumerate(ids)]
        return Query(tuple(hidden), tuple(part), tuple(ids[place] for place in part))
