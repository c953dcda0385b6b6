"""Rows, batches and responses."""

import random
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from scoring.inference.batching import Limits, common, in_batches, padded, plan
from scoring.inference.responses import IncomingResponses
from scoring.inference.tokens import Query, Tokens
from scoring.types import Option, Request, Response, ScoringError
from tests.scoring.models import tokenizer


def last(*ids):
    """A sequence whose last token is read."""
    return Query(ids, (len(ids) - 1,), (ids[-1],))


def planned(queries, share=True, merge=True, reach=384, longest=64):
    return plan(queries, share=share, merge=merge, reach=reach, longest=longest)


def seen(row, at):
    """The tokens that the token at a place of a row sees, itself included."""
    return [row.ids[j] for j in range(at + 1) if at < row.ends[j]]


def drawn(seed, count=60):
    """Sequences over few tokens, so that many begin alike, some with hidden tokens; all positions are read."""
    numbers = random.Random(seed)
    result = []
    for _ in range(count):
        ids = tuple(numbers.choices(range(3), k=numbers.randint(2, 12)))
        want = tuple(numbers.choices(range(9), k=len(ids)))
        places = numbers.choice(((0, 0), (0, 0), (1, 0), (1, 5), (2, 3)))
        result.append(Query(ids, tuple(range(len(ids))), want, *places))
    return result


def sights(query):
    """Which tokens each token of a query sees, itself included, and where it stands."""
    for at in range(len(query.ids)):
        hidden = [j for j in range(at + 1) if 1 <= j <= query.hidden]
        yield [query.ids[j] for j in range(at + 1) if j not in hidden], at + query.gap * (at > 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [True, False])
def test_every_read_token_sees_its_own_sequence_and_nothing_else(seed, share):
    queries = drawn(seed)
    rows = planned(queries, share)
    result = {}
    for row in rows:
        assert len(row) == len(row.position_ids) == len(row.ends)
        for at, want, answer in zip(row.at, row.want, row.answer, strict=True):
            result[answer] = (seen(row, at), row.position_ids[at], want)
    expected = [(*sight, want) for q in queries for sight, want in zip(sights(q), q.want, strict=True)]
    assert [result[n] for n in range(len(expected))] == expected


def test_a_row_that_is_one_sequence_in_order_is_not_branched():
    (plain,) = planned([last(1, 2, 3)])
    (hidden,) = planned([Query((1, 0, 3), (2,), (9,), hidden=1)])
    (gap,) = planned([Query((1, 0, 3), (2,), (9,), hidden=1, gap=2)])
    assert (plain.branched, hidden.branched, gap.branched) == (False, False, True)
    assert (hidden.ends, gap.position_ids) == ([3, 1, 3], [0, 3, 4])


def test_a_query_spelled_out_has_a_token_at_every_place():
    query = Query((1, 0, 5, 6), (0, 1, 2, 3), (0, 5, 6, 7), hidden=1, gap=2)
    assert query.spelled() == Query((1, 0, 0, 0, 5, 6), (0, 3, 4, 5), (0, 5, 6, 7), hidden=3)
    plain = last(1, 2, 3)
    assert plain.spelled() == plain


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


def test_sequences_share_a_row_only_where_that_takes_fewer_operations():
    # 11 tokens each, of which they share one: 2 * 11 * (reach + 11) operations against 21 * (reach + 21).
    queries = [last(1, *range(10, 20)), last(1, *range(20, 30))]
    assert len(planned(queries, reach=198)) == 2
    assert len(planned(queries, reach=200)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_no_other_way_to_cut_the_sorted_sequences_takes_fewer_operations(seed):
    queries = sorted(drawn(seed, 9), key=lambda query: (query.hidden, query.gap, query.ids))

    def operations(rows):
        return sum(len(row) * (20 + len(row)) for row in rows)

    def cut(places):
        for a, b in pairwise((0, *places, len(queries))):
            yield from planned(queries[a:b], reach=1e12, longest=10**6)

    tried = [operations(cut(places)) for n in range(9) for places in combinations(range(1, 9), n)]
    assert operations(planned(queries, reach=20)) == min(tried) < max(tried)


def test_a_row_takes_no_branch_beyond_its_bound():
    context = tuple(range(10, 20))
    queries = [last(*context, n, n) for n in range(20)]
    assert all(len(row) <= 16 for row in planned(queries, longest=16))


def test_a_row_takes_no_branch_where_attention_costs_more_than_it_saves():
    context = tuple(range(100, 104))
    queries = [last(*context, *(n for _ in range(8))) for n in range(40)]
    narrow, wide = (planned(queries, reach=reach, longest=4096) for reach in (6, 6 * 4096))
    assert len(wide) == 1
    assert len(narrow) == len(queries)


def test_rows_come_longest_first():
    lengths = [len(row) for row in planned(drawn(0), share=False)]
    assert lengths == sorted(lengths, reverse=True)


def limits(tokens, size=None):
    def alone(row, error):
        return ScoringError(f"{len(row)} tokens: {error}")

    return Limits(tokens, size, alone)


def test_batches_keep_to_their_tokens_and_rows():
    rows = [[0] * n for n in (9, 5, 5, 4, 3, 1)]
    batches = [batch for batch, _ in in_batches(rows, len, limits(10))]
    assert batches == [rows[:1], rows[1:3], rows[3:5], rows[5:]]
    assert [len(batch) for batch, _ in in_batches(rows, len, limits(100, 4))] == [4, 2]


def test_a_batch_takes_only_rows_that_may_be_together():
    rows = [[0] * n for n in (5, 5, 4, 4, 4)]
    apart = replace(limits(100), together=lambda first, row: len(first) == len(row))
    assert [batch for batch, _ in in_batches(rows, len, apart)] == [rows[:2], rows[2:]]


@pytest.mark.fault(40)
def test_a_batch_that_does_not_fit_is_halved_and_so_are_those_after_it():
    tried = []

    def compute(batch):
        tried.append(len(batch))
        if len(batch) > 3:
            raise MemoryError
        return batch

    rows = [[n] for n in range(16)]
    done = [row for _, batch in in_batches(rows, compute, limits(8)) for row in batch]
    assert done == rows
    assert tried == [8, 4, *[2] * 8]


@pytest.mark.fault(40)
def test_a_row_that_does_not_fit_by_itself_is_an_error():
    def compute(_):
        raise MemoryError("full")

    with pytest.raises(ScoringError, match=r"^5 tokens: full$"):
        list(in_batches([[0] * 5], compute, limits(8)))


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def compute(_):
        raise KeyError("x")

    with pytest.raises(KeyError):
        list(in_batches([[0], [1]], compute, limits(8)))


def test_lists_are_filled_up_on_either_side():
    assert padded([[1], [2, 3]], 0, 3).tolist() == [[1, 0, 0], [2, 3, 0]]
    assert padded([[1], [2, 3]], 0, 3, left=True).tolist() == [[0, 0, 1], [0, 2, 3]]


def test_sequences_share_their_common_beginning():
    assert common((), (1,)) == 0
    assert common((1, 2), (1, 2)) == 2
    assert common((1, 2, 3), (1, 4, 3)) == 1


def responses(requests, **callbacks):
    return IncomingResponses(Tokens(tokenizer("gpt2"), "causal"), requests, "m in float32", **callbacks)


def test_a_reply_is_complete_when_its_last_number_is_there():
    outcome = []
    requests = [Request("b", "I like", (Option(" her"),), ("she", "unlikely"), max_new=3), Request("a")]
    result = responses(requests, on_response=outcome.append)
    assert outcome == [Response("a")]
    scores = np.arange(len(result.values), dtype=float)
    result.score(np.arange(len(scores)), -scores)
    assert len(outcome) == 1
    result.write(requests[0], " and")
    (option,), (she, unlikely) = outcome[1].logprobs, outcome[1].candidate_logprobs
    assert option == tuple(-scores[:-1])
    assert she == -scores[-1]
    assert np.isnan(unlikely)
    assert [r.id for r in result.all()] == ["b", "a"]
    assert outcome[1].text == " and"


def test_progress_counts_complete_replies():
    told = []
    result = responses([Request("a"), Request("b", max_new=1)], progress=lambda *counts: told.append(counts))
    result.write(result.requests[1], "")
    assert told == [(1, 2), (2, 2)]


@pytest.mark.fault(39)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_number_that_is_none_stops_with_ask_and_dtype(value):
    result = responses([Request("occugender/7", "I like", (Option(" her"),))])
    with pytest.raises(ScoringError, match=f"occugender/7.*{value}"):
        result.score(np.array([0]), np.array([value]))


def test_two_asks_of_one_id_are_refused():
    with pytest.raises(ScoringError, match="'a'"):
        responses([Request("a"), Request("b"), Request("a")])
