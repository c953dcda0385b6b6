"""Replaces a folder in one step."""

import ctypes
import errno
import glob
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from secrets import token_hex

from filelock import FileLock, Timeout

from cards.common.files import LOCK, refuse_strays


def replace_folder(new: Path, target: Path) -> None:
    """Moves the folder ``new`` to ``target`` and removes the old ``target``.

    All files are on the disk before the step. Where the system can exchange two folders in one step, there is
    always a complete folder. Elsewhere the old one is moved aside between two renames, and
    :func:`recover_folder` moves it back if the process ends between them.
    """
    # Content and names have to be on the disk before the old folder is gone.
    for folder, _, names in os.walk(new):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))
    if not target.exists():
        new.rename(target)
    elif exchange(new, target):
        shutil.rmtree(new)
    else:
        aside = _aside(target)
        target.rename(aside)
        new.rename(target)
        shutil.rmtree(aside)
    sync(target.parent)


def recover_folder(target: Path, written: Callable[[Path], Collection[str]], refusal: type[Exception]) -> None:
    """Moves back a folder that an interrupted :func:`replace_folder` had moved aside.

    Parameters
    ----------
    written:
        The files of a folder that this program wrote, by their paths from it.

    Raises
    ------
    refusal
        When the folder in that place has a file that is not ours.
    """
    aside = _aside(target)
    refuse_strays(aside, written(aside), refusal)
    if aside.exists():
        if target.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(target)


@contextmanager
def scratch_beside(target: Path, *, alone: bool = False) -> Iterator[Path]:
    """A hidden folder beside ``target`` for what will become it; it is removed at the end of the block.

    Folders that killed processes left for the same target are removed first, but not those of one that still runs.
    The name has a random part and a checksum of the name, so a folder of a user has no such name.

    Parameters
    ----------
    alone:
        Whether the caller holds a lock by which no other process has such a folder. The folder is then empty;
        otherwise it has a lock of its own.
    """
    for left in sorted(target.parent.glob(f".{glob.escape(target.name)}-*")):
        if left == _scratch_name(target, left.name.split("-")[-2]) and left.is_dir() and not left.is_symlink():
            with suppress(Timeout), FileLock(left / LOCK, timeout=0):
                shutil.rmtree(left)
    folder = _scratch_name(target, token_hex(8))
    folder.mkdir()
    with nullcontext() if alone else FileLock(folder / LOCK):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _scratch_name(target: Path, random: str) -> Path:
    start = f".{target.name}-{random}"
    return target.with_name(f"{start}-{hashlib.sha256(start.encode()).hexdigest()[:32]}")


def _aside(target: Path) -> Path:
    return target.with_name(f".old-{target.name}")


def sync(path: Path) -> None:
    """Writes a file, or the names in a folder, through to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step of the file system; False where the system cannot do that."""
    if os.name != "posix":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        failed = libc.renameat2(here, names[0], here, names[1], swap)
    elif sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(*names, 2)  # RENAME_SWAP
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))
