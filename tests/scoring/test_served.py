"""The served engine: the numbers of the local one, servers that are refused, and servers that fail in the middle."""

import math
import re
import threading
from itertools import chain

import numpy as np
import pytest
import torch
from tenacity import wait_none
from typer.testing import CliRunner

from builders.sources import retries
from scoring.__main__ import app
from scoring.inference.control import CONTROL, differs
from scoring.inference.generation import Decoding
from scoring.inference.served.engine import connect
from scoring.inference.served.handshake import ROUNDS
from scoring.inference.store import Store
from scoring.metrics.pronouns import FORMS
from scoring.options import ServedOptions
from scoring.types import Option, Request, ScoringError
from tests.scoring import inference_server as stand_in
from tests.scoring.inference_server import Reply, serving
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows, pairs
from tests.support.commands import client
from tests.support.hub import Hub

SENTENCES = ("She liked the ball.", "He liked the ball.", "She liked the ball. He ran home.", "The dog was sad.")
REQUESTS = [
    Request("sentences", options=tuple(Option(text) for text in SENTENCES)),
    Request("first", options=tuple(Option(text, start="first") for text in SENTENCES[:2])),
    Request("spans", options=(Option(SENTENCES[0], ((4, 9), (14, 18))),)),
    Request("options", "The nurse said that", (Option(" he"), Option(" she"), Option(" he was an extraordinary man"))),
    Request("forms", "My friend said that", candidates=FORMS, max_new=12),
    Request("more", "It was a cold day, and the old man", candidates=("he", "she"), max_new=12),
]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.setattr(retries, "_BACKOFF", wait_none())


OPEN = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while OPEN:
        OPEN.pop().close()


def connected(*servers, **settings):
    urls, attempts = [server.url for server in servers], settings.pop("attempts", 3)
    engine = connect(ServedOptions(urls, None, "tiny-causal", **{"timeout": 20.0} | settings), attempts=attempts)
    OPEN.append(engine)
    return engine


def largest_difference(ours, theirs):
    numbers = [
        [*(v for option in response.logprobs for v in option), *(v for v in response.candidate_logprobs)]
        for response in (*ours, *theirs)
    ]
    one, other = (np.array([*chain(*some)]) for some in (numbers[: len(ours)], numbers[len(ours) :]))
    assert one.shape == other.shape
    assert (np.isnan(one) == np.isnan(other)).all()
    return np.nanmax(np.abs(one - other))


@pytest.fixture(scope="module")
def local():
    return stand_in.model().answer(REQUESTS)


@pytest.mark.parametrize(
    "server", [stand_in.Server, stand_in.OldVLLM, stand_in.SGLang, stand_in.LlamaCppPython], ids=lambda c: c.__name__
)
def test_a_server_gives_the_numbers_and_texts_of_the_local_engine(server, local):
    requests = [r for r in REQUESTS if server is not stand_in.LlamaCppPython or r.id not in ("first",)]
    expected = [r for r in local if r.id in {request.id for request in requests}]
    with serving(server()) as running:
        engine = connected(running)
        result = engine.answer(requests)
    assert largest_difference(expected, result) < 1e-4
    assert [response.text for response in result] == [response.text for response in expected]
    assert engine.stats.generated == (0 if server is stand_in.LlamaCppPython else stand_in.model().stats.generated)


def test_what_several_options_share_is_sent_once():
    with serving() as running:
        engine = connected(running)
        before = len(running.asked)
        engine.answer([REQUESTS[3], REQUESTS[4]])
        prompts = [tuple(p) for body in running.asked[before:] for p in body["prompt"]]
    tokens = stand_in.model().tokens
    contexts = [tuple(tokens.prompt(r, tokens.encode([r.context])[0])) for r in REQUESTS[3:5]]
    asked = [p for p in prompts if p[: len(contexts[0])] == contexts[0]]
    assert len(asked) == 2  # he and she in one prompt, and the longer option
    assert (
        prompts.count(contexts[1]) == math.ceil(len(set(tokens.words(FORMS)) - {None}) / 20) + 1
    )  # and its continuation


def test_a_sampled_continuation_has_a_seed_of_its_own():
    with serving() as running:
        engine = connected(running)
        before = len(running.asked)
        engine.answer(REQUESTS[4:], decoding=Decoding(temperature=0.7, top_k=5))
        sent = [body for body in running.asked[before:] if "return_token_ids" in body]
    assert len({body["seed"] for body in sent}) == len(sent) == 2
    assert all((body["temperature"], body["top_k"], body["top_p"]) == (0.7, 5, 1.0) for body in sent)
    assert all(body["repetition_penalty"] == 1.0 for body in sent)


def refused(server):
    with serving(server) as running:
        with pytest.raises(ScoringError) as raised:
            connected(running)
        said = str(raised.value)
        host = running.url.split("/")[2]
    assert "\n" not in said
    assert said.startswith(host)
    return said.removeprefix(host)


@pytest.mark.fault(75)
@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        (stand_in.LlamaCpp, " (llama.cpp's own server) answered without log-probabilities of the prompt; start vLLM"),
        (stand_in.TransformersServe, " refused a prompt of token ids (HOST answered 422 (Unexpected fields"),
        (stand_in.TGI, " (TGI) refused a prompt of token ids (HOST answered 422 (Input validation error"),
        (
            stand_in.ChatOnly,
            " refused a prompt of token ids (HOST answered 404 (This is a chat model and not supported",
        ),
        (stand_in.SecondBOS, " (vLLM) answered log-probabilities of 14 tokens to a prompt of 13, which happens when a"),
        (stand_in.Cutting, " (vLLM) answered log-probabilities of 8 tokens to a prompt of"),
        (stand_in.Tempered, " (vLLM) answered log-probabilities after temperature and penalties instead of"),
        (stand_in.Wavering, " (vLLM) answered other log-probabilities when the same was asked again; start"),
        (stand_in.Uniform, " (vLLM) finds ordinary English sentences no likelier than the same words backwards"),
        (stand_in.Probable, " (vLLM) answered probabilities of next tokens that add up to"),
        (stand_in.OtherVocabulary, " (vLLM) tokenizes 'The man said that he'… as ["),
        (
            stand_in.WebPage,
            " is no inference server: the address that was given, with /models behind it, lists no model",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_server_without_the_log_probabilities_of_the_prompt_is_refused_in_one_sentence(server, sentence):
    said = refused(server())
    start, _, rest = sentence.partition("HOST")
    assert said.startswith(start)
    assert rest in said
    if server is not stand_in.WebPage and server is not stand_in.OtherVocabulary:
        assert said.endswith(
            "start vLLM (vllm serve MODEL), SGLang or llama-cpp-python's server, which give log-probabilities of "
            "prompts, or use --chat-api, which needs none."
        )


class InParts(stand_in.Server):
    """Computes so many tokens of a request at a time, and does ``wrong`` where a prompt goes on in another part."""

    def __init__(self, wrong, part=48):
        super().__init__()
        self.wrong, self.part = wrong, part

    def post(self, path, body):
        made = super().post(path, body)
        done = 0
        for choice, ids in zip(made["choices"], body["prompt"], strict=True) if "prompt_logprobs" in body else ():
            cuts = [n for n in range(1, len(ids)) if (done + n) % self.part == 0]
            done += len(ids)
            if cuts and len(ids) > 16:  # the sentences of the handshake are shorter
                if self.wrong == "dies":
                    return Reply(cut=True)
                self.break_(choice["prompt_logprobs"], cuts)
        return made

    def break_(self, entries, cuts):
        if self.wrong == "leaves out":
            del entries[cuts[0] :]
        elif self.wrong == "boundary":
            for value in entries[cuts[0]].values():
                value["logprob"] -= 3
        elif self.wrong == "forgets":
            for entry in entries[cuts[0] :]:
                for value in entry.values():
                    value["logprob"] -= 0.2


LONG = Request("long", "The old man said that " * 12, (Option(" he was"), Option(" she was tired")))


@pytest.mark.fault(75)
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("dies", "because it gave no answer ("),
        ("leaves out", "because it answered log-probabilities of "),
        ("boundary", "because it gave a token another log-probability than in a copy or in the beginning alone (by 3)"),
        (
            "forgets",
            "because it gave a token another log-probability than in a copy or in the beginning alone (by 0.2)",
        ),
    ],
)
@pytest.mark.parametrize("others", [[], REQUESTS[:4]])
def test_a_server_that_fails_at_long_prompts_is_refused_before_any_row_is_scored(wrong, sentence, others, tmp_path):
    with serving(InParts(wrong)) as running:
        engine = connected(running)
        kept = []
        with pytest.raises(ScoringError) as raised:
            engine.answer([*others, LONG], on_response=kept.append)
    said = str(raised.value)
    assert not kept
    assert "\n" not in said
    assert "(vLLM 0.0-stand-in) fails at prompts as long as the longest of this run (" in said
    assert sentence in said
    assert said.endswith("or another version of it; nothing was scored.")
    assert "--no-enable-chunked-prefill" in said


def test_a_server_that_dies_at_the_long_prompt_is_dropped_while_another_does_it(local):
    with serving(InParts("dies")) as dying, serving(InParts("")) as running:
        engine = connected(dying, running)
        first = engine.answer([LONG, *REQUESTS])
        longer = Request("longer", "The old woman said that " * 14, LONG.options)
        second = engine.answer([longer])
    assert engine.remarks == [f"A server was dropped: {engine.servers[0].lost}."]
    assert not engine.servers[1].lost
    assert largest_difference(stand_in.model().answer([LONG]), first[:1]) < 1e-4
    assert largest_difference(local, first[1:]) < 1e-4
    assert largest_difference(stand_in.model().answer([longer]), second) < 1e-4


def test_a_long_prompt_is_tried_once_and_not_again_for_shorter_ones():
    with serving(InParts("")) as running:
        engine = connected(running)
        answers = [engine.answer([LONG]), engine.answer([LONG]), engine.answer(REQUESTS[:4])]
        longest = max(len(ids) for body in running.asked for ids in body["prompt"])
        tried = [body for body in running.asked if len(body["prompt"]) > 2 and len(body["prompt"][0]) == longest]
    assert len(tried) == 1
    assert len(tried[0]["prompt"]) == 2**13 // longest
    assert largest_difference(stand_in.model().answer([LONG]), answers[1]) < 1e-4


@pytest.mark.fault(75)
def test_probabilities_of_candidates_that_differ_from_those_of_options_are_not_used(local):
    class Processed(stand_in.Server):
        def choice(self, number, ids, body):
            result = super().choice(number, ids, body)
            if result["logprobs"]:
                result["logprobs"]["top_logprobs"] = [
                    {k: v - 1 for k, v in result["logprobs"]["top_logprobs"][0].items()}
                ]
            return result

    with serving(Processed()) as running:
        engine = connected(running)
        assert not engine.servers[0].points
        assert largest_difference(local, engine.answer(REQUESTS)) < 1e-4


def test_what_the_engine_cannot_do_is_refused_before_anything_is_sent():
    with serving() as running:
        engine = connected(running)
        before = len(running.asked)
        with pytest.raises(ScoringError, match=r"^Padding"):
            engine.answer([Request("padded", options=(Option("She ran.", width=20),))])
        with pytest.raises(ScoringError, match="banned"):
            engine.answer(REQUESTS[4:5], decoding=Decoding(banned=("he",)))
        # The candidates, which are scored first, the control sentence, and the control rows after them.
        assert len(running.asked) == before + 3


# Faults in the middle

ASKED = [
    Request(f"r{n}", f"The {word} said that", (Option(" he was"), Option(" she was")))
    for n, word in enumerate("nurse farmer teacher vet doctor mechanic lawyer writer cook singer driver baker".split())
]


def answered(engine, store, **settings):
    """All responses, with those that are stored before; the rest is stored as it comes."""
    engine.recognise(store)
    left = [request for request in ASKED if store.get(request) is None]
    by_id = {request.id: request for request in ASKED}
    engine.answer(left, on_response=lambda r: store.put(by_id[r.id], r), batch_size=4, **settings)
    return [store.get(request) for request in ASKED]


def after(count, reply):
    """A fault of all requests after the first so many."""
    return lambda _body, before: reply if before >= count else None


def shakes():
    """How many completions a handshake asks for."""
    with serving() as running:
        connected(running)
        return len(running.asked)


@pytest.fixture(scope="module")
def handshake():
    return shakes()


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (
            Reply(cut=True),
            " broke off its reply (RemoteProtocolError), requested 3 times; what was answered is kept, so start the",
        ),
        (
            Reply(429, {"error": "slower"}, headers={"Retry-After": "0"}),
            " answered 429 (slower), requested 3 times; what",
        ),
        (Reply(503, "busy"), " answered 503 (busy), requested 3 times; what was answered is kept"),
        (
            Reply(429, "", headers={"Retry-After": "4000"}),
            " answered 429 (no message) and asks to wait 4000 s; what was",
        ),
        (Reply(delay=30.0), " did not answer within 1 s, requested 3 times; what was answered is kept"),
        (Reply(500, {"detail": "engine is dead"}), " answered 500 (engine is dead), requested 3 times; what was"),
        (Reply(body="<html>Sign in</html>"), " answered with a web page; give --base-url the address of an inference"),
        (Reply(body='{"choices": [{"prompt_'), " answered with no whole JSON; give --base-url the address"),
        (Reply(body={"choices": []}), " (vLLM 0.0-stand-in) answered 0 completions to "),
        (Reply(400, {"error": {"message": "too long"}}), " answered 400 (too long); what was answered before is kept."),
        (Reply(401, {"error": {"message": "no"}}), " answered 401 (no); set OPENAI_API_KEY to a key that this server"),
    ],
)
def test_a_server_that_fails_ends_the_run_in_one_sentence_and_a_restart_goes_on(reply, sentence, handshake, tmp_path):
    settings = {"timeout": 1.0} if reply.delay else {}
    with serving(fault=after(handshake + 3, reply)) as running, Store(tmp_path, {}) as store:
        engine = connected(running, concurrency=1, **settings)
        with pytest.raises(ScoringError) as raised:
            answered(engine, store)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)
    with Store(tmp_path, {}) as store:
        known = len(store)
        assert ROUNDS < known < len(ASKED)
    with serving() as running, Store(tmp_path, {}) as store:
        result = answered(connected(running), store)
        sent = sum(len(body["prompt"]) for body in running.asked[handshake:])
    assert largest_difference(stand_in.model().answer(ASKED), result) < 1e-4
    left = 2 * (len(ASKED) + ROUNDS - known)
    # With the control sentence in each batch of 4, and the control rows at the end.
    assert sent <= left + math.ceil(left / 4) + len(CONTROL)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda entries: entries[:-1], "answered log-probabilities of"),
        (lambda entries: [None, {**entries[1], "x": 0}, *[None] * (len(entries) - 2)], "of other tokens than the ones"),
        *(
            (
                lambda entries, value=value: [e and {k: {"logprob": value} for k in e} for e in entries],
                rf"^r\d+: tiny at 127.* gave {re.escape(str(value))} as a log-probability, so no metric",
            )
            for value in (math.nan, 0.5, -9999.0, -1e300, -math.inf)
        ),
        (lambda entries: [e and {k: {"logprob": None} for k in e} for e in entries], "answered nothing as a log-"),
        (lambda entries: None, "answered without log-probabilities of the prompt"),
    ],
)
def test_numbers_that_are_wrong_in_the_middle_are_found_and_not_kept(change, sentence, handshake, tmp_path):
    server = stand_in.Server()

    class Broken(stand_in.Server):
        count = 0

        def choice(self, number, ids, body):
            result = super().choice(number, ids, body)
            self.count += 1
            if self.count > self.most and result["prompt_logprobs"]:
                result["prompt_logprobs"] = change(result["prompt_logprobs"])
            return result

    server = Broken()
    server.most = math.inf
    with serving(server) as running, Store(tmp_path, {}) as store:
        engine = connected(running, concurrency=1)
        server.most = server.count + 9
        with pytest.raises(ScoringError, match=sentence) as raised:
            answered(engine, store)
        assert "(vLLM 0.0-stand-in)" in str(raised.value)
        known = len(store)
    assert ROUNDS < known < len(ASKED)


def test_a_model_that_changes_between_two_requests_is_found_and_its_answers_are_not_kept(handshake, tmp_path):
    server = stand_in.Server()

    def fault(_body, before):
        server.scale = 1.0 if before < handshake + 4 else 0.8

    changed = pytest.raises(ScoringError, match=r"token .*control sentence")
    with serving(server, fault) as running, Store(tmp_path, {}) as store, changed:
        answered(connected(running, concurrency=1), store)
    other = pytest.raises(ScoringError, match="serves another model")
    with serving(server) as running, Store(tmp_path, {}) as store, other:
        answered(connected(running), store)
    with serving() as running, Store(tmp_path, {}) as store:
        assert largest_difference(stand_in.model().answer(ASKED), answered(connected(running), store)) < 1e-4


def test_a_model_of_another_name_in_the_middle_is_found(handshake, tmp_path):
    other = {"model": "other", "choices": []}
    refused = pytest.raises(ScoringError, match=r"'other'.*'tiny'")
    fault = after(handshake + 2, Reply(body=other))
    with serving(fault=fault) as running, Store(tmp_path, {}) as store, refused:
        answered(connected(running, concurrency=1), store)


@pytest.mark.parametrize("reply", [Reply(503, "busy"), Reply(429, "", headers={"Retry-After": "0"}), Reply(cut=True)])
def test_a_temporary_failure_changes_nothing(reply, handshake, tmp_path):
    fault = lambda _body, before: reply if before in (handshake, handshake + 1, handshake + 4) else None  # noqa: E731
    with serving(fault=fault) as running, Store(tmp_path, {}) as store:
        result = answered(connected(running, concurrency=1), store)
    assert largest_difference(stand_in.model().answer(ASKED), result) < 1e-4


def test_two_servers_share_the_load_and_one_that_dies_is_dropped(handshake, tmp_path):
    died = threading.Event()

    def dies(_body, before):
        return Reply(cut=True) if before >= handshake and not died.set() else None

    with serving() as one, serving(fault=dies) as other, Store(tmp_path, {}) as store:
        engine = connected(one, other, concurrency=1)
        result = answered(engine, store)
        assert died.is_set()
        assert min(len(server.asked) for server in (one, other)) > handshake
    assert largest_difference(stand_in.model().answer(ASKED), result) < 1e-4
    assert engine.remarks == [
        f"A server was dropped: {other.url.split('/')[2]} broke off its reply (RemoteProtocolError), requested 3 times."
    ]
    assert engine.environment["servers lost"] == [engine.remarks[0][22:-1]]


def noisy_rounds(values, noise, draw):
    """Two rounds of control rows from a server whose numbers change by so much whenever it is asked."""
    return [[[v + noise * draw.standard_normal() for v in row] for row in values] for _ in range(ROUNDS)]


@pytest.fixture(scope="module")
def rows_of_networks():
    """Log-probabilities of the control rows by a model, and by the same with weights changed by 1 %, five times."""
    requests = [Request(text, options=(Option(text),)) for text in CONTROL]
    model = stand_in.model()
    one = [response.logprobs[0] for response in model.answer(requests)]
    others, kept = [], {name: weight.clone() for name, weight in model.network.named_parameters()}
    for seed in range(5):
        noise = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in model.network.named_parameters():
                weight.copy_(kept[name] * (1 + 0.01 * torch.randn(weight.shape, generator=noise)))
        others.append([response.logprobs[0] for response in model.answer(requests)])
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            weight.copy_(kept[name])
    return one, others


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.002, 0.01, 0.05])
def test_a_model_is_recognised_whatever_its_precision_is(noise, rows_of_networks):
    values, draw = rows_of_networks[0], np.random.default_rng(0)
    wrong = sum(bool(differs(noisy_rounds(values, noise, draw), noisy_rounds(values, noise, draw))) for _ in range(300))
    assert wrong == 0


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.002])
def test_weights_that_differ_by_one_percent_are_another_model(noise, rows_of_networks):
    values, others = rows_of_networks
    draw = np.random.default_rng(0)
    for other in others:
        assert differs(noisy_rounds(values, noise, draw), noisy_rounds(other, noise, draw))


def test_a_server_whose_weights_change_by_one_percent_between_two_runs_is_found(tmp_path):
    server = stand_in.Server()
    with serving(server) as running, Store(tmp_path, {}) as store:
        answered(connected(running), store)
    with serving(server) as running, Store(tmp_path, {}) as store:
        answered(connected(running), store)  # the same model is recognised
    server.scale = 1.01
    other = pytest.raises(ScoringError, match="serves another model")
    with serving(server) as running, Store(tmp_path, {}) as store, other:
        answered(connected(running), store)


def test_a_server_whose_weights_change_by_one_percent_during_a_run_is_found(handshake, tmp_path):
    server = stand_in.Server()

    def fault(_body, before):
        server.scale = 1.0 if before < handshake + 2 else 1.01

    changed = pytest.raises(ScoringError, match="log-probabilities of the")
    with serving(server, fault) as running, Store(tmp_path, {}) as store, changed:
        answered(connected(running, concurrency=1), store)


def test_responses_without_their_control_rows_are_not_used(tmp_path):
    with serving() as running, Store(tmp_path, {}) as store:
        answered(connected(running), store)
    lines = store.path.read_bytes().splitlines(keepends=True)
    store.path.write_bytes(b"".join([lines[0], *lines[1 + ROUNDS :]]))
    lost = pytest.raises(ScoringError, match="control rows")
    with serving() as running, Store(tmp_path, {}) as store, lost:
        answered(connected(running), store)


def test_servers_of_different_models_are_refused():
    other = stand_in.Server()
    other.scale = 0.9
    with serving() as one, serving(other) as two, pytest.raises(ScoringError, match="different models"):
        connected(one, two)


# The command


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): list(job_rows())})
    data_set(folder, "unstereo", {(f"ours-5{end}", "test"): list(pairs("a")) for end in ("", "-paper")})
    return folder


def command(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_run_through_servers_has_the_numbers_of_a_local_run(data, tmp_path):
    common = ("--data", data, "--resamples", "50")
    with serving() as one, serving() as other:
        urls = ("--base-url", one.url, "--base-url", other.url, "--tokenizer", "tiny-causal")
        done = command(*urls, *common, "--out", tmp_path / "served")
    assert done.exit_code == 0, done.output
    assert "neutral" not in done.output or "Left out, because their data are not built" in done.output
    assert command("tiny-causal", *common, "--out", tmp_path / "local", "--dtype", "float32").exit_code == 0
    compared = command(tmp_path / "served", "--compare", tmp_path / "local", "--resamples", "50")
    assert compared.exit_code == 0, compared.output
    from scoring.report import read

    served, local = read(tmp_path / "served"), read(tmp_path / "local")
    assert served.revision == "served by vLLM 0.0-stand-in"
    ours = {(e.benchmark, e.group, e.metric): e.value for e in local.estimates}
    theirs = {(e.benchmark, e.group, e.metric): e.value for e in served.estimates}
    assert ours.keys() == theirs.keys()
    assert list(theirs.values()) == pytest.approx(list(ours.values()), abs=1e-3, nan_ok=True)


def test_a_benchmark_that_needs_padding_is_left_out_by_name(data, tmp_path):
    with serving() as running:
        common = ("--base-url", running.url, "--tokenizer", "tiny-causal", "--data", data, "--resamples", "50")
        done = command(*common, "--profile", "paper", "--out", tmp_path / "a", "--benchmarks", "unstereo")
    assert done.exit_code == 1, done.output
    assert (
        "The benchmark unstereo needs padding, which the engine of this run (served by vLLM 0.0-stand-in)"
        in done.output
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--base-url", "http://127.0.0.1:9/v1"),
            "127.0.0.1:9 cannot be reached, so nothing was asked; start the server",
        ),
        (
            ("--base-url", "localhost:8000"),
            "The address of the server is not valid; give --base-url an address such as",
        ),
        (
            ("tiny-causal", "--base-url", "URL"),
            "Both the model 'tiny-causal' and a server are given; name the server's",
        ),
        (
            ("--base-url", "URL", "--quantize", "4bit"),
            "--quantize says how a model is loaded, and a server has loaded it",
        ),
        (("--base-url", "URL", "--tokenizer", "no/such"), "'no/such' is neither a folder nor a model"),
        (("--base-url", "URL"), "calls its model 'tiny', and no tokenizer is found by that name; give --tokenizer the"),
        (("--base-url", "URL", "--model-name", "big"), "does not serve 'big'; its models are tiny."),
    ],
)
def test_wrong_arguments_are_told_in_one_sentence(arguments, sentence, data, tmp_path):
    with serving() as running, Hub(cache=tmp_path / "cache"), client():
        given = [running.url if argument == "URL" else argument for argument in arguments]
        tokenizer = () if "--tokenizer" in given or sentence.startswith("calls") else ("--tokenizer", "tiny-causal")
        done = command(*given, *tokenizer, "--data", data, "--out", tmp_path / "out")
    assert done.exit_code == 1, done.output
    assert done.output.startswith("error: ")
    assert sentence in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_a_tokenizer_of_another_size_is_told_in_one_sentence(data, tmp_path):
    with serving() as running:
        done = command("--base-url", running.url, "--tokenizer", "tiny-masked", "--data", data, "--out", tmp_path)
    assert done.exit_code == 1, done.output
    assert "give --tokenizer the tokenizer of the model that is served." in done.output
