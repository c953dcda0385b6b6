"""Responses as they come, kept by content, so that no question is asked twice and metrics are recomputed for free.

One file holds the responses of one model under one setting. Its first line is the key, each further line
a response; lines are only ever appended. A process that is killed leaves at most a part of the last line,
which is cut off at the next opening, and its question is asked again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from filelock import FileLock, Timeout

from scoring.types import Request, Response, ScoringError

FORMAT = 1
_CONTENT = [field.name for field in fields(Request) if field.name != "id"]


def digest(request: Request) -> str:
    """What an request is known by: all of its content but the id.

    >>> digest(Request("a", "The nurse said", max_new=1)) == digest(Request("b", "The nurse said", max_new=1))
    True
    """
    parts = [getattr(request, name) for name in _CONTENT]
    try:
        content = orjson.dumps(parts)
    except TypeError:  # half a character, which is no UTF-8
        content = json.dumps(parts, default=asdict).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class Store:
    """Responses of one model under one setting, in one file of a folder.

    Parameters
    ----------
    folder:
        Made if it is not there. Runs with other keys can share it.
    key:
        Everything that a response depends on besides the request: model, revision, dtype, quantization,
        adapter and its digest, prompt text, chat template, decoding, version of this package. The name
        of the file is a digest of it, so any text is safe in it and a changed key is another file.

    Raises
    ------
    ScoringError
        When another process has the file open, when it does not hold this key, or when it cannot be
        read or written.
    """

    def __init__(self, folder: str | Path, key: Mapping[str, str]) -> None:
        header = json.dumps({"format": FORMAT, "key": dict(key)}, sort_keys=True)
        self.path = Path(folder) / f"{hashlib.sha256(header.encode()).hexdigest()[:32]}.jsonl"
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.path.with_suffix(".lock"), timeout=0)
            self._lock.acquire()
        with ExitStack() as undone:
            undone.callback(self._lock.release)
            with self._told():
                self._file = undone.enter_context(self.path.open("a+b"))
                self._replies = self._read(header)
            undone.pop_all()

    def __len__(self) -> int:
        return len(self._replies)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, request: Request) -> Response | None:
        """The response to an request of this content, under the id of this request; None when there is none yet."""
        known = self._replies.get(digest(request))
        return None if known is None else Response(request.id, *known)

    def put(self, request: Request, response: Response) -> None:
        """Keeps a response: from here on it outlives this process, and from :meth:`close` on the machine.

        Raises
        ------
        ScoringError
            For a number that is not finite (only a candidate form may be NaN), and when the file cannot
            be written.
        """
        candidate_logprobs = [None if math.isnan(value) else value for value in response.candidate_logprobs]
        line = [name := digest(request), response.logprobs, candidate_logprobs, response.text]
        try:
            text = json.dumps(line, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise ScoringError(
                f"The response to {request.id!r} has a log-probability that is not finite; only finite ones are kept, "
                "so score again in float32."
            ) from None
        self._append(text)
        self._replies[name] = (response.logprobs, response.candidate_logprobs, response.text)

    def close(self) -> None:
        """Puts all on the disk and lets others have the file."""
        if self._file.closed:
            return
        try:
            with self._told(), self._file:
                os.fsync(self._file.fileno())
        finally:
            self._lock.release()

    def _append(self, line: str) -> None:
        with self._told():
            self._file.write(line.encode() + b"\n")
            self._file.flush()

    def _read(self, header: str) -> dict[str, tuple[Any, ...]]:
        self._file.seek(0)
        whole, end, _ = self._file.read().rpartition(b"\n")
        self._file.truncate(len(whole) + len(end))
        first, *lines = whole.split(b"\n")
        if not first:
            self._append(header)
        elif first != header.encode():
            raise ScoringError(
                f"The file of responses {self.path} begins with another key than its name tells, so it was changed; "
                "delete it, and its questions are asked again."
            )
        return dict(entry for line in lines if (entry := _entry(line)) is not None)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Timeout:
            raise ScoringError(
                f"The responses in {self.path} are in use by another run; wait for its end, or write to another folder."
            ) from None
        except OSError as error:
            raise ScoringError(
                f"The responses in {self.path} cannot be kept ({error.strerror or error}); "
                "give a folder that can be written and has room."
            ) from error


def _entry(line: bytes) -> tuple[str, tuple[Any, ...]] | None:
    """The digest of an request and what was replied; None for a line damaged on the disk, to be asked again."""
    try:
        name, logprobs, candidate_logprobs, text = _json(line)
        return name, (
            tuple(map(tuple, logprobs)),
            tuple(math.nan if v is None else v for v in candidate_logprobs),
            text,
        )
    except (ValueError, TypeError):
        return None


def _json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:  # a text with half a character, or no JSON at all
        return json.loads(line)
