"""How a file is put in place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def put(path: Path, content: bytes) -> None:
    """Puts a file in place in one step: whole beside it, on the disk, then under its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)  # a temporary file is its owner's alone
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
