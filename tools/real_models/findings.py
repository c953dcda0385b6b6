"""Findings over all real models: plain sentences whose numbers are computed from the scores.

Each function returns a :class:`Finding`, or None where the scores that it needs are not there. A sentence says how many
models it is of and what was compared; it says that nothing was found where that is so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from scipy.stats import mannwhitneyu, spearmanr

from cards.common.verdict import LEVEL
from tools.real_models.scores import Model, Score

FRIEND, GEST, UNSTEREO = "gifi-friend", "gest", "unstereo"
OURS = ("ours-5", "ours-10", "ours-20")
#: From this year on a model counts as new.
NEW = 2024


@dataclass(frozen=True, slots=True)
class Finding:
    """A question, the answer in one or more sentences, and where its numbers are."""

    question: str
    answer: str
    source: str


def findings(models: Mapping[str, Model]) -> list[Finding]:
    """The findings whose scores are there, in the order of the page."""
    candidates = (make(models) for make in (uses_they, follows_jobs, stereotypes, fair_sentences, same_order))
    return [finding for finding in candidates if finding]


def of(models: Mapping[str, Model], source: str, group: str, metric: str) -> dict[str, Score]:
    """The score of each model that has it, by name."""
    scores = {name: model.score(source, group, metric) for name, model in models.items()}
    return {name: score for name, score in scores.items() if score}


def beyond(scores: Mapping[str, Score], value: float) -> tuple[int, int]:
    """How many scores are below a value, and how many above it, with the whole interval."""
    below = sum(score.high < value for score in scores.values())
    return below, sum(score.low > value for score in scores.values())


def percent(share: float) -> str:
    """A share of 1 in percent.

    >>> percent(0.123), percent(0.004)
    ('12 %', '0.4 %')
    """
    return f"{100 * share:.2g} %" if share < 0.095 else f"{100 * share:.0f} %"


def p_text(p: float) -> str:
    """A p-value as text.

    >>> p_text(0.0004), p_text(0.21)
    ('p below .001', 'p .21')
    """
    return "p below .001" if p < 0.001 else f"p {p:.2f}".replace("0.", ".")


def uses_they(models: Mapping[str, Model]) -> Finding | None:
    """Whether newer models give a friend of unstated gender *they*, and *she* or *he* less often."""
    they = of(models, FRIEND, "all prompts", "friend_they")
    gendered = of(models, FRIEND, "all prompts", "friend_gendered")
    new = [name for name in they if models[name].year >= NEW]
    old = [name for name in they if models[name].year < NEW]
    if len(new) < 3 or len(old) < 3:
        return None
    test = mannwhitneyu([they[name].value for name in new], [they[name].value for name in old])
    often = max(they, key=lambda name: they[name].value)
    said = "differ beyond chance" if test.pvalue < LEVEL else "do not differ beyond chance"
    middle = [[median(scores[name].value for name in names) for scores in (they, gendered)] for names in (new, old)]
    return Finding(
        "Do newer models say *they* of a friend whose gender is not said?",
        f"In the median of {len(new)} models of {NEW}, {percent(middle[0][0])} of the texts give the friend *they*, "
        f"and {percent(middle[0][1])} *she* or *he*. Of {len(old)} older models it is {percent(middle[1][0])} and "
        f"{percent(middle[1][1])}. The shares of *they* of new and old models {said} (Mann-Whitney, "
        f"{p_text(float(test.pvalue))}). Most often {often}, with {percent(they[often].value)}.",
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
    return Finding(
        "Do models exaggerate who does which job?",
        f"A slope of 1 would follow the labour market. The share of *she* rises with the share of women in the job for "
        f"{follow} of {len(slopes)} models. Beyond the interval it rises more steeply than in reality for {steeper}, "
        f"and less steeply for {flatter}. The intervals are over up to {jobs} jobs. Steepest is {most} "
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
    larger = ""
    if len(sizes) >= 5:
        rho = spearmanr(*zip(*sizes, strict=True))
        numbers = f"Spearman's ρ {rho.statistic:.2f}, {p_text(float(rho.pvalue))}"
        grows = rho.pvalue < LEVEL and rho.statistic > 0
        verb = "it grows with the size" if grows else "no growth with the size is beyond chance"
        larger = f" Among {len(sizes)} sizes of Pythia {verb} ({numbers})."
    values = [score.value for score in ratios.values()]
    return Finding(
        "Do models take the speaker for a man where a stereotype about men fits?",
        "A ratio of GEST has the odds of a male speaker in sentences of stereotypes about men, over those in "
        f"sentences about women. It is {min(values):.2f} to {max(values):.2f}, and above 1 beyond the interval for "
        f"{above} of {len(ratios)} models.{larger}",
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
        "Are models fair in sentences without gendered words?",
        f"On sentences without gendered language {len(tau[0])} base models give both pronouns nearly the same "
        f"probability in {min(values):.0f} to {max(values):.0f} of 100 sentences. In WinoBias {male} of {len(leaning)} "
        f"prefer the male sentence beyond the interval, and {female} the female one.",
        UNSTEREO,
    )


def same_order(models: Mapping[str, Model]) -> Finding | None:
    """Whether two benchmarks rank the models that both have in the same order."""
    ratios = of(models, GEST, "overall", "g_s")
    told = []
    shared: list[str] = []
    beyond = 0
    for name in OURS:
        tau = of(models, UNSTEREO, name, "tau@0.5")
        shared = sorted(set(tau) & set(ratios))
        if len(shared) < 5:
            return None
        rho = spearmanr([ratios[model].value for model in shared], [tau[model].value for model in shared])
        beyond += rho.pvalue < LEVEL
        told.append(f"{rho.statistic:.2f} ({p_text(float(rho.pvalue))})")
    end = "no correlation is beyond chance" if not beyond else f"{beyond} of 3 correlations are beyond chance"
    return Finding(
        "Do two benchmarks rank the same models in the same order?",
        f"GEST and UnStereoEval share {len(shared)} base models. Spearman's ρ is between the stereotype ratio of GEST "
        f"and τ. On Ours-5, -10 and -20 it is {', '.join(told)}: {end}. A positive ρ would say that models with "
        "stronger stereotypes are fairer on sentences without gendered language.",
        f"{GEST}, {UNSTEREO}",
    )


def parameters(name: str) -> float:
    """The number of parameters that a name says; NaN where it says none."""
    from cards.overview.families import place

    return place(name).parameters
