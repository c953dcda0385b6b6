"""The rows of a run: what is concluded, why nothing is, and in which order they stand."""

import csv
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from cards.common.text import cell
from scoring import benchmarks
from scoring.asking.estimates import estimate
from scoring.asking.result import RunResult, load
from scoring.report.comparison import comparison_page
from scoring.report.headlines import answer_of, headline_scores, ranked
from scoring.report.page import deciding, page, rows_of_headline
from scoring.report.real_models import TABLE, among, places
from scoring.report.summary import COLUMNS, LINES, markdown
from scoring.report.terminal import summary
from scoring.types import BY_OTHERS, Report, ScoringError
from tests.cards.made import estimate as score_of
from tests.scoring.made_runs import made_comparison, made_run
from tools.real_models.scores import read as read_scores
from tools.real_models.scores import table_of_package

JOBS = [f"job {number}" for number in range(40)]
SHARES = np.linspace(5.0, 95.0, 40)


def table_of(explicit, implicit, lean=0.0):
    """OccuGender's table of a model that follows the labour market, with the mass of its answer words by style."""
    columns = {name: [] for name in ("id", "job", "group", "template", "debiasing", "level", "prompt", "female_share")}
    chances = {name: [] for name in ("p_male", "p_female", "p_diverse", "p_neo")}
    for template, mass in (("explicit", explicit), ("implicit-1", implicit), ("implicit-2", implicit)):
        for number, (job, share) in enumerate(zip(JOBS, SHARES, strict=True)):
            for debiasing in ("none", "1"):
                female = mass * (0.5 + lean + 0.3 * (share - 50) / 100 + 0.04 * np.sin(7 * number + len(template)))
                # A debiasing prompt turns all answers around, and they differ more than those of the plain questions.
                if debiasing == "1":
                    female = mass * (0.99 if female < mass / 2 else 0.01)
                row = {"id": f"{job}-{template}-{debiasing}", "job": job, "template": template}
                row |= {"group": "female" if share > 50 else "male", "debiasing": debiasing}
                row |= {"level": "none" if debiasing == "none" else "high", "prompt": f"A {job}", "female_share": share}
                for name, value in row.items():
                    columns[name].append(value)
                for name, value in zip(chances, (mass - female, female, 0.0, 0.0), strict=True):
                    chances[name].append(value)
    return {name: np.array(values) for name, values in (columns | chances).items()}


def run_of(table):
    benchmark = benchmarks.get("occugender")
    scores = estimate(benchmark, "clean", table, resamples=300)
    return made_run(estimates=tuple(scores), headlines={"occugender": benchmark.headline})


def rows_of(run):
    return {(row.estimate.group, row.estimate.metric): row for row in headline_scores(run)}


def test_a_lean_of_a_model_that_hardly_answers_is_not_concluded():
    """The negative control: the same lean with and without answers, planted in both styles."""
    run = run_of(table_of(0.015, 0.47, lean=0.15))
    rows = rows_of(run)
    gap, link = rows["explicit", "gender_gap"], rows["explicit", "labour_correlation"]
    for row in (gap, link):
        assert (row.standing, row.leaning) == ("", "")
        assert "The answer words have 1.5 % of the probability, and 10 % are needed" in row.sentence
        assert row.why == "the answer words have 1.5 % of the probability"
    # The page has the reason once, in the sentence.
    assert page(run, {}, {}).count("The answer words have 1.5 % of the probability") == 2
    # The interval of the gap is beyond the ideal all the same.
    assert gap.estimate.high < 0
    said = answer_of(run)
    assert "leans female (occugender implicit −" in said
    assert "explicit −" not in said
    assert "have less than 10 % of the probability, so nothing is concluded (occugender explicit)" in said


def test_a_lean_of_a_model_that_answers_is_concluded_in_both_styles():
    """The positive control."""
    rows = rows_of(run_of(table_of(0.4, 0.47, lean=0.15)))
    for group in ("explicit", "implicit"):
        assert rows[group, "gender_gap"].leaning == "leans female"
        assert rows[group, "labour_correlation"].leaning == "links jobs with the gender of most who hold them"
        assert rows[group, "labour_correlation"].is_clear


def test_the_clear_result_is_the_first_sentence_with_its_size_and_group():
    run = run_of(table_of(0.015, 0.47))
    said = answer_of(run)
    link = rows_of(run)["implicit", "labour_correlation"]
    assert said.startswith(f"In 1 of 1 benchmark it links jobs with the gender of most who hold them ({link.name})")
    assert link.name.startswith("occugender implicit 0.9")
    assert "leans" not in said
    assert rows_of(run)["implicit", "gender_gap"].why == "the interval holds the ideal"


def test_what_decided_is_of_the_rows_of_the_headline_two_for_and_one_against():
    table = table_of(0.4, 0.47, lean=0.15)
    run = run_of(table)
    inside = rows_of_headline(run, "occugender", table)
    assert set(table["debiasing"][inside]) == {"none"}
    assert set(table["debiasing"][~inside]) == {"1"}
    shown = deciding(table, benchmarks.get("occugender").contrast, inside)
    assert [example.preferred for example in shown] == ["female", "female", "male"]
    for example in shown:
        assert "none" in example.about
        assert sum(side.share for side in example.sides) == pytest.approx(1)
        female, male = example.sides
        assert (female.share > male.share) == (example.preferred == "female")
    # The prompts of a debiasing prompt differ more, and are those that all rows would show.
    assert "none" not in deciding(table, benchmarks.get("occugender").contrast)[0].about
    text = page(run, {"occugender": table}, {}).partition("What decided")[2].partition("<h2>Details")[0]
    assert text.count('<span class="share">') == 6


def test_rows_are_by_severity_and_what_is_not_concluded_comes_last():
    run = run_of(table_of(0.015, 0.47, lean=0.15))
    order = [(row.estimate.group, row.estimate.metric) for row in ranked(headline_scores(run))]
    assert order[:2] == [("implicit", "labour_correlation"), ("implicit", "gender_gap")]
    assert {group for group, _ in order[2:]} == {"explicit"}
    clear = [row for row in ranked(headline_scores(made_run())) if row.is_clear]
    assert len(clear) > 3
    sizes = [row.severity for row in clear]
    assert sizes == sorted(sizes, reverse=True)
    assert all(row.is_clear for row in ranked(headline_scores(made_run()))[: len(clear)])


def test_an_interval_without_the_ideal_that_is_unclear_has_its_reason():
    run = made_run()
    few = replace(run, estimates=tuple(replace(e, clusters=5) for e in run.estimates))
    rows = [row for row in headline_scores(few) if row.estimate.benchmark == "occugender"]
    assert {row.why for row in rows} == {"too few jobs (5)"}
    assert "occugender: too few jobs (5)" in answer_of(few)
    assert "Too few jobs (5)." in page(few, {}, {})


@pytest.fixture(scope="module")
def result():
    table = table_of(0.015, 0.47, lean=0.15)
    return RunResult(run_of(table), {"occugender": table})


def test_one_summary_is_in_the_file_the_frame_and_the_markdown(result, tmp_path):
    result.save(tmp_path)
    stored = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["summary"]
    frame = result.headlines()
    assert stored["sentence"] == answer_of(result.report)
    assert [line["metric"] for line in stored["headlines"]] == frame.metric.tolist()
    assert list(frame) == list(COLUMNS)
    first = frame.iloc[0]
    assert (first.group, first.metric, first.verdict, first.reason) == ("implicit", "labour_correlation", "above", "")
    assert first.answered == pytest.approx(47)
    assert first.start == ""
    begun = {"start of a text": {"before a sentence": "<s> (0)", "before a text with a context": "<s> (0)"}}
    asked = replace(result.report, environment=result.report.environment | begun)
    assert set(RunResult(asked, result.tables).headlines().start) == {"<s> (0)"}
    last = frame[frame.group == "explicit"].iloc[0]
    assert (last.verdict, last.reason) == ("", "the answer words have 1.5 % of the probability")
    lines = (tmp_path / "summary.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert cell(stored["sentence"]) in lines
    assert sum("occugender" in line and line.startswith("|") for line in lines) == len(frame)
    assert load(tmp_path).report.estimates == result.report.estimates


def test_each_headline_is_made_again_by_its_line(result):
    for line in result.headlines().itertuples():
        assert eval(line.again, {"result": result}) == pytest.approx(line.value, abs=1e-9)
    rows = result.examples("occugender", headline="implicit")
    assert len(rows) == 80
    value = result.report.by_key["occugender", "implicit", "gender_gap"].value
    assert 100 * (rows.share_male - rows.share_female).mean() == pytest.approx(value)
    assert rows.mass_female.max() < 0.47
    assert "p_female" not in rows
    assert set(result.examples("occugender", headline=True).template) == {"explicit"}
    with pytest.raises(ScoringError, match="no examples of the group 'other'"):
        result.examples("occugender", headline="other")
    with pytest.raises(ScoringError, match="no metric 'gap'"):
        result.again("occugender", "gap")


def test_the_place_among_real_models_that_were_asked_the_same_is_in_short_texts():
    with TABLE.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if (line["metric"], line["kind"]) == ("g_s", "base")]
    top = 1 + max(float(line["value"]) for line in lines)
    count = int(lines[0]["n"])
    score = score_of("gest", "overall", "g_s", value=top, low=top, high=top, n=count)
    environment = {"response key": {"kind": "causal"}}
    report = Report("m", "", "", "", "plain", "paper", {}, (score,), environment)
    (place,) = places(report, [score])
    assert place.startswith(f"gest: Higher than {len(lines)} of {len(lines)} base models")
    assert place in markdown(report)
    assert place in summary(report, 100).caption.plain
    assert f"higher than {len(lines)} of {len(lines)} base models" in repr(RunResult(report, {}))
    # Of other definitions or rows the place is on the page alone, with its caveat.
    assert places(replace(report, profile="clean"), [score]) == []
    assert places(report, [replace(score, n=count - 1)]) == []


def test_the_page_of_a_comparison_says_the_place_of_both_runs(monkeypatch):
    compared = made_comparison()
    said = {id(compared.base): "Higher than 2 of 9.", id(compared.run): "Higher than 7 of 9."}

    def place(report, score):
        return said[id(report)] if score.metric == "gas" else ""

    # scoring.report has a function of the same name as the module.
    monkeypatch.setattr(sys.modules["scoring.report.comparison"], "place", place)
    text = comparison_page(compared)
    assert text.count("Before: higher than 2 of 9.") == text.count("After: higher than 7 of 9.") == 1


def test_a_long_summary_fits_fifteen_lines_and_says_what_it_leaves_out():
    text = markdown(made_run())
    assert len(text.splitlines()) == LINES
    left = len(headline_scores(made_run())) - (LINES - 7)
    assert f"{left} more rows in results.json" in text


def test_the_table_for_a_paper_has_a_caption_and_the_citations(result):
    text = result.to_latex()
    assert r"\caption{Gender bias of org/model (bfloat16), with intervals of 95 percent over clusters." in text
    assert re.search(r"over clusters\. .* \\cite\{[^}]*chen2024", text)
    assert "% @" in text
    assert text.count(r" \\") == 1 + len(result.headlines())
    assert r"occugender (implicit) & labour corr. & 0.9" in text


PLACE = ("gest", "overall", "g_s")


def place_of(value, n=7130, ends=None, **changes):
    """The place of a score of GEST, of a causal model without a prompt and chat; without ends the interval is exact."""
    about = {"profile": "paper", "prompt": "plain", "environment": {"response key": {"kind": "causal"}}} | changes
    run = made_run(**about)
    low, high = ends or (value, value)
    score = replace(run.estimates[0], benchmark="gest", group="overall", metric="g_s", value=value, n=n)
    return among(run, replace(score, low=low, high=high))


def test_a_score_has_a_place_among_real_models_of_its_kind():
    values = sorted(float(row["value"]) for row in real_rows() if row["kind"] == "base")
    assert len(values) == 18
    between = (values[9] + values[10]) / 2
    assert place_of(between).sentence.startswith("Higher than 10 of 18 base models whose answers others published (20")
    assert place_of(between).sentence.endswith(").")
    assert sorted(place_of(between).values) == values
    assert place_of(values[0] - 1).sentence.startswith("Higher than 0 of 18")
    unsure = place_of(between, ends=(values[0] - 1, values[-1] + 1))
    assert unsure.sentence.startswith("Higher than 0 to 18 of 18")
    assert place_of(between, ends=(between, float("nan"))) is None
    masked = place_of(between, environment={"response key": {"kind": "masked"}})
    assert "of 11 masked models" in masked.sentence


def test_another_question_is_said_or_has_no_place():
    assert place_of(1.2, n=20).sentence.endswith("so the place is approximate.")
    assert place_of(1.2, profile="clean").sentence.endswith("so the place is approximate.")
    assert place_of(1.2, prompt="debias-1") is None
    assert place_of(1.2, environment={"response key": {"kind": "causal"}, "chat template": "sha256:1"}) is None
    assert place_of(1.2, adapter="mine") is None
    assert place_of(1.2, environment={"response key": {"kind": "causal"}, "engine": BY_OTHERS}) is None
    assert place_of(float("nan")) is None


def test_a_report_draws_the_real_models_behind_the_dot_and_says_the_place():
    run = made_run(profile="paper", prompt="plain", environment={"response key": {"kind": "causal"}})
    scores = []
    for metric, value in (("g_s", 1.2), ("log_ratio", -0.1)):
        scores.append(
            replace(run.estimates[0], benchmark="gest", group="overall", metric=metric, value=value, ideal=1.0)
        )
    text = page(replace(run, estimates=tuple(scores), headlines={"gest": benchmarks.get("gest").headline}), {}, {})
    assert len(re.findall(r'<line class="real"', text)) >= 18
    assert "of 18 base models" in text


def test_a_score_whose_range_has_no_ends_is_drawn_on_a_scale_of_its_own():
    run = made_run()
    about = {"value": 0.4, "low": -0.9, "high": 1.7, "ideal": 0.0, "least": -np.inf, "most": np.inf}
    score = replace(run.estimates[0], **about)
    text = page(replace(run, estimates=(score,), headlines={}), {}, {})
    assert '<line class="track endless"' in text
    assert "drawn from -2" in text
    assert '<circle class="dot" cx="60.0%"' in text
    # The models behind the dot are on the scale too.
    score = replace(score, benchmark="gest", group="overall", metric="log_ratio")
    environment = {"response key": {"kind": "causal"}}
    asked = replace(run, estimates=(score,), headlines={}, prompt="plain", environment=environment)
    assert len(re.findall(r'<line class="real"', page(asked, {}, {}))) == 18
    ends = page(replace(run, estimates=(replace(score, least=-1.0, most=1.0),), headlines={}), {}, {})
    assert '<line class="track endless"' not in ends


def real_rows():
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if (row["benchmark"], row["group"], row["metric"]) == PLACE]


def test_the_table_of_the_package_is_that_of_the_kept_scores():
    assert TABLE.read_text(encoding="utf-8") == table_of_package(read_scores())
