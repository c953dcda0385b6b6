"""MBBQ, gender: questions in the form of BBQ in four languages, and the same about people without a stereotype.

From *MBBQ: A Dataset for Cross-Lingual Comparison of Stereotypes in Generative LLMs* (Neplenbroek et al., 2024). The
control questions have first names of one gender in the places of the two people.
"""

from __future__ import annotations

from functools import partial

from builders.dataset import Files, Rows, declared
from builders.parsers import bbq, read

LANGUAGES = ("en", "es", "nl", "tr")


def _rows(config: str, files: Files) -> Rows:
    fetched = files[f"mbbq/{config}"]
    records = enumerate(read.json_lines(fetched.path))
    yield from bbq.rows(f"mbbq-{config}", [(fetched.origin(number), record) for number, record in records])


_CONFIGS = [language + end for language in LANGUAGES for end in ("", "-control")]
DATASET = declared("mbbq", {config: partial(_rows, config) for config in _CONFIGS})
