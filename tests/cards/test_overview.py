"""The first view of the leaderboard, measured in a browser: columns, sorting, filter, families, trends."""

import json
import math
import re
from itertools import pairwise

import pytest

from cards.leaderboard import entries_of, headline_columns, matrix_rows, page, task_tables
from cards.overview import SHOWN, overview, placed
from cards.overview.families import place
from cards.overview.model_matrix import Cell, Column, ModelRow
from cards.overview.trends import trends
from cards.results import NAMED_REVISION
from scoring.benchmarks import get, names
from scoring.uploads import DECLARATIONS
from tests.cards.made import DIGEST, RUN, declared, estimate, run
from tests.scoring.test_pages import browse

KEY = ("unstereo", "ours-5", "us_score")
SCORE = Column(KEY, "she and he equally likely", "unstereo")


def cell(value, reach=1.0, ideal=100.0, **more):
    return Cell(value, value - reach, value + reach, "us_score", ideal, 99, "", 0, 100, **more)


def row(name, value, **more):
    return ModelRow(name, "", "", {KEY: cell(value)}, **more)


def all_benchmarks(folder, **changes):
    """A run with the headline of every benchmark, and of each one a task more."""
    scores, data = [], {}
    for name in names():
        headline = get(name).headline
        if not headline:
            continue
        for group in dict.fromkeys([headline.shown or "first", "second"]):
            config = next((config for config, of in headline.groups.items() if of == group), group)
            data[f"{headline.dataset}/{config}/test"] = f"1.0.0 sha256:{DIGEST}"
            ideal = declared(name)[headline.metric].ideal
            key = name, headline.group(config), headline.metric
            scores.append(estimate(*key, 0.5, 0.4, 0.6, ideal=ideal, ability=name == "biaske"))
    return run(folder, estimates=tuple(scores), data=data, **changes)


IN_FRAME = """<!doctype html><body style="margin:0">
<iframe src="PAGE" style="width:WIDTHpx;height:720px;border:0"></iframe>
<script>
document.querySelector("iframe").onload = event => {
  const view = event.target.contentWindow, page = view.document;
  const seen = [...page.querySelectorAll(".overview thead th")].filter(head => head.offsetWidth);
  const found = {width: page.documentElement.scrollWidth, right: seen.map(head => head.getBoundingClientRect().right),
    scroll: page.querySelector(".overview .scroll").scrollWidth - page.querySelector(".overview .scroll").clientWidth};
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
};
</script></body>"""


def measured(folder, text, width):
    (folder / "page.html").write_text(text)
    outer = folder / "outer.html"
    outer.write_text(IN_FRAME.replace("PAGE", (folder / "page.html").as_uri()).replace("WIDTH", str(width)))
    dom, console = browse(folder, outer.as_uri(), "--window-size=1400,900")
    assert console == []
    return json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1])


@pytest.mark.system
@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_view_has_at_most_nine_scores_and_all_are_seen(tmp_path, width):
    places = [all_benchmarks(tmp_path / name, model=name) for name in ("EleutherAI/pythia-6.9b-deduped", "b")]
    found = measured(
        tmp_path, page(task_tables(entry for path in places for entry in entries_of(path, DECLARATIONS))), width
    )
    assert found["width"] <= width
    assert max(found["right"]) <= width, "the last column ends inside the page"
    assert found["scroll"] <= 0
    # On a phone: the model, its language ability and one score.
    assert len(found["right"]) == (1 + SHOWN if width == 1280 else 3)


def test_a_column_is_the_headline_of_a_benchmark_in_words(tmp_path):
    columns = headline_columns(entries_of(all_benchmarks(tmp_path / "a"), DECLARATIONS))
    with_headline = [name for name in names() if get(name).headline]
    assert sorted(column.note.split()[0].rstrip(",") for column in columns) == sorted(with_headline)
    assert {column.title for column in columns} == {get(name).headline.column for name in with_headline}


def test_a_run_of_an_earlier_version_has_the_title_of_this_one(tmp_path, monkeypatch):
    # That version wrote no summary.
    monkeypatch.setattr("scoring.report.summary.summary_of", lambda _: {})
    headlines = {"neutral": {"dataset": "gender-neutral-probes", "metric": "gas"}}
    score = estimate(title="Gender score")
    (column,) = headline_columns(entries_of(run(tmp_path, estimates=(score,), headlines=headlines), DECLARATIONS))
    assert (column.title, column.note) == (get("neutral").headline.column, "neutral stsb, ideal 0")


def test_revisions_of_a_model_are_rows_of_their_own_and_adapters_are_below_theirs(tmp_path):
    steps = [
        run(tmp_path / str(step), model="org/m", revision=str(step) * 40, environment={NAMED_REVISION: f"step{step}"})
        for step in (1, 2)
    ]
    tuned = run(
        tmp_path / "tuned", model="org/m", adapter="fair", revision="2" * 40, environment={NAMED_REVISION: "step2"}
    )
    rows = matrix_rows(entry for path in (*steps, tuned) for entry in entries_of(path, DECLARATIONS))
    assert [(one.model, one.setting, one.step) for one in rows] == [
        ("org/m", "", 1.0),
        ("org/m", "", 2.0),
        ("org/m", "adapter fair", 2.0),
    ]
    html = overview(rows, [SCORE])
    assert html.index("step 1<") < html.index("step 2<") < html.index("adapter fair")
    assert html.count('class="below"') == 1


def browsed(folder, rows, script="", columns=(SCORE,)):
    """The names of the rows that are seen, in their order, after a script."""
    (folder / "page.html").write_text(
        f"<!doctype html><body>{overview(rows, columns)}<script>{script}"
        'document.body.dataset.seen = [...document.querySelectorAll(".overview tbody tr")]'
        '.filter(row => row.offsetHeight).map(row => row.querySelector("th").firstChild.textContent).join("|");'
        "</script></body>"
    )
    dom, console = browse(folder, (folder / "page.html").as_uri())
    assert console == []
    return re.search(r'data-seen="(.*?)"', dom)[1].split("|")


SORT = "document.querySelectorAll('.overview thead button')[2].click();"
FLAT = "document.querySelector('[name=families]').click();"
FIND = "const s = document.querySelector('[name=search]'); s.value = '{}'; s.dispatchEvent(new Event('input'));"


@pytest.fixture
def four():
    unranked = row("z-random", 99.0, restriction="answers at chance")
    return [*(placed(row(name, value)) for name, value in (("m-7B", 30), ("m-70M", 80), ("alone", 50))), unranked]


@pytest.mark.system
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", ["alone", "m", "m-70M", "m-7B", "z-random"]),
        (SORT, ["m", "m-70M", "m-7B", "alone", "z-random"]),
        (SORT + SORT, ["m", "m-7B", "m-70M", "alone", "z-random"]),
        (FLAT + SORT, ["m-70M", "alone", "m-7B", "z-random"]),
        (FLAT + SORT + SORT, ["m-7B", "alone", "m-70M", "z-random"]),
        (FIND.format("70m"), ["m", "m-70M"]),
        (FIND.format("ALONE"), ["alone"]),
        ("document.querySelector('.family button').click();", ["alone", "m", "z-random"]),
    ],
    ids=["first", "sorted", "reversed", "flat", "flat reversed", "found", "found alone", "folded"],
)
def test_models_are_sorted_found_and_grouped_in_the_browser(four, tmp_path, script, expected):
    assert browsed(tmp_path, four, script) == expected


@pytest.mark.system
def test_further_columns_are_shown_on_demand(tmp_path):
    keys = [("d", f"t{number}", "ss") for number in range(SHOWN + 1)]
    columns = [Column(key, f"score {key[1]}") for key in keys]
    rows = [ModelRow("a", "", "", {key: cell(50) for key in keys})]
    html = f"<!doctype html><body>{overview(rows, columns)}"
    count = "document.body.dataset.seen = [...document.querySelectorAll('td')].filter(one => one.offsetWidth).length;"
    click = "document.querySelectorAll('[name=column]')[9].click();"
    for script, seen in (("", SHOWN), (click, SHOWN + 1), (click + click, SHOWN)):
        (tmp_path / "page.html").write_text(f"{html}<script>{script}{count}</script></body>")
        dom, _ = browse(tmp_path, (tmp_path / "page.html").as_uri(), "--window-size=1400,900")
        assert re.search(r'data-seen="(\d+)"', dom)[1] == str(seen)


@pytest.mark.parametrize(
    ("name", "revision", "expected"),
    [
        ("EleutherAI/pythia-6.9b-deduped", "step1000", ("EleutherAI/pythia-deduped", 6.9e9, 1000)),
        ("facebook/opt-125m", "main", ("facebook/opt", 125e6, None)),
        ("Pythia 6.9B (D), step 10,000", "", ("Pythia (D)", 6.9e9, 10_000)),
        ("Qwen/Qwen2.5-0.5B-Instruct", "", ("Qwen/Qwen2.5-Instruct", 0.5e9, None)),
        ("/data/runs/mine/checkpoint-500", "", ("mine", None, 500)),
        ("mistralai/Mixtral-8x7B-v0.1", "", ("mistralai/Mixtral-8x7B-v0.1", None, None)),
        ("microsoft/Phi-3-mini-4k-instruct", "", ("microsoft/Phi-3-mini-4k-instruct", None, None)),
        ("tiny-causal", "0a1b" * 10, ("tiny-causal", None, None)),
        ("70B", "", ("70B", 70e9, None)),
    ],
)
def test_family_size_and_step_are_read_from_names(name, revision, expected):
    found = place(name, revision)
    numbers = [None if math.isnan(number) else number for number in (found.parameters, found.step)]
    assert (found.family, *numbers) == expected


def test_a_change_is_solid_only_where_the_scores_can_be_told_apart():
    rows = [placed(row(f"m-step{step}", value)) for step, value in ((0, 20), (10, 40), (1000, 40.2), (2000, 39.9))]
    (figure,) = trends(rows, [SCORE])
    (line,) = figure.panels[0].lines
    assert [point.apart for point in line.points] == [False, True, False, False]
    html = overview(rows, [SCORE])
    assert (html.count('class="apart"'), html.count('class="alike"')) == (1, 2)
    heights = [point.y for point in line.points]
    assert heights[1] < heights[0], "a higher value is higher in the picture"
    assert [point.x for point in line.points] == sorted({point.x for point in line.points})


def test_equal_scores_are_never_told_apart_and_one_model_has_no_trend():
    rows = [placed(row(f"m-{size}", 50)) for size in ("1B", "2B", "70B")]
    (figure,) = trends(rows, [SCORE])
    assert figure.axis == "number of parameters"
    assert not any(point.apart for point in figure.panels[0].lines[0].points)
    assert trends(rows[:1], [SCORE]) == []
    assert trends([placed(row("a", 1)), placed(row("b", 2))], [SCORE]) == []
    assert "<section" not in overview(rows[:1], [SCORE])


def test_families_beyond_three_are_in_figures_of_their_own():
    rows = [placed(row(f"{family}-{size}", 50)) for family in "abcd" for size in ("1B", "2B")]
    assert [figure.families for figure in trends(rows, [SCORE])] == [["a", "b", "c"], ["d"]]


def test_language_ability_has_a_column_that_says_what_was_measured(tmp_path):
    scores = (estimate(), estimate("stereoset", "all", "lms", 80, 75, 85, ideal=100.0, most=100, ability=True))
    data = {**RUN.data, "biaske/stereoset/test": f"1.0.0 sha256:{DIGEST}"}
    rows = matrix_rows(entries_of(run(tmp_path, estimates=scores, data=data), DECLARATIONS))
    assert rows[0].ability.value == 80
    assert f"{declared('stereoset')['lms'].names[1]} of stereoset" in overview(rows, [SCORE])
    assert matrix_rows(entries_of(run(tmp_path / "b", estimates=scores[:1]), DECLARATIONS))[0].ability is None


@pytest.mark.fault(50)
def test_a_hostile_name_is_text():
    hostile = "<script>alert(1)</script>"
    named = ModelRow(hostile, "", "", {KEY: cell(50)}, family=hostile, restriction=hostile)
    other = ModelRow("b", "", "", {KEY: cell(50)}, family=hostile)
    assert hostile not in overview([named, other], [Column(KEY, hostile, hostile)])


@pytest.mark.parametrize(
    ("steps", "first", "last"),
    [((1, 2, 4, 8, 16, 32), 40, 200), ((0, 100_000, 125_000, 134_000, 140_000, 143_000), 220, 300)],
    ids=["doubled", "at the end"],
)
def test_the_axis_has_the_scale_on_which_neighbours_are_furthest_apart(steps, first, last):
    (figure,) = trends([placed(row(f"m-step{step}", 50 + n)) for n, step in enumerate(steps)], [SCORE])
    points = figure.panels[0].lines[0].points
    assert first < points[1].x < last
    assert min(after.x - before.x for before, after in pairwise(points)) > 5


def test_an_axis_of_sizes_is_logarithmic():
    rows = [placed(row(f"m-{size}", 50)) for size in ("70M", "700M", "6.9B", "7B")]
    (figure,) = trends(rows, [SCORE])
    first, second, third, last = (point.x for point in figure.panels[0].lines[0].points)
    assert abs((second - first) - (third - second)) < 2, "ten times as many parameters are one distance"
    assert third <= last


def test_a_step_is_said_once_and_the_0_of_a_size_is_none():
    rows = [placed(row("pythia-70m", 50), "step0"), placed(row("pythia-70m-step10", 51))]
    html = overview(rows, [SCORE])
    assert "<small>step 0</small>" in html
    assert "<small>step 10</small>" not in html
