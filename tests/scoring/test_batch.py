"""Rows, batches and replies."""

import random

import numpy as np
import pytest

from scoring.batch import Limits, common, padded, plan, run
from scoring.replies import Replies
from scoring.tokens import Query, Tokens
from scoring.types import Ask, Option, Reply, ScoringError
from tests.scoring.models import tokenizer


def last(*ids):
    """A sequence whose last token is read."""
    return Query(ids, (len(ids) - 1,), (ids[-1],))


def planned(queries, share=True, merge=True, width=64, longest=64):
    return plan(queries, share=share, merge=merge, width=width, longest=longest)


def seen(row, at):
    """The tokens that the token at a place of a row sees, itself included."""
    return [row.ids[j] for j in range(at + 1) if at < row.ends[j]]


def drawn(seed, count=60):
    """Sequences over few tokens, so that many begin alike; all positions are read."""
    numbers = random.Random(seed)
    lists = [tuple(numbers.choices(range(3), k=numbers.randint(1, 12))) for _ in range(count)]
    return [Query(ids, tuple(range(len(ids))), tuple(numbers.choices(range(9), k=len(ids)))) for ids in lists]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [True, False])
def test_every_read_token_sees_its_own_sequence_and_nothing_else(seed, share):
    queries = drawn(seed)
    found = {}
    for row in planned(queries, share):
        for at, want, answer in zip(row.at, row.want, row.answer, strict=True):
            assert row.depths[at] == len(seen(row, at)) - 1
            found[answer] = (tuple(seen(row, at)), want)
    expected = [(q.ids[: at + 1], want) for q in queries for at, want in zip(q.at, q.want, strict=True)]
    assert [found[n] for n in range(len(expected))] == expected


def test_equal_sequences_are_computed_once():
    assert [row.ids for row in planned([last(1, 2), last(1, 2), last(3, 4)], share=False)] == [[1, 2], [3, 4]]


def test_equal_sequences_are_computed_apart_when_nothing_may_be_merged():
    assert len(planned([last(1, 2), last(1, 2)], share=False, merge=False)) == 2


def test_a_sequence_that_goes_on_where_another_ends_needs_no_row():
    rows = planned([last(1, 2), last(1, 2, 3, 4, 5, 6, 7, 8, 9), last(1, 2, 3)])
    assert [row.ids for row in rows] == [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert not rows[0].branched


def test_options_of_a_context_branch_off_it():
    context = tuple(range(10, 20))
    (row,) = planned([last(*context, 1, 2), last(*context, 3, 4), last(*context, 5)])
    assert row.branched
    assert len(row) == len(context) + 5


def test_sequences_that_share_little_have_rows_of_their_own():
    assert len(planned([last(1, *range(10, 20)), last(1, *range(20, 30))])) == 2


def test_a_row_takes_no_branch_beyond_its_bound():
    context = tuple(range(10, 20))
    queries = [last(*context, n, n) for n in range(20)]
    assert all(len(row) <= 16 for row in planned(queries, longest=16))


def test_a_row_takes_no_branch_where_attention_costs_more_than_it_saves():
    context = tuple(range(100, 104))
    queries = [last(*context, *(n for _ in range(8))) for n in range(40)]
    narrow, wide = (planned(queries, width=width, longest=4096) for width in (1, 4096))
    assert len(wide) == 1
    assert len(narrow) == len(queries)


def test_rows_come_longest_first():
    lengths = [len(row) for row in planned(drawn(0), share=False)]
    assert lengths == sorted(lengths, reverse=True)


class Full(Exception):
    """Memory is full."""


def limits(tokens, size=None):
    return Limits(tokens, size, lambda e: isinstance(e, Full), lambda row, e: ScoringError(f"{len(row)} tokens: {e}"))


def test_batches_keep_to_their_tokens_and_rows():
    rows = [[0] * n for n in (9, 5, 5, 4, 3, 1)]
    batches = [batch for batch, _ in run(rows, len, limits(10))]
    assert batches == [rows[:1], rows[1:3], rows[3:5], rows[5:]]
    assert [len(batch) for batch, _ in run(rows, len, limits(100, 4))] == [4, 2]


@pytest.mark.fault(40)
def test_a_batch_that_does_not_fit_is_halved_and_so_are_those_after_it():
    tried = []

    def compute(batch):
        tried.append(len(batch))
        if len(batch) > 3:
            raise Full
        return batch

    rows = [[n] for n in range(10)]
    done = [row for _, batch in run(rows, compute, limits(8)) for row in batch]
    assert done == rows
    assert tried == [8, 4, 2, 2, 2, 2, 2]


@pytest.mark.fault(40)
def test_a_row_that_does_not_fit_by_itself_is_an_error():
    def compute(_):
        raise Full("full")

    with pytest.raises(ScoringError, match=r"^5 tokens: full$"):
        list(run([[0] * 5], compute, limits(8)))


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def compute(_):
        raise KeyError("x")

    with pytest.raises(KeyError):
        list(run([[0], [1]], compute, limits(8)))


def test_lists_are_filled_up_on_either_side():
    assert padded([[1], [2, 3]], 0, 3).tolist() == [[1, 0, 0], [2, 3, 0]]
    assert padded([[1], [2, 3]], 0, 3, left=True).tolist() == [[0, 0, 1], [0, 2, 3]]


def test_sequences_share_their_common_beginning():
    assert common((), (1,)) == 0
    assert common((1, 2), (1, 2)) == 2
    assert common((1, 2, 3), (1, 4, 3)) == 1


def replies(asks, **callbacks):
    return Replies(Tokens(tokenizer("gpt2"), "causal"), asks, "m in float32", **callbacks)


def test_a_reply_is_complete_when_its_last_number_is_there():
    got = []
    asks = [Ask("b", "I like", (Option(" her"),), ("she", "unlikely"), max_new=3), Ask("a")]
    found = replies(asks, on_reply=got.append)
    assert got == [Reply("a")]
    scores = np.arange(len(found.values), dtype=float)
    found.score(np.arange(len(scores)), -scores)
    assert len(got) == 1
    found.write(asks[0], " and")
    (option,), (she, unlikely) = got[1].logprobs, got[1].watched
    assert option == tuple(-scores[:-1])
    assert she == -scores[-1]
    assert np.isnan(unlikely)
    assert [r.id for r in found.all()] == ["b", "a"]
    assert got[1].text == " and"


def test_progress_counts_complete_replies():
    told = []
    found = replies([Ask("a"), Ask("b", max_new=1)], progress=lambda *counts: told.append(counts))
    found.write(found.asks[1], "")
    assert told == [(1, 2), (2, 2)]


@pytest.mark.fault(39)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_number_that_is_none_stops_with_ask_and_dtype(value):
    found = replies([Ask("occugender/7", "I like", (Option(" her"),))])
    with pytest.raises(ScoringError, match=rf"^occugender/7: m in float32 gave {value} as a log-probability"):
        found.score(np.array([0]), np.array([value]))


def test_two_asks_of_one_id_are_refused():
    with pytest.raises(ScoringError, match="Two asks have the id 'a'"):
        replies([Ask("a"), Ask("b"), Ask("a")])
