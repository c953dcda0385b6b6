"""The figures of the papers: what is declared, what is drawn from runs, published responses and data, and the page."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from builders.dataset import Alternative, Remote, Source
from builders.sources.fetch import git_blob
from cards.common.draw import canvas
from cards.common.text import slug
from scoring import benchmarks, report
from scoring import published as runs
from scoring.commands import reproduce as command
from scoring.metrics import pronouns
from scoring.reproduce import Measured, cells, figures, printed_tables, published
from scoring.reproduce.figures import Panel, chart, panels, swept_panels
from scoring.reproduce.measured import UnreachableError
from scoring.types import Report
from tests.scoring.made import data_set
from tests.scoring.test_report import made_neutral, made_occugender
from tests.scoring.test_reproduce import OPT, WORDS, made_data, made_source

FIGURES = [table for table in printed_tables() if table.panels]


def neutral_rows(seed, count=200):
    """Examples of neutral probes; two forms are more than one token, and some rows have no JSD."""
    draw = np.random.default_rng(seed)
    chances = {f"p_{form}": draw.random(count) / 30 for form in pronouns.FORMS}
    chances |= {name: np.full(count, np.nan) for name in ("p_hers", "p_she's")}
    jsd = np.where(draw.random(count) < 0.1, np.nan, draw.random(count) * np.log(2))
    return made_neutral(draw, count) | chances | {"jsd": jsd}


def run_of(folder, model, run, benchmark, table):
    """A folder of a run with these examples."""
    made = Report(model, "r", "", "float32", "plain", "paper", {}, (), {})
    report.write(folder / slug(model) / run, made, {benchmark: table}, {})


def figure(name):
    (found,) = printed_tables(name)
    return found


@pytest.fixture
def neutral(tmp_path):
    """Two runs of neutral probes, in the folder of runs."""
    for seed, model in enumerate(("org/one", "org/two")):
        table = neutral_rows(seed)
        for run in ("neutral", "neutral-complete"):
            run_of(tmp_path, model, run, "neutral", table)
    return Measured(tmp_path / "data", tmp_path, offline=True, resamples=20)


@pytest.mark.parametrize("table", FIGURES, ids=lambda table: table.id)
def test_every_figure_names_what_its_benchmark_and_runs_have(table):
    for entry in table.panels:
        assert entry["kind"] in ("dots", "curve", "points", "bars", "grid")
        assert entry["reason"]
        assert "run" not in entry or entry["run"] in table.runs
        if "benchmark" in entry and "metrics" in entry:
            known = {metric.name for metric in benchmarks.get(entry["benchmark"]).metrics("paper")}
            known |= {f"p_{form}" for form in ("she", "her", "hers", "herself", "she's", "he", "him", "his", "himself")}
            assert set(entry["metrics"].values()) <= known | {"p_he's"}


def test_a_figure_of_one_model_has_no_other_one(neutral):
    figures_of = [figure(f"predecessor/figure-{number}") for number in range(5, 11)]
    assert len({table.title for table in figures_of}) == 6
    with pytest.raises(UnreachableError, match="predecessor/figure-6 --model meta-llama/Llama-2-7b-chat-hf"):
        panels(figures_of[1], neutral)
    run_of(neutral.runs, "meta-llama/Llama-2-7b-hf", "neutral-complete", "neutral", neutral_rows(2))
    topics = panels(figures_of[0], neutral)
    assert [list(panel.series) for panel in topics] == [["meta-llama/Llama-2-7b-hf"]] * len(topics)
    assert {panel.lacks for panel in topics} == {""}
    # Of another model the picture has the name of that model, and says whose figure it is not.
    first, *others = panels(figures_of[0], neutral, "org/one")
    assert first.lacks == "Not here: meta-llama/Llama-2-7b-hf."
    assert not [panel for panel in others if panel.lacks]
    assert figures.title_of(figures_of[0], "org/one").endswith("topic, org/one")
    assert figures.title_of(figure("predecessor/figure-3"), "org/one") == figure("predecessor/figure-3").title


def test_all_models_are_in_one_figure_with_pooled_groups(neutral):
    gas, *_ = panels(figure("disclosure/figure-2"), neutral)
    assert set(gas.series["template-based"]) == {"org/one", "org/two"}
    table = neutral_rows(0)
    classes = table["gender_class"][np.isin(table["config"], ["stsb", "snli"])]
    expected = np.isin(classes, ["female", "male"]).sum() / (classes != "both").sum()
    value, low, high = gas.series["naturally-sourced"]["org/one"]
    assert value == pytest.approx(expected)
    assert low < value < high
    (one, *_) = panels(figure("disclosure/figure-2"), neutral, "org/two")
    assert set(one.series["template-based"]) == {"org/two"}


def test_jsd_of_each_word_is_that_of_its_template_prompt(tmp_path):
    table = neutral_rows(0)
    topics = np.array(["occupation", "color", "", "hobby"], dtype=object)[np.arange(len(table["id"])) % 4]
    table |= {"topic": topics, "id": np.array([f"templates-{t}-w{n}" for n, t in enumerate(topics)], dtype=object)}
    table["config"] = np.where(topics == "", "stsb", "templates").astype(object)
    run_of(tmp_path, "org/one", "neutral-complete", "neutral", table)
    drawn = panels(figure("predecessor/figure-7"), Measured(tmp_path, tmp_path, offline=True), "org/one")
    assert [panel.entry["topic"] for panel in drawn] == ["occupation", "color", "hobby"]
    for panel in drawn:
        has_jsd = (topics == panel.entry["topic"]) & np.isfinite(table["jsd"])
        points = panel.series["org/one"]
        assert list(points) == [f"w{n}" for n in np.flatnonzero(has_jsd)]
        assert [value for value, *_ in points.values()] == pytest.approx(list(table["jsd"][has_jsd]))
    assert b"<svg" in chart(drawn, "t")["svg"]


def test_six_cases_are_of_three_kinds_and_have_their_texts(neutral):
    cases = panels(figure("predecessor/figure-4"), neutral, "org/one")
    kinds = [panel.entry["title"].partition(", org/one")[0] for panel in cases]
    assert kinds == ["gendered text and probabilities"] * 2 + ["gendered probabilities alone"] * 2 + ["neither"] * 2
    table = neutral_rows(0)
    gaps = abs(table["female_mass"] - table["male_mass"]) / (table["female_mass"] + table["male_mass"])
    neutral_texts = (table["config"] == "stsb") & (table["gender_class"] == "neutral")
    lowest = np.flatnonzero(neutral_texts)[np.argmin(gaps[neutral_texts])]
    assert cases[4].series["org/one"]["she"][0] == pytest.approx(table["p_she"][lowest])
    assert f"JSD {table['jsd'][lowest]:.3f}" in cases[4].entry["title"]
    assert cases[0].lacks.endswith("two of each kind. Not here: meta-llama/Llama-2-70b-chat-hf.")
    assert {panel.lacks for panel in cases[1:]} == {""}
    assert chart(cases, "t")["png"].startswith(b"\x89PNG")


def test_a_figure_says_on_the_picture_which_models_it_lacks(neutral):
    (panel,) = panels(figure("predecessor/figure-2"), neutral)
    assert panel.lacks.startswith("Not here: meta-llama/Llama-2-7b-hf, ")
    assert "70b-chat-hf." in chart([panel], "t")["svg"].decode()
    run_of(neutral.runs, "meta-llama/Llama-2-7b-hf", "neutral-complete", "neutral", neutral_rows(2))
    (panel,) = panels(figure("predecessor/figure-2"), neutral)
    assert "Llama-2-7b-hf" not in panel.lacks


def test_no_title_of_a_figure_of_several_models_names_one():
    for table in FIGURES:
        models = table.panels[0].get("shows", table.panels[0].get("models", ()))
        if not isinstance(models, str) and len(models) > 1:
            assert not [model for model in models if model in table.title]


def test_points_of_one_share_are_all_drawn_and_lines_are_where_both_pronouns_are_alike():
    entry = {"kind": "points", "title": "t", "unit": "%", "axis": "she", "of": "shares", "differences": [0, 10]}
    points = {(40.0, "a"): (20.0, 0, 0), (40.0, "b"): (30.0, 0, 0)}
    axes = canvas(4, 3).subplots()
    figures._curve(axes, Panel(entry, {"set": points}))
    *lines, marks = axes.get_lines()
    assert [tuple(pair) for pair in marks.get_xydata()] == [(40, 20), (40, 30)]
    # Without a neutral sentence, 50 and 50, or 45 and 55 of a hundred.
    assert {np.interp(0, *line.get_xydata()[::-1].T[::-1]) for line in lines} == {45, 50, 55}


def test_a_dashed_series_has_the_colour_of_the_solid_one():
    entry = {"kind": "curve", "title": "t", "unit": "%", "axis": "ε", "of": "thresholds", "dashed": "-deduped"}
    points = {0.0: (0, np.nan, np.nan), 1.0: (1, np.nan, np.nan)}
    axes = canvas(4, 3).subplots()
    figures._curve(axes, Panel(entry, dict.fromkeys(("a", "a-deduped", "b", "b-deduped"), points)))
    a, a_deduped, b, b_deduped = [(line.get_color(), line.get_linestyle()) for line in axes.get_lines()]
    assert (a[0], b[0]) == (a_deduped[0], b_deduped[0])
    assert a[0] != b[0]
    assert (a[1], a_deduped[1], b[1], b_deduped[1]) == ("-", "--", "-", "--")


def test_groups_of_jobs_and_levels_are_apart(tmp_path):
    table = made_occugender(np.random.default_rng(1))
    groups = np.where(table["female_share"] > 50, "female", "male").astype(object)
    table |= {"group": groups, "level": np.full(len(groups), "", dtype=object)}
    run_of(tmp_path, "org/one", "occugender", "occugender", table)
    found = Measured(tmp_path, tmp_path, offline=True, resamples=20)
    for panel in panels(figure("occugender/by-group-of-jobs"), found):
        assert {label.partition(", ")[2] for label in panel.series} == {"P(female)", "P(male)"}


def test_published_responses_and_built_data_need_no_model(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    made_data(tmp_path / "data", WORDS)
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True, resamples=20)
    (preferred,) = panels(figure("unstereo/preference"), found)
    assert preferred.series["ours-5"][OPT][0] == pytest.approx(200 / 3)
    (kept,) = panels(figure("unstereo/figure-2"), found)
    assert (kept.series["winobias"][0.0][0], kept.series["winobias"][0.1][0]) == (0, 100)
    names = ("m-step0", "m-step1000", "m-step1000-intervened")
    source = runs.sources("unstereo")[OPT]
    monkeypatch.setattr(runs, "sources", lambda _: dict.fromkeys(names, source))
    monkeypatch.setattr(runs, "models", lambda _: names)
    tau, _ = panels(figure("unstereo/training-steps"), replace(found))
    assert list(tau.series["WinoBias"]) == [0.0, 1.0]


def test_the_distribution_of_delta_is_that_of_the_built_words(tmp_path):
    deltas = [-0.05, 0.05, 0.05, 2.0]
    data_set(tmp_path, "gender-pmi", {("words", "train"): [{"id": f"w{n}", "delta": d} for n, d in enumerate(deltas)]})
    (panel,) = panels(figure("unstereo/figure-5"), Measured(tmp_path, tmp_path, offline=True))
    (points,) = panel.series.values()
    assert list(panel.series) == ["words (n = 4)"]
    assert {round(x, 1): value for x, (value, *_) in points.items() if value} == {0.0: 25, 0.1: 50, 2.1: 25}


def test_figures_of_pmi_by_gendered_word_are_drawn_where_their_file_is(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    columns = {f"pmi__{word}": draw.normal(size=50) for word in ("she", "he")}
    columns |= {"pmi__her": columns["pmi__she"] * 2, "pmi__his": columns["pmi__he"] * 2}
    columns |= {f"pmi__{word}": draw.normal(size=50) for word in ("queen", "king")}
    columns["pmi__he"][0] = np.nan
    path = tmp_path / "mirror" / "example.org" / "pmi.csv"
    path.parent.mkdir(parents=True)
    pd.DataFrame({"word": ["nan", *(f"w{n}" for n in range(1, 50))], **columns}).to_csv(path)
    remote = Remote("https://example.org/pmi.csv", git_blob=git_blob(path))
    monkeypatch.setattr(published, "gendered_pmi", lambda: Source("made", "", "", (Alternative((remote,)),)))
    monkeypatch.setenv("PROBES_MIRROR", str(tmp_path / "mirror"))
    found = Measured(tmp_path, tmp_path, offline=True)
    one, both = panels(figure("unstereo/figure-4"), found)
    assert list(one.series) == ["she (n = 50)", "he (n = 49)"]
    assert all(sum(share for share, *_ in points.values()) == pytest.approx(100) for points in one.series.values())
    ((label, points),) = both.series.items()
    assert label == "% of 49 words"
    assert np.nansum([share for share, *_ in points.values()]) == pytest.approx(100)
    # The cell of a word: the first number of a place is its PMI with he, and the second that with she.
    half = (sorted({x for x, _ in points})[1] - sorted({x for x, _ in points})[0]) / 2
    (cell,) = [
        place
        for place in points
        if abs(place[0] - columns["pmi__he"][1]) <= half and abs(place[1] - columns["pmi__she"][1]) <= half
    ]
    assert points[cell][0] >= 100 / 49 - 1e-9
    (panel,) = panels(figure("unstereo/figure-6"), found)
    # Twice the same PMI orders words alike, and drawn PMI does not.
    (points,) = panel.series.values()
    assert points["she, he", "her, his"][0] == pytest.approx(1)
    assert abs(points["queen, king", "her, his"][0]) < 0.4
    assert points["queen, king", "her, his"] == points["her, his", "queen, king"]
    assert {column for column, _ in points} == {row for _, row in points} == {"she, he", "her, his", "queen, king"}
    assert not one.lacks + both.lacks + panel.lacks
    for drawn in ([one, both], [panel]):
        assert b"<svg" in chart(drawn, "t")["svg"]


def test_models_by_sentence_threshold_and_share_are_drawn_from_published_scores(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    made_data(tmp_path / "data", WORDS)
    monkeypatch.setattr(published, "printed_models", lambda: [OPT])
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True, resamples=20)
    entry = figure("unstereo/figure-7").panels[0] | {"models": [OPT]}
    # The first sentence is not natural; the differences of the others are 1/3, 2/3 and 1.
    ((_, curve),) = figures._thresholds(entry, found)
    assert [round(curve[x][0]) for x in (0.0, 0.5, 1.0)] == [0, 33, 100]
    (panel,) = panels(figure("unstereo/figure-8"), found)
    (((female, model), (neutral, *_)),) = panel.series["Ours-5"].items()
    assert model == OPT
    assert (female, neutral) == (pytest.approx(200 / 3), pytest.approx(100 / 3))
    sentences = {"sentences": {"first": "ours-5-paper-test-3"}, "models": "all"}
    counts = {label: points["first"][0] for label, points in figures._preferences(sentences, found)}
    assert counts == {"models that prefer neither": 0, "models that prefer male": 0, "models that prefer female": 1}


def test_settings_of_decoding_are_drawn_by_their_parameter(tmp_path, monkeypatch):
    measures = {
        "gas temperature-0.3": (0.4, 0.3, 0.5),
        "gas temperature-1": (0.6, 0.5, 0.7),
        "gas top-k-10": (0.1, 0, 1),
    }
    (tmp_path / "m" / "drawn-stsb").mkdir(parents=True)
    (tmp_path / "m" / "drawn-stsb" / "mitigation.json").touch()
    made = SimpleNamespace(measures=measures, base="org/one")
    monkeypatch.setattr(figures.facts, "read", lambda _: made)
    first, *_ = panels(figure("disclosure/figure-6"), Measured(tmp_path, tmp_path))
    assert first.series == {"org/one": {0.3: (0.4, 0.3, 0.5), 1.0: (0.6, 0.5, 0.7)}}
    assert first.lacks.startswith("Not here: meta-llama/Llama-2-7b-hf, ")
    # One curve has the name of its model, because the figure is of several.
    assert b"org/one" in chart([first], "t")["svg"]


def test_lines_of_many_series_differ_in_colour_or_dashes_and_have_no_bands():
    entry = {"kind": "curve", "title": "t", "unit": "%", "axis": "block", "of": "layer"}
    many = {f"s{n}": {0: (n, n - 1, n + 1), 1: (n, n - 1, n + 1)} for n in range(9)}
    axes = canvas(4, 3).subplots()
    figures._curve(axes, Panel(entry, many))
    styles = [(line.get_color(), line.get_linestyle()) for line in axes.get_lines()]
    assert len(set(styles)) == 9
    assert {type(part).__name__ for part in axes.collections} == {"LineCollection"}


def test_a_model_without_a_step_in_its_name_has_none():
    assert figures._thousands("org/m-step134000") == 134
    assert figures._thousands("org/m-step134000-intervened") == figures._thousands("org/m") == 0


@pytest.mark.parametrize("table", FIGURES, ids=lambda table: table.id)
def test_a_figure_without_anything_measured_says_what_it_needs(tmp_path, table, monkeypatch):
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROBES_MIRROR", raising=False)
    with pytest.raises(UnreachableError, match=r"^(needs |not possible: |There is no )"):
        panels(table, Measured(tmp_path / "data", tmp_path / "runs", offline=True))


SWEPT = {
    "model": "m",
    "effects": {"all": [[0, 0.1, None, None], [1, 0.3, None, None]]},
    "layer": {"LMS": [[0, 90.0, 85.0, 95.0], [1, 80.0, None, None]]},
    "units": {"LMS": [[64, 90.0, 85.0, 95.0], [1024, 80.0, 75.0, 85.0]]},
}


def test_a_sweep_is_drawn_by_block_and_by_units(tmp_path):
    (tmp_path / "m" / "sweep").mkdir(parents=True)
    figures.SWEEP.write(tmp_path / "m" / "sweep" / "sweep.json", SWEPT)
    effects, layer, units = panels(figure("fast/figure-7"), Measured(tmp_path, tmp_path))
    assert effects.series["all, m"][1][0] == 0.3
    assert layer.series["LMS, m"][0] == (90.0, 85.0, 95.0)
    text = chart([layer, units], "title")["svg"].decode()
    assert ">64<" in text
    assert ">1024<" in text
    assert [panel.entry["name"] for panel in swept_panels(SWEPT)] == ["figure-7"] * 3


def test_the_same_panels_give_the_same_bytes_and_names_are_plain_text():
    entry = {"kind": "dots", "title": "<b> $x$", "unit": "%", "ideal": 0}
    panel = Panel(entry, {f"series {n}": {"a & b": (1.0 * n, 0.0, 2.0 * n)} for n in range(9)})
    first, again = chart([panel], "t"), chart([panel], "t")
    assert first == again
    assert first["png"].startswith(b"\x89PNG")
    assert "&lt;b&gt; $x$" in first["svg"].decode()


def test_the_command_writes_the_files_and_puts_the_figure_into_the_page(neutral, tmp_path):
    arguments = ["disclosure/figure-3", "--runs", tmp_path, "--data", tmp_path / "none", "--offline", "--resamples", 20]
    done = CliRunner().invoke(command.app, [*map(str, arguments), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "disclosure-figure-3.png").is_file()
    page = (tmp_path / "out" / "reproduce.html").read_text()
    assert "STS-B" in (tmp_path / "out" / "disclosure-figure-3.svg").read_text()
    assert re.search(r'role="img" aria-label="GAS by subset[^>]*><svg', page)
    done = CliRunner().invoke(command.app, [*map(str, arguments)])
    assert "disclosure/figure-3: can be drawn; give --out DIR" in done.output


def test_examples_and_glue_give_their_cells(tmp_path):
    table = neutral_rows(0, 4)
    table["id"] = np.array(["stsb-paper-test-00274", "stsb-paper-test-00353", "other", "more"], dtype=object)
    run_of(tmp_path, "org/one", "neutral", "neutral", table)
    found = {
        (c.row, c.column): c
        for c in cells("disclosure/table-7", model="org/one", measured=Measured(tmp_path, tmp_path))
    }
    assert found["case 1, No", "F"].printed == 0.24
    assert found["case 1, No", "F"].measured == pytest.approx(table["female_mass"][0])
    assert found["case 2, No", "M"].measured == pytest.approx(table["male_mass"][1])
    assert found["case 1, Debias Tuning", "F"].verdict == "unreachable"
    assert "the paper does not name" in cells("disclosure/table-7", measured=Measured(tmp_path, tmp_path))[0].reason
    place = tmp_path / "bert-base-uncased" / "glue"
    place.mkdir(parents=True)
    scores = {"rte": {"mean": 64.62, "interval": [60.0, 70.0]}, "average": {"mean": 80.0, "interval": None}}
    (place / "glue.json").write_text(json.dumps({"before": scores, "after": None}))
    (place / "glue-cda.json").write_text(json.dumps({"before": {}, "after": {"rte": {"mean": 47.0, "interval": None}}}))
    found = {(c.row, c.column): c for c in cells("fast/table-9", measured=Measured(tmp_path, tmp_path))}
    assert (found["BERT", "RTE"].verdict, found["BERT", "Average"].verdict) == ("equal", "outside")
    assert found["CDA", "RTE"].measured == 47.0
    assert found["INLP", "RTE"].verdict == "unreachable"
