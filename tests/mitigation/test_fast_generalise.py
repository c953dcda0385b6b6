import pytest
import torch

from benchmarks import fast_generalise
from mitigation.editing import session as measure
from mitigation.training.data import TrainingData
from tests.mitigation.test_fast import rows
from tests.scoring.made import data_set


@pytest.fixture
def experiment(tmp_path):
    columns = ("context", "example_id", "sentence_id_biased", "sentence_id_unbiased", "sentence_id_irrelevant")
    pairs = [row | dict.fromkeys(columns, "") for row in rows()]
    configs = {("stereoset", "test"): pairs, ("winobias", "test"): [{**row, "id": f"w-{row['id']}"} for row in pairs]}
    data = TrainingData(str(data_set(tmp_path / "data", "biaske", configs)))
    return fast_generalise.Experiment("tiny-causal", data, ["One text.", "Another text."], 3, 0, 20)


def test_variants_edit_no_measured_subject_and_are_compared_with_the_same_model(experiment):
    ids = torch.tensor([[1, 5, 9]])
    plain = experiment.model.network(ids).logits
    before = experiment.before()
    assert before["change of ss, held-out subjects"][0] == 0
    sides = [{row["subject"] for row in some} for some in experiment.sides.values()]
    assert [len(some) for some in sides] == [1, 1, 3]
    assert not sides[0] & sides[1]
    for sources in ((), ("winobias",)):
        assert not {row["subject"] for row in experiment.chosen(sources)} & (sides[0] | sides[1])
    result = experiment.run(fast_generalise.Variant("stopped", {"units": 8, "prefixes": 1}, stopped=True, kept=True))
    assert result["passes_kept"] in range(4)
    assert result["pairs"] == len(experiment.sides[measure.EDITED])
    assert torch.equal(experiment.model.network(ids).logits, plain), "the model is as it was"
