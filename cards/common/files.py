"""Writes files atomically, and locks folders: a reader sees the old file or the whole new one."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

#: The file by which a folder is locked; it stays in the folder.
LOCK = ".lock"
#: The file by which a folder has files of ours: SHA-256 and path of each, as sha256sum prints and checks them.
RECORD = ".sha256"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that replaces ``path`` in one step when the block ends without an error.

    Its content is on the disk before it replaces the old file. Folders are made when missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        # Not mkstemp, whose files only their owner may read: the user's umask decides. "x" opens no existing file.
        with temporary.open("xb") as file:
            yield file
            file.flush()
            # Without it a power failure can leave an empty file under the new name.
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put(path: Path, content: bytes | Path) -> None:
    """Writes a file atomically; the content may be that of another file, which is copied in parts."""
    with replacing(path) as file:
        if isinstance(content, Path):
            with content.open("rb") as other:
                shutil.copyfileobj(other, file)
        else:
            file.write(content)


def put_all(
    folder: Path, files: Mapping[str, bytes | Path], refusal: type[Exception], *, edited: Collection[str] = ()
) -> None:
    """Writes files into a folder in place of those that this program wrote there, and of no others.

    :data:`RECORD` in the folder lists all of them.

    Parameters
    ----------
    files:
        Content, or a file with it, by path in the folder.
    edited:
        Those that users edit, which are replaced in any case.

    Raises
    ------
    refusal
        As :func:`refuse_foreign`, before anything is written, and when the folder cannot be written.
    """
    record = folder / RECORD
    try:
        refuse_foreign(folder, files.keys() - set(edited), refusal)
        before = _lines(record)
        now = []
        for name, content in files.items():
            digest = file_sha256(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()
            now.append(f"{digest}  {name}")
        # The process may end between two files, so both contents of each are known until all are written.
        put(record, _text([*before, *now]))
        for name, content in files.items():
            put(folder / name, content)
        others = [line for line in before if line.partition("  ")[2] not in files]
        put(record, _text([*others, *now]))
    except OSError as error:
        raise refusal(f"{folder} cannot be written ({error.strerror or error}); choose another --out.") from None


def is_recorded(folder: Path, name: str) -> bool:
    """Whether a file is as this program wrote it into the folder."""
    path = folder / name
    if not path.is_file():
        return False
    digest = file_sha256(path)
    # Versions 0.3 and later listed a single file, such as a page, in a file FILE.sha256 of its own.
    alone = _lines(path.with_name(f"{path.name}{RECORD}"))
    return f"{digest}  {name}" in _lines(folder / RECORD) or f"{digest}  {path.name}" in alone


def adopt(folder: Path, names: Iterable[str]) -> None:
    """Lists files that an earlier version wrote into a folder, and did not list."""
    put(folder / RECORD, _text(f"{file_sha256(folder / name)}  {name}" for name in names))


def is_damaged(folder: Path, name: str) -> bool:
    """Whether this program wrote a file of that name into the folder, and its content is another now."""
    is_listed = any(line.partition("  ")[2] == name for line in _lines(folder / RECORD))
    return is_listed and not is_recorded(folder, name)


def refuse_foreign(folder: Path, names: Iterable[str], refusal: type[Exception]) -> None:
    """Refuses files that would be replaced and are not as this program wrote them.

    Raises
    ------
    refusal
        With the first such file.
    """
    for name in sorted(names):
        # Also a link that leads nowhere is of the user.
        if os.path.lexists(folder / name) and not is_recorded(folder, name):
            raise refusal(
                f"{folder / name} was not written by this program, or was changed since, and would be replaced; move "
                "it away or choose another --out."
            )


def _lines(record: Path) -> list[str]:
    try:
        return record.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(folder: Path, refusal: type[Exception], *, wait: bool = False) -> Iterator[None]:
    """Locks a folder, which is made when missing, so that one command at a time writes there.

    With ``wait`` it waits for the end of another command, which is refused otherwise.

    Raises
    ------
    refusal
        When another command has locked the folder, or it cannot be made or written.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(folder / LOCK, timeout=-1 if wait else 0))
        except Timeout:
            raise refusal(f"Another command is writing to {folder}; wait for it or choose another --out.") from None
        except OSError as error:
            raise refusal(f"{folder} cannot be written ({error.strerror or error}); choose another --out.") from None
        yield


def strays(folder: Path, ours: Collection[str]) -> list[str]:
    """The files and links below a folder that are not ours, by their path from it with slashes, sorted.

    A folder that is a link or a file is a stray itself, with the path ``.``; a missing one has none.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return ["."]
    names = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        # A link is a stray even under one of our names: what it leads to is not ours.
        if path.is_symlink() or not (path.is_dir() or name in ours):
            names.append(name)
    return sorted(names)


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
