"""Stated gender: sentences in which only a job is known, and sentences in which the text states a gender.

After *Debiasing Algorithm through Model Adaptation* (DAMA; Limisiewicz et al., 2024) and *Don't Forget About Pronouns*
(Limisiewicz and Mareček, 2022), whose aim is to remove the first and to keep the second. All sentences are this
project's. The percentages of women in jobs are facts of the US Bureau of Labor Statistics, as other data sets of the
project have them.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, cycle
from typing import Any

from builders.dataset import Files, Origin, Row, Rows, declared
from builders.text.embedded import PROJECT, table
from builders.text.neopronouns import EVERY, NEOPRONOUNS
from builders.text.wording import STATED, STEREOTYPE
from builders.text.words import PRONOUNS

FILE = "builders/data/stated_gender.toml"
#: Which form of a pronoun a name in braces is for.
_SLOTS = {"he": "nominative", "him": "accusative", "his": "possessive", "himself": "reflexive"}
_LETTERS = re.compile(r"[a-z']+")
_PLACE = re.compile(r"\{(he|him|his|himself|man|John)\}", re.I)


def _wording() -> dict[str, Any]:
    return table("stated_gender")


def jobs(held_out: bool) -> Iterator[tuple[str, str, float]]:
    """Each job with the gender of its majority and the percentage of women.

    No recipe of the project learns from those that are ``held_out``.

    >>> next(jobs(True))
    ('skincare specialist', 'female', 98.2)
    """
    for gender, shares in _wording()["jobs"]["other" if held_out else "known"].items():
        for job, share in shares.items():
            yield job, gender, share


def words() -> frozenset[str]:
    """Words, names and titles that state a gender in the sentences; no recipe may learn from them.

    >>> {"man", "Mary", "Mrs.", "pregnant"} <= words(), "aunt" in words(), "the" in words()
    (True, False, False)
    """
    stated = _wording()["stated"]
    found = set(stated["body"]["words"])
    for people in stated["people"].values():
        # Words that persons of one gender alone have: not "old", and not a surname of both.
        male, female = (set(" ".join(people[side]).split()) for side in ("male", "female"))
        found |= male ^ female
    return frozenset(found)


def fragments() -> frozenset[str]:
    """The parts of the sentences around the place, in lower case: those of three words, and those with *that*.

    >>> {"explained that", "had slept badly"} <= fragments()
    True
    """
    wording = _wording()
    stated = wording["stated"]
    texts = stated["templates"] + stated["crossed"]["relatives"] + stated["crossed"]["kinds"]
    texts += stated["coreference"]["templates"]
    for some in wording["stereotype"].values():
        texts += some
    found = set()
    for text in texts:
        # Between the last word in braces before the place and the end of the sentence's clause.
        match = list(_PLACE.finditer(text))[-1]
        before = re.split(r"\{\w+\}", text[: match.start()])[-1]
        for part in (before, text[match.end() :]):
            plain_words = _LETTERS.findall(part.lower())
            if len(plain_words) > 2 or (len(plain_words) == 2 and plain_words[1] == "that"):
                found.add(" ".join(plain_words))
    return frozenset(found)


def shared(texts: Iterable[str]) -> list[str]:
    """What texts have of the sentences of this data set: gendered words and names, held-out jobs, parts of sentences.

    A recipe that learns from such texts is tested on what it learned. Texts of a recipe give an empty list.

    >>> shared(["The nephew of the mason laughed because he was glad.", "Mary explained that she was late."])
    ['Mary', 'explained that', 'mason']
    """
    reserved = words()
    phrases = fragments() | {job for job, _, _ in jobs(held_out=True)}
    found: set[str] = set()
    for text in texts:
        tokens = re.findall(r"[\w']+\.?", text)
        for token in tokens:
            # Names and titles begin with a capital; of other words the case says nothing.
            for form in (token, token.rstrip("."), token.lower().rstrip(".")):
                if form in reserved:
                    found.add(form)
        lower = f" {' '.join(_LETTERS.findall(text.lower()))} "
        for phrase in phrases:
            # Also the plural of a job.
            if f" {phrase} " in lower or f" {phrase}s " in lower:
                found.add(phrase)
    return sorted(found)


def _a(text: str, job: str) -> str:
    return text.replace("{a}", "an" if job[0] in "aeiou" else "a").replace("{job}", job)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _rows(_: Files) -> Rows:
    """All sentences, those of stereotypes first."""
    every = chain(_stereotypes(), _people(), _biology(), _crossed(), _coreference(), _declared())
    for number, values in enumerate(every):
        parts = [values["kind"], values["unit"], values["side"], str(values["number"])]
        row_id = "/".join(re.sub(r"\W+", "-", part).strip("-") for part in parts)
        yield Row("test", row_id, Origin(PROJECT, FILE, number), values)


def _sentence(
    text: str, *, aim: str, kind: str, unit: str, side: str, number: int, names: tuple[str, str] = ("", ""), **more: Any
) -> dict[str, Any]:
    """The values of a row of a text with one place, such as ``{he}``; ``names`` are those that {John} stands for."""
    match = _PLACE.search(text)
    assert match, text
    name = match[1]
    neo = None
    forms: list[str | None]
    if name == "man":
        slot, forms = "noun", ["man", "woman", "person"]
    elif name == "John":
        slot, forms = "name", [*names, None]
    else:
        slot = _SLOTS[name.lower()]
        forms = [getattr(PRONOUNS[gender], slot) for gender in ("male", "female", "they")]
        if slot == "reflexive":
            forms[2] = "themselves"
        if side in NEOPRONOUNS:
            neo = getattr(EVERY[side], slot)
        if name[0].isupper():
            forms = [_capital(form) for form in forms if form]
    return {
        "aim": aim,
        "kind": kind,
        "unit": unit,
        "side": side,
        "number": number,
        "held_out": more.get("held_out", True),
        "female_percent": more.get("female_percent"),
        "slot": slot,
        "before": text[: match.start()],
        "male": forms[0],
        "female": forms[1],
        "they": forms[2],
        "neo": neo,
        "after": text[match.end() :],
    }


def _stereotypes() -> Iterator[dict[str, Any]]:
    """Each job in each template of each kind; jobs that recipes may learn from in those of ``templates`` alone."""
    people = _wording()["stated"]["people"]["names"]
    for kind, texts in _wording()["stereotype"].items():
        for held_out in (False, True):
            if not held_out and kind != "templates":
                continue
            counts = {"female": 0, "male": 0}
            for job, gender, share in jobs(held_out):
                for number, text in enumerate(texts):
                    # Jobs of women and of men have the same pairs of names, each as often.
                    place = (counts[gender] + number) % len(people["male"])
                    yield _sentence(
                        _a(text, job),
                        aim=STEREOTYPE,
                        kind=kind,
                        unit=job,
                        side=gender,
                        number=number,
                        names=(people["male"][place], people["female"][place]),
                        held_out=held_out,
                        female_percent=share,
                    )
                counts[gender] += 1


def _people() -> Iterator[dict[str, Any]]:
    """Each person whose noun, name, title or parenthood says the gender, in each template."""
    stated = _wording()["stated"]
    for kind, people in stated["people"].items():
        for side, persons in people.items():
            for person in persons:
                for number, text in enumerate(stated["templates"]):
                    filled = text.replace("{S}", _capital(person)).replace("{s}", person)
                    yield _sentence(filled, aim=STATED, kind=kind, unit=person, side=side, number=number)


def _rest(number: int) -> str:
    """What follows a person at the start of a sentence, in a template."""
    text: str = _wording()["stated"]["templates"][number]
    return text.removeprefix("{S}")


def _biology() -> Iterator[dict[str, Any]]:
    for side, openings in _wording()["stated"]["biology"].items():
        for opening in openings:
            for number in range(3):
                text = opening + _rest(number)
                yield _sentence(text, aim=STATED, kind="biology", unit=opening, side=side, number=number)


def _crossed() -> Iterator[dict[str, Any]]:
    """A person of the other gender than the job's stereotype: a parent, or the person in the job."""
    crossed = _wording()["stated"]["crossed"]
    for job, majority, share in jobs(True):
        side = "male" if majority == "female" else "female"
        parent = crossed["parent"][side == "female"]
        noun = "man" if side == "male" else "woman"
        texts = [text.replace("{parent}", parent) for text in crossed["relatives"]]
        texts += [text.replace("{man}", noun) for text in crossed["kinds"]]
        for number, text in enumerate(texts):
            kind = "parents in jobs" if number < len(crossed["relatives"]) else "persons in jobs"
            yield _sentence(
                _a(text, job), aim=STATED, kind=kind, unit=job, side=side, number=number, female_percent=share
            )


def _coreference() -> Iterator[dict[str, Any]]:
    """Two people, of whom the sentence alone says whom the pronoun is about (WinoBias, type 2), and whose gender."""
    by_gender: dict[str, list[str]] = {"female": [], "male": []}
    for job, gender, _ in jobs(True):
        by_gender[gender].append(job)
    pairs = list(zip(by_gender["female"], by_gender["male"], strict=True))
    for place, (first, second) in enumerate(pairs):
        for job, other in ((first, second), (second, first)):
            number = place % 2
            text = _wording()["stated"]["coreference"]["templates"][number]
            for side, noun in (("male", "man"), ("female", "woman")):
                filled = text.replace("{man}", noun).replace("{job}", job).replace("{other}", other)
                yield _sentence(filled, aim=STATED, kind="coreference", unit=job, side=side, number=number)


def _declared() -> Iterator[dict[str, Any]]:
    """Names whose pronouns are declared: he and she, then they and neopronouns."""
    stated = _wording()["stated"]
    texts = cycle(stated["declared"]["declarations"])
    for kind, sides in (("declared", ("male", "female")), ("neopronouns", stated["neopronouns"]["pronouns"])):
        for name in stated["declared"]["names"]:
            for side in sides:
                forms = EVERY[{"male": "he", "female": "she"}.get(side, side)]
                for number in range(3):
                    opening = next(texts).replace("{he}", forms.nominative).replace("{him}", forms.accusative)
                    text = opening.replace("{name}", name) + _rest(number)
                    yield _sentence(text, aim=STATED, kind=kind, unit=f"{name} {side}", side=side, number=number)


DATASET = declared("stated-gender", {"sentences": _rows})
