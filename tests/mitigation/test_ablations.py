"""What each loss of debias tuning is for: the ablations of Table 3 on small real models, with paired intervals.

Each training with a loss left out is compared with the one that has all, prompt by prompt, on prompts
that neither was trained on.
"""

import numpy as np
import pytest
import torch

from mitigation.adapters.temporary import attached
from mitigation.training.losses import FormTokens, divergence, imbalance, presence
from scoring.metrics import add, pronouns
from scoring.statistics.stats import compare
from scoring.types import Group, Request
from tests.mitigation.made import PLACES, bundled, data, quick, tuned
from tests.scoring.models import real

pytestmark = pytest.mark.usefixtures("undrawn")
SHORT = {
    "batch_size": 8,
    "rank": 64,
    "target_modules": "up_proj,down_proj",
    "validate_every": 99,
    "checkpoint_every": 99,
    "dropout": 0.0,
}
WITHOUT = {"all": {}, "w/o L_d": {"l_d": 0.0}, "w/o L_g": {"l_g": 0.0}, "w/o L_l": {"l_l": 0.0}}
METRICS = {metric.name: metric for metric in (pronouns.pronoun_mass(), pronouns.gld(), add.add_raw(), add.add_log())}
PEOPLE = ("paints the fence", "is a lawyer", "reads a long letter", "runs a small shop", "fixes the car", "is a cook")
HELD = [f"My friend {does} {place}, and" for does in PEOPLE for place in PLACES]


def candidate_logprobs(model):
    """The probability of each form after each held-out prompt."""
    lines = [
        pronouns.to_record(response.candidate_logprobs)
        for response in model.answer([Request(p, p, candidates=pronouns.FORMS) for p in HELD])
    ]
    return {column: np.array([line[column] for line in lines]) for column in lines[0]}


def ablated(model, folder, **changed):
    """Tables of a model as it is, and tuned with all losses and with each left out."""
    source, logprobs = data(folder / "data"), {"base": candidate_logprobs(model)}
    for number, (name, change) in enumerate(WITHOUT.items()):
        tuned(model, quick(**(SHORT | change | changed)), source, folder / f"adapter-{number}")
        with attached(model, folder / f"adapter-{number}") as adapted:
            logprobs[name] = candidate_logprobs(adapted)
    return logprobs


def difference(metric, one, other):
    """The interval of a paired difference."""
    rows = len(next(iter(one.values())))
    item = (Group("", np.ones(rows, bool)), METRICS[metric])
    (estimate,) = compare([item], one, other, np.arange(rows), resamples=2000)
    return estimate.low, estimate.high


def level(metric, table):
    return METRICS[metric].value(table, np.ones((1, len(HELD)))).item()


@pytest.fixture(scope="module")
def within(tmp_path_factory):
    """The bundled model, with L_d between the shares within each gender; it has four pairs of forms."""
    more = {"l_d_within": True, "target_modules": "v_proj,o_proj,up_proj,down_proj"}
    return ablated(bundled(), tmp_path_factory.mktemp("within"), steps=32, learning_rate=3e-3, **more)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """stories260K, with L_d as it is printed; she and he are nearly all of its forms."""
    return ablated(real("stories260K"), tmp_path_factory.mktemp("printed"), steps=24, learning_rate=2e-3)


BOTH = pytest.mark.parametrize("form", ["within", pytest.param("printed", marks=pytest.mark.mirror)])


@BOTH
@pytest.mark.parametrize("metric", ["pronoun_mass", "gld", "add_raw"])
def test_all_three_losses_lower_each_metric_that_one_of_them_is_about(form, metric, request):
    logprobs = request.getfixturevalue(form)
    assert difference(metric, logprobs["all"], logprobs["base"])[1] < 0


@BOTH
def test_without_l_g_gendered_forms_stay_more_probable(form, request):
    logprobs = request.getfixturevalue(form)
    assert difference("pronoun_mass", logprobs["w/o L_g"], logprobs["all"])[0] > 0.02
    assert level("pronoun_mass", logprobs["w/o L_g"]) > 3 * level("pronoun_mass", logprobs["all"])


@BOTH
def test_without_l_l_the_genders_stay_further_apart(form, request):
    logprobs = request.getfixturevalue(form)
    assert difference("gld", logprobs["w/o L_l"], logprobs["all"])[0] > 0.03


def test_without_l_d_add_stays_unchanged_and_the_other_two_metrics_still_fall(within):
    low, _ = difference("add_log", within["w/o L_d"], within["all"])
    assert low > 1.5
    assert level("add_log", within["w/o L_d"]) == pytest.approx(level("add_log", within["base"]), abs=0.6)
    assert difference("gld", within["w/o L_d"], within["base"])[1] < -0.3
    assert difference("pronoun_mass", within["w/o L_d"], within["base"])[1] < 0


def test_without_l_l_add_falls_further_as_the_paper_prints_it_for_the_largest_model(within):
    assert difference("add_log", within["w/o L_l"], within["all"])[1] < -1


@pytest.mark.mirror
def test_the_printed_l_d_hardly_moves_add_where_the_other_losses_are(printed):
    low, high = difference("add_raw", printed["w/o L_d"], printed["all"])
    fallen = level("add_raw", printed["base"]) - level("add_raw", printed["all"])
    assert -0.02 * fallen < low < high < 0.02 * fallen


#: The twenty forms as tokens 0 to 19, and one token that is none.
NUMBERED = FormTokens(list(range(0, 20, 2)), list(range(1, 20, 2)), [[n, n + 1] for n in range(0, 20, 2)])


def test_the_logarithm_of_l_d_within_genders_is_add():
    chances = np.random.default_rng(3).dirichlet(np.full(21, 0.4), 6)
    table = {f"p_{form}": chances[:, n] for n, form in enumerate(pronouns.FORMS)}
    log_divergence = divergence(torch.from_numpy(chances), NUMBERED, within=True).mean().log().item()
    assert log_divergence == pytest.approx(add.add_log().value(table, np.ones((1, 6))).item(), rel=1e-9)


def test_the_slope_of_l_d_within_genders_is_that_of_small_steps():
    logits = torch.from_numpy(np.random.default_rng(5).normal(size=(1, 21))).requires_grad_()

    def loss(at):
        return divergence(at.softmax(-1), NUMBERED, within=True).sum()

    (gradient,) = torch.autograd.grad(loss(logits), logits)
    steps = torch.eye(21, dtype=torch.float64) * 1e-6
    nudged = [(loss(logits + step) - loss(logits - step)).item() / 2e-6 for step in steps]
    assert gradient[0].tolist() == pytest.approx(nudged, abs=1e-8)
    assert max(map(abs, nudged)) > 1e-3


def slope(loss, logits, forms, **more):
    """The largest slope of a loss in the logits."""
    logits = logits.clone().requires_grad_()
    (result,) = torch.autograd.grad(loss(logits.softmax(-1), forms, **more).sum(), logits)
    return result.abs().max().item()


def test_the_slope_of_the_printed_l_d_goes_with_the_forms_and_that_within_genders_does_not():
    forms = FormTokens([0, 1], [2, 3], [[0, 2], [1, 3]])
    many = torch.tensor([[3.0, 1.0, 1.0, 2.0, 0.0]], dtype=torch.float64)
    few = many.clone()
    few[0, 4] = 12.0  # the same forms and another, frequent token, so that they have about 0.0002 of the probability
    share = presence(few.softmax(-1), forms).item() / presence(many.softmax(-1), forms).item()
    assert share < 1e-3
    assert slope(divergence, few, forms) < 2 * share * slope(divergence, many, forms)
    assert slope(divergence, few, forms, within=True) > 0.9 * slope(divergence, many, forms, within=True) > 0.01
    assert slope(divergence, few, forms) < 0.5 * slope(presence, few, forms) < 0.01 * slope(imbalance, few, forms)
