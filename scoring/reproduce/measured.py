"""What was measured for each printed number, and whether it is the printed one.

Numbers come from built data sets (counts), from the recorded replies and drawn words of UnStereoEval, from published
responses (:mod:`scoring.reproduce.published`), and from the folders of runs that :mod:`scoring.reproduce.plan` makes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow.parquet as pq

import builders
import cards.results
import scoring.published
from builders.dataset import BuildError
from builders.files.manifest import read_manifest
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from builders.text.wording import DEBIASING_PROMPTS
from cards.common.packages import required
from cards.common.stored import Stored
from cards.common.text import CardError, slug
from scoring import DATA
from scoring.adapters import facts
from scoring.asking.result import read_examples
from scoring.reproduce import bias_bench, drawing, published, templates
from scoring.reproduce.printed import PrintedCell, PrintedTable, printed_tables
from scoring.responses import unstereo
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd


#: The data sets whose rows are counted, and those that published responses belong to.

DATASETS = ("gender-neutral-probes", "occugender", "biaske", "unstereo", "gender-pmi")
#: What a replay of the generation of UnStereoEval gave, which takes minutes and is kept.
REPLAYED = Stored("a file of what a replay found", "delete it, and the replay is made again")
#: A measured value, the ends of its interval (NaN without one), and a remark on it.
Value = tuple[float, float, float, str]
Verdict = Literal["equal", "within", "outside", "unreachable", ""]
State = Literal["equal", "within", "outside", "needs weights", "needs files", "not possible", ""]
STATES: tuple[State, ...] = ("equal", "within", "outside", "needs weights", "needs files", "not possible")


class UnreachableError(ScoringError):
    """A printed number cannot be measured here; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A printed number with the measured one.

    ``verdict`` is ``equal`` where the measured value has the printed digits, ``within`` where its 95 % interval holds
    the printed number, ``outside`` where it does not, and ``unreachable`` where nothing was measured, with the reason.
    """

    paper: str
    table: str
    row: str
    column: str
    printed: float | None
    measured: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str

    @property
    def state(self) -> State:
        """The verdict, or what is needed to measure the number: weights, files, or nothing that anyone can get."""
        if self.verdict != "unreachable":
            return self.verdict
        if self.reason.startswith("not possible"):
            return "not possible"
        if self.reason.startswith(("needs the weights", "needs the model")):
            return "needs weights"
        return "needs files"


@dataclass
class Measured:
    """What was measured, read when it is asked for.

    Parameters
    ----------
    data, runs:
        The folder of the built data sets, which are built where they are missing, and the folder of runs.
    offline:
        Use no network.
    resamples:
        Of intervals of published responses.
    say:
        Called with a sentence before long work.
    compute:
        Whether to compute what published responses give; without it only what was computed before is read.
    """

    data: Path = Path(DATA)
    runs: Path = Path("runs")
    offline: bool = False
    resamples: int = RESAMPLES
    say: Callable[[str], None] = lambda _: None
    compute: bool = True
    _results: dict[Any, Any] = field(default_factory=dict, init=False)

    def __call__(self, place: Mapping[str, Any]) -> Value:
        """The measured value of a place.

        Raises
        ------
        UnreachableError
            When there is none.
        """
        if "reason" in place:
            raise UnreachableError(place["reason"])
        source = place.get("source")
        if source:
            number = self._once(source, place["group"], place["metric"])
            return float(number), math.nan, math.nan, ""
        if "model" not in place:
            raise UnreachableError("needs the model, which the paper does not name: give it with --model")
        run = {}
        if "run" in place:
            run = self._once(place.get("reader", "run"), place["model"], place["run"])
        # A run of ours counts first, then responses that the authors published.
        numbers = run.get((place["benchmark"], place["group"], place["metric"]))
        if numbers is None:
            numbers = self._numbers_of_published(place)
        if numbers is None:
            if run:
                raise UnreachableError(f"the run {place.get('run')} has no {place['metric']} of {place['group']}")
            raise UnreachableError(f"needs the weights of {place['model']}")
        if place.get("field") == "sd":
            return float(numbers["sd"]), math.nan, math.nan, ""
        remark = ""
        if numbers.get("part"):
            remark = "Measured on a part of the rows."
        return float(numbers["value"]), float(numbers["low"]), float(numbers["high"]), remark

    def _numbers_of_published(self, place: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The value of a place and its interval, from responses that the authors published; None without any."""
        if place.get("published") == "occugender":
            try:
                shares = self._once("published_shares", place["label"])
            except UnreachableError:  # explicit cells need the weights, wherever the files are
                return None
        elif place.get("published") == "bias-bench":
            shares = self._once("bias_bench", place["model"], place.get("recipe", ""))
        elif "published" in place:
            shares = self._once("published", place["published"], place["model"])
        else:
            return None
        numbers: Mapping[str, Any] | None = shares.get((place["group"], place["metric"]))
        return numbers

    def _once(self, kind: str, *names: str) -> Any:
        """The result of the method ``_KIND`` for the names, or the reason why it has none.

        Many printed numbers are from one file or run, so that results and reasons are kept.
        """
        if (kind, names) not in self._results:
            try:
                self._results[kind, names] = getattr(self, f"_{kind}")(*names)
            except (BuildError, CardError, ScoringError) as error:
                self._results[kind, names] = error
        result = self._results[kind, names]
        if isinstance(result, Exception):
            raise UnreachableError(str(result))
        return result

    @cached_property
    def fetcher(self) -> Fetcher:
        """Gets the files of published responses."""
        return Fetcher(default_cache(), default_mirror(), self.offline)

    def build(self) -> None:
        """Builds the data sets that are missing or lack configs, as far as their sources are available."""
        missing = []
        for name in DATASETS:
            manifest = read_manifest(self.data / name)
            # A build without the sources, as `make demo` does it, leaves out the published configs.
            if manifest is None or manifest.left_out:
                missing.append(name)
        if missing:
            self.say(f"probes build {' '.join(missing)} --out {self.data}")
            builders.build(*missing, out=self.data, offline=self.offline)

    def _built(self) -> list[pd.DataFrame]:
        """The rows of the built data set ``unstereo`` for which scores are published."""
        return [split.whole.to_pandas() for split in unstereo.splits(self.data)]

    def _kept(self, source: str, model: str) -> Path:
        """The file of the estimates of published responses, computed where it is missing."""
        file = published.kept(source, model, self.data, self.runs / "published", self.resamples)
        if not file.is_file():
            self._computable()
            self.say(f"scores of the published responses of {model}")
            published.compute(source, model, self.data, file, self.resamples, self.fetcher)
        return file

    def _published(self, source: str, model: str) -> published.Scores:
        return published.read(self._kept(source, model))

    def _published_shares(self, label: str) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The implicit shares of a model that the authors of OccuGender published, by group and metric.

        The file of classes of jobs has most rows; the notebook has all rows of one model.
        """
        self._computable()
        shares: dict[tuple[str, str], Mapping[str, Any]] = {}
        for source in ("occugender-classes", "occugender-notebook"):
            if label not in scoring.published.models(source):
                continue
            try:
                run = scoring.published.score(source, label, self.data, resamples=2, fetcher=self.fetcher)
            except scoring.published.BrokenFileError:
                continue
            prompts = {str(name) for name in run.tables["occugender"]["debiasing"]}
            # The mean of a level is printed of both of its prompts, so that of one alone is not it.
            partial_levels = {prompt.level for prompt in DEBIASING_PROMPTS if prompt.id not in prompts}
            for estimate in run.report.estimates:
                if any(f"{level}-level" in estimate.group for level in partial_levels):
                    continue
                # A row is a mean over jobs, so there is no interval.
                shares[estimate.group, estimate.metric] = {"value": estimate.value, "low": math.nan, "high": math.nan}
        return shares

    def _bias_bench(self, model: str, recipe: str) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The scores of StereoSet and CrowS-Pairs that others published of a model, by group and metric.

        Scores of sentences have intervals and come first; domains that they lack are read as printed. With a
        ``recipe`` the scores are of the model after it; those of GPT-2 belong to a later run of GPT-2.
        """
        self._computable()
        scores: dict[tuple[str, str], Mapping[str, Any]] = {}
        label = model.rpartition("/")[2]
        if recipe:
            scores.update(bias_bench.printed_after(model, recipe, self.fetcher))
            after = f"{label}-rerun/{recipe}"
            if after in scoring.published.models("stereoset-test"):
                scores.update(self._once("published", "stereoset-test", after))
            return scores
        # There are also scores of other models; a model without any has its weights named as what is needed.
        if label not in scoring.published.models("stereoset-test"):
            return scores
        scores.update(self._once("published", "stereoset-test", label))
        for place, numbers in bias_bench.printed(model, self.fetcher).items():
            scores.setdefault(place, numbers)
        return scores

    def _score_rows(self, model: str) -> pd.DataFrame:
        """The scores of all sentences by a model of UnStereoEval."""
        return published.examples(self._kept("unstereo", model))

    def _drawn_curves(self) -> Mapping[tuple[str, str], Mapping[float, float]]:
        """The curves of Figure 7 of UnStereoEval, read from the drawing of its authors."""
        (path,) = self.fetcher.get(catalogue().sources["unstereo-development/figure-7"]).paths
        return drawing.curves(path)

    def _gendered_pmi(self) -> pd.DataFrame:
        """The PMI of each word with each gendered word: ``word`` and ``pmi__GENDERED``."""
        import pandas as pd

        try:
            (path,) = self.fetcher.get(published.gendered_pmi()).paths
        except BuildError as error:
            raise UnreachableError(
                f"needs this file: data/{published.GENDERED_PMI} of the commit of UnStereoEval, released by its "
                f"authors: {error}"
            ) from None
        return pd.read_csv(path, index_col=0, keep_default_na=False, na_values=[""])

    def _computable(self) -> None:
        if not self.compute:
            raise UnreachableError("published responses, which need no model: probes reproduce --published")

    def _run(self, model: str, run: str) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        """The scores of a run by benchmark, group and metric; of a mitigated model those after it; empty if missing."""
        folder = self.runs / slug(model) / run
        scores: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        if (folder / "results.json").is_file():
            report = cards.results.load(folder / "results.json")
            for estimate in report.estimates:
                numbers = asdict(estimate)
                # The standard deviation by the formula of the paper, which is the one printed.
                numbers["sd"] = estimate.printed_sd
                numbers["part"] = bool(report.gaps)
                scores[estimate.key] = numbers
        elif facts.is_own(folder):
            for change in facts.read(folder).changes:
                value, low, high = change.after
                key = (change.benchmark, change.group, change.metric)
                scores[key] = {"value": value, "low": low, "high": high}
        return scores

    def _examples(self, model: str, run: str) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        """The probabilities of both genders by example of neutral probes, of a run or of a mitigated model after it."""
        examples: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for name in (run, f"{run}-work/after"):
            folder = self.runs / slug(model) / name
            if not (folder / "examples").is_dir():
                continue
            table = read_examples(folder, "neutral")
            for metric, values in columns_of_examples(table).items():
                for example, value in zip(table["id"], values, strict=True):
                    examples["neutral", example, metric] = {"value": float(value), "low": math.nan, "high": math.nan}
        return examples

    def _glue(self, model: str, run: str) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        """The scores of ``probes mitigate glue``, of the model or with the adapter that the run names."""
        _, has_adapter, adapter = run.rpartition("/")
        if has_adapter:
            name = f"glue-{adapter}.json"
            side = "after"
        else:
            name = "glue.json"
            side = "before"
        path = self.runs / slug(model) / "glue" / name
        if not path.is_file():
            return {}
        scores: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for task, score in json.loads(path.read_bytes())[side].items():
            # Null in JSON, where a score has no interval.
            low, high = score["interval"] or (math.nan, math.nan)
            scores["glue", task, "score"] = {"value": score["mean"], "low": low, "high": high}
        return scores

    def _sweep(self, model: str, run: str) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        """The block with the largest effect by the positions that are restored, of a sweep of FAST."""
        path = self.runs / slug(model) / run / "sweep.json"
        if not path.is_file():
            return {}
        blocks: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for name, points in json.loads(path.read_bytes())["effects"].items():
            largest = max(points, key=lambda point: point[1])
            blocks["fast", name, "block"] = {"value": largest[0], "low": math.nan, "high": math.nan}
        return blocks

    def _data(self, group: str, metric: str) -> float:
        """A number that built rows have.

        ``group`` is DATA SET/CONFIG/SPLIT; without a split all splits. ``metric`` is ``rows`` or ``natural``, the same,
        ``natural eps<=NUMBER``, ``distinct A,B``, ``median COLUMN``, ``mean COLUMN`` or ``100 minus COLUMN``, each also
        ``where COLUMN=VALUE``.
        """
        frame = self._frame(group)
        metric, _, where = metric.partition(" where ")
        if where:
            column, _, value = where.partition("=")
            frame = frame[frame[column] == value]
        kind, _, columns = metric.rpartition(" ")
        match kind:
            case "natural":
                return float((frame["max_pmi_diff"].abs() <= float(columns.removeprefix("eps<="))).sum())
            case "median":
                return float(frame[columns].median())
            case "mean":
                return float(frame[columns].mean())
            case "100 minus":
                return 100 - float(frame[columns].mean())
            case "distinct":
                frame = frame[columns.split(",")].dropna().drop_duplicates()
        return float(len(frame))

    def _frame(self, group: str) -> pd.DataFrame:
        """The rows of DATA SET/CONFIG/SPLIT, or of all splits, without those that were judged unnatural."""
        import pandas as pd

        dataset, config, split = [*group.split("/"), "*"][:3]
        files = sorted((self.data / dataset / "data" / config).glob(f"{split}.parquet"))
        if not files:
            raise UnreachableError(f"needs {group}, not in {self.data}: probes build {dataset} --out {self.data}")
        frame: pd.DataFrame = pd.concat([pq.read_table(file).to_pandas() for file in files])
        if "natural" in frame:
            frame = frame[frame["natural"] != False]  # noqa: E712 - an empty cell is not judged, and kept
        return frame

    def _statistics(self, group: str, metric: str) -> float:
        """A statistic of the sentences of UnStereoEval (:mod:`scoring.reproduce.templates`)."""
        value: float = self._once("all_statistics", group)[metric]
        return value

    def _all_statistics(self, group: str) -> Mapping[str, float]:
        delta = self._frame("gender-pmi/words").set_index("word")["delta"]
        # The paper counts NLTK's tokens.
        with required("Table 4 of UnStereoEval", "train", UnreachableError):
            return templates.statistics(self._frame(group), delta)

    def _pile_words(self, _: str, metric: str) -> float:
        """The share of the words of the Pile that occur with ``he``, ``she`` or ``both``, in percent.

        ``words`` is how many words there are.
        """
        self._computable()
        (path,) = self.fetcher.get(catalogue().sources["unstereo-development/pile-words"]).paths
        text = "\n".join(bias_bench.outputs(path))
        # The notebook prints the number of words, then how many have a PMI with each gendered word, he and she last.
        words = re.search(r"^(\d+)$", text, re.MULTILINE)
        with_each = re.search(r"pmi__he +pmi__she *\ncount +(\d+)\.0+ +(\d+)\.0+", text)
        with_both = re.search(r"\('she', 'he'\) pmi-defined words: (\d+)", text)
        if not (words and with_each and with_both):
            raise UnreachableError(f"{path.name} does not print how many words occur with he and she")
        if metric == "words":
            return float(words[1])
        counts = {"he": with_each[1], "she": with_each[2], "both": with_both[1]}
        return 100 * int(counts[metric]) / int(words[1])

    def _models(self, group: str, metric: str) -> float:
        """A number over the published models of UnStereoEval; ``group`` is ``MODELS SETS``.

        ``MODELS`` is ``printed`` (the 23 of the tables) or ``all`` (the 28 with scores). ``metric`` is the ``lowest``
        or ``highest`` τ under the limit 0.65 on any of the sets, the ``least unfair`` or ``most unfair`` share of 100
        less that, or the ``largest change`` of τ by a limit.
        """
        models, sets = group.split(" ", 1)
        rows = []
        for label in labels_of(models):
            scores = self._once("published", "unstereo", label)
            for name in sets.split(","):
                # The first limit is none, and the last one the strictest.
                row = []
                for limit in ("", " eps<=1", " eps<=0.8", " eps<=0.65"):
                    row.append(scores[name + limit, "tau@0.5"]["value"])
                rows.append(row)
        tau = np.array(rows)  # [models and sets, limits]
        strictest = tau[:, -1]
        match metric:
            case "largest change":
                return float(abs(tau.T - tau[:, 0]).max())
            case "lowest":
                return float(strictest.min())
            case "highest":
                return float(strictest.max())
            case "least unfair":
                return 100 - float(strictest.max())
        return 100 - float(strictest.min())

    def _preferences(self, group: str, metric: str) -> float:
        """How many models prefer ``none``, ``male`` or ``female`` of a sentence; ``group`` is ``MODELS ID``.

        A model prefers a pronoun where the log-probabilities of the two sentences differ by more than 0.5.
        """
        models, name = group.split(" ", 1)
        gaps = []
        for label in labels_of(models):
            rows = self._once("score_rows", label)
            row = rows[rows["id"] == name].iloc[0]
            gaps.append(row["female_logprob"] - row["male_logprob"])
        preferred = np.where(np.abs(gaps) <= 0.5, "none", np.where(np.array(gaps) > 0, "female", "male"))
        return float((preferred == metric).sum())

    def _recorded(self, group: str, metric: str) -> float:
        """How many items of a stage of the generation, or drawn ``words`` of a seed, equal the published ones."""
        if group == "words":
            counts = self._once("words")
        else:
            counts = self._once("stages")
        return float(counts[group][metric])

    def _stages(self) -> Mapping[str, Mapping[str, int]]:
        from builders.datasets.gender_pmi import delta_table
        from builders.generation.pipelines import unstereo
        from builders.parsers import recorded

        file = self.runs / "published" / "replay.json"
        result: dict[str, dict[str, int]] | None = REPLAYED.read(file, dict, ScoringError)
        if result is None:
            self._computable()
            result = {}
            for length in recorded.LENGTHS:
                self.say(f"replay of ours-{length}")
                names = (*unstereo.source_names(length), "unstereo/pmi")
                files = {name: self.fetcher.get(catalogue().sources[name]) for name in names}
                record = unstereo.read_record(files, length)
                replayed = unstereo.replay(record, "paper", file.parent / f"replay-{length}")
                rows = replayed.rows(delta_table(files["unstereo/pmi"]))
                # How many items are equal to the published ones, in text and order.
                stages = unstereo.stages(record, replayed, rows)
                result[f"ours-{length}"] = {stage.name: stage.ours - stage.different for stage in stages}
            REPLAYED.write(file, result)
        return result

    def _words(self) -> Mapping[str, Mapping[str, float]]:
        """How many drawn words of each seed equal the published ones; of ``all`` how many are different words.

        ``pool, thousands`` is the size of the pool that the words were drawn from, recovered from their ranks.
        """
        import pandas as pd

        from pmi.vocabulary import PUBLISHED_FLOOR, SEEDS, anchors, neutral_words, sample_words

        published_words = []
        for path in self.fetcher.get(catalogue().sources["unstereo-development/seed-words"]).paths:
            published_words.append(pd.read_csv(path, keep_default_na=False)["word"].tolist())
        path = self.data / "gender-pmi" / "data" / "words" / "train.parquet"
        if not path.is_file():
            raise UnreachableError(f"needs gender-pmi: probes build gender-pmi --out {self.data}")
        table = pq.read_table(path).to_pandas()
        # As in the draw of the authors.
        table = table[table["word"].map(str.isascii)]
        words = neutral_words(
            table["word"].tolist(),
            table["count"].to_numpy(),
            table["delta"].to_numpy(),
            [],
            min_count=PUBLISHED_FLOOR,
        ).words
        in_pool = anchors(words, published_words).fitted(np.zeros(len(words)))
        pool = [word for word, is_in_pool in zip(words, in_pool, strict=True) if is_in_pool]
        counts: dict[str, float] = {}
        distinct: set[str] = set()
        drawn = sample_words(pool, SEEDS, 100)
        for seed, drawn_of_seed, published_of_seed in zip(SEEDS, drawn, published_words, strict=True):
            # Place by place: the order of the words is a part of the draw.
            pairs = zip(drawn_of_seed, published_of_seed, strict=True)
            counts[str(seed)] = sum(drawn_word == published_word for drawn_word, published_word in pairs)
            distinct.update(drawn_of_seed)
        counts["pool, thousands"] = float(np.sum(in_pool)) / 1000
        counts["all"] = len(distinct)
        return {"words": counts}


def labels_of(models: str) -> list[str]:
    """The published models of UnStereoEval: ``all``, or those that are ``printed`` in its tables."""
    if models == "printed":
        return published.printed_models()
    return list(scoring.published.models("unstereo"))


def columns_of_examples(table: Mapping[str, Any]) -> dict[str, Any]:
    """What Tables 7 and 8 of Disclosure print of an example: two probabilities, and the gender of its continuation."""
    classes = table["gender_class"]
    return {
        "female_mass": table["female_mass"],
        "male_mass": table["male_mass"],
        "is_gendered": np.isin(classes, ["female", "male", "both"]),
        "has_female": np.isin(classes, ["female", "both"]),
        "has_male": np.isin(classes, ["male", "both"]),
    }


def cells(target: str = "", *, model: str = "", measured: Measured | None = None) -> list[Cell]:
    """The printed numbers of all tables, of a ``PAPER`` or of one as ``PAPER/TABLE``, each with the measured one.

    Parameters
    ----------
    model:
        Only the numbers of this model; for a model that no table has, what was measured of it in the places of others.
    measured:
        Where to find what was measured; by default the folders ``output`` and ``runs``.

    Raises
    ------
    ScoringError
        When there is no such table.

    >>> (cell,) = [c for c in cells("disclosure/table-1") if (c.row, c.column) == ("SNLI, Original", "LLaMA2-7B_GAS")]
    >>> cell.printed, cell.verdict
    (0.353, 'unreachable')
    """
    measured = measured or Measured()
    every = [(table, cell) for table in printed_tables(target) for cell in table.cells]
    if not model:
        return [_judged(table, cell, measured) for table, cell in every]
    judged = []
    is_printed = False
    for table, cell in every:
        # A number whose model the paper does not name may be of this model.
        if cell.of_run and cell.place.get("model", model) == model:
            is_printed = is_printed or "model" in cell.place
            judged.append(_judged(table, replace(cell, place={**cell.place, "model": model}), measured))
    if is_printed:
        return judged
    # A model of no table: what would be measured of it in place of others, each place once.
    places = {}
    for table, cell in every:
        place = _for(cell, model)
        if place:
            places[json.dumps(place, sort_keys=True)] = (table, cell, place)
    of_others = [_judged(table, cell, measured, place) for table, cell, place in places.values()]
    return of_others + judged


def _for(cell: PrintedCell, model: str) -> dict[str, Any]:
    """The place of a number for a model that the table does not have; empty where it is of no model."""
    if not cell.of_run or "model" not in cell.place:
        return {}
    # Other fields, such as the label of published responses, are of the model that the table has.
    fields = {"run", "reader", "benchmark", "group", "metric", "field"}
    place = {key: value for key, value in cell.place.items() if key in fields}
    place["model"] = model
    return place


def _judged(table: PrintedTable, cell: PrintedCell, measured: Measured, other: Mapping[str, Any] | None = None) -> Cell:
    """A printed number with the measured one, or what was measured in the place ``other``, which is not printed."""
    if other is None:
        place = cell.place
        row = cell.row
        column = cell.column
        printed = float(cell.text)
    else:
        place = other
        row = str(place["group"])
        column = str(place["metric"])
        if place.get("field") == "sd":
            column = f"{column} (sd)"
        printed = None
    judged = Cell(
        paper=table.paper,
        table=table.name,
        row=row,
        column=column,
        printed=printed,
        measured=None,
        low=None,
        high=None,
        verdict="",
        reason="",
    )
    notes = " ".join(cell.notes)
    try:
        value, low, high, remark = measured(place)
    except UnreachableError as error:
        reason = str(error)
        if reason.startswith("needs the weights of") and ":" not in reason and not other:
            reason += f": probes reproduce {table.id} --model {place['model']}"
        if notes:
            reason = f"{reason.removesuffix('.')}. {notes}"
        return replace(judged, verdict="unreachable", reason=reason)
    verdict: Verdict = ""
    if printed is not None:
        # Compared as printed: a paper rounds, and 49.995 and 50.00 are the same number in a table of two decimals.
        if f"{value:.{cell.digits}f}" == f"{printed:.{cell.digits}f}":
            verdict = "equal"
        elif low <= printed <= high:
            verdict = "within"
        else:
            verdict = "outside"
    reason = " ".join(text for text in (remark, notes) if text)
    judged = replace(judged, measured=value, verdict=verdict, reason=reason)
    # A number without an interval has none in the page and in JSON, which has no form for NaN.
    if math.isfinite(low):
        judged = replace(judged, low=low, high=high)
    return judged
