"""The pages of the rehearsal of publishing."""

from tests.support.hub import File, Repo
from tools.rehearsal import page

CARD = """---
license: mit
tags: [a, b<c]
configs: [{config_name: x, data_files: []}]
---
# Rows

| name | rows |
| --- | --- |
| x | 40 |

![scores](plots/scores.svg)
"""


def made(kind, **files):
    repo = Repo(kind, "org/name")
    repo.commit("main", {path.replace("__", "/"): File(text.encode()) for path, text in files.items()}, "all")
    return repo


def test_a_page_shows_the_card_with_its_metadata_tables_and_pictures(tmp_path):
    repo = made("dataset", **{"README.md": CARD, "plots__scores.svg": "<svg/>", "data__x.parquet": "rows"})
    text = page(repo, tmp_path).read_text()
    assert "<b>license</b>: mit" in text
    assert "b&lt;c" in text
    assert "config_name" not in text
    assert "<td>40</td>" in text
    assert (tmp_path / "plots" / "scores.svg").read_text() == "<svg/>"
    assert not (tmp_path / "data").exists()


def test_a_card_without_metadata_is_shown_and_a_space_is_its_own_page(tmp_path):
    assert "<h1>Rows</h1>" in page(made("model", **{"README.md": "# Rows\n"}), tmp_path / "a").read_text()
    space = made("space", **{"README.md": "---\nsdk: static\n---\n", "index.html": "<p>All scores</p>"})
    assert page(space, tmp_path / "b").read_text() == "<p>All scores</p>"


def test_a_repository_without_a_card_is_shown_by_its_files(tmp_path):
    text = page(made("dataset", **{"runs__results.json": "{}"}), tmp_path).read_text()
    assert "No card." in text
    assert "<code>runs/results.json</code>" in text
