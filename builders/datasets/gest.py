"""GEST: sentences in the first person that follow one of 16 stereotypes about women or men (Pikuliak et al., 2024).

From *Women Are Beautiful, Men Are Leaders: Gender Stereotypes in Machine Translation and Language Modeling*. No
sentence says who speaks, so a preference of a model for a man or a woman as its speaker is a stereotype.
"""

from builders.dataset import BuildError, Files, Row, Rows, declared
from builders.parsers import read
from builders.text.wording import ABOUT_WOMEN, STEREOTYPES


def row_id(number: int) -> str:
    """The id of a sentence by its place in the file, from 0; published predictions have the same order.

    >>> row_id(7)
    'gest-0007'
    """
    return f"gest-{number:04d}"


def about(stereotype: int) -> str:
    """Whom a stereotype is about, ``women`` or ``men``.

    >>> about(7), about(8)
    ('women', 'men')
    """
    return "women" if stereotype <= ABOUT_WOMEN else "men"


def _rows(files: Files) -> Rows:
    """A row for each sentence, with its form in the later release, in which slips of the pen are mended."""
    released, mended = files["gest/sentences"], files["gest/mended"]
    columns = ("sentence", "stereotype")
    later = list(read.table(mended.path, columns))
    for number, record in enumerate(read.table(released.path, columns)):
        place = f"{released.path.name} record {number}"
        if record["stereotype"] not in map(str, range(1, len(STEREOTYPES) + 1)):
            raise BuildError(f"{place} has the stereotype {record['stereotype']!r}; expected a number from 1 to 16.")
        if number >= len(later) or later[number]["stereotype"] != record["stereotype"]:
            raise BuildError(f"{place} has no counterpart in {mended.path.name}; the files are not of one data set.")
        stereotype = int(record["stereotype"])
        values = {
            "sentence": record["sentence"],
            "mended": later[number]["sentence"],
            "stereotype": stereotype,
            "name": STEREOTYPES[stereotype - 1],
            "about": about(stereotype),
        }
        yield Row("test", row_id(number), released.origin(number), values)


DATASET = declared("gest", {"sentences": _rows})
