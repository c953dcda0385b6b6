"""Tables of counts made on the spot."""

import numpy as np

from pmi.counting.counts import Counts
from pmi.types import CorpusTotals, CountRule


def counts(near, count=None, gendered=("she", "he"), totals=None, **rule):
    """Counts from what each word has near each gendered word; a word occurs 100 times unless ``count`` has it."""
    words = sorted(near)
    occurs = dict.fromkeys(words, 100) | (count or {})
    number = np.array([occurs[word] for word in words], np.int64)
    made = CountRule(
        **{"corpus": "made up", "window": 10, "tokenizer": "any", "stop_words": "none"} | rule | {"gendered": gendered}
    )
    pairs = np.array([near[word] for word in words], np.int64).reshape(len(words), len(gendered))
    return Counts(
        tuple(words), number, pairs, made, totals or CorpusTotals(words=int(number.sum()), pairs=10 * int(number.sum()))
    )


#: Five words near she and he; ship is near he alone, and stone near neither.
SMALL = {
    "nurse": [8, 2],
    "captain": [2, 8],
    "bridge": [4, 4],
    "ship": [0, 3],
    "stone": [0, 0],
    "she": [0, 5],
    "he": [5, 0],
}
