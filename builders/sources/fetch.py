"""One source becomes verified local files: from a mirror, the cache or the network, in this order.

A mirror and the cache are folders laid out as HOST/PATH, so a cache can serve as a mirror. A file bears
its final name only once its pinned bytes are whole: every download goes to a temporary sibling that is
checked and then renamed, which also keeps two processes from disturbing each other.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import responses
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests
from rich.progress import Progress
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from builders.dataset import BuildError, Fetched, Remote, Source, SourceChanged, SourceUnavailable
from builders.sources.archive import unpacked
from builders.sources.catalogue import mirror_path

#: Answers worth asking again for.
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
#: Seconds a server may ask us to wait before the file counts as unobtainable.
LONGEST_WAIT = 300.0
#: Seconds to wait for a connection and for the next bytes.
TIMEOUT = (5.0, 60.0)

_BACKOFF = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)
_BLOCK = 1 << 20

pooch.get_logger().setLevel("WARNING")  # what is being fetched is shown by the progress bar


def default_cache() -> Path:
    """The cache folder: ``PROBES_CACHE`` or the system's own place for caches."""
    return Path(os.environ.get("PROBES_CACHE") or pooch.os_cache("gender-neutral-probes"))


def default_mirror() -> Path | None:
    """The mirror folder named by ``PROBES_MIRROR``, if any."""
    folder = os.environ.get("PROBES_MIRROR")
    return Path(folder) if folder else None


class _Unobtainable(Exception):
    """Why a file cannot be had now; the source's next alternative may do."""


class _Transient(_Unobtainable):
    """A failure that may pass; ``wait`` is how many seconds the server asked for, if it did."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class _NoAnswer(_Transient):
    """The host did not answer at all."""


@dataclass
class Fetcher:
    """Gets sources, and remembers what it got and what it need not ask for again.

    Parameters
    ----------
    cache:
        Folder for downloaded and unpacked files, made when needed.
    mirror:
        Folder of files kept as HOST/PATH, read in place and verified each time.
    offline:
        Never ask the network.
    progress:
        Where to show downloads.
    attempts:
        How often one file is asked for at most.
    sleep:
        Called with the seconds to wait between attempts.

    Attributes
    ----------
    from_cache:
        HOST/PATH of each file that was read from the cache, in order of first use.

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
        self.cache = self.cache.expanduser().absolute()
        self.mirror = self.mirror and self.mirror.expanduser().absolute()
        if self.mirror and not self.mirror.is_dir():
            raise BuildError(
                f"The mirror {self.mirror} is not a folder; name one that holds files as HOST/PATH "
                "by --mirror or PROBES_MIRROR."
            )

    @property
    def notes(self) -> list[str]:
        """Sentences for the end of a run: use of the cache, and alternatives that were not the first."""
        count = len(self.from_cache)
        cached = f"Used the cache {self.cache} for {count} file{'s' * (count != 1)} without asking the network."
        return [cached] * bool(count) + self._fallbacks

    def get(self, source: Source) -> Fetched:
        """The source's files, by the first alternative that can be had whole.

        Raises
        ------
        SourceChanged
            When a file found anywhere does not have its pinned bytes; no other alternative is tried.
        SourceUnavailable
            When no alternative can be had.
        BuildError
            When an archive is not fit to unpack or a folder cannot be read or written.
        """
        if source not in self._got:
            self._got[source] = self._find(source)
        return self._got[source]

    def _find(self, source: Source) -> Fetched:
        reasons: list[str] = []
        for number, alternative in enumerate(source.alternatives):
            try:
                fetched = Fetched(source, number, tuple(self._file(remote) for remote in alternative.files))
            except _Unobtainable as reason:
                reasons.append(str(reason))
            except OSError as error:
                where, why = error.filename or self.cache, error.strerror or error
                raise BuildError(f"{source.name} cannot be stored or read at {where}: {why}.") from None
            else:
                self._note(fetched, reasons)
                return fetched
        remedy = "run without --offline" if self.offline else "try again later"
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
        path = self._whole(remote)
        return unpacked(path, remote.member, self._cached(f"{remote.url}.members")) if remote.member else path

    def _cached(self, url: str) -> Path:
        return self.cache / mirror_path(url)

    def _whole(self, remote: Remote) -> Path:
        """The verified file at the address, an archive still packed."""
        name = mirror_path(remote.url)
        if self.mirror and (kept := self.mirror / name).is_file():
            _verify(kept, remote, f"The mirror's file {kept}", f"put the file of {remote.url} there or remove it")
            return kept
        path = self._cached(remote.url)
        if path.is_file():
            _verify(path, remote, f"The cached file {path}", "delete it and run again")
            if name not in self.from_cache and name not in self._downloaded:
                self.from_cache.append(name)
        elif self.offline:
            raise _Unobtainable(f"{name} is in neither the mirror nor the cache")
        else:
            self._download(remote, path)
            self._downloaded.add(name)
        return path

    def _download(self, remote: Remote, path: Path) -> None:
        """Bring the file to ``path``, asking again after failures that may pass."""
        host = urlsplit(remote.url).netloc
        if failed := self._failed.get(host) or self._failed.get(remote.url):
            raise _Unobtainable(failed)
        again = Retrying(
            stop=stop_after_attempt(self.attempts),
            wait=_wait,
            retry=retry_if_exception_type(_Transient),
            sleep=self.sleep,
            reraise=True,
        )

        def download(url: str, target: str, _: object) -> None:
            self._stream(url, Path(target))
            _verify(Path(target), remote, f"The file now at {url}", "nothing was kept; try later or review its pin")

        known = remote.sha256 or None  # pooch knows no git blob ids
        try:
            again(pooch.retrieve, remote.url, known, fname=path.name, path=path.parent, downloader=download)
        except _Unobtainable as error:
            tries = f", asked {self.attempts} time{'s' * (self.attempts != 1)}"
            why = f"{error}{tries * isinstance(error, _Transient)}"
            self._failed[host if isinstance(error, _NoAnswer) else remote.url] = why
            raise _Unobtainable(why) from None

    def _stream(self, url: str, target: Path) -> None:
        bar = self.progress or Progress(disable=True)
        task = bar.add_task(url.rsplit("/", 1)[-1], total=None)
        try:
            with _answer(url) as response, target.open("wb") as sink:
                size = response.headers.get("Content-Length", "")
                bar.update(task, total=int(size) if size.isdecimal() else None)
                for block in response.iter_content(_BLOCK):
                    bar.advance(task, sink.write(block))
        finally:
            bar.remove_task(task)


@contextmanager
def _answer(url: str) -> Iterator[requests.Response]:
    """The good answer to a request; whatever goes wrong is told without a word of headers or tokens."""
    host = urlsplit(url).netloc
    try:
        with requests.get(url, headers=_headers(url), stream=True, timeout=TIMEOUT) as response:
            if response.status_code != 200:
                raise _refusal(url, response)
            response.raw.enforce_content_length = True  # else urllib3 1 takes a cut body for a whole one
            yield response
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _NoAnswer(f"{host} does not answer ({type(error).__name__})") from None
    except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
        raise _Transient(f"{url} arrived incomplete") from None
    except (requests.RequestException, UnicodeError) as error:  # a token may hold what no header can
        raise _Unobtainable(f"{url} could not be asked for ({type(error).__name__})") from None


def _headers(url: str) -> dict[str, str]:
    """Request headers; the Hub's token goes to the Hub alone."""
    headers = {"Accept-Encoding": "identity"}  # pinned bytes, not a packed form of them
    token = os.environ.get("HF_TOKEN", "").strip()
    if token and _is_hub(url):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _is_hub(url: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")[:2]


def _refusal(url: str, response: requests.Response) -> _Unobtainable:
    """What an answer other than 200 means."""
    status = response.status_code
    what = f"{url} answered {status} {responses.get(status, '')}".rstrip()
    if status in (401, 403):
        page = url.partition("/resolve/")[0]  # on the Hub, the repository's page
        token = " and set HF_TOKEN" if _is_hub(url) else ""
        return _Unobtainable(f"{what}: accept the terms on {page}{token}")
    if status not in TRANSIENT:
        return _Unobtainable(what)
    wait = seconds_to_wait(response.headers.get("Retry-After", ""))
    if wait is not None and wait > LONGEST_WAIT:
        return _Unobtainable(f"{what} and asks to wait {wait:.0f} s, more than the limit of {LONGEST_WAIT:.0f} s")
    return _Transient(what, wait)


def seconds_to_wait(retry_after: str) -> float | None:
    """Seconds that a Retry-After header asks for, given as such or as a date; None when it says nothing."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _wait(state: RetryCallState) -> float:
    error = state.outcome and state.outcome.exception()
    told = error.wait if isinstance(error, _Transient) else None
    return _BACKOFF(state) if told is None else told


def _verify(path: Path, remote: Remote, what: str, advice: str) -> None:
    """Compare the file with its pin."""
    kind, expected = ("sha256", remote.sha256) if remote.sha256 else ("git blob", remote.git_blob)
    found = pooch.file_hash(path, "sha256") if remote.sha256 else git_blob(path)
    if found != expected:
        page = " (an HTML page)" if _is_html(path) else ""
        raise SourceChanged(f"{what}{page} is not as pinned: expected {kind} {expected}, found {found}; {advice}.")


def git_blob(path: Path) -> str:
    """The id that git gives to the file's content: sha1 of ``blob SIZE NUL`` and the bytes."""
    with path.open("rb") as file:
        digest = hashlib.sha1(b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _is_html(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"\s*<(!doctype html|html)", file.read(512), re.IGNORECASE) is not None
