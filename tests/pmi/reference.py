"""A plain implementation of counting, which the compiled one is compared with."""

import unicodedata
from collections import Counter

APOSTROPHES = "'‘’ʼ＇′`´"
INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
CLITICS = ("n't", "'s", "'m", "'d", "'ll", "'re", "'ve")


def normal(text):
    straight = "".join("'" if c in APOSTROPHES else c for c in text if c not in INVISIBLE)
    normal = unicodedata.normalize("NFKC", straight)
    return "".join("'" if c in APOSTROPHES else c for c in normal if c not in INVISIBLE)


def mark(c):
    return unicodedata.category(c).startswith("M")


def tokens(text):
    """Words as they stand: letters, digits and marks, one character after the other."""
    text = normal(text)
    word = ""
    for here, c in enumerate(text):
        after = text[here + 1 : here + 2]
        joins = (c == "'" and after.isalnum()) or (c in ".," and text[here - 1].isdecimal() and after.isdecimal())
        if c.isalnum() or (word and (mark(c) or joins)):
            word += c
        elif word:
            yield word
            word = ""
    if word:
        yield word


def words(text, stop):
    """Words that count: lower-cased, without the clitic, without stop words."""
    for token in tokens(text):
        word = token.lower()
        ending = next((c for c in CLITICS if word.endswith(c)), "")
        if word not in stop and (bare := word.removesuffix(ending)) and bare not in stop:
            yield bare


def counted(documents, gendered, stop, window):
    """Words, (word, gendered word) pairs, and how many pairs of words there are, of texts that no window crosses."""
    count, near, pairs = Counter(), Counter(), 0
    for text in documents:
        text_words = list(words(text, set(stop) - set(gendered)))
        count.update(text_words)
        for i, word in enumerate(text_words):
            around = [*text_words[max(i - window, 0) : i], *text_words[i + 1 : i + 1 + window]]
            pairs += min(i, window)
            near.update((word, other) for other in around if other in gendered)
    return count, near, pairs
