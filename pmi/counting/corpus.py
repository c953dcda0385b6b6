"""The files of a corpus, from paths, folders, globs and addresses."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from cards.common.files import file_sha256
from pmi.types import PmiError, first_line

#: What a file holds. Each line of ``text`` is a record, and a ``document`` is one record.
Format = Literal["text", "document", "json", "parquet"]

_FORMATS: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
}
# Attributes of a remote file that change when its content changes, best first.
_VERSION_KEYS = ("blob_id", "ETag", "etag", "sha256", "mtime")
#: Endings of compressed files.
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
        What the file holds, after decompression.
    size:
        Bytes of the file; 0 where that is not known.
    version:
        Changes when the content changes: the time of the last change, or an identifier from the server.
    """

    address: str
    format: Format
    size: int
    version: str

    def digest(self, *rest: str) -> str:
        """A hash of the file's address and version, and of ``rest``, which says how the file is read."""
        parts = "\x1f".join((self.address, self.format, str(self.size), self.version, *rest))
        return hashlib.sha256(parts.encode(errors="surrogatepass")).hexdigest()

    def content(self) -> tuple[str, ...]:
        """SHA-256 of the bytes of a local file; empty for an address and for a pipe, which is read once."""
        path = Path(self.address)
        try:
            return (file_sha256(path),) if "://" not in self.address and path.is_file() else ()
        except OSError as error:
            raise CorpusError(f"{path} cannot be read ({first_line(error)}); check the file and access.") from None


def shards(corpus: Sequence[str | Path], format: Format | None = None) -> list[Shard]:
    """The files of paths, folders, globs and addresses, each once, in alphabetical order.

    Raises
    ------
    CorpusError
        When a name matches no file, or the format of a file is not clear from its name.
    """
    shards_by_address: dict[str, Shard] = {}
    identities: dict[str, str] = {}
    for name in corpus:
        files = list(_remote_files(str(name)) if "://" in str(name) else _local_files(Path(name)))
        if not files:
            raise CorpusError(f"There is no file {name}; give files, folders, globs or addresses of a corpus.")
        found = [
            Shard(address, file_format, size, version)
            for address, size, version, _ in files
            if (file_format := format or _format(address))
        ]
        if not found:
            raise CorpusError(
                f"The format of {files[0][0]} is not clear from its name; let it end in {', '.join(_FORMATS)}, with "
                f"{', '.join(COMPRESSED)} after that when it is compressed, or give the format."
            )
        shards_by_address |= {shard.address: shard for shard in found}
        # Device and inode of a local file, so that a link and its target are counted once.
        identities |= {address: identity for address, _, _, identity in files}
    # Of several names of one file, the last in reverse order is the first in order.
    addresses = {identities[address]: address for address in sorted(shards_by_address, reverse=True)}
    return [shards_by_address[address] for address in sorted(addresses.values())]


def _format(address: str) -> Format | None:
    """The format of a file, from its name.

    >>> _format("a/b.jsonl.zst"), _format("novel.TXT"), _format("picture.png")
    ('json', 'text', None)
    """
    path = PurePosixPath(address.lower())
    return _FORMATS.get(PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix)


def _local_files(path: Path) -> Iterator[tuple[str, int, str, str]]:
    """Address, size, version and identity of local files; hidden files count only when they are named.

    The identity is the same for all names of a file.
    """
    root = path if path.is_dir() else Path(path.anchor)
    pattern = "**/*" if path.is_dir() else str(path.relative_to(root))
    named = path.exists() and not path.is_dir()  # Not is_file(), because it may be a pipe.
    for file in (path,) if named else root.glob(pattern):
        if named or (file.is_file() and not file.name.startswith(".")):
            status = file.stat()
            yield str(file), status.st_size, str(status.st_mtime_ns), f"{status.st_dev}:{status.st_ino}"


def _remote_files(address: str) -> Iterator[tuple[str, int, str, str]]:
    """Address, size, version and identity of the files of an address that fsspec knows."""
    import fsspec  # type: ignore[import-untyped]

    protocol = address.partition("://")[0]
    try:
        system, path = fsspec.core.url_to_fs(address)
        if any(c in path for c in "*?["):
            entries = system.glob(path, detail=True).values()
        elif system.isdir(path):
            entries = system.find(path, detail=True).values()
        else:
            entries = [system.info(path)]
    except FileNotFoundError:
        return
    except Exception as error:  # Each file system has its own errors.
        raise CorpusError(f"{address} cannot be listed ({first_line(error)}); check the address and access.") from None
    for entry in entries:
        if entry.get("type") == "file":
            path = str(entry["name"]).removeprefix(f"{protocol}://")
            version = next((str(entry[key]) for key in _VERSION_KEYS if entry.get(key)), "")
            yield f"{protocol}://{path}", int(entry.get("size") or 0), version, f"{protocol}://{path}"
