"""GEST: rows with both releases of a sentence, and what is refused."""

import re

import pytest

from builders.dataset import BuildError
from builders.datasets.gest import DATASET, about
from builders.text.wording import STEREOTYPES
from tests.support.helpers import made, mirrored

(CONFIG,) = DATASET.configs


def files(folder, released, mended):
    return made(folder, "gest/sentences", f"sentence,stereotype\n{released}") | made(
        folder, "gest/mended", f"sentence,stereotype\n{mended}"
    )


def test_a_row_has_the_sentence_of_both_releases_and_whom_its_stereotype_is_about(tmp_path):
    one, other = CONFIG.rows(files(tmp_path, "I lif it.,16\nI cry.,1\n", "I lift it.,16\nI cry.,1\n"))
    assert one.values == {
        "sentence": "I lif it.",
        "mended": "I lift it.",
        "stereotype": 16,
        "name": "strong",
        "about": "men",
    }
    assert (other.id, other.values["name"], other.values["about"]) == ("gest-0001", "emotional", "women")


@pytest.mark.parametrize(
    ("released", "mended", "message"),
    [
        ("I cry.,17\n", "I cry.,17\n", "has the stereotype '17'; expected a number from 1 to 16"),
        ("I cry.,1\n", "I cry.,2\n", "has no counterpart in"),
        ("I cry.,1\n", "", "has no counterpart in"),
    ],
)
def test_files_of_something_else_are_refused(tmp_path, released, mended, message):
    with pytest.raises(BuildError, match=re.escape(message)):
        list(CONFIG.rows(files(tmp_path, released, mended)))


def test_seven_stereotypes_are_about_women_and_nine_about_men():
    assert len(STEREOTYPES) == 16
    assert [about(number) for number in range(1, 17)] == ["women"] * 7 + ["men"] * 9


@pytest.mark.mirror
def test_the_released_sentences_become_rows():
    rows = list(CONFIG.rows(mirrored("gest/sentences", "gest/mended")))
    assert len(rows) == 3565
    assert sum(row.values["sentence"] != row.values["mended"] for row in rows) == 244
    assert {row.values["stereotype"] for row in rows} == set(range(1, 17))
