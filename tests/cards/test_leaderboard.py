import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
import yaml

from cards.eval_results import Source, eval_files
from cards.evaluation import published_results
from cards.leaderboard import entries_of, page, task_tables
from cards.results import read
from cards.text import CardError
from tests import commands
from tests.cards.made import DIGEST, PROBES, RUN, estimate, manifest, run
from tests.helpers import missing_package
from tests.hub import CUT, File, Hub


def of(*places):
    return task_tables(entry for place in places for entry in entries_of(place))


def published(folder, place):
    """The folder of a model with the results of a run."""
    results, _ = published_results(read(folder), "org", lambda name, _: (manifest(name), ""))
    for path, content in eval_files(results, Source("2026-01-02"), lambda _: None).items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    return place


class Page(HTMLParser):
    """Tags with their attributes, and text."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.texts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def runs(tmp_path):
    return (
        run(tmp_path / "a", model="org/worse"),
        run(tmp_path / "b", model="org/better", estimates=(estimate(value=0.1, low=0.05, high=0.2),)),
    )


def test_models_stand_by_task_nearest_to_the_ideal_first(runs):
    tables = of(*runs)
    assert [(table.dataset, table.task, table.metric, table.ideal) for table in tables] == [
        (PROBES, "stsb", "gas", 0),
        (PROBES, "templates", "gas", 0),
        ("unstereo", "pronoun-pairs", "us_score", 100),
    ]
    assert [(entry.model, entry.value, entry.interval) for entry in tables[0].entries] == [
        ("org/better", 0.1, "0.05 to 0.20"),
        ("org/worse", 0.25, "0.20 to 0.31"),
    ]


def test_published_results_give_the_same_numbers_as_their_run(runs, tmp_path):
    model = published(runs[0], tmp_path / "worse")
    for place in (model, model / ".eval_results"):
        assert [(b.task, b.metric, b.ideal, b.entries[0].interval) for b in of(place)] == [
            (b.task, b.metric, b.ideal, b.entries[0].interval) for b in of(runs[0])
        ]
        assert {entry.model for table in of(place) for entry in table.entries} == {"worse"}


def test_a_value_whose_notes_are_not_ours_is_shown_without_an_interval(tmp_path):
    entry = {"dataset": {"id": "cais/hle", "task_id": "default"}, "value": 20.9, "notes": "with tools"}
    (tmp_path / ".eval_results").mkdir()
    (tmp_path / ".eval_results" / "hle.yaml").write_text(yaml.safe_dump([entry]))
    (table,) = of(tmp_path)
    assert (table.dataset, table.task, table.ideal, table.entries[0].interval) == ("hle", "default", None, "")
    assert "with tools" in page([table])


def test_a_score_of_a_part_of_the_rows_says_so(tmp_path):
    data = RUN.data | {f"{PROBES}/stsb/test": f"1.2.0 sha256:{DIGEST}, 30 of 40 rows"}
    remarks = {table.task: table.entries[0].remark for table in of(run(tmp_path, data=data))}
    assert remarks == {"stsb": "only a part of the rows", "templates": "", "pronoun-pairs": ""}


def test_the_page_needs_nothing_outside_itself_and_can_be_sorted(runs):
    shown = Page(page(of(*runs)))
    assert not [attrs for tag, attrs in shown.tags if tag in ("link", "img", "iframe") or "src" in attrs]
    assert all(attrs["href"].startswith("#") for tag, attrs in shown.tags if "href" in attrs)
    assert [tag for tag, _ in shown.tags].count("button") == 3 * 4
    keys = [attrs["data-key"] for tag, attrs in shown.tags if tag == "td"]
    assert keys[:4] == ["org/better", "0.1", "0.05", "0.1"]


def test_a_task_says_how_to_read_its_metric_where_a_run_does(runs, tmp_path):
    shown = Page(page(of(published(runs[0], tmp_path / "worse"), runs[1])))
    assert shown.texts.count("How to read gas.") == 1
    assert "How to read" not in page(of(tmp_path / "worse"))


def test_the_head_says_by_what_the_rows_are_sorted(runs):
    heads = [attrs.get("aria-sort") for tag, attrs in Page(page(of(*runs))).tags if tag == "th"]
    assert heads[:4] == [None, None, None, "ascending"]


@pytest.mark.fault(50)
def test_hostile_names_are_text(tmp_path):
    hostile = '<script>alert(1)</script>"onclick=x|`\n{{ 7 * 7 }}'
    shown = Page(page(of(run(tmp_path, model=hostile, prompt=hostile))))
    assert [tag for tag, _ in shown.tags].count("script") == 1
    assert not [attrs for _, attrs in shown.tags if any(name.startswith("on") for name in attrs)]
    assert hostile in shown.texts
    assert f"prompt {hostile}" in shown.texts


def test_the_command_writes_the_page(runs, tmp_path):
    result = commands.run("cards.leaderboard", *runs, "--out", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert "org/better" in (tmp_path / "page.html").read_text()


def test_what_has_no_scores_is_refused_in_a_sentence(tmp_path):
    result = commands.run("cards.leaderboard", tmp_path, "--out", tmp_path / "page.html")
    assert result.returncode == 1
    assert "cannot be read as results" in result.stderr
    assert not (tmp_path / "page.html").exists()
    (tmp_path / ".eval_results").mkdir()
    with pytest.raises(CardError, match=r"\.eval_results has no results; give the folder of a run"):
        of(tmp_path)
    (tmp_path / ".eval_results" / "x.yaml").write_text("- dataset: {id: a/b, task_id: c}\n  value: much\n")
    with pytest.raises(CardError, match="has the value 'much' for c; give a number"):
        of(tmp_path)


@pytest.fixture
def hub(tmp_path):
    """A Hub with two models of an organisation that have published results, and one that has none."""
    with Hub(cache=tmp_path / "cache") as hub:
        for name, value in (("worse", 0.3), ("better", 0.1)):
            scores = (estimate(value=value, low=value - 0.05, high=value + 0.05),)
            place = published(run(tmp_path / f"run-{name}", estimates=scores), tmp_path / f"model-{name}")
            files = {path.relative_to(place).as_posix(): File(path.read_bytes()) for path in place.rglob("*.yaml")}
            hub.add("model", f"lab/{name}", files)
        other = b"- dataset: {id: cais/hle, task_id: default}\n  value: 20.9\n"
        hub.add("model", "lab/other", {".eval_results/hle.yaml": File(other)})
        yield hub


def test_the_results_of_an_organisation_are_read_from_the_hub_and_shown_in_a_space(hub, tmp_path):
    out = tmp_path / "page.html"
    result = commands.run("cards.leaderboard", "lab", "--out", out, "--space", "lab/bias")
    assert result.returncode == 0, result.stderr
    text = out.read_text()
    assert text.index("lab/better") < text.index("lab/worse")
    assert "lab/other" not in text
    tree = hub.repos["space", "lab/bias"].at("main").tree
    assert f"Space: {hub.url}/spaces/lab/bias" in result.stdout
    assert tree["index.html"].data == out.read_bytes()
    assert "sdk: static\napp_file: index.html\n" in tree["README.md"].data.decode()
    before = len(list(hub.repos["space", "lab/bias"].history("main")))
    assert commands.run("cards.leaderboard", "lab", "--out", out, "--space", "lab/bias").returncode == 0
    assert len(list(hub.repos["space", "lab/bias"].history("main"))) == before


def test_models_of_the_hub_and_runs_stand_on_one_page(hub, runs, tmp_path):
    result = commands.run("cards.leaderboard", "lab/better", runs[0], "--out", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "page.html").read_text()
    assert text.index("lab/better") < text.index("org/worse")
    assert "lab/worse" not in text


def test_what_is_neither_here_nor_on_the_hub_is_one_sentence(hub, tmp_path, monkeypatch):
    out = "--out", tmp_path / "page.html"
    result = commands.run("cards.leaderboard", "lab/none", *out)
    assert result.returncode == 1
    assert "lab/none is neither a file or folder nor a model of the Hub that you may read" in result.stderr
    result = commands.run("cards.leaderboard", "a/b/c", *out)
    assert result.returncode == 1
    assert "There is no file or folder a/b/c; name one, or an organisation or model of the Hub." in result.stderr
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = commands.run("cards.leaderboard", "lab", *out)
    assert result.returncode == 2
    assert "error: There is no file or folder lab. The Hub cannot be reached (ConnectError); check" in result.stderr
    assert not out[1].exists()


@pytest.mark.parametrize("fault", [401, 403, 429, 500, CUT])
def test_a_space_that_is_refused_leaves_the_page_and_is_sent_by_the_next_command(hub, tmp_path, fault):
    out = tmp_path / "page.html"
    hub.faults["POST .*/(commit|create)"] = fault
    result = commands.run("cards.leaderboard", "lab", "--out", out, "--space", "lab/bias")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert out.exists()
    hub.faults.clear()
    assert commands.run("cards.leaderboard", "lab", "--out", out, "--space", "lab/bias").returncode == 0
    assert "index.html" in hub.repos["space", "lab/bias"].at("main").tree


def test_a_click_sorts_the_rows(runs, tmp_path):
    chromium = shutil.which("chromium") or missing_package("chromium")
    click = "<script>document.querySelector('th button').click()</script></body>"
    (tmp_path / "page.html").write_text(page(of(*runs)).replace("</body>", click))
    browser = [chromium, "--headless", "--no-sandbox", "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}"]
    result = [*browser, (tmp_path / "page.html").as_uri()]
    dom = subprocess.run(result, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.findall(r'data-key="(org/\w+)"', dom)[:2] == ["org/better", "org/worse"]
    twice = click.replace("</body>", click)
    (tmp_path / "page.html").write_text(page(of(*runs)).replace("</body>", twice))
    dom = subprocess.run(result, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.findall(r'data-key="(org/\w+)"', dom)[:2] == ["org/worse", "org/better"]
