"""Unpacks one member of a zip archive safely."""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
from pathlib import Path

import pooch

from builders.dataset import BuildError
from cards.files import put, replacing

_BLOCK = 1 << 20


def unpacked(archive: Path, member: str, folder: Path) -> Path:
    """The path of a member of a verified archive, which is unpacked into ``folder`` if it is not there yet.

    The SHA-256 of a member is recorded when it is unpacked; a member with another one is unpacked again.

    Raises
    ------
    BuildError
        When the archive is broken, has no such member, or has an entry with a path outside the folder.
    """
    try:
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if fault := _fault(entry):
                    raise BuildError(f"The archive {archive} has {entry.filename!r}, {fault}; nothing was unpacked.")
            info, target, record = zipped.getinfo(member), folder / member, folder / f"{member}.sha256"
            known = record.read_text(encoding="utf-8") if record.is_file() else ""
            if not (known and target.is_file() and pooch.file_hash(target, "sha256") == known):
                with zipped.open(info) as packed, replacing(target) as file:
                    shutil.copyfileobj(packed, file, _BLOCK)
                put(record, pooch.file_hash(target, "sha256").encode())
    except KeyError:
        raise BuildError(f"The archive {archive} has no member {member!r}; correct its name in sources.toml.") from None
    except zipfile.BadZipFile as error:
        raise BuildError(f"{archive} is not a complete zip archive: {error}.") from None
    return target


def _fault(entry: zipfile.ZipInfo) -> str:
    """Why an entry could be written outside its folder, or an empty text."""
    name = entry.filename.replace("\\", "/")
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "an absolute path"
    if ".." in name.split("/"):
        return "a path out of its folder"
    return "a symbolic link" if stat.S_ISLNK(entry.external_attr >> 16) else ""
