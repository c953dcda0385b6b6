"""Parts of the documentation pages that are in the registries already: metrics, benchmarks, data sets, recipes.

``mkdocs.yml`` names this file as a hook. A line such as ``<!-- metric facts -->`` in a page is replaced by a table
when the site is built, so no fact is written twice. ``python -m tools.docs.pages`` writes the lists of :data:`LISTED`
into the pages themselves, for readers without the site. The front matter of a page says what it is about: ``metrics``
maps benchmarks to names of metrics, and ``dataset`` is the name of a data set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml

import probes
from builders import datasets
from builders.dataset import Config
from builders.sources.catalogue import catalogue
from mitigation import recipes
from scoring import benchmarks
from scoring.types import Benchmark, Metric

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
METRIC_PAGES = ROOT / "docs" / "metrics"
DATASET_PAGES = ROOT / "docs" / "datasets"
#: Pages that have their lists also without the site; ``python -m tools.docs.pages`` writes them.
LISTED = (
    METRIC_PAGES / "index.md",
    ROOT / "docs" / "metrics-list.md",
    DATASET_PAGES / "index.md",
    ROOT / "docs" / "recipes.md",
)
#: The list of the pages that are neither in the navigation nor in the search.
EVIDENCE = ROOT / "docs" / "evidence.md"
#: Files at the root of the project that are pages of the site too.
ROOT_PAGES = ("CHANGELOG.md", "SECURITY.md")
PROFILES = ("clean", "paper")
Meta = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Use:
    """A metric in a benchmark: the profiles that report it, and whether it needs two runs."""

    metric: Metric
    profiles: tuple[str, ...]
    of_two_runs: bool


def metric_uses(benchmark: Benchmark) -> dict[str, Use]:
    """The metrics of a benchmark by name, in the order of its reports."""
    uses: dict[str, Use] = {}
    for of_two_runs, metrics in ((False, benchmark.metrics), (True, benchmark.agreements)):
        for profile in PROFILES:
            for metric in metrics(profile):
                known = uses.get(metric.name)
                profiles = (*known.profiles, profile) if known else (profile,)
                uses[metric.name] = Use(known.metric if known else metric, profiles, of_two_runs)
    return uses


def front_matter(page: Path) -> Meta:
    """The front matter of a page; empty if it has none."""
    text = page.read_text(encoding="utf-8")
    results = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    meta: Meta = yaml.safe_load(results[1]) if results else {}
    return meta


def pages_of_metrics() -> dict[tuple[str, str], list[str]]:
    """The names of the pages about each pair of a benchmark and a metric."""
    pages: dict[tuple[str, str], list[str]] = {}
    for path in sorted(METRIC_PAGES.glob("*.md")):
        for benchmark, names in front_matter(path).get("metrics", {}).items():
            for name in names:
                pages.setdefault((benchmark, name), []).append(path.name)
    return pages


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; cells may hold Markdown."""
    lines = [list(header), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def cell(text: str) -> str:
    r"""Text in one cell of a table.

    >>> print(cell("|x|"))
    \|x\|
    """
    return " ".join(text.split()).replace("|", "\\|")


def number(value: float | None) -> str:
    """A number of a range or an ideal value.

    >>> number(None), number(-math.inf), number(0.5), number(math.log(2))
    ('none', 'no limit', '0.5', '0.6931')
    """
    if value is None:
        return "none"
    return f"{value:.4g}" if math.isfinite(value) else "no limit"


def _range(metric: Metric) -> str:
    return f"{number(metric.low)} to {number(metric.high)}"


def metric_facts(meta: Meta) -> str:
    """Ideal value, range, benchmarks, profiles and reading of the metrics of a page."""
    rows: list[tuple[str, ...]] = []
    readings: dict[str, None] = {}
    for name, metrics in meta["metrics"].items():
        uses = metric_uses(benchmarks.get(name))
        for metric_name in metrics:
            use = uses[metric_name]
            runs = "two" if use.of_two_runs else "one"
            ideal = number(use.metric.ideal)
            rows.append((f"`{metric_name}`", ideal, _range(use.metric), f"`{name}`", ", ".join(use.profiles), runs))
            readings[f"- `{metric_name}`: {use.metric.reading}"] = None
    facts = table(("metric", "ideal", "range", "benchmark", "profiles", "runs"), rows)
    return f"{facts}\nWhat a report says:\n\n" + "\n".join(readings) + "\n"


def metric_list(_: Meta) -> str:
    """A table per benchmark, whose metrics are links to their pages."""
    pages = pages_of_metrics()
    return "\n".join(
        f"### {name}\n\n{benchmark.summary}\n\n"
        + table(
            ("metric", "ideal", "range", "profiles"),
            (
                (
                    f"[`{metric}`](metrics/{pages[name, metric][0]})" if (name, metric) in pages else f"`{metric}`",
                    number(use.metric.ideal),
                    _range(use.metric),
                    ", ".join(use.profiles),
                )
                for metric, use in metric_uses(benchmark).items()
            ),
        )
        for name, benchmark in _benchmarks()
    )


def _linked(dataset: str) -> str:
    """The name of a data set with its page; a benchmark may have rows of its own, which have no page."""
    if dataset in datasets.names():
        return f"[{dataset}](../datasets/{dataset}.md)"
    return dataset


def benchmark_list(_: Meta) -> str:
    """The benchmarks with their data, models, clusters and headline metric."""
    return table(
        ("benchmark", "data set", "models", "examples resampled together", "headline"),
        (
            (
                f"`{name}`",
                ", ".join(_linked(item) for item in _data_of(benchmark)),
                ", ".join(benchmark.kinds),
                f"of one `{benchmark.cluster}`",
                f"`{benchmark.headline.metric}`" if benchmark.headline else "none",
            )
            for name, benchmark in _benchmarks()
        ),
    )


def _benchmarks() -> Iterator[tuple[str, Benchmark]]:
    for name in benchmarks.names():
        yield name, benchmarks.get(name)


def _data_of(benchmark: Benchmark) -> tuple[str, ...]:
    return tuple(dict.fromkeys(dataset for dataset, _, _ in benchmark.configs))


def dataset_list(_: Meta) -> str:
    """The data sets with their title, version, licences and benchmarks."""
    used = {name: _data_of(benchmark) for name, benchmark in _benchmarks()}
    return table(
        ("data set", "title", "version", "benchmarks", "licences"),
        (
            (
                f"[{name}]({name}.md)",
                datasets.get(name).title,
                datasets.get(name).version,
                ", ".join(f"`{benchmark}`" for benchmark, data in used.items() if name in data) or "none",
                ", ".join(sorted({config.licence for config in datasets.get(name).configs})),
            )
            for name in datasets.names()
        ),
    )


def dataset_summary(meta: Meta) -> str:
    """What a data set is."""
    return datasets.get(meta["dataset"]).summary


def dataset_facts(meta: Meta) -> str:
    """Configs, columns, meaning of scores, differences, sources, licences and citations of a data set."""
    data, known = datasets.get(meta["dataset"]), catalogue()
    configs = table(
        ("config", "splits", "licence", "content"),
        ((f"`{c.name}`", ", ".join(c.splits), c.licence, cell(c.summary)) for c in data.configs),
    )
    columns = table(("config", "columns"), ((f"`{c.name}`", _columns(c)) for c in data.configs))
    sources = dict.fromkeys(name for config in data.configs for name in config.sources)
    licences = sorted({c.licence for c in data.configs} | {known.sources[name].licence for name in sources})
    cited = {key for config in data.configs for key in config.cite} | {known.sources[name].citation for name in sources}
    sections = {
        f"Configs of version {data.version}": configs,
        "Columns": f"Every row also has `id`, `language` and where it is from.\n\n{columns}",
        "What a score means, and what it does not mean": data.validity,
        "Differences from the papers and sources": _bullets(data.differences),
        "What this project wrote, and how": _bullets(data.written),
        "Sources": table(
            ("source", "licence", "address of the first choice"),
            (
                (name, known.sources[name].licence, "<br>".join(f"<{r.url}>" for r in _first_files(name)))
                for name in sources
            ),
        )
        if sources
        else "",
        "Licences": _bullets(
            f"{key}: [{known.licences[key].name}]({known.licences[key].url})"
            + ("" if known.licences[key].redistribute else ". Rows under it are built by each user, not published")
            + "."
            for key in licences
        ),
        "Citation": "\n".join(f"```bibtex\n{known.citations[key].strip()}\n```\n" for key in sorted(cited)),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items() if text)


def _columns(config: Config) -> str:
    return ", ".join(f"`{column.name}`" for column in config.columns)


def _first_files(source: str) -> tuple[Any, ...]:
    return catalogue().sources[source].alternatives[0].files


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def recipe_list(_: Meta) -> str:
    """The recipes, each with the place that other pages link to; on the site it is a link to the recipe's page."""
    return table(
        ("recipe", "what it does", "models"),
        (
            (f'<span id="{name}"></span>{name}', cell(recipe.summary), ", ".join(recipe.kinds))
            for name, recipe in ((name, recipes.get(name)) for name in recipes.names())
        ),
    )


def setting_cell(value: object) -> str:
    """The cell of a setting; code without text would take the border of the table as its text.

    >>> setting_cell(0.5), setting_cell("")
    ('`0.5`', '–')
    """
    text = str(value)
    return f"`{text}`" if text else "–"


def recipe_page(name: str) -> str:
    """The page of a recipe: its source, kinds of models and settings in both profiles."""
    recipe = recipes.get(name)
    settings = table(
        ("setting", "clean", "paper", "what it does", "source of the default"),
        (
            (
                f"`{field.name}`",
                *(setting_cell(getattr(recipe.profiles[profile], field.name)) for profile in PROFILES),
                cell(field.metadata["help"]),
                cell(field.metadata["source"]),
            )
            for field in fields(recipe.profiles["clean"])
        ),
    )
    about = f"{recipe.summary}\n\nSource: {recipe.source}. Models: {', '.join(recipe.kinds)}."
    command = f"```bash\nprobes mitigate {name} MODEL --out FOLDER\n```"
    back = "[All recipes](../recipes.md), and how to use what they make"
    # The page of published answers has rows of some recipes.
    if f"recipes.md#{name})" in (ROOT / "docs" / "recipes-real.md").read_text(encoding="utf-8"):
        about += " What it did to real models, by answers of others: [a table](../recipes-real.md)."
    # The page has no headings to list, so the table gets their place.
    return f"---\nhide: [toc]\n---\n# {name}\n\n{about}\n\n{command}\n\n{settings}\n\n{back}.\n"


def option_rows(command: Any) -> Iterator[tuple[str, str]]:
    """The arguments and options of a command, each with its help, in the order of ``--help``."""
    for parameter in command.params:
        # The help of an option is missing where it is not for users.
        text = getattr(parameter, "help", None)
        if text and not getattr(parameter, "hidden", False):
            names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
            if not parameter.opts[0].startswith("-"):
                names = f"`{parameter.metavar or parameter.name.upper()}`"
            yield names, cell(text)


def command_part(name: str, command: Any) -> str:
    """A command with its summary and a table of its options; of a group of commands, those of each but recipes."""
    if hasattr(command, "commands"):
        later = {key: entry.module for key, entry in probes.SUBCOMMANDS.get(command.name, {}).items()}
        parts = []
        for key in sorted({*command.list_commands(None), *later} - set(recipes.names())):
            if key in later:
                part = typer.main.get_command(import_module(later[key]).app)
            else:
                part = command.get_command(None, key)
            parts.append(command_part(f"{name} {key}", part))
        return "\n\n".join(parts)
    # Typer marks the end of the first paragraph by two line ends.
    summary = " ".join((command.help or "").split("\n\n")[0].split())
    rows = list(option_rows(command))
    listed = table(("option", "what it does"), rows) if rows else ""
    return f"## {name}\n\n{summary}\n\n{listed}".rstrip()


def cli_page() -> str:
    """The page of all commands with their options, from the commands themselves."""
    parts = "\n\n".join(command_part(f"probes {name}", probes.imported(name)) for name in probes.COMMANDS)
    about = (
        "All commands and their options. `probes COMMAND --help` prints the same. `probes mitigate RECIPE` has the "
        "settings of the [recipe](../recipes.md) as options."
    )
    # Options are looked up by name: other pages come first in the search.
    return (
        f"---\nsearch:\n  boost: 0.2\n---\n# All options\n\n{about}\n\n{parts}\n\nNext: [commands](../commands.md).\n"
    )


def linked(markdown: str, page: str) -> str:
    """A page whose links to a recipe of the list, which are links to a part of it, go to the recipe's own page.

    >>> linked("[a](#fast) [b](../recipes.md#fast) [c](recipes.md#all-recipes)", "recipes.md")
    '[a](recipes/fast.md) [b](../recipes/fast.md) [c](recipes.md#all-recipes)'
    """
    names = "|".join(recipes.names())
    listed = page in ("recipes.md", "recipes-measured.md", "recipes-bundled.md", "recipes-real.md")
    whole = r"(?:recipes\.md)?" if listed else r"recipes\.md"
    markdown = re.sub(rf'<span id="({names})"></span>\1', r"[\1](recipes/\1.md)", markdown)
    return re.sub(rf"\]\(((?:\.\./)*){whole}#({names})\)", r"](\1recipes/\2.md)", markdown)


def docstring_markdown(docstring: str) -> str:
    """A docstring of this project as Markdown: examples become code blocks, and roles become code.

    >>> docstring_markdown("One of :data:`FORMS`, as in::")
    'One of `FORMS`, as in:'
    >>> docstring_markdown(">>> 1 + 1" + chr(10) + "2").splitlines()
    ['```pycon', '>>> 1 + 1', '2', '```']
    """
    text = re.sub(r":\w+:`~?\.?([\w.]+)`", r"`\1`", docstring)
    # An example goes from >>> to the next empty line.
    text = re.sub(r"^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", text, flags=re.MULTILINE)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


PARTS: Mapping[str, Callable[[Meta], str]] = {
    "metric facts": metric_facts,
    "metric list": metric_list,
    "benchmark list": benchmark_list,
    "dataset list": dataset_list,
    "dataset summary": dataset_summary,
    "dataset facts": dataset_facts,
    "recipe list": recipe_list,
    # Pages that only the site has.
    "link of real models": lambda _: (
        "[One table of all](real-models/index.html) can be sorted, and each model has a page of its own.\n"
    ),
    "link of trends": lambda _: "[The trends of published answers](models/trends.html) have the same picture.\n",
}


def navigation(nav: list[Any]) -> list[Any]:
    """The navigation of ``mkdocs.yml`` with the pages of metrics by benchmark, of data sets and of recipes."""
    sections: dict[str, list[str]] = {name: [] for name in benchmarks.names()}
    for path in sorted(set(METRIC_PAGES.glob("*.md")) - {METRIC_PAGES / "index.md"}):
        sections[next(iter(front_matter(path)["metrics"]))].append(f"metrics/{path.name}")
    more = {
        "Metrics": [{name: pages} for name, pages in sections.items() if pages],
        "Data sets": [f"datasets/{name}.md" for name in datasets.names()],
        "Recipes": [{"Each recipe": [f"recipes/{name}.md" for name in recipes.names()]}],
    }
    parts = ((title, part) for section in nav for title, part in section.items())
    return [{title: [part[0], *more[title], *part[1:]] if title in more else part} for title, part in parts]


def evidence() -> list[str]:
    """The pages that the tables of :data:`EVIDENCE` list."""
    return re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|", EVIDENCE.read_text(encoding="utf-8"), re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills in the navigation, and allows the pages of evidence to be out of it; called by mkdocs."""
    from pathspec.gitignore import GitIgnoreSpec

    config.nav = navigation(config.nav or [])
    config.not_in_nav = GitIgnoreSpec.from_lines(f"/{page}" for page in evidence())
    return config


def fill(markdown: str, meta: Meta) -> str:
    """A page whose lines ``<!-- NAME -->`` are replaced by the part of that name, with what is there up to its end.

    >>> fill("<!-- nothing here -->", {})
    '<!-- nothing here -->'
    """
    names = "|".join(PARTS)
    part = rf"^<!-- ({names}) -->$(?:(?:(?!^<!--).)*^<!-- end of \1 -->$)?"
    return re.sub(part, lambda results: PARTS[results[1]](meta), markdown, flags=re.MULTILINE | re.DOTALL)


def written(page: Path) -> str:
    """A page with its lists as they are now, between their marks, so that they are there without the site too."""
    text = page.read_text(encoding="utf-8")
    for name, part in PARTS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if end in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{part({}).strip()}\n\n{end}{rest.split(end)[1]}"
    return text


def main() -> None:
    """Writes the lists of the pages that have marks for them: ``python -m tools.docs.pages``."""
    for page in LISTED:
        page.write_text(written(page), encoding="utf-8")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fills in the parts from the registries, and takes evidence out of the search; called by mkdocs."""
    del config, files
    if page.file.src_uri in evidence():
        page.meta["search"] = {"exclude": True}
    return linked(fill(markdown, page.meta), page.file.src_uri)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML, which browsers show without a script; called by mkdocs."""
    from latex2mathml.converter import convert

    del page, config, files

    def formula(results: re.Match[str]) -> str:
        return convert(unescape(results[3]), display="block" if results[1] == "div" else "inline")

    return re.sub(r'<(div|span) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', formula, html, flags=re.DOTALL)


def loaded_from_elsewhere(html: str) -> list[str]:
    """Addresses of other hosts from which a page loads scripts, styles, fonts or images.

    >>> loaded_from_elsewhere('<a href="https://a.org">a</a> <script src="https://b.org/x.js"></script>')
    ['https://b.org/x.js']
    """
    return re.findall(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"' >]+)""", html)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuses a page that loads something from another host; called by mkdocs."""
    from mkdocs.exceptions import PluginError

    del config
    if others := loaded_from_elsewhere(output):
        raise PluginError(f"{page.file.src_uri} loads {others[0]}; the site must work without network.")
    return output


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages of the root, of each recipe, of all options and of real models; called by mkdocs."""
    from mkdocs.structure.files import File

    from tools.real_models import trends
    from tools.real_models.page import files as model_files
    from tools.real_models.scores import read, read_examples

    for name in recipes.names():
        files.append(File.generated(config, f"recipes/{name}.md", content=recipe_page(name)))

    files.append(File.generated(config, "reference/cli.md", content=cli_page()))
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    collected = read()
    read_examples(collected)
    for name, content in model_files(collected).items():
        files.append(File.generated(config, f"real-models/{name}", content=content))
    content = trends.page([*trends.steps(), *trends.sizes()])
    files.append(File.generated(config, "models/trends.html", content=content))
    return files


if __name__ == "__main__":
    main()
