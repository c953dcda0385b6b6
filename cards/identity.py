"""Checks that a run is of the model whose card it is added to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from cards.files import file_sha256
from cards.hub import HubModel, downloaded
from cards.results import Report
from cards.text import CardError

#: Configuration, tokenizer and weights of a model, in this order.
PATTERNS = ("*.json", "*.txt", "*.model", "*.py", "*.safetensors", "*.bin", "*.pt", "*.pth")
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")


def model_digest(model: HubModel, revision: str = "") -> str:
    """SHA-256 of configuration, tokenizer and weights, as ``scoring.inference.checkpoint.identity`` computes it.

    Of a repository, only small files are downloaded; the Hub knows the digest of large ones.
    """
    return files_digest(dict(folder_digests(model.folder) if model.folder else _repository_digests(model, revision)))


def files_digest(digests: Mapping[str, str]) -> str:
    """SHA-256 of configuration, tokenizer and weights, from the SHA-256 of each file."""
    total = hashlib.sha256()
    for pattern in PATTERNS:
        for name in sorted(digests):
            if fnmatch(name, pattern):
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
