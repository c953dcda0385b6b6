"""Biased-knowledge triplets: a prompt with one blank, and a biased and an unbiased object for the blank."""

import re
from collections.abc import Sequence

from builders.dataset import BuildError
from builders.text.wording import BLANK, LABELS

# A word or a punctuation mark with the white space before it.
_TOKEN = re.compile(r"\s*(?:\w+(?:['’-]\w+)*|[^\w\s])|\s+")


def _shared(tokens: Sequence[Sequence[str]]) -> int:
    """The number of tokens at the start that are the same in all lists."""
    for place, column in enumerate(zip(*tokens, strict=False)):
        if len(set(column)) > 1:
            return place
    return min(map(len, tokens))


def _space(token: str) -> str:
    return token[: len(token) - len(token.lstrip())]


def blank(*sentences: str) -> tuple[str, tuple[str, ...]]:
    """The prompt that several sentences share, and the object of each sentence.

    The object is the text from the first to the last word that differs. If a sentence has no word there, the
    object also has the word before it (at the start of the sentence: after it).

    Raises
    ------
    BuildError
        When all sentences are equal, or one has no word.

    >>> blank("He said so.", "She said so.")
    ('[BLANK] said so.', ('He', 'She'))
    >>> blank("She lost her key.", "He lost his key.")
    ('[BLANK] key.', ('She lost her', 'He lost his'))
    >>> blank("They do not sing.", "They do sing.")
    ('They [BLANK] sing.', ('do not', 'do'))
    """
    if len(set(sentences)) == 1 or not all(sentence.strip() for sentence in sentences):
        raise BuildError(f"The sentences {list(sentences)} leave no blank; expected sentences that differ in a word.")
    tokens = [_TOKEN.findall(sentence) for sentence in sentences]
    shortest = min(map(len, tokens))
    # The numbers of tokens that all sentences share at their starts and at their ends.
    start = _shared(tokens)
    end = _shared([sentence[::-1] for sentence in tokens])
    # Both may count a token of the shortest sentence: "do" of "They do sing." is no end of "They do do sing."
    end = min(end, shortest - start)
    if start + end == shortest:
        # One sentence has no word of its own, so a shared word is taken into the objects.
        if start:
            start -= 1
        else:
            end -= 1
    # Objects that begin with different white space would not fit one prompt.
    while start and len({_space(sentence[start]) for sentence in tokens}) > 1:
        start -= 1
    objects = ["".join(sentence[start : len(sentence) - end]) for sentence in tokens]
    spaces = {_space(text) for text in objects}
    # White space that all objects begin with belongs to the prompt.
    space = spaces.pop() if len(spaces) == 1 else ""
    first = tokens[0]
    before = "".join(first[:start])
    after = "".join(first[len(first) - end :])
    return f"{before}{space}{BLANK}{after}", tuple(text.removeprefix(space) for text in objects)


def filled(prompt: str, *objects: str) -> dict[str, str]:
    """The prompt, objects and sentences of a row; the objects are biased, unbiased and, optionally, irrelevant.

    Raises
    ------
    BuildError
        When the prompt does not have exactly one blank.

    >>> filled("[BLANK] is here.", "He", "She")["sentence_unbiased"]
    'She is here.'
    """
    if prompt.count(BLANK) != 1:
        raise BuildError(f"The prompt {prompt!r} has {prompt.count(BLANK)} times {BLANK}; expected one.")
    # The columns of a row are in this order: the prompt, all objects, all sentences.
    columns = {"prompt": prompt}
    for label, text in zip(LABELS, objects, strict=False):
        columns[f"object_{label}"] = text
    for label, text in zip(LABELS, objects, strict=False):
        columns[f"sentence_{label}"] = prompt.replace(BLANK, text)
    return columns


def triplet(*sentences: str) -> dict[str, str]:
    """:func:`filled` with the prompt and objects of sentences, in the same order of labels.

    >>> triplet("He is here.", "She is here.")["prompt"]
    '[BLANK] is here.'
    """
    prompt, objects = blank(*sentences)
    return filled(prompt, *objects)
