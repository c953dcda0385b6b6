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

import pyarrow as pa

from builders.dataset import Config, DataSet, Files, Row, Rows, card_texts, column, text, texts
from builders.datasets import winogender
from builders.parsers import bec_pro, bundled, coref, knowledge, read, stereoset, weat
from builders.parsers.triplets import TRIPLET, triplet
from builders.text.words import Gender
from builders.wording import BLANK

_PAPER = "chen2024fast"
_config = partial(Config, cite=(_PAPER,))
_OTHER: Mapping[Gender, Gender] = {"male": "female", "female": "male"}

_CROWS_FILE = "crows-pairs/pairs"
_CROWS_COLUMNS = (
    "",
    "sent_more",
    "sent_less",
    "stereo_antistereo",
    "bias_type",
    "annotations",
    "anon_writer",
    "anon_annotators",
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
            **triplet(*(side.text for side in sides)),
        }
        yield Row(pair.split, pair.id, pair.origin(files), values if paper else values | {"mended": pair.mended})


_REFERS_TO = {"0": "subject", "1": "other_participant"}


def _winogender(files: Files) -> Rows:
    shares = winogender.shares(files[winogender.OCCUPATIONS])
    fetched = files[winogender.SENTENCES]
    sentences = winogender.published_sentences(fetched)
    first: dict[str, int] = {}  # the number of the first record of each schema
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


_SHARE_ALIKE = "CC-BY-SA-4.0"
_SETS = "stereotype, anti-stereotype and unrelated"
_PERSON = texts("subject", "other_participant", "stereotype")

_CONFIGS = (
    _config(
        "stereoset",
        f"StereoSet intrasentence: a sentence with one blank and its {_SETS} word; also of professions.",
        _SHARE_ALIKE,
        stereoset.COLUMNS,
        partial(stereoset.rows, "intrasentence", {"validation": "stereoset/dev", "test": "stereoset/test"}),
        sources=("stereoset/dev", "stereoset/test"),
        splits=("validation", "test"),
    ),
    _config(
        "stereoset-intersentence",
        f"StereoSet intersentence: a context and its {_SETS} next sentence; also of professions.",
        _SHARE_ALIKE,
        stereoset.COLUMNS,
        partial(stereoset.rows, "intersentence", {"validation": "stereoset/dev"}),
        sources=("stereoset/dev",),
        splits=("validation",),
    ),
    *(
        _config(
            f"crows_pairs{suffix}",
            f"CrowS-Pairs on gender, race and religion, both directions{how}.",
            _SHARE_ALIKE,
            (*TRIPLET, *texts("direction", "writer")),
            partial(_crows, bool(suffix)),
            sources=(_CROWS_FILE,),
        )
        for suffix, how in (("", ""), ("-paper", ", white space as released"))
    ),
    *(
        _config(
            f"weat{suffix}",
            f"A word for a social group and a pair of words that WEAT or SEAT contrasts, {how}.",
            "CC-BY-NC-4.0",
            weat.COLUMNS,
            partial(weat.rows, pattern),
            sources=weat.SOURCES,
            embedded=(weat.FILE,),
            cite=(_PAPER, "caliskan2017weat"),
        )
        for suffix, pattern, how in (
            ("", f'The word "{{}}" goes with the word "{BLANK}".', "in a sentence about the two words"),
            ("-paper", f"{{}} loves {BLANK}", 'in the pattern "{attribute} loves {target}"'),
        )
    ),
    *(
        _config(
            f"winobias{suffix}",
            f"WinoBias pairs {about}.",
            "MIT",
            (*TRIPLET, *_PERSON, column("type", pa.int8()), *extra),
            partial(_winobias, bool(suffix)),
            sources=coref.WINOBIAS,
            splits=("validation", "test"),
        )
        for suffix, extra, about in (
            (
                "",
                (column("mended", pa.list_(pa.string())),),
                "with the pronoun of the gender that dominates the occupation and with the other, mended",
            ),
            ("-paper", (), "of a pro-stereotyped and the anti-stereotyped line of the same number, as released"),
        )
    ),
    _config(
        "winogender",
        "Winogender sentences with the pronoun of the majority of the occupation, with the other, and with they.",
        "MIT",
        (*TRIPLET, *_PERSON, text("refers_to"), column("female_share", pa.float64()), text("sentence_they")),
        _winogender,
        sources=(winogender.SENTENCES, winogender.OCCUPATIONS),
    ),
    _config(
        "bec_pro",
        "BEC-Pro pairs of sentences, a man or a woman with a profession, with masks and articles mended.",
        "CC-BY-4.0",
        (*TRIPLET, *texts("subject", "stereotype", "template", "prompt_prior")),
        bec_pro.pairs,
        sources=(bec_pro.SOURCE,),
    ),
    _config(
        "bec_pro-paper",
        "BEC-Pro sentences with their three masked forms, as released.",
        "CC-BY-4.0",
        texts("domain", *bec_pro.COLUMNS),
        bec_pro.released,
        sources=(bec_pro.SOURCE,),
    ),
    *(
        _config(
            name,
            summary,
            "Apache-2.0",
            columns,
            partial(rows, bundled.path(name)),
            embedded=(bundled.label(bundled.path(name)),),
        )
        for name, columns, rows, summary in (
            (
                knowledge.PARAPHRASES,
                knowledge.PARAPHRASE_COLUMNS,
                knowledge.paraphrases,
                "276 pairs written for this project, each with a base prompt and two paraphrases of it.",
            ),
            (
                knowledge.DIFFERENTIATION,
                knowledge.FACT_COLUMNS,
                knowledge.facts,
                "201 facts written for this project in which two groups differ, each stated about both groups.",
            ),
        )
    ),
)

DATASET = DataSet(
    name="biaske",
    version="1.1.1",
    **card_texts("biaske"),
    configs=_CONFIGS,
)
