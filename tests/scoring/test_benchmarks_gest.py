"""GEST: requests for both kinds of models, metrics with a planted and without a stereotype, files of scores."""

import math
from dataclasses import replace

import numpy as np
import pytest

import scoring
from builders.text.wording import STEREOTYPES
from scoring.benchmarks import get
from scoring.benchmarks.gest import WORDINGS, about, each
from scoring.commands.rescore import rescore
from scoring.inputs.tables import as_table
from scoring.metrics import gest
from scoring.statistics.stats import measure
from scoring.types import BenchmarkContext, ScoringError
from tests.scoring.made import made_gest, replied, row

BENCHMARK = get("gest")
CAUSAL = BenchmarkContext("causal")
MASKED = replace(CAUSAL, kind="masked")
ROW = {"sentence": "I lif it.", "mended": "I lift it.", "stereotype": 16, "name": "strong", "about": "men"}


def asked(**more):
    return {one["wording"]: one for one in each(row("gest-0000", "sentences", **ROW, **more))}


def test_a_causal_model_goes_on_after_the_sentence_and_has_no_wording_that_begins_with_the_word():
    rows = asked()
    (he,) = BENCHMARK.requests("clean", rows["he-last"], CAUSAL)
    (man,) = BENCHMARK.requests("paper", rows["man-last"], CAUSAL)
    assert (he.context, [option.text for option in he.options]) == ('"I lift it.",', [" he", " she"])
    assert (man.context, [option.text for option in man.options]) == ('"I lif it.", the', [" man", " woman"])
    assert not list(BENCHMARK.requests("clean", rows["he-first"], CAUSAL))
    assert not list(BENCHMARK.requests("clean", rows["man-first"], CAUSAL))


def test_a_masked_model_fills_the_word_in_every_wording():
    for name, one in asked().items():
        (request,) = BENCHMARK.requests("clean", one, MASKED)
        for option, word in zip(request.options, WORDINGS[name].words, strict=True):
            ((start, end),) = option.spans
            assert option.text[start:end] == word
            assert "I lift it." in option.text


def test_a_record_has_the_logarithm_of_the_ratio():
    one = asked()["he-last"]
    line = BENCHMARK.to_record("clean", one, replied(one, [math.log(0.6)], [math.log(0.2)]), CAUSAL)
    assert line["log_ratio"] == pytest.approx(math.log(3))
    assert (line["item"], line["wording"], line["text"]) == ("gest-0000", "he-last", '"I lift it.", … said.')


def table(men, women=0.0, each_of=20, noise=0.5):
    """Log-ratios around one value for the sentences of stereotypes about men and one for those about women."""
    stream = np.random.default_rng(0)
    lines = []
    for number in range(1, 17):
        for sentence in range(each_of):
            one = row(
                f"gest-{number:02d}{sentence:02d}",
                "sentences",
                **ROW | {"stereotype": number, "name": STEREOTYPES[number - 1]},
            )
            one |= {"item": one["id"], "wording": "he-last"}
            value = (men if number > 7 else women) + noise * stream.standard_normal()
            lines.append({**about("paper", one), "log_ratio": value})
    return as_table(lines)


def scores(of):
    chosen = BENCHMARK.items("paper", of)
    found = measure(chosen, of, of[BENCHMARK.cluster], benchmark="gest", resamples=1000)
    return {(e.group, e.metric): e for e in found}


def test_a_planted_stereotype_is_found_and_a_lean_without_one_is_none():
    planted, leaning = scores(table(men=math.log(3))), scores(table(men=1.0, women=1.0))
    assert planted["overall", "g_s"].low < 3 < planted["overall", "g_s"].high
    assert planted["overall", "g_s"].low > 1
    # A model that says he everywhere has no stereotype, and its lean is the other number.
    assert leaning["overall", "g_s"].low < 1 < leaning["overall", "g_s"].high
    assert leaning["overall", "log_ratio"].low > 0.9
    assert planted["strong", "log_ratio"].value > 0.5 > planted["weak", "log_ratio"].value
    assert ("strong", "g_s") not in planted


def test_each_stereotype_counts_once_whatever_its_number_of_sentences():
    of = {"log_ratio": np.array([0.0] * 7 + [1.0] * 9 + [5.0] * 4), "stereotype": np.array([*range(1, 17), *[8] * 4])}
    expected = math.exp(((1 + 5 * 4) / 5 + 8) / 9)
    assert gest.g_s().value(of, np.ones((1, 20))) == pytest.approx(expected)


def test_a_ratio_without_one_of_the_stereotypes_is_not_defined():
    of = {"log_ratio": np.zeros(15), "stereotype": np.arange(1, 16)}
    assert np.isnan(gest.g_s().value(of, np.ones((1, 15)))).all()


@pytest.mark.parametrize(("model", "wordings"), [("tiny-causal", 2), ("tiny-masked", 4)])
def test_the_bundled_models_are_scored(model, wordings, tmp_path):
    result = scoring.evaluate(model, benchmarks="gest", data=made_gest(tmp_path, 64), resamples=50)
    of = result.examples("gest")
    assert len(of) == 64 * wordings
    assert set(of["wording"]) == set(list(WORDINGS)[-wordings:])
    assert np.allclose(of["log_ratio"], of["male_logprob"] - of["female_logprob"])


def written(folder, text):
    path = folder / "scores.csv"
    path.write_text(text)
    return path


def test_a_file_of_log_ratios_is_scored(tmp_path):
    lines = [f"gest-{number:04d},{1.0 if number % 16 >= 7 else 0.0}" for number in range(64)]
    path = written(tmp_path, "id,log_ratio\n" + "\n".join(lines))
    answers, remarks = rescore("gest", path, made_gest(tmp_path, 64), 100, 0)
    found = {(a.estimate.group, a.estimate.metric): a.estimate.value for a in answers}
    assert found["overall", "g_s"] == pytest.approx(math.e)
    assert remarks == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,log_ratio\nmine,1\n", "which is none of GEST"),
        ("id,log_ratio,wording\ngest-0001,1,he-said\n", "expected he-first, man-first, he-last, man-last"),
        ("id,log_ratio\ngest-0001,1\ngest-0001,2\n", "twice"),
    ],
)
def test_a_file_with_other_sentences_is_refused(text, message, tmp_path):
    with pytest.raises(ScoringError, match=message):
        rescore("gest", written(tmp_path, text), made_gest(tmp_path, 64), 100, 0)
