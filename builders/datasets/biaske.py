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

from builders.dataset import Config, DataSet, Fetched, Files, Row, Rows, column, text
from builders.parsers import bec_pro, bundled, coref, knowledge, read, stereoset, weat
from builders.parsers.triplets import BLANK, TRIPLET, triplet
from builders.text.words import Gender

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
    title="Biased-knowledge triplets",
    summary=(
        "Six published sets of stereotypes about gender, race and religion (StereoSet also: profession) in one form: "
        "a prompt with one blank, the object that a stereotype puts there, the one that it does not, an irrelevant "
        "one where the source has it, and the whole sentences. Added to them are pairs with paraphrases, and facts in "
        "which groups do differ; the FAST paper has such and did not release them."
    ),
    configs=_CONFIGS,
    validity=(
        "A pair shows which of two English sentences a model finds more likely. A score of 50 says that over these "
        "pairs it prefers the stereotype as often as not; it does not say how strongly, nor that the model is fair or "
        "treats people well, and a model that guesses reaches it too, so read StereoSet's beside the language-model "
        "score. StereoSet and CrowS-Pairs were written by crowd workers in the United States. Blodgett et al. (2021, "
        "Stereotyping Norwegian Salmon) found that many of their pairs name no harmful stereotype, contrast groups "
        "that are no counterparts, differ in more than the group, or are not sound English, so decide nothing on "
        "either alone. WEAT, WinoBias, Winogender and BEC-Pro know two genders only, and the gender they expect of an "
        "occupation is the majority in statistics of the United States. Winogender can show a bias, not its absence. "
        "Report sources and domains apart; pairs of one term, writer, schema, template or relation hang together. "
        "A model that gets the facts of differentiation wrong to begin with can lose nothing there by being edited."
    ),
    differences=(
        "The triplets of the paper were not released; these are rebuilt from the six sources it names. Its paraphrases "
        "and commonsense facts, written with GPT-4, were not released either; paraphrases and differentiation stand in "
        "their place and are other sentences: paraphrases is about pairs of its own, not about those of the sources, "
        "so compare its two halves with each other and not with the six sources.",
        "The blank is one stretch of whole words from the first to the last that differ: 44 of the 1584 WinoBias pairs "
        "and 297 of the 883 CrowS-Pairs have more than one word in it.",
        "StereoSet: sentences stand as released, white space included. In 6 of the 3124 examples with a released "
        "context the blank is wider than its BLANK (three have two blanks, three a part of a word); the context "
        "itself is in the column of that name.",
        "StereoSet: the validation split, the intersentence task and the domain profession are added; the paper uses "
        "771, 2976 and 247 examples of the test split.",
        "StereoSet: without the whole test file, race and profession come from a list of its sentences that has 2974 "
        "and 2397 examples, without contexts and ids. Of the validation split the same list lacks only the two "
        "examples with two blanks, so the missing ones are likely such; they are not invented.",
        "CrowS-Pairs: race-color is called race, and both directions are kept; the scores that the paper prints for "
        "its own method fit the stereo direction alone (159 gender and 99 religion pairs). Runs of spaces become one "
        "in 9 pairs; nothing that Blodgett et al. criticise is mended.",
        "WEAT: the paper prints 128, 188 and 18 attribute words without a rule. Words for a social group, counted in "
        "each test, give them: 16 each in WEAT 6, 6b, 7, 7b, 8, 8b and the two double-bind tests of single words of "
        "SEAT; 64, 30, 32, 32 and 30 in WEAT 3, 3b, 4, 5 and 5b; 6 each for Christianity, Islam and Judaism in the "
        "religion tests of Meade et al. (2022). That these are the paper's is inferred.",
        "WEAT: each word meets every pair of contrasted words, in the order of their lists, in a sentence about the "
        'two words; weat-paper has the pattern "{attribute} loves {target}", which makes no sentence of many ("his '
        'loves executive").',
        "WinoBias: 98 of 1584 pairs are mended, each with a note in the column mended: 70 lose the space before 's, 21 "
        "in which the two lines differ by more than the pronoun take the words of one line, 12 have a word replaced, "
        "3 a doubled or parted article put right.",
        "Winogender: the object called biased is the pronoun of the majority of the occupation in the labour "
        "statistics of the source, also where the pronoun refers to the other participant (column refers_to).",
        "BEC-Pro: 5400 sentences make 2700 pairs. The masks of 23 sentences are put right (inside the word manager in "
        "5, over the preposition of in 18), and a becomes an before a vowel in 378 sentences. For the 20 balanced "
        "professions, where no gender is expected, the male sentence is the one called biased.",
    ),
    written=(
        "paraphrases and differentiation were written for this project and are kept in the format in which replies of "
        "chat models are recorded, with what was asked; the model is called written-for-this-project, and no endpoint "
        "gave them or can give them again. No sentence of the six sources was used or reworded.",
        "paraphrases: 160 pairs on gender, 60 on race and 56 on religion in 38 relations (occupations and pronouns, "
        "traits, school subjects, tasks at home, wealth, crime, birthplace, peace and violence, …), each with a base "
        "prompt (base is true) and two paraphrases that keep its meaning, its blank and its objects (paraphrase_of is "
        "the id of the base prompt). SS on the base prompts and PS on the others are about the same pairs.",
        "The stereotypes are there to be measured: research on associations in people and in models has documented "
        "most of them. They are not true, and no model should be trained to repeat them. No slur is used. In every "
        "relation an object is as often the biased one as the other one, against the same counterpart, so a model that "
        "merely finds one of two words likelier scores 50. What counts as biased was decided by the project along that "
        "research, without asking members of the groups.",
        "Within a relation most prompts differ in the subject and the objects alone, so pairs of a relation depend on "
        "each other; a paraphrase changes the order of the words more than the words.",
        "differentiation: 70 facts on gender, 66 on race (with ethnic groups and nations) and 65 on religion, each of "
        "two groups, and so 402 rows: the object that is right for the subject, and the one that is right for the "
        "counterfactual subject. They are about words, ranks, rules, history, languages, food, scriptures and customs, "
        "and can be checked in reference works; they say what is usual or traditional and not what every member of a "
        "group does. Facts on gender know women and men only.",
        "50 paraphrases and 50 facts, drawn at random (seed 0), were read once more. 5 of the 50 paraphrases failed: "
        "three changed the meaning a little and two had an ambiguous or odd wording; they and all others of the "
        "same wording were put right. 2 of the 50 facts failed: of one the answer depends on the calendar that is "
        "meant, which the reading found, and of the other the article fits one answer only, which a rule found and the "
        "reading had not. Both were put right, with 6 others whose prompt gave the answer away. The reader knew the "
        "sentences and was no outsider, so some errors will remain.",
    ),
)
