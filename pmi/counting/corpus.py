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
            if "://" in self.address or not path.is_file():
                return ()
            return (file_sha256(path),)
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
        if "://" in str(name):
            files = list(_remote_files(str(name)))
        else:
            files = list(_local_files(Path(name)))
        if not files:
            raise CorpusError(f"There is no file {name}; give files, folders, globs or addresses of a corpus.")
        readable = False
        for address, size, version, identity in files:
            # Device and inode of a local file, so that a link and its target are counted once.
            identities[address] = identity
            # A folder may have other files beside those of the corpus.
            file_format = format or _format(address)
            if file_format:
                shards_by_address[address] = Shard(address, file_format, size, version)
                readable = True
        if not readable:
            raise CorpusError(
                f"The format of {files[0][0]} is not clear from its name; let it end in {', '.join(_FORMATS)}, with "
                f"{', '.join(COMPRESSED)} after that when it is compressed, or give the format."
            )
    # Of several names of one file, the last in reverse order is the first in order.
    addresses = {identities[address]: address for address in sorted(shards_by_address, reverse=True)}
    return [shards_by_address[address] for address in sorted(addresses.values())]


def _format(address: str) -> Format | None:
    """The format of a file, from its name.

    >>> _format("a/b.jsonl.zst"), _format("novel.TXT"), _format("picture.png")
    ('json', 'text', None)
    """
    path = PurePosixPath(address.lower())
    if path.suffix in COMPRESSED:
        # The ending before that of the compression says what the file holds.
        path = PurePosixPath(path.stem)
    return _FORMATS.get(path.suffix)


def _local_files(path: Path) -> Iterator[tuple[str, int, str, str]]:
    """Address, size, version and identity of local files; hidden files count only when they are named.

    The identity is the same for all names of a file.
    """
    files: list[Path] | Iterator[Path]
    named = False
    if path.is_dir():
        files = path.glob("**/*")
    elif path.exists():
        # A file that is named is read whatever it is: it may be a pipe, or hidden.
        files, named = [path], True
    else:
        # A name of no file may be a pattern; pathlib matches patterns below a folder alone.
        root = Path(path.anchor)
        files = root.glob(str(path.relative_to(root)))
    for file in files:
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
            # Without a version a file that changed at its address would not be counted anew.
            version = next((str(entry[key]) for key in _VERSION_KEYS if entry.get(key)), "")
            yield f"{protocol}://{path}", int(entry.get("size") or 0), version, f"{protocol}://{path}"
