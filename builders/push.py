"""Publishes built data sets on the Hub: ``probes push DIR --org ORG``."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from builders.dataset import BuildError
from builders.files.manifest import NAME, file_sha256
from builders.publish.publication import Publication, make_publication
from cards.common.options import single, start
from cards.common.text import CardError
from cards.dataset_card import BENCHMARK
from cards.hub import HubRefusal, explained, failures, refusal, sending, unreachable

#: The Hub's own file for large files, which it creates with the repository.
ATTRIBUTES = ".gitattributes"
# The name of an organisation or a user of the Hub.
_ORGANISATION = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The change of a file: ``action`` is add, change or remove."""

    path: str
    action: str


class Repository:
    """A data-set repository of the Hub; ``api`` is a ``huggingface_hub.HfApi``."""

    def __init__(self, name: str, api: Any) -> None:
        self.name = name
        self.api = api
        self.arguments = {"repo_id": name, "repo_type": "dataset"}

    def files(self, revision: str = "main") -> dict[str, str]:
        """The digest of each file: SHA-256 of large files, git blob of others; empty without such a revision."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.hf_api import RepoFile

        try:
            tree = list(self.api.list_repo_tree(recursive=True, revision=revision, **self.arguments))
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return {}
        published = {}
        for entry in tree:
            # The tree has folders too.
            if isinstance(entry, RepoFile) and entry.path != ATTRIBUTES:
                published[entry.path] = entry.lfs.sha256 if entry.lfs else entry.blob_id
        return published

    def tags(self) -> set[str]:
        """The names of its tags; empty without such a repository."""
        if not self.api.repo_exists(**self.arguments):
            return set()
        return {tag.name for tag in self.api.list_repo_refs(**self.arguments).tags}

    def commit(self, files: Mapping[str, bytes | Path], changes: list[ConfigChange], message: str) -> str:
        """Commits changes at once; returns the revision.

        The commit has the revision from before as its parent, so the Hub refuses one of two simultaneous commits.
        Without changes the revision is that from before.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[CommitOperationAdd | CommitOperationDelete] = []
        for change in changes:
            if change.path in files:
                operations.append(CommitOperationAdd(change.path, files[change.path]))
            else:
                operations.append(CommitOperationDelete(change.path))
        # Read before the commit, so that a commit of somebody else in between is refused.
        revision = str(self.api.repo_info(**self.arguments).sha)
        if not operations:
            return revision
        with sending():
            commit = self.api.create_commit(
                operations=operations, commit_message=message, parent_commit=revision, **self.arguments
            )
        return str(commit.oid)


def changes(files: Mapping[str, bytes | Path], published: Mapping[str, str]) -> list[ConfigChange]:
    """The changes from the published files, given by their digests, to new files.

    >>> [change.action for change in changes({"a": b"1", "b": b"2"}, {"b": "x", "c": "y"})]
    ['add', 'change', 'remove']
    """
    result = []
    for path, content in files.items():
        # The Hub gives SHA-256 of large files and git blobs of small ones; either shows an equal file.
        if published.get(path) not in digests(content):
            result.append(ConfigChange(path, "change" if path in published else "add"))
    for path in sorted(published.keys() - files.keys()):
        result.append(ConfigChange(path, "remove"))
    return result


def digests(content: bytes | Path) -> tuple[str, str]:
    """The two digests that the Hub uses for files: the git blob id, and the SHA-256 of the bytes.

    >>> digests(b"hello")[0]
    'b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0'
    """
    if isinstance(content, bytes):
        return _git_blob(content), hashlib.sha256(content).hexdigest()
    return _git_blob(content.read_bytes()), file_sha256(content)


def _git_blob(content: bytes) -> str:
    # Git hashes the length with the content.
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class BenchmarkRefused(Exception):
    """The data are published, but the Hub refused ``eval.yaml``; the message has its reason."""


def show(publication: Publication, console: Console) -> None:
    """Prints the repository, the version, and a line for each config: published, or withheld with the reason."""
    if publication.files:
        console.print(f"{publication.repository} {publication.version}")
    else:
        console.print(f"{publication.repository}: nothing of it may be published.")
    for state in publication.states:
        console.print(f"  {state}")


def push(
    publication: Publication, repository: Repository, console: Console, *, dry_run: bool, private: bool, benchmark: bool
) -> None:
    """Prints the changes and, unless it is a dry run, publishes them.

    The data, the card and the licences are one commit. Then the version is tagged, so a tagged version is complete.
    ``eval.yaml`` has a commit of its own at the end. Each step is left out if it has been done, so a push that broke
    off can be repeated.

    Raises
    ------
    BuildError
        When the tag of the version exists with other content.
    BenchmarkRefused
        When the Hub refuses ``eval.yaml``. The data are published then.
    """
    name, tag, api = publication.repository, publication.tag, repository.api
    evaluation = {BENCHMARK: publication.benchmark} if benchmark and publication.benchmark else {}
    is_tagged = tag in repository.tags()
    tree = repository.files()
    current = {path: digest for path, digest in tree.items() if path != BENCHMARK}
    if is_tagged:
        # A version that is tagged never changes; eval.yaml is sent after the tag and is not part of it.
        at_tag = {path: digest for path, digest in repository.files(tag).items() if path != BENCHMARK}
        differing = changes(publication.files, at_tag)
        if differing:
            more = " and more" if len(differing) > 1 else ""
            raise BuildError(
                f"{name} has the tag {tag} with other content ({differing[0].action} {differing[0].path}{more}); "
                "give the data set a new version."
            )
        console.print(f"{name} {tag} exists already, with the same content.")
        planned = []
    else:
        planned = changes(publication.files, current)
    # Without an eval.yaml to send, a published one stays.
    published = {}
    if evaluation and BENCHMARK in tree:
        published[BENCHMARK] = tree[BENCHMARK]
    of_benchmark = changes(evaluation, published)
    for change in planned + of_benchmark:
        console.print(f"  {change.action:6} {change.path}")
    if not is_tagged:
        unchanged = len(publication.files) - sum(change.action != "remove" for change in planned)
        console.print(f"  {unchanged} of {len(publication.files)} files are unchanged; then the tag {tag}.")
    if dry_run:
        console.print("Nothing was sent (--dry-run).")
        return
    if not is_tagged:
        # A repository that exists keeps its visibility.
        api.create_repo(**repository.arguments, exist_ok=True, private=private)
        revision = repository.commit(publication.files, planned, f"Version {publication.version}")
        api.create_tag(tag=tag, revision=revision, **repository.arguments)
        console.print(f"Published: {api.endpoint}/datasets/{name}")
    # After the version and its tag: if the Hub refuses the benchmark, the data are published all the same.
    if of_benchmark:
        try:
            repository.commit(evaluation, of_benchmark, "Describe the benchmark")
        except (HubRefusal, *failures()) as error:  # type: ignore[misc]  # a tuple of classes
            raise BenchmarkRefused(
                f"{name} {tag} is published, but not its {BENCHMARK}: {refusal(error)} The same command sends it "
                "again, and --no-benchmark leaves it out."
            ) from None


def folders(out: Path, names: list[str]) -> list[Path]:
    """The data-set folders to publish: the named ones, else all in a folder, else the folder itself.

    Raises
    ------
    BuildError
        When there is none.
    """
    if names:
        return [out / name for name in names]
    if (out / NAME).is_file():
        return [out]
    built = sorted(path.parent for path in out.glob(f"*/{NAME}"))
    if not built:
        raise BuildError(f"{out} has no built data set; run probes build --out {out} first.")
    return built


def main(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that probes build has written.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Data sets; all by default.")] = None,
    org: Annotated[str, typer.Option(help="Organisation or user of the Hub.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the changes.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Create new repositories as private.")] = False,
    restricted: Annotated[
        bool, typer.Option("--restricted", help="Publish also text that licences forbid, if you have the right to.")
    ] = False,
    benchmark: Annotated[
        bool, typer.Option("--benchmark/--no-benchmark", help="Make each data set a benchmark of the Hub (eval.yaml).")
    ] = True,
) -> None:
    """Publish built data sets with their version as a tag, as far as licences allow.

    --dry-run needs no network, but without one it does not compare with the Hub. The token comes from the environment
    (HF_TOKEN) or the Hub client's login. Exit status: 1 when a folder is not complete or a version exists with other
    content, 2 when the Hub cannot be reached or refuses.
    """
    console = Console(markup=False, highlight=False, soft_wrap=True)
    errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    from huggingface_hub import HfApi

    if not _ORGANISATION.fullmatch(org):
        raise typer.BadParameter(f"--org is {org!r}; name one organisation or user of the Hub, such as my-team.")
    api = HfApi()
    refused = False
    with explained(errors, BuildError, CardError):
        publications = [
            make_publication(folder, org, api.endpoint, restricted=restricted) for folder in folders(out, names or [])
        ]
        # Without a network a dry run still shows what would be published, but not what would change.
        reason = unreachable(api)
        if reason and not dry_run:
            raise HubRefusal(reason)
        for publication in publications:
            show(publication, console)
            if not publication.files or reason:
                continue
            repository = Repository(publication.repository, api)
            try:
                push(publication, repository, console, dry_run=dry_run, private=private, benchmark=benchmark)
            # The other data sets are still published; the exit status says at the end that one was refused.
            except BenchmarkRefused as error:
                refused = True
                errors.print(f"error: {error}")
        if reason:
            console.print(f"{reason} So this shows no changes there.")
            console.print("Nothing was sent (--dry-run).")
    if refused:
        raise typer.Exit(2)


app = single(main)

if __name__ == "__main__":
    start(app, "python -m builders.push")
