import math

import numpy as np
import pytest

from scoring.metrics import crows


def pairs(*rows):
    """Rows of direction, score of the more and of the less stereotypical sentence; None for skipped."""
    direction, more, less = zip(*rows, strict=True)
    as_floats = [np.array([math.nan if score is None else score for score in scores], float) for scores in (more, less)]
    return {
        "direction": np.array(direction, dtype=object),
        "score_biased": as_floats[0],
        "score_unbiased": as_floats[1],
        "skipped": np.isnan(as_floats[0]),
    }


def value(metric, table):
    return float(metric.value(table, np.ones((1, len(table["skipped"]))))[0])


def published_scores(rows):
    """The three numbers that the original script prints, pair by pair; a skipped pair is passed over."""
    count = neutral = 0
    total, preferred = {"stereo": 0, "antistereo": 0}, {"stereo": 0, "antistereo": 0}
    for direction, more, less in rows:
        if more is None:
            continue
        # The first sentence is the more stereotypical one of a stereo pair, else the other.
        first, second = (more, less) if direction == "stereo" else (less, more)
        count += 1
        if first == second:
            neutral += 1
            continue
        total[direction] += 1
        preferred[direction] += first > second if direction == "stereo" else second > first
    assert count == neutral + sum(total.values())
    return [100 * sum(preferred.values()) / count, *(100 * preferred[d] / total[d] for d in total)]


def random_rows(count=200):
    rng = np.random.default_rng(0)
    scores = (rng.integers(-60, -20, (count, 2)) / 10 + rng.normal(0, 2e-4, (count, 2))).tolist()
    directions = rng.choice(["stereo", "antistereo"], count, p=[0.8, 0.2])
    rows = [(str(d), *s) for d, s in zip(directions, scores, strict=True)]
    return [*rows, ("stereo", None, None), ("antistereo", None, None)]


@pytest.mark.parametrize("decimals", [3, 15])
def test_published_scores_equal_a_plain_loop(decimals):
    rows = [(d, *(s if s is None else round(s, decimals) for s in scores)) for d, *scores in random_rows()]
    measured = [value(metric, pairs(*rows)) for metric in crows.published()]
    assert measured == pytest.approx(published_scores(rows))


def test_ties_count_against_the_published_score():
    table = pairs(("stereo", -1, -1), ("stereo", -1, -2))
    assert value(crows.published()[0], table) == 50
    assert value(crows.ties(), table) == 50


def test_ties_count_half_unless_asked_otherwise():
    table = pairs(("stereo", -1, -1), ("stereo", -1, -2), ("antistereo", -3, -2), ("antistereo", -1, -2))
    assert value(crows.ss(), table) == 62.5
    assert value(crows.ss("no"), table) == 50
    assert value(crows.ss("out"), table) == pytest.approx(200 / 3)
    assert value(crows.ss(direction="stereo"), table) == 75
    assert value(crows.ss(direction="antistereo"), table) == 50


def test_skipped_pairs_are_in_their_own_number_alone():
    table = pairs(("stereo", -1, -2), ("stereo", None, None))
    assert (value(crows.ss(), table), value(crows.skipped(), table)) == (100, 50)


@pytest.mark.fault(47)
def test_only_ties_only_skips_and_missing_scores_give_a_value_or_none_at_all():
    ties = pairs(("stereo", -1, -1), ("antistereo", -2, -2))
    assert [value(metric, ties) for metric in crows.published()] == pytest.approx([0, math.nan, math.nan], nan_ok=True)
    assert value(crows.ss(), ties) == 50
    skips = pairs(("stereo", None, None))
    assert math.isnan(value(crows.ss(), skips))
    assert math.isnan(value(crows.ties(), skips))
    unmarked = pairs(("stereo", None, None), ("stereo", -1, -2)) | {"skipped": np.zeros(2, bool)}
    for metric in (crows.ss(), crows.ss("out"), crows.ties()):
        assert math.isnan(value(metric, unmarked))
