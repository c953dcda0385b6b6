"""The table of methods and what the page says of it: what stands beside a claim of less bias, seeds, printed rows."""

import math
from dataclasses import replace

import pytest

from mitigation.methods.comparison import PRINTED, UNCHANGED, Method, by_method, printed_rows
from mitigation.methods.comparison_page import label_places, markdown, page, plot
from tests.mitigation.made_methods import METHODS, adapter, table_of


@pytest.fixture(scope="module")
def table():
    return table_of(METHODS)


def row_of(table, method, column, frame=None):
    return table.cells(frame)[method][column]


def test_no_row_says_less_bias_without_what_happens_to_ability(table):
    shown = page("m", [table], {})
    assert 'class="verdict lost">nearer, ability lost' in shown
    assert 'class="verdict kept">nearer, ability kept' in shown
    assert markdown("m", [table]).count("nearer, ability lost") == 2  # SS held out and SS StereoSet of dropout
    without = adapter("dropout", 52.0, 50.0)
    alone = table_of([Method("dropout", replace(without, changes=without.changes[:1]))], "m")
    assert "nearer, ability not measured" in markdown("m", [alone])


def test_the_conclusion_names_what_came_nearer_with_its_cost_or_none(table):
    assert table.bias == "SS held out"
    assert table.conclusion == [
        "dropout brings SS held out nearer to 50: -8.00 [-9.00, -7.00] from 60.00, language ability lost, 3 s, 1,200 "
        "parameters, 1.00 GiB.",
        "Other scores of bias nearer to their ideal values, with language ability kept: SS StereoSet (fast).",
    ]
    assert next(iter(table.cells())) == "dropout"
    none = table_of([Method("cda", adapter("cda", 59.9, 90.0)), Method("dropout", adapter("dropout", 64.0, 90.0))])
    assert none.conclusion == [
        "None of 2 methods brings SS held out nearer to 50 beyond noise (unchanged model: 60.00).",
        "Further from it: dropout (+4.00 [3.00, 5.00]).",
    ]


def test_seeds_are_one_row_whose_interval_holds_the_chance_of_seeds_and_of_examples(table):
    found = row_of(table, "cda", "SS StereoSet")
    # Student's t of two seeds is 12.7; the interval of the examples reaches 1 to each side.
    half = math.hypot(12.7062 * 1.41421 / math.sqrt(2), 1.0)
    assert (found.after, found.difference, found.n, found.seeds) == (54.0, -6.0, 90, 2)
    assert (found.low, found.high) == (pytest.approx(-6 - half, abs=1e-4), pytest.approx(-6 + half, abs=1e-4))
    assert (found.verdict, round(found.seed_sd, 2)) == ("unclear", 1.41)
    seeds = table.cells(table.seeds)
    assert {name: row["SS StereoSet"].after for name, row in seeds.items()} == {"cda": 53.0, "cda-seed-1": 55.0}
    # One seed keeps its ability beyond doubt and the other does not.
    assert found.ability == "unclear"


def test_a_folder_is_a_seed_only_of_its_own_recipe():
    methods = [Method(name, adapter(recipe, 53.0, 90.0)) for name, recipe in (("a", "cda"), ("a-seed-1", "dropout"))]
    assert list(by_method(methods)) == ["a", "a-seed-1"]


def test_the_adapter_for_a_domain_is_its_recipe_there_and_nothing_elsewhere():
    made = {f"fast-{domain}": adapter("fast", 53.0, 90.0, domain=domain) for domain in ("gender", "race")}
    methods = [Method(name, own) for name, own in made.items()]
    assert {domain: by_method(methods, domain) for domain in ("gender", "race", "religion")} == {
        "gender": {"fast": {"fast-gender": made["fast-gender"]}},
        "race": {"fast": {"fast-race": made["fast-race"]}},
        "religion": {},
    }


def test_own_pairs_have_their_own_score_before_and_the_model_that_of_all_pairs(table):
    held_out = row_of(table, "fast", "SS held out")
    assert (held_out.after, held_out.before, held_out.own_pairs) == (56.0, 57.0, True)
    assert table.base["SS held out"] == "60.00"


def test_printed_rows_are_a_table_of_their_own_and_others_are_not_run_here(table):
    (first, *_), sources = list(table.printed), {source for _, source in table.printed}
    assert first == ("BERT", "Table 1, bert-base-uncased")
    assert not any("gpt2" in source for source in sources)
    assert {"CDA", "FMD"} <= {method for method, _ in table.printed}
    shown = page("m", [table], {})
    assert "Not run here:" in shown
    assert "FMD" in shown.partition("Not run here:")[2].partition(".")[0]
    assert "CDA" not in shown.partition("Not run here:")[2].partition(".")[0]
    assert "not made: There is no corpus." in shown


def test_every_printed_method_is_a_recipe_or_the_unchanged_model_or_fmd():
    methods = {row["method"] for domain in ("gender", "race", "religion") for row in printed_rows("any", domain)}
    assert methods - set(PRINTED["recipes"]) - set(UNCHANGED) == {"FMD"}
    assert {row["source"] for row in printed_rows("any", "race", "causal")} == {"Table 7, gpt2"}


def test_labels_of_many_methods_do_not_overlap(table):
    dots = [(10.0 * (n % 4), 10.0 * (n % 3)) for n in range(20)]
    places = label_places(dots, [40] * 20)
    pairs = [(one, other) for n, one in enumerate(places) for other in places[:n]]
    assert all(abs(x - u) >= 40 or abs(y - v) >= 10 for (x, y), (u, v) in pairs)
    svg = plot(table).svg
    assert all(f">{name}</text>" in svg for name in ("cda", "dropout", "fast"))
    assert all(f">{words}, {also} able</text>" in svg for words in ("nearer", "further") for also in ("more", "less"))


def test_only_methods_that_changed_something_are_drawn_in_colour():
    quiet = plot(table_of([Method("cda", adapter("cda", 59.9, 90.0))])).svg
    assert "--line-3" not in quiet
    assert "--line-2" not in quiet
    assert "--line-2" in plot(table_of([Method("cda", adapter("cda", 53.0, 90.0))])).svg
    assert "--line-3" in plot(table_of([Method("cda", adapter("cda", 53.0, 50.0))])).svg


def test_a_domain_with_one_example_is_drawn_without_intervals():
    nan = math.nan
    alone = adapter("cda", 57.0, 89.0)
    single = [replace(c, difference=(c.difference[0], nan, nan)) for c in alone.changes]
    svg = plot(table_of([Method("cda", replace(alone, changes=tuple(single)))])).svg
    assert ">cda</text>" in svg


def test_why_a_method_of_one_domain_could_not_be_made_is_said_in_that_domain_alone():
    reasons = {"leace-race": "No words.", "inlp-gender": "No text.", "dpo": "No pairs."}
    absent = [Method(name, reason=reason) for name, reason in reasons.items()]
    assert table_of([Method("cda", adapter("cda", 53.0, 90.0)), *absent]).missing == {
        "inlp-gender": "No text.",
        "dpo": "No pairs.",
    }
