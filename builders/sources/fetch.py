"""Gets the verified local files of a source: from a mirror, the cache or the network, in this order.

A mirror and the cache are folders with files at HOST/PATH, so a cache can be used as a mirror. A download goes to
a temporary file, which is verified and then renamed. So a file with its final name is always complete, also if two
processes download it at the same time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pooch

from builders.dataset import BuildError, Fetched, Remote, Source, SourceChanged, SourceUnavailable
from builders.sources.catalogue import mirror_path
from builders.sources.retries import LONGEST_WAIT, TRANSIENT, Transient, retrying, seconds_to_wait
from cards.common.files import put, replacing
from cards.common.progress import Progress

if TYPE_CHECKING:
    import requests

#: Time limits in seconds for the connection and for the next bytes.
TIMEOUT = (5.0, 60.0)

_BLOCK = 1 << 20

pooch.get_logger().setLevel("WARNING")  # the progress bar shows downloads


def default_cache() -> Path:
    """The cache folder: ``PROBES_CACHE`` or the system's folder for caches."""
    return Path(os.environ.get("PROBES_CACHE") or pooch.os_cache("gender-neutral-probes"))


def default_mirror() -> Path | None:
    """The mirror folder in ``PROBES_MIRROR``, or None."""
    folder = os.environ.get("PROBES_MIRROR")
    return Path(folder) if folder else None


class _NotAvailable(Exception):
    """A file is not available; the next alternative of the source may be."""


class _NoAnswer(Transient):
    """The host did not respond."""


@dataclass
class Fetcher:
    """Gets sources, and keeps what it got and which hosts or files failed.

    Parameters
    ----------
    cache:
        Folder for downloaded and unpacked files; it is created when needed.
    mirror:
        Folder of files at HOST/PATH. They are read in place and verified each time.
    offline:
        Never use the network.
    progress:
        The progress bar for downloads.
    attempts:
        Highest number of requests for a file.
    sleep:
        Called with the seconds to wait between attempts.

    Attributes
    ----------
    from_cache:
        HOST/PATH of each file that was read from the cache, in the order of first use.

    Raises
    ------
    BuildError
        When the mirror is not a folder.
    """

    cache: Path
    mirror: Path | None = None
    offline: bool = False
    progress: Progress | None = None
    attempts: int = 5
    sleep: Callable[[float], None] = time.sleep
    from_cache: list[str] = field(default_factory=list, init=False)
    _got: dict[Source, Fetched] = field(default_factory=dict, init=False)
    _fallbacks: list[str] = field(default_factory=list, init=False)
    _downloaded: set[str] = field(default_factory=set, init=False)
    _failed: dict[str, str] = field(default_factory=dict, init=False)  # by host or address

    def __post_init__(self) -> None:
        # Absolute, so that a change of the working folder does not move the cache.
        self.cache = self.cache.expanduser().absolute()
        self.mirror = self.mirror and self.mirror.expanduser().absolute()
        if self.mirror and not self.mirror.is_dir():
            raise BuildError(
                f"The mirror {self.mirror} is not a folder; name one that holds files as HOST/PATH "
                "by --mirror or PROBES_MIRROR."
            )

    @property
    def notes(self) -> list[str]:
        """Sentences for the end of a command on the use of the cache and of alternatives other than the first."""
        count = len(self.from_cache)
        cached = f"Used the cache {self.cache} for {count} file{'s' * (count != 1)} without asking the network."
        return [cached] * bool(count) + self._fallbacks

    def get(self, source: Source) -> Fetched:
        """The files of a source, from the first alternative whose files are all available.

        Raises
        ------
        SourceChanged
            When a file does not have its pinned hash. No other alternative is tried then.
        SourceUnavailable
            When no alternative is available.
        BuildError
            When an archive cannot be unpacked, or a folder cannot be read or written.
        """
        # Configs share sources, and verifying a large file takes seconds.
        if source not in self._got:
            self._got[source] = self._first_available(source)
        return self._got[source]

    def _first_available(self, source: Source) -> Fetched:
        reasons: list[str] = []
        for number, alternative in enumerate(source.alternatives):
            try:
                fetched = Fetched(source, number, tuple(self._file(remote) for remote in alternative.files))
            except _NotAvailable as error:
                reasons.append(str(error))
            except OSError as error:
                place, reason = error.filename or self.cache, error.strerror or error
                raise BuildError(f"{source.name} cannot be stored or read at {place}: {reason}.") from None
            else:
                self._note(fetched, reasons)
                return fetched
        remedy = "run without --offline" if self.offline else "try again later"
        # All reasons are named: the user may mend any one of the alternatives.
        raise SourceUnavailable(
            f"{source.name} is not available: {'; '.join(reasons)}; {remedy}, or name a folder that holds "
            "the file as HOST/PATH by --mirror DIR or PROBES_MIRROR."
        )

    def _note(self, fetched: Fetched, reasons: list[str]) -> None:
        if reasons:
            lacks = fetched.used.lacks and f", which lacks {fetched.used.lacks}"
            choice = f"{fetched.source.name} was taken from alternative {fetched.alternative + 1}{lacks}"
            self._fallbacks.append(f"{choice}, because {'; '.join(reasons)}.")

    def _file(self, remote: Remote) -> Path:
        path = self._packed(remote)
        return unpacked(path, remote.member, self._cached(f"{remote.url}.members")) if remote.member else path

    def _cached(self, url: str) -> Path:
        return self.cache / mirror_path(url)

    def _packed(self, remote: Remote) -> Path:
        """The verified file at the address; an archive is not unpacked."""
        name = mirror_path(remote.url)
        if self.mirror and (mirrored := self.mirror / name).is_file():
            advice = f"put the file of {remote.url} there or remove it"
            _verify(mirrored, remote, f"The mirror's file {mirrored}", advice)
            return mirrored
        path = self._cached(remote.url)
        if path.is_file():
            _verify(path, remote, f"The cached file {path}", "delete it and run again")
            if name not in self.from_cache and name not in self._downloaded:
                self.from_cache.append(name)
        elif self.offline:
            raise _NotAvailable(f"{name} is in neither the mirror nor the cache")
        else:
            self._download(remote, path)
            self._downloaded.add(name)
        return path

    def _download(self, remote: Remote, path: Path) -> None:
        """Downloads the file to ``path``, with retries after temporary failures."""
        host = urlsplit(remote.url).netloc
        # A host that did not answer once is not asked again for each of its files.
        if failed := self._failed.get(host) or self._failed.get(remote.url):
            raise _NotAvailable(failed)
        retry = retrying(self.attempts, self.sleep)

        def download(url: str, target: str, _: object) -> None:
            self._stream(url, Path(target))
            _verify(Path(target), remote, f"The file now at {url}", "nothing was kept; try later or review its pin")

        pinned = remote.sha256 or None  # pooch knows no git blob ids
        try:
            retry(pooch.retrieve, remote.url, pinned, fname=path.name, path=path.parent, downloader=download)
        except (_NotAvailable, Transient) as error:
            attempts = f", asked {self.attempts} time{'s' * (self.attempts != 1)}"
            reason = f"{error}{attempts * isinstance(error, Transient)}"
            self._failed[host if isinstance(error, _NoAnswer) else remote.url] = reason
            raise _NotAvailable(reason) from None

    def _stream(self, url: str, target: Path) -> None:
        bar = self.progress or Progress(disable=True)
        task = bar.add_task(url.rsplit("/", 1)[-1], total=None)
        try:
            with _get(url) as response, target.open("wb") as file:
                size = response.headers.get("Content-Length", "")
                bar.update(task, total=int(size) if size.isdecimal() else None)
                for block in response.iter_content(_BLOCK):
                    bar.advance(task, file.write(block))
        finally:
            bar.remove_task(task)


@contextmanager
def _get(url: str) -> Iterator[requests.Response]:
    """The response with status 200; errors have neither headers nor tokens in their message."""
    import requests  # takes a fifth of a second, which commands without a download do not wait for

    host = urlsplit(url).netloc
    try:
        with requests.get(url, headers=_headers(url), stream=True, timeout=TIMEOUT) as response:
            if response.status_code != 200:
                raise _refusal(url, response)
            response.raw.enforce_content_length = True  # urllib3 1 does not notice an incomplete body otherwise
            yield response
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _NoAnswer(f"{host} does not answer ({type(error).__name__})") from None
    except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
        raise Transient(f"{url} arrived incomplete") from None
    except (requests.RequestException, UnicodeError) as error:  # UnicodeError: a token that is not allowed in a header
        raise _NotAvailable(f"{url} could not be requested ({type(error).__name__})") from None


def _headers(url: str) -> dict[str, str]:
    """The headers of a request; the token of the Hub is only sent to the Hub."""
    headers = {"Accept-Encoding": "identity"}  # the pinned bytes, not compressed
    # Data sets with terms to accept can only be read with a token.
    token = os.environ.get("HF_TOKEN", "").strip()
    if token and _is_hub(url):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _is_hub(url: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")[:2]


def _refusal(url: str, response: requests.Response) -> _NotAvailable | Transient:
    """The error for a status other than 200."""
    status = response.status_code
    message = f"{url} answered {status} {responses.get(status, '')}".rstrip()
    if status in (401, 403):
        page = url.partition("/resolve/")[0]  # on the Hub, the repository's page
        token = " and set HF_TOKEN" if _is_hub(url) else ""
        return _NotAvailable(f"{message}: accept the terms on {page}{token}")
    # Other statuses will not change within this command.
    if status not in TRANSIENT:
        return _NotAvailable(message)
    wait = seconds_to_wait(response.headers.get("Retry-After", ""))
    if wait is not None and wait > LONGEST_WAIT:
        return _NotAvailable(f"{message} and asks to wait {wait:.0f} s, more than the limit of {LONGEST_WAIT:.0f} s")
    return Transient(message, wait)


def _verify(path: Path, remote: Remote, name: str, advice: str) -> None:
    """Raises an error if the file does not have its pinned hash."""
    kind, expected = ("sha256", remote.sha256) if remote.sha256 else ("git blob", remote.git_blob)
    actual = pooch.file_hash(path, "sha256") if remote.sha256 else git_blob(path)
    if actual != expected:
        page = " (an HTML page)" if _is_html(path) else ""
        raise SourceChanged(f"{name}{page} is not as pinned: expected {kind} {expected}, found {actual}; {advice}.")


def git_blob(path: Path) -> str:
    """The git blob id of a file: SHA-1 of ``blob SIZE NUL`` and the bytes."""
    with path.open("rb") as file:
        # Git hashes the length first, so it is taken from the file and not counted while reading.
        digest = hashlib.sha1(b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _is_html(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"\s*<(!doctype html|html)", file.read(512), re.IGNORECASE) is not None


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
                if fault := _unsafe(entry):
                    raise BuildError(f"The archive {archive} has {entry.filename!r}, {fault}; nothing was unpacked.")
            info, target, record = zipped.getinfo(member), folder / member, folder / f"{member}.sha256"
            recorded = record.read_text(encoding="utf-8") if record.is_file() else ""
            # A member that was changed, or only half unpacked, has another hash than the recorded one.
            if not (recorded and target.is_file() and pooch.file_hash(target, "sha256") == recorded):
                with zipped.open(info) as packed, replacing(target) as file:
                    shutil.copyfileobj(packed, file, _BLOCK)
                put(record, pooch.file_hash(target, "sha256").encode())
    except KeyError:
        raise BuildError(f"The archive {archive} has no member {member!r}; correct its name in sources.toml.") from None
    except zipfile.BadZipFile as error:
        raise BuildError(f"{archive} is not a complete zip archive: {error}.") from None
    return target


def _unsafe(entry: zipfile.ZipInfo) -> str:
    """Why an entry could be written outside its folder, or an empty text."""
    name = entry.filename.replace("\\", "/")
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "an absolute path"
    if ".." in name.split("/"):
        return "a path out of its folder"
    return "a symbolic link" if stat.S_ISLNK(entry.external_attr >> 16) else ""
