"""A data-set repository on the Hub, and the changes that publishing a folder makes to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from builders.dataset import BuildError
from builders.manifest import file_sha256
from builders.publish.publication import Publication
from cards.hub import sending

#: The Hub's own file for large files, which it creates with the repository.
ATTRIBUTES = ".gitattributes"


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a file: ``action`` is add, change, remove, or keep."""

    path: str
    action: str


class Repository:
    """A data-set repository of the Hub; ``api`` is a ``huggingface_hub.HfApi``."""

    def __init__(self, name: str, api: Any) -> None:
        self.name = name
        self.api = api
        self._arguments = {"repo_id": name, "repo_type": "dataset"}

    @property
    def exists(self) -> bool:
        """Whether the user can see the repository."""
        return bool(self.api.repo_exists(**self._arguments))

    def files(self, revision: str = "main") -> dict[str, str]:
        """The digest of each file: SHA-256 of large files, git blob of others; empty without such a revision."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.hf_api import RepoFile

        try:
            tree = list(self.api.list_repo_tree(recursive=True, revision=revision, **self._arguments))
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return {}
        return {
            entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
            for entry in tree
            if isinstance(entry, RepoFile) and entry.path != ATTRIBUTES
        }

    def tags(self) -> set[str]:
        """The names of its tags."""
        return {tag.name for tag in self.api.list_repo_refs(**self._arguments).tags} if self.exists else set()

    def publish(self, publication: Publication, changes: list[Change], *, private: bool) -> str:
        """Creates the repository if needed, commits all changes at once and tags the commit; returns the address.

        The commit has the revision from before as its parent, so the Hub refuses one of two simultaneous commits.
        The tag is made last: a tagged version is complete.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        self.api.create_repo(**self._arguments, exist_ok=True, private=private)
        operations: list[Any] = [
            CommitOperationAdd(change.path, publication.files[change.path])
            for change in changes
            if change.action in ("add", "change")
        ]
        operations += [CommitOperationDelete(change.path) for change in changes if change.action == "remove"]
        revision = self.api.repo_info(**self._arguments).sha
        if operations:
            message = f"Version {publication.version}"
            with sending():
                commit = self.api.create_commit(
                    operations=operations, commit_message=message, parent_commit=revision, **self._arguments
                )
            revision = commit.oid
        self.api.create_tag(tag=publication.tag, revision=revision, **self._arguments)
        return f"{self.api.endpoint}/datasets/{self.name}"


def changes(files: Mapping[str, bytes | Path], published: Mapping[str, str]) -> list[Change]:
    """The changes from the published files, given by their digests, to new files.

    >>> changes({"a": b"1", "b": b"2"}, {"b": "x", "c": "y"})
    [Change(path='a', action='add'), Change(path='b', action='change'), Change(path='c', action='remove')]
    """
    result = []
    for path, content in files.items():
        is_same = published.get(path) in digests(content)
        result.append(Change(path, "keep" if is_same else "change" if path in published else "add"))
    return result + [Change(path, "remove") for path in sorted(published.keys() - files.keys())]


def digests(content: bytes | Path) -> tuple[str, str]:
    """The two digests that the Hub uses for files: the git blob id, and the SHA-256 of the bytes.

    >>> digests(b"hello")[0]
    'b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0'
    """
    if isinstance(content, bytes):
        return _git_blob(content), hashlib.sha256(content).hexdigest()
    return _git_blob(content.read_bytes()), file_sha256(content)


def _git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def push(publication: Publication, repository: Repository, console: Console, *, dry_run: bool, private: bool) -> None:
    """Prints the changes and, unless it is a dry run, publishes them.

    Raises
    ------
    BuildError
        When the tag of the version exists with other content.
    """
    for line in summary(publication):
        console.print(line)
    if not publication.files:
        return
    name, tag = publication.repository, publication.tag
    if tag in repository.tags():
        differing = [c for c in changes(publication.files, repository.files(tag)) if c.action != "keep"]
        if differing:
            raise BuildError(
                f"{name} has the tag {tag} with other content ({differing[0].action} {differing[0].path}"
                f"{' and more' * (len(differing) > 1)}); give the data set a new version."
            )
        console.print(f"{name} {tag} exists already, with the same content.")
        return
    planned = changes(publication.files, repository.files())
    for change in planned:
        if change.action != "keep":
            console.print(f"  {change.action:6} {change.path}")
    kept = sum(change.action == "keep" for change in planned)
    console.print(f"  {kept} of {len(publication.files)} files are unchanged; then the tag {tag}.")
    if dry_run:
        console.print("Nothing was sent (--dry-run).")
    else:
        console.print(f"Published: {repository.publish(publication, planned, private=private)}")


def summary(publication: Publication) -> Iterator[str]:
    """Lines with the repository, the version, and the configs that are withheld, with the reason."""
    if publication.files:
        yield f"{publication.repository} {publication.version}"
    else:
        yield f"{publication.repository}: nothing of it may be published."
    for config, reason in publication.withheld.items():
        yield f"  withheld {config}: {reason}"
