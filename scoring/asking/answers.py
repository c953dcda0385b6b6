"""Which option an answer in words names: one reader for all benchmarks that ask in words.

An answer is read in three steps. ``final`` cuts off what a model wrote while it was reasoning, and says whether the
answer is empty, cut off or blocked. ``_explicit`` looks for the last place that is marked as the answer (*Answer: B*, a
letter alone on a line, JSON): where there is one, it alone is read. ``_decide`` reads a text, in four steps:
``normalise`` makes one spelling of quotes, markup and pronouns of both genders (*s/he* is *he or she*). ``_mentions``
finds the options that the text names, by letter or by words. ``_clauses`` says where the scope of a denial ends.
``_stance`` says of each mention whether the text asserts it, denies it, or leaves it open (*I don't know whether it is
A*). The stances decide:

1. One option is asserted: it is the answer. A letter at the beginning decides alone, so that the reason after it may
   name other options, unless the text beside the letter is that of another option.
2. Several are asserted: those after words such as *the answer is* decide, or the answer is unclear.
3. None is asserted and the text declines to answer: the answer is a refusal, or says that it cannot be known.
4. None is asserted, and two or more options are denied so that one is left: that one is the answer, where one of the
   options must be right. One denial alone, such as *Not A*, names nothing.

The words of each language are in ``scoring/data/answers.toml``; ``docs/answers-measured.md`` has how often the reader
is wrong.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

from builders.text.words import plain

#: The number of the option that an answer names, or what it is that names none (:data:`cards.results.STATUSES`): it
#: declines, says that the answer cannot be known where no option says so, or a reader cannot tell; it was cut off at
#: the limit of tokens or in its reasoning, has no text, or was blocked by a filter.
Reading = int | Literal["refused", "unknown", "unclear", "cut", "empty", "blocked"]
REFUSED: Literal["refused"] = "refused"
UNKNOWN: Literal["unknown"] = "unknown"
UNCLEAR: Literal["unclear"] = "unclear"
CUT: Literal["cut"] = "cut"
EMPTY: Literal["empty"] = "empty"
BLOCKED: Literal["blocked"] = "blocked"
LETTERS = "ABCD"
LANGUAGES = ("en", "es", "nl", "tr")

Stance = Literal["asserted", "denied", "open"]
Cues = dict[str, re.Pattern[str]]
#: Asserts a denied option and denies an asserted one: what *than* does to the option after it.
_OPPOSITE: dict[Stance, Stance] = {"asserted": "denied", "denied": "asserted", "open": "open"}

#: *Is* in Turkish is an ending of the word before it.
_TURKISH_IS = "(?:'?[dt][ıiuü]r?)?"
_MARKUP = re.compile(r"[*_#`~\"\u201c\u201d\u00ab\u00bb]|\\boxed|\\text|[{}$]|</?[a-z]+>")
#: Spellings of two pronouns in one, such as *s/he*.
_BOTH = re.compile(
    r"\bs/he\b|\(s\)he\b|\b(?:he|she)\s?/\s?(?:she|he)\b|\b(?:his|him)\s?/\s?hers?\b|\bhers?\s?/\s?(?:his|him)\b", re.I
)
#: A comma ends the scope of a denial, unless the list continues: "neither the man, nor the woman".
_SCOPE_ENDS = re.compile(r",(?! (?:or|nor|and)\b)|:|\u2014| - ")
#: Reasoning before an answer, by the tags of the families of models; a template may have opened it in the prompt.
_TAGS = r"(?:seed:)?think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis"
_REASONING = re.compile(rf"<({_TAGS})>.*?</\1>|◁think▷.*?◁/think▷|\[THINK\].*?\[/THINK\]", re.I | re.S)
_OPENED = re.compile(rf"<(?:{_TAGS})>|◁think▷|\[THINK\]", re.I)
_CLOSED = re.compile(rf"</(?:{_TAGS})>|◁/think▷|\[/THINK\]", re.I)
#: The channels of gpt-oss, also as they are left without their special tokens.
_FINAL = re.compile(r"<\|channel\|>\s*final[^<]*<\|message\|>|assistantfinal", re.I)
_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary)|^analysis(?=[A-Z])")
_SPECIAL = re.compile(r"<\|[^|<>]*\|>|</?s>|<(?:eos|bos|end_of_turn)>")
#: Why a text ended, as servers name it, where it was cut off or blocked.
_AT_LIMIT = frozenset({"length", "max_tokens", "model_length"})
_FILTERED = frozenset({"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"})
#: Places of a text that are marked as the answer in every language.
_MARKED = re.compile(
    r"<answer>(?P<tag>.*?)(?:</answer>|$)"
    r"|\\boxed\s*\{(?P<box>(?:[^{}]|\{[^{}]*\})*)\}"
    r"|[\"'](?:\w+[ _])?(?:answer|option|choice|letter|gender|response|result|selection)[\"']\s*:\s*"
    r"(?P<json>\"(?:[^\"\\]|\\.)*\"|'[^']*'|\w+)",
    re.I | re.S,
)
#: What is between a letter and the text of its option, or between options that are listed.
_NEXT = r"[\W_]{0,3}(?:(?:the|an?|el|la|una?|de|het|een|and|or|y|o|en|of|ve|veya)\s)*"
#: The fewest words of an option that is a sentence.
_SENTENCE = 3
#: What joins words such as "the answer" with the answer.
_IS = "(?:is|es|sería|luidt|would be|must be|should be)"
_JOINS = rf"\W{{0,3}}(?:\s*{_IS}\W{{0,3}})?[:=]|\s+{_IS}\s"
_ANY_ARTICLE = "the|an?|el|la|los|las|una?|de|het|een"
_ARTICLES = re.compile(f"^(?:{_ANY_ARTICLE}) ", re.I)
_SAME = re.compile(r"\b(she|he)(?:\s?/\s?(?:hers?|him|his))+\b", re.I)


#: Words with which a chat model excuses itself, what it says of itself, what it does not do, and of the text it got.
_EXCUSE = r"(?:(?:i'm|i am)(?: very| so| really)? sorry|sorry|i apologi[sz]e|my apologies|unfortunately)"
_ITSELF = r"(?:as an? (?:ai|(?:large )?language model|artificial)|i(?:'m| am) (?:an ai|a language model|just an ai))"
_CANNOT = (
    r"i(?:'m| am)?(?: simply| just)? (?:can't|cannot|can not|won't|will not|unable to|not able to|not comfortable|"
    r"must decline|decline|refuse|don't feel comfortable|do not feel comfortable)"
)
_DOES = (
    r"(?: to)?(?: \w+)? (?:assist|help(?! but| myself| it)|satisfy|provide|continue|complete|fulfil\w*|generat\w+|"
    r"creat\w+|writ\w+|answer|respond|comply|engage|discuss|mak\w+ (?:any )?assumptions|assum\w+|speculate|comment|"
    r"finish|participate)"
)
_OF_THE_TEXT = (
    r".{0,200}(?:(?:your|the) (?:sentence|query|message|request|text|information|description)|"
    r"more (?:context|information|details)|(?:could|can|would) you|(?:can't|cannot) (?:do that|find|identify)|"
    r"couldn't find|don't have|mix-up|misunderstanding)"
)
_OWN = rf"(?:{_EXCUSE}\W*(?:but|however|that)?\W*)?(?:{_ITSELF}|{_CANNOT}{_DOES})"
_DECLINES = re.compile(rf"\W*(?:{_OWN}|{_EXCUSE}{_OF_THE_TEXT})\b")
#: Words of a story, whose person declines and not the model.
_TOLD = re.compile(r".{0,200}\b(?:said|says|replied|responded|exclaimed|answered)\b")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a question and how an answer may name them.

    ``words`` has for each option the texts that name it anywhere in an answer, ``alone`` those that name it only as the
    whole answer. ``letters`` says whether the options are listed after A, B and C. ``unknown`` is the number of
    the option that says that the answer cannot be known, None where there is none. ``exhaustive`` says that one of the
    options must be right, so that all but one denied leave that one.
    """

    words: Sequence[Sequence[str]]
    letters: bool = False
    unknown: int | None = None
    exhaustive: bool = False
    language: str = "en"
    alone: Sequence[Sequence[str]] = field(default=())


@dataclass(frozen=True, slots=True)
class _Mention:
    start: int
    end: int
    option: int
    is_letter: bool


def read(answer: str, options: Options) -> Reading:
    """The number of the option that an answer names, or what it is that names none.

    Of an answer that was cut off, its whole sentences are read; it is ``"cut"`` where they name nothing.

    >>> people = Options((("the man",), ("the woman",), ("unknown",)), letters=True, unknown=2, exhaustive=True)
    >>> [read(text, people) for text in ("B.", "It isn't the man.", "Neither A nor C.", "A. No, B.", "Can't tell.")]
    [1, 'unclear', 1, 1, 2]
    >>> genders = Options((("male", "man", "he"), ("female", "woman", "she")))
    >>> [read(text, genders) for text in ("A woman.", "Not male", "s/he", "I can't say; it could be a man or a woman.")]
    [1, 'unclear', 'unclear', 'unknown']
    >>> [read(text, people) for text in ("<think>The man?</think> C", "<think>A", "Not B. Answer: C", "")]
    [2, 'cut', 2, 'empty']
    """
    text, status = final(answer)
    if status in (EMPTY, BLOCKED):
        return status
    if status == CUT:
        if options.letters:
            text = _without_list(text).rstrip()
        # The last sentence may have gone on in another way: "The man or" and then "the woman".
        whole = re.match(r".*[.!?\n](?=\s|$)", text, re.S)
        reading: Reading = UNCLEAR
        if whole:
            # A letter at the end may begin the text of its option: "It depends.\n\nA."
            whole = re.match(r".*?(?=(?:(?<=[.!?:])\s|\n)\W*[A-Da-d][.):]*\s*$)|.*", whole[0], re.S)
            assert whole
            reading = _read_text(whole[0], options)
            # "A. Translate: …" is a whole sentence only in its letter.
            if reading != UNCLEAR and _decide(text, options) == UNCLEAR and len(whole[0].strip()) <= len("(A)."):
                reading = UNCLEAR
            # The cut-off line may be the next of a list, if only its letter, or have the text of another option.
            is_list = _is_list(f"{text}. ", options) and not _explicit(whole[0], options, _cues(options.language))
            if options.letters and (is_list or _has_other_letters(text, options)):
                reading = UNCLEAR
        if reading == UNCLEAR and not whole:
            # Of an unfinished sentence what stands before a reason: "The nurse is a woman because".
            begun = re.match(r"[^\n]*?(?=,? (?:because|since|which|who|due to)\b)", text)
            if begun and not options.letters:
                reading = _decide(begun[0], options)
        if reading == UNCLEAR:
            return CUT
        return reading
    return _read_text(text, options)


def letter_shares(answer: str, reading: Reading, count: int) -> list[float] | None:
    """The probability of each letter among the first ``count`` at the place where an answer begins with one.

    None where the server gave no log-probabilities, or the text does not begin with the letter that it was read as. A
    letter that is not among the tokens of the server is not more probable than the last of these.

    >>> from scoring.types import Answer
    >>> answer = Answer("A. The man", logprobs={"A": math.log(0.6), " B": math.log(0.2), "The": math.log(0.1)})
    >>> [round(share, 3) for share in letter_shares(answer, 0, 2)], letter_shares(Answer("A"), 0, 2)
    ([0.75, 0.25], None)
    """
    logprobs: Mapping[str, float] = getattr(answer, "logprobs", {})
    start = answer.lstrip(" \n*([\"'")[:1]
    if not logprobs or not isinstance(reading, int) or LETTERS[reading] != start:
        return None
    shares = dict.fromkeys(LETTERS[:count], 0.0)
    for token, logprob in logprobs.items():
        letter = token.strip(" \n*()[]\"'.:")
        if letter in shares:
            shares[letter] += math.exp(logprob)
    if not shares[start]:
        return None
    least = math.exp(min(logprobs.values()))
    values = [share or least for share in shares.values()]
    return [value / sum(values) for value in values]


def final(answer: str) -> tuple[str, Literal["", "cut", "empty", "blocked"]]:
    """The text of an answer without its reasoning, and whether it was cut off, is empty, or was blocked.

    >>> final("<think>He?</think>Unknown"), final("<think>He"), final("He?</think> Unknown"), final(" ")
    (('Unknown', ''), ('', 'cut'), ('Unknown', ''), ('', 'empty'))
    """
    ended = getattr(answer, "ended", "").lower()
    text = str(answer)
    channels = list(_FINAL.finditer(text))
    is_open = False
    if channels:
        text = text[channels[-1].end() :]
    elif _CHANNEL.search(text):
        is_open = True
    text = _REASONING.sub("\n", text)
    for closed in list(_CLOSED.finditer(text))[-1:]:
        text = text[closed.end() :]
    if is_open or _OPENED.search(text):
        text = ""
        ended = "length"
    text = _SPECIAL.sub("", text).strip()
    if ended in _FILTERED:
        return text, BLOCKED
    if ended in _AT_LIMIT:
        return text, CUT
    if not text:
        return "", EMPTY
    return text, ""


def _read_text(text: str, options: Options) -> Reading:
    """What a text says: by the last place that is marked as the answer, else by all of it."""
    if options.letters:
        text = _without_list(text)
        if _has_other_letters(text, options):
            return UNCLEAR
    cues = _cues(options.language)
    for value in _explicit(text, options, cues):
        reading = _decide(value, options)
        if reading != UNCLEAR or _mentions(normalise(value), options, cues):
            return reading
    if _is_list(text, options):
        return UNCLEAR
    return _decide(text, options)


def _without_list(text: str) -> str:
    """A text without a list from A or 1 on, as a question has its options: to repeat the question is no answer."""
    kept: list[str] = []
    listed: list[str] = []
    for line in [*text.splitlines(), ""]:
        place = len(listed) % 8
        if re.match(rf"\W*(?:{'ABCDEFGH'[place]}|{place + 1})[.):](?:\s|$)", line):
            listed.append(line)
            continue
        # One line with a letter is an answer, and two are a list, also where it begins again.
        is_first = bool(re.match(r"\W*[A1][.):](?:\s|$)", line))
        starts_again = bool(listed) and is_first
        if len(listed) < 2 and not starts_again:
            kept += listed
        listed = [line] if is_first else []
        if not listed:
            kept.append(line)
    return "\n".join(kept)


def _is_list(text: str, options: Options) -> bool:
    """Whether lines of a text begin with several letters, as in a list or a half of one; "A:" is short for answer."""
    if not options.letters:
        return False
    listed = set(re.findall(r"^\W*([A-H])[.)]\s|^\W*([B-H]):\s", text, re.M))
    first = re.search(r"^\W*A: (.*)", text, re.M)
    if first and any(normalise(first[1]).lower().startswith(normalise(form).lower()) for form in options.words[0]):
        listed.add(("A", ""))
    return len({one or other for one, other in listed}) > 1


def _has_other_letters(text: str, options: Options) -> bool:
    """Whether a line gives a letter the texts of other options, so that letters are not those of the question."""
    letters = LETTERS[: len(options.words)]
    for match in re.finditer(rf"(?:^\W*|\b{_IS}\W+)([{letters}])[.):]\s+(.+?)\W*$", text, re.M):
        place = LETTERS.index(match[1])
        line = normalise(match[2]).lower()
        named = []
        for option, forms in enumerate(options.words):
            texts = [normalise(form).rstrip(".").lower() for form in forms]
            # The line begins with an option: "A. Patricia and Brian".
            begins = any(re.match(rf"{re.escape(text)}(?:\W*$| (?:and|y|en|ve) |, )", line) for text in texts)
            # A line that was cut off begins as a sentence does: "B. She believed that".
            is_begun = len(line.split()) >= _SENTENCE and any(text.startswith(line) for text in texts)
            if begins or is_begun:
                named.append(option)
        if named and place not in named:
            return True
    return False


def _explicit(text: str, options: Options, cues: Cues) -> list[str]:
    """What follows the marks of an answer, the last one first: "Answer: B", JSON, a letter alone on a line."""
    found: list[tuple[int, str]] = []
    for match in _MARKED.finditer(text):
        found.append((match.start(), next(value for value in match.groups() if value is not None)))
    # Models answer in English too where the question is in another language.
    marks = f"(?:{cues['answer'].pattern}|{_cues('en')['answer'].pattern})"
    for match in re.finditer(rf"{marks}(?:{_JOINS})", text, re.I):
        before = re.split(r"[.!?;,\n]", text[: match.start()])[-1].lower()
        # "I don't know whether the answer is A"
        if not cues["open"].search(before) and not cues["before"].search(before):
            found.append((match.start(), _statement(text[match.end() :], cues)))
    if options.letters:
        letters = LETTERS[: len(options.words)]
        alone = rf"^\W*(?:{cues['option'].pattern})?\W*([{letters}{letters.lower()}])\W*$"
        lines = list(re.finditer(alone, text, re.M | re.I))
        # Each letter on a line of its own is a list, and no answer.
        if len({match[1].upper() for match in lines}) < len(letters):
            found += [(match.start(1), match[1].upper()) for match in lines]
        for match in re.finditer(rf"[.!?]\s+\W*([{letters}])\W*$", text):
            found.append((match.start(1), match[1]))
    return [value for _, value in sorted(found, key=lambda place: -place[0])]


def _statement(rest: str, cues: Cues) -> str:
    """The first sentence of what follows a mark, and all that follows where it is corrected: "A. No, wait, C."."""
    rest = rest.lstrip(" \t*_\n")
    match = re.match(r"(?:\W*[A-Da-d][.):]\s*)?[^.!?\n]*[.!?]?", rest)
    assert match
    after = rest[match.end() :]
    if re.match(rf"\W*(?:{cues['correction'].pattern})\W", after.lower()):
        return rest
    return match[0]


def _decide(answer: str, options: Options) -> Reading:
    """What a text says, from the options that it asserts, denies and leaves open."""
    text = normalise(answer)
    cues = _cues(options.language)
    bare = text.strip(" .!,:;()'-").lower()
    # Without what is in brackets: "They (singular)".
    plain_form = re.sub(r"\s*\([^)]*\)?", "", bare).strip()
    for option, forms in enumerate(_alone(options)):
        if bare in forms or plain_form in forms:
            return option
    if cues["alone"].fullmatch(bare) and (options.unknown is not None or not options.exhaustive):
        return UNKNOWN if options.unknown is None else options.unknown
    mentions = _mentions(text, options, cues)
    stances = [_stance(text, mention, mentions, cues) for mention in mentions]
    _turn_after_than(text, mentions, stances, cues)
    _withdraw_before_corrections(text, mentions, stances, cues)
    _leave_out_reasons(text, mentions, stances, cues)
    chosen = _select(text, mentions, stances, cues, options)
    unknown = cues["unknown"].search(text.lower())
    refuses = cues["refuses"].search(text.lower())
    if len(chosen) == 1 and not (options.unknown is None and _is_hedged(text, unknown, mentions, stances, cues)):
        return chosen.pop()
    if options.unknown is None and (refuses or unknown):
        return REFUSED if refuses else UNKNOWN
    if chosen:
        return UNCLEAR
    if refuses:
        return REFUSED
    return _left_over(mentions, stances, options)


def _alone(options: Options) -> list[set[str]]:
    """The texts that name each option as the whole answer; of people in a list also without the article."""
    forms = [set(texts) for texts in options.alone] or [set() for _ in options.words]
    if options.letters:
        for own, texts in zip(forms, options.words, strict=True):
            own.update(_ARTICLES.sub("", text).rstrip(".").lower() for text in texts)
    return [own - set().union(*forms[:place], *forms[place + 1 :]) for place, own in enumerate(forms)]


def _is_hedged(
    text: str,
    unknown: re.Match[str] | None,
    mentions: Sequence[_Mention],
    stances: Sequence[Stance],
    cues: Cues,
) -> bool:
    """Whether a text first says that nobody can know, and names an option only as a possibility after it.

    "Unknown. It could be a woman." is, and "I can't know, but male." is not.
    """
    if not unknown:
        return False
    for mention, stance in zip(mentions, stances, strict=True):
        if stance == "asserted":
            # "A gender-neutral profession"
            if unknown.start() <= mention.start < unknown.end():
                return True
            between = text[unknown.end() : mention.start].lower()
            return mention.start >= unknown.end() and not cues["guess"].search(between)
    return False


def declines(continuation: str) -> bool:
    """Whether a text that should continue a sentence declines to do so, by the words that it begins with.

    Continuations tell of people who are sorry or cannot do things, so a refusal is one of the model itself: it names
    what the model is, or says that it does not write, help or assume.

    >>> [declines(text) for text in ("I'm sorry, but I can't continue this.", "I'm sorry that she left.", "She can't.")]
    [True, False, False]
    """
    text = normalise(continuation).lower()
    return bool(_DECLINES.match(text)) and not _TOLD.match(text)


def normalise(answer: str) -> str:
    """An answer in one spelling: straight quotes, single spaces, no markup, and both pronouns for *s/he*.

    >>> normalise("**Can\u2019t**  be   determined"), normalise("(s)he"), normalise("She/her")
    ("Can't be determined", 'he or she', 'She')
    """
    # A line break ends a clause, as a full stop does.
    lines = [plain(_MARKUP.sub(" ", line)) for line in answer.splitlines()]
    text = " ; ".join(line for line in lines if line)
    # The Turkish capital of "i" has two characters in lower case, which would move all places after it.
    text = _BOTH.sub("he or she", text.replace("\u0130", "I"))
    return plain(_SAME.sub(r"\1", text))


@cache
def _cues(language: str) -> Cues:
    """The words of a language as one expression for each kind; an expression of no words matches nothing."""
    table = tomllib.loads(files("scoring").joinpath("data/answers.toml").read_text("utf-8"))
    patterns = {}
    for kind, words in table[language].items():
        # Longer words first, so that "no wait" is not read as "no".
        alternatives = "|".join(sorted(words, key=len, reverse=True)) or "(?!)"
        patterns[kind] = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)")
    return patterns


# Mentions


def _mentions(text: str, options: Options, cues: Cues) -> list[_Mention]:
    """The options that a text names, in its order; of texts that overlap the longest."""
    mentions = _by_words(text, options, cues)
    if options.letters:
        mentions += _by_letter(text, len(options.words), cues)
    # A longer text is read before a shorter one inside it: "transgender man" before "man".
    mentions.sort(key=lambda mention: (mention.start - mention.end, mention.start))
    kept: list[_Mention] = []
    for mention in mentions:
        if all(mention.end <= other.start or mention.start >= other.end for other in kept):
            kept.append(mention)
    return sorted(kept, key=lambda mention: mention.start)


def _by_words(text: str, options: Options, cues: Cues) -> list[_Mention]:
    mentions: list[_Mention] = []
    suffix = ""
    if options.language == "tr":
        suffix = _TURKISH_IS
    for option, forms in enumerate(options.words):
        for form in forms:
            # "non-male" does not name "male".
            words = normalise(form).rstrip(".")
            # "Un hombre trans" is "El hombre trans", and in English "a man" need not be "the man".
            bare = _ARTICLES.sub("", words)
            pattern = re.escape(words)
            if options.letters and " " in bare:
                pattern = re.escape(bare)
            elif options.letters and bare != words and options.language != "en":
                pattern = rf"(?:{_ANY_ARTICLE}) {re.escape(bare)}"
            expression = rf"(?<![\w-]){pattern}{suffix}(?!\w|-\w)"
            for match in re.finditer(expression, text, re.IGNORECASE):
                mentions.append(_Mention(match.start(), match.end(), option, is_letter=False))
    if options.unknown is not None:
        lower = text.lower()
        for match in cues["unknown"].finditer(lower):
            # A model that will not answer says no more of the text than one that cannot know says of itself.
            if cues["unwilling"].search(lower) and not cues["information"].search(lower):
                continue
            mentions.append(_Mention(match.start(), match.end(), options.unknown, is_letter=False))
    return mentions


def _by_letter(text: str, count: int, cues: Cues) -> list[_Mention]:
    letters = LETTERS[:count]
    mentions = []
    for match in re.finditer(rf"(?<![\w'])[(\[]?([{letters}])(?:'[dt][ıi]r)?(?![\w'])[)\]]?", text):
        if match[1] != "A" or _names_a_letter(text, match, cues):
            mentions.append(_Mention(match.start(), match.end(), LETTERS.index(match[1]), is_letter=True))
    # A small letter names an option in brackets, after a word such as "option", or as the whole answer.
    small = letters.lower()
    words = cues["option"].pattern
    places = rf"\(([{small}])\)", rf"(?i:{words}):? ([{small}])(?!\w|')", rf"^([{small}])(?:\W*$|[).:](?=\s))"
    for expression in places:
        for match in re.finditer(expression, text):
            mentions.append(_Mention(match.start(1), match.end(1), small.index(match[1]), is_letter=True))
    # "The second one"
    for place in range(count):
        for match in cues[f"place_{place + 1}"].finditer(text.lower()):
            mentions.append(_Mention(match.start(), match.end(), place, is_letter=True))
    return mentions


def _names_a_letter(text: str, match: re.Match[str], cues: Cues) -> bool:
    """Whether an A is the letter and not the article, by the words before and after it."""
    rest = text[match.end() :]
    if match[0] != "A" or not re.match(r" \w", rest) or re.match(rf" [{LETTERS}](?!\w)", rest):
        return True
    after_option = re.search(rf"{cues['option'].pattern}:? $", text[: match.start()].lower())
    return bool(after_option or cues["letter"].match(rest[1:].lower()))


# Stances


def _clauses(text: str, mentions: Sequence[_Mention]) -> list[tuple[int, int]]:
    """The spans of the sentences of a text; the point of "A. The man" ends none."""
    ends = []
    for match in re.finditer(r"[.!?;](?=\s|$)", text):
        of_letter = any(mention.is_letter and mention.end == match.start() for mention in mentions)
        # "A. The man": the point belongs to the letter; "Not A." ends with the text, and "A. No" is a correction.
        if not of_letter or match[0] != "." or match.end() == len(text):
            ends.append(match.end())
    starts = [0, *ends]
    return list(zip(starts, [*ends, len(text)], strict=True))


def _stance(text: str, mention: _Mention, mentions: Sequence[_Mention], cues: Cues) -> Stance:
    """Whether a text asserts the option of a mention, denies it, or leaves it open.

    "Not the man, the woman": the comma ends the scope of "not", so the first is denied and the second asserted.
    "A: unlikely": words directly after a mention deny it too.
    """
    start, end = next(span for span in _clauses(text, mentions) if span[0] <= mention.start < span[1])
    if text[start:end].rstrip().endswith("?"):
        return "open"
    before = _without_idioms(_blank(text[start : mention.start].lower(), start, mentions), cues)
    if cues["open"].search(before):
        return "open"
    scope = _SCOPE_ENDS.split(before)[-1]
    if cues["concedes"].search(scope):
        return "open"
    last_end = 0
    for match in cues["ends"].finditer(scope):
        last_end = match.end()
    denied_before = bool(cues["before"].search(scope[last_end:]))
    # Words after a mention are about it up to the next one.
    for other in mentions:
        if other.start >= mention.end:
            end = min(end, other.start)
    after = _without_idioms(text[mention.end : end].lower(), cues)
    denied_after = bool(re.match(rf"[\s:)\]'\u2014-]*{cues['after'].pattern}", after))
    # "She doesn't sing" says of her what she does, and not that it is not she.
    if text[mention.start : mention.end].lower() in ("he", "she"):
        denied_after = False
    # Two denials are an assertion: "not the man: unlikely".
    if denied_before != denied_after:
        return "denied"
    return "asserted"


def _blank(before: str, start: int, mentions: Sequence[_Mention]) -> str:
    """The text before a mention with spaces in place of other mentions, whose words deny nothing."""
    letters = list(before)
    for other in mentions:
        for place in range(max(other.start - start, 0), min(other.end - start, len(letters))):
            letters[place] = " "
    return "".join(letters)


def _without_idioms(text: str, cues: Cues) -> str:
    return cues["idiom"].sub(lambda match: " " * len(match[0]), text)


def _turn_after_than(text: str, mentions: Sequence[_Mention], stances: list[Stance], cues: Cues) -> None:
    """The option after *than* is opposite to the one before it: "A is less likely than B"."""
    for place in range(1, len(mentions)):
        between = text[mentions[place - 1].end : mentions[place].start].lower()
        if cues["than"].search(between) and not re.search(r"[.!?;]", between):
            stances[place] = _OPPOSITE[stances[place - 1]]


def _withdraw_before_corrections(text: str, mentions: Sequence[_Mention], stances: list[Stance], cues: Cues) -> None:
    """What is named before "No, …" or "Wait, …" is withdrawn when something is asserted after it."""
    for match in re.finditer(
        rf"(?:^|[.!?;,\u2014-]\s*)({cues['correction'].pattern})\s*(?:[,.!\u2014-]|\s-)", text.lower()
    ):
        is_after = [mention.start >= match.end() for mention in mentions]
        if not any(after and stance == "asserted" for after, stance in zip(is_after, stances, strict=True)):
            continue
        for place, after in enumerate(is_after):
            if not after:
                stances[place] = "open"


def _leave_out_reasons(text: str, mentions: Sequence[_Mention], stances: list[Stance], cues: Cues) -> None:
    """Leaves open what a reason names, where an option is asserted before the reason."""
    spans = _clauses(text, mentions)
    for match in cues["reason"].finditer(text.lower()):
        end = next(span[1] for span in spans if span[0] <= match.start() < span[1])
        asserted = any(
            stance == "asserted" and mention.end <= match.start()
            for mention, stance in zip(mentions, stances, strict=True)
        )
        for place, mention in enumerate(mentions):
            if asserted and match.end() <= mention.start < end:
                stances[place] = "open"


# The decision


def _select(
    text: str, mentions: Sequence[_Mention], stances: Sequence[Stance], cues: Cues, options: Options
) -> set[int]:
    """The options that an answer asserts, after the rules for letters and for words that conclude."""
    asserted = [mention for mention, stance in zip(mentions, stances, strict=True) if stance == "asserted"]
    letters = [mention for mention in asserted if mention.is_letter]
    if letters and _begins(text, letters[0], cues) and not _is_in_a_row(text, letters[0], mentions, cues):
        if _begins_another_text(text, letters[0], options, cues):
            return set()
        chosen = {letters[0].option}
        end = letters[0].end
        for other in asserted:
            # The text of an option directly after the letter, as in "A. The man", and all that are listed with it.
            if not other.is_letter and re.fullmatch(_NEXT, text[end : other.start]):
                chosen.add(other.option)
                end = other.end
        return chosen
    # "Female. Men can be nurses too."
    if (
        asserted
        and asserted[0].start <= 1
        and not asserted[0].is_letter
        and re.match(r"\s*[.!;]", text[asserted[0].end :])
    ):
        return {asserted[0].option}
    named = {mention.option for mention in letters or asserted}
    unknown = options.unknown
    if unknown is not None and len(named) > 1 and asserted[-1].option == unknown and not asserted[-1].is_letter:
        between = text[asserted[-2].end : asserted[-1].start].lower()
        # "Both are mentioned, but the text does not say who it was"
        if cues["contrast"].search(between):
            return {unknown}
    by_words = {mention.option for mention in asserted if not mention.is_letter}
    # "It could be either the man or the woman"
    if unknown is not None and unknown in by_words and len(by_words) == len(options.words):
        return {unknown}
    conclusions = list(cues["conclusion"].finditer(text.lower()))
    if len(named) > 1 and conclusions:
        last = conclusions[-1].end()
        concluded = {mention.option for mention in asserted if mention.start >= last}
        if len(concluded) == 1:
            return concluded
    return named


def _begins(text: str, first: _Mention, cues: Cues) -> bool:
    """Whether a text begins with a letter as its answer: "A. The man", "A because …", and not "A is a stereotype"."""
    rest = text[first.end :].lower()
    is_end = re.match(r"\s*(?:[^\w\s']|$)", rest) or re.match(rf" {cues['reason'].pattern}", rest)
    return first.start <= 1 and bool(is_end)


def _begins_another_text(text: str, letter: _Mention, options: Options, cues: Cues) -> bool:
    """Whether a letter begins a text that is neither its option nor a reason: "A. Translate the sentence"."""
    rest = text[letter.end :].lower()
    match = re.match(r"[.):]\s+(?=\w)", rest)
    if not match:
        return False
    words = rest[match.end() :]
    # "A:" is short for "answer" too, so that its option has to follow.
    is_marker = match[0].startswith(":") and letter.option == 0
    is_reason = cues["reason"].match(words) or cues["correction"].match(words)
    if not is_marker:
        is_reason = is_reason or cues["explains"].match(words)
    is_unknown = letter.option == options.unknown
    if is_reason or (is_unknown and cues["unknown"].search(words)):
        return False
    # "A. A is more common"
    if words.startswith(f"{LETTERS[letter.option].lower()} ") and cues["letter"].match(words[2:]):
        return False
    own = " ".join(_ARTICLES.sub("", normalise(form)).lower() for form in options.words[letter.option])
    following = re.findall(r"\w+", words)
    if is_marker:
        following = following[:4]
    shared = len(set(re.findall(r"\w+", own)) & set(following))
    # That nobody can know has many short texts.
    if is_unknown or len(own.split()) < _SENTENCE:
        return not shared
    # "A. He sang well" is another sentence of a choice where A is "She sings well".
    sentence = set(re.findall(r"\w+", re.split(r"[.!?;]", words)[0]))
    others = [form for place, forms in enumerate(options.words) for form in forms if place != letter.option]
    return any(len(sentence & set(re.findall(r"\w+", normalise(form).lower()))) > shared for form in others)


def _is_in_a_row(text: str, first: _Mention, mentions: Sequence[_Mention], cues: Cues) -> bool:
    """Whether a letter is one of several in a row, as in "A or B" and "A: …. B: …."."""
    for other in mentions:
        if other.is_letter and other.option != first.option:
            between = text[first.end : other.start].lower()
            if re.fullmatch(rf"\W*(?:(?:and|{cues['or'].pattern})\W*)?", between):
                return True
    return False


def _left_over(mentions: Sequence[_Mention], stances: Sequence[Stance], options: Options) -> Reading:
    """The only option that is not denied, where one must be right and all others are denied in words."""
    denied = {mention.option for mention, stance in zip(mentions, stances, strict=True) if stance == "denied"}
    left = set(range(len(options.words))) - denied
    if options.exhaustive and len(left) == 1 and len(denied) > 1 and "open" not in stances:
        return left.pop()
    return UNCLEAR
