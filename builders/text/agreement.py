"""Verb agreement with singular *they*, by closed lists and spelling. If they do not decide, there is no result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

_SUBJECT = "{nominative}"

_AGREE = {
    "is": "are",
    "was": "were",
    "has": "have",
    "does": "do",
    "isn't": "aren't",
    "wasn't": "weren't",
    "hasn't": "haven't",
    "doesn't": "don't",
}
_AUXILIARIES = frozenset(
    """can could may might must shall should will would did had do were cannot can't couldn't mightn't mustn't shan't
    shouldn't won't wouldn't didn't hadn't don't weren't""".split()
)
_IRREGULAR_PASTS = frozenset(
    """arose ate awoke bade beat became began beheld bent beset besought bet bid bit bled blew bore bought bound bred
    broke brought built burnt burst came cast caught chose clung cost crept cut dealt dove dreamt drank drew drove dug
    dwelt fell felt fit fled flew flung forbade foresaw foretold forgave forgot forsook fought found froze gave got
    grew ground held heard hid hit hung hurt kept knelt knew laid lay leant leapt learnt left lent let lit lost made
    meant met misled misread mistook outdid outgrew outran outshone overcame overdid overheard overran oversaw
    overslept overthrew overtook paid partook proved put quit ran rang read rebuilt redid redrew remade repaid reset
    resold retold rethought rewound rewrote rid rode rose said sang sank sat saw sent set shod shone shook shot showed
    shrank shut slept slew slid slit slung smelt smote snuck sold sought spat spelt spent spilt spoke sprang spread
    spun stank stole stood strode strove struck strung stuck stung swam swept swore swung taught thought threw thrust
    told took tore trod undertook underwent understood undid unwound upheld upset went wept withdrew withheld
    withstood woke won wore wound wove wrote""".split()
)
_ADVERBS = frozenset(
    """almost already also alone always better both either else even ever first further hardly indeed instead just later
    long maybe more most much never nevertheless next nonetheless not now often once only perhaps quite rather seldom
    sometimes soon still then therefore thus together too twice very well yet""".split()
)
_NO_VERBS = frozenset("afterwards besides hers ours sometimes theirs this thus towards yours".split()) | _ADVERBS
_IRREGULAR_BASES = {
    "aches": "ache",
    "belies": "belie",
    "biases": "bias",
    "caches": "cache",
    "dies": "die",
    "focuses": "focus",
    "lies": "lie",
    "quizzes": "quiz",
    "refocuses": "refocus",
    "ties": "tie",
    "unties": "untie",
    "vies": "vie",
}
# Participles that neither end in -ed, -en or -wn nor are past forms.
_PARTICIPLES = frozenset("become come done gone no overcome run".split())
_CONJUNCTIONS = frozenset("and or but yet nor then".split())
_JOINERS = _CONJUNCTIONS | frozenset(["as", "than", ",", ";", ":", "-", "–", "—", "("])
# After these the verb is in its plain form: "suggested {nominative} leave".
_MANDATIVES = frozenset("demanded insisted proposed recommended requested required suggested urged".split())
# Words before "was" in "was {nominative}" if the pronoun is the subject.
_BEFORE_INVERSION = frozenset(
    """and as but how never neither nor only or rarely seldom so than then what when where which who whom whose
    why""".split()
)
_PADDING = 4  # empty words after the last one, so that looking ahead stays in the list
_TOKEN = re.compile(r"(\{\w+\}|[^\W\d_]+(?:['’-][^\W\d_]+)*|\S)(\s*)")


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or word == "{reflexive}" or word.endswith("ly")


def _skip_adverbs(words: Sequence[str], at: int) -> int:
    return at + sum(1 for _ in takewhile(_is_adverb, words[at:]))


def _may_be_s_form(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith("ss") and word.isalpha() and word not in _NO_VERBS


def _base(verb: str) -> str:
    """The plain form of a verb in *-s*.

    >>> [_base(v) for v in ("carries", "watches", "goes", "uses", "lies")]
    ['carry', 'watch', 'go', 'use', 'lie']
    """
    if verb in _IRREGULAR_BASES:
        return _IRREGULAR_BASES[verb]
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    return verb[:-2] if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) else verb[:-1]


def _with_they(verb: str) -> str | None:
    """The form of a finite verb with *they*, or None if it is not known."""
    if verb in _AGREE:
        return _AGREE[verb]
    if verb in _AUXILIARIES or verb in _IRREGULAR_PASTS or verb.endswith("ed"):
        return verb
    return _base(verb) if _may_be_s_form(verb) else None


def _uncontracted(next_word: str) -> str | None:
    """The ending for ``'s`` after *they*: *ve* (has) before "been", *re* (is) if no participle follows."""
    if next_word in ("been", "got"):
        return "ve"
    participle = next_word.endswith(("ed", "en", "wn")) or next_word in _IRREGULAR_PASTS | _PARTICIPLES
    return "re" if next_word.isalpha() and not participle else None


def _inverted(words: Sequence[str], at: int) -> bool:
    """Whether the auxiliary before the pronoun at ``at`` opens a question or follows *nor*, *so* …."""
    before = words[at - 2] if at > 1 else ""
    return before in _BEFORE_INVERSION or (not before[:1].isalpha() and not before.startswith("{"))


def _verb(words: Sequence[str], at: int) -> tuple[int, str | None]:
    """The index and the new form of the verb of the pronoun at ``at``; the form is None if it is not decided."""
    before, after = words[at - 1] if at else "", words[at + 1]
    if before in _AGREE or before in _AUXILIARIES:
        return at - 1, _AGREE.get(before, before) if _inverted(words, at) else None
    if after == "'":
        ending = words[at + 2]
        following = words[_skip_adverbs(words, at + 3)]
        return at + 2, _uncontracted(following) if ending == "s" else ending if ending in ("d", "ll") else None
    if before in ("as", "than") and after in (".", "!", "?", ";"):
        return at + 1, after
    place = _skip_adverbs(words, at + 1)
    verb = words[place]
    governor = words[at - 2] if before == "that" and at > 1 else before
    plain_form = governor in _MANDATIVES and verb.isalpha() and not _may_be_s_form(verb)
    return place, _AGREE.get(verb, verb) if plain_form else _with_they(verb)


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
        if words[verb] in _AGREE or (may_be_verb and _may_be_s_form(words[verb])):
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
    words = [text.lower().replace("’", "'") for text in texts] + [""] * _PADDING
    for at in [place for place, word in enumerate(words) if word == _SUBJECT]:
        place, form = _verb(words, at)
        changed = form != words[place]
        if form is None or _may_share_subject(words, max(at, place) + 1, changed):
            return None
        if changed:
            form = form.replace("'", "’") if "’" in texts[place] else form
            texts[place] = form.capitalize() if texts[place][0].isupper() else form
    start = template[: len(template) - len(template.lstrip())]
    return start + "".join(text + space for text, (_, space) in zip(texts, tokens, strict=True))
