"""The ordinary commands that measure the printed numbers of a model, in the order of their dependencies.

Tables share commands: each writes a folder of its own below ``RUNS/MODEL``, and a finished one is not run again.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    missing = [name for name in DATASETS if not (data / name / "manifest.json").is_file()]
    build = Step(("build", *missing, "--out", str(data)), data / DATASETS[-1] / "manifest.json")
    made = {build.line: build} if missing else {}
    places = [(table, place) for table in tables for place in _places(table)]
    is_listed = any(place.get("model") == model for _, place in places)
    for table, place in places:
        if is_listed and place.get("model", model) != model:
            continue
        values = {"dtype": "auto", "crows": "crows_pairs"} | (dict(place) if is_listed else {}) | {"model": model}
        name, _, adapter = place["run"].partition("/")
        for run_name in (*([adapter.partition("/")[0]] if name == "glue" and adapter else ()), name):
            words, of = table.runs[run_name].format_map(values).split(), runs / slug(model)
            last = _LAST.get(run_name, "results.json" if words[0] == "score" else "mitigation.json")
            given = {"--data": str(data), **(options or {})}
            if "--limit" in given:
                given["--limit"] = str(int(given["--limit"]) * _OF_PAIRS.get(run_name, 1))
            if run_name == "glue":  # it reads no built data set, and its scores have no bootstrap
                given = {key: value for key, value in given.items() if key == "--limit"}
                given |= {"--adapter": str(of / adapter)} if adapter else {}
                last = f"glue-{Path(adapter).name}.json" if adapter else last
            words += [*(word for option in given.items() for word in option), "--out", str(of / run_name)]
            step = Step(tuple(words), of / run_name / last)
            made.setdefault(step.line, step)
    if len(made) == bool(missing):
        raise ScoringError(f"No number of {', '.join(table.id for table in tables)} is of a run of a model.")
    return list(made.values())


def _places(table: PrintedTable) -> Iterator[Mapping[str, Any]]:
    """Where the numbers of a table come from a run of a model, and a figure from one of each model of the paper."""
    yield from (cell.place for cell in table.cells if cell.of_run)
    terms = paper(table.paper).get("terms", {}).values()
    models = [paper(table.paper).get("spec", {}) | term for term in terms if "model" in term] or [{}]
    yield from ({**term, "run": panel["run"]} for panel in table.panels if "run" in panel for term in models)


def execute(plan: Sequence[Step], say: Callable[[str], None]) -> list[Step]:
    """Runs the commands that are not done, and returns those that failed; what each prints goes to stderr."""
    failed = []
    for step in plan:
        if step.done:
            say(f"done before: {step.line}")
            continue
        say(step.line)
        if subprocess.run([sys.executable, "-m", "probes", *step.words], stdout=sys.stderr, check=False).returncode:
            failed.append(step)
    return failed


def parameters(model: str) -> float | None:
    """The number of parameters that the name of a model states, or that of a model in the tables; None if unknown.

    >>> parameters("meta-llama/Llama-2-7b-hf"), parameters("bert-base-uncased"), parameters("tiny-causal")
    (7000000000.0, 110000000.0, None)
    """
    given = paper("fast")["parameters"].get(model)
    stated = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", model, re.IGNORECASE)
    if given or not stated:
        return given and float(given)
    return float(stated[1]) * {"b": 1e9, "m": 1e6}[stated[2].lower()]


def cost(step: Step, model: str, data: Path, limit: int | None = None) -> str:
    """Requests of a command, and its GPU memory and hours by a rule of thumb; empty for what no rule fits.

    Memory is 1.2 times the weights. Scored tokens (a quarter of the characters) take two operations a parameter, of
    which a large GPU does 10^14 a second; a generated token reads all weights once for 32 prompts, at 1 TB a second.
    """
    if step.words[0] != "score":
        return ""
    names = step.words[step.words.index("--benchmarks") + 1].split(",")
    masked = "bert" in model.lower() or "masked" in model
    context = BenchmarkContext("masked" if masked else "causal", model=model, longest=lambda _: 0)
    try:
        parts = run.read([benchmarks.get(name) for name in names], str(data), "paper", limit)
    except ScoringError:
        return "requests unknown before the data sets are built"
    requests = [
        request
        for part in parts
        for split in part.splits
        for row in split.rows
        for request in part.benchmark.requests("paper", row, context)
    ]
    size = parameters(model)
    text = f"{len(requests):,} requests"
    if size is None:
        return text
    weights = size * (4 if "float32" in step.words or "auto" in step.words else 2)
    # Four characters a token is the usual rule for English; each token costs two operations a parameter.
    scored = sum(len(r.context) * bool(r.options) + sum(len(option.text) for option in r.options) for r in requests) / 4
    seconds = 2 * size * scored / _OPERATIONS + sum(r.max_new for r in requests) / 32 * weights / _BYTES
    return f"{text}, about {1.2 * weights / 1e9:.1f} GB of GPU memory and {seconds / 3600:.2f} hours"
