"""Rows and data folders made on the spot, and a tokenizer of words, for tests of benchmarks and runs."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import t

from builders import datasets
from builders.files.manifest import ConfigEntry, Manifest, SplitEntry, file_sha256
from builders.files.write import content_digest
from builders.parsers.triplets import triplet
from builders.text.wording import STEREOTYPES
from scoring.asking import answering, language, run
from scoring.inference.tokens import Encoding
from scoring.inputs import prompts
from scoring.inputs.tables import Loaded, Rows
from scoring.statistics import intervals, stats
from scoring.types import BenchmarkContext, Group, Response


def encode(texts):
    """Words as tokens, in any case: what a benchmark gets from a tokenizer."""
    result = []
    for text in texts:
        words = list(re.finditer(r"\w+|[^\w\s]", text))
        ids = [sum(ord(c) * 31**n for n, c in enumerate(w.group().lower())) for w in words]
        result.append(Encoding(text, ids, [w.span() for w in words].copy))
    return result


def row(id_, config, kind="causal", split="test", **values):
    return {"id": id_, "config": config, "split": split, "kind": kind, "family": "", "encode": encode, **values}


def context(made):
    """The context of a row that :func:`row` made, whose kind, encode and so on are in the row."""
    return BenchmarkContext(**{f.name: made[f.name] for f in fields(BenchmarkContext) if f.name in made})


def pair(id_, config, biased, unbiased, kind="causal", **values):
    return row(id_, config, kind, **triplet(biased, unbiased), **values)


def one_ask(benchmark, profile, made):
    (request,) = benchmark.requests(profile, made, context(made))
    return request


def replied(made, *logprobs, **more):
    """The responses to the only request of a row: log-probabilities by option."""
    return {made["id"]: Response(made["id"], tuple(map(tuple, logprobs)), **more)}


def without_language(requests, on_response):
    """The requests but those that measure language, which are answered: a sentence is likelier than its other order."""
    own = {request.id for request in language.requests()}
    for request in requests:
        if request.id in own:
            on_response(Response(request.id, ((-10.0,), (-20.0,))))
        else:
            yield request


def version_of(name: str) -> str:
    """The version of a data set that the project has; of another one some version."""
    return datasets.get(name).version if name in datasets.names() else "1.2.3"


def data_set(folder: Path, name: str, configs: dict[tuple[str, str], list[dict]]) -> Path:
    """A built data set: rows by config and split, with the manifest that describes them."""
    entries: dict[str, dict[str, SplitEntry]] = {}
    for (config, split), rows in configs.items():
        table = pa.Table.from_pylist(rows)
        path = folder / name / "data" / config / f"{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        file = str(path.relative_to(folder / name))
        size = path.stat().st_size
        entry = SplitEntry(file, len(rows), size, file_sha256(path), content_digest(table), {})
        entries.setdefault(config, {})[split] = entry
    described = {c: ConfigEntry(c, "", "clean", "MIT", "", "", {}, [], {}, [], s) for c, s in entries.items()}
    left_out = {"left": "its source is not at hand."}
    manifest = Manifest(name, version_of(name), "", "", "en", [], "", [], described, left_out, {}, {})
    (folder / name / "manifest.json").write_text(manifest.json())
    return folder


def made_gest(folder: Path, sentences: int = 32) -> Path:
    """The built data set ``gest`` with so many sentences, whose stereotypes take turns."""
    rows = []
    for number in range(sentences):
        texts = {"sentence": f"I am a sentence {number}.", "mended": f"I am sentence {number}."}
        stereotype = number % len(STEREOTYPES)
        facts = {"name": STEREOTYPES[stereotype], "about": "women" if stereotype < 7 else "men"}
        rows.append({"id": f"gest-{number:04d}", **texts, "stereotype": stereotype + 1, **facts})
    return data_set(folder, "gest", {("sentences", "test"): rows})


class Memory:
    """A store that forgets."""

    def __init__(self):
        self.kept = {}

    def get(self, request):
        return self.kept.get(request.id)

    def put(self, request, response):
        self.kept[request.id] = response


def scored(model, benchmark, rows, profile="clean", prompt="plain", **settings):
    """The table of a benchmark over rows, by the model."""
    by_split = {}
    for item in rows:
        bare = {k: v for k, v in item.items() if k not in ("kind", "encode")}
        by_split.setdefault((item["config"], item["split"]), []).append(bare)
    splits = []
    for (config, split), some in by_split.items():
        table = pa.Table.from_pylist(some)
        splits.append(Loaded(f"made/{config}/{split}", "1", Rows(table, {}), table))
    settings = {"decoding": answering.decoding(prompts.get(prompt)), **settings}
    questions = answering.questions(benchmark, splits, profile, prompts.get(prompt), model)
    requests = [request for question in questions for request in question.requests.values()]
    responses = answering.answer(model, requests, Memory(), settings)
    return run.table(profile, questions, responses)


def paired(metric, one, other, mask=None, clusters=None, resamples=10_000, seed=0):
    """The difference of a metric between two tables, by default over all rows, each row its own cluster."""
    size = len(next(iter(one.values())))
    group = Group("", np.ones(size, bool) if mask is None else mask)
    names = np.arange(size) if clusters is None else clusters
    return stats.compare([(group, metric)], one, other, names, resamples=resamples, seed=seed)[0]


def estimate(metric, table, mask=None, clusters=None, resamples=stats.RESAMPLES, seed=0):
    """One metric with its interval, by default over all rows, each row its own cluster."""
    rows = len(next(iter(table.values())))
    group = Group("", np.ones(rows, bool) if mask is None else mask)
    clusters = np.arange(rows) if clusters is None else clusters
    return stats.measure([(group, metric)], table, clusters, resamples=resamples, seed=seed)[0]


def lowest_end(correlation, clusters):
    """The lower end of the interval of a correlation over clusters that show no noise.

    Then only the pseudo clusters without a correlation count: the correlation is that of all clusters with them, and
    each has an influence of 1 - r or -1 - r divided by the number of clusters.
    """
    every = clusters + intervals.PSEUDO
    shrunk = correlation * clusters / every
    error = np.sqrt(intervals.PSEUDO * (1 + shrunk**2)) / every
    return shrunk - t.ppf(0.975, clusters - 1) * error
