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
#: What this program wrote into a folder: SHA-256 and path of each file, as sha256sum prints them.
RECORD = ".sha256"


@contextmanager
def replacing(path: Path, record: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write that replaces ``path`` in one step when the block ends without an error.

    Its content is on the disk before it replaces the old file. Folders are made when missing. With a ``record``, a
    file of that name in the same folder or above it, the file is known there as written by this program.
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
        if record:  # first, so that the file is known also when the process ends here
            _note(record, {path: file_sha256(temporary)})
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put(path: Path, content: bytes | Path, record: Path | None = None) -> None:
    """Writes a file atomically; the content may be that of another file, which is copied in parts."""
    with replacing(path, record) as file:
        if isinstance(content, Path):
            with content.open("rb") as other:
                shutil.copyfileobj(other, file)
        else:
            file.write(content)


def put_all(
    folder: Path,
    files: Mapping[str, bytes | Path],
    refusal: type[Exception],
    *,
    record: Path | None = None,
    ours: Collection[str] = (),
) -> None:
    """Writes files into a folder in place of those that this program wrote there, and of no others.

    Parameters
    ----------
    files:
        Content, or a file with it, by path in the folder.
    record:
        Where is recorded what this program wrote; by default :data:`RECORD` in the folder.
    ours:
        Files that an earlier version wrote, which kept no record.

    Raises
    ------
    refusal
        As :func:`refuse_foreign`, before anything is written, and when the folder cannot be written.
    """
    record = record or folder / RECORD
    try:
        paths = [folder / name for name in files]
        if not record.exists():
            # Files of an earlier version are taken into the record, after all others are known to be ours to write.
            earlier = [folder / name for name in ours if (folder / name).is_file()]
            refuse_foreign(record, [path for path in paths if path not in earlier], refusal)
            if earlier:
                _note(record, {path: file_sha256(path) for path in earlier})
        refuse_foreign(record, paths, refusal)
        for name, content in files.items():
            put(folder / name, content, record)
    except OSError as error:
        raise refusal(f"{folder} cannot be written ({error.strerror or error}); choose another --out.") from None


def beside(path: Path) -> Path:
    """The record of one file: FILE.sha256, in the format of sha256sum."""
    # Beside it, because the folder of a single file belongs to the user.
    return path.with_name(f"{path.name}{RECORD}")


def is_recorded(path: Path, record: Path) -> bool:
    """Whether a file is as this program wrote it."""
    if not path.is_file():
        return False
    line = f"{file_sha256(path)}  {path.relative_to(record.parent).as_posix()}"
    return line in _lines(record)


def refuse_foreign(record: Path, paths: Iterable[Path], refusal: type[Exception]) -> None:
    """Refuses files that would be replaced and are not as this program wrote them, and links below the folder.

    Raises
    ------
    refusal
        With the first such file.
    """
    for path in paths:
        # A link anywhere between the folder and the file would lead the write elsewhere.
        below = [place for place in [path, *path.parents] if record.parent in place.parents]
        links = [place for place in below if place.is_symlink()]
        if links:
            # The last one is the outermost, which has to go first.
            raise refusal(f"{links[-1]} is a symbolic link; remove it, or choose another --out.")
        if path.exists() and not is_recorded(path, record):
            raise refusal(
                f"{path} was not written by this program, or was changed since, and would be replaced; move it away or "
                "choose another --out."
            )


def refuse_links(folder: Path, names: Iterable[str], refusal: type[Exception]) -> None:
    """Refuses links in the places of a folder where this program writes, and below these places.

    Raises
    ------
    refusal
        With the first link, through which a file elsewhere would be written.
    """
    for name in names:
        place = folder / name
        paths = [place]
        # What is below a link is elsewhere; the link itself is refused.
        if place.is_dir() and not place.is_symlink():
            paths += sorted(place.rglob("*"))
        for path in paths:
            if path.is_symlink():
                raise refusal(f"{path} is a symbolic link; remove it, or choose another --out.")


def _lines(record: Path) -> list[str]:
    try:
        return record.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _note(record: Path, digests: Mapping[Path, str]) -> None:
    """Adds files to a record. A line of the content before stays until the next time, if the file still has it."""
    lines = _lines(record)
    for path, digest in digests.items():
        name = path.relative_to(record.parent).as_posix()
        now = f"{file_sha256(path)}  {name}" if path.is_file() else ""
        # The process may end between the record and the file; then the line of the content before is still right.
        lines = [line for line in lines if line.partition("  ")[2] != name or line == now]
        new = f"{digest}  {name}"
        if new not in lines:
            lines.append(new)
    put(record, "".join(f"{line}\n" for line in lines).encode())


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
        When another command has locked the folder, it is a symbolic link, or it cannot be made or written.
    """
    with ExitStack() as stack:
        try:
            if folder.is_symlink():
                raise refusal(f"{folder} is a symbolic link; give the folder itself as --out.")
            folder.mkdir(parents=True, exist_ok=True)
            refuse_links(folder, [LOCK], refusal)
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
