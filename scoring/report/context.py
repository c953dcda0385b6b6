"""What helps to read the scores of a run: how much of the data they cover, and the same scores of other runs."""

import shlex
from collections.abc import Sequence

from cards.common.sentences import say
from cards.results import Key
from scoring import benchmarks
from scoring.inference.load_options import BUNDLED
from scoring.report.headlines import AT_CHANCE, UNCLEAR, headline_scores
from scoring.types import BY_OTHERS, Estimate, Report


def coverage(report: Report) -> tuple[int, int, list[str]]:
    """The number of configs that were scored, of those that suit the model, and the data sets of the others.

    The benchmarks of a run say which kind of model it is of; where they leave it open, those count that suit each kind.
    """
    every = {name: benchmarks.get(name) for name in benchmarks.names()}
    kinds = {"causal", "masked", "chat"}.intersection(*(every[n].kinds for n in report.benchmarks if n in every))
    kinds = kinds & {"chat"} if report.environment.get("chat template") else kinds
    suited = [benchmark for benchmark in every.values() if kinds <= set(benchmark.kinds) and not benchmark.rows]
    places = {place[:2] for benchmark in suited for place in benchmark.configs_of(report.profile)}
    lacking = places - {tuple(name.split("/")[:2]) for name in report.data}
    return len(places - lacking), len(places), sorted({dataset for dataset, _ in lacking})


def next_steps(report: Report, run: str = "") -> list[str]:
    """What to do next, in sentences whose commands stand between backticks.

    ``run`` is the folder of the run, which the page does not know; the terminal names lacking data by itself.
    """
    scored, _, lacking = coverage(report)
    model, folder = report.name if report.name == report.model else "MODEL", shlex.quote(run) if run else "RUN"
    which = "" if run else " (RUN is the folder of this page)"
    leaning = {headline.leaning for headline in headline_scores(report)} - {"", AT_CHANCE, UNCLEAR}
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
        steps.append(say("next.base", folder=folder, which="" if run else "RUN is the folder of this page, "))
    elif leaning:
        steps.append(say("next.mitigate", model=model))
    else:
        steps.append(say("next.beside", folder=folder, which=which))
    return steps


def beside(score: Estimate, report: Report, runs: Sequence[Report]) -> list[tuple[int, Estimate]]:
    """The same score of those of other runs that have it over the same data, each with the number of its run."""
    configs = benchmarks.get(score.benchmark).configs if benchmarks.known(score.benchmark) else None
    data = {name: v for name, v in report.data.items() if configs is None or tuple(name.split("/")) in configs}.items()
    found = [(number, run.by_key.get(score.key)) for number, run in enumerate(runs, 1) if data <= run.data.items()]
    return [(number, other) for number, other in found if other]


def printed(report: Report) -> dict[Key, dict[str, float]]:
    """What papers print of models without a prompt or an adapter, by the key of the score and the model.

    Printed numbers are by the published definitions, so only runs of profile ``paper`` have some.
    """
    from scoring.reproduce.printed import printed_tables  # whose package imports this one

    found: dict[Key, dict[str, float]] = {}
    for table in printed_tables() if report.profile == "paper" else ():
        plain = {name for name, words in table.runs.items() if words.startswith("score ") and "--prompt" not in words}
        for cell in table.cells:
            place = cell.place
            if cell.of_run and place["run"] in plain and place.get("field", "value") == "value" and "model" in place:
                models = found.setdefault((place["benchmark"], place["group"], place["metric"]), {})
                models[place["model"]] = float(cell.text)
    return found
