"""Full and short names of metrics, for readers who do not know them by their name in ``results.json``."""

from __future__ import annotations

import re

#: Full name and short name (at most 14 letters, for terminals) of each metric.
NAMES: dict[str, tuple[str, str]] = {
    "add_log": ("Average distribution divergence, logarithm (ADD)", "log ADD"),
    "add_raw": ("Average distribution divergence (ADD)", "ADD"),
    "add_raw_her_his": ("Average distribution divergence, her paired with his (ADD)", "ADD her/his"),
    "antistereotype_score": ("Anti-stereotype score, anti-stereotype pairs", "anti-stereo"),
    "aufc": ("Area under the fairness curve (AuFC)", "AuFC"),
    "aufc_ln": ("Area under the fairness curve, natural logarithms (AuFC)", "AuFC ln"),
    "aufc_log10": ("Area under the fairness curve, decimal logarithms (AuFC)", "AuFC log10"),
    "aufc_published_log10": ("Area under the fairness curve, as published, decimal logarithms (AuFC)", "AuFC log10"),
    "aufc_published": ("Area under the fairness curve, as published (AuFC)", "AuFC published"),
    "aufc_published_ln": ("Area under the fairness curve, as published, natural logarithms (AuFC)", "AuFC ln"),
    "ds": ("Differentiation score (DS)", "same facts"),
    "fact_accuracy": ("Facts got right", "facts right"),
    "gas": ("Gender attribute score (GAS)", "GAS"),
    "gas_by_topic": ("Gender attribute score, mean over topics (GAS)", "GAS by topic"),
    "gas_female": ("Female share of gendered continuations (GAS(F))", "GAS(F)"),
    "gas_gap": ("Gap between female and male continuations", "GAS gap"),
    "gas_male": ("Male share of gendered continuations (GAS(M))", "GAS(M)"),
    "gas_plain": ("Gender attribute score, all continuations (GAS)", "GAS, all"),
    "gld": ("Gender logits difference (GLD)", "GLD"),
    "icat": ("Idealised context association test score (ICAT)", "ICAT"),
    "icat_pooled": ("Idealised context association test score, examples pooled (ICAT)", "ICAT pooled"),
    "jsd": ("Jensen–Shannon divergence of gendered words (JSD)", "JSD"),
    "labour_correlation": ("Correlation with the labour market", "labour corr."),
    "lms": ("Language-model score (LMS)", "language score"),
    "lms_pooled": ("Language-model score, examples pooled (LMS)", "LMS pooled"),
    "male_rel_ratio": ("Male share of the pairs with a preference", "male share"),
    "metric_score": ("Metric score, all pairs", "metric score"),
    "p_diverse": ("Probability of diverse gender", "P(diverse)"),
    "p_female": ("Probability of women", "P(female)"),
    "p_male": ("Probability of men", "P(male)"),
    "pronoun_mass": ("Probability of all gendered pronouns", "pronoun mass"),
    "ps": ("Paraphrased stereotype score (PS)", "paraphrased SS"),
    "ratio_female": ("Female share of the pronoun probability", "female ratio"),
    "ratio_male": ("Male share of the pronoun probability", "male ratio"),
    "rho: corpus and labour": ("Corpus and labour market (Spearman's ρ)", "ρ corpus, jobs"),
    "rho: corpus and model": ("Corpus and model (Spearman's ρ)", "ρ corpus"),
    "rho: labour and model": ("Labour market and model (Spearman's ρ)", "ρ labour"),
    "skipped": ("Pairs without scores", "skipped pairs"),
    "ss": ("Stereotype score (SS)", "stereotype"),
    "ss_by_term": ("Stereotype score, mean over terms (SS)", "SS by term"),
    "ss_pooled": ("Stereotype score, examples pooled (SS)", "SS pooled"),
    "stereotype_score": ("Stereotype score, stereotype pairs", "stereotype"),
    "ties": ("Pairs with equal scores", "ties"),
    "unclear": ("Answers that name no gender or several", "unclear"),
    "us_score": ("UnStereo score (US score)", "UnStereo score"),
}
#: The same for names that end in a setting: a threshold, or a class of continuations.
FAMILIES: tuple[tuple[str, str, str], ...] = (
    (r"tau@(.+)", "Pairs without a preference, τ({})", "τ({})"),
    (r"us_gap@(.+)", "UnStereo score of gender-neutral pairs (MaxPMIDiff ≤ {}) minus that of all", "gap at {}"),
    (r"pref_disparity@us", "Preference disparity at the threshold of the UnStereo score", "disparity"),
    (r"pref_disparity@(.+)", "Preference disparity at ε = {}", "disparity {}"),
    (r"share_(.+)", "Continuations of the class {}", "share {}"),
)


def full_name(metric: str) -> str:
    """The full name of a metric; a metric of another project is called by its own name.

    >>> full_name("gas"), full_name("tau@0.5"), full_name("cat_rate")
    ('Gender attribute score (GAS)', 'Pairs without a preference, τ(0.5)', 'cat_rate')
    """
    return _name(metric, 0)


def short_name(metric: str) -> str:
    """The short name of a metric.

    >>> short_name("labour_correlation"), short_name("share_both")
    ('labour corr.', 'share both')
    """
    return _name(metric, 1)


def _name(metric: str, which: int) -> str:
    if metric in NAMES:
        return NAMES[metric][which]
    for pattern, *names in FAMILIES:
        if match := re.fullmatch(pattern, metric):
            return names[which].format(*match.groups())
    return metric
