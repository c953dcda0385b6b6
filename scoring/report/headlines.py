"""The headline of each benchmark: one score of a run, or its change between two runs, and what it means in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cards.common.draw import FREE, glance_html, one_line
from cards.common.numbers import Scale, counted, decimals, formatted, minus, shared_places
from cards.common.sentences import say, unanswered_text
from cards.common.text import grouped
from cards.common.verdict import ability_verdict, standings, verdict
from cards.results import STATUSES, last_part
from scoring.report.numbers import by_benchmark, metric_range
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
    ``second`` marks the row of a metric that tells the side of a benchmark whose headline is another metric, and
    ``places`` are the decimals that all rows share.
    """

    estimate: Estimate
    sentence: str
    leaning: str = ""
    standing: str = ""
    second: bool = False
    places: int | None = None

    @property
    def scale(self) -> Scale:
        """The range of possible values, with the decimals of all rows."""
        return replace(metric_range([self.estimate]), places=self.places)


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

        A text is, for example, ``stereoset: SS 60.0 → 55.0, nearer``.
        """
        differences = {}
        for change in headline_changes(self):
            difference = change.difference
            before, after, _ = change.texts
            metric = getattr(difference, name)
            text = f"{difference.benchmark}: {metric} {before} → {after}, {change.verdict or 'no verdict'}"
            differences[text] = difference
        return differences


def headline_scores(report: Report) -> list[HeadlineScore]:
    """The rows of a run, in the order of its benchmarks.

    A benchmark has a row for the metric of its headline, and another one for the metric that tells a side where that
    is another metric. Without a headline of its own it has the first metric, which is the most important one, of its
    first group. So has a run without the group that the headline names.
    """
    chosen: list[tuple[Headline, Estimate, Mapping[str, float]]] = []
    sides = set()
    for name, estimates in by_benchmark(report.estimates).items():
        # The metrics of a benchmark are in the order of their importance.
        headline = report.headlines.get(name) or Headline("", estimates[0].metric)
        main = _main(headline, estimates)
        if main.metric in STATUSES:
            # No answer names an option, so there are only the shares of others, of which the largest says why.
            kind = next(iter(report.unanswered(name)))
            main = next(e for e in estimates if (e.metric, e.group) == (kind, main.group))
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
    concluded = []
    for _, estimate, _ in chosen:
        if estimate.benchmark not in reasons:
            concluded.append(estimate)
    tested = [(e.numbers, e.ideal, e.p, e.clusters) for e in concluded]
    words = standings(tested, [e.key not in sides for e in concluded])
    standing_by_key = {e.key: word for e, word in zip(concluded, words, strict=True)}
    rows = []
    for headline, estimate, scores in chosen:
        row = _row(headline, estimate, scores, standing_by_key.get(estimate.key, ""), reasons.get(estimate.benchmark))
        rows.append(_with_unanswered(row, report))
    places = shared_places(row.scale for row in rows)
    return [replace(row, places=places) for row in rows]


def _main(headline: Headline, estimates: list[Estimate]) -> Estimate:
    """The score of a headline, in the group that it shows."""
    by_metric = grouped(estimates, lambda estimate: estimate.metric)
    # The metric of the headline may be missing where a run was made with another profile.
    candidates = by_metric.get(headline.metric) or by_metric[estimates[0].metric]
    # A run over a part of the rows may lack the group that is meant to be shown.
    defined = [e for e in candidates if math.isfinite(e.value)] or candidates
    for estimate in defined:
        if estimate.group == headline.shown:
            return estimate
    return defined[0]


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


def _row(
    headline: Headline, score: Estimate, values: Mapping[str, float], standing: str, reason: str | None
) -> HeadlineScore:
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
    leaning = ""
    is_second = False
    if score.metric == metric:
        leaning = reason or {"below": below, "above": above, "unclear": UNCLEAR}.get(standing, "")
        is_second = metric != headline.metric
    return HeadlineScore(score, sentence(pattern, score, values), leaning, standing, is_second)


def answer_of(report: Report) -> str:
    """What a run says of the model: of one at chance at language that sentence alone, else that of :func:`answer`."""
    if report.language and not report.language.speaks:
        return report.language.sentence
    return answer(headline_scores(report))


def answer(headlines: Sequence[HeadlineScore]) -> str:
    """What a run says of the model in one sentence, from the sides of its benchmarks; empty where none tells a side.

    >>> score = Estimate("a", "g", "ss", 56.0, 52.0, 60.0, 2.0, 9, 9, 50.0)
    >>> answer([HeadlineScore(score, "", "prefers the stereotype"), HeadlineScore(replace(score, benchmark="c"), "")])
    'In 1 of 2 benchmarks it prefers the stereotype (a). In 1 the scores have no side (c).'
    """
    sides: dict[str, str] = {}
    for headline in headlines:
        name = headline.estimate.benchmark
        # A benchmark may have two rows, of which one tells a side.
        sides[name] = sides.get(name) or headline.leaning
    if not any(sides.values()):
        return ""
    by_words: dict[str, list[str]] = {}
    # What is beyond noise comes first, and benchmarks without sides come last.
    for name in sorted(sides, key=lambda name: (not sides[name], _is_reason(sides[name]), sides[name] == UNCLEAR)):
        by_words.setdefault(sides[name], []).append(name)
    parts: list[str] = []
    for words, names in by_words.items():
        if not words:
            kind = "lean.none"
        elif words == UNCLEAR:
            kind = "lean.open"
        elif words.startswith(say("lean.silent", shares="")):
            kind = "lean.nothing"
        else:
            kind = "lean.shown"
        total = ""
        # The first part alone has the number of all benchmarks: "In 1 of 2 benchmarks …. In 1 …."
        if not parts:
            total = f" of {counted(len(sides), 'benchmark')}"
        parts.append(say(kind, count=len(names), of=total, what=words, names=", ".join(names)))
    return " ".join(parts)


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
