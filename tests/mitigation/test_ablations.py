"""What each loss of debias tuning is for, on a small real model: the ablations of Table 3, and the clean profile."""

import pytest

from mitigation.attach import attached
from tests.mitigation.made import data, quick, scores, tuned
from tests.scoring.models import real

SHORT = {"steps": 24, "batch_size": 8, "rank": 64, "learning_rate": 2e-3, "validate_every": 24, "dropout": 0.0}


@pytest.fixture(scope="module")
def by_ablation(tmp_path_factory):
    """Scores of stories260K as it is, tuned with all losses, and with each left out, as in Table 3 of the paper."""
    model, out = real("stories260K"), tmp_path_factory.mktemp("ablations")
    source = data(out / "data")
    changes = {"full": {}, "w/o L_d": {"l_d": 0.0}, "w/o L_g": {"l_g": 0.0}, "w/o L_l": {"l_l": 0.0}}
    changes["L_d alone"] = {"l_g": 0.0, "l_l": 0.0}
    found = {"base": scores(model)}
    for name, change in changes.items():
        place = out / name.replace("/", "").replace(" ", "-")
        tuned(model, quick(**SHORT, **change), source, place)
        with attached(model, place) as adapted:
            found[name] = scores(adapted)
    return found


@pytest.mark.mirror
def test_all_three_losses_lower_all_three_metrics_on_prompts_that_were_not_trained_on(by_ablation):
    for metric in ("pronoun_mass", "gld", "add_raw"):
        assert by_ablation["full"][metric] < 0.5 * by_ablation["base"][metric]


@pytest.mark.mirror
def test_without_l_g_gendered_forms_stay_more_probable(by_ablation):
    assert by_ablation["w/o L_g"]["pronoun_mass"] > 2 * by_ablation["full"]["pronoun_mass"]


@pytest.mark.mirror
def test_without_l_l_the_genders_stay_further_apart(by_ablation):
    assert by_ablation["w/o L_l"]["gld"] > 1.5 * by_ablation["full"]["gld"]


@pytest.mark.mirror
def test_l_d_by_itself_lowers_add_and_without_it_the_rest_stays(by_ablation):
    assert by_ablation["L_d alone"]["add_raw"] < 0.5 * by_ablation["base"]["add_raw"]
    assert by_ablation["w/o L_d"]["gld"] < 0.5 * by_ablation["base"]["gld"]


@pytest.mark.mirror
def test_the_clean_profile_balances_and_keeps_the_probability_of_forms(tmp_path):
    model = real("stories260K")
    before = scores(model)
    tuned(model, quick("clean", **SHORT), data(tmp_path / "data"), tmp_path / "clean")
    with attached(model, tmp_path / "clean") as adapted:
        after = scores(adapted)
    assert after["gld"] < 0.6 * before["gld"]
    assert after["pronoun_mass"] == pytest.approx(before["pronoun_mass"], rel=0.25)
