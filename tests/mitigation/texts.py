"""Real sentences for recipes that learn from text: premises of SNLI from the mirror, and short settings."""

import csv
from functools import cache

from tests.support.helpers import mirror

_SNLI = "raw.githubusercontent.com/MJ-Jang/BECEL/f5bdd1196e46323e6ec3f4e651bcad78b1883b04/data/snli/validation.tsv"


@cache
def snli_lines():
    """The first 1,500 different premises of the validation split."""
    with (mirror() / _SNLI).open(encoding="utf-8", newline="") as file:
        premises = [row["premise"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return list(dict.fromkeys(premises))[:1500]


def corpus(folder):
    """A text file with these sentences."""
    path = folder / "snli.txt"
    path.write_text("\n".join(snli_lines()) + "\n", encoding="utf-8")
    return str(path)
