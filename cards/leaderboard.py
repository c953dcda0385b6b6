"""Renders a page that compares models: ``probes leaderboard RUN… --out leaderboard.html``.

The input is runs of scoring, and ``.eval_results`` of folders, of models on the Hub (``ORG/MODEL``), of all
models of an organisation (``ORG``), or of all models on the Hub's leaderboard of a data set (``ORG/DATASET``). The page
loads nothing from elsewhere, and can be published as a static Space.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import EvalResultEntry
from rich.console import Console

from cards import results
from cards.common.files import put_all
from cards.common.numbers import Scale, counted, supported_places
from cards.common.sentences import say
from cards.common.text import CardError, grouped, refuse_secrets, template
from cards.formats.evaluation import FOLDER, parse_entries, parse_notes, task_scores
from cards.hub import HubRefusal, add_files, explained, unreachable
from cards.overview import overview, placed
from cards.overview.model_matrix import BANDS, Cell, Column, ModelRow, matrix

#: The name of an organisation or a model of the Hub.
NAME = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")
#: The metrics of a task besides the main one: GLD, ADD, the ratio, and P(male), P(female), P(diverse).
FURTHER = ("gld", "add_raw", "ratio_male", "p_male", "p_female", "p_diverse")
_OF_SCORE = ("value", "low", "high", "metric", "ideal", "n", "clusters", "least", "most", "reading")


class Published(NamedTuple):
    """What this project declares of a metric over a published data set; ``tasks`` are those that reports show."""

    title: str
    ideal: float | None
    least: float
    most: float
    tasks: Sequence[str]


@dataclass(frozen=True, slots=True)
class Declarations:
    """What a page takes from this project; ``scoring.uploads`` has it.

    Parameters
    ----------
    checked_run:
        A run with the scores of its examples, which are in a folder.
    metric:
        What is declared of a metric by the names of its data set and its own; None where nothing is.
    changes:
        The comparison of the run in a folder with its base in another, as ``compare.json`` has it.
    datasets:
        The names of the data sets that a leaderboard of the Hub can have scores of.
    place:
        Where a score of a run lies among the published scores of real models, in a sentence; empty where none can be
        compared.
    """

    checked_run: Callable[[results.Report, Path], results.Upload]
    metric: Callable[[str, str], Published | None]
    changes: Callable[[Path, Path], Mapping[str, Any]]
    datasets: Callable[[], tuple[str, ...]]
    place: Callable[[results.Report, results.Estimate], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Cell):
    """The score of a model on a task.

    ``base`` is the model that an adapter changes. Only a run says the other facts: ``reading`` how to read the metric,
    ``name`` what the metric is called, ``group`` the group of examples,
    ``benchmark`` and ``title`` what a column of it is called, ``headline`` that it is the headline of its
    benchmark, ``revision`` what was loaded, ``parameters`` how many the model has, ``ability`` what its language
    ability is, ``restriction`` that it is at chance at language and has no rank, and ``place`` where it lies among real
    models.
    """

    model: str
    dataset: str
    task: str
    reading: str = ""
    base: str = ""
    benchmark: str = ""
    title: str = ""
    name: str = ""
    group: str = ""
    headline: bool = False
    revision: str = ""
    parameters: float = math.nan
    ability: Cell | None = None
    restriction: str = ""
    place: str = ""

    @property
    def unranked(self) -> bool:
        """Whether the model is at chance at language, or nothing is concluded from the benchmark."""
        return bool(self.restriction or self.inconclusive)


@dataclass(frozen=True, slots=True)
class TaskTable:
    """The scores of all models by one metric of one task, best first, and the range of the plot."""

    dataset: str
    task: str
    metric: str
    ideal: float | None
    entries: list[Entry]
    scale: Scale

    @property
    def key(self) -> results.Key:
        """The key of a column of the matrix."""
        return self.dataset, self.task, self.metric

    @property
    def title(self) -> str:
        """What the metric is called; its name when no run says it."""
        return _first([entry.name for entry in self.entries], self.metric)

    @property
    def reading(self) -> str:
        """How to read the metric; empty when no run says it."""
        return _first([entry.reading for entry in self.entries], "")


def _first(texts: Iterable[str], otherwise: str) -> str:
    """The first text that is not empty: entries of published results say fewer words than those of runs."""
    for text in texts:
        if text:
            return text
    return otherwise


def entries_of(path: Path, declarations: Declarations) -> Iterator[Entry]:
    """The scores of a run, or of a model with ``.eval_results``; the path may also be that folder itself.

    ``declarations`` has what this project knows of benchmarks and data sets (``scoring.uploads.DECLARATIONS``).

    Raises
    ------
    CardError
        When there are no scores, or a file cannot be read.
    """
    if folder := _published_folder(path):
        yield from _published_entries(folder, declarations)
    else:
        yield from _run_entries(declarations.checked_run(results.load(path), results.folder_of(path)), declarations)


def _published_folder(path: Path) -> Path | None:
    """The folder of published results of a path; None where the path is that of a run."""
    folder = path if path.name == FOLDER else path / FOLDER
    return folder if folder.is_dir() else None


def _run_entries(upload: results.Upload, declarations: Declarations) -> Iterator[Entry]:
    run = upload.run
    results.check(run.name, run)
    # The version of a data set says how many of its rows were scored, after a comma, where not all were.
    partial = {name.rpartition("/")[0] for name, version in run.data.items() if ", " in version}
    scores = run.by_key
    about: dict[str, Any] = {
        "model": run.name,
        "setting": run.setting,
        "revision": str(run.environment.get(results.NAMED_REVISION) or run.revision),
        "parameters": float(run.environment.get(results.PARAMETERS) or math.nan),
        "ability": language_ability(run),
        "restriction": say("lean.chance") if run.language and not run.language.speaks else "",
    }
    for benchmark in run.benchmarks:
        if benchmark not in run.headlines:
            continue
        headline = run.headlines[benchmark]
        tasks = list(task_scores(run, benchmark))
        shown = headline_group(headline, [score for _, _, score in tasks])
        for config, _, main_score in tasks:
            remark = "only a part of the rows" if f"{headline.dataset}/{config}" in partial else ""
            # A model that always names men has no correlation with the labour market, and yet a side.
            side = headline.leaning[:1] if headline.leaning and headline.leaning[0] != headline.metric else ()
            further = [scores.get((benchmark, main_score.group, metric)) for metric in dict.fromkeys((*side, *FURTHER))]
            for score in [main_score, *further]:
                # Not every benchmark has every further metric.
                if score is None or not math.isfinite(score.value):
                    continue
                is_main = score is main_score
                column = headline.column if is_main else ""
                facts = {name: getattr(score, name) for name in _OF_SCORE}
                yield Entry(
                    **facts,
                    **about,
                    remark=remark,
                    reported=benchmark in upload.reported,
                    inconclusive=run.inconclusive.get(benchmark, ""),
                    dataset=upload.dataset(benchmark),
                    task=config,
                    benchmark=benchmark,
                    title=column or score.full_name,
                    name=score.full_name,
                    group=score.group,
                    headline=is_main and score.group == shown,
                    place=declarations.place(run, score),
                )


def headline_group(headline: results.Headline, scores: Sequence[results.Estimate]) -> str:
    """The group whose score is the headline of a benchmark: the one that it names, else the first with a value."""
    groups = [score.group for score in scores if math.isfinite(score.value)]
    if headline.shown in groups:
        return headline.shown
    if not groups:
        return ""
    return groups[0]


def language_ability(run: results.Report) -> Cell | None:
    """The language ability of the model of a run; None where nothing measured it.

    It is the LMS of StereoSet, and of a run without one the share of neutral sentences that are more likely than their
    words in another order (:class:`cards.results.Language`). Of a run without both it is the first score of ability.
    """
    abilities = [score for score in run.estimates if score.ability and math.isfinite(score.value)]
    lms = [score for score in abilities if score.metric == "lms"]
    if not lms and run.language is None:
        # The last resort: any score of ability says more than none.
        lms = abilities
    if lms:
        score = lms[0]
        facts = {name: getattr(score, name) for name in _OF_SCORE if name != "reading"}
        return Cell(**facts, remark=f"{score.short_name} of {score.benchmark}")
    if run.language is None:
        return None
    remark = f"sentences preferred to their words in another order, %, of {run.language.sentences}"
    order = 100 * run.language.order
    # The sentences are not among the examples, so nobody else can compute it.
    return Cell(order, math.nan, math.nan, "order", 100.0, run.language.sentences, remark, 0.0, 100.0, reported=True)


def with_changes(entries: Sequence[Entry], folders: Sequence[Path], declarations: Declarations) -> list[Entry]:
    """Entries of runs in these folders, with their paired changes from the model alone where its run is here too.

    Both runs need their examples, from which the changes are computed.
    """
    by_revision: dict[tuple[str, str], Path] = {}
    by_name: dict[str, Path] = {}
    for entry, folder in zip(entries, folders, strict=True):
        if not entry.setting and not entry.reported:
            by_revision.setdefault((entry.model, entry.revision), folder)
            # An adapter names no revision of its base.
            by_name.setdefault(entry.model, folder)
    compared: dict[tuple[Path, Path], Mapping[results.Key, tuple[tuple[float, ...], str]]] = {}
    changed = []
    for entry, folder in zip(entries, folders, strict=True):
        name = entry.base or entry.model
        base = by_revision.get((name, entry.revision), by_name.get(name))
        if entry.setting and base and not entry.reported:
            if (folder, base) not in compared:
                compared[folder, base] = _changes(declarations.changes(folder, base))
            key = entry.benchmark, entry.group, entry.metric
            paired, said = compared[folder, base].get(key, ((), ""))
            entry = replace(entry, paired=paired, said=said)
        changed.append(entry)
    return changed


def _changes(content: Mapping[str, Any]) -> dict[results.Key, tuple[tuple[float, ...], str]]:
    """The changes of a comparison, as :attr:`Cell.paired` and :attr:`Cell.said`."""
    names = ("before", "after", "value", "low", "high", "p", "p_side")
    # The page of a comparison says of a headline what holds for the headlines, of others what holds for all.
    verdicts = {}
    for headline in content.get("headlines", []):
        verdicts[headline["benchmark"], headline["group"], headline["metric"]] = headline["verdict"]
    paired = {}
    for difference in content.get("differences", []):
        # JSON has no NaN, so an undefined number is null there.
        numbers = tuple(math.nan if difference[name] is None else float(difference[name]) for name in names)
        key = difference["benchmark"], difference["group"], difference["metric"]
        paired[key] = numbers, str(verdicts.get(key, difference["verdict"]))
    return paired


def left_out(path: Path, run: results.Report) -> Iterator[str]:
    """A sentence for each benchmark of a run that has no number which the page could show."""
    for benchmark in run.benchmarks:
        about = {"benchmark": benchmark, "path": path, "profile": run.profile}
        headline = run.headlines.get(benchmark)
        if headline is None:
            yield say("leaderboard.no_headline", **about)
        elif not any(math.isfinite(score.value) for _, _, score in task_scores(run, benchmark)):
            yield say("leaderboard.left", **about, metric=headline.metric)


def _published_entries(folder: Path, declarations: Declarations) -> Iterator[Entry]:
    files = sorted(list(folder.glob("*.yaml")) + list(folder.glob("*.yml")))
    if not files:
        raise CardError(f"{folder} has no results; give the folder of a run, or of a model with {FOLDER}.")
    for file in files:
        try:
            entries = parse_entries(file.read_text(encoding="utf-8"), str(file))
        except UnicodeDecodeError:
            raise CardError(f"{file} is not UTF-8 text; correct it first.") from None
        for entry in entries:
            yield _entry(folder.resolve().parent.name, entry, str(file), declarations)


def hub_models(name: str, api: Any, datasets: Container[str]) -> list[str]:
    """The model of the Hub of that name, all models of an organisation, or those of a leaderboard.

    A leaderboard is that of a data set, whose name is one of ``datasets``; adapters and other models with a base are
    asked for too, which the Hub's own page leaves out.

    Raises
    ------
    CardError
        When the data set has no leaderboard.
    """
    if "/" not in name:
        return sorted(model.id for model in api.list_models(author=name))
    if name.partition("/")[2] in datasets:
        return leaderboard_models(name, api)
    return [name]


def hub_results(model: str, api: Any) -> Any:
    """What the Hub says of a model: its ``.eval_results`` and the data of its card.

    Raises
    ------
    CardError
        When there is no such model.
    """
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        return api.model_info(model, expand=["evalResults", "cardData"])
    except (RepositoryNotFoundError, HFValidationError):
        raise CardError(
            f"{model} is neither a file or folder nor a model of the Hub that you may read; correct the name."
        ) from None


def hub_entries(model: str, info: Any, datasets: Container[str], declarations: Declarations) -> Iterator[Entry]:
    """The scores in the ``.eval_results`` of a model of the Hub (:func:`hub_results`).

    Parameters
    ----------
    datasets:
        The names of the data sets whose scores are taken, without their organisation; others are passed over.

    Raises
    ------
    CardError
        When a score cannot be.
    """
    base = (info.card_data or {}).get("base_model") or ""
    for entry in info.eval_results or []:
        if str(entry.dataset_id).rpartition("/")[2] in datasets:
            # The card of a model may name several bases; then it is no adapter of one.
            yield _entry(model, entry, model, declarations, base if isinstance(base, str) else "")


def leaderboard_models(dataset: str, api: Any) -> list[str]:
    """The models on the Hub's leaderboard of a data set, in order of rank.

    An entry has no task, so only the names are taken; their scores are read from the models.

    Raises
    ------
    CardError
        When the data set has no leaderboard, or the client of the Hub is too old to ask for one.
    """
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    if not hasattr(api, "get_dataset_leaderboard"):
        raise CardError(f"The installed huggingface_hub cannot ask for the leaderboard of {dataset}; update it.")
    try:
        ranked = api.get_dataset_leaderboard(dataset, base_model_only=False)
    except (RepositoryNotFoundError, HFValidationError):
        raise CardError(f"{dataset} is no data set of the Hub that you may read; correct the name.") from None
    except HfHubHTTPError as error:
        if error.response.status_code == 404:
            raise CardError(f"{dataset} has no leaderboard on the Hub yet; name models or an organisation.") from None
        raise
    # A model has an entry for each of its tasks.
    return list(dict.fromkeys(entry.model_id for entry in ranked))


def _entry(model: str, entry: EvalResultEntry, where: str, declarations: Declarations, base: str = "") -> Entry:
    value = math.nan
    try:
        # True and False are numbers in Python, but no scores.
        if isinstance(entry.value, (int, float)) and not isinstance(entry.value, bool):
            value = float(entry.value)
        shown = f"{entry.value!r:.40}"
    except (OverflowError, ValueError):  # YAML has whole numbers of any length
        value, shown = math.inf, "of too many digits"
    text = entry.notes if isinstance(entry.notes, str) else ""
    score = parse_notes(text, value) or Cell(value, math.nan, math.nan, "value", None, 0, setting=text)
    if not math.isfinite(value + score.value):
        raise CardError(f"{where} has the value {shown} for {entry.task_id}; give a number.")
    # The page of an adapter has the scores of the adapter, so the adapter's name says the setting.
    known_part = f"adapter {model}" if base else ""
    setting = ", ".join(part for part in score.setting.split(", ") if part != known_part)
    dataset = str(entry.dataset_id).rpartition("/")[2]
    task = str(entry.task_id)
    results.check_names(where, [model, dataset, task, score.metric, setting])
    known = declarations.metric(dataset, score.metric)
    # Only its owner can know a published score. Its ideal value and range are those of this project.
    cell = replace(score, setting=setting, ideal=None, least=math.nan, most=math.nan, reported=True)
    name, headline = "", False
    if known:
        cell = replace(cell, ideal=known.ideal, least=known.least, most=known.most)
        # Published results have the name of a metric in files alone, such as ``gld``.
        name = known.title
        # Reports show one task of a data set; a page of published results shows the same.
        headline = task.removesuffix("-paper") in known.tasks
    results.check_score(f"{where}: {cell.metric}", cell.numbers, (cell.least, cell.most), cell.n)
    return Entry(**asdict(cell), model=model, dataset=dataset, task=task, base=base, name=name, headline=headline)


def task_tables(entries: Iterable[Entry]) -> list[TaskTable]:
    """The entries by data set, task and metric, nearest to the ideal first."""
    groups = grouped(entries, lambda entry: (entry.dataset, entry.task, entry.metric))
    tables = []
    for key, group in sorted(groups.items()):
        dataset, task, metric = key
        ideal = group[0].ideal
        numbers = [] if ideal is None else [ideal]
        for entry in group:
            numbers += entry.numbers
        finite = [number for number in numbers if math.isfinite(number)]
        scale = Scale(min(finite), max(finite))
        # By distance and not by value: for a stereotype score both 40 and 60 are ten points from no bias.
        # A model that is at chance has no rank, so it is below the others.
        ordered = sorted(sharing_places(group), key=lambda entry: (entry.unranked, entry.distance, entry.model))
        tables.append(TaskTable(dataset, task, metric, ideal, ordered, scale))
    return tables


def sharing_places(entries: Sequence[Entry]) -> list[Entry]:
    """Entries of a column whose numbers have the same decimals: the most that an interval supports."""
    # The most and not the least: rounding would make different scores of a column look the same.
    places = _most_places(entries)
    of_ability = _most_places([entry.ability for entry in entries if entry.ability])
    shared = []
    for entry in entries:
        ability = entry.ability and replace(entry.ability, places=of_ability)
        shared.append(replace(entry, places=places, ability=ability))
    return shared


def _most_places(cells: Sequence[Cell]) -> int | None:
    """The most decimals that the intervals of cells support; None where none has one."""
    most = None
    for cell in cells:
        places = supported_places(cell.low, cell.high)
        if places is not None and (most is None or places > most):
            most = places
    return most


def matrix_rows(entries: Iterable[Entry]) -> list[ModelRow]:
    """The rows of the matrix: the scores of each model in each setting, of each revision that was loaded."""
    rows: dict[tuple[str, str, str, str], ModelRow] = {}
    cells: dict[tuple[str, str, str, str], dict[results.Key, Cell]] = {}
    for entry in entries:
        key = entry.model, entry.setting, entry.base, entry.revision
        if key not in rows:
            row = ModelRow(
                entry.model,
                entry.setting,
                entry.base,
                revision=entry.revision,
                ability=entry.ability,
                restriction=entry.restriction,
            )
            rows[key] = placed(row, entry.revision, entry.parameters)
        cells.setdefault(key, {}).setdefault((entry.dataset, entry.task, entry.metric), entry)
    return [replace(row, cells=cells[key]) for key, row in rows.items()]


def headline_columns(entries: Iterable[Entry]) -> list[Column]:
    """A column for each benchmark, with its headline in words; those of most models first.

    Of a data set that this project does not know, or without a score of its headline, it is the task of most models.
    """
    scores = list(entries)
    chosen = [entry for entry in scores if entry.headline]
    named = {entry.dataset for entry in chosen}
    others = [entry for entry in scores if entry.dataset not in named]
    for group in grouped(others, lambda entry: (entry.dataset, entry.metric)).values():
        tasks = Counter(entry.task for entry in group)
        # Of equally common tasks the first by name, so that the page does not depend on the order of sources.
        task = min(tasks, key=lambda name: (-tasks[name], name))
        chosen += [entry for entry in group if entry.task == task]
    by_key = grouped(chosen, lambda entry: (entry.dataset, entry.task, entry.metric))
    columns = [_column(key, group) for key, group in by_key.items()]
    return sorted(columns, key=lambda column: (-len(by_key[column.key]), column.note))


def _column(key: results.Key, entries: Sequence[Entry]) -> Column:
    dataset, task, metric = key
    title = _first([entry.title or entry.name for entry in entries], metric)
    benchmark = _first([entry.benchmark for entry in entries], dataset)
    ideals = [entry.ideal for entry in entries if entry.ideal is not None]
    note = benchmark
    if task != benchmark:
        note += f" {task}"
    if ideals:
        note += f", ideal {ideals[0]:g}"
    return Column(key, title, note)


def page(tables: list[TaskTable]) -> str:
    """The HTML of the page."""
    entries: list[Entry] = []
    titles: dict[results.Key, str] = {}
    for table in tables:
        entries += table.entries
        titles[table.key] = table.title
    rows = matrix_rows(entries)
    return template("leaderboard.html.j2", html=True).render(
        tables=tables,
        overview=overview(rows, headline_columns(entries)),
        matrix=matrix(rows),
        bands=BANDS,
        models=len({entry.model for entry in entries}),
        titles=titles,
        at_chance=any(entry.unranked for entry in entries),
        counted=counted,
        good=results.good_values,
    )


def publish_space(api: Any, name: str, content: bytes) -> str:
    """Publishes a page as a static Space, which is created if there is none; returns its address."""
    files = {"README.md": template("space.md").render().encode(), "index.html": content}
    return add_files(api, name, files, "Update", kind="space", space_sdk="static")


class Collected:
    """The scores of sources, and a sentence for each that is left out or shown with a restriction.

    A source that cannot be used does not end the others: it is left out with the reason.
    """

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self.entries: list[Entry] = []
        #: Of each entry the folder of its run; an empty path where it is of no run.
        self.folders: list[Path] = []
        self.sentences: list[str] = []
        self.errors: list[CardError] = []

    def add(self, where: str, entries: Iterable[Entry], folder: Path = Path()) -> None:
        """Adds all scores of a source, or none where one of them cannot be."""
        try:
            # A list first: the source is read here, and an error in it must leave none of its entries.
            added = list(entries)
            self.entries += added
            self.folders += [folder] * len(added)
        except CardError as error:
            self.errors.append(error)
            self.sentences.append(say("leaderboard.refused", where=where, error=error))

    def add_hub(self, name: str, api: Any) -> None:
        """Adds a model of the Hub, or all models of an organisation or a leaderboard.

        Raises
        ------
        CardError
            When there is no such model.
        """
        datasets = self.declarations.datasets()
        for model in hub_models(name, api, datasets):
            self.add(model, hub_entries(model, hub_results(model, api), datasets, self.declarations))

    def add_path(self, path: Path) -> None:
        """Adds a run, all runs in a folder of them, or a model with ``.eval_results``."""
        if not (path / "results.json").exists():
            for run in results.runs_in(path):
                self.add_path(run)
            if results.runs_in(path):
                return
        folder = _published_folder(path)
        if folder:
            self.add(str(path), _published_entries(folder, self.declarations))
        else:
            self.add(str(path), self._of_run(path), results.folder_of(path))

    def _of_run(self, path: Path) -> Iterator[Entry]:
        upload = self.declarations.checked_run(results.load(path), results.folder_of(path))
        # A list first, so that a run which is refused has only the sentence about that.
        entries = list(_run_entries(upload, self.declarations))
        lost = list(left_out(path, upload.run))
        self.sentences += [*upload.sentences(str(path)), *lost]
        # Without any headline a run has no place on the page, also where it has further scores.
        if len(lost) < len(upload.run.benchmarks):
            yield from entries

    def page(self) -> bytes:
        """The page of all scores.

        Raises
        ------
        CardError
            When there is none.
        """
        if not self.entries:
            # One source that is refused: its own error is clearer than a list of one sentence.
            if len(self.errors) == len(self.sentences) == 1:
                raise self.errors[0]
            nothing = "None has a score of a published task; score models with probes score."
            raise CardError(" ".join([*self.sentences, nothing]))
        entries = with_changes(self.entries, self.folders, self.declarations)
        return page(task_tables(entries)).encode()


def make(sources: Sequence[str], out: Path, space: str, declarations: Declarations) -> None:
    """Writes the page of some runs and models, and says what was left out; the command is in :mod:`scoring`."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    errors = Console(stderr=True, soft_wrap=True)
    from huggingface_hub import HfApi

    api = HfApi()
    with explained(errors, CardError):
        names = [source for source in sources if not Path(source).exists()]
        for source in names:
            if not NAME.fullmatch(source):
                raise CardError(
                    f"There is no file or folder {source}; name one, or an organisation or model of the Hub."
                )
        if names or space:
            reason = unreachable(api)
            if reason and names:
                # Without the Hub the name may as well be a path with a slip of the pen.
                raise HubRefusal(f"There is no file or folder {names[0]}. {reason}")
            if reason:
                raise HubRefusal(reason)
        collected = Collected(declarations)
        for source in sources:
            if source in names:
                collected.add_hub(source, api)
            else:
                collected.add_path(Path(source))
        content = collected.page()
        # Names and notes are of others, and the page may be published.
        refuse_secrets({out.name: content})
        put_all(out.parent, {out.name: content}, CardError)
        console.print(f"Written: {out}")
        for sentence in collected.sentences:
            console.print(sentence)
        if space:
            console.print(f"Space: {publish_space(api, space, content)}")
