"""Publishes built data sets on the Hub: ``python -m builders.push DIR --org ORG``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from builders.dataset import BuildError
from builders.manifest import NAME, file_sha256
from builders.publish.publication import Publication, publication
from cards.command import start
from cards.hub import failures, refusal, sending
from cards.text import CardError

#: The Hub's own file for large files, which it makes with the repository.
ATTRIBUTES = ".gitattributes"


@dataclass(frozen=True, slots=True)
class Change:
    """What publishing would do to a file: add, change, remove, or keep."""

    path: str
    what: str


class Repository:
    """A data-set repository of the Hub, through the Hub's own client."""

    def __init__(self, name: str, api: Any) -> None:
        self.name = name
        self.api = api
        self._which = {"repo_id": name, "repo_type": "dataset"}

    @property
    def exists(self) -> bool:
        """Whether it is there, for whoever is logged in."""
        return bool(self.api.repo_exists(**self._which))

    def files(self, revision: str = "main") -> dict[str, str]:
        """Digest by path: SHA-256 of large files, git blob of others; nothing where there is no such revision."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.hf_api import RepoFile

        try:
            tree = list(self.api.list_repo_tree(recursive=True, revision=revision, **self._which))
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return {}
        return {
            each.path: each.lfs.sha256 if each.lfs else each.blob_id
            for each in tree
            if isinstance(each, RepoFile) and each.path != ATTRIBUTES
        }

    def tags(self) -> set[str]:
        """The names of its tags."""
        return {tag.name for tag in self.api.list_repo_refs(**self._which).tags} if self.exists else set()

    def publish(self, made: Publication, changes: list[Change], *, private: bool) -> str:
        """Makes the repository where it is not there, commits all changes at once and tags them; its address.

        The commit goes on top of what was there when it began, or the Hub refuses it, so of two who publish
        at once one is refused. The tag comes last: a version that has it is whole.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        self.api.create_repo(**self._which, exist_ok=True, private=private)
        operations: list[Any] = [
            CommitOperationAdd(each.path, made.files[each.path]) for each in changes if each.what in ("add", "change")
        ]
        operations += [CommitOperationDelete(each.path) for each in changes if each.what == "remove"]
        parent = self.api.repo_info(**self._which).sha
        if operations:
            message = f"Version {made.version}"
            with sending():
                done = self.api.create_commit(
                    operations=operations, commit_message=message, parent_commit=parent, **self._which
                )
            parent = done.oid
        self.api.create_tag(tag=made.tag, revision=parent, **self._which)
        return f"{self.api.endpoint}/datasets/{self.name}"


def changes(files: Mapping[str, bytes | Path], there: Mapping[str, str]) -> list[Change]:
    """What publishing files would do to a repository that has others, by their digests.

    >>> changes({"a": b"1", "b": b"2"}, {"b": "x", "c": "y"})
    [Change(path='a', what='add'), Change(path='b', what='change'), Change(path='c', what='remove')]
    """
    found = []
    for path, content in files.items():
        same = there.get(path) in digests(content)
        found.append(Change(path, "keep" if same else "change" if path in there else "add"))
    return found + [Change(path, "remove") for path in sorted(there.keys() - files.keys())]


def digests(content: bytes | Path) -> tuple[str, str]:
    """The digests that the Hub may know a file by: as a git blob, and the SHA-256 of its bytes.

    >>> digests(b"hello")[0]
    'b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0'
    """
    if isinstance(content, bytes):
        return _blob(content), hashlib.sha256(content).hexdigest()
    return _blob(content.read_bytes()), file_sha256(content)


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def push(made: Publication, repository: Repository, console: Console, *, dry_run: bool, private: bool) -> None:
    """Shows what would change, and does it unless it is a dry run.

    Raises
    ------
    BuildError
        When the version's tag is there with other content.
    """
    for line in told(made):
        console.print(line, markup=False, highlight=False)
    if not made.files:
        return
    if made.tag in repository.tags():
        differing = [each for each in changes(made.files, repository.files(made.tag)) if each.what != "keep"]
        if differing:
            raise BuildError(
                f"{made.repository} has the tag {made.tag} with other content ({differing[0].what} {differing[0].path}"
                f"{' and more' * (len(differing) > 1)}); give the data set a new version."
            )
        console.print(f"{made.repository} {made.tag} is there already, with the same content.", highlight=False)
        return
    found = changes(made.files, repository.files())
    for each in found:
        if each.what != "keep":
            console.print(f"  {each.what:6} {each.path}", markup=False, highlight=False)
    kept = sum(each.what == "keep" for each in found)
    console.print(f"  {kept} of {len(made.files)} files are there already; then the tag {made.tag}.", highlight=False)
    if dry_run:
        console.print("Nothing was sent (--dry-run).")
        return
    console.print(f"Published: {repository.publish(made, found, private=private)}", markup=False, highlight=False)


def told(made: Publication) -> Iterator[str]:
    """What is published, and what is not and why."""
    yield f"{made.repository} {made.version}" if made.files else f"{made.repository}: nothing of it may be published."
    for config, reason in made.withheld.items():
        yield f"  withheld {config}: {reason}"


def folders(out: Path, names: list[str]) -> list[Path]:
    """The data-set folders to publish: the named ones, or all below a folder, or the folder itself.

    Raises
    ------
    BuildError
        When there is none.
    """
    if names:
        return [out / name for name in names]
    found = [out] if (out / NAME).is_file() else sorted(path.parent for path in out.glob(f"*/{NAME}"))
    if not found:
        raise BuildError(f"{out} has no built data set; run python -m builders.rebuild --out {out} first.")
    return found


def main(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that builders.rebuild has written.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Data sets; all by default.")] = None,
    org: Annotated[str, typer.Option(help="Organisation or user of the Hub.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make new repositories private.")] = False,
    restricted: Annotated[
        bool,
        typer.Option(
            "--restricted", help="Publish also what only its source may redistribute, if you have the right to."
        ),
    ] = False,
) -> None:
    """Publish built data sets under their version as a tag; what may not be redistributed is left out and named.

    The token comes from the environment (HF_TOKEN) or the Hub client's login. Exit status: 1 when a folder
    is not whole or a version is there with other content, 2 when the Hub cannot be reached or refuses.
    """
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    from huggingface_hub import HfApi

    if not org:
        raise typer.BadParameter("Name the organisation or user of the Hub with --org.")
    api = HfApi()
    try:
        made = [publication(each, org, api.endpoint, restricted=restricted) for each in folders(out, names or [])]
        for each in made:
            push(each, Repository(each.repository, api), console, dry_run=dry_run, private=private)
    except (BuildError, CardError) as error:
        errors.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(1) from None
    except failures() as error:
        errors.print(f"error: {refusal(error)}", markup=False, highlight=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        errors.print("Interrupted; what was committed stays, and the same command goes on.")
        raise typer.Exit(130) from None


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m builders.push")
