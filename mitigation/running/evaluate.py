"""Before and after: scores of a model without and with an adapter or prompt, on the same examples.

Perplexity is measured besides the benchmarks, because a model without any language ability can have perfect
bias scores. Its texts are the neutral statements of the validation split, which no recipe learns from, or
texts of the user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import scoring
from cards.common.files import locked
from cards.common.progress import stage
from mitigation.recipe import TEXT_FORMAT, WIKITEXT, Change, Console, MitigationError, Model, Numbers, TrainingData
from scoring import report
from scoring.asking import answering, run, workload
from scoring.inference.chat import Chat
from scoring.inference.store import Store
from scoring.inputs.prompts import Prompt
from scoring.inputs.tables import Loaded
from scoring.metrics.sums import ratio, side_by_side
from scoring.options import Profile, Settings
from scoring.report.headlines import HeadlineChange, headline_changes
from scoring.statistics import stats
from scoring.types import Estimate, Floats, Group, Metric, Option, Request, Table

if TYPE_CHECKING:
    import pandas as pd


#: The scores of texts have this name where others have that of a benchmark.
TEXT = "text"
#: The name for ``--text`` of a set of texts on the Hub, and its name and config there.
_WIKITEXT = ("Salesforce/wikitext", "wikitext-2-raw-v1")
#: Benchmark, group and metric.
Key = tuple[str, str, str]
_UNDEFINED: Numbers = (math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is scored before and after: benchmarks with their data, texts, and how.

    ``stated`` has the sentences of :func:`mitigation.running.outcome.loaded`, by which the recipe is judged; None for
    no verdict.
    """

    parts: tuple[run.Part, ...]
    texts: tuple[str, ...]
    profile: Profile = "clean"
    resamples: int = stats.RESAMPLES
    chat: bool = False
    stated: Loaded | None = None

    def score(
        self, model: Model, prompt: Prompt, folder: Path, console: Console, responses: Path | None = None
    ) -> Table:
        """Scores a model, writes a run of scoring into a folder, and returns the scores of the texts.

        Responses of an earlier run with the same model in the folder ``responses`` are reused, by default those of an
        interrupted run in ``folder``. Several runs may share it: one process waits there for another.
        """
        chat = Chat(model.tokens.tokenizer, model.name, prompt.system) if self.chat else None
        # Two processes may write into one store only one after the other.
        shared = locked(responses, MitigationError, wait=True) if responses else nullcontext()
        with shared, Store(responses or folder / "responses", answering.key(model, prompt, chat=chat)) as store:
            model.recognise(store)
            settings = Settings(profile=self.profile, resamples=self.resamples)
            result = run.score(model, self.parts, store, settings, prompt, chat, console)
            texts = score_texts(model, self.texts, store, console)
        validity = {part.benchmark.name: part.benchmark.validity for part in self.parts}
        with stage(console, "Writing the report …"):
            report.write(folder, result.report, result.tables, validity)
        return texts


def score_texts(model: Model, texts: Sequence[str], store: Store, console: Console | None = None) -> Table:
    """A table with the negative log-likelihood of each text in nats [texts] and its number of tokens [texts]."""
    requests = [Request(f"{TEXT}/{number}", options=(Option(text),)) for number, text in enumerate(texts)]
    responses = workload.answer(model, requests, store, {}, console, f"scoring {len(texts):,} texts")
    ids, nats, tokens = [], [], []
    for request in requests:
        logprobs = responses[request.id].logprobs[0]
        ids.append(request.id)
        # fsum is exact, so the sum does not depend on the order of the tokens.
        nats.append(-math.fsum(logprobs))
        tokens.append(len(logprobs))
    return {
        "id": np.array(ids, dtype=object),
        "nats": np.array(nats),
        "tokens": np.array(tokens, dtype=np.float64),
    }


def perplexity(kind: str) -> Metric:
    """The metric exp(mean negative log-likelihood per token); a masked model predicts one masked token at a time.

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
    reading = "Perplexity per token of held-out texts; an increase is a loss of language ability."
    return Metric(name, columns, final, None, 1, math.inf, reading)


def compare_runs(
    before: Path, after: Path, texts: tuple[Table, Table], kind: str, resamples: int
) -> tuple[tuple[Change, ...], list[HeadlineChange]]:
    """Every metric of two runs on the same examples, with paired intervals, and the perplexity of the texts.

    The second value has the headlines of the comparison.

    The comparison is also written into the folder ``after``. An agreement of two runs (for example the share
    of facts that are predicted as before) has only a value after.
    """
    # The run with the adapter is compared with the one without.
    compared = scoring.compare(after, before, resamples)
    report.write_comparison(after, compared)
    # Differences name their estimate by the three parts of a key, and may be fewer than the estimates.
    estimates_before = {key_of(estimate): estimate for estimate in compared.base.estimates}
    estimates_after = {key_of(estimate): estimate for estimate in compared.run.estimates}
    changes = []
    for difference in compared.differences:
        key = key_of(difference)
        changes.append(changed(difference, estimates_before[key], estimates_after[key]))
    for agreement in compared.agreements:
        # The unchanged model agrees with itself, so only the value after says anything.
        changes.append(Change(*key_of(agreement), _UNDEFINED, _numbers(agreement), _UNDEFINED, agreement.n))
    texts_before, texts_after = texts
    changes += text_changes(texts_before, texts_after, kind, resamples)
    return tuple(changes), headline_changes(compared)


def key_of(score: Any) -> Key:
    """The benchmark, the group and the metric of an estimate, a difference, an agreement or a change."""
    return score.benchmark, score.group, score.metric


def text_changes(before: Table, after: Table, kind: str, resamples: int) -> list[Change]:
    """The change of the perplexity of texts; none without a text."""
    if not len(before["id"]):
        return []
    items = _text_items(before, kind)
    (difference,) = stats.compare(items, after, before, before["id"], benchmark=TEXT, resamples=resamples)
    (old,) = _perplexities(before, kind, resamples)
    (new,) = _perplexities(after, kind, resamples)
    return [changed(difference, old, new)]


def _text_items(texts: Table, kind: str) -> list[tuple[Group, Metric]]:
    return [(Group("held-out texts", np.ones(len(texts["id"]), bool)), perplexity(kind))]


def _perplexities(texts: Table, kind: str, resamples: int) -> list[Estimate]:
    return stats.measure(_text_items(texts, kind), texts, texts["id"], benchmark=TEXT, resamples=resamples)


def estimates(folder: Path, texts: Table, kind: str, resamples: int) -> dict[Key, Numbers]:
    """Every metric of the run in a folder, and the perplexity of the texts."""
    measured = list(report.read(folder).estimates)
    if len(texts["id"]):
        measured += _perplexities(texts, kind, resamples)
    return {key_of(estimate): _numbers(estimate) for estimate in measured}


def changed(difference: Any, before: Estimate, after: Estimate) -> Change:
    """The change from an estimate to another, with their paired difference."""
    # Facts are JSON, which has no NaN.
    p = None if math.isnan(difference.p) else difference.p
    p_side = None if math.isnan(difference.p_side) else difference.p_side
    # Scores that are equal for every example have no sample of differences, whatever the number of clusters.
    clusters = None if difference.method == "identical" else difference.clusters
    return Change(
        difference.benchmark,
        difference.group,
        difference.metric,
        _numbers(before),
        _numbers(after),
        _numbers(difference),
        difference.n,
        p,
        p_side,
        clusters,
    )


def _numbers(estimate: Any) -> Numbers:
    return estimate.value, estimate.low, estimate.high


def held_out_texts(data: TrainingData, file: Path | None) -> tuple[str, ...]:
    """The lines of a file; without a file, the neutral statements of the validation splits that are available.

    Neutral statements are short sentences of the probes' own kind. Where none is built, the texts are
    :func:`ordinary_texts`. ``wikitext`` instead of a file is the test split of WikiText-2 (Merity et al., 2017) on the
    Hub.

    Raises
    ------
    MitigationError
        If the file cannot be read or has no line, or WikiText cannot be had.
    """
    if file == Path(WIKITEXT) and not file.exists():
        return _wikitext()
    if file is None:
        statements = tuple(row["statement"] for row in data.validation_rows())
        return statements or ordinary_texts()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MitigationError(f"{file} cannot be read as text ({error}); {TEXT_FORMAT}.") from None
    texts = tuple(line for line in lines if line.strip())
    if not texts:
        raise MitigationError(f"{file} has no text; {TEXT_FORMAT}.")
    return texts


def ordinary_texts() -> tuple[str, ...]:
    """Sentences of this project on which no recipe trains."""
    return tuple((Path(__file__).parents[1] / "data" / "ordinary.txt").read_text(encoding="utf-8").splitlines())


def _wikitext() -> tuple[str, ...]:
    from datasets import load_dataset  # slow to import, and not needed for a file

    name, config = _WIKITEXT
    try:
        lines = load_dataset(name, config, split="test")["text"]
    except (OSError, ValueError) as error:
        raise MitigationError(
            f"{name} could not be downloaded from the Hub ({type(error).__name__}); give a file of texts with --text."
        ) from None
    texts = []
    for line in lines:
        text = line.strip()
        if text and not text.startswith("="):  # headings are between equals signs
            texts.append(text)
    return tuple(texts)


def changes_table(changes: Sequence[Change], full_precision: Mapping[Key, Numbers] | None = None) -> pd.DataFrame:
    """A row for each change: the scores before and after over the same examples, the paired difference and interval.

    With ``full_precision``, the estimates of the unquantized model have a column before the others.
    """
    import pandas as pd

    columns = ["benchmark", "group", "metric", "before", "after", "difference", "low", "high", "n"]
    rows = []
    for change in changes:
        benchmark, group, metric = key_of(change)
        difference, low, high = change.difference
        rows.append((benchmark, group, metric, change.before[0], change.after[0], difference, low, high, change.n))
    table = pd.DataFrame(rows, columns=columns)
    if full_precision:
        whole = [full_precision.get(key_of(change), _UNDEFINED)[0] for change in changes]
        table.insert(3, "full precision", whole)
    return table
