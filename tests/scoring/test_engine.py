"""The engine that the page for contributors shows is a whole one."""

from tests.project.test_docs import blocks
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows
from tests.support.helpers import ROOT


def test_the_engine_of_the_page_for_contributors_scores_a_benchmark(tmp_path, monkeypatch):
    (block,) = (b for b in blocks(ROOT / "docs" / "contributing.md") if "(Engine)" in b.code)
    assert block.code.count("\n") <= 60
    data_set(tmp_path / "output", "occugender", {("explicit", "test"): list(job_rows())})
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    exec(compile(block.code, "contributing.md", "exec"), names)
    result = names["result"]
    assert result.report.model == "uniform"
    assert result.report.environment["vocabulary"] == len(names["uniform"].tokens.tokenizer)
    table = result.table().set_index("metric")
    # Each word is one token, so the shares are those of the numbers of words.
    shares = [table.loc[[f"p_{who}"], "value"].iloc[0] for who in ("male", "female", "diverse")]
    assert abs(sum(shares) - 100) < 1e-9
    assert len(set(result.examples("occugender")["p_female"])) == 1
