"""The repository of a model, on the Hub or in a folder, as far as cards need it: to read, and to propose changes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cards.text import CardError


class Model:
    """The files of a model: of a repository of the Hub, as they were when it was first asked, or of a folder."""

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
                f"{self.name} is no folder, and no model of the Hub that you may see; make the repository first, or "
                "log in with `hf auth login`."
            ) from None

    @property
    def title(self) -> str:
        """Its name without the organisation, or the folders above."""
        return self.folder.resolve().name if self.folder else self.name.rpartition("/")[2]

    @property
    def page(self) -> str | None:
        """Its address on the Hub; a folder has none."""
        return None if self.folder else f"{self.api.endpoint}/{self.name}"

    def text(self, path: str) -> str | None:
        """The text of a file; None where there is none."""
        from huggingface_hub.errors import EntryNotFoundError

        try:
            file = self.folder / path if self.folder else self.api.hf_hub_download(self.name, path, revision=self.head)
            return Path(file).read_bytes().decode("utf-8")
        except (EntryNotFoundError, FileNotFoundError):
            return None
        except UnicodeDecodeError:
            raise CardError(f"{path} of {self.name} is not UTF-8 text; mend it first.") from None

    def propose(self, files: Mapping[str, bytes], title: str, description: str) -> str:
        """Opens a pull request that adds or changes files, and changes nothing itself; its address."""
        from huggingface_hub import CommitOperationAdd

        with sending():
            made = self.api.create_commit(
                self.name,
                operations=[CommitOperationAdd(path, content) for path, content in files.items()],
                commit_message=title,
                commit_description=description,
                create_pr=True,
                parent_commit=self.head,
            )
        return str(made.pr_url)


def _folder(name: str) -> Path | None:
    """The folder of this name; None for a name that no folder has or can have."""
    try:
        return Path(name) if Path(name).is_dir() else None
    except (OSError, ValueError):
        return None


def difference(path: str, there: str | None, content: bytes) -> Iterator[str]:
    r"""What would change in a file, line by line.

    >>> list(difference("a", "1\n", b"2\n"))
    ['--- a', '+++ a', '@@ -1 +1 @@', '-1', '+2']
    """
    old, new = (there or "").splitlines(), content.decode("utf-8").splitlines()
    return difflib.unified_diff(old, new, path if there is not None else "nothing", path, lineterm="")


def manifest(api: Any, organisation: str, dataset: str, version: str, folder: Path | None = None) -> str:
    """The text of the ``manifest.json`` of a published data set, or of one in a folder of built data sets.

    Parameters
    ----------
    version:
        ``1.2.3``, or a revision of the repository.

    Raises
    ------
    CardError
        When there is none.
    """
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError
    from huggingface_hub.errors import RevisionNotFoundError as NoRevision

    name, revision = f"{organisation}/{dataset}", f"v{version}" if version[:1].isdigit() else version
    try:
        if folder:
            return (folder / dataset / "manifest.json").read_text(encoding="utf-8")
        found = api.hf_hub_download(name, "manifest.json", repo_type="dataset", revision=revision)
        return Path(found).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CardError(f"{folder} has no data set {dataset}; give the folder that the run has read.") from None
    except (RepositoryNotFoundError, NoRevision, EntryNotFoundError, HFValidationError):
        raise CardError(
            f"The Hub has no data set {name} at {revision}; publish it with python -m builders.push, or name another "
            "organisation with --org."
        ) from None


def failures() -> tuple[type[BaseException], ...]:
    """What the Hub's client raises when the Hub refuses or cannot be reached, or a connection breaks.

    The client gives its own errors the base of its HTTP library, which is another one from release to
    release, and raises that library's errors where a connection breaks.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (*HfHubHTTPError.__bases__, OSError)


@contextmanager
def sending() -> Iterator[None]:
    """Raises what breaks while a large file is sent as the failure it is, which the client hides in another error."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, failures()):
            raise error.__cause__ from None
        raise


def refusal(error: BaseException) -> str:
    """What the Hub said, in one sentence, without what was sent to it."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            f"The Hub refuses this ({status}); log in with `hf auth login` or set HF_TOKEN to a token that may write "
            "there."
        )
    if status:
        return f"The Hub answers {status} ({type(error).__name__}); try again later."
    return f"The Hub cannot be reached ({type(error).__name__}); check the network and try again."
