"""Many methods on one model side by side: what each does to bias and to language ability, and what it costs.

Everything is read from the facts of the adapters' folders, so folders that other machines made can be added. All
changes and the figures that papers print are one table (:func:`changes_frame`), from which the page is made.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from cards.common import files, numbers, sentences, stored, verdict
from mitigation.editing import PAIRS
from mitigation.errors import MitigationError
from mitigation.running.outcome import Outcome, outcome
from scoring import benchmarks
from scoring.adapters.facts import FACTS, Adapter, Change, Numbers, read
from scoring.reproduce.printed import printed_tables
from scoring.statistics.intervals import student

if TYPE_CHECKING:
    import pandas as pd


DOMAINS = ("gender", "race", "religion")
_DATA = tomllib.loads((Path(__file__).parents[1] / "data" / "columns.toml").read_text(encoding="utf-8"))
#: Benchmarks that the columns need, with their splits; those for another kind of model are left out.
BENCHMARKS: Mapping[str, set[str]] = {name: set(splits) for name, splits in _DATA["benchmarks"].items()}
#: What papers call recipes, columns and models, by these three words.
PRINTED: Mapping[str, Mapping[str, str]] = _DATA["printed"]
#: Benchmark, group and metric.
Place = tuple[str, str, str]
#: The data whose SS is not held out for a method that was trained on it.
_STEREOSET = "biaske/stereoset/test"
METHODS = stored.Stored("a list of methods", "remove it, and it is written again")
FILES = ("methods.json", "methods.csv", "methods.md", "methods.html")
#: The order of methods by their verdict.
_ORDER = ("nearer", "changed", "unclear", "identical", "", "further")
_SEED = re.compile(r"(.+)-seed-\d+")
#: Names of the unchanged model.
UNCHANGED = ("BERT", "GPT2", "original")


@dataclass(frozen=True, slots=True)
class Column:
    """A score of the tables.

    Parameters
    ----------
    reading:
        What it says, in words.
    places:
        The first place that was measured counts.
    ideal:
        The value of an unbiased model; None for language ability and for agreement with the unchanged model.
    span:
        Of language ability the length of its range; NaN for other scores. That of perplexity is infinite.
    of_gender:
        Whether it is of gender only.
    least, most:
        The ends of the range of a score with an ideal value.
    """

    reading: str
    places: tuple[Place, ...] = ()
    ideal: float | None = None
    span: float = math.nan
    of_gender: bool = False
    least: float = 0.0
    most: float = 100.0

    @property
    def ability(self) -> bool:
        """Whether it measures language ability."""
        return not math.isnan(self.span)


def _read_columns() -> dict[str, Column]:
    columns = {}
    for name, entry in _DATA["columns"].items():
        facts = dict(entry)
        places = facts.pop("places")
        columns[name] = Column(places=tuple(tuple(place) for place in places), **facts)
    return columns


COLUMNS: Mapping[str, Column] = _read_columns()


def change_of(adapter: Adapter, column: str, domain: str) -> Change | None:
    """The change of an adapter in a column of the table of a domain, or None if it was not measured.

    SS of a benchmark is held out unless the adapter's recipe has read those pairs in the domain.
    """
    if COLUMNS[column].of_gender and domain != "gender":
        return None
    # A change is found by the three parts of its name.
    changes = {(change.benchmark, change.group, change.metric): change for change in adapter.changes}
    domain_of_recipe = adapter.settings.get("domain", domain)
    edited = _STEREOSET in adapter.data or PAIRS in {change.benchmark for change in adapter.changes}
    # An edit of pairs of one domain says nothing about the pairs of the others.
    edited = edited and domain_of_recipe in ("all", domain)
    for benchmark, group, metric in COLUMNS[column].places:
        if benchmark == PAIRS:
            # The recipe's own pairs of all domains are not those of one.
            shown = domain_of_recipe == domain
        else:
            shown = not (edited and column == "SS held out")
        change = changes.get((benchmark, group.format(domain=domain), metric))
        if change and shown:
            return change
    return None


def to_remove(name: str, before: Numbers, ideal: float) -> str:
    """How much bias the score ``name`` showed before a recipe, and whether noise alone explains it: one sentence."""
    sentence = "remove.noise"
    if verdict.standing(before, ideal) in ("above", "below"):
        sentence = "remove.shown"
    distance = f"{abs(before[0] - ideal):.2f}"
    score = numbers.with_interval(before, ".2f")
    return sentences.say(sentence, distance=distance, of=name, score=score, ideal=f"{ideal:g}")


def first_bias(adapter: Adapter) -> str:
    """The sentence of :func:`to_remove` for the first score of bias of an adapter; empty where none was measured.

    That is the first of the columns, in the adapter's own domain if it has one, else the first with an ideal value.
    """
    domains: Sequence[str] = DOMAINS
    # A recipe that was run for one domain is judged there alone.
    if adapter.settings.get("domain") in DOMAINS:
        domains = [str(adapter.settings["domain"])]
    for domain in domains:
        for name, column in COLUMNS.items():
            if column.ideal is None:
                continue
            change = change_of(adapter, name, domain)
            if change and not math.isnan(change.before[0]):
                return to_remove(f"{name} ({domain})", change.before, column.ideal)
    ideals: dict[tuple[str, str], float | None] = {}
    for name in benchmarks.names():
        for metric in benchmarks.get(name).metrics("clean"):
            ideals[name, metric.name] = metric.ideal
    for change in adapter.changes:
        ideal = ideals.get((change.benchmark, change.metric))
        if ideal is not None and math.isfinite(ideal) and not math.isnan(change.before[0]):
            title = titles_of_metrics()[change.benchmark, change.metric]
            return to_remove(f"{change.benchmark}, {change.group}: {title}", change.before, ideal)
    return ""


def titles_of_metrics() -> dict[tuple[str, str], str]:
    """What each metric of each benchmark is called, by the name of the benchmark and of the metric.

    >>> titles_of_metrics()["stereoset", "lms"]
    'Language-model score (LMS)'
    """
    titles: dict[tuple[str, str], str] = {}
    for name in benchmarks.names():
        for profile in ("clean", "paper"):
            for metric in benchmarks.get(name).metrics(profile):
                titles.setdefault((name, metric.name), metric.names[0] or metric.name)
    return titles


def said(change: Change, column: str, p: float, p_direction: float) -> str:
    """What the difference says, by :func:`cards.common.verdict.verdict`; for ability kept, lost or unclear.

    Perplexity is judged by its ratio: kept if the whole interval is below 2 % more. ``p`` and ``p_direction`` are those
    of the change, corrected for all that are shown.
    """
    # A higher perplexity is worse and has no upper end, so its relative change is judged, with the sign turned.
    span = COLUMNS[column].span
    if math.isinf(span):
        value, low, high = change.difference
        perplexity = change.before[0]
        return verdict.ability_verdict((-(value / perplexity), -(high / perplexity), -(low / perplexity)), 1.0)
    if COLUMNS[column].ability:
        return verdict.ability_verdict(change.difference, span)
    return verdict.verdict(change.before[0], change.difference, COLUMNS[column].ideal, p, p_direction)


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the name of its folder, its adapter, or the sentence that says why it could not be made."""

    name: str
    adapter: Adapter | None = None
    reason: str = ""


def changes_frame(model: str, methods: Sequence[Method]) -> pd.DataFrame:
    """All changes and printed figures: a row for each domain, method and column.

    ``source`` is "measured" or the printed table, whose figure is ``after``. The seeds of a method are one row
    (:func:`mean_change`). ``verdict`` says what the difference means (:func:`said`) at ``p_holm`` and ``p_direction``,
    corrected for all changes of bias scores of the domain (:func:`cards.common.verdict.corrected`); those of ability
    have none, see :func:`cards.common.verdict.ability_verdict`. ``ability`` is what all columns of language ability of
    the method say together. Domains without a score of bias are left out. Without a ``model`` there are no printed
    figures.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    kind = _kind_of_model(methods)
    for domain in DOMAINS:
        measured = _measured_rows(methods, domain)
        if not measured:
            continue
        rows += measured
        if model:
            rows += printed_rows(model, domain, kind)
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _kind_of_model(methods: Sequence[Method]) -> str:
    """Whether the model is masked or causal, by the name of the metric of texts; empty without texts."""
    metrics = set()
    for method in methods:
        if method.adapter:
            metrics |= {change.metric for change in method.adapter.changes}
    if "pseudo_perplexity" in metrics:
        return "masked"
    if "perplexity" in metrics:
        return "causal"
    return ""


def _measured_rows(methods: Sequence[Method], domain: str) -> list[dict[str, Any]]:
    """The rows of a domain that were measured; none where no method has a score of bias."""
    rows: list[dict[str, Any]] = []
    means: list[Change] = []
    for name, adapters in by_method(methods, domain).items():
        for column in COLUMNS:
            changes = []
            for adapter in adapters.values():
                change = change_of(adapter, column, domain)
                if change:
                    changes.append(change)
            if changes:
                rows.append(_row(domain, name, column, changes))
                means.append(mean_change(changes))
    # A domain whose bias nobody measured would be a table of language ability.
    if all(COLUMNS[row["column"]].ability for row in rows):
        return []
    # All changes of bias of a domain are one family of tests; those of ability have no p, and are judged apart.
    clusters = []
    for row in rows:
        clusters.append(math.inf if math.isnan(row["clusters"]) else row["clusters"])
    p_holm, p_direction = verdict.corrected([row["p"] for row in rows], [row["p_side"] for row in rows], clusters)
    verdicts_of_ability: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        row["p_holm"] = p_holm[number]
        row["p_direction"] = p_direction[number]
        row["verdict"] = said(means[number], row["column"], p_holm[number], p_direction[number])
        verdicts = verdicts_of_ability.setdefault(row["method"], [])
        if COLUMNS[row["column"]].ability:
            verdicts.append(row["verdict"])
    for row in rows:
        row["ability"] = ability_of(verdicts_of_ability[row["method"]])
    return rows


#: The columns of the table of changes.
_COLUMNS = (
    "domain",
    "method",
    "source",
    "column",
    "before",
    "before_low",
    "before_high",
    "after",
    "after_low",
    "after_high",
    "difference",
    "low",
    "high",
    "n",
    "seeds",
    "seed_sd",
    "own_pairs",
    "p",
    "p_side",
    "clusters",
    "p_holm",
    "p_direction",
    "verdict",
    "ability",
)


def _row(domain: str, method: str, column: str, changes: Sequence[Change]) -> dict[str, Any]:
    """The row of the changes of a method's seeds in a column, without what depends on the other rows."""
    change = mean_change(changes)
    score = COLUMNS[column]
    p = p_side_of_change = seed_sd = clusters = math.nan
    if score.ideal is not None and not score.ability:
        # Facts of an earlier version have no p and no p_side; both follow from the intervals.
        p = verdict.p_of(change.difference) if change.p is None else change.p
        if change.p_side is None:
            p_side_of_change = verdict.p_side(change.before, change.after, score.ideal, score.least, score.most)
        else:
            p_side_of_change = change.p_side
    if len(changes) > 1:
        seed_sd = stdev(seed.after[0] for seed in changes)
    if change.clusters is not None:
        clusters = change.clusters
    return {
        "domain": domain,
        "method": method,
        "source": "measured",
        "column": column,
        "before": change.before[0],
        "before_low": change.before[1],
        "before_high": change.before[2],
        "after": change.after[0],
        "after_low": change.after[1],
        "after_high": change.after[2],
        "difference": change.difference[0],
        "low": change.difference[1],
        "high": change.difference[2],
        "n": change.n,
        "seeds": len(changes),
        "seed_sd": seed_sd,
        "own_pairs": change.benchmark == PAIRS,
        "p": p,
        "p_side": p_side_of_change,
        "clusters": clusters,
    }


def by_method(methods: Sequence[Method], domain: str = "") -> dict[str, dict[str, Adapter]]:
    """The adapters of each method in a domain, by the names of their folders.

    ``NAME-seed-1`` is a seed of ``NAME``; ``RECIPE-DOMAIN`` is that of ``RECIPE`` in the domain that its settings
    name, and of no method in another domain.
    """
    adapters = {method.name: method.adapter for method in methods if method.adapter}
    groups: dict[str, dict[str, Adapter]] = {}
    for name, adapter in adapters.items():
        stem = name
        match = _SEED.fullmatch(name)
        # A name such as cda-seed-1 is a seed of cda only if there is a cda by the same recipe.
        if match and match[1] in adapters and adapters[match[1]].recipe == adapter.recipe:
            stem = match[1]
        domain_of_recipe = adapter.settings.get("domain")
        if stem == f"{adapter.recipe}-{domain_of_recipe}":
            stem = adapter.recipe
            if domain_of_recipe != domain:
                continue
        groups.setdefault(stem, {})[name] = adapter
    return groups


def mean_change(changes: Sequence[Change]) -> Change:
    """The mean of the changes of several seeds, with one interval for the chance of seeds and of examples.

    p follows from that interval, and the p of its side from those of the scores.
    """
    if len(changes) == 1:
        return changes[0]
    before = over_seeds([change.before for change in changes])
    after = over_seeds([change.after for change in changes])
    difference = over_seeds([change.difference for change in changes])
    return replace(
        changes[0], before=before, after=after, difference=difference, p=verdict.p_of(difference), p_side=None
    )


def over_seeds(intervals: Sequence[Numbers]) -> Numbers:
    """The mean over seeds and its interval: that of the seeds and that of the examples, added as variances.

    The seeds are a sample of all seeds, with Student's t; the examples are the same for every seed, so their part is
    the mean over seeds. ``tools/simulations/intervals.py`` simulates the coverage.

    >>> [round(end, 2) for end in over_seeds([(1.0, 0.0, 2.0), (3.0, 2.0, 4.0), (2.0, 1.0, 3.0)])]
    [2.0, -0.68, 4.68]
    """
    values = [value for value, _, _ in intervals]
    mean = fmean(values)
    of_seeds = student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    # The seeds vary and so do the texts: both half-widths, as of independent errors, are added in squares.
    below = mean - fmean(low for _, low, _ in intervals)
    above = fmean(high for _, _, high in intervals) - mean
    return mean, mean - math.hypot(of_seeds, below), mean + math.hypot(of_seeds, above)


def ability_of(verdicts: Sequence[str]) -> str:
    """What all scores of language ability of a method say together.

    >>> ability_of(["kept", "lost"]), ability_of(["kept", "kept"]), ability_of(["kept", "unclear"]), ability_of([])
    ('lost', 'kept', 'unclear', 'not measured')
    """
    kinds = set(verdicts) - {""}
    if not kinds:
        return "not measured"
    if "lost" in kinds:
        return "lost"
    if kinds == {"kept"}:
        return "kept"
    return "unclear"


def costs(methods: Sequence[Method], domain: str) -> dict[str, str]:
    """What each method of a domain cost, in words: the mean time of its seeds, parameters and the most memory."""
    texts = {}
    for name, group in by_method(methods, domain).items():
        costs_of_seeds = [adapter.cost for adapter in group.values()]
        seconds = fmean(cost.seconds for cost in costs_of_seeds)
        parameters = max(cost.parameters for cost in costs_of_seeds)
        gibibytes = max(cost.memory for cost in costs_of_seeds) / 2**30
        a_seed = " a seed" if len(costs_of_seeds) > 1 else ""
        # Times are means and sizes are maxima: a machine needs room for the largest seed.
        texts[name] = f"{seconds:,.0f} s{a_seed}, {parameters:,} parameters, {gibibytes:.2f} GiB"
    return texts


@dataclass(frozen=True, slots=True)
class DomainTable:
    """What the page says of a domain.

    Parameters
    ----------
    frame, seeds:
        The table of changes of the domain, and that of single seeds of the methods that have several.
    bias:
        The column by which methods are judged: that of held-out pairs, or else the first score of bias.
    cost:
        Method to its cost in words.
    missing:
        Method to the reason why it could not be made.
    outcomes:
        Adapter to its three lines and verdict (:mod:`mitigation.running.outcome`), where stated gender was measured.
    """

    domain: str
    frame: pd.DataFrame
    seeds: pd.DataFrame
    bias: str
    cost: Mapping[str, str]
    missing: Mapping[str, str]
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns that were measured, in their order."""
        measured = set(self.measured.column)
        return [name for name in COLUMNS if name in measured]

    @property
    def measured(self) -> pd.DataFrame:
        """The changes that were measured."""
        return self.frame[self.frame.source == "measured"]

    @property
    def tests(self) -> int:
        """The number of changes of bias scores, for which p-values are corrected."""
        return int(self.measured.p.notna().sum())

    @property
    def by_chance(self) -> float:
        """How many p-values would be below 0.05 where no method changed anything."""
        return verdict.LEVEL * self.tests

    def cells(self, frame: pd.DataFrame | None = None) -> dict[str, dict[str, Any]]:
        """Method to column to the change; methods that bring the score of bias nearer come first."""
        rows: dict[str, dict[str, Any]] = {}
        for row in records(self.measured if frame is None else frame):
            rows.setdefault(row.method, {})[row.column] = row

        def order(item: tuple[str, dict[str, Any]]) -> int:
            judged = item[1].get(self.bias)
            return _ORDER.index(judged.verdict if judged is not None else "")

        return dict(sorted(rows.items(), key=order))

    @property
    def base(self) -> dict[str, str]:
        """Column to the score of the unchanged model; scores of the own pairs of a method are in its row.

        The differentiation score is of two runs: the model agrees with itself.
        """
        others = self.measured[~self.measured.own_pairs.astype(bool)].drop_duplicates("column")
        scores = {}
        for row in records(others):
            scores[row.column] = "100.00" if row.column == "DS" else numbers.decimals(row.before, 2, missing="")
        return scores

    @property
    def printed(self) -> dict[tuple[str, str], dict[str, float]]:
        """Method and printed table to its figures by column, the unchanged model first."""
        rows: dict[tuple[str, str], dict[str, float]] = {}
        for row in records(self.frame[self.frame.source != "measured"]):
            rows.setdefault((row.method, row.source), {})[row.column] = row.after
        return dict(sorted(rows.items(), key=lambda item: item[0][0] not in UNCHANGED))

    @property
    def conclusion(self) -> list[str]:
        """Which methods bring the score of bias nearer to its ideal value and at what cost; "None" if none does."""
        ideal = f"{COLUMNS[self.bias].ideal or 0.0:g}"
        lines: list[str] = []
        further: list[str] = []
        judged = 0
        for columns in self.cells().values():
            row = columns.get(self.bias)
            if row is None:
                continue
            judged += 1
            if row.verdict == "nearer":
                sentence = sentences.say(
                    "methods.nearer",
                    method=row.method,
                    bias=self.bias,
                    ideal=ideal,
                    change=change_text(row),
                    before=f"{row.before:.2f}",
                    ability=row.ability,
                    cost=self.cost[row.method],
                )
                lines.append(sentence)
            elif row.verdict == "further":
                further.append(f"{row.method} ({change_text(row)})")
        if not lines:
            name = "methods.none.one" if judged == 1 else "methods.none"
            of_model = f" (unchanged model: {self.base[self.bias]})" if self.bias in self.base else ""
            lines.append(sentences.say(name, count=judged, unchanged=of_model, bias=self.bias, ideal=ideal))
        if further:
            lines.append(sentences.say("methods.further", methods=", ".join(further)))
        # A method may help another score than that of its table; only where ability is kept is that worth a sentence.
        others = self.measured[(self.measured.verdict == "nearer") & (self.measured.column != self.bias)]
        methods = others[others.ability == "kept"].groupby("column", sort=False).method.agg(list)
        if len(methods):
            scores = "; ".join(f"{column} ({', '.join(names)})" for column, names in methods.items())
            lines.append(sentences.say("methods.others", scores=scores))
        return lines


def tables_of(frame: pd.DataFrame, methods: Sequence[Method]) -> list[DomainTable]:
    """What is said of each domain in which any method has a score of bias."""
    import pandas as pd

    # Single seeds are shown only of the methods that have several.
    several = set(frame[frame.seeds > 1].method)
    adapters: dict[str, Adapter] = {}
    for domain in DOMAINS:
        for name, group in by_method(methods, domain).items():
            if name in several:
                adapters |= group
    seeds = frame[:0]
    if adapters:
        # Each seed is a table of its own, so that it is not averaged with the others.
        seeds = pd.concat([changes_frame("", [Method(name, adapter)]) for name, adapter in adapters.items()])
    tables = []
    for label, changes in frame.groupby("domain", sort=False):
        domain = str(label)
        measured = set(changes[changes.source == "measured"].column)
        # Columns are in the order of columns.toml, held-out pairs first.
        bias = next(name for name, column in COLUMNS.items() if name in measured and not column.ability)
        # A name that ends in another domain is of that domain alone.
        others = tuple(f"-{other}" for other in DOMAINS if other != domain)
        missing = {}
        for method in methods:
            if not method.adapter and not method.name.endswith(others):
                missing[method.name] = method.reason
        seeds_of_domain = seeds[seeds.domain == domain]
        outcomes = {}
        for method in methods:
            judged = outcome(method.adapter.changes) if method.adapter and domain == "gender" else None
            if judged:
                outcomes[method.name] = judged
        tables.append(DomainTable(domain, changes, seeds_of_domain, bias, costs(methods, domain), missing, outcomes))
    return tables


def records(frame: pd.DataFrame) -> list[Any]:
    """The rows of a table, with the columns as attributes."""
    return list(frame.itertuples(index=False))


def change_text(row: Any) -> str:
    """The difference of a change with its interval; of an agreement, which has none, the interval of the score."""
    if math.isnan(row.low):
        return numbers.interval(row.after_low, row.after_high, "{:.2f}".format)
    return numbers.with_interval((row.difference, row.low, row.high), "+.2f")


def verdict_text(row: Any) -> str:
    """What a change says; no text says less bias without what the method does to ability."""
    if row.verdict == "nearer":
        return f"nearer, ability {row.ability}"
    return str(row.verdict)


def printed_rows(model: str, domain: str, kind: str = "") -> Iterator[dict[str, Any]]:
    """The figures that papers print for a model in a domain, as rows of the table of changes.

    For a model of no table, those of BERT or GPT-2 if it is of that ``kind``, and without a kind those of all models.

    >>> [row["method"] for row in printed_rows("gpt2", "gender")][-1]
    'FAST'
    """
    cells = []
    for table in printed_tables("fast"):
        for cell in table.cells:
            if cell.place["domain"] == domain:
                cells.append((table, cell))
    if model not in {cell.place.get("model") for _, cell in cells}:
        # Papers print BERT and GPT-2; a model of the same kind is compared with these.
        model = PRINTED["models"].get(kind, "")
    for table, cell in cells:
        model_of_cell = str(cell.place.get("model"))
        column = PRINTED["columns"].get(cell.column.removeprefix(f"{domain}_"))
        if column and model in ("", model_of_cell):
            # The row of a printed method is "BASE MODEL, METHOD", and the paper calls its own method Ours.
            method = cell.row.rpartition(", ")[2].replace("Ours", "FAST")
            source = f"Table {table.name.removeprefix('table-')}, {model_of_cell}"
            yield {
                "domain": domain,
                "method": method,
                "source": source,
                "column": column,
                "after": float(cell.text),
                "verdict": "",
                "ability": "",
            }


def rows_of(folder: Path, reasons: Mapping[str, str] | None = None) -> list[Method]:
    """A row for each adapter below a folder, by name, and for each method that could not be made.

    Raises
    ------
    MitigationError
        If there is no adapter, or the adapters belong to several models.
    """
    # Sorted, so that the page does not depend on the order of the file system.
    adapters: dict[str, Adapter] = {path.parent.name: read(path.parent) for path in sorted(folder.glob(f"*/{FACTS}"))}
    bases = sorted({adapter.revision for adapter in adapters.values()})
    if len(bases) != 1:
        raise MitigationError(
            f"{folder} has adapters of {len(bases)} models; give a folder with the adapters of one model."
        )
    methods = [Method(name, adapter) for name, adapter in adapters.items()]
    for name, reason in (reasons or {}).items():
        if name not in adapters:
            methods.append(Method(name, reason=reason))
    return methods


def measured_before(folder: Path) -> Mapping[str, Any] | None:
    """How the methods of a folder were measured, as its ``methods.json`` says; None without it.

    Raises
    ------
    MitigationError
        If the file cannot be read.
    """
    return _content(folder).get("measured")


def reasons_before(folder: Path) -> dict[str, str]:
    """Method to reason, for those that could not be made as the ``methods.json`` of a folder says.

    Raises
    ------
    MitigationError
        If the file cannot be read.
    """
    return {row["method"]: row["reason"] for row in _content(folder).get("methods", ()) if row["reason"]}


def _content(folder: Path) -> dict[str, Any]:
    """The object in ``methods.json``; empty without the file."""
    return METHODS.read(folder / "methods.json", dict, MitigationError) or {}


def check_files(folder: Path) -> None:
    """Refuses a folder in which the page would replace what this program did not write.

    The page is written by :func:`mitigation.methods.comparison_page.write`.

    Raises
    ------
    MitigationError
        With the first such file.
    """
    files.refuse_foreign(folder, FILES, MitigationError)


def check_same(folder: Path, measured: Mapping[str, Any]) -> None:
    """Refuses to add methods that are measured otherwise than those of a folder.

    Raises
    ------
    MitigationError
        With the first that differs of the profile, the benchmarks, the limit, the texts, the resamples and the data.
    """
    # A folder of an earlier version says nothing, and then nothing is refused.
    before = dict(measured_before(folder) or {})
    now = dict(measured)
    # The versions of the data are compared one by one, after all else.
    before |= before.pop("data", None) or {}
    now |= now.pop("data")
    for name, value in before.items():
        if value != now.get(name):
            raise MitigationError(
                f"{folder} has methods measured with {name} {value} instead of {now.get(name)}; give another --out."
            )
