"""Each target of ``probes reproduce`` has the number and the subject of the table or figure of its paper."""

import hashlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from builders.text.wording import DEBIASING_PROMPTS
from scoring import benchmarks
from scoring.reproduce import printed_tables
from scoring.reproduce.printed import PAPERS, paper
from tools.docs import figures_page, tables_page
from tools.docs.pages import ROOT

CAPTIONS = tomllib.loads((Path(__file__).parent / "captions.toml").read_text("utf-8"))
TABLES = {table.id: table for table in printed_tables()}
NUMBERED = {name for name, table in TABLES.items() if re.match(r"(table-\d+|figures?-\d+(-\d+)?)$", table.name)}
FACTS = {f"{name}/{target}": facts for name, of in CAPTIONS.items() for target, facts in of.items()}


def test_every_numbered_target_is_in_the_list_of_captions_and_the_other_way_round():
    assert set(FACTS) == NUMBERED
    assert set(CAPTIONS) <= set(PAPERS)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_target_has_the_subject_of_its_caption(name):
    table, facts = TABLES[name], FACTS[name]
    title = table.title
    assert [word for word in facts["subject"] if word not in title] == []
    metrics = {metric for panel in table.panels for metric in panel.get("metrics", {}).values()}
    assert set(facts.get("metrics", metrics)) == metrics
    axes = [panel.get("axis") for panel in table.panels]
    assert set(facts.get("axes", axes)) == set(axes)
    for panel in table.panels:
        assert panel.get("models") == facts["models"] if "models" in facts else True
        if facts.get("drawn") is False:
            assert panel["reason"].startswith("not possible: ")


def test_figures_of_ours_have_names_without_a_number_and_no_caption():
    own = {name for name, table in TABLES.items() if table.panels and not table.caption}
    assert own == {
        "occugender/by-group-of-jobs",
        "occugender/by-debiasing-prompt",
        "unstereo/preference",
        "unstereo/training-steps",
    }
    assert not own & NUMBERED
    assert all(table.caption for name, table in TABLES.items() if table.panels and name in NUMBERED)


def test_no_entry_says_that_a_caption_was_not_transcribed():
    told = [reached for table in TABLES.values() for *_, reached in table.how]
    assert not [reached for reached in told if "which of the" in reached or "were not released, so" in reached]


def test_the_page_of_figures_has_each_caption_and_no_sentences_of_others():
    assert figures_page.PAGE.read_text("utf-8") == figures_page.page()
    own = {
        figures_page.name_of(figure)
        for figure in figures_page.printed_figures()
        if not figures_page.has_sentences(figure)
    }
    kept = {path.name for path in figures_page.PICTURES.iterdir()}
    assert kept
    assert kept <= own
    assert "predecessor-figure-4.svg" not in own


def test_the_title_of_a_paper_is_that_of_the_version_at_hand():
    assert paper("occugender")["title"].startswith("Testing Occupational Gender Bias")


def test_the_desiderata_are_said_of_every_benchmark():
    rows = [
        line for line in (ROOT / "docs" / "desiderata.md").read_text("utf-8").splitlines() if line.startswith("| `")
    ]
    found = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(found) == sorted(benchmarks.names())
    assert {row.count("|") for row in rows} == {7}
    # Those of which the project has wordings of its own are told.
    for row in rows:
        of = {bool(benchmarks.get(name).wordings) for name in re.findall(r"`(\w+)`", row.split("|")[1])}
        assert of == {"ten more" in row}, row


# What is called equal


def test_the_models_of_table_5_are_the_ten_that_the_tables_name():
    models = {
        cell.place["model"] for table in printed_tables("disclosure") for cell in table.cells if "model" in cell.place
    }
    families = Counter(name.partition("/")[0] for name in models)
    assert families == {"meta-llama": 4, "lmsys": 2, "tiiuae": 2, "facebook": 2}


def test_the_debiasing_prompts_are_those_of_the_code_of_the_authors():
    # Compared word for word with code/pipeline_opensrc.py at 9ebaac350d6aa772601889a8d862089e13783383, of which only
    # this digest is kept.
    text = "\n".join(prompt.text for prompt in DEBIASING_PROMPTS)
    assert len(DEBIASING_PROMPTS) == 6
    digest = "6999ea4f9b6ca1930529ba97050dc352bd84165dd7b0ebe71a47e14ae32f729d"
    assert hashlib.sha256(text.encode()).hexdigest() == digest


#: Tables that are called equal and have no numbers here, or whose numbers are prompts: the test that compares them.
CHECKED = {
    "disclosure/table-5": test_the_models_of_table_5_are_the_ten_that_the_tables_name,
    "occugender/table-4": test_the_debiasing_prompts_are_those_of_the_code_of_the_authors,
}


def called_equal():
    """The targets that are called equal, with what is said of them."""
    for name, table in TABLES.items():
        for *_, reached in table.how:
            if re.match(r"equal|implicit: equal|\S+ equal", reached):
                yield name, reached


def named(name, reached):
    """The targets that a sentence names as those that have its numbers."""
    found = {f"{name.partition('/')[0]}/table-{number}" for number in re.findall(r"(?:Tables?|,|and) (\d+)", reached)}
    return found | set(re.findall(r"`(\w+/\w+)`", reached))


def test_the_kept_states_are_of_every_printed_number():
    assert {name: len(letters) for name, letters in tables_page.read().items()} == {
        name: len(table.cells) for name, table in TABLES.items() if table.cells
    }
    assert set("".join(tables_page.read().values())) <= set(tables_page.LETTERS.values())


@pytest.mark.parametrize(("name", "reached"), list(called_equal()))
def test_what_is_called_equal_was_found_equal(name, reached):
    if name in CHECKED or "(test)" in reached or "at the last step" in reached:
        return  # a test of its own compares it
    states = tables_page.read()
    of = [name] if name in states else sorted(named(name, reached))
    assert of, "it has no numbers, and names no table that has them"
    letters = "".join(states[one] for one in of)
    assert "e" in letters
    # What is not equal is told in the same row.
    if set(letters) - {"e"}:
        assert re.search(r"\bbut\b|except|others|printed|needs weights|not possible|open", reached), letters


def test_the_small_table_is_that_of_the_kept_states():
    table = tables_page.reached(tables_page.read())
    for path in (tables_page.README, tables_page.PAGE):
        (shown,) = tables_page.MARKED.findall(path.read_text("utf-8")) or [""]
        assert shown == table or (path == tables_page.PAGE and table in path.read_text("utf-8"))
    counts = Counter("".join(tables_page.read().values()))
    rows = [[int(cell.replace(",", "")) for cell in line.split("|")[2:-1]] for line in table.strip().splitlines()[2:]]
    assert [sum(column) for column in zip(*rows, strict=True)][2:] == [counts[n] for n in tables_page.LETTERS.values()]


def test_a_state_that_changed_changes_the_small_table():
    states = {"fast/table-1": "eow", "fast/table-2": "nfp", "unstereo/text": "e"}
    first, second = tables_page.reached(states).strip().splitlines()[2:]
    assert first.split(" | ")[1:] == ["6", "3", "1", "1", "1", "1", "1", "1 |"]
    assert second.split(" | ")[1:] == ["1", "1", "1", "0", "0", "0", "0", "0 |"]
