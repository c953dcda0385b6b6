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

from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa

from builders.dataset import Config, DataSet, Fetched, Files, Row, Rows, card_texts, column, text
from builders.parsers import bec_pro, bundled, coref, knowledge, read, stereoset, weat
from builders.parsers.triplets import TRIPLET, triplet
from builders.text.words import Gender
from builders.wording import BLANK

_PAPER = ("chen2024fast",)
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
        origin = files[pair.source("pro")].origin(pair.line - 1)
        identity = f"winobias-{pair.split}-type{pair.type}-{pair.line}"
        yield Row(pair.split, identity, origin, values if paper else values | {"mended": pair.mended})


_REFERS_TO = {"0": "subject", "1": "other_participant"}


def _winogender_sentences(fetched: Fetched) -> Iterator[tuple[int, str, dict[str, str]]]:
    """The number of the first record, the id, and the sentences by gender of each schema."""
    schemas: dict[str, tuple[int, dict[str, str]]] = {}
    for number, record in enumerate(read.table(fetched.path, ("sentid", "sentence"), delimiter="\t", quoted=False)):
        schema, gender = record["sentid"].removesuffix(".txt").rsplit(".", 1)
        schemas.setdefault(schema, (number, {}))[1][gender] = record["sentence"]
    for schema, (number, sentences) in schemas.items():
        yield number, schema, sentences


def _winogender(files: Files) -> Rows:
    columns = ("occupation", "bergsma_pct_female", "bls_pct_female", "bls_year")
    statistics = read.table(files["winogender/occupations"].path, columns, delimiter="\t", quoted=False)
    shares = {record["occupation"]: float(record["bls_pct_female"]) for record in statistics}
    fetched = files["winogender/sentences"]
    for number, schema, sentences in _winogender_sentences(fetched):
        occupation, participant, answer = schema.split(".")
        stereotype: Gender = "female" if shares[occupation] > 50 else "male"
        values = {
            "domain": "gender",
            "subject": occupation,
            "other_participant": participant,
            "refers_to": _REFERS_TO[answer],
            "stereotype": stereotype,
            "female_share": shares[occupation],
            "sentence_they": sentences["neutral"],
            **triplet(sentences[stereotype], sentences[_OTHER[stereotype]]),
        }
        yield Row("test", f"winogender-{schema}", fetched.origin(number), values)


_SHARE_ALIKE = "CC-BY-SA-4.0"
_SETS = "stereotype, anti-stereotype and unrelated"
_PERSON = (text("subject"), text("other_participant"), text("stereotype"))

_CONFIGS = (
    Config(
        "stereoset",
        f"StereoSet intrasentence: a sentence with one blank and its {_SETS} word; also of professions.",
        _SHARE_ALIKE,
        stereoset.COLUMNS,
        partial(stereoset.rows, "intrasentence", {"validation": "stereoset/dev", "test": "stereoset/test"}),
        sources=("stereoset/dev", "stereoset/test"),
        splits=("validation", "test"),
        cite=_PAPER,
    ),
    Config(
        "stereoset-intersentence",
        f"StereoSet intersentence: a context and its {_SETS} next sentence; also of professions.",
        _SHARE_ALIKE,
        stereoset.COLUMNS,
        partial(stereoset.rows, "intersentence", {"validation": "stereoset/dev"}),
        sources=("stereoset/dev",),
        splits=("validation",),
        cite=_PAPER,
    ),
    *(
        Config(
            f"crows_pairs{suffix}",
            f"CrowS-Pairs on gender, race and religion, both directions{how}.",
            _SHARE_ALIKE,
            (*TRIPLET, text("direction"), text("writer")),
            partial(_crows, bool(suffix)),
            sources=(_CROWS_FILE,),
            cite=_PAPER,
        )
        for suffix, how in (("", ""), ("-paper", ", white space as released"))
    ),
    *(
        Config(
            f"weat{suffix}",
            f"A word for a social group and a pair of words that WEAT or SEAT contrasts, {how}.",
            "CC-BY-NC-4.0",
            weat.COLUMNS,
            partial(weat.rows, pattern),
            sources=weat.SOURCES,
            embedded=(weat.FILE,),
            cite=(*_PAPER, "caliskan2017weat"),
        )
        for suffix, pattern, how in (
            ("", f'The word "{{}}" goes with the word "{BLANK}".', "in a sentence about the two words"),
            ("-paper", f"{{}} loves {BLANK}", 'in the pattern "{attribute} loves {target}"'),
        )
    ),
    Config(
        "winobias",
        "WinoBias pairs with the pronoun of the gender that dominates the occupation and with the other, mended.",
        "MIT",
        (*TRIPLET, *_PERSON, column("type", pa.int8()), column("mended", pa.list_(pa.string()))),
        partial(_winobias, False),
        sources=coref.WINOBIAS,
        splits=("validation", "test"),
        cite=_PAPER,
    ),
    Config(
        "winobias-paper",
        "WinoBias pairs of a pro-stereotyped and the anti-stereotyped line of the same number, as released.",
        "MIT",
        (*TRIPLET, *_PERSON, column("type", pa.int8())),
        partial(_winobias, True),
        sources=coref.WINOBIAS,
        splits=("validation", "test"),
        cite=_PAPER,
    ),
    Config(
        "winogender",
        "Winogender sentences with the pronoun of the majority of the occupation, with the other, and with they.",
        "MIT",
        (*TRIPLET, *_PERSON, text("refers_to"), column("female_share", pa.float64()), text("sentence_they")),
        _winogender,
        sources=("winogender/sentences", "winogender/occupations"),
        cite=_PAPER,
    ),
    Config(
        "bec_pro",
        "BEC-Pro pairs of sentences, a man or a woman with a profession, with masks and articles mended.",
        "CC-BY-4.0",
        (*TRIPLET, *(text(name) for name in ("subject", "stereotype", "template", "prompt_prior"))),
        bec_pro.pairs,
        sources=(bec_pro.SOURCE,),
        cite=_PAPER,
    ),
    Config(
        "bec_pro-paper",
        "BEC-Pro sentences with their three masked forms, as released.",
        "CC-BY-4.0",
        (text("domain"), *map(text, bec_pro.COLUMNS)),
        bec_pro.released,
        sources=(bec_pro.SOURCE,),
        cite=_PAPER,
    ),
    *(
        Config(
            name,
            summary,
            "Apache-2.0",
            columns,
            partial(rows, bundled.path(name)),
            embedded=(bundled.label(bundled.path(name)),),
            cite=_PAPER,
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
                "201 facts written for this project in which two groups differ, each told of both groups.",
            ),
        )
    ),
)

DATASET = DataSet(
    name="biaske",
    version="1.1.0",
    **card_texts("biaske"),
    configs=_CONFIGS,
)
