"""Every kind of file is changed in seeded ways: no change is silent, a traceback or a hang."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import cards.common.stored
from tests.faults.kinds import KINDS, measure
from tests.support.helpers import ROOT

#: Changes of a kind in the tests; those of a model, which is loaded each time, are fewer.
SHARE, OF_A_MODEL = 60, 6
PACKAGES = ("builders", "cards", "pmi", "scoring", "mitigation")
#: Functions that write a file.
WRITING = {"put", "put_all", "replacing", "write_table", "ParquetWriter", "AppendLog", "savefig", "write_text",
           "write_bytes", "save_pretrained", "copyfileobj"}  # fmt: skip
SHOWN = "is shown, and never read again"
#: For each function that writes: the kind that is changed, or why none is.
WRITERS = {
    "builders.builder.Builder.stage": "manifest",
    "builders.generation.output.write_output": "its rows are those of the replies, from which they are made again",
    "builders.generation.pipelines.unstereo._replay_part": "replies",
    "builders.generation.pipelines.unstereo.replay": "words of one run, written anew by each",
    "builders.publish.published.published_form": "compared with a fresh build and removed",
    "builders.publish.published.published": "Parquet",
    "builders.generation.append_log": "replies",
    "builders.sources.fetch": "pinned files, which have a hash",
    "builders.files.write.write_split": "Parquet",
    "scoring.commands.card.main": SHOWN,
    "cards.common.draw": SHOWN,
    "cards.common.files": "the writers themselves",
    "cards.leaderboard.make": SHOWN,
    "cards.common.options.start": "the null device, in place of a stream that the shell closed",
    "cards.common.stored": "each kind of cards.common.stored.KINDS",
    "mitigation.publish": "a copy that is sent to the Hub and removed",
    "mitigation.adapters.write": "adapter",
    "mitigation.commands.glue.main": SHOWN,
    "mitigation.commands.table.write_sweep": "a sweep of layers and units",
    "mitigation.methods.comparison_page.write": "a list of methods",
    "mitigation.running.cost": "a file of the kernel",
    "mitigation.editing.session.write_pairs": "adapter",
    "mitigation.running.plots": "adapter",
    "mitigation.recipes": "adapter",
    "mitigation.running.steps.make_and_evaluate": SHOWN,
    "mitigation.training.train.save": "checkpoint",
    "pmi.analysis.plots": SHOWN,
    "pmi.counting.counts.write_counts": "counts",
    "pmi.files": "table of δ, csv",
    "scoring.commands.corpus.compare_model": SHOWN,
    "scoring.inference.checkpoint.digest_of_tokenizer": "a temporary folder, whose files are hashed",
    "scoring.inference.store": "responses",
    "scoring.lm_eval.__main__.write": "tasks of the harness, written anew by each run",
    "scoring.commands.reproduce.main": SHOWN,
    "scoring.commands.export.main": SHOWN,
    "scoring.report": "results",
    "scoring.many.cluster": "which job runs and what its tasks said; a model is known by its results alone",
    "scoring.many.hub_results.fetch": "files of a finished run, which are read as those of a run",
    "scoring.many.sweep.scored": "the digest of what was asked; with another one the model is scored again",
    "scoring.reproduce.published.compute": "its estimates are of cards.common.stored.KINDS, with the hash of the table",
}


@pytest.mark.fault(69)
@pytest.mark.parametrize("name", KINDS)
def test_no_change_of_a_file_is_silent_or_a_traceback(tmp_path, name):
    assert measure(name, tmp_path, OF_A_MODEL if name.endswith((".json", ".safetensors")) else SHARE).faults == []


@pytest.mark.fault(82)
def test_every_kind_of_stored_numbers_has_a_case():
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if "cards.common.stored" in (text := Path(module.module_finder.find_spec(module.name).origin).read_text()):
                assert "Stored(" not in text or importlib.import_module(module.name)
    assert set(cards.common.stored.KINDS) <= set(KINDS)


def writers(path):
    """The functions of a file that call a writer, by their names from the package."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    found = set()

    def visit(node, name):
        for inner in ast.iter_child_nodes(node):
            of = getattr(inner, "name", "") if isinstance(inner, ast.FunctionDef | ast.ClassDef) else ""
            if isinstance(inner, ast.Call):
                called = getattr(inner.func, "attr", getattr(inner.func, "id", ""))
                opened = called == "open" and any(
                    isinstance(value, ast.Constant) and value.value in ("w", "wb", "a", "ab", "x", "xb")
                    for value in (*inner.args, *(keyword.value for keyword in inner.keywords))
                )
                # A queue, a store and a prompt have a method of this name; the module of files has the writer.
                of_module = getattr(getattr(inner.func, "value", None), "id", "") == "files"
                method = called == "put" and isinstance(inner.func, ast.Attribute) and not of_module
                if (called in WRITING and not method) or opened:
                    found.add(name)
            visit(inner, f"{name}.{of}" if of else name)

    visit(ast.parse(path.read_text()), module)
    return {name.replace(".__init__.", ".") for name in found}


@pytest.mark.fault(82)
def test_every_function_that_writes_a_file_is_known_with_its_kind():
    found = {name for package in PACKAGES for path in (ROOT / package).rglob("*.py") for name in writers(path)}
    known = {name: next((way for way in WRITERS if f"{name}.".startswith(f"{way}.")), None) for name in found}
    assert [name for name, way in sorted(known.items()) if way is None] == []
    assert set(WRITERS) - set(known.values()) == set()
    kinds = [kind for kind in WRITERS.values() if " " not in kind]
    assert [kind for kind in kinds if kind not in KINDS] == []
