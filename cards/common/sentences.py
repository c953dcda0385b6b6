"""Every sentence that is said of scores: by a report, a comparison, the terminal, the leaderboard and a card.

Each sentence has the rule that says when it may be said. The words are the field's: *95 % interval*, *minimum
detectable effect*, *power*. A sentence says what was measured; what follows needs an interval without the ideal value.

A benchmark has a row for its headline metric, and one for the metric that tells a side, where that is another one. The
number, interval, dot, verdict and sentence of a row are about one metric.

>>> say("lean.shown", count=1, of=" of 2 benchmarks", what="prefers the stereotype", names="crows_pairs")
'In 1 of 2 benchmarks it prefers the stereotype (crows_pairs).'
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with places for values, and the rule that says when it is said."""

    text: str
    rule: str


def say(name: str, /, **values: Any) -> str:
    """The sentence of that name with values in its places."""
    return SENTENCES[name].text.format(**values)


def of_row(benchmark: str, metric: str, standing: str = "") -> str:
    """The pattern of the row of a metric of a benchmark.

    ``standing`` is ``unclear`` for the sentence of a row whose interval holds the ideal value, where that is another.
    """
    return SENTENCES[".".join(filter(None, ("row", benchmark, metric, standing)))].text


#: What each kind of sampled answer does that names no option (:data:`cards.results.STATUSES`).
_UNANSWERED = {
    "refused": "refuse",
    "unknown": "say that it cannot be known",
    "unclear": "are unclear",
    "cut": "are cut off",
    "empty": "are empty",
    "blocked": "are blocked",
}


def unanswered_text(shares: Mapping[str, float], of: str = " of the answers") -> str:
    """The percentages of answers that name no option, in words.

    >>> unanswered_text({"empty": 80.0, "refused": 0.2})
    '80 % of the answers are empty, < 1 % refuse'
    """
    parts = []
    for kind, share in shares.items():
        number = f"{share:.0f}" if share >= 1 else "< 1"
        parts.append(f"{number} %{of} {_UNANSWERED[kind]}")
        of = ""
    return ", ".join(parts)


_PATTERNS: dict[str, re.Pattern[str]] = {}


def appears(name: str, text: str) -> bool:
    """Whether a text has the sentence of that name, with any values in its places.

    >>> appears("compare.identical", "The two runs are identical: every example has the same scores in both.")
    True
    """
    if name not in _PATTERNS:
        # What is searched for may begin anywhere, so a value at the beginning is left out.
        parts = re.split(r"\{[^}]*\}", re.sub(r"^\{[^}]*\}", "", SENTENCES[name].text))
        # A value may have points, as in 0.5, and not the end of a sentence.
        _PATTERNS[name] = re.compile(r"(?:[^.]|\.(?=\S))*?".join(re.escape(part) for part in parts))
    return bool(_PATTERNS[name].search(" ".join(text.split())))


_UNCLEAR = "The 95 % interval of the metric of the row holds its ideal value, or nothing is concluded from the row."
_APART = "The 95 % interval of the metric of the row does not hold its ideal value."
_ROW = "The run has a value of every score that is named, in the group of the row."
_MORE = "The command prints a part of what it measured."

SENTENCES: Mapping[str, Sentence] = {
    # The rows of a report: {ss} is a score as a whole number, {gas%} one times 100, {r:2} one with two decimals.
    "row.neutral.gas": Sentence(
        "{gas%} of 100 continuations contain a gendered pronoun (those with both genders left out); in "
        "{friend_gendered%} of 100 the first one refers to the friend.",
        _ROW,
    ),
    "row.neutral.friend_gendered": Sentence(
        "{friend_gendered%} of 100 sampled continuations give the friend she or he, and {friend_they%} they.", _ROW
    ),
    "row.neutral.friend_female": Sentence(
        "Of 100 continuations that give the friend she or he, {friend_female%} say she.", _ROW
    ),
    "row.occugender.labour_correlation": Sentence(
        "P(female) follows the share of women in a job with a correlation of {labour_correlation:2}.",
        f"{_ROW} {_APART}",
    ),
    "row.occugender.labour_correlation.unclear": Sentence(
        "The correlation of P(female) with the share of women in a job is {labour_correlation:2}.",
        f"{_ROW} {_UNCLEAR}",
    ),
    "row.occugender.gender_gap": Sentence(
        "The answer words have {answer_mass:1} % of the probability; of this {p_male} % is male and {p_female} % "
        "female, a gap of {gender_gap} points.",
        _ROW,
    ),
    "row.unstereo.us_score": Sentence(
        "Finds she and he about equally likely in {us_score} of 100 sentences without gendered language.", _ROW
    ),
    "row.unstereo.pref_disparity@0.5": Sentence(
        "Sentences with she that are more likely, minus those with he: {pref_disparity@0.5} of 100.", _ROW
    ),
    "row.stereoset.icat": Sentence(
        "ICAT is {icat}: it prefers a meaningful word in {lms} of 100 sentences, and 100 needs all of them and no "
        "preference for stereotypes.",
        _ROW,
    ),
    "row.stereoset.ss": Sentence("Prefers the stereotype in {ss} of 100 sentences.", _ROW),
    "row.crows_pairs.ss": Sentence("Prefers the more stereotypical sentence in {ss} of 100 pairs.", _ROW),
    "row.biaske.ss": Sentence("Prefers the stereotype in {ss} of 100 pairs of {group}.", _ROW),
    "row.bbq.scaled_bias_score": Sentence(
        "The bias score of its answers to open questions is {scaled_bias_score:2} (\N{MINUS SIGN}1 to 1); in "
        "{accuracy%} of 100 it answers that nobody can know.",
        _ROW,
    ),
    "row.gest.g_s": Sentence(
        "The odds of a male speaker are {g_s:2} times as high in sentences with stereotypes about men as in those with "
        "stereotypes about women.",
        _ROW,
    ),
    "row.gest.log_ratio": Sentence("The mean logarithm of the odds of a male speaker is {log_ratio:2}.", _ROW),
    "row.winogenerated.labour_correlation_jobs": Sentence(
        "P(she) follows the share of women in a job (correlation {labour_correlation_jobs:2}); {majority} of 100 "
        "sentences get the pronoun of the majority.",
        f"{_ROW} {_APART}",
    ),
    "row.winogenerated.labour_correlation_jobs.unclear": Sentence(
        "The correlation of P(she) with the share of women in a job is {labour_correlation_jobs:2}.",
        f"{_ROW} {_UNCLEAR}",
    ),
    "row.winogenerated.gender_gap": Sentence("P(he) minus P(she) is {gender_gap} points.", _ROW),
    "row.pronouns.consistency": Sentence(
        "Keeps a declared neopronoun in {consistency} of 100 sentences, where a guess keeps 17.", _ROW
    ),
    "row.stated_gender.lean": Sentence(
        "Leans to the gender of the majority in a job by {lean:2} nats; that gender is the more probable one in "
        "{stereotype_share} of 100 sentences.",
        _ROW,
    ),
    "row.ideal": Sentence(
        "{name}: {value}, where an unbiased model has {ideal}.",
        "There is no sentence of the metric, or a score that it names is missing; the metric has an ideal value.",
    ),
    "row.plain": Sentence("{name}: {value}.", "As row.ideal, of a metric without an ideal value."),
    "row.best": Sentence(
        "{name}: {value}, of {ideal} at best.",
        "As row.ideal, of a metric whose ideal value is the upper end of its range: it counts what is right.",
    ),
    "row.mass": Sentence(
        "The answer words have {mass} % of the probability, and {least} % are needed: nothing is concluded of "
        "the {name}.",
        "The probability of all answer words in the group of the row is below 10 %.",
    ),
    "row.undefined": Sentence("{name}: not defined{why}.", "The score has no value."),
    "row.unanswered": Sentence(
        "{sentence} Of its answers {shares}.", "Some sampled answers of the group of the row name no option."
    ),
    "row.p": Sentence(
        "{sentence} Against a correlation of 0, {p}.",
        "The row says that something follows the labour market, and has a p.",
    ),
    "row.silent": Sentence("No conclusion: {shares}.", "As lean.silent."),
    # Sides.
    "lean.unclear": Sentence(
        "no direction shown",
        "The row tells a side, and its interval holds the ideal value after the correction for all rows.",
    ),
    "lean.chance": Sentence(
        "answers at chance", "The row tells a side, and the model is not better than chance at language or at the task."
    ),
    "lean.silent": Sentence(
        "no conclusion: {shares}",
        "More than half of the sampled answers name no option (cards.results.MOST_UNANSWERED).",
    ),
    "lean.shown": Sentence(
        "In {count}{of} it {what} ({names}).",
        "The rows of so many benchmarks have this side beyond noise, after the correction for all rows.",
    ),
    "lean.open": Sentence(
        "In {count}{of} the 95 % interval does not show a direction ({names}).",
        "Some row of the run tells a side, and in so many benchmarks none is beyond noise.",
    ),
    "lean.nothing": Sentence(
        "In {count}{of} there is {what} ({names}).", "The rows of so many benchmarks have lean.silent."
    ),
    "lean.mass": Sentence(
        "In {count}{of} the answer words have less than {least} % of the probability, so nothing is concluded "
        "({names}).",
        "The probability of all answer words in some group with a row is below 10 %.",
    ),
    "lean.none": Sentence(
        "In {count}{of} the scores have no side ({names}).",
        "Some row of the run tells a side, and so many benchmarks have no row that could.",
    ),
    # The reason for which nothing is concluded from a row.
    "why.mass": Sentence(
        "the answer words have {mass} % of the probability", "As row.mass; the reason beside the score."
    ),
    "why.group": Sentence("no row of group {group}", "The run has no example of the group of a headline."),
    "why.few": Sentence(
        "too few {what} ({count})",
        "The smallest p that so few clusters can have is 0.05 or more, and the row has an ideal value.",
    ),
    "why.interval": Sentence("no interval", "The row has an ideal value, and an end of its interval is not known."),
    "why.ideal": Sentence("the interval holds the ideal", "The 95 % interval of the row holds its ideal value."),
    "why.tests": Sentence(
        "p is not below {level} after the correction for {count} rows",
        "The interval of the row does not hold its ideal value, and p after Holm's correction is 0.05 or more.",
    ),
    # Power.
    "power.score": Sentence(
        "minimum detectable effect {effect}",
        "The metric has an ideal value and an interval; the effect is a distance from the ideal value that 80 % of "
        "runs of this size show.",
    ),
    "power.head": Sentence(
        "MDE: minimum detectable effect, with a power of 80 %.",
        "A table of the terminal has a minimum detectable effect.",
    ),
    "power.change": Sentence(
        "Minimum detectable effects (power 80 %): {effects}.",
        "Some headline change has a verdict and a variance.",
    ),
    "power.note": Sentence(
        "Minimum detectable effect: the smallest true distance from the ideal value that 80 % of runs of this size "
        "show (power 80 %).",
        "A report has a row with an ideal value.",
    ),
    "power.note.change": Sentence(
        "Minimum detectable effect: the smallest true change that 80 % of such comparisons show (power 80 %), from the "
        "variance of this comparison.",
        "A comparison has a headline.",
    ),
    "power.planned": Sentence(
        "{rows} rows in {clusters} clusters have these minimum detectable effects: power 80 %, p below 0.05, number "
        "of tests in one correction {tests}. They come from {variance}.",
        "probes power has a score to plan for.",
    ),
    # A comparison.
    "compare.identical": Sentence(
        "The two runs are identical: every example has the same scores in both.", "Every difference is identical."
    ),
    "compare.count": Sentence("Of {count}: {verdicts}.", "The runs share a headline, and are not identical."),
    "compare.ability": Sentence(
        " Language ability: {abilities}.", "A benchmark of both runs measures language ability."
    ),
    "compare.more": Sentence(
        "--verbose shows {count} more rows.",
        _MORE,
    ),
    "verdict.nearer": Sentence(
        "nearer to the ideal",
        "The change and its direction to the ideal value are significant after Holm's correction.",
    ),
    "verdict.further": Sentence("further from the ideal", "As verdict.nearer, in the other direction."),
    "verdict.changed": Sentence(
        "changed (direction open)", "The change is significant, and its direction against the ideal value is not."
    ),
    "verdict.unclear": Sentence("unclear", "The change is not significant after Holm's correction."),
    "verdict.identical": Sentence("identical", "Every example has the same score in both runs."),
    "verdict.kept": Sentence(
        "ability kept", "The whole interval of language ability is above a loss of 2 % of the range."
    ),
    "verdict.lost": Sentence("ability lost", "The whole interval of language ability is below 0."),
    "verdict.": Sentence("no verdict", "The metric has no ideal value, or there is no interval."),
    # The next step: commands stand between backticks.
    "next.data": Sentence(
        "`probes build {sets}` makes the data of the others, and `probes score {model}` scores them.",
        "The page of a run that lacks data that were asked for.",
    ),
    "next.rows": Sentence("`probes score {model}` without `--limit` scores all rows.", "The run has a --limit."),
    "next.other": Sentence(
        "`probes compare {folder} OTHER` compares this model with another one of the same source{which}.",
        "Others published the responses.",
    ),
    "next.real": Sentence(
        "`probes score ORG/MODEL --beside {folder}` scores a real model, and shows this run beside it{which}.",
        "The model is one of the bundled ones.",
    ),
    "next.base": Sentence(
        "`probes compare {folder} BASE` says whether this run is nearer to the ideal than that of the model alone "
        "({which}BASE that of the other run).",
        "The run has an adapter, and its responses are not those of others.",
    ),
    "next.mitigate": Sentence(
        "`probes mitigate table {model}` tries the recipes against bias and says what each costs.",
        "Some row has a side beyond noise; the model is neither bundled nor with an adapter.",
    ),
    "next.beside": Sentence(
        "`probes score OTHER --beside {folder}` shows this run beside another model{which}.",
        "As next.mitigate, where no row has a side beyond noise.",
    ),
    # Notes of the page of a run.
    "report.rows": Sentence(
        "{scored} of the {asked} configs that were asked for were scored.",
        "The page of a run that lacks data that were asked for.",
    ),
    "report.settings": Sentence("Scored with: {settings}.", "The run differs from the usual way to score."),
    "report.beside": Sentence(
        "Beside it, where the data are the same: {others}.", "The run is shown beside others (--beside)."
    ),
    "report.scale": Sentence(
        "The dot is the score, the line its 95 % interval, on one scale for all metrics.", "A report has a row."
    ),
    "among": Sentence(
        "Higher than {place} of {count} {kind} models whose answers others published ({years}).",
        "At least five real models of the kind have the score; the run has no prompt, chat template or adapter. A "
        "range is what the interval of the score allows.",
    ),
    "among.other": Sentence(
        "They were asked otherwise (definitions or number of examples), so the place is approximate.",
        "The profile or the number of examples of a real model is another.",
    ),
    "report.only": Sentence(
        "Scores are of these examples only; what they do not mean is in the details of each benchmark.",
        "A report has a row.",
    ),
    "report.decided": Sentence(
        "Of the rows of each headline: the two that show most what the model does in most of them, and one against it. "
        "A bar is the share of a side in the probability of both.",
        "A benchmark of the run compares two sides and has their probabilities.",
    ),
    "report.names": Sentence(
        "The grey name behind a title is the name of the metric in results.json and in a condition of --fail-if.",
        "A report has a score.",
    ),
    "report.details": Sentence(
        "The dot is the value, the line its 95 % interval, the upright mark the value of an unbiased model where there "
        "is one.",
        "A report has a score.",
    ),
    "report.same": Sentence(
        "{name} has the same data and says what these scores mean.",
        "Two benchmarks of a report have one data set.",
    ),
    "report.largest": Sentence(
        "Those of the headline with the largest absolute difference of the two numbers. A line marks what differs "
        "between two sentences.",
        "As report.decided.",
    ),
    "report.printed": Sentence(
        "In print, the details have what the scores mean. All groups with their intervals, plots and further examples "
        "are in report.html itself.",
        "The page of a run; it is shown on paper alone.",
    ),
    "report.files": Sentence(
        "Every number is in results.json, every example in the folder examples, in the folder of this page.",
        "The page of a run.",
    ),
    "summary.none": Sentence("No score of this run tells a side.", "The summary of a run without a side."),
    "summary.caption": Sentence(
        "Gender bias of {model} ({dtype}), with intervals of 95 percent over clusters. Verdicts are corrected for all "
        "rows.",
        "The table of a run for a paper.",
    ),
    # Captions of plots.
    "plot.scores": Sentence(
        "Marks are scores, lines their 95 % intervals, dotted lines the values of an unbiased model.",
        "A benchmark has scores by group.",
    ),
    "plot.scores.ss": Sentence(
        "A stereotype score of 50 prefers the stereotype as often as not; the language-model score, ICAT and the share "
        "of facts are best at 100.",
        "As plot.scores, and one of the scores is a stereotype score.",
    ),
    "plot.strengths": Sentence(
        "Pairs by the difference of the scores of their two sentences (natural logarithm). Right of 0 the model "
        "prefers the stereotype, left of it the other sentence. The outermost bars hold everything beyond. The "
        "stereotype score counts sides alone; a model without a preference has a narrow heap around 0.",
        "A benchmark has pairs of a stereotype and another sentence.",
    ),
    "plot.fairness": Sentence(
        "Share of pairs whose two log-probabilities differ by at most ε (natural logarithm). The dotted line is the "
        "published ε = {neutral}; an unbiased model stays at 100 %. Filtered curves keep sentences whose strongest "
        "word leans less to one gender.",
        "A benchmark has log-probabilities of sentences with she and with he.",
    ),
    "plot.preference": Sentence(
        "Share of pairs where one sentence is more probable by more than {neutral} (natural logarithm). Equal bars on "
        "both sides, however long, mean no disparity. Rows with “≤ {threshold}” keep sentences with |MaxPMIDiff| at "
        "most that.",
        "As plot.fairness.",
    ),
    "plot.topics": Sentence(
        "Share of continuations with female or male forms. No prompt mentions a gender, so an unbiased model stays at "
        "0. The dot is the gender attribute score, which leaves continuations with both out.",
        "A benchmark has continuations with the gender of their forms.",
    ),
    "plot.jobs": Sentence(
        "What the model expects of a person with this job, without a debiasing prompt, mean over prompts of a kind. "
        "The order of the jobs is the share of women who work in them, which the dot marks. A model that repeats the "
        "labour market ends its first bar at the dot. One that does not look at the job has the same bars everywhere. "
        "The line at the end of the first bar is its 95 % interval (Student's t). That of all jobs is over jobs; that "
        "of one job is over its prompts, where there are several.",
        "A benchmark has probabilities of female, diverse and male by job.",
    ),
    "plot.corpus": Sentence(
        "Both are larger towards female. If the model follows the corpus, the dots rise to the right. The axis of the "
        "corpus is the mean δ of the words.",
        "A run is shown beside a corpus.",
    ),
    "plot.corpus.dots": Sentence("A dot is an example.", "As plot.corpus, with at most 100 examples in each group."),
    "plot.corpus.parts": Sentence(
        "Examples are in {parts} parts of equal size, by the corpus's lean.",
        "As plot.corpus, with more examples in some group.",
    ),
    # Notes of a comparison.
    "compare.scale": Sentence(
        "The ring is the score before, the arrow ends at the score after. All metrics share one scale: the ideal value "
        "is in the middle, the lowest possible score on the left, the highest on the right.",
        "The page of a comparison has a headline.",
    ),
    "compare.rule": Sentence(
        "A score is nearer or further only when the change and its direction against the ideal have p below 0.05. "
        "Both p are after Holm's correction for the rows of this table. A change without a sure direction is called "
        "changed. Language ability is kept when the whole interval is above a loss of {margin} % of the range.",
        "The page of a comparison has a headline.",
    ),
    "compare.tests": Sentence(
        "Of the {number} differences below, {below} p below 0.05; about {by_chance} would where nothing changed. After "
        "Holm's correction for all of them {corrected} left (a filled dot). Only those have a verdict, and fewer than "
        "six clusters have none.",
        "Some difference of the page has a p.",
    ),
    "compare.difference": Sentence(
        "A difference is the value after minus that before, over the same examples. The line is its 95 % interval, "
        "computed from the pairs of answers; the upright mark is no difference. A filled dot has p below 0.05 after "
        "Holm's correction over all differences of the page.",
        "The page of a comparison.",
    ),
    "compare.names": Sentence(
        "The grey name behind a title is the name of the metric in compare.json.",
        "The page of a comparison has a difference.",
    ),
    "compare.printed": Sentence(
        "In print, the differences of all groups are left out; they are in compare.html itself.",
        "The page of a comparison; it is shown on paper alone.",
    ),
    "compare.files": Sentence(
        "Every number is in compare.json in the folder of this page.", "The page of a comparison."
    ),
    "compare.written": Sentence("The comparison is {file}.", "probes compare has written its page."),
    "compare.chance": Sentence(
        "The {which}, {name}, is at chance. {tests}", "One of the two runs is not better than chance at language."
    ),
    "compare.no_ways": Sentence(
        "The runs have no agreement of two ways in common; score each with --ways, such as likelihood,choice.",
        "probes compare has further runs, and none of their scores is the agreement of two ways.",
    ),
    "compare.few_models": Sentence(
        "{count} models are too few to compare how two ways rank them; give {fewest} runs or more.",
        "probes compare has fewer runs than a rank correlation needs.",
    ),
    # Conditions that end a command with status 3.
    "fail.score": Sentence("{condition}: {name} is {value}.", "A condition of --fail-if holds for the score."),
    "fail.undefined": Sentence(
        "{condition}: {name} has no value, so the condition may hold.",
        "The score of a condition of --fail-if has no value.",
    ),
    "fail.verdict": Sentence(
        "{verdict}: {name}, {before} → {after}, {difference}.", "A headline has a verdict that --fail-on names."
    ),
    # The leaderboard.
    "leaderboard.head": Sentence(
        "{models}, {tasks}. The table has one score a benchmark; all scores are below it. Choose the head of a column "
        "to sort by the distance from the ideal. Models whose intervals overlap may still differ. A score near the "
        "ideal says nothing about bias that the task does not measure.",
        "The page of a leaderboard.",
    ),
    "leaderboard.chance": Sentence(
        "A score from which nothing is concluded, such as one at chance, has no colour and no rank: it is below the "
        "others.",
        "Some score of the page has a reason why nothing is concluded from it.",
    ),
    "leaderboard.hub": Sentence(
        "Leaderboards of the Hub leave out models with a base model, which all adapters have; this page has them. The "
        "Hub takes one value of each task, so the other scores of a task are those of runs.",
        "The page of a leaderboard.",
    ),
    "leaderboard.rule": Sentence(
        "A score is nearer or further where the change and its direction against the ideal have p below 0.05. Both p "
        "are after Holm's correction for the scores of the row; else the score is changed (the direction is open) or "
        "unclear. Where a run has its comparison with the base (`probes compare`), the verdict is that of its paired "
        "differences. Else the difference is that of independent scores, whose interval is wider.",
        "The page of a leaderboard.",
    ),
    "leaderboard.plots": Sentence(
        "A dot is a value, the bar is its interval, and the vertical line is the ideal. Models are sorted by distance "
        "from the ideal.",
        "The page of a leaderboard.",
    ),
    "trend.changes": Sentence(
        "{count} between neighbours {are} significant.",
        "The page draws the scores of a family by size or by step of training.",
    ),
    "trend.lines": Sentence(
        "A solid line joins neighbours whose scores differ significantly (p below 0.05 after Holm's correction for the "
        "line), a dotted line the others. The scores are compared as independent ones, so `probes compare` has more "
        "power. The dashed horizontal line is the ideal value, where it is near.",
        "As trend.changes.",
    ),
    "leaderboard.left": Sentence(
        "Left out: {benchmark} of {path} (profile {profile}), because it has no value of {metric} for a published "
        "task.",
        "A run has no value of the headline of a benchmark.",
    ),
    "leaderboard.no_headline": Sentence(
        "Left out: {benchmark} of {path} (profile {profile}), because it has no headline.",
        "A benchmark of a run has no headline.",
    ),
    "leaderboard.intervals": Sentence("Below a score: its 95 % interval.", "The page of a leaderboard."),
    "leaderboard.refused": Sentence("Left out: {where}: {error}", "The scores of a source cannot be read or be."),
    "leaderboard.changed": Sentence(
        "{where} says other values of {names} than its examples have; the page shows those of the examples.",
        "The results of a run differ from the scores of its examples.",
    ),
    "leaderboard.unknown": Sentence(
        "{where} has scores of {names}, {unknown}: they are shown without an ideal value and a verdict.",
        "A run of the page has a benchmark that the project does not have.",
    ),
    # Cards of models.
    "card.partial": Sentence("**This run is partial.** It lacks {gaps}.", "The run of a card lacks rows or data."),
    "card.reported": Sentence(
        "{names}: reported by its owner, because the run has no examples from which this version can compute it.",
        "A run of a card has no examples of a benchmark, or those of another version.",
    ),
    "card.changed": Sentence(
        "{names}: the results of the run say other values than its examples have; these are those of the examples.",
        "The results of a run differ from the scores of its examples.",
    ),
    "card.intervals": Sentence(
        "Intervals are 95 % intervals (bootstrap over clusters, or exact for rare outcomes and few clusters).",
        "A card has a run.",
    ),
    "card.more": Sentence(
        "{count}, of parts of these groups, are in the report of the run.",
        "The run of a card has scores of parts of configs.",
    ),
    "card.no_task": Sentence(
        "{benchmark}: no published data set has a task for it; its scores are only in the card.",
        "A benchmark of the run has no headline.",
    ),
    "card.no_rows": Sentence(
        "{benchmark}: its rows are in no published data set; its scores are only in the card.",
        "A benchmark of the run was scored over rows that are not published.",
    ),
    "card.no_metric": Sentence(
        "{benchmark}: profile {profile} has no score of the task ({metric}); scores are only in the card.",
        "The run has no score of the headline of a benchmark.",
    ),
    "card.no_config": Sentence(
        "{where} has no task {config}; the score is only in the card.",
        "The published data set of a score does not list its config as a task.",
    ),
    "card.other_framework": Sentence(
        "only {framework} scores {where} on the Hub; the score is only in the card.",
        "The published data set leaves its scores to another framework.",
    ),
    "card.other_rows": Sentence(
        "the rows scored are not those of {where}; it is left out.", "The digest of the rows is not the published one."
    ),
    "card.some_rows": Sentence("only {part} of {where} were scored; it is left out.", "The run has a --limit."),
    "card.inconclusive": Sentence(
        "{why}; the score is only in the card.",
        "Nothing is concluded from the benchmark (cards.results.Report.inconclusive).",
    ),
    "card.mass": Sentence(
        "the answer words have {mass} % of the probability, and {least} % are needed; the score is only in the card.",
        "As row.mass.",
    ),
    "card.undefined": Sentence("{name} is not defined ({why}); it is left out.", "The score has no value."),
    "card.endless": Sentence(
        "{name} has no worst value, and the Hub wants values of which higher is better; it is left out.",
        "The score has an ideal value and an endless range, and is no ratio.",
    ),
    "card.other_metric": Sentence(
        "the run has no {metric}, which {framework} computes.",
        "The board of the data set has a metric of which the run has no value.",
    ),
    # Cards of adapters and prompts.
    "adapter.paired": Sentence(
        "Both runs have the same examples, so intervals of differences are those of pairs; all are 95 % intervals. "
        "The table has the first metric of each benchmark for at most {groups} groups.",
        "Some difference of the card has a value.",
    ),
    "adapter.none": Sentence(
        "The recipe measured no scores before and after.",
        "No difference of the card has a value.",
    ),
    "adapter.leaked": Sentence(
        "**{count} of the training rows are in a test split**, so scores on the neutral probes say nothing about new "
        "text.",
        "Training rows of the adapter are in a test split.",
    ),
    "adapter.limits": Sentence(
        "The numbers apply to the benchmarks above: English text, and mostly female and male forms. A smaller number "
        "does not prove that a model is fair: bias that no benchmark measures may be unchanged.",
        "The card of an adapter or a prompt.",
    ),
    "adapter.ability": Sentence(
        "A model may lose language quality or knowledge; read the perplexity and the other scores together.",
        "The card of an adapter or a prompt.",
    ),
    "adapter.model": Sentence(
        "It fits the revision of {base} named above, and no other model.",
        "The card of an adapter or a prompt.",
    ),
    "adapter.use": Sentence(
        "Its use is research on bias, not decisions about people.",
        "The card of an adapter or a prompt.",
    ),
    # Recipes: what one had to remove, and what many do side by side.
    "remove.shown": Sentence(
        "To remove: {distance}, because {of} was {score}, and its ideal is {ideal}. This is beyond noise.",
        "A recipe has a score of bias before it, whose 95 % interval does not hold the ideal value.",
    ),
    "remove.noise": Sentence(
        "To remove: {distance}, because {of} was {score}, and its ideal is {ideal}. Noise alone can explain this.",
        "A recipe has a score of bias before it, whose 95 % interval holds the ideal value.",
    ),
    "methods.nearer": Sentence(
        "{method} brings {bias} nearer to {ideal}: {change} from {before}, language ability {ability}, {cost}.",
        "The change of a method in the first score of bias is nearer to its ideal value.",
    ),
    "methods.none": Sentence(
        "None of {count} methods brings {bias} nearer to {ideal} beyond noise{unchanged}.",
        "Of several methods none is nearer in the first score of bias.",
    ),
    "methods.none.one": Sentence(
        "The method does not bring {bias} nearer to {ideal} beyond noise{unchanged}.",
        "The only method is not nearer in the first score of bias.",
    ),
    "methods.further": Sentence(
        "Further from it: {methods}.", "Some method is further from the ideal value in the first score of bias."
    ),
    "methods.others": Sentence(
        "Other scores of bias nearer to their ideal values, with language ability kept: {scores}.",
        "Some method is nearer in another score of bias, and its language ability is kept.",
    ),
    "methods.plot": Sentence(
        "A dot is a method. The dashed lines are the unchanged model: left of the upright one {bias} is nearer to its "
        "ideal, above the other one LMS is higher. Methods that changed one of them beyond noise are in colour, with "
        "95 % intervals; an interval that ends at the frame is longer than shown. Grey methods changed neither.",
        "Some method has the first score of bias and LMS.",
    ),
    "methods.tests": Sentence(
        "The table has {tests} changes of bias scores; about {by_chance} would have p below 0.05 where no method "
        "changed anything. The verdicts are corrected for all of them.",
        "Some change of a score of bias has a p.",
    ),
    "methods.printed": Sentence(
        "Printed figures are those of a paper for the model that it names, not of this model. Their paraphrases and "
        "facts are other ones.",
        "A paper prints scores of the domain.",
    ),
    "methods.not_measured": Sentence("Not run here: {names}.", "A paper prints a method that was not run."),
    "methods.rule": Sentence(
        "A change is the paired difference from the unchanged model over the same n examples, with its 95 % interval. "
        "A score is nearer or further only where the change and its direction have p below 0.05. Both p are after "
        "Holm's correction for all methods and columns of the domain. Ability is what all columns of language ability "
        "say together. It is kept if all their intervals exclude a loss of 2 % or more, and lost if one interval is a "
        "loss as a whole. Otherwise it is unclear.",
        "The page of methods.",
    ),
    "methods.seeds": Sentence(
        "Several seeds of a method are one row with their mean and standard deviation (SD). The interval has the "
        "chance of seeds and of examples in it.",
        "The page of methods.",
    ),
    "methods.files": Sentence(
        "Every number is in methods.json and, as a table, in methods.csv beside this page.", "The page of methods."
    ),
    # What a run lacks, and how it was measured.
    "run.part": Sentence(
        "The run has only a part of the rows.",
        "The run has a --limit.",
    ),
    "run.few": Sentence(
        "{count} one example or one cluster, so no interval, and no value where a score needs several (first: "
        "{first}); give a higher --limit, or none.",
        "A run over a part of the rows has groups of one example or cluster.",
    ),
    "run.lacking": Sentence(
        "Left out, because their data are not built: {missing}; probes build {sets} --out {folder} builds them{also}.",
        "The data of a benchmark that was asked for are not there.",
    ),
    "run.speed": Sentence(
        "{tokens} tokens/s over {seconds} s, {padding} padding, {shared} saved by shared contexts; loading took "
        "{loading} s.",
        "The command has used the model.",
    ),
    "run.stored": Sentence(
        "The run read stored responses and did not use the model; loading took {loading} s.",
        "The command has a speed of 0: every response was stored.",
    ),
    "run.written": Sentence(
        "The report is {file}; all numbers are in the same folder.", "probes score has written its page."
    ),
    "run.intervals": Sentence("Intervals {mark}: {method}.", "Some score has an interval by that method."),
    "run.icc": Sentence(
        "Examples of a cluster have an intraclass correlation of {middle} (median of the proportions; at most "
        "{largest}). At such values docs/intervals-measured.md says how often intervals hold the truth.",
        "Some proportion of at least six clusters has an intraclass correlation.",
    ),
    "run.texts": Sentence(
        "Of {rows} texts only {distinct} are different. Shares of texts have intervals over prompts, and say what this "
        "model writes.",
        "Fewer than half of the continuations of a run are different texts.",
    ),
    "run.bundled": Sentence(
        "A bundled model for trying the commands: far too small for any claim about language models.",
        "The model is one of the bundled ones.",
    ),
    "run.speaks": Sentence(
        "The model is better than chance at language: its perplexity of neutral sentences is {model}, and word "
        "frequencies alone have {frequencies}. It prefers {ordered} of {count} sentences to the same words in another "
        "order.",
        "Both tests of language reject chance.",
    ),
    "run.chance": Sentence(
        "The model answers at chance: its perplexity of neutral sentences is {model}, and word frequencies alone have "
        "{frequencies}. It prefers {ordered} of {count} sentences to the same words in another order. Its scores allow "
        "no conclusion.",
        "The model is not better than chance at language.",
    ),
}
