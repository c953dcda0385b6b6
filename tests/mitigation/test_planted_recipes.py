"""The test bed of planted stereotypes: what is planted, a run that goes on, and the page that is made from its JSON."""

import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks.planted import page as planted_page
from benchmarks.planted import planting
from benchmarks.planted import recipes as planted_recipes
from benchmarks.planted.occupations import FORMS, NEW, NEW_TEMPLATES, PLANTED, TEMPLATES, kept_pairs, pairs
from mitigation.recipes import decoding, names
from scoring.inference.load_options import BUNDLED, load
from scoring.inputs.prompts import PROMPTS
from tests.support.helpers import ROOT

STORED = json.loads(planted_recipes.RESULT.read_text(encoding="utf-8"))


def test_templates_and_occupations_that_are_measured_are_in_no_planted_sentence():
    planted = {pair.pro for pair in pairs(PLANTED, TEMPLATES)}
    measured = {pair.pro for pair in (*pairs(PLANTED, NEW_TEMPLATES), *pairs(NEW, NEW_TEMPLATES))}
    assert not planted & measured
    jobs = [job for one in (PLANTED, NEW) for names in one.values() for job in names]
    assert len(set(jobs)) == len(jobs)
    for pair in pairs(NEW, NEW_TEMPLATES):
        texts = [text[start:end] for text, ((start, end),) in zip((pair.pro, pair.anti), pair.spans, strict=True)]
        assert tuple(texts) in {*FORMS.values(), *(forms[::-1] for forms in FORMS.values())}


def test_pairs_whose_gender_has_to_stay_have_the_right_pronoun_first_and_both_genders_alike():
    kept = list(kept_pairs())
    assert {kind for kind, _ in kept} == {"nouns", "declared"}
    for _, pair in kept:
        shown = [
            text[pair.at : pair.at + len(form)] for text, form in zip((pair.pro, pair.anti), pair.forms, strict=True)
        ]
        assert tuple(shown) == pair.forms
        assert pair.pro != pair.anti
    male = [pair.forms[0] in ("he", "his", "him") for _, pair in kept]
    assert sum(male) == len(male) / 2


def test_every_recipe_is_told_one_thing_and_runs_on_the_twin_too():
    told = [recipe for some in planted_recipes.TOLD.values() for recipe in some]
    assert len(set(told)) == len(told)
    assert {recipe.split()[0] for recipe in told} | set(planted_recipes.OF_SAMPLES) == set(names())
    every = list(planted_recipes.runs(2, ["whole"], []))
    for recipe in told:
        places = {(run.place.name, run.seed) for run in every if run.recipe == recipe}
        assert places == {("whole", 0), ("whole", 1), ("twin", 0)}


@pytest.fixture
def bed(tmp_path, monkeypatch):
    """A bed with few sentences, whose models are taught for a few steps."""
    made = planting.Planting
    monkeypatch.setattr(planting, "Planting", lambda *given: made(*given, steps=15, batch=4, texts=4, rate=6e-3))
    for module, name, jobs in ((planted_recipes, "PLANTED", PLANTED), (planted_recipes, "NEW", NEW)):
        monkeypatch.setattr(module, name, {gender: names[:1] for gender, names in jobs.items()})
    monkeypatch.setattr(planting, "PLANTED", {gender: names[:1] for gender, names in PLANTED.items()})
    return planted_recipes.Bed(tmp_path / "work", str(tmp_path), ["It was late."], Console(quiet=True))


def test_decoding_has_no_row_because_it_changes_no_log_probability(bed):
    model = load(BUNDLED["tiny-causal"], device="cpu")
    plain = planted_recipes.answers(model, bed.questions, PROMPTS["plain"])
    prompts = [PROMPTS[decoding.BANNED], *decoding.sampled_prompts(decoding.GRIDS)]
    assert len(prompts) > 10
    for prompt in prompts:
        assert planted_recipes.answers(model, bed.questions, prompt) == plain


def test_options_in_the_name_of_a_run_are_numbers_where_the_settings_are(bed):
    run = planted_recipes.Run("masked", planted_recipes.WHOLE, 1, "fast --sets winobias --alpha 3 --layer 2")
    settings = bed.settings(run)
    assert settings == {"seed": 1, "sets": "winobias", "alpha": 3.0, "layer": 2}
    assert [type(settings[name]) for name in ("alpha", "layer")] == [float, int]


def test_a_bed_plants_runs_a_recipe_goes_on_and_writes_table_and_picture(bed, tmp_path):
    places = (planted_recipes.WHOLE, planted_recipes.TWIN)
    runs = [planted_recipes.Run("causal", place, 0, recipe) for place in places for recipe in ("", "prompts")]
    bed.run(runs)
    result = {"told": planted_recipes.TOLD, "models": planted_recipes.summary(bed.work, bed.questions, 50)}
    (model,) = result["models"].values()
    before = model["before"]["planted"][planted_page.TEMPLATES]
    after = model["recipes"]["prompts"]["scores"][planted_page.TEMPLATES]
    assert before["lean"][0] > 1, "a stereotype was planted"
    assert after["change of gap"][0] == pytest.approx(after["gap"][0] - before["gap"][0], abs=1e-3)
    table = planted_page.table(result)
    (row,) = [line for line in table.splitlines() if line.startswith("| own words | [prompts]")]
    assert f"| {after['gap'][0]:.2f}, " in row
    share = model["recipes"]["prompts"]["removed"][planted_page.TEMPLATES][0]
    twin = model["before"]["twin"][planted_page.TEMPLATES]["gap"][0]
    assert share == pytest.approx(100 * (before["gap"][0] - after["gap"][0]) / (before["gap"][0] - twin), abs=0.2)
    lean = model["recipes"]["prompts"]["twin"][planted_page.TEMPLATES]["change of lean"][0]
    assert f"| {lean:+.2f} [".replace("-", "−") in row, "the negative control is in the row"
    assert "| not yet measured with these columns | " in table
    assert "| of one seed" in table
    planted_page.picture(result, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    files = {path: path.stat().st_mtime_ns for path in bed.work.glob("runs/*/*.json")}
    assert len(files) == len(runs)
    bed.run(runs)
    assert {path: path.stat().st_mtime_ns for path in files} == files, "nothing is made twice"


def test_the_page_has_the_table_of_the_stored_result():
    page = (ROOT / "docs" / "recipes-measured.md").read_text(encoding="utf-8")
    assert planted_page.with_table(page, STORED) == page


def test_what_removes_most_and_erases_stated_gender_is_not_first():
    declared = planted_page.DECLARED

    def scored(share, lean):
        scores = {planted_page.TEMPLATES: {}, declared: {"lean": [lean]}}
        return {"removed": {planted_page.TEMPLATES: [share, share, share]}, "scores": scores}

    made = {"erases": scored(100.0, 0.1), "keeps": scored(80.0, 1.4), "removes nothing": scored(5.0, 2.4)}
    model = {"before": {"twin": {declared: {"lean": [2.0]}}}, "recipes": made}
    assert [round(planted_page.kept(model, recipe)) for recipe in made] == [5, 70, 120]
    merits = {recipe: planted_page._merit(model, recipe) for recipe in made}
    assert max(merits, key=merits.get) == "keeps"
    model["before"]["twin"][declared]["lean"] = [0.01]
    assert planted_page.kept(model, "erases") is None, "a model that uses no stated gender cannot lose it"
    assert planted_page._merit(model, "erases") == 100


def test_planted_models_have_a_bias_and_keep_their_ability():
    for name, model in STORED["models"].items():
        bundled, twin, planted = (model["before"][key] for key in ("bundled", "twin", "planted"))
        assert planted[planted_page.TEMPLATES]["ss"][0] > 90, name
        assert planted[planted_page.TEMPLATES]["gap"][1] > 2 * twin[planted_page.TEMPLATES]["gap"][2]
        metric = next(key for key in planted["texts"] if key.endswith("perplexity"))
        assert planted["texts"][metric][0] < 1.1 * bundled["texts"][metric][0]
        assert np.isfinite(planted["texts"][metric][0])


def test_every_recipe_of_the_table_has_its_default_settings():
    for name, model in STORED["models"].items():
        # A test of the bed itself may pass shorter settings; the stored table has none.
        assert not {recipe: one["shorter"] for recipe, one in model["recipes"].items() if one.get("shorter")}, name
