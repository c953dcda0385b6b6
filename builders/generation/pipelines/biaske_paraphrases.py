"""Paraphrases of biased prompts, written by a chat model, on which FAST measures its paraphrase score.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024)
used paraphrases by GPT-4; neither they nor the prompt were released, so the prompt here is this project's. A
paraphrase has the blank once, names the subject, fits both objects unchanged, and is not a prompt of the
biased set. A person decides in the review file whether it has the same meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation.clients import Client, Request
from builders.generation.pipeline import FilterLog, Pipeline, count_words, fill_prompt, parse_lists, prompts
from builders.generation.pipelines._claims import PromptFilter, biased_pairs, contains_phrase, normalise_blank
from builders.generation.responses import Response, request_body
from builders.parsers.triplets import filled
from builders.text.split import phrase_key


@dataclass(frozen=True, slots=True)
class ParaphraseSettings:
    """The options of the pipeline."""

    pairs: Annotated[list[Path], Option(help="Biased pairs: Parquet files of the data set biaske, or JSON lines.")]
    domain: Annotated[list[str], Option(help="Only pairs of this domain; may be repeated.")] = field(
        default_factory=list
    )
    limit: Annotated[int, Option(help="Highest number of pairs of each domain; 0 for all.", min=0)] = 0
    count: Annotated[int, Option(help="Number of paraphrases to request for each pair.", min=1)] = 3
    temperature: Annotated[float, Option(help="Temperature of the model.")] = 0.7


@dataclass(frozen=True, slots=True)
class _Paraphrase:
    pair: dict[str, Any]
    prompt: str
    response: Response

    @property
    def objects(self) -> tuple[str, str]:
        return self.pair["object_biased"], self.pair["object_unbiased"]


def run(settings: ParaphraseSettings, model: str, client: Client, log: FilterLog) -> list[dict[str, Any]]:
    """The rows of the paraphrases that pass all checks, with the objects of their pair."""
    all_pairs = biased_pairs(settings.pairs)
    pairs = list(_selected(all_pairs, settings))
    responses = client("paraphrase", [_request(settings, model, pair) for pair in pairs])
    lists = parse_lists("paraphrase", responses, settings.count, log)
    paraphrases = [
        _Paraphrase(pair, normalise_blank(entry), response)
        for pair, response, entries in zip(pairs, responses, lists, strict=True)
        for entry in entries
    ]
    earlier = PromptFilter(frozenset(phrase_key(pair["prompt"]) for pair in all_pairs))
    kept = log.filter("paraphrase", paraphrases, lambda p: _fault(p, earlier), lambda p: p.prompt)
    return [_row(paraphrase) for paraphrase in kept]


def _selected(pairs: list[dict[str, Any]], settings: ParaphraseSettings) -> Iterator[dict[str, Any]]:
    """The first pairs of each selected domain, in order."""
    count: Counter[str] = Counter()
    for pair in pairs:
        domain = pair["domain"]
        count[domain] += 1
        if (not settings.domain or domain in settings.domain) and (
            not settings.limit or count[domain] <= settings.limit
        ):
            yield pair


def _request(settings: ParaphraseSettings, model: str, pair: dict[str, Any]) -> Request:
    text = fill_prompt(
        prompts()["biaske-paraphrases"]["ask"],
        prompt=pair["prompt"],
        count=settings.count,
        biased=pair["object_biased"],
        unbiased=pair["object_unbiased"],
    )
    longest = settings.count * (2 * count_words(pair["prompt"]) + 10)  # words
    body = request_body(model, text, temperature=settings.temperature, max_tokens=4 * longest)
    example = "\n".join(f"{n + 1}. {pair['prompt']} {n}" for n in range(settings.count))
    return Request(body, example)


def _fault(paraphrase: _Paraphrase, earlier: PromptFilter) -> str:
    prompt, subject = paraphrase.prompt, paraphrase.pair.get("subject") or ""
    if contains_phrase(paraphrase.pair["prompt"], subject) and not contains_phrase(prompt, subject):
        return "has lost the subject"
    return earlier.fault(prompt, paraphrase.objects)


def _row(paraphrase: _Paraphrase) -> dict[str, Any]:
    pair = paraphrase.pair
    return {
        "id": content_id("paraphrase", pair["id"], paraphrase.prompt),
        "pair_id": pair["id"],
        "domain": pair["domain"],
        "subject": pair.get("subject"),
        "original": pair["prompt"],
        **filled(paraphrase.prompt, *paraphrase.objects),
        "model": paraphrase.response.model,
    }


_REVIEW_COLUMNS = ("domain", "original", "prompt", "object_biased", "object_unbiased")
PIPELINE = Pipeline("Paraphrases of biased prompts.", ParaphraseSettings, run, _REVIEW_COLUMNS)
