"""Publishes an adapter or a prompt on the Hub: ``probes publish DIR --repo ORG/NAME``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from builders.dataset import BuildError
from builders.parsers import read
from cards.hub import add_files, explained
from cards.options import single, start
from cards.text import CardError
from mitigation.__main__ import Include
from mitigation.adapters.publication import CARD, check_repository, publication
from scoring.terminal import tell
from scoring.types import ScoringError


def main(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that probes mitigate has written.")],
    repo: Annotated[str, typer.Option(metavar="ORG/NAME", help="The repository of the Hub.")],
    licence: Annotated[
        str, typer.Option(help="Licence by its name on the Hub; the licence of the base model may require one.")
    ] = "",
    base: Annotated[
        str, typer.Option(help="Name of the base model on the Hub, if it was loaded under another name.")
    ] = "",
    corpus_licence: Annotated[
        str, typer.Option(help="Licence of the text and the lists of your own that the recipe learnt from.")
    ] = "",
    corpus_citation: Annotated[
        Path | None, typer.Option(metavar="FILE.bib", help="File with the BibTeX entry of that text.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    include: Include = None,
) -> None:
    """Publish an adapter or a prompt with its card, in one commit.

    The token comes from the environment (HF_TOKEN) or the Hub client's login. Exit status: 1 when the
    folder is incomplete or a fact is missing, 2 when the Hub cannot be reached or refuses.
    """
    del include  # its callback has registered the recipes
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    with explained(errors, ScoringError, BuildError, CardError, HFValidationError):
        citation = read.text(corpus_citation) if corpus_citation else ""
        files = publication(folder, check_repository(repo), licence, base, corpus_licence, citation)
        tell(console, [f"{repo}", *(f"  {len(content):>11,} bytes  {name}" for name, content in files.items())])
        if dry_run:
            tell(console, [files[CARD].decode(), "Nothing was sent (--dry-run)."])
            return
        address = add_files(HfApi(), repo, files, "Publish the adapter", kind="model", private=private)
        tell(console, [f"Published: {address}"])


app = single(main)

if __name__ == "__main__":
    start(app, "python -m mitigation.publish")
