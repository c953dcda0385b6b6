"""Published responses become runs: the command, what is left out, and the published files of every source."""

import csv
import json
import math
from importlib import resources

import pandas as pd
import pytest
from typer.testing import CliRunner

import scoring
from builders.dataset import Alternative, Fetched, Remote, Source
from builders.sources import catalogue
from builders.text.wording import LABELS
from scoring import published
from scoring.commands.published import app
from scoring.commands.rescore import rescore
from scoring.inputs import tables
from scoring.responses import (
    bbq_debiased,
    gest,
    gifi_friend,
    gifi_pronouns,
    occugender_jobs,
    occugender_notebook,
    pythia_bias,
    pythia_winobias,
    stereoset,
    unstereo,
)
from scoring.types import BY_OTHERS, ScoringError
from tests.scoring.made import made_gest
from tests.support.helpers import mirror
from tools.real_models.scores import examples_of

RUNNER = CliRunner()


def invoked(*arguments):
    return RUNNER.invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder in which data sets are built for the tests of this file."""
    return tmp_path_factory.mktemp("output")


def fetched(folder, *texts):
    paths, remotes = [], []
    for number, text in enumerate(texts):
        path = folder / f"model_template-{number}.txt"
        path.write_text(text)
        paths.append(path)
        remotes.append(Remote(f"https://example.org/{path.name}", sha256="0" * 64))
    source = Source("gest-predictions/model", "Apache-2.0", "made", (Alternative(tuple(remotes)),))
    return Fetched(source, 0, tuple(paths))


def test_a_file_that_is_broken_is_left_out_with_the_reason_and_the_other_is_used(tmp_path):
    data = made_gest(tmp_path)
    whole = "\n".join(["0.1"] * 32)
    found = gest.responses(fetched(tmp_path, whole, whole.replace("0.1", "nan", 1)), data)
    assert set(found.table["wording"]) == {"he-last"}
    assert found.remarks == ("model_template-1.txt line 1 is 'nan' and no finite number; it is left out.",)
    assert found.table["log_ratio"][0] == pytest.approx(0.1 * math.log(10))


def test_a_model_without_a_file_that_can_be_used_has_no_run(tmp_path):
    data = made_gest(tmp_path)
    with pytest.raises(published.BrokenFileError, match=r"has 31 lines, and GEST 32 sentences"):
        gest.responses(fetched(tmp_path, "\n".join(["0.1"] * 31), "\n".join(["x"] * 32)), data)


def test_a_model_that_a_source_does_not_have_is_refused():
    with pytest.raises(ScoringError, match=r"'gtp2'.*'gpt2'"):
        published.score("gest", "gtp2")


@pytest.mark.parametrize("name", published.names())
def test_every_source_has_models_a_benchmark_and_words_about_its_settings(name):
    source = published.get(name)
    assert published.models(name)
    assert source.benchmark in scoring.benchmarks.names()
    assert source.summary.endswith(".")
    assert source.settings.endswith(".")
    assert name in invoked().output
    assert set(published.models(name)) == set(invoked(name).output.split())


@pytest.mark.mirror
def test_the_predictions_of_gest_have_the_known_ratios(data):
    known = {
        "Mistral-7B-Instruct-v0.2": (1.49, 1.63),
        "Llama-2-7b-hf": (1.23, 1.36),
        "pythia-70m": (1.00, 1.10),
    }
    for model, printed in known.items():
        result = published.score("gest", model, data, resamples=50)
        found = {(e.group, e.metric): e.value for e in result.report.estimates}
        rounded = tuple(round(found[wording, "g_s_published"], 2) for wording in gest.CAUSAL)
        assert rounded == printed
        for wording in gest.CAUSAL:
            assert found[wording, "g_s"] == pytest.approx(found[wording, "g_s_published"] ** math.log(10))
    assert len(published.models("gest")) == 34


def fetched_texts(folder, rows):
    path = folder / "SAOF_template-all-genders_model.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["template", "state", "generated_sentences"])
        writer.writeheader()
        writer.writerows(rows)
    remote = Remote(f"https://example.org/{path.name}", sha256="0" * 64)
    return Fetched(Source("gifi-friend/model", "MIT", "made", (Alternative((remote,)),)), 0, (path,))


def test_draws_of_a_prompt_are_one_cluster_and_empty_ones_are_left_out(tmp_path):
    prompt = "My friend is a carpenter, and"
    rows = [
        {"template": prompt, "state": "occupation", "generated_sentences": text}
        for text in ("he builds. She left.", f'"{prompt} they build."', " ")
    ]
    found = gifi_friend.responses(fetched_texts(tmp_path, rows), tmp_path)
    assert list(found.table["friend"]) == ["male", "they"]
    assert list(found.table["gender_class"]) == ["both", "neutral"]
    assert list(found.table["class_sentence"]) == ["male", "neutral"]
    assert set(found.table["config"]) == {"templates"}
    assert set(found.table["row"]) == {"is-a-carpenter"}
    assert found.table["female_share"][0] == 3.1
    assert any("1 empty texts" in remark for remark in found.remarks)
    assert any("2 of 11 draws" in remark for remark in found.remarks)


def test_a_prompt_without_its_last_word_is_the_same_prompt_and_the_reader_is_told(tmp_path):
    rows = [{"template": "My friend is a carpenter", "state": "occupation", "generated_sentences": "He builds."}]
    found = gifi_friend.responses(fetched_texts(tmp_path, rows), tmp_path)
    assert set(found.table["config"]) == {"templates"}
    assert any("without their last word" in remark for remark in found.remarks)


def test_a_file_without_texts_is_left_out(tmp_path):
    with pytest.raises(published.BrokenFileError, match="'template'"):
        gifi_friend.responses(fetched_texts(tmp_path, []), tmp_path)


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("model", "gendered"),
    [
        ("Llama-2-7b", 0.918),
        ("gemma-2-9b", 0.917),
        ("gpt-4o", 0.689),
        ("claude3-haiku", 0.638),
        ("Phi-3-mini-4k", 0.589),
    ],
)
def test_the_continuations_of_gifi_have_the_known_shares_of_gendered_pronouns(model, gendered, data):
    result = published.score("gifi-friend", model, data, resamples=50)
    found = {(e.group, e.metric): e for e in result.report.estimates}
    assert round(found["all prompts", "gas_plain"].value, 3) == gendered
    assert found["all prompts", "friend_they"].clusters == 200
    assert found["jobs", "friend_labour_correlation"].clusters == 19
    assert found["templates", "gas_plain"].clusters == 125
    # A stretch of a text has no more pronouns than the whole.
    assert found["all prompts", "gas_sentence"].value <= found["all prompts", "gas_plain"].value
    assert len(published.models("gifi-friend")) == 13


#: The tables of OccuGender by model, with the number of implicit cells for which the files have the three prompts.
CELLS = {
    "llama3-8b": (5, 36),
    "llama3-8b-instruct": (6, 36),
    "mistral-7b": (8, 30),
    "mistral-7b-instruct": (9, 30),
    "llama2-7b": (10, 30),
    "llama2-7b-instruct": (11, 36),
}


def printed_cells(number):
    """The implicit numbers of a printed table of OccuGender by group and metric, but for means over levels."""
    place = resources.files("scoring") / "data" / "printed" / f"occugender-table-{number}.csv"
    cells = {}
    for row in csv.DictReader(place.read_text("utf-8").splitlines()):
        if row["debias_prompt"] != "Avg":
            name = "" if row["debias_prompt"] == "None" else f", debiasing {row['debias_prompt']}"
            for jobs, of in (("female", "femdom"), ("male", "maledom")):
                for metric, letter in (("p_male", "M"), ("p_female", "F"), ("p_diverse", "D")):
                    cells[f"implicit{name}, {jobs} jobs", metric] = float(row[f"implicit_{of}_{letter}"])
    return cells


def equal(result, number):
    """Which of the printed cells that a run has are equal to the printed digit."""
    found = {(e.group, e.metric): e.value for e in result.report.estimates}
    return [f"{found[key]:.1f}" == f"{value:.1f}" for key, value in printed_cells(number).items() if key in found]


@pytest.mark.mirror
def test_all_implicit_cells_of_occugender_that_its_files_have_are_equal_to_the_printed_ones(data):
    total = 0
    for model, (number, count) in CELLS.items():
        result = published.score("occugender-classes", model, data, resamples=10)
        same = equal(result, number)
        assert (sum(same), len(same)) == (count, count)
        total += count
    assert total == 198
    # A table of another model is not equal.
    assert sum(equal(result, 5)) < 10
    with pytest.raises(published.BrokenFileError, match="has rewordings alone"):
        published.score("occugender-classes", "gemma-7b", data, resamples=10)


@pytest.mark.mirror
def test_all_implicit_cells_of_table_9_are_in_a_notebook(data):
    same = equal(published.score("occugender-notebook", "mistral-7b-instruct", data, resamples=10), 9)
    assert (sum(same), len(same)) == (42, 42)


@pytest.mark.mirror
def test_shares_by_job_have_the_known_correlations_with_the_labour_market(data):
    known = {"gpt2": 0.84, "llama2-7b": 0.92, "llama3-8b-instruct": 0.94}
    for model, correlation in known.items():
        result = published.score("occugender-jobs", model, data, resamples=10)
        found = {(e.group, e.metric): e for e in result.report.estimates}
        score = found["implicit", "labour_correlation_jobs"]
        assert round(score.value, 2) == correlation
        assert score.clusters == 40
        assert score.low < score.value < score.high
    with pytest.raises(published.BrokenFileError, match="same shares"):
        published.score("occugender-jobs", "alpaca-7b", data, resamples=10)


@pytest.mark.mirror
def test_rewordings_are_clusters_and_every_model_has_them(data):
    result = published.score("occugender-rewordings", "gemma-2-9b", data, resamples=10)
    found = {(e.group, e.metric): e for e in result.report.estimates}
    assert found["implicit, female jobs", "p_female"].clusters == 25
    assert found["explicit, debiasing 3, male jobs", "p_male"].clusters == 5
    assert len(published.models("occugender-rewordings")) == 10


def job_file(folder, name, rows):
    path = folder / name
    path.write_text("job, m_male, m_female, m_diverse\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["nurse,0.2,0.7,0.1", "pilot,0.2,0.7,0.1"], "has the same shares for all jobs"),
        (["nurse,0.2,0.7,x", "pilot,0.2,0.7,0.1"], "has no number where one is expected"),
        (["nurse,2,0.7,0.1", "pilot,0.2,0.7,0.1"], r"\b0\b.*\b1\b.*'nurse'"),
    ],
)
def test_a_file_of_shares_that_is_broken_is_named(tmp_path, rows, message):
    path = job_file(tmp_path, "m_none_genderquestion.csv", rows)
    with pytest.raises(published.BrokenFileError, match=message):
        list(occugender_jobs.shares(path, "m", {"": "explicit"}))


def test_a_notebook_without_the_table_is_left_out(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [{"outputs": [{"data": {"text/plain": ["a"]}}]}]}))
    with pytest.raises(published.BrokenFileError, match="shows no table"):
        occugender_notebook.output(path)
    path.write_text("x")
    with pytest.raises(published.BrokenFileError, match="is no notebook"):
        occugender_notebook.output(path)


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        ("Xe reads xyr book to them.", "xe", True),
        ("Xe said that she reads.", "xe", False),
        ("She said that he reads.", "she", False),
        ("Their co-worker read it.", "co", False),
        ("Co\u2019s here.", "co", True),
        ("It rains.", "they", False),
    ],
)
def test_a_pronoun_is_kept_where_the_text_has_it_and_neither_he_nor_she(text, declared, expected):
    assert gifi_pronouns.kept(text, declared) is expected


@pytest.mark.mirror
def test_texts_of_gifi_keep_xe_as_often_as_known(data):
    # As counts of 200 sentences (196 of GPT-2): a share of .895 is printed as .90 or .89 by the rule of rounding.
    known = {"gpt-4": 179, "gpt-4o": 176, "Llama-2-7b": 71, "gpt2": 0}
    for model, count in known.items():
        result = published.score("gifi-pronouns", model, data, resamples=10)
        found = {(e.group, e.metric): e for e in result.report.estimates}
        score = found["xe", "kept"]
        assert round(score.value * score.n / 100) == count
        assert score.clusters == score.n
        assert found["neopronouns", "kept"].clusters < found["neopronouns", "kept"].n
    assert len(published.models("gifi-pronouns")) == 15


def test_a_file_without_results_of_crows_pairs_is_left_out(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {}, "config": {"model_args": {"iteration": 7}}}))
    with pytest.raises(published.BrokenFileError, match="CrowS"):
        pythia_bias.results(path)


def test_a_large_intervention_has_a_verdict_and_none_has_none():
    def score(share):
        return pythia_bias.estimate("gender", share, math.sqrt(share * (1 - share) / 319)).numbers

    assert pythia_bias.estimate("gender", 0.6, math.sqrt(0.6 * 0.4 / 319)).n == 320
    assert pythia_bias.change(score(0.52), score(0.70)).verdict == "nearer"
    assert pythia_bias.change(score(0.70), score(0.52)).verdict == "further"
    assert pythia_bias.change(score(0.58), score(0.60)).verdict == "unclear"
    # A difference as large as what would be seen has a verdict more often than not.
    assert 10 < pythia_bias.change(score(0.58), score(0.60)).detectable < 12


@pytest.mark.mirror
def test_the_scores_of_pythia_are_the_known_ones_and_the_intervention_has_no_verdict(data, tmp_path):
    known = {"350m": 57.2, "1.3b": 60.6, "1.3b-swapped": 60.0, "1.3b-swapped-long": 58.8}
    scores = {}
    for model, value in known.items():
        result = published.score("pythia-bias", model, data)
        scores[model] = {e.group: e for e in result.report.estimates}["gender"]
        assert round(scores[model].value, 1) == value
        assert scores[model].n == 320
    for swapped in ("1.3b-swapped", "1.3b-swapped-long"):
        assert pythia_bias.change(scores[swapped].numbers, scores["1.3b"].numbers).verdict == "unclear"
    # A run without examples is written and read like any other.
    result.save(tmp_path / "run")
    read = scoring.load(tmp_path / "run")
    assert read.report.estimates[0].value == scores["1.3b-swapped-long"].value
    with pytest.raises(ScoringError, match="no examples"):
        read.compare(result)


def results_of_winobias(folder, name, step, pro, anti, *, short):
    """A file of the harness with one share for both types of sentences, in either form."""
    error = {share: math.sqrt(share * (1 - share) / 395) for share in (pro, anti)}
    rows = {
        f"wino_bias_{kind}_{side}+{prompt}": {
            "task_name": f"wino_bias_{kind}_{side}",
            "prompt_name": prompt,
            "em": share,
            "em_stderr": error[share],
        }
        for kind in pythia_winobias.TYPES
        for side, share in (("pro", pro), ("anti", anti))
        for prompt in pythia_winobias.PROMPTS
    }
    settings = {"model_args": {"iteration": step}}
    content = {"table_results": rows} | (settings if short else {"config": settings})
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def test_both_forms_of_results_of_winobias_give_the_difference_and_a_broken_file_is_named(tmp_path):
    long = results_of_winobias(tmp_path, "a.json", 1000, 0.3, 0.2, short=False)
    short = results_of_winobias(tmp_path, "b.json", 2000, 0.5, 0.3, short=True)
    broken = tmp_path / "c.json"
    broken.write_text(json.dumps({"table_results": {}, "model_args": {"iteration": 3000}}))
    remotes = tuple(Remote(f"https://example.org/{path.name}", sha256="0" * 64) for path in (long, short, broken))
    source = Source("pythia-winobias/model", "Apache-2.0", "made", (Alternative(remotes),))
    found = pythia_winobias.responses(Fetched(source, 0, (long, short, broken)), tmp_path)
    scores = {e.group: e for e in found.estimates}
    assert scores["type 1, stands for"].value == pytest.approx(20)
    assert scores["type 2, refers to, step 1000"].value == pytest.approx(10)
    assert scores["type 1, stands for"].n == 396
    assert found.remarks[0].startswith("c.json has no results of WinoBias (KeyError(")
    # A large difference has a verdict, and none has none.
    of = {e.group: e.numbers for e in found.estimates}
    none = pythia_winobias.estimate("none", (0.3, 0.01), (0.3, 0.01)).numbers
    large = pythia_winobias.estimate("large", (0.6, 0.01), (0.3, 0.01)).numbers
    assert pythia_bias.change(none, large, 0.0, -100.0).verdict == "nearer"
    assert pythia_bias.change(large, none, 0.0, -100.0).verdict == "further"
    assert pythia_bias.change(of["type 1, stands for"], of["type 2, stands for"], 0.0, -100.0).verdict == "unclear"


@pytest.mark.mirror
def test_the_scores_of_winobias_are_the_known_ones(data):
    known = {"410m": 21.2, "1.4b": 15.2, "1.4b-swapped": 19.9, "1.4b-swapped-long": 14.9, "6.9b-swapped": 21.0}
    for model, value in known.items():
        result = published.score("pythia-winobias", model, data)
        score = {e.group: e for e in result.report.estimates}["type 1, stands for"]
        assert round(score.value, 1) == value
        assert score.n == 396


def test_predictions_that_lack_a_sentence_are_left_out(tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps({"intrasentence": [{"id": "a", "score": 0.5}], "intersentence": []}))
    split = tables.given([{f"sentence_id_{label}": "ab"[n % 2] for n, label in enumerate(LABELS)}], "d", "c", "s")
    with pytest.raises(published.BrokenFileError, match="'b'"):
        stereoset.lines_of(stereoset.scores_of(path), split.rows, "intrasentence", path.name)
    path.write_text(json.dumps({"intrasentence": [{"id": "a"}]}))
    with pytest.raises(published.BrokenFileError, match="StereoSet"):
        stereoset.scores_of(path)


@pytest.mark.mirror
def test_the_run_of_predictions_has_the_scores_of_the_file_itself(data):
    result = published.score("stereoset", "gpt2", data, resamples=20)
    place = published.default_fetcher(offline=True).get(published.sources("stereoset")["gpt2"]).path
    answers, _ = rescore("stereoset", place, data, 20, 0)
    of_file = {(a.estimate.group, a.estimate.metric): a.estimate.value for a in answers}
    assert {(e.group, e.metric): e.value for e in result.report.estimates} == pytest.approx(of_file)


def test_log_probabilities_without_a_number_or_with_other_words_are_left_out(tmp_path):
    path = tmp_path / "scores.csv"
    rows = pd.DataFrame({"id": ["ours-5-paper-test-0"], "word": ["oak"]})
    for text, message in (
        ("word,F_logprob,M_logprob\noak,x,-1\n", "cannot be read"),
        ("word,F_logprob\noak,-1\n", "cannot be read"),
        ("word,F_logprob,M_logprob\nelm,-1,-1\n", "has other rows than the built data set"),
    ):
        path.write_text(text)
        with pytest.raises(published.BrokenFileError, match=message):
            list(unstereo.score_rows([path], [rows]))


@pytest.mark.mirror
@pytest.mark.parametrize("name", published.names())
def test_every_source_makes_a_run_of_its_real_rows(name, data):
    fetcher = published.default_fetcher(offline=True)
    reasons = []
    for model in published.models(name):
        try:
            run = published.score(name, model, data, resamples=5, fetcher=fetcher)
        except (published.BrokenFileError, published.UnavailableError) as error:
            reasons.append(str(error))
            continue
        assert run.report.estimates
        assert any(len(table["id"]) for table in run.tables.values()) or name.startswith("pythia-")
        licence = run.report.environment["licence"]
        assert any("do not publish them" in remark for remark in run.remarks) is not published.by_row(licence)
        if not published.by_row(licence):
            assert examples_of(run) == []
        return
    # The mirror of the tests has no step of training; a whole one has.
    assert name == "unstereo-steps", reasons
    assert all("is not available" in reason for reason in reasons)


@pytest.mark.mirror
def test_scores_after_a_recipe_are_compared_with_the_model_in_pairs(data):
    before, after = (
        published.score("stereoset-test", name, data, resamples=50) for name in ("phi-2", "phi-2/cda-gender-2000")
    )
    (change,) = [
        c
        for c in after.compare(before, resamples=50).changes
        if c.difference.key[1:] == ("intrasentence test gender", "ss")
    ]
    assert change.difference.clusters == 30
    assert change.difference.n == 771


@pytest.mark.mirror
def test_answers_to_bbq_under_a_prompt_are_compared_with_the_model_in_pairs(data):
    before, after = (
        published.score("bbq-debiased", name, data, resamples=50)
        for name in ("llama-8b", "llama-8b/stereotype_replacement-testing")
    )
    values = {(e.group, e.metric): e.value for e in before.report.estimates}
    # The model says that it cannot be known where the text has the answer.
    assert values["disambiguated", "accuracy"] == pytest.approx(0.074, abs=0.001)
    assert values["ambiguous", "accuracy"] == pytest.approx(0.937, abs=0.001)
    changes = {c.difference.key[1:]: c.difference for c in after.compare(before, resamples=50).changes}
    assert changes["disambiguated", "accuracy"].value == pytest.approx(0.114, abs=0.001)
    assert changes["ambiguous", "bias_score"].clusters == 50


def test_probabilities_of_letters_that_are_none_are_refused_by_name():
    for text in ("", "{'A': 1.0}", "{'A': 0.5, 'B': 0.6, 'C': 0.2}", "{'A': 'x', 'B': 0, 'C': 1}", "__import__('os')"):
        with pytest.raises(published.BrokenFileError, match=r"a\.csv has .* in place of the probabilities"):
            bbq_debiased._shares(text, "a.csv")


@pytest.mark.mirror
def test_published_texts_of_two_models_can_be_compared(data):
    one, other = (published.score("gifi-friend", name, data, resamples=50) for name in ("gpt-4o", "gpt-4o-mini"))
    keys = {change.difference.key[1:] for change in one.compare(other, resamples=50).changes}
    assert ("all prompts", "friend_they") in keys


@pytest.mark.mirror
def test_the_command_makes_runs_that_can_be_compared(data, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_MIRROR", str(mirror()))
    options = ("--out", tmp_path, "--data", data, "--resamples", 50, "--offline")
    done = invoked("gest", "--model", "gpt2,gpt2-xl", *options)
    assert done.exit_code == 0, done.output
    assert "2 runs in" in done.output
    small, large = (scoring.load(tmp_path / "gest" / name) for name in ("gpt2", "gpt2-xl"))
    compared = large.compare(small, resamples=50)
    (change,) = [c for c in compared.changes if c.difference.key == ("gest", "overall", "g_s")]
    assert change.verdict == "further"
    page = (tmp_path / "gest" / "gpt2" / "report.html").read_text()
    assert "compares this model with another one of the same source" in page
    assert "probes mitigate" not in page
    facts = json.loads((tmp_path / "gest" / "gpt2" / "results.json").read_text())
    assert facts["environment"]["engine"] == BY_OTHERS
    assert facts["environment"]["files"][0].startswith("https://raw.githubusercontent.com/kinit-sk/gest/")


def test_the_files_of_all_models_are_pinned():
    pinned = catalogue.catalogue().sources
    for name in published.names():
        for source in published.sources(name).values():
            assert source in pinned.values()
