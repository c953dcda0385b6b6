"""Statistics of the sentences of UnStereoEval, counted as the notebook of its authors does (its Table 4).

>>> import pandas as pd
>>> frame = pd.DataFrame({"template": ["So {nominative}'s off, {nominative} said."], "word": ["off"]})
>>> statistics(frame, pd.Series({"off": 0.2}))["most pronouns"]
2.0
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


_SLOT = re.compile(r"\{\w+\}")
#: It stands for a pronoun; sentences are in lower case.
_PRONOUN = "PRONOUN"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def statistics(frame: pd.DataFrame, delta: pd.Series) -> Mapping[str, float]:
    """The median and the largest value of each property of the sentences, and of their seed words.

    Parameters
    ----------
    frame:
        The rows, with ``template`` (a pronoun in braces) and the seed ``word``.
    delta:
        The δ of words; a seed word without one is left out, as *someone* is.

    Notes
    -----
    Places of pronouns count from 0, after all punctuation is taken away and the text is split at spaces. The length
    counts the tokens of NLTK without the pronouns, so punctuation counts. The authors split a text into its sentences
    first, for which NLTK needs a file of its own; here it is one text. Only the largest lengths differ by it.
    """
    import pandas as pd
    from nltk.tokenize import NLTKWordTokenizer

    tokenize = NLTKWordTokenizer().tokenize
    rows = []
    for template in frame["template"]:
        text = _SLOT.sub(f" {_PRONOUN} ", template.lower())
        words = text.translate(_NO_PUNCTUATION).split()
        places = [place for place, word in enumerate(words) if word == _PRONOUN]
        length = len(tokenize(text.replace(_PRONOUN, "")))
        rows.append((text.count(_PRONOUN), places[0], places[-1], length))
    properties = pd.DataFrame(rows, columns=["pronouns", "first place", "last place", "length"])
    seeds = pd.Series(frame["word"].dropna().unique()).map(delta).dropna()
    found = {"seed words": float(len(seeds)), "median δ": float(seeds.median()), "most δ": float(seeds.abs().max())}
    for name in properties:
        found[f"median {name}"] = float(properties[name].median())
        found[f"most {name}"] = float(properties[name].max())
    return found
