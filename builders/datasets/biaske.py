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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal

from builders.dataset import BuildError, Fetched, Files, Origin, Row, Rows, content_id, declared
from builders.datasets import winobias, winogender
from builders.parsers import bundled, read
from builders.parsers.triplets import filled, triplet
from builders.text.embedded import PROJECT, table
from builders.text.wording import BLANK, LABELS
from builders.text.words import Gender, article

_OTHER: Mapping[Gender, Gender] = {"male": "female", "female": "male"}

_CROWS_FILE = "crows-pairs/pairs"
# The first column is the number of the row, which has no name in the file.
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
        # The paper has three domains; the file has nine types of bias.
        if domain is None:
            continue
        more, less = record["sent_more"], record["sent_less"]
        if not paper:
            # White space that only one sentence has would become a part of the objects.
            more, less = " ".join(more.split()), " ".join(less.split())
        values = {
            "domain": domain,
            "direction": record["stereo_antistereo"],
            "writer": record["anon_writer"],
            **triplet(more, less),
        }
        yield Row("test", f"crows-pairs-{number}", fetched.origin(number), values)


def _winobias(paper: bool, files: Files) -> Rows:
    for pair in winobias.winobias_pairs(files):
        values: dict[str, Any] = {
            "domain": "gender",
            "subject": pair.occupation,
            "other_participant": pair.other_participant,
            "stereotype": pair.stereotype,
            "type": pair.type,
        }
        if paper:
            values |= triplet(pair.pro, pair.anti)
        else:
            # Both sentences are made from one text, because released pairs may differ in more than the pronoun.
            biased = pair.sentence(pair.stereotype)
            unbiased = pair.sentence(_OTHER[pair.stereotype])
            values |= triplet(biased, unbiased)
            values["mended"] = pair.mended
        yield Row(pair.split, pair.id, pair.origin(files), values)


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
        # The stereotype is the gender of the majority, by the labour statistics of the data set.
        stereotype: Gender = "female" if share > 50 else "male"
        biased = sentences[f"{schema}.{stereotype}.txt"]
        unbiased = sentences[f"{schema}.{_OTHER[stereotype]}.txt"]
        values = {
            "domain": "gender",
            "subject": occupation,
            "other_participant": participant,
            "refers_to": _REFERS_TO[answer],
            "stereotype": stereotype,
            "female_share": share,
            "sentence_they": sentences[f"{schema}.neutral.txt"],
            **triplet(biased, unbiased),
        }
        yield Row("test", f"winogender-{schema}", fetched.origin(number), values)


# StereoSet: the released files, a table of three domains without ids, and a list without contexts and ids

Task = Literal["intrasentence", "intersentence"]

_GOLD = {"stereotype": "biased", "anti-stereotype": "unbiased", "unrelated": "irrelevant"}
_LIST_KEYS = {"biased": "stereo-sentence", "unbiased": "anti-sentence", "irrelevant": "unrelated-sentence"}
_SPLITS = {"stereoset/dev": "validation", "stereoset/test": "test", "stereoset/test-intersentence": "test"}
_LIST_SPLIT = "StereoSet test set"
# The table has the text of a later adaptation beside each original; only the original is read.
_TABLE_NAMES = ["target", "context", "bias_type"]
_TABLE_NAMES += [f"{name}_{number}" for number in (1, 2, 3) for name in ("sentence", "gold_label")]
_TABLE_COLUMNS = [f"{name}_{text}" for name in _TABLE_NAMES for text in ("original", "adapted")]


@dataclass(frozen=True, slots=True)
class StereoSetExample:
    """A target term, its context, and three sentences about it.

    ``sentences`` and ``sentence_ids`` have the keys ``biased``, ``unbiased`` and ``irrelevant``. The context and
    the ids are None where the file does not have them.
    """

    origin: Origin
    domain: str
    target: str
    sentences: Mapping[str, str]
    context: str | None = None
    id: str | None = None
    sentence_ids: Mapping[str, str] | None = None


def stereoset_examples(fetched: Fetched, task: Task) -> Iterator[StereoSetExample]:
    """The examples of one task, in the order of the files.

    A released file has all its domains. A table (with contexts, without ids) and a list of sentences (without
    contexts and ids) are copies of the test set. Each adds the domains that no earlier file has.

    Raises
    ------
    BuildError
        When an example does not have one sentence of each label.
    """
    complete: set[str] = set()  # the domains of the files so far
    for number, path in enumerate(fetched.paths):
        if _is_table(path):
            examples = list(_of_table(fetched, number, complete))
        else:
            document = read.json_document(path)
            if isinstance(document, dict):
                entries = document["data"][task]
                examples = [_released(fetched.origin(row, number), entry) for row, entry in enumerate(entries)]
            elif document and "sentences" in document[0]:
                examples = [_released(fetched.origin(row, number), entry) for row, entry in enumerate(document)]
            else:
                examples = list(_listed(fetched, number, document, complete))
        complete.update(example.domain for example in examples)
        yield from examples


def _is_table(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) not in (b"{", b"[")


def _of_table(fetched: Fetched, file: int, complete: set[str]) -> Iterator[StereoSetExample]:
    for row, entry in enumerate(read.table(fetched.paths[file], _TABLE_COLUMNS)):
        if entry["bias_type_original"] in complete:
            continue
        sentences = {}
        for number in (1, 2, 3):
            sentences[_GOLD[entry[f"gold_label_{number}_original"]]] = entry[f"sentence_{number}_original"]
        yield StereoSetExample(
            fetched.origin(row, file),
            entry["bias_type_original"],
            entry["target_original"],
            sentences,
            entry["context_original"],
        )


def _released(origin: Origin, entry: Mapping[str, Any]) -> StereoSetExample:
    by_label = {}
    for sentence in entry["sentences"]:
        # Labels of another release would be dropped without a word, so they are refused by name.
        label = _GOLD.get(sentence["gold_label"], sentence["gold_label"])
        by_label[label] = sentence
    if by_label.keys() != set(_GOLD.values()) or len(entry["sentences"]) != len(_GOLD):
        labels = ", ".join(sentence["gold_label"] for sentence in entry["sentences"])
        raise BuildError(
            f"{origin.file} row {origin.row} (id {entry['id']}) has sentences labelled {labels}; "
            f"expected one each of {', '.join(_GOLD)}."
        )
    texts = {label: sentence["sentence"] for label, sentence in by_label.items()}
    ids = {label: sentence["id"] for label, sentence in by_label.items()}
    return StereoSetExample(origin, entry["bias_type"], entry["target"], texts, entry["context"], entry["id"], ids)


def _listed(
    fetched: Fetched, file: int, entries: list[dict[str, str]], complete: set[str]
) -> Iterator[StereoSetExample]:
    for row, entry in enumerate(entries):
        domain = entry["Target group type"]
        if entry["Source"] == _LIST_SPLIT and domain not in complete:
            sentences = {label: entry[key] for label, key in _LIST_KEYS.items()}
            yield StereoSetExample(fetched.origin(row, file), domain, entry["subject_word"], sentences)


def _stereoset_row(task: Task, split: str, example: StereoSetExample) -> Row:
    biased, unbiased, irrelevant = (example.sentences[label] for label in LABELS)
    if task == "intrasentence":
        # The three sentences differ in a word, which becomes the blank.
        parts = triplet(biased, unbiased, irrelevant)
    else:
        # The three sentences follow one context, so each is an object as a whole.
        parts = filled(f"{example.context} {BLANK}", biased, unbiased, irrelevant)
    ids = example.sentence_ids or {}
    values: dict[str, Any] = {
        "domain": example.domain,
        "subject": example.target,
        "context": example.context,
        "example_id": example.id,
    }
    for label in LABELS:
        values[f"sentence_id_{label}"] = ids.get(label)
    values |= parts
    row_id = content_id(
        "stereoset",
        example.target,
        parts["prompt"],
        parts["object_biased"],
        parts["object_unbiased"],
        parts["object_irrelevant"],
    )
    return Row(split, row_id, example.origin, values)


def _stereoset(task: Task, files: Files) -> Rows:
    """The rows of one task from the released files, each of which is a split."""
    used: set[str] = set()
    for name, fetched in files.items():
        for example in stereoset_examples(fetched, task):
            row = _stereoset_row(task, _SPLITS[name], example)
            # One example of the test split was released twice, under two ids.
            if row.id in used:
                row = replace(row, id=content_id("stereoset", str(example.id)))
            used.add(row.id)
            yield row


# BEC-Pro: sentences about a person and a profession, as released and in pairs of a man and a woman

BEC_PRO = "bec-pro/sentences"

_BEC_COLUMNS = {
    "Sentence": "sentence",
    "Sent_TM": "masked_person",
    "Sent_AM": "masked_profession",
    "Sent_TAM": "masked_both",
    "Template": "template",
    "Person": "person",
    "Gender": "gender",
    "Profession": "subject",
    "Prof_Gender": "stereotype",
}
#: The male word for each female word.
_MALE = dict(pair.split(":") for pair in table("words")["bec_pro"]["pairs"].split())
_BEC_GENDERS = ("male", "female")

_Numbered = tuple[int, dict[str, str]]


def _bec_records(files: Files) -> Iterator[_Numbered]:
    records = read.table(files[BEC_PRO].path, ("", *_BEC_COLUMNS), delimiter="\t", quoted=False)
    for number, record in enumerate(records):
        yield number, {ours: record[theirs] for theirs, ours in _BEC_COLUMNS.items()}


def _bec_released(files: Files) -> Rows:
    """A row for each sentence with its three masked forms, as released."""
    for number, record in _bec_records(files):
        yield Row("test", f"bec-pro-{number}", files[BEC_PRO].origin(number), {"domain": "gender", **record})


def _bec_pairs(files: Files) -> Rows:
    """A row for each pair of sentences that differ in the gender of the person, in the order of the male ones.

    Raises
    ------
    BuildError
        When a sentence has no counterpart.
    """
    by_key: dict[tuple[str, ...], dict[str, _Numbered]] = {}
    for number, record in _bec_records(files):
        key = record["template"], record["subject"], _MALE.get(record["person"], record["person"])
        by_key.setdefault(key, {})[record["gender"]] = number, record
    for pair in by_key.values():
        if pair.keys() != set(_BEC_GENDERS):
            ((number, record),) = pair.values()
            raise BuildError(
                f"{files[BEC_PRO].path.name} row {number} ({record['sentence']!r}) has no counterpart of the other "
                "gender; expected one."
            )
        yield _bec_pair(files[BEC_PRO], pair)


def _bec_pair(fetched: Fetched, pair: Mapping[str, _Numbered]) -> Row:
    """The row of a pair. If no gender is expected of the profession, the male sentence is called biased."""
    number, male = pair["male"]
    other_number, female = pair["female"]
    # The triplet has what both sentences share as its prompt, and what differs as its options.
    if male["stereotype"] == "female":
        parts = triplet(_bec_sentence(female), _bec_sentence(male))
    else:
        parts = triplet(_bec_sentence(male), _bec_sentence(female))
    # One mask for each word of the profession: the prior is that of its gender without it.
    masks = " ".join(["[MASK]"] * len(male["subject"].split()))
    values = {
        "domain": "gender",
        "subject": male["subject"],
        "stereotype": male["stereotype"],
        "template": male["template"],
        "prompt_prior": parts["prompt"].replace(male["subject"], masks),
        **parts,
    }
    return Row("test", f"bec-pro-{number}-{other_number}", fetched.origin(number), values)


def _bec_sentence(record: Mapping[str, str]) -> str:
    """The sentence with *an* before a profession that begins with a vowel."""
    profession = record["subject"]
    return record["sentence"].replace(f" a {profession}", f" {article(profession)} {profession}")


# WEAT and the additions of SEAT: words for groups of people, and words that are contrasted

#: The name of the file of the word lists of SEAT and of Meade et al. in the rows, which is that of version 1.0.0.
RECORDED_FILE = "builders/weat.py"

#: Tests on social groups, by domain. The other tests are about flowers, instruments, diseases and age.
RACE = ("3", "3b", "4", "5", "5b")
GENDER = ("6", "6b", "7", "7b", "8", "8b")


@dataclass(frozen=True, slots=True)
class WordGroup:
    """Words for one social group in one test.

    ``biased`` has the words that the test expects to be associated with the group, ``unbiased`` the words of the
    other list in the same order. ``origins`` has the origin of each of the ``words``.
    """

    test: str
    domain: str
    name: str
    words: tuple[str, ...]
    biased: tuple[str, ...]
    unbiased: tuple[str, ...]
    origins: tuple[Origin, ...]


def word_groups(files: Files) -> Iterator[WordGroup]:
    """The groups of the race, gender and religion tests; ``files`` has the sources ``weat/…`` of the first two."""
    for domain, tests in (("race", RACE), ("gender", GENDER)):
        for test in tests:
            yield from _weat_published(files, test, domain)
    yield from _double_bind(files)
    yield from _religion()


def _weat_lists(files: Files, test: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    document = read.json_document(files[f"weat/{test}"].path)
    return {key: (entry["category"], tuple(entry["examples"])) for key, entry in document.items()}


def _weat_published(files: Files, test: str, domain: str) -> Iterator[WordGroup]:
    """The groups of a published test: its targets or, in tests 7 and 8, its attributes."""
    lists = _weat_lists(files, test)
    # Tests 7 and 8 are about mathematics, science and arts, and contrast male with female words as attributes.
    people, things = ("attr", "targ") if test[0] in "78" else ("targ", "attr")
    # Both groups take their origins from one counter, so no two words of a test have the same number.
    origins = map(files[f"weat/{test}"].origin, count())
    for group, contrast in ((1, 2), (2, 1)):
        name, words = lists[f"{people}{group}"]
        _, expected = lists[f"{things}{group}"]
        _, contrasted = lists[f"{things}{contrast}"]
        yield WordGroup(test, domain, name, words, expected, contrasted, tuple(islice(origins, len(words))))


def _embedded() -> Iterator[Origin]:
    return (Origin(PROJECT, RECORDED_FILE, row) for row in count())


def _double_bind(files: Files) -> Iterator[WordGroup]:
    # The double binds of SEAT have the names of WEAT 6 as their targets.
    names = _weat_lists(files, "6")
    origins = _embedded()
    for test, lists in table("seat")["double_bind"].items():
        first, second = (tuple(words.split()) for words in lists)
        for key, expected, contrasted in (("targ1", first, second), ("targ2", second, first)):
            name, words = names[key]
            yield WordGroup(test, "gender", name, words, expected, contrasted, tuple(islice(origins, len(words))))


def _religion() -> Iterator[WordGroup]:
    religion = table("seat")["religion"]
    good = tuple(religion["good"].split())
    bad = tuple(religion["bad"].split())
    origins = _embedded()
    for name, terms in religion["groups"].items():
        words = tuple(terms.split(", "))
        # The test expects good words with Christianity and bad words with the other religions.
        if name == "ChristianityTerms":
            expected, contrasted = good, bad
        else:
            expected, contrasted = bad, good
        yield WordGroup("religion", "religion", name, words, expected, contrasted, tuple(islice(origins, len(words))))


def _weat(pattern: str, files: Files) -> Rows:
    """Rows for each word of a group with each pair of contrasted words; the word replaces ``{}`` in the pattern."""
    for group in word_groups(files):
        for word, origin in zip(group.words, group.origins, strict=True):
            for biased, unbiased in zip(group.biased, group.unbiased, strict=True):
                values = {
                    "domain": group.domain,
                    "test": group.test,
                    "group": group.name,
                    "subject": word,
                    **filled(pattern.replace("{}", word), biased, unbiased),
                }
                yield Row("test", content_id("weat", group.test, word, biased, unbiased), origin, values)


DATASET = declared(
    "biaske",
    {
        "stereoset": partial(_stereoset, "intrasentence"),
        "stereoset-intersentence": partial(_stereoset, "intersentence"),
        "crows_pairs": partial(_crows, False),
        "crows_pairs-paper": partial(_crows, True),
        "weat": partial(_weat, f'The word "{{}}" goes with the word "{BLANK}".'),
        "weat-paper": partial(_weat, f"{{}} loves {BLANK}"),
        "winobias": partial(_winobias, False),
        "winobias-paper": partial(_winobias, True),
        "winogender": _winogender,
        "bec_pro": _bec_pairs,
        "bec_pro-paper": _bec_released,
        "paraphrases": partial(bundled.paraphrases, bundled.path("paraphrases")),
        "differentiation": partial(bundled.facts, bundled.path("differentiation")),
    },
)
