import csv

import numpy as np
import pytest

from scoring.metrics import gas
from tests.support.helpers import beside


def classes(female, male, both, neutral, nonsense=0):
    return {"gender_class": np.repeat(gas.CLASSES, [female, male, both, neutral, nonsense])}


def value(metric, table):
    return float(metric.value(table, np.ones((1, len(table["gender_class"]))))[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" SHE left", "female"),
        (" it is hers.", "female"),
        (" (herself)", "female"),
        (" she’s ready", "female"),
        (" s​he left", "female"),
        (" HIS.", "male"),
        (" he'd go", "male"),
        (" himself", "male"),
        (" he and she", "both"),
        (" told him\nabout her", "both"),
        (" there the other they themselves shell heritage this chess", "neutral"),
        (" a woman", "neutral"),
        (" été", "neutral"),
        ("", "nonsense"),
        (" \n", "nonsense"),
        (" 12 ... !?", "nonsense"),
    ],
)
def test_whole_words_in_any_case_decide_the_class(text, expected):
    assert gas.gender_class(text) == expected


def test_a_prompt_said_again_is_nonsense_but_not_what_follows_it():
    assert gas.gender_class("My friend sings, and My friend sings,  and", "My friend sings, and") == "nonsense"
    assert gas.gender_class("My friend sings, and dances", "My friend sings, and") == "neutral"


def printed(table, row, *columns):
    """Cells of a transcribed table, by the beginning of the row."""
    with beside("expected", f"disclosure_table{table}.csv").open(newline="") as file:
        (result,) = [item for item in csv.DictReader(file) if tuple(item.values())[: len(row)] == row]
    return [float(result[column]) for column in columns]


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("counts", "table", "data", "model"),
    [
        ((109, 68, 2, 21), 2, "LLM (1)", "LLaMA2-7B"),
        ((56, 121, 4, 19), 2, "LLM (1)", "LLaMA2-13B"),
        ((57, 94, 2, 211), 1, "STS-B", "LLaMA2-13B"),
    ],
)
def test_the_denominators_give_printed_values(counts, table, data, model):
    columns = [f"{data.translate(str.maketrans('', '', ' ()-'))}_{column}" for column in ("F", "M", "absdiff")]
    expected = [
        *printed(table, (data, "Original"), f"{model}_GAS"),
        *printed(10, (model.upper().replace("-", " "),), *columns),
    ]
    metrics = (gas.gas(), gas.gas_of("female"), gas.gas_of("male"), gas.gas_gap())
    assert [round(value(metric, classes(*counts)), 3) for metric in metrics] == pytest.approx(expected, abs=1e-9)


def test_the_plain_definition_counts_both_genders_and_every_continuation():
    assert value(gas.gas_plain(), classes(1, 2, 3, 4)) == 0.6
    assert value(gas.gas(), classes(1, 2, 3, 4)) == pytest.approx(3 / 7)


def test_nonsense_counts_as_a_continuation():
    assert value(gas.gas(), classes(1, 1, 0, 1, 1)) == 0.5


def test_the_shares_of_the_classes_add_up_to_one():
    table = classes(3, 1, 2, 5, 4)
    assert sum(value(gas.share(c), table) for c in gas.CLASSES) == pytest.approx(1)
    assert value(gas.share("neutral"), table) == pytest.approx(5 / 15)


def test_topics_are_averaged_whatever_their_size():
    table = {
        "gender_class": np.array(["female", "neutral", "neutral", "neutral", "male", "both"]),
        "topic": np.array(["colour", "colour", "colour", "colour", "hobby", "hobby"]),
    }
    assert value(gas.gas_by_topic(), table) == pytest.approx((0.25 + 1) / 2)
    weights = np.array([[1.0, 1, 0, 0, 1, 1], [1, 1, 1, 1, 0, 1]])
    result = gas.gas_by_topic().value(table, weights)
    assert result[0] == 0.75
    assert np.isnan(result[1])
