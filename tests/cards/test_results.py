import json
import math

import pytest

from cards.common.text import CardError
from cards.results import read
from tests.cards.made import HEAD, RUN, estimate, run


def edited(folder, change):
    """A run whose results.json was changed by hand."""
    path = run(folder) / "results.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))
    return folder


def test_a_run_is_read_as_it_was_written(tmp_path):
    facts = read(run(tmp_path))
    assert (facts.model, facts.revision, facts.profile, facts.setting) == ("org/model", HEAD, "clean", "")
    assert dict(facts.data) == RUN.data
    assert [(s.group, s.metric, s.value, s.low, s.high, s.least, s.most) for s in facts.estimates] == [
        (e.group, e.metric, e.value, e.low, e.high, e.least, e.most) for e in RUN.estimates
    ]


def test_a_number_that_is_not_defined_is_not_a_number_and_keeps_its_reason(tmp_path):
    nothing = estimate(value=math.nan, low=math.nan, high=math.nan, why="no rows", least=-math.inf)
    (score,) = read(run(tmp_path, estimates=(nothing,))).estimates
    assert math.isnan(score.value)
    assert score.least == -math.inf
    assert score.printed_sd is None
    assert score.number == "not defined (no rows)"


def test_the_setting_names_what_a_model_was_scored_with(tmp_path):
    facts = read(
        run(tmp_path, adapter="org/less@c0ffee", prompt="kind", profile="paper", environment={"chat template": "x"})
    )
    assert facts.setting == "adapter org/less, prompt kind, profile paper, chat template"


def test_a_path_on_somebodys_disk_is_not_told(tmp_path):
    assert read(run(tmp_path, model="/home/ada/models/small")).name == "small"
    assert read(run(tmp_path, model="org/model")).name == "org/model"


@pytest.mark.fault(57)
@pytest.mark.parametrize(("field", "number"), [("value", 1.5), ("value", -0.1), ("low", -1), ("high", 2)])
def test_a_number_outside_the_range_of_its_metric_is_refused(tmp_path, field, number):
    run(tmp_path, estimates=(estimate(**{field: number}),))
    with pytest.raises(CardError, match=rf"{field}.*{number:g}.*\b0\b.*\b1\b"):
        read(tmp_path)


def test_rounding_beyond_the_end_of_a_range_is_forgiven(tmp_path):
    assert read(run(tmp_path, estimates=(estimate(high=1 + 1e-12),))).estimates[0].high > 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda facts: facts.update(schema=9), "is not results of schema 1"),
        (lambda facts: facts.pop("profile"), "profile: field required"),
        (lambda facts: facts.update(model=3), "model: input should be a valid string, given 3"),
        (lambda facts: facts.update(colour=1, size=2), "colour: unexpected keyword argument, given 1"),
        (lambda facts: facts.update(data=[]), "data: input should be a"),
        (
            lambda facts: facts["estimates"][0].update(n=None),
            "estimates.0.n: input should be a valid integer",
        ),
        (lambda facts: facts["estimates"][1].clear(), r"\b1\b.*\{\}"),
        (lambda facts: facts["estimates"][0].pop("least"), "estimates.0.least: field required"),
        (
            lambda facts: facts["estimates"][0].update(value="much"),
            "'much'",
        ),
        (
            lambda facts: facts["estimates"][0].update(value=True),
            "value: input should be a valid number, given True",
        ),
        (lambda facts: facts["estimates"].append(3), "estimates.5: input should be"),
    ],
)
def test_a_results_file_that_is_not_whole_is_refused_in_a_sentence(tmp_path, change, sentence):
    with pytest.raises(CardError, match=sentence):
        read(edited(tmp_path, change))


def test_what_is_no_results_file_is_refused(tmp_path):
    with pytest.raises(CardError, match=r"\(No such file or directory\).*results\.json"):
        read(tmp_path)
    (tmp_path / "results.json").write_text("[" * 100_000)
    with pytest.raises(CardError, match="cannot be read as results"):
        read(tmp_path)
