"""The page of trends of published answers."""

import math

from tools.real_models import trends


def test_the_page_has_the_steps_and_the_sizes():
    steps, sizes = list(trends.steps()), list(trends.sizes())
    assert [row.step for row in steps] == sorted(row.step for row in steps)
    assert steps[-1].step == 143_000
    # The last step is the model of the other table, whose numbers have more digits.
    (last,) = (row for row in sizes if row.model == "EleutherAI/pythia-6.9b-deduped")
    for key, cell in steps[-1].cells.items():
        assert math.isclose(cell.value, last.cells[key].value, abs_tol=0.51), key
    assert {row.family for row in sizes} == {"EleutherAI/pythia", "EleutherAI/pythia-deduped", "facebook/opt"}
    page = trends.page([*steps, *sizes])
    assert page.count('class="trends"') == 2
    assert "Scores by step of training" in page
    assert "Scores by number of parameters" in page
