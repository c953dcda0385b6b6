"""What all recipes with biased pairs do: choose the pairs, train an adapter on them, and measure what changed."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console

from cards.text import split_list
from mitigation.editing import measure, pairs
from mitigation.editing.edit import edit, mean_terms
from mitigation.editing.pairs import EditPair
from mitigation.editing.settings import OPENINGS, PairSettings
from mitigation.editing.stamped import StampedNetwork
from mitigation.errors import MitigationError
from mitigation.plots import plot_changes, write_losses
from mitigation.recipe import Job
from mitigation.training.train import LossCurve, checkpoint_path
from scoring.adapters.facts import Change
from scoring.inference.generation import Decoding
from scoring.inference.model import Model
from scoring.terminal import tell
from scoring.types import Request, Row


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
        rows = pairs.pair_rows(job.data, split_list(settings.sets), settings.split, settings.domain)
        rows, _ = pairs.split_wordings(rows)
        possible, self.left_out = pairs.each_possible(rows, self._pair)
        if not possible:
            raise MitigationError(f"None of the {len(rows)} pairs can be edited: {next(iter(self.left_out.values()))}")
        tell_left_out(self.left_out, len(rows), "edited", job.console)
        self._made = {str(row["id"]): edited_pair for row, edited_pair in possible}
        self.edited, self.held = split_subjects([row for row, _ in possible], settings)
        self._prefixes = generate_prefixes(job.model, settings)
        self._after_prefix = cache(self._make_after_prefix)

    def _pair(self, row: Row, prefix: str = "") -> EditPair:
        tokens, family = self.model.tokens, self.model.family
        return pairs.edit_pair(tokens, row, prefix, profile=self.settings.score, family=family)

    def _make_after_prefix(self, number: int, prefix: str) -> EditPair | None:
        possible, _ = pairs.each_possible([self.edited[number]], lambda row: self._pair(row, prefix))
        return possible[0][1] if possible else None

    def _versions(self, number: int, passed: int) -> list[EditPair]:
        """A pair alone, and after all prefixes; in the first half of several passes, after another prefix in each.

        The mean per token of a whole sentence depends on how well its first tokens are predicted, so gaps after
        prefixes differ from those of the benchmark. The later passes train what the benchmark compares.
        """
        # With several passes a pair is seen often: one other prefix a pass, and none in the second half.
        some, passes = self._prefixes, self.settings.passes
        if passes > 1:
            some = some[(number + passed) % max(1, len(some)) :][:1] if 2 * passed < passes else []
        after = [self._after_prefix(number, prefix) for prefix in some]
        return [self._made[self.edited[number]["id"]], *(pair for pair in after if pair)]

    def train(self, network: StampedNetwork, what: str, title: str) -> tuple[tuple[Change, ...], dict[str, float]]:
        """Trains the adapter of a network on the pairs; writes losses, scores of pairs and pictures.

        Parameters
        ----------
        what, title:
            What the recipe trains (in a warning), and what stands in the titles of the pictures.

        Returns
        -------
        tuple
            The scores of held-out and edited pairs before and after with paired differences, and the measures.
        """
        settings, job, out = self.settings, self.job, self.job.out
        sides = {measure.HELD_OUT: self.held, measure.EDITED: self.edited}
        made = {side: [(row, self._made[row["id"]]) for row in some] for side, some in sides.items()}
        measured = measure.measured_pairs(self._pair, made, pairs.other_wordings(job.data, settings.domain))
        # To find out at the end whether anything was learnt at all.
        start = {name: weight.detach().clone() for name, weight in network.trained.items()}
        trained_pairs = [self._made[row["id"]] for row in self.edited]
        before, scored_before = mean_terms(network, trained_pairs, settings), measured.scores(network)
        begun, path = job.meter.seconds, checkpoint_path(job, "editing")
        held_pairs = [self._made[row["id"]] for row in self.held]
        curve = edit(network, self._versions, len(self.edited), held_pairs, settings, path, job.console)
        took = job.meter.seconds - begun
        after, scored_after = mean_terms(network, trained_pairs, settings), measured.scores(network)
        if all(bool((start[name] == weight).all()) for name, weight in network.trained.items()):
            sentence = f"No batch improved its loss, so the {what} changes nothing; lower --rate {settings.rate}."
            tell(job.console, [sentence])
        write_losses(curve, out, f"{job.recipe} on {title}", step="batch")
        changes = measure.pair_changes(scored_before, scored_after, settings.score)
        measure.write_pairs(out / "pairs.json", measured, scored_before[0], scored_after[0], self.left_out)
        plot_changes(changes, out / "pairs.png", f"{job.recipe} on {title}")
        return changes, gap_measures(before, after, curve) | {
            "pairs_edited": len(self.edited),
            "pairs_held_out": len(self.held),
            "pairs_left_out": len(self.left_out),
            "seconds_editing": took,
            "seconds_editing_per_pair": took / len(self.edited),
        }


def tell_left_out(left_out: Mapping[str, str], count: int, what: str, console: Console) -> None:
    """Says how many of ``count`` pairs are left out, with the names of the first."""
    if left_out:
        names = ", ".join([*left_out][:5]) + ", …" * (len(left_out) > 5)
        reason = next(iter(left_out.values()))
        tell(
            console, [f"{len(left_out)} of {count} pairs cannot be {what} and are left out ({names}); first: {reason}"]
        )


def split_subjects(rows: Sequence[Row], settings: PairSettings) -> tuple[list[Row], list[Row]]:
    """Rows to edit, and rows of the held-out subjects; all rows of a subject are on the same side.

    Raises
    ------
    MitigationError
        If there are too few subjects for the share to hold out.
    """
    names = sorted({pairs.subject_of(row).lower() for row in rows})
    count = round(settings.held_out * len(names))
    if settings.held_out and not 0 < count < len(names):
        raise MitigationError(
            f"A share of {settings.held_out} of {len(names)} subjects cannot be held out; give more pairs, or 0."
        )
    # Subjects are drawn, not rows, so that no wording of a held-out subject is trained.
    order = np.random.default_rng(settings.seed).permutation(len(names))
    held_out = {names[n] for n in order[:count]}
    sides: tuple[list[Row], list[Row]] = [], []
    for row in rows:
        sides[pairs.subject_of(row).lower() in held_out].append(row)
    return sides


def generate_prefixes(model: Model, settings: PairSettings) -> list[str]:
    """Texts to put before prompts: sampled from a causal model, fixed openings for a masked one."""
    if model.kind == "masked":
        return [OPENINGS[n % len(OPENINGS)] for n in range(settings.prefixes)]
    requests = [Request(f"prefix/{n}", max_new=settings.prefix_tokens) for n in range(settings.prefixes)]
    responses = model.answer(requests, decoding=Decoding(temperature=1.0, seed=settings.seed))
    return [" ".join(response.text.split()) for response in responses]


def gap_measures(before: Mapping[str, float], after: Mapping[str, float], curve: LossCurve) -> dict[str, float]:
    """L_e over the edited and over the held-out pairs, before and after, without intervals."""
    gaps = {"gap_edited_before": before["l_e"], "gap_edited_after": after["l_e"]}
    if curve.held:
        gaps |= {"gap_held_out_before": curve.held[0]["l_e"], "gap_held_out_after": curve.held[-1]["l_e"]}
    return gaps
