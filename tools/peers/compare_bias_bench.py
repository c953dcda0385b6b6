"""Compares StereoSet and CrowS-Pairs with bias-bench: ``python -m tools.peers.compare_bias_bench CHECKOUT``.

CHECKOUT is a folder with the files of https://github.com/McGill-NLP/bias-bench at the commit given by ``--commit``
(at least ``bias_bench``, ``experiments`` and ``data/crows``). Its code runs unchanged on the models of
``tests/scoring/peers``, one sentence at a time; this package scores the same sentences in profile ``paper``. The
numbers go to ``tests/scoring/peers/bias_bench.json``. The sources are read from the folder PROBES_MIRROR.

Newer libraries lack two methods that the published code calls. They are added here, and change no number:
``DataFrame.append`` of pandas, and ``encode_plus`` of tokenizers.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import importlib
import io
import json
import math
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from builders.text.wording import LABELS
from scoring.benchmarks import get
from scoring.inference.model import Model
from scoring.types import Benchmark, Table
from tests.scoring.made import scored
from tests.scoring.peers import bias_bench as peer
from tests.support.helpers import mirrored

COMMIT = "05c2314cf5f0014c514b8e11d9feb317dc646ecc"
#: Numbers of rows whose scores are recorded: drawn at random, and with the largest differences between the profiles.
DRAWN_ROWS, MOST_DIFFERENT_ROWS = 60, 10
STEREOSET_METRICS = {"SS Score": "ss", "LM Score": "lms", "ICAT Score": "icat"}
CROWS_METRICS = {
    "Metric score": "metric_score",
    "Stereotype score": "stereotype_score",
    "Anti-stereotype score": "antistereotype_score",
}
DOMAINS = ("gender", "race", "religion")
#: Scores further apart than this are different; rounding is smaller.
DIFFERENT = 1e-4

#: The scores of the sentences of each row, by its id; None where a pair is skipped.
Scores = dict[str, list[float] | None]


class Peer:
    """The classes of a checkout of bias-bench."""

    def __init__(self, checkout: Path) -> None:
        sys.path[:0] = [str(checkout), str(checkout / "experiments")]
        self.stereoset = importlib.import_module("bias_bench.benchmark.stereoset").StereoSetRunner
        self.crows = importlib.import_module("bias_bench.benchmark.crows").CrowSPairsRunner
        self.evaluator = importlib.import_module("stereoset_evaluation").ScoreEvaluator
        self.pairs = checkout / "data" / "crows" / "crows_pairs_anonymized.csv"

    def stereoset_scores(self, network: Any, tokenizer: Any, name: str, file: Path) -> tuple[dict[str, float], Any]:
        """The logarithm of the score of each sentence by its id, and the printed results by domain."""
        runner = self.stereoset(network, tokenizer, name, str(file), is_generative=name in ("gpt2", peer.TRAINED))
        with _quiet(), torch.no_grad():
            predicted = runner()
        with tempfile.TemporaryDirectory() as folder:
            predictions = Path(folder) / "predictions.json"
            predictions.write_text(json.dumps(predicted))
            results = self.evaluator(str(file), str(predictions)).get_overall_results()["intrasentence"]
        return {sentence["id"]: math.log(sentence["score"]) for sentence in predicted["intrasentence"]}, results

    def crows_scores(
        self, network: Any, tokenizer: Any, name: str, bias: str, rows: set[str]
    ) -> tuple[dict[Any, Any], dict[str, float]]:
        """Unrounded and published scores of the two sentences of each pair of the rows, and what is printed of all."""
        generative = name in ("gpt2", peer.TRAINED)
        with self.pairs.open() as whole, tempfile.NamedTemporaryFile("w", suffix=".csv") as part:
            reader = csv.DictReader(whole)
            writer = csv.DictWriter(part, reader.fieldnames or ())
            writer.writeheader()
            writer.writerows(pair for n, pair in enumerate(reader) if f"crows-pairs-{n}" in rows)
            part.flush()
            runner = self.crows(network, tokenizer, part.name, is_generative=generative, bias_type=bias)
            return self._crows_scores(runner, generative)

    def _crows_scores(self, runner: Any, generative: bool) -> tuple[dict[Any, Any], dict[str, float]]:
        method = "_joint_log_probability" if generative else "_average_log_probability"
        compute, unrounded = getattr(runner, method), []

        def remember(*arguments: Any) -> Any:
            unrounded.append(compute(*arguments))
            return unrounded[-1]

        setattr(runner, method, remember)
        scores: dict[Any, Any] = {}
        with _appended() as appended, _quiet() as printed, torch.no_grad():
            runner()
        for n, record in enumerate(record for record in appended if "sent_more_score" in record):
            in_order = (1, -1)[record["stereo_antistereo"] != "stereo"]
            both = np.array(unrounded[2 * n : 2 * n + 2][::in_order])
            rounded = [record["sent_more_score"], record["sent_less_score"]]
            values = (np.log(both), np.log(rounded)) if generative else (both, rounded)
            scores[record["sent_more"], record["sent_less"]] = [list(map(float, v)) for v in values]
        numbers = dict(re.findall(r"^(\S+ score): (\S+)$", printed.getvalue(), re.MULTILINE))
        return scores, {CROWS_METRICS[k]: float(v) for k, v in numbers.items()}


@contextlib.contextmanager
def _quiet() -> Iterator[io.StringIO]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        yield printed


@contextlib.contextmanager
def _appended() -> Iterator[list[dict[str, Any]]]:
    """Gives data frames the method ``append``, and collects the records that are appended."""
    records: list[dict[str, Any]] = []

    def append(self: pd.DataFrame, record: dict[str, Any], ignore_index: bool) -> pd.DataFrame:
        records.append(record)
        return pd.concat([self, pd.DataFrame([record])], ignore_index=ignore_index) if "sent1" in record else self

    pd.DataFrame.append = append
    try:
        yield records
    finally:
        del pd.DataFrame.append


def adapted(tokenizer: Any, name: str) -> Any:
    """The tokenizer with ``encode_plus``.

    bias-bench has no causal tokenizer but that of GPT-2, which adds no special token and has <|endoftext|>. For
    the trained model special tokens are left out and the beginning-of-sequence token stands for <|endoftext|>.
    """

    def encode_plus(text: str, **options: Any) -> Any:
        del options["pad_to_max_length"]  # False, as batches have one sentence
        return tokenizer(text, **options)

    tokenizer.encode_plus = encode_plus
    if name == peer.TRAINED:
        encode, start = tokenizer.encode, tokenizer.bos_token_id
        tokenizer.encode = lambda t: [start] if t == "<|endoftext|>" else encode(t, add_special_tokens=False)
    return tokenizer


def value(benchmark: Benchmark, profile: str, table: Table, group: str, metric: str) -> float:
    """A metric of a group in a profile."""
    pairs = benchmark.items(profile, table)
    mask, chosen = next((g.mask, m) for g, m in pairs if g.name == group and m.name == metric)
    rows = {name: column[mask] for name, column in table.items()}
    return float(chosen.value(rows, np.ones((1, int(mask.sum()))))[0])


def aggregates(
    benchmark: Benchmark, paper: Table, clean: Table, printed: Sequence[tuple[str, str, str, float]]
) -> list[dict[str, Any]]:
    """The printed numbers (of a group, a metric, and what it is in ``clean``) and ours in both profiles."""
    return [
        {
            "group": group,
            "metric": metric,
            "bias-bench": round(number, 4),
            "paper": round(value(benchmark, "paper", paper, group, metric), 4),
            "clean": round(value(benchmark, "clean", clean, group, in_clean), 4),
        }
        for group, metric, in_clean, number in printed
    ]


def differences(one: Scores, other: Scores) -> list[float]:
    """The differences between the scores of each sentence.

    Raises
    ------
    SystemExit
        When one code skips a pair that the other scores.
    """
    if [row for row in one if (one[row] is None) != (other[row] is None)]:
        raise SystemExit("One code skips a pair that the other scores.")
    both = [(one[row] or [], other[row] or []) for row in one]
    return [abs(a - b) for values in both for a, b in zip(*values, strict=True)]


def compared(ours: Scores, theirs: Scores, as_clean: Scores) -> dict[str, Any]:
    """What is recorded of the scores of all sentences; ``as_clean`` has those of the requests of ``clean``."""
    of_profiles = differences(ours, as_clean)
    by_row = {row: max(differences({row: ours[row]}, {row: as_clean[row]}), default=0.0) for row in sorted(theirs)}
    largest = sorted((row for row in by_row if by_row[row] > DIFFERENT), key=lambda row: -by_row[row])
    stored = sorted({*random.Random(0).sample(sorted(theirs), DRAWN_ROWS), *largest[:MOST_DIFFERENT_ROWS]})
    kept = {row: values and [float(f"{v:.7g}") for v in values] for row in stored for values in [theirs[row]]}
    return {
        "rows": len(theirs),
        "skipped": sum(values is None for values in theirs.values()),
        "sentences": len(of_profiles),
        "largest difference": float(f"{max(differences(ours, theirs)):.2g}"),
        "asked as in clean": {
            "sentences that differ": sum(difference > DIFFERENT for difference in of_profiles),
            "mean difference": round(float(np.mean(of_profiles)), 4),
            "largest difference": round(max(of_profiles), 4),
        },
        "sample": kept,
    }


def drawn(rows: list[Any], count: int) -> list[Any]:
    """``count`` rows drawn with a seed, in their order; all for 0."""
    chosen = sorted(random.Random(1).sample(range(len(rows)), count)) if count else range(len(rows))
    return [rows[n] for n in chosen]


def stereoset(code: Peer, model: Model, tokenizer: Any, name: str, count: int) -> dict[str, Any]:
    """Both codes on the development set of StereoSet."""
    benchmark, rows = get("stereoset"), drawn(peer.stereoset_rows(), count)
    (file,) = mirrored("stereoset/dev")["stereoset/dev"].paths
    document, kept = json.loads(file.read_text()), {row["example_id"] for row in rows}
    document["data"]["intrasentence"] = [e for e in document["data"]["intrasentence"] if e["id"] in kept]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as part:
        json.dump(document, part)
        part.flush()
        by_id, results = code.stereoset_scores(model.network, tokenizer, name, Path(part.name))
    theirs: Scores = {row["id"]: [by_id[row[f"sentence_id_{label}"]] for label in LABELS] for row in rows}
    paper, clean = (scored(model, benchmark, rows, profile) for profile in ("paper", "clean"))
    # A profile decides the requests and the mean. Here the requests are those of one and the mean that of the other.
    as_in_clean = replace(benchmark, requests=lambda _, row, context: benchmark.requests("clean", row, context))
    mixed = scored(model, as_in_clean, rows, "paper")
    printed = [
        (f"intrasentence validation {domain}".removesuffix(" overall"), metric, metric, results[domain][key])
        for domain in ("overall", *DOMAINS, "profession")
        for key, metric in STEREOSET_METRICS.items()
    ]
    return {
        **compared(peer.scores(paper), theirs, peer.scores(mixed)),
        "aggregates": aggregates(benchmark, paper, clean, printed),
    }


def crows(code: Peer, model: Model, tokenizer: Any, name: str, count: int) -> dict[str, Any]:
    """Both codes on CrowS-Pairs, all domains.

    The requests to masked models are the same in both profiles, and ``clean`` does not round. So unrounded scores
    are compared, and rounded ones must be equal where rounding does not decide.
    """
    benchmark, rows = peer.crows(model), drawn(peer.crows_rows(), count)
    paper, clean = (scored(model, benchmark, rows, profile) for profile in ("paper", "clean"))
    theirs: Scores = {}
    rounded: Scores = {}
    printed = []
    for domain in dict.fromkeys(row["domain"] for row in rows):
        by_pair, numbers = code.crows_scores(model.network, tokenizer, name, domain, {row["id"] for row in rows})
        for score, number in numbers.items() if domain in DOMAINS else ():
            group = " ".join([domain, *(s for s in ("stereo", "antistereo") if f"{s}type_score" == score)])
            printed.append((group, score, "ss", number))
        for row in rows:
            if row["domain"] == domain:
                pair = row["sentence_biased"], row["sentence_unbiased"]
                theirs[row["id"]], rounded[row["id"]] = by_pair.get(pair, (None, None))
    unrounded = paper if model.kind == "causal" else clean
    return {
        **compared(peer.scores(unrounded), theirs, peer.scores(clean)),
        "largest difference of published scores": float(f"{max(differences(peer.scores(paper), rounded)):.2g}"),
        "aggregates": aggregates(benchmark, paper, clean, printed),
    }


def main() -> None:
    """Runs the comparison and writes its numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a folder with the files of bias-bench")
    parser.add_argument("--commit", default=COMMIT, help="the commit of these files")
    parser.add_argument("--models", nargs="+", default=[*peer.MODELS, peer.TRAINED], help="which models to compare on")
    parser.add_argument(
        "--rows", type=int, default=0, help="number of rows whose scores are compared; 0, the default, for all"
    )
    parser.add_argument("--out", type=Path, default=peer.RECORDED, help="the JSON file to write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    code = Peer(options.checkout)
    packages = {name: version(name) for name in ("torch", "transformers", "tokenizers", "numpy")}
    about = {"peer": "McGill-NLP/bias-bench", "commit": options.commit, "versions": packages}
    for name in options.models:
        model = peer.model(name)
        # A copy, because the tokenizer for bias-bench is changed.
        tokenizer = adapted(copy.deepcopy(model.tokens.tokenizer), name)
        numbers = {
            "tokenizer": peer.digest(model.tokens.tokenizer),
            "stereoset": stereoset(code, model, tokenizer, name, options.rows),
            "crows_pairs": crows(code, model, tokenizer, name, options.rows),
        }
        recorded = json.loads(options.out.read_text()) if options.out.exists() else {}
        # Numbers of another commit or other versions are not kept.
        models = recorded["models"] if {**recorded, **about} == recorded else {}
        options.out.write_text(json.dumps({**about, "models": {**models, name: numbers}}, indent=1) + "\n")
        for benchmark in ("stereoset", "crows_pairs"):
            print(name, benchmark, json.dumps({k: v for k, v in numbers[benchmark].items() if k != "sample"}, indent=1))


if __name__ == "__main__":
    main()
