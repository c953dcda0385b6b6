"""Biased knowledge as triplets, from the six sources of the FAST paper (chen2024fast) and from this project.

A row is one pair: a prompt with one blank (``[BLANK]``), the object that agrees with the stereotype, the
object that does not, and the complete sentences: ``prompt.replace("[BLANK]", object_biased)`` is
``sentence_biased``. If a source changes several words of a sentence, the blank covers all words from the first
to the last of them. The counts of the paper's Table 4 are:

============= ======== ====== ========== ================================================================
config        gender   race   religion   counted as
============= ======== ====== ========== ================================================================
stereoset     771      2976   247        rows of the test split
crows_pairs   262      516    105        rows
weat          128      188    18         pairs of ``test`` and ``subject``: words for a social group
winobias      1584     -      -          rows, 396 for each type and split
winogender    60       -      -          distinct ``subject``; 240 rows hold 720 sentences
bec_pro       5400     -      -          sentences: two in each of 2700 rows, one in each of ``-paper``
============= ======== ====== ========== ================================================================

The configs ``paraphrases`` and ``differentiation`` were written for this project and are not in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from builders.dataset import Files, Row, Rows, declared
from builders.datasets import winogender
from builders.parsers import bec_pro, bundled, coref, read, stereoset, weat
from builders.parsers.triplets import triplet
from builders.text.words import Gender
from builders.wording import BLANK

_OTHER: Mapping[Gender, Gender] = {"male": "female", "female": "male"}

_CROWS_FILE = "crows-pairs/pairs"
_CROWS_COLUMNS = (
    "",
    *"sent_more sent_less stereo_antistereo bias_type annotations anon_writer anon_annotators".split(),
)
_CROWS_DOMAINS = {"gender": "gender", "race-color": "race", "religion": "religion"}


def _crows(paper: bool, files: Files) -> Rows:
    fetched = files[_CROWS_FILE]
    for number, record in enumerate(read.table(fetched.path, _CROWS_COLUMNS)):
        domain = _CROWS_DOMAINS.get(record["bias_type"])
        if domain:
            pair = record["sent_more"], record["sent_less"]
            values = {
                "domain": domain,
                "direction": record["stereo_antistereo"],
                "writer": record["anon_writer"],
                **triplet(*(pair if paper else (" ".join(sentence.split()) for sentence in pair))),
            }
            yield Row("test", f"crows-pairs-{number}", fetched.origin(number), values)


def _winobias(paper: bool, files: Files) -> Rows:
    for pair in coref.winobias_pairs(files):
        genders = pair.stereotype, _OTHER[pair.stereotype]
        sides = (pair.pro, pair.anti) if paper else (pair.sentence(gender) for gender in genders)
        values = {
            "domain": "gender",
            "subject": pair.occupation,
            "other_participant": pair.other_participant,
            "stereotype": pair.stereotype,
            "type": pair.type,
            **triplet(*sides),
        }
        yield Row(pair.split, pair.id, pair.origin(files), values if paper else values | {"mended": pair.mended})


_REFERS_TO = {"0": "subject", "1": "other_participant"}


def _winogender(files: Files) -> Rows:
    shares = winogender.shares(files[winogender.OCCUPATIONS])
    fetched = files[winogender.SENTENCES]
    sentences = winogender.published_sentences(fetched)
    first: dict[str, int] = {}  # the number of the first record of each schema
    # A schema has three sentences, one a pronoun; its row is that of the first of them.
    for number, name in enumerate(sentences):
        first.setdefault(name.rsplit(".", 2)[0], number)
    for schema, number in first.items():
        occupation, participant, answer = schema.split(".")
        share = shares[occupation].bls
        stereotype: Gender = "female" if share > 50 else "male"
        they, *pair = (sentences[f"{schema}.{name}.txt"] for name in ("neutral", stereotype, _OTHER[stereotype]))
        values = {
            "domain": "gender",
            "subject": occupation,
            "other_participant": participant,
            "refers_to": _REFERS_TO[answer],
            "stereotype": stereotype,
            "female_share": share,
            "sentence_they": they,
            **triplet(*pair),
        }
        yield Row("test", f"winogender-{schema}", fetched.origin(number), values)


_KNOWLEDGE = {"paraphrases": bundled.paraphrases, "differentiation": bundled.facts}

DATASET = declared(
    "biaske",
    {
        "stereoset": partial(stereoset.rows, "intrasentence"),
        "stereoset-intersentence": partial(stereoset.rows, "intersentence"),
        "crows_pairs": partial(_crows, False),
        "crows_pairs-paper": partial(_crows, True),
        "weat": partial(weat.rows, f'The word "{{}}" goes with the word "{BLANK}".'),
        "weat-paper": partial(weat.rows, f"{{}} loves {BLANK}"),
        "winobias": partial(_winobias, False),
        "winobias-paper": partial(_winobias, True),
        "winogender": _winogender,
        "bec_pro": bec_pro.pairs,
        "bec_pro-paper": bec_pro.released,
        **{name: partial(rows, bundled.path(name)) for name, rows in _KNOWLEDGE.items()},
    },
)
