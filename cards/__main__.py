"""Puts the scores of a run on the page of a model: ``python -m cards MODEL RUN --org ORG``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards import hub, model_card, results
from cards.command import start
from cards.eval_results import Source, eval_files
from cards.evaluation import results as published
from cards.files import put
from cards.text import CardError, refuse_secrets, slug


def build(
    model: hub.Model, run: results.Run, organisation: str, data: Path | None, source: Source
) -> tuple[dict[str, bytes], list[str]]:
    """The files that a run gives a model's repository, by their path, and remarks on what is not published.

    Raises
    ------
    CardError
        When something of the run or of the repository is not as it must be.
    """

    @cache
    def manifest(dataset: str, version: str) -> str:
        return hub.manifest(model.api, organisation, dataset, version, data)

    found, remarks = published(run, organisation, manifest)
    read = {name.partition("/")[0]: told.split()[0] for name, told in run.data.items()}
    manifests = {name: manifest(name, version) for name, version in read.items() if version != results.UNPUBLISHED}
    files = eval_files(found, source, model.text)
    figure = None
    if found and find_spec("matplotlib") is None:
        remarks = [*remarks, "The plot needs the package matplotlib; pip install 'gender-neutral-probes[score]'."]
    elif found:
        from cards.figure import forest

        figure = f"images/gender-bias{'-' * bool(run.setting)}{slug(run.setting) if run.setting else ''}.svg"
        files[figure] = forest(
            [each.score for each in found], [f"{each.config}: {each.score.metric}" for each in found]
        )
    text = model_card.section(run, found, remarks, manifests, figure)
    files["README.md"] = model_card.merged(model.text("README.md"), model.title, text, run, found).encode()
    refuse_secrets(files)
    return files, remarks


def main(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Whose page: a repository of the Hub, or a folder.")],
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a scoring run.")],
    org: Annotated[str, typer.Option(help="Organisation of the Hub that has the data sets.")] = "",
    data: Annotated[Path | None, typer.Option(help="Built data sets; else they are asked of the Hub.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where files are written; RUN/card if not told.")] = None,
    push: Annotated[bool, typer.Option("--push", help="Open a pull request.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    date: Annotated[str, typer.Option(help="When it was scored; the date of the results file if not told.")] = "",
    source: Annotated[str, typer.Option(help="Address of the evidence; the model's page if not told.")] = "",
    user: Annotated[str | None, typer.Option(help="The user of the Hub who answers for the scores.")] = None,
) -> None:
    """Write a model-card section and results in the Hub's form, and show what would change on the model's page.

    With --push a pull request is opened. The token comes from the environment (HF_TOKEN) or the Hub
    client's login. Exit status: 1 when something is not as it must be, 2 when the Hub cannot be reached
    or refuses.
    """
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    from huggingface_hub import HfApi

    if not org:
        raise typer.BadParameter("Name the organisation that has the data sets with --org.")
    try:
        run = results.read(folder)
        model = hub.Model(name, HfApi())
        if push and model.folder:
            raise CardError(f"{name} is a folder; give the name of a repository of the Hub with --push.")
        url, title = (source, "Evaluation") if source else (model.page, "Model card")
        told = Source(date or _date(folder), url, title if url else None, user if url else None)
        files, remarks = build(model, run, org, data, told)
        changed = show(model, files, remarks, console)
        if dry_run:
            console.print("Nothing was written or sent (--dry-run).")
            return
        where = out or (folder if folder.is_dir() else folder.parent) / "card"
        for path, content in files.items():
            put(where / path, content)
        console.print(f"Written: {where}", markup=False, highlight=False)
        if push and changed:
            about = f"Gender-bias scores of {', '.join(dict.fromkeys(score.benchmark for score in run.scores))}"
            address = model.propose(changed, about, "Made by python -m cards of gender-neutral-probes.")
            console.print(f"Pull request: {address}", markup=False, highlight=False)
    except CardError as error:
        errors.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(1) from None
    except hub.failures() as error:
        errors.print(f"error: {hub.refusal(error)}", markup=False, highlight=False)
        raise typer.Exit(2) from None


def show(model: hub.Model, files: dict[str, bytes], remarks: list[str], console: Console) -> dict[str, bytes]:
    """Prints what would change in the repository, and gives the files that would."""
    changed = {}
    for path, content in files.items():
        there = model.text(path)
        if there is None or there.encode() != content:
            changed[path] = content
            for line in hub.difference(path, there, content):
                console.print(line, markup=False, highlight=False)
    for remark in remarks:
        console.print(f"remark: {remark}", markup=False, highlight=False)
    if not changed:
        console.print(f"{model.name} has all of this already.", markup=False, highlight=False)
    return changed


def _date(folder: Path) -> str:
    """The day a results file was written, in universal time."""
    file = folder / "results.json" if folder.is_dir() else folder
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m cards")
