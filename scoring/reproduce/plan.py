"""The ordinary commands that measure the printed numbers of a model, in the order of their dependencies.

Tables share commands: each writes a folder of its own below ``RUNS/MODEL``, and a finished one is not run again.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cards.common.text import slug
from scoring import benchmarks
from scoring.asking import run
from scoring.reproduce.measured import DATASETS
from scoring.reproduce.printed import PrintedTable, paper
from scoring.types import BenchmarkContext, ScoringError

#: What the command of a run writes last, if not the results of scoring or of a recipe.
_LAST = {"fast": "methods.html", "methods": "methods.html", "sweep": "sweep.json", "glue": "glue.json"}
#: Runs that edit pairs of one domain, with the rows that a trial takes for each one asked for: a limit counts rows
#: before the domain is chosen. Of fifteen rows of StereoSet about two are of gender, and not every subject is found.
_OF_PAIRS = {"fast": 15, "sweep": 15}
#: Assumed speed in operations a second and in bytes of weights read a second, for hours on one large GPU.
_OPERATIONS, _BYTES = 1e14, 1e12


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the plan, as the words after ``probes``; ``last`` is the file that it writes last."""

    words: tuple[str, ...]
    last: Path

    @property
    def done(self) -> bool:
        """Whether the command has ended before."""
        return self.last.is_file()

    @property
    def line(self) -> str:
        """The command for a terminal."""
        return shlex.join(("probes", *self.words))


def steps(
    tables: Sequence[PrintedTable], model: str, data: Path, runs: Path, options: Mapping[str, str] | None = None
) -> list[Step]:
    """The commands that the numbers of a model need, each once; ``options`` are added to every one that has them.

    Raises
    ------
    ScoringError
        When no number of the tables is of a run of the model.

    >>> from scoring.reproduce.printed import printed_tables
    >>> [step.line for step in steps(printed_tables("unstereo/table-5"), "gpt2", Path("data"), Path("runs"))][1]
    'probes score gpt2 --profile paper --benchmarks unstereo --dtype auto --data data --out runs/gpt2/unstereo'
    """
    by_line: dict[str, Step] = {}
    places = [(table, place) for table in tables for place in _places(table)]
    # A model of no table takes the place of every model of the tables.
    is_listed = any(place.get("model") == model for _, place in places)
    for table, place in places:
        if is_listed and place.get("model", model) != model:
            continue
        values = {"dtype": "auto", "crows": "crows_pairs"}
        if is_listed:
            values.update(place)
        values["model"] = model
        name, _, adapter = place["run"].partition("/")
        run_names = [name]
        if name == "glue" and adapter:
            # The run that makes the adapter comes before the one that reads it.
            run_names.insert(0, adapter.partition("/")[0])
        for run_name in run_names:
            words = table.runs[run_name].format_map(values).split()
            step = _step(run_name, words, adapter, data, runs / slug(model), options or {})
            by_line.setdefault(step.line, step)
    if not by_line:
        raise ScoringError(f"No number of {', '.join(table.id for table in tables)} is of a run of a model.")
    needed: set[str] = set()
    for step in by_line.values():
        needed.update(_data_of(step))
    missing = [name for name in DATASETS if name in needed and not (data / name / "manifest.json").is_file()]
    if missing:
        build = Step(("build", *missing, "--out", str(data)), data / missing[-1] / "manifest.json")
        return [build, *by_line.values()]
    return list(by_line.values())


def _step(
    run_name: str, words: Sequence[str], adapter: str, data: Path, folder: Path, options: Mapping[str, str]
) -> Step:
    """The command of a run with its options; ``folder`` is that of the runs of the model."""
    last = _LAST.get(run_name)
    if last is None and words[0] == "score":
        last = "results.json"
    elif last is None:
        last = "mitigation.json"
    values = {"--data": str(data), **options}
    if "--limit" in values:
        values["--limit"] = str(int(values["--limit"]) * _OF_PAIRS.get(run_name, 1))
    if run_name == "glue":
        # It reads no built data set, and its scores have no bootstrap.
        values = {name: value for name, value in values.items() if name == "--limit"}
        if adapter:
            values["--adapter"] = str(folder / adapter)
            last = f"glue-{Path(adapter).name}.json"
    command = list(words)
    for name, value in values.items():
        command += [name, value]
    command += ["--out", str(folder / run_name)]
    return Step(tuple(command), folder / run_name / last)


def _data_of(step: Step) -> Sequence[str]:
    """The data sets that a command reads; recipes train on rows of several, so all are named for them."""
    if step.words[0] != "score":
        return DATASETS
    names = step.words[step.words.index("--benchmarks") + 1].split(",")
    return [dataset for name in names for dataset, _, _ in benchmarks.get(name).configs]


def _places(table: PrintedTable) -> Iterator[Mapping[str, Any]]:
    """Where the numbers of a table come from a run of a model, and a figure from one of each model of the paper."""
    for cell in table.cells:
        if cell.of_run:
            yield cell.place
    declared = paper(table.paper)
    models: list[dict[str, Any]] = []
    for term in declared.get("terms", {}).values():
        if "model" in term:
            models.append(declared.get("spec", {}) | term)
    for panel in table.panels:
        if "run" in panel:
            # A paper without terms has one place for each panel, of a model that is given.
            for term in models or [{}]:
                yield {**term, "run": panel["run"]}


def execute(plan: Sequence[Step], say: Callable[[str], None]) -> list[Step]:
    """Runs the commands that are not done, and returns those that failed; what each prints goes to stderr."""
    failed = []
    for step in plan:
        if step.done:
            say(f"done before: {step.line}")
            continue
        say(step.line)
        command = [sys.executable, "-m", "probes", *step.words]
        # A command that failed does not end the plan: others may not depend on it.
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            failed.append(step)
    return failed


def parameters(model: str) -> float | None:
    """The number of parameters that the name of a model states, or that of a model in the tables; None if unknown.

    >>> parameters("meta-llama/Llama-2-7b-hf"), parameters("bert-base-uncased"), parameters("tiny-causal")
    (7000000000.0, 110000000.0, None)
    """
    listed = paper("fast")["parameters"].get(model)
    if listed:
        return float(listed)
    # "7b" and "350M", but not the "4b" of "q4b" or of "4bit".
    stated = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", model, re.IGNORECASE)
    if not stated:
        return None
    return float(stated[1]) * {"b": 1e9, "m": 1e6}[stated[2].lower()]


def cost(step: Step, model: str, data: Path, limit: int | None = None) -> str:
    """Requests of a command, and its GPU memory and hours by a rule of thumb; empty for what no rule fits.

    Memory is 1.2 times the weights. Scored tokens (a quarter of the characters) take two operations a parameter, of
    which a large GPU does 10^14 a second; a generated token reads all weights once for 32 prompts, at 1 TB a second.
    """
    if step.words[0] != "score":
        return ""
    names = step.words[step.words.index("--benchmarks") + 1].split(",")
    # No model is loaded for an estimate, so its kind follows from its name.
    context = BenchmarkContext("causal", model=model, longest=lambda _: 0)
    if "bert" in model.lower() or "masked" in model:
        context = replace(context, kind="masked")
    try:
        parts = run.read([benchmarks.get(name) for name in names], str(data), "paper", limit)
    except ScoringError:
        return "requests unknown before the data sets are built"
    count = 0
    characters = 0
    new_tokens = 0
    for part in parts:
        for split in part.splits:
            for row in split.rows:
                for request in part.benchmark.requests("paper", row, context):
                    count += 1
                    new_tokens += request.max_new
                    characters += sum(len(option.text) for option in request.options)
                    # A context is read once for all options.
                    if request.options:
                        characters += len(request.context)
    text = f"{count:,} requests"
    size = parameters(model)
    if size is None:
        return text
    bytes_per_parameter = 2
    if "float32" in step.words or "auto" in step.words:
        bytes_per_parameter = 4
    weights = size * bytes_per_parameter
    # Four characters a token is the usual rule for English; each token costs two operations a parameter.
    seconds_of_scoring = 2 * size * (characters / 4) / _OPERATIONS
    seconds_of_generation = new_tokens / 32 * weights / _BYTES
    hours = (seconds_of_scoring + seconds_of_generation) / 3600
    shown = "less than 0.01" if hours < 0.01 else f"{hours:.2f}"
    return f"{text}, about {1.2 * weights / 1e9:.1f} GB of GPU memory and {shown} hours"
