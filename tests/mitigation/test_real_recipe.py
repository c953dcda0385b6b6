"""A short training of ``fine_tuning`` on a real model: the stereotype of other jobs falls, stated gender stays."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean

import pytest
from rich.console import Console

from mitigation.adapters import temporary
from mitigation.editing import jobs
from mitigation.recipe import TrainingData
from mitigation.recipes import get
from scoring.benchmarks import stated_gender
from scoring.inference.load_options import load
from scoring.types import BenchmarkContext
from tests.support import real

#: Kinds of sentences in which a gender is stated and that the model knows.
KEPT = ("nouns", "titles", "parents")


def leans(model):
    """The mean lean by kind, over some rows of the benchmark: of jobs that nothing learns from, and of kept kinds."""
    context = BenchmarkContext(model.kind, family=model.family)
    rows = []
    for row in stated_gender.rows():
        of_jobs = row["kind"] == "templates" and row["held_out"]
        if row["number"] == 0 and (of_jobs or row["kind"] in KEPT):
            rows.append(row)
    requests = [request for row in rows for request in stated_gender.requests("", row, context)]
    by_kind = defaultdict(list)
    for row, response in zip(rows, model.answer(requests), strict=True):
        record = stated_gender.to_record("", row, {row["id"]: response}, context)
        by_kind[row["kind"]].append(record["lean"])
    return {kind: fmean(values) for kind, values in by_kind.items()}


@pytest.mark.real
def test_a_few_steps_lower_the_stereotype_of_other_jobs_and_keep_stated_gender(tmp_path, monkeypatch):
    model = load(str(real.smollm2()), device="cpu")
    # All pairs are measured before and after, so here each occupation has one.
    monkeypatch.setattr(jobs, "TEXTS", 1)
    settings = replace(get("fine_tuning").profiles["clean"], steps=16)
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    before = leans(model)
    assert before["templates"] > 0.3, "the model has the stereotype"
    get("fine_tuning").apply(model, settings, TrainingData(str(tmp_path / "nothing")), out, Console(quiet=True))
    with temporary.attached(model, out) as adapted:
        after = leans(adapted)
    assert after["templates"] < 0.85 * before["templates"]
    for kind in KEPT:
        assert after[kind] > 0.8 * before[kind], kind
