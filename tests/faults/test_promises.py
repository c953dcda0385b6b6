"""The promises of SECURITY.md: each names the tests that attack it and its exceptions, and has the measured figures."""

import ast
import json
import re

from tests.faults.between import CHANGES, ENDS
from tests.faults.kinds import KINDS
from tests.faults.trust import TABLE, commands_table, commands_text, files_text
from tests.faults.twice import COMMANDS
from tests.support.helpers import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()


def promises():
    """The rows of the table of promises: number, attacks, figure and exceptions."""
    rows = re.findall(r"^\| (\d+)\. [^|]*\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", TEXT, re.MULTILINE)
    return [(int(number), re.findall(r"`(tests/[^`]*)`", attacks), *rest) for number, attacks, *rest in rows]


def named_tests(path):
    """The names of the tests of a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_twelve_promises_have_attacks_that_exist_and_exceptions():
    assert [number for number, *_ in promises()] == list(range(1, 13))
    for number, attacks, figure, exceptions in promises():
        assert attacks, number
        assert figure.strip(), number
        assert exceptions.strip(), number
        for attack in attacks:
            path, name = attack.split("::")
            assert name in named_tests(path), attack


def test_the_figures_are_those_of_the_last_run():
    content = json.loads(TABLE.read_text())
    own = {name: row for name, row in content["kinds"].items() if not name.startswith("foreign")}
    foreign = {name: row for name, row in content["kinds"].items() if name.startswith("foreign")}
    figures = {number: figure.strip() for number, _, figure, _ in promises()}
    assert figures[1] == files_text(own, "harmless")
    assert figures[3] == files_text(foreign, "read")
    assert figures[2] == commands_text(content["commands"])
    assert commands_table(content["commands"]) in TEXT


def test_every_kind_and_command_was_measured_and_none_is_silent():
    content = json.loads(TABLE.read_text())
    assert content["kinds"].keys() == KINDS.keys()
    assert content["commands"].keys() == COMMANDS.keys()
    assert {row["changes"] for row in content["kinds"].values()} == {500}
    rows = [*content["kinds"].values(), *(rows[change] for rows in content["commands"].values() for change in CHANGES)]
    assert not [row for row in rows if row["silent"] or row["traceback"] or row.get("hang")]
    for rows in content["commands"].values():
        for change in CHANGES:
            assert rows[change]["changes"] == sum(rows[change][end] for end in ENDS)
