"""Each target of ``probes reproduce`` has the number and the subject of the table or figure of its paper."""

import hashlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from builders.wording import DEBIASING_PROMPTS
from scoring.reproduce import printed_tables
from scoring.reproduce.printed import PAPERS, paper

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


def test_the_title_of_a_paper_is_that_of_the_version_at_hand():
    assert paper("occugender")["title"].startswith("Testing Occupational Gender Bias")


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
    """The targets that are called equal, without those that say where the numbers are."""
    for name, table in TABLES.items():
        for *_, reached in table.how:
            if reached.startswith("equal"):
                yield name, reached
                break


def test_every_target_that_is_called_equal_has_numbers_or_a_test_of_its_own():
    for name, reached in called_equal():
        # A figure that is equal where numbers are printed names the tables that have them.
        named = re.search(r"[Tt]ables? \d|`unstereo/\w+`|at the last step", reached)
        assert TABLES[name].cells or name in CHECKED or named, name
