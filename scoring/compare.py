"""Two runs over the same examples: paired differences, with intervals and corrected p-values."""

from __future__ import annotations

from collections.abc import Mapping

from scoring import benchmarks
from scoring.statistics.stats import RESAMPLES, compare, corrected, measure
from scoring.types import Benchmark, Comparison, Difference, Estimate, Report, ScoringError, Table

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
    for benchmark in map(benchmarks.get, _shared(*reports)):
        _current(benchmark, *reports)
        table, base = (own[benchmark.name] for own in tables)
        chosen = benchmark.items(reports[0].profile, table)
        clusters = table[benchmark.cluster]
        differences += compare(chosen, table, base, clusters, benchmark=benchmark.name, resamples=resamples)
        agreements += agree(benchmark, reports[0].profile, table, base, resamples)
    return Comparison(*reports, tuple(corrected(differences)), tuple(agreements))


def agree(benchmark: Benchmark, profile: str, table: Table, base: Table, resamples: int = RESAMPLES) -> list[Estimate]:
    """The agreements of a benchmark between two tables of the same examples, row by row."""
    joined = {**table, **{f"{BASE}{name}": column for name, column in base.items()}}
    chosen = benchmark.items(profile, joined, benchmark.agreements(profile))
    return measure(chosen, joined, table[benchmark.cluster], benchmark=benchmark.name, resamples=resamples)


def _current(benchmark: Benchmark, *reports: Report) -> None:
    for report in reports:
        version = report.environment.get(f"benchmark {benchmark.name}", benchmark.version)
        if version != benchmark.version:
            raise ScoringError(
                f"A run of {report.model} used version {version} of the benchmark {benchmark.name}, and this is "
                f"{benchmark.version}; score that model again."
            )


def _shared(one: Report, other: Report) -> list[str]:
    if one.profile != other.profile:
        raise ScoringError(
            f"The runs have the profiles {one.profile} and {other.profile}; compare two runs of one profile."
        )
    for name in one.data.keys() & other.data.keys():
        if one.data[name] != other.data[name]:
            raise ScoringError(
                f"The runs used {name} in the versions {one.data[name]} and {other.data[name]}; compare two runs over "
                "the same data."
            )
    names = one.benchmarks, other.benchmarks
    shared = [name for name in one.benchmarks if name in other.benchmarks]
    if not shared:
        listed = " and ".join(", ".join(own) or "none" for own in names)
        raise ScoringError(f"The runs have no benchmark in common: {listed}; compare two runs of one benchmark.")
    return shared
