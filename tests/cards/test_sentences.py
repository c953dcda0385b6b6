"""Every sentence of scores is in one file with its rule: in drawn tables it appears where the rule holds alone."""

import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from cards import leaderboard
from cards.common.sentences import SENTENCES, appears, say
from cards.common.verdict import standings
from cards.leaderboard import Entry
from scoring import benchmarks
from scoring.report import terminal
from scoring.report.comparison import comparison_page
from scoring.report.headlines import headline_changes, headline_scores
from scoring.report.page import page
from tests.cards.drawn import CASES, STEPS, drawn, printed
from tests.scoring.made_runs import made_comparison, made_run

NAMES = ("neutral", "occugender", "unstereo", "stereoset", "crows_pairs", "pronouns")


def drawn_run(seed):
    """A run whose scores are drawn: near the ideal value or far, with narrow or wide intervals, or undefined."""
    stream = np.random.default_rng(seed)
    estimates = []
    for score in made_run().estimates:
        if score.benchmark not in NAMES:
            continue
        least, most = max(score.least, -100), min(score.most, 100)
        center = score.ideal if score.ideal is not None and stream.random() < 0.5 else stream.uniform(least, most)
        value = float(np.clip(center + stream.normal(0, 0.02) * (most - least), least, most))
        reach = stream.choice([0.01, 0.3]) * (most - least)
        numbers = {"value": value, "low": max(least, value - reach), "high": min(most, value + reach)}
        if stream.random() < 0.05:
            numbers = dict.fromkeys(numbers, math.nan) | {"why": "no rows"}
        estimates.append(replace(score, **numbers, detectable=float(stream.choice([math.nan, reach]))))
    return made_run(estimates=tuple(estimates))


@pytest.mark.parametrize("seed", range(12))
def test_a_sentence_of_a_report_appears_exactly_where_its_rule_holds(seed):
    run = drawn_run(seed)
    rows = headline_scores(run)
    scores = [row.estimate for row in rows]
    # Of a benchmark at whose task the model is at chance, and of a group without answers, nothing is said.
    silent = set(run.low_mass)
    spoken = [e for e in scores if e.benchmark not in run.at_chance and (e.benchmark, e.group) not in silent]
    second = {row.estimate.key for row in rows if row.second}
    told = standings([(e.numbers, e.ideal, e.p, e.clusters) for e in spoken], [e.key not in second for e in spoken])
    by_key = {e.key: word for e, word in zip(spoken, told, strict=True)}
    words = [by_key.get(e.key, "") for e in scores]
    text = printed(terminal.summary(run, 400))
    for score, word in zip(scores, words, strict=True):
        headline = run.headlines[score.benchmark]
        key = f"row.{score.benchmark}.{score.metric}"
        # The number, the interval, the standing and the sentence of a row are about one metric.
        (row,) = [row for row in rows if row.estimate.key == score.key]
        assert row.standing == word
        if (score.benchmark, score.group) in silent and score.benchmark not in run.at_chance:
            assert appears("row.mass", row.sentence)
            assert appears("why.mass", row.why)
        elif math.isnan(score.value):
            assert appears("row.undefined", row.sentence)
        elif headline.unclear and score.metric == headline.metric:
            assert ("with a correlation of" in row.sentence) == (word in ("above", "below"))
            assert ("The correlation of" in row.sentence) == (word not in ("above", "below"))
        else:
            others = [e for e in run.estimates if e.benchmark == score.benchmark and e.group == score.group]
            if all(math.isfinite(e.value) for e in others):
                assert key in SENTENCES
                assert not appears("row.ideal", row.sentence)
        assert row.sentence in text
        # An unclear row has its reason, and so has one without a conclusion.
        assert bool(row.why) == (
            word == "unclear" or (not word and (score.ideal is not None or math.isnan(score.value)))
        )
        if word == "unclear" and not score.low <= score.ideal <= score.high:
            assert appears("why.tests", row.why)
    shown = {row.estimate.benchmark for row in rows if row.leaning and row.is_clear}
    chance = {row.estimate.benchmark for row in rows if row.leaning == say("lean.chance")}
    groups = {(e.benchmark, e.group) for e in scores}
    unanswered = {name for name, group in silent if (name, group) in groups} - run.at_chance
    unclear = {row.estimate.benchmark for row in rows if row.leaning == say("lean.unclear")} - shown - unanswered
    assert chance <= run.at_chance
    assert not chance & (shown | unclear)
    none = set(NAMES) - shown - unclear - chance - unanswered
    says_any = bool(shown or unclear or chance or unanswered)
    assert appears("lean.shown", text) == bool(shown or chance)
    assert ("it answers at chance" in text) == bool(chance)
    assert appears("lean.mass", text) == bool(unanswered)
    assert appears("lean.open", text) == bool(unclear)
    assert appears("lean.none", text) == (bool(none) and says_any)
    for row in rows:
        if row.leaning and row.is_clear:
            assert row.leaning in text
            # What a model does is said with its size.
            assert row.name in text
    effects = [e for e, word in zip(scores, words, strict=True) if word and math.isfinite(e.detectable)]
    html = page(run, {}, {})
    assert appears("power.score", html) == bool(effects)
    assert "would have seen" not in html + text
    assert "cannot be told" not in html + text


def test_a_model_that_follows_chance_has_no_side_and_one_that_leans_has_one():
    rows = {row.estimate.key: row for row in headline_scores(made_run(0.3))}
    assert rows["occugender", "explicit", "gender_gap"].leaning == "leans female"
    middle = {row.estimate.key: row for row in headline_scores(made_run(0.5))}
    assert middle["occugender", "explicit", "gender_gap"].leaning == say("lean.unclear")
    assert "The correlation of" in middle["occugender", "explicit", "labour_correlation"].sentence


@pytest.mark.parametrize(
    ("before", "after", "p"), [(0.3, 0.45, 1e-9), (0.45, 0.3, 1e-9), (0.3, 0.31, 0.9), (0.3, 0.3, 1)]
)
def test_a_sentence_of_a_comparison_appears_exactly_where_its_rule_holds(before, after, p):
    made = made_comparison(before, after)
    compared = replace(made, differences=tuple(replace(d, p=p) for d in made.differences))
    changes = headline_changes(compared)
    # Whether a run leans by a metric, and whether that metric changed, are said of one metric.
    wanted = {row.estimate.key for row in headline_scores(compared.run)}
    assert wanted <= {change.difference.key for change in changes}
    text = printed(*terminal.comparison(compared))
    html = comparison_page(compared)
    verdicts = {change.verdict for change in changes if not change.difference.ability}
    for verdict in ("nearer", "further", "changed", "unclear"):
        conclusion = text[text.index("Of ") :]
        assert (say(f"verdict.{verdict}") in conclusion.partition(" Language ability")[0]) == (verdict in verdicts)
    assert appears("compare.ability", text) == any(change.difference.ability for change in changes)
    assert appears("compare.identical", text) == all(c.difference.method == "identical" for c in changes)
    assert appears("power.note.change", html)


def test_every_sentence_of_a_benchmark_is_in_the_file_and_every_entry_has_a_rule():
    texts = {sentence.text for sentence in SENTENCES.values()}
    for name in benchmarks.names():
        headline = benchmarks.get(name).headline
        if headline:
            assert {headline.sentence, headline.unclear, headline.side} - {""} <= texts, name
    assert len(SENTENCES) >= 40
    for name, sentence in SENTENCES.items():
        assert sentence.rule.strip(), name
        longest = max(len(part.split()) for part in sentence.text.replace(";", ".").split(". "))
        assert longest <= 32, name


def test_the_file_has_the_words_of_the_field():
    every = " ".join(sentence.text for sentence in SENTENCES.values())
    assert "minimum detectable effect" in every
    assert "power 80 %" in every
    for other in ("would have seen", "sees", "cannot be told"):
        assert other not in every


LAST = ("next.other", "next.real", "next.base", "next.mitigate", "next.beside")


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("limit", ["", ", 20 of 40 rows"])
def test_a_run_is_offered_the_step_of_its_rule_and_no_other(kind, limit):
    data = {"biaske/winobias/test": f"1.1.0 sha256:aa{limit}"}
    run = made_run(data=data, **STEPS[kind])
    text = page(run, {}, {})
    shown = unescape(re.sub(r"</?code>", "`", text))
    for name in LAST:
        assert appears(name, shown) == (name == kind), name
    assert appears("next.rows", shown) == bool(limit)
    assert appears("run.part", shown) == bool(limit)
    assert not appears("next.data", shown)
    assert not appears("report.rows", shown)
    assert appears("run.bundled", shown) == (kind == "next.real")
    assert not appears("report.beside", shown)
    assert not appears("report.settings", shown)


def test_notes_of_a_page_appear_with_what_they_are_about():
    run = made_run()
    alone, beside = page(run, {}, {}), page(run, {}, {}, (), [made_run(model="org/other")])
    assert not appears("report.beside", alone)
    assert appears("report.beside", beside)
    assert appears("report.settings", page(made_run(prompt="instruction"), {}, {}))
    for name in ("report.scale", "report.only", "power.note"):
        assert appears(name, alone)
        assert not appears(name, page(made_run(estimates=(), headlines={}), {}, {}))
    examples = {
        "score_biased": [1.0],
        "score_unbiased": [0.0],
        "sentence_biased": ["a b"],
        "sentence_unbiased": ["a c"],
    }
    about = {"config": ["winobias"], "domain": ["gender"], "subject": ["cook"], "id": ["x"]}
    table = {name: np.array(values) for name, values in {**examples, **about}.items()}
    assert appears("report.decided", unescape(page(run, {"biaske": table}, {})))
    assert not appears("report.decided", unescape(alone))


def test_notes_of_a_comparison_appear_with_what_they_are_about():
    made = made_comparison()
    text = unescape(comparison_page(made))
    for name in ("compare.scale", "compare.rule", "compare.difference", "compare.tests"):
        assert appears(name, text), name
    bare = unescape(comparison_page(replace(made, differences=())))
    for name in ("compare.scale", "compare.rule", "compare.tests", "power.note.change"):
        assert not appears(name, bare), name
    untested = tuple(replace(d, p=math.nan) for d in made.differences)
    assert not appears("compare.tests", unescape(comparison_page(replace(made, differences=untested))))


def test_a_leaderboard_says_that_a_model_is_at_chance_where_one_is():
    cell = {"value": 60.0, "low": 55.0, "high": 65.0, "metric": "ss", "ideal": 50.0, "n": 99}
    usual = Entry(**cell, model="a", dataset="d", task="t")
    for entry, at_chance in (
        (usual, False),
        (replace(usual, inconclusive=say("lean.chance")), True),
        (replace(usual, restriction=say("lean.chance")), True),
    ):
        text = unescape(re.sub(r"</?code>", "`", leaderboard.page(leaderboard.task_tables([entry]))))
        assert appears("leaderboard.chance", text) == at_chance
        assert (f"<small>{say('lean.chance')}</small>" in text) == at_chance
        for name in ("leaderboard.head", "leaderboard.hub", "leaderboard.rule", "leaderboard.plots"):
            assert appears(name, text), name
        assert not appears("trend.lines", text)
    family = [
        replace(usual, model=f"org/pythia-{size}m", value=value, low=value - 1, high=value + 1)
        for size, value in ((70, 60.0), (160, 52.0))
    ]
    text = unescape(re.sub(r"</?code>", "`", leaderboard.page(leaderboard.task_tables(family))))
    assert appears("trend.lines", text)
    assert appears("trend.changes", text)


def test_the_sentences_of_the_three_runs_in_the_docs_are_those_of_the_file():
    page_of_docs = (Path(__file__).parents[2] / "docs" / "shown.md").read_text("utf-8")
    text = page_of_docs.partition('<span id="shown"></span>')[2].partition('<span id="shown-end"></span>')[0]
    patterns = [
        re.compile(".*".join(re.escape(part) for part in re.split(r"\{[^}]*\}", sentence.text)))
        for name, sentence in SENTENCES.items()
        if name.startswith("row.")
    ]
    rows = [line.split(" | ")[-1].removesuffix(" |") for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row != "in words" and "---" not in row]
    assert len(rows) >= 30
    for row in rows:
        assert any(pattern.fullmatch(row.replace("\\", "")) for pattern in patterns), row
    assert text.count("\n> ") == 3
    assert appears("run.chance", text)
    assert appears("lean.shown", text)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return drawn(tmp_path_factory.mktemp("drawn"))


def test_every_sentence_has_a_text_that_must_have_it_and_one_that_must_not():
    assert set(CASES) == set(SENTENCES)


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_appears_where_its_rule_holds_and_not_where_it_does_not(name, texts):
    must, must_not = CASES[name]
    assert appears(name, texts[must])
    assert not appears(name, texts[must_not])


#: Templates in which every sentence of scores is said by its name.
TEMPLATES = (
    *(f"scoring/report/templates/{name}.html.j2" for name in ("report", "compare", "macros")),
    "mitigation/templates/methods.html.j2",
    *(f"cards/templates/{name}" for name in ("leaderboard.html.j2", "overview.html.j2", "model_section.md.j2")),
)
#: What says where something is, and nothing of scores.
LINKS = {"All rows can be searched, sorted and filtered.", "The page of rows has the examples too."}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_no_sentence_of_its_own(name):
    text = (Path(__file__).parents[2] / name).read_text("utf-8")
    text = re.sub(r"<(style|script)>.*?</\1>|\{\{.*?\}\}|\{%.*?%\}|```.*?```", " ", text, flags=re.DOTALL)
    lines = [" ".join(re.sub(r"<[^>]*>", " ", line).split()) for line in text.splitlines()]
    sentences = [found for line in lines for found in re.findall(r"[A-Z][^.]*\b[^.]*\s[^.]*\w\.(?=\s|$)", line)]
    assert set(sentences) <= LINKS
