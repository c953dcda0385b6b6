"""Pull requests to other projects as folders: ``python -m tools.pull_requests FOLDER --org ORG --date YYYY-MM-DD``.

FOLDER gets a folder for each project, with a README that says where its files go and has the text of the request:

``lm-evaluation-harness``
    tasks of StereoSet, which use nothing of this package;
``inspect_evals``
    order-balanced StereoSet and CrowS-Pairs, and BBQ by log-probabilities, as a repository of their own, with the
    entries of the register;
``model-pages``
    for each model of published predictions, the file of results that is proposed to its repository on the Hub.

The published predictions and the data sets that they need are read from a mirror (``PROBES_MIRROR``), the cache or the
network. ``--models`` takes some of the models.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from cards.common.files import put_all
from cards.formats.evaluation import Result, ResultSource, eval_files, published_results
from cards.hub import manifest
from scoring import published
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError

FOLDERS = Path(__file__).parent / "folders"
NAMES = Path(__file__).parent / "hub_names.toml"

#: The papers of the tasks, and the files and lines where each task of the register is defined.
PAPERS = {
    "stereoset_balanced": "https://arxiv.org/abs/2004.09456",
    "crows_pairs_balanced": "https://arxiv.org/abs/2010.00133",
    "bbq_logprobs": "https://arxiv.org/abs/2110.08193",
}


def folders(organisation: str, revision: str) -> dict[str, bytes]:
    """The files of the first two folders by path, with the organisation and the version of the data sets in them."""
    files = {}
    for path in sorted(FOLDERS.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            text = path.read_text(encoding="utf-8").replace("ORG/", f"{organisation}/")
            text = text.replace("- ORG\n", f"- {organisation}\n").replace('"REVISION"', f'"{revision}"')
            files[path.relative_to(FOLDERS).as_posix()] = text.encode()
    files["inspect_evals/submissions.json"] = submissions(organisation, files)
    return files


def submissions(organisation: str, files: dict[str, bytes]) -> bytes:
    """The entries of the register: for each task its paper, and the address of the line that defines it."""
    entries = []
    root = "inspect_evals/repository/"
    for task, paper in PAPERS.items():
        for path, data in files.items():
            lines = data.decode().splitlines()
            if path.startswith(f"{root}src/") and f"def {task}() -> Task:" in lines:
                line = lines.index(f"def {task}() -> Task:") + 1
                address = f"https://github.com/{organisation}/gender-bias-evals/blob/COMMIT/{path.removeprefix(root)}"
                entries.append({"arxiv": paper, "source": f"{address}#L{line}"})
    return (json.dumps(entries, indent=2) + "\n").encode()


def model_pages(
    organisation: str, data: Path, date: str, resamples: int, wanted: Sequence[str] = ()
) -> Iterator[tuple[str, Result, dict[str, bytes]]]:
    """For each model of published predictions: its repository, its result, and the files that are proposed to it."""
    for source, names in tomllib.loads(NAMES.read_text(encoding="utf-8")).items():
        for model, repository in names.items():
            if wanted and model not in wanted:
                continue
            try:
                run = published.score(source, model, data, resamples=resamples)
            except published.BrokenFileError as error:
                print(f"{repository}: {error}")
                continue
            results, remarks = published_results(
                run.report, organisation, lambda name, version: manifest(None, organisation, name, version, data)
            )
            for remark in remarks:
                print(f"{repository}: {remark}")
            files = run.report.environment["files"]
            address = files[0].rpartition("/")[0].replace("raw.githubusercontent.com", "github.com")
            owner, name, commit, *rest = address.removeprefix("https://github.com/").split("/")
            address = "/".join(["https://github.com", owner, name, "tree", commit, *rest])
            origin = ResultSource(date, address, "Published predictions, scored by gender-neutral-probes")
            for result in results:
                yield repository, result, eval_files([result], origin, lambda _: None)


def readme(rows: Sequence[tuple[str, Result]]) -> bytes:
    """The README of the model pages: what is proposed to which repository, and how."""
    lines = [
        "# Results for the pages of models",
        "",
        "Others published the predictions of these models; this package computes the scores. A file is proposed to the",
        "repository of its model by",
        "",
        "```bash",
        "hf upload ORG/MODEL ORG/MODEL . --create-pr",
        "```",
        "",
        "The value on the Hub is 100 for the ideal value of the score and 0 for the greatest distance from it.",
        "",
        "No other published answers are proposed. Those of UnStereoEval are of its rows as published; capitals differ",
        "in 2 to 12 % of the rows of the tasks. Those of OccuGender, the friend prompts, StereoSet and CrowS-Pairs are",
        "of other rows or prompts than the tasks, or of models that are not on the Hub.",
        "",
        "| repository | benchmark | score | value on the Hub |",
        "| --- | --- | --- | --- |",
    ]
    for repository, result in rows:
        score = result.score
        number = f"{score.metric} {score.value:.3g} [{score.low:.3g}, {score.high:.3g}]"
        lines.append(f"| `{repository}` | {score.benchmark} | {number} | {result.closeness:g} |")
    return ("\n".join(lines) + "\n").encode()


def made(
    organisation: str, revision: str, date: str, data: Path, resamples: int = RESAMPLES, models: Sequence[str] = ()
) -> dict[str, bytes]:
    """All files of all folders by path."""
    files = folders(organisation, revision)
    rows = []
    for repository, result, proposed in model_pages(organisation, data, date, resamples, models):
        rows.append((repository, result))
        files |= {f"model-pages/{repository}/{path}": content for path, content in proposed.items()}
    return files | {"model-pages/README.md": readme(rows)}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pull_requests", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--org", required=True, help="organisation of the Hub and of GitHub")
    parser.add_argument("--date", required=True, help="date of the scores, YYYY-MM-DD")
    parser.add_argument("--revision", default="main", help="revision of the data sets on the Hub")
    parser.add_argument("--data", type=Path, default=Path("output"), help="folder of built data sets")
    parser.add_argument("--models", nargs="*", default=(), help="some of the models; all by default")
    parser.add_argument("--resamples", type=int, default=RESAMPLES, help="resamples of the intervals; for trials")
    options = parser.parse_args(arguments)
    files = made(options.org, options.revision, options.date, options.data, options.resamples, options.models)
    put_all(options.folder, files, ScoringError)
    print(f"{len(files)} files are in {options.folder}.")


if __name__ == "__main__":
    main()
