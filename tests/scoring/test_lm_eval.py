"""The tasks for lm-evaluation-harness: what they are made of, and that the harness gets the numbers of this package."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from itertools import permutations, product
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
import transformers
import yaml
from rich.progress import Progress

from builders.builder import Profile, build_datasets
from builders.parsers.triplets import filled
from builders.sources.fetch import Fetcher
from scoring import benchmarks
from scoring.asking.estimates import cluster_of
from scoring.inference.load_options import load
from scoring.inputs import tables
from scoring.lm_eval import __main__ as tasks
from scoring.lm_eval import utils
from scoring.statistics.stats import measure
from scoring.types import BenchmarkContext, Group, ScoringError
from tests.scoring import models
from tests.scoring.made import data_set
from tests.support.helpers import ROOT, missing


class Loader(yaml.SafeLoader):
    """Reads ``!function`` as the name that follows it."""


Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))

FILES = tasks.documents()
TASKS = {name: file for name, file in FILES.items() if "group" not in file}
GROUPS = {file["group"]: file["task"] for file in FILES.values() if "group" in file}
README = Path(tasks.__file__).with_name("README.md")


def benchmark(name):
    return benchmarks.get(TASKS[name]["dataset_kwargs"]["benchmark"])


def harness_task(name):
    return next(task for task in benchmark(name).tasks if task.name == TASKS[name]["dataset_kwargs"]["task"])


@pytest.mark.parametrize("name", TASKS)
def test_a_task_reports_metrics_of_its_benchmark_with_their_directions(name):
    known = {metric.name: metric for metric in benchmark(name).metrics("clean")}
    listed = {entry["metric"]: entry["higher_is_better"] for entry in TASKS[name]["metric_list"]}
    metrics = harness_task(name).metrics
    assert tuple(listed) == (*metrics, *(f"{metric}_se" for metric in metrics))
    for metric in metrics:
        higher = listed[metric]
        directions = {known[metric].high: True, known[metric].low: False}
        assert higher == directions.get(known[metric].ideal), metric


@pytest.mark.parametrize("name", TASKS)
def test_a_task_reads_what_its_benchmark_reads_and_has_its_version(name):
    places = harness_task(name).configs
    assert set(places) <= set(benchmark(name).configs)
    assert not any(config.endswith("-paper") for _, config, _ in places)
    assert TASKS[name]["metadata"]["version"] == benchmark(name).version


def test_the_tasks_together_read_all_clean_data_of_their_benchmarks():
    for name in {benchmark(task).name for task in TASKS}:
        read = {place for task in benchmarks.get(name).tasks for place in task.configs}
        assert read == {config for config in benchmarks.get(name).configs if not config[1].endswith("-paper")}


def test_groups_have_members_that_exist():
    assert set(GROUPS["probes"]) == {f"probes_{name}" for name in benchmarks.names() if benchmarks.get(name).tasks}
    for members in GROUPS.values():
        assert set(members) <= {*TASKS, *GROUPS}


def test_the_readme_tells_of_no_task_or_group_that_is_not_there():
    named = set(re.findall(r"`(probes\w*)`", README.read_text()))
    assert named <= {*TASKS, *GROUPS}


def printed_folder(*arguments):
    command = [sys.executable, "-m", "scoring.lm_eval", *map(str, arguments)]
    return Path(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.rstrip("\n"))


def test_the_command_writes_the_tasks_and_prints_their_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path / "cache"))
    folder = printed_folder()
    assert folder.is_relative_to(tmp_path / "cache")
    files = {path.stem: yaml.load(path.read_text(), Loader) for path in folder.glob("*.yaml")}
    assert files == FILES
    assert printed_folder() == folder
    assert list((tmp_path / "cache" / "lm_eval").iterdir()) == [folder]


JOBS = ("nurse", "farmer", "teacher", "pilot", "chef")
THINGS = ("liked the red ball", "went home with a friend", "told a long story", "could not find the key")


def unstereo(config):
    for n, (job, thing) in enumerate(product(JOBS, THINGS)):
        texts = {
            f"sentence_{gender}": f"The {job} said that {word} {thing}."
            for gender, word in (("male", "he"), ("female", "she"), ("they", "they"))
        }
        texts["sentence_they"] = texts["sentence_they"] if n % 3 else None
        yield {"id": f"{config}-{n}", "word": job, "natural": n != 7, "max_pmi_diff": n / 10 or None, **texts}


def triplets(name, prompt, *objects):
    for n, (job, domain) in enumerate(product(JOBS, ("gender", "profession", "race", "religion"))):
        words = filled(prompt.replace("JOB", job), *np.roll(objects[:2], n % 2), *objects[2:])
        about = {"subject": job, "domain": domain, "direction": ("stereo", "antistereo")[n % 2], "writer": f"w{n}"}
        about |= {"base": n % 3 == 0} if name.startswith("paraphrases") else {}
        yield {"id": f"{name}-{n}", "context": prompt.replace("JOB", job).removesuffix(" [BLANK]"), **about, **words}


def facts():
    """Facts about two groups, right for one of them."""
    for n, (job, (one, other)) in enumerate(product(JOBS, permutations(("a kind girl", "a very big boy")))):
        said = filled(f"Long ago the {job} was [BLANK].", one, other)
        sentences = {"sentence_object": said["sentence_biased"], "sentence_other": said["sentence_unbiased"]}
        about = {"domain": "gender", "subject": job, "prompt": said["prompt"], "object": one, "object_other": other}
        yield {"id": f"fact-{n}", "subject_counterfactual": "x", **about, **sentences}


def made():
    """Rows by data set, and by config and split."""
    rows = {"unstereo": {}, "biaske": {}}
    for name in {benchmark(task).name for task in TASKS}:
        for dataset, config, split in benchmarks.get(name).configs:
            if dataset == "unstereo":
                rows[dataset][config, split] = list(unstereo(f"{config}-{split}"))
            elif dataset == "biaske" and config == "stereoset-intersentence":
                objects = "She was kind.", "He was big and strong.", "Fish live in the sea."
                rows[dataset][config, split] = list(triplets(config, "I met a JOB. [BLANK]", *objects))
            elif config == "differentiation":
                rows[dataset][config, split] = list(facts())
            elif dataset == "biaske":
                objects = "a kind girl", "a very big boy", "a blue fish in the sea"
                rows[dataset][config, split] = list(triplets(f"{config}-{split}", "The JOB was [BLANK].", *objects))
    return rows


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of built data: OccuGender as it is, and made rows in place of what needs other sources."""
    folder = tmp_path_factory.mktemp("built")
    fetcher = Fetcher(folder / "cache", None, offline=True)
    build_datasets(["occugender"], fetcher, folder, Profile.all, Progress(disable=True))
    for name, configs in made().items():
        data_set(folder, name, configs)
    return folder


@pytest.fixture
def words(tmp_path):
    """A folder with a tokenizer."""
    models.tokenizer("gpt2").save_pretrained(tmp_path / "words")
    return str(tmp_path / "words")


@pytest.fixture
def built(source, monkeypatch):
    monkeypatch.setenv("PROBES_DATA", str(source))


def test_a_row_carries_its_question_with_the_tokens_of_each_option(built, words):
    (row, *rest) = utils.rows(**TASKS["probes_stereoset_intersentence"]["dataset_kwargs"], pretrained=words)["test"]
    assert len(rest) == 19
    assert row["ask_context"] == "I met a nurse."
    assert row["ask_options"] == [" She was kind.", " He was big and strong.", " Fish live in the sea."]
    decode = transformers.AutoTokenizer.from_pretrained(words).decode
    assert [decode(ids) for ids in row["ask_ids"]] == row["ask_options"]


def test_rows_that_raise_no_question_are_left_out(built, words):
    rows = utils.rows(**TASKS["probes_unstereo_ours_5"]["dataset_kwargs"], pretrained=words)["test"]
    assert len(rows) == 19
    assert all(row["natural"] for row in rows)


def test_a_task_of_a_domain_has_its_rows_alone(built, words):
    rows = utils.rows(**TASKS["probes_stereoset_race"]["dataset_kwargs"], pretrained=words)["test"]
    assert set(rows["domain"]) == {"race"}


@pytest.mark.parametrize("arguments", [{"tokenizer": None}, {"pretrained": torch.nn.Linear(1, 1)}])
def test_a_model_given_as_an_object_needs_a_named_tokenizer(built, arguments):
    with pytest.raises(ScoringError) as error:
        utils.rows(**TASKS["probes_unstereo_ours_5"]["dataset_kwargs"], **arguments)
    assert str(error.value) == (
        "The tokenizer of the model is not known, and scores per token need it; name it to the harness with "
        """--metadata '{"tokenizer": "NAME OR FOLDER"}'."""
    )


def test_a_tokenizer_that_cannot_be_loaded_is_named(built, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScoringError, match=r"'.*empty'"):
        utils.rows(**TASKS["probes_unstereo_ours_5"]["dataset_kwargs"], tokenizer=str(tmp_path / "empty"))


def test_data_that_is_not_there_is_told_with_the_command_that_builds_it(monkeypatch, tmp_path, words):
    monkeypatch.setenv("PROBES_DATA", str(tmp_path))
    with pytest.raises(tables.DataMissing, match=r"run probes build unstereo --out"):
        utils.rows(**TASKS["probes_unstereo_ours_5"]["dataset_kwargs"], pretrained=words)


def test_an_organisation_of_the_hub_is_read_at_its_revision(monkeypatch, words):
    asked = []

    def load_dataset(path, name, *, split, revision):
        asked.append((path, name, split, revision))
        return datasets.Dataset.from_list(list(unstereo("ours-5")))

    monkeypatch.setenv("PROBES_DATA", "hub:some-org@v1.0")
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    rows = utils.rows(**TASKS["probes_unstereo_ours_5"]["dataset_kwargs"], pretrained=words)["test"]
    assert asked == [("some-org/unstereo", "ours-5", "test", "v1.0")]
    assert len(rows) == 19


def test_a_metric_is_of_the_sums_that_the_harness_found(built, words):
    rows = utils.rows(**TASKS["probes_unstereo_ours_5"]["dataset_kwargs"], pretrained=words)["test"]
    gaps = np.linspace(-1, 1, len(rows))
    sums = [[(gap, True), *((0.0, False) for _ in row["ask_options"][1:])] for row, gap in zip(rows, gaps, strict=True)]
    lines = [utils.results(row, result)["tau@0.5"] for row, result in zip(rows, sums, strict=True)]
    assert utils.aggregate(lines) == pytest.approx(100 * np.mean(abs(gaps) <= 0.5))
    assert not any("sentence" in name for line in lines for name in line)
    # The rows of a word are one cluster, so the error is not that of independent rows.
    alone = {**lines[0], "gap": 0.0}
    assert utils.standard_error(lines) > 0
    assert np.isnan(utils.standard_error([alone]))


#: Runs the harness for each model and dtype, away from pytest, which takes its warnings for errors.
HARNESS = """
import json, sys
import torch
from lm_eval import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

torch.set_num_threads(1)
folder, runs = json.loads(sys.argv[1])
for model, dtype, tasks, out in runs:
    manager = TaskManager(include_path=folder, include_defaults=False, metadata={"pretrained": model})
    network = HFLM(model, dtype=dtype, device="cpu", batch_size=32)
    found = evaluate(network, manager.load(tasks), bootstrap_iters=0)
    sums = {
        task: [[sample["doc"]["id"], [float(sum_) for sum_, _ in sample["filtered_resps"]]] for sample in samples]
        for task, samples in found["samples"].items()
    }
    with open(out, "w") as file:
        json.dump({"sums": sums, "results": found["results"]}, file)
"""
#: A model with a beginning-of-sequence token, and one without: its tokenizer puts none before a context.
SOME = [f"probes_{end}" for end in ("occugender_implicit", "unstereo_ours_5", "stereoset", "stereoset_intersentence")]
RUNS = {("stories260K", "float64"): [*TASKS], ("stories260K", "float32"): SOME, ("gpt2", "float64"): SOME}
CLOSE = {"float32": 1e-4, "float64": 1e-9}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    words = models.tokenizer("gpt2")
    ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512, "initializer_range": 0.3}
    torch.manual_seed(0)
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(words), **shape, **ends))
    folder = tmp_path_factory.mktemp("gpt2")
    for part in (network, words):
        part.save_pretrained(folder)
    return {"stories260K": models.folder("stories260K"), "gpt2": folder}


@pytest.fixture(scope="module")
def harness(source, folders, tmp_path_factory):
    """What the harness found, by model and dtype."""
    if not importlib.util.find_spec("lm_eval"):
        missing("needs lm-evaluation-harness: pip install lm-eval==0.4.13")
    out = tmp_path_factory.mktemp("found")
    runs = [(str(folders[m]), dtype, tasks, str(out / f"{m}-{dtype}.json")) for (m, dtype), tasks in RUNS.items()]
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PROBES_CACHE", str(out / "cache"))
    folder = tasks.write()
    monkeypatch.undo()
    arguments = json.dumps([str(folder), runs])
    settings = {"PROBES_DATA": str(source), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", HARNESS, arguments]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {key: json.loads((out / f"{'-'.join(key)}.json").read_text()) for key in RUNS}


def answered(model, task):
    """Rows of a task with their questions and the model's responses."""
    requests = benchmark(task).requests
    where, configs = harness_task(task).where, harness_task(task).configs
    rows = [row for place in configs for row in tables.load(os.environ["PROBES_DATA"], *place).rows]
    chosen = [row for row in rows if all(row[name] == value for name, value in where.items())]
    context = BenchmarkContext("causal", model.tokens.encode)
    asked = [(row, request) for row in chosen for request in requests("clean", row, context)]
    return [row for row, _ in asked], model.answer([request for _, request in asked])


@pytest.mark.mirror
@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_the_harness_finds_what_this_package_finds(harness, folders, built, name, dtype):
    model, result = load(folders[name], dtype=dtype, device="cpu"), harness[name, dtype]
    for task in RUNS[name, dtype]:
        rows, responses = answered(model, task)
        sums = result["sums"][task]
        assert [id_ for id_, _ in sums] == [response.id for response in responses]
        for (id_, theirs), response in zip(sums, responses, strict=True):
            np.testing.assert_allclose(theirs, [*map(sum, response.logprobs)], rtol=0, atol=CLOSE[dtype], err_msg=id_)
        context = BenchmarkContext("causal", model.tokens.encode)
        lines = [
            benchmark(task).to_record("clean", row, {r.id: r}, context) for row, r in zip(rows, responses, strict=True)
        ]
        values = measured(task, tables.as_table(lines)) | errors(task, tables.as_table(lines))
        theirs = {metric: result["results"][task][f"{metric},none"] for metric in values}
        assert theirs == pytest.approx(values, rel=0, abs=CLOSE[dtype], nan_ok=True), task


def errors(task, table):
    """The standard errors of our reports, by the clusters of the benchmark."""
    every, wanted, found = Group("all", np.ones(len(table["id"]), bool)), benchmark(task), {}
    for metric in wanted.metrics("clean"):
        if metric.name in harness_task(task).metrics:
            (score,) = measure([(every, metric)], table, table[cluster_of(wanted, metric, table)])
            found[f"{metric.name}_se"] = score.error
    return found


def measured(task, table):
    weights = np.ones((1, len(table["id"])))
    metrics = [metric for metric in benchmark(task).metrics("clean") if metric.name in harness_task(task).metrics]
    return {metric.name: metric.value(table, weights)[0] for metric in metrics}
