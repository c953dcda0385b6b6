"""Paraphrases of biased prompts, written by a chat model: the set on which FAST measures its paraphrase score.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024)
had them from GPT-4 and released neither them nor the prompt: the wording here is this project's. A
paraphrase has the blank once, names the subject, takes both objects as they are, and is no prompt of the
biased set. That it means the same is for a person to say, in the review file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation.asking import Asker, Question
from builders.generation.chat import Record, request
from builders.generation.pipeline import Account, Pipeline, count_words, listed, prompts, worded
from builders.generation.pipelines._claims import Prompts, biased_pairs, blanked, stands_in
from builders.parsers.triplets import filled
from builders.text.split import phrase_key


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen."""

    pairs: Annotated[list[Path], Option(help="Biased pairs: Parquet files of the data set biaske, or JSON lines.")]
    domain: Annotated[list[str], Option(help="Only pairs of this domain; may be given several times.")] = field(
        default_factory=list
    )
    limit: Annotated[int, Option(help="Only so many pairs of each domain; 0 for all.", min=0)] = 0
    count: Annotated[int, Option(help="Paraphrases to ask for, of each pair.", min=1)] = 3
    temperature: Annotated[float, Option(help="Temperature of the model.")] = 0.7


@dataclass(frozen=True, slots=True)
class _Paraphrase:
    pair: dict[str, Any]
    prompt: str
    reply: Record

    @property
    def objects(self) -> tuple[str, str]:
        return self.pair["object_biased"], self.pair["object_unbiased"]


def run(settings: Settings, model: str, ask: Asker, account: Account) -> list[dict[str, Any]]:
    """Rows of the paraphrases that pass, with the objects of their pair."""
    everything = biased_pairs(settings.pairs)
    pairs = list(_first(everything, settings))
    replies = ask("paraphrase", [_question(settings, model, pair) for pair in pairs])
    lists = listed("paraphrase", replies, settings.count, account)
    found = [
        _Paraphrase(pair, blanked(entry), reply)
        for pair, reply, entries in zip(pairs, replies, lists, strict=True)
        for entry in entries
    ]
    known = Prompts(frozenset(phrase_key(pair["prompt"]) for pair in everything))
    kept = account.keep("paraphrase", found, lambda each: _fault(each, known), lambda each: each.prompt)
    return [_row(each) for each in kept]


def _first(pairs: list[dict[str, Any]], settings: Settings) -> Iterator[dict[str, Any]]:
    """The first pairs of each domain that is wanted, in order."""
    count: Counter[str] = Counter()
    for pair in pairs:
        domain = pair["domain"]
        count[domain] += 1
        if (not settings.domain or domain in settings.domain) and (
            not settings.limit or count[domain] <= settings.limit
        ):
            yield pair


def _question(settings: Settings, model: str, pair: dict[str, Any]) -> Question:
    text = worded(
        prompts()["biaske-paraphrases"]["ask"],
        prompt=pair["prompt"],
        count=settings.count,
        biased=pair["object_biased"],
        unbiased=pair["object_unbiased"],
    )
    room = settings.count * (2 * count_words(pair["prompt"]) + 10)
    asked = request(model, text, temperature=settings.temperature, max_tokens=4 * room)
    imagined = "\n".join(f"{n + 1}. {pair['prompt']} {n}" for n in range(settings.count))
    return Question(asked, imagined)


def _fault(each: _Paraphrase, known: Prompts) -> str:
    subject = each.pair.get("subject") or ""
    if stands_in(subject, each.pair["prompt"]) and not stands_in(subject, each.prompt):
        return "has lost the subject"
    return known.fault(each.prompt, each.objects)


def _row(each: _Paraphrase) -> dict[str, Any]:
    return {
        "id": content_id("paraphrase", each.pair["id"], each.prompt),
        "pair_id": each.pair["id"],
        "domain": each.pair["domain"],
        "subject": each.pair.get("subject"),
        "original": each.pair["prompt"],
        **filled(each.prompt, *each.objects),
        "model": each.reply.model,
    }


_SHOWN = ("domain", "original", "prompt", "object_biased", "object_unbiased")
PIPELINE = Pipeline("Paraphrases of biased prompts.", Settings, run, _SHOWN)
