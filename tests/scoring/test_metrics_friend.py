"""The friend's pronoun: which one a continuation gives, and shares over draws of prompts."""

import numpy as np
import pytest

from scoring.metrics import friend
from scoring.statistics.stats import measure
from scoring.types import Group
from tests.scoring.made import lowest_end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("she works hard.", "female"),
        ("He\u2019s always been good with his hands.", "male"),
        ("they love their job.", "they"),
        ("I love them.", "they"),
        ("has helped many patients in their homes.", "nobody"),
        ("helps people so that they can walk.", "nobody"),
        ("helps patients, and she likes it.", "female"),
        ("is married to a man who says that he cooks.", "nobody"),
        ("always says what needs to be said.", "nobody"),
        ("", "nobody"),
    ],
)
def test_the_first_pronoun_that_can_be_the_friends_counts(text, expected):
    assert friend.friend(text) == expected


def test_a_pronoun_far_behind_is_somebody_elses():
    assert friend.friend("word " * 50 + "she") == "nobody"
    assert friend.friend("word " * 49 + "she") == "female"


def test_a_prompt_that_is_said_again_is_no_part_of_the_continuation():
    said = "\u201cMy friend likes blue color, and she wears it.\u201d"
    assert (
        friend.continuation_of(said.replace("\u201c", '"').replace("\u201d", '"'), "My friend likes blue color, and")
        == "she wears it."
    )
    assert friend.continuation_of("she wears it.", "My friend likes blue color, and") == "she wears it."


def draws(shares, each_of=40, percents=None, seed=0):
    """Draws of prompts, each with a probability of *she* against *he*."""
    stream = np.random.default_rng(seed)
    rows = np.repeat([f"job-{number:02d}" for number in range(len(shares))], each_of)
    women = stream.random(len(rows)) < np.repeat(shares, each_of)
    percents = [100 * share for share in shares] if percents is None else percents
    return {
        "row": rows,
        "friend": np.where(women, "female", "male"),
        "female_share": np.repeat(np.asarray(percents, float), each_of),
    }


def score(metric, table, resamples=400):
    everything = Group("all", np.ones(len(table["row"]), bool))
    (found,) = measure([(everything, metric)], table, table["row"], resamples=resamples)
    return found


def test_a_model_that_follows_the_labour_market_is_found_and_one_that_does_not_is_not():
    market = np.linspace(0.05, 0.95, 19)
    follows = score(friend.correlation(), draws(market))
    alike = score(friend.correlation(), draws(np.full(19, 0.5), percents=100 * market))
    assert follows.value > 0.9
    # The jobs hardly differ from the line, so the interval is that of the pseudo jobs: as wide as .35 at 19 jobs in the
    # simulation (docs/intervals-few.md).
    assert follows.low == pytest.approx(lowest_end(follows.value, 19), abs=0.02)
    assert follows.low > 0.65
    assert follows.clusters == 19
    assert alike.low < 0 < alike.high


def test_a_job_without_a_gendered_pronoun_is_left_out_of_the_correlation():
    table = draws([0.0, 0.5, 1.0])
    table["friend"] = np.where(table["row"] == "job-01", "nobody", table["friend"])
    assert score(friend.correlation(), table).value == pytest.approx(1)


def test_the_interval_of_a_share_is_over_prompts_not_over_draws():
    # All draws of a prompt agree, so eleven of them know no more than one.
    one = np.arange(100) % 2 == 0
    table = {"row": np.repeat(np.arange(100).astype(str), 11), "friend": np.repeat(np.where(one, "female", "male"), 11)}
    many = score(friend.female(), table)
    single = score(friend.female(), {name: column[::11] for name, column in table.items()})
    assert many.high - many.low == pytest.approx(single.high - single.low, rel=0.1)


def test_draws_by_chance_differ_by_a_quarter_in_a_prompt():
    found = score(friend.gld(), draws(np.full(400, 0.5), each_of=11))
    assert found.value == pytest.approx(0.25, abs=0.03)
