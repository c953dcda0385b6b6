"""What a corpus is made of: the files that paths, folders, globs and addresses name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from pmi.types import PmiError, first_line

Format = Literal["text", "json", "parquet"]

_FORMATS: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
}
# What file systems say of a file that changes with it.
_MARKS = ("blob_id", "ETag", "etag", "sha256", "mtime")
#: Endings of files that are compressed as a whole.
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zstd")


class CorpusError(PmiError):
    """A corpus cannot be read."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a corpus.

    Parameters
    ----------
    address:
        A path, or an address that fsspec knows, such as ``hf://datasets/ORG/NAME/FILE``.
    format:
        What the file holds, whatever it is compressed with.
    size:
        Its bytes; 0 where they are not known.
    mark:
        Changes with the file: its time of change, or what the server says of it.
    """

    address: str
    format: Format
    size: int
    mark: str

    def digest(self, *rest: str) -> str:
        """Identifies the file as it is, together with how it is read."""
        whole = "\x1f".join((self.address, self.format, str(self.size), self.mark, *rest))
        return hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()


def shards(corpus: Sequence[str | Path], format: Format | None = None) -> list[Shard]:
    """The files that paths, folders, globs and addresses name, each once, in alphabetical order.

    Raises
    ------
    CorpusError
        When a name stands for no file, or for one of which the name does not say what it holds.
    """
    found: dict[str, Shard] = {}
    for name in corpus:
        listed = list(_remote(str(name)) if "://" in str(name) else _local(Path(name)))
        if not listed:
            raise CorpusError(f"There is no file {name}; give files, folders, globs or addresses of a corpus.")
        kept = [Shard(at, kind, size, mark) for at, size, mark in listed if (kind := format or _format(at))]
        if not kept:
            raise CorpusError(
                f"{listed[0][0]} does not say by its name what it holds; end it in {', '.join(_FORMATS)}, with "
                f"{', '.join(COMPRESSED)} after that when it is compressed, or give the format."
            )
        found |= {shard.address: shard for shard in kept}
    return sorted(found.values(), key=lambda shard: shard.address)


def _format(address: str) -> Format | None:
    """What a file holds by its name.

    >>> _format("a/b.jsonl.zst"), _format("novel.TXT"), _format("picture.png")
    ('json', 'text', None)
    """
    path = PurePosixPath(address.lower())
    return _FORMATS.get(PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix)


def _local(path: Path) -> Iterator[tuple[str, int, str]]:
    root = path if path.is_dir() else Path(path.anchor)
    pattern = "**/*" if path.is_dir() else str(path.relative_to(root))
    named = path.exists() and not path.is_dir()  # It may be a pipe.
    for file in (path,) if named else root.glob(pattern):
        if named or (file.is_file() and not file.name.startswith(".")):
            about = file.stat()
            yield str(file), about.st_size, str(about.st_mtime_ns)


def _remote(address: str) -> Iterator[tuple[str, int, str]]:
    import fsspec  # type: ignore[import-untyped]

    protocol = address.partition("://")[0]
    try:
        system, path = fsspec.core.url_to_fs(address)
        if any(c in path for c in "*?["):
            listed = system.glob(path, detail=True).values()
        elif system.isdir(path):
            listed = system.find(path, detail=True).values()
        else:
            listed = [system.info(path)]
    except FileNotFoundError:
        return
    except Exception as error:  # Every file system has its own errors.
        raise CorpusError(f"{address} cannot be listed ({first_line(error)}); check the address and access.") from None
    for about in listed:
        if about.get("type") == "file":
            mark = next((str(about[key]) for key in _MARKS if about.get(key)), "")
            yield f"{protocol}://{str(about['name']).removeprefix(f'{protocol}://')}", int(about.get("size") or 0), mark
