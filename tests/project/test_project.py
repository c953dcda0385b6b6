"""Documents say what is: every source has its licence in the table, every version has its entry."""

import re
import tomllib

import yaml

from builders import datasets
from builders.sources.catalogue import catalogue
from tests.support.helpers import ROOT


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_source_stands_in_the_licence_table():
    rows = [line.split("|") for line in (ROOT / "docs" / "SOURCES.md").read_text().splitlines() if "|" in line]
    table = {cells[1].strip(): cells[2].strip() for cells in rows}
    for name, source in catalogue().sources.items():
        assert table[name] == source.licence


def test_every_licence_is_described():
    text = (ROOT / "docs" / "SOURCES.md").read_text()
    for licence in catalogue().licences.values():
        assert f"[{licence.id}]({licence.url}): {licence.name}" in text


def test_the_citation_file_has_the_projects_version_and_the_five_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project()["version"]
    assert len(citation["references"]) == 5


def test_the_changelog_names_the_version_and_every_data_set():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{project()['version']}]" in text
    for name in datasets.names():
        assert f"{name} {datasets.get(name).version}" in text


def test_the_changelog_has_the_form_of_keep_a_changelog():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    titles = [line for line in lines if line.startswith("## ")]
    assert titles[0] == "## [Unreleased]"
    assert all(re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in titles[1:])
    parts = {line for line in lines if line.startswith("### ")}
    assert parts <= {f"### {name}" for name in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")}
    long = [line for line in lines if line.startswith("- ") and len(line.split()) > 21]
    assert not long, "an entry has at most 20 words"


def test_every_data_set_has_its_part_of_the_ledger():
    text = (ROOT / "docs" / "LEDGER.md").read_text()
    for name in datasets.names():
        assert f"\n## {name}\n" in text


def test_the_core_install_has_no_torch():
    core = " ".join(project()["dependencies"])
    assert "torch" not in core
    assert "transformers" not in core


def test_every_dependency_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *(r for reqs in extras.values() for r in reqs)]
    names = {re.split(r"[\[=<>]", r)[0].lower().replace("_", "-") for r in wanted} - {"gender-neutral-probes"}
    assert names <= pins


def test_the_documents_say_that_the_pins_have_no_hashes():
    assert "--hash" not in (ROOT / "constraints.txt").read_text()
    assert "pins versions and has no hashes" in (ROOT / "SECURITY.md").read_text()
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--editable" in line]
    assert installs
    assert all("$(PIP) --constraint constraints.txt " in line for line in installs)
