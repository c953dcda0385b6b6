"""The notebook runs from top to bottom, in a kernel of its own, without network."""

import os
import re
from types import FunctionType

import nbformat
import pytest
from nbclient import NotebookClient

import mitigation
import pmi
import scoring
from tests.support.helpers import ROOT

NOTEBOOK = ROOT / "examples" / "measure_and_mitigate.ipynb"


def test_the_notebook_is_valid_and_holds_the_outputs_of_a_run_with_a_plot():
    result = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(result)
    code = [cell for cell in result.cells if cell.cell_type == "code"]
    # The first cell imports alone.
    assert all(cell.outputs for cell in code[1:])
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert NOTEBOOK.read_text("utf-8").count('"image/png"') == 1
    assert not re.search(r"/(tmp|home|work|root|Users)/", NOTEBOOK.read_text("utf-8"))


def test_the_notebook_names_the_extras_that_it_needs():
    named = re.search(r"pip install '\.\[([\w,]+)\]' -c constraints.txt", nbformat.read(NOTEBOOK, 4).cells[0].source)
    assert set(named[1].split(",")) == {"score", "pmi", "train"}


@pytest.mark.filterwarnings("ignore")  # those of the kernel's own packages
def test_the_notebook_runs_and_shows_scores_a_leaning_and_what_changed(tmp_path, monkeypatch):
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "TMPDIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PROBES_MIRROR", raising=False)
    result = nbformat.read(NOTEBOOK, 4)
    NotebookClient(result, timeout=300, resources={"metadata": {"path": str(tmp_path)}}, env=dict(os.environ)).execute()
    shown = "\n".join(
        str(output.get("text") or output.get("data", {}).get("text/plain"))
        for cell in result.cells
        for output in cell.get("outputs", [])
    )
    facts = ("pronoun-pairs", "us_score", "word='nurse'", "occugender", "UnStereoEval, Table 1", "'rows.html'")
    for fact in (*facts, "<RunResult of tiny-causal", "<Comparison of tiny-causal (prompt instruction)", "<Mitigated"):
        assert fact in shown
    assert "\x1b[" not in shown
    assert "rich/live.py" not in shown, "a warning of each line of progress"
    outputs = [output for cell in result.cells for output in cell.get("outputs", [])]
    pictures = [output["data"]["text/html"] for output in outputs if "<svg" in str(output)]
    assert [picture.count("<svg") for picture in pictures] == [4, 4, 3]
    assert "unclear" in pictures[1]


def test_the_notebook_calls_every_function_that_the_packages_offer():
    code = "\n".join(cell.source for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code")
    for package in (mitigation, pmi, scoring):
        for name in package.__all__:
            if isinstance(getattr(package, name), FunctionType):
                assert f"{package.__name__}.{name}(" in code
    assert "builders.build(" in code
    assert "builders.load(" in code
