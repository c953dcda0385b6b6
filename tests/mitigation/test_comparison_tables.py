"""The rows of the tables of methods: what stands beside a claim of less bias, seeds, and printed rows."""

import math
from dataclasses import replace

import pytest

from mitigation.comparison_page import label_places, plot
from mitigation.comparison_tables import Method, by_method, domain_tables
from mitigation.printed import RECIPES, UNCHANGED, printed_rows
from scoring.adapters.facts import Adapter, Change, Cost

GENDER = "intrasentence test gender"


def change(key, before, after, half):
    ends = (after - before - half, after - before + half)
    return Change(*key, (before, before - 4, before + 4), (after, after - 4, after + 4), (after - before, *ends), 90)


def adapter(recipe, ss, lms, *more, held_out=None):
    changes = [
        change(("stereoset", GENDER, "ss"), 60.0, ss, 1.0),
        change(("stereoset", GENDER, "lms"), 90.0, lms, 1.0),
        change(("text", "held-out texts", "pseudo_perplexity"), 20.0, 20.1, 0.1),
        *more,
    ]
    if held_out:
        changes.append(change(("fast", "held-out subjects", "ss"), 57.0, held_out, 9.0))
    cost = Cost(1200, 3.0, 2**30, "cpu")
    return Adapter(recipe, "tiny-masked", "r", "float32", {"domain": "gender"}, {}, cost, {}, changes=tuple(changes))


@pytest.fixture
def table():
    methods = [
        Method("cda", adapter("cda", 53.0, 90.0)),
        Method("cda-seed-1", adapter("cda", 55.0, 88.0)),
        Method("dropout", adapter("dropout", 52.0, 50.0)),
        Method("fast", adapter("fast", 51.0, 90.0, held_out=56.0)),
        Method("leace", reason="There is no corpus."),
    ]
    (made,) = domain_tables("tiny-masked", methods)
    return made


def cell(table, name, column):
    (row,) = [row for row in table.rows if row.name == name]
    return row.cells[table.columns.index(column)]


def test_no_row_says_less_bias_without_what_happens_to_ability(table):
    assert cell(table, "dropout", "SS StereoSet").verdict == "nearer, ability lost"
    assert cell(table, "dropout", "SS StereoSet").tone == "lost"
    assert cell(table, "fast", "SS StereoSet").verdict == "nearer, ability kept"
    without = adapter("dropout", 52.0, 50.0)
    (bias,) = domain_tables("m", [Method("dropout", Adapter(**{**fields(without), "changes": without.changes[:1]}))])
    assert cell(bias, "dropout", "SS StereoSet").verdict == "nearer, ability not measured"


def fields(made):
    return {name: getattr(made, name) for name in made.__slots__}


def test_seeds_are_one_row_whose_interval_holds_the_chance_of_seeds_and_of_examples(table):
    found = cell(table, "cda", "SS StereoSet")
    # Student's t of two seeds is 12.7; the interval of the examples reaches 1 to each side.
    half = math.hypot(12.7062 * 1.41421 / math.sqrt(2), 1.0)
    assert (found.value, found.difference) == ("54.00", f"-6.00 [{-6 - half:.2f}, {-6 + half:.2f}], n 90")
    assert found.verdict == "unclear"
    assert found.remarks == ["2 seeds 53.00 to 55.00, SD 1.41"]
    (row,) = [row for row in table.rows if row.name == "cda"]
    assert [seed.name for seed in row.seeds] == ["cda", "cda-seed-1"]
    assert [seed.cells[0].value for seed in row.seeds] == ["53.00", "55.00"]
    # One seed keeps its ability beyond doubt and the other does not.
    assert row.ability == "unclear"


def test_a_folder_is_a_seed_only_of_its_own_recipe():
    methods = [Method(name, adapter(recipe, 53.0, 90.0)) for name, recipe in (("a", "cda"), ("a-seed-1", "dropout"))]
    assert list(by_method(methods)) == ["a", "a-seed-1"]


def test_own_pairs_have_their_own_score_before_and_the_model_that_of_all_pairs(table):
    held_out = cell(table, "fast", "SS held out")
    assert (held_out.value, held_out.remarks) == ("56.00", ["before 57.00"])
    assert cell(table, "tiny-masked", "SS held out").value == "60.00"


def test_printed_rows_stand_below_their_method_and_others_are_from_the_paper(table):
    names = [(row.name, row.kind) for row in table.rows]
    assert names.index(("CDA", "printed")) == names.index(("cda", "measured")) + 1
    assert names[0:2] == [("tiny-masked", "base"), ("BERT", "printed")]
    assert names[-1][1] == "printed"
    notes = {row.name: row.note for row in table.rows}
    assert notes["FMD"] == "from paper, not run here: Table 1, bert-base-uncased"
    assert notes["CDA"] == "printed: Table 1, bert-base-uncased"
    assert notes["leace"] == "There is no corpus."
    assert not any("gpt2" in row.note for row in table.rows)


def test_every_printed_method_is_a_recipe_or_the_unchanged_model_or_fmd():
    methods = {row.method for domain in ("gender", "race", "religion") for row in printed_rows("any", domain)}
    assert methods - set(RECIPES) - set(UNCHANGED) == {"FMD"}
    assert {row.source for row in printed_rows("any", "race", "causal")} == {"Table 7, gpt2"}


def test_labels_of_many_methods_do_not_overlap(table):
    dots = [(n % 4, n % 3) for n in range(20)]
    places = label_places(dots)
    pairs = [(one, other) for n, one in enumerate(places) for other in places[:n]]
    assert all(abs(x - u) >= 12 or abs(y - v) >= 10 for (x, y), (u, v) in pairs)
    assert [point.number for point in table.points] == [1, 2, 3]
    svg = plot(table).svg
    assert all(f">{number}</text>" in svg for number in (1, 2, 3))
    assert math.isclose(table.base, 10.0)


def test_a_domain_with_one_example_is_drawn_without_intervals(table):
    alone = replace(table.points[0], distance=(3.0, math.nan, math.nan), ability=(-1.0, math.nan, math.nan))
    svg = plot(replace(table, points=[alone])).svg
    assert f">{alone.number}</text>" in svg
