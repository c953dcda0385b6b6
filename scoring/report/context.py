"""What helps to read the scores of a run: how much of the data they cover, and the same scores of other runs."""

import shlex
from collections.abc import Sequence

from cards.common.sentences import say
from cards.results import Key
from scoring import benchmarks
from scoring.inference.load_options import BUNDLED
from scoring.report.headlines import headline_scores
from scoring.types import BY_OTHERS, Estimate, Report


def coverage(report: Report) -> tuple[int, int, list[str]]:
    """The number of configs that were scored, of those that were asked for, and the data sets that lack some.

    What was asked for and is not there is what a run recorded as lacking.
    """
    # A config is the first two parts of a name such as "stereoset/intra/validation"; its splits are built together.
    scored = {tuple(name.split("/")[:2]) for name in report.data}
    lacking = {tuple(name.split("/")[:2]) for name in report.environment.get("data lacking") or ()}
    datasets = sorted({dataset for dataset, _ in lacking})
    return len(scored - lacking), len(scored | lacking), datasets


def next_steps(report: Report, run: str = "") -> list[str]:
    """What to do next, in sentences whose commands are between backticks.

    ``run`` is the folder of the run, which the page does not know; the terminal names lacking data by itself.
    """
    scored, _, lacking = coverage(report)
    # The name of a model in a folder is the last part of its path, which a command cannot load.
    model = "MODEL"
    if report.name == report.model:
        model = report.name
    if run:
        folder = shlex.quote(run)
        which = which_before_base = ""
    else:
        folder = "RUN"
        which = " (RUN is the folder of this page)"
        which_before_base = "RUN is the folder of this page, "
    steps = []
    if scored and lacking and not run:
        steps.append(say("next.data", sets=" ".join(lacking), model=model))
    if report.partial:
        steps.append(say("next.rows", model=model))
    if report.environment.get("engine") == BY_OTHERS:
        steps.append(say("next.other", folder=folder, which=which))
    elif report.model in BUNDLED:
        steps.append(say("next.real", folder=folder, which=which))
    elif report.adapter:
        steps.append(say("next.base", folder=folder, which=which_before_base))
    elif any(headline.leaning and headline.is_clear for headline in headline_scores(report)):
        # Only a model that leans beyond noise has something to mitigate.
        steps.append(say("next.mitigate", model=model))
    else:
        steps.append(say("next.beside", folder=folder, which=which))
    return steps


def beside(score: Estimate, report: Report, runs: Sequence[Report]) -> list[tuple[int, Estimate]]:
    """The same score of those of other runs that have it over the same data, each with the number of its run."""
    data = report.data.items()
    if benchmarks.known(score.benchmark):
        # Only the data of this benchmark must agree; the runs may have other benchmarks.
        configs = benchmarks.get(score.benchmark).configs
        data = {name: version for name, version in data if tuple(name.split("/")) in configs}.items()
    scores = []
    for number, run in enumerate(runs, 1):
        other = run.by_key.get(score.key)
        if other and data <= run.data.items():
            scores.append((number, other))
    return scores


def printed(report: Report) -> dict[Key, dict[str, float]]:
    """What papers print of models without a prompt or an adapter, by the key of the score and the model.

    Printed numbers are by the published definitions, so only runs of profile ``paper`` have some.
    """
    from scoring.reproduce.printed import printed_tables  # whose package imports this one

    if report.profile != "paper":
        return {}
    values: dict[Key, dict[str, float]] = {}
    for table in printed_tables():
        for cell in table.cells:
            place = cell.place
            if not cell.of_run or "model" not in place or place.get("field", "value") != "value":
                continue
            # The command of the run; "rescore" reads scores of others, and a prompt changes the model's behaviour.
            command = table.runs.get(place["run"], "")
            if command.startswith("score ") and "--prompt" not in command:
                models = values.setdefault((place["benchmark"], place["group"], place["metric"]), {})
                models[place["model"]] = float(cell.text)
    return values
