"""The notebook runs from top to bottom, in a kernel of its own, without network."""

import os

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers import ROOT

NOTEBOOK = ROOT / "examples" / "measure_and_mitigate.ipynb"


def test_the_notebook_is_valid_and_holds_no_output():
    result = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(result)
    assert not [cell for cell in result.cells if cell.get("outputs")]


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
    for fact in ("pronoun-pairs", "us_score", "word='nurse'", "occugender", "UnStereoEval, Table 1"):
        assert fact in shown
    assert "\x1b[" not in shown
