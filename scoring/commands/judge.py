"""The command ``probes judge``: texts for people to judge, and what their answers say."""

import json
import math
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards.common.files import put_all
from cards.common.options import ended, group
from cards.common.stored import first_fault
from cards.common.terminal import show, text_table
from scoring.judge import KEY, PAGE, QUESTIONS, TEXTS, Judgement, Key, answers_of, files, read, sample
from scoring.types import ScoringError

app = group(help="Have people judge texts: write a sample for them, and read their answers.")
Asked = StrEnum("Asked", list(QUESTIONS))  # type: ignore[misc]  # the names are those of the questions
_FRIEND = Asked("friend")


@app.command("sample")
def write(
    source: Annotated[Path, typer.Argument(help="A run of the benchmark neutral, or a table (CSV, Excel, Parquet).")],
    out: Annotated[Path, typer.Option(help="Folder of the files.")],
    question: Annotated[Asked, typer.Option(help="What people are asked of each text.")] = _FRIEND,
    text: Annotated[str, typer.Option(help="Column with the texts; of a run the prompt and what follows.")] = "text",
    stratum: Annotated[str, typer.Option(help="Column of which each value has as many texts.")] = "",
    machine: Annotated[str, typer.Option(help="Column with what a program said, to count its errors.")] = "",
    each: Annotated[int, typer.Option(help="The highest number of texts of a stratum.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
) -> None:
    """Write texts for people: a table, a page that needs no server, and the key.

    The order is drawn, and nothing says what a program thought. Give judges the table or the page, not the key.
    """
    from scoring.inputs.prompt_file import frame_of_file

    with ended(Console(stderr=True), ScoringError):
        is_run = (source / "results.json").is_file()
        frame = frame_of_file(source / "examples" / "neutral.parquet" if is_run else source)
        if is_run:
            frame = frame[frame["text"].notna()]
            frame = frame.assign(text=frame["prompt"] + frame["text"])
            stratum, machine = stratum or "gender_class", machine or "gender_class"
        texts, key = sample(frame, str(question), text, stratum, machine, each, seed, source.name)
        put_all(out, files(texts, key), ScoringError)
        of_strata = ", ".join(f"{key.strata.count(name)} of {size:,} {name}" for name, size in key.sizes.items())
        names = ", ".join(QUESTIONS[question].answers)
        lines = [
            f"{len(texts)} texts: {of_strata}.",
            f"For judges: {out / PAGE} (in a browser) or {out / TEXTS} (column answer: {names}).",
            f"Keep {out / KEY} to yourself. Next: probes judge read {out} ANSWERS.csv OTHERS.csv",
        ]
        show(Console(), lines)


@app.command("read")
def show_answers(
    folder: Annotated[Path, typer.Argument(help="Folder that judge sample wrote.")],
    answers: Annotated[list[Path], typer.Argument(metavar="ANSWERS...", help="A file of answers for each judge.")],
) -> None:
    """Say how far judges agree, the score that follows from their answers, and how often the program was wrong."""
    import pydantic

    with ended(Console(stderr=True), ScoringError):
        path = folder / KEY
        try:
            key = pydantic.TypeAdapter(Key).validate_json(path.read_bytes())
        except OSError:
            raise ScoringError(f"{folder} has no {KEY}; give the folder that probes judge sample wrote.") from None
        except pydantic.ValidationError as error:
            raise ScoringError(f"{path} is not a key of this version ({first_fault(error)}).") from None
        judgement = read([answers_of(file, key) for file in answers], key)
        put_all(folder, {"judgement.json": _json(judgement)}, ScoringError)
        console = Console()
        show(console, _sentences(judgement, len(key.rows)))
        rows = []
        for share in judgement.shares:
            program = "" if math.isnan(share.machine) else f"{share.machine:.1f}"
            rows.append([share.name, f"{share.value:.1f} [{share.low:.1f}, {share.high:.1f}]", program])
        console.print(text_table(["answer", "% of all texts [95 % interval]", "% by the program"], rows))
        if not any(share.name == "error" for share in judgement.shares):
            show(console, ["No program said anything of these texts, so it has no error rate."])


def _json(judgement: Judgement) -> bytes:
    facts = json.dumps(asdict(judgement), indent=1).replace("NaN", "null")
    return f"{facts}\n".encode()


def _sentences(judgement: Judgement, texts: int) -> list[str]:
    lines = [f"{judgement.judges} judges answered {judgement.texts} of {texts} texts."]
    if math.isnan(judgement.alpha):
        lines.append("Krippendorff's α is not defined: no text has two answers, or all answers are equal.")
    else:
        interval = f"[{judgement.low:.2f}, {judgement.high:.2f}]"
        lines.append(f"Krippendorff's α is {judgement.alpha:.2f} {interval}: 1 is full agreement, 0 that of chance.")
    return lines
