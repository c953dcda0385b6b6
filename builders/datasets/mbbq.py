"""MBBQ, gender: questions in the form of BBQ in four languages, and the same about people without a stereotype.

From *MBBQ: A Dataset for Cross-Lingual Comparison of Stereotypes in Generative LLMs* (Neplenbroek et al., 2024). The
control questions have first names of one gender in the places of the two people.
"""

from functools import partial

from builders.dataset import Files, Rows, declared
from builders.datasets.bbq import rows_of
from builders.parsers import read

#: The languages, each with its control set.
CONFIGS = tuple(language + end for language in ("en", "es", "nl", "tr") for end in ("", "-control"))


def _rows(config: str, files: Files) -> Rows:
    fetched = files[f"mbbq/{config}"]
    yield from rows_of(f"mbbq-{config}", fetched, enumerate(read.json_lines(fetched.path)))


DATASET = declared("mbbq", {config: partial(_rows, config) for config in CONFIGS})
