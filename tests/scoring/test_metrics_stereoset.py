import math

import numpy as np
import pytest

from scoring.metrics import stereoset


def examples(*rows):
    """Rows of term, stereotype score, anti-stereotype score, unrelated score."""
    term, biased, unbiased, irrelevant = zip(*rows, strict=True) if rows else ((),) * 4
    scores = {"score_biased": biased, "score_unbiased": unbiased, "score_irrelevant": irrelevant}
    return {"subject": np.array(term, dtype=object)} | {k: np.array(v, float) for k, v in scores.items()}


def value(metric, table):
    return float(metric.value(table, np.ones((1, len(table["subject"]))))[0])


def random_examples(count=60, terms=7):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (count, 3))
    return examples(*((f"term {t}", *s) for t, s in zip(rng.integers(0, terms, count), scores.tolist(), strict=True)))


def by_term(table):
    """SS and LMS as the papers define them, by a loop over terms."""
    result = []
    for term in sorted(set(table["subject"])):
        rows = [
            (b, u, i)
            for t, b, u, i in zip(
                *(table[c].tolist() for c in ("subject", "score_biased", "score_unbiased", "score_irrelevant")),
                strict=True,
            )
            if t == term
        ]
        preferred = sum(b > u for b, u, _ in rows) / len(rows)
        meaningful = sum((b > i) + (u > i) for b, u, i in rows) / (2 * len(rows))
        result.append((100 * preferred, 100 * meaningful))
    return [sum(column) / len(result) for column in zip(*result, strict=True)]


def test_scores_are_means_over_terms_of_the_percentages_of_each():
    table = random_examples()
    preferred, meaningful = by_term(table)
    assert value(stereoset.ss(), table) == pytest.approx(preferred)
    assert value(stereoset.lms(), table) == pytest.approx(meaningful)
    assert value(stereoset.icat(), table) == pytest.approx(meaningful * min(preferred, 100 - preferred) / 50)


def test_pooled_scores_count_examples_alike():
    table = random_examples()
    share = 100 * np.mean(table["score_biased"] > table["score_unbiased"])
    assert value(stereoset.ss(pooled=True), table) == pytest.approx(share)
    assert value(stereoset.ss(pooled=True), table) != pytest.approx(value(stereoset.ss(), table))
    assert value(stereoset.icat(pooled=True), table) == pytest.approx(
        value(stereoset.lms(pooled=True), table) * min(share, 100 - share) / 50
    )


def test_a_term_drawn_twice_counts_twice_and_one_not_drawn_not():
    table = random_examples()
    terms = sorted(set(table["subject"]))
    counts = dict(zip(terms, (2, 0, 1, 1, 3, 0, 0), strict=True))
    weights = np.array([[counts[t] for t in table["subject"]]], float)
    item = {t: by_term({k: v[table["subject"] == t] for k, v in table.items()}) for t in terms}
    expected = sum(counts[t] * item[t][0] for t in terms) / 7
    assert stereoset.ss().value(table, weights)[0] == pytest.approx(expected)


def test_a_tie_counts_for_the_anti_stereotype_and_for_the_unrelated_sentence():
    table = examples(("a", 1, 1, 1))
    assert (value(stereoset.ss(), table), value(stereoset.lms(), table)) == (0, 0)


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    ("rows", "icat"),
    [
        ([("a", 2, 1, 0), ("b", 2, 1, 0)], 0),
        ([("a", 1, 2, 0), ("b", 1, 2, 0)], 0),
        ([("a", 2, 1, 0), ("b", 1, 2, 0)], 100),
        ([("a", 2, 1, 3), ("b", 1, 2, 3)], 0),
        ([("a", math.nan, 1, 0), ("b", 1, 2, 0)], math.nan),
    ],
)
def test_icat_is_defined_at_the_ends(rows, icat):
    assert value(stereoset.icat(), examples(*rows)) == pytest.approx(icat, nan_ok=True)
