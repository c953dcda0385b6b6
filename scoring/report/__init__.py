"""The files of a scoring run: a folder with four kinds of file.

``results.json``
    Everything of the `Report`, keys sorted: ``schema`` (1), ``model``, ``revision``, ``adapter``,
    ``dtype``, ``prompt``, ``profile``, ``data`` (data set to version), ``environment``, ``speed``,
    ``headlines`` (benchmark to the fields of the `Headline`: the number that cards and reports show),
    ``estimates`` (a list of objects with the fields of `Estimate`, in the order of the report; ``method``
    names how the interval was computed), ``examples`` (benchmark to ``file``, ``rows`` and ``sha256``) and
    ``sha256``, the checksum of all others (`cards.stored.checksum`). A number
    that is not defined is null, and ``why`` of its estimate explains it; infinities are the strings
    ``"inf"`` and ``"-inf"``. `read` gives the `Report` back.
``results.md``
    One Markdown table of the estimates.
``examples/BENCHMARK.parquet``
    The table of examples that the estimates of a benchmark were computed from.
``report.html``
    One page that needs nothing outside itself: a headline a benchmark, and folded all scores with intervals,
    plots and decisive examples.

A comparison with a corpus (``probes pmi compare-model``) adds sections to ``report.html``.

A comparison with an earlier run adds ``compare.json`` (each difference with the scores before and after and a
verdict) and ``compare.html``.

Text from data is data in all of them. Values of environment variables that look like secrets, and
strings in the shape of an access token, are written as ``[redacted]`` wherever they occur.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cards.files import RECORD, put_all, refuse_foreign
from cards.stored import parsed
from cards.text import redactor
from scoring.report.comparison import comparison, comparison_page
from scoring.report.files import clean_table, cleaned, file_name, markdown, parquet, read, results
from scoring.report.numbers import scale
from scoring.report.page import Section, decisive, page
from scoring.types import Comparison, Report, ScoringError, Table

__all__ = ["check_finished", "decisive", "file_name", "page", "read", "results", "scale", "write", "write_comparison"]

_FILES = ("results.json", "results.md", "report.html", "compare.json", "compare.html")
_VERSION = "benchmark "


def write(folder: Path, report: Report, tables: Mapping[str, Table], validity: Mapping[str, str]) -> None:
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

    Raises
    ------
    ScoringError
        When a column cannot be stored or the environment holds something JSON has no form for.
    """
    shown, kept, texts = _shown(report, tables, validity)
    files = {f"examples/{file_name(name)}": parquet(name, table) for name, table in kept.items()}
    files["results.md"] = markdown(shown).encode()
    files["report.html"] = page(shown, kept, texts).encode()
    files["results.json"] = results(shown, kept, files).encode()
    _put(folder, files)


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files of a run; without a record, those beside a ``results.json`` are of an earlier version."""
    earlier = [*_FILES, *(f"examples/{path.name}" for path in (folder / "examples").glob("*.parquet"))]
    put_all(folder, files, ScoringError, ours=earlier if _of_earlier_version(folder) else ())


def _of_earlier_version(folder: Path) -> bool:
    """Whether a ``results.json`` is of a run, also of a version that kept no record; other programs have this name."""
    file = folder / "results.json"
    return file.is_file() and parsed(file.read_bytes()).keys() >= {"schema", "estimates"}


def _shown(
    report: Report, tables: Mapping[str, Table], validity: Mapping[str, str]
) -> tuple[Report, dict[str, Table], dict[str, str]]:
    """What a run may show of itself: the same without secrets and without empty tables."""
    hide = redactor(os.environ)
    kept: dict[str, Table] = {str(hide(name)): clean_table(table, hide) for name, table in tables.items() if table}
    return cleaned(report, hide), kept, {str(hide(name)): str(hide(text)) for name, text in validity.items()}


def write_page(
    folder: Path,
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Sequence[Section],
) -> None:
    """Writes ``report.html`` of a run anew, with ``more`` sections after those of its benchmarks."""
    _put(folder, {"report.html": page(*_shown(report, tables, validity), more).encode()})


def check_finished(folder: Path, planned: Report, *, overwrite: bool = False) -> None:
    """Refuses a folder with the results of a run with other settings, which :func:`write` would replace.

    With ``overwrite``, as without, it refuses files of these names that are not of a run.

    Raises
    ------
    ScoringError
        With the first setting that differs, also when the results cannot be read.
    """
    names = [name.removeprefix(_VERSION) for name in planned.environment if name.startswith(_VERSION)]
    files = [*_FILES, *(f"examples/{file_name(name)}" for name in names)]
    finished = (folder / "results.json").is_file()
    if (folder / RECORD).exists() or not _of_earlier_version(folder):
        refuse_foreign(folder / RECORD, [folder / name for name in files], ScoringError)
    if overwrite or not finished:
        return
    one, other = (_settings(report) for report in (read(folder), cleaned(planned, redactor(os.environ))))
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            raise ScoringError(
                f"{folder} holds results with {name} {one.get(name)!r}, and this run has {other.get(name)!r}; give "
                "another --out, or --overwrite to replace them."
            )


def _settings(report: Report) -> dict[str, object]:
    """What the numbers of a report depend on, by name, without versions of libraries."""
    names = ("model", "revision", "adapter", "dtype", "profile", "data")
    prompt = f"prompt {report.prompt}"
    settings = {name: report.environment.get(name) for name in (prompt, "chat template", "system", "resamples")}
    return {**{name: getattr(report, name) for name in names}, **settings}


def write_comparison(folder: Path, compared: Comparison) -> None:
    """Writes ``compare.json`` and ``compare.html`` into the folder of a run, in the place of earlier ones.

    Raises
    ------
    ScoringError
        When the environment holds something JSON has no form for.
    """
    shown = cleaned(compared, redactor(os.environ))
    _put(folder, {"compare.html": comparison_page(shown).encode(), "compare.json": comparison(shown).encode()})
