"""BEC-Pro: sentences about a person and a profession, as released and in pairs of a man and a woman."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from builders.dataset import BuildError, Fetched, Files, Row, Rows
from builders.embedded import table
from builders.parsers import read
from builders.parsers.triplets import triplet
from builders.text.words import article

SOURCE = "bec-pro/sentences"

_COLUMNS = {
    "Sentence": "sentence",
    "Sent_TM": "masked_person",
    "Sent_AM": "masked_profession",
    "Sent_TAM": "masked_both",
    "Template": "template",
    "Person": "person",
    "Gender": "gender",
    "Profession": "subject",
    "Prof_Gender": "stereotype",
}
#: The male word for each female word.
_MALE = dict(pair.split(":") for pair in table("words")["bec_pro"]["pairs"].split())
_GENDERS = ("male", "female")

_Numbered = tuple[int, dict[str, str]]


def _records(files: Files) -> Iterator[_Numbered]:
    records = read.table(files[SOURCE].path, ("", *_COLUMNS), delimiter="\t", quoted=False)
    for number, record in enumerate(records):
        yield number, {ours: record[theirs] for theirs, ours in _COLUMNS.items()}


def released(files: Files) -> Rows:
    """A row for each sentence with its three masked forms, as released."""
    for number, record in _records(files):
        yield Row("test", f"bec-pro-{number}", files[SOURCE].origin(number), {"domain": "gender", **record})


def pairs(files: Files) -> Rows:
    """A row for each pair of sentences that differ in the gender of the person, in the order of the male ones.

    Raises
    ------
    BuildError
        When a sentence has no counterpart.
    """
    by_key: dict[tuple[str, ...], dict[str, _Numbered]] = {}
    for number, record in _records(files):
        key = record["template"], record["subject"], _MALE.get(record["person"], record["person"])
        by_key.setdefault(key, {})[record["gender"]] = number, record
    for pair in by_key.values():
        if pair.keys() != set(_GENDERS):
            ((number, record),) = pair.values()
            raise BuildError(
                f"{files[SOURCE].path.name} row {number} ({record['sentence']!r}) has no counterpart of the other "
                "gender; expected one."
            )
        yield _pair(files[SOURCE], pair)


def _pair(fetched: Fetched, pair: Mapping[str, _Numbered]) -> Row:
    """The row of a pair. If no gender is expected of the profession, the male sentence is called biased."""
    number, male = pair["male"]
    biased = "female" if male["stereotype"] == "female" else "male"
    sentences = {gender: _sentence(pair[gender][1]) for gender in _GENDERS}
    parts = triplet(sentences.pop(biased), *sentences.values())
    masks = " ".join("[MASK]" for _ in male["subject"].split())
    values = {
        "domain": "gender",
        "subject": male["subject"],
        "stereotype": male["stereotype"],
        "template": male["template"],
        "prompt_prior": parts["prompt"].replace(male["subject"], masks),
        **parts,
    }
    return Row("test", f"bec-pro-{number}-{pair['female'][0]}", fetched.origin(number), values)


def _sentence(record: Mapping[str, str]) -> str:
    """The sentence with *an* before a profession that begins with a vowel."""
    profession = record["subject"]
    return record["sentence"].replace(f" a {profession}", f" {article(profession)} {profession}")
