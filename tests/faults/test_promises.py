"""The promises of SECURITY.md name files of tests, and ``make trust`` found nothing silent."""

import json
import re

import pytest

from tests.faults.between import CHANGES, ENDS
from tests.faults.met import ENDS as KIND_ENDS
from tests.faults.met import KINDS
from tests.faults.trust import TABLE
from tests.faults.twice import COMMANDS
from tests.support.helpers import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()


def test_each_promise_names_files_of_tests_that_exist():
    rows = re.findall(r"^\| (\d+)\. [^|]*\| ([^|]*) \| [^|]+ \|$", TEXT, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    for number, attacks in rows:
        files = re.findall(r"`(tests/[^`]*)`", attacks)
        assert files, number
        assert all("def test_" in (ROOT / file).read_text() for file in files), number


def test_the_promises_are_short_enough_to_be_read():
    assert len(TEXT.split()) <= 900


@pytest.mark.parametrize("title", ["What earlier versions kept", "Inputs that were silent or wrong"])
def test_each_row_of_attacks_names_a_test_that_exists(title):
    text = (ROOT / "docs" / "validation.md").read_text("utf-8")
    section = text.split(f"## {title}\n")[1].partition("\n## ")[0]
    rows = re.findall(r"^\| .* \| `(tests/[^`]*)`, `(test_[^`]*)` \|$", section, re.MULTILINE)
    assert len(rows) == section.count("\n| ") - 2, "a row without a test"
    for file, name in rows:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), name


def test_every_kind_and_command_was_measured_and_none_is_silent():
    content = json.loads(TABLE.read_text())
    assert content["kinds"].keys() == KINDS.keys()
    assert content["commands"].keys() == COMMANDS.keys()
    for row in content["kinds"].values():
        assert row["cases"] == sum(row[end] for end in KIND_ENDS) == 500
    rows = [*content["kinds"].values(), *(rows[change] for rows in content["commands"].values() for change in CHANGES)]
    assert not [row for row in rows if row["silent"] or row["traceback"] or row.get("hang")]
    for rows in content["commands"].values():
        for change in CHANGES:
            assert rows[change]["changes"] == sum(rows[change][end] for end in ENDS)
