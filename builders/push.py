"""Publishes built data sets on the Hub: ``probes push DIR --org ORG``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from builders.dataset import BuildError
from builders.manifest import NAME
from builders.publish.publication import make_publication
from builders.publish.repository import BenchmarkRefused, Repository, push, show
from cards import leaderboard
from cards.hub import HubRefusal, explained, unreachable
from cards.options import single, start
from cards.text import CardError


def folders(out: Path, names: list[str]) -> list[Path]:
    """The data-set folders to publish: the named ones, else all in a folder, else the folder itself.

    Raises
    ------
    BuildError
        When there is none.
    """
    if names:
        return [out / name for name in names]
    built = [out] if (out / NAME).is_file() else sorted(path.parent for path in out.glob(f"*/{NAME}"))
    if not built:
        raise BuildError(f"{out} has no built data set; run probes build --out {out} first.")
    return built


def main(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that builders.rebuild has written.")],
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
    space: Annotated[
        str,
        typer.Option(metavar="ORG/NAME", help="Static Space to publish with the scores of the organisation's models."),
    ] = "",
) -> None:
    """Publish built data sets with their version as a tag, as far as licences allow.

    With --dry-run no network is needed; without it, changes are not compared. The token comes from the environment
    (HF_TOKEN) or the Hub client's login. Exit status: 1 when a folder is not complete or a version exists with other
    content, 2 when the Hub cannot be reached or refuses.
    """
    console = Console(markup=False, highlight=False, soft_wrap=True)
    errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    from huggingface_hub import HfApi

    if not org:
        raise typer.BadParameter("Name the organisation or user of the Hub with --org.")
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
            except BenchmarkRefused as error:
                refused = True
                errors.print(f"error: {error}")
        if space and not dry_run:
            scores = leaderboard.page(leaderboard.task_tables(leaderboard.hub_entries(org, api, leaderboard.DATASETS)))
            console.print(f"Space: {leaderboard.publish_space(api, space, scores.encode())}")
        if reason:
            console.print(f"{reason} So it is not shown what would change there.")
            console.print("Nothing was sent (--dry-run).")
    if refused:
        raise typer.Exit(2)


app = single(main)

if __name__ == "__main__":
    start(app, "python -m builders.push")
