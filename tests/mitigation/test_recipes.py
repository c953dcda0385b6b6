"""What every recipe has, where settings come from, and the two recipes that train nothing."""

import doctest
import json
from dataclasses import fields

import pytest
from rich.console import Console

from mitigation import recipe, recipes
from mitigation.api import Options, loading
from mitigation.errors import MitigationError
from mitigation.recipe import resolve_settings
from mitigation.recipes import decoding, get, names
from mitigation.recipes.prompts import PromptSettings
from mitigation.running import evaluate
from mitigation.training import train
from mitigation.training.data import TrainingData
from scoring.adapters.facts import PROMPT
from scoring.inference.load_options import LoadOptions
from scoring.inputs import prompts
from scoring.types import Estimate, ScoringError
from tests.mitigation.made import bundled, data, silent


def made(name, settings, source, out):
    """The facts and the prompt that a recipe makes."""
    out.mkdir(parents=True, exist_ok=True)
    facts = get(name).apply(bundled(), settings, TrainingData(str(source)), out, silent())
    return facts, prompts.read(out / PROMPT)


@pytest.mark.parametrize("name", names())
def test_every_recipe_has_a_summary_and_every_setting_a_help_text(name):
    recipe = get(name)
    assert recipe.name == name
    assert recipe.summary.endswith(".")
    assert recipe.source
    assert set(recipe.profiles) == {"clean", "paper"}
    assert len({type(settings) for settings in recipe.profiles.values()}) == 1
    for field in type(recipe.profiles["clean"]).__dataclass_fields__.values():
        assert field.metadata["help"].endswith(".")
        assert type(field.default) in (str, int, float, bool)


def test_an_unknown_recipe_is_refused_with_the_known_ones():
    with pytest.raises(MitigationError, match=r"'x'.*auto_debias"):
        get("x")


@pytest.mark.parametrize(
    ("file", "text"), [("a.toml", "learning_rate = 1\nsteps = 7\n"), ("a.json", '{"learning_rate": 1, "steps": 7}')]
)
def test_options_override_a_file_and_a_file_overrides_the_profile(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    settings = resolve_settings(get("debias_tuning"), "paper", tmp_path / file, {"steps": 9})
    assert (settings.learning_rate, settings.steps, settings.rank) == (1.0, 9, 64)
    assert isinstance(settings.learning_rate, float)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a.toml", "speed = 1", "debias_tuning has no setting 'speed' in "),
        ("a.json", '{"rank": "8"}', "; give a value of type int."),
        ("a.json", '{"rank": true}', "; give a value of type int."),
        ("a.json", "[]", "holds a list; give settings by their names."),
        ("a.toml", "rank = ", "is not TOML or JSON ("),
        ("a.json", "{", "is not TOML or JSON ("),
    ],
)
def test_a_file_of_settings_that_is_wrong_is_refused_by_name(tmp_path, file, text, message):
    (tmp_path / file).write_text(text)
    with pytest.raises(MitigationError) as error:
        resolve_settings(get("debias_tuning"), "clean", tmp_path / file, {})
    assert str(tmp_path / file) in str(error.value)
    assert message in str(error.value)


def test_a_file_of_settings_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MitigationError, match=r"a\.toml.*\(No such file .*\).*TOML.*JSON"):
        resolve_settings(get("decoding"), "clean", tmp_path / "a.toml", {})


OWN = ("instruction", "instruction-paper", "self-aware", "chain-of-thought", "self-reflection", "self-help")


@pytest.mark.parametrize("name", [*OWN, *(f"debias-{n}" for n in range(1, 7))])
def test_a_prompt_becomes_a_file_that_scoring_takes(tmp_path, name):
    facts, prompt = made("prompts", PromptSettings(name), tmp_path, tmp_path / "out")
    assert prompt == prompts.get(str(tmp_path / "out" / PROMPT))
    assert prompt.json() == prompts.PROMPTS[name].json()
    assert list(facts.files) == [PROMPT]
    assert facts.cost.parameters == 0


def test_a_prompt_of_ones_own_is_taken_from_its_file(tmp_path):
    (tmp_path / "own.json").write_text('{"name": "own", "version": "2.0.0", "instruction": "Be fair."}')
    _, prompt = made("prompts", PromptSettings(str(tmp_path / "own.json")), tmp_path, tmp_path / "out")
    assert (prompt.name, prompt.version, prompt.instruction) == ("own", "2.0.0", "Be fair.")


def test_a_changed_prompt_file_is_another_input(tmp_path):
    file = tmp_path / "mine.json"
    texts = []
    for instruction in ("Be fair.", "Be kind."):
        file.write_text(json.dumps({"name": "mine", "version": "1.0.0", "instruction": instruction}), encoding="utf-8")
        texts.append(PromptSettings(str(file)).inputs())
    assert texts[0] != texts[1]
    assert list(texts[0]) == ["prompt:mine.json"]
    assert not PromptSettings("debias-2").inputs()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plain", "The prompt 'plain' says nothing to the model; give one with an instruction or a system text."),
        ("top-k-50", "The prompt 'top-k-50' says nothing to the model; give one with an instruction"),
        ("nothing", "No prompt is called 'nothing'; the names are plain, "),
    ],
)
def test_a_prompt_that_says_nothing_is_refused(name, message):
    with pytest.raises(ScoringError) as error:
        PromptSettings(name)
    assert str(error.value).startswith(message)


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """What the decoding recipe finds with two grids, cut to a few settings and prompts, and three seeds."""
    folder = tmp_path_factory.mktemp("grid")
    source = data(folder / "data")
    settings = decoding.DecodingSettings(grids="temperature", seeds="42,7", corpora="stsb", split="validation")
    facts, prompt = made("decoding", settings, source, folder / "out" / "made")
    return folder, source, settings, facts, prompt


def test_every_setting_is_measured_with_an_interval_and_greedy_is_never_chosen(grid):
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

    scores = {"plain": gas(0.1), "no-pronouns": gas(0.0), "top-k-10": gas(0.5), "top-k-50": gas(0.4)}
    assert decoding.least_gas(scores) == "top-k-50"
    *_, remarks = decoding.score_table(scores, "top-k-50").columns
    assert [*map(str, remarks.cells)] == ["greedy, for comparison", "constrained, for comparison", "", "chosen"]


def test_a_ban_of_all_forms_leaves_no_continuation_with_one(grid):
    value, low, high = grid[3].measures["gas no-pronouns"]
    assert (value, low) == (0.0, 0.0)
    assert high > 0  # no event among a few prompts is no proof of none


def test_stored_samples_are_reused_and_the_ban_can_be_published(grid, monkeypatch):
    folder, source, settings, facts, _ = grid
    answer = bundled().__class__.answer

    def answer_control_rows(model, requests, **how):
        assert {request.id for request in requests} == {"control"}, "asked again"
        return answer(model, requests, **how)

    monkeypatch.setattr(bundled().__class__, "answer", answer_control_rows)
    constrained = decoding.DecodingSettings(
        **{f: getattr(settings, f) for f in ("grids", "seeds", "corpora", "split")}, constrained=True
    )
    again, prompt = made("decoding", constrained, source, folder / "out" / "made")
    assert again.measures == facts.measures
    assert prompt.name == "no-pronouns"
    assert set(prompt.decoding["banned"]) == set("he him his himself she her hers herself".split())


def test_each_seed_gives_its_own_sample():
    prompt = prompts.PROMPTS["top-k-50"]
    one, other = decoding.with_seeds(prompt, [42, 7])
    assert one is prompt
    assert (other.name, other.decoding) == ("top-k-50-seed-7", {"top_k": 50, "seed": 7})
    assert decoding.with_seeds(prompts.PROMPTS["plain"], [42, 7]) == [prompts.PROMPTS["plain"]]


def test_the_grids_are_the_published_ones():
    settings = [dict(prompt.decoding) for prompt in decoding.sampled_prompts(decoding.GRIDS)]
    assert [prompt["temperature"] for prompt in settings[:4]] == [0.3, 0.5, 0.7, 1.0]
    assert [prompt["top_p"] for prompt in settings[4:8]] == [0.3, 0.5, 0.7, 1.0]
    assert [prompt["top_k"] for prompt in settings[8:]] == [10, 50, 100, 150, 200]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"grids": "heat"}, "There is no grid 'heat'; the grids are temperature, top_p, top_k."),
        ({"grids": ""}, "The settings grids and corpora are lists with commas; give each at least one name."),
        ({"seeds": "a"}, "The seeds are 'a'; give whole numbers with commas."),
        ({"split": "train"}, "The split is 'train'; give validation or test."),
    ],
)
def test_settings_of_decoding_without_sense_are_refused(changed, message):
    with pytest.raises(MitigationError) as error:
        decoding.DecodingSettings(**changed)
    assert str(error.value) == message


def test_the_table_of_settings_is_shown(grid):
    console = Console(record=True, width=100, file=silent().file)
    scores = {f"{n}": Estimate("", "", "gas", 0.5, 0.4, 0.6, 0.0, 1, 1) for n in ("plain", "top-k-10")}
    console.print(decoding.score_table(scores, "top-k-10"))
    assert "0.400 to 0.600" in console.export_text()


@pytest.mark.parametrize("module", [evaluate, recipe, recipes, train, decoding])
def test_the_doctests_pass(module):
    assert doctest.testmod(module).failed == 0


def test_settings_are_plain_values_of_json():
    for name in names():
        for settings in get(name).profiles.values():
            values = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
            assert json.loads(json.dumps(values)) == values


def test_every_option_of_loading_reaches_the_model():
    given = {"revision": "v1", "dtype": "float16", "device": "cpu", "trust_remote_code": True, "allow_pickle": True}
    loaded = loading("m", Options(**given))
    assert {name: getattr(loaded, name) for name in given} == given
    # The recipe decides about weights in 4 bits.
    shared = {field.name for field in fields(Options)} & {field.name for field in fields(LoadOptions)} - {"quantize"}
    assert shared == set(given), "a new option of loading is passed on by mitigation.api.loading"
