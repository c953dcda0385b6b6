"""A model that cannot speak gets no verdict, on any page; a small trained one does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

import scoring
from cards.common.sentences import say
from cards.leaderboard import Entry, entries_of, page, task_tables
from cards.overview.model_matrix import Cell, ModelRow
from cards.results import Language
from scoring import benchmarks
from scoring.asking import language
from scoring.report.headlines import (
    Comparison,
    answer_of,
    conclusion,
    headline_changes,
    headline_scores,
)
from scoring.uploads import DECLARATIONS
from tests.scoring.made import data_set
from tests.scoring.made_runs import made_comparison, made_run
from tests.scoring.test_run import job_rows
from tools.simulations import random_networks

torch.set_num_threads(1)
AT_CHANCE = say("lean.chance")
transformers.logging.set_verbosity_error()
SPEAKS = Language(40, 3.8, 6.4, 1e-12, 1.0, 1e-12)
AT_RANDOM = Language(40, 7.9, 6.2, 1.0, 0.525, 0.4)


@pytest.mark.parametrize(("kind", "family"), [("causal", "llama"), ("causal", "gpt2"), ("masked", "bert")])
def test_random_networks_are_at_chance(kind, family):
    for seed in range(len(random_networks.SPREADS)):
        assert not random_networks.found_plainly(random_networks.random_network(family, kind, seed), kind).speaks, seed


@pytest.mark.parametrize(("kind", "family"), [("causal", "llama"), ("masked", "bert")])
def test_a_run_measures_what_plain_batches_do(kind, family):
    network = random_networks.random_network(family, kind, 2)
    plain, of_run = random_networks.found_plainly(network, kind), random_networks.found(network, kind, family)
    assert (of_run.nats, of_run.unigram) == pytest.approx((plain.nats, plain.unigram), abs=1e-3)
    assert of_run.order == pytest.approx(plain.order, abs=0.05)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_the_bundled_models_speak_and_their_twins_with_other_tokens_do_not(kind):
    network = random_networks.CLASSES[kind].from_pretrained(random_networks.BUNDLED[kind]).float().eval()
    assert random_networks.found(network, kind, kind).speaks
    for whole in (True, False):
        assert not random_networks.found_plainly(random_networks.twin(kind, 0, whole=whole), kind).speaks


def test_a_model_of_word_frequencies_alone_is_at_chance():
    rng = np.random.default_rng(0)
    baseline = rng.uniform(50, 80, 40)
    # As good as the frequencies, and without an order; then better, still without an order.
    assert not language.judged(baseline, baseline, baseline, 400).speaks
    better = baseline - 20
    assert not language.judged(better, better + rng.normal(0, 1, 40), baseline, 400).speaks
    assert language.judged(better, better + 5, baseline, 400).speaks


def test_every_sentence_has_another_order_and_no_gender():
    words = {word.strip(".,").lower() for sentence in language.sentences() for word in sentence.split()}
    assert not words & {"he", "she", "him", "her", "his", "hers", "man", "woman", "boy", "girl"}
    assert all(language.in_other_order(sentence) != sentence for sentence in language.sentences())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of a run of the bundled model and of one of a random network, over the same rows."""
    folder = tmp_path_factory.mktemp("runs")
    data = data_set(folder / "data", "occugender", {("explicit", "test"): list(job_rows())})
    options = {"benchmarks": ["occugender"], "resamples": 50, "data": folder / "data"}
    assert data
    scoring.evaluate("tiny-causal", out=folder / "real", **options)
    network = random_networks.random_network("llama", "causal", 1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(random_networks.BUNDLED["causal"])
    scoring.evaluate(network, tokenizer=tokenizer, out=folder / "random", **options)
    return folder / "real", folder / "random"


def test_a_run_of_a_random_network_has_scores_and_no_verdict(runs):
    real, at_random = (scoring.load(folder) for folder in runs)
    assert real.report.language.speaks
    assert not at_random.report.language.speaks
    assert at_random.table().equals(scoring.load(runs[1]).table())
    assert "answers at chance" in answer_of(at_random.report)
    assert "answers at chance" in (runs[1] / "report.html").read_text(encoding="utf-8")
    assert "answers at chance" not in (runs[0] / "report.html").read_text(encoding="utf-8")
    compared = at_random.compare(real)
    assert set(compared.table().verdict) == {""}
    assert "is at chance" in compared.speechless


def test_a_leaderboard_does_not_rank_a_model_that_is_at_chance(runs):
    entries = [entry for folder in reversed(runs) for entry in entries_of(folder, DECLARATIONS)]
    for table in task_tables(entries):
        assert [bool(entry.restriction) for entry in table.entries] == [False, True]
    assert all(entry.ability for entry in entries)


def test_nothing_is_concluded_from_scores_at_chance():
    run = made_run()
    assert not run.at_chance
    said = {headline.leaning for headline in headline_scores(replace(run, language=AT_RANDOM))}
    assert said <= {AT_CHANCE, ""}
    assert said
    assert answer_of(replace(run, language=SPEAKS)) == answer_of(run)
    compared = made_comparison()
    sure = tuple(replace(d, p=1e-9, p_side=0.0) for d in compared.differences)
    compared = replace(compared, differences=sure)
    assert {change.verdict for change in headline_changes(compared)} & {"nearer", "further"}
    silent = Comparison(replace(compared.run, language=AT_RANDOM), compared.base, compared.differences)
    assert {change.verdict for change in headline_changes(silent) if not change.difference.ability} == {""}
    assert silent.speechless
    assert conclusion(headline_changes(silent))


def test_a_benchmark_at_whose_task_a_model_is_at_chance_has_no_verdict():
    run = made_run()
    (lms,) = [
        e for e in run.estimates if (e.benchmark, e.metric, e.group) == ("stereoset", "lms", "intrasentence test")
    ]
    at_chance = replace(lms, value=52.0, low=48.0, high=56.0)
    changed = replace(run, estimates=tuple(at_chance if e is lms else e for e in run.estimates))
    assert changed.at_chance == {"stereoset"}
    by_name = {headline.estimate.benchmark: headline.leaning for headline in headline_scores(changed)}
    assert by_name["stereoset"] == AT_CHANCE
    assert AT_CHANCE not in {leaning for name, leaning in by_name.items() if name != "stereoset"}


def test_every_benchmark_with_a_headline_has_a_task_or_says_why_it_has_none():
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        headline = benchmark.headline
        if headline is None:
            continue
        assert bool(headline.task) != bool(headline.no_task), name
        if headline.task:
            _, metric, chance = headline.task
            (task,) = [one for one in benchmark.metrics("clean") if one.name == metric]
            assert task.low < chance < task.high
        else:
            assert headline.no_task.endswith("."), name


@pytest.mark.parametrize(
    ("benchmark", "group", "metric"),
    [("biaske", "differentiation", "fact_accuracy"), ("pronouns", "declared", "consistency")],
)
def test_a_task_in_another_group_counts_for_its_benchmark_alone(benchmark, group, metric):
    run = made_run()
    chance = run.headlines[benchmark].task[2]
    (like,) = [e for e in run.estimates if (e.benchmark, e.group, e.metric) == (benchmark, "others", metric)]
    for low, at_chance in ((chance - 5, {benchmark}), (chance + 1, set())):
        task = replace(like, group=group, value=low + 10, low=low, high=low + 20)
        assert replace(run, estimates=(*run.estimates, task)).at_chance == at_chance


def test_a_leaderboard_has_no_rank_and_no_verdict_of_a_benchmark_at_chance():
    key = ("biaske", "winobias", "ss")
    cell = Cell(70.0, 65.0, 75.0, "ss", 50.0, 99, least=0.0, most=100.0)
    near = replace(cell, value=52.0, low=51.0, high=53.0)
    row, base = ModelRow("m", "adapter a", "m", {key: near}), ModelRow("m", "", "", {key: cell})
    assert row.changes(base) == {key: "nearer"}
    assert replace(row, cells={key: replace(near, inconclusive=AT_CHANCE)}).changes(base) == {}
    entries = [
        Entry(**{name: getattr(one, name) for name in one.__dataclass_fields__}, model=model, dataset="d", task="t")
        for model, one in (("near", replace(near, inconclusive=AT_CHANCE)), ("far", cell))
    ]
    (table,) = task_tables(entries)
    assert [entry.model for entry in table.entries] == ["far", "near"]
    text = page([table])
    assert text.count("answers at chance") >= 3
    assert 'data-key=""' in text
