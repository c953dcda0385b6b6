"""The pages of a run and of a comparison, measured in a browser: what is seen first, widths, contrast, no error."""

import json
import re
import subprocess

import numpy as np
import pytest

from scoring import benchmarks, report
from scoring.report.headlines import headline_scores
from tests.scoring.made_runs import made_comparison, made_run
from tests.scoring.test_report import VALIDITY, made_neutral, made_occugender, made_unstereo
from tests.support.helpers import system_program

SCREEN = 720
#: Measures a page in a frame of a given width: once as it is, and once with all details open.
MEASURE = """<!doctype html><body style="margin:0">
<iframe src="PAGE" style="width:WIDTHpx;height:720px;border:0"></iframe>
<script>
const channels = text => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
function ground(element, view) {
  for (; element; element = element.parentElement) {
    const found = channels(view.getComputedStyle(element).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
}
function texts(page, view) {
  return [...page.body.querySelectorAll("*")].filter(e => e.getClientRects().length &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
      const style = view.getComputedStyle(e), svg = e.namespaceURI.endsWith("svg");
      const [one, other] = [channels(svg ? style.fill : style.color), ground(e, view)].map(luminance);
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      return {ratio, text: e.textContent.trim().slice(0, 40)};
    });
}
const measured = (page, view) => ({
  width: page.documentElement.scrollWidth, inside: page.documentElement.clientWidth,
  height: page.documentElement.scrollHeight,
  contrast: texts(page, view).sort((a, b) => a.ratio - b.ratio)[0],
});
document.querySelector("iframe").onload = event => {
  const view = event.target.contentWindow, page = view.document, found = {closed: measured(page, view)};
  found.rows = [...page.querySelectorAll(".overview tbody tr")].map(row => row.getBoundingClientRect().bottom);
  found.title = page.querySelector("h1").getBoundingClientRect().bottom;
  for (const details of page.querySelectorAll("details")) details.open = true;
  found.open = measured(page, view);
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
};
</script></body>"""


def browse(folder, address, *options):
    """The document after its scripts have run, and what it logged."""
    chromium = system_program("chromium")
    fixed = ["--headless", "--no-sandbox", "--dump-dom", "--enable-logging=stderr", "--allow-file-access-from-files"]
    command = [chromium, *fixed, "--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}", *options]
    done = subprocess.run([*command, address], capture_output=True, text=True, check=True, timeout=300)
    # The browser's own pages log too, for example that the network is slow.
    logged = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "source: chrome://" not in line]
    return done.stdout, logged


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    draw = np.random.default_rng(7)
    tables = {"unstereo": made_unstereo(draw), "neutral": made_neutral(draw), "occugender": made_occugender(draw)}
    run = made_run(model="/very/long/path/of/a/folder/my-model")
    report.write(folder, run, tables, dict.fromkeys((e.benchmark for e in run.estimates), VALIDITY))
    report.write_comparison(folder, made_comparison())
    return folder


@pytest.mark.system
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["report.html", "compare.html"])
def test_a_page_in_a_browser(pages, tmp_path, name, width, dark):
    outer = tmp_path / "outer.html"
    outer.write_text(MEASURE.replace("PAGE", (pages / name).as_uri()).replace("WIDTH", str(width)))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    dom, console = browse(tmp_path, outer.as_uri(), "--window-size=1400,900", scheme)
    assert console == []
    result = json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1].replace("&amp;", "&"))
    for state in ("closed", "open"):
        assert result[state]["width"] <= result[state]["inside"], state
        assert result[state]["contrast"]["ratio"] >= 4.5, result[state]["contrast"]
    assert result["title"] < SCREEN / 3
    # A comparison has the language ability of two benchmarks besides the headlines.
    rows = len(headline_scores(made_run()))
    assert len(result["rows"]) == rows + (2 if name == "compare.html" else 0)
    # Five screens for twelve rows at the most, with all that is said below the rows.
    assert result["closed"]["height"] <= rows * 5 * SCREEN / 12
    if width == 1280:
        # Ten rows are on the first screen; a run of all benchmarks has more.
        assert sorted(result["rows"])[9] <= SCREEN


def sheets(folder, page):
    """The number of sheets on which a browser prints a page."""
    chromium = system_program("chromium")
    to = folder / "printed.pdf"
    command = [chromium, "--headless", "--no-sandbox", f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={to}"]
    subprocess.run([*command, page.as_uri()], capture_output=True, check=True, timeout=300)
    return len(re.findall(rb"/Type\s*/Page\b", to.read_bytes()))


@pytest.mark.system
def test_pages_are_printed_on_few_sheets(pages, tmp_path):
    assert sheets(tmp_path, pages / "report.html") in (2, 3)
    assert sheets(tmp_path, pages / "compare.html") in (1, 2)


@pytest.mark.system
def test_what_is_folded_is_open_in_print_and_all_versions_are_there(tmp_path):
    counts = []
    for packages in (5, 1000):
        run = made_run(environment={f"package {number}": "1.0" for number in range(packages)})
        report.write(tmp_path / str(packages), run, {}, {})
        counts.append(sheets(tmp_path, tmp_path / str(packages) / "report.html"))
    assert counts[1] > counts[0] + 1


@pytest.mark.system
def test_an_error_of_a_page_is_noticed(tmp_path):
    (tmp_path / "page.html").write_text("<body><script>missing()</script></body>")
    _, console = browse(tmp_path, (tmp_path / "page.html").as_uri())
    assert len(console) == 1
    assert "missing is not defined" in console[0]


def test_the_first_screen_has_a_name_and_no_path_or_hash(pages):
    for name, heading in (("report.html", "my-model"), ("compare.html", "edited with adapter compared with org/model")):
        text = (pages / name).read_text(encoding="utf-8")
        first, _, rest = text.partition("<h2>Details</h2>")
        assert f"<h1>{heading}</h1>" in first
        assert "0123456789" not in first
        assert "/home/me" not in first
        assert "0123456789abcdef" in rest


def test_what_scores_mean_is_said_once(pages):
    text = (pages / "report.html").read_text(encoding="utf-8")
    assert text.count("What it does not mean.") == 1
    assert text.count("has the same data and says what these scores mean") == len(benchmarks.names()) - 1
