import errno
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml

from builders import datasets
from cards import results
from cards.common.text import CardError
from cards.formats.evaluation import ResultSource, eval_files, published_results
from cards.leaderboard import (
    Collected,
    entries_of,
    headline_columns,
    matrix_rows,
    page,
    task_tables,
    with_changes,
)
from cards.overview import model_matrix
from cards.results import Upload, read
from scoring import benchmarks
from scoring.report.comparison import comparison
from scoring.report.headlines import headline_changes
from scoring.statistics.stats import corrected
from scoring.uploads import DECLARATIONS
from tests.cards.made import DIGEST, PROBES, RUN, declared, estimate, manifest, run
from tests.scoring.made_runs import made_comparison
from tests.scoring.test_pages import MEASURE, browse
from tests.support import commands
from tests.support.hub import CUT, File, Hub


def of(*places):
    return task_tables(entry for place in places for entry in entries_of(place, DECLARATIONS))


def published(folder, place):
    """The folder of a model with the results of a run."""
    found, _ = published_results(read(folder), "org", lambda name, _: (manifest(name), ""))
    for path, content in eval_files(found, ResultSource("2026-01-02"), lambda _: None).items():
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


def all_scores(text):
    """The part of a page that has every score of every task."""
    return text.partition('<details class="all">')[2]


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
        (PROBES, "stsb", "gld", 0),
        (PROBES, "templates", "gas", 0),
        ("unstereo", "pronoun-pairs", "us_score", 100),
    ]
    assert [(entry.model, entry.value, entry.interval) for entry in tables[0].entries] == [
        ("org/better", 0.1, "0.05 to 0.20"),
        ("org/worse", 0.25, "0.20 to 0.31"),
    ]


def test_each_score_of_a_run_has_its_place_among_real_models(runs):
    known = replace(DECLARATIONS, place=lambda report, score: f"Higher than 3 of 9, as {report.model} {score.metric}.")
    text = page(task_tables(entry for place in runs for entry in entries_of(place, known)))
    assert text.count("<small>Higher than 3 of 9, as org/worse gas.</small>") == 2
    assert "Higher than" not in page(of(*runs))


def test_further_metrics_of_a_run_have_columns_of_their_own(tmp_path):
    names = ("p_male", "p_female", "p_diverse")
    jobs = [estimate("occugender", "explicit", name, 30.0, 25.0, 35.0, most=100, ideal=None) for name in names]
    jobs.append(estimate("occugender", "explicit", "labour_correlation", 0.1, -0.1, 0.3, least=-1))
    ideals = {"gld": 0.0, "add_raw": 0.0, "ratio_male": 0.5, "jsd": 0.0}
    more = [estimate(metric=name, ideal=ideal) for name, ideal in ideals.items()]
    data = {**RUN.data, "occugender/explicit/test": f"1.0.0 sha256:{DIGEST}"}
    tables = of(run(tmp_path, data=data, estimates=(estimate(), *more, *jobs)))
    metrics = {task: {t.metric for t in tables if t.task == task} for task in ("stsb", "explicit")}
    assert metrics == {"stsb": {"gas", "gld", "add_raw", "ratio_male"}, "explicit": {"labour_correlation", *names}}
    text = page(tables)
    titles = declared("neutral") | declared("occugender")
    assert all(f"<small>{titles[name].names[0]}</small>" in text for name in ("gld", "add_raw", "ratio_male", *names))
    assert "1 model, 2 tasks with 8 scores." in text
    assert "Leaderboards of the Hub leave out models with a base model" in text


def test_a_note_without_a_finite_value_is_refused(tmp_path):
    notes = "gas of stsb (test): 1e999, n 9, ideal 0, range 0 to 1; profile clean; the model alone"
    entry = {"dataset": {"id": f"org/{PROBES}", "task_id": "stsb"}, "value": 75.0, "notes": notes}
    (tmp_path / ".eval_results").mkdir()
    (tmp_path / ".eval_results" / "x.yaml").write_text(yaml.safe_dump([entry]))
    with pytest.raises(CardError, match="give a number"):
        of(tmp_path)


def test_published_results_give_the_same_numbers_as_their_run(runs, tmp_path):
    model = published(runs[0], tmp_path / "worse")
    for place in (model, model / ".eval_results"):
        assert [(b.task, b.metric, b.ideal, b.entries[0].interval) for b in of(place)] == [
            (b.task, b.metric, b.ideal, b.entries[0].interval) for b in of(runs[0]) if b.metric != "gld"
        ], "all but the further metrics, for which the Hub has no place"
        assert [b.entries[0].value for b in of(place)] == [0.25, 0.25, 55]
        assert {entry.model for table in of(place) for entry in table.entries} == {"worse"}
        gas, score = declared("neutral")["gas"].names[0], declared("unstereo")["us_score"].names[0]
        assert [table.title for table in of(place)] == [gas, gas, score], "and not the names in files"
        assert f">{gas}</button>" in page(of(place))


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
    shown = Page(all_scores(page(of(*runs))))
    assert [tag for tag, _ in shown.tags].count("button") == 2 + 4 + 4 * 5
    keys = [attrs["data-key"] for tag, attrs in shown.tags if tag == "td"]
    expected = ["", "0.1", "", "", "", "", "0.25", "0.125", "0.25", "0.45"]
    assert keys[:10] == expected, "language ability, which is not measured, and distances; none without a score"
    assert keys[10:15] == ["org/better", "0.1", "0.05", "", "0.1"]


def test_a_task_says_how_to_read_its_metric_where_a_run_does(runs, tmp_path):
    shown = Page(page(of(published(runs[0], tmp_path / "worse"), runs[1])))
    reading = declared("neutral")["gas"].reading
    assert shown.texts.count(reading) == 1
    assert reading not in Page(page(of(tmp_path / "worse"))).texts


def test_the_head_says_by_what_the_rows_are_sorted(runs):
    text = all_scores(page(of(*runs)))
    heads = [attrs.get("aria-sort") for tag, attrs in Page(text).tags if tag == "th" and "scope" in attrs]
    assert heads[:8] == ["ascending", *[None] * 7], "models, ability, two data sets and four scores of three tasks"
    assert heads[10:15] == [None, None, None, None, "ascending"], "after two rows of the matrix"


@pytest.mark.fault(50)
def test_hostile_names_are_text(tmp_path):
    hostile = '<script>alert(1)</script>"onclick=x|`\n{{ 7 * 7 }}'
    shown = Page(page(of(run(tmp_path, model=hostile, prompt=hostile))))
    assert [tag for tag, _ in shown.tags].count("script") == 2
    assert not [attrs for _, attrs in shown.tags if any(name.startswith("on") for name in attrs)]
    assert hostile in shown.texts
    assert f"prompt {hostile}" in shown.texts


def test_the_command_writes_the_page(runs, tmp_path):
    result = commands.run("scoring.commands.leaderboard", *runs, "--out", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert "org/better" in (tmp_path / "page.html").read_text()


def test_benchmarks_that_the_page_cannot_show_are_named(runs, tmp_path):
    scores = (estimate(), estimate("occugender", "explicit", "p_male", value=60.0, most=100, ideal=None))
    both = run(tmp_path / "both", model="org/both", estimates=scores)
    result = commands.run("scoring.commands.leaderboard", both, *runs, "--out", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    left_out = [line for line in result.stdout.splitlines() if line.startswith("Left out")]
    assert left_out == [
        f"Left out: occugender of {both} (profile clean), because it has no value of labour_correlation for a "
        "published task."
    ]
    # A further score of a benchmark does not make a page either.
    further = estimate("occugender", "explicit", "gender_gap", value=5.0, ideal=0.0)
    alone = run(tmp_path / "alone", model="org/alone", estimates=(*scores[1:], further))
    result = commands.run("scoring.commands.leaderboard", alone, "--out", tmp_path / "alone.html")
    assert result.returncode == 1
    assert "because it has no value of labour_correlation for a published task. None has a score" in result.stderr


@pytest.mark.fault(86)
def test_a_full_disk_and_a_page_of_the_user_are_told_as_what_they_are(runs, tmp_path, monkeypatch):
    (tmp_path / "mine.html").write_text("mine")
    result = commands.run("scoring.commands.leaderboard", *runs, "--out", tmp_path / "mine.html")
    assert result.returncode == 1
    assert "mine.html" in result.stderr
    assert (tmp_path / "mine.html").read_text() == "mine"
    earlier = tmp_path / "earlier.html"
    assert commands.run("scoring.commands.leaderboard", runs[0], "--out", earlier).returncode == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for out in (tmp_path / "page.html", earlier):
        result = commands.run("scoring.commands.leaderboard", *runs, "--out", out)
        assert result.returncode == 1
        assert "(No space left on device)" in result.stderr
        assert result.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    monkeypatch.undo()
    assert commands.run("scoring.commands.leaderboard", *runs, "--out", earlier).returncode == 0
    assert earlier.read_bytes() != before["earlier.html"]


def test_what_has_no_scores_is_refused_in_a_sentence(tmp_path):
    result = commands.run("scoring.commands.leaderboard", tmp_path, "--out", tmp_path / "page.html")
    assert result.returncode == 1
    assert "cannot be read as results" in result.stderr
    assert not (tmp_path / "page.html").exists()
    (tmp_path / ".eval_results").mkdir()
    with pytest.raises(CardError, match="eval_results"):
        of(tmp_path)
    (tmp_path / ".eval_results" / "x.yaml").write_text("- dataset: {id: a/b, task_id: c}\n  value: much\n")
    with pytest.raises(CardError, match="'much'"):
        of(tmp_path)


ENTRY = "- dataset: {id: a/b, task_id: c}\n  value: "
FORMAT = "does not have results in the format of the Hub (RecursionError); correct it."


@pytest.mark.fault(86)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 99_999, FORMAT),
        ('{"a":' * 99_999, FORMAT),
        ("- " * 9_999 + "1", FORMAT),
        (f"{ENTRY}1\n  notes: " + "[" * 99_999, FORMAT),
        (f"{ENTRY}" + "9" * 999, "has the value of too many digits for c; give a number."),
        (f"{ENTRY}0x" + "f" * 9_999, "has the value of too many digits for c; give a number."),
        (f"{ENTRY}.nan", "has the value nan for c; give a number."),
        (f"{ENTRY}-.inf", "has the value -inf for c; give a number."),
        (f"{ENTRY}true", "has the value True for c; give a number."),
    ],
    ids=["lists", "mappings", "a block", "notes", "digits", "hexadecimal", "nan", "infinite", "true"],
)
def test_published_results_of_absurd_depth_or_value_are_one_sentence(tmp_path, text, told):
    file, out = tmp_path / ".eval_results" / "x.yaml", tmp_path / "page.html"
    file.parent.mkdir()
    file.write_text(text)
    result = commands.run("scoring.commands.leaderboard", tmp_path, "--out", out)
    assert (result.returncode, result.stderr) == (1, f"error: {file} {told}\n")
    assert not out.exists()
    assert file.read_text() == text


@pytest.mark.parametrize("notes", ["true", "5", "[a]", "{a: b}", "2026-01-01"])
def test_notes_that_are_no_text_are_those_of_another_program(tmp_path, notes):
    file = tmp_path / ".eval_results" / "x.yaml"
    file.parent.mkdir()
    file.write_text(f"{ENTRY}1\n  notes: {notes}\n")
    (table,) = of(tmp_path)
    assert (table.metric, table.entries[0].value) == ("value", 1.0)


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
    result = commands.run("scoring.commands.leaderboard", "lab", "--out", out, "--space", "lab/bias")
    assert result.returncode == 0, result.stderr
    text = out.read_text()
    assert text.index("lab/better") < text.index("lab/worse")
    assert "lab/other" not in text
    tree = hub.repos["space", "lab/bias"].at("main").tree
    assert f"Space: {hub.url}/spaces/lab/bias" in result.stdout
    assert tree["index.html"].data == out.read_bytes()
    assert "sdk: static\napp_file: index.html\n" in tree["README.md"].data.decode()
    before = len(list(hub.repos["space", "lab/bias"].history("main")))
    assert commands.run("scoring.commands.leaderboard", "lab", "--out", out, "--space", "lab/bias").returncode == 0
    assert len(list(hub.repos["space", "lab/bias"].history("main"))) == before


def test_the_models_of_a_leaderboard_of_the_hub_are_shown_also_those_with_a_base(hub, tmp_path):
    hub.add("dataset", f"org/{PROBES}", {"eval.yaml": File(b"tasks: []")})
    tuned = hub.repos["model", "lab/better"].at("main").tree
    card = File(b"---\nlicense: mit\nbase_model: lab/worse\n---\n")
    hub.add("model", "else/where", {**tuned, "README.md": card})
    out = tmp_path / "page.html"
    result = commands.run("scoring.commands.leaderboard", f"org/{PROBES}", "--out", out)
    assert result.returncode == 0, result.stderr
    assert {"lab/better", "lab/worse", "else/where"} <= set(Page(all_scores(out.read_text())).texts)
    assert "lab/other" not in out.read_text()


def test_a_data_set_without_a_leaderboard_is_one_sentence(hub, tmp_path):
    hub.add("dataset", "org/gest", {"README.md": File(b"# GEST")})
    out = "--out", tmp_path / "page.html"
    result = commands.run("scoring.commands.leaderboard", "org/gest", *out)
    assert result.returncode == 1
    assert "error: org/gest has no leaderboard on the Hub yet; name models or an organisation." in result.stderr
    result = commands.run("scoring.commands.leaderboard", "org/pronouns", *out)
    assert "error: org/pronouns is no data set of the Hub that you may read; correct the name." in result.stderr


def test_a_leaderboard_has_the_data_sets_that_benchmarks_declare():
    listed = set(DECLARATIONS.datasets())
    assert {name for name in datasets.names() if datasets.get(name).benchmark} <= listed
    assert {"stated-gender", "winogenerated"} <= listed
    for name in datasets.names():
        read = {each for each in benchmarks.names() if name in {part[0] for part in benchmarks.get(each).configs}}
        assert set(datasets.get(name).benchmarks) == read, name


def test_models_of_the_hub_and_runs_stand_on_one_page(hub, runs, tmp_path):
    result = commands.run("scoring.commands.leaderboard", "lab/better", runs[0], "--out", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "page.html").read_text()
    assert text.index("lab/better") < text.index("org/worse")
    assert "lab/worse" not in text


def test_an_adapter_of_the_hub_stands_below_the_base_model_that_its_card_names(hub, tmp_path):
    name = "lab/fair"
    place = published(
        run(tmp_path / "run-fair", adapter=name, estimates=(estimate(value=0.05, high=0.1, low=0.0),)),
        tmp_path / "fair",
    )
    files = {path.relative_to(place).as_posix(): File(path.read_bytes()) for path in place.rglob("*.yaml")}
    hub.add("model", name, files | {"README.md": File(b"---\nlicense: mit\nbase_model: lab/worse\n---\n")})
    out = tmp_path / "page.html"
    assert commands.run("scoring.commands.leaderboard", "lab", "--out", out).returncode == 0
    cells = [text.strip() for text in Page(all_scores(out.read_text())).texts if text.strip()]
    assert cells[cells.index("lab/worse") :][:7] == ["lab/worse", "–", "0.30", name, "–", "0.30 → 0.05", "nearer"]


def test_what_is_neither_here_nor_on_the_hub_is_one_sentence(hub, tmp_path, monkeypatch):
    out = "--out", tmp_path / "page.html"
    result = commands.run("scoring.commands.leaderboard", "lab/none", *out)
    assert result.returncode == 1
    assert "lab/none is neither a file or folder nor a model of the Hub that you may read" in result.stderr
    result = commands.run("scoring.commands.leaderboard", "a/b/c", *out)
    assert result.returncode == 1
    assert "There is no file or folder a/b/c; name one, or an organisation or model of the Hub." in result.stderr
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = commands.run("scoring.commands.leaderboard", "lab", *out)
    assert result.returncode == 2
    assert "error: There is no file or folder lab." in result.stderr
    assert "(ConnectError)" in result.stderr
    assert not out[1].exists()


@pytest.mark.parametrize("fault", [401, 403, 429, 500, CUT])
def test_a_space_that_is_refused_leaves_the_page_and_is_sent_by_the_next_command(hub, tmp_path, fault):
    out = tmp_path / "page.html"
    hub.faults["POST .*/(commit|create)"] = fault
    result = commands.run("scoring.commands.leaderboard", "lab", "--out", out, "--space", "lab/bias")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert out.exists()
    hub.faults.clear()
    assert commands.run("scoring.commands.leaderboard", "lab", "--out", out, "--space", "lab/bias").returncode == 0
    assert "index.html" in hub.repos["space", "lab/bias"].at("main").tree


# The matrix


def compared_as(content):
    """What a leaderboard takes from this project, with scores as they are in the files and one comparison."""
    return replace(DECLARATIONS, checked_run=lambda run, _: Upload(run), changes=lambda *_: content)


@pytest.fixture
def compared(tmp_path):
    """Pages of a model alone, with an adapter, and of an adapter whose card names the model."""
    near, far = (estimate(value=v, low=v - 0.05, high=v + 0.05) for v in (0.1, 0.6))
    base = run(tmp_path / "a")
    tuned = run(tmp_path / "b", adapter="fair@abc", estimates=(near,))
    worse = run(tmp_path / "c", adapter="org/worse", estimates=(far,))
    entry = next(entries_of(worse, DECLARATIONS))
    apart = replace(entry, model="org/worse", base="org/model", setting="")
    return task_tables([*entries_of(base, DECLARATIONS), *entries_of(tuned, DECLARATIONS), apart])


def test_an_adapter_stands_below_its_base_with_the_change(compared):
    shown = Page(all_scores(page(compared)))
    bodies = [attrs["data-key"] for tag, attrs in shown.tags if tag == "tbody" and attrs]
    assert bodies == ["org/model"]
    assert [attrs.get("class") for tag, attrs in shown.tags if tag == "tr"].count("below") == 2
    cells = [text.strip() for text in shown.texts if text.strip()]
    assert cells[cells.index("adapter fair") :][:4] == ["adapter fair", "–", "0.25 → 0.10", "nearer"]
    assert cells[cells.index("org/worse") :][:4] == ["org/worse", "–", "0.25 → 0.60", "further"]
    titles = [attrs["title"] for tag, attrs in shown.tags if "title" in attrs]
    gas = "org/model: Gender attribute score (GAS) 0.25"
    assert f"{gas}, 95 % interval 0.20 to 0.31, ideal 0, n 40, reported by its owner" in titles


def test_a_run_that_was_compared_with_its_base_has_the_paired_change(tmp_path):
    base = run(tmp_path / "a", estimates=(estimate(value=0.25, low=0.15, high=0.35),))
    near = run(tmp_path / "b", adapter="fair@abc", estimates=(estimate(value=0.2, low=0.1, high=0.3),))
    change = {"benchmark": "neutral", "group": estimate().group, "metric": "gas", "before": 0.25, "after": 0.2}
    change |= {"value": -0.05, "low": -0.06, "high": -0.04, "p": 1e-6, "p_side": 0.0}
    words = []
    for before in (None, 0.25, 0.75):  # the last is of another base
        differences = []
        if before is not None:
            differences = [{**change, "before": before, "after": before - 0.05, "verdict": ""}]
        collected = Collected(compared_as({"differences": differences}))
        for place in (base, near):
            collected.add_path(place)
        texts = [text.strip() for text in Page(all_scores(collected.page().decode())).texts if text.strip()]
        words.append(texts[texts.index("adapter fair") + 3])
    assert words == ["unclear", "nearer", "unclear"]


def test_a_colour_is_a_fixed_share_of_the_greatest_distance():
    bands = [
        model_matrix.Cell(value, value, value, "ss", 50, 9, "", 0, 100).band for value in (50, 53, 60, 35, 75, 100, 0)
    ]
    assert bands == [0, 1, 2, 2, 3, 4, 4]
    assert model_matrix.Cell(3, 2, 4, "of another page", 0, 9).band is None


@pytest.mark.system
def test_the_page_fits_a_phone_and_is_readable_in_light_and_dark(compared, tmp_path):
    (tmp_path / "page.html").write_text(page(compared))
    outer = MEASURE.replace("PAGE", (tmp_path / "page.html").as_uri()).replace("WIDTH", "390")
    (tmp_path / "outer.html").write_text(outer)
    for scheme in (0, 1):
        dark = f"--blink-settings=preferredColorScheme={scheme}"
        dom, console = browse(tmp_path, (tmp_path / "outer.html").as_uri(), "--window-size=1400,900", dark)
        assert console == []
        result = json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1].replace("&amp;", "&"))
        for state in ("closed", "open"):
            assert result[state]["width"] <= result[state]["inside"]
            assert result[state]["contrast"]["ratio"] >= 4.5, result[state]["contrast"]


@pytest.mark.system
def test_a_click_sorts_the_rows_and_keeps_adapters_below_their_base(runs, tmp_path):
    near = estimate(value=0.05, low=0.01, high=0.1)
    tuned = run(tmp_path / "c", model="org/worse", adapter="fair", estimates=(near,))
    text = page(of(*runs, tuned))
    for clicks, expected in (
        ((2,), ["org/better", "org/worse", "adapter fair"]),
        ((2, 2), ["org/worse", "adapter fair", "org/better"]),
        ((3,), ["org/worse", "adapter fair", "org/better"]),
    ):
        script = "".join(f"document.querySelectorAll('#matrix th button')[{number}].click();" for number in clicks)
        (tmp_path / "page.html").write_text(text.replace("</body>", f"<script>{script}</script></body>"))
        dom, console = browse(tmp_path, (tmp_path / "page.html").as_uri())
        assert console == []
        assert re.findall(r'scope="row">([^<]+)<', all_scores(dom)) == expected, clicks


@pytest.mark.system
def test_a_click_sorts_the_rows_of_a_task(runs, tmp_path):
    text = page(of(*runs))
    for clicks, expected in ((1, ["org/better", "org/worse"]), (2, ["org/worse", "org/better"])):
        script = "document.querySelector('section th button').click();" * clicks
        (tmp_path / "page.html").write_text(text.replace("</body>", f"<script>{script}</script></body>"))
        dom, _ = browse(tmp_path, (tmp_path / "page.html").as_uri())
        assert re.findall(r'<td data-key="(org/\w+)"', dom)[:2] == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_leaderboard_and_a_comparison_say_the_same_of_the_same_pairs(seed, tmp_path):
    stream = np.random.default_rng(seed)
    made = made_comparison(0.3, 0.45)
    drawn = []
    for d in made.differences:
        p, p_side = stream.choice([1e-9, 0.004, 0.03, 0.5], 2)
        drawn.append(replace(d, p=float(p), p_side=float(p_side)))
    compared = replace(made, differences=tuple(corrected(drawn)))
    name = compared.base.model
    after = replace(compared.run, model=name, adapter="tuned")
    places = {"/".join(place) for one in benchmarks.names() for place in benchmarks.get(one).configs_of("clean")}
    for folder, report in (("base", compared.base), ("run", after)):
        (tmp_path / folder).mkdir()
        scored = replace(report, data=dict.fromkeys(sorted(places), "1.0.0 sha256:aa"))
        (tmp_path / folder / "results.json").write_text(results.text(scored, {}))
    told = {change.difference.key: change.verdict for change in compared.changes}
    told |= {change.difference.key: change.verdict for change in headline_changes(compared)}
    collected = Collected(compared_as(json.loads(comparison(compared))))
    for folder in ("base", "run"):
        collected.add_path(tmp_path / folder)
    rows = matrix_rows(with_changes(collected.entries, collected.folders, collected.declarations))
    base, row = sorted(rows, key=lambda one: bool(one.setting))
    shown = row.changes(base)
    assert len(shown) >= 5
    by_place = {
        (entry.dataset, entry.task, entry.metric): (entry.benchmark, entry.metric)
        for entry in entries_of(tmp_path / "run", DECLARATIONS)
    }
    for place, word in shown.items():
        benchmark, metric = by_place[place]
        cell, old = row.cells[place], base.cells[place]
        verdicts = {
            verdict
            for key, verdict in told.items()
            if (key[0], key[2]) == (benchmark, metric)
            and (compared.base.by_key[key].value, compared.run.by_key[key].value) == (old.value, cell.value)
        }
        assert word in verdicts, (place, word, verdicts)
    assert {"nearer", "unclear"} & set(shown.values())


def test_published_results_show_the_headline_of_reports_and_not_the_first_task_by_name(tmp_path):
    folder = tmp_path / "model" / ".eval_results"
    folder.mkdir(parents=True)
    entries = []
    for task, value in (("ours-10", 28.0), ("ours-20", 20.0), ("ours-5", 35.0)):
        notes = f"us_score of {task} (test): {value}, n 9, ideal 100, range 0 to 100; profile clean; the model alone"
        entries.append({"dataset": {"id": "org/unstereo", "task_id": task}, "value": value, "notes": notes})
    (folder / "unstereo.yaml").write_text(yaml.safe_dump(entries))
    headlines = [entry.task for table in of(tmp_path / "model") for entry in table.entries if entry.headline]
    assert headlines == [benchmarks.get("unstereo").headline.shown]
    (column,) = headline_columns([entry for table in of(tmp_path / "model") for entry in table.entries])
    assert column.key == ("unstereo", "ours-5", "us_score")
