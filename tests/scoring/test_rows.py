"""The page of all rows: what it holds, and what a browser does with it."""

import base64
import json
import re
import zlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from scoring import report
from scoring.report.rows import rows_page
from scoring.types import ScoringError
from tests.scoring.test_pages import MEASURE, browse
from tests.scoring.test_report import HOSTILE, Page, made_report, made_tables

#: Loads the page in a frame, does the steps on it, and prints what it shows.
DRIVE = """<!doctype html><body><iframe src="PAGE" style="width:1200px;height:700px"></iframe><script>
const frame = document.querySelector("iframe");
const waiting = setInterval(() => {
  const page = frame.contentDocument;
  if (!page.querySelector(".listing tbody tr")) return;
  clearInterval(waiting);
  const change = (element, value) => {
    element.value = value;
    element.dispatchEvent(new frame.contentWindow.Event(element.matches("input") ? "input" : "change"));
  };
  STEPS
  const cells = row => [...row.cells].map(cell => cell.textContent);
  const found = {head: cells(page.querySelector(".listing thead tr")),
    rows: [...page.querySelectorAll(".listing tbody tr")].map(cells),
    status: page.querySelector("#status").textContent, place: page.querySelector("#place").textContent,
    live: page.querySelectorAll("img,iframe,script:not([data-name])").length};
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
}, 50);
</script></body>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    tables = made_tables()
    tables["unstereo"]["sentence_female"][7] = HOSTILE + "\x00\ud800 zebra"
    tables["unstereo"]["female_logprob"][3] = np.nan
    report.write(path, made_report(), tables, {})
    return path


def shown(folder, tmp_path, name, steps=""):
    """What the page of rows shows of a benchmark after some steps in the browser."""
    outer = tmp_path / "outer.html"
    outer.write_text(DRIVE.replace("PAGE", f"{(folder / 'rows.html').as_uri()}#{name}").replace("STEPS", steps))
    dom, console = browse(tmp_path, outer.as_uri())
    assert console == []
    text = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1]
    return json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def held(text):
    """The rows that a page holds, by benchmark."""
    blocks = re.findall(r'data-name="([^"]*)">([^<]*)</script>', text)
    return {name: json.loads(zlib.decompress(base64.b64decode(block))) for name, block in blocks}


def test_the_page_holds_every_row_of_the_parquet_files(folder):
    blocks = held((folder / "rows.html").read_text(encoding="utf-8"))
    for path in (folder / "examples").glob("*.parquet"):
        table = pq.read_table(path)
        columns = blocks.pop(path.stem)["columns"]
        assert list(columns) == table.column_names
        for name, values in columns.items():
            for value, stored in zip(values, table[name].to_pylist(), strict=True):
                if value is None:
                    assert np.isnan(stored)
                else:
                    assert value == (pytest.approx(stored, rel=1e-5) if isinstance(stored, float) else stored)
    assert not blocks


@pytest.mark.system
def test_the_largest_differences_are_first_and_undefined_ones_last(folder, tmp_path):
    first = shown(folder, tmp_path, "unstereo")
    table = made_tables()["unstereo"]
    differences = np.abs(table["female_logprob"] - table["male_logprob"])
    differences[3] = np.nan
    column = first["head"].index("difference ↓")
    largest = sorted(differences[np.isfinite(differences)], reverse=True)[:50]
    assert [float(row[column]) for row in first["rows"]] == pytest.approx(largest, rel=1e-3)
    assert (first["status"], first["place"]) == ("400 rows", "page 1 of 8")
    last = shown(folder, tmp_path, "unstereo", 'for (let i = 0; i < 7; i++) page.querySelector("#next").click();')
    assert last["rows"][-1][column] == "–"
    assert last["place"] == "page 8 of 8"


@pytest.mark.system
def test_search_filter_sort_and_columns(folder, tmp_path):
    steps = 'change(page.querySelector("#search"), "ZEBRA");'
    found = shown(folder, tmp_path, "unstereo", steps)
    assert found["status"] == "1 of 400 rows"
    assert HOSTILE.split("\n")[0] in found["rows"][0][0]
    assert found["live"] == 1, "the script of the page alone"
    steps = """change(page.querySelector('[data-column="config"]'), "stsb");
    change(page.querySelector("#sort"), "id"); change(page.querySelector("#order"), "1");
    page.querySelectorAll("#columns input").forEach(box => { if (box.checked) box.click(); });
    page.querySelectorAll("#columns input")[0].click();"""
    found = shown(folder, tmp_path, "neutral", steps)
    ids = sorted(made_tables()["neutral"]["id"][made_tables()["neutral"]["config"] == "stsb"])
    assert found["head"] == ["id ↑"]
    assert [row[0] for row in found["rows"]] == ids[:50]
    assert found["status"] == f"{len(ids)} of 200 rows"


@pytest.mark.system
def test_a_click_on_a_column_sorts_and_another_turns_the_order(folder, tmp_path):
    click = '[...page.querySelectorAll("thead button")].find(b => b.textContent.startsWith("male_logprob")).click();'
    for times, smallest_first in ((1, False), (2, True)):
        found = shown(folder, tmp_path, "unstereo", click * times)
        column = next(n for n, name in enumerate(found["head"]) if name.startswith("male_logprob"))
        values = [float(row[column].replace("\N{MINUS SIGN}", "-")) for row in found["rows"]]
        assert values == sorted(values, reverse=not smallest_first)


@pytest.mark.system
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_is_readable(folder, tmp_path, width, dark):
    outer = tmp_path / "outer.html"
    outer.write_text(MEASURE.replace("PAGE", (folder / "rows.html").as_uri()).replace("WIDTH", str(width)))
    dom, console = browse(tmp_path, outer.as_uri(), f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    assert console == []
    result = json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1].replace("&amp;", "&"))
    assert result["open"]["width"] <= result["open"]["inside"]
    assert result["open"]["contrast"]["ratio"] >= 4.5, result["open"]["contrast"]


@pytest.mark.fault(50)
def test_text_of_rows_is_nowhere_in_the_page_and_its_script_alone_may_run(folder):
    text = (folder / "rows.html").read_text(encoding="utf-8")
    assert "alert(" not in text
    assert text.count("<script>") == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    page = Page(folder / "rows.html")
    assert not page.errors
    assert not {"img", "iframe", "link", "object"} & {tag for tag, _ in page.elements}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    hostile = rows_page(made_report(model=HOSTILE), {HOSTILE: {"id": np.array([HOSTILE])}}, {HOSTILE: HOSTILE})
    assert hostile.count("<script>") == 1


def test_rows_that_are_too_large_are_named_with_their_file():
    tables = made_tables()
    paths = {name: f"examples/{name}.parquet" for name in tables}
    whole = rows_page(made_report(), tables, paths)
    sizes = {name: len(block) for name, block in re.findall(r'data-name="([^"]*)">([^<]*)</script>', whole)}
    part = rows_page(made_report(), tables, paths, limit=sizes["unstereo"] + sizes["occugender"])
    assert list(held(part)) == ["unstereo", "occugender"]
    assert "its 200 rows are too large for this page; they are in <code>examples/neutral.parquet</code>" in part
    nothing = rows_page(made_report(), tables, paths, limit=0)
    assert not held(nothing)
    assert "<script" not in nothing


def test_the_page_is_known_as_written_by_this_program_and_no_other_is_replaced(tmp_path):
    report.write(tmp_path, made_report(), made_tables(), {})
    assert "  rows.html\n" in (tmp_path / ".sha256").read_text()
    report.write(tmp_path, made_report(model="other"), made_tables(), {})
    assert "All rows of other" in (tmp_path / "rows.html").read_text()
    (tmp_path / "rows.html").write_text("mine")
    with pytest.raises(ScoringError, match=r"rows\.html"):
        report.write(tmp_path, made_report(), made_tables(), {})
    with pytest.raises(ScoringError, match=r"rows\.html"):
        report.check_finished(tmp_path, made_report(), overwrite=True)
