"""Verb agreement with singular *they*, by closed lists and spelling. If they do not decide, there is no result."""

import re
from collections.abc import Sequence
from itertools import takewhile

from builders.text.embedded import table

_SUBJECT = "{nominative}"

_LISTS = {name: frozenset(words.split()) for name, words in table("words")["agreement"].items()}
_FORMS: dict[str, str] = table("words")["irregular_forms"]
_BASES: dict[str, str] = table("words")["irregular_bases"]
_AUXILIARIES, _PASTS = _LISTS["auxiliaries"], _LISTS["irregular_pasts"]
_NOT_VERBS = _LISTS["not_verbs"] | _LISTS["adverbs"]
_CONJUNCTIONS = frozenset("and or but yet nor then".split())
_JOINERS = _CONJUNCTIONS | frozenset(["as", "than", ",", ";", ":", "-", "–", "—", "("])
_PADDING = 4  # empty words after the last one, so that looking ahead stays in the list
# A slot, a word with its hyphens and apostrophes, or one mark; each with the white space after it.
_TOKEN = re.compile(r"(\{\w+\}|[^\W\d_]+(?:['’-][^\W\d_]+)*|\S)(\s*)")


def _is_adverb(word: str) -> bool:
    return word in _LISTS["adverbs"] or word == "{reflexive}" or word.endswith("ly")


def _skip_adverbs(words: Sequence[str], at: int) -> int:
    return at + sum(1 for _ in takewhile(_is_adverb, words[at:]))


def _may_be_s_form(word: str) -> bool:
    return (
        len(word) > 3 and word.endswith("s") and not word.endswith("ss") and word.isalpha() and word not in _NOT_VERBS
    )


def _base(verb: str) -> str:
    """The plain form of a verb in *-s*.

    >>> [_base(v) for v in ("carries", "watches", "goes", "uses", "lies")]
    ['carry', 'watch', 'go', 'use', 'lie']
    """
    if verb in _BASES:
        return _BASES[verb]
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return verb[:-2]
    return verb[:-1]


def _with_they(verb: str) -> str | None:
    """The form of a finite verb with *they*, or None if it is not known."""
    if verb in _FORMS:
        return _FORMS[verb]
    # Past forms and most auxiliaries do not change with the person.
    if verb in _AUXILIARIES or verb in _PASTS or verb.endswith("ed"):
        return verb
    if _may_be_s_form(verb):
        return _base(verb)
    return None


def _uncontracted(next_word: str) -> str | None:
    """The ending for ``'s`` after *they*: *ve* (has) before "been", *re* (is) if no participle follows."""
    if next_word in ("been", "got"):
        return "ve"
    # Before another participle both are possible: "he's left" (has) and "he's driven to work" (is).
    if next_word.endswith(("ed", "en", "wn")) or next_word in _PASTS or next_word in _LISTS["participles"]:
        return None
    if next_word.isalpha():
        return "re"
    return None


def _inverted(words: Sequence[str], at: int) -> bool:
    """Whether the auxiliary before the pronoun at ``at`` opens a question or follows *nor*, *so* …."""
    before = words[at - 2] if at > 1 else ""
    return before in _LISTS["before_inversion"] or (not before[:1].isalpha() and not before.startswith("{"))


def _verb(words: Sequence[str], at: int) -> tuple[int, str | None]:
    """The index and the new form of the verb of the pronoun at ``at``; the form is None if it is not decided."""
    # The auxiliary of a question is before the pronoun.
    before = words[at - 1] if at else ""
    after = words[at + 1]
    if before in _FORMS or before in _AUXILIARIES:
        if _inverted(words, at):
            return at - 1, _FORMS.get(before, before)
        return at - 1, None
    if after == "'":
        # "'d" and "'ll" stay as they are: they'd, they'll.
        ending = words[at + 2]
        if ending == "s":
            following = words[_skip_adverbs(words, at + 3)]
            return at + 2, _uncontracted(following)
        if ending in ("d", "ll"):
            return at + 2, ending
        return at + 2, None
    # "as tall as he." has no verb after the pronoun.
    if before in ("as", "than") and after in (".", "!", "?", ";"):
        return at + 1, after
    place = _skip_adverbs(words, at + 1)
    verb = words[place]
    governor = before
    if before == "that" and at > 1:
        governor = words[at - 2]
    # "I insist that he stay": after such verbs the plain form is right with every pronoun.
    if governor in _LISTS["mandatives"] and verb.isalpha() and not _may_be_s_form(verb):
        return place, _FORMS.get(verb, verb)
    return place, _with_they(verb)


def _may_share_subject(words: Sequence[str], start: int, changed: bool) -> bool:
    """Whether a verb after ``start`` may share the subject and need agreement too.

    A plural noun may look like a verb in *-s*. After a verb that did not change (a past form) such a word only
    counts directly after a conjunction.
    """
    for place in range(start, len(words) - _PADDING):
        if words[place] not in _JOINERS:
            continue
        verb = _skip_adverbs(words, place + 1)
        if words[verb + 1] == _SUBJECT:
            continue
        may_be_verb = changed or words[place] in _CONJUNCTIONS
        if words[verb] in _FORMS or (may_be_verb and _may_be_s_form(words[verb])):
            return True
    return False


def agree(template: str) -> str | None:
    """The template in which every verb of ``{nominative}`` agrees with *they*, or None.

    None means that a verb is not recognised, or that another verb may share the subject: a missing sentence is
    better than a wrong one.

    >>> agree("{nominative} quickly opens {possessive} umbrella.")
    '{nominative} quickly open {possessive} umbrella.'
    >>> agree("{nominative} sings and dances.") is None
    True
    """
    tokens = _TOKEN.findall(template)
    texts = [text for text, _ in tokens]
    # Looking ahead never leaves the list, as empty words follow the last one.
    words = [text.lower().replace("’", "'") for text in texts] + [""] * _PADDING
    for at, word in enumerate(words):
        if word != _SUBJECT:
            continue
        place, form = _verb(words, at)
        changed = form != words[place]
        if form is None or _may_share_subject(words, max(at, place) + 1, changed):
            return None
        if changed:
            # The new form has the apostrophe and the capital of the old one.
            if "’" in texts[place]:
                form = form.replace("'", "’")
            if texts[place][0].isupper():
                form = form.capitalize()
            texts[place] = form
    # The pattern of tokens does not match white space at the beginning.
    start = template[: len(template) - len(template.lstrip())]
    return start + "".join(text + space for text, (_, space) in zip(texts, tokens, strict=True))
