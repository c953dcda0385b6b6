"""Whether other edits with the stamp move pairs that were not edited: ``python -m benchmarks.fast_generalise``.

The StereoSet pairs about gender are split by subject: a fifth is held out as by the recipe, and a fifth of the other
subjects is for validation. Every variant edits pairs of the remaining subjects (or of another source) in the same
block, with the same passes. A variant is chosen by the stereotype score of the validation subjects; what is reported of
it is that of the held-out subjects, beside the language score and the perplexity of Wikipedia.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console

from benchmarks.machine import describe
from cards.common.files import put
from mitigation.editing import session
from mitigation.editing import session as measure
from mitigation.editing.edit import edit
from mitigation.editing.pairs import EditPair, each_possible, edit_pair, pair_rows
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipes import fast
from mitigation.running.evaluate import perplexity, score_texts
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.asking import answering
from scoring.benchmarks import stereoset
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.model import Model
from scoring.inference.store import Store
from scoring.inputs import prompts
from scoring.inputs.tables import as_table
from scoring.metrics import knowledge
from scoring.statistics import stats
from scoring.types import BenchmarkContext, Group, Row, Table

RESULT = Path(__file__).with_name("fast_generalise.json")
VALIDATION = "validation subjects"
SIDES = (VALIDATION, measure.HELD_OUT, measure.EDITED)
#: Configs whose sentences are filled templates, or of occupations only.
TEMPLATES = ("bec_pro", "winogender", "winobias", "weat")


@dataclass(frozen=True, slots=True)
class Variant:
    """What a variant changes.

    ``settings`` are those of the recipe. ``sources`` are configs whose pairs are edited instead of StereoSet's.
    ``stopped`` keeps the weights of the pass after which the gap of the validation subjects was smallest. ``kept``
    adds the prompts of the validation subjects to L_s1, without their objects. ``always`` gives each pair a prefix
    in every pass.
    """

    name: str
    settings: dict[str, Any]
    sources: tuple[str, ...] = ()
    stopped: bool = False
    kept: bool = False
    always: bool = False


VARIANTS = (
    Variant("defaults", {}),
    Variant("no prefixes", {"prefixes": 0}),
    Variant("20 prefixes, one in every pass", {"prefixes": 20}, always=True),
    Variant("other subjects of the same group (WEAT)", {}, ("weat",)),
    Variant("templates (BEC-Pro)", {}, ("bec_pro",)),
    Variant("templates and occupations (all four sources)", {}, TEMPLATES),
    Variant("early stopping", {}, stopped=True),
    Variant("64 units", {"units": 64}),
    Variant("L_s1 on validation prompts", {}, kept=True),
)


class Experiment:
    """A model, its pairs by side, and its scores before any edit."""

    def __init__(
        self, name: str, data: TrainingData, texts: Sequence[str], passes: int, layer: int, resamples: int
    ) -> None:
        self.model: Model = load(BUNDLED.get(name, name), device="cpu")
        self.data, self.texts, self.resamples = data, texts, resamples
        self.settings = replace(fast.RECIPE.profiles["clean"], passes=passes, layer=layer)
        self.rows = pair_rows(data, ["stereoset"], "test", "gender")
        rest, held = session.split_subjects(self.rows, self.settings.held_out, self.settings.seed)
        edited, validation = session.split_subjects(rest, self.settings.held_out, self.settings.seed)
        self.sides = dict(zip(SIDES, (validation, held, edited), strict=True))
        self.context = BenchmarkContext(self.model.kind, family=self.model.family)
        with tempfile.TemporaryDirectory() as folder:
            self.config, _ = fast.choose_block(self.model, edited, self.settings, Path(folder), Console(quiet=True))
        made = [(side, self.pair(row)) for side, rows in self.sides.items() for row in rows]
        self.measured = measure.MeasuredPairs(made)
        self.unedited: Table = {}

    @cache  # noqa: B019 - one experiment a process
    def _pair(self, number: int, source: tuple[str, ...], prefix: str) -> EditPair | None:
        made, _ = each_possible(
            [self.chosen(source)[number]],
            lambda row: edit_pair(self.model.tokens, row, prefix, family=self.model.family),
        )
        return made[0][1] if made else None

    def pair(self, row: Row) -> EditPair:
        """The queries of a row without a prefix."""
        return edit_pair(self.model.tokens, row, family=self.model.family)

    @cache  # noqa: B019
    def chosen(self, sources: tuple[str, ...]) -> list[Row]:
        """The rows to edit: as many of other sources as of StereoSet, evenly drawn, none about a measured subject."""
        edited = self.sides[measure.EDITED]
        if not sources:
            return edited
        measured = {str(row["subject"]).lower() for side in SIDES[:2] for row in self.sides[side]}
        rows = [row for row in pair_rows(self.data, sources, "test", "gender") if row["subject"] not in measured]
        return [rows[number] for number in np.linspace(0, len(rows) - 1, min(len(edited), len(rows))).astype(int)]

    def language(self) -> tuple[Table, Table]:
        """The benchmark's table of all StereoSet pairs about gender, and that of the texts."""
        requests = [request for row in self.rows for request in stereoset.requests("clean", row, self.context)]
        answers = self.model.answer(requests)
        records = [
            stereoset.to_record("clean", row, {row["id"]: answer}, self.context)
            for row, answer in zip(self.rows, answers, strict=True)
        ]
        key = answering.key(self.model, prompts.get("plain"))
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder), key) as store:
            return as_table(records), score_texts(self.model, self.texts, store)

    def scores(self, network: StampedNetwork) -> dict[str, list[float]]:
        """SS and gap by side, the paired change of SS, LMS of all pairs and the perplexity, with intervals."""
        pairs, _ = self.measured.scores(network)
        self.unedited = self.unedited or pairs  # the first call is before any edit
        benchmark, texts = self.language()
        lms = next(metric for metric in stereoset.metrics("clean") if metric.name == "lms")
        everything = Group("all", np.ones(len(benchmark["id"]), bool))
        found = stats.measure([(everything, lms)], benchmark, benchmark["subject"], resamples=self.resamples)
        text = Group("texts", np.ones(len(texts["id"]), bool))
        found += stats.measure([(text, perplexity(self.model.kind))], texts, texts["id"], resamples=self.resamples)
        result = {each.metric: [each.value, each.low, each.high] for each in found}
        items = [(Group(side, pairs["side"] == side), knowledge.ss()) for side in SIDES]
        for change in stats.compare(items, pairs, self.unedited, pairs["subject"], resamples=self.resamples):
            result[f"change of ss, {change.group}"] = [change.value, change.low, change.high]
        items = [
            (Group(side, pairs["side"] == side), metric) for side in SIDES for metric in (knowledge.ss(), measure.gap())
        ]
        for each in stats.measure(items, pairs, pairs["subject"], resamples=self.resamples):
            result[f"{each.metric}, {each.group}"] = [each.value, each.low, each.high]
        return {name: [round(value, 3) for value in values] for name, values in result.items()}

    def run(self, variant: Variant) -> dict[str, Any]:
        """What a variant edits, its scores after the edit, and its seconds."""
        settings = replace(self.settings, **variant.settings)
        prefixes = session.generate_prefixes(self.model, settings)
        rows, validation = self.chosen(variant.sources), [self.pair(row) for row in self.sides[VALIDATION]]
        torch.manual_seed(settings.seed)
        stamped = fast.add_stamp(self.model.network, replace(self.config, units=settings.units), settings)
        try:
            network = StampedNetwork(stamped, self.config.layer, self.model.kind, self.model.tokens.pad)
            weights: dict[int, dict[str, torch.Tensor]] = {}

            def versions(number: int, passed: int) -> list[EditPair]:
                if passed not in weights:
                    weights[passed] = {name: weight.detach().clone() for name, weight in network.trained.items()}
                some = prefixes[(number + passed) % max(1, len(prefixes)) :][:1]
                if not variant.always and 2 * passed >= settings.passes:
                    some = []
                pairs = [self._pair(number, variant.sources, prefix) for prefix in ("", *some)]
                if variant.kept:
                    other = validation[(number + passed) % len(validation)]
                    # Two equal sides: L_e is 0 and has no gradient, L_s1 keeps the prompt.
                    pairs.append(replace(other, unbiased=other.biased))
                return [pair for pair in pairs if pair]

            start = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                curve = edit(
                    network,
                    versions,
                    len(rows),
                    validation,
                    settings,
                    Path(folder) / "editing.pt",
                    Console(quiet=True),
                )
            seconds = time.process_time() - start
            gaps = [each["l_e"] for each in curve.held]
            best = int(np.argmin(gaps)) if variant.stopped else settings.passes
            if best in weights:
                with torch.no_grad():
                    for name, weight in network.trained.items():
                        weight.copy_(weights[best][name])
            scores = self.scores(network)
        finally:
            self.model.network = stamped.unload().eval()
        return {"pairs": len(rows), "passes_kept": best, "seconds": round(seconds), "scores": scores}

    def before(self) -> dict[str, list[float]]:
        """The scores of the model as it is."""
        stamped = fast.add_stamp(self.model.network, self.config, self.settings)
        try:
            return self.scores(StampedNetwork(stamped, self.config.layer, self.model.kind, self.model.tokens.pad))
        finally:
            self.model.network = stamped.unload().eval()


def main(
    text: Annotated[Path, typer.Option(help="A file with one sentence per line, for the perplexity.")],
    model: Annotated[str, typer.Option(help="The model to edit.")] = "tiny-causal",
    data: Annotated[str, typer.Option(help="Built data sets.")] = DATA,
    passes: Annotated[int, typer.Option(min=2, help="Passes of every variant.")] = 10,
    layer: Annotated[int, typer.Option(min=-1, help="Number of the block, from 0; -1 finds it.")] = -1,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows per split.")] = None,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = stats.RESAMPLES,
    out: Annotated[Path, typer.Option(help="The result; that of other models in it is kept.")] = RESULT,
) -> None:
    """Edits a model with every variant, and writes the scores after each variant into the result."""
    console = Console(stderr=True)
    texts = text.read_text(encoding="utf-8").splitlines()
    experiment = Experiment(model, TrainingData(data, limit), texts, passes, layer, resamples)
    result: dict[str, Any] = {
        "machine": describe("torch", "transformers", "peft"),
        "passes": passes,
        "block": experiment.config.layer,
        "texts": len(texts),
        "pairs": {side: len(rows) for side, rows in experiment.sides.items()},
        "subjects": {side: len({row["subject"].lower() for row in rows}) for side, rows in experiment.sides.items()},
        "before": experiment.before(),
        "variants": {},
    }
    for variant in VARIANTS:
        console.log(variant.name)
        result["variants"][variant.name] = experiment.run(variant)
        models = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {}
        put(out, json.dumps(models | {model: result}, indent=1).encode() + b"\n")


if __name__ == "__main__":
    typer.run(main)
