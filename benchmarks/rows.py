"""Time and memory by the number of rows, beside lm-evaluation-harness: ``python -m benchmarks.rows``.

Made pairs of sentences are scored by a network of 0.1 million parameters on the processor, once by ``probes score``
with data, tables, intervals and pages, and once by the log-likelihoods of the harness alone, in batches of 64, over the
same rows of the same file. Each side is a process of its own. The run of ten rows has what does not depend on the
rows: interpreter, libraries and weights; the memory of the others is also given above it. Times are seconds of the
processor, which other work on the machine disturbs less than the clock. ``--rows 1000000 --no-harness`` is ours
alone.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.machine import describe, measure

RESULT = Path(__file__).with_name("rows.json")
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


def measured(folder: Path, rows: int, *, with_harness: bool) -> dict[str, Any]:
    """Both sides over so many rows."""
    data, model = folder / f"data-{rows}", folder / "model"
    made_data(data, rows)
    command = ["probes", "score", str(model), "--data", str(data), "--benchmarks", "unstereo", "--device", "cpu"]
    line: dict[str, Any] = {"rows": rows, "tokens": tokens_of(data, model)}
    line["ours"] = measure([sys.executable, "-m", *command, "--out", str(folder / f"run-{rows}")])
    if with_harness:
        line["lm_eval"] = measure([sys.executable, "-m", "benchmarks.rows", "--harness", str(data), str(model)])
    return line


def _relate(line: dict[str, Any], few: dict[str, Any]) -> None:
    """Adds what a side takes above the run of ten rows, and the ratios of both sides."""
    for side in ("ours", "lm_eval"):
        if side in line:
            seconds = line[side]["cpu_s"] - few[side]["cpu_s"]
            line[side]["above_ten_rows_mb"] = line[side]["peak_mb"] - few[side]["peak_mb"]
            # The start of a process varies by a second, so less than ten of them are no speed.
            if seconds > 10:
                line[side]["tokens_per_cpu_s"] = round(line["tokens"] / seconds)
    if "lm_eval" in line:
        line["whole_command_ratio"] = round(line["lm_eval"]["cpu_s"] / line["ours"]["cpu_s"], 2)
        line["memory_ratio"] = round(line["lm_eval"]["peak_mb"] / line["ours"]["peak_mb"], 2)
        speeds = [line[side].get("tokens_per_cpu_s") for side in ("ours", "lm_eval")]
        if all(speeds):
            line["speed_ratio"] = round(speeds[0] / speeds[1], 2)


def main(
    rows: Annotated[list[int] | None, typer.Option(help="Numbers of rows; repeatable.")] = None,
    no_harness: Annotated[bool, typer.Option("--no-harness", help="Measure ours alone.")] = False,
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
    known = json.loads(out.read_text()) if out.is_file() else {"lines": {}}
    lines = known["lines"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_model(folder / "model")
        for number in [FEW, *(rows or [1000, 100_000])]:
            lines[str(number)] = measured(folder, number, with_harness=not no_harness) | {"machine": describe("torch")}
            if number != FEW:
                _relate(lines[str(number)], lines[str(FEW)])
            known["about"] = "With other work beside; processor seconds of whole processes, less those of ten rows."
            out.write_text(json.dumps(known, indent=1) + "\n")
            print(number, lines[str(number)], flush=True)


if __name__ == "__main__":
    typer.run(main)
