"""WinoBias: sentences about two occupations and one pronoun, for he, she and they (Zhao et al., 2018).

Each line number has a sentence whose pronoun agrees with the stereotype of an occupation (``pro``) and one whose
pronoun does not (``anti``). To resolve the pronoun takes world knowledge in type 1, and only syntax in type 2
(Zhao et al., 2018).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from builders.dataset import BuildError, Drop, Fetched, Files, Origin, Row, Rows, declared
from builders.parsers import read
from builders.text.embedded import table
from builders.text.split import phrase_key
from builders.text.words import PRONOUNS, SLOTS, Gender, fill, fill_they

_FILES = {"validation": "dev", "test": "test"}


@dataclass(frozen=True, slots=True)
class WinoBiasPair:
    """The pro- and the anti-stereotypical line of one number, as published and corrected.

    ``line`` is the number in the files, from 1; ``pro_line`` and ``anti_line`` are as published. ``marked`` is the
    corrected sentence with the entity in brackets and slots for the pronouns; ``mended`` lists the corrections.
    ``stereotype`` is the gender of most people in the occupation, and so of the pronoun in the pro line.
    """

    split: str
    type: int
    line: int
    pro_line: str
    anti_line: str
    marked: str
    occupation: str
    other_participant: str
    stereotype: Gender
    mended: tuple[str, ...]

    @property
    def pro(self) -> str:
        """The pro line as published, without its number and brackets."""
        return _sentence(self.pro_line).translate(_NO_BRACKETS)

    @property
    def anti(self) -> str:
        """The anti line as published, without its number and brackets."""
        return _sentence(self.anti_line).translate(_NO_BRACKETS)

    @property
    def template(self) -> str:
        """The corrected sentence with a slot for each pronoun."""
        return self.marked.translate(_NO_BRACKETS)

    def sentence(self, gender: Gender) -> str:
        """The corrected sentence with the pronouns of one gender. For *they* see ``fill_they``."""
        return fill(self.template, gender)

    @property
    def id(self) -> str:
        """The id of the rows that are made from the pair."""
        return f"winobias-{self.split}-type{self.type}-{self.line}"

    def origin(self, files: Files) -> Origin:
        """The record of the pro line."""
        return files[self.source("pro")].origin(self.line - 1)

    def source(self, side: str) -> str:
        """The name of the source of the ``pro`` or ``anti`` line; the record number in it is ``line - 1``."""
        return f"winobias/{side}-type{self.type}-{_FILES[self.split]}"


_NO_BRACKETS = str.maketrans("", "", "[]")
_BRACKET = re.compile(r"\[([^\[\]]+)\]")
# The bracket of an entity has an article before it, in it, or both; the bracket of a pronoun has none.
_ENTITY_START = re.compile(r"(?:\b(the|an?) )?\[ ?(?:(the|an?) )?", re.IGNORECASE)
_GENDERS: tuple[Gender, Gender] = ("male", "female")


def _forms(slot: str) -> set[str]:
    return {getattr(forms, slot) for forms in PRONOUNS.values()}


_PRONOUNS = sorted(set().union(*map(_forms, SLOTS)))
_PRONOUN = re.compile(rf"\b({'|'.join(_PRONOUNS)})\b", re.IGNORECASE)
_MARKED_PRONOUN = re.compile(rf"\[({'|'.join(_PRONOUNS)})\]", re.IGNORECASE)

# Corrections of single lines, by split, type and line number.
_CORRECTIONS = table("winobias")


def _sentence(line: str) -> str:
    return line.partition(" ")[2]


def _candidates(form: str) -> set[str]:
    return {slot for slot in SLOTS if form.lower() in _forms(slot)}


def _with_slots(marked: str, other: str) -> str:
    """The line with slots for its bracketed pronouns.

    *her* is accusative or possessive; the pronoun in the same place of the other line decides (*him* or *his*).
    """
    counterparts = _PRONOUN.findall(other)
    # Lines with other wording have other pronouns, which decide nothing.
    if len(counterparts) != len(_PRONOUN.findall(marked)):
        counterparts = _PRONOUN.findall(marked)

    def slot(match: re.Match[str]) -> str:
        place = len(_PRONOUN.findall(marked, 0, match.start()))
        candidates = _candidates(match.group(1))
        candidates = candidates & _candidates(counterparts[place]) or candidates
        if len(candidates) > 1:
            # The other line is another sentence and does not decide. No possessive is directly before a mark.
            if marked[match.end()] in ".,":
                candidates -= {"possessive"}
            else:
                candidates -= {"accusative", "possessive_absolute"}
        (name,) = candidates
        return f"{{{name}}}"

    return _MARKED_PRONOUN.sub(slot, marked)


def _article(match: re.Match[str]) -> str:
    article = match.group(1) or match.group(2)
    if not article:
        return match.group()
    return f"[{article} "


def _tidy(marked: str) -> tuple[str, list[str]]:
    """The line with one article, in the bracket of the entity, and no space before ``'s``; and notes on the changes."""
    notes = []
    # The files put the article before the bracket, in it, or in both places.
    tidied = _ENTITY_START.sub(_article, marked)
    if tidied != marked:
        notes.append("article")
    if " 's" in tidied:
        notes.append("space before 's")
    return tidied.replace(" 's", "'s"), notes


def _mend(key: tuple[str, int, int], pro: str, anti: str) -> tuple[str, tuple[str, ...]]:
    """The corrected line with slots, and notes on the corrections.

    Raises
    ------
    BuildError
        When the two lines differ by more than the pronoun and are not in the list of such pairs.
    """
    pro, pro_notes = _tidy(pro)
    anti, anti_notes = _tidy(anti)
    # With slots for the pronouns both lines of a pair are the same sentence, except in the listed pairs.
    lines = {"pro": _with_slots(pro, anti), "anti": _with_slots(anti, pro)}
    differ = lines["pro"] != lines["anti"]
    place = " ".join(map(str, key))
    corrected = _CORRECTIONS["kept"].get(place)
    if differ and not corrected:
        raise BuildError(
            f"WinoBias {key[0]} type {key[1]} line {key[2]}: the pro and the anti sentence differ by more than the "
            "pronoun; the files are not the ones this builder reads."
        )
    side = corrected or "pro"
    line = lines[side]
    notes = pro_notes + anti_notes
    if differ:
        notes.append(f"wording of the {side} line")
    if place in _CORRECTIONS["replaced"]:
        old, new = _CORRECTIONS["replaced"][place]
        line = re.sub(rf"\b{old}\b", new, line)
        notes.append("word")
    # Both lines may need the same correction, which is noted once.
    return line, tuple(dict.fromkeys(notes))


def _occupations(files: Files) -> dict[str, Gender]:
    genders: dict[str, Gender] = {}
    for gender in _GENDERS:
        for line in read.lines(files[f"winobias/{gender}-occupations"].path):
            genders[line.strip().lower()] = gender
    return genders


def _numbered(file: Fetched) -> list[str]:
    lines = read.lines(file.path)
    for number, line in enumerate(lines, 1):
        if not line.startswith(f"{number} "):
            raise BuildError(f"{file.path.name} line {number} does not begin with {number}; expected numbered lines.")
    return lines


def _participants(text: str, occupations: Mapping[str, Gender]) -> list[str]:
    """The listed occupations of a text, in lower case and in their order."""
    return re.findall(rf"\b(?:{'|'.join(occupations)})\b", text.lower())


def _pair(key: tuple[str, int, int], lines: tuple[str, str], occupations: Mapping[str, Gender]) -> WinoBiasPair:
    split, kind, number = key
    pro, anti = lines
    marked, notes = _mend(key, _sentence(pro), _sentence(anti))
    entities = []
    for bracket in _BRACKET.findall(marked):
        entities += _participants(bracket, occupations)
    # One sentence names a third occupation; the first two are the participants.
    others = [name for name in _participants(marked, occupations) if name not in entities]
    if len(entities) != 1 or not others:
        raise BuildError(
            f"WinoBias {split} type {kind} line {number}: {marked!r} should have one listed occupation in brackets "
            "and one other; the files are not the ones this builder reads."
        )
    entity = entities[0]
    return WinoBiasPair(split, kind, number, pro, anti, marked, entity, others[0], occupations[entity], notes)


def winobias_pairs(files: Files) -> Iterator[WinoBiasPair]:
    """The pairs of lines: validation before test, type 1 before type 2, in the order of the files.

    ``files`` has the sources ``winobias/…`` of ``sources.toml``.

    Raises
    ------
    BuildError
        When a line is not numbered or has no counterpart, or the sentences of a pair do not have two
        participants or differ in an unknown way.
    """
    occupations = _occupations(files)
    for split, part in _FILES.items():
        for kind in (1, 2):
            pro = _numbered(files[f"winobias/pro-type{kind}-{part}"])
            anti = _numbered(files[f"winobias/anti-type{kind}-{part}"])
            if len(pro) != len(anti):
                raise BuildError(
                    f"WinoBias {split} type {kind} has {len(pro)} pro and {len(anti)} anti lines; give equal numbers."
                )
            for number, lines in enumerate(zip(pro, anti, strict=True), 1):
                yield _pair((split, kind, number), lines, occupations)


def _about(pair: WinoBiasPair) -> dict[str, str | int]:
    return {name: getattr(pair, name) for name in ("occupation", "other_participant", "stereotype", "type")}


def _clean(files: Files) -> Rows:
    pairs = list(winobias_pairs(files))
    test = {phrase_key(pair.template) for pair in pairs if pair.split == "test"}
    for pair in pairs:
        # The test split keeps the sentence: scores are measured there.
        if pair.split == "validation" and phrase_key(pair.template) in test:
            yield Drop(pair.split, pair.origin(files), "the sentence is in the test split too")
            continue
        values = {
            "template": pair.template,
            "sentence_male": pair.sentence("male"),
            "sentence_female": pair.sentence("female"),
            "sentence_they": fill_they(pair.template),
            **_about(pair),
            "mended": list(pair.mended),
        }
        yield Row(pair.split, pair.id, pair.origin(files), values)


def _paper(files: Files) -> Rows:
    for pair in winobias_pairs(files):
        values = {"sentence_pro": pair.pro, "sentence_anti": pair.anti, **_about(pair)}
        yield Row(pair.split, pair.id, pair.origin(files), values)


DATASET = declared("winobias", {"sentences": _clean, "sentences-paper": _paper})
