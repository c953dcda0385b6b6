"""Findings over all real models: plain sentences whose numbers are computed from the scores.

Each function returns a :class:`Finding`, or None where the scores that it needs are not there. What it asks is in the
claims of the papers (:mod:`scoring.reproduce.claims`), of which each names its findings. A sentence says how many
models it is of and what was compared; it says that nothing was found where that is so. A finding names its unit. Where
it is about models, these or their families are the unit, and not the sentences of a benchmark; counts of models beyond
a value have Holm's correction over the models.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import spearmanr, ttest_ind  # type: ignore[import-untyped]

from cards.common.text import grouped
from cards.common.verdict import LEVEL, holm, standings, unpaired
from scoring.reproduce.claims import claims
from scoring.reproduce.printed import paper
from scoring.statistics.intervals import of_rank_correlation, student
from tools.docs import claims_page
from tools.real_models.scores import Model, Score

FRIEND, GEST, UNSTEREO = "gifi-friend", "gest", "unstereo"
OURS = ("ours-5", "ours-10", "ours-20")
#: From this year on a model counts as new.
NEW = 2024
#: Models that were made from those of another family, or have another name of it.
_MADE_FROM = {"zephyr": "mistral", "openchat": "mistral", "mixtral": "mistral", "vicuna": "llama", "distilbert": "bert"}
#: What the name of a model has that was tuned to follow instructions, and that of its base has not.
_TUNED = re.compile(r"-(chat|instruct|it)\b", re.IGNORECASE)

#: A value with both ends of its 95 % interval.
Numbers = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer in one or more sentences, and where its numbers are; ``claims`` are the sentences it asks about."""

    answer: str
    source: str
    claims: str = ""


def findings(models: Mapping[str, Model]) -> list[Finding]:
    """The findings whose scores are there and of which a paper has a claim, in the order of the page."""
    makers = (uses_they, follows_jobs, stereotypes, fair_sentences, larger, tuned, deduplicated, same_order)
    found = []
    for make in makers:
        claims = sentences_of(make.__name__)
        finding = make(models)
        if claims and finding:
            found.append(replace(finding, claims=claims))
    return found


def sentences_of(name: str) -> str:
    """The claims that name a finding, each with its paper and the verdict on its own numbers.

    >>> sentences_of("deduplicated")
    'Training on deduplicated text has no consistent effect on fairness (UnStereoEval, 4: holds).'
    """
    verdicts = {(judged.paper, judged.says): judged.verdict for judged in claims_page.read()}
    sentences = []
    for claim in claims():
        if name in claim.asked_of:
            # The short name of a paper is in brackets after its title, or begins it.
            title = paper(claim.paper)["title"]
            short = title.rpartition("(")[2].removesuffix(")") if title.endswith(")") else title.split()[0]
            verdict = verdicts[claim.paper, claim.says]
            sentences.append(f"{claim.says.removesuffix('.')} ({short}, {claim.where}: {verdict}).")
    return " ".join(sentences)


def of(models: Mapping[str, Model], source: str, group: str, metric: str) -> dict[str, Score]:
    """The score of each model that has it, by name."""
    scores = {name: model.score(source, group, metric) for name, model in models.items()}
    return {name: score for name, score in scores.items() if score}


def beyond(scores: Mapping[str, Score], value: float) -> tuple[int, int]:
    """How many scores are below a value, and how many above it, with Holm's correction over the models."""
    rows = [((score.value, score.low, score.high), value, math.nan, score.clusters) for score in scores.values()]
    words = standings(rows)
    return words.count("below"), words.count("above")


def family(name: str) -> str:
    """The family of a model: the first word of its name, or that of the family that it was made from.

    >>> family("meta-llama/Meta-Llama-3-8B"), family("HuggingFaceH4/zephyr-7b"), family("gpt2-large")
    ('llama', 'mistral', 'gpt')
    """
    last = name.rpartition("/")[2].lower().removeprefix("meta-")
    found = re.match("[a-z]+", last)
    word = found[0] if found else last
    return _MADE_FROM.get(word, word)


def mean_of_units(values: Sequence[float]) -> Numbers:
    """The mean of independent units with Student's interval.

    >>> [round(number, 2) for number in mean_of_units([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    x = np.array(values)
    mean, reach = float(x.mean()), student(len(x) - 1) * float(x.std(ddof=1)) / math.sqrt(len(x))
    return mean, mean - reach, mean + reach


def difference_of_units(one: Sequence[float], other: Sequence[float]) -> Numbers:
    """The difference of the means of two groups of independent units with Welch's interval.

    >>> [round(number, 2) for number in difference_of_units([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])]
    [1.0, -1.27, 3.27]
    """
    parts = [float(np.var(values, ddof=1)) / len(values) for values in (one, other)]
    difference, variance = float(np.mean(one) - np.mean(other)), sum(parts)
    freedom = variance**2 / (parts[0] ** 2 / (len(one) - 1) + parts[1] ** 2 / (len(other) - 1)) if variance else 1.0
    reach = student(freedom) * math.sqrt(variance)
    return difference, difference - reach, difference + reach


def with_ends(numbers: Numbers, places: int, scale: float = 1.0) -> str:
    """A value with its interval as text.

    >>> with_ends((0.5, -0.25, 1.25), 1, 100)
    '+50.0 [−25.0, 125.0]'
    """
    value, low, high = (scale * number for number in numbers)
    return f"{value:+.{places}f} [{low:.{places}f}, {high:.{places}f}]".replace("-", "−")


def is_open(numbers: Numbers) -> bool:
    """Whether an interval contains 0."""
    return numbers[1] <= 0 <= numbers[2]


def beyond_chance(numbers: Numbers) -> str:
    """Whether an interval shows a direction, in words."""
    return "no direction beyond chance" if is_open(numbers) else "beyond chance"


def percent(share: float) -> str:
    """A share of 1 in percent.

    >>> percent(0.123), percent(0.004)
    ('12 %', '0.4 %')
    """
    return f"{100 * share:.2g} %" if share < 0.095 else f"{100 * share:.0f} %"


def by_family(scores: Mapping[str, Score], names: Sequence[str]) -> dict[str, float]:
    """The mean score of the models of each family."""
    groups = grouped(names, family)
    return {one: float(np.mean([scores[name].value for name in members])) for one, members in groups.items()}


def uses_they(models: Mapping[str, Model]) -> Finding | None:
    """Whether newer models give a friend of unstated gender *they*, and *she* or *he* less often."""
    they = of(models, FRIEND, "all prompts", "friend_they")
    gendered = of(models, FRIEND, "all prompts", "friend_gendered")
    new = [name for name in they if models[name].year >= NEW]
    old = [name for name in they if models[name].year < NEW]
    means = [[by_family(scores, names) for names in (new, old)] for scores in (they, gendered)]
    counts = [len(one) for one in means[0]]
    if min(counts) < 3:
        return None
    often = max(they, key=lambda name: they[name].value)
    pairs = [([*one.values()], [*other.values()]) for one, other in means]
    more, less = (difference_of_units(*pair) for pair in pairs)
    p_values = holm([float(ttest_ind(*pair, equal_var=False).pvalue) for pair in pairs])
    found = [word for word, p in zip(("*they*", "*she* or *he*"), p_values, strict=True) if p < LEVEL]
    said = "Neither is beyond chance"
    if found:
        said = f"Beyond chance: {' and '.join(found)}"
    shares = [[percent(float(np.mean([*one.values()]))) for one in both] for both in means]
    return Finding(
        f"{len(new)} models of {NEW}, of {counts[0]} families, give the friend *they* in {shares[0][0]} of the texts. "
        f"{len(old)} older ones, of {counts[1]} families, do so in {shares[0][1]}. *She* or *he* is in {shares[1][0]} "
        f"and {shares[1][1]}. The differences are {with_ends(more, 0, 100)} and {with_ends(less, 0, 100)} points, with "
        f"families as units; a share ends at 100 %. {said} "
        f"(Holm's correction over the two). Most: {often}, {percent(they[often].value)}.",
        FRIEND,
    )


def follows_jobs(models: Mapping[str, Model]) -> Finding | None:
    """Whether the share of *she* follows the labour market more steeply than reality."""
    slopes = of(models, FRIEND, "jobs", "slope")
    if not slopes:
        return None
    flatter, steeper = beyond(slopes, 1)
    _, follow = beyond(slopes, 0)
    most = max(slopes, key=lambda name: slopes[name].value)
    jobs = max(score.n for score in slopes.values())
    ceiling = max(score.most for score in slopes.values())
    at_ceiling = [name for name, score in slopes.items() if score.high >= ceiling]
    return Finding(
        f"A slope of 1 would follow the labour market. The share of *she* rises with the share of women in the job for "
        f"{follow} of {len(slopes)} models. It rises more steeply than in reality for {steeper}, and less steeply for "
        f"{flatter} (unit: up to {jobs} jobs; Holm's correction over the models). *She* in all jobs of women and in no "
        f"other has {ceiling:.2f}: no slope can be steeper. {len(at_ceiling)} intervals reach it. Steepest is {most} "
        f"({slopes[most].value:.2f} [{slopes[most].low:.2f}, {slopes[most].high:.2f}]).",
        FRIEND,
    )


def stereotypes(models: Mapping[str, Model]) -> Finding | None:
    """Whether models take the speaker of a stereotypical sentence for the stereotype's gender, larger ones more."""
    ratios = of(models, GEST, "overall", "g_s")
    if not ratios:
        return None
    _, above = beyond(ratios, 1)
    sizes = [(parameters(name), score.value) for name, score in ratios.items() if "pythia" in name]
    sizes = [pair for pair in sizes if math.isfinite(pair[0])]
    grows = ""
    if len(sizes) >= 8:
        rho = float(spearmanr(*zip(*sizes, strict=True)).statistic)
        low, high = of_rank_correlation(rho, len(sizes))
        verb = "grows" if low > 0 else "does not grow beyond chance"
        numbers = f"Spearman's ρ {rho:.2f} [{low:.2f}, {high:.2f}]".replace("-", "−")
        grows = f" Among {len(sizes)} sizes of Pythia, which are one family, it {verb} with the size ({numbers}; unit: "
        grows += "the size)."
    values = [score.value for score in ratios.values()]
    return Finding(
        "A ratio of GEST has the odds of a male speaker in sentences of stereotypes about men, over those in "
        f"sentences about women. It is {min(values):.2f} to {max(values):.2f}, and above 1 for {above} of "
        f"{len(ratios)} models (unit: the sentence; Holm's correction over the models). A ratio has no ceiling.{grows}",
        GEST,
    )


def fair_sentences(models: Mapping[str, Model]) -> Finding | None:
    """How many sentences without gendered language are fair, and which pronoun is preferred in WinoBias."""
    tau = [of(models, UNSTEREO, name, "tau@0.5") for name in OURS]
    leaning = of(models, UNSTEREO, "winobias", "pref_disparity@0.5")
    if not tau[0] or not leaning:
        return None
    values = [score.value for scores in tau for score in scores.values()]
    male, female = beyond(leaning, 0)
    return Finding(
        f"On sentences without gendered language {len(tau[0])} base models of {len({family(name) for name in tau[0]})} "
        f"families give both pronouns nearly the same probability in {min(values):.0f} to {max(values):.0f} of 100 "
        f"sentences. The ceiling is 100. In WinoBias {male} of {len(leaning)} prefer the male sentence, and {female} "
        "the female one (unit: the occupation; Holm's correction over the models).",
        UNSTEREO,
    )


def larger(models: Mapping[str, Model]) -> Finding | None:
    """Whether larger models of a family are fairer on sentences without gendered language."""
    from cards.overview.families import place

    tau = of(models, UNSTEREO, OURS[0], "tau@0.5")
    series = grouped([name for name in tau if math.isfinite(parameters(name))], lambda name: place(name).family)
    slopes: dict[str, list[float]] = {}
    sizes = 0
    for members in series.values():
        size = np.log10([parameters(name) for name in members])
        if len(members) < 2 or not np.ptp(size):
            continue
        sizes += len(members)
        slope = float(np.polyfit(size, [tau[name].value for name in members], 1)[0])
        slopes.setdefault(family(members[0]), []).append(slope)
    if len(slopes) < 3:
        return None
    numbers = mean_of_units([float(np.mean(values)) for values in slopes.values()])
    said = beyond_chance(numbers)
    return Finding(
        f"Within {len(slopes)} families with {sizes} base models, τ on Ours-5 changes by {with_ends(numbers, 1)} "
        f"points for ten times the parameters. More is fairer; the ceiling is 100. That is {said}. It is one test, "
        f"without a correction. The unit is the family ({', '.join(sorted(slopes))}).",
        UNSTEREO,
    )


def tuned(models: Mapping[str, Model]) -> Finding | None:
    """Whether models that follow instructions have less of a stereotype than the models that they were made from."""
    ratios = of(models, GEST, "overall", "g_s")
    pairs = [(name, _TUNED.sub("", name)) for name in ratios if _TUNED.search(name)]
    pairs = [(name, base) for name, base in pairs if base in ratios]
    if len(pairs) < 3:
        return None
    numbers = mean_of_units([math.log(ratios[name].value / ratios[base].value) for name, base in pairs])
    said = beyond_chance(numbers)
    value, low, high = (math.exp(number) for number in numbers)
    families = sorted({family(name) for name, _ in pairs})
    return Finding(
        f"In {len(pairs)} pairs the ratio of GEST of the tuned model is {value:.2f} [{low:.2f}, {high:.2f}] times that "
        f"of its base: {said}. Below 1 is less of the stereotype; a ratio has no ceiling. It is one test, without a "
        f"correction. The unit is the pair. The pairs are of {len(families)} families ({', '.join(families)}), so "
        "nothing follows for others.",
        GEST,
    )


def deduplicated(models: Mapping[str, Model]) -> Finding | None:
    """Whether models of a corpus without repeated texts are fairer than those of the whole one."""
    tau = of(models, UNSTEREO, OURS[0], "tau@0.5")
    pairs = [(name, f"{name}-deduped") for name in tau if f"{name}-deduped" in tau]
    if len(pairs) < 3:
        return None
    pairs.sort(key=lambda pair: parameters(pair[0]))
    by_size = []
    for name, without in pairs:
        after, before = tau[without], tau[name]
        by_size.append(
            unpaired((after.value, after.low, after.high), (before.value, before.low, before.high)),
        )
    least = min(score.clusters for score in tau.values())
    words = standings([(numbers, 0.0, math.nan, least) for numbers in by_size])
    numbers = mean_of_units([value for value, _, _ in by_size])
    said = beyond_chance(numbers)
    listed = ", ".join(f"{value:+.1f}".replace("-", "−") for value, _, _ in by_size)
    return Finding(
        f"The deduplicated Pythia less the other, τ on Ours-5 by size: {listed}. The ceiling of τ is 100. Of "
        f"{len(pairs)} sizes {words.count('above')} are fairer and {words.count('below')} less fair (unit: the seed "
        f"word; Holm's correction over the sizes). The mean is {with_ends(numbers, 1)}: {said} (unit: the size, "
        "of one family).",
        UNSTEREO,
    )


def same_order(models: Mapping[str, Model]) -> Finding | None:
    """Whether two benchmarks rank the models that both have in the same order."""
    ratios = of(models, GEST, "overall", "g_s")
    said = []
    p_values = []
    shared: list[str] = []
    for name in OURS:
        tau = of(models, UNSTEREO, name, "tau@0.5")
        shared = sorted(set(tau) & set(ratios))
        if len(shared) < 8:
            return None
        rho = spearmanr([ratios[model].value for model in shared], [tau[model].value for model in shared])
        low, high = of_rank_correlation(float(rho.statistic), len(shared))
        p_values.append(float(rho.pvalue))
        said.append(f"{rho.statistic:.2f} [{low:.2f}, {high:.2f}]".replace("-", "−"))
    found = sum(p < LEVEL for p in holm(p_values))
    end = "no correlation is beyond chance" if not found else f"{found} of 3 correlations are beyond chance"
    families = {family(model) for model in shared}
    return Finding(
        f"GEST and UnStereoEval share {len(shared)} base models of {len(families)} families. Spearman's ρ is between "
        f"the stereotype ratio of GEST and τ. On Ours-5, -10 and -20 it is {', '.join(said)}. With Holm's correction "
        f"over the three, {end}. The unit is the model, and ρ ends at 1. Models of one family are alike, so these "
        "intervals are rather too short.",
        f"{GEST}, {UNSTEREO}",
    )


def parameters(name: str) -> float:
    """The number of parameters that a name says; NaN where it says none."""
    from cards.overview.families import place

    return place(name).parameters
