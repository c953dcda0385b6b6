"""Stand-ins for inference servers on loopback: they answer as vLLM, SGLang and others do, with tiny-causal behind them.

A stand-in takes a ``fault``, which sees each request for completions before it is answered and may answer otherwise.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from scoring.inference.load_options import BUNDLED, load
from tests.support import wire
from tests.support.wire import bound

torch.set_num_threads(1)
NAME = "tiny"


@cache
def model():
    """The model behind all stand-ins."""
    return load(BUNDLED["tiny-causal"], dtype="float32", device="cpu")


_COMPUTING = threading.Lock()


@cache
def distributions(ids: tuple[int, ...], scale: float = 1.0) -> torch.Tensor:
    """Log-probabilities of the vocabulary after each token, [tokens, vocabulary]."""
    with _COMPUTING, torch.inference_mode():
        logits = model().network(torch.tensor([ids])).logits[0].double() * scale
        return torch.log_softmax(logits, -1)


def scored(ids: tuple[int, ...], scale: float = 1.0) -> list[float]:
    """The log-probability of each token after the first."""
    rows = distributions(ids, scale)
    return [float(rows[n, token]) for n, token in enumerate(ids[1:])]


def continued(ids: tuple[int, ...], new: int) -> list[int]:
    made: list[int] = []
    while len(made) < new:
        made.append(int(distributions((*ids, *made))[-1].argmax()))
        if made[-1] == model().tokens.tokenizer.eos_token_id:
            break
    return made


def text_of(ids) -> str:
    return model().tokens.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


@dataclass
class Reply:
    """What a fault answers: a status, a body, and seconds before it; ``cut`` closes the connection without a reply.

    ``fault`` is the name of what happens instead, see :mod:`tests.support.wire`.
    """

    status: int = 200
    body: Any = None
    delay: float = 0.0
    cut: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""


class Unknown(Exception):
    """An address that the server does not have."""


class Server:
    """Answers as vLLM does; subclasses answer as others do."""

    owner = "vllm"

    def __init__(self) -> None:
        self.scale = 1.0

    def get(self, path: str) -> Any:
        if path == "/v1/models":
            return {"object": "list", "data": [{"id": NAME, "owned_by": self.owner, "max_model_len": 512}]}
        if path == "/version":
            return {"version": "0.0-stand-in"}
        raise Unknown

    def post(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/tokenize":
            return {"tokens": model().tokens.encode([body["prompt"]])[0].ids}
        if path != "/v1/completions":
            raise Unknown
        return {"model": body["model"], "choices": [self.choice(n, p, body) for n, p in enumerate(self.prompts(body))]}

    def prompts(self, body: dict[str, Any]) -> list[tuple[int, ...]]:
        return [tuple(ids) for ids in body["prompt"]]

    def choice(self, number: int, ids: tuple[int, ...], body: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {"index": number, "text": "", "prompt_logprobs": None, "logprobs": None}
        if "prompt_logprobs" in body:
            values = self.values(ids, body)
            entries = [{str(t): {"logprob": v, "rank": 1}} for t, v in zip(self.seen(ids)[1:], values, strict=True)]
            result["prompt_logprobs"] = [None, *entries]
        elif "logprobs" in body:
            row = distributions(ids, self.scale)[-1]
            wanted = body.get("logprob_token_ids") or row.topk(body["logprobs"]).indices.tolist()
            result["logprobs"] = {"top_logprobs": [{f"token_id:{t}": float(row[t]) for t in wanted}]}
        else:
            made = continued(ids, body["max_tokens"])
            result |= {"token_ids": made, "text": text_of(made)}
        return result

    def seen(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return ids

    def values(self, ids: tuple[int, ...], _body: dict[str, Any]) -> list[float]:
        return scored(self.seen(ids), self.scale)


class OldVLLM(Server):
    """Does not know ``logprob_token_ids``: candidates are among the most likely tokens, or not."""

    def post(self, path, body):
        body.pop("logprob_token_ids", None)
        return super().post(path, body)


class SecondBOS(Server):
    def seen(self, ids):
        return (model().tokens.tokenizer.bos_token_id, *ids)


class Cutting(Server):
    def seen(self, ids):
        return ids[-8:]


class Tempered(Server):
    """Answers after temperature, as it is set in the request."""

    def values(self, ids, body):
        return scored(ids, 1 / body["temperature"])


class Wavering(Server):
    """Answers otherwise each time."""

    count = 0

    def values(self, ids, body):
        self.count += 1
        return [value - self.count / 5 for value in super().values(ids, body)]


class Uniform(Server):
    """Answers the same number for every token."""

    def values(self, ids, body):
        return [-8.0] * (len(ids) - 1)


class Probable(Server):
    """Answers log-probabilities near 0, which cannot be those of alternatives."""

    def values(self, ids, body):
        return [value / 50 for value in super().values(ids, body)]


class OtherVocabulary(Server):
    """Its tokenizer has other numbers for the same texts."""

    def post(self, path, body):
        result = super().post(path, body)
        return {"tokens": [token + 7 for token in result["tokens"]]} if path == "/tokenize" else result


class SGLang(Server):
    owner = "sglang"

    def get(self, path):
        if path == "/get_server_info":
            return {"version": "0.0-stand-in"}
        return super().get(path)

    def post(self, path, body):
        if path != "/generate":
            raise Unknown
        return [self.entry(tuple(ids), n, body) for n, ids in enumerate(body["input_ids"])]

    def entry(self, ids, number, body):
        new = body["sampling_params"]["max_new_tokens"]
        made = continued(ids, new)
        about: dict[str, Any] = {}
        if body.get("return_logprob"):
            about["input_token_logprobs"] = [[v, t, None] for t, v in zip(ids, [None, *scored(ids)], strict=True)]
            wanted = (body.get("token_ids_logprob") or [[]] * (number + 1))[number]
            row = distributions(ids)[-1]
            about["output_token_ids_logprobs"] = [[[float(row[t]), t, None] for t in wanted]]
        return {"text": text_of(made), "output_ids": made, "meta_info": about}


class LlamaCppPython(Server):
    """Takes one text, adds the beginning-of-sequence token, and echoes the tokens after it as texts."""

    owner = "me"

    def post(self, path, body):
        tokenizer = model().tokens.tokenizer
        if path == "/extras/tokenize":
            return {"tokens": tokenizer(body["input"])["input_ids"]}
        if path != "/v1/completions":
            raise Unknown
        if not isinstance(body["prompt"], str):
            return Reply(422, {"error": {"message": "Input should be a valid string"}})
        ids = tuple(tokenizer(body["prompt"])["input_ids"])
        made = continued(ids, body["max_tokens"])
        choice: dict[str, Any] = {"index": 0, "text": text_of(made)}
        if body.get("echo"):
            whole = (*ids, *made)
            pieces = [text_of(whole[1 : n + 1])[len(text_of(whole[1:n])) :] for n in range(1, len(whole))]
            values: list[Any] = scored(whole)
            choice["logprobs"] = {"tokens": pieces, "token_logprobs": [None, *values[1:]]}
        elif "logprobs" in body:
            row = distributions(ids)[-1]
            top = {text_of([t]): float(row[t]) for t in range(len(row))}
            choice["logprobs"] = {"tokens": [], "token_logprobs": [], "top_logprobs": [top]}
        return {"model": NAME, "choices": [choice]}


class LlamaCpp(Server):
    """llama.cpp's own server: continues a prompt of token ids and leaves the log-probabilities of the prompt out."""

    owner = "llamacpp"

    def choice(self, number, ids, body):
        return {"index": number, "text": text_of(continued(ids, body["max_tokens"])), "logprobs": None}


class TransformersServe(Server):
    """``transformers serve``: lists models, and has no completions with log-probabilities."""

    owner = "organisation"

    def post(self, path, body):
        return Reply(422, {"detail": "Unexpected fields in the request: {'prompt_logprobs'}"})


class TGI(Server):
    """TGI with its defaults: takes text only, and has its log-probabilities of prompts off."""

    owner = "organisation/model"

    def get(self, path):
        return {"router": "text-generation-router", "version": "3.3"} if path == "/info" else super().get(path)

    def post(self, path, body):
        return Reply(422, {"error": "Input validation error: prompt: expected a string", "error_type": "validation"})


class ChatOnly(Server):
    owner = "someone"

    def post(self, path, body):
        message = "This is a chat model and not supported in the v1/completions endpoint."
        return Reply(404, {"error": {"message": message, "type": "invalid_request_error"}})


class WebPage(Server):
    def get(self, path):
        return "<!doctype html><title>Hello</title>"


@dataclass
class Running:
    """A running stand-in: its address, the completions that were asked for, and how to end it."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    answered: int = 0
    stop: Callable[[], None] = lambda: None


#: Given the body of a request and how many came before it; None answers as usual.
Fault = Callable[[dict[str, Any], int], "Reply | None"]


@contextmanager
def serving(server: Server | None = None, fault: Fault = lambda _body, _before: None) -> Iterator[Running]:
    """Serves until the end of the block, or until ``stop`` is called."""
    server, guard, closing = server or Server(), threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer(lambda: server.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with guard:
                before = len(running.asked)
                if self.path in ("/v1/completions", "/generate"):
                    running.asked.append(body)
            other = fault(body, before) if self.path in ("/v1/completions", "/generate") else None
            self.answer(lambda: other or server.post(self.path, body))

        def answer(self, make: Callable[[], Any]) -> None:
            try:
                made = make()
            except Unknown:
                made = Reply(404, {"detail": "Not Found"})
            reply = made if isinstance(made, Reply) else Reply(body=made)
            if reply.fault:
                wire.send(self, reply.fault, closing)
                return
            if reply.delay:
                closing.wait(reply.delay)
            if reply.cut or closing.is_set():
                self.close_connection = True
                return
            data = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
            try:
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
                running.answered += 1
            except OSError:
                self.close_connection = True  # the client gave up

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    http = bound(lambda port: Quiet(("127.0.0.1", port), Handler))
    running = Running(f"http://127.0.0.1:{http.server_port}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    def stop() -> None:
        closing.set()
        if thread.is_alive():
            http.shutdown()
            thread.join()
            http.server_close()
            wire.FREE.append(http.server_port)

    running.stop = stop
    try:
        yield running
    finally:
        stop()
