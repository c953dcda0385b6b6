"""How a file is put in place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which stands under its name in one step when all went well: whole, and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)  # a temporary file is its owner's alone
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def put(path: Path, content: bytes) -> None:
    """Puts a file in place in one step."""
    with replacing(path) as file:
        file.write(content)
