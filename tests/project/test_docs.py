"""The documentation pages: tutorials run as they are written, and every metric, data set and recipe has its page."""

import ast
import doctest
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

import probes
from builders import datasets
from mitigation import recipes
from scoring import benchmarks
from scoring.inference.load_options import BUNDLED
from scoring.types import HarnessTask, Metric
from tests.support import commands
from tests.support.helpers import ROOT, mirror, one_attempt
from tests.support.hub import File, Hub, read
from tools.docs import pages, tables_page

DOCS = ROOT / "docs"
#: Pages whose code is run.
RUN = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    *(pages.DATASET_PAGES / f"{name}.md" for name in datasets.names()),
    DOCS / "contributing.md",
    DOCS / "questions.md",
]
_BLOCK = re.compile(
    r"""(?:^<!--\ (?P<mark>not\ run|network|files):\ (?P<reason>.+?)\ -->\n)?
    ^```(?P<language>\w+)(?:\ title="(?P<file>[^"]+)")?\n(?P<code>.*?)^```$""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class Block:
    """A code block of a page; the content of a file, or code to run unless it is marked, with the reason."""

    language: str
    file: str | None
    code: str
    mark: str | None
    reason: str | None


def blocks(page):
    return [Block(**result.groupdict()) for result in _BLOCK.finditer(page.read_text("utf-8"))]


def command(line):
    """The arguments of a line ``probes …`` or ``python -m MODULE …``, after the name of the module to run."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["probes"]:
        return words
    assert words[:2] == ["python", "-m"], f"{line!r} is no command of the project; mark its block as not run"
    return words[2:]


def lines(block):
    """The lines of a block of commands, each whole."""
    return [line for line in block.code.replace("\\\n", " ").splitlines() if line]


def succeeds(line, *more):
    done = commands.run(*command(line), *more)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.fixture
def reader(output, tmp_path, monkeypatch):
    """The folder of someone who reads a page and types what is on it, with what others have built there before."""
    shutil.copytree(output, tmp_path / "output")  # a build refuses a folder that is a link
    monkeypatch.setenv("PROBES_MIRROR", str(mirror()))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    for registry in (datasets, benchmarks, recipes):
        monkeypatch.setattr(registry.REGISTRY, "included", {})
    monkeypatch.setattr(benchmarks, "_metrics", {})
    with one_attempt():
        yield tmp_path
    shutil.copytree(tmp_path / "output", output, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """A folder for data sets that all tutorials share: what is built there already is not built again."""
    return tmp_path_factory.mktemp("output")


@pytest.mark.mirror
@pytest.mark.filterwarnings("ignore")  # those of other packages, which a reader would see as lines on the terminal
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_in_order(page, reader):
    to_run = [block for block in blocks(page) if not block.reason]
    assert to_run
    names = {"__name__": "page"}
    for block in to_run:
        if block.file:
            (reader / block.file).write_text(block.code, "utf-8")
        elif block.language == "python":
            exec(compile(block.code, page.name, "exec"), names)
        else:
            assert block.language == "bash", f"{page.name} has a block of {block.language}; use bash or python"
            for line in lines(block):
                succeeds(line)


#: Options that commands of README and of the page of commands get in the test, so that they take less time: by
#: command, or by recipe.
CHEAPER = {
    "score": "--limit 3 --resamples 100",
    "debias_tuning": "--limit 3 --steps 2 --batch-size 4 --benchmarks neutral --resamples 100",
    "fast": "--limit 60 --passes 1 --no-evaluate",
    "prompts": "--no-evaluate",
    "decoding": "--limit 1 --no-evaluate",
    "polite": "--no-evaluate",
    "card": "--partial",  # because of the limit
}


def installed(line):
    """Whether a line is about the environment, which the tests have; what it names must exist."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        extras = re.fullmatch(r"\.\[([\w,]+)\]", words[2])[1].split(",")
        assert set(extras) <= project["optional-dependencies"].keys()
        assert words[3:] == ["-c", "constraints.txt"]
        return True
    return words == ["make", "test"]


def typed(line):
    """A line of README, run with the cheaper options."""
    if shlex.split(line, comments=True) == ["make", "demo"]:
        makefile = (ROOT / "Makefile").read_text("utf-8").split("\ndemo:")[1].split("\n\n")[0]
        recipe = [line.split("/bin/", 1)[1] for line in makefile.splitlines()[1:]]
        assert len(recipe) == 2
        for made in recipe:
            succeeds(made, *(CHEAPER["score"].split() if "scoring" in made else []))
        return
    words = command(line)
    kind = next((word for word in words if word in recipes.names() or word == "polite"), words[1])
    succeeds(line, *CHEAPER.get(kind, "").split())


def checked(line):
    """Compares the options of ``probes score``, in a line that needs a server, with those that it has."""
    words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", word)]
    if words[0] == "accelerate":
        words = ["probes", "score", *words[words.index("scoring") + 1 :]]
    assert words[:2] == ["probes", "score"]
    known = {option for parameter in probes.imported("score").params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def type_all(page, reader):
    """Runs the blocks of a page in their order, as someone would type them."""
    files = {block.file: block.code for block in blocks(DOCS / "contributing.md") if block.file}
    for block in blocks(page):
        if block.language == "text":
            continue
        if block.file:
            (reader / block.file).write_text(block.code, "utf-8")
            continue
        if block.mark == "files":
            for name, code in files.items():
                (reader / name).write_text(code, "utf-8")
        if block.language == "python" and block.mark:
            # The library datasets reads the address of the Hub when it is imported.
            shown = subprocess.run([sys.executable, "-c", block.code], capture_output=True, text=True, check=False)
            assert shown.returncode == 0, f"{block.code}\n{shown.stderr}"
        elif block.language == "python":
            # The real model is downloaded for tests with the marker real alone (test_readme.py).
            code = block.code.replace('"smollm2"', '"tiny-causal"')
            exec(compile(code, page.name, "exec"), {"__name__": "page"})
        if block.language == "python":
            continue
        for line in lines(block):
            if not installed(line):
                (checked if block.mark == "network" and block.reason != "the Hub" else typed)(line)


def small_model():
    """The files of a bundled model, as a repository of the Hub has them."""
    return {**read(Path(BUNDLED["tiny-causal"])), "README.md": File(b"---\nlicense: mit\n---\n# Small\n")}


@pytest.mark.mirror
@pytest.mark.filterwarnings("ignore")
def test_the_commands_of_readme_run_in_order(reader):
    with Hub(cache=reader / "cache") as hub:
        hub.add("model", "ORG/MODEL", small_model())
        type_all(ROOT / "README.md", reader)
    assert list((reader / "runs").glob("*/report.html"))


@pytest.mark.mirror
@pytest.mark.filterwarnings("ignore")
def test_the_page_of_commands_runs_in_order_and_its_part_on_the_hub_on_a_hub_of_this_machine(reader):
    shutil.copy(ROOT / "README.md", reader)
    shutil.copytree(DOCS, reader / "docs")
    with Hub(cache=reader / "cache") as hub:
        hub.add("model", "ORG/MODEL", small_model())
        type_all(DOCS / "commands.md", reader)
        assert {name for kind, name in hub.repos if kind == "dataset"} == {
            "ORG/results",
            *(f"ORG/{name}" for name in datasets.names()),
        }
        assert hub.repos["model", "ORG/MODEL"].pulls
        assert "adapter_config.json" in hub.repos["model", "ORG/FAIR"].at("main").tree
        assert "index.html" in hub.repos["space", "ORG/scores"].at("main").tree
    assert (reader / "leaderboard.html").is_file()


def test_every_page_of_a_metric_names_one():
    named = {name for names in pages.pages_of_metrics().values() for name in names}
    assert named == {path.name for path in pages.METRIC_PAGES.glob("*.md")} - {"index.md"}


HARNESS = (ROOT / "scoring" / "lm_eval" / "README.md").read_text("utf-8")


def test_all_that_a_benchmark_needs_is_there():
    """The whole checklist for a new benchmark, printed at once."""
    lacking = [line for name in benchmarks.names() for line in checklist(benchmarks.get(name))]
    assert not lacking, "\n".join(lacking)


#: The titles of the page of a metric, in their order.
TITLES = ["Formula", "How to read it", "When not to use it", "Source", "Code"]


def titles_of(page):
    """The titles of the second level of a page."""
    return re.findall(r"^## (.+)$", page.read_text("utf-8"), re.M)


def checklist(benchmark):
    """What a benchmark lacks before it is complete, a line each with the file to change."""
    name, of_pages = benchmark.name, pages.pages_of_metrics()
    file, uses = f"scoring/benchmarks/{benchmark.name}.py", pages.metric_uses(benchmark)
    if benchmark.headline and benchmark.headline.metric not in uses:
        yield f"{file}: headline names no metric of the benchmark"
    if not benchmark.rows and (unknown := {dataset for dataset, _, _ in benchmark.configs} - set(datasets.names())):
        yield f"builders/datasets: no data set is called {', '.join(sorted(unknown))}"
    if not benchmark.validity:
        yield f"{file}: note says nothing of what scores mean"
    names = {f"probes_{name}_{task.name}".replace("-", "_").rstrip("_") for task in benchmark.tasks}
    if lacking := [task for task in sorted(names) if f"`{task}`" not in HARNESS]:
        yield f"scoring/lm_eval/README.md: {', '.join(lacking)} has no row"
    for metric in (use.metric for use in uses.values()):
        if not metric.names[0] or not 0 < len(metric.names[1]) <= 14:
            yield f"{file}: the metric {metric.name} has no title, or no short name of at most 14 letters"
        if not metric.reading.endswith("."):
            yield f"{file}: the reading of {metric.name} is no sentence"
        if metric.ideal is not None and not metric.low <= metric.ideal <= metric.high:
            yield f"{file}: the ideal of {metric.name} is outside of its range"
        if len(found := of_pages.get((name, metric.name), [])) != 1:
            where = " and ".join(found) or "no page"
            yield f"docs/metrics: {where} names {metric.name} of {name}; one page has it in its front matter"
        for page in found:
            titles = titles_of(pages.METRIC_PAGES / page)
            if titles != TITLES:
                yield f"docs/metrics/{page}: its titles are {', '.join(titles)}; give {', '.join(TITLES)}"
    for pair in of_pages:
        if pair[0] == name and pair[1] not in uses:
            yield f"docs/metrics/{of_pages[pair][0]}: {name} has no metric {pair[1]}"


def test_the_checklist_names_everything_that_a_new_benchmark_lacks():
    metric = Metric("new", len, len, 2, 0, 1, "No sentence")
    task = HarnessTask("", ("new",), ())
    new = replace(
        benchmarks.get("neutral"), name="new", metrics=lambda _: [metric], agreements=lambda _: (), tasks=(task,)
    )
    assert [line.partition(":")[0] for line in checklist(new)] == [
        "scoring/benchmarks/new.py",
        "scoring/lm_eval/README.md",
        *["scoring/benchmarks/new.py"] * 3,
        "docs/metrics",
    ]


@pytest.mark.parametrize("page", sorted(set(pages.METRIC_PAGES.glob("*.md")) - {pages.METRIC_PAGES / "index.md"}))
def test_a_page_of_a_metric_has_formula_reading_limits_source_and_code(page):
    text = page.read_text("utf-8")
    assert titles_of(page) == TITLES
    assert "<!-- metric facts -->" in text
    facts = pages.metric_facts(pages.front_matter(page))
    for names in pages.front_matter(page)["metrics"].values():
        for name in names:
            assert f"| `{name}` |" in facts
            assert f"- `{name}`: " in facts


def test_the_code_that_a_page_shows_exists():
    shown = [
        name for page in DOCS.rglob("*.md") for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.M)
    ]
    assert len(shown) > 60
    for name in shown:
        path = ROOT.joinpath(*name.split("."))
        if path.is_dir() or path.with_suffix(".py").is_file():
            continue
        package = path.parent / "__init__.py"
        tree = ast.parse((package if package.is_file() else path.parent.with_suffix(".py")).read_text("utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        defined |= {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert path.name in defined, name


def test_every_data_set_has_a_page():
    assert {page.stem for page in pages.DATASET_PAGES.glob("*.md")} - {"index"} == set(datasets.names())
    for name in datasets.names():
        page = pages.DATASET_PAGES / f"{name}.md"
        assert pages.front_matter(page) == {"dataset": name}
        facts = pages.dataset_facts(pages.front_matter(page))
        for config in datasets.get(name).configs:
            assert f"| `{config.name}` | " in facts
            assert config.licence in facts


def test_the_page_of_tables_is_made_from_the_printed_tables():
    assert tables_page.PAGE.read_text(encoding="utf-8") == tables_page.page(), "run python -m tools.docs.tables_page"


def test_every_recipe_is_in_the_list_and_has_a_page_with_all_its_settings():
    for name in recipes.names():
        recipe, listed = recipes.get(name), pages.recipe_page(name)
        assert f"[{name}](recipes/{name}.md)" in pages.linked(pages.recipe_list({}), "recipes.md")
        assert f"# {name}\n\n{recipe.summary}" in listed
        for setting in recipe.profiles["clean"].__dataclass_fields__:
            assert f"| `{setting}` |" in listed
        # Empty code would take the next border of the table as its text.
        assert "``" not in listed.replace("```", "")


def test_every_page_is_in_the_navigation_or_in_the_list_of_evidence_and_every_entry_is_a_page():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

    def entries(part):
        if isinstance(part, str):
            yield part
        else:
            for item in part.values() if isinstance(part, dict) else part:
                yield from entries(item)

    listed = list(entries(pages.navigation(site["nav"])))
    listed += pages.evidence()
    assert len(listed) == len(set(listed))
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    made = {f"recipes/{name}.md" for name in recipes.names()}
    assert set(listed) == written | set(pages.ROOT_PAGES) | made


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_no_part_of_a_page_is_left_open(page):
    filled = pages.fill(page.read_text("utf-8"), pages.front_matter(page))
    assert not re.search(r"^<!-- (?!not run: |network: |files: )", filled, re.M)


@pytest.mark.parametrize("page", pages.LISTED, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_lists_of_a_page_are_those_of_the_registries(page):
    """Readers without the site see the lists too; on the site each is filled in once."""
    text = page.read_text("utf-8")
    assert text == pages.written(page), "run python -m tools.docs.pages"
    filled = pages.fill(text, {})
    first = next(line for line in filled.splitlines() if line.startswith("| --- |"))
    assert filled.count(filled.split(first)[1].splitlines()[1]) == 1


def test_the_examples_of_the_page_maker_hold():
    assert doctest.testmod(pages).failed == 0
