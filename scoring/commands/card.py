"""Adds the scores of a run to the card of a model: ``probes card MODEL RUN --org ORG``."""

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards import hub, model_card, results
from cards.common.files import put_all
from cards.common.options import single, start
from cards.common.text import CardError, refuse_secrets, slug
from cards.formats.evaluation import Result, ResultSource, eval_files, published_results
from cards.formats.results_card import with_card
from cards.hub import check_model
from scoring.uploads import checked_run

#: How many results, and how many remarks, are shown.
SHOWN = 10


def build(
    model: hub.HubModel, upload: results.Upload, organisation: str, data: Path | None, source: ResultSource
) -> tuple[dict[str, bytes], list[Result], list[str]]:
    """The files for the repository of a model by path, the published results, and what is not published.

    Raises
    ------
    CardError
        When the run or the repository cannot be used.
    """

    # Results share data sets, and each question to the Hub is a request.
    @cache
    def manifest(dataset: str, version: str) -> tuple[str, str]:
        return hub.manifest(model.api, organisation, dataset, version, data)

    run = upload.run
    published, remarks = published_results(run, organisation, manifest)
    remarks = [*upload.remarks(), *remarks]
    # The configs of a data set have one version.
    versions = {name.partition("/")[0]: version.split()[0] for name, version in run.data.items()}
    texts = {}
    for name, version in versions.items():
        if version != results.UNPUBLISHED:
            texts[name], _ = manifest(name, version)
    files = eval_files(published, source, model.text)
    figure = None
    if published and find_spec("matplotlib") is None:
        remarks = [*remarks, "The plot needs the package matplotlib; pip install 'gender-neutral-probes[score]'."]
    elif published:
        from cards.common.draw import forest

        # Each setting has its own section in the card, and so its own figure.
        figure = "images/gender-bias.svg"
        if run.setting:
            figure = f"images/gender-bias-{slug(run.setting)}.svg"
        labels = [f"{result.config}: {result.score.short_name}" for result in published]
        files[figure] = forest([result.score for result in published], labels)
    text = model_card.section(run, published, remarks, texts, figure)
    files["README.md"] = model_card.merged(model.text("README.md"), model.title, text, run, published).encode()
    # Last, over all that would be sent.
    refuse_secrets(files)
    return files, published, remarks


def main(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A repository of the Hub, or a folder.")],
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a scoring run.")],
    org: Annotated[str, typer.Option(help="Organisation of the Hub that has the data sets.")] = "",
    data: Annotated[
        Path | None, typer.Option(help="Folder of built data sets; by default they are read from the Hub.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the files; RUN/card by default.")] = None,
    push: Annotated[bool, typer.Option("--push", help="Open a pull request, or update the open one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show every line that would change.")] = False,
    partial: Annotated[bool, typer.Option("--partial", help="Take a partial run, and mark it as one.")] = False,
    date: Annotated[str, typer.Option(help="Date of the scores; the date of the results file by default.")] = "",
    evidence: Annotated[
        str, typer.Option("--results", metavar="ORG/NAME", help="Data set of the Hub to publish the run's results in.")
    ] = "",
    source: Annotated[str, typer.Option(help="Address of the published run, if it is published already.")] = "",
    user: Annotated[str | None, typer.Option(help="The user of the Hub who is responsible for the scores.")] = None,
    source_org: Annotated[str | None, typer.Option(help="The organisation that is responsible for them.")] = None,
) -> None:
    """Write a model-card section and results in the Hub's format, and show what would change in the repository.

    The run must be of the model, at a revision with the same weights. With --push a pull request is opened. The
    token comes from the environment (HF_TOKEN) or the Hub client's login. Exit status: 1 when the run or the
    repository cannot be used, 2 when the Hub cannot be reached or refuses.
    """
    console = Console(soft_wrap=True, highlight=False, markup=False)
    errors = Console(stderr=True, soft_wrap=True)
    from huggingface_hub import HfApi

    if not org or "/" in org:
        raise typer.BadParameter(f"--org is {org!r}; name the organisation that has the data sets, such as my-team.")
    with hub.explained(errors, CardError):
        upload = checked_run(results.load(folder), results.folder_of(folder))
        run = results.check(str(folder), upload.run)
        api = HfApi()
        # A dry run shows the section without a network too, beside an empty card.
        absent = ""
        if dry_run and not hub.HubModel(name, api, offline=True).folder:
            absent = hub.unreachable(api)
        if absent and not data:
            raise CardError(f"{absent} Without it, give --data the folder of the built data sets.")
        model = hub.HubModel(name, api, offline=bool(absent))
        if push and model.folder:
            raise CardError(f"{name} is a folder; give the name of a repository of the Hub with --push.")
        if run.gaps and not partial:
            raise CardError(
                f"The run is partial ({len(run.gaps)} gaps, the first is {run.gaps[0]}); score all rows of all "
                "benchmarks, or publish it marked as partial with --partial."
            )
        # Before anything is read or written: scores on the card of another model would be wrong for good.
        if not model.offline:
            check_model(run, model)
        file = folder / "results.json" if folder.is_dir() else folder
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:12]  # other results have another path
        path = f"{model.name}/{slug(run.setting or 'model')}/results-{digest}.json"
        run_file = {}
        if evidence:
            run_file[path] = content
            refuse_secrets(run_file)
        adapter = run.adapter.partition("@")[0]
        url, title = source, "Evaluation"
        if evidence:
            url, title = f"{model.api.endpoint}/datasets/{evidence}/blob/main/{path}", "Results"
        elif not source and "/" in adapter and not Path(adapter).exists():
            # The page of an adapter on the Hub is where its scores can be looked up; a folder here is no page.
            url, title = f"{model.api.endpoint}/{adapter}", "Adapter"
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
        described = ResultSource(date or written)
        if url:
            described = ResultSource(date or written, url, title, user, source_org)
        files, published, remarks = build(model, upload, org, data, described)
        changed = changed_files(model, files)
        for line in overview(model, changed, published, remarks, full=diff):
            console.print(line)
        if absent:
            console.print(f"{absent} So this compares neither the model nor its card with the run.")
        if dry_run:
            console.print("Nothing was written or sent (--dry-run).")
            return
        destination = out or file.parent / "card"
        put_all(destination, files, CardError)
        console.print(f"Written: {destination}")
        if push and changed:
            if run_file:
                sent_files = with_card(model.api, evidence, run_file)
                hub.add_files(model.api, evidence, sent_files, f"Results of {model.name}")
                console.print(f"Results: {url}")
            about = f"Gender-bias scores of {', '.join(run.benchmarks)}"
            if run.setting:
                about += f" ({run.setting})"
            changed_content = {path: files[path] for path in changed}
            address, sent = model.propose(changed_content, about, "Made by probes card of gender-neutral-probes.")
            unchanged = "" if sent else ", unchanged"
            console.print(f"Pull request{unchanged}: {address}")


def changed_files(model: hub.HubModel, files: Mapping[str, bytes]) -> dict[str, tuple[str | None, bytes]]:
    """The files that would change in the repository: path to the current text, or None, and the new content."""
    changed = {}
    for path, content in files.items():
        current = model.text(path)
        if current is None or current.encode() != content:
            changed[path] = current, content
    return changed


def overview(
    model: hub.HubModel,
    changed: Mapping[str, tuple[str | None, bytes]],
    published: list[Result],
    remarks: list[str],
    *,
    full: bool,
) -> Iterator[str]:
    """What would change, on one screen: the files with their numbers of lines, results and remarks.

    With ``full`` every line that would change follows.
    """
    differences = []
    for path, (current, content) in changed.items():
        lines = list(difference(path, current, content))
        differences += lines
        # The head of a difference has one line of each sign, which is no change.
        added = sum(line.startswith("+") for line in lines) - 1
        removed = sum(line.startswith("-") for line in lines) - 1
        action = "add" if current is None else "change"
        yield f"{action:6} {path} (+{added} -{removed} lines)"
    for result in published[:SHOWN]:
        score = result.score
        yield f"  {result.repository} {result.config}: {score.full_name} {score.number}, {score.good}"
    if len(published) > SHOWN:
        yield f"  and {len(published) - SHOWN} more results"
    for remark in remarks[:SHOWN]:
        yield f"remark: {remark}"
    if len(remarks) > SHOWN:
        yield f"and {len(remarks) - SHOWN} more remarks, which are in the section of the card"
    if not changed:
        yield f"{model.name} has these files already."
    elif full:
        yield from differences
    else:
        yield "Every line is shown with --diff."


def difference(path: str, current: str | None, content: bytes) -> Iterator[str]:
    r"""The unified diff of a file and its new content; ``current`` is None for a new file.

    >>> list(difference("a", "1\n", b"2\n"))
    ['--- a', '+++ a', '@@ -1 +1 @@', '-1', '+2']
    """
    name = path
    if current is None:
        current, name = "", "nothing"
    return difflib.unified_diff(current.splitlines(), content.decode("utf-8").splitlines(), name, path, lineterm="")


app = single(main)

if __name__ == "__main__":
    start(app, "python -m scoring.commands.card")
