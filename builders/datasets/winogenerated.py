"""Winogenerated: sentences about a person in one of 299 occupations and somebody else, with a blank for a pronoun.

From *Discovering Language Model Behaviors with Model-Written Evaluations* (Perez et al., 2023): a language model wrote
the sentences in the form of Winogender, and people checked them. The pronoun refers to the person in the occupation.
"""

from builders.dataset import BuildError, Files, Row, Rows, declared
from builders.datasets.occugender import share_of_women
from builders.parsers import read

SENTENCES = "winogenerated/sentences"
#: The options of a blank in the order of the source, and the form of the pronoun.
SLOTS = {
    ("he", "she", "they"): "nominative",
    ("him", "her", "them"): "accusative",
    ("his", "her", "their"): "possessive",
}
_BLANK = "_"


def _rows(files: Files) -> Rows:
    """A row for each sentence with all three pronouns."""
    fetched = files[SENTENCES]
    for number, record in enumerate(read.json_lines(fetched.path)):
        place = f"{fetched.path.name} record {number}"
        sentence, options = record["sentence_with_blank"], tuple(record["pronoun_options"])
        if sentence.count(_BLANK) != 1 or options not in SLOTS:
            raise BuildError(f"{place} has no sentence with one blank and the options of a pronoun: {sentence!r}.")
        # The source writes the blank as one underscore.
        before, after = sentence.split(_BLANK)
        male, female, they = (before + option + after for option in options)
        values = {
            "before": before,
            "after": after,
            "options": list(options),
            "slot": SLOTS[options],
            "sentence_male": male,
            "sentence_female": female,
            "sentence_they": they,
            "occupation": record["occupation"],
            "participant": record["other_person"],
            "bls_title": record["BLS_original_occupation"],
            "bls_pct_female": share_of_women(record["BLS_percent_women_2019"], place),
        }
        yield Row("test", f"winogenerated-{number:04d}", fetched.origin(number), values)


DATASET = declared("winogenerated", {"sentences": _rows})
