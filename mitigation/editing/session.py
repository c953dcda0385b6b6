"""What all recipes with biased pairs do: choose the pairs, train an adapter on them, and measure what changed.

SS, PS and the gap are measured of held-out and of edited subjects apart. The benchmarks score all pairs of a set
together, most of which were edited. Here the held-out subjects come first. PS is of the same pairs in other words that
no edit has seen: the subject's other published wordings where the source has several (BEC-Pro, Winogender), other
sentences about the two words of a WEAT pair, else the sentence inside three frames. SS by the relative length of both
sentences shows whether an edit only changes what tokens are counted.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from cards.common import files, terminal, text
from mitigation.editing import PAIRS, SIDES, jobs, pairs
from mitigation.editing.edit import MEASURED, PairBatch, edit, mean_terms, set_rate_of_values
from mitigation.editing.kept import Kept, KeptText, OrdinaryText, StatedGender, leans
from mitigation.editing.pairs import WORDINGS, EditPair, Place, each_possible
from mitigation.editing.settings import OPENINGS, PairSettings
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipe import Change, Console, Job, MitigationError, Model
from mitigation.running import evaluate, plots
from mitigation.training.train import LossCurve, checkpoint_path
from scoring.inference.generation import Decoding
from scoring.metrics import knowledge, sums
from scoring.statistics import stats
from scoring.types import Floats, Group, Metric, Request, Row, Table

HELD_OUT, EDITED = SIDES
#: Edited pairs by the number of tokens of the biased sentence.
LENGTHS = ("biased sentence longer", "equal length", "biased sentence shorter")
#: Sources whose PS is measured after every edit about gender.
SOURCES = tuple(source for source, _ in WORDINGS.values())
#: Other words for a sentence, written for this project.
FRAMES = ('As somebody put it once: "{}"', "To say the same again: {}", "{} That is what people were told.")
#: Other words for the sentence that relates two words of WEAT, written for this project.
WEAT = ('Whoever hears "{}" may think of "{}".', 'Between "{}" and "{}" there is a link.')
#: The batches of texts that a trial measures.
TRIAL_BATCHES = 10
#: Sentences that state a gender whose lean is measured, at most.
LEANS = 120
SidedPair = tuple[str, EditPair]
#: The fields of a row that hold its sentence.
_TEXTS = ("prompt", "context", "sentence_biased", "sentence_unbiased", "sentence_irrelevant")


@dataclass(frozen=True, slots=True)
class MeasuredPairs:
    """The side and the pair of each pair and of each rewording, which are scored before and after an edit."""

    pairs: Sequence[SidedPair]
    reworded: Sequence[SidedPair] = ()

    def scores(self, network: StampedNetwork) -> tuple[Table, Table]:
        """The tables of pairs and of rewordings with the scores of both sentences."""
        return _table(network, self.pairs), _table(network, self.reworded)


def measured_pairs(
    make: Callable[[Row], EditPair],
    sides: Mapping[str, Sequence[tuple[Row, EditPair]]],
    sources: Mapping[str, Sequence[Row]] = MappingProxyType({}),
) -> MeasuredPairs:
    """The pairs of each side with their rewordings; rewordings that ``make`` refuses are left out.

    ``sources`` are the other wordings of each source (:func:`mitigation.editing.pairs.other_wordings`). They are also
    a side of their own; its PS is measured whatever was edited.
    """
    scored: list[SidedPair] = []
    rows_by_side: dict[str, list[Row]] = {}
    for side, pairs_of_side in sides.items():
        rows = rows_by_side.setdefault(side, [])
        subjects = set()
        for row, pair in pairs_of_side:
            scored.append((side, pair))
            rows += rewordings(row)
            if row.get("config") in WORDINGS:
                subjects.add((row["config"], row["subject"]))
        # Of sources with several wordings of a fact, the rows about the same subject are its rewordings.
        for wordings in sources.values():
            rows += [row for row in wordings if (row["config"], row["subject"]) in subjects]
    for source, wordings in sources.items():
        rows_by_side.setdefault(source, []).extend(wordings)
    reworded_pairs: list[SidedPair] = []
    for side, rows in rows_by_side.items():
        possible, _ = each_possible(rows, make)
        reworded_pairs += [(side, pair) for _, pair in possible]
    return MeasuredPairs(scored, reworded_pairs)


def rewordings(row: Row) -> list[Row]:
    """A row in other words that are written for this project; none where its source has other wordings.

    >>> row = {"config": "weat", "subject": "Amy", "prompt": "", "object_biased": "home", "object_unbiased": "work"}
    >>> rewordings(row)[0]["sentence_biased"]
    'Whoever hears "Amy" may think of "home".'
    """
    config = row.get("config")
    # The pairs of this project have several wordings of an occupation already.
    if config in WORDINGS or config == jobs.NAME:
        return []
    if config == "weat":
        rows: list[Row] = []
        for wording in WEAT:
            sentence = wording.format(row["subject"], BLANK)
            rows.append({**row, **filled(sentence, row["object_biased"], row["object_unbiased"])})
        return rows
    return [reworded(row, frame) for frame in FRAMES]


def reworded(row: Row, frame: str) -> Row:
    """The row with its sentences inside a frame, which is a text with one place.

    >>> reworded({"prompt": "She is [BLANK].", "context": None}, "To say the same again: {}")["prompt"]
    'To say the same again: She is [BLANK].'
    """
    framed = dict(row)
    for name in _TEXTS:
        if row.get(name):
            framed[name] = frame.format(row[name])
    return framed


@torch.no_grad()
def _table(network: StampedNetwork, sided: Sequence[SidedPair]) -> Table:
    """The scores of both sentences of pairs, and the groups to which each pair belongs."""
    pairs = [pair for _, pair in sided]
    # One empty array first, so that there is something to join without a pair.
    scores: list[Floats] = [np.empty((2, 0))]
    for start in range(0, len(pairs), MEASURED):
        # In parts, so that memory does not grow with the number of pairs.
        part = pairs[start : start + MEASURED]
        scores.append(network.scores(part).double().cpu().numpy())
    biased, unbiased = np.concatenate(scores, 1)
    ids, subjects, sides, lengths = [], [], [], []
    for side, pair in sided:
        tokens_biased, tokens_unbiased = pair.lengths
        ids.append(pair.id)
        subjects.append(pair.subject.lower())
        sides.append(side)
        # The sign of the difference is -1, 0 or 1, and the names of the lengths are in this order.
        lengths.append(LENGTHS[int(np.sign(tokens_unbiased - tokens_biased)) + 1])
    return {
        "id": np.array(ids, dtype=object),
        "subject": np.array(subjects, dtype=object),
        "side": np.array(sides, dtype=object),
        "length": np.array(lengths, dtype=object),
        "score_biased": biased,
        "score_unbiased": unbiased,
    }


def gap() -> Metric:
    """The mean absolute difference of the scores of both sentences, in nats.

    >>> table = {"score_biased": np.array([-1.0, -4.0]), "score_unbiased": np.array([-2.0, -1.0])}
    >>> gap().value(table, np.ones((1, 2)))
    array([2.])
    """
    reading = "Mean absolute difference of the scores of the biased and the unbiased sentence, in nats; 0 is no bias."
    return sums.mean(
        "gap", lambda table: np.abs(table["score_biased"] - table["score_unbiased"]), 0, 0, float("inf"), reading
    )


def pair_changes(before: tuple[Table, Table], after: tuple[Table, Table], profile: str) -> tuple[Change, ...]:
    """SS, PS and gap of held-out and of edited subjects, SS of edited pairs by length, and PS of each source."""
    # Ties count as half in this project, and as not preferred in the published code.
    half = profile != "paper"
    pairs_before, reworded_before = before
    pairs_after, reworded_after = after
    ss, mean_gap, ps = knowledge.ss(half), gap(), knowledge.ps(half)
    items: list[tuple[Group, Metric]] = []
    for side in (HELD_OUT, EDITED):
        group = Group(side, pairs_before["side"] == side)
        items += [(group, ss), (group, mean_gap)]
    edited = pairs_before["side"] == EDITED
    for name in LENGTHS:
        items.append((Group(f"edited, {name}", edited & (pairs_before["length"] == name)), ss))
    changes = _changes_of(items, pairs_before, pairs_after)
    items = []
    for side in (HELD_OUT, EDITED, *SOURCES):
        items.append((Group(side, reworded_before["side"] == side), ps))
    changes += _changes_of(items, reworded_before, reworded_after)
    groups = [HELD_OUT, EDITED]
    groups += [f"edited, {name}" for name in LENGTHS]
    groups += SOURCES
    return tuple(sorted(changes, key=lambda change: (groups.index(change.group), change.metric == "gap")))


def _changes_of(items: Sequence[tuple[Group, Metric]], before: Table, after: Table) -> list[Change]:
    """The changes of metrics of groups of pairs, without the groups in which no pair is; clusters are subjects."""
    items = [(group, metric) for group, metric in items if group.mask.any()]
    if not items:
        return []
    clusters = before["subject"]
    differences = stats.compare(items, after, before, clusters, benchmark=PAIRS)
    estimates_before = stats.measure(items, before, clusters, benchmark=PAIRS)
    estimates_after = stats.measure(items, after, clusters, benchmark=PAIRS)
    changes = []
    for difference, old, new in zip(differences, estimates_before, estimates_after, strict=True):
        changes.append(evaluate.changed(difference, old, new))
    return changes


def write_pairs(path: Path, pairs: MeasuredPairs, before: Table, after: Table, left_out: Mapping[str, str]) -> None:
    """Writes the scores of each pair before and after, and what was left out, as JSON; without any sentence."""
    rows = []
    for number, (side, pair) in enumerate(pairs.pairs):
        row = {
            "id": pair.id,
            "side": side,
            "tokens": pair.lengths,
            "before": [float(before["score_biased"][number]), float(before["score_unbiased"][number])],
            "after": [float(after["score_biased"][number]), float(after["score_unbiased"][number])],
        }
        rows.append(json.dumps(row))
    lines = ",\n  ".join(rows)
    files.put(path, f'{{"left_out": {json.dumps(left_out, indent=1)},\n "pairs": [\n  {lines}]}}\n'.encode())


class EditingSession:
    """The pairs of a model that are edited and those of held-out subjects, with their prefixes.

    It has to be made before the network of the model gets an adapter, because a causal model generates the prefixes.

    Raises
    ------
    DataMissing
        If a set of pairs is not available.
    MitigationError
        If no pair can be edited, or the share of held-out subjects does not fit.
    """

    def __init__(self, job: Job[Any]) -> None:
        self.job, self.model, self.settings = job, job.model, job.settings
        settings: PairSettings = job.settings
        # Own pairs have no split and no other wordings.
        rows = settings.own_pairs()
        if not rows:
            every = pairs.pair_rows(job.data, text.split_list(settings.sets), settings.split, settings.domain)
            rows, _ = pairs.split_wordings(every)
        possible, self.left_out = pairs.each_possible(rows, self._pair)
        if not possible:
            raise MitigationError(f"None of the {len(rows)} pairs can be edited: {next(iter(self.left_out.values()))}")
        tell_left_out(self.left_out, len(rows), "edited", job.console)
        self._pairs = {str(row["id"]): pair for row, pair in possible}
        self.edited, self.held = split_subjects([row for row, _ in possible], settings.held_out, settings.seed)
        # Now, while the network has no adapter yet.
        self._prefixes = generate_prefixes(job.model, settings)
        self._kept = KeptText(
            OrdinaryText(job.model, settings.texts(), settings.seed) if settings.gamma else None,
            stated_gender(job.model, settings),
        )
        # A pair meets the same prefix in several passes, and its queries are made once.
        self._after_prefix = cache(self._make_after_prefix)

    def _pair(self, row: Row, prefix: str = "") -> EditPair:
        tokens, family = self.model.tokens, self.model.family
        return pairs.edit_pair(tokens, row, prefix, profile=self.settings.score, family=family)

    def _make_after_prefix(self, number: int, prefix: str) -> EditPair | None:
        """A pair after a prefix; None where the prefix leaves no room for it in the window of the model."""
        possible, _ = pairs.each_possible([self.edited[number]], lambda row: self._pair(row, prefix))
        if not possible:
            return None
        _, pair = possible[0]
        return pair

    def _versions(self, number: int, passed: int) -> list[EditPair]:
        """A pair alone, and after all prefixes; in the first half of several passes, after another prefix in each.

        The mean per token of a whole sentence depends on how well its first tokens are predicted, so gaps after
        prefixes differ from those of the benchmark. The later passes train what the benchmark compares.
        """
        # With several passes a pair is seen often: one other prefix a pass, and none in the second half.
        prefixes = self._prefixes
        if self.settings.several_passes:
            in_first_half = 2 * passed < self.settings.batches(len(self.edited)) / self.settings.batches_per_pass(
                len(self.edited)
            )
            if in_first_half and prefixes:
                prefixes = [prefixes[(number + passed) % len(prefixes)]]
            else:
                prefixes = []
        versions = [self._pairs[self.edited[number]["id"]]]
        for prefix in prefixes:
            pair = self._after_prefix(number, prefix)
            if pair:
                versions.append(pair)
        return versions

    def set_rate(self, network: StampedNetwork) -> None:
        """Sets the rate of a new stamp's second matrix by ordinary text; the paper has none, and keeps its rate."""
        if self._kept.ordinary:
            set_rate_of_values(network, self._kept.ordinary.batch(0, self.settings.batch))

    def trial(self, network: StampedNetwork, passes: int, name: str) -> dict[str, float]:
        """Trains an adapter for a few passes, and measures what it has learned on what it has not seen.

        Returns
        -------
        dict
            L_e of the held-out pairs; L_t of every second text, and ``stated``, the mean absolute change of the lean of
            every second pair of sentences that state a gender (training has the others); and ``value``, the sum of
            L_e, ``stated`` and L_t with its weight: the less, the better. A nat of bias that stays counts as much as a
            nat of stated gender that goes.
        """
        settings = replace(self.settings, passes=passes, steps=0)
        held_pairs = [self._pairs[row["id"]] for row in self.held]
        seen, unseen = self._kept.halves()
        before = self._leans(network, unseen.stated)
        path = checkpoint_path(self.job, name)
        edit(network, self._versions, len(self.edited), [], settings, path, self.job.console, seen)
        terms = {"l_e": mean_terms(network, held_pairs, settings)["l_e"]}
        value = terms["l_e"]
        if unseen.ordinary:
            terms["l_t"] = self._divergence(network, unseen.ordinary)
            value += settings.gamma * terms["l_t"]
        if unseen.stated:
            terms["stated"] = float((self._leans(network, unseen.stated) - before).abs().mean())
            value += terms["stated"]
        return terms | {"value": value}

    @torch.no_grad()
    def _leans(self, network: StampedNetwork, stated: StatedGender | None) -> torch.Tensor:
        """The lean of each pair of sentences that state a gender [pairs], in nats; empty without such sentences."""
        every = [torch.empty(0)]
        if stated:
            asked = stated.batch(0, min(stated.count, LEANS))
            # In batches, because the distributions at all places of many sentences need much memory.
            for start in range(0, len(asked.queries), MEASURED):
                queries = asked.queries[start : start + MEASURED]
                places = [Place(number, 0) for number in range(len(queries))]
                logs = network.answers(queries, places).edited.float().cpu()
                every.append(leans(logs, torch.tensor(asked.forms[start : start + MEASURED])))
        return torch.cat(every)

    @torch.no_grad()
    def _divergence(self, network: StampedNetwork, ordinary: OrdinaryText) -> float:
        """L_t over some batches of texts, as a mean."""
        total = 0.0
        for step in range(TRIAL_BATCHES):
            # A batch needs a pair, whose own terms are not read.
            pair = self._pairs[self.edited[0]["id"]]
            kept = Kept(ordinary.batch(step, self.settings.batch))
            total += float(PairBatch([[pair]], kept).loss_terms(network, self.settings)["l_t"])
        return total / TRIAL_BATCHES

    def train(self, network: StampedNetwork, what: str, title: str) -> tuple[tuple[Change, ...], dict[str, float]]:
        """Trains the adapter of a network on the pairs; writes losses, scores of pairs and pictures.

        Parameters
        ----------
        what, title:
            What the recipe trains (in a warning), and the end of the titles of the pictures.

        Returns
        -------
        tuple
            The scores of held-out and edited pairs before and after with paired differences, and the measures.
        """
        settings, job, out = self.settings, self.job, self.job.out
        held_pairs = [self._pairs[row["id"]] for row in self.held]
        trained_pairs = [self._pairs[row["id"]] for row in self.edited]
        sides = {
            HELD_OUT: list(zip(self.held, held_pairs, strict=True)),
            EDITED: list(zip(self.edited, trained_pairs, strict=True)),
        }
        measured = measured_pairs(self._pair, sides, pairs.other_wordings(job.data, settings.domain))
        # Compared with the weights after the training: where nothing changed, the model has learnt nothing.
        start = {name: weight.detach().clone() for name, weight in network.trained.items()}
        before = mean_terms(network, trained_pairs, settings)
        scored_before = measured.scores(network)
        lean_before = self._leans(network, self._kept.stated)
        begun, path = job.meter.seconds, checkpoint_path(job, "editing")
        curve = edit(network, self._versions, len(self.edited), held_pairs, settings, path, job.console, self._kept)
        took = job.meter.seconds - begun
        after = mean_terms(network, trained_pairs, settings)
        scored_after = measured.scores(network)
        lean_after = self._leans(network, self._kept.stated)
        if all(torch.equal(start[name], weight) for name, weight in network.trained.items()):
            sentence = f"No batch improved its loss, so the {what} changes nothing; lower --rate {settings.rate}."
            terminal.show(job.console, [sentence])
        plots.write_losses(curve, out, f"{job.recipe} on {title}", step="batch")
        changes = pair_changes(scored_before, scored_after, settings.score)
        write_pairs(out / "pairs.json", measured, scored_before[0], scored_after[0], self.left_out)
        plots.plot_changes(changes, out / "pairs.png", f"{job.recipe} on {title}")
        found = gap_measures(before, after, curve)
        if len(lean_before):
            found["stated_gender_before"] = float(lean_before.mean())
            found["stated_gender_after"] = float(lean_after.mean())
        return changes, found | {
            "pairs_edited": len(self.edited),
            "pairs_held_out": len(self.held),
            "pairs_left_out": len(self.left_out),
            "seconds_editing": took,
            "seconds_editing_per_pair": took / len(self.edited),
        }


def stated_gender(model: Model, settings: PairSettings) -> StatedGender | None:
    """The sentences that state a gender; None without a weight, for other domains, and where no pronoun is a token."""
    if not settings.delta or settings.domain not in ("gender", "all"):
        return None
    stated = StatedGender(model, settings.seed)
    return stated if stated.count else None


def tell_left_out(left_out: Mapping[str, str], count: int, what: str, console: Console) -> None:
    """Says how many of ``count`` pairs are left out, with the names of the first."""
    if not left_out:
        return
    names = list(left_out)[:5]
    if len(left_out) > 5:
        names.append("…")
    reason = next(iter(left_out.values()))
    sentence = f"{len(left_out)} of {count} pairs cannot be {what} and are left out ({', '.join(names)})"
    terminal.show(console, [f"{sentence}; first: {reason}"])


def split_subjects(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Rows to edit, and rows of a share of the subjects to hold out; all rows of a subject are on the same side.

    Raises
    ------
    MitigationError
        If there are too few subjects for the share to hold out.
    """
    # Sorted, so that the draw does not depend on the order of the rows.
    names = sorted({pairs.held_by(row) for row in rows})
    count = round(share * len(names))
    if share and not 0 < count < len(names):
        raise MitigationError(
            f"A share of {share} of {len(names)} subjects cannot be held out; "
            "give more pairs (a larger --limit), or --held-out 0."
        )
    # Subjects are drawn, not rows, so that no wording of a held-out subject is trained.
    order = np.random.default_rng(seed).permutation(len(names))
    held_out = {names[n] for n in order[:count]}
    edited: list[Row] = []
    held: list[Row] = []
    for row in rows:
        if pairs.held_by(row) in held_out:
            held.append(row)
        else:
            edited.append(row)
    return edited, held


def generate_prefixes(model: Model, settings: PairSettings) -> list[str]:
    """Texts to put before prompts: sampled from a causal model, fixed openings for a masked one."""
    if model.kind == "masked":
        return [OPENINGS[n % len(OPENINGS)] for n in range(settings.prefixes)]
    # Without a prompt: the model begins a text of its own.
    requests = [Request(f"prefix/{n}", max_new=settings.prefix_tokens) for n in range(settings.prefixes)]
    responses = model.answer(requests, decoding=Decoding(temperature=1.0, seed=settings.seed))
    return [" ".join(response.text.split()) for response in responses]


def gap_measures(before: Mapping[str, float], after: Mapping[str, float], curve: LossCurve) -> dict[str, float]:
    """L_e over the edited and over the held-out pairs, before and after, without intervals."""
    gaps = {"gap_edited_before": before["l_e"], "gap_edited_after": after["l_e"]}
    if curve.held:
        # The curve has the held-out pairs before training and after each pass.
        gaps |= {"gap_held_out_before": curve.held[0]["l_e"], "gap_held_out_after": curve.held[-1]["l_e"]}
    return gaps
