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
    if len(set(sentences)) == 1 or not all(s.strip() for s in sentences):
        raise BuildError(f"The sentences {list(sentences)} leave no blank; expected sentences that differ in a word.")
    tokens = [_TOKEN.findall(sentence) for sentence in sentences]
    shortest = min(map(len, tokens))
    start = _shared(tokens)
    end = min(_shared([t[::-1] for t in tokens]), shortest - start)
    if start + end == shortest:  # one sentence has no word of its own, so a shared word is taken into the objects
        start, end = (start - 1, end) if start else (start, end - 1)
    # Objects that begin with different white space would not fit one prompt.
    while start and len({_space(t[start]) for t in tokens}) > 1:
        start -= 1
    objects = ["".join(t[start : len(t) - end]) for t in tokens]
    spaces = {_space(o) for o in objects}
    space = spaces.pop() if len(spaces) == 1 else ""
    prompt = "".join([*tokens[0][:start], space, BLANK, *tokens[0][len(tokens[0]) - end :]])
    return prompt, tuple(o.removeprefix(space) for o in objects)


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
    return {
        "prompt": prompt,
        **{f"object_{label}": o for label, o in zip(LABELS, objects, strict=False)},
        **{f"sentence_{label}": prompt.replace(BLANK, o) for label, o in zip(LABELS, objects, strict=False)},
    }


def triplet(*sentences: str) -> dict[str, str]:
    """:func:`filled` with the prompt and objects of sentences, in the same order of labels.

    >>> triplet("He is here.", "She is here.")["prompt"]
    '[BLANK] is here.'
    """
    prompt, objects = blank(*sentences)
    return filled(prompt, *objects)
