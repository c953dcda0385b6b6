"""Adds the scores of a run to the card of a model: ``python -m cards MODEL RUN --org ORG``."""

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
from cards.evaluation import published_results
from cards.files import put
from cards.text import CardError, refuse_secrets, slug


def build(
    model: hub.Model, run: results.Run, organisation: str, data: Path | None, source: Source
) -> tuple[dict[str, bytes], list[str]]:
    """The files for the repository of a model, by path, and remarks on what is not published.

    Raises
    ------
    CardError
        When the run or the repository cannot be used.
    """

    @cache
    def manifest(dataset: str, version: str) -> str:
        return hub.manifest(model.api, organisation, dataset, version, data)

    published, remarks = published_results(run, organisation, manifest)
    versions = {name.partition("/")[0]: version.split()[0] for name, version in run.data.items()}
    manifests = {name: manifest(name, version) for name, version in versions.items() if version != results.UNPUBLISHED}
    files = eval_files(published, source, model.text)
    figure = None
    if published and find_spec("matplotlib") is None:
        remarks = [*remarks, "The plot needs the package matplotlib; pip install 'gender-neutral-probes[score]'."]
    elif published:
        from cards.figure import forest

        figure = f"images/gender-bias{'-' * bool(run.setting)}{slug(run.setting) if run.setting else ''}.svg"
        files[figure] = forest(
            [result.score for result in published],
            [f"{result.config}: {result.score.metric}" for result in published],
        )
    text = model_card.section(run, published, remarks, manifests, figure)
    files["README.md"] = model_card.merged(model.text("README.md"), model.title, text, run, published).encode()
    refuse_secrets(files)
    return files, remarks


def main(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A repository of the Hub, or a folder.")],
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a scoring run.")],
    org: Annotated[str, typer.Option(help="Organisation of the Hub that has the data sets.")] = "",
    data: Annotated[
        Path | None, typer.Option(help="Folder of built data sets; by default they are read from the Hub.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the files; RUN/card by default.")] = None,
    push: Annotated[bool, typer.Option("--push", help="Open a pull request.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    date: Annotated[str, typer.Option(help="Date of the scores; the date of the results file by default.")] = "",
    source: Annotated[str, typer.Option(help="Address of the evidence; the model's page by default.")] = "",
    user: Annotated[str | None, typer.Option(help="The user of the Hub who is responsible for the scores.")] = None,
) -> None:
    """Write a model-card section and results in the Hub's format, and show what would change in the repository.

    With --push a pull request is opened. The token comes from the environment (HF_TOKEN) or the Hub
    client's login. Exit status: 1 when the run or the repository cannot be used, 2 when the Hub cannot be
    reached or refuses.
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
        url, page_title = (source, "Evaluation") if source else (model.page, "Model card")
        evidence = Source(date or _date(folder), url, page_title if url else None, user if url else None)
        files, remarks = build(model, run, org, data, evidence)
        changed = show(model, files, remarks, console)
        if dry_run:
            console.print("Nothing was written or sent (--dry-run).")
            return
        destination = out or (folder if folder.is_dir() else folder.parent) / "card"
        for path, content in files.items():
            put(destination / path, content)
        console.print(f"Written: {destination}", markup=False, highlight=False)
        if push and changed:
            benchmarks = ", ".join(dict.fromkeys(score.benchmark for score in run.estimates))
            title = f"Gender-bias scores of {benchmarks}"
            address = model.propose(changed, title, "Made by python -m cards of gender-neutral-probes.")
            console.print(f"Pull request: {address}", markup=False, highlight=False)
    except CardError as error:
        errors.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(1) from None
    except hub.failures() as error:
        errors.print(f"error: {hub.refusal(error)}", markup=False, highlight=False)
        raise typer.Exit(2) from None


def show(model: hub.Model, files: dict[str, bytes], remarks: list[str], console: Console) -> dict[str, bytes]:
    """Prints what would change in the repository; returns the files that would change."""
    changed = {}
    for path, content in files.items():
        current = model.text(path)
        if current is None or current.encode() != content:
            changed[path] = content
            for line in hub.difference(path, current, content):
                console.print(line, markup=False, highlight=False)
    for remark in remarks:
        console.print(f"remark: {remark}", markup=False, highlight=False)
    if not changed:
        console.print(f"{model.name} has these files already.", markup=False, highlight=False)
    return changed


def _date(folder: Path) -> str:
    """The day when a results file was written, in UTC."""
    file = folder / "results.json" if folder.is_dir() else folder
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m cards")
