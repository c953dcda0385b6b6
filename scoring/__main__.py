"""Scores a language model: ``python -m scoring MODEL``."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from scoring import benchmarks
from scoring.prompts import get
from scoring.stats import RESAMPLES
from scoring.tables import DEFAULT
from scoring.terminal import catalogue, speed, summary, tell, want
from scoring.types import Benchmark, ScoringError

if TYPE_CHECKING:
    from scoring.model import Model

#: Models that come with the project.
BUNDLED = {name: Path(__file__).parent / "data" / name for name in ("tiny-causal",)}


class Profile(StrEnum):
    """Definitions that a run follows."""

    clean = "clean"
    paper = "paper"


class Quantize(StrEnum):
    """Bits of quantized weights."""

    four = "4bit"
    eight = "8bit"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a model is to be loaded, by the options of the same names."""

    model: str
    revision: str | None
    adapter: str | None
    dtype: str
    device: str | None
    quantize: str | None
    trust_remote_code: bool
    allow_pickle: bool
    exact: bool

    def load(self) -> Model:
        """The model; ``auto`` as device spreads it over all there are."""
        try:
            from scoring.model import load
        except ModuleNotFoundError as error:
            raise ScoringError(
                f"Scoring a model needs the package {error.name}; install it with pip install "
                "'gender-neutral-probes[score]'."
            ) from None
        from transformers.utils import logging

        # Its bars end before anything is asked, and stay on the screen.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        spread = self.device == "auto"
        found = load(
            BUNDLED.get(self.model, self.model),
            revision=self.revision,
            adapter=self.adapter,
            dtype=self.dtype,
            device=None if spread else self.device,
            device_map="auto" if spread else None,
            quantize="4bit" if self.quantize == "4bit" else "8bit" if self.quantize else None,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
            exact=self.exact,
        )
        found.name = self.model
        return found


@dataclass(frozen=True, slots=True)
class Settings:
    """What is scored and how, by the options of the same names."""

    benchmarks: str
    data: str
    out: Path
    profile: str
    prompt: str
    batch_tokens: int | None
    limit: int | None
    truncate: bool
    resamples: int


def chosen(names: str) -> list[Benchmark]:
    """The benchmarks of a list with commas, in its order; all for an empty one.

    >>> [b.name for b in chosen("unstereo, neutral,unstereo")]
    ['unstereo', 'neutral']
    """
    parts = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    return [benchmarks.get(name) for name in parts or benchmarks.names()]


def default_folder(model: str, *settings: str) -> Path:
    """Where a run goes when not told: below ``runs``, under a name that is safe on every system.

    >>> default_folder("org/a model", "clean").as_posix(), default_folder("../x|y", "clean").as_posix()
    ('runs/a-model-clean-a229caf1', 'runs/x-y-clean-fe6e64f1')
    """
    whole = "\x1f".join((model, *settings))
    mark = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:8]
    last = re.split(r"[\\/]", model.rstrip("/\\"))[-1]
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, (last, *settings))))
    return Path("runs") / f"{safe.strip('-.')[:80]}-{mark}"


def score(wanted: Wanted, settings: Settings, console: Console, errors: Console) -> None:
    """One run: data first, since a model takes long to load, then questions, report and summary."""
    prompt = get(settings.prompt)
    picked = chosen(settings.benchmarks)
    from scoring import report, run
    from scoring.asking import key
    from scoring.store import Store

    parts = run.read(picked, settings.data, settings.profile, settings.limit, named=bool(settings.benchmarks))
    with errors.status(f"Loading {wanted.model} …"):
        model = wanted.load()
    lacking = [missing.name for part in parts for missing in part.lacking]
    parts, remarks = run.suited(parts, model.kind, wanted.model, named=bool(settings.benchmarks))
    with Store(settings.out / "replies", key(model, prompt, truncate=settings.truncate)) as store:
        result = run.run(
            model,
            parts,
            store,
            profile=settings.profile,
            prompt=prompt,
            batch_tokens=settings.batch_tokens,
            truncate=settings.truncate,
            resamples=settings.resamples,
            console=errors,
        )
    report.write(settings.out, result.report, result.tables, {p.benchmark.name: p.benchmark.validity for p in parts})
    for part in parts:
        console.print(summary(part.benchmark.name, result.report))
    tell(console, remarks + want(lacking, settings.data))
    tell(console, [speed(result.report), f"The report is {settings.out / 'report.html'}; all numbers are beside it."])


def main(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder or a name on the Hub; tiny-causal comes with the project. With --compare "
            "also the folder of a run.",
        ),
    ] = "",
    names: Annotated[
        str, typer.Option("--benchmarks", metavar="A,B", help="Benchmarks (see --list); all that suit by default.")
    ] = "",
    data: Annotated[
        str, typer.Option(metavar="FOLDER|ORG", help="Built data sets: a folder, or an organisation of the Hub.")
    ] = DEFAULT,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; below runs by default.")] = None,
    profile: Annotated[Profile, typer.Option(help="Our own definitions, or the published ones.")] = Profile.clean,
    prompt: Annotated[str, typer.Option(metavar="NAME", help="How questions are put (see --list).")] = "plain",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the Hub.")] = None,
    adapter: Annotated[str | None, typer.Option(help="A PEFT adapter, as a folder or a name on the Hub.")] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …, or auto for all there are.")] = None,
    quantize: Annotated[Quantize | None, typer.Option(help="Load weights in 4 or 8 bits (bitsandbytes).")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens of a batch.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="float32, one sequence at a time: bit for bit repeatable, and slow.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many rows of each split only.")] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut texts longer than the context window, and mark their rows.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model (pin its --revision).")
    ] = False,
    allow_pickle: Annotated[
        bool,
        typer.Option("--allow-pickle", help="Read pickled weights, which can run code, where there are no others."),
    ] = False,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples.")] = RESAMPLES,
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Print paired differences from an earlier run.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Tell each benchmark and prompt in a line, and stop.")] = False,
) -> None:
    """Score MODEL on the benchmarks and write a report with intervals.

    A run that was interrupted goes on where it stopped when it is started again with the same options.
    Exit status: 1 when something cannot be done, 2 when data is missing or an option is wrong.
    """
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console = Console(width=160)
    wanted = Wanted(model, revision, adapter, dtype, device, quantize, trust_remote_code, allow_pickle, exact)
    try:
        if show:
            tell(console, catalogue())
            return
        if not model:
            raise typer.BadParameter("Name a model, or ask for --list.")
        folder = Path(model)
        if not (compare and (folder / "results.json").is_file()):
            folder = out or default_folder(model, profile, prompt, adapter or "", dtype, quantize or "", revision or "")
            known = Settings(names, data, folder, profile, prompt, batch_tokens, limit, truncate, resamples)
            score(wanted, known, console, errors)
        if compare:
            from scoring.compare import lines, runs

            tell(console, lines(runs(folder, compare, resamples)))
    except ScoringError as error:
        tell(errors, [f"error: {error}"])
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        told = f"{error.filename or 'A file'} cannot be used ({error.strerror or type(error).__name__})"
        tell(errors, [f"error: {told}; give a name or a folder that can be read and written."])
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        tell(errors, ["Interrupted; start the same command again to go on."])
        raise typer.Exit(130) from None


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    app(prog_name="python -m scoring")
