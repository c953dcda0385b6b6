"""The registry of benchmarks, and what holds for all of them."""

from pathlib import Path

import pytest

from builders import datasets
from scoring import benchmarks
from scoring.types import ScoringError


def test_file_names_are_the_registry():
    folder = Path(benchmarks.__file__).parent
    files = {path.stem for path in folder.glob("*.py") if not path.name.startswith("_")}
    assert benchmarks.names() == tuple(sorted(files))
    assert {"neutral", "unstereo", "occugender", "stereoset", "crows_pairs", "biaske"} <= files


def test_every_headline_and_reported_metric_exists():
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        known = {metric.name for metric in benchmark.metrics("clean")}
        assert {metric for task in benchmark.tasks for metric in task.metrics} <= known
        if benchmark.headline:
            assert benchmark.headline.metric in known
            assert benchmark.headline.dataset in {dataset for dataset, _, _ in benchmark.configs}


@pytest.mark.parametrize("name", ["nothing", "../types", "_crows", "", "neutral\0", "<script>"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ScoringError) as error:
        benchmarks.get(name)
    near = " (did you mean 'neutral'?)" if name == "neutral\0" else ""
    assert str(error.value).startswith(
        f"No benchmark is called {name!r}{near}; the names are {', '.join(benchmarks.names())}."
    )


@pytest.mark.parametrize("name", benchmarks.names())
def test_a_benchmark_reads_configs_and_splits_that_are_built(name):
    benchmark = benchmarks.get(name)
    assert benchmark.name == name
    for dataset, config, split in () if benchmark.rows else benchmark.configs:
        built = {c.name: c.splits for c in datasets.get(dataset).configs}
        assert split in built[config]


@pytest.mark.parametrize("name", benchmarks.names())
@pytest.mark.parametrize("profile", ["clean", "paper"])
def test_metrics_have_names_of_their_own_and_a_reading(name, profile):
    metrics = benchmarks.get(name).metrics(profile)
    assert len({m.name for m in metrics}) == len(metrics)
    assert all(m.reading.endswith(".") and m.low < m.high for m in metrics)
    assert all(m.ideal is None or m.low <= m.ideal <= m.high for m in metrics)
