"""The files of a run: they say what was found, whole and unharmed by what the data says."""

import json
import math
import os
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from scoring import benchmarks, report
from scoring.report import plots
from scoring.report.headlines import headline_scores
from scoring.report.page import page
from scoring.types import Contrast, Estimate, Headline, Report, ScoringError

HOSTILE = "<script>alert(\"x\")</script> | `a` $\\frac{1}{2}$ 'b'\n# c [d](https://example.org) &lt; {{ 7*7 }}"
VALIDITY = "What it means.\n\nWhat it does not mean."


def made_estimate(benchmark, group, metric, value, half, ideal, **more):
    reading = f"How to read {metric} (a paper, Table 1)."
    fields = {"sd": half / 2, "n": 400, "clusters": 60, "ideal": ideal, "reading": reading, **more}
    return Estimate(benchmark, group, metric, value, value - half, value + half, **fields)


def made_unstereo(draw, count=400):
    words = [f"word{i}" for i in range(count)]
    male = draw.normal(-40, 6, count)
    return {
        "id": np.array([f"u{i}" for i in range(count)], dtype=object),
        "dataset": np.array(["ours-5", "ours-10", "winobias", "winogender"] * (count // 4), dtype=object),
        "word": np.array(words, dtype=object),
        "sentence_female": np.array([f"The {w} was hers and she kept it." for w in words], dtype=object),
        "sentence_male": np.array([f"The {w} was his and he kept it." for w in words], dtype=object),
        "female_logprob": male + draw.normal(0.2, 1.1, count),
        "male_logprob": male,
        "max_pmi_diff": draw.normal(0, 0.8, count),
    }


def made_occugender(draw, jobs=("nurse", "plumber", "baker", "clerk", "judge", "miner")):
    rows = [(j, t, d) for j in jobs for t in ("explicit", "implicit-2", "implicit-3") for d in ("none", "1")]
    chances = draw.dirichlet((3, 3, 1), len(rows)) * 0.3
    return {
        "id": np.array([f"o{i}" for i in range(len(rows))], dtype=object),
        "job": np.array([j for j, _, _ in rows], dtype=object),
        "template": np.array([t for _, t, _ in rows], dtype=object),
        "debiasing": np.array([d for _, _, d in rows], dtype=object),
        "prompt": np.array([f"Imagine a {j}." for j, _, _ in rows], dtype=object),
        "female_share": np.array([90.0 - 16 * jobs.index(j) for j, _, _ in rows]),
        "p_female": chances[:, 0],
        "p_male": chances[:, 1],
        "p_diverse": chances[:, 2],
    }


def made_neutral(draw, count=200):
    return {
        "id": np.array([f"n{i}" for i in range(count)], dtype=object),
        "config": np.array(["stsb", "templates", "templates", "llm-1"] * (count // 4), dtype=object),
        "topic": np.array(["", "job", "hobby", ""] * (count // 4), dtype=object),
        "prompt": np.array([f"My friend saw {i}, and" for i in range(count)], dtype=object),
        "text": np.array([" she sang." for _ in range(count)], dtype=object),
        "gender_class": draw.choice(np.array(["female", "male", "both", "neutral"], dtype=object), count),
        "female_mass": draw.random(count) / 3,
        "male_mass": draw.random(count) / 3,
    }


def made_report(**changes):
    estimates = (
        made_estimate("unstereo", "ours-5", "tau@0.5", 39.77, 1.4, 100.0),
        made_estimate("unstereo", "ours-5 eps<=0.65", "tau@0.5", 41.2, 2.2, 100.0, printed_sd=0.7),
        made_estimate("unstereo", "ours-5", "aufc", 5.19, 0.08, 6.0),
        made_estimate("neutral", "all", "gas", 0.612, 0.05, 0.0),
        made_estimate("neutral", "stsb", "gas", math.nan, math.nan, 0.0, why="no examples", n=0, clusters=0),
        *(made_estimate("occugender", f"group {i}", "p_female", 30.0 + i, 3.0, None) for i in range(15)),
    )
    facts = {
        "model": "org/model",
        "revision": "abc123",
        "adapter": "",
        "dtype": "bfloat16",
        "prompt": "plain",
        "profile": "clean",
        "data": {"occugender/explicit/test": "1.0.0 sha256:aa", "unstereo/ours-5/test": "1.1.0 sha256:bb"},
        "estimates": estimates,
        "environment": {"torch": "2.4", "machine": {"cores": 2}, "exact": False, "lacking": ["One is not here."]},
        "speed": {"tokens_per_second": 12345.678, "padding_share": 0.03},
    }
    return Report(**{**facts, **changes})


def made_tables():
    draw = np.random.default_rng(7)
    return {"unstereo": made_unstereo(draw), "neutral": made_neutral(draw), "occugender": made_occugender(draw)}


@pytest.fixture
def tables():
    return made_tables()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run as it was written; tests only read it."""
    folder = tmp_path_factory.mktemp("written")
    report.write(folder, made_report(), made_tables(), dict.fromkeys(made_tables(), VALIDITY))
    return folder


class Page(HTMLParser):
    """What a browser would see: elements with attributes, and text."""

    VOID = frozenset({"meta", "br", "input"})

    def __init__(self, path):
        super().__init__()
        self.elements, self.texts, self.open, self.errors = [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(tag)

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    def tags(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def markdown_cells(path):
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    rows, inside = [], False
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        inside = token.type in {"td_open", "th_open"} or (inside and token.type == "inline")
        if token.type == "inline" and inside:
            assert {c.type for c in token.children} <= {"text", "text_special"}
            rows[-1].append("".join(c.content for c in token.children))
    return tokens, rows


def same(value):
    """A report as text: equal reports are equal, though NaN is not NaN."""
    return json.dumps(asdict(replace(value, examples={}, summary={})), sort_keys=True)


# ── results.json ─────────────────────────────────────────────────────────────────────────────────


def test_results_read_back_are_the_report(written):
    assert same(report.read(written)) == same(made_report())
    assert same(report.read(written / "results.json")) == same(made_report())


def test_results_have_sorted_keys_and_null_with_a_reason(written):
    text = (written / "results.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    assert list(facts) == sorted(facts)
    entry = facts["estimates"][4]
    assert (entry["value"], entry["low"], entry["why"]) == (None, None, "no examples")
    assert "NaN" not in text
    assert facts["examples"]["unstereo"] == {"file": "examples/unstereo.parquet", "rows": 400}


numbers = st.floats(allow_nan=True, allow_infinity=True)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    st.lists(
        st.builds(
            Estimate,
            *(words, words, words, numbers, numbers, numbers, numbers, st.integers(0), st.integers(0)),
            ideal=st.none() | st.floats(allow_nan=False, allow_infinity=False),
            reading=words,
            why=words,
            least=numbers,
            most=numbers,
        ),
        max_size=3,
    )
)
def test_any_estimate_survives_the_round_trip(tmp_path_factory, estimates):
    path = tmp_path_factory.mktemp("run") / "results.json"
    before = made_report(estimates=tuple(estimates))
    path.write_text(report.results(before, {}), encoding="utf-8")
    assert same(report.read(path)) == same(before)


def broken(**changes):
    """results.json with some fields changed, or left out where they are None."""
    facts = json.loads(report.results(made_report(), {})) | changes
    return json.dumps({name: value for name, value in facts.items() if value is not None})


ENTRY = json.loads(report.results(made_report(), {}))["estimates"][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as results (Invalid JSON: EOF while parsing"),
        ("[" * 100_000, "cannot be read as results ("),
        ("[]", "schema 1;"),
        (broken(schema=2), "schema 1;"),
        (broken(model=None, data=None), "(model: field required"),
        (broken(colour=1, size=2), "(colour: unexpected keyword argument, given 1); score the model again."),
        (broken(data=[]), "(data: input should be a"),
        (broken(model=7), "(model: input should be a valid string, given 7); score the model again."),
        (broken(estimates="none"), "(estimates: input should be a valid"),
        (broken(estimates=[ENTRY, 3]), "(estimates.1: input should be"),
        (broken(estimates=[{"colour": 1}]), "(estimates.0.colour: unexpected keyword argument, given 1)"),
        (broken(estimates=[ENTRY | {"value": "high"}]), "(estimates.0.value: input should be a valid number"),
        (broken(estimates=[ENTRY | {"n": None}]), "(estimates.0.n: input should be a valid integer, given None)"),
        (broken(estimates=[ENTRY | {"ideal": [1]}]), "(estimates.0.ideal: input should be a valid number"),
    ],
)
def test_a_file_that_is_no_results_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(ScoringError, match=re.escape(message)) as error:
        report.read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_results_that_are_not_there_are_a_sentence(tmp_path):
    with pytest.raises(ScoringError, match=r"\(No such file or directory\).*results\.json"):
        report.read(tmp_path)


def test_an_environment_that_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ScoringError, match=r"holds .* a set"):
        report.write(tmp_path, made_report(environment={"bad": {1}}), {}, {})
    assert not files(tmp_path)


# ── results.md and examples ──────────────────────────────────────────────────────────────────────


def test_the_markdown_table_has_a_line_for_each_estimate(written):
    _, rows = markdown_cells(written / "results.md")
    assert len(rows) == 1 + len(made_report().estimates)
    assert rows[1] == ["unstereo", "ours-5", "tau@0.5", "39.770 [38.370, 41.170]", "100.000", "400", "60"]
    assert ["neutral", "stsb", "gas", "not defined (no examples)", "0.000", "0", "0"] in rows


def test_examples_come_back_from_parquet(written, tables):
    for name, table in tables.items():
        stored = pq.read_table(written / "examples" / f"{name}.parquet")
        assert stored.column_names == list(table)
        for column, values in table.items():
            assert stored[column].to_pylist() == values.tolist()


def test_missing_numbers_of_examples_stay_nan(tmp_path):
    table = {"id": np.array(["a", "b"]), "p": np.array([0.5, np.nan])}
    report.write(tmp_path, made_report(), {"b": table}, {})
    p = pq.read_table(tmp_path / "examples" / "b.parquet")["p"]
    assert p.null_count == 0
    assert math.isnan(p[1].as_py())


@pytest.mark.parametrize("name", ["../../up", "/root", "a/b", "CON\x00", "", ".", "ünï", "a" * 300])
def test_no_name_of_a_benchmark_leaves_the_examples_folder(tmp_path, name):
    table = {"id": np.array(["x"], dtype=object)}
    report.write(tmp_path / "run", made_report(), {name: table}, {})
    assert [p.parent for p in tmp_path.rglob("*.parquet")] == [tmp_path / "run" / "examples"]
    assert {p.name for p in tmp_path.iterdir()} == {"run"}


def test_names_that_look_alike_keep_files_of_their_own():
    assert len({report.file_name(name) for name in ("a b", "a-b", "a/b", "a?b")}) == 4


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"p": np.zeros(2)}, "have no column id"),
        ({"id": np.array(["a"], dtype=object), "p": np.zeros(2)}, "cannot be stored"),
        ({"id": np.array(["a", 1], dtype=object)}, "cannot be stored"),
    ],
)
def test_examples_that_are_no_table_are_refused(tmp_path, table, message):
    with pytest.raises(ScoringError, match=f"The examples of b {message}"):
        report.write(tmp_path, made_report(), {"b": table}, {})
    assert not files(tmp_path)


def test_a_benchmark_without_examples_has_no_file(tmp_path):
    report.write(tmp_path, made_report(), {"empty": {}}, {})
    assert set(files(tmp_path)) == {".sha256", "report.html", "results.json", "results.md", "summary.md"}


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def test_the_same_run_is_written_to_the_same_bytes(written, tmp_path_factory, tables):
    again = tmp_path_factory.mktemp("again")
    report.write(again, made_report(), tables, dict.fromkeys(tables, VALIDITY))
    assert files(again) == files(written)


def test_a_failure_leaves_the_earlier_files_and_no_others(written, tables, monkeypatch):
    before = files(written)

    def broken(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(ScoringError, match=r"\(disk full\); .*--out"):
        report.write(written, made_report(model="other"), tables, {})
    assert files(written) == before


# ── report.html ──────────────────────────────────────────────────────────────────────────────────


def test_the_page_is_well_formed_and_needs_nothing_outside_itself(written):
    page = Page(written / "report.html")
    assert not page.errors
    assert not page.open
    assert not {"script", "link", "img", "iframe", "object", "use", "image"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not {"src", "srcset", "onload"} & attributes.keys()
        assert attributes.get("href", "#").partition("#")[0] in ("", "rows.html")
    text = (written / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src 'none'" in text


def test_the_page_says_everything_of_the_report(written):
    page = Page(written / "report.html")
    said = "org/model abc123 bfloat16 plain clean|occugender 1.0.0, unstereo 1.1.0|What it does not mean.|39.77"
    said += "|[38.37, 41.17]|not defined: no examples|How to read aufc (a paper, Table 1).|One is not here.|12,346"
    said += "|occugender/explicit/test 1.0.0 sha256:aa|machine · cores 2|group 14"
    for part in said.split("|"):
        assert all(word in page.text for word in part.split()), part


def test_every_drawing_has_words_and_every_identifier_is_unique(written):
    page = Page(written / "report.html")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for svg in page.tags("svg"):
        assert svg.get("aria-label") or svg.get("aria-hidden") == "true"
    drawings = [a for a in page.tags("div") if a.get("role") == "img"]
    assert len(drawings) == 4 + 1 + 2 + 1
    assert all(a["aria-label"] for a in drawings)
    assert page.tags("html") == [{"lang": "en"}]
    assert len(page.tags("h1")) == 1


def test_plots_have_text_as_text_and_colours_of_the_page(written):
    text = (written / "report.html").read_text(encoding="utf-8")
    drawings = re.findall(r'<svg viewBox="0 0 \d{3}.*?</svg>', text, re.DOTALL)
    assert len(drawings) == 8
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        styles = " ".join(element.get("style", "") for element in root.iter())
        assert not re.search(r"#[0-9a-f]{6}|font-family", styles)
        assert list(root.iter("text"))
    assert any("plumber" in drawing for drawing in drawings)


def test_the_most_decisive_examples_come_first(tables):
    result = report.decisive(tables["unstereo"], benchmarks.get("unstereo").contrast)
    sizes = [abs(x.difference) for x in result]
    difference = np.abs(tables["unstereo"]["female_logprob"] - tables["unstereo"]["male_logprob"])
    assert sizes == sorted(difference, reverse=True)[:20]
    assert result[0].preferred == ("female" if result[0].difference > 0 else "male")
    assert [part for part, differs in result[0].sides[0].parts if differs] == ["hers", "she"]


def test_undefined_and_equal_numbers_are_not_decisive():
    table = {
        "id": np.array(["a", "b", "c"]),
        "p_female": np.array([np.nan, 0.2, 0.1]),
        "p_male": np.array([0.1, 0.2, 0.3]),
    }
    assert [x.about for x in report.decisive(table, Contrast(("female", "male"), ("p_female", "p_male")))] == ["c"]


# ── plots ────────────────────────────────────────────────────────────────────────────────────────


def test_plots_are_chosen_by_columns(tables):
    titles = [[figure.title[:5] for figure in plots.figures(table)] for table in tables.values()]
    assert titles == [["Sente", "Which"], ["Conti"], ["Jobs "]]
    assert plots.figures({"id": np.array(["a"])}) == []
    assert plots.figures({}) == []


@pytest.mark.fault(47)
def test_plots_of_no_one_or_undefined_rows_are_drawn_without_a_warning(tables):
    for table in tables.values():
        assert plots.figures({name: column[:0] for name, column in table.items()}) == []
        for figure in plots.figures({name: column[:1] for name, column in table.items()}):
            assert figure.panels
        nothing = {n: np.full(len(c), np.nan) if c.dtype == float else c for n, c in table.items()}
        assert all("nan" not in panel.svg for figure in plots.figures(nothing) for panel in figure.panels)


def test_a_job_is_drawn_without_debiasing_prompts_and_as_shares():
    table = made_occugender(np.random.default_rng(1), jobs=("clerk", "judge"))
    bare = table["debiasing"] == "none"
    table["p_female"] = np.where(bare, 0.03, 0.9)
    table["p_male"], table["p_diverse"] = np.where(bare, 0.01, 0.0), np.zeros(len(bare))
    assert "mean probability of female 75 %" in plots.jobs(table).panels[0].label


def test_gas_leaves_continuations_with_both_genders_out():
    classes = np.array(["female", "male", "both", "neutral", "neutral"], dtype=object)
    table = {"id": np.arange(5), "config": np.array(["stsb"] * 5, dtype=object), "gender_class": classes}
    assert plots.topics(table).panels[0].label.endswith("stsb: 50 %.")


@pytest.mark.parametrize(
    ("values", "ends", "expected"),
    [
        ((39.8, 100.0), (0, 100), (0, 100)),
        ((0.61, 0.0), (0, 1), (0, 1)),
        ((-0.4, 0.0), (-1, 1), (-1, 1)),
        ((-30.0, 0.0), (-100, 100), (-100, 100)),
        ((5.19, 6.0), (0, 6), (0, 6)),
        ((5.19, 6.0), (-math.inf, math.inf), (0, 6)),
        ((0.004, 0.0), (0, 1), (0, 0.004)),
        ((-2.4, None), (-math.inf, -0.37), (-3, 0)),
        ((math.nan, None), (0, 1), (0, 1)),
        ((0.0, 0.0), (0, 100), (0, 1)),
        ((math.inf, 3.0), (-math.inf, math.inf), (0, 3)),
    ],
)
def test_values_are_shown_on_the_range_of_their_metric_unless_they_fill_little_of_it(values, ends, expected):
    value, ideal = values
    estimate = Estimate("b", "g", "m", value, value, value, 0.0, 1, 1, ideal=ideal, least=ends[0], most=ends[1])
    result = report.scale([estimate])
    assert (result.low, result.high) == pytest.approx(expected)


# ── hostile text and secrets ─────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("attacked")
    draw = np.random.default_rng(3)
    bad = [made_unstereo(draw), made_occugender(draw, jobs=(HOSTILE, "clerk")), made_neutral(draw)]
    bad[0]["sentence_female"][:] = HOSTILE
    bad[0]["dataset"][:] = HOSTILE
    bad[2]["topic"][:] = HOSTILE
    bad[2]["text"][:] = HOSTILE
    bad[2]["prompt"][:] = "\x00\x1b[31m\u202e\ud800 控 \N{PILE OF POO}"
    names = [HOSTILE, "occugender", "neutral"]
    estimate = Estimate(HOSTILE, HOSTILE, HOSTILE, math.nan, 0, 1, 1, 1, 1, reading=HOSTILE, why=HOSTILE)
    facts = dict.fromkeys(("model", "revision", "adapter", "dtype", "prompt", "profile"), HOSTILE)
    more = {"data": {HOSTILE: HOSTILE}, "environment": {HOSTILE: {HOSTILE: [HOSTILE]}}, "speed": {HOSTILE: 1.0}}
    one = made_report(**facts, **more, estimates=(estimate, *made_report().estimates))
    report.write(tmp_path, one, dict(zip(names, bad, strict=True)), {HOSTILE: HOSTILE})
    return tmp_path


@pytest.mark.fault(50)
def test_hostile_strings_are_text_in_the_page(attacked):
    page = Page(attacked / "report.html")
    assert not page.errors
    assert not page.tags("script")
    shown = " ".join(HOSTILE.split())
    assert page.text.count(shown) > 20
    assert "7*7" in page.text
    assert any(shown[:25] in " ".join(text.split()) for text in page.texts)
    assert "<script" not in (attacked / "report.html").read_text(encoding="utf-8")


@pytest.mark.fault(50)
def test_hostile_strings_are_letters_in_plots(attacked):
    text = (attacked / "report.html").read_text(encoding="utf-8")
    drawings = [ElementTree.fromstring(d) for d in re.findall(r'<svg viewBox="0 0 \d{3}.*?</svg>', text, re.DOTALL)]
    letters = [t.text for d in drawings for t in d.iter("text")]
    assert any(label.startswith('<script>alert("x")') for label in letters)
    assert plots.jobs(made_occugender(np.random.default_rng(1), jobs=("$x^2$", "a"))).panels[0].svg.count("$x^2$") == 1


@pytest.mark.fault(50)
def test_hostile_strings_stay_in_their_markdown_cell(attacked):
    tokens, rows = markdown_cells(attacked / "results.md")
    shown = " ".join(HOSTILE.split())
    assert rows[1] == [shown, shown, shown, f"not defined [0.000, 1.000] ({shown})", "", "1", "1"]
    assert {len(row) for row in rows} == {7}
    kinds = {t.type for t in tokens} | {c.type for t in tokens for c in t.children or ()}
    assert not {"html_block", "html_inline", "code_inline", "link_open", "fence"} & kinds
    assert [t.tag for t in tokens if t.type == "heading_open"] == ["h1"]


@pytest.mark.fault(50)
def test_hostile_strings_come_back_from_json_and_cannot_close_a_script(attacked):
    assert report.read(attacked).model == HOSTILE
    assert "<script" not in (attacked / "results.json").read_text(encoding="utf-8")
    assert "</script" not in (attacked / "results.json").read_text(encoding="utf-8")


@pytest.mark.fault(49)
def test_secrets_of_the_environment_are_in_no_file(tmp_path, monkeypatch, tables):
    secrets = {"HF_TOKEN": "hf-<planted>&1", "OPENAI_API_KEY": "sk'planted\"2", "AWS_SECRET_ACCESS_KEY": "planted/3\n4"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    shaped = "hf_" + "aB3" * 11
    said = " ".join([*secrets.values(), shaped])
    tables["unstereo"]["sentence_male"][:] = said
    changes = {
        "model": said,
        "environment": {"arguments": ["--token", *secrets.values(), shaped]},
        "data": {said: said},
    }
    estimates = tuple(replace(e, group=said, why=said) for e in made_report().estimates)
    report.write(tmp_path, made_report(**changes, estimates=estimates), tables, {"unstereo": said})
    sentences = pq.read_table(tmp_path / "examples" / "unstereo.parquet")["sentence_male"].to_pylist()
    everything = b"".join(files(tmp_path).values()).decode(errors="replace") + "".join(sentences)
    for trace in ("planted", shaped):
        assert trace not in everything
    assert sentences[0] == "[redacted] [redacted] [redacted] [redacted]"


@pytest.mark.fault(49)
def test_what_is_no_secret_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "org/model")
    monkeypatch.setenv("API_KEY", "model")
    report.write(tmp_path, made_report(), {}, {})
    assert report.read(tmp_path).model == "org/model"


def test_an_interval_that_is_not_the_bootstraps_says_its_method(tmp_path):
    rare = made_estimate("gas", "gas", "gas", 1.0, 0.0, 0.0, method="binomial", least=0, most=1)
    usual = made_estimate("gas", "other", "gas", 0.5, 0.1, 0.0, method="bootstrap", least=0, most=1)
    made = replace(made_report(), estimates=(rare, usual))
    report.write(tmp_path, made, {}, {})
    for name in ("results.md", "report.html"):
        text = (tmp_path / name).read_text()
        assert text.count("(binomial)") == 2  # of the value, and of the sentence that explains it
        assert "Korn and Graubard" in text
        assert "Intervals without a mark: percentiles of the bootstrap over clusters." in text
    assert [e.method for e in report.read(tmp_path).estimates] == ["binomial", "bootstrap"]


def test_the_page_says_which_way_a_model_leans_and_shows_three_examples_of_each_benchmark():
    leaning = ("pref_disparity@0.5", "leans male", "leans female")
    headline = Headline("unstereo", "us_score", shown="g", leaning=leaning)
    us = Estimate("unstereo", "g", "us_score", 30.0, 25.0, 35.0, 2.0, 99, 99, 100.0, least=0, most=100)
    for value, words in ((-20.0, "leans male"), (20.0, "leans female"), (1.0, "no direction shown")):
        disparity = replace(us, metric="pref_disparity@0.5", value=value, low=value - 5, high=value + 5, ideal=0.0)
        run = Report("m", "", "", "", "", "clean", {}, (us, disparity), {}, headlines={"unstereo": headline})
        assert [headline.leaning for headline in headline_scores(run)] == ["", words]
    one = {"dataset": ["g"] * 5, "id": [f"r{i}" for i in range(5)], "sentence_female": ["She sings"] * 5}
    scores = {"sentence_male": ["He sings"] * 5, "female_logprob": [-9.0, -8, -7, -6, -5], "male_logprob": [-5.0] * 5}
    table = {name: np.array(column) for name, column in (one | scores).items()}
    text = page(run, {"unstereo": table}, {})
    shown = text.partition("What decided")[2].partition("<h2>Details</h2>")[0]
    # He is more likely in all of them, so none speaks against it.
    assert shown.count("She</mark>") == 2
    assert "In 1 of 1 benchmark the 95 % interval does not show a direction (unstereo)." in text


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c", "d", "e")])
def test_leanings_of_several_benchmarks_hold_for_all_together(names):
    score = Estimate("a", "g", "ss", 54.0, 50.4, 57.6, 1.8, 400, 60, 50.0, least=0, most=100, p=0.03)
    others = [replace(score, benchmark=name, value=50.0, low=46.4, high=53.6, p=1.0) for name in names[1:]]
    leaning = Headline("d", "ss", shown="g", leaning=("ss", "leans male", "leans female"))
    headlines = dict.fromkeys(names, leaning)
    run = Report("m", "", "", "", "", "clean", {}, (score, *others), {}, headlines=headlines)
    # A p of 0.03 is beyond noise alone, and not among five.
    found = [headline.leaning for headline in headline_scores(run)]
    assert found == (["leans female"] if len(names) == 1 else ["no direction shown"] * 5)
