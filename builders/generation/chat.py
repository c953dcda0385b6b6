"""What a chat model was asked and what it replied, kept by content so that nobody needs the model again.

A file of replies is JSON lines, only ever appended to, each an object with

``key``
    SHA-256 of the canonical JSON of ``request`` (sorted keys, no spaces, UTF-8 unescaped);
``request``
    all that the reply depends on: ``model``, ``messages``, ``temperature``, ``max_tokens`` and, where the
    same prompt is asked more than once, ``seed``;
``reply``, ``model``, ``date``, ``usage``, ``finish_reason``
    the text, the model that answered, the day in UTC, the tokens that were counted (null when nobody
    counted), and why the reply ended: ``stop``, ``length`` for one that was cut, …

A reply is text. It is parsed by rule or left out; nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from builders.dataset import BuildError
from builders.write import sync


class ChatError(BuildError):
    """A chat model cannot be asked, or its replies cannot be kept."""


class NoReply(ChatError):
    """A reply that is not recorded would be needed."""

    exit_code = 2


class ModelGone(ChatError):
    """The endpoint does not have the model."""


def request(model: str, prompt: str, *, temperature: float, max_tokens: int, seed: int | None = None) -> dict[str, Any]:
    """What is asked: one prompt as a user's message.

    ``seed`` is sent to the model, and makes the same prompt another request: the way to several
    replies to one prompt.

    >>> request("m", "Hello", temperature=0.7, max_tokens=50)["messages"]
    [{'role': 'user', 'content': 'Hello'}]
    """
    messages = [{"role": "user", "content": prompt}]
    asked = {"model": model, "messages": messages, "temperature": float(temperature), "max_tokens": max_tokens}
    return asked if seed is None else asked | {"seed": seed}


def key(request: Mapping[str, Any]) -> str:
    """What a request is known by: SHA-256 of its canonical JSON.

    >>> key({"model": "m", "seed": 1}) == key({"seed": 1, "model": "m"})
    True
    """
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """One reply with what was asked; the fields are those of a line. Made by :func:`record`."""

    key: str
    request: dict[str, Any]
    reply: str
    model: str
    date: str
    usage: dict[str, int] | None
    finish_reason: str

    @property
    def cut(self) -> bool:
        """Whether the reply ended for want of room."""
        return self.finish_reason == "length"

    def json(self) -> str:
        """The line, without its end."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


def record(
    request: Mapping[str, Any],
    reply: str,
    *,
    model: str = "",
    date: str = "",
    usage: tuple[int, int] | None = None,
    finish_reason: str = "stop",
) -> Record:
    """The record of a reply.

    Parameters
    ----------
    model:
        Who answered; the one that was asked, if not given.
    date:
        Year, month and day; today, if not given.
    usage:
        Tokens of the prompt and of the reply.

    >>> asked = request("m", "Hello", temperature=0, max_tokens=50)
    >>> record(asked, "Good day.", date="2026-01-31").usage is None
    True
    """
    counted = usage and {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    day = date or datetime.now(UTC).date().isoformat()
    whole = reply.encode("utf-8", "replace").decode()  # half a surrogate pair can be sent, but not written
    return Record(key(request), dict(request), whole, model or request["model"], day, counted, finish_reason)


def _parsed(line: bytes) -> Record:
    """The record on a line; ValueError, KeyError or TypeError when it is none."""
    found = Record(**json.loads(line))
    if not isinstance(found.reply, str) or found.key != key(found.request):
        raise ValueError("its key is not that of its request")
    return found


def _tail(line: bytes) -> Record | None:
    """The record on a last line without an end: None when it was never finished."""
    try:
        return _parsed(line)
    except (ValueError, KeyError, TypeError):
        return None


def _records(path: Path, data: bytes) -> Iterator[Record]:
    *lines, last = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            yield _parsed(line)
        except (ValueError, KeyError, TypeError) as error:
            raise ChatError(
                f"{path} line {number} is no recorded reply ({error}); restore the file, or remove the line and its "
                "question is asked again."
            ) from None
    if (whole := _tail(last)) is not None:
        yield whole


def recorded(*paths: Path) -> dict[str, Record]:
    """The replies in files, by key; the first of several to one request stands.

    Raises
    ------
    ChatError
        At a line that is no record, unless it is the last and has no end: that is what a killed
        process leaves, and is passed over.
    """
    found: dict[str, Record] = {}
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ChatError(f"The replies in {path} cannot be read ({error.strerror or error}).") from None
        for each in _records(path, data):
            found.setdefault(each.key, each)
    return found


class Book:
    """A file of replies that is added to; a reply is on the disk before anybody sees it.

    Parameters
    ----------
    path:
        Made when the first reply is put in.
    also:
        Files with more replies, only read.
    writable:
        Whether anything may be put in; only then is the file locked and its end mended.

    Raises
    ------
    ChatError
        When another process adds to the file, or it cannot be read or written.
    """

    def __init__(self, path: Path, also: Iterable[Path] = (), *, writable: bool = True) -> None:
        self.path = path
        self._thread = threading.Lock()
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
        with ExitStack() as undone:
            if writable:
                with self._told():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._lock.acquire()
                undone.callback(self._lock.release)
                self._mend()
            self.own = recorded(*[path] * path.is_file())
            self._all = self.own | recorded(*also) | self.own
            undone.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __contains__(self, key: object) -> bool:
        return key in self._all

    def __getitem__(self, key: str) -> Record:
        return self._all[key]

    def put(self, made: Record) -> None:
        """Adds a reply: from here on it outlives the process and the machine."""
        with self._thread, self._told():
            new = not self.path.exists()
            with self.path.open("ab") as file:
                file.write(made.json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if new:
                sync(self.path.parent)
            self.own[made.key] = self._all[made.key] = made

    def models(self) -> dict[str, int]:
        """How many replies there are from each model that was asked, by name."""
        return dict(sorted(Counter(str(each.request["model"]) for each in self._all.values()).items()))

    def _mend(self) -> None:
        """Ends a whole last line and cuts off half a one."""
        if not self.path.is_file():
            return
        with self._told(), self.path.open("r+b") as file:
            before, end, last = file.read().rpartition(b"\n")
            if last and _tail(last) is not None:
                file.write(b"\n")
            elif last:
                file.truncate(len(before) + len(end))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Timeout:
            raise ChatError(
                f"The replies in {self.path} are being added to by another run; wait until it ends, or give another "
                "--replies."
            ) from None
        except OSError as error:
            raise ChatError(
                f"The replies in {self.path} cannot be kept ({error.strerror or error}); give a --replies that can "
                "be written and has room."
            ) from None
