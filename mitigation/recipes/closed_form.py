"""Closed form: a LoRA from one least-squares problem, after which occupations say less of a gender; no training.

Texts of an occupation should have no lean log p(he) - log p(she), texts that state a gender keep theirs, and ordinary
text keeps what enters and leaves the last maps of feed-forward parts (:mod:`mitigation.editing.least_squares`). The
problem is linear, so texts are read once, forwards and backwards, and there is no rate and no step. The ridge keeps the
edit small: asked to remove a lean, it leaves a third of it at edited pairs of SmolLM2 and Gemma 3 270M, and .51 and .67
of it at occupations that are not among them. So half more than the lean is asked for (``strength``), after which
nearly none is left at edited pairs. More would turn their stereotype around.

The result is a plain LoRA of PEFT, which servers load and which merges into the weights. By default the pairs are those
of this project about occupations; ``pairs`` names a file of your own.

Sources: that a linear change of such maps can remove stereotypes and keep stated gender is shown by DAMA (Limisiewicz
et al., 2024) and 2DAMA (2025), and that the covariance of other text keeps it by MEMIT (Meng et al., 2023). They find
what should leave a map by gradient steps for each text; here its first derivative is enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np

from cards.common import terminal
from mitigation.editing import jobs
from mitigation.editing.settings import AT_ONCE, OWN
from mitigation.recipe import Adapter, Job, Memory, MitigationError, TrainingData, declared, defaults, setting
from mitigation.texts import corpora, pairs_file
from mitigation.training.settings import CorpusSettings
from scoring.types import Floats, Row

#: The fewest pairs that a problem is made of, and the fewest held-out ones that measure it.
FEWEST, FEWEST_HELD = 20, 5
#: One of so many pairs of texts that state a gender is held out.
HELD_STATED = 10


@dataclass(frozen=True)
@defaults(OWN, lines=2000)
class ClosedFormSettings(CorpusSettings):
    """Which texts the problem has, and how much of the maps the edit may use."""

    corpus: str = setting(
        "",
        "Ordinary text: files, folders, globs or addresses, with commas; without it 100 sentences of this project, "
        "which name no person.",
        OWN,
    )
    pairs: str = setting(
        "", "A JSON file of pairs of your own in place of those of this project, as in fine_tuning.", OWN
    )
    kept: int = setting(600, "Sentences that state a gender; 0 for none.", OWN, least=0)
    strength: float = setting(
        1.5,
        "Fall of a lean that is asked for, as a multiple of it; a third of what is asked for does not happen.",
        OWN,
        above=0,
    )
    margin: float = setting(0.4, "Share by which a lean at a stated gender is to rise.", OWN, least=0)
    mass: float = setting(0.1, "Weight of the probability of both words of a pair, which is kept.", OWN, least=0)
    ridge: float = setting(0.1, "Weight of a small edit against wanted values that are met.", OWN, above=0)
    first: float = setting(0.3, "Where the edited blocks begin, as a share of all.", OWN, least=0, below=1)
    last: float = setting(0.95, "Where they end.", OWN, above=0, most=1)
    rank: int = setting(8, "Rank of the LoRA of each map.", OWN, above=0)
    held_out: float = setting(
        0.1, "Share of the subjects whose pairs measure the edit and are not edited.", OWN, above=0, below=1
    )
    seed: int = setting(42, "Of the held-out subjects.", OWN)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first >= self.last:
            raise MitigationError(f"The edited blocks begin at {self.first} and end at {self.last}; give --last above.")

    def inputs(self) -> dict[str, str]:
        """The pairs and the ordinary text."""
        of_pairs = corpora.fingerprints(self.pairs) if self.pairs else jobs.fingerprint()
        return of_pairs | corpora.fingerprints(self.corpus, corpora.WITHOUT_PEOPLE)

    def texts(self) -> list[str]:
        """The first lines with text of the corpus; without one, sentences of this project that name no person."""
        return list(islice(corpora.paragraphs(self.corpus, self.field, corpora.WITHOUT_PEOPLE), self.lines or None))

    @property
    def batch_size(self) -> int:
        """The texts that are computed at once."""
        return AT_ONCE

    @property
    def length(self) -> int:
        """About how many tokens a text has; those of this project have 21 on average with the tokenizer of SmolLM2."""
        return 21

    def rows(self) -> list[Row]:
        """The pairs."""
        return pairs_file.read_pairs(self.pairs) if self.pairs else jobs.rows()


def make(job: Job[ClosedFormSettings]) -> Adapter:
    """Solves the problem, writes the LoRA, and measures it at pairs about held-out subjects."""
    from mitigation.adapters.temporary import attached
    from mitigation.editing import kept, least_squares
    from mitigation.projections import subspaces

    model, settings = job.model, job.settings
    maps = edited_maps(model, settings)
    fitted, held = _pairs(model, settings)
    stated, held_stated = _stated(model, settings)
    terminal.show(job.console, [f"Reading {len(fitted)} pairs and {len(stated)} texts that state a gender …"])
    before, tokens = least_squares.derivatives(model, [*fitted, *stated], maps, len(fitted))
    texts = kept.OrdinaryText(model, settings.texts(), settings.seed)
    ordinary = least_squares.inputs_of_text(model, texts.rows, maps)
    leans = len(fitted) + len(stated)
    # After the leans come the probabilities of both words of a pair together, which are kept by their weight.
    weights = np.full(len(before), settings.mass)
    weights[:leans] = 1
    differences = np.zeros(len(before))
    differences[: len(fitted)] = -settings.strength * before[: len(fitted)]
    differences[len(fitted) : leans] = settings.margin * np.abs(before[len(fitted) : leans])
    terminal.show(job.console, [f"Solving for {len(before)} values in {len(maps)} maps …"])
    problem = least_squares.Edit(tokens, ordinary, weights, settings.ridge)
    coefficients = problem.coefficients(differences)
    matrices = {}
    for name in maps:
        matrices[name] = least_squares.of_rank(problem.change(name, coefficients), settings.rank)
    parameters = subspaces.write_lora(model, matrices, job.out)

    measures: dict[str, float] = {"edited pairs": len(fitted), "held-out pairs": len(held)}
    groups = {"edited pairs": fitted, "stated gender": held_stated, "held-out pairs": held}
    groups = {name: words for name, words in groups.items() if words}
    # An adapter changes the modules of the network itself, so all of them are measured before it is attached.
    before_edit = {name: _leans(model, words) for name, words in groups.items()}
    with attached(model, job.out) as edited:
        after_edit = {name: _leans(edited, words) for name, words in groups.items()}
    for name, old in before_edit.items():
        new = after_edit[name]
        measures |= {f"lean of {name} before": old.mean(), f"lean of {name} after": new.mean()}
        old_size, new_size = np.sqrt((old**2).mean()), np.sqrt((new**2).mean())
        line = f"Lean of {name}: {old.mean():.2f} to {new.mean():.2f} nats; in size {old_size:.2f} to {new_size:.2f}."
        terminal.show(job.console, [line])
    if new_size >= old_size:
        raise MitigationError(
            f"The leans of held-out pairs of {model.name} are {old_size:.3f} nats in size before and {new_size:.3f} "
            "after; give more pairs, or a lower --strength."
        )
    return job.done(parameters, {name: float(value) for name, value in measures.items()})


def edited_maps(model: Any, settings: ClosedFormSettings) -> list[str]:
    """The names of the maps that are edited: the last ones of feed-forward parts, at least one."""
    from scoring.adapters.feed_forward import feed_forwards

    parts = feed_forwards(model.network)
    first = min(round(settings.first * len(parts)), len(parts) - 1)
    last = max(round(settings.last * len(parts)), first + 1)
    return [part.last for part in parts[first:last]]


def _pairs(model: Any, settings: ClosedFormSettings) -> tuple[list[Any], list[Any]]:
    """The pairs that are edited and those about held-out subjects; pairs whose words are several tokens are left out.

    Raises
    ------
    MitigationError
        If too few are left.
    """
    from mitigation.editing import least_squares, pairs

    words, subjects = [], []
    possible, _ = pairs.each_possible(settings.rows(), lambda row: pairs.edit_pair(model.tokens, row))
    for row, pair in possible:
        word = least_squares.word_of(pair.biased, pair.unbiased)
        if word is not None:
            words.append(word)
            subjects.append(pairs.held_by(row))
    names = sorted(set(subjects))
    order = np.random.default_rng(settings.seed).permutation(len(names))
    held_names = {names[number] for number in order[: round(settings.held_out * len(names))]}
    fitted: list[Any] = []
    held: list[Any] = []
    for word, subject in zip(words, subjects, strict=True):
        side = held if subject in held_names else fitted
        side.append(word)
    if len(fitted) < FEWEST or len(held) < FEWEST_HELD:
        raise MitigationError(
            f"{len(fitted)} pairs with words of one token each are left, and {len(held)} about held-out subjects; at "
            f"least {FEWEST} and {FEWEST_HELD} are needed. Give more pairs, or another --held-out."
        )
    return fitted, held


def _stated(model: Any, settings: ClosedFormSettings) -> tuple[list[Any], list[Any]]:
    """Places in texts that state a gender, those that are kept and held-out ones."""
    from mitigation.editing import kept, least_squares

    sides: tuple[list[Any], list[Any]] = ([], [])
    if not settings.kept:
        return sides
    batch = kept.StatedGender(model, settings.seed).batch(0, settings.kept)
    for number, (query, (right, other)) in enumerate(zip(batch.queries, batch.forms, strict=True)):
        # Both texts of a pair, about a man and about a woman, are on one side.
        side = number // 2 % HELD_STATED == 0
        sides[side].append(least_squares.Word(query.ids, query.at[0], right, other))
    return sides


def _leans(model: Any, words: Sequence[Any]) -> Floats:
    from mitigation.editing import least_squares

    leans: Floats = least_squares.values(model, words)[:, 0]
    return leans


def memory(network: Any, settings: ClosedFormSettings) -> Memory:
    """What is in memory besides the network: tokens of texts and of ordinary text in each map, in float32."""
    from mitigation.editing import least_squares
    from scoring.adapters.feed_forward import INPUTS, OUTPUTS, features

    pairs = len(settings.rows())
    tokens = (2 * pairs + settings.kept) * least_squares.TOKENS
    numbers = trained = 0
    for name in edited_maps(SimpleNamespace(network=network), settings):
        module = network.get_submodule(name)
        inputs, outputs = features(module, INPUTS), features(module, OUTPUTS)
        numbers += tokens * (outputs + inputs) + least_squares.KEPT_TOKENS * inputs
        trained += settings.rank * (inputs + outputs)
    return Memory({"tokens of texts, in the memory of the processor": 4 * numbers}, trained)


def batches(settings: ClosedFormSettings, data: TrainingData) -> int:
    """About how many batches of texts are read."""
    del data
    return math.ceil((len(settings.rows()) + settings.kept) / AT_ONCE)


RECIPE = declared("closed_form", ClosedFormSettings, make, memory=memory, steps=batches)
