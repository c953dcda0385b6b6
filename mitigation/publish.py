"""Publishes what a recipe made on the Hub: ``python -m mitigation.publish DIR --repo ORG/NAME``."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from builders import datasets
from builders.sources.catalogue import catalogue
from cards import adapter_card
from cards.command import start
from cards.hub import failures, refusal, sending
from cards.text import CardError, refuse_secrets
from mitigation import recipes
from mitigation.adapters.adapter import (
    CONFIG,
    FACTS,
    PROMPT,
    WEIGHTS,
    Adapter,
    MitigationError,
    digests,
    json_of,
    read,
    text,
)
from mitigation.adapters.attach import peft_config, tensors
from scoring.report.terminal import tell

CARD = "README.md"
#: How the Hub names a model: its own few without an organisation.
_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")


def publication(folder: Path, repository: str, licence: str, base: str = "") -> dict[str, bytes]:
    """The files of an adapter's repository: what ``mitigation.json`` describes, that file, and the card.

    The base model is called by its name on the Hub in all of them.

    Parameters
    ----------
    base:
        The name of the base model on the Hub, where the adapter knows it by another.

    Raises
    ------
    MitigationError
        When the folder is no whole adapter, or its base model has no name on the Hub.
    CardError
        When a licence or a citation is missing, or a file holds an access token.
    """
    adapter = read(folder)
    name = base or adapter.base
    if not _NAME.fullmatch(name) or Path(name).exists() or _bundled(name):
        raise MitigationError(
            f"The adapter {folder} was made from {name}, which is no name of the Hub; say with --base what its base "
            "model is called there."
        )
    if CONFIG in adapter.files:
        peft_config(folder)
        tensors(folder / WEIGHTS)
    elif PROMPT not in adapter.files:
        raise MitigationError(f"{folder} describes neither {CONFIG} nor {PROMPT}; run its recipe again.")
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        for each in adapter.files:
            shutil.copyfile(folder / each, made / each)
        if CONFIG in adapter.files:
            config = json_of(made / CONFIG) | {"base_model_name_or_path": name}
            (made / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True), encoding="utf-8")
        shown = replace(adapter, base=name, files=digests(made))
        (made / FACTS).write_text(text(shown), encoding="utf-8")
        (made / CARD).write_text(card(made, shown, repository, licence), encoding="utf-8")
        files = {path.name: path.read_bytes() for path in sorted(made.iterdir())}
    refuse_secrets({path: content for path, content in files.items() if not path.endswith((".safetensors", ".png"))})
    return files


def _bundled(name: str) -> bool:
    from scoring.__main__ import BUNDLED

    return name in BUNDLED


def card(folder: Path, adapter: Adapter, repository: str, licence: str) -> str:
    """The card of an adapter in a folder."""
    recipe, known = recipes.get(adapter.recipe), catalogue().citations
    cited = {key: known[key] for key in recipe.cite}
    return adapter_card.adapter_card(
        json_of(folder / FACTS),
        repository,
        licence,
        adapter_card.RecipeFacts(recipe.name, recipe.summary, recipe.source, cited),
        learnt(adapter.data),
        config=json_of(folder / CONFIG) if CONFIG in adapter.files else None,
        prompt=json_of(folder / PROMPT) if PROMPT in adapter.files else None,
    )


def learnt(data: Mapping[str, str]) -> list[adapter_card.TrainingData]:
    """What is known of the data that a recipe saw, by the names DATASET/CONFIG/SPLIT."""
    known = catalogue()
    found = []
    for name, version in data.items():
        dataset, config, _ = [*name.split("/"), "", ""][:3]
        own = [each for each in datasets.get(dataset).configs if each.name == config]
        if not own:
            raise CardError(f"The adapter learnt from {name}, which is no config of {dataset}; make it again.")
        sources = [known.sources[source] for source in own[0].sources]
        keys = sorted({*own[0].cite, *(source.citation for source in sources)})
        licence = " and ".join(sorted({own[0].licence, *(source.licence for source in sources)}))
        found.append(
            adapter_card.TrainingData(name, version, licence, {key: known.citations.get(key, "") for key in keys})
        )
    return found


def upload(files: Mapping[str, bytes], repository: str, api: Any, *, private: bool) -> str:
    """Puts the files into a repository in one commit, and makes it where it is not there; its address."""
    with tempfile.TemporaryDirectory() as place:
        for name, content in files.items():
            (Path(place) / name).write_bytes(content)
        api.create_repo(repository, exist_ok=True, private=private)
        with sending():
            api.upload_folder(repo_id=repository, folder_path=place, commit_message="Publish the adapter")
    return f"{api.endpoint}/{repository}"


def main(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that python -m mitigation has written.")],
    repo: Annotated[str, typer.Option(metavar="ORG/NAME", help="The repository of the Hub.")],
    licence: Annotated[str, typer.Option(help="Licence as the Hub calls it; that of the base model may bind.")] = "",
    base: Annotated[str, typer.Option(help="Name of the base model on the Hub, if it was loaded by another.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Publish an adapter or a prompt with its card, in one commit.

    The token comes from the environment (HF_TOKEN) or the Hub client's login. Exit status: 1 when the
    folder is not whole or a fact is missing, 2 when the Hub cannot be reached or refuses.
    """
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        files = publication(folder, _repository(repo), licence, base)
        tell(console, [f"{repo}", *(f"  {len(content):>11,} bytes  {name}" for name, content in files.items())])
        if dry_run:
            tell(console, [files[CARD].decode(), "Nothing was sent (--dry-run)."])
            return
        tell(console, [f"Published: {upload(files, repo, HfApi(), private=private)}"])
    except (MitigationError, CardError, HFValidationError) as error:
        tell(errors, [f"error: {error}"])
        raise typer.Exit(1) from None
    except failures() as error:
        tell(errors, [f"error: {refusal(error)}"])
        raise typer.Exit(2) from None


def _repository(name: str) -> str:
    if not (_NAME.fullmatch(name) and "/" in name):
        raise MitigationError(f"{name!r:.60} is no repository of the Hub; give ORG/NAME with --repo.")
    return name


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m mitigation.publish")
