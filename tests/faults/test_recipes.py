"""A recipe that is run again with other data or settings uses nothing of the earlier run."""

from dataclasses import replace

import pytest

from mitigation.adapters.write import describe
from mitigation.recipes import get
from mitigation.running.steps import make_adapter
from mitigation.training.data import TrainingData
from mitigation.training.train import checkpoint_path
from scoring.adapters.facts import Cost
from tests.mitigation.made import bundled, data, probes, quick, silent
from tests.scoring.made import data_set

PROBES = "gender-neutral-probes"


@pytest.mark.fault(78)
def test_data_or_a_setting_that_changed_makes_a_new_adapter(tmp_path):
    model, made, folder = bundled(), [], tmp_path / "work" / "made"
    source = data(tmp_path / "data")

    def make(job):
        job.data.load(PROBES, "stsb", "train")
        made.append((job.settings, dict(job.data.versions), checkpoint_path(job)))
        (job.out / "prompt.json").write_text("{}")
        versions = job.data.versions
        return describe(job.out, job.model, "debias_tuning", job.settings, data=versions, cost=Cost(0, 0.0, 0, "cpu"))

    def again(settings):
        make_adapter(
            replace(get("debias_tuning"), make=make), settings, model, TrainingData(str(source)), folder, silent()
        )
        return len(made)

    assert again(quick()) == 1
    assert again(quick()) == 1  # nothing changed
    assert again(quick(learning_rate=1e-3)) == 2
    assert again(quick()) == 3
    rows = [row | {"statement": f"{row['statement']}!"} for row in probes("train")]
    data_set(source, PROBES, {("stsb", "train"): rows})
    assert again(quick()) == 4
    assert made[2][1] != made[3][1]
    assert len({path for _, _, path in made}) == 3  # so no checkpoint of another run is read
