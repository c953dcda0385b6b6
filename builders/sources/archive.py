"""One member of a zip archive, unpacked safely."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path

from builders.dataset import BuildError

_BLOCK = 1 << 20


def unpacked(archive: Path, member: str, folder: Path) -> Path:
    """The member of a verified archive, unpacked below ``folder`` unless it lies there whole.

    Raises
    ------
    BuildError
        When the archive is broken, lacks the member, or holds an entry that reaches outside.
    """
    try:
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if fault := _fault(entry):
                    raise BuildError(f"The archive {archive} holds {entry.filename!r}, {fault}; nothing was unpacked.")
            info = zipped.getinfo(member)
            target = folder / member
            if not (target.is_file() and target.stat().st_size == info.file_size and _crc(target) == info.CRC):
                target.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=target.parent) as beside:
                    part = Path(beside) / target.name
                    with zipped.open(info) as packed, part.open("wb") as sink:
                        shutil.copyfileobj(packed, sink, _BLOCK)
                    part.replace(target)
    except KeyError:
        raise BuildError(
            f"The archive {archive} holds no {member!r}; mend the member's name in sources.toml."
        ) from None
    except zipfile.BadZipFile as error:
        raise BuildError(f"{archive} is not a whole zip archive: {error}.") from None
    return target


def _fault(entry: zipfile.ZipInfo) -> str:
    """Why the entry might land outside its folder, or nothing."""
    name = entry.filename.replace("\\", "/")
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "an absolute path"
    if ".." in name.split("/"):
        return "a path out of its folder"
    return "a symbolic link" if stat.S_ISLNK(entry.external_attr >> 16) else ""


def _crc(path: Path) -> int:
    """CRC-32 of the file, as zip directories record it."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc
