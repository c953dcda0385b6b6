"""What every recipe has, where settings come from, and the two recipes that train nothing."""

import doctest
import json

import pytest
from rich.console import Console

from mitigation import evaluate, recipe, recipes
from mitigation.errors import MitigationError
from mitigation.recipe import resolve_settings
from mitigation.recipes import decoding, get, names
from mitigation.training import train
from mitigation.training.data import TrainingData
from scoring import prompts
from scoring.adapters.facts import PROMPT
from scoring.types import Estimate, ScoringError
from tests.mitigation.made import bundled, data, silent


def made(name, settings, source, out):
    """The facts and the prompt that a recipe makes."""
    out.mkdir(parents=True, exist_ok=True)
    facts = get(name).run(bundled(), settings, TrainingData(str(source)), out, silent())
    return facts, prompts.read(out / PROMPT)


@pytest.mark.parametrize("name", names())
def test_every_recipe_says_what_it_is_and_each_setting_what_it_does(name):
    found = get(name)
    assert found.name == name
    assert found.summary.endswith(".")
    assert found.source
    assert set(found.profiles) == {"clean", "paper"}
    assert {type(settings) for settings in found.profiles.values()} == {found.settings_type}
    for each in found.settings_type.__dataclass_fields__.values():
        assert each.metadata["help"].endswith(".")
        assert type(each.default) in (str, int, float, bool)


def test_an_unknown_recipe_is_refused_with_the_known_ones():
    with pytest.raises(MitigationError, match=r"^No recipe is called 'x'; the names are debias_tuning, decoding, "):
        get("x")


@pytest.mark.parametrize(
    ("file", "text"), [("a.toml", "learning_rate = 1\nsteps = 7\n"), ("a.json", '{"learning_rate": 1, "steps": 7}')]
)
def test_flags_go_before_a_file_and_a_file_before_the_profile(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    found = resolve_settings(get("debias_tuning"), "paper", tmp_path / file, {"steps": 9})
    assert (found.learning_rate, found.steps, found.rank) == (1.0, 9, 64)
    assert isinstance(found.learning_rate, float)


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("a.toml", "speed = 1", "has the setting 'speed'; debias_tuning has rank, alpha, "),
        ("a.json", '{"rank": "8"}', "gives '8' for rank; give a value of type int."),
        ("a.json", '{"rank": true}', "gives True for rank; give a value of type int."),
        ("a.json", "[]", "holds a list; give settings by their names."),
        ("a.toml", "rank = ", "is not TOML or JSON ("),
        ("a.json", "{", "is not TOML or JSON ("),
    ],
)
def test_a_file_of_settings_that_is_wrong_is_refused_by_name(tmp_path, file, text, told):
    (tmp_path / file).write_text(text)
    with pytest.raises(MitigationError) as error:
        resolve_settings(get("debias_tuning"), "clean", tmp_path / file, {})
    assert str(error.value).startswith(f"{tmp_path / file} {told}")


def test_a_file_of_settings_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MitigationError, match=r"a\.toml cannot be read \(No such file .*\); give a TOML or JSON file"):
        resolve_settings(get("decoding"), "clean", tmp_path / "a.toml", {})


@pytest.mark.parametrize("name", ["instruction", "instruction-paper", *(f"debias-{n}" for n in range(1, 7))])
def test_a_prompt_becomes_a_file_that_scoring_takes(tmp_path, name):
    facts, found = made("prompts", get("prompts").settings_type(name), tmp_path, tmp_path / "out")
    assert found == prompts.get(str(tmp_path / "out" / PROMPT))
    assert found.json() == prompts.PROMPTS[name].json()
    assert list(facts.files) == [PROMPT]
    assert facts.cost.parameters == 0


def test_a_prompt_of_ones_own_is_taken_from_its_file(tmp_path):
    (tmp_path / "own.json").write_text('{"name": "own", "version": "2.0.0", "instruction": "Be fair."}')
    _, found = made("prompts", get("prompts").settings_type(str(tmp_path / "own.json")), tmp_path, tmp_path / "out")
    assert (found.name, found.version, found.instruction) == ("own", "2.0.0", "Be fair.")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("plain", "The prompt 'plain' says nothing to the model; give one with an instruction or a system text."),
        ("top-k-50", "The prompt 'top-k-50' says nothing to the model; give one with an instruction"),
        ("nothing", "No prompt is called 'nothing'; the names are plain, "),
    ],
)
def test_a_prompt_that_says_nothing_is_refused(name, told):
    with pytest.raises(ScoringError) as error:
        get("prompts").settings_type(name)
    assert str(error.value).startswith(told)


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """What the decoding recipe finds with two grids, cut to a few settings and prompts, and three seeds."""
    folder = tmp_path_factory.mktemp("grid")
    source = data(folder / "data")
    settings = decoding.DecodingSettings(grids="temperature", seeds="42,7", corpora="stsb", split="validation")
    facts, prompt = made("decoding", settings, source, folder / "out" / "made")
    return folder, source, settings, facts, prompt


def test_every_setting_is_measured_with_an_interval_and_greedy_is_kept_apart(grid):
    *_, facts, prompt = grid
    sampled = [f"gas temperature-{value}" for value in ("0.3", "0.5", "0.7", "1")]
    assert list(facts.measures) == ["gas plain", "gas no-pronouns", *sampled]
    assert all(0 <= low <= value <= high <= 1 for value, low, high in facts.measures.values())
    best = min(sampled, key=lambda name: facts.measures[name][0])
    assert f"gas {prompt.name}" == best
    assert prompt.decoding == prompts.PROMPTS[prompt.name].decoding


def test_greedy_and_constrained_decoding_are_never_chosen_unasked():
    def gas(value):
        return Estimate("", "", "gas", value, value, value, 0.0, 1, 1)

    found = {"plain": gas(0.1), "no-pronouns": gas(0.0), "top-k-10": gas(0.5), "top-k-50": gas(0.4)}
    assert decoding.least_gas(found) == "top-k-50"
    lines = list(decoding._score_rows(found, "top-k-50"))
    assert [line[3] for line in lines] == ["greedy, for comparison", "constrained, for comparison", "", "chosen"]


def test_a_ban_of_all_forms_leaves_no_continuation_with_one(grid):
    value, low, high = grid[3].measures["gas no-pronouns"]
    assert (value, low) == (0.0, 0.0)
    assert high > 0  # no event among a few prompts is no proof of none


def test_what_was_drawn_is_not_drawn_again_and_the_ban_can_be_published(grid, monkeypatch):
    folder, source, settings, facts, _ = grid
    monkeypatch.setattr(bundled().__class__, "answer", lambda *_, **__: pytest.fail("asked again"))
    constrained = decoding.DecodingSettings(
        **{f: getattr(settings, f) for f in ("grids", "seeds", "corpora", "split")}, constrained=True
    )
    again, prompt = made("decoding", constrained, source, folder / "out" / "made")
    assert again.measures == facts.measures
    assert prompt.name == "no-pronouns"
    assert set(prompt.decoding["banned"]) == set("he him his himself she her hers herself".split())


def test_each_seed_is_a_draw_of_its_own():
    prompt = prompts.PROMPTS["top-k-50"]
    one, other = decoding.with_seeds(prompt, [42, 7])
    assert one is prompt
    assert (other.name, other.decoding) == ("top-k-50-seed-7", {"top_k": 50, "seed": 7})
    assert decoding.with_seeds(prompts.PROMPTS["plain"], [42, 7]) == [prompts.PROMPTS["plain"]]


def test_the_grids_are_the_published_ones():
    found = [dict(each.decoding) for each in decoding.sampled_prompts(decoding.GRIDS)]
    assert [each["temperature"] for each in found[:4]] == [0.3, 0.5, 0.7, 1.0]
    assert [each["top_p"] for each in found[4:8]] == [0.3, 0.5, 0.7, 1.0]
    assert [each["top_k"] for each in found[8:]] == [10, 50, 100, 150, 200]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"grids": "heat"}, "There is no grid 'heat'; the grids are temperature, top_p, top_k."),
        ({"grids": ""}, "The settings grids and corpora are lists with commas; give each at least one name."),
        ({"seeds": "a"}, "The seeds are 'a'; give whole numbers with commas."),
        ({"split": "train"}, "The split is 'train'; give validation or test."),
    ],
)
def test_settings_of_decoding_without_sense_are_refused(changed, told):
    with pytest.raises(MitigationError) as error:
        decoding.DecodingSettings(**changed)
    assert str(error.value) == told


def test_the_table_of_settings_is_shown(grid):
    console = Console(record=True, width=100, file=silent().file)
    found = {f"{n}": Estimate("", "", "gas", 0.5, 0.4, 0.6, 0.0, 1, 1) for n in ("plain", "top-k-10")}
    console.print(decoding.score_table(found, "top-k-10"))
    assert "0.400 to 0.600" in console.export_text()


@pytest.mark.parametrize("module", [evaluate, recipe, recipes, train, decoding])
def test_the_examples_hold(module):
    assert doctest.testmod(module).failed == 0


def test_settings_are_plain_values_of_json():
    for name in names():
        for settings in get(name).profiles.values():
            given = {each: getattr(settings, each) for each in settings.__dataclass_fields__}
            assert json.loads(json.dumps(given)) == given
