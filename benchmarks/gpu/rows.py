"""Rows for a machine that has no upstream sources: of the same number and lengths as the real ones, with other words.

What the project itself wrote is built as always. A config whose source is not there gets made rows: ``lengths.json``
has the number of its rows and the deciles of their words before the place where the sentences of a row differ, there,
and after it, so that as much is shared, computed and padded as in the real rows. Their words are drawn at random, so
speeds can be compared, and scores mean nothing. ``lengths.json`` was
written by ``benchmarks/gpu/rows.py`` at commit 2f21488a.
"""

from __future__ import annotations

import importlib
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from builders.dataset import BuildError
from builders.files.manifest import read_manifest
from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from cards.common.files import put

#: Not checked by mypy, as all tests.
made: Any = importlib.import_module("tests.scoring.made")
LENGTHS = Path(__file__).with_name("lengths.json")
DOMAINS = ("gender", "profession", "race", "religion")
#: Parts of a row whose words are counted.
PARTS = ("before", "object", "after")
#: Forms of "it cannot be known" in a question of BBQ.
UNKNOWNS = 10
Row = dict[str, Any]


def folder(data: str, out: Path) -> str:
    """The folder that is given, or ``out`` with the data sets that can be built here and made rows for all others."""
    if data:
        return data
    if not (out / ".ready").is_file():
        command = [sys.executable, "-m", "builders.rebuild", "--offline", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(done.stderr.strip().splitlines()[-1])
        fill(out)
        put(out / ".ready", b"")
    return str(out)


def fill(out: Path) -> None:
    """Adds made rows for each config of ``lengths.json`` that a folder of built data sets lacks."""
    lengths: dict[str, dict[str, Any]] = json.loads(LENGTHS.read_text())
    for name in sorted({place.split("/")[0] for place in lengths}):
        manifest = read_manifest(out / name)
        splits: dict[tuple[str, str], list[Row]] = {
            (config, split): pq.read_table(out / name / entry.file).to_pylist()
            for config, described in (manifest.configs if manifest else {}).items()
            for split, entry in described.splits.items()
        }
        for place, facts in lengths.items():
            data_set, config, split = place.split("/")
            if data_set == name and (config, split) not in splits:
                splits[config, split] = rows(place, facts)
        write: Any = made.data_set
        write(out, name, splits)


def rows(place: str, facts: Mapping[str, Any]) -> list[Row]:
    """Made rows of one split, the same at every call."""
    data_set, config, split = place.split("/")
    draw = random.Random(place)
    make: Callable[[int, str, str, str, random.Random], Row]
    make = {"biaske": _triplet, "unstereo": _pronouns, "bbq": _question, "mbbq": _question}.get(data_set, _neutral)
    result = []
    for number in range(facts["rows"]):
        before, thing, after = (_words(_drawn(facts[part], draw), draw) for part in PARTS)
        result.append({"id": f"made-{config}-{split}-{number}"} | make(number, before, thing, after, draw))
    return result


def _triplet(number: int, before: str, thing: str, after: str, draw: random.Random) -> Row:
    subject = draw.choice(WORDS[: len(WORDS) // 8])
    prompt = " ".join(filter(None, ("The", subject, before, BLANK, after))) + "."
    others = [f"{' '.join([*thing.split()[:-1], word])}" for word in draw.sample(WORDS, 3)]
    sentences: Row = dict(filled(prompt, *others))
    return sentences | {
        "domain": DOMAINS[number % len(DOMAINS)],
        "subject": subject,
        "context": " ".join(filter(None, ("The", subject, before, "."))),
        "stereotype": ("female", "male")[number % 2],
        "direction": "stereo",
        "writer": f"writer {number % 20}",
        "template": f"template {number % 5}",
        "prompt_prior": prompt,
        "test": str(1 + number % 6),
        "group": ("first", "second")[number % 2],
        "type": 1 + number % 2,
        "refers_to": "subject",
        "female_share": 50.0,
        "other_participant": "other",
    }


def _pronouns(number: int, before: str, thing: str, after: str, draw: random.Random) -> Row:
    del thing
    words = {"male": "he", "female": "she", "they": "they"}
    sentences = {f"sentence_{name}": f"{before} {word} {after}.".strip() for name, word in words.items()}
    gap = draw.uniform(-1, 1)
    return sentences | {"word": draw.choice(WORDS), "natural": True, "max_pmi_diff": gap, "template": str(number)}


def _question(number: int, before: str, thing: str, after: str, draw: random.Random) -> Row:
    # Forms of "it cannot be known", as many as in the English sets and as long as most of them.
    unknowns = [_words(2 + n % 2, draw) for n in range(UNKNOWNS)]
    unknown = number % 3
    answers = [f"{after} {word}".strip() for word in draw.sample(WORDS, 3)]
    answers[unknown] = unknowns[0]
    people = [place for place in range(3) if place != unknown]
    ambiguous = number % 2 == 0
    return {
        "context": f"{before}.",
        "question": f"{thing}?",
        "answers": answers,
        "unknown": unknown,
        "biased": people[number // 6 % 2],
        "label": unknown if ambiguous else people[number // 12 % 2],
        "condition": "ambiguous" if ambiguous else "disambiguated",
        "polarity": ("negative", "non-negative")[number // 2 % 2],
        "template": number // 100,
        "group": ("women", "men")[number // 4 % 2],
        "unknowns": unknowns,
    }


def _neutral(number: int, before: str, thing: str, after: str, draw: random.Random) -> Row:
    del number, thing, draw
    statement = f"My friend {before}{after}"
    return {"statement": statement, "prompt": f"{statement}, and"}


def _own_words() -> list[str]:
    """Words of sentences that the project wrote."""
    texts = (Path(__file__).parents[2] / "builders" / "data").glob("llm-*.txt")
    words = re.findall(r"[a-z]{2,}", " ".join(path.read_text(encoding="utf-8") for path in texts))
    return sorted(set(words) - {"friend", "and", "he", "she", "they"})


WORDS = _own_words()


def _words(count: int, draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=count))


def _drawn(deciles: Sequence[float], draw: random.Random) -> int:
    """A number whose distribution has these deciles."""
    return round(float(np.interp(draw.random() * (len(deciles) - 1), range(len(deciles)), deciles)))
