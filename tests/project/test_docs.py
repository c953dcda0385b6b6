"""The documentation pages: tutorials run as they are written, and every metric, data set and recipe has its page."""

import ast
import doctest
import math
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
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


#: Pages whose code is run: tutorials, how-to pages with code that needs nothing else, data sets and the guide.
RUN = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    *(page for page in sorted((DOCS / "howto").glob("*.md")) if any(not block.reason for block in blocks(page))),
    *(pages.DATASET_PAGES / f"{name}.md" for name in datasets.names()),
    DOCS / "ci.md",
    DOCS / "contributing.md",
    DOCS / "quickstart.md",
]


def command(line):
    """The arguments of a line ``probes …`` or ``python -m MODULE …``, after the name of the module to run."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["probes"]:
        return words
    assert words[:2] == ["python", "-m"], f"{line!r} is no command of the project; mark its block as not run"
    return words[2:]


def lines(block):
    """The lines of a block of commands, each whole, without those that only comment."""
    return [line for line in block.code.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


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
        elif block.language in ("json", "yaml"):
            continue
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
    made = {f"recipes/{name}.md" for name in recipes.names()} | {"reference/cli.md"}
    assert set(listed) == written | set(pages.ROOT_PAGES) | made


#: The pages that a reader meets: those of the navigation that are files.
SHOWN = sorted(page for page in DOCS.rglob("*.md") if str(page.relative_to(DOCS)) not in pages.evidence())
#: The most characters of a line of code, which is what the column of the site shows.
WIDTH = 88


@pytest.mark.parametrize("page", [*SHOWN, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_code_fit_the_column_and_name_commands_and_options_that_exist(page):
    for block in blocks(page):
        for line in block.code.splitlines():
            assert len(line) <= WIDTH, line
        for line in lines(block) if block.language == "bash" else ():
            words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", word)]
            if words[:1] == ["probes"] and words[1] in probes.COMMANDS:
                assert options_of(words[1:]) >= {word for word in words if word.startswith("--")}, line


def options_of(words):
    """The options of a command of ``probes``, or of the command in it that the words name."""
    known = {"--help"}
    if words[0] == "mitigate" and "--include" in words:
        return known | {"--include", "--out", "--no-evaluate"}
    command = probes.imported(words[0])
    while command is not None:
        known |= {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        if not hasattr(command, "commands"):
            return known
        inside = (command.get_command(None, word) for word in words[1:])
        command = next((sub for sub in inside if sub is not None), None)
    # RECIPE stands for any recipe.
    return known | {"--out", "--profile", "--dry-run"}


def test_the_page_of_all_options_has_every_command_and_option():
    page = pages.cli_page()
    for name in probes.COMMANDS:
        assert f"\n## probes {name}" in page
    for command, option in (("score", "--fail-if"), ("mitigate merge", "--dtype"), ("pmi compare-model", "--table")):
        assert f"| `{option}` |" in page.split(f"\n## probes {command}\n")[1].split("\n## ")[0]


def literals():
    """The texts in the code of the packages, with an ellipsis for each value."""
    for package in ("builders", "cards", "mitigation", "pmi", "scoring"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value
                else:
                    continue
                yield re.sub(r"\{[^{}]*\}", "…", " ".join(text.split()))


def test_the_sentences_of_the_page_of_errors_are_those_of_the_program():
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    sentences = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    assert len(sentences) >= 50
    assert len(sentences) == len(set(sentences))
    texts = "\n".join(literals())
    for sentence in sentences:
        parts = [re.escape(part.strip()) for part in sentence.split("…")]
        assert re.search(".*".join(parts), texts), sentence


#: Pages that name all others.
OVERVIEWS = ("index.md", "questions.md", "evidence.md")
#: Words that a search leaves out.
COMMON = set(
    "a an and as did do does for get how i in is it made make mean my of on or that the to what which with".split()
)


def tokens(text):
    return [word.removesuffix("s") for word in re.findall(r"[a-z0-9_]+", text.lower()) if word not in COMMON]


def found_first(question, texts):
    """The page that a plain search finds first: by rare words (BM25), the title counting as twenty mentions."""
    counts = {name: Counter(tokens(text) + 20 * tokens(text.partition("\n")[0])) for name, text in texts.items()}
    mean = sum(count.total() for count in counts.values()) / len(counts)

    def score(name):
        count, total = counts[name], 0.0
        for word in set(tokens(question)):
            holding = sum(word in other for other in counts.values())
            weight = math.log(1 + (len(counts) - holding + 0.5) / (holding + 0.5))
            total += weight * count[word] * 2.2 / (count[word] + 1.2 * (0.25 + 0.75 * count.total() / mean))
        return total

    return max(counts, key=score)


def test_a_search_for_each_of_the_questions_finds_its_page_first():
    asked = re.findall(r"^\| (.+\?) \| \[[^]]+\]\((.+)\) \|$", (DOCS / "questions.md").read_text("utf-8"), re.M)
    assert len(asked) == 25
    texts = {}
    for page in SHOWN:
        name = str(page.relative_to(DOCS))
        if name not in OVERVIEWS and page.parent.name in ("docs", "howto", "tutorials"):
            texts[name] = re.sub(r"\A---\n.*?\n---\n", "", page.read_text("utf-8"), flags=re.S)
    texts["metrics/index.md"] = (DOCS / "metrics" / "index.md").read_text("utf-8")
    texts["datasets/index.md"] = (DOCS / "datasets" / "index.md").read_text("utf-8")
    wrong = [(question, page, found_first(question, texts)) for question, page in asked]
    assert not [row for row in wrong if row[1] != row[2]]


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
    assert filled.count(text.split("-->\n\n", 1)[1][:200]) == 1


def test_the_examples_of_the_page_maker_hold():
    assert doctest.testmod(pages).failed == 0


def test_the_docker_file_installs_what_the_page_of_installation_says():
    steps = [line.split(" ", 1) for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if line[0] != "#"]
    assert [name for name, _ in steps] == ["FROM", "WORKDIR", "COPY", "RUN", "WORKDIR", "CMD"]
    page = (DOCS / "install.md").read_text("utf-8")
    words = shlex.split(dict(steps)["RUN"])
    assert installed(" ".join(shlex.quote(word) for word in words if word != "--no-cache-dir"))
    assert dict(steps)["RUN"].replace("--no-cache-dir ", "") in page
    # The image has a Python that the package allows, the one that all tests run with.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.fullmatch(r"python:(\d+\.\d+)-slim", dict(steps)["FROM"])[1]
    assert project["requires-python"] == f">={version}"
