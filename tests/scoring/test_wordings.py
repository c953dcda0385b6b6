"""Items in several wordings: neutral texts, means with intervals that include wordings, and planted variance."""

import math
import random
from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import scoring
from builders.datasets.gender_pmi import delta_table
from builders.text.words import THEY_FORMS, is_neutral, normalise
from scoring import benchmarks
from scoring.__main__ import app
from scoring.asking import wordings
from scoring.inference.load_options import LoadOptions
from scoring.metrics import variance
from scoring.statistics import intervals
from scoring.statistics.stats import measure
from scoring.types import BenchmarkContext, Group, Metric, Response, ScoringError
from tests.scoring.made import data_set, without_language
from tests.support.helpers import mirrored
from tests.support.openai_server import prompt_of, serving

ITEMS = 60
KINDS = ("instruction", "question", "story", "dialogue", "list")
ROW = {"id": "x", "config": "ours-5", "split": "test", "word": "w", "natural": True}
ROW |= {"sentence_male": "He sings.", "sentence_female": "She sings."}


def drawn(*names):
    """A normal number that follows from names alone."""
    return random.Random("/".join(map(str, names))).gauss(0, 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    about = {"natural": True, "max_pmi_diff": 0.1}
    rows = [
        {"id": f"r{n}", "word": f"w{n // 2}", "sentence_male": f"He saw {n}.", "sentence_female": f"She saw {n}."}
        | about
        for n in range(ITEMS)
    ]
    data_set(folder, "unstereo", {("ours-5", "test"): rows})
    probes = [{"id": f"p{n}", "prompt": f"My friend {n} sings, and", "statement": "My friend sings"} for n in range(12)]
    data_set(folder, "gender-neutral-probes", {("llm-1", "test"): probes})
    return folder


@cache
def loaded():
    return LoadOptions("tiny-causal").load()


def planted(items=1.0, by_wording=0.0, rest=0.3):
    """A model that finds she likelier by a number of the item, one of the wording, and one of both."""
    model = copy(loaded())

    def answer(requests, on_response=None, **_):
        for request in without_language(requests, on_response):
            _, _, _, item, *wording = request.id.split("/")
            lean = items * drawn(item) + by_wording * drawn("w", *wording) + rest * drawn(item, *wording)
            on_response(Response(request.id, tuple((-10.0 + lean * female,) for female in (0, 1))))

    model.answer = answer
    return model


def scored(data, model, **options):
    given = {"benchmarks": "unstereo", "wordings": "all", "resamples": 300} | options
    return scoring.evaluate(model, data=data, **given)


def found(result, group="ours-5", benchmark="unstereo-wordings"):
    return {e.metric: e for e in result.report.estimates if (e.benchmark, e.group) == (benchmark, group)}


# The texts


def test_every_wording_is_neutral_and_each_class_has_two_of_each_kind():
    for of_class, texts in wordings.TEXTS.items():
        assert list(texts) == [*KINDS, *(f"{kind} 2" for kind in KINDS)], of_class
        assert len(set(texts.values())) == len(texts)
        for text in texts.values():
            assert is_neutral(text), text
            assert not set(normalise(text).replace(".", " ").split()) & THEY_FORMS, text
            assert text == text.strip()


def test_a_class_of_texts_that_is_not_there_is_refused():
    with pytest.raises(ScoringError, match=r"stereoset.*'poems'.*template"):
        wordings.text(replace(benchmarks.get("stereoset"), wordings="poems"), {"wording": "story"})


def test_every_benchmark_with_wordings_has_texts_for_its_rows():
    for name in ("stereoset", "crows_pairs", "crows_pairs_modified", "unstereo", "biaske", "neutral", "occugender"):
        assert benchmarks.get(name).wordings
        assert benchmarks.get(f"{name}-wordings").name == f"{name}-wordings"
    assert not benchmarks.get("bbq").wordings
    explicit, implicit = (
        wordings.text(benchmarks.get("occugender"), {"template": template, "wording": "story"})
        for template in ("explicit", "implicit-2")
    )
    assert explicit == wordings.TEXTS["explicit"]["story"] != implicit == wordings.TEXTS["implicit"]["story"]


def test_both_sentences_of_a_pair_have_the_same_text_before_them():
    unstereo = benchmarks.get("unstereo-wordings")
    rows = list(unstereo.each(ROW))
    assert [row["wording"] for row in rows] == list(wordings.NAMES)
    for row in rows:
        (request,) = unstereo.requests("clean", row, BenchmarkContext("causal"))
        assert request.context == wordings.TEXTS["sentences"][row["wording"]]
        assert [option.text for option in request.options] == [" He sings.", " She sings."]


def test_a_choice_has_wordings_too():
    choice = benchmarks.get("unstereo-choice-wordings")
    row = next(iter(choice.each(ROW)))
    requests = list(choice.requests("clean", row, BenchmarkContext("causal")))
    assert len(requests) == 4
    assert requests[0].context.startswith("Answer the question below. Which of these sentences is most likely?\nA. He")


def test_a_masked_model_reads_the_tokens_behind_the_text():
    tokens = LoadOptions("tiny-masked").load().tokens
    context = BenchmarkContext("masked", encode=tokens.encode)
    (behind,) = wordings._encoded_after(context, "Read this.", ["The nurse sings."])
    whole, before = (tokens.encode([text])[0].ids for text in ("Read this. The nurse sings.", "Read this."))
    assert [*before, *behind.ids] == whole


# A planted effect of wording


@pytest.fixture(scope="module")
def moved(data):
    return scored(data, planted(by_wording=1.5))


def test_a_planted_effect_of_wording_is_found(moved, data):
    of = found(moved)
    # Of 1 + 2.25 + 0.09, with the ten numbers that were drawn for the wordings.
    effects = np.array([1.5 * drawn("w", name) for name in wordings.NAMES])
    expected = effects.var(ddof=1)
    assert of["share_wordings"].low > 30
    assert of["share_wordings"].value == pytest.approx(100 * expected / (expected + 1 + 0.09), abs=12)
    none = found(scored(data, planted()))
    assert none["share_wordings"].value < 1
    assert none["share_wordings"].high < of["share_wordings"].low


def test_a_score_is_the_mean_over_wordings_and_its_interval_includes_them(moved):
    table, of = moved.tables["unstereo-wordings"], found(moved)
    gap = table["female_logprob"] - table["male_logprob"]
    by_wording = pd.Series(100 * ((gap > 0.5) - 1.0 * (gap < -0.5))).groupby(table["wording"]).mean()
    estimate = of["pref_disparity@0.5"]
    assert estimate.value == pytest.approx(by_wording.mean())
    each = [found(moved, f"ours-5, {name}")["pref_disparity@0.5"] for name in wordings.NAMES]
    assert sorted(e.value for e in each) == pytest.approx(sorted(by_wording))
    # Ten wordings that differ so much say less than the items of one of them.
    assert estimate.high - estimate.low > 1.5 * max(e.high - e.low for e in each if abs(e.value) < 90)
    assert estimate.error**2 > by_wording.var(ddof=1) / 10


def test_published_scores_stay_those_of_the_plain_wording(moved, data):
    alone = scoring.evaluate(planted(by_wording=1.5), data=data, benchmarks="unstereo", resamples=300)
    own = [estimate for estimate in moved.report.estimates if estimate.benchmark == "unstereo"]
    assert list(map(repr, own)) == list(map(repr, alone.report.estimates))  # NaN is not equal to itself
    published = {name: headline.dataset for name, headline in moved.report.headlines.items()}
    assert published == {"unstereo": "unstereo", "unstereo-wordings": ""}


def test_a_run_with_wordings_is_stored_read_and_compared(moved, data, tmp_path):
    again = scoring.load(moved.save(tmp_path / "run"))
    assert again.table().equals(moved.table())
    page = (tmp_path / "run" / "report.html").read_text()
    assert "a reliability of .8 of the order of items takes this many wordings: 1." in page
    other = scored(data, planted(by_wording=1.5, rest=0.5), wordings=10)
    row = other.compare(again, resamples=100).table().set_index(["benchmark", "group", "metric"])
    assert math.isfinite(row.loc[("unstereo-wordings", "ours-5", "us_score"), "p"])
    same = moved.compare(again, resamples=100).table()
    assert (same["difference"].dropna() == 0).all()


def test_the_number_of_wordings_is_checked(data):
    assert set(scored(data, planted(), wordings=2).tables["unstereo-wordings"]["wording"]) == set(wordings.NAMES[:2])
    with pytest.raises(ScoringError, match=r"'1'.*\b2\b.*\b10\b"):
        scored(data, planted(), wordings="1")
    with pytest.raises(ScoringError, match="published wordings"):
        scored(data, planted(), profile="paper")
    with pytest.raises(ScoringError, match="wordings for bbq"):
        scored(data, planted(), benchmarks="bbq")


# Variance components


def simulated(sds, shape, rng):
    """Values [items, *facets] with effects of the given standard deviations, by the axes that an effect is of."""
    x = np.zeros(shape)
    for axes, sd in sds.items():
        x += rng.normal(0, sd, [size if axis in axes else 1 for axis, size in enumerate(shape)])
    return x


@pytest.mark.parametrize(
    ("facets", "sds", "shape"),
    [
        (["wordings"], {(0,): 1.0, (1,): 0.7, (0, 1): 1.5}, (30, 5)),
        (
            ["ways", "wordings"],
            {(0,): 1.0, (1,): 0.8, (2,): 0.5, (0, 1): 0.9, (0, 2): 0.6, (1, 2): 0.4, (0, 1, 2): 1.2},
            (30, 4, 5),
        ),
    ],
)
def test_planted_components_are_found_without_bias(facets, sds, shape):
    rng, names = np.random.default_rng(0), ("items", *facets)
    runs = []
    for _ in range(600):
        x = simulated(sds, shape, rng)
        runs.append(variance.components(variance.moments(x, np.zeros_like(x)).sum(axis=0), facets))
    for axes, sd in sds.items():
        values = np.array([found[frozenset(names[axis] for axis in axes)] for found in runs])
        assert values.mean() == pytest.approx(sd**2, abs=4 * values.std() / math.sqrt(len(values)))


def test_the_variance_of_samples_is_taken_from_the_rest():
    x = simulated({(0,): 1.0, (0, 1): 1.0}, (200, 6), rng := np.random.default_rng(1))
    samples = x[..., None] + rng.normal(0, 2, (200, 6, 4))
    noise = samples.var(axis=-1, ddof=1) / 4
    found = variance.components(variance.moments(samples.mean(axis=-1), noise).sum(axis=0), ["wordings"])
    assert found[frozenset({"samples"})] == pytest.approx(1, abs=0.1)
    assert found[frozenset({"items", "wordings"})] == pytest.approx(1, abs=0.25)


def test_the_numbers_for_a_reliability_follow_from_the_components():
    x = simulated({(0,): 1.0, (0, 1): 2.0}, (4000, 10), np.random.default_rng(2)) + 0.2
    made = {metric.name: metric for metric in variance.decisions(lambda _: (x, np.zeros_like(x)))}
    values = {name: float(metric.value({}, np.ones((1, len(x))))[0]) for name, metric in made.items()}
    assert values["reliability"] == pytest.approx(1 / (1 + 4 / 10), abs=0.02)
    assert values["wordings_for_80"] == pytest.approx(16, abs=1)
    # The standard error √((1 + .4) / n) is half of .2 for n = 140.
    assert values["items_for_80"] == pytest.approx(140, abs=30)


def test_an_interval_over_parts_covers_the_mean_of_other_parts():
    rng, hits = np.random.default_rng(3), 0
    mean = Metric("m", lambda t: np.stack([t["x"], np.ones_like(t["x"])], 2), None, None, -math.inf, math.inf, "")
    values = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    metric = Metric("m", mean.columns, lambda s: values(s).mean(axis=-1), None, -math.inf, math.inf, "", parts=values)
    for seed in range(200):
        table = {"x": simulated({(0,): 1.0, (1,): 0.5, (0, 1): 1.0}, (60, 5), rng)}
        item = (Group("", np.ones(60, bool)), metric)
        (estimate,) = measure([item], table, np.arange(60), resamples=200, seed=seed)
        hits += estimate.low <= 0 <= estimate.high
    assert hits >= 180


def test_one_part_changes_no_interval():
    interval = intervals.Interval(1.0, 2.0, "bootstrap", error=0.25, freedom=40.0)
    assert intervals.over_parts(interval, np.array([1.5])) is interval
    assert intervals.over_parts(interval, np.array([1.5, 1.5])) is interval
    assert intervals.over_parts(intervals.NONE, np.array([1.0, 2.0])) is intervals.NONE


# A chat API


def of_friend(body, _before):
    """She after every story, else one or the other by the number of the friend and of the sample."""
    text = prompt_of(body)
    number = int(text.split("My friend ")[1].split()[0])
    wordings_of_she = wordings.TEXTS["continuations"]["story"], wordings.TEXTS["continuations"]["story 2"]
    she = text.startswith(wordings_of_she) or (number + body["seed"]) % 3 == 0
    return " she is here." if she else " he is here."


def test_samples_of_a_chat_api_are_a_facet_of_their_own(data, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    with serving(of_friend) as server:
        place = ["--base-url", server.url, "--model-name", "m", "--data", str(data), "--out", str(tmp_path)]
        about = ["--samples", "3", "--resamples", "100", "--wordings", "5"]
        done = CliRunner().invoke(app, ["--chat-api", "--benchmarks", "neutral", *place, *about])
    assert done.exit_code == 0, done.output
    result = scoring.load(tmp_path)
    assert len(result.tables["neutral-wordings"]["id"]) == 12 * 5 * 3
    of = found(result, "llm-1", "neutral-wordings")
    assert of["share_samples"].value > 10
    assert of["share_wordings"].value > 30
    assert of["share_items"].value < of["share_samples"].value
    assert found(result, "llm-1, story", "neutral-wordings")["gas_female"].value == 1


# Real rows


@pytest.mark.mirror
def test_no_word_of_a_wording_leans_to_a_pronoun_in_the_published_table():
    delta = delta_table(mirrored("unstereo/pmi")["unstereo/pmi"]).delta
    words = {word for texts in wordings.TEXTS.values() for text in texts.values() for word in normalise(text).split()}
    known = {word: delta[bare] for word in words if (bare := word.strip(".,:?-")) in delta}
    assert len(known) > 50
    assert {word: value for word, value in known.items() if abs(value) > 0.8} == {}


@pytest.mark.mirror
def test_real_rows_are_asked_in_wordings_by_both_bundled_models(tmp_path):
    import builders

    builders.build("biaske", out=tmp_path)
    for model in ("tiny-causal", "tiny-masked"):
        result = scored(tmp_path, model, benchmarks=["stereoset", "crows_pairs"], limit=12, wordings=3)
        of = found(result, "intrasentence test", "stereoset-wordings")
        assert 0 <= of["share_wordings"].value <= 100
        assert of["icat"].clusters == len(set(result.tables["stereoset"]["subject"][:12]))
