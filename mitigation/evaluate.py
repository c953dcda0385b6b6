"""Before and after: a model's scores with and without what a recipe made, example by example.

Besides the benchmarks, text is scored: a model that has lost its language can have perfect scores of
bias. Texts are the neutral statements of the validation split, which recipes do not learn from, unless
a person gives others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from mitigation.adapters.adapter import Change, MitigationError, Numbers
from mitigation.training.data import Data
from scoring import answering, compare, report, run
from scoring.benchmarks import neutral
from scoring.inference.chat import Chat
from scoring.inference.store import Store
from scoring.metrics.sums import ratio, side_by_side
from scoring.prompts import Prompt
from scoring.report.terminal import GROUPS, METRICS
from scoring.statistics import stats
from scoring.tables import DataMissing
from scoring.types import Estimate, Floats, Group, Metric, Option, Request, Table

if TYPE_CHECKING:
    from scoring.inference.model import Model

#: What the scores of texts are called, in the place of a benchmark.
TEXT = "text"
#: A benchmark, a group and a metric.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Exam:
    """What a model is asked before and after: parts of benchmarks, texts, and how."""

    parts: tuple[run.Part, ...]
    texts: tuple[str, ...]
    profile: str = "clean"
    resamples: int = stats.RESAMPLES
    chat: bool = False

    def take(self, model: Model, prompt: Prompt, folder: Path, console: Console) -> Table:
        """Requests a model, writes a run of scoring into a folder, and returns the scores of the texts.

        What the folder has of an earlier, interrupted run is not asked again.
        """
        chat = Chat(model.tokens.tokenizer, model.name, prompt.system) if self.chat else None
        with Store(folder / "responses", answering.key(model, prompt, chat=chat)) as store:
            found = run.run(
                model,
                self.parts,
                store,
                profile=self.profile,
                prompt=prompt,
                chat=chat,
                resamples=self.resamples,
                console=console,
            )
            texts = perplexed(model, self.texts, store, console)
        report.write(folder, found.report, found.tables, {p.benchmark.name: p.benchmark.validity for p in self.parts})
        return texts


def perplexed(model: Model, texts: Sequence[str], store: Store, console: Console | None = None) -> Table:
    """The negative log-likelihood of each text, and its number of tokens."""
    requests = [Request(f"{TEXT}/{number}", options=(Option(text),)) for number, text in enumerate(texts)]
    responses = answering.answer(model, requests, store, {}, console)
    scores = [responses[request.id].logprobs[0] for request in requests]
    return {
        "id": np.array([request.id for request in requests], dtype=object),
        "nats": np.array([-math.fsum(each) for each in scores]),
        "tokens": np.array([len(each) for each in scores], dtype=np.float64),
    }


def perplexity(kind: str) -> Metric:
    """The exponential of the mean negative log-likelihood per token; a masked model hides one token at a time.

    >>> table = {"nats": np.log([2.0, 8.0]), "tokens": np.array([1.0, 1.0])}
    >>> perplexity("causal").value(table, np.ones((1, 2))).round(6)
    array([4.])
    """

    def columns(table: Table) -> Floats:
        return side_by_side(table["nats"], table["tokens"])

    def final(sums: Floats) -> Floats:
        values: Floats = np.exp(ratio(sums))
        return values

    name = "perplexity" if kind == "causal" else "pseudo_perplexity"
    reading = "Perplexity per token of texts that were not learnt from; what it gains, the model has lost in language."
    return Metric(name, columns, final, None, 1, math.inf, reading)


def changes(before: Path, after: Path, texts: tuple[Table, Table], kind: str, resamples: int) -> tuple[Change, ...]:
    """Every metric of two runs over the same examples, with paired intervals, and the perplexity of the texts.

    An agreement of two runs, such as the share of facts that are predicted as before, has a value after alone.
    """
    compared = compare.between(after, before, resamples)
    report.write_comparison(after, compared)
    old, new = ({(e.benchmark, e.group, e.metric): e for e in each.estimates} for each in (compared.base, compared.run))
    nothing = (math.nan,) * 3
    found = [
        _change(d, old[d.benchmark, d.group, d.metric], new[d.benchmark, d.group, d.metric])
        for d in compared.differences
    ]
    found += [Change(a.benchmark, a.group, a.metric, nothing, _numbers(a), nothing, a.n) for a in compared.agreements]
    return (*found, *_texts(*texts, kind, resamples))


def _texts(before: Table, after: Table, kind: str, resamples: int) -> list[Change]:
    if not len(before["id"]):
        return []
    old, new = (_perplexities(each, kind, resamples)[0] for each in (before, after))
    about = _about(before, kind)
    return [
        _change(stats.compare(about, after, before, before["id"], benchmark=TEXT, resamples=resamples)[0], old, new)
    ]


def _about(texts: Table, kind: str) -> list[tuple[Group, Metric]]:
    return [(Group("held-out texts", np.ones(len(texts["id"]), bool)), perplexity(kind))]


def _perplexities(texts: Table, kind: str, resamples: int) -> list[Estimate]:
    return stats.measure(_about(texts, kind), texts, texts["id"], benchmark=TEXT, resamples=resamples)


def values(run: Path, texts: Table, kind: str, resamples: int) -> dict[Key, Numbers]:
    """Every metric of one run, and the perplexity of the texts, by benchmark, group and metric."""
    found = list(report.read(run).estimates)
    if len(texts["id"]):
        found += _perplexities(texts, kind, resamples)
    return {(each.benchmark, each.group, each.metric): _numbers(each) for each in found}


def _change(difference: Any, before: Estimate, after: Estimate) -> Change:
    about = difference.benchmark, difference.group, difference.metric
    return Change(*about, _numbers(before), _numbers(after), _numbers(difference), difference.n)


def _numbers(each: Any) -> Numbers:
    return each.value, each.low, each.high


def texts(data: Data, file: Path | None) -> tuple[str, ...]:
    """The lines of a file; without one, the neutral statements of the validation split that are there.

    Raises
    ------
    MitigationError
        When the file cannot be read or has no line.
    """
    if file is None:
        found = []
        for config in neutral.CORPORA:
            try:
                found += [row["statement"] for row in data.load(neutral.DATASET, config, "validation").rows]
            except DataMissing:
                continue
        return tuple(found)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MitigationError(f"{file} cannot be read as text ({error}); give a UTF-8 file, a text a line.") from None
    if not any(line.strip() for line in lines):
        raise MitigationError(f"{file} has no text; give a UTF-8 file, a text a line.")
    return tuple(line for line in lines if line.strip())


def first(changes: Sequence[Change]) -> Iterator[Change]:
    """The first groups and metrics of each benchmark."""
    for each in changes:
        own = [c for c in changes if c.benchmark == each.benchmark]
        groups, metrics = (list(dict.fromkeys(names)) for names in ([c.group for c in own], [c.metric for c in own]))
        if each.group in groups[:GROUPS] and each.metric in metrics[:METRICS]:
            yield each


def table(changes: Sequence[Change], control: Mapping[Key, Numbers] | None = None) -> Grid:
    """The first groups and metrics of each benchmark before and after; the reports have all of them.

    With the values of a ``control``, a column of their own stands before those.
    """
    beside = ("full precision",) if control else ()
    grid = Grid(
        "benchmark", "group", "metric", *beside, "before", "after", "difference", "95 % interval", "n", box=None
    )
    for each in first(changes):
        about = each.benchmark, each.group, each.metric
        low, high = map(_shown, each.difference[1:])
        whole = ((control or {}).get(about, (math.nan,)),) if beside else ()
        numbers = [_shown(side[0]) for side in (*whole, each.before, each.after, each.difference)]
        grid.add_row(*map(Text, (*about, *numbers, f"{low} to {high}" if low else "", str(each.n))))
    return grid


def _shown(value: float) -> str:
    """Four digits that tell.

    >>> _shown(0.12344), _shown(123.456), _shown(math.nan)
    ('0.1234', '123.5', '')
    """
    return "" if math.isnan(value) else f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}"
