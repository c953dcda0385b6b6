"""Access to the Hub: read the repository of a model or data set, open pull requests, and explain errors.

A run is added to the card of a model only if it is of that model, by the digest of its files.
"""

import hashlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rich.console import Console

from cards.common.files import file_sha256
from cards.common.options import ended
from cards.common.text import CardError, secrets
from cards.results import Report

#: Seconds until a Hub that does not answer counts as not reachable.
PATIENCE = 4.0
#: What to do by the first status of the Hub that matches.
_ADVICE = (
    ((401, 403), "log in with `hf auth login` or set HF_TOKEN to a token that may write"),
    ((409, 412), "it has been changed at the same time or exists already; run the same command again"),
    ((413,), "it takes less at once; publish smaller files or ask for more room"),
    ((429,), "it has had too many requests; wait some minutes and run the same command again"),
    (range(400, 500), "correct what it names and run the same command again"),
    (range(500, 600), "run the same command again later"),
)


#: Configuration, tokenizer and weights of a model, in this order.
PATTERNS = ("*.json", "*.txt", "*.model", "*.py", "*.safetensors", "*.bin", "*.pt", "*.pth", "*.codes", "*.vocab",
            "*.bpe", "*.spm", "*.tiktoken")  # fmt: skip
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")


class HubRefusal(Exception):
    """The Hub cannot be reached or refuses. The message is one sentence for the user."""

    exit_code = 2


class HubModel:
    """The files of a model: a folder, or a repository of the Hub at the commit that was its head at the start.

    Parameters
    ----------
    offline:
        Ask nothing of the Hub: a repository there has no files then.
    """

    def __init__(self, name: str, api: Any, *, offline: bool = False) -> None:
        self.name = name
        self.api = api
        self.folder = _folder(name)
        self.offline = offline and not self.folder
        self.head = ""
        if not self.folder and not self.offline:
            self.head = self._head()

    def _head(self) -> str:
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

        if reason := unreachable(self.api):
            raise HubRefusal(reason)
        try:
            return str(self.api.model_info(self.name).sha)
        except (RepositoryNotFoundError, HFValidationError):
            raise CardError(
                f"{self.name} is neither a folder nor a model of the Hub that you may read; create the repository "
                "first, or log in with `hf auth login`."
            ) from None

    @property
    def title(self) -> str:
        """The name without the organisation or the parent folders."""
        if self.folder:
            return self.folder.resolve().name
        return self.name.rpartition("/")[2]

    def text(self, path: str, revision: str = "") -> str | None:
        """The text of a file; None when it does not exist.

        Parameters
        ----------
        revision:
            A revision of the repository; by default the head at the start.

        Raises
        ------
        CardError
            When the file is not UTF-8 text.
        """
        try:
            data = self._bytes(path, revision)
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            raise CardError(f"{path} of {self.name} is not UTF-8 text; correct it first.") from None

    def propose(self, files: Mapping[str, bytes], title: str, description: str) -> tuple[str, bool]:
        """Opens a pull request that adds or changes files, or updates the open one of the same title and user.

        The main branch is not changed. Returns the address of the pull request, and whether anything was sent.
        """
        number = self._open_request(title)
        revision = f"refs/pr/{number}" if number else ""
        # Only what differs, so that a second run of the same command changes nothing and says so.
        changed = {path: data for path, data in files.items() if self._bytes(path, revision) != data}
        if not changed:
            return f"{self.api.endpoint}/{self.name}/discussions/{number}", False
        from huggingface_hub import CommitOperationAdd

        # A pull request is made on the head that was read; an open one is at its own revision.
        operations = [CommitOperationAdd(path, content) for path, content in changed.items()]
        target = {"revision": revision} if number else {"create_pr": True, "parent_commit": self.head}
        with sending():
            commit = self.api.create_commit(
                self.name, operations=operations, commit_message=title, commit_description=description, **target
            )
        address = commit.pr_url or f"{self.api.endpoint}/{self.name}/discussions/{number}"
        return str(address), True

    def _bytes(self, path: str, revision: str) -> bytes | None:
        file: Path | None
        if self.offline:
            return None
        if self.folder:
            file = self.folder / path
        else:
            file = downloaded(self.api, self.name, path, revision or self.head)
        if file is None or not file.is_file():
            return None
        return file.read_bytes()

    def _open_request(self, title: str) -> int | None:
        """The number of the open pull request of the user with a title."""
        user = self.api.whoami()["name"]
        requests = self.api.get_repo_discussions(
            self.name, author=user, discussion_type="pull_request", discussion_status="open"
        )
        for request in requests:
            if request.title == title:
                return int(request.num)
        return None


def _folder(name: str) -> Path | None:
    """The folder with this name; None when there is none, or the name is not a valid path."""
    try:
        # A name of the Hub may be too long for a path, or hold characters that none has.
        return Path(name) if Path(name).is_dir() else None
    except (OSError, ValueError):
        return None


def downloaded(api: Any, name: str, path: str, revision: str, kind: str = "model") -> Path | None:
    """A file of a repository in the cache of the client; None when the repository does not have it.

    Raises
    ------
    HubRefusal
        When the Hub cannot be reached. The client's error for that is also one for a missing file.
    """
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(api.hf_hub_download(name, path, revision=revision, repo_type=kind))
    except LocalEntryNotFoundError as error:
        raise HubRefusal(refusal(error.__cause__ or error)) from None
    except EntryNotFoundError:
        return None


def add_files(
    api: Any, name: str, files: Mapping[str, bytes], message: str, *, kind: str = "dataset", **new: Any
) -> str:
    """Adds or changes files of a repository in one commit; returns its address. Files that are the same are not sent.

    Parameters
    ----------
    new:
        Arguments for creating the repository, if there is none.
    """
    from huggingface_hub import CommitOperationAdd

    api.create_repo(name, repo_type=kind, exist_ok=True, **new)
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    with sending():
        api.create_commit(name, operations=operations, commit_message=message, repo_type=kind)
    # The pages of models are at the root of the Hub, those of data sets and Spaces below datasets/ and spaces/.
    folder = "" if kind == "model" else f"{kind}s/"
    return f"{api.endpoint}/{folder}{name}"


def manifest(api: Any, organisation: str, dataset: str, version: str, folder: Path | None = None) -> tuple[str, str]:
    """The text of the ``manifest.json`` of a published data set and its commit, or of one in a folder.

    The commit is empty for a folder.

    Parameters
    ----------
    version:
        ``1.2.3``, or a revision of the repository.

    Raises
    ------
    CardError
        When there is no such data set or version.
    """
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    if folder:
        file = folder / dataset / "manifest.json"
        if not file.is_file():
            raise CardError(f"{folder} has no data set {dataset}; give the folder of the data sets that the run used.")
        return file.read_text(encoding="utf-8"), ""
    name = f"{organisation}/{dataset}"
    # The tag of a version has a v before the number.
    revision = f"v{version}" if version[:1].isdigit() else version
    path = None
    # All three mean the same for the user: there is no such version of the data set.
    with suppress(RepositoryNotFoundError, RevisionNotFoundError, HFValidationError):
        commit = str(api.dataset_info(name, revision=revision).sha)
        path = downloaded(api, name, "manifest.json", commit, "dataset")
    if path is None:
        raise CardError(
            f"The Hub has no data set {name} at {revision}; publish it with probes push, or name another "
            "organisation with --org."
        )
    return path.read_text(encoding="utf-8"), commit


def failures() -> tuple[type[Exception], ...]:
    """The errors of the Hub's client when the Hub refuses, cannot be reached, or a connection breaks.

    They are derived from errors of the client's HTTP library, which differs between releases of the client.
    When a connection breaks, the client raises errors of that library itself.
    """
    from huggingface_hub.errors import HfHubHTTPError

    # The bases, because the client changed its HTTP library between releases and with it the class of errors.
    return (*HfHubHTTPError.__bases__, OSError)


@contextmanager
def sending() -> Iterator[None]:
    """Raises the original error of a failed upload, which the client wraps.

    Raises
    ------
    HubRefusal
        When the Hub refuses the metadata of a card, of which the client raises a ValueError.
    """
    try:
        yield
    except failures():
        raise
    except RuntimeError as error:
        if isinstance(error.__cause__, failures()):
            # The client wraps errors of uploads in parallel in a RuntimeError.
            raise error.__cause__ from None
        raise
    except ValueError as error:
        raise HubRefusal(f"The Hub refuses this (400: {_one_line(str(error))}); {_advice(400)}.") from None


@contextmanager
def explained(errors: Console, *mistakes: type[Exception]) -> Iterator[None]:
    """Ends a command with one sentence: status 1 for mistakes, 2 for refusals of the Hub, 130 when interrupted."""
    with ended(errors, *mistakes, HubRefusal, interrupted="what was sent stays, and the same command continues"):
        try:
            yield
        except failures() as error:
            # An error that names a file is of this machine's disk, not of the Hub.
            raise error if getattr(error, "filename", None) else HubRefusal(refusal(error)) from None


def refusal(error: BaseException) -> str:
    """The refusal of the Hub in one sentence with the Hub's own reason, without anything that was sent to it."""
    if isinstance(error, HubRefusal):
        return str(error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status:
        reason = _one_line(getattr(error, "server_message", None) or _reason_in_body(error) or "no reason given")
        return f"The Hub refuses this ({status}: {reason}); {_advice(status)}."
    if getattr(error, "filename", None):
        reason = getattr(error, "strerror", None) or type(error).__name__
        return f"{getattr(error, 'filename', '')} cannot be used ({reason}); name a file that can be read and written."
    return f"The Hub cannot be reached ({type(error).__name__}); check the network and run the same command again."


def _reason_in_body(error: Any) -> str:
    """The reason in the body of a response, which the client leaves out of some errors."""
    try:
        return str(error.response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return ""


def _advice(status: int) -> str:
    for statuses, advice in _ADVICE:
        if status in statuses:
            return advice
    return "run the same command again later"


def _one_line(text: str) -> str:
    """A message of the Hub in one line, with secrets hidden and no full stop at the end."""
    hidden = secrets(os.environ).sub("…", " ".join(text.split()))
    return hidden[:400].rstrip(". ")


def unreachable(api: Any) -> str:
    """Why the Hub cannot be reached, in one sentence; empty when it answers. Takes five seconds at most."""
    from huggingface_hub import get_session

    reasons = [f"The Hub did not answer within {PATIENCE:.0f} seconds; check the network and run the command again."]

    def ask() -> None:
        try:
            get_session().head(api.endpoint, timeout=PATIENCE)
            reasons[0] = ""
        except failures() as error:
            reasons[0] = refusal(error)

    # The client's timeout is not one for looking up the name and trying several addresses, so a thread is left alone.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return reasons[0]


def model_digest(model: HubModel, revision: str = "") -> str:
    """SHA-256 of configuration, tokenizer and weights, as ``scoring.inference.checkpoint.identity`` computes it.

    Of a repository, only small files are downloaded; the Hub knows the digest of large ones.
    """
    if model.folder:
        return files_digest(dict(folder_digests(model.folder)))
    return files_digest(dict(_repository_digests(model, revision)))


def files_digest(digests: Mapping[str, str]) -> str:
    """SHA-256 of configuration, tokenizer and weights, from the SHA-256 of each file."""
    total = hashlib.sha256()
    for pattern in PATTERNS:
        for name in sorted(digests):
            if fnmatch(name, pattern):
                # From the digests of the files, which the Hub has for large ones, so that no weights are downloaded.
                total.update(f"{name} {digests[name]}\n".encode())
    return total.hexdigest()


def folder_digests(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and SHA-256 of the files of a model in a folder."""
    for path in folder.iterdir():
        if any(fnmatch(path.name, pattern) for pattern in PATTERNS):
            yield path.name, file_sha256(path)


def _repository_digests(model: HubModel, revision: str) -> Iterator[tuple[str, str]]:
    from huggingface_hub.hf_api import RepoFile

    commit = revision or model.head
    for entry in model.api.list_repo_tree(model.name, revision=commit):
        if isinstance(entry, RepoFile) and any(fnmatch(entry.path, pattern) for pattern in PATTERNS):
            if entry.lfs:
                yield entry.path, entry.lfs.sha256
            elif file := downloaded(model.api, model.name, entry.path, commit):
                yield entry.path, file_sha256(file)


def check_model(run: Report, model: HubModel) -> None:
    """Refuses a run of another model than the one of a card.

    A run of a model with an adapter may be added to the card of either. A run of a repository must be of a commit
    with the same configuration and weights as the head; a run of a folder must have the same digest.

    Raises
    ------
    CardError
        When the run is of another model, or of other weights.
    """
    adapter, _, adapter_revision = run.adapter.partition("@")
    is_adapter = bool(adapter) and model.name == adapter
    revision = adapter_revision if is_adapter else run.revision
    scored = adapter if is_adapter else run.name
    is_commit = _COMMIT.fullmatch(revision) is not None
    if is_commit and model.name != scored:
        raise CardError(f"The run is of {scored}, not of {model.name}; score {model.name}, or name the other card.")
    if not is_commit and not _DIGEST.fullmatch(revision):
        raise CardError(f"The run does not say which revision of {scored} was scored; score the model again.")
    if is_commit and model.folder:
        raise CardError(f"The run is of the Hub's {scored}, not of the folder {model.name}; score the folder.")
    if is_commit and revision == model.head:
        return
    # Another commit may still have the same weights, such as after a change of the card alone.
    if (_digest_at(model, revision) if is_commit else revision) != model_digest(model):
        raise CardError(
            f"The run is of {scored} at {revision[:12]}, and {model.name} now has other configuration or weights; "
            "score it again."
        )


def _digest_at(model: HubModel, commit: str) -> str:
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return model_digest(model, commit)
    except RevisionNotFoundError:
        raise CardError(f"{model.name} has no commit {commit[:12]}, of which the run is; score it again.") from None
