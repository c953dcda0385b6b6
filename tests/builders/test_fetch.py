"""Fetching against a real server on loopback: what is verified, retried, refused, cached and said."""

from __future__ import annotations

import hashlib
import io
import stat
import threading
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from rich.progress import Progress, TaskID

from builders import datasets
from builders.dataset import Alternative, BuildError, Fetched, Remote, Source, SourceChanged, SourceUnavailable
from builders.sources import fetch
from builders.sources.catalogue import catalogue, mirror_path
from builders.sources.fetch import Fetcher, default_cache, default_mirror, git_blob
from tests.support import helpers
from tools import fetch_sources

BODY = b"word,count\n" + b"".join(b"w%d,%d\n" % (i, i) for i in range(50_000))
HTML = b"<!DOCTYPE html>\n<html><title>Sign in</title></html>"


@dataclass
class Answer:
    """One answer of the server: ``cut`` is the share of the body that is sent, ``status`` 0 hangs up."""

    body: bytes = BODY
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: float = 1.0
    before: Callable[[], object] = lambda: None


class Server(ThreadingHTTPServer):
    """Answers each path from its list, the last answer again and again; remembers who asked."""

    daemon_threads = False  # so that closing waits for every answer

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def serve(self, path: str, *answers: Answer) -> str:
        self.answers[path] = list(answers)
        return self.url + path

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        answers = self.server.answers[self.path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer.before()
        if not answer.status:
            return
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # a client that was refused does not stay for the body
            self.wfile.write(answer.body[: int(len(answer.body) * answer.cut)])

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def start() -> Iterator[Callable[[], Server]]:
    """Starts servers and closes them after the test."""
    running: list[tuple[Server, threading.Thread]] = []

    def new() -> Server:
        server = Server()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        running.append((server, thread))
        return server

    yield new
    for server, thread in running:
        stop(server)
        thread.join()


def stop(server: Server) -> None:
    """Stop the server; harmless when it is stopped already."""
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(start: Callable[[], Server]) -> Server:
    return start()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def naps() -> list[float]:
    """The seconds that a fetcher was told to sleep."""
    return []


@pytest.fixture
def fetcher(tmp_path: Path, naps: list[float]) -> Fetcher:
    return Fetcher(tmp_path / "cache", sleep=naps.append)


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def pinned(url: str, body: bytes = BODY, member: str = "") -> Remote:
    return Remote(url, sha256=sha256(body), member=member)


def source(*remotes: Remote, name: str = "words") -> Source:
    """A source with one alternative of these files."""
    return Source(name, "MIT", "made", (Alternative(remotes),))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def put(folder: Path, url: str, body: bytes) -> Path:
    """Keep the file of the address in a mirror or a cache."""
    path = folder / urlsplit(url).netloc / urlsplit(url).path.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


# Downloads


def test_a_download_lands_in_the_cache_under_host_and_path(server: Server, fetcher: Fetcher) -> None:
    url = server.serve("/data/words.csv", Answer())
    result = fetcher.get(source(pinned(url)))
    assert result == Fetched(source(pinned(url)), 0, (fetcher.cache / mirror_path(url),))
    assert result.path.read_bytes() == BODY
    assert files(fetcher.cache) == [result.path]
    assert fetcher.notes == []


def test_a_cache_serves_as_a_mirror(server: Server, fetcher: Fetcher, tmp_path: Path) -> None:
    words = source(pinned(server.serve("/words.csv", Answer())))
    kept = fetcher.get(words)
    assert Fetcher(tmp_path / "other", mirror=fetcher.cache, offline=True).get(words) == kept


def test_progress_shows_every_byte_and_is_cleared(server: Server, tmp_path: Path) -> None:
    class Recorded(Progress):
        seen = 0.0

        def advance(self, task_id: TaskID, advance: float = 1) -> None:
            assert self.tasks[0].total == len(BODY)
            assert self.tasks[0].description == "words.csv"
            self.seen += advance

    shown = Recorded(disable=True)
    Fetcher(tmp_path, progress=shown).get(source(pinned(server.serve("/words.csv", Answer()))))
    assert shown.seen == len(BODY)
    assert shown.tasks == []


@pytest.mark.fault(1)
def test_a_changed_byte_stops_the_build_by_name(server: Server, fetcher: Fetcher) -> None:
    changed = BODY.replace(b"w7,7", b"w7,8")
    url = server.serve("/words.csv", Answer(changed))
    with pytest.raises(SourceChanged) as stopped:
        fetcher.get(source(pinned(url)))
    assert str(stopped.value) == (
        f"The file now at {url} is not as pinned: expected sha256 {sha256(BODY)}, found {sha256(changed)}; "
        "nothing was kept; try later or review its pin."
    )
    assert stopped.value.exit_code == 1
    assert files(fetcher.cache) == []
    assert server.count("/words.csv") == 1


@pytest.mark.fault(2)
def test_a_cut_download_never_bears_its_final_name_and_the_next_run_succeeds(server: Server, tmp_path: Path) -> None:
    words = source(pinned(server.serve("/words.csv", Answer(cut=0.6), Answer(cut=0.6), Answer())))
    with pytest.raises(SourceUnavailable, match=r"words\.csv.*\b2\b"):
        Fetcher(tmp_path, attempts=2, sleep=lambda _: None).get(words)
    assert files(tmp_path) == []
    assert Fetcher(tmp_path).get(words).path.read_bytes() == BODY
    assert server.count("/words.csv") == 3


@pytest.mark.fault(2)
def test_a_download_cut_once_is_whole_after_the_second_try(server: Server, tmp_path: Path) -> None:
    words = source(pinned(server.serve("/words.csv", Answer(cut=0.6), Answer())))
    between: list[list[Path]] = []
    result = Fetcher(tmp_path, sleep=lambda _: between.append(files(tmp_path))).get(words)
    assert between == [[]]
    assert result.path.read_bytes() == BODY
    assert files(tmp_path) == [result.path]


def test_a_file_has_no_final_name_while_it_arrives(server: Server, tmp_path: Path) -> None:
    arriving: list[list[str]] = []

    class Watch(Progress):
        def advance(self, task_id: TaskID, advance: float = 1) -> None:
            arriving.append([path.name for path in files(tmp_path)])

    words = source(pinned(server.serve("/words.csv", Answer())))
    Fetcher(tmp_path, progress=Watch(disable=True)).get(words)
    assert arriving
    assert all(len(names) == 1 and names != ["words.csv"] for names in arriving)


def test_two_fetchers_of_one_file_do_not_disturb_each_other(server: Server, tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=10)  # neither is answered before both have asked
    words = source(pinned(server.serve("/words.csv", Answer(before=both.wait))))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: Fetcher(tmp_path).get(words), range(2))
    assert first == second
    assert server.count("/words.csv") == 2
    assert files(tmp_path) == [first.path]
    assert first.path.read_bytes() == BODY


@pytest.mark.fault(5)
def test_an_html_page_with_status_200_is_told_by_its_checksum(server: Server, fetcher: Fetcher) -> None:
    url = server.serve("/words.csv", Answer(HTML))
    with pytest.raises(SourceChanged) as stopped:
        fetcher.get(source(pinned(url)))
    assert f"The file now at {url} (an HTML page) is not as pinned: expected sha256" in str(stopped.value)
    assert f"found {sha256(HTML)}" in str(stopped.value)
    assert files(fetcher.cache) == []


# Retries


@pytest.mark.fault(3)
def test_a_busy_server_is_asked_again_after_the_time_it_names(
    server: Server, fetcher: Fetcher, naps: list[float]
) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=200), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    told = [Answer(status=429, headers={"Retry-After": value}) for value in ("7", soon, past)]
    words = source(pinned(server.serve("/words.csv", *told, Answer())))
    assert fetcher.get(words).path.read_bytes() == BODY
    assert 7 <= naps[0] <= 7.5
    assert 100 < naps[1] <= 200.5
    assert 0 <= naps[2] <= 0.5


@pytest.mark.fault(3)
def test_a_server_that_stays_busy_is_asked_n_times_and_the_error_says_so(
    server: Server, tmp_path: Path, naps: list[float]
) -> None:
    url = server.serve("/words.csv", Answer(status=429, headers={"Retry-After": "2"}))
    fetcher = Fetcher(tmp_path, attempts=3, sleep=naps.append)
    for _ in range(2):  # the second time without a request
        with pytest.raises(SourceUnavailable) as stopped:
            fetcher.get(source(pinned(url)))
        assert f"{url} answered 429 Too Many Requests, asked 3 times; try again later" in str(stopped.value)
    assert server.count("/words.csv") == 3
    assert [int(nap) for nap in naps] == [2, 2]


@pytest.mark.fault(3)
def test_a_wait_beyond_the_limit_is_named_and_not_waited(server: Server, fetcher: Fetcher, naps: list[float]) -> None:
    url = server.serve("/words.csv", Answer(status=503, headers={"Retry-After": "3600"}))
    with pytest.raises(SourceUnavailable, match=r"3600 s, .* 300 s"):
        fetcher.get(source(pinned(url)))
    assert server.count("/words.csv") == 1
    assert naps == []


@pytest.mark.fault(3)
@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "401 Unauthorized"), (403, "403 Forbidden"), (404, "404 Not Found"), (501, "501 Not Implemented")],
)
def test_a_refusal_is_asked_for_once(
    server: Server, fetcher: Fetcher, naps: list[float], status: int, said: str
) -> None:
    url = server.serve("/words.csv", Answer(status=status))
    for _ in range(2):
        with pytest.raises(SourceUnavailable) as stopped:
            fetcher.get(source(pinned(url)))
        assert f"{url} answered {said}" in str(stopped.value)
        assert "asked" not in str(stopped.value)
    assert server.count("/words.csv") == 1
    assert naps == []


@pytest.mark.parametrize("status", [0, 408, 429, 500, 502, 503, 504])
def test_failures_that_may_pass_are_asked_again_with_growing_waits(
    server: Server, fetcher: Fetcher, naps: list[float], status: int
) -> None:
    failed = Answer(status=status, headers={"Retry-After": "soon"})  # neither seconds nor a date: our own wait
    words = source(pinned(server.serve("/words.csv", failed, failed, failed, Answer())))
    assert fetcher.get(words).path.read_bytes() == BODY
    assert len(naps) == 3
    assert all(base <= nap <= base + 0.5 for base, nap in zip((0.5, 1, 2), naps, strict=True))


# Network down


@pytest.mark.fault(4)
@pytest.mark.parametrize("offline", [False, True])
def test_with_the_server_down_a_warm_cache_is_used_and_noted(
    start: Callable[[], Server], tmp_path: Path, offline: bool
) -> None:
    server = start()
    words = source(pinned(server.serve("/words.csv", Answer())))
    Fetcher(tmp_path).get(words)
    stop(server)
    fetcher = Fetcher(tmp_path, offline=offline)
    assert fetcher.get(words).path.read_bytes() == BODY
    assert fetcher.from_cache == [mirror_path(words.alternatives[0].files[0].url)]
    assert fetcher.notes == [f"Used the cache {tmp_path} for 1 file without asking the network."]


@pytest.mark.fault(4)
def test_with_the_server_down_a_cold_cache_gives_one_sentence(
    start: Callable[[], Server], fetcher: Fetcher, naps: list[float]
) -> None:
    server = start()
    words = source(pinned(f"{server.url}/words.csv"))
    stop(server)
    with pytest.raises(SourceUnavailable) as stopped:
        fetcher.get(words)
    assert stopped.value.exit_code == 2
    assert str(stopped.value) == (
        f"words is not available: {urlsplit(server.url).netloc} does not answer (ConnectionError), asked 5 times; "
        "try again later, or name a folder that holds the file as HOST/PATH by --mirror DIR or PROBES_MIRROR."
    )
    assert len(naps) == 4


@pytest.mark.fault(4)
def test_offline_with_a_cold_cache_asks_nobody(server: Server, tmp_path: Path) -> None:
    url = server.serve("/words.csv", Answer())
    with pytest.raises(SourceUnavailable) as stopped:
        Fetcher(tmp_path, offline=True).get(source(pinned(url)))
    assert stopped.value.exit_code == 2
    assert str(stopped.value) == (
        f"words is not available: {mirror_path(url)} is in neither the mirror nor the cache; run without --offline, "
        "or name a folder that holds the file as HOST/PATH by --mirror DIR or PROBES_MIRROR."
    )
    assert server.asked == []


def test_a_host_that_does_not_answer_is_given_up_for_all_its_files(server: Server, tmp_path: Path) -> None:
    urls = [server.serve(f"/{name}.csv", Answer(status=0)) for name in "ab"]
    fetcher = Fetcher(tmp_path, attempts=2, sleep=lambda _: None)
    for url in urls:
        with pytest.raises(SourceUnavailable, match=r"ConnectionError.*\b2\b"):
            fetcher.get(source(pinned(url)))
    assert [path for path, _ in server.asked] == ["/a.csv", "/a.csv"]


def test_a_slow_host_counts_as_not_answering(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.05)
    release = threading.Event()
    url = server.serve("/words.csv", Answer(status=0, before=lambda: release.wait(10)))
    with pytest.raises(SourceUnavailable, match=r"ReadTimeout.*\b1\b"):
        Fetcher(tmp_path, attempts=1).get(source(pinned(url)))
    release.set()


# Gated files


@pytest.mark.fault(6)
@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_file_names_the_page_and_never_the_token(
    server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted\n")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    url = server.serve("/datasets/o/gated/resolve/main/words.csv", Answer(status=status))
    with pytest.raises(SourceUnavailable) as stopped:
        fetcher.get(source(pinned(url)))
    assert f": accept the terms on {server.url}/datasets/o/gated and set HF_TOKEN;" in str(stopped.value)
    assert server.asked[0][1]["Authorization"] == "Bearer hf_planted"
    assert "hf_planted" not in "".join(traceback.format_exception(stopped.value))


@pytest.mark.fault(6)
@pytest.mark.parametrize("token", ["hf_planted\nsecond line", "hf_planted…"])
def test_a_token_that_fits_no_header_is_not_printed(
    server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    url = server.serve("/words.csv", Answer())
    with pytest.raises(SourceUnavailable, match=r"words\.csv") as stopped:
        fetcher.get(source(pinned(url)))
    assert "hf_planted" not in "".join(traceback.format_exception(stopped.value))


@pytest.mark.fault(6)
def test_the_token_goes_to_the_hub_alone(
    server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, start: Callable[[], Server]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    hub = start()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    url = server.serve("/words.csv", Answer())
    redirected = hub.serve("/resolve/words.csv", Answer(status=302, headers={"Location": url}))
    fetcher.get(source(pinned(redirected), pinned(url)))
    assert [headers.get("Authorization") for _, headers in hub.asked] == ["Bearer hf_planted"]
    assert [headers.get("Authorization") for _, headers in server.asked] == [None, None]


# Alternatives, mirror and cache


def test_alternatives_are_tried_in_order_and_taken_whole(server: Server, fetcher: Fetcher) -> None:
    gone = server.serve("/gone.csv", Answer(status=404))
    one, two = (server.serve(f"/{name}.csv", Answer()) for name in ("one", "two"))
    words = Source(
        "words",
        "MIT",
        "made",
        (
            Alternative((pinned(one), pinned(gone))),
            Alternative((pinned(two), pinned(one)), lacks="the second half"),
            Alternative((pinned(one),)),
        ),
    )
    result = fetcher.get(words)
    assert result.alternative == 1
    assert result.paths == (fetcher.cache / mirror_path(two), fetcher.cache / mirror_path(one))
    note = f"words was taken from alternative 2, which lacks the second half, because {gone} answered 404 Not Found."
    assert fetcher.get(words) == result
    assert fetcher.notes == [note]
    assert [path for path, _ in server.asked] == ["/one.csv", "/gone.csv", "/two.csv"]


def test_every_alternative_that_failed_is_named(server: Server, tmp_path: Path) -> None:
    remotes = [pinned(server.serve(f"/{status}.csv", Answer(status=status))) for status in (404, 410)]
    words = Source("words", "MIT", "made", tuple(Alternative((remote,)) for remote in remotes))
    with pytest.raises(SourceUnavailable, match=r"/404\.csv.*\b404\b.*/410\.csv.*\b410\b"):
        Fetcher(tmp_path).get(words)


def test_wrong_bytes_stop_the_build_though_another_alternative_exists(server: Server, fetcher: Fetcher) -> None:
    wrong, right = server.serve("/wrong.csv", Answer(b"other")), server.serve("/right.csv", Answer())
    words = Source("words", "MIT", "made", (Alternative((pinned(wrong),)), Alternative((pinned(right),))))
    with pytest.raises(SourceChanged, match=r"/wrong\.csv"):
        fetcher.get(words)
    assert server.count("/right.csv") == 0


def test_the_mirror_is_read_in_place_before_the_network(server: Server, tmp_path: Path) -> None:
    url = server.serve("/words.csv", Answer())
    kept = put(tmp_path / "mirror", url, BODY)
    fetcher = Fetcher(tmp_path / "cache", mirror=tmp_path / "mirror")
    assert fetcher.get(source(pinned(url))).path == kept
    assert server.asked == []
    assert not (tmp_path / "cache").exists()
    assert fetcher.notes == []


@pytest.mark.fault(1)
def test_a_wrong_file_in_the_mirror_is_refused_by_path(server: Server, tmp_path: Path) -> None:
    url = server.serve("/words.csv", Answer())
    kept = put(tmp_path / "mirror", url, b"other")
    with pytest.raises(SourceChanged) as stopped:
        Fetcher(tmp_path / "cache", mirror=tmp_path / "mirror").get(source(pinned(url)))
    assert str(stopped.value) == (
        f"The mirror's file {kept} is not as pinned: expected sha256 {sha256(BODY)}, found {sha256(b'other')}; "
        f"put the file of {url} there or remove it."
    )


@pytest.mark.fault(1)
def test_a_damaged_file_in_the_cache_is_refused_with_advice(server: Server, fetcher: Fetcher) -> None:
    url = server.serve("/words.csv", Answer())
    kept = put(fetcher.cache, url, BODY[:-1])
    with pytest.raises(SourceChanged) as stopped:
        fetcher.get(source(pinned(url)))
    assert str(stopped.value).startswith(f"The cached file {kept} is not as pinned: expected sha256 {sha256(BODY)}")
    assert str(stopped.value).endswith("delete it and run again.")
    assert server.asked == []
    kept.unlink()
    assert fetcher.get(source(pinned(url))).path.read_bytes() == BODY


def test_a_git_blob_id_is_a_pin(server: Server, fetcher: Fetcher) -> None:
    hello = "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object of "hello" and a line end
    right, wrong = server.serve("/right", Answer(b"hello\n")), server.serve("/wrong", Answer(b"hello"))
    outcome = fetcher.get(source(Remote(right, git_blob=hello)))
    assert git_blob(outcome.path) == hello
    with pytest.raises(SourceChanged) as stopped:
        fetcher.get(source(Remote(wrong, git_blob=hello)))
    result = hashlib.sha1(b"blob 5\0hello").hexdigest()
    assert f"/wrong is not as pinned: expected git blob {hello}, found {result}; " in str(stopped.value)
    assert files(fetcher.cache) == [outcome.path]


def test_a_mirror_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"--mirror.*PROBES_"):
        Fetcher(tmp_path, mirror=tmp_path / "absent")


def test_a_cache_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    words = source(pinned(server.serve("/words.csv", Answer())))
    with pytest.raises(BuildError, match=f"{tmp_path}.*Not a directory"):
        Fetcher(tmp_path / "cache").get(words)


def test_a_full_disk_is_told_in_one_sentence(server: Server, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Progress):
        def advance(self, task_id: TaskID, advance: float = 1) -> None:
            raise OSError(28, "No space left on device")

    fetcher.progress = Full(disable=True)
    words = source(pinned(server.serve("/words.csv", Answer())))
    with pytest.raises(BuildError, match=f"{fetcher.cache}.*No space left"):
        fetcher.get(words)
    assert files(fetcher.cache) == []


def test_folders_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PROBES_MIRROR", str(tmp_path / "mirror"))
    assert default_cache() == tmp_path / "cache"
    assert default_mirror() == tmp_path / "mirror"
    monkeypatch.delenv("PROBES_CACHE")
    monkeypatch.setenv("PROBES_MIRROR", "")
    assert default_cache().name == "gender-neutral-probes"
    assert default_mirror() is None


@pytest.mark.parametrize(
    "url", ["https://h.org/../x", "https://../x", "https://h.org/", "https://h.org//x", "https://h.org/x?a=b", "x"]
)
def test_an_address_without_a_place_in_a_mirror_is_refused(url: str) -> None:
    with pytest.raises(BuildError, match="HOST/PATH"):
        mirror_path(url)


# Archives


def packed(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    """A zip archive of these entries."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in entries:
            archive.writestr(name, body)
    return stream.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    """The entry of a symbolic link."""
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def test_only_the_named_member_is_unpacked_and_only_once(server: Server, fetcher: Fetcher) -> None:
    # a carriage return in a name is odd but harmless; the official SNLI archive has one
    archive = packed(("d/", b""), ("d/Icon\r", b""), ("d/train.jsonl", b"{}\n"), ("d/test.jsonl", BODY))
    url = server.serve("/corpus.zip", Answer(archive))
    result = fetcher.get(source(pinned(url, archive, "d/test.jsonl")))
    whole = fetcher.cache / mirror_path(url)
    assert result.path == whole.parent / "corpus.zip.members" / "d" / "test.jsonl"
    assert result.path.read_bytes() == BODY
    assert result.origin(3).file == "test.jsonl"
    assert files(fetcher.cache) == [whole, result.path, result.path.with_name("test.jsonl.sha256")]

    written = result.path.stat().st_mtime_ns
    again = fetcher.get(source(pinned(url, archive, "d/test.jsonl"), pinned(url, archive, "d/train.jsonl")))
    assert again.paths[0].stat().st_mtime_ns == written
    assert again.paths[1].read_bytes() == b"{}\n"
    assert server.count("/corpus.zip") == 1
    assert fetcher.notes == []


@pytest.mark.parametrize("damaged", [BODY[:-1], BODY.replace(b"w7,7", b"w7,8")])
def test_a_damaged_member_is_unpacked_again(tmp_path: Path, damaged: bytes) -> None:
    url = "https://example.org/corpus.zip"
    archive = packed(("words.csv", BODY))
    put(tmp_path, url, archive)
    words = source(pinned(url, archive, "words.csv"))
    result = Fetcher(tmp_path, offline=True).get(words)
    result.path.write_bytes(damaged)
    assert Fetcher(tmp_path, offline=True).get(words).path.read_bytes() == BODY


def test_a_cached_archive_of_two_sources_is_noted_once(tmp_path: Path) -> None:
    url = "https://example.org/corpus.zip"
    archive = packed(("a.csv", b"a"), ("b.csv", b"b"))
    put(tmp_path, url, archive)
    fetcher = Fetcher(tmp_path, offline=True)
    for member in ("a.csv", "b.csv"):
        fetcher.get(source(pinned(url, archive, member)))
    assert fetcher.from_cache == ["example.org/corpus.zip"]


def test_an_archive_in_the_mirror_is_unpacked_into_the_cache(tmp_path: Path) -> None:
    url = "https://example.org/corpus.zip"
    archive = packed(("words.csv", BODY))
    kept = put(tmp_path / "mirror", url, archive)
    fetcher = Fetcher(tmp_path / "cache", mirror=tmp_path / "mirror", offline=True)
    result = fetcher.get(source(pinned(url, archive, "words.csv")))
    assert files(tmp_path) == [result.path, result.path.with_name("words.csv.sha256"), kept]
    assert result.path == tmp_path / "cache" / "example.org" / "corpus.zip.members" / "words.csv"


def same_crc(content: bytes) -> bytes:
    """Other bytes of the same length and CRC-32: for one length, the CRC of a difference is linear in its bits."""
    zero = bytes(len(content))
    basis: dict[int, tuple[int, int]] = {}
    for place in range(40):
        difference = 1 << place
        crc = zlib.crc32(difference.to_bytes(len(content), "little")) ^ zlib.crc32(zero)
        while crc and (known := basis.get(crc.bit_length())):
            crc, difference = crc ^ known[0], difference ^ known[1]
        if not crc:
            return (int.from_bytes(content, "little") ^ difference).to_bytes(len(content), "little")
        basis[crc.bit_length()] = crc, difference
    raise AssertionError("40 bits have a combination without CRC")


@pytest.mark.fault(70)
def test_a_member_replaced_by_one_of_the_same_size_and_crc_is_unpacked_again(tmp_path: Path) -> None:
    url = "https://example.org/corpus.zip"
    archive = packed(("words.csv", BODY))
    put(tmp_path, url, archive)
    words = source(pinned(url, archive, "words.csv"))
    path = Fetcher(tmp_path, offline=True).get(words).path
    forged = same_crc(BODY)
    assert forged != BODY
    assert zlib.crc32(forged) == zlib.crc32(BODY)
    path.write_bytes(forged)
    assert Fetcher(tmp_path, offline=True).get(words).path.read_bytes() == BODY
    path.with_name("words.csv.sha256").unlink()  # as an earlier version left the cache
    path.write_bytes(forged)
    assert Fetcher(tmp_path, offline=True).get(words).path.read_bytes() == BODY


@pytest.mark.fault(14)
@pytest.mark.parametrize(
    ("entry", "shown", "why"),
    [
        ("../../etc/passwd", "../../etc/passwd", "a path out of its folder"),
        ("a/../../x", "a/../../x", "a path out of its folder"),
        ("..\\..\\x", "..\\..\\x", "a path out of its folder"),
        ("/etc/passwd", "/etc/passwd", "an absolute path"),
        ("\\\\host\\x", "\\\\host\\x", "an absolute path"),
        ("C:\\x", "C:\\x", "an absolute path"),
        ("c:x", "c:x", "an absolute path"),
        (link("words-link"), "words-link", "a symbolic link"),
    ],
)
def test_an_archive_that_reaches_outside_is_refused_by_name(
    tmp_path: Path, entry: str | zipfile.ZipInfo, shown: str, why: str
) -> None:
    url = "https://example.org/corpus.zip"
    archive = packed(("words.csv", BODY), (entry, b"/etc/passwd"))
    kept = put(tmp_path / "a" / "b", url, archive)
    words = source(pinned(url, archive, "words.csv"))
    with pytest.raises(BuildError) as stopped:
        Fetcher(tmp_path / "a" / "b", offline=True).get(words)
    assert str(stopped.value) == f"The archive {kept} has {shown!r}, {why}; nothing was unpacked."
    assert files(tmp_path) == [kept]


def test_an_archive_without_the_member_is_refused(tmp_path: Path) -> None:
    url = "https://example.org/corpus.zip"
    archive = packed(("words.csv", BODY))
    kept = put(tmp_path, url, archive)
    with pytest.raises(BuildError, match=rf"{kept}.*'absent\.csv'"):
        Fetcher(tmp_path, offline=True).get(source(pinned(url, archive, "absent.csv")))


def test_a_member_of_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    url = "https://example.org/corpus.zip"
    kept = put(tmp_path, url, BODY)
    with pytest.raises(BuildError, match=f"{kept}"):
        Fetcher(tmp_path, offline=True).get(source(pinned(url, BODY, "words.csv")))


#: Sources that a config is built from; the others only say under which licence copies of the same bytes lie.
BUILT_FROM = sorted({name for d in datasets.names() for config in datasets.get(d).configs for name in config.sources})


@pytest.mark.mirror
@pytest.mark.parametrize("name", BUILT_FROM)
def test_every_source_resolves_from_the_mirror(name: str, tmp_path: Path) -> None:
    expected = helpers.mirrored(name)[name]
    result = Fetcher(tmp_path, mirror=helpers.mirror(), offline=True).get(catalogue().sources[name])
    assert [path.resolve() for path in result.paths] == [path.resolve() for path in expected.paths]
    later = {"bbq/gender", "snli/train", "snli/validation", "snli/test", "stereoset/test"}
    assert result.alternative == (1 if name in later else 0)
    assert files(tmp_path) == []


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("name", "pairs", "lacks"),
    [
        ("snli/train", 18_000, "all but 18000 of the 550152 pairs"),
        ("snli/validation", 10_000 - 158, "158 of 10000"),
        ("snli/test", 10_000 - 176, "176 of 10000"),
    ],
)
def test_what_an_alternative_lacks_is_counted(name: str, pairs: int, lacks: str) -> None:
    fetched = helpers.mirrored(name)[name]
    lines = fetched.path.read_text("utf-8").removesuffix("\n").split("\n")
    header = lines[0] == "premise\thypothesis\tlabel"
    assert len(lines) - header == pairs
    assert lacks in fetched.used.lacks


# What tests need


def test_the_tool_downloads_what_tests_need_and_says_what_is_not_available(server, tmp_path, monkeypatch, capsys):
    url, gone = server.serve("/words.csv", Answer()), server.serve("/gone.csv", Answer(status=404))
    monkeypatch.setattr(fetch_sources, "wanted", lambda: iter([source(pinned(gone), name="gone"), source(pinned(url))]))
    assert fetch_sources.main(tmp_path) == 2
    assert (tmp_path / mirror_path(url)).read_bytes() == BODY
    assert capsys.readouterr().err.startswith(f"error: gone is not available: {gone} answered 404 Not Found; try again")
    server.serve("/gone.csv", Answer())
    assert fetch_sources.main(tmp_path) == 0
    assert server.count("/words.csv") == 1


@pytest.mark.mirror
def test_further_files_of_tests_are_as_pinned(tmp_path):
    fetcher, further = Fetcher(tmp_path, mirror=helpers.mirror(), offline=True), set(fetch_sources.wanted())
    further -= set(catalogue().sources.values())
    n_equal = 0
    for each in further:
        if not each.name.startswith("https://"):
            continue
        path = helpers.mirror() / mirror_path(each.name)
        # A mirror of the sources of data sets need not have the schemas of a format.
        if path.is_file() or "/schemas/" not in each.name:
            assert fetcher.get(each).path == path
            n_equal += 1
    assert n_equal > 20
