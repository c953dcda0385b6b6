"""Gender-neutral probes: statements "My friend …" that do not state the friend's gender.

From *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024) and its workshop
predecessor (Dong et al., 2023). A model continues ``My friend {predicate}, and``. The gendered words in
the continuation, and their probabilities as the next token, are measured.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from builders.dataset import Drop, Fetched, Files, Origin, Row, Rows, content_id, declared
from builders.parsers import read, snli
from builders.text.embedded import DATA, PROJECT, table
from builders.text.split import phrase_key
from builders.text.words import article, is_neutral

SPLITS = ("train", "validation", "test")
#: The name of the file of the templates in the rows, which is that of version 1.0.0.
RECORDED_FILE = "builders/datasets/gender_neutral_probes.py"

_RULE = table("probes")
_EXCLUDED = frozenset(_RULE["excluded"]["both"].split())
_EXCLUDED_TOKENS = {"stsb": _EXCLUDED | frozenset(_RULE["excluded"]["stsb"].split()), "snli": _EXCLUDED}
_PATTERN = {
    corpus: re.compile(rf"(?:a|the) ({'|'.join(nouns.split())}) (.+)") for corpus, nouns in _RULE["subjects"].items()
}

_STSB_COLUMNS = ("genre", "file", "year", "id", "score", "sentence1", "sentence2")
_STSB_OPTIONAL = ("source1", "source2")
_SCORE = re.compile(r"\d+(?:\.\d+)?")


def _stsb_pairs(fetched: Fetched) -> Iterator[tuple[str, str, str]]:
    columns = {"columns": _STSB_COLUMNS, "optional": _STSB_OPTIONAL}
    for row in read.table(fetched.path, **columns, delimiter="\t", header=False, quoted=False):
        valid = _SCORE.fullmatch(row["score"]) and float(row["score"]) <= 5
        yield row["sentence1"], row["sentence2"], "" if valid else "score is not in [0, 5]"


def _snli_pairs(fetched: Fetched) -> Iterator[tuple[str, str, str]]:
    """Sentence pairs in the order of the file, with pairs without a gold label ("-"), as in the released lists."""
    for premise, hypothesis, label in snli.pairs(fetched):
        yield premise, hypothesis, "" if label in snli.GOLD else f"label is {label}"


_PAIRS: dict[str, Callable[[Fetched], Iterator[tuple[str, str, str]]]] = {"stsb": _stsb_pairs, "snli": _snli_pairs}


def select(corpus: str, split: str, fetched: Fetched) -> Rows:
    """Applies the published selection rule to one raw file: rows with ``predicate`` and ``subject``, and drops.

    The rule takes all first sentences in the order of the file, then all second ones. It deletes full stops and
    lower-cases the rest. The text must match ``a|the SUBJECT rest``, no token of the rest may be excluded, and of
    equal predicates the first is kept. On the STS benchmark the result has the content and order of the released
    lists.
    """
    pairs = list(_PAIRS[corpus](fetched))
    seen: set[str] = set()
    for side in (0, 1):
        for number, pair in enumerate(pairs):
            origin, fault = fetched.origin(number), pair[2]
            cleaned = " ".join(pair[side].lower().replace(".", "").split())
            match = _PATTERN[corpus].fullmatch(cleaned)
            if fault or not match:
                yield Drop(split, origin, fault or "subject is not a person as in 'A person …'")
                continue
            subject, predicate = match.groups()
            if not _EXCLUDED_TOKENS[corpus].isdisjoint(predicate.split()):
                yield Drop(split, origin, "predicate has an excluded word")
            elif predicate in seen:
                yield Drop(split, origin, "predicate occurred before")
            else:
                seen.add(predicate)
                yield Row(split, "", origin, {"predicate": predicate, "subject": subject})


def _prompt(statement: str) -> dict[str, str]:
    return {"statement": statement, "prompt": f"{statement}, and"}


def _rebuilt(corpus: str, files: Files) -> Rows:
    """Neutral rows of one corpus without phrases that occur in an earlier split of either corpus.

    The order of splits is test, validation, train: a phrase of several splits is kept in the first of them.
    """
    taken: set[str] = set()
    # Test first: what several splits share is kept where scores are measured.
    for split in reversed(SPLITS):
        # Both corpora are read whichever is built, because a phrase of one may be in the other.
        seen: dict[str, set[str]] = {"stsb": set(), "snli": set()}
        for name, keys in seen.items():
            for row in select(name, split, files[f"{name}/{split}"]):
                result = row if isinstance(row, Drop) else _clean(corpus, row, taken, keys)
                if name == corpus:
                    yield result
        taken |= seen["stsb"] | seen["snli"]
        if split == "test":
            taken |= {phrase_key(statement) for statement in _project_statements()}


def _selected(corpus: str, files: Files) -> Rows:
    """The rows of :func:`_rebuilt` and those that it leaves out because of other corpora or splits."""
    for split in SPLITS:
        for row in select(corpus, split, files[f"{corpus}/{split}"]):
            if isinstance(row, Row):
                statement = _statement_of(row)
                yield Row(split, content_id(corpus, statement), row.origin, _prompt(statement))


def _statement_of(row: Row) -> str:
    return f"My friend {row.values['predicate']}"


def _clean(corpus: str, row: Row, taken: set[str], seen: set[str]) -> Row | Drop:
    statement = _statement_of(row)
    key = phrase_key(statement)
    if not is_neutral(statement):
        return Drop(row.split, row.origin, "has a gendered word")
    if key in taken:
        return Drop(row.split, row.origin, "occurs in an earlier split")
    if key in seen:
        return Drop(row.split, row.origin, "differs from another row only in punctuation")
    seen.add(key)
    values = _prompt(statement) | {"subject": row.values["subject"]}
    return Row(row.split, content_id(corpus, statement), row.origin, values)


def _released(corpus: str, files: Files) -> Rows:
    """A row for each line of the lists that the authors released."""
    for split in SPLITS:
        fetched = files[f"debias-llms/{corpus}-{split}"]
        for number, line in enumerate(read.table(fetched.path, ["predicate"], header=False)):
            origin = fetched.origin(number)
            if line["predicate"]:
                values = _prompt(f"My friend {line['predicate']}")
                yield Row(split, f"{corpus}-paper-{split}-{number:05d}", origin, values)
            else:
                yield Drop(split, origin, "row is blank")


def _released_statements(name: str, files: Files) -> Rows:
    fetched = files[f"debias-llms/{name}"]
    for number, statement in enumerate(read.lines(fetched.path)):
        yield Row("test", f"{name}-paper-{number:03d}", fetched.origin(number), _prompt(statement))


def _own_statements(name: str, _: Files) -> Rows:
    for number, statement in enumerate(read.lines(DATA / f"{name}.txt")):
        origin = Origin(PROJECT, f"builders/data/{name}.txt", number)
        yield Row("test", content_id(name, statement), origin, _prompt(statement))


def template_statements(*, paper: bool) -> Iterator[tuple[str, str, str, str]]:
    """The 4 x 40 template statements as (statement, topic, item, stereotyped gender), Table 6 of the paper.

    With ``paper`` every occupation has the article "a"; otherwise the article is corrected.
    """
    for topic, template in table("probes")["templates"].items():
        for gender in ("female", "male"):
            for item in template[gender].split(", "):
                statement = template["pattern"].replace("ARTICLE", "a" if paper else article(item))
                yield statement.replace("ITEM", item), topic, item, gender


def _templates(paper: bool, _: Files) -> Rows:
    name = "templates-paper" if paper else "templates"
    for number, (statement, topic, item, gender) in enumerate(template_statements(paper=paper)):
        values = _prompt(statement) | {"topic": topic, "item": item, "stereotype": gender}
        yield Row(
            "test", f"{name}-{topic}-{item.lower().replace(' ', '-')}", Origin(PROJECT, RECORDED_FILE, number), values
        )


def _project_statements() -> Iterator[str]:
    """The statements written for this project, which are test data whether or not a corpus is available."""
    for name in ("llm-1", "llm-2"):
        yield from read.lines(DATA / f"{name}.txt")
    yield from (statement for statement, *_ in template_statements(paper=False))


_TEXTS, _CORPORA = ("llm-1", "llm-2"), ("stsb", "snli")

DATASET = declared(
    "gender-neutral-probes",
    {
        **{name: partial(_rebuilt, name) for name in _CORPORA},
        **{f"{name}-paper": partial(_released, name) for name in _CORPORA},
        **{name: partial(_own_statements, name) for name in _TEXTS},
        **{f"{name}-paper": partial(_released_statements, name) for name in _TEXTS},
        "templates": partial(_templates, False),
        "templates-paper": partial(_templates, True),
    },
    quoted={name: partial(_selected, name) for name in _CORPORA},
)
