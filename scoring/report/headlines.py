"""The headline of each benchmark: one score of a run, or its change between two runs, and what it means in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cards.common.draw import FREE, glance_html, one_line
from cards.common.numbers import Scale, counted, decimals, formatted, interval, minus, shared_places
from cards.common.sentences import appears, say, unanswered_text
from cards.common.text import grouped
from cards.common.verdict import LEVEL, ability_verdict, smallest_p, standing, standings, verdict
from cards.results import LEAST_MASS, STATUSES, last_part
from scoring import benchmarks
from scoring.report.numbers import by_benchmark, metric_range, signed_distance
from scoring.statistics.stats import corrected
from scoring.types import ComparedScore, Difference, Estimate, Headline, Report

if TYPE_CHECKING:
    import pandas as pd

#: The text for a row that tells a side, where the interval is on both sides of the ideal value.
UNCLEAR = say("lean.unclear")
# A score in a sentence: "{gas%}" is a share as a percentage, "{gap:1}" has one decimal, and "{gap}" has none.
_SCORE = re.compile(r"\{([^{}%:]+)(%|:[1-9])?\}")


@dataclass(frozen=True, slots=True)
class HeadlineScore:
    """A row of a report: one score of a benchmark, and in words what it means.

    ``standing`` says whether the interval is above or below the ideal value, or unclear, and ``leaning`` what the model
    does on that side, such as "prefers the stereotype": :data:`UNCLEAR` where the interval has both sides, the reason
    where nothing is concluded, and empty where the score tells no side. Both hold for all rows of a run
    together (:func:`cards.common.verdict.standings`).
    ``why`` is the reason where nothing is concluded, such as "too few jobs (5)". ``second`` marks the row of a metric
    that tells the side of a benchmark whose headline is another metric, and ``places`` are the decimals that all rows
    share.
    """

    estimate: Estimate
    sentence: str
    leaning: str = ""
    standing: str = ""
    second: bool = False
    places: int | None = None
    why: str = ""

    @property
    def scale(self) -> Scale:
        """The range of possible values, with the decimals of all rows."""
        return replace(metric_range([self.estimate]), places=self.places)

    @property
    def is_clear(self) -> bool:
        """Whether the score is beyond noise on one side of its ideal value."""
        return self.standing in ("above", "below")

    @property
    def severity(self) -> float:
        """The distance from the ideal value as a share of the range on that side; 0 where the range has no end."""
        distance = abs(signed_distance(self.estimate.value, self.estimate))
        if math.isnan(distance):
            return 0.0
        return distance

    @property
    def name(self) -> str:
        """Benchmark, group, and value with its interval, such as ``stereoset intrasentence test 57.1 [55.0, 59.2]``."""
        score, brief = self.estimate, self.scale.brief
        ends = minus(interval(score.low, score.high, brief, " [{}, {}]"))
        return f"{score.benchmark} {score.group} {minus(brief(score.value))}{ends}"


@dataclass(frozen=True, slots=True)
class HeadlineChange(ComparedScore):
    """A metric of two runs over the same examples, their difference, and what it means for the model."""

    before: Estimate
    after: Estimate
    inconclusive: str = ""
    places: int | None = None

    @property
    def scale(self) -> Scale:
        """The range of possible values, with the decimals of all changes that are shown together."""
        return replace(metric_range([self.before, self.after]), places=self.places)

    @property
    def verdict(self) -> str:
        """Of bias by :func:`cards.common.verdict.verdict`; of ability ``kept``, ``lost`` or ``unclear``."""
        d = self.difference
        # Bias has a verdict by its ideal value, ability by how much of its range is lost.
        if d.ability:
            return ability_verdict(d.numbers, self.after.most - self.after.least)
        if self.inconclusive:
            return ""
        return verdict(self.before.value, d.numbers, d.ideal, d.p_holm, d.p_direction)

    @property
    def texts(self) -> tuple[str, str, str]:
        """Before, after and their difference as texts, each rounded to the decimals of the column."""
        return self.scale.change(self.before.value, self.after.value)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A run and an earlier one, its base: their differences and agreements."""

    run: Report
    base: Report
    differences: tuple[Difference, ...]
    agreements: tuple[Estimate, ...] = ()

    @property
    def changes(self) -> list[ComparedScore]:
        """Every difference with the scores before and after."""
        before = self.base.by_key
        after = self.run.by_key
        # A benchmark that allows no conclusion of one of the runs leaves nothing to compare.
        reasons = self.base.inconclusive | self.run.inconclusive
        rows = []
        for difference in self.differences:
            key = difference.key
            reason = reasons.get(difference.benchmark, "")
            rows.append(ComparedScore(difference, before.get(key), after.get(key), reason))
        return rows

    @property
    def speechless(self) -> str:
        """Which run is at chance at language, in one sentence; empty where none is."""
        for name, report in (("base", self.base), ("run", self.run)):
            if report.language and not report.language.speaks:
                return say("compare.chance", which=name, name=described(report), tests=report.language.sentence)
        return ""

    def table(self) -> pd.DataFrame:
        """Every difference, a row each: before, after, difference with its interval and p, ideal, n and verdict.

        The verdict is ``nearer`` to the ideal value, ``further``, ``changed`` (the direction is open), ``unclear`` or
        ``identical`` (:func:`cards.common.verdict.verdict`), and ``detectable`` the smallest true difference that had a
        chance of 80 % of one (:func:`scoring.statistics.stats.corrected`).
        """
        import pandas as pd

        rows = []
        for change in self.changes:
            difference = change.difference
            row = {
                "benchmark": difference.benchmark,
                "group": difference.group,
                "metric": difference.metric,
                "before": math.nan,
                "after": math.nan,
                "difference": difference.value,
                "low": difference.low,
                "high": difference.high,
                "p": difference.p,
                "p_holm": difference.p_holm,
                "ideal": difference.ideal,
                "n": difference.n,
                "verdict": change.verdict,
                "detectable": difference.detectable,
            }
            if change.before is not None:
                row["before"] = change.before.value
            if change.after is not None:
                row["after"] = change.after.value
            rows.append(row)
        # The columns are named, because a comparison without differences has no row that names them.
        columns = "benchmark group metric before after difference low high p p_holm ideal n verdict detectable".split()
        return pd.DataFrame(rows, columns=columns).astype({"ideal": float})

    def __repr__(self) -> str:
        """The change of the headline of each benchmark, in one line."""
        # Short names, because a terminal has one line for each.
        return one_line(f"Comparison of {self._heading}", list(self._headlines("short_name")))

    def _repr_html_(self) -> str:
        """The change of the headline of each benchmark with a small picture, and all differences folded."""
        lines = []
        for text, difference in self._headlines("full_name").items():
            lines.append((text, difference.numbers, 0.0, FREE))
        return glance_html(self._heading, lines, self.table())

    @property
    def _heading(self) -> str:
        return f"{described(self.run)} compared with {described(self.base)}"

    def _headlines(self, name: str) -> dict[str, Difference]:
        """The difference of the headline of each benchmark, by its text; ``name`` is the field with the metric's name.

        A text is, for example, ``stereoset all: SS 60.0 → 55.0, nearer``.
        """
        differences = {}
        for change in headline_changes(self):
            difference = change.difference
            before, after, _ = change.texts
            metric = getattr(difference, name)
            name_of_score = f"{difference.benchmark} {difference.group}: {metric}"
            text = f"{name_of_score} {before} → {after}, {change.verdict or 'no verdict'}"
            differences[text] = difference
        return differences


def headline_scores(report: Report) -> list[HeadlineScore]:
    """The rows of a run, in the order of its benchmarks.

    A benchmark has a row for the metric of its headline, and another one for the metric that tells a side where that
    is another metric; both are repeated for each further style of the question (:attr:`Headline.styles`). Without a
    headline of its own it has the first metric, which is the most important one, of its first group. A run without a
    row of the group that the headline names has no value: that of another group is not the headline.
    """
    chosen: list[tuple[Headline, Estimate, Mapping[str, float]]] = []
    sides = set()
    for name, estimates in by_benchmark(report.estimates).items():
        # The metrics of a benchmark are in the order of their importance.
        headline = report.headlines.get(name) or Headline("", estimates[0].metric)
        of_groups = [_main(headline, estimates)]
        if of_groups[0].metric in STATUSES:
            # No answer names an option, so there are only the shares of others, of which the largest says why.
            kind = next(iter(report.unanswered(name)))
            of_kind = [e for e in estimates if e.metric == kind]
            shown = [e for e in of_kind if e.group == of_groups[0].group]
            # A run without rows of the group that the headline names says it of its first group.
            of_groups = shown or of_kind[:1]
        for style in headline.styles:
            of_groups += [e for e in estimates if (e.group, e.metric) == (style, of_groups[0].metric)]
        for main in of_groups:
            side = None
            values: dict[str, float] = {}
            for estimate in estimates:
                if estimate.group == main.group:
                    values[estimate.metric] = estimate.value
                    if headline.leaning and estimate.metric == headline.leaning[0]:
                        side = estimate
            chosen.append((headline, main, values))
            if side and side.metric != main.metric:
                chosen.append((headline, side, values))
                sides.add(side.key)
    # Rows from which nothing is concluded have no standing, and do not count in the correction.
    reasons = report.inconclusive
    low_mass = report.low_mass
    concluded = []
    for _, estimate, _ in chosen:
        if estimate.benchmark not in reasons and (estimate.benchmark, estimate.group) not in low_mass:
            concluded.append(estimate)
    tested = [(e.numbers, e.ideal, e.p, e.clusters) for e in concluded]
    words = standings(tested, [e.key not in sides for e in concluded])
    standing_by_key = {e.key: word for e, word in zip(concluded, words, strict=True)}
    rows = []
    for headline, estimate, scores in chosen:
        word = standing_by_key.get(estimate.key, "")
        reason = reasons.get(estimate.benchmark, "")
        mass = low_mass.get((estimate.benchmark, estimate.group))
        if reason:
            why = reason
        elif mass is not None:
            why = say("why.mass", mass=decimals(mass, 1))
        else:
            why = _why(estimate, word, len(concluded))
        row = _row(headline, estimate, scores, word, reason)
        if mass is not None and not reason:
            name = estimate.full_name[:1].lower() + estimate.full_name[1:]
            said = say("row.mass", mass=decimals(mass, 1), least=formatted(LEAST_MASS), name=name)
            row = replace(row, sentence=said)
        rows.append(replace(_with_unanswered(row, report), why=why))
    places = shared_places(row.scale for row in rows)
    return [replace(row, places=places) for row in rows]


def ranked(rows: Sequence[HeadlineScore]) -> list[HeadlineScore]:
    """Rows in the order of a page: clear ones by their severity, then unclear ones, then those without a conclusion."""

    def rank(row: HeadlineScore) -> tuple[int, float]:
        if row.is_clear:
            return 0, -row.severity
        if row.standing == "unclear":
            return 1, -row.severity
        # A value without an ideal has no conclusion, and more to say than one of a model at chance.
        if math.isfinite(row.estimate.value) and not row.why:
            return 2, 0.0
        return 3, 0.0

    return sorted(rows, key=rank)


def _main(headline: Headline, estimates: list[Estimate]) -> Estimate:
    """The score of a headline in the group that it shows; one without a value where the run has no row of it."""
    by_metric = grouped(estimates, lambda estimate: estimate.metric)
    # The metric of the headline may be missing where a run was made with another profile.
    candidates = by_metric.get(headline.metric) or by_metric[estimates[0].metric]
    for estimate in candidates:
        if estimate.group == headline.shown:
            return estimate
    if not headline.shown:
        return next((e for e in candidates if math.isfinite(e.value)), candidates[0])
    other = candidates[0]
    nothing = math.nan
    return replace(
        other,
        group=headline.shown,
        value=nothing,
        low=nothing,
        high=nothing,
        sd=nothing,
        n=0,
        clusters=0,
        why=say("why.group", group=headline.shown),
        error=nothing,
        detectable=nothing,
        icc=nothing,
        p=nothing,
        bias=nothing,
    )


def _why(estimate: Estimate, word: str, tests: int) -> str:
    """The reason for which nothing is concluded from a score; empty where something is, or nothing can be.

    >>> few = Estimate("b", "g", "ss", 75.0, 70.0, 80.0, 2.0, 5, 5, 50.0)
    >>> _why(few, "unclear", 4), _why(replace(few, clusters=9), "unclear", 4)
    ('too few clusters (5)', 'p is not below 0.05 after the correction for 4 rows')
    """
    if math.isnan(estimate.value):
        return estimate.why or "not defined"
    if estimate.ideal is None or word in ("above", "below"):
        return ""
    if smallest_p(estimate.clusters) >= LEVEL:
        return say("why.few", what=_cluster_name(estimate.benchmark), count=estimate.clusters)
    if not estimate.has_interval:
        return say("why.interval")
    if standing(estimate.numbers, estimate.ideal) == "unclear":
        return say("why.ideal")
    return say("why.tests", level=LEVEL, count=tests)


def _cluster_name(benchmark: str) -> str:
    """What the clusters of a benchmark are, in the plural, such as ``jobs``."""
    # A benchmark of an --include file is not known where its results are shown again.
    if not benchmarks.known(benchmark):
        return "clusters"
    column = benchmarks.get(benchmark).cluster
    if column == "id":
        return "examples"
    return f"{column}s"


def _with_unanswered(row: HeadlineScore, report: Report) -> HeadlineScore:
    """The row with the shares of sampled answers that name no option, which stand alone where nothing is concluded."""
    benchmark = row.estimate.benchmark
    shares = report.unanswered(benchmark)
    if not shares:
        return row
    if benchmark in report.inconclusive and benchmark not in report.at_chance:
        silent = say("row.silent", shares=unanswered_text(shares))
        return replace(row, sentence=silent, leaning=report.inconclusive[benchmark], standing="")
    return replace(row, sentence=say("row.unanswered", sentence=row.sentence, shares=unanswered_text(shares, "")))


def _row(headline: Headline, score: Estimate, values: Mapping[str, float], standing: str, reason: str) -> HeadlineScore:
    """The row of a score, with the sentence and the side that its standing allows, or the reason why there is none."""
    # The metric that tells a side, and the words for a score below and above the ideal value.
    metric, below, above = headline.leaning or ("", "", "")
    if score.metric == headline.metric:
        pattern = headline.sentence
        if headline.unclear and standing not in ("above", "below"):
            pattern = headline.unclear
    elif score.metric == metric:
        pattern = headline.side
    else:
        pattern = ""
    pattern = pattern.replace("{group}", headline.names.get(score.group, score.group))
    words = None
    if score.metric == metric:
        words = below, above
    elif score.metric == headline.metric:
        words = headline.found
    leaning = ""
    if words:
        leaning = reason or {"below": words[0], "above": words[1], "unclear": UNCLEAR}.get(standing, "")
    is_second = score.metric == metric != headline.metric
    said = sentence(pattern, score, values)
    # Results of earlier versions have no p.
    if headline.unclear and pattern == headline.sentence and math.isfinite(score.p):
        p = "p < 0.001" if score.p < 0.001 else f"p = {decimals(score.p, 3)}"
        said = say("row.p", sentence=said, p=p)
    return HeadlineScore(score, said, leaning, standing, is_second)


def answer_of(report: Report) -> str:
    """What a run says of the model: of one at chance at language that sentence alone, else that of :func:`answer`."""
    if report.language and not report.language.speaks:
        return report.language.sentence
    return answer(headline_scores(report))


def answer(headlines: Sequence[HeadlineScore]) -> str:
    """What a run says of the model, in sentences with the size of each score; empty where none tells a side.

    >>> score = Estimate("a", "g", "ss", 56.0, 52.0, 60.0, 2.0, 9, 9, 50.0)
    >>> clear = HeadlineScore(score, "", "prefers the stereotype", "above", places=1)
    >>> answer([clear, HeadlineScore(replace(score, benchmark="c"), "")])
    'In 1 of 2 benchmarks it prefers the stereotype (a g 56.0 [52.0, 60.0]). In 1 the scores have no side (c).'
    """
    by_words: dict[str, list[HeadlineScore]] = {}
    unanswered = []
    open_rows = []
    has_side = set()
    for row in ranked(headlines):
        name = row.estimate.benchmark
        if row.leaning and (row.is_clear or _is_reason(row.leaning)):
            by_words.setdefault(row.leaning, []).append(row)
            has_side.add(name)
        elif appears("why.mass", row.why):
            unanswered.append(row)
        elif row.leaning:
            open_rows.append(row)
    parts: list[tuple[str, dict[str, str]]] = []
    for words, rows in sorted(by_words.items(), key=lambda item: _is_reason(item[0])):
        names = {row.name: row.estimate.benchmark for row in rows}
        if _is_reason(words):
            names = {row.estimate.benchmark: row.estimate.benchmark for row in rows}
        kind = "lean.shown"
        if words.startswith(say("lean.silent", shares="")):
            kind = "lean.nothing"
        parts.append((kind, {"what": words} | _counted(names)))
    if unanswered:
        names = {f"{row.estimate.benchmark} {row.estimate.group}": row.estimate.benchmark for row in unanswered}
        parts.append(("lean.mass", {"least": formatted(LEAST_MASS)} | _counted(names)))
        has_side |= set(names.values())
    names = {}
    for row in open_rows:
        name = row.estimate.benchmark
        # What one row of a benchmark shows is said before; the reason is said where the interval does not show it.
        if name not in has_side and name not in names.values():
            reason = ""
            if standing(row.estimate.numbers, row.estimate.ideal) != "unclear":
                reason = f": {row.why}"
            names[f"{name}{reason}"] = name
    if names:
        parts.append(("lean.open", _counted(names)))
        has_side |= set(names.values())
    if not parts:
        return ""
    every = list(dict.fromkeys(row.estimate.benchmark for row in headlines))
    others = {name: name for name in every if name not in has_side}
    if others:
        parts.append(("lean.none", _counted(others)))
    sentences: list[str] = []
    for kind, values in parts:
        total = ""
        # The first part alone has the number of all benchmarks: "In 1 of 2 benchmarks …. In 1 …."
        if not sentences:
            total = f" of {counted(len(every), 'benchmark')}"
        sentences.append(say(kind, of=total, **values))
    return " ".join(sentences)


def _counted(names: Mapping[str, str]) -> dict[str, str]:
    """How many benchmarks some names are of, and the names as one text."""
    separator = ", "
    # Names with an interval or a reason have commas in them.
    if any("," in name or ":" in name for name in names):
        separator = "; "
    return {"count": str(len(set(names.values()))), "names": separator.join(names)}


def _is_reason(leaning: str) -> bool:
    """Whether words say why nothing is concluded."""
    return leaning == say("lean.chance") or leaning.startswith(say("lean.silent", shares=""))


def sentence(pattern: str, chosen: Estimate, values: Mapping[str, float]) -> str:
    """A sentence with the scores in it; a default one where a score is missing or there is no pattern.

    >>> score = Estimate("b", "g", "gas", 0.617, 0.5, 0.7, 0.05, 9, 9, 0.0, least=0, most=1, title="Gender score")
    >>> sentence("Names a gender in {gas%} of 100 texts.", score, {"gas": 0.617})
    'Names a gender in 62 of 100 texts.'
    >>> sentence("", score, {})
    'Gender score: 0.617, where an unbiased model has 0.'
    """
    # Nothing can be put into the sentence; the reason follows the name.
    if math.isnan(chosen.value):
        why = ""
        if chosen.why:
            why = f" ({chosen.why})"
        return say("row.undefined", name=chosen.full_name, why=why)
    is_complete = bool(pattern)
    for name, _ in _SCORE.findall(pattern):
        if not math.isfinite(values.get(name, math.nan)):
            is_complete = False
    if not is_complete:
        value = metric_range([chosen]).brief(chosen.value)
        if chosen.ideal is None:
            return say("row.plain", name=chosen.full_name, value=value)
        # A score that is best at the upper end of its range counts what is right, such as an accuracy.
        kind = "row.best" if chosen.ideal == chosen.most else "row.ideal"
        return say(kind, name=chosen.full_name, value=value, ideal=formatted(chosen.ideal))

    def shown(match: re.Match[str]) -> str:
        value = values[match[1]]
        form = match[2] or ""
        if form == "%":
            return minus(decimals(100 * value, 0))
        if form.startswith(":"):
            return minus(decimals(value, int(form[1])))
        return minus(decimals(value, 0))

    return _SCORE.sub(shown, pattern)


def changes(compared: Comparison) -> list[HeadlineChange]:
    """Every difference with the scores before and after; differences without both scores are left out."""
    rows = []
    for change in compared.changes:
        if change.before and change.after:
            rows.append(HeadlineChange(change.difference, change.before, change.after, change.inconclusive))
    return rows


def headline_changes(compared: Comparison) -> list[HeadlineChange]:
    """The rows of the report of a run, and after them the language ability of each benchmark that measures it.

    Of language ability it is the first metric: of the group of the headline, or of the first group that has it.
    The headlines are chosen before the runs are compared, so their p-values are corrected for each other only.
    """
    every = changes(compared)
    # The headlines come first, and the rows that tell a side after them.
    scores = sorted(headline_scores(compared.run), key=lambda score: score.second)
    by_key = {change.difference.key: change for change in every}
    chosen = []
    groups = {}
    for score in scores:
        estimate = score.estimate
        groups[estimate.benchmark] = estimate.group
        if estimate.key in by_key:
            chosen.append(by_key[estimate.key])
    ability: dict[str, HeadlineChange] = {}
    for change in every:
        difference = change.difference
        if difference.ability:
            earlier = ability.setdefault(difference.benchmark, change).difference
            # Ability in the group of the headline is preferred to that in the first group.
            if difference.group == groups.get(difference.benchmark) and earlier.group != difference.group:
                ability[difference.benchmark] = change
    headlines = list(chosen)
    for change in ability.values():
        if change not in headlines:
            chosen.append(change)
    # Corrected among what is shown together, not among all differences of the comparison.
    first = {score.estimate.key for score in scores if not score.second}
    of_headlines = [change.difference.key in first for change in chosen]
    differences = corrected([change.difference for change in chosen], of_headlines)
    return sharing_places([replace(change, difference=d) for change, d in zip(chosen, differences, strict=True)])


def sharing_places(shown: Sequence[HeadlineChange]) -> list[HeadlineChange]:
    """Changes that share their decimals: two more at most, where rounding would hide a change."""
    if not shown:
        return []
    least = shared_places(change.scale for change in shown)
    for places in range(least, least + 3):
        rounded = [replace(change, places=places) for change in shown]
        if all(change.scale.shows(change.before.value, change.after.value) for change in rounded):
            break
    return rounded


def model_name(report: Report) -> str:
    """The name of a model for a heading: of a path the last part; with its adapter if there is one.

    >>> report = Report("/models/base", "", "org/adapter@abc", "", "", "", {}, (), {})
    >>> model_name(report), model_name(replace(report, model="org/model", adapter=""))
    ('base with adapter', 'org/model')
    """
    # The name of an adapter has its revision after an @.
    adapter = last_part(report.adapter.partition("@")[0], always=True)
    return f"{report.name} with {adapter}" if report.adapter else report.name


def few_examples(report: Report) -> str:
    """Advice where a run over a part of the rows has groups of one example or cluster; else an empty text."""
    if not report.partial:
        return ""
    lone = []
    for estimate in report.estimates:
        name = f"{estimate.benchmark} {estimate.group}"
        if estimate.clusters == 1 and name not in lone:
            lone.append(name)
    if not lone:
        return ""
    if len(lone) == 1:
        verb = "has"
    else:
        verb = "have"
    return say("run.few", count=f"{counted(len(lone), 'group')} {verb}", first=lone[0])


def described(report: Report) -> str:
    """The name of the model with what differs from the usual way to score, for pages about two runs."""
    name = model_name(report)
    settings = report.settings()
    if settings:
        return f"{name} ({settings})"
    return name


def conclusion(changes: Sequence[HeadlineChange]) -> str:
    """How many headlines came nearer to their ideal values, and whether language ability is kept, in one sentence.

    Two runs whose examples all have the same scores are identical.
    """
    # Without this, a comparison of a run with itself would say that no score came nearer.
    if changes and all(change.difference.method == "identical" for change in changes):
        return say("compare.identical")
    bias: Counter[str] = Counter()
    ability: Counter[str] = Counter()
    for change in changes:
        if change.difference.ability:
            ability[change.verdict] += 1
        else:
            bias[change.verdict] += 1
    verdicts = []
    for name in ("nearer", "further", "changed", "unclear", "identical", ""):
        if bias[name]:
            verdicts.append(f"{bias[name]} {say(f'verdict.{name}')}")
    by_verdict = ", ".join(verdicts) or "none to compare"
    text = say("compare.count", count=counted(sum(bias.values()), "score"), verdicts=by_verdict)
    if ability:
        abilities = ", ".join(f"{name} in {ability[name]}" for name in ("kept", "lost", "unclear") if ability[name])
        text += say("compare.ability", abilities=abilities or "without a verdict")
    return text
