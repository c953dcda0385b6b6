"""Auto-Debias: aligns what a model predicts after paired words and a prompt that brings out their difference.

Source: *Auto-Debias: Debiasing Masked Language Models with Automated Biased Prompts* (Guo et al., 2022). Training
makes the predictions after "{male word} {prompt}" and "{female word} {prompt}" equal. The published words and prompts
are fetched from their pinned addresses; prompts of one's own come from a file or from the published search, which
takes very long at its published size. The method was published for masked models; for causal ones this project
aligns the next token. With ``pairs`` of the user's, prompts with opposite stereotypes have the place of the words.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from builders.files.manifest import file_sha256
from builders.sources.catalogue import catalogue
from mitigation.recipe import Adapter, Job, MitigationError, declared, defaults, setting
from mitigation.texts import attribute_words, corpora, pairs_file
from mitigation.training.settings import OPEN, TrainingSettings
from scoring.types import Row

PUBLISHED, SEARCH = "auto-debias", "search"
#: Pairs of prompts of a file that are trained, at most.
MOST = 5000
CODE, PAPER = "code of Guo et al. 2022", "Guo et al. 2022"
#: Domain to the pinned files with the words of both sides, line by line.
SIDES: Mapping[str, tuple[str, str]] = {
    "gender": (f"{PUBLISHED}/male", f"{PUBLISHED}/female"),
    "race": (f"{PUBLISHED}/race-1", f"{PUBLISHED}/race-2"),
}


@dataclass(frozen=True)
@defaults(CODE, batch_size=32, learning_rate=5e-6, rank=0)
class AutoDebiasSettings(TrainingSettings):
    """Words, prompts, and how long is trained."""

    words: str = setting(PUBLISHED, "The pairs of words: auto-debias, bias-bench, or a JSON file.", CODE)
    domain: str = setting("gender", "gender or race, or another name in the JSON file.", CODE)
    stereotypes: str = setting(PUBLISHED, "The stereotype words: auto-debias, or a file with a word per line.", CODE)
    prompts: str = setting(PUBLISHED, "auto-debias, search, or a file with a prompt per line.", CODE)
    all_tokens: bool = setting(True, "Align all tokens; else the stereotype words alone.", CODE)
    published: bool = setting(True, "Compute the divergence as the published code does, from the mean.", CODE)
    search_length: int = setting(5, "The most words of a prompt that is searched.", PAPER, above=0)
    search_beam: int = setting(100, "Prompts of each length that the search keeps.", PAPER, above=0)
    search_words: int = setting(5000, "Words that the search tries, from the model's vocabulary.", CODE, above=0)
    search_pairs: int = setting(30, "Pairs of words that the search compares.", CODE, above=0)
    pairs: str = setting(
        "", "A file of pairs of your own in place of words and prompts: aligns the objects after two prompts.", OPEN
    )
    held_out: float = setting(0.0, "Share of the pairs that are measured but not trained.", OPEN, least=0, below=1)
    epochs: int = setting(1, "Times that each prompt is trained after each pair; a step has prompts.", PAPER, above=0)
    measured: int = setting(256, "Prompts that are measured while training.", OPEN, above=0)

    @property
    def read(self) -> int:
        """The distributions of a row: the head computes one after each word of a pair."""
        return 2

    def inputs(self) -> dict[str, str]:
        """The words and prompts; or the file of pairs, where there is one."""
        if self.pairs:
            return corpora.fingerprints(self.pairs)
        fingerprints: dict[str, str] = {}
        files = []
        if self.words == PUBLISHED:
            files = [(PUBLISHED, name) for name in SIDES.get(self.domain, ())]
        else:
            words = attribute_words.attribute_words(self.words, self.domain)
            fingerprints[words.name] = words.version
        files.append((self.stereotypes, f"{PUBLISHED}/stereotypes"))
        if self.prompts != SEARCH:
            files.append((self.prompts, f"{PUBLISHED}/prompts-{self.domain}"))
        for file, published in files:
            read_lines(file, published)  # refuses a file that cannot be read
            if file == PUBLISHED:
                name = f"{attribute_words.SOURCE}{published}"
            else:
                name = f"words:{Path(file).name}"
            fingerprints[name] = file_sha256(chosen_file(file, published))
        return fingerprints


def make(job: Job[AutoDebiasSettings]) -> Adapter:
    """Searches prompts if asked to, trains on them, and writes the adapter."""
    # Imports are below, because the settings are listed without torch.
    if job.settings.pairs:
        return make_from_pairs(job)
    from cards.common.files import put
    from mitigation.training import alignment, train, trainable

    model, settings = job.model, job.settings
    pairs = alignment.whole_pairs(model, read_word_pairs(settings))
    stereotypes = alignment.token_numbers(model, read_lines(settings.stereotypes, f"{PUBLISHED}/stereotypes"))
    # One generator for the search and the split, so that a seed gives both.
    draw, path = random.Random(settings.seed), train.checkpoint_path(job)
    if settings.prompts == SEARCH:
        loss = alignment.AlignmentLoss(model, stereotypes, reverse=settings.published)
        # The search measures every prompt on every pair, so it takes a sample of them.
        sample = draw.sample(pairs, min(settings.search_pairs, len(pairs)))
        words = alignment.candidates(model, settings.search_words)
        size, beam = settings.search_length, settings.search_beam
        prompts = alignment.search(model, loss, sample, words, size, beam, path.with_suffix(".json"), job.console)
        # The prompts that were found are part of the result: the search takes long.
        put(job.out / "prompts.txt", "".join(f"{prompt}\n" for prompt in prompts).encode())
    else:
        # The published prompts of each domain are a file of their own.
        prompts = read_lines(settings.prompts, f"{PUBLISHED}/prompts-{settings.domain}")
    trained_pairs, held_pairs = split_pairs(pairs, settings.held_out, draw)
    rows = alignment.prompted_pairs(model, prompts, trained_pairs)
    # Without held-out pairs the curve is that of the trained ones, and the names of the measures say so.
    held = alignment.prompted_pairs(model, prompts, held_pairs) if held_pairs else rows
    held = draw.sample(held, min(settings.measured, len(held)))
    searched = job.meter.seconds
    loss = alignment.AlignmentLoss(model, None if settings.all_tokens else stereotypes, reverse=settings.published)
    schedule = settings.schedule(steps=max(1, settings.epochs * len(rows) // settings.batch_size), warmup=0.0)
    tuned = trainable.tune(job, loss, rows, held, schedule)
    side = "held_out" if held_pairs else "trained"
    measures = {
        f"divergence_{side}_before": tuned.curve.held[0]["loss"],
        f"divergence_{side}_after": tuned.after["loss"],
        "pairs_trained": len(trained_pairs),
        "pairs_held_out": len(held_pairs),
        "prompts": len(prompts),
        "stereotype_words": len(stereotypes),
        "seconds_searching": searched if settings.prompts == SEARCH else 0.0,
    }
    return job.done(tuned.parameters, measures)


def make_from_pairs(job: Job[AutoDebiasSettings]) -> Adapter:
    """Trains on the prompts of a file of pairs, and writes the adapter.

    Two prompts whose stereotypes are opposite, such as those of a carpenter and of a nurse, have the place of the
    published words and prompt. What is aligned is the distribution over the objects of the file.
    """
    import torch

    from mitigation.editing.pairs import each_possible, edit_pair
    from mitigation.editing.session import split_subjects, tell_left_out
    from mitigation.training import alignment, trainable

    model, settings = job.model, job.settings
    # Of each pair only the prompt and the two objects are used, not its sentences.
    file_rows = pairs_file.read_pairs(settings.pairs)
    possible, left_out = each_possible(file_rows, lambda row: edit_pair(model.tokens, row))
    tell_left_out(left_out, len(file_rows), "aligned", job.console)
    if not possible:
        raise MitigationError(
            f"None of the {len(file_rows)} pairs of {settings.pairs} can be aligned; give other pairs."
        )
    pairs_by_id = {str(row["id"]): pair for row, pair in possible}
    trained, held = split_subjects([row for row, _ in possible], settings.held_out, settings.seed)
    draw = random.Random(settings.seed)

    def prompts(rows: Sequence[Row], most: int) -> list[alignment.PromptedPair]:
        opposites = opposite_prompts(rows)
        chosen = []
        for one, other in draw.sample(opposites, min(most, len(opposites))):
            chosen.append(
                (alignment.before_object(model, pairs_by_id[one]), alignment.before_object(model, pairs_by_id[other]))
            )
        return chosen

    rows, held_rows = prompts(trained, MOST), prompts(held, settings.measured)
    if not rows:
        raise MitigationError(
            f"No two prompts of {settings.pairs} have opposite stereotypes, such as he in one and she in the other; "
            "give pairs of both kinds."
        )
    tokens: set[int] = set()
    for pair in pairs_by_id.values():
        tokens |= set(pair.objects)
    objects = torch.tensor(sorted(tokens))
    loss = alignment.AlignmentLoss(model, None if settings.all_tokens else objects, reverse=settings.published)
    schedule = settings.schedule(steps=max(1, settings.epochs * len(rows) // settings.batch_size), warmup=0.0)
    tuned = trainable.tune(job, loss, rows, held_rows or rows[: settings.measured], schedule)
    side = "held_out" if held_rows else "trained"
    measures = {
        f"divergence_{side}_before": tuned.curve.held[0]["loss"],
        f"divergence_{side}_after": tuned.after["loss"],
        "pairs_trained": len(trained),
        "pairs_held_out": len(held),
    }
    return job.done(tuned.parameters, measures)


def opposite_prompts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The ids of each two rows with opposite stereotypes, of the same template where rows have one.

    >>> row = {"prompt": "The nurse said [BLANK] left.", "subject": "nurse"}
    >>> rows = [row | {"id": "a", "object_biased": "she", "object_unbiased": "he"}]
    >>> row = {"prompt": "The cook said [BLANK] left.", "subject": "cook"}
    >>> rows += [row | {"id": "b", "object_biased": "he", "object_unbiased": "she"}]
    >>> opposite_prompts(rows)
    [('a', 'b')]
    """
    by_template: dict[tuple[str, frozenset[str]], list[Row]] = {}
    by_objects: dict[tuple[str, frozenset[str]], list[Row]] = {}
    for row in rows:
        objects = frozenset((row["object_biased"], row["object_unbiased"]))
        # Prompts of a template are equal when the subject is taken out.
        template = row["prompt"].replace(row["subject"], "") if row["subject"] else ""
        by_template.setdefault((template, objects), []).append(row)
        by_objects.setdefault(("", objects), []).append(row)
    # Where no template has both stereotypes, all prompts about the same objects are compared.
    return _opposites(by_template.values()) or _opposites(by_objects.values())


def _opposites(groups: Iterable[Sequence[Row]]) -> list[tuple[str, str]]:
    """The ids of each two rows of a group with different biased objects."""
    opposites: list[tuple[str, str]] = []
    for group in groups:
        first = group[0]["object_biased"]
        ones = [str(row["id"]) for row in group if row["object_biased"] == first]
        others = [str(row["id"]) for row in group if row["object_biased"] != first]
        opposites += product(ones, others)
    return opposites


def read_word_pairs(settings: AutoDebiasSettings) -> list[tuple[str, str]]:
    """The pairs of words of a domain, each once.

    Raises
    ------
    MitigationError
        If the file has no pairs for the domain.
    SourceUnavailable
        If the published words cannot be fetched.
    """
    if settings.words != PUBLISHED:
        groups = attribute_words.attribute_words(settings.words, settings.domain).groups
    elif settings.domain in SIDES:
        first, second = SIDES[settings.domain]
        groups = tuple(zip(read_lines(PUBLISHED, first), read_lines(PUBLISHED, second), strict=True))
    else:
        raise MitigationError(
            f"{PUBLISHED} has no words for {settings.domain!r}; give gender or race, or a JSON file with --words."
        )
    # The divergence is of two distributions, so triples of words cannot be aligned.
    if any(len(group) != 2 for group in groups):
        raise MitigationError(f"The words for {settings.domain!r} are no pairs; give a domain with pairs of words.")
    # The published lists have some pairs twice.
    return list(dict.fromkeys((one, other) for one, other in groups))


def read_lines(file: str, published: str) -> list[str]:
    """The lines with text of a file, or of a pinned source if the name of the published one is given.

    Raises
    ------
    MitigationError
        If the file cannot be read or is empty, or nothing of that name was published.
    SourceUnavailable
        If the published file cannot be fetched.
    """
    path = chosen_file(file, published)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise MitigationError(f"{path} cannot be read ({error.strerror}); give {PUBLISHED} or a text file.") from None
    except UnicodeDecodeError:
        raise MitigationError(f"{path} is not UTF-8; give {PUBLISHED} or a text file.") from None
    if texts := [line.strip() for line in lines if line.strip()]:
        return texts
    raise MitigationError(f"{path} is empty; give a text file with one word or prompt per line.")


def chosen_file(file: str, published: str) -> Path:
    """A file of the user's, or that of a pinned source if ``file`` is the name of the published ones."""
    if file != PUBLISHED:
        return Path(file)
    # Words were published for gender and race alone.
    if published not in catalogue().sources:
        raise MitigationError(f"Guo et al. published no {published.removeprefix(f'{PUBLISHED}/')}; give a file.")
    return attribute_words.fetched_source(published).path


def split_pairs(
    pairs: list[tuple[str, str]], share: float, draw: random.Random
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs to train and a share to hold out; a pair that shares a word with a held-out one is held out with it."""
    # A word may be in several pairs. A pair is held out with all that share a word with it, however indirectly.
    words: set[str] = set()
    for pair in draw.sample(pairs, round(share * len(pairs))):
        words |= set(pair)
    grew = True
    while grew:
        size = len(words)
        for pair in pairs:
            if not words.isdisjoint(pair):
                words |= set(pair)
        grew = len(words) > size
    held = [pair for pair in pairs if not words.isdisjoint(pair)]
    trained = [pair for pair in pairs if words.isdisjoint(pair)]
    if not trained or (share and not held):
        raise MitigationError(
            f"A share of {share} of {len(pairs)} pairs of words cannot be held out; give more pairs, or --held-out 0."
        )
    return trained, held


RECIPE = declared("auto_debias", AutoDebiasSettings, make)
