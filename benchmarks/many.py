"""Many models: memory of equal ones, of all benchmarks, a sweep of twenty families, and pages of a hundred runs.

``python -m benchmarks.many memory|all|families|hundred|startup`` measures one of them and writes it into ``many.json``;
``page`` writes the tables of ``docs/many-measured.md`` from it and from ``rows.json``.

``memory`` scores one network, and then it and copies of it with one command, each command a process of its own.
``all`` scores the bundled model on all benchmarks, in all ways with ``--ways``; with ``--by-chance`` its answers are
made by chance, which takes the place of the network alone, for millions of questions. ``families`` scores 20 small
networks of different families with random weights with one command, and then again; two of them cannot be loaded.
``hundred`` makes a hundred runs of one, whose answers it changes by chance, and times ``probes compare`` and ``probes
leaderboard`` of all of them. ``startup`` starts Python and does little. Commands compute on one thread.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow.parquet as pq
import typer

from benchmarks.machine import RESULTS, describe, measure
from cards.common.files import put
from tools.docs.shown import between

if TYPE_CHECKING:
    from scoring.inference.engine import Batching
    from scoring.inference.generation import TokenizedPrompt
    from scoring.inference.tokens import Query

RESULT = RESULTS / "many.json"
ROWS = RESULTS / "rows.json"
PAGE = Path(__file__).parents[1] / "docs" / "many-measured.md"
FAMILIES = {
    "causal": "gpt2 llama opt gpt_neox bloom mistral gpt_neo qwen2 olmo granite starcoder2 stablelm phi cohere".split(),
    "masked": "bert distilbert electra albert".split(),
}
RUNS = 100
#: The note of a measurement whose seconds of the clock say something, and of one whose seconds do not.
ALONE = "no other work beside"
BESIDE = "with other work beside"
Data = Annotated[Path, typer.Option(help="Folder of built data sets.")]
app = typer.Typer(add_completion=False)


@app.callback()
def one_thread() -> None:
    """Measures many models and all benchmarks, one measurement a command."""
    os.environ["OMP_NUM_THREADS"] = "1"


def kept(name: str, measurement: dict[str, Any], note: str = BESIDE) -> None:
    """Writes a measurement beside the others."""
    known = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    known[name] = measurement | {"machine": describe("torch", "transformers"), "note": note}
    RESULT.write_text(json.dumps(known, indent=1) + "\n")
    print(json.dumps(known[name], indent=1))


def score(models: list[str], out: Path, data: Path, *more: str) -> list[str]:
    """The command for some models."""
    about = ["--data", str(data), "--out", str(out), "--device", "cpu", *more]
    return [sys.executable, "-m", "probes", "score", *models, *about]


@app.command()
def memory(
    data: Data = Path("output"),
    limit: Annotated[int, typer.Option(help="Rows of each split.")] = 40,
    width: Annotated[int, typer.Option(help="Width of the network.")] = 768,
) -> None:
    """The peak memory of one, two and three equal models."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from scoring.inference.load_options import BUNDLED

    peaks: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])
        torch.manual_seed(0)
        sizes: dict[str, Any] = {
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "num_hidden_layers": 8,
            "num_attention_heads": 12,
        }
        network = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=256, **sizes))
        peaks["weights_mb"] = round(sum(weight.numel() for weight in network.parameters()) * 4 / 1e6)
        models = [str(folder / f"model-{number}") for number in range(3)]
        network.save_pretrained(models[0])
        tokenizer.save_pretrained(models[0])
        del network
        for copy in models[1:]:
            shutil.copytree(models[0], copy)
        options = (
            "--limit",
            str(limit),
            "--benchmarks",
            "occugender,stereoset,unstereo,crows_pairs",
            "--resamples",
            "1000",
        )
        for count in (1, 2, 3):
            # A folder for all of them, as of a sweep, also where there is one model.
            peaks[f"{count} models"] = measure(score(models[:count], folder / f"runs-{count}", data, *options))
    for count in (2, 3):
        ratio = peaks[f"{count} models"]["peak_mb"] / peaks["1 models"]["peak_mb"]
        peaks[f"peak of {count} above one, %"] = round(100 * (ratio - 1), 1)
    kept("memory", peaks)


@app.command("all")
def everything(
    data: Data = Path("output"),
    limit: Annotated[int | None, typer.Option(help="Rows of each split; by default all.")] = None,
    ways: Annotated[bool, typer.Option(help="In all ways and wordings.")] = False,
    by_chance: Annotated[bool, typer.Option(help="Answers are made by chance.")] = False,
) -> None:
    """All benchmarks with the bundled causal model."""
    more = ["--limit", str(limit)] if limit else []
    if ways:
        more += ["--ways", "likelihood,choice,text,two_turns", "--wordings", "all"]
    title = "all, all ways and wordings" if ways else "all"
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        command = score(["tiny-causal"], run, data, *more)
        if by_chance:
            # The same command line, in a process whose engine has no network.
            command[1:3] = ["-m", "benchmarks.many", "command-by-chance"]
            title += ", answers by chance"
        measurement: dict[str, Any] = measure(command)
        tables = sorted((run / "examples").glob("*.parquet"))
        measurement["limit"] = limit
        measurement["benchmarks"] = len(tables)
        measurement["rows"] = sum(pq.ParquetFile(table).metadata.num_rows for table in tables)
    kept(title, measurement)


@app.command("command-by-chance", hidden=True, context_settings={"ignore_unknown_options": True})
def command_by_chance(words: list[str]) -> None:
    """The command ``probes`` with answers that are made by chance in the place of those of the network."""
    from probes import app as program
    from scoring.inference.batching import Ints
    from scoring.inference.engine import Continued, Scored
    from scoring.inference.model import Model

    draw = np.random.default_rng(0)
    texts = ("She is a nurse and likes her work.", "He is a man of few words.", "I do not know.", "A", "B")

    def scored(_model: Model, queries: Sequence[Query], _batching: Batching) -> Iterator[Scored]:
        count = sum(len(query.at) for query in queries)
        answers: Ints = np.arange(count)
        yield Scored(answers, -draw.exponential(4, count))

    def continued(_model: Model, prompts: Sequence[TokenizedPrompt], *_: Any) -> Iterator[Continued]:
        for prompt in prompts:
            yield Continued(prompt, texts[draw.integers(len(texts))])

    Model.score = scored  # type: ignore[method-assign, assignment]
    Model.generate = continued  # type: ignore[method-assign, assignment]
    program(words)


@app.command()
def startup() -> None:
    """Processor seconds of starts that score nothing: the median of five."""
    seconds: dict[str, Any] = {}
    commands = {"probes list": ["-m", "probes", "list"], "import scoring": ["-c", "import scoring"]}
    for title, words in commands.items():
        seconds[title] = sorted(measure([sys.executable, *words])["cpu_s"] for _ in range(5))[2]
    kept("startup", seconds)


@app.command()
def families(data: Data = Path("output"), limit: Annotated[int, typer.Option(help="Rows of each split.")] = 5) -> None:
    """Twenty small networks of different families, of which two cannot be loaded, with one command; then again."""
    from tools.simulations.random_networks import random_network, tokenizer_of

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = []
        for kind, names in FAMILIES.items():
            for family in names:
                random_network(family, kind, 1).save_pretrained(folder / family)
                tokenizer_of(kind).save_pretrained(folder / family)
                models.append(family)
        # One lacks its weights, and the configuration of the other is cut.
        for family, copy in (("gpt2", "no-weights"), ("llama", "cut-configuration")):
            shutil.copytree(folder / family, folder / copy)
            models.insert(3 * len(copy) % len(models), copy)
        (folder / "no-weights" / "model.safetensors").unlink()
        config = folder / "cut-configuration" / "config.json"
        config.write_bytes(config.read_bytes()[:100])
        (folder / "models.txt").write_text("".join(f"{model}\n" for model in models))
        asked = (
            "--models",
            "models.txt",
            "--limit",
            str(limit),
            "--benchmarks",
            "stereoset,crows_pairs,gest,pronouns",
        )
        command = score([], Path("runs"), data.absolute(), *asked)
        sweep: dict[str, Any] = {"models": len(models)}
        for turn in ("first", "again"):
            done = subprocess.run(
                [*command, "--resamples", "200"], cwd=folder, capture_output=True, text=True, check=False
            )
            printed = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            sweep[turn] = {"exit_status": done.returncode, "printed": printed}
    kept("families", sweep)


@app.command()
def hundred(
    data: Data = Path("output"),
    limit: Annotated[int | None, typer.Option(help="Rows of each split; by default all.")] = None,
    folder: Annotated[Path | None, typer.Option(help="A folder for the runs, which stay and are used again.")] = None,
    alone: Annotated[bool, typer.Option(help="Nothing else runs on the machine.")] = False,
) -> None:
    """``probes compare`` and ``probes leaderboard`` of a hundred runs."""
    measurement: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        place = folder or Path(name)
        runs = sorted(map(str, place.glob("run-*")))
        if len(runs) < RUNS:
            runs = _made_runs(place, data, limit)
        tables = sorted((Path(runs[0]) / "examples").glob("*.parquet"))
        measurement["rows"] = {table.stem: pq.ParquetFile(table).metadata.num_rows for table in tables}
        measurement["runs"] = len(runs)
        board = Path(name) / "leaderboard.html"
        program = [sys.executable, "-m", "probes"]
        measurement["compare"] = measure([*program, "compare", *runs, "--out", str(Path(name) / "compared")])
        measurement["leaderboard"] = measure([*program, "leaderboard", *runs, "--out", str(board)])
        measurement["leaderboard"]["page_mb"] = round(board.stat().st_size / 1e6, 2)
    kept("hundred", measurement, ALONE if alone else BESIDE)


def _made_runs(folder: Path, data: Path, limit: int | None) -> list[str]:
    """A hundred runs of one, whose answers are changed by chance."""
    import scoring
    from scoring import benchmarks
    from scoring.asking.estimates import estimate
    from scoring.report import file_name, parquet, results

    asked: dict[str, Any] = {"benchmarks": "stereoset,crows_pairs,occugender,unstereo", "limit": limit}
    asked["ways"] = "likelihood,text"
    base = scoring.evaluate("tiny-causal", data=data, device="cpu", resamples=1000, **asked)
    draw = np.random.default_rng(0)
    runs = []
    for number in range(RUNS):
        tables = {}
        scores = []
        for benchmark, table in base.tables.items():
            changed = {name: _changed(column, draw) for name, column in table.items()}
            tables[benchmark] = changed
            scores += estimate(benchmarks.get(benchmark), "clean", changed, 200)
        about = {**base.report.environment, "parameters": 10**6 * (number + 1)}
        report = replace(base.report, estimates=tuple(scores), model=f"team/network-{number + 1}m", environment=about)
        run = folder / f"run-{number:03d}"
        # The pages of a run take long to make, and no comparison reads them.
        (run / "examples").mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            parquet(name, table, run / "examples" / file_name(name))
        put(run / "results.json", results(report, tables).encode())
        runs.append(str(run))
    return runs


@app.command()
def page() -> None:
    """Writes the tables of the page of the documentation."""
    PAGE.write_text(between(PAGE.read_text(), tables(json.loads(RESULT.read_text()), json.loads(ROWS.read_text()))))


def tables(many: dict[str, Any], rows: dict[str, Any]) -> str:
    """What was measured, in Markdown."""
    lines = ["| rows | tokens | processor, s | lm-eval, s | speed | memory, MB | lm-eval, MB | above ten rows, MB |"]
    lines.append("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for line in rows["lines"].values():
        ours = line["ours"]
        peer = line.get("lm_eval", {})
        cells = [f"{line['rows']:,}", f"{line['tokens']:,}", ours["cpu_s"], peer.get("cpu_s", "–")]
        cells += [line.get("speed_ratio", "–"), ours["peak_mb"], peer.get("peak_mb", "–")]
        cells.append(ours.get("above_ten_rows_mb", "–"))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| command | processor, s | peak memory, MB |", "| --- | ---: | ---: |"]
    titles = {
        "1 models": "one network",
        "2 models": "two equal networks",
        "3 models": "three equal networks",
    }
    for key, title in titles.items():
        cost = many["memory"][key]
        weights = many["memory"]["weights_mb"]
        lines.append(f"| {title}, {weights} MB of weights | {cost['cpu_s']} | {cost['peak_mb']} |")
    for key, cost in many.items():
        if key.startswith("all"):
            some = f", {cost['limit']} rows of each split" if cost["limit"] else ""
            title = key.replace("all", "all benchmarks", 1)
            lines.append(
                f"| {title}, {cost['benchmarks']} tables with {cost['rows']:,} rows{some} | {cost['cpu_s']} | "
                f"{cost['peak_mb']} |"
            )
    for command in ("compare", "leaderboard"):
        if "hundred" not in many:
            continue
        cost = many["hundred"][command]
        count = many["hundred"]["runs"]
        size = sum(many["hundred"]["rows"].values())
        lines.append(f"| `probes {command}` of {count} runs of {size:,} rows | {cost['cpu_s']} | {cost['peak_mb']} |")
    for command, seconds in many["startup"].items():
        if command not in ("machine", "note"):
            lines.append(f"| `{command}` | {seconds} | |")
    more = [many["memory"][f"peak of {count} above one, %"] for count in (2, 3)]
    lines += ["", f"Two and three equal networks need {more[0]} and {more[1]} % more memory than one."]
    alone = many.get("hundred", {})
    if alone.get("note") == ALONE:
        clock = [f"{alone[command]['wall_s']:.0f} s for `probes {command}`" for command in ("compare", "leaderboard")]
        lines += ["", f"On a machine without other work the clock shows {' and '.join(clock)} of {alone['runs']} runs."]
    printed = many["families"]
    lines += ["", f"The sweep of {printed['models']} networks prints:", ""]
    lines += ["```", *printed["first"]["printed"], "```", "", "The same command, given again:", ""]
    lines += ["```", *printed["again"]["printed"], "```"]
    return "\n".join(lines)


def _changed(column: np.ndarray[Any, Any], draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Log-probabilities with noise of a tenth of each; all else as it is."""
    if column.dtype.kind != "f" or not np.isfinite(column).any() or np.nanmax(column) >= 0:
        return column
    return np.asarray(column * (1 + draw.uniform(-0.1, 0.1, len(column))))


if __name__ == "__main__":
    app()
