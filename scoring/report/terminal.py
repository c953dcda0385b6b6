"""What the commands print of a run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.table import Table as Grid
from rich.text import Text

from cards.common.numbers import Scale, detectable_text, formatted, interval, shared_places
from cards.common.sentences import say
from cards.common.terminal import text_table
from scoring.report.headlines import (
    Comparison,
    HeadlineChange,
    answer_of,
    changes,
    conclusion,
    described,
    headline_changes,
    headline_scores,
    ranked,
    sharing_places,
)
from scoring.report.numbers import by_metric, metric_range
from scoring.report.real_models import places
from scoring.types import DATA, Estimate, Measurement, Report

#: From so many columns on, the summary of a run has sentences.
WIDE = 120
#: How many changes and agreements of a comparison, and minimum detectable effects, fit on one screen of 24 lines.
CHANGES, AGREEMENTS, EFFECTS = 15, 2, 4
#: The head of the column of minimum detectable effects.
DETECTABLE = "MDE"
# The columns of a comparison, and with --verbose those of every metric in every group.
_COLUMNS = ("benchmark", "score", "before", "after", "difference [95 %]", "verdict")
_VERBOSE_COLUMNS = (
    "benchmark", "group", "score", "before", "after", "difference [95 %]", DETECTABLE, "verdict",
)  # fmt: skip


def summary(report: Report, width: int) -> Grid:
    """One line a score: benchmark, group, its value with interval and n, the ideal value, and where the score is.

    The last column, or below :data:`WIDE` columns a line under the table, says in a sentence what the score means, and
    the last line what the model does. What is clear comes first (:func:`scoring.report.headlines.ranked`).
    """
    is_wide = width >= WIDE
    columns = ["benchmark", "score", "value [95 % interval]", "ideal", "vs ideal"]
    gap = 1
    if is_wide:
        columns = ["benchmark", "group", "score", "value [95 % interval]", "n", "ideal", "vs ideal", "meaning"]
        gap = 2
    headlines = ranked(headline_scores(report))
    ideals = _ideals(headline.estimate.ideal for headline in headlines)
    metrics = Counter((headline.estimate.benchmark, headline.estimate.metric) for headline in headlines)
    several = {name for name, number in metrics.items() if number > 1}
    rows = []
    lines = []
    for headline in headlines:
        estimate = headline.estimate
        value = _with_interval(estimate, headline.scale)
        # The reason is in the sentence of a row without answers or a value, and in the word of one at chance.
        meaning = headline.sentence
        if headline.standing == "unclear":
            meaning += f" ({headline.why})"
        name = estimate.benchmark
        if not is_wide:
            lines.append(f"{name} {estimate.group}: {meaning}")
            # The lines below have the group of each row; two rows of one metric need it here too.
            if (name, estimate.metric) in several:
                name = f"{name} {estimate.group}"
        cells = {
            "benchmark": name,
            "group": estimate.group,
            "score": estimate.short_name,
            "value [95 % interval]": value,
            "n": f"{estimate.n:,}",
            "ideal": ideals[estimate.ideal],
            "vs ideal": headline.standing or "–",
            "meaning": meaning,
        }
        rows.append([cells[column] for column in columns])
    grid = text_table(columns, rows, whole=("benchmark",), gap=gap)
    lines.append(answer_of(report))
    lines += places(report, (headline.estimate for headline in headlines))
    grid.caption = Text("\n".join(line for line in lines if line)) or None
    grid.caption_justify = "left"
    return grid


def details(benchmark: str, report: Report) -> Grid:
    """Every group and metric of a benchmark."""
    estimates = [e for e in report.estimates if e.benchmark == benchmark]
    ideals = _ideals(e.ideal for e in estimates)
    groups = by_metric(estimates).values()
    decimals = shared_places(metric_range(of_metric) for of_metric in groups)
    rows = []
    for of_metric in groups:
        scale = replace(metric_range(of_metric), places=decimals)
        for e in of_metric:
            effect = detectable_text(e.detectable, scale, "")
            rows.append((e.group, e.short_name, _with_interval(e, scale), ideals[e.ideal], effect, str(e.n)))
    grid = text_table(["group", "score", "value [95 % interval]", "ideal", DETECTABLE, "n"], rows, benchmark)
    if any(effect for *_, effect, _ in rows):
        grid.caption = Text(say("power.head"))
        grid.caption_justify = "left"
    return grid


def comparison(compared: Comparison, *, verbose: bool = False) -> Iterator[Grid | str]:
    """The names of two runs, a table of changes, and a conclusion; without ``verbose`` at most one screen.

    The table has the headline of each benchmark and its language ability, or with ``verbose`` every metric.
    """
    yield f"{described(compared.run)} compared with {described(compared.base)}"
    headlines = headline_changes(compared)
    shown = list(headlines)
    if verbose:
        known = {change.difference.key for change in headlines}
        for change in changes(compared):
            if change.difference.key not in known:
                shown.append(change)
    # The decimals are shared by all changes, also by those that the screen has no room for.
    shown = sharing_places(shown)
    columns: Sequence[str]
    if verbose:
        columns = _VERBOSE_COLUMNS
        listed = shown
    else:
        columns = _COLUMNS
        listed = shown[:CHANGES]
    rows = [_change_cells(change) for change in listed]
    metrics = Counter((row["benchmark"], row["score"]) for row in rows)
    for row in rows:
        # Two rows of one metric are of two groups.
        if metrics[row["benchmark"], row["score"]] > 1 and not verbose:
            row["benchmark"] += f" {row['group']}"
    # Agreements are metrics of both runs together, so they have no value before.
    agreements = compared.agreements
    if not verbose:
        agreements = _first_agreements(compared.agreements)
    rows += [_agreement_cells(agreement) for agreement in agreements]
    cells = []
    for row in rows:
        # Without --verbose, the group and the minimum detectable effect are left out.
        cells.append([row[column] for column in columns])
    yield text_table(columns, cells, whole=("benchmark", "before", "after"), gap=1)
    effects = []
    for change in headlines:
        difference = change.difference
        text = detectable_text(difference.detectable, change.scale)
        if change.verdict and text:
            effects.append(f"{difference.benchmark} {difference.short_name} {text}")
    if effects:
        yield say("power.change", effects=", ".join(effects[:EFFECTS]))
    # The number of changes that are not shown is named, because a verdict may be among them.
    if len(shown) > CHANGES and not verbose:
        yield say("compare.more", count=len(shown) - CHANGES)
    yield compared.speechless or conclusion(headlines)


def _change_cells(change: HeadlineChange) -> dict[str, str]:
    """The cells of a change, by their column."""
    difference = change.difference
    scale = change.scale
    before, after, moved = change.texts
    effect = ""
    if change.verdict:
        effect = detectable_text(difference.detectable, scale, "")
    return {
        "benchmark": difference.benchmark,
        "group": difference.group,
        "score": difference.short_name,
        "before": before,
        "after": after,
        "difference [95 %]": moved + interval(difference.low, difference.high, scale.brief, " [{}, {}]"),
        DETECTABLE: effect,
        "verdict": change.verdict or "–",
    }


def _agreement_cells(agreement: Estimate) -> dict[str, str]:
    """The cells of an agreement, which has one value for both runs."""
    return {
        "benchmark": agreement.benchmark,
        "group": agreement.group,
        "score": agreement.short_name,
        "before": "–",
        "after": metric_range([agreement]).brief(agreement.value),
        "difference [95 %]": "–",
        DETECTABLE: "",
        "verdict": "–",
    }


def _first_agreements(agreements: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """The most important agreement of each benchmark, for a screen: its first metric.

    A benchmark is at the place of its last agreement, and the last benchmarks come first.
    """
    by_name = {}
    for agreement in reversed(agreements):
        by_name[agreement.benchmark] = agreement
    return tuple(by_name.values())[:AGREEMENTS]


def _ideals(values: Iterable[float | None]) -> dict[float | None, str]:
    """Ideal values as texts that share their decimals."""
    distinct = set(values)
    places = 0
    for value in distinct:
        if value is not None:
            places = max(places, len(f"{value:g}".partition(".")[2]))
    return {value: formatted(value, f".{places}f") for value in distinct}


def _with_interval(e: Measurement, on: Scale) -> str:
    return on.brief(e.value) + interval(e.low, e.high, on.brief, " [{}, {}]")


def want(lacking: Sequence[str], data: str) -> list[str]:
    r"""A sentence that names the missing data and the command that builds it.

    >>> lacking = ["unstereo/ours-5/test", "unstereo/winobias/validation", "unstereo/winobias/test"]
    >>> print(*want(lacking, "output")[0].split("; "), sep="\n")
    Left out, because their data are not built: unstereo (ours-5, winobias)
    probes build unstereo --out output builds them.
    >>> want(["unstereo/ours-5/test"], "hub:org")[0].partition("; ")[2]
    'probes build unstereo --out output builds them, and --data output reads it.'
    """
    if not lacking:
        return []
    configs: dict[str, list[str]] = {}
    for name in lacking:
        dataset, config, _ = name.split("/")
        of_dataset = configs.setdefault(dataset, [])
        # Two splits of a config are built by one command.
        if config not in of_dataset:
            of_dataset.append(config)
    missing = ", ".join(f"{dataset} ({', '.join(names)})" for dataset, names in configs.items())
    folder = data
    also = ""
    # A command cannot build into a data set on the Hub.
    if data.startswith("hub:"):
        folder = DATA
        also = f", and --data {folder} reads it"
    return [say("run.lacking", missing=missing, sets=" ".join(configs), folder=folder, also=also)]


def speed(report: Report) -> str:
    """A sentence with the speed of a run."""
    facts = report.speed
    # Loading is separate: it does not grow with the number of rows.
    loading = f"{facts['load_seconds']:.1f}"
    if not facts["tokens_per_second"]:
        return say("run.stored", loading=loading)
    return say(
        "run.speed",
        tokens=f"{facts['tokens_per_second']:,.0f}",
        seconds=f"{facts['seconds']:.1f}",
        padding=f"{facts['padding_share']:.0%}",
        shared=f"{facts['shared_share']:.0%}",
        loading=loading,
    )
