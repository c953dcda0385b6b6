"""Responses as they come, kept by content, so that no question is asked twice and metrics are recomputed for free.

One file holds the responses of one model under one setting. Its first line is the key, each further line
a response; lines are only ever appended. A line that cannot be read is named, and its question is asked again. A
process that is killed leaves at most a part of the last line, which is cut off at the next opening, and its question is
asked again.

In memory is only where each response begins in the file, 16 bytes for one, so that millions of them can be stored.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from filelock import Timeout

from builders.generation.append_log import AppendLog
from cards.common.stored import number
from scoring.types import Request, Response, ScoringError

FORMAT = 3
#: A log-probability may be above 0 by rounding.
ROUNDING = 1e-3
_CONTENT = [field.name for field in fields(Request) if field.name != "id"]


def digest(request: Request) -> str:
    """The digest of a request: of all of its content but the id.

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
    in_use = "The responses in {path} are in use by another command; wait for its end, or write to another folder."
    unusable = "The responses in {path} cannot be kept ({reason}); give a folder that can be written and has room."

    def __init__(self, folder: str | Path, key: Mapping[str, str], part: int = 0) -> None:
        header = json.dumps({"format": FORMAT, "key": dict(key)}, sort_keys=True).encode()
        name = hashlib.sha256(header).hexdigest()[:32]
        if part:
            name = f"{name}.part-{part}"
        path = Path(folder) / f"{name}.jsonl"
        # A response lost in a power failure is requested again, so lines are not synced one by one.
        super().__init__(path, path.with_suffix(".lock"), sync=False, in_memory=False)
        self.damaged: list[int] = []
        self._places = Places()
        self._reader: BinaryIO | None = None
        with ExitStack() as undo, self._errors():
            undo.callback(self.close)
            lines = self.stored_lines()
            _, first = next(lines, (0, None))
            if first is None:
                self.append(header)
            elif first != header:
                raise ScoringError(
                    f"The file of responses {self.path} begins with another key than its name tells, so it was "
                    "changed; delete it, and its questions are asked again."
                )
            # The lines after the key, which is the first one.
            for line_number, (place, line) in enumerate(lines, 2):
                entry = self._entry(line)
                if entry is None:
                    self.damaged.append(line_number)
                else:
                    self._places.put(entry[0], place)
            if not part:
                self._take_over(header)
            undo.pop_all()

    def _take_over(self, header: bytes) -> None:
        """Adds the responses of the files of other processes, and removes these files; one in use stays."""
        for path in sorted(self.path.parent.glob(f"{self.path.stem}.part-*.jsonl")):
            try:
                with AppendLog(path, path.with_suffix(".lock"), sync=False, in_memory=False) as log:
                    lines = log.stored_lines()
                    # A process that was killed left its file; one with another header is only removed.
                    _, first = next(lines, (0, b""))
                    if first == header:
                        self._add(line for _, line in lines)
            except Timeout:
                continue
            path.unlink()
            path.with_suffix(".lock").unlink(missing_ok=True)

    def _add(self, lines: Iterable[bytes]) -> None:
        """Adds the responses in lines of another file that are not stored yet."""
        for line in lines:
            entry = self._entry(line)
            if entry is None:
                continue
            name, _ = entry
            if self._places.get(name) is None:
                self._places.put(name, self.append(line))

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        """Writes all responses through to the disk and lets other processes open the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        super().close()

    def get(self, request: Request) -> Response | None:
        """The response to a request of this content, under the id of this request; None when there is none yet."""
        name = digest(request)
        place = self._places.get(name)
        if place is None:
            return None
        with self._errors():
            if self._reader is None:
                self._reader = self.path.open("rb")
            self._reader.seek(place)
            entry = self._entry(self._reader.readline().removesuffix(b"\n"))
        # Another response is there where the first halves of two digests are equal; then the question is asked again.
        if entry is None or entry[0] != name:
            return None
        logprobs, candidate_logprobs, text = entry[1]
        response = Response(request.id, logprobs, candidate_logprobs, text)
        # A line that was written by hand may have other numbers of answers than the request.
        if _fault(request, response):
            return None
        return response

    def put(self, request: Request, response: Response) -> None:
        """Keeps a response: from here on it outlives this process, and from :meth:`close` on the machine.

        Raises
        ------
        ScoringError
            For a number that is not finite (only a candidate form may be NaN) or is above 0, a response that lacks
            numbers, and when the file cannot be written.
        """
        name = digest(request)
        # JSON has null for the NaN of a form of several tokens; any other number must be finite.
        candidate_logprobs = [None if math.isnan(value) else value for value in response.candidate_logprobs]
        line = [name, response.logprobs, candidate_logprobs, response.text]
        try:
            text = json.dumps(line, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise ScoringError(
                f"The response to {request.id!r} has a log-probability that is not finite; only finite ones are kept, "
                "so score again in float32."
            ) from None
        fault = _fault(request, response)
        if fault:
            raise ScoringError(f"The response to {request.id!r} {fault}; score again in float32.")
        self._places.put(name, self.append(text.encode()))

    def remove(self) -> None:
        """Closes and removes the file of this process, whose responses the file itself now has."""
        self.close()
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def _entry(self, line: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """The digest of a request and its response; None for a line that cannot be read, to be asked again."""
        try:
            # Lines of earlier versions have a checksum after a tab, and JSON has no tab.
            name, logprobs, candidate_logprobs, text = _json(line.partition(b"\t")[0])
            return name, (tuple(map(tuple, logprobs)), tuple(map(number, candidate_logprobs)), text)
        except (ValueError, TypeError):
            return None


class Places:
    """Where responses begin in a file, by the digest of their request; a later one replaces an earlier one.

    A dictionary of Python takes 200 bytes for one, and two sorted arrays take 16. New ones are collected in a
    dictionary and put into the arrays when they are many.

    >>> places = Places()
    >>> places.put("00" * 16, 7), places.put("ff" * 16, 9), places.get("ff" * 16), places.get("aa" * 16), len(places)
    (None, None, 9, None, 2)
    """

    #: The most in the dictionary.
    LIMIT = 1 << 16

    def __init__(self) -> None:
        self._names = np.empty(0, np.uint64)
        self._at = np.empty(0, np.int64)
        self._new: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._names) + len(self._new)

    def get(self, name: str) -> int | None:
        """The place of the response to a request, by the request's digest."""
        half = int(name[:16], 16)
        if half in self._new:
            return self._new[half]
        row = self._row(half)
        if row is None:
            return None
        return int(self._at[row])

    def put(self, name: str, place: int) -> None:
        """Keeps the place of a response."""
        half = int(name[:16], 16)
        row = self._row(half)
        if row is not None:
            self._at[row] = place
            return
        self._new[half] = place
        # Many at one time, because each sorts all of them.
        if len(self._new) >= self.LIMIT:
            names = np.fromiter(self._new, np.uint64)
            at = np.fromiter(self._new.values(), np.int64)
            order = np.argsort(names)
            # Between those that are sorted already, so that no array is there more than twice.
            rows = np.searchsorted(self._names, names[order])
            self._names = np.insert(self._names, rows, names[order])
            self._at = np.insert(self._at, rows, at[order])
            self._new.clear()

    def _row(self, half: int) -> int | None:
        """The row of the first half of a digest in the sorted arrays; None where it is not there."""
        row = int(np.searchsorted(self._names, np.uint64(half)))
        if row == len(self._names) or int(self._names[row]) != half:
            return None
        return row


def _fault(request: Request, response: Response) -> str:
    """What is wrong with a response to a request, or an empty text."""
    # Called for each response that is read or written, so the loops over numbers are those of any and chain. NaN, the
    # log-probability of a form of several tokens, is not above 0.
    if any(value > ROUNDING for value in chain(chain.from_iterable(response.logprobs), response.candidate_logprobs)):
        return "has a log-probability above 0"
    if len(response.logprobs) != len(request.options) or len(response.candidate_logprobs) != len(request.candidates):
        return "has not one entry for each option and candidate"
    for option, logprobs in zip(request.options, response.logprobs, strict=True):
        # Only an option with spans may have none.
        if not logprobs and not option.spans:
            return "has no log-probability of an option"
    return ""


def _json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:  # a text with half a character, or no JSON at all
        return json.loads(line)
