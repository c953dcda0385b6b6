"""The files of a scoring run: a folder with five kinds of file.

``results.json``
    Everything of the `Report`, keys sorted: ``schema`` (1), ``model``, ``revision``, ``adapter``,
    ``dtype``, ``prompt``, ``profile``, ``data`` (data set to version), ``environment``, ``speed``,
    ``headlines`` (benchmark to the fields of the `Headline`: the number that cards and reports show),
    ``estimates`` (a list of objects with the fields of `Estimate`, in the order of the report; ``method``
    names how the interval was computed), ``examples`` (benchmark to ``file``, ``rows`` and ``sha256``) and
    ``sha256``, the checksum of all others (`cards.common.stored.checksum`). In ``environment`` are ``response key``,
    the parts of the key of stored responses (:mod:`cards.common.answer_key`), and ``settings``, the options that
    numbers depend on; both are compared before results are replaced. A number that is not defined is null, and ``why``
    of its estimate explains it; infinities are the strings ``"inf"`` and ``"-inf"``. `read` gives the `Report` back.
``results.md``
    One Markdown table of the estimates.
``examples/BENCHMARK.parquet``
    The table of examples that the estimates of a benchmark were computed from.
``report.html``
    One page that needs nothing outside itself: a headline a benchmark, and folded all scores with intervals,
    plots and decisive examples.
``rows.html``
    The rows of the Parquet files, to be searched, sorted and filtered in a browser (:mod:`scoring.report.rows`).

A comparison with a corpus (``probes pmi compare-model``) adds sections to ``report.html``.

A comparison with an earlier run adds ``compare.json`` (each difference with the scores before and after and a
verdict) and ``compare.html``.

Text from data is data in all of them. Values of environment variables that look like secrets, and
strings in the shape of an access token, are written as ``[redacted]`` wherever they occur.
"""

import hashlib
import io
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cards.results
from cards.common.files import RECORD, file_sha256, put_all, refuse_foreign
from cards.common.numbers import Scale, interval
from cards.common.packages import PACKAGE
from cards.common.text import CardError, cell, for_files, slug
from scoring.inputs.columns import ChangedTexts, blocks, length
from scoring.report.comparison import comparison, comparison_page
from scoring.report.headlines import Comparison
from scoring.report.numbers import by_benchmark, by_metric, facts, marked, methods, scale
from scoring.report.page import Section, decisive, page
from scoring.report.rows import ROWS, rows_page
from scoring.types import Estimate, Report, ScoringError, Table

__all__ = ["check_finished", "decisive", "file_name", "page", "read", "results", "scale", "write", "write_comparison"]

_FILES = ("results.json", "results.md", "report.html", "compare.json", "compare.html")
_VERSION = "benchmark "


def write(
    folder: Path,
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    beside: Sequence[Report] = (),
) -> None:
    """Writes the files of a run; each is whole at every moment, and ``results.json`` comes last.

    Parameters
    ----------
    folder:
        Made when missing. Files of an earlier run are replaced.
    report:
        What the run found.
    tables:
        Per benchmark, its examples: columns of one length, ``id`` among them. Empty ones are left out.
    validity:
        Per benchmark, what its scores mean and do not mean; paragraphs are parted by an empty line.
    beside:
        Other runs, whose scores the page shows beside those of this one.

    Raises
    ------
    ScoringError
        When a column cannot be stored or the environment holds something JSON has no form for.
    """
    shown, filled, texts = _shown(report, tables, validity)
    files = {f"examples/{file_name(name)}": parquet(name, table) for name, table in filled.items()}
    files["results.md"] = markdown(shown).encode()
    files |= _pages(shown, filled, texts, beside=[cleaned(run, for_files(os.environ)) for run in beside])
    files["results.json"] = results(shown, filled, files).encode()
    _put(folder, files)


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    put_all(folder, files, ScoringError, ours=_of_earlier_version(folder))


def _of_earlier_version(folder: Path) -> list[str]:
    """The files of a version that kept no record: ``results.json`` and the examples whose checksum it has.

    Other programs have files of these names, so a file counts by its content alone. A page and a table have no
    checksum; they are not replaced where no record knows them.
    """
    if not (folder / "results.json").is_file():
        return []
    try:
        run = cards.results.load(folder)
    except CardError:
        return []
    files = ["results.json"]
    for described in run.examples.values():
        name = described.get("file", "") if isinstance(described, dict) else ""
        path = folder / "examples" / Path(name).name
        if path.is_file() and file_sha256(path) == described.get("sha256"):
            files.append(f"examples/{path.name}")
    return files


def _shown(
    report: Report, tables: Mapping[str, Table], validity: Mapping[str, str]
) -> tuple[Report, dict[str, Table], dict[str, str]]:
    """What a run may show of itself: the same without secrets and without empty tables."""
    hide = for_files(os.environ)
    filled: dict[str, Table] = {str(hide(name)): ChangedTexts(table, hide) for name, table in tables.items() if table}
    return cleaned(report, hide), filled, {str(hide(name)): str(hide(text)) for name, text in validity.items()}


def write_page(
    folder: Path,
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Sequence[Section],
) -> None:
    """Writes the pages of a run anew, with ``more`` sections after those of its benchmarks."""
    _put(folder, _pages(*_shown(report, tables, validity), more))


def _pages(
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Sequence[Section] = (),
    beside: Sequence[Report] = (),
) -> dict[str, bytes]:
    """The report, and where there are examples the page of rows."""
    paths = {name: f"examples/{file_name(name)}" for name in tables}
    rows = {ROWS: rows_page(report, tables, paths).encode()} if tables else {}
    return {**rows, "report.html": page(report, tables, validity, more, beside).encode()}


def check_finished(folder: Path, planned: Report, *, overwrite: bool = False, unknown: Collection[str] = ()) -> None:
    """Refuses a folder with the results of a run with other settings, which :func:`write` would replace.

    With ``overwrite``, as without, it refuses files of these names that are not of a run. ``unknown`` are settings that
    are not known before the run.

    Raises
    ------
    ScoringError
        With the first setting that differs, also when the results cannot be read.
    """
    names = [name.removeprefix(_VERSION) for name in planned.environment if name.startswith(_VERSION)]
    files = [*_FILES, ROWS, *(f"examples/{file_name(name)}" for name in names)]
    earlier = [] if (folder / RECORD).exists() else _of_earlier_version(folder)
    refuse_foreign(folder / RECORD, [folder / name for name in files if name not in earlier], ScoringError)
    if overwrite or not (folder / "results.json").is_file():
        return
    one, other = (_settings(report) for report in (read(folder), cleaned(planned, for_files(os.environ))))
    for name in sorted(name for name in one.keys() | other.keys() if name not in unknown):
        if name not in one or one[name] != other.get(name):
            held = f"with {name} {one[name]!r}" if name in one else f"that do not say their {name}"
            raise ScoringError(
                f"{folder} holds results {held}, and this run has {other.get(name)!r}; give another --out, or "
                "--overwrite to replace them."
            )


def _settings(report: Report) -> dict[str, object]:
    """What the numbers of a report depend on, by name, without versions of packages."""
    known = report.environment
    settings = {name: getattr(report, name) for name in ("model", "revision", "adapter", "dtype", "profile")}
    settings |= {f"data {name}": version for name, version in report.data.items()}
    settings |= {name: known.get(name) for name in (f"prompt {report.prompt}", "chat template", "system")}
    settings["benchmarks"] = ", ".join(sorted(n.removeprefix(_VERSION) for n in known if n.startswith(_VERSION)))
    # What an answer depends on, and the options; a part of the key is named as it is, such as a server.
    key = {name: value for name, value in known.get("response key", {}).items() if name != PACKAGE}
    return key | settings | {f"--{name}": value for name, value in known.get("settings", {}).items()}


def write_comparison(folder: Path, compared: Comparison) -> None:
    """Writes ``compare.json`` and ``compare.html`` into the folder of a run, in place of earlier ones.

    Raises
    ------
    ScoringError
        When the environment holds something JSON has no form for.
    """
    shown = cleaned(compared, for_files(os.environ))
    _put(folder, {"compare.html": comparison_page(shown).encode(), "compare.json": comparison(shown).encode()})


def file_name(benchmark: str) -> str:
    """The name of a benchmark's examples file.

    >>> file_name("unstereo"), file_name("../a b")
    ('unstereo.parquet', 'a-b-2c2c791a.parquet')
    """
    return f"{slug(benchmark)}.parquet"


def results(report: Report, tables: Mapping[str, Table], files: Mapping[str, bytes] = MappingProxyType({})) -> str:
    """The text of ``results.json``; ``files`` has the examples by their path, whose checksums it records."""
    examples: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        file = f"examples/{file_name(name)}"
        of_file = {"sha256": hashlib.sha256(files[file]).hexdigest()} if file in files else {}
        examples[name] = {"file": file, "rows": length(table), **of_file}
    return cards.results.text(report, examples)


def read(path: Path) -> Report:
    """The report in a ``results.json``, or in the folder that has one.

    Raises
    ------
    ScoringError
        When there is no such file, it has another schema, or a field is missing, unknown or of another type.
    """
    try:
        return cards.results.load(path)
    except CardError as error:
        raise ScoringError(str(error)) from None


def parquet(benchmark: str, table: Table) -> bytes:
    """A table of examples as Parquet.

    Raises
    ------
    ScoringError
        When there is no ``id``, columns differ in length or one mixes types.
    """
    if "id" not in table:
        raise ScoringError(f"The examples of {benchmark} have no column id; give every example an identifier.")
    content = io.BytesIO()
    writer = None
    try:
        for block in blocks(table):
            columns = [pa.array(column.tolist() if column.dtype == object else column) for column in block.values()]
            part = pa.table(dict(zip(block, columns, strict=True)))
            writer = writer or pq.ParquetWriter(content, part.schema, compression="zstd")
            writer.write_table(part)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ScoringError(
            f"The examples of {benchmark} cannot be stored ({error}); give columns of one type and length."
        ) from error
    finally:
        if writer is not None:
            writer.close()
    return content.getvalue()


def markdown(report: Report) -> str:
    """The text of ``results.md``."""
    lines = ["# Scores", "", *(f"- {name}: {cell(text)}" for name, text in facts(report).items()), ""]
    lines += ["| benchmark | group | score | value [95 % interval] | ideal | n | clusters |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for estimates in by_benchmark(report.estimates).values():
        # All metrics share three decimals, which those on [0, 1] need.
        scales = {name: replace(scale(group), places=3) for name, group in by_metric(estimates).items()}
        lines += [_line(e, scales[e.metric]) for e in estimates]
    lines += ["", *(f"- {sentence}" for sentence in methods(report.estimates))]
    return "\n".join(lines) + "\n"


def _line(e: Estimate, on: Scale) -> str:
    ends, why = interval(e.low, e.high, on.brief), e.why and f"({cell(e.why)})"
    number = "not defined" if math.isnan(e.value) else on.brief(e.value)
    value = " ".join(filter(None, (number, ends, marked(e), why)))
    ideal = "" if e.ideal is None else on.brief(e.ideal)
    return (
        f"| {' | '.join([*map(cell, (e.benchmark, e.group, e.full_name)), value, ideal, str(e.n), str(e.clusters)])} |"
    )


def cleaned(value: Any, hide: Callable[[Any], Any]) -> Any:
    """A report or a comparison in plain Python values, without secrets.

    Raises
    ------
    ScoringError
        For a value that JSON has no form for.
    """
    match value:
        case np.generic():
            return cleaned(value.item(), hide)
        case Mapping():
            return {str(hide(str(k))): cleaned(v, hide) for k, v in value.items()}
        case list() | tuple():
            return type(value)(cleaned(v, hide) for v in value)
        case str() | int() | float() | None:
            return hide(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: cleaned(getattr(value, f.name), hide) for f in fields(value)})
    raise ScoringError(f"The report holds {value!r}, a {type(value).__name__}; use text, numbers, lists and mappings.")
