"""The page of recipes on real models: its numbers are those that the tool computes from the published files."""

import pytest

import builders
from scoring.statistics.stats import RESAMPLES
from tests.support.helpers import mirror
from tools.real_models import recipes


@pytest.mark.mirror
def test_the_page_is_what_the_tool_makes(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_MIRROR", str(mirror()))
    builders.build("biaske", "bbq", out=tmp_path, offline=True)
    rows = recipes.rows_of(tmp_path, RESAMPLES, offline=True)
    made = recipes.page(rows, recipes.questions(tmp_path, RESAMPLES, offline=True))
    assert recipes.PAGE.read_text(encoding="utf-8") == made, "run python -m tools.real_models.recipes"
