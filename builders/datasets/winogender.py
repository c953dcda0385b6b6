"""Winogender: sentence templates about an occupation, another participant and one pronoun (Rudinger et al., 2018)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from builders.dataset import BuildError, Fetched, Files, Origin, Row, Rows, declared
from builders.datasets.occugender import share_of_women
from builders.parsers import read
from builders.text.words import fill, fill_they

SENTENCES, TEMPLATES, OCCUPATIONS = "winogender/sentences", "winogender/templates", "winogender/occupations"

_SLOTS = {"$NOM_PRONOUN": "{nominative}", "$ACC_PRONOUN": "{accusative}", "$POSS_PRONOUN": "{possessive}"}
_ANSWERS = {"0": "occupation", "1": "participant"}
_PARTICIPANT = re.compile(r"\b(?:the|an?) \$PARTICIPANT\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Schema:
    """One sentence template with a named participant, or with *someone*.

    ``answer`` is ``occupation`` or ``participant``: the person to whom the pronoun refers.
    """

    template: str
    occupation: str
    participant: str
    answer: str
    id: str
    origin: Origin

    def sentences(self) -> dict[str, str]:
        """The filled templates, by the source's name of the pronoun."""
        they = fill_they(self.template)
        if they is None:
            raise BuildError(f"Winogender {self.id}: {self.template!r} has no version with they; correct the template.")
        return {"male": fill(self.template, "male"), "female": fill(self.template, "female"), "neutral": they}


def _someone(match: re.Match[str]) -> str:
    return "Someone" if match.group()[0].isupper() else "someone"


def schemas(fetched: Fetched) -> Iterator[Schema]:
    """Two schemas for each line of the template file: with the participant, then with *someone*."""
    columns = ("occupation(0)", "other-participant(1)", "answer", "sentence")
    for number, record in enumerate(read.table(fetched.path, columns, delimiter="\t", quoted=False)):
        occupation, named, answer, sentence = record.values()
        if answer not in _ANSWERS:
            raise BuildError(f"{fetched.path.name} record {number} has the answer {answer!r}, expected 0 or 1.")
        for published, slot in _SLOTS.items():
            sentence = sentence.replace(published, slot)
        sentence = sentence.replace("$OCCUPATION", occupation)
        for participant in (named, "someone"):
            template = _PARTICIPANT.sub(_someone, sentence) if participant == "someone" else sentence
            yield Schema(
                template.replace("$PARTICIPANT", participant),
                occupation,
                participant,
                _ANSWERS[answer],
                f"{occupation}.{participant}.{answer}",
                fetched.origin(number),
            )


@dataclass(frozen=True, slots=True)
class Share:
    """The percentage of women in an occupation: in text (Bergsma and Lin, 2006), and in labour statistics of a year."""

    bergsma: float
    bls: float
    bls_year: int


def shares(fetched: Fetched) -> dict[str, Share]:
    """The shares of women by occupation.

    Raises
    ------
    BuildError
        When a share is not a percentage.
    """
    result = {}
    columns = ("occupation", "bergsma_pct_female", "bls_pct_female", "bls_year")
    for record in read.table(fetched.path, columns, delimiter="\t", quoted=False):
        occupation, bergsma, bls, year = record.values()
        place = f"{fetched.path.name}: {occupation!r}"
        result[occupation] = Share(share_of_women(bergsma, place), share_of_women(bls, place), int(year))
    return result


def published_sentences(fetched: Fetched) -> dict[str, str]:
    """The published sentences by their name, such as ``nurse.someone.0.male.txt``, in the order of the file."""
    records = read.table(fetched.path, ("sentid", "sentence"), delimiter="\t", quoted=False)
    return {record["sentid"]: record["sentence"] for record in records}


def _rows(files: Files) -> Rows:
    published, share_of = published_sentences(files[SENTENCES]), shares(files[OCCUPATIONS])
    for schema in schemas(files[TEMPLATES]):
        if schema.occupation not in share_of:
            raise BuildError(f"Winogender {schema.id}: no share of women is known for {schema.occupation!r}; add one.")
        sentences, share = schema.sentences(), share_of[schema.occupation]
        for pronoun, sentence in sentences.items():
            name = f"{schema.id}.{pronoun}.txt"
            # The sentences are made from the templates for they too; the published ones check the making.
            if published.get(name) != sentence:
                raise BuildError(
                    f"Winogender {name}: the template gives {sentence!r}, but the source has {published.get(name)!r}; "
                    "the files are not the ones this builder reads."
                )
        values = {
            "template": schema.template,
            "sentence_male": sentences["male"],
            "sentence_female": sentences["female"],
            "sentence_they": sentences["neutral"],
            "occupation": schema.occupation,
            "participant": schema.participant,
            "answer": schema.answer,
            "bls_pct_female": share.bls,
            "bls_year": share.bls_year,
            "bergsma_pct_female": share.bergsma,
        }
        yield Row("test", schema.id, schema.origin, values)


DATASET = declared("winogender", {"schemas": _rows})
