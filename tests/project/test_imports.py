"""Imports run one way: no circle between modules, and nothing but a command imports a command."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter

from tests.support.helpers import ROOT

PACKAGES = ("cards", "pmi", "builders", "scoring", "mitigation")


@cache
def modules():
    """Every module of the library with the modules that it imports anywhere: at its top, in a function, for types."""
    paths = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            paths[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return {name: imported(ast.parse(path.read_text()), paths) for name, path in paths.items()}


def imported(tree, known):
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in whole}
    return found & known.keys()


def circle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_a_circle_is_found():
    code = "def f():\n    from b import x\n"
    graph = {"a": imported(ast.parse(code), {"a": 0, "b": 0}), "b": imported(ast.parse("import a"), {"a": 0, "b": 0})}
    assert set(circle(graph)) == {"a", "b"}


def test_no_imports_make_a_circle_not_even_lazy_ones_or_those_for_types():
    assert circle(modules()) is None


def test_packages_import_only_those_below_them():
    for name, others in modules().items():
        below = PACKAGES[: PACKAGES.index(name.partition(".")[0]) + 1]
        assert all(other.partition(".")[0] in below for other in others), name


def test_only_commands_import_commands():
    for name, others in modules().items():
        if ".commands" not in name and not name.endswith((".__main__", ".rescore")):
            assert not [other for other in others if ".commands" in other], name
