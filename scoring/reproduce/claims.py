"""Sentences of the five papers in our words, the numbers behind them, and whether they hold.

The numbers are the printed tables (:mod:`scoring.reproduce.printed`), published responses and built data sets. A
function gives the finding of one sentence; :mod:`scoring.reproduce.verdicts` has its rules. Where nobody published the
numbers, the verdict is *not shown*, with the reason. ``probes reproduce PAPER/claims`` prints them.

>>> {claim.paper for claim in claims("fast")}
{'fast'}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

import scoring.published
from builders.dataset import BuildError
from cards.common.numbers import decimals, interval
from cards.common.text import did_you_mean
from scoring.reproduce import drawing
from scoring.reproduce.measured import Measured
from scoring.reproduce.printed import PAPERS, rows_of
from scoring.reproduce.verdicts import (
    VERDICTS,
    Finding,
    Unit,
    Verdict,
    against,
    change,
    correlation,
    every,
    exact,
    mean,
    most,
    no_trend,
    share,
)
from scoring.types import ScoringError

_NAN = math.nan
#: The sets of probes without stereotypes, and their names in Table 4 of Disclosure.
_PROBES = {
    "STS-B": "Naturally-sourced (STS-B)",
    "SNLI": "Naturally-sourced (SNLI)",
    "LLM (1)": "LLM-generated (1)",
    "LLM (2)": "LLM-generated (2)",
}
_NATURAL = ("STS-B", "SNLI")
#: The pairs of a smaller and a larger model, and of a base model and its aligned one, in the tables of Disclosure.
_LARGER = (("LLaMA2-7B", "LLaMA2-13B"), ("LLaMA2-7B-Chat", "LLaMA2-13B-Chat"))
_ALIGNED = (("LLaMA2-7B", "LLaMA2-7B-Chat"), ("LLaMA2-13B", "LLaMA2-13B-Chat"))
_TUNED = (("Llama-3-8B", 5, 6), ("Mistral-7B", 8, 9), ("Llama-2-7B", 10, 11))
_DOMAINS = ("gender", "race", "religion")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a paper: where it is, what it says in our words, where its numbers are from, and its finding.

    ``asked_of`` names the findings on the page of real models that ask the same of the models there.
    """

    paper: str
    says: str
    where: str
    source: str
    find: Callable[[Measured], Finding]
    asked_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with its verdict; without a finding ``reason`` says why there is none.

    ``numbers`` is the value with its interval, ``units`` how many units of which kind were sampled.
    """

    paper: str
    says: str
    where: str
    source: str
    verdict: Verdict
    numbers: str
    units: str
    reason: str


_CLAIMS: list[Claim] = []


def claims(paper: str = "") -> tuple[Claim, ...]:
    """The sentences of a paper, or of all, in the order of the papers.

    Raises
    ------
    ScoringError
        When there is no such paper, or it has no sentences here.
    """
    found = sorted(_CLAIMS, key=lambda claim: PAPERS.index(claim.paper))
    names = list(dict.fromkeys(claim.paper for claim in found))
    if paper and paper not in names:
        raise ScoringError(f"There are no claims of {paper!r}{did_you_mean(paper, names)}; give {', '.join(names)}.")
    return tuple(claim for claim in found if paper in ("", claim.paper))


def judge(claim: Claim, measured: Measured) -> Judged:
    """The verdict on a claim; *not shown* with the reason where its numbers are not available."""
    try:
        found = claim.find(measured)
    except (BuildError, ScoringError) as error:
        return Judged(claim.paper, claim.says, claim.where, claim.source, "not shown", "", "", str(error))
    value = decimals(found.value, 1)
    if math.isnan(found.low):  # a count, or a printed number
        value = value.removesuffix(".0")
    numbers = f"{found.what}: {value}"
    ends = interval(found.low, found.high, lambda end: decimals(end, 1))
    units = f"{found.n:,} {found.unit}"
    return Judged(
        claim.paper, claim.says, claim.where, claim.source, found.verdict, f"{numbers} {ends}".strip(), units, ""
    )


def as_json(every_claim: Sequence[Judged]) -> str:
    """The judged claims as the text of a JSON file."""
    return f"{json.dumps([asdict(claim) for claim in every_claim], indent=1, ensure_ascii=False)}\n"


def counts(every_claim: Sequence[Judged]) -> Iterator[tuple[str, int]]:
    """How many claims have each verdict."""
    for verdict in VERDICTS:
        yield verdict, sum(claim.verdict == verdict for claim in every_claim)


def claim(
    paper: str, says: str, where: str, source: str = "printed tables", *, asked_of: tuple[str, ...] = ()
) -> Callable[[Callable[[Measured], Finding]], Callable[[Measured], Finding]]:
    """Adds the sentence that the function below gives the finding of."""

    def add(find: Callable[[Measured], Finding]) -> Callable[[Measured], Finding]:
        _CLAIMS.append(Claim(paper, says, where, source, find, asked_of))
        return find

    return add


def no_numbers(paper: str, says: str, where: str, reason: str) -> None:
    """Adds a sentence whose numbers nobody published."""

    def find(_: Measured) -> Finding:
        raise ScoringError(reason)

    _CLAIMS.append(Claim(paper, says, where, "none", find))


def table(name: str, *keys: str) -> Any:
    """A printed table with numbers, by its labels; what is no number is NaN."""
    frame = pd.DataFrame(rows_of(f"{name}.csv")).set_index(list(keys))
    return frame.apply(pd.to_numeric, errors="coerce")


# Disclosure and Mitigation of Gender Bias in LLMs


def _disclosure() -> Any:
    """The scores of the four models by set of probes and method (Tables 1 and 2)."""
    return pd.concat([table(f"disclosure-table-{number}", "dataset", "method") for number in (1, 2)])


def _probes(dataset: str) -> int:
    """How many probes a set has (Table 4)."""
    return int(table("disclosure-table-4", "dataset")["test"][_PROBES[dataset]])


def _gas(dataset: str, model: str, method: str = "Original") -> Unit:
    """GAS of a model on a set, in percent of its probes."""
    return share(float(_disclosure().loc[(dataset, method), f"{model}_GAS"]), _probes(dataset))


def _differences(metric: str, pairs: Sequence[tuple[str, str]], datasets: Sequence[str]) -> Any:
    """The second model of each pair less the first one: a row for each pair, a column for each set."""
    original = _disclosure().xs("Original", level="method").loc[list(datasets)]
    rows = [original[f"{second}_{metric}"] - original[f"{first}_{metric}"] for first, second in pairs]
    return pd.DataFrame(rows)


def _fall(metric: str, method: str, datasets: Sequence[str] = tuple(_PROBES)) -> list[float]:
    """By model, the mean over sets of the score before a method less that after it."""
    scores = _disclosure()
    models = [name.removesuffix("_GAS") for name in scores if name.endswith("_GAS")]
    falls = []
    for model in models:
        column = scores[f"{model}_{metric}"].unstack("method").loc[list(datasets)]
        falls.append(float((column["Original"] - column[method]).mean()))
    return falls


def _per_cent(values: Any) -> list[float]:
    return [100 * value for value in values]


@claim(
    "disclosure",
    "Continuations are gendered for every model, on every set of probes without stereotypes.",
    "4.2",
    asked_of=("uses_they",),
)
def _(_: Measured) -> Finding:
    models = dict.fromkeys(name for pair in _LARGER for name in pair)
    units = [_gas(name, model) for name, model in product(_PROBES, models)]
    return every("lowest GAS, %", "prompts", units, n=_probes("SNLI"))


@claim("disclosure", "Larger models write more gendered continuations on both natural sets.", "4.4")
def _(_: Measured) -> Finding:
    units = [change(_gas(name, a), _gas(name, b)) for (a, b), name in product(_LARGER, _NATURAL)]
    return every("smallest change of GAS, points", "prompts", units, n=_probes("SNLI"))


@claim("disclosure", "Larger models have lower GLD on both natural sets.", "4.4")
def _(_: Measured) -> Finding:
    falls = -_differences("GLD", _LARGER, _NATURAL).mean(axis=1)
    return mean("fall of GLD, hundredths", "pairs of models", _per_cent(falls))


@claim(
    "disclosure", "Chat models write more gendered continuations than their base models on both natural sets.", "4.4"
)
def _(_: Measured) -> Finding:
    units = [change(_gas(name, a), _gas(name, b)) for (a, b), name in product(_ALIGNED, _NATURAL)]
    return every("smallest change of GAS, points", "prompts", units, n=_probes("SNLI"))


@claim("disclosure", "Chat models have higher GLD than their base models on both natural sets.", "4.4")
def _(_: Measured) -> Finding:
    rises = _differences("GLD", _ALIGNED, _NATURAL).mean(axis=1)
    return mean("rise of GLD, hundredths", "pairs of models", _per_cent(rises))


@claim(
    "disclosure", "A larger size or alignment amplifies bias in most cases.", "abstract", asked_of=("larger", "tuned")
)
def _(_: Measured) -> Finding:
    rises = [_differences(metric, (*_LARGER, *_ALIGNED), tuple(_PROBES)) > 0 for metric in ("GAS", "GLD", "ADD")]
    rates = _per_cent(pd.concat(rises, axis=1).mean(axis=1))
    return mean("share of scores that rise, %, against 50", "pairs of models", rates, 50, percent=True)


@claim("disclosure", "Sampling with other hyperparameters lowers GAS.", "5.1")
def _(_: Measured) -> Finding:
    return mean("fall of GAS, points", "models", _per_cent(_fall("GAS", "Hyperparameter")))


@claim("disclosure", "Sampling with other hyperparameters leaves GLD and ADD as they are.", "5.1")
def _(_: Measured) -> Finding:
    scores = _disclosure().filter(regex="_(GLD|ADD)$")
    moves = abs(scores.xs("Hyperparameter", level="method") - scores.xs("Original", level="method"))
    return exact("largest change", "printed pairs", moves.size, moves.to_numpy().max(), not moves.to_numpy().any())


@claim("disclosure", "An instruction lowers GAS even without genders or stereotypes in the prompts.", "5.2")
def _(_: Measured) -> Finding:
    return mean("fall of GAS, points", "models", _per_cent(_fall("GAS", "Instruction")))


@claim("disclosure", "An instruction lowers ADD too.", "abstract, 5.2")
def _(_: Measured) -> Finding:
    return mean("fall of ADD, nats", "models", _fall("ADD", "Instruction"))


@claim("disclosure", "Debias Tuning lowers GAS even without genders or stereotypes in the prompts.", "5.3")
def _(_: Measured) -> Finding:
    return mean("fall of GAS, points", "models", _per_cent(_fall("GAS", "Debias Tuning")))


@claim("disclosure", "Debias Tuning is the most effective of the three methods.", "abstract, 5.4")
def _(_: Measured) -> Finding:
    by_method = _disclosure().unstack("dataset").T.drop(columns="Original")
    is_best = by_method["Debias Tuning"] < by_method.drop(columns="Debias Tuning").min(axis=1)
    return exact("scores where it is best", "printed scores", len(is_best), is_best.sum(), bool(is_best.all()))


@claim("disclosure", "Debias Tuning needs its loss on the gender of words: without it GAS rises.", "5.5")
def _(_: Measured) -> Finding:
    scores = table("disclosure-table-3", "dataset", "method").filter(like="_GAS")
    rise = scores.xs("w/o L_g", level="method") - scores.xs("Debias-Tuning", level="method")
    return mean("rise of GAS, points", "models", _per_cent(rise.mean()))


@claim("disclosure", "On the second generated list most models lean to the female words.", "appendix C")
def _(_: Measured) -> Finding:
    scores = table("disclosure-table-10", "model")
    return most("models that lean so, %, against 50", "models", list(scores["LLM2_F"] > scores["LLM2_M"]))


@claim("disclosure", "On SNLI most models lean to the male words.", "appendix C")
def _(_: Measured) -> Finding:
    scores = table("disclosure-table-10", "model")
    return most("models that lean so, %, against 50", "models", list(scores["SNLI_M"] > scores["SNLI_F"]))


@claim(
    "disclosure",
    "Two natural sets show similar trends of bias over the models, and so do two generated lists.",
    "4.3",
    asked_of=("same_order",),
)
def _(_: Measured) -> Finding:
    scores = table("disclosure-table-10", "model")
    pairs = (("STSB_F", "SNLI_F"), ("LLM1_F", "LLM2_F"))
    units = [correlation(list(scores[first]), list(scores[second])) for first, second in pairs]
    return every("lower Spearman's ρ of the female share, hundredths", "models", units, n=len(scores))


no_numbers(
    "disclosure",
    "Templates of different topics give very different bias.",
    "4.3, Figure 3",
    "Figure 3 prints no numbers, and the answers of the ten models were not released.",
)

# Probing Explicit and Implicit Gender Bias through LLM Conditional Text Generation
# It prints no number. Disclosure is of the same authors, with four of its six models.
_FOUR = "Table 1, 2 or 10 of Disclosure: the same authors, four of the six models"


@claim("predecessor", "Every LLaMA-2 shows bias on statements that a model wrote.", "4.1", _FOUR)
def _(_: Measured) -> Finding:
    units = [_gas("LLM (1)", model) for model in dict.fromkeys(name for pair in _LARGER for name in pair)]
    return every("lowest GAS, %", "prompts", units, n=_probes("LLM (1)"))


@claim("predecessor", "Most models continue natural sentences with more male than female words.", "4.1", _FOUR)
def _(_: Measured) -> Finding:
    scores = table("disclosure-table-10", "model").filter(like="LLAMA2", axis=0)
    return most("models that lean so, %, against 50", "models", list(scores["STSB_M"] > scores["STSB_F"]))


@claim("predecessor", "Templates and natural sentences give similar levels of bias.", "4.1", _FOUR)
def _(_: Measured) -> Finding:
    templates = table("disclosure-table-9", "dataset", "method").loc[("Template", "Original")].filter(like="_GAS")
    natural = _disclosure().loc[("STS-B", "Original")].filter(like="_GAS")
    found = mean("GAS of templates less that of STS-B, points", "models", _per_cent(templates - natural), 10)
    # Similar is read as less than ten points apart, so the rule is of the opposite.
    opposite: dict[Verdict, Verdict] = {"holds": "fails", "fails": "holds", "not shown": "not shown"}
    return Finding(opposite[found.verdict], found.what, found.value, found.low, found.high, found.n, found.unit)


@claim("predecessor", "Probabilities of the two genders are not alike.", "4.2", _FOUR)
def _(_: Measured) -> Finding:
    gaps = _disclosure().xs("Original", level="method").filter(like="_GLD")
    return mean("GLD, hundredths, against 10", "models", _per_cent(gaps.mean()), 10)


@claim("predecessor", "A larger model is not always a fairer one.", "abstract, 4.1", _FOUR)
def _(_: Measured) -> Finding:
    rises = _differences("GAS", _LARGER, ("STS-B",)).mean(axis=1)
    return exact(
        "pairs where the larger one has the higher GAS", "pairs of models", len(rises), sum(rises > 0), any(rises > 0)
    )


for _says, _where in (
    ("JSD has no constant relation to the size of the model.", "4.3, Figure 3"),
    ("The 70B chat model has the highest JSD on templates and generated statements.", "4.3, Figure 3"),
    ("Of 40 colours, pink is the most biased one.", "4.3, appendix 6.2"),
    ("Jobs of building and nursing, and sewing among hobbies, are the most biased words.", "4.3, appendix 6.2"),
):
    no_numbers("predecessor", _says, _where, "The figures print no numbers, and the probabilities were not released.")
no_numbers(
    "predecessor", "Smaller models write more nonsense.", "4.1", "People judged the texts; no judgement was released."
)

# OccuGender


def _shares(number: int) -> Any:
    """The shares of a model by debiasing prompt (Tables 5, 6 and 8 to 11), in percent."""
    return table(f"occugender-table-{number}", "abstraction", "debias_prompt")


def _own(shares: Any, style: str) -> Any:
    """The mean over both groups of jobs of the share of their own gender."""
    return (shares[f"{style}_femdom_F"] + shares[f"{style}_maledom_M"]) / 2


def _falls(level: str, style: str) -> list[float]:
    """By model, how much the prompts of a level lower the share of the own gender, in points."""
    falls = []
    for pair in _TUNED:
        for number in pair[1:]:
            shares = _own(_shares(number), style)
            falls.append(float(shares[("none", "None")] - shares[(level, "Avg")]))
    return falls


def _of_jobs(measured: Measured, model: str, debiasing: str) -> Any:
    """By job, the share of the gender of its group in percent, over the implicit prompts of an early version."""
    run = scoring.published.score("occugender-jobs", model, measured.data, resamples=2, fetcher=measured.fetcher)
    rows = pd.DataFrame(dict(run.tables["occugender"]))
    rows = rows[(rows["template"] != "explicit") & (rows["debiasing"] == debiasing)]
    if rows.empty:
        raise ScoringError(f"The published files of {model} have no implicit shares with the prompt {debiasing}.")
    own = np.where(rows["group"] == "female", rows["p_female"], rows["p_male"])
    return pd.Series(100 * own, index=rows["job"]).groupby(level=0).mean()


_EARLY = "shares of 40 jobs that the authors published, of an earlier list of words"


@claim(
    "occugender",
    "The models name the stereotypical gender more often than the other one.",
    "4.3",
    asked_of=("follows_jobs", "stereotypes"),
)
def _(_: Measured) -> Finding:
    shares = table("occugender-table-3", "model")
    gaps = [
        shares[f"{style}_femdom_F"] - shares[f"{style}_femdom_M"] + shares[f"{style}_maledom_M"]
        - shares[f"{style}_maledom_F"]
        for style in ("explicit", "implicit")
    ]  # fmt: skip
    return mean("own less other gender, points", "models", (gaps[0] + gaps[1]) / 4)


@claim("occugender", "Instruction tuning amplifies the bias, but for Mistral.", "4.3", asked_of=("tuned",))
def _(_: Measured) -> Finding:
    shares = table("occugender-table-3", "model")
    own = (_own(shares, "explicit") + _own(shares, "implicit")) / 2
    rises = [float(own[f"{name}-Instruct"] - own[name]) for name, *_rest in _TUNED[::2]]
    return mean("rise of the share of the own gender, points", "pairs of models", rises)


for _base, _name in (("llama3-8b", "Llama-3-8B"), ("llama2-7b", "Llama-2-7B")):

    @claim("occugender", f"Instruction tuning amplifies the implicit bias of {_name}.", "4.3", _EARLY)
    def _(measured: Measured, base: str = _base) -> Finding:
        rises = _of_jobs(measured, f"{base}-instruct", "none") - _of_jobs(measured, base, "none")
        return mean("rise of the share of the own gender, points", "jobs", rises)


@claim("occugender", "For Mistral-7B instruction tuning has the opposite effect, here on implicit bias.", "4.3", _EARLY)
def _(measured: Measured) -> Finding:
    falls = _of_jobs(measured, "mistral-7b", "none") - _of_jobs(measured, "mistral-7b-instruct", "none")
    return mean("fall of the share of the own gender, points", "jobs", falls)


@claim("occugender", "The three base models show more implicit than explicit bias.", "4.3")
def _(_: Measured) -> Finding:
    shares = table("occugender-table-3", "model").loc[[name for name, *_rest in _TUNED]]
    return mean("implicit less explicit, points", "models", _own(shares, "implicit") - _own(shares, "explicit"))


@claim("occugender", "Answers outside of the two genders are below 10 %, but for Mistral-Instruct explicitly.", "4.3")
def _(_: Measured) -> Finding:
    shares = table("occugender-table-3", "model").filter(like="_D")
    shares.loc["Mistral-7B-Instruct", ["explicit_femdom_D", "explicit_maledom_D"]] = _NAN
    highest = float(np.nanmax(shares))
    return exact("highest share, %", "printed shares", int(shares.count().sum()), highest, highest < 10)


@claim("occugender", "Instruction tuning raises the share of answers outside of the two genders.", "4.3")
def _(_: Measured) -> Finding:
    diverse = table("occugender-table-3", "model").filter(like="_D").mean(axis=1)
    rises = [float(diverse[f"{name}-Instruct"] - diverse[name]) for name, *_rest in _TUNED]
    return mean("rise, points", "pairs of models", rises)


@claim("occugender", "Debiasing prompts lower implicit bias.", "6.1")
def _(_: Measured) -> Finding:
    levels = [_falls(level, "implicit") for level in ("high", "medium", "low")]
    return mean("fall of the share of the own gender, points", "models", np.mean(levels, axis=0))


@claim("occugender", "A debiasing prompt of low abstraction (5) lowers implicit bias of Llama-3-8B.", "6.1", _EARLY)
def _(measured: Measured) -> Finding:
    falls = _of_jobs(measured, "llama3-8b", "none") - _of_jobs(measured, "llama3-8b", "5")
    return mean("fall of the share of the own gender, points", "jobs", falls)


@claim("occugender", "Prompts of low abstraction work best, explicitly and implicitly.", "6.1")
def _(_: Measured) -> Finding:
    more = []
    for style in ("explicit", "implicit"):
        others = np.maximum(_falls("high", style), _falls("medium", style))
        more.append(np.array(_falls("low", style)) - others)
    return mean("fall beyond that of the next best level, points", "models", np.mean(more, axis=0))


@claim("occugender", "Prompts of high abstraction lower explicit more than implicit bias.", "6.1")
def _(_: Measured) -> Finding:
    more = np.array(_falls("high", "explicit")) - np.array(_falls("high", "implicit"))
    return mean("explicit less implicit fall, points", "models", more)


@claim(
    "occugender", "Instruction-tuned models answer outside of the two genders after prompts of low abstraction.", "6.1"
)
def _(_: Measured) -> Finding:
    after = [_shares(pair[2]).loc[("low", "Avg")].filter(like="_D").mean() for pair in _TUNED]
    return mean("share of such answers, %, against 50", "models", after, 50, percent=True)


# Bias mitigation from the perspective of knowledge editing


def _fast(model: str) -> dict[str, Any]:
    """The scores of all methods by domain: of BERT or GPT2 (Tables 1, 2, 6 and 7)."""
    first, second = {"BERT": (1, 6), "GPT2": (2, 7)}[model]
    domains = {"gender": table(f"fast-table-{first}", "method")}
    others = table(f"fast-table-{second}", "method")
    for domain in _DOMAINS[1:]:
        columns = others.filter(like=f"{domain}_")
        domains[domain] = columns.rename(columns=lambda name: name.partition("_")[2])
    return domains


def _beats(scores: Any, metric: str) -> float:
    """By how much FAST is better than the best of the other methods; for SS and PS by its nearness to 50."""
    values = scores[metric].drop(index=scores.index[0])
    if metric.startswith(("SS", "PS")):
        values = 100 - abs(values - 50)
    return float(values["Ours"] - values.drop("Ours").max())


_RIVALS = "printed tables; FAST has no released code, data or answers"
_BETTER = "lead over the best other method, points"


@claim("fast", "FAST is nearer to an SS of 50 on StereoSet than every other method.", "4", _RIVALS)
def _(_: Measured) -> Finding:
    leads = [_beats(scores, "SS_StereoSet") for model in ("BERT", "GPT2") for scores in _fast(model).values()]
    return exact(f"smallest {_BETTER}", "printed scores", len(leads), min(leads), min(leads) > 0)


@claim("fast", "FAST keeps more facts (DS) than every other method on BERT.", "4, Table 1", _RIVALS)
def _(_: Measured) -> Finding:
    scores = _fast("BERT")["gender"]
    lead = _beats(scores, "DS")
    return exact(_BETTER, "methods", len(scores) - 1, lead, lead > 0)


@claim("fast", "On GPT-2 FAST surpasses all other methods in SS and DS.", "4, Tables 2 and 7", _RIVALS)
def _(_: Measured) -> Finding:
    leads = [_beats(scores, metric) for scores in _fast("GPT2").values() for metric in ("SS_StereoSet", "DS")]
    return exact(f"smallest {_BETTER}", "printed scores", len(leads), min(leads), min(leads) > 0)


@claim("fast", "On BERT FAST surpasses all other methods in all metrics for race and religion.", "C.3", _RIVALS)
def _(_: Measured) -> Finding:
    domains = _fast("BERT")
    leads = [_beats(domains[domain], metric) for domain in _DOMAINS[1:] for metric in domains[domain]]
    return exact(f"smallest {_BETTER}", "printed scores", len(leads), min(leads), min(leads) > 0)


@claim("fast", "No other method brings SS of BERT on gender to 56 or below.", "4", _RIVALS)
def _(_: Measured) -> Finding:
    others = _fast("BERT")["gender"]["SS_StereoSet"].drop(["BERT", "Ours"])
    return exact("lowest SS of the others", "other methods", len(others), others.min(), others.min() > 56)


@claim("fast", "On GPT-2 FAST raises ICAT and exceeds the next best method by 6.86 points.", "4", _RIVALS)
def _(_: Measured) -> Finding:
    scores = _fast("GPT2")["gender"]
    lead = _beats(scores, "ICAT")
    return exact(_BETTER, "methods", len(scores) - 1, lead, round(lead, 2) == 6.86)


@claim("fast", "FAST lowers the SS of larger models too.", "4, Table 3", _RIVALS)
def _(_: Measured) -> Finding:
    scores = table("fast-table-3", "model", "method")["SS_StereoSet"].unstack()
    return mean("fall of SS, points", "models", scores["original"] - scores["FAST"])


@claim("fast", "FAST does not harm the language modelling (LMS) of larger models.", "abstract, Table 3", _RIVALS)
def _(_: Measured) -> Finding:
    scores = table("fast-table-3", "model", "method")["LMS"].unstack()
    return mean("change of LMS, points, against −1", "models", scores["FAST"] - scores["original"], -1)


@claim("fast", "FAST largely keeps the facts (DS) of larger models.", "4, Table 3", _RIVALS)
def _(_: Measured) -> Finding:
    scores = table("fast-table-3", "model", "method")["DS"].unstack()
    return mean("DS after, %, against 90", "models", scores["FAST"], 90, percent=True)


@claim("fast", "On GLUE FAST is better on average than five of six other methods.", "D.1, Table 9", _RIVALS)
def _(_: Measured) -> Finding:
    scores = table("fast-table-9", "method").drop(columns="Average")
    # MABEL has no score on one task, so each pair is of the tasks that both have.
    leads = [(scores.loc["Ours"] - scores.loc[name]).mean() for name in scores.index.difference(["BERT", "Ours"])]
    better = sum(np.array(leads) > 0)
    return exact("methods with a lower mean", "other methods", len(leads), better, better == 5)


@claim("fast", "FAST keeps the scores on GLUE.", "D.1, Table 9", _RIVALS)
def _(_: Measured) -> Finding:
    scores = table("fast-table-9", "method").drop(columns="Average")
    return mean("change of the score, points, against −1", "tasks", scores.loc["Ours"] - scores.loc["BERT"], -1)


@claim("fast", "FAST adds only about one percent of the parameters.", "D.5, Table 10", _RIVALS)
def _(_: Measured) -> Finding:
    costs = table("fast-table-10", "model", "stage").dropna()
    added = 100 * costs["params_fast_B"] / costs["params_total_B"]
    return exact("largest share, %", "models", len(added), added.max(), added.max() < 1.5)


for _says, _where in (
    ("The last block of BERT and the first one of the causal models decide biased predictions.", "C.2, D.2"),
    ("Editing the located block is better than editing any other one.", "D.3, Figure 7"),
    ("1,024 units are the best size of the stamp.", "D.4, Figure 7"),
):
    no_numbers("fast", _says, _where, "The figures print no numbers, and no code, data or answers were released.")

# UnStereoEval
_SETS = {"Ours-5": "ours-5", "Ours-10": "ours-10", "Ours-20": "ours-20", "WB": "winobias", "WG": "winogender"}
_FIGURE = "Figure 7 as the authors drew it"
_PYTHIA = ("70M", "160M", "410M", "1.4B", "2.8B", "6.9B", "12B")


def _sizes(limit: str) -> Any:
    return table("unstereo-sizes", "dataset")[limit]


def _tau(name: str, limit: str = "orig") -> dict[str, Unit]:
    """τ of each of the 23 models on a set, in percent of its sentences (Tables 5 and 6)."""
    number = 5
    if name in ("Ours-10", "Ours-20"):
        number = 6
    column = table(f"unstereo-table-{number}", "model")[f"{name}_{limit}"]
    size = int(_sizes(limit)[name])
    return {str(model): share(value / 100, size) for model, value in column.items()}


def _leans(name: str) -> dict[str, Unit]:
    """By how much each model prefers he, in points; the variance is the largest that τ and the lean allow."""
    leans = table("unstereo-table-9", "model")[name]
    neutral = table(f"unstereo-table-{6 if name in ('Ours-10', 'Ours-20') else 5}", "model")[f"{name}_orig"]
    size = int(_sizes("orig")[name])
    units = {}
    for model, lean in leans.items():
        units[str(model)] = _lean(-lean / 100, 1 - neutral[model] / 100, size)
    return units


def _lean(lean: float, gendered: float, size: int) -> Unit:
    """A mean of 1, 0 and −1, of which ``gendered`` are not 0."""
    error = math.sqrt(max(gendered - lean**2, 0) / size)
    return lambda quantile: (100 * lean, 100 * (lean - quantile * error), 100 * (lean + quantile * error))


def _figure_7(measured: Measured) -> Any:
    return measured._once("drawn_curves")


@claim(
    "unstereo", "At a limit of 0.5 three of the five sets lose over half of their sentences.", "2.1", "built data sets"
)
def _(measured: Measured) -> Finding:
    lost = []
    for name in _SETS.values():
        frame = measured._frame(f"unstereo/{name}-paper")
        lost.append(float((frame["max_pmi_diff"].abs() > 0.5).mean()))
    over_half = sum(np.array(lost) > 0.5)
    return exact("sets that lose over half", "sets, each counted whole", len(lost), over_half, over_half == 3)


@claim(
    "unstereo",
    "Every model prefers a gender in at least 60 % of the sentences of every set (limit 0.65).",
    "1, 4",
    asked_of=("fair_sentences",),
)
def _(_: Measured) -> Finding:
    units = [against(40, unit) for name in _SETS for unit in _tau(name, "eps0.65").values()]
    return every("smallest distance of τ below 40, points", "sentences", units, n=int(_sizes("eps0.65").min()))


@claim("unstereo", "Every model prefers a gender in at most 95 % of the sentences of every set (limit 0.65).", "1, 4")
def _(_: Measured) -> Finding:
    units = [unit for name in _SETS for unit in _tau(name, "eps0.65").values()]
    return every("smallest τ, %, against 5", "sentences", units, 5, n=int(_sizes("eps0.65").min()))


@claim("unstereo", "Every model prefers he in WinoBias and Winogender.", "4", asked_of=("fair_sentences",))
def _(_: Measured) -> Finding:
    units = [unit for name in ("WB", "WG") for unit in _leans(name).values()]
    return every("smallest lean to he, points", "sentences", units, n=int(_sizes("orig")["WG"]))


@claim("unstereo", "The lean is smaller on our sets than on WinoBias and Winogender.", "4")
def _(_: Measured) -> Finding:
    leans = table("unstereo-table-9", "model").abs()
    less = leans[["WB", "WG"]].mean(axis=1) - leans[["Ours-5", "Ours-10", "Ours-20"]].mean(axis=1)
    return mean("fall of the lean, points", "models", less)


@claim("unstereo", "Most models prefer one gender by over 20 points on our sets.", "4")
def _(_: Measured) -> Finding:
    leans = table("unstereo-table-9", "model")[["Ours-5", "Ours-10", "Ours-20"]].abs().mean(axis=1)
    return most("models with a mean lean above 20, %, against 50", "models", list(leans > 20))


@claim("unstereo", "OPT 6.7B does not prefer one gender by over 20 points on Ours-10.", "4")
def _(_: Measured) -> Finding:
    return every(
        "20 less its lean, points",
        "sentences",
        [against(20, _leans("Ours-10")["OPT 6.7B"])],
        n=int(_sizes("orig")["Ours-10"]),
    )


@claim(
    "unstereo",
    "Fairness has no consistent trend with the size of the model (smallest to largest, four families).",
    "4",
    asked_of=("larger",),
)
def _(_: Measured) -> Finding:
    tau = _tau("Ours-5")
    families = (
        ("LLAMA-2 7B", "LLAMA-2 13B"),
        ("MPT 7B", "MPT 30B"),
        ("OPT 125M", "OPT 6.7B"),
        ("Pythia 70M", "Pythia 12B"),
    )
    units = [change(tau[small], tau[large]) for small, large in families]
    return no_trend("change of τ on Ours-5, points, mean and range", "families", units)


@claim(
    "unstereo", "Training on deduplicated text has no consistent effect on fairness.", "4", asked_of=("deduplicated",)
)
def _(_: Measured) -> Finding:
    tau = _tau("Ours-5")
    units = [change(tau[f"Pythia {size}"], tau[f"Pythia {size} (D)"]) for size in _PYTHIA]
    return no_trend("change of τ on Ours-5, points, mean and range", "pairs of Pythia models", units)


@claim("unstereo", "Deduplicated text matches or improves the fairness of the models of Figure 7.", "B.4")
def _(_: Measured) -> Finding:
    changes = []
    for name in _SETS:
        tau = _tau(name)
        changes += [change(tau[f"Pythia {size}"], tau[f"Pythia {size} (D)"]) for size in ("70M", "6.9B", "12B")]
    # A loss of less than a point counts as a match.
    return every("smallest change of τ, points, against −1", "sentences", changes, -1, n=int(_sizes("orig")["WG"]))


for _name, _points in (("Ours-5", 1), ("WB", 6), ("WG", 10)):

    @claim("unstereo", f"A limit on MaxPMIDiff changes τ on {_name} by at most {_points} points.", "4")
    def _(_: Measured, name: str = _name, points: int = _points) -> Finding:
        before = {model: unit(0)[0] for model, unit in _tau(name).items()}
        moves = []
        for number, limit in ((0, "0.65"), (7, "0.8"), (8, "1.0")):
            if number:
                after = table(f"unstereo-table-{number}", "model")[name]
            else:
                after = pd.Series({model: unit(0)[0] for model, unit in _tau(name, f"eps{limit}").items()})
            moves.append(abs(after - pd.Series(before)).max())
        # The sentence has whole points.
        return exact(
            "largest change, points", "models and limits", 3 * len(before), max(moves), round(max(moves)) <= points
        )


@claim("unstereo", "Pythia-6.9B reaches 90 % on Ours-5 at a threshold of 6 nats, and not before.", "B.4", _FIGURE)
def _(measured: Measured) -> Finding:
    value = drawing.at(_figure_7(measured)["ours-5", "EleutherAI/pythia-6.9b"], 6)
    size = int(_sizes("orig")["Ours-5"])
    low, high = share(value / 100, size)(1.96)[1:]
    return Finding("holds" if low <= 90 <= high else "fails", "τ at 6 nats, %", value, low, high, size, "sentences")


@claim("unstereo", "Most models are near their highest fairness from 4 nats on.", "B.4", _FIGURE)
def _(measured: Measured) -> Finding:
    curves = _figure_7(measured)
    means = [np.mean([drawing.at(curves[name, model], 4) for name in drawing.SETS]) for model in drawing.MODELS]
    near = sum(np.array(means) >= 90)
    return exact("models with a mean τ of at least 90 % at 4 nats", "models", len(means), near, 2 * near > len(means))


@claim("unstereo", "Below 2 nats Ours-5 has lower fairness than WinoBias and Winogender.", "B.4", _FIGURE)
def _(measured: Measured) -> Finding:
    curves = _figure_7(measured)
    thresholds = np.linspace(0.1, 2, 20)
    lower = []
    for model in drawing.MODELS:
        means = {name: fmean(drawing.at(curves[name, model], at) for at in thresholds) for name in drawing.SETS}
        lower.append((means["winobias"] + means["winogender"]) / 2 - means["ours-5"])
    return mean("mean τ of both less that of Ours-5, points", "models", lower)


@claim(
    "unstereo",
    "More words of the Pile occur with he than with she.",
    "appendix A",
    "counts in a notebook of the authors",
)
def _(measured: Measured) -> Finding:
    he, she = measured._pile_words("", "he"), measured._pile_words("", "she")
    return exact("he less she, points", "words", int(measured._pile_words("", "words")), he - she, he > she)
