"""Two runs over the same examples: paired differences, with intervals and corrected p-values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scoring import benchmarks
from scoring.benchmarks._groups import items
from scoring.report import file_name, read_report
from scoring.stats import RESAMPLES, Difference, compare, holm
from scoring.tables import as_table
from scoring.types import Report, ScoringError, Table


def runs(one: Path, other: Path, resamples: int = RESAMPLES) -> list[Difference]:
    """Every metric of run ``one`` minus that of run ``other``, for the benchmarks that both have.

    The p-values are corrected (Holm, 1979) over the groups of a metric. Over all of hundreds of
    differences at once, no difference could be told from chance: with 10,000 resamples the smallest
    p is 0.0002.

    Raises
    ------
    ScoringError
        When a folder holds no run, or the runs cannot be compared: other data, profile or examples.
    """
    reports = read_report(one), read_report(other)
    shared = _shared(*reports)
    found: list[Difference] = []
    for name in shared:
        benchmark = benchmarks.get(name)
        tables = _examples(one, name), _examples(other, name)
        about = items(benchmark, reports[0].profile, tables[0])
        found += compare(about, *tables, tables[0][benchmark.cluster], benchmark=name, resamples=resamples)
    return _corrected(found)


def _corrected(differences: Sequence[Difference]) -> list[Difference]:
    families: dict[tuple[str, str], list[int]] = {}
    for place, each in enumerate(differences):
        families.setdefault((each.benchmark, each.metric), []).append(place)
    found = list(differences)
    for places in families.values():
        for place, p in zip(places, holm([differences[place].p for place in places]), strict=True):
            found[place] = replace(differences[place], p_holm=p)
    return found


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
    names = [list(dict.fromkeys(e.benchmark for e in report.estimates)) for report in (one, other)]
    shared = [name for name in names[0] if name in names[1]]
    if not shared:
        told = " and ".join(", ".join(some) or "none" for some in names)
        raise ScoringError(f"The runs have no benchmark in common: {told}; compare two runs of one benchmark.")
    return shared


def _examples(run: Path, benchmark: str) -> Table:
    path = run / "examples" / file_name(benchmark)
    try:
        return as_table(pq.read_table(path).to_pylist())
    except (OSError, pa.ArrowException) as error:
        raise ScoringError(f"{path} cannot be read ({type(error).__name__}); score that model again.") from None


def lines(differences: Sequence[Difference]) -> Iterator[str]:
    """The differences as a table in text."""
    cells: list[tuple[str, ...]] = [
        ("benchmark", "group", "metric", "difference", "95 % interval", "p", "p (Holm)", "n", "")
    ]
    for each in differences:
        interval = "–" if math.isnan(each.low) else f"{_number(each.low)} to {_number(each.high)}"
        numbers = _number(each.value), interval, _number(each.p), _number(each.p_holm), str(each.n)
        cells.append((each.benchmark, each.group, each.metric, *numbers, each.why))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _number(value: float) -> str:
    """A number to four decimals, without the sign of a zero.

    >>> _number(-0.00001), _number(float("nan"))
    ('0.0000', '–')
    """
    return "–" if math.isnan(value) else f"{round(value, 4) + 0.0:.4f}"
