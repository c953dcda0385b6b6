"""Time and memory by the number of rows, beside lm-evaluation-harness: ``python -m benchmarks.rows``.

Made pairs of sentences are scored by a network of 0.1 million parameters on the processor, once by ``probes score``
with data, tables, intervals and pages, and once by the log-likelihoods of the harness alone, in batches of 64, over the
same rows of the same file. Each side is a process of its own. The run of ten rows has what does not depend on the
rows: interpreter, libraries and weights; the memory of the others is also given above it. Times are seconds of the
processor, which other work on the machine disturbs less than the clock. Each side computes on one thread.
``--side ours`` and ``--side lm_eval`` measure one side and leave the figures of the other as they are.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.machine import RESULTS, describe, measure

RESULT = RESULTS / "rows.json"
SIDES = ("ours", "lm_eval")
FEW = 10
SUBJECTS = 1000
VERBS = "saw heard met liked found called knew helped".split()


def made_data(folder: Path, rows: int) -> None:
    """A built data set with so many pairs of sentences, written in parts."""
    from builders.files.manifest import ConfigEntry, Manifest, SplitEntry, file_sha256

    draw = random.Random(0)
    path = folder / "unstereo" / "data" / "ours-5" / "test.parquet"
    path.parent.mkdir(parents=True)
    writer = None
    for start in range(0, rows, 10_000):
        part = []
        for number in range(start, min(start + 10_000, rows)):
            subject = f"person {draw.randrange(SUBJECTS)}"
            rest = f"{draw.choice(VERBS)} {subject} of group {number}."
            sentences = {"sentence_female": f"She {rest}", "sentence_male": f"He {rest}"}
            part.append({"id": f"row-{number}", "word": subject, **sentences, "max_pmi_diff": draw.random()})
        table = pa.Table.from_pylist(part)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer
    writer.close()
    file = path.relative_to(folder / "unstereo").as_posix()
    split = SplitEntry(file, rows, path.stat().st_size, file_sha256(path), "made", {})
    config = ConfigEntry("ours-5", "", "clean", "MIT", "", "", {}, [], {}, [], {"test": split})
    manifest = Manifest("unstereo", "1.0.0", "", "", "en", [], "", [], {"ours-5": config}, {}, {}, {})
    (folder / "unstereo" / "manifest.json").write_text(manifest.json())


def made_model(folder: Path) -> None:
    """A small network with random weights, and the tokenizer of the bundled model."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from scoring.inference.load_options import BUNDLED

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    network = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=256, **sizes))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def harness(data: Path, model: Path) -> None:
    """The log-likelihoods of all sentences by the harness."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    language_model = HFLM(pretrained=str(model), device="cpu", batch_size=64)
    requests: list[Instance] = []
    rows = pq.read_table(data / "unstereo" / "data" / "ours-5" / "test.parquet").to_pylist()
    for row in rows:
        for name in ("sentence_female", "sentence_male"):
            arguments = ("", row[name])
            requests.append(Instance("loglikelihood", doc=row, arguments=arguments, idx=len(requests)))
    print(sum(value for value, _ in language_model.loglikelihood(requests, disable_tqdm=True)))


def tokens_of(data: Path, model: Path) -> int:
    """The tokens of all sentences."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    count = 0
    for batch in pq.ParquetFile(data / "unstereo" / "data" / "ours-5" / "test.parquet").iter_batches(batch_size=10_000):
        for name in ("sentence_female", "sentence_male"):
            encoded = tokenizer(batch.column(name).to_pylist(), add_special_tokens=False)["input_ids"]
            count += sum(map(len, encoded))
    return count


def measured(folder: Path, rows: int, side: str) -> dict[str, float]:
    """Time and memory of a side over so many rows."""
    data, model = folder / f"data-{rows}", folder / "model"
    if side == "lm_eval":
        return measure([sys.executable, "-m", "benchmarks.rows", "--harness", str(data), str(model)])
    command = ["probes", "score", str(model), "--data", str(data), "--benchmarks", "unstereo", "--device", "cpu"]
    return measure([sys.executable, "-m", *command, "--out", str(folder / f"run-{rows}")])


def _relate(line: dict[str, Any], few: dict[str, Any]) -> None:
    """Adds what a side takes above the run of ten rows, and the ratios of both sides."""
    for side in SIDES:
        if side in line and side in few:
            seconds = line[side]["cpu_s"] - few[side]["cpu_s"]
            line[side]["above_ten_rows_mb"] = line[side]["peak_mb"] - few[side]["peak_mb"]
            # The start of a process varies by a second, so less than ten of them are no speed.
            if seconds > 10:
                line[side]["tokens_per_cpu_s"] = round(line["tokens"] / seconds)
    if all(side in line for side in SIDES):
        line["whole_command_ratio"] = round(line["lm_eval"]["cpu_s"] / line["ours"]["cpu_s"], 2)
        line["memory_ratio"] = round(line["lm_eval"]["peak_mb"] / line["ours"]["peak_mb"], 2)
        speeds = [line[side].get("tokens_per_cpu_s") for side in SIDES]
        if all(speeds):
            line["speed_ratio"] = round(speeds[0] / speeds[1], 2)


def main(
    rows: Annotated[list[int] | None, typer.Option(help="Numbers of rows; repeatable.")] = None,
    side: Annotated[list[str] | None, typer.Option(help=f"Of {' and '.join(SIDES)}; repeatable, both if none.")] = None,
    peer: Annotated[
        tuple[Path, Path] | None, typer.Option("--harness", help="Data and model of one measurement.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where the result is written; lines of other numbers of rows stay.")
    ] = RESULT,
) -> None:
    """Measure and write the table."""
    if peer:
        harness(*peer)
        return
    unknown = set(side or ()) - set(SIDES)
    if unknown:
        raise typer.BadParameter(f"A side is {' or '.join(SIDES)}, not {', '.join(sorted(unknown))}.")
    os.environ["OMP_NUM_THREADS"] = "1"
    known = json.loads(out.read_text()) if out.is_file() else {"lines": {}}
    known["about"] = "With other work beside; processor seconds of whole processes, less those of ten rows."
    lines = known["lines"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_model(folder / "model")
        for number in [FEW, *(rows or [1000, 100_000])]:
            data = folder / f"data-{number}"
            made_data(data, number)
            line = lines.setdefault(str(number), {"rows": number})
            line["tokens"] = tokens_of(data, folder / "model")
            for one in side or SIDES:
                line[one] = measured(folder, number, one)
                line["machine"] = describe("torch")
                if number != FEW:
                    _relate(line, lines[str(FEW)])
                # A side of many rows takes long, so each is written as soon as it is there.
                out.write_text(json.dumps(known, indent=1) + "\n")
                print(number, one, line[one], flush=True)


if __name__ == "__main__":
    typer.run(main)
