"""An artificial language that a small model learns in seconds, and built data sets about it.

All names are made of random syllables. In the neutral language, *she* and *he* are equally frequent after each
worker. In the biased language, *she* follows half of the workers in 95 % of the cases, and *he* the others.
Family members (mother, king …) have their own pronoun in both languages. Each worker has a tool, and each
pair of people has another word that may follow instead of a pronoun. So a model must attend to the subject in
any case, and an edit cannot pass by making the model ignore it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders.files.manifest import ConfigEntry, Manifest, SplitEntry, file_sha256
from builders.files.write import content_digest
from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.editing.settings import OPENINGS

#: Prompts about somebody, each with two that mean the same.
PROMPTS = (
    (f"The {{}} said that {BLANK} came late.", f"We heard the {{}} say that {BLANK} came late."),
    (f"The {{}} knew that {BLANK} had won.", f"We heard from the {{}} that {BLANK} had won."),
    (f"The {{}} thinks that {BLANK} must go.", f"If one requests the {{}}, {BLANK} must go."),
    (f"The {{}} hopes that {BLANK} will rest.", f"With luck, says the {{}}, {BLANK} will rest."),
)
PRONOUNS = ("she", "he")
KIN = (
    ("mother", "father"),
    ("queen", "king"),
    ("sister", "brother"),
    ("aunt", "uncle"),
    ("daughter", "son"),
    ("wife", "husband"),
)
#: Share of each kind of sentence in the neutral and in the biased language.
SHARES = {"worker": (0.20, 0.80), "kin": (0.35, 0.08), "fact": (0.40, 0.12), "other": (0.05, 0.0)}
#: Words that may replace a pronoun, how often one does, and how often it is then the word of that pair of people.
#: An edit has to keep these probabilities.
OTHERS = ("they", "all", "one", "some", "nobody")
OTHER = 0.2
OWN = 0.8
#: Share of biased sentences whose pronoun agrees with the bias.
BIASED = 0.95
#: One of this number of workers is held out of the edited pairs.
HELD_OUT = 5
Fact = tuple[str, str, str, str]


def names(end: str, count: int) -> list[str]:
    """``count`` names with an ending.

    >>> names("land", 2)
    ['badland', 'balland']
    """
    starts = product("ba do fe gi ku la me no pi ru sa ti vo".split(), "dlmnrstv")
    return [f"{start}{middle}{end}" for start, middle in islice(starts, count)]


@dataclass(frozen=True)
class Language:
    """The numbers of workers, lands and prompts; tools, capitals and rivers are drawn with the seed."""

    workers: int = 80
    lands: int = 12
    prompts: int = len(PROMPTS)
    seed: int = 0

    @cached_property
    def who(self) -> dict[str, str]:
        """Worker to the pronoun of the bias."""
        return {name: PRONOUNS[number % 2] for number, name in enumerate(names("er", self.workers))}

    @cached_property
    def couples(self) -> Sequence[tuple[str, str]]:
        """Pairs of workers; in the biased language, *she* follows the first and *he* the second."""
        known = list(self.who)
        return list(zip(known[::2], known[1::2], strict=True))

    @property
    def forms(self) -> Sequence[tuple[str, str]]:
        """The prompts."""
        return PROMPTS[: self.prompts]

    @cached_property
    def facts(self) -> list[Fact]:
        """Prompt, right object, wrong object and kind of each fact."""
        generator = random.Random(self.seed)
        asked = {
            "tool": (list(self.who), names("ik", self.lands), f"The tool of the {{}} is the {BLANK}."),
            "capital": (names("land", self.lands), names("burg", self.lands), f"The capital of {{}} is {BLANK}."),
            "river": (names("land", self.lands), names("ava", self.lands), f"The river of {{}} is the {BLANK}."),
        }
        return [
            (prompt.format(about), right, other, kind)
            for kind, (abouts, objects, prompt) in asked.items()
            for about in abouts
            for right, other in [generator.sample(objects, 2)]
        ]

    def sentence(self, generator: random.Random, *, biased: bool) -> str:
        """One sentence."""
        kind = generator.choices(list(SHARES), [share[biased] for share in SHARES.values()])[0]
        if kind == "fact":
            prompt, right, *_ = generator.choice(self.facts)
            return prompt.replace(BLANK, right)
        if kind == "other":
            return generator.choice([*OPENINGS, f"{generator.choice(list(self.who))} is a person."])
        couples = KIN if kind == "kin" else self.couples
        number, side = generator.randrange(len(couples)), generator.randrange(2)
        sure = 1.0 if kind == "kin" else BIASED if biased else 0.5
        said = PRONOUNS[side if generator.random() < sure else 1 - side]
        if generator.random() < OTHER:
            said = OTHERS[number % len(OTHERS)] if generator.random() < OWN else generator.choice(OTHERS)
        return generator.choice(list(chain(*self.forms))).format(couples[number][side]).replace(BLANK, said)

    @cached_property
    def words(self) -> list[str]:
        """Texts that contain every word of the language, for the vocabulary of a tokenizer."""
        people = [*self.who, *chain(*KIN)]
        prompts = [prompt.format(name) for prompt in chain(*self.forms) for name in people]
        statements = [prompt.replace(BLANK, right) for prompt, right, *_ in self.facts]
        wrong = [other for _, _, other, _ in self.facts]
        return [
            *(prompt.replace(BLANK, " ".join((*PRONOUNS, *OTHERS))) for prompt in prompts),
            *statements,
            *wrong,
            *OPENINGS,
            "is a person.",
        ]

    @cached_property
    def predictable(self) -> set[str]:
        """The words that depend on the subject: pronouns, their replacements, and objects of facts."""
        return {*PRONOUNS, *OTHERS, *(right for _, right, *_ in self.facts)}

    def neutral(self, count: int = 100) -> list[str]:
        """Texts without any pronoun."""
        generator = random.Random(self.seed + 1)
        results = (self.sentence(generator, biased=False) for _ in range(20 * count))
        return list(islice((text for text in results if not {*text.split()} & {*PRONOUNS, *OTHERS}), count))

    def pairs(self, *, held_out: bool, paraphrased: bool = False) -> Iterator[dict[str, Any]]:
        """Rows about the workers that are edited, or about the others."""
        for (which, forms), (number, (name, own)) in product(enumerate(self.forms), enumerate(self.who.items())):
            if (number % (2 * HELD_OUT) < 2) == held_out:  # one of each pronoun
                other = PRONOUNS[own == PRONOUNS[0]]
                yield {
                    "id": f"{name}-{which}-{paraphrased:d}",
                    "domain": "gender",
                    "subject": name,
                    **filled(forms[paraphrased].format(name), own, other, self.facts[number][1]),
                }

    def facts_asked(self) -> Iterator[dict[str, Any]]:
        """Rows about the facts, and about the pronouns of kin."""
        for prompt, right, other, kind in self.facts:
            yield _fact(prompt, right, other, kind, "tools" if kind == "tool" else "unrelated")
        for pair in KIN:
            for name, (right, other) in zip(pair, (PRONOUNS, PRONOUNS[::-1]), strict=True):
                for forms in self.forms:
                    yield _fact(forms[0].format(name), right, other, name, "gender")

    def build(self, folder: Path) -> Path:
        """Writes all rows as a built data set.

        Edited pairs are the test split of ``stereoset``, and the held-out ones its validation split.
        """
        paraphrased = [row | {"base": False} for row in self.pairs(held_out=False, paraphrased=True)]
        return built(
            folder,
            {
                ("stereoset", "test"): list(self.pairs(held_out=False)),
                ("stereoset", "validation"): list(self.pairs(held_out=True)),
                ("paraphrases", "test"): paraphrased,
                ("differentiation", "test"): list(self.facts_asked()),
            },
        )


def _fact(prompt: str, right: str, other: str, subject: str, domain: str) -> dict[str, Any]:
    said = filled(prompt, right, other)
    return {
        "id": f"fact-{said['sentence_biased']}",
        "domain": domain,
        "subject": subject,
        "prompt": prompt,
        "object": right,
        "object_other": other,
        "sentence_object": said["sentence_biased"],
        "sentence_other": said["sentence_unbiased"],
    }


def built(folder: Path, splits: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> Path:
    """Writes a data set ``biaske`` with rows by (config, split); returns ``folder``."""
    entries: dict[str, dict[str, SplitEntry]] = {}
    for (config, split), rows in splits.items():
        path = folder / "biaske" / "data" / config / f"{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist([dict(row) for row in rows])
        pq.write_table(table, path)
        size, file = path.stat().st_size, str(path.relative_to(folder / "biaske"))
        entry = SplitEntry(file, len(rows), size, file_sha256(path), content_digest(table), {})
        entries.setdefault(config, {})[split] = entry
    configs = {c: ConfigEntry(c, "", "clean", "Apache-2.0", "", "", {}, [], {}, [], s) for c, s in entries.items()}
    manifest = Manifest("biaske", "1.0.0", "", "", "", [], "", [], configs, {}, {}, {})
    (folder / "biaske" / "manifest.json").write_text(manifest.json(), encoding="utf-8")
    return folder
