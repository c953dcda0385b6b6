"""Writes files atomically, and locks folders: a reader sees the old file or the whole new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

#: The file by which a folder is locked; it stays in the folder.
LOCK = ".lock"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that replaces ``path`` in one step when the block ends without an error.

    Its content is on the disk before it replaces the old file. Folders are made when missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp allows only the owner to read
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put(path: Path, content: bytes) -> None:
    """Writes a file atomically."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def locked(folder: Path, refusal: type[Exception], *, wait: bool = False) -> Iterator[None]:
    """Locks a folder, which is made when missing, so that one run at a time writes there.

    With ``wait`` it waits for the end of another run, which is refused otherwise.

    Raises
    ------
    refusal
        When another run has locked the folder, it is a symbolic link, or it cannot be made or written.
    """
    with ExitStack() as stack:
        try:
            if folder.is_symlink():
                raise refusal(f"{folder} is a symbolic link; give the folder itself as --out.")
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(folder / LOCK, timeout=-1 if wait else 0))
        except Timeout:
            raise refusal(f"Another run is writing to {folder}; wait for it or choose another --out.") from None
        except OSError as error:
            raise refusal(f"{folder} cannot be written ({error.strerror or error}); choose another --out.") from None
        yield


def strays(folder: Path, ours: Collection[str]) -> list[str]:
    """The files and links below a folder that are not ours, by their path from it with slashes, sorted.

    A folder that is a link or a file is a stray itself, with the path ``.``; a missing one has none.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return ["."]
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return sorted(name for name, path in paths.items() if path.is_symlink() or not (path.is_dir() or name in ours))


def refuse_strays(folder: Path, ours: Collection[str], refusal: type[Exception]) -> None:
    """Refuses a folder that will be replaced or removed if it has a file that is not ours.

    Raises
    ------
    refusal
        With the first such file.
    """
    if others := strays(folder, ours):
        raise refusal(
            f"{folder / others[0]} was not written by this program, and {folder} would be replaced as a whole; move it "
            "away or choose another --out."
        )
