"""A scripted OpenAI-compatible server on loopback: a function says what each request gets, failures included."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scoring.inference.control import CONTROL
from tests.support import wire
from tests.support.wire import bound

#: The longest that a slow answer takes: enough for any test to have given up.
SLOW = 3.0


@dataclass(frozen=True)
class Answer:
    """What one request gets. A status other than 200 is an error of that code."""

    text: str | None = ""
    finish_reason: str = "stop"
    status: int = 200
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    usage: tuple[int, int] | None = (10, 5)
    model: str = ""  # the name in the reply, by default the one asked for with a year
    system_fingerprint: str | None = None
    logprobs: dict[str, float] | None = None  # of the first token, given where they are requested
    raw: str = ""  # the whole body, for a server that is no such server
    drip: float = 0.0  # seconds between two bytes of the body
    fault: str = ""  # the name of what happens instead, see tests.support.wire


#: Given the body of a request and how often the same one came before.
Script = Callable[[dict[str, Any], int], "Answer | str"]


@dataclass
class Server:
    """A running server and what it saw: prompts in order of arrival, how often each request came and was answered."""

    url: str
    prompts: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    came: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    control: int = 0  # how many control rows came, which are no prompts of the script
    model: str | None = "a model"  # what answers them; an empty one in other words each time, and None refuses them
    most_at_once: int = 0
    at_once: int = 0
    closing: threading.Event = field(default_factory=threading.Event)


def prompt_of(body: dict[str, Any]) -> str:
    return body["messages"][-1]["content"]


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    """Serves until the end of the block; control rows get an answer of the model and not of the script."""
    guard = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200, json.dumps(server.answered), {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = self.headers["Idempotency-Key"]
            if prompt_of(body) in CONTROL:
                server.control += 1
                answer = Answer(f"{server.model or server.control}: {prompt_of(body)}")
                self.reply(400 if server.model is None else 200, json.dumps(payload(body, answer)), {})
                return
            with guard:
                before = server.came[name]
                server.came[name] += 1
                server.prompts.append(prompt_of(body))
                server.paths.append(self.path)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                made = script(body, before)
                answer = Answer(made) if isinstance(made, str) else made
                if answer.delay:
                    server.closing.wait(answer.delay)
                if answer.status == 200:
                    with guard:
                        server.answered[name] += 1
            finally:
                with guard:
                    server.at_once -= 1
            if answer.fault:
                wire.send(self, answer.fault, server.closing)
                return
            self.reply(answer.status, answer.raw or json.dumps(payload(body, answer)), answer.headers, answer.drip)

        def reply(self, status: int, text: str, headers: dict[str, str], drip: float = 0.0) -> None:
            data = text.encode()
            try:
                self.send_response(status)
                kind = "application/json" if text[:1] == "{" else "text/html"
                for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for start in range(0, len(data), 1 if drip else len(data)):
                    self.wfile.write(data[start : start + (1 if drip else len(data))])
                    if drip and server.closing.wait(drip):
                        break
            except OSError:
                self.close_connection = True  # the client gave up

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # clients that are killed

    with bound(lambda port: Quiet(("127.0.0.1", port), Handler)) as http:
        server = Server(f"http://127.0.0.1:{http.server_port}/v1")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            http.shutdown()
            thread.join()
            wire.FREE.append(http.server_port)


def payload(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        message = answer.text or "it went wrong"
        return {"error": {"message": message, "type": "error", "param": None, "code": answer.code or None}}
    used = answer.usage and {
        "prompt_tokens": answer.usage[0],
        "completion_tokens": answer.usage[1],
        "total_tokens": sum(answer.usage),
    }
    message = {"role": "assistant", "content": answer.text}
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason, "logprobs": None}
    if body.get("logprobs") and answer.logprobs:
        others = [{"token": token, "logprob": value, "bytes": None} for token, value in answer.logprobs.items()]
        choice["logprobs"] = {"content": [others[0] | {"top_logprobs": others[: body["top_logprobs"]]}]}
    return {
        "id": "reply-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answer.model or f"{body['model']}-2026",
        "system_fingerprint": answer.system_fingerprint,
        "choices": [choice],
        "usage": used,
    }


_HE = {"she": "he", "they": "he", "her": "his", "their": "his", "hers": "his", "theirs": "his", "them": "him"}
_SENTENCES = (
    "{p} packed the {w} carefully.",
    "Yesterday {q} painted the {w} again.",
    "The {w} near the door belonged to {q2}.",
    "{p} described the {w} twice.",
    "{p} put the {w} on the shelf.",
)


def writer(body: dict[str, Any], _: int = 0) -> str:
    """What a model that does as it is told would reply to any prompt of the pipelines."""
    text = prompt_of(body)
    last = text.rpartition("\n\n")[2]
    if text.startswith(("Write 20 statements", "Generate ")):
        seed = body.get("seed", 0)
        return numbered(f"My friend carries letter{seed}x{n} through street{seed}x{n}" for n in range(20))
    if result := re.search(r'Write (\d+) different sentences.*?word "(.+?)" and the pronoun "(\w+)"', text, re.DOTALL):
        count, word, pronoun = result.groups()
        object_ = {"he": "him", "she": "her", "they": "them"}[pronoun]
        made = [s.format(p=pronoun.capitalize(), q=pronoun, q2=object_, w=word) for s in _SENTENCES]
        return numbered(made[: int(count)])
    if text.startswith(("Rewrite the sentence below", "Your task is to rewrite")):
        last = text.split("'''")[1] if "'''" in text else last
        return re.sub(r"\b(she|they|her|their|them)\b", _masculine, last, flags=re.IGNORECASE)
    if text.startswith("Is this sentence natural"):
        return "likely"
    if result := re.search(r"Write (\d+) paraphrases", text):
        original = text.split("\n\n")[1]
        return numbered(f"Put differently {n}, {original}" for n in range(int(result[1])))
    if result := re.search(r"Write (\d+) statements that are true of (.+) and not of (.+)\. They are", text):
        count, group, other = result.groups()
        name = re.sub(r"\W", "", group + other)
        return numbered(f"Item {name}{n} is a [BLANK] of lore{name}{n}. | part | whole" for n in range(int(count)))
    raise AssertionError(f"no reply is scripted for {text!r}")


def _masculine(found: re.Match[str]) -> str:
    word = found[0]
    he = "him" if word == "her" else _HE[word.lower()]
    return he.capitalize() if word[0].isupper() else he


def numbered(entries: Iterator[str] | list[str]) -> str:
    return "\n".join(f"{n}. {entry}" for n, entry in enumerate(entries, 1))
