"""Faults of servers by name, for the requests of ``generate`` and ``--chat-api`` and for each dialect that is scored.

A fault that passes changes nothing; one that stays is a sentence; a number that can be none is refused; and a budget
holds under every usage, fault and number of threads.
"""

import copy
import json
import math
import random
import re
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from itertools import chain

import pytest
from rich.progress import Progress
from tenacity import wait_none
from typer.testing import CliRunner

import scoring
from builders.generate import app as generate
from builders.generation.clients import ChatRequest, LiveClient
from builders.generation.costs import Budget, BudgetExceeded, CostModel, SentLog
from builders.generation.endpoint import Endpoint
from builders.generation.responses import ChatError, ResponseCache, request_body, request_key
from builders.sources import retries
from scoring.inference.served.engine import connect
from scoring.options import ServedOptions
from scoring.types import Option, ScoringError
from scoring.types import Request as Question
from tests.scoring import inference_server as stand_in
from tests.support import openai_server
from tests.support.helpers import ROOT
from tests.support.openai_server import Answer, prompt_of
from tests.support.wire import DEEP, FAULTS, PERMANENT, TEMPORARY

DIALECTS = {"vLLM": stand_in.Server, "SGLang": stand_in.SGLang, "llama-cpp-python": stand_in.LlamaCppPython}
#: Faults that end by the time limit of the client.
SLOW = ("header drip", "slow body", "silence")
QUESTIONS = [
    Question("sentence", options=(Option("She liked the ball."),)),
    Question("options", "The nurse said that", (Option(" he was"), Option(" she was"))),
]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.setattr(retries, "_BACKOFF", wait_none())
    monkeypatch.setattr(retries, "_SPREAD", wait_none())
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


class Dialect:
    """An engine that shook hands with a server, whose next ``count`` replies have a fault or are changed."""

    def __init__(self, kind):
        self.count, self.fault, self.change = 0, "", lambda reply: reply
        self._left, self._kind = threading.Lock(), kind
        self._start()
        self.good = self.answers()

    def _start(self):
        outer = self

        class Changing(self._kind):
            def post(self, path, body):
                reply = super().post(path, body)
                return outer.change(copy.deepcopy(reply)) if outer._one() and not outer.fault else reply

        self._serving = stand_in.serving(Changing(), lambda *_: self._reply())
        self.server = self._serving.__enter__()
        self.engine = connect(ServedOptions([self.server.url], None, "tiny-causal", concurrency=1))
        self.client = self.engine.servers[0].client

    def _reply(self):
        return stand_in.Reply(fault=self.fault) if self.fault and self._one() else None

    def _one(self):
        with self._left:
            self.count -= 1
            return self.count >= 0

    def answers(self, count=0, fault="", change=lambda reply: reply):
        """What is answered while so many replies have the fault, or are changed."""
        self.quiet()
        self.count, self.fault, self.change = count, fault, change
        self.engine.servers[0].lost = ""
        self.client.timeout = 3.0 if fault in SLOW else 20.0
        return [option for response in self.engine.answer(QUESTIONS) for option in response.logprobs]

    def quiet(self):
        """Waits for a request of an earlier call that failed, also at the server, which may read it after its end."""
        if self.fault in SLOW:
            # A busy machine may read what was given up long afterwards, so the next call has a server of its own.
            self.close()
            self.count, self.fault, attempts = 0, "", self.client.attempts
            self._start()
            self.client.attempts = attempts
        for thread in threading.enumerate():
            if thread.name.startswith("asking"):
                thread.join()
        asked = -1
        while asked != len(self.server.asked):
            asked = len(self.server.asked)
            time.sleep(0.02)

    def close(self):
        self.engine.close()
        self._serving.__exit__(None, None, None)


@pytest.fixture(scope="module")
def dialects():
    made = {name: Dialect(kind) for name, kind in DIALECTS.items()}
    yield made
    for one in made.values():
        one.close()


def numbers(answers):
    return list(chain(*answers))


def told(error):
    """The sentence of an error, which names no place in the code and stands on one line."""
    sentence = str(error.value)
    assert "\n" not in sentence
    assert len(sentence) < 1000
    return sentence


# The wire


@pytest.mark.fault(79)
@pytest.mark.parametrize("fault", TEMPORARY)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_fault_that_passes_changes_no_number(dialects, dialect, fault):
    one = dialects[dialect]
    one.client.attempts = 6
    assert numbers(one.answers(1, fault)) == pytest.approx(numbers(one.good), abs=1e-4)


@pytest.mark.fault(79)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_fault_that_stays_ends_a_score_in_one_sentence(dialects, dialect, fault):
    one = dialects[dialect]
    one.client.attempts = 2
    one.quiet()
    before = len(one.server.asked)
    with pytest.raises(ScoringError) as error:
        one.answers(10**9, fault)
    assert re.search(FAULTS[fault][1], sentence := told(error)), sentence
    # A server may read what was given up long afterwards, so those that time out are not counted.
    if fault not in SLOW:
        assert len(one.server.asked) - before == (1 if fault in PERMANENT else 2)
    assert "secret" not in sentence


@pytest.mark.fault(79)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_address_with_a_fault_ends_before_anything_is_asked(fault):
    def refuse(self, path):
        return stand_in.Reply(fault=fault)

    server = type("Faulty", (stand_in.Server,), {"get": refuse})()
    with stand_in.serving(server) as running, pytest.raises(ScoringError) as error:
        connect(ServedOptions([running.url], None, "tiny-causal", timeout=0.5), attempts=2)
    said = r"is no inference server|so nothing was asked|redirects are not followed"
    assert re.search(said, sentence := told(error)), sentence
    assert not running.asked


#: Addresses that cannot be those of a server: ports, hosts and characters.
NO_ADDRESSES = (
    "http://127.0.0.1:99999/v1", "http://127.0.0.1:-1/v1", "http://127.0.0.1:x/v1", "http://[::1/v1", "http://[zz]/v1",
    "http://a\r\nb/v1", "http://a\0b/v1", "http://☃/v1", "http://\ud83d/v1", "http://127.0.0.1:9/v1\n", "http:///v1",
    "ftp://localhost/v1", "localhost:8000",
)  # fmt: skip


@pytest.mark.fault(79)
@pytest.mark.parametrize("address", NO_ADDRESSES, ids=ascii)
def test_an_address_that_cannot_be_is_one_sentence(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for connecting in (
        lambda: Endpoint(address),
        lambda: connect(ServedOptions([address], None, "tiny-causal")),
    ):
        with pytest.raises((ChatError, ScoringError), match="--base-url"):
            connecting()
    with pytest.raises(ScoringError, match=r"not valid|no built"):
        scoring.evaluate(base_url=[address], benchmarks="neutral", data=str(tmp_path))


def sent(server, cache, prompts, budget=None, concurrency=1, **options):
    """The replies to prompts of a server, through one client."""
    client = LiveClient(
        cache, lambda: Endpoint(server.url, **{"timeout": 0.5} | options), Progress(disable=True), budget, concurrency
    )
    try:
        return [r.text for r in client("ask", [ChatRequest(asked(prompt), "") for prompt in prompts])]
    finally:
        client.close()


def asked(prompt):
    return request_body("m", prompt, temperature=0, max_tokens=50)


@pytest.mark.fault(79)
@pytest.mark.parametrize("fault", TEMPORARY)
def test_a_run_with_one_broken_reply_in_three_has_every_reply(tmp_path, fault):
    prompts = [f"p{n}" for n in range(6)]

    def script(body, before):
        return Answer(fault=fault) if not before and prompt_of(body) in ("p1", "p4") else prompt_of(body)

    with openai_server.serving(script) as server, ResponseCache(tmp_path / "r.jsonl") as cache:
        # What drips or is silent takes longer. A busy machine may take longer too, so that more is requested again.
        assert sent(server, cache, prompts, concurrency=2, timeout=5.0) == prompts
    assert server.came.total() >= 8


@pytest.mark.fault(79)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_ends_generate_in_one_sentence(fault, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "groups.tsv").write_text("domain\tgroup\tother\nrace\tone\ttwo\n")
    with openai_server.serving(lambda body, before: Answer(fault=fault)) as server:
        timeout = "0.5" if fault in SLOW else "20"
        arguments = ("--model", "m", "--out", "out", "--base-url", server.url, "--timeout", timeout, "--attempts", "2")
        given = ("biaske-facts", "--groups", "groups.tsv", "--count", "1", "--concurrency", "1")
        done = CliRunner().invoke(generate, [*given, *arguments])
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit)
    sentence = " ".join(done.output.split())
    assert re.search(FAULTS[fault][1], sentence), sentence
    assert "secret" not in sentence
    # A client that follows a redirect would come again. What was given up may have never reached the server.
    if fault in SLOW:
        assert server.came.total() <= 2
    else:
        assert server.came.total() == (1 if fault in PERMANENT else 2)


# Replies of another content

#: Values that cannot be log-probabilities, as the local engine refuses them.
NO_NUMBERS = (math.nan, math.inf, -math.inf, -9999.0, -1e300, 0.5, 10**400)


def replaced(reply, place, value):
    """The reply with a log-probability of the first prompt changed."""
    if isinstance(reply, list):
        reply[0]["meta_info"]["input_token_logprobs"][place][0] = value
    elif reply["choices"][0]["prompt_logprobs"] is not None:
        entry = reply["choices"][0]["prompt_logprobs"][place]
        next(iter(entry.values()))["logprob"] = value
    return reply


def echoed(reply, place, value):
    logprobs = reply["choices"][0]["logprobs"] or {}
    if logprobs.get("token_logprobs"):
        logprobs["token_logprobs"][place - 1] = value
    return reply


@pytest.mark.fault(84)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: f"{value:.9}" if isinstance(value, float) else "1e400")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_number_that_can_be_no_log_probability_is_refused_with_the_name_of_the_item(dialects, dialect, value):
    one = dialects[dialect]
    one.client.attempts = 2
    change = echoed if dialect == "llama-cpp-python" else replaced
    with pytest.raises(ScoringError) as error:
        one.answers(1, change=lambda reply: change(reply, 3, value))
    shown = "(inf|1e400)" if value == 10**400 else re.escape(str(value))
    item = rf"^(sentence|options): tiny at 127.* gave {shown} as a log-probability"
    assert re.search(rf"{item}|changed its model during the run", sentence := told(error)), sentence


ODD = (None, True, "x", [], {}, [None], {"a": 1}, -9999.0, 7, 10**30, "\ud83d", math.nan, [[[[[[[[[[]]]]]]]]]])


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield from places(entry, (*path, name))


def spoilt(reply, draw):
    """A reply with one place replaced, removed or repeated."""
    path = draw.choice(list(places(reply)))
    if not path:
        return draw.choice(ODD)
    inner = reply
    for name in path[:-1]:
        inner = inner[name]
    kind = draw.choice(("replace", "replace", "remove", "repeat"))
    if kind == "replace":
        inner[path[-1]] = draw.choice(ODD)
    elif kind == "remove":
        del inner[path[-1]]
    elif isinstance(inner, list):
        inner.insert(path[-1], copy.deepcopy(inner[path[-1]]))
    return reply


@pytest.mark.fault(84)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_of_a_hundred_spoilt_replies_each_is_refused_or_has_the_right_numbers(dialects, dialect):
    one, draw, sentences = dialects[dialect], random.Random(31), []
    one.client.attempts = 2
    for _ in range(100):
        try:
            answers = one.answers(1, change=lambda reply: spoilt(reply, draw))
        except ScoringError as error:
            sentences.append(str(error))
        else:
            assert numbers(answers) == pytest.approx(numbers(one.good), abs=1e-4)
    assert 20 < len(sentences) < 100
    assert all("\n" not in sentence and len(sentence) < 1000 for sentence in sentences)


@pytest.mark.fault(84)
def test_of_two_hundred_spoilt_replies_of_a_chat_model_each_is_recorded_or_refused(tmp_path):
    draw, sentences = random.Random(31), []

    def script(body, _before):
        reply = openai_server.payload(body, Answer(prompt_of(body)))
        spoil = json.dumps(spoilt(reply, draw))
        return Answer(raw=spoil if draw.random() < 0.95 else DEEP)

    with openai_server.serving(script) as server, ResponseCache(tmp_path / "r.jsonl") as cache:
        endpoint = Endpoint(server.url, timeout=20.0)
        for n in range(200):
            try:
                cache.put(endpoint.send(asked(f"p{n}")))
            except ChatError as error:
                sentences.append(str(error))
        endpoint.close()
    assert 10 < len(sentences) < 150
    assert all("\n" not in sentence and len(sentence) < 1000 for sentence in sentences)
    with ResponseCache(tmp_path / "r.jsonl", writable=False) as cache:
        assert not cache.damaged
        assert len(cache.own) == 200 - len(sentences)


@pytest.mark.fault(84)
def test_a_server_that_shifts_its_numbers_at_every_second_request_is_found():
    class ByTurns(stand_in.Server):
        shifting, turn = False, 0

        def post(self, path, body):
            self.turn += 1
            return super().post(path, body)

        def values(self, ids, body):
            shift = 0.3 if self.shifting and self.turn % 2 else 0.0
            return [value - shift for value in super().values(ids, body)]

    for first in (0, 1):
        server = ByTurns()
        with stand_in.serving(server) as running:
            engine = connect(ServedOptions([running.url], None, "tiny-causal", concurrency=1))
            server.shifting, server.turn = True, first
            with pytest.raises(ScoringError, match="changed its model"):
                engine.answer(QUESTIONS, batch_size=1)
            engine.close()


# Money

PRICES = CostModel(Decimal(10), Decimal(100))
USAGES = ("right", "zero", "no prompt", "no reply", "missing", "negative", "text", "float", "beyond counting", "null")


def usage_of(name, tokens):
    """What a server tells of the tokens that it bills, and whether that can be believed."""
    prompt, reply = tokens
    return {
        "right": (prompt, reply),
        "zero": (0, 0),
        "no prompt": (0, reply),
        "no reply": (prompt, 0),
        "negative": (-prompt, -reply),
        "text": (str(prompt), str(reply)),
        "float": (float(prompt), float(reply)),
        "beyond counting": (10**12, 10**12),
        "null": (None, None),
    }.get(name)


class Billing:
    """A server that bills what it processes and tells something else of it, with broken replies among them."""

    def __init__(self, seed, broken):
        self.draw, self.broken = random.Random(seed), broken
        self.billed = self.charged = Decimal(0)
        self.guard = threading.Lock()

    def __call__(self, body, _before):
        with self.guard:
            highest = PRICES.highest_cost(body)
            fault = self.draw.choice(TEMPORARY) if self.draw.random() < self.broken else ""
            fault = "reset" if fault in ("header drip", "slow body", "silence") else fault  # they take long
            if fault:
                free = fault.startswith("429")
                self.billed += 0 if free else highest  # the model may have gone on to the end
                self.charged += 0 if free else highest
                return Answer(fault=fault)
            tokens = self.draw.randint(1, 16), self.draw.randint(1, 50)
            name = self.draw.choice(USAGES)
            self.billed += PRICES.cost(*tokens)
            self.charged += PRICES.cost(*tokens) if name == "right" else highest
            return Answer("text", usage=usage_of(name, tokens))


@pytest.fixture
def _raw_usage(monkeypatch):
    """Usages of any type in the payload of the server."""

    def payload(body, answer):
        usage = answer.usage
        reply = whole(body, Answer(answer.text, usage=None))
        reply["usage"] = usage and {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        return reply

    whole = openai_server.payload
    monkeypatch.setattr(openai_server, "payload", payload)


@pytest.mark.fault(80)
@pytest.mark.usefixtures("_raw_usage")
@pytest.mark.parametrize("concurrency", range(1, 9))
def test_two_hundred_random_usages_are_charged_exactly(tmp_path, concurrency):
    billing, budget = Billing(4 + concurrency, broken=0.15), Budget(PRICES, Decimal(100))
    with openai_server.serving(billing) as server, ResponseCache(tmp_path / "r.jsonl") as cache:
        sent(server, cache, [f"p{n}" for n in range(200)], budget, concurrency, timeout=20.0, attempts=30)
        assert len(cache.own) == 200
    assert server.came.total() > 200
    assert budget.spent == billing.charged >= billing.billed


@pytest.mark.fault(80)
@pytest.mark.usefixtures("_raw_usage")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_budget_is_never_exceeded_and_a_later_run_knows_what_was_spent(tmp_path, concurrency, seed):
    billing, path, limits = Billing(seed, broken=0.3), tmp_path / "r.jsonl", []
    highest = PRICES.highest_cost(asked("p10"))
    prompts = [f"p{n}" for n in range(10, 30)]
    with openai_server.serving(billing) as server:
        for share in (5, 9, 14, 21):
            limits.append(limit := share * highest)
            with ResponseCache(path) as cache, SentLog(path, "m") as log:
                budget = Budget.after(PRICES, limit, cache.own.values(), log)
                with pytest.raises(BudgetExceeded):
                    sent(server, cache, prompts, budget, concurrency, timeout=20.0, attempts=30)
                assert billing.billed <= billing.charged == budget.spent <= limit
                assert budget.spent > limit - highest  # nothing else would have fitted


@pytest.mark.fault(80)
@pytest.mark.parametrize("fault", ["silence", "header drip", "slow body", "reset", "bad gzip"])
def test_replies_that_never_come_use_up_the_budget_over_several_runs(tmp_path, fault):
    highest, path, ends = PRICES.highest_cost(asked("p")), tmp_path / "r.jsonl", []
    with openai_server.serving(lambda body, before: Answer(fault=fault)) as server:
        # On a busy machine a connection may take longer than the limit; it costs nothing, and another run follows.
        while BudgetExceeded not in ends and len(ends) < 100:
            with ResponseCache(path) as cache, SentLog(path, "m") as log:
                budget = Budget.after(PRICES, 5 * highest, cache.own.values(), log)
                with pytest.raises(ChatError) as error:
                    sent(server, cache, ["p"], budget, attempts=2, timeout=0.3)
                ends.append(type(error.value))
                assert budget.spent <= 5 * highest
    assert budget.spent == 5 * highest
    assert 1 <= server.came.total() <= 5
    assert ends[-1] is BudgetExceeded
    assert len(ends) >= 3


#: Asks for four replies within a budget, and ends by a kill of its own once all four are on their way.
KILLED = """
import os, signal, sys, threading
from pathlib import Path
from decimal import Decimal
from builders.generation.costs import Budget, CostModel, SentLog
from builders.generation.responses import ResponseCache
from tests.faults.test_servers import asked, sent
from tests.support.openai_server import Server
def end():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=end, daemon=True).start()
path, limit = Path(sys.argv[2]), Decimal(sys.argv[3])
with ResponseCache(path) as cache, SentLog(path, "m") as log:
    budget = Budget.after(CostModel(Decimal(10), Decimal(100)), limit, cache.own.values(), log)
    sent(Server(sys.argv[1]), cache, [f"p{n}" for n in range(10, 30)], budget, 4, timeout=3600.0)
"""


@pytest.mark.fault(80)
def test_a_run_that_was_killed_with_requests_on_their_way_has_paid_for_each(tmp_path):
    prompts, path = [f"p{n}" for n in range(10, 30)], tmp_path / "r.jsonl"
    highest = PRICES.highest_cost(asked(prompts[0]))
    limit, usage = 12 * highest, (1, 1)
    waiting, killed = threading.Semaphore(0), threading.Event()

    def script(body, _before):
        if not killed.is_set() and server.came.total() > 3:
            waiting.release()
            killed.wait(3600)
        return Answer("text", usage=usage)

    with openai_server.serving(script) as server:
        command = [sys.executable, "-c", KILLED, server.url, str(path), str(limit)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as run:
            for _ in range(4):
                while not waiting.acquire(timeout=1):  # a busy machine takes minutes to start the run
                    assert run.poll() is None, "the run ended before it was killed"
            run.stdin.close()
        assert run.returncode == -signal.SIGKILL
        killed.set()
        first = server.came.total()
        with ResponseCache(path) as cache, SentLog(path, "m") as log:
            answered = len(cache.own)
            budget = Budget.after(PRICES, limit, cache.own.values(), log)
            lost = first - answered
            assert lost == 4
            assert budget.spent == answered * PRICES.cost(*usage) + lost * highest
            sent(server, cache, prompts, budget, 4, timeout=20.0)
            assert len(cache.own) == 20
        assert server.came.total() == first + 20 - answered
        assert budget.spent == 20 * PRICES.cost(*usage) + lost * highest <= limit


@pytest.mark.fault(80)
def test_a_server_that_counts_more_than_a_request_can_have_is_paid_and_asked_no_more(tmp_path):
    budget = Budget(PRICES, Decimal(1))
    script = lambda *_: Answer("text", usage=(10**6, 50))  # noqa: E731
    refused = pytest.raises(BudgetExceeded)
    with openai_server.serving(script) as server, ResponseCache(tmp_path / "r.jsonl") as cache, refused:
        sent(server, cache, ["one", "two"], budget, timeout=20.0)
    assert budget.spent == PRICES.cost(10**6, 50)
    assert server.came.total() == 1


@pytest.mark.fault(80)
def test_what_was_sent_counts_for_every_model_and_a_line_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    with SentLog(path, "m") as log:
        log.add(asked("a"), 1)
        log.add(asked("b"), 1)
        log.add(asked("b"), -1)
    with SentLog(path, "m") as log:
        assert log.unanswered([], PRICES) == [PRICES.cost(17, 50)]
        with pytest.raises(ChatError, match="Another command adds to"):
            SentLog(path, "m")
    with SentLog(path, "other") as log:
        assert log.unanswered([], PRICES) == [PRICES.cost(17, 50)]  # two names have one budget
    (file,) = tmp_path.glob(".r.jsonl.sent")
    whole = file.read_bytes()
    for damaged in (b"[", b"null", b'["key", "m", "many", 50, 1]'):
        file.write_bytes(whole.replace(whole.splitlines()[1], damaged))
        with pytest.raises(ChatError, match=r"line 2 cannot be read, so --budget"):
            SentLog(path, "m")


@pytest.mark.fault(80)
def test_a_run_that_was_killed_while_it_noted_what_is_sent_goes_on(tmp_path):
    path, file = tmp_path / "r.jsonl", tmp_path / ".r.jsonl.sent"
    with SentLog(path, "m") as log:
        for prompt in "ab":
            log.add(asked(prompt), 1)
    # A request is sent after its line is on the disk, so that of half a line was not sent.
    file.write_bytes(file.read_bytes()[:-30])
    with SentLog(path, "m") as log:
        assert len(log.unanswered([], PRICES)) == 1
        log.add(asked("c"), 1)
    with SentLog(path, "m") as log:
        assert len(log.unanswered([], PRICES)) == 2


@pytest.mark.fault(80)
def test_what_an_earlier_version_noted_counts(tmp_path):
    """Its lines had checksums, and the first one the number of the others."""
    lines = [json.dumps({"count": "000000000002", "last": "ab"})]
    lines += [json.dumps([request_key(asked(prompt)), "m", 17, 50, 1]) for prompt in "ab"]
    (tmp_path / ".r.jsonl.sent").write_text("".join(f"{line}\tabcdef\n" for line in lines))
    with SentLog(tmp_path / "r.jsonl", "m") as log:
        log.add(asked("c"), 1)
    with SentLog(tmp_path / "r.jsonl", "m") as log:
        assert log.unanswered([], PRICES) == [PRICES.cost(17, 50)] * 3


#: Statuses that a server may send after the model has worked, also those that no list has, and those before any work.
CHARGED = (201, 202, 206, 304, 408, 409, 425, 499, 500, 501, 502, 503, 504, 520, 524, 529, 599)
NOT_PROCESSED = (400, 401, 403, 404, 413, 422, 429)


@pytest.mark.fault(80)
@pytest.mark.parametrize("status", [*CHARGED, *NOT_PROCESSED])
def test_every_status_that_is_not_certainly_free_is_charged_over_several_runs(tmp_path, status):
    highest, path, spent = PRICES.highest_cost(asked("p")), tmp_path / "r.jsonl", []
    answer = Answer(status=status, code="insufficient_quota" if status == 500 else "")
    with openai_server.serving(lambda body, before: answer) as server:
        for _ in range(4):
            with ResponseCache(path) as cache, SentLog(path, "m") as log:
                budget = Budget.after(PRICES, 3 * highest, cache.own.values(), log)
                with pytest.raises(ChatError) as error:
                    sent(server, cache, ["p"], budget, attempts=1, timeout=20.0)
                spent.append(budget.spent / highest)
    if status in NOT_PROCESSED:
        assert spent == [0, 0, 0, 0]
        assert server.came.total() == 4
    else:
        assert spent == [1, 2, 3, 3]
        assert type(error.value) is BudgetExceeded
        assert server.came.total() == 3
