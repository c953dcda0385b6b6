"""Responses as they come, kept by content, so that no question is asked twice and metrics are recomputed for free.

One file holds the responses of one model under one setting. Its first line is the key, each further line
a response and a checksum of it and of the key, so that a line of another model's file is not taken for one of this
file; lines are only ever appended. A line that was changed is named, and its question is asked again. A process that
is killed leaves at most a part of the last line, which is cut off at the next opening, and its question is asked again.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson
from filelock import Timeout

from builders.generation.append_log import AppendLog, sealed, unsealed
from cards.stored import number
from scoring.types import Request, Response, ScoringError

FORMAT = 3
#: A log-probability may be above 0 by rounding.
ROUNDING = 1e-3
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


class Store(AppendLog):
    """Responses of one model under one setting, in one file of a folder.

    Parameters
    ----------
    folder:
        Made if it is not there. Runs with other keys can share it.
    key:
        Everything that a response depends on besides the request: model, revision, dtype, quantization,
        adapter and its digest, prompt text, chat template, decoding, version of this package. The name
        of the file is a digest of it, so any text is safe in it and a changed key is another file.
    part:
        0 for the file itself. Several processes that share a run have a file each, numbered from 1; the file itself
        takes over what is in those that an earlier run left.

    Attributes
    ----------
    damaged:
        The numbers of the lines that are not as they were written.

    Raises
    ------
    ScoringError
        When another process has the file open, when it does not hold this key, or when it cannot be
        read or written.
    """

    error = ScoringError
    in_use = "The responses in {path} are in use by another run; wait for its end, or write to another folder."
    unusable = "The responses in {path} cannot be kept ({reason}); give a folder that can be written and has room."

    def __init__(self, folder: str | Path, key: Mapping[str, str], part: int = 0) -> None:
        header = json.dumps({"format": FORMAT, "key": dict(key)}, sort_keys=True).encode()
        self._seal = name = hashlib.sha256(header).hexdigest()[:32]
        path = Path(folder) / (f"{name}.part-{part}.jsonl" if part else f"{name}.jsonl")
        # A response lost in a power failure is requested again, so lines are not synced one by one.
        super().__init__(path, path.with_suffix(".lock"), sync=False)
        with ExitStack() as undo, self._errors():
            undo.callback(self.close)
            first, *lines = self.lines or [header]
            if first != header:
                raise ScoringError(
                    f"The file of responses {self.path} begins with another key than its name tells, so it was "
                    "changed; delete it, and its questions are asked again."
                )
            if not self.lines:
                self.append(header)
            entries = [self._entry(line) for line in lines]
            self.damaged = [number for number, entry in enumerate(entries, 2) if entry is None]
            self._responses = dict(entry for entry in entries if entry is not None)
            self.lines.clear()  # the responses are in memory only once
            if not part:
                self._take_over(header)
            undo.pop_all()

    def _take_over(self, header: bytes) -> None:
        """Adds the responses of the files of other processes, and removes these files; one in use stays."""
        for path in sorted(self.path.parent.glob(f"{self.path.stem}.part-*.jsonl")):
            try:
                with AppendLog(path, path.with_suffix(".lock"), sync=False) as log:
                    # A process that was killed left its file; one with another header is only removed.
                    entries = [(line, self._entry(line)) for line in log.lines[1:]] if log.lines[:1] == [header] else []
                    for line, entry in entries:
                        if entry is not None and entry[0] not in self._responses:
                            self.append(line)
                            self._responses[entry[0]] = entry[1]
            except Timeout:
                continue
            path.unlink()
            path.with_suffix(".lock").unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._responses)

    def get(self, request: Request) -> Response | None:
        """The response to an request of this content, under the id of this request; None when there is none yet."""
        stored = self._responses.get(digest(request))
        response = None if stored is None else Response(request.id, *stored)
        return None if response is None or _fault(request, response) else response

    def put(self, request: Request, response: Response) -> None:
        """Keeps a response: from here on it outlives this process, and from :meth:`close` on the machine.

        Raises
        ------
        ScoringError
            For a number that is not finite (only a candidate form may be NaN) or is above 0, a response that lacks
            numbers, and when the file cannot be written.
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
        if fault := _fault(request, response):
            raise ScoringError(f"The response to {request.id!r} {fault}; score again in float32.")
        self.append(sealed(text.encode(), self._seal))
        self._responses[name] = (response.logprobs, response.candidate_logprobs, response.text)

    def remove(self) -> None:
        """Closes and removes the file of this process, whose responses the file itself now has."""
        self.close()
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def _entry(self, line: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """The digest of an request and what was replied; None for a line damaged on the disk, to be asked again."""
        content = unsealed(line, self._seal)
        if content is None:
            return None
        try:
            name, logprobs, candidate_logprobs, text = _json(content)
            return name, (tuple(map(tuple, logprobs)), tuple(map(number, candidate_logprobs)), text)
        except (ValueError, TypeError):
            return None


def _fault(request: Request, response: Response) -> str:
    """What is wrong with a response to a request, or an empty text."""
    numbers = [*response.logprobs, response.candidate_logprobs]
    if any(value > ROUNDING for values in numbers for value in values):
        return "has a log-probability above 0"
    if len(response.logprobs) != len(request.options) or len(response.candidate_logprobs) != len(request.candidates):
        return "has not one entry for each option and candidate"
    pairs = zip(request.options, response.logprobs, strict=True)
    lacking = any(not (values or option.spans) for option, values in pairs)
    return "has no log-probability of an option" if lacking else ""


def _json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:  # a text with half a character, or no JSON at all
        return json.loads(line)
