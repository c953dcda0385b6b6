"""The result of a run as Python objects: tables as DataFrames, its files, and the comparison with another run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import cards.results
from cards.common.draw import glance_html, one_line
from cards.common.files import RECORD, is_damaged
from cards.common.options import checked, in_python
from scoring import benchmarks, report
from scoring.asking.estimates import as_asked, by_clusters, with_computed
from scoring.inputs.columns import from_arrow
from scoring.report.headlines import Comparison, described, headline_scores, ranked
from scoring.report.real_models import among, place
from scoring.report.summary import COLUMNS, latex, lines_of
from scoring.statistics.stats import RESAMPLES, Item, compare, corrected, measure
from scoring.types import BY_OTHERS, Benchmark, Difference, Estimate, Group, Report, ScoringError, Table

if TYPE_CHECKING:
    import pandas as pd


#: The prefix of the columns of the base in the joined table.
BASE = "base_"


def paired(
    reports: tuple[Report, Report], tables: tuple[Mapping[str, Table], Mapping[str, Table]], resamples: int = RESAMPLES
) -> Comparison:
    """Every metric of a run minus that of its base, and their agreements, for the benchmarks that both have.

    The p-values are corrected for all differences of all benchmarks together.

    Parameters
    ----------
    reports, tables:
        The report and the tables of examples by benchmark, of the run and of its base.

    Raises
    ------
    ScoringError
        When the runs cannot be compared: other data, profile, examples or version of a benchmark.
    """
    differences: list[Difference] = []
    agreements: list[Estimate] = []
    shared = _shared(*reports)
    for name in shared:
        if name not in tables[0] or name not in tables[1]:
            raise ScoringError(
                f"A run has scores of {name} and no examples, so there is no paired comparison; probes leaderboard "
                "compares such runs as independent ones."
            )
        # Sampled answers and published responses have groups and metrics of their own.
        benchmark = as_asked(benchmarks.get(name), reports[0])
        for run in reports:
            version = run.environment.get(f"benchmark {benchmark.name}", benchmark.version)
            if version != benchmark.version:
                raise ScoringError(
                    f"A run of {run.model} used version {version} of the benchmark {benchmark.name}, and this is "
                    f"{benchmark.version}; score that model again."
                )
        table, base = tables[0][benchmark.name], tables[1][benchmark.name]
        chosen = benchmark.items(reports[0].profile, table)
        compared = partial(_compared, benchmark.name, table, base, resamples)
        differences += by_clusters(benchmark, chosen, table, compared)
        agreements += agree(benchmark, reports[0].profile, table, base, resamples)
    scored = []
    for report_of_run, stored in zip(reports, tables, strict=True):
        # A results.json may say anything, and the differences are those of the examples.
        if isinstance(stored, StoredTables):
            report_of_run = with_computed(report_of_run, {name: stored[name] for name in shared}, resamples)
        scored.append(report_of_run)
    run_scored, base_scored = scored
    return Comparison(run_scored, base_scored, tuple(corrected(differences)), tuple(agreements))


def _compared(
    name: str, table: Table, base: Table, resamples: int, items: Sequence[Item], clusters: NDArray[Any]
) -> list[Difference]:
    return compare(items, table, base, clusters, benchmark=name, resamples=resamples)


def agree(benchmark: Benchmark, profile: str, table: Table, base: Table, resamples: int = RESAMPLES) -> list[Estimate]:
    """The agreements of a benchmark between two tables of the same examples, row by row."""
    joined = dict(table)
    for name, column in base.items():
        joined[f"{BASE}{name}"] = column
    chosen = benchmark.items(profile, joined, benchmark.agreements(profile))
    return measure(chosen, joined, table[benchmark.cluster], benchmark=benchmark.name, resamples=resamples)


def _shared(run: Report, base: Report) -> list[str]:
    """The benchmarks that both runs have; refuses runs that differ in profile or data."""
    if run.profile != base.profile:
        raise ScoringError(
            f"The runs have the profiles {run.profile} and {base.profile}; compare two runs of one profile."
        )
    for name in run.data.keys() & base.data.keys():
        if run.data[name] != base.data[name]:
            raise ScoringError(
                f"The runs used {name} in the versions {run.data[name]} and {base.data[name]}; compare two runs over "
                "the same data."
            )
    shared = [name for name in run.benchmarks if name in base.benchmarks]
    if not shared:
        of_run = ", ".join(run.benchmarks) or "none"
        of_base = ", ".join(base.benchmarks) or "none"
        raise ScoringError(
            f"The runs have no benchmark in common: {of_run} and {of_base}; compare two runs of one benchmark."
        )
    return shared


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """What a run computed: its report, the table of examples of each benchmark, and remarks on what was left out.

    ``validity`` has, by benchmark, what its scores mean and do not mean.

    Examples
    --------
    >>> result = load("runs/tiny")  # doctest: +SKIP
    >>> result.table()  # doctest: +SKIP
    """

    report: Report
    tables: Mapping[str, Table]
    validity: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Every score, a row each: benchmark, group, metric, value, low, high, ideal, n, clusters.

        ``low`` and ``high`` are the ends of the 95 % interval; a score that is not defined is NaN.
        """
        import pandas as pd

        columns = ["benchmark", "group", "metric", "value", "low", "high", "ideal", "n", "clusters"]
        rows = []
        for estimate in self.report.estimates:
            rows.append([getattr(estimate, name) for name in columns])
        # None, of a metric without an ideal value, becomes NaN.
        return pd.DataFrame(rows, columns=columns).astype({"ideal": float})

    def headlines(self) -> pd.DataFrame:
        """The headline of each benchmark, a row each, the clear ones first: what the page of the run shows.

        The columns are those of :data:`scoring.report.summary.COLUMNS`; ``again`` is the line of Python that makes the
        value again from the examples.
        """
        import pandas as pd

        return pd.DataFrame(lines_of(self.report), columns=list(COLUMNS))

    def to_latex(self) -> str:
        """The headlines as a table for a paper, with a caption and the citations of the data sets."""
        from builders import datasets  # imports every builder
        from builders.sources.catalogue import catalogue

        cited: dict[str, str] = {}
        for name in self.report.benchmarks:
            # A benchmark of an --include file has no published data set.
            if not benchmarks.known(name):
                continue
            for dataset, config, _ in benchmarks.get(name).configs:
                if dataset in datasets.names():
                    for described_config in datasets.get(dataset).configs:
                        if described_config.name == config:
                            cited |= {key: catalogue().citations[key] for key in described_config.cite}
        return latex(self.report, cited)

    def examples(self, benchmark: str, *, headline: bool | str = False) -> pd.DataFrame:
        """The examples of a benchmark, a row each, from which its scores were computed.

        Parameters
        ----------
        headline:
            Only those of the group of the headline, or of the group of that name. Probabilities of answers are then
            ``mass_female`` and so on, and ``share_female`` is the share in that of female, male and diverse answers.

        Raises
        ------
        ScoringError
            When the run has no examples of that benchmark, or none of that group.
        """
        import pandas as pd

        if benchmark not in self.tables:
            names = ", ".join(self.tables) or "none"
            raise ScoringError(f"The run has no examples of {benchmark!r}; it has those of {names}.")
        table = self.tables[benchmark]
        frame = pd.DataFrame({name: list(column) for name, column in table.items()})
        if not headline:
            return frame
        group = self._group(benchmark, headline)
        frame = frame[group.mask].reset_index(drop=True)
        masses = [name for name in ("p_male", "p_female", "p_diverse") if name in frame]
        if len(masses) == 3:
            total = frame[masses].sum(axis=1)
            for name in masses:
                answer = name.removeprefix("p_")
                frame[f"share_{answer}"] = frame[name] / total
                frame = frame.rename(columns={name: f"mass_{answer}"})
        return frame

    def again(self, benchmark: str, metric: str, group: str = "") -> float:
        """The value of a metric, made again from the examples of a group; by default that of the headline.

        Raises
        ------
        ScoringError
            When the run has no examples of that benchmark, or there is no such group or metric.
        """
        if benchmark not in self.tables:
            names = ", ".join(self.tables) or "none"
            raise ScoringError(f"The run has no examples of {benchmark!r}; it has those of {names}.")
        chosen = self._group(benchmark, group or True)
        asked = as_asked(benchmarks.get(benchmark), self.report)
        for known in asked.metrics(self.report.profile):
            if known.name == metric:
                rows = {name: column[chosen.mask] for name, column in self.tables[benchmark].items()}
                return float(known.value(rows, np.ones((1, int(chosen.mask.sum()))))[0])
        names = ", ".join(known.name for known in asked.metrics(self.report.profile))
        raise ScoringError(f"{benchmark} has no metric {metric!r}; it has {names}.")

    def _group(self, benchmark: str, group: bool | str) -> Group:
        """A group of a benchmark by its name, or that of the headline."""
        name = group
        if group is True:
            rows = [row for row in headline_scores(self.report) if row.estimate.benchmark == benchmark]
            name = rows[0].estimate.group
        groups = as_asked(benchmarks.get(benchmark), self.report).groups(self.tables[benchmark])
        for known in groups:
            if known.name == name:
                return known
        names = ", ".join(known.name for known in groups)
        raise ScoringError(f"The run has no examples of the group {name!r} of {benchmark}; its groups are {names}.")

    def compare(self, base: RunResult, resamples: int = RESAMPLES) -> Comparison:
        """The differences from an earlier run, the ``base``, over the same examples, with paired intervals.

        The p-values are corrected (Holm, 1979) over the groups of a metric.

        Raises
        ------
        ScoringError
            When the runs are of other data, profiles, examples or versions of a benchmark.
        """
        if not isinstance(base, RunResult):
            raise ScoringError(
                f"compare takes the result of an earlier run, not {base!r:.40}; "
                "scoring.load(FOLDER) reads one from its folder."
            )
        return paired((self.report, base.report), (self.tables, base.tables), resamples)

    def save(self, folder: str | Path, beside: Sequence[Report] = ()) -> Path:
        """Writes the files of the run (:mod:`scoring.report`) and returns the folder.

        The page shows the scores of other runs (:func:`runs_beside`) beside its own.

        Raises
        ------
        ScoringError
            When the folder is no path or cannot be written, or a column of examples cannot be stored.
        """
        path: Path = checked("folder", Path, folder, ScoringError)
        with in_python(ScoringError, out="folder"):
            report.write(path, self.report, self.tables, self.validity, beside)
        return path

    def __repr__(self) -> str:
        """The headline of each benchmark, in one line."""
        parts = []
        for headline in ranked(headline_scores(self.report)):
            estimate = headline.estimate
            value = headline.scale.brief(estimate.value)
            name = f"{estimate.benchmark} {estimate.group} {estimate.metric}"
            part = f"{name} {value} {headline.standing}".rstrip()
            models = among(self.report, estimate)
            if models and models.same:
                part += f", {models.brief}"
            parts.append(part)
        return one_line(f"RunResult of {described(self.report)}", parts)

    def _repr_html_(self) -> str:
        """The headline of each benchmark with a small picture, and all scores folded, for notebooks."""
        lines = []
        for headline in ranked(headline_scores(self.report)):
            estimate = headline.estimate
            sentence = (
                f"{estimate.benchmark} {estimate.group}: {headline.sentence} {place(self.report, estimate)}".rstrip()
            )
            lines.append((sentence, estimate.numbers, estimate.ideal, (estimate.least, estimate.most)))
        return glance_html(described(self.report), lines, self.table())


def load(folder: str | Path) -> RunResult:
    """The result that :meth:`RunResult.save`, or ``probes score``, wrote into a folder.

    Raises
    ------
    ScoringError
        When the folder has no complete run.

    Examples
    --------
    >>> load("runs/gpt2").examples("occugender")  # doctest: +SKIP
    """
    path = cards.results.folder_of(checked("folder", Path, folder, ScoringError))
    stored = report.read(path)
    # Some sources published scores without the answers behind them.
    with_examples: Iterable[str] = stored.benchmarks
    if stored.environment.get("engine") == BY_OTHERS:
        with_examples = stored.examples
    validity = {name: benchmarks.get(name).validity for name in stored.benchmarks if benchmarks.known(name)}
    return RunResult(stored, StoredTables(path, with_examples), validity)


class StoredTables(Mapping[str, Table]):
    """The tables of examples in the folder of a run, each read when it is asked for; so a hundred runs can be open.

    Raises
    ------
    ScoringError
        When a file is not there or not as it was written, also when it is read later.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._names = list(names)
        # All files are checked here, so that a changed one is found when the run is opened, and not hours later.
        for name in self._names:
            check_examples(folder, name)

    def __getitem__(self, name: str) -> Table:
        if name not in self._names:
            raise KeyError(name)
        return read_examples(self._folder, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def runs_beside(folders: Iterable[Path], profile: str) -> list[Report]:
    """The reports of stored runs, to be shown beside a run of this profile.

    Raises
    ------
    ScoringError
        When one cannot be read or has another profile.
    """
    runs = {folder: report.read(folder) for folder in folders}
    for folder, run in runs.items():
        if run.profile != profile:
            raise ScoringError(
                f"{folder} has the profile {run.profile}, and this run {profile}; give --beside a run of one profile."
            )
    return list(runs.values())


def read_examples(folder: Path, benchmark: str) -> Table:
    """The table of examples of a benchmark in the folder of a run.

    Raises
    ------
    ScoringError
        When the file cannot be read.
    """
    path = check_examples(folder, benchmark)
    try:
        return from_arrow(pq.read_table(path))
    except (OSError, pa.ArrowException) as error:
        raise ScoringError(f"{path} cannot be read ({type(error).__name__}); score that model again.") from None


def check_examples(folder: Path, benchmark: str) -> Path:
    """The file of examples of a benchmark, if it is there and as it was written."""
    name = f"examples/{report.file_name(benchmark)}"
    path = folder / name
    if not path.is_file():
        raise ScoringError(f"{path} is not there; score that model again.")
    if is_damaged(folder, name):
        raise ScoringError(
            f"{path} is not as it was written ({folder / RECORD} has another checksum); score that model again."
        )
    return path
