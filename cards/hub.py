"""Access to the Hub: read the repository of a model or data set, open pull requests, and explain errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cards.text import CardError


class Model:
    """The files of a model: a folder, or a repository of the Hub at the commit that was its head at the start."""

    def __init__(self, name: str, api: Any) -> None:
        self.name = name
        self.api = api
        self.folder = _folder(name)
        self.head = "" if self.folder else self._head()

    def _head(self) -> str:
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

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
        return self.folder.resolve().name if self.folder else self.name.rpartition("/")[2]

    @property
    def page(self) -> str | None:
        """The address on the Hub; None for a folder."""
        return None if self.folder else f"{self.api.endpoint}/{self.name}"

    def text(self, path: str) -> str | None:
        """The text of a file; None when it does not exist.

        Raises
        ------
        CardError
            When the file is not UTF-8 text.
        """
        from huggingface_hub.errors import EntryNotFoundError

        try:
            file = self.folder / path if self.folder else self.api.hf_hub_download(self.name, path, revision=self.head)
            return Path(file).read_bytes().decode("utf-8")
        except (EntryNotFoundError, FileNotFoundError):
            return None
        except UnicodeDecodeError:
            raise CardError(f"{path} of {self.name} is not UTF-8 text; correct it first.") from None

    def propose(self, files: Mapping[str, bytes], title: str, description: str) -> str:
        """Opens a pull request that adds or changes files; returns its address. The main branch is not changed."""
        from huggingface_hub import CommitOperationAdd

        with sending():
            commit = self.api.create_commit(
                self.name,
                operations=[CommitOperationAdd(path, content) for path, content in files.items()],
                commit_message=title,
                commit_description=description,
                create_pr=True,
                parent_commit=self.head,
            )
        return str(commit.pr_url)


def _folder(name: str) -> Path | None:
    """The folder with this name; None when there is none, or the name is not a valid path."""
    try:
        return Path(name) if Path(name).is_dir() else None
    except (OSError, ValueError):
        return None


def difference(path: str, current: str | None, content: bytes) -> Iterator[str]:
    r"""The unified diff of a file and its new content; ``current`` is None for a new file.

    >>> list(difference("a", "1\n", b"2\n"))
    ['--- a', '+++ a', '@@ -1 +1 @@', '-1', '+2']
    """
    old, new = (current or "").splitlines(), content.decode("utf-8").splitlines()
    return difflib.unified_diff(old, new, path if current is not None else "nothing", path, lineterm="")


def manifest(api: Any, organisation: str, dataset: str, version: str, folder: Path | None = None) -> str:
    """The text of the ``manifest.json`` of a published data set, or of one in a folder of built data sets.

    Parameters
    ----------
    version:
        ``1.2.3``, or a revision of the repository.

    Raises
    ------
    CardError
        When there is no such data set or version.
    """
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name, revision = f"{organisation}/{dataset}", f"v{version}" if version[:1].isdigit() else version
    try:
        if folder:
            return (folder / dataset / "manifest.json").read_text(encoding="utf-8")
        path = api.hf_hub_download(name, "manifest.json", repo_type="dataset", revision=revision)
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CardError(
            f"{folder} has no data set {dataset}; give the folder of the data sets that the run used."
        ) from None
    except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError, HFValidationError):
        raise CardError(
            f"The Hub has no data set {name} at {revision}; publish it with python -m builders.push, or name another "
            "organisation with --org."
        ) from None


def failures() -> tuple[type[BaseException], ...]:
    """The errors of the Hub's client when the Hub refuses, cannot be reached, or a connection breaks.

    They are derived from errors of the client's HTTP library, which differs between releases of the client.
    When a connection breaks, the client raises errors of that library itself.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (*HfHubHTTPError.__bases__, OSError)


@contextmanager
def sending() -> Iterator[None]:
    """Raises the original error of a failed upload, which the client wraps in a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, failures()):
            raise error.__cause__ from None
        raise


def refusal(error: BaseException) -> str:
    """The refusal of the Hub in one sentence, without anything that was sent to it."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            f"The Hub refuses this ({status}); log in with `hf auth login` or set HF_TOKEN to a token that may write."
        )
    if status:
        return f"The Hub answers {status} ({type(error).__name__}); try again later."
    return f"The Hub cannot be reached ({type(error).__name__}); check the network and try again."
