"""Paraphrases of biased prompts, written by a chat model, on which FAST measures its paraphrase score.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024)
used paraphrases by GPT-4; neither they nor the prompt were released, so the prompt here is this project's. A
paraphrase has the blank once, names the subject, fits both objects unchanged, and is not a prompt of the
biased set. A person decides in the review file whether it has the same meaning.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation import pipeline
from builders.generation.clients import ChatClient, ChatRequest
from builders.generation.pipeline import FilterLog, ListEntry, Pipeline, contains_phrase
from builders.generation.pipelines._blanks import PromptFilter, biased_pairs, normalise_blank
from builders.parsers.triplets import filled
from builders.text.embedded import table
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


_Pair = dict[str, Any]


def paraphrase_rows(
    settings: ParaphraseSettings, model: str, client: ChatClient, log: FilterLog
) -> list[dict[str, Any]]:
    """The rows of the paraphrases that pass all checks, with the objects of their pair."""
    pairs = biased_pairs(settings.pairs)
    requests = [(pair, _request(settings, model, pair)) for pair in _selected(pairs, settings)]
    entries = [
        entry._replace(text=normalise_blank(entry.text))
        for entry in pipeline.request_lists("paraphrase", requests, settings.count, client, log)
    ]
    earlier = PromptFilter(frozenset(phrase_key(pair["prompt"]) for pair in pairs))
    accepted = log.filter("paraphrase", entries, lambda entry: _fault(entry, earlier), lambda entry: entry.text)
    return [_row(entry) for entry in accepted]


def _selected(pairs: list[_Pair], settings: ParaphraseSettings) -> Iterator[_Pair]:
    """The first pairs of each selected domain, in order."""
    seen: Counter[str] = Counter()
    for pair in pairs:
        domain = pair["domain"]
        # Counted before the limit is compared, so that the first pairs of a domain are those that are kept.
        seen[domain] += 1
        is_within_limit = not settings.limit or seen[domain] <= settings.limit
        if is_within_limit and (not settings.domain or domain in settings.domain):
            yield pair


def _request(settings: ParaphraseSettings, model: str, pair: _Pair) -> ChatRequest:
    # A paraphrase may be twice as long as its prompt.
    longest = settings.count * (2 * pipeline.count_words(pair["prompt"]) + 10)  # words
    return pipeline.prompt_request(
        model,
        table("prompts")["biaske-paraphrases"]["ask"],
        "\n".join(f"{n + 1}. {pair['prompt']} {n}" for n in range(settings.count)),
        temperature=settings.temperature,
        max_tokens=4 * longest,
        prompt=pair["prompt"],
        count=settings.count,
        biased=pair["object_biased"],
        unbiased=pair["object_unbiased"],
    )


def _fault(entry: ListEntry[_Pair], earlier: PromptFilter) -> str:
    pair = entry.topic
    subject = pair.get("subject") or ""
    # A subject that the prompt itself does not name need not be kept.
    if contains_phrase(pair["prompt"], subject) and not contains_phrase(entry.text, subject):
        return "has lost the subject"
    return earlier.fault(entry.text, (pair["object_biased"], pair["object_unbiased"]))


def _row(entry: ListEntry[_Pair]) -> dict[str, Any]:
    pair = entry.topic
    return {
        "id": content_id("paraphrase", pair["id"], entry.text),
        "pair_id": pair["id"],
        "domain": pair["domain"],
        "subject": pair.get("subject"),
        "original": pair["prompt"],
        **filled(entry.text, pair["object_biased"], pair["object_unbiased"]),
        "model": entry.response.model,
    }


_REVIEW_COLUMNS = ("domain", "original", "prompt", "object_biased", "object_unbiased")
PIPELINE = Pipeline("Paraphrases of biased prompts.", ParaphraseSettings, paraphrase_rows, _REVIEW_COLUMNS)
