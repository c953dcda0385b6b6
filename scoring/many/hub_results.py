"""The results of several models in a data set of the Hub: ``--results hub:ORG/NAME``.

Each model has a folder there, as it has below ``--out``: results, pages and examples, without the stored responses. The
data set is private when it is made, because examples may have texts whose licence does not allow to publish them. A
model is sent when it is finished; machines that share no folder share the data set. Its card lists the runs.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cards import hub
from cards.common.files import RECORD, locked, put, put_all
from cards.common.text import CardError, refuse_secrets
from cards.formats.results_card import with_card
from scoring.report import is_run_file
from scoring.types import ScoringError

_PLACE = re.compile(r"hub:([\w.-]+/[\w.-]+)")


class NotKept(ScoringError):
    """The Hub cannot be reached or refuses."""

    exit_code = 2


def repository(place: str) -> str:
    """The name of the data set of a place.

    >>> repository("hub:team/sweep")
    'team/sweep'

    Raises
    ------
    ScoringError
        For what is no such place.
    """
    match = _PLACE.fullmatch(place)
    if not match:
        raise ScoringError(f"--results is {place!r}; give a data set of the Hub as hub:ORG/NAME.")
    return match[1]


def send(place: str, folder: Path, more: Mapping[str, bytes]) -> None:
    """Adds the files that a run wrote into its folder to the data set, with ``more``, in one commit.

    Raises
    ------
    NotKept
        When the Hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi

    names = [line.partition("  ")[2] for line in (folder / RECORD).read_text(encoding="utf-8").splitlines()]
    files = {name: (folder / name).read_bytes() for name in [*names, RECORD] if (folder / name).is_file()}
    placed = {f"{folder.name}/{name}": content for name, content in {**files, **more}.items()}
    name = repository(place)
    try:
        # Before anything is sent, because what the Hub has once is known.
        refuse_secrets(placed)
        api = HfApi()
        hub.add_files(api, name, with_card(api, name, placed), f"Add the results of {folder.name}", private=True)
    except (hub.HubRefusal, CardError) as error:
        raise NotKept(f"The results are in {folder} and not in {place}: {error}") from None
    except hub.failures() as error:
        raise NotKept(f"The results are in {folder} and not in {place}: {hub.refusal(error)}") from None


def fetch(place: str, folders: Iterable[Path], marker: str) -> list[Path]:
    """Adds the results of models that the data set has and these folders lack, and gives the folders that got them.

    Only files that a run writes are taken, and none replaces a file that this program did not write. ``marker`` is the
    file that a folder with finished results has. A data set that is not there yet has none.

    Raises
    ------
    NotKept
        When the Hub cannot be reached or refuses, or a folder has a file of the user under the name of one of a run.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    name = repository(place)
    api = HfApi()
    try:
        files = set(api.list_repo_files(name, repo_type="dataset"))
        # Results that are here may be newer than those of the Hub, so they are not replaced.
        lacking = [
            folder
            for folder in folders
            if f"{folder.name}/{marker}" in files and not (folder / "results.json").exists()
        ]
        if not lacking:
            return []
        wanted = [f"{glob.escape(folder.name)}/*" for folder in lacking]
        stored = Path(api.snapshot_download(name, repo_type="dataset", allow_patterns=wanted))
    except RepositoryNotFoundError:
        # The first call makes the data set.
        return []
    except hub.failures() as error:
        raise NotKept(f"{place} cannot be read: {hub.refusal(error)}") from None
    for folder in lacking:
        names = sorted(file.removeprefix(f"{folder.name}/") for file in files if file.startswith(f"{folder.name}/"))
        contents: dict[str, bytes | Path] = {}
        for file in names:
            if is_run_file(file):
                contents[file] = stored / folder.name / file
        for written in (folder, folder / "examples"):
            # Files of others would be written elsewhere.
            if written.is_symlink():
                raise NotKept(f"{written} is a symbolic link; remove it, or choose another --out.")
        with locked(folder, NotKept):
            put_all(folder, contents, NotKept)
            # The marker last, so that a folder is finished only when all is there.
            put(folder / marker, stored / folder.name / marker)
    return lacking
