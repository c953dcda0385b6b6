import hashlib
import json
import threading
from decimal import Decimal
from email.utils import formatdate

import httpx2
import pytest
from filelock import Timeout
from rich.progress import Progress

from builders.generation import endpoint
from builders.generation.append_log import AppendLog
from builders.generation.clients import ChatRequest, LiveClient, ReplayClient
from builders.generation.costs import Budget, BudgetExceeded, CostModel, cost_model, parse_amount
from builders.generation.endpoint import Endpoint
from builders.generation.responses import (
    ChatError,
    ChatResponse,
    MissingResponse,
    ModelNotFound,
    ResponseCache,
    read_responses,
    request_body,
    request_key,
    response,
)
from builders.sources.client import HttpClient
from tests.support.openai_server import SLOW, Answer, prompt_of, serving

PRICES = CostModel(Decimal(10), Decimal(100))


def asked(prompt, model="m", **more):
    return request_body(model, prompt, temperature=0, max_tokens=50, **more)


def requests(*prompts):
    return [ChatRequest(asked(prompt), "") for prompt in prompts]


def echo(body, _):
    return f"reply to {prompt_of(body)}"


@pytest.fixture
def pauses(monkeypatch):
    """Pauses between attempts, which are not made."""
    made = []
    monkeypatch.setattr(HttpClient, "_pause", lambda self, seconds: made.append(seconds))
    return made


@pytest.fixture
def live(tmp_path, pauses, monkeypatch):
    """Makes an asker that writes to one file, for a server; ended with the test."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = []

    def make(server, budget=None, concurrency=1, **options):
        cache = ResponseCache(tmp_path / "replies.jsonl")
        item = LiveClient(cache, lambda: Endpoint(server.url, **options), Progress(disable=True), budget, concurrency)
        made.append((cache, item))
        return item

    def end():
        for cache, item in made:
            item.close()
            cache.__exit__(None, None, None)
        made.clear()

    make.end = end
    yield make
    end()


def test_the_query_of_an_address_stands_behind_the_path_of_each_request(live):
    with serving(echo) as server:
        server.url += "?api-version=2024-06-01&x="
        live(server)("ask", requests("a"))
        live.end()
        assert server.paths == ["/v1/chat/completions?api-version=2024-06-01&x="]


# Records


def test_a_line_has_the_fixed_fields_and_its_key_is_the_digest_of_the_canonical_request():
    made = response(asked("Café?", seed=1), "“Oui”", usage=(3, 2), date="2026-01-31")
    line = json.loads(made.to_line())
    assert list(line) == ["key", "request", "reply", "model", "date", "usage", "finish_reason"]
    canonical = (
        '{"max_tokens":50,"messages":[{"content":"Café?","role":"user"}],"model":"m","seed":1,"temperature":0.0}'
    )
    assert line["key"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert line["usage"] == {"prompt_tokens": 3, "completion_tokens": 2}
    assert "“Oui”" in made.to_line()
    marked = response(asked("a"), "b", system_fingerprint="fp_1")
    assert json.loads(marked.to_line())["system_fingerprint"] == "fp_1"
    assert ChatResponse.model_validate_json(marked.to_line()) == marked


def test_half_a_surrogate_pair_in_a_reply_can_be_kept(tmp_path):
    with ResponseCache(tmp_path / "r.jsonl") as cache:
        cache.put(response(asked("a"), "b\ud83d"))
    assert read_responses(tmp_path / "r.jsonl")[request_key(asked("a"))].text == "b?"


def test_a_half_written_last_line_is_cut_off_and_a_whole_one_without_an_end_is_kept(tmp_path):
    path = tmp_path / "r.jsonl"
    one, two = response(asked("a"), "b\u2028c"), response(asked("b"), "d")
    for last, count in ((two.to_line()[:-9], 1), (two.to_line(), 2)):
        path.write_text(one.to_line() + "\n" + last)
        assert len(read_responses(path)) == count
        with ResponseCache(path) as cache:
            cache.put(response(asked("c"), "e"))
        assert len(read_responses(path)) == count + 1


@pytest.mark.parametrize("spoilt", ["{}", "[1]", "no JSON", '{"key": "0"}'])
def test_a_line_that_is_no_record_is_named(tmp_path, spoilt):
    path = tmp_path / "r.jsonl"
    path.write_text(f"{response(asked('a'), 'b').to_line()}\n{spoilt}\n")
    with pytest.raises(ChatError, match=r"r\.jsonl.*\b2\b"):
        read_responses(path)


def test_a_request_that_was_edited_no_longer_has_its_key(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(response(asked("a"), "b").to_line().replace('"content": "a"', '"content": "x"') + "\n")
    with pytest.raises(ChatError, match=r"line 1 .*its key is not that of its request"):
        read_responses(path)


@pytest.mark.fault(69)
def test_a_damaged_line_is_named_and_its_request_is_sent_again(tmp_path):
    path = tmp_path / "r.jsonl"
    lines = [response(asked(prompt), f"reply {n}").to_line() for n, prompt in enumerate("abc")]
    path.write_text("\n".join([lines[0], lines[1].replace("m", "n", 1), lines[2]]) + "\n")
    with pytest.raises(ChatError, match=r"line 2 .*its key is not that of its request"):
        read_responses(path)
    with ResponseCache(path) as cache:
        assert cache.damaged == [
            f"{path} line 2 is not a recorded reply (its key is not that of its request); it is left out, and its "
            "request is sent again."
        ]
        assert [request_key(asked(prompt)) in cache for prompt in "abc"] == [True, False, True]
        cache.put(response(asked("b"), "reply 1"))
    with ResponseCache(path) as cache:
        assert cache[request_key(asked("b"))].text == "reply 1"


@pytest.mark.fault(69)
def test_replies_of_an_earlier_version_have_a_checksum_and_are_read(tmp_path):
    line = json.loads(response(asked("a"), "b").to_line()) | {"sha256": "0" * 64}
    (tmp_path / "r.jsonl").write_text(json.dumps(line) + "\n")
    assert read_responses(tmp_path / "r.jsonl")[request_key(asked("a"))].text == "b"


def test_two_runs_do_not_add_to_one_file(tmp_path):
    with ResponseCache(tmp_path / "r.jsonl"), pytest.raises(ChatError, match="Another command adds to the replies"):
        ResponseCache(tmp_path / "r.jsonl")
    ResponseCache(tmp_path / "r.jsonl").__exit__(None, None, None)


def test_a_file_that_cannot_be_read_or_written_is_told_in_a_sentence(tmp_path):
    with pytest.raises(ChatError, match="cannot be read"):
        read_responses(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ChatError, match="--replies"):
        ResponseCache(tmp_path / "file" / "r.jsonl")


def test_the_files_own_replies_go_before_those_that_are_only_read(tmp_path):
    more = tmp_path / "more.jsonl"
    more.write_text(response(asked("a"), "theirs").to_line() + "\n" + response(asked("b"), "theirs").to_line() + "\n")
    with ResponseCache(tmp_path / "r.jsonl", [more]) as cache:
        cache.put(response(asked("a"), "ours"))
        assert [cache[request_key(asked(p))].text for p in "ab"] == ["ours", "theirs"]
        assert list(cache.own) == [request_key(asked("a"))]


def test_a_log_keeps_complete_lines_and_has_one_writer(tmp_path):
    path, lock = tmp_path / "log", tmp_path / "lock"
    for sync in (True, False):
        path.write_bytes(b"one\ntw")
        with AppendLog(path, lock, sync=sync) as log:
            assert log.lines == [b"one"]
            log.append(b"three")
            with pytest.raises(Timeout):
                AppendLog(path, lock)
        assert path.read_bytes() == b"one\nthree\n"


# Replay


@pytest.mark.fault(27)
def test_a_replay_says_what_it_lacks_and_whose_replies_there_are(tmp_path):
    with ResponseCache(tmp_path / "r.jsonl") as cache:
        cache.put(response(asked("a", model="old"), "b"))
        with pytest.raises(MissingResponse, match=r"ask needs 2 .*1 of old") as error:
            ReplayClient(cache)("ask", requests("a", "b", "a"))
    assert error.value.exit_code == 2


# Transport


@pytest.mark.fault(30)
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_failure_that_may_pass_is_tried_again_with_growing_uneven_pauses(live, pauses, status):
    with serving(lambda body, n: "at last" if n == 3 else Answer(status=status)) as server:
        assert live(server)("ask", requests("a"))[0].text == "at last"
        assert server.came.total() == 4
        live.end()
    assert pauses[0] < pauses[1] < pauses[2]
    assert len({pause % 0.5 for pause in pauses}) == 3


@pytest.mark.fault(30)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_for_good_is_asked_once(live, pauses, status):
    with serving(lambda body, n: Answer(status=status, text="no such thing")) as server:
        with pytest.raises(ChatError, match=rf"127\.0\.0\.1:\d+.*{status}"):
            live(server)("ask", requests("a"))
        live.end()
    assert server.came.total() == 1
    assert not pauses


def test_a_quota_that_is_used_up_is_no_rate_limit(live, pauses):
    with serving(lambda body, n: Answer(status=429, code="insufficient_quota")) as server:
        with pytest.raises(ChatError, match="answered 429"):
            live(server)("ask", requests("a"))
        live.end()
    assert not pauses


@pytest.mark.fault(30)
@pytest.mark.parametrize("told", ["7", "date"])
def test_the_server_says_how_long_to_wait(live, pauses, told):
    def script(body, n):
        header = formatdate(usegmt=True) if told == "date" else told
        return "ok" if n else Answer(status=429, headers={"Retry-After": header})

    with serving(script) as server:
        live(server)("ask", requests("a"))
        live.end()
    least = 0 if told == "date" else 7
    assert least <= pauses[0] <= least + 0.5


def test_a_server_that_asks_for_an_hour_ends_the_run(live, pauses):
    with serving(lambda body, n: Answer(status=429, headers={"Retry-After": "3600"})) as server:
        with pytest.raises(ChatError, match="wait 3600 s;"):
            live(server)("ask", requests("a"))
        live.end()
    assert not pauses


@pytest.mark.fault(30)
def test_a_slow_reply_and_a_dead_server_are_given_up_after_bounded_attempts(live, pauses):
    with serving(lambda body, n: Answer("late", delay=SLOW)) as server:
        with pytest.raises(ChatError, match=r"0.5 s, .*2 times"):
            live(server, timeout=0.5, attempts=2)("ask", requests("a"))
        live.end()
    budget = Budget(PRICES, Decimal(1))
    with pytest.raises(ChatError, match="requested 6 times"):
        live(server, budget)("ask", requests("a"))
    assert len(pauses) == 1 + 5
    assert budget.spent == 0  # nothing was sent


@pytest.mark.fault(30)
def test_a_rate_limit_a_timeout_and_a_500_in_turn_cost_one_reply(live, pauses):
    turns = [Answer(status=429), Answer("late", delay=SLOW), Answer(status=500), "paid"]
    # A busy machine may let other attempts run into the time limit too, so there are many.
    with serving(lambda body, n: turns[min(n, 3)]) as server:
        ask = live(server, timeout=0.5, attempts=30)
        assert ask("ask", requests("a"))[0].text == "paid"
        came = server.came.total()
        assert ask("again", requests("a", "a"))[0].text == "paid"
        live.end()
        assert live(server)("third", requests("a"))[0].text == "paid"
        live.end()
    assert server.came.total() == came >= 4
    assert len(read_responses(ask.cache.path)) == 1


@pytest.mark.fault(31)
def test_a_retired_model_says_which_replies_still_work(live):
    with serving(echo) as server:
        live(server)("ask", requests("a", "b"))
        live.end()
    with serving(lambda body, n: Answer(status=404, code="model_not_found", text="The model m is gone")) as server:
        ask = live(server)
        with pytest.raises(ModelNotFound) as error:
            ask("ask", requests("a", "b", "c", "d"))
        assert ask("ask", requests("a", "b"))[1].text == "reply to b"
        live.end()
    message = str(error.value)
    assert "does not have the model m" in message
    assert "lacks 2 replies of it" in message
    assert "still work (2 of m)" in message
    assert server.came.total() == 1


@pytest.mark.fault(31)
def test_a_retired_model_without_recorded_replies_asks_for_another(live):
    with serving(lambda body, n: Answer(status=404, code="model_not_found")) as server:
        with pytest.raises(ModelNotFound, match="--model"):
            live(server)("ask", requests("a"))
        live.end()


@pytest.mark.parametrize("raw", ["<html>welcome</html>", '{"choices": []}', "{}"])
def test_an_address_that_is_no_such_server_is_told(live, raw):
    with serving(lambda body, n: Answer(raw=raw)) as server:
        with pytest.raises(ChatError, match=r"--base-url.*OpenAI"):
            live(server)("ask", requests("a"))
        live.end()


ODD = {
    "no choices of a list": '{"choices": null}',
    "choices in a text": '{"choices": "hello"}',
    "a choice that is a number": '{"choices": [7]}',
    "a message that is a text": '{"choices": [{"message": "hello"}]}',
    "a message that is a list": '{"choices": [{"message": ["hello"], "finish_reason": {}}]}',
    "usage in a text": '{"choices": [{"message": {"content": "hello"}}], "usage": "many"}',
    "usage of null": '{"choices": [{"message": {"content": "hello"}}], "usage": {"prompt_tokens": null}}',
    "negative usage": '{"choices": [{"message": {"content": "hello"}}], '
    '"usage": {"prompt_tokens": -1, "completion_tokens": 5}}',
    "usage of texts": '{"choices": [{"message": {"content": "hello"}}], '
    '"usage": {"prompt_tokens": "1", "completion_tokens": true}}',
    "a list of parts": '{"choices": [{"message": {"content": [{"type": "text", "text": "hel"}, "lo", 3, null]}}]}',
    "a number": '{"choices": [{"message": {"content": 42}}]}',
    "half a character": '{"choices": [{"message": {"content": "a"}, "finish_reason": "\\ud83d"}], "model": "\\ud83d"}',
}


@pytest.mark.fault(66)
@pytest.mark.parametrize("name", ODD)
def test_a_reply_of_other_types_is_recorded_and_counted_by_the_estimate(live, name):
    with serving(lambda body, n: Answer(raw=ODD[name])) as server:
        budget = Budget(PRICES, Decimal(1))
        (first,) = live(server, budget)("ask", requests("a"))
        live.end()
        (again,) = live(server)("ask", requests("a"))
        live.end()
    assert server.came.total() == 1
    assert again == first
    assert first.text == {"a list of parts": "hello3", "a number": "42", "half a character": "a"}.get(
        name, "hello" if "usage" in name else ""
    )
    assert first.usage is None
    assert budget.spent == PRICES.highest_cost(asked("a"))


@pytest.mark.fault(67)
def test_a_server_that_drips_bytes_meets_the_deadline_of_the_whole_request(live, pauses, tmp_path):
    with serving(lambda body, n: Answer("x" * 1000, drip=0.02)) as server:
        with pytest.raises(ChatError, match=r"0\.3.*\b2\b"):
            live(server, timeout=0.3, attempts=2)("ask", requests("a"))
        live.end()
    assert not (tmp_path / "replies.jsonl").exists()


@pytest.mark.fault(67)
def test_a_reply_beyond_the_limit_is_cut_off_and_nothing_of_it_is_kept(live, monkeypatch, tmp_path):
    monkeypatch.setattr(endpoint, "LONGEST_REPLY", 1 << 20)
    with serving(lambda body, n: Answer("x" * (1 << 21))) as server:
        with pytest.raises(ChatError, match="more than 1 MB"):
            live(server)("ask", requests("a"))
        live.end()
    assert server.came.total() == 1
    assert not (tmp_path / "replies.jsonl").exists()


def test_a_long_reply_is_read_in_few_blocks(live, monkeypatch):
    read, sizes = httpx2.Response.aiter_bytes, []

    def read_counting(answer, size=None):
        sizes.append(size)
        return read(answer, size)

    monkeypatch.setattr(httpx2.Response, "aiter_bytes", read_counting)
    with serving(lambda body, n: "x" * (1 << 20)) as server:
        (answer,) = live(server)("ask", requests("a"))
        live.end()
    assert len(answer.text) == 1 << 20
    assert min(sizes) >= 1 << 16


def test_a_broken_body_is_told(live):
    with serving(lambda body, n: Answer(raw='{"choices": [')) as server:
        with pytest.raises(ChatError, match=r"The request to .* failed|answered without a reply"):
            live(server)("ask", requests("a"))
        live.end()


def test_an_empty_refused_or_cut_reply_is_kept_as_it_is(live):
    turns = {"empty": Answer(None, usage=None), "cut": Answer("1. He", finish_reason="length")}
    with serving(lambda body, n: turns[prompt_of(body)]) as server:
        empty, cut = live(server)("ask", requests("empty", "cut"))
        live.end()
    assert (empty.text, empty.usage, empty.is_truncated) == ("", None, False)
    assert (cut.text, cut.model, cut.is_truncated) == ("1. He", "m-2026", True)


def test_newer_models_get_the_longest_reply_under_its_other_name(live):
    bodies = []
    with serving(lambda body, n: bodies.append(body) or "ok") as server:
        live(server, limit_name="max_completion_tokens")("ask", requests("a"))
        live.end()
    assert bodies[0]["max_completion_tokens"] == 50
    assert "max_tokens" not in bodies[0]


@pytest.mark.fault(49)
def test_a_key_goes_to_the_server_and_nowhere_else(live, tmp_path, monkeypatch, capfd):
    secret = "sk-planted-0123456789"

    def script(body, n):
        told = f"your key is {secret}"
        return Answer(status=401, text=told) if prompt_of(body) == "refused" else told

    with serving(script) as server:
        ask = live(server)
        monkeypatch.setenv("OPENAI_API_KEY", secret)
        assert ask("ask", requests("a"))[0].text == "your key is [key]"
        with pytest.raises(ChatError, match="OPENAI_API_KEY") as error:
            ask("ask", requests("refused"))
        live.end()
    assert server.headers[0]["authorization"] == f"Bearer {secret}"
    shown = capfd.readouterr()
    assert secret not in str(error.value) + repr(error.value.__context__) + shown.out + shown.err
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


# Many at once


def test_no_more_than_so_many_are_under_way_and_each_reply_is_that_of_its_question(live):
    arrived = threading.Barrier(3, timeout=10)

    def script(body, n):
        if prompt_of(body) in ("0", "1", "2"):
            arrived.wait()
        return echo(body, n)

    prompts = [str(n) for n in range(20)]
    with serving(script) as server:
        replies = live(server, concurrency=3)("ask", requests(*prompts, *prompts))
        live.end()
    assert [reply.text for reply in replies] == [f"reply to {p}" for p in prompts] * 2
    assert server.most_at_once == 3
    assert server.came.total() == 20


def test_replies_under_way_are_kept_when_another_request_fails(live):
    arrived = threading.Barrier(2, timeout=60)

    def script(body, n):
        if prompt_of(body) in ("good", "bad"):
            arrived.wait()
        return Answer(status=400) if prompt_of(body) == "bad" else Answer("kept", delay=0.1)

    with serving(script) as server:
        ask = live(server, concurrency=2)
        with pytest.raises(ChatError, match="answered 400"):
            ask("ask", requests("good", "bad", *(f"later {n}" for n in range(30))))
        live.end()
    assert "kept" in {made.text for made in read_responses(ask.cache.path).values()}
    assert server.came.total() < 32


# Money


def test_a_price_is_given_by_options_or_by_a_table_and_else_unknown(tmp_path):
    table = tmp_path / "prices.toml"
    table.write_text('["gpt-x"]\nprompt = 0.1\nreply = 0.3\n')
    assert cost_model("gpt-x", None, None, table) == CostModel(Decimal("0.1"), Decimal("0.3"))
    assert cost_model("gpt-x", "1", "2", table) == CostModel(Decimal(1), Decimal(2))
    assert cost_model("other", None, None, table) is None
    assert cost_model("other", None, None, None) is None


@pytest.mark.parametrize("given", [("1", None), (None, "1"), ("-1", "1"), ("1", "nan"), ("much", "1")])
def test_half_a_price_or_none_is_refused(given):
    with pytest.raises(ChatError, match=r"price of (prompts|replies)"):
        cost_model("m", *given, None)


@pytest.mark.parametrize(("content", "told"), [("x", "is not TOML"), ("m = 1", "The price of prompts is None")])
def test_a_table_of_prices_that_is_none_is_refused(tmp_path, content, told):
    (tmp_path / "p.toml").write_text(content)
    with pytest.raises(ChatError, match=told):
        cost_model("m", None, None, tmp_path / "p.toml")
    with pytest.raises(ChatError, match="cannot be read"):
        cost_model("m", None, None, tmp_path / "absent.toml")


def test_a_budget_is_a_number():
    with pytest.raises(ChatError, match=r"'lots'.*\b0\b"):
        parse_amount("The budget", "lots", "it is money")


@pytest.mark.fault(29)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_budget_stops_before_the_call_that_could_exceed_it_and_resumes(live, concurrency):
    cost = PRICES.cost(10, 5)  # what the server counts
    # Room for three replies, and for putting aside the most that a fourth could cost but for a trifle.
    limit = 3 * cost + PRICES.highest_cost(asked("p0")) - Decimal("0.000001")
    with serving(echo) as server:
        ask = live(server, Budget(PRICES, limit), concurrency)
        with pytest.raises(BudgetExceeded, match="--budget") as error:
            ask("ask", requests(*(f"p{n}" for n in range(8))))
        kept = list(ask.cache.own.values())
        live.end()
        assert error.value.exit_code == 3
        assert len(kept) == server.came.total() == 3
        budget = Budget.after(PRICES, limit + 5 * cost, kept)
        assert budget.spent == 3 * cost
        assert len(live(server, budget, concurrency)("ask", requests(*(f"p{n}" for n in range(8))))) == 8
        live.end()
    assert server.came.total() == 8
    assert budget.spent == 8 * cost


@pytest.mark.fault(29)
@pytest.mark.parametrize("usage", [None, (0, 0), (0, 5), (10, 0)])
def test_a_reply_whose_tokens_nobody_counted_costs_the_most_it_can(live, usage):
    with serving(lambda body, n: Answer("a", usage=usage)) as server:
        budget = Budget(PRICES, Decimal(1))
        live(server, budget)("ask", requests("p"))
        live.end()
    assert budget.spent == PRICES.highest_cost(asked("p")) > 0


@pytest.mark.fault(29)
def test_a_call_that_failed_costs_nothing(live):
    with serving(lambda body, n: Answer(status=400)) as server:
        budget = Budget(PRICES, Decimal(1))
        with pytest.raises(ChatError):
            live(server, budget)("ask", requests("p"))
        live.end()
    assert budget.spent == 0
