"""Debias tuning of a small real model on the real neutral probes: before and after, on the held-out test split."""

import numpy as np
import pytest

from builders.datasets import get as data_sets
from builders.files.write import tables
from mitigation.recipes import get
from mitigation.running.evaluate import Evaluation
from mitigation.running.steps import evaluate_adapter, make_adapter
from mitigation.training.data import TrainingData
from scoring import benchmarks
from scoring.asking import run
from scoring.inference.generation import Decoding
from scoring.types import Request
from tests.mitigation.made import quick, silent
from tests.scoring.made import data_set
from tests.scoring.models import real
from tests.support.helpers import mirrored

pytestmark = pytest.mark.usefixtures("undrawn")
SHORT = {
    "steps": 40,
    "batch_size": 8,
    "rank": 64,
    "learning_rate": 2e-3,
    "validate_every": 40,
    "validation": 8,
    "checkpoint_every": 40,
}
PROMPTS, STORIES, OPENING = 64, 30, "Once upon a time"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The neutral probes of STS-B, built from their source, as a folder."""
    (config,) = (config for config in data_sets("gender-neutral-probes").configs if config.name == "stsb")
    built = tables(config, config.rows(mirrored(*config.sources)), "en")
    folder = tmp_path_factory.mktemp("data")
    return data_set(folder, "gender-neutral-probes", {("stsb", name): t.to_pylist() for name, (t, _) in built.items()})


@pytest.fixture(scope="module")
def found(source, tmp_path_factory):
    """The changes of each profile by metric: held-out prompts, and stories of the untouched model."""
    model, work = real("stories260K"), tmp_path_factory.mktemp("work")
    requests = [Request(f"s{n}", OPENING, max_new=60) for n in range(STORIES)]
    responses = model.answer(requests, decoding=Decoding(temperature=1.0, seed=7))
    (part,) = run.read([benchmarks.get("neutral")], str(source), "clean", PROMPTS)
    stories = tuple(OPENING + " ".join(response.text.split("\n")).rstrip() for response in responses)
    evaluation = Evaluation((part,), stories, resamples=2000)
    changes = {}
    for profile in ("paper", "clean"):
        settings, rows = quick(profile, **SHORT), TrainingData(str(source))
        make_adapter(get("debias_tuning"), settings, model, rows, work / "made", silent())
        measured, _ = evaluate_adapter(model, evaluation, work, profile, silent())
        changes[profile] = {change.metric: change for change in measured}
    return changes


@pytest.mark.mirror
@pytest.mark.parametrize("profile", ["paper", "clean"])
@pytest.mark.parametrize("metric", ["gld", "add_raw"])
def test_both_profiles_bring_the_genders_together_on_the_held_out_test_split(found, profile, metric):
    change = found[profile][metric]
    assert change.n == PROMPTS
    assert change.difference[2] < 0
    assert change.after[0] < 0.5 * change.before[0]


@pytest.mark.mirror
def test_the_published_losses_lower_gas_by_removing_pronouns(found):
    # The texts of so small a model begin alike, so that there are too few clusters for a narrow interval.
    assert found["paper"]["gas"].difference[0] < 0
    assert found["paper"]["pronoun_mass"].after[0] < 0.1 * found["paper"]["pronoun_mass"].before[0]


@pytest.mark.mirror
def test_clean_keeps_the_probability_of_gendered_forms(found):
    change = found["clean"]["pronoun_mass"]
    assert np.abs(change.difference[1:]).max() < 0.1 * change.before[0]


@pytest.mark.mirror
@pytest.mark.parametrize(("profile", "most"), [("paper", 0.6), ("clean", 0.05)])
def test_the_perplexity_of_stories_rises_by_at_most_the_documented_amount(found, profile, most):
    change = found[profile]["perplexity"]
    assert change.difference[2] < most
    assert change.n == STORIES
