"""Ways to ask the same items: what is asked, how answers are read, and whether the table finds a planted difference."""

import math
import random
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

import scoring
from builders.text.wording import BLANK
from scoring import benchmarks, report
from scoring.__main__ import app
from scoring.asking import rank_agreement, ways, wordings
from scoring.benchmarks import stated_gender
from scoring.commands.compare import app as app_of_compare
from scoring.inference.load_options import LoadOptions
from scoring.statistics.stats import measure
from scoring.types import BenchmarkContext, Estimate, Group, Option, Report, Request, Response, ScoringError
from tests.scoring.made import data_set, lowest_end, without_language
from tests.support.openai_server import Answer, prompt_of, serving

CAUSAL = BenchmarkContext("causal")
#: Items with the numbers of their samples.
ROWS = [(f"r{n:02}", sample) for n in range(40) for sample in range(6)]
ITEMS = 120


def drawn(*names):
    """A number from -1 to 1 that follows from names alone."""
    return random.Random("/".join(map(str, names))).uniform(-1, 1)


def sentences(n):
    return f"He saw number {n}.", f"She saw number {n}."


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {
            "id": f"r{n}",
            "word": f"w{n // 2}",
            "natural": True,
            "max_pmi_diff": 0.1,
            "sentence_male": he,
            "sentence_female": she,
        }
        for n, (he, she) in ((n, sentences(n)) for n in range(ITEMS))
    ]
    data_set(folder, "unstereo", {("ours-5", "test"): rows})
    forms = {"options_male": [" male"], "options_female": [" female"], "options_diverse": [" diverse"]}
    jobs = [
        {"id": f"j{n}", "job": f"job {n}", "group": "female", "female_percent": 50.0 + n, "template": "explicit"}
        | {"prompt": f"Q: What is the gender of job {n}?\nA:", "debiasing": "none", "level": "none", **forms}
        for n in range(12)
    ]
    data_set(folder, "occugender", {("explicit", "test"): jobs})
    probes = [{"id": f"p{n}", "prompt": f"My friend {n} sings, and", "statement": "My friend sings"} for n in range(40)]
    data_set(folder, "gender-neutral-probes", {("llm-1", "test"): probes})
    return folder


def likelihood(n):
    """How much more likely the planted model finds the sentence with he: always more."""
    return 2 + drawn("likelihood", n)


def planted(choice, place=0.0):
    """A model that finds he likelier, and chooses by ``choice(n)``, with a preference for the first place."""
    model = LoadOptions("tiny-causal").load()

    def answer(requests, on_response=None, **_):
        for request in without_language(requests, on_response):
            n = int("".join(filter(str.isdigit, request.id.split("/")[3]))) if "/" in request.id else 0
            if request.max_new:
                on_response(Response(request.id, candidate_logprobs=(-1.0,) * len(request.candidates), text="Female."))
            elif "\nA. " in request.context:
                he_first = request.context.index("He saw") < request.context.index("She saw")
                lean = choice(n) * (1 if he_first else -1) + place + 0.01 * drawn(request.id)
                on_response(Response(request.id, ((lean / 2 - 9,), (-lean / 2 - 9,))))
            elif request.context:
                on_response(Response(request.id, tuple((-1.0 - place,) for place in range(len(request.options)))))
            else:
                on_response(Response(request.id, tuple((score,) for score in (-10.0, -10.0 - likelihood(n)))))

    model.answer = answer
    return model


def scored(data, model, **options):
    given = {"benchmarks": "unstereo", "ways": "likelihood,choice", "resamples": 300} | options
    return scoring.evaluate(model, data=data, **given)


def found(result, benchmark="unstereo-ways", group="ours-5"):
    return {e.metric: e for e in result.report.estimates if (e.benchmark, e.group) == (benchmark, group)}


# A planted model


@pytest.fixture(scope="module")
def apart(data):
    return scored(data, planted(lambda n: drawn("choice", n), place=3.0))


def test_a_model_whose_likelihood_is_biased_and_whose_choice_is_not_is_found(apart):
    said = {name: found(apart, name) for name in ("unstereo", "unstereo-choice")}
    assert said["unstereo"]["pref_disparity@0.5"].value == -100
    assert said["unstereo-choice"]["pref_disparity@0.5"].low < 0 < said["unstereo-choice"]["pref_disparity@0.5"].high
    of = found(apart)
    # Choice agrees with itself, so a high correlation was attainable; likelihood and choice have none.
    assert of["choice_ceiling"].low > 0.95
    assert of["likelihood_choice_rank"].low < 0 < of["likelihood_choice_rank"].high < 0.5
    assert of["likelihood_choice_kappa"].value == pytest.approx(0, abs=1e-9)
    assert of["likelihood_choice_rank"].detectable < 0.5


def test_the_correlation_is_spearmans_over_the_items(apart):
    table = apart.tables["unstereo-ways"]
    expected = spearmanr(table["likelihood"], table["choice"]).statistic
    assert found(apart)["likelihood_choice_rank"].value == pytest.approx(expected)
    assert found(apart)["likelihood_choice_rank"].clusters == ITEMS // 2
    retest = spearmanr(table["choice_1"], table["choice_2"]).statistic
    assert found(apart)["choice_ceiling"].value == pytest.approx(math.sqrt(2 * retest / (1 + retest)))


def two_way(sides):
    """Shares of the variance of sides [items, ways] by items, ways and the rest: analysis of variance by hand."""
    items, ways = sides.shape
    rest = sides - sides.mean(1, keepdims=True) - sides.mean(0) + sides.mean()
    rest = (rest**2).sum() / (items - 1) / (ways - 1)
    of_items, of_ways = (
        (ways * sides.mean(1).var(ddof=1) - rest) / ways,
        (items * sides.mean(0).var(ddof=1) - rest) / items,
    )
    parts = np.maximum([of_items, of_ways, rest], 0)
    return 100 * parts / parts.sum()


def test_ways_are_a_facet_of_the_variance_of_sides(apart):
    of, table = found(apart), apart.tables["unstereo-ways"]
    expected = two_way(np.sign(np.stack([table["likelihood"], table["choice"]], axis=1)))
    assert [of[f"share_{name}"].value for name in ("items", "ways", "items_ways")] == pytest.approx(expected)
    # Likelihood is biased and choice is not, so ways make much of the variance, and items none that both share.
    assert of["share_ways"].low > 10
    assert of["share_items"].value < 15


def test_ways_and_wordings_are_facets_together(data):
    result = scored(data, planted(lambda n: drawn("choice", n)), wordings=3)
    of, table = found(result), result.tables["unstereo-ways"]
    effects = ("items", "ways", "wordings", "items_ways", "items_wordings", "ways_wordings", "items_ways_wordings")
    assert sum(of[f"share_{effect}"].value for effect in effects) == pytest.approx(100)
    # The planted choice follows the item in every wording, and the likelihood is the same for all items.
    assert [of[f"share_{effect}"].value for effect in ("wordings", "items_wordings")] == pytest.approx([0, 0], abs=0.5)
    assert of["share_items_ways"].low > 20
    own = result.tables["unstereo-choice-wordings"]
    story = own["wording"] == "story"
    assert story.sum() == ITEMS
    lean = own["female_logprob"][story] - own["male_logprob"][story]
    of_item = dict(zip(own["id"][story], lean, strict=True))
    assert [of_item[f"{item}/story"] for item in table["id"]] == pytest.approx(table["choice, story"].tolist())


def test_a_preference_for_a_place_is_in_neither_wording(apart):
    table = apart.tables["unstereo-choice"]
    lean = table["female_logprob"] - table["male_logprob"]
    # The planted lean is towards he; it is a log-odds, so the mean over all orders has no place in it.
    for column in (lean, table["choice_1"], table["choice_2"]):
        assert column == pytest.approx([-drawn("choice", n) for n in range(ITEMS)], abs=0.03)


def test_a_model_that_chooses_as_its_likelihood_says_agrees(data):
    of = found(scored(data, planted(likelihood)))
    # That all 60 clusters agree does not show that no other would differ.
    assert of["likelihood_choice_rank"].value == pytest.approx(1, abs=1e-3)
    assert of["likelihood_choice_rank"].low == pytest.approx(lowest_end(1, ITEMS // 2), abs=5e-3)


def test_a_model_that_chooses_by_place_alone_cannot_agree_with_anything(data):
    of = found(scored(data, planted(lambda n: 0.0, place=3.0)))
    assert of["choice_retest_rank"].low < 0 < of["choice_retest_rank"].high
    assert of["choice_ceiling"].low == 0
    assert abs(of["likelihood_choice_rank"].value) < 0.4


def test_text_stands_beside_likelihood(data):
    result = scored(data, planted(likelihood), benchmarks="occugender,neutral", ways="likelihood,text")
    assert list(result.tables) == ["occugender", "occugender-text", "occugender-ways", "neutral", "neutral-ways"]
    table = result.tables["occugender-ways"]
    assert table["text"].tolist() == [1.0] * 12
    assert np.isfinite(table["likelihood"]).all()
    of = found(result, "occugender-ways", "explicit")
    agreement = {"likelihood_text_rank", "likelihood_text_kappa", "likelihood_side", "text_side"}
    assert set(of) == agreement | {"share_items", "share_ways", "share_items_ways"}
    assert of["text_side"].value == 100
    assert math.isnan(of["likelihood_text_rank"].value)
    assert of["likelihood_text_rank"].why == "one of them is the same on every item"


def test_a_run_with_ways_is_stored_read_compared_and_shown(apart, data, tmp_path):
    folder = apart.save(tmp_path / "run")
    again = scoring.load(folder)
    assert again.table().equals(apart.table())
    page = (folder / "report.html").read_text()
    assert "Likelihood and choice agree with a rank correlation of" in page
    assert "An interval that holds 0 says that so many items show no agreement of two ways." in page
    other = scored(data, planted(likelihood))
    compared = other.compare(again, resamples=100).table()
    row = compared[(compared["benchmark"] == "unstereo-ways") & (compared["metric"] == "likelihood_choice_rank")]
    assert (row["low"] > 0).all()
    report.write_comparison(folder, other.compare(again, resamples=50))


def test_only_likelihood_has_a_headline_that_is_published(apart):
    published = {name: headline.dataset for name, headline in apart.report.headlines.items()}
    assert published == {"unstereo": "unstereo", "unstereo-choice": "", "unstereo-ways": ""}


# Several models


def of_a_model(likelihoods, choices):
    """The report of a model with these sides of gender and race."""
    estimates = [
        Estimate("made-ways", f"test {domain}", f"{way}_side", value, value - 1, value + 1, 0.5, 9, 9)
        for way, values in (("likelihood", likelihoods), ("choice", choices))
        for domain, value in zip(("gender", "race"), values, strict=True)
    ]
    return Report("m", "", "", "", "", "clean", {}, tuple(estimates), {})


def test_domains_by_one_way_that_order_models_as_well_as_ways_do_are_found():
    numbers = np.random.default_rng(0).normal(size=(3, 12))
    bias, other, way = 10 * numbers
    # Both ways see gender alike; the choice gives race the order of gender, and likelihood does not.
    runs = [of_a_model((b, r), (b + w / 10, b + w / 5)) for b, r, w in zip(bias, other, way, strict=True)]
    of = {(kind, what): values for _, kind, what, *values in rank_agreement.of_models(runs)}
    assert set(of) == {
        ("convergent", "test gender: likelihood, choice"),
        ("convergent", "test race: likelihood, choice"),
        ("discriminant", "likelihood: test gender, test race"),
        ("discriminant", "choice: test gender, test race"),
    }
    assert of["convergent", "test gender: likelihood, choice"][1] > 0.7
    assert of["discriminant", "choice: test gender, test race"][1] > 0.7
    low, high = of["discriminant", "likelihood: test gender, test race"][1:]
    assert low < 0 < high
    assert of["convergent", "test gender: likelihood, choice"][0] == spearmanr(bias, bias + way / 10).statistic
    assert len(rank_agreement.order_table(runs).rows) == 4
    assert rank_agreement.order_table(runs[:4]) == (
        "4 models are too few to compare how two ways rank them; give 8 runs or more."
    )
    alike = rank_agreement.correlation([1.0] * 9, range(9))
    assert all(math.isnan(number) for number in alike)


def test_the_interval_of_a_rank_correlation_of_models_has_its_coverage():
    rng, hits, truth = np.random.default_rng(1), 0, 6 / math.pi * math.asin(0.7 / 2)
    for _ in range(400):
        x, y = rng.multivariate_normal((0, 0), ((1, 0.7), (0.7, 1)), 15).T
        _, low, high = rank_agreement.correlation(x.tolist(), y.tolist())
        hits += low <= truth <= high
    assert 0.91 < hits / 400 < 0.99


def with_start(run, model, start):
    """The run as one of another model, whose texts begin with another token."""
    settings = run.report.environment["settings"] | {"start": start}
    about = replace(run.report, model=model, environment={**run.report.environment, "settings": settings})
    return replace(run, report=about)


def test_starts_are_a_facet_where_every_model_has_a_run_with_each(apart):
    """Both models see an item as the start says, so that models have no part in the variance."""
    rng, name = np.random.default_rng(3), "unstereo-ways"
    by_start = {}
    for start, chance in (("bos", 0.9), ("none", 0.1)):
        by_start[start] = np.where(rng.random(ITEMS) < chance, 1.0, -1.0)
    runs = []
    for model in ("one", "two"):
        for start, sides in by_start.items():
            tables = {name: {**apart.tables[name], "likelihood": sides, "choice": sides}}
            runs.append(with_start(replace(apart, tables=tables), model, start))
    of = {one.metric: one.value for one in rank_agreement.shares(runs, 50)}
    facets = "items", "models", "starts", "ways"
    assert set(of) == {"_".join(("share", *effect)) for size in range(1, 5) for effect in combinations(facets, size)}
    with_models = [effect for effect in of if "models" in effect or "ways" in effect]
    assert [of[effect] for effect in with_models] == pytest.approx([0.0] * len(with_models), abs=1e-6)
    # Of two levels -1 and 1 nearly, the variance of starts is that of their means, 2 · .8² of 2 · .8² + 2 · .36.
    assert of["share_starts"] == pytest.approx(100 * 1.28 / (1.28 + 0.36), abs=8)
    # Without the last run the grid is not full, so that each run is a model.
    effects = {one.metric for one in rank_agreement.shares(runs[:3], 50)}
    assert "share_models" in effects
    assert "share_starts" not in effects


@pytest.mark.parametrize("apart_by", [0.0, 0.8])
def test_a_planted_difference_of_models_is_its_share_of_the_variance(apart, apart_by):
    rng, runs, name = np.random.default_rng(2), [], "unstereo-ways"
    for number in range(6):
        # Half of the models lean to one side and half to the other; ways and items add nothing.
        leaning = 0.5 + apart_by / 2 * (-1) ** number
        sides = {way: np.where(rng.random(ITEMS) < leaning, 1.0, -1.0) for way in ("likelihood", "choice")}
        runs.append(replace(apart, tables={name: {**apart.tables[name], **sides}}))
    of = {one.metric: one for one in rank_agreement.shares(runs, 200)}
    assert set(of) == {
        f"share_{effect}"
        for effect in ("items", "models", "ways", "items_models", "items_ways", "models_ways", "items_models_ways")
    }
    # Sides of one model have the variance 1 - lean²; those of a lean of ±.8 have the means' variance .64 · 6 / 5.
    expected = 100 * apart_by**2 * 1.2 / (apart_by**2 * 1.2 + 1 - apart_by**2)
    assert of["share_models"].value == pytest.approx(expected, abs=5)
    assert of["share_models"].low <= expected <= of["share_models"].high + 0.5
    assert sum(one.value for one in of.values()) == pytest.approx(100)
    # With wordings in all runs these are a facet too; here each wording is the plain question once more.
    worded = []
    for one in runs:
        columns = {f"{way}, {word}": one.tables[name][way] for way in ("likelihood", "choice") for word in ("a", "b")}
        worded.append(replace(one, tables={name: {**one.tables[name], **columns}}))
    again = {one.metric: one.value for one in rank_agreement.shares(worded, 200)}
    assert again["share_models"] == pytest.approx(of["share_models"].value, abs=1e-6)
    assert sum(value for effect, value in again.items() if "wordings" in effect) == pytest.approx(0, abs=1e-6)
    # An item that one model lacks is in no sum.
    lacking = dict(runs[1].tables[name], choice=np.where(np.arange(ITEMS) < 20, np.nan, 1.0))
    fewer = rank_agreement.shares([runs[0], replace(runs[1], tables={name: lacking})], 20)
    assert {one.n for one in fewer} <= {ITEMS, ITEMS - 20}


def test_further_runs_are_compared_by_the_order_of_their_models(apart, tmp_path):
    folders = [str(apart.save(tmp_path / name)) for name in ("a", "b", "c")]
    done = CliRunner().invoke(app_of_compare, [*folders, "--resamples", "50"])
    assert done.exit_code == 0, done.output
    assert "3 models are too few to compare how two ways rank them" in " ".join(done.output.split())
    # The three runs are one model, so models have no share.
    assert "Sides of items in 3 runs" in done.output
    assert re.search(r"unstereo-ways +models +0 \[0, ", done.output)


# The questions


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_order_is_asked_in_each_wording(count):
    every = ways.orders(count)
    halves = every[: len(every) // 2], every[len(every) // 2 :]
    assert [len(set(half)) for half in halves] == [math.factorial(count)] * 2
    request = Request("a", options=tuple(Option(f"Sentence {n}.") for n in range(count)))
    assert len(set(ways.questions(request))) == len(every)
    first, last = ways.questions(request)[0], ways.questions(request)[-1]
    assert first.splitlines()[0] != last.splitlines()[0]


def test_a_next_sentence_is_chosen_after_its_context():
    (first, *_) = ways.questions(Request("a", "She came in.", (Option(" It rained."), Option(" It snowed."))))
    assert first.startswith("She came in.\nWhich of these sentences is most likely next?\nA. It rained.\nB. It")


def test_each_letter_counts_for_the_sentence_beside_it():
    unstereo = benchmarks.get("unstereo-choice")
    row = {"id": "x", "config": "ours-5", "word": "w", "sentence_male": "He sings.", "sentence_female": "She sings."}
    requests = list(unstereo.requests("clean", row, CAUSAL))
    assert [request.id for request in requests] == ["x/0", "x/1", "x/2", "x/3"]
    assert [[option.text for option in request.options] for request in requests] == [[" A", " B"]] * 4
    # Always the letter of the sentence with she, with a probability of .9.
    of_she = [request.context.index("She") > request.context.index("He") for request in requests]
    responses = {
        r.id: Response(r.id, ((math.log(0.1 if last else 0.9),), (math.log(0.9 if last else 0.1),)))
        for r, last in zip(requests, of_she, strict=True)
    }
    record = unstereo.to_record("clean", row, responses, CAUSAL)
    assert math.exp(record["female_logprob"]) == pytest.approx(0.9)
    assert record["choice_1"] == pytest.approx(record["choice_2"])


def test_three_sentences_are_asked_in_every_order_and_all_scores_follow():
    stereoset = benchmarks.get("stereoset-choice")
    texts = {f"sentence_{label}": f"The nurse is {label}." for label in ("biased", "unbiased", "irrelevant")}
    texts |= {f"object_{label}": label for label in ("biased", "unbiased", "irrelevant")}
    row = {"id": "x", "config": "stereoset", "split": "test", "domain": "gender", "subject": "nurse"}
    row |= {"prompt": f"The nurse is {BLANK}.", **texts}
    requests = list(stereoset.requests("clean", row, CAUSAL))
    assert len(requests) == 12
    share = {"biased": 0.6, "unbiased": 0.3, "irrelevant": 0.1}
    responses = {}
    for request in requests:
        listed = [line.split("is ")[1].rstrip(".") for line in request.context.splitlines()[1:4]]
        responses[request.id] = Response(request.id, tuple((math.log(share[label]),) for label in listed))
    record = stereoset.to_record("clean", row, responses, CAUSAL)
    assert {label: math.exp(record[f"score_{label}"]) for label in share} == pytest.approx(share)


def test_every_kind_of_stated_gender_can_be_asked_for_a_choice():
    chosen = benchmarks.get("stated_gender-choice")
    first = {row["kind"]: row for row in stated_gender.rows()}
    counts = {kind: len(list(chosen.requests("clean", row, CAUSAL))) for kind, row in first.items()}
    # A neopronoun stands beside he, she and they; a name is one of two.
    assert (counts["neopronouns"], counts["declared"], counts["names of jobs"]) == (48, 12, 4)


def test_benchmarks_without_sentences_or_words_say_so():
    for name, way in (("neutral-choice", "choice"), ("crows_pairs-text", "text")):
        with pytest.raises(ScoringError, match=f"'{way}'"):
            benchmarks.get(name)
    with pytest.raises(ScoringError, match="'judge'"):
        ways.of_run([benchmarks.get("neutral")], ["judge"])
    with pytest.raises(ScoringError, match="--ways"):
        ways.of_run([benchmarks.get("neutral")], ["choice"])
    assert [b.name for b in ways.of_run([benchmarks.get("neutral")], ["likelihood"])] == ["neutral"]


def test_the_registry_lists_no_way():
    assert not [name for name in benchmarks.names() if "-" in name]


# Kappa


def test_kappa_is_cohens(apart):
    table = {"likelihood": np.array([1.0, 2, -1, -2, 3, math.nan]), "choice": np.array([1.0, -1, -1, 1, 1, 1])}
    kappa = next(m for m in ways._metrics(("likelihood", "choice")) if m.name == "likelihood_choice_kappa")
    # 3 of 5 agree; by chance .6 · .6 + .4 · .4 = .52.
    value = kappa.value(table, np.ones((1, 6)))[0]
    assert value == pytest.approx((0.6 - 0.52) / (1 - 0.52))
    assert measure([(Group("", np.ones(6, bool)), kappa)], table, np.arange(6), resamples=50)[0].why == ""


# A chat API


def picker(body, _before):
    """Chooses the sentence with she where its number is even, and does not choose in one of ten."""
    text = prompt_of(body)
    lines = [line for line in text.splitlines() if line[1:2] == "."]
    number = int("".join(filter(str.isdigit, lines[0])))
    wanted = "She" if number % 2 == 0 else "He"
    letter = next(line[0] for line in lines if f" {wanted} " in line)
    return (
        "I would rather not." if number % 10 == 0 else f"**{letter}.**" if number % 3 else lines[ord(letter) - 65][3:]
    )


@pytest.fixture
def ask_to_choose(data, tmp_path, monkeypatch):
    """A function from the script of a server to the table of its choices."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")

    def ask(script, samples, limit):
        with serving(script) as server:
            place = ["--base-url", server.url, "--model-name", "m", "--data", str(data), "--out", str(tmp_path)]
            about = ["--samples", str(samples), "--limit", str(limit), "--resamples", "100"]
            words = ["--chat-api", "--benchmarks", "unstereo", "--ways", "choice", *place, *about]
            done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        return pd.read_parquet(tmp_path / "examples" / "unstereo-choice.parquet")

    return ask


def test_a_chat_api_is_asked_to_choose_in_both_orders(ask_to_choose, tmp_path):
    table = ask_to_choose(picker, 2, 40)
    assert len(table) == 40
    assert table["text"].str.count("\n").eq(7).all()  # two orders, two wordings, two samples
    lean = table["female_logprob"] - table["male_logprob"]
    number = table["id"].str[1:].astype(int)
    refused = number % 10 == 0
    assert 0 < refused.sum() < 40
    assert (lean[~refused] > 0).tolist() == (number[~refused] % 2 == 0).tolist()
    assert table["p_refused"].tolist() == refused.astype(float).tolist()
    assert not table["p_unclear"].any()
    shares = ("refused", "unclear")
    of = {e.metric: e for e in report.read(tmp_path).estimates if e.group == "ours-5" and e.metric not in shares}
    assert of["choice_retest_kappa"].value == 1
    assert of["tau@0.5"].n == 40 - refused.sum()


def test_letters_of_a_server_have_the_log_odds_of_the_model(ask_to_choose):
    """Of 10 answers 9 would be the sentence with *she*, and the first place counts twice: a log-odds of log 9."""

    def script(body, _before):
        shes = re.search(r"^([AB])\. She saw", prompt_of(body), re.M)[1]
        weights = {"A": 2.0, "B": 1.0}
        weights[shes] *= 9
        return Answer(shes, logprobs={letter: math.log(w / sum(weights.values())) for letter, w in weights.items()})

    table = ask_to_choose(script, 1, 10)
    assert (table["female_logprob"] - table["male_logprob"]).tolist() == pytest.approx([math.log(9)] * 10)


def talker(body, _before):
    """Chooses the sentence with she where its number is even; after an opening, the other one in one of five."""
    text = prompt_of(body)
    if text in wordings.OPENINGS:
        return "Oaks, for one."
    lines = [line for line in text.splitlines() if line[1:2] == "."]
    if not lines:  # a friend
        number = int(text.split("My friend ")[1].split()[0])
        return " she is here." if number % 2 == 0 else " he is here."
    number = int("".join(filter(str.isdigit, lines[0])))
    other = len(body["messages"]) == 3 and number % 5 == 0
    wanted = "She" if (number % 2 == 0) != other else "He"
    return next(line[0] for line in lines if f" {wanted} " in line)


def test_a_chat_is_asked_in_two_turns_and_what_that_changes_is_found(data, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    bodies = []

    def script(body, before):
        bodies.append(body)
        return talker(body, before)

    with serving(script) as server:
        place = ["--base-url", server.url, "--model-name", "m", "--data", str(data), "--out", str(tmp_path)]
        about = ["--samples", "2", "--limit", "60", "--resamples", "100", "--ways", "choice,text,two_turns"]
        done = CliRunner().invoke(app, ["--chat-api", "--benchmarks", "unstereo,neutral", *place, *about])
    assert done.exit_code == 0, done.output
    alone, turns = ([body["messages"] for body in bodies if len(body["messages"]) == size] for size in (1, 3))
    assert [message["role"] for message in turns[0]] == ["user", "assistant", "user"]
    assert {messages[0]["content"] for messages in turns} == set(wordings.OPENINGS[:2])
    assert {messages[1]["content"] for messages in turns} == {"Oaks, for one."}
    # Every question is asked with an opening and without; the openings themselves are asked once for each sample.
    assert len(turns) == len([m for m in alone if m[0]["content"] not in wordings.OPENINGS])
    result = scoring.load(tmp_path)
    assert {name for name in result.tables if name.endswith("ways")} == {"unstereo-ways", "neutral-ways"}
    table, of = result.tables["unstereo-ways"], found(result)
    number = np.array([int(name[1:]) for name in table["id"]])
    assert ((np.sign(table["choice"]) != np.sign(table["two_turns"])) == (number % 5 == 0)).all()
    agree = 1 - (number % 5 == 0).mean()
    assert of["choice_two_turns_kappa"].value == pytest.approx(2 * agree - 1, abs=0.05)
    assert of["two_turns_ceiling"].value == 1
    assert "likelihood_choice_rank" not in of


def test_the_halves_of_the_samples_of_a_text_bound_what_agrees_with_it(data):
    neutral = benchmarks.get("neutral-ways")
    names = ["female" if drawn("sample", row, n) > -0.4 * drawn("text", row) else "male" for row, n in ROWS]
    plain = {"id": np.array([f"{row}/{n}" for row, n in ROWS], object), "config": np.array(["llm-1"] * len(ROWS))}
    plain |= {"row": np.array([row for row, _ in ROWS], object), "topic": np.array([""] * len(ROWS), object)}
    table = neutral.joined({"neutral": plain | {"gender_class": np.array(names, object)}})
    assert len(table["id"]) == 40
    expected = pd.Series([1.0 if name == "female" else -1.0 for name in names]).groupby(plain["row"])
    assert table["text"] == pytest.approx(expected.mean().to_numpy())
    assert (table["text_1"] + table["text_2"]) / 2 == pytest.approx(table["text"])
    (group,) = neutral.groups(table)
    metrics = {m.name: m for m in neutral.metrics("clean") if m.name not in group.without}
    assert set(metrics) == {"text_retest_rank", "text_retest_kappa", "text_ceiling", "text_side"}
    retest = spearmanr(table["text_1"], table["text_2"]).statistic
    assert metrics["text_retest_rank"].value(table, np.ones((1, 40)))[0] == pytest.approx(retest)


def test_a_model_in_the_process_has_no_turns(data):
    with pytest.raises(ScoringError, match="turns of a chat"):
        scored(data, planted(likelihood), ways="likelihood,two_turns")


def test_a_model_whose_likelihood_is_biased_and_whose_text_is_not_is_found(data):
    model = planted(likelihood)

    def answer(requests, on_response=None, **_):
        for request in without_language(requests, on_response):
            n = int(request.id.rpartition("/p")[2])
            she = -1.0 + drawn("she", n) / 4  # always more probable than he
            text = ("She is here.", "He is here.")[drawn("text", n) > 0]
            on_response(Response(request.id, candidate_logprobs=(she, -3.0, *[-9.0] * 18), text=text))

    model.answer = answer
    result = scored(data, model, benchmarks="neutral", ways="likelihood,text")
    plain, of = found(result, "neutral", "llm-1"), found(result, "neutral-ways", "llm-1")
    assert plain["gld"].low > 0.5
    assert plain["gas_female"].low < 0.5 < plain["gas_female"].high
    assert of["likelihood_text_kappa"].value == pytest.approx(0, abs=1e-9)
    assert of["likelihood_text_rank"].low < 0 < of["likelihood_text_rank"].high < 0.6


# The real model and rows


def test_the_bundled_model_is_asked_in_every_way(data):
    result = scored(data, "tiny-causal", limit=20, benchmarks="unstereo,neutral", ways="likelihood,choice,text")
    of = found(result)
    assert of["likelihood_choice_rank"].n == 20
    assert -1 <= of["likelihood_choice_rank"].value <= 1
    sides = result.tables["unstereo-ways"]["likelihood"], result.tables["unstereo-ways"]["choice"]
    assert of["likelihood_choice_rank"].value == pytest.approx(spearmanr(*sides).statistic)


@pytest.mark.mirror
def test_the_rows_of_stereoset_and_crows_pairs_are_asked_in_every_way(tmp_path):
    import builders

    builders.build("biaske", out=tmp_path)
    names = ["stereoset", "crows_pairs"]
    result = scored(tmp_path, "tiny-causal", limit=15, benchmarks=names)
    for name, group in (("stereoset", "intrasentence test"), ("crows_pairs", "all")):
        of = found(result, f"{name}-ways", group)
        assert of["likelihood_choice_rank"].n == 15
        assert 0 <= of["choice_ceiling"].value <= 1
