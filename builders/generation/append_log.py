"""A file of lines that one process appends to, and that a killed process leaves readable.

Any store of responses can use it, so it imports nothing that another store would not need.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

from filelock import FileLock, Timeout

from builders.files.folders import sync as written_through

#: Bytes that are read at one time from the end of a file.
_BLOCK = 1 << 16


def _never(_: bytes) -> bool:
    return False


def split_lines(data: bytes, is_complete: Callable[[bytes], bool] = _never) -> list[bytes]:
    r"""The complete lines of a log, without their ends.

    A killed process leaves at most one line without an end. It is dropped unless ``is_complete`` accepts it.

    >>> split_lines(b"one\ntwo\nthr"), split_lines(b"one\ntwo", lambda line: line == b"two")
    ([b'one', b'two'], [b'one', b'two'])
    """
    *lines, last = data.split(b"\n")
    return [*lines, last] if last and is_complete(last) else lines


class AppendLog:
    """An append-only file of lines with one writer at a time.

    Parameters
    ----------
    path:
        The file. It is created by the first :meth:`append`, its folder now.
    lock:
        The lock file. It is created now and stays.
    is_complete:
        Whether a last line without an end is a complete one. Such a line gets its end; any other is cut off.
    sync:
        Write every line through to the disk before :meth:`append` returns. Without it, a line survives a killed
        process but not a power failure, and :meth:`close` writes all lines through.
    writable:
        Whether lines may be added. Only then is the file read and locked.
    in_memory:
        Keep the lines that the file had. Without it they are read with :meth:`stored_lines`, one at a time.

    Attributes
    ----------
    lines:
        The complete lines that the file had when it was opened, without their ends; none without ``in_memory``.

    Raises
    ------
    filelock.Timeout
        When another process has the file open.
    OSError
        When a file cannot be read or written.

    A subclass may set a class of errors to be raised in their place, with the sentences for a file that another
    process has open (``{path}``) and for one that cannot be read or written (``{path}`` and ``{reason}``).
    """

    error: ClassVar[type[Exception] | None] = None
    in_use: ClassVar[str]
    unusable: ClassVar[str]

    def __init__(
        self,
        path: Path,
        lock: Path,
        is_complete: Callable[[bytes], bool] = _never,
        *,
        sync: bool = True,
        writable: bool = True,
        in_memory: bool = True,
    ) -> None:
        self.path, self.sync, self._writable = path, sync, writable
        self._file: BinaryIO | None = None
        self._closed = False
        # One line at a time: lines of two threads must not be mixed.
        self._writing = threading.Lock()
        self._lock = FileLock(lock, timeout=0)
        if writable:
            with self._errors():
                path.parent.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
                try:
                    self.lines = self._repair(is_complete, in_memory=in_memory)
                except BaseException:
                    self._lock.release()
                    raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stored_lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line of the file with the place where it begins, without its end."""
        if not self.path.is_file():
            return
        with self._errors(), self.path.open("rb") as file:
            place = 0
            for line in file:
                yield place, line.removesuffix(b"\n")
                place += len(line)

    def append(self, line: bytes) -> int:
        """Adds a line, which must not contain a line end, and returns the place where it begins.

        Threads may call this at the same time.
        """
        assert self._writable, "the file was opened for reading only"
        with self._errors(), self._writing:
            if self._closed:
                raise ValueError(f"{self.path} is closed.")
            if self._file is None:
                # A new name has to be written through as well, or a power failure could lose the whole file.
                is_new = not self.path.exists()
                self._file = self.path.open("ab")
                if is_new and self.sync:
                    written_through(self.path.parent)
            place = self._file.tell()
            self._file.write(line + b"\n")
            self._file.flush()
            if self.sync:
                os.fsync(self._file.fileno())
        return place

    def close(self) -> None:
        """Writes all lines through to the disk and lets other processes open the file."""
        self._closed = True
        with self._errors():
            try:
                if self._file is not None:
                    # The block closes the file even if the disk is full.
                    with self._file:
                        if not self.sync:
                            os.fsync(self._file.fileno())
                    self._file = None
            finally:
                self._lock.release()

    def _repair(self, is_complete: Callable[[bytes], bool], *, in_memory: bool) -> list[bytes]:
        """Gives a complete last line its end or cuts an incomplete one off; returns the lines if they are kept."""
        if not self.path.is_file():
            return []
        with self.path.open("r+b") as file:
            # Only the last line can lack its end: a process was killed while it wrote.
            last = _after_last_end(file)
            length = file.seek(0, os.SEEK_END)
            if last and is_complete(last):
                file.write(b"\n")
            elif last:
                file.truncate(length - len(last))
            file.seek(0)
            return split_lines(file.read()) if in_memory else []

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # also a Timeout
            if self.error is None:
                raise
            sentence = self.in_use if isinstance(error, Timeout) else self.unusable
            raise self.error(sentence.format(path=self.path, reason=error.strerror or error)) from None


def _after_last_end(file: BinaryIO) -> bytes:
    """What follows the last line end of a file; the file is read from its end, a block at a time."""
    left = file.seek(0, os.SEEK_END)
    last = b""
    while left and b"\n" not in last:
        start = max(left - _BLOCK, 0)
        file.seek(start)
        last = file.read(left - start) + last
        left = start
    return last.rpartition(b"\n")[2]
