"""The files of a scoring run: a folder with five kinds of file.

``results.json``
    Everything of the `Report`, keys sorted: ``schema`` (1), ``model``, ``revision``, ``adapter``,
    ``dtype``, ``prompt``, ``profile``, ``data`` (data set to version), ``environment``, ``speed``,
    ``headlines`` (benchmark to the fields of the `Headline`: the number that cards and reports show),
    ``estimates`` (a list of objects with the fields of `Estimate`, in the order of the report; ``method``
    names how the interval was computed) and ``examples`` (benchmark to ``file`` and ``rows``). In ``environment`` are
    ``response key``, the parts of the key of stored responses (:mod:`cards.common.answer_key`), and ``settings``, the
    options that numbers depend on; both are compared before results are replaced. A number that is not defined is
    null, and ``why`` of its estimate explains it; infinities are the strings ``"inf"`` and ``"-inf"``. `read` gives
    the `Report` back.
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

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cards.results
from cards.common.files import RECORD, adopt, put_all, refuse_foreign
from cards.common.numbers import Scale, interval
from cards.common.packages import PACKAGE
from cards.common.text import CardError, cell, for_files, slug
from scoring.inputs import run_file
from scoring.inputs.columns import ChangedTexts, blocks, length
from scoring.options import Settings, recorded
from scoring.report import summary
from scoring.report.comparison import comparison, comparison_page
from scoring.report.headlines import Comparison
from scoring.report.numbers import by_benchmark, by_metric, facts, marked, methods, scale
from scoring.report.page import Section, decisive, page
from scoring.report.rows import ROWS, rows_page
from scoring.types import Estimate, Report, ScoringError, Table

__all__ = ["check_finished", "decisive", "file_name", "page", "read", "results", "scale", "write", "write_comparison"]

_FILES = ("results.json", "results.md", "summary.md", "report.html", "compare.json", "compare.html", run_file.NAME)
_VERSION = "benchmark "
_TEXT = "text of the prompt"
_DIGEST = re.compile(r"[0-9a-f]{16}")
#: How the pages of a run began before they were listed.
_BEGINNINGS = {
    "report.html": b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Sec',
    "results.md": b"# Scores\n\n- model: ",
}
_EXAMPLES = re.compile(r"examples/\w[^/]*\.parquet")


def is_run_file(name: str) -> bool:
    """Whether a run writes a file of this name, by its path from the folder of the run.

    >>> is_run_file("examples/occugender.parquet"), is_run_file(".git/hooks/post-commit"), is_run_file("README.md")
    (True, False, False)
    """
    return name in (*_FILES, ROWS) or _EXAMPLES.fullmatch(name) is not None


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
        Per benchmark, what its scores mean and do not mean; an empty line separates paragraphs.
    beside:
        Other runs, whose scores the page shows next to those of this one.

    Raises
    ------
    ScoringError
        When a column cannot be stored or the environment holds something JSON has no form for.
    """
    shown, filled, texts = _shown(report, tables, validity)
    hide = for_files(os.environ)
    other_runs = [cleaned(run, hide) for run in beside]
    files: dict[str, bytes | Path] = {}
    # Tables may be larger than memory, so their files are written apart before any file of the folder is replaced.
    with tempfile.TemporaryDirectory() as apart:
        for name, table in filled.items():
            file = file_name(name)
            try:
                parquet(name, table, Path(apart) / file)
            except OSError as error:
                raise ScoringError(
                    f"The examples of {name} cannot be written to {apart} ({error.strerror or error}); free some room "
                    "there, or set TMPDIR to another folder."
                ) from None
            files[f"examples/{file}"] = Path(apart) / file
        files["results.md"] = markdown(shown).encode()
        files["summary.md"] = summary.markdown(shown).encode()
        files.update(_pages(shown, filled, texts, beside=other_runs))
        # The last file: a folder that has it has all others.
        files["results.json"] = results(shown, filled).encode()
        _adopt(folder)
        put_all(folder, files, ScoringError)


def _adopt(folder: Path) -> None:
    """Lists the files of a whole run that a version before 0.3 wrote, which kept no list.

    Other programs have files of these names. A page counts by its beginning, and examples by their number of rows.
    """
    if (folder / RECORD).exists():
        return
    try:
        examples = cards.results.load(folder).examples
        for name, beginning in _BEGINNINGS.items():
            if not (folder / name).read_bytes().startswith(beginning):
                return
        files = {f"examples/{file_name(name)}": of_one["rows"] for name, of_one in examples.items()}
        for file, rows in files.items():
            if pq.read_metadata(folder / file).num_rows != rows:
                return
    except (CardError, OSError, LookupError, TypeError, pa.ArrowException):
        return
    adopt(folder, ["results.json", *_BEGINNINGS, *files])


def _shown(
    report: Report, tables: Mapping[str, Table], validity: Mapping[str, str]
) -> tuple[Report, dict[str, Table], dict[str, str]]:
    """What a run may show of itself: the same without secrets and without empty tables."""
    hide = for_files(os.environ)
    filled: dict[str, Table] = {}
    for name, table in tables.items():
        if table:
            # Texts are changed where they are read, block by block: a table may be larger than memory.
            filled[str(hide(name))] = ChangedTexts(table, hide)
    texts = {}
    for name, text in validity.items():
        texts[str(hide(name))] = str(hide(text))
    return cleaned(report, hide), filled, texts


def write_page(
    folder: Path,
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Sequence[Section],
) -> None:
    """Writes the pages of a run anew, with ``more`` sections after those of its benchmarks."""
    shown, filled, texts = _shown(report, tables, validity)
    put_all(folder, _pages(shown, filled, texts, more), ScoringError)


def _pages(
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Sequence[Section] = (),
    beside: Sequence[Report] = (),
) -> dict[str, bytes]:
    """The report, and where there are examples the page of rows."""
    files = {}
    if tables:
        paths = {name: f"examples/{file_name(name)}" for name in tables}
        files[ROWS] = rows_page(report, tables, paths).encode()
    files["report.html"] = page(report, tables, validity, more, beside).encode()
    return files


def check_finished(folder: Path, planned: Report, *, overwrite: bool = False, unknown: Collection[str] = ()) -> None:
    """Refuses a folder with the results of a run with other settings, which :func:`write` would replace.

    With ``overwrite``, as without, it refuses files of these names that are not of a run. ``unknown`` are settings that
    are not known before the run.

    Raises
    ------
    ScoringError
        With the settings that differ, also when the results cannot be read.
    """
    files = [*_FILES, ROWS]
    for name in planned.environment:
        if name.startswith(_VERSION):
            files.append(f"examples/{file_name(name.removeprefix(_VERSION))}")
    _adopt(folder)
    refuse_foreign(folder, files, ScoringError)
    # With --overwrite, results of any settings are replaced.
    if overwrite or not (folder / "results.json").is_file():
        return
    # Both without secrets: those of the results were removed when they were written.
    stored = _settings(read(folder))
    wanted = _settings(cleaned(planned, for_files(os.environ)))
    names = (stored.keys() | wanted.keys()) - set(unknown)
    _refuse_others(folder, stored, wanted, names)


def check_settings(folder: Path, settings: Settings, model: str) -> None:
    """Refuses a folder as :func:`check_finished` does, by what is known before torch is imported.

    Results that cannot be read are left to that check.

    Raises
    ------
    ScoringError
        With the settings that differ.
    """
    try:
        stored = _settings(read(folder))
    except ScoringError:
        return
    prompt = settings.full_prompt()
    wanted: dict[str, object] = {"model": model, "profile": settings.profile, "prompt": prompt.name}
    # Without names the benchmarks are those that suit the model.
    if settings.benchmarks:
        wanted["benchmarks"] = ", ".join(sorted(benchmark.name for benchmark in settings.chosen()))
    for name, value in recorded(settings).items():
        wanted[f"--{name}"] = value
    hide = for_files(os.environ)
    # Through JSON, so that paths are texts and tuples are lists, as in a file.
    wanted = json.loads(str(hide(json.dumps(wanted, default=str))))
    # What an earlier version did not record is left to the check of the whole run.
    _refuse_others(folder, stored, wanted, wanted.keys() & stored.keys())


def _refuse_others(
    folder: Path, stored: Mapping[str, object], wanted: Mapping[str, object], names: Collection[str]
) -> None:
    """Refuses the results of a run whose settings differ in some of the ``names``."""
    plain, others = [], []
    for name in sorted(names):
        before, now = stored.get(name), wanted.get(name)
        # The texts of two prompts are two, and their names say so.
        if before == now or (name == _TEXT and stored["prompt"] != wanted["prompt"]):
            continue
        name = name.removeprefix("--").replace("_", " ")
        if _DIGEST.search(f"{before} {now}"):
            others.append(f"another {name}")
            continue
        difference = f"{name} {_in_words(before)}, now {_in_words(now)}"
        # A setting of answers is recorded with them and among the options.
        if difference not in plain:
            plain.append(difference)
    # A digest says nothing to a reader, so it is named where nothing else differs.
    differences = plain or others
    if differences:
        raise ScoringError(
            f"{folder} holds results with other settings ({'; '.join(differences[:4])}); give another --out, or "
            "--overwrite to replace them."
        )


def _in_words(value: object) -> str:
    """A setting as a sentence has it."""
    if value in (None, "", [], {}):
        return "none"
    return str(value)


def _settings(report: Report) -> dict[str, object]:
    """What the numbers of a report depend on, by name, without versions of packages."""
    environment = report.environment
    settings: dict[str, object] = {}
    # What a response depends on; a part of the key has its own name, such as a server. Later names replace earlier.
    for name, value in environment.get("response key", {}).items():
        if name != PACKAGE:
            settings[name] = value
    for name in ("model", "revision", "adapter", "dtype", "profile"):
        settings[name] = getattr(report, name)
    for name, version in report.data.items():
        settings[f"data {name}"] = version
    settings["prompt"] = report.prompt
    settings[_TEXT] = environment.get(f"prompt {report.prompt}")
    for name in ("chat template", "system"):
        settings[name] = environment.get(name)
    benchmarks = [name.removeprefix(_VERSION) for name in environment if name.startswith(_VERSION)]
    settings["benchmarks"] = ", ".join(sorted(benchmarks))
    for name, value in environment.get("settings", {}).items():
        settings[f"--{name}"] = value
    return settings


def write_comparison(folder: Path, compared: Comparison) -> None:
    """Writes ``compare.json`` and ``compare.html`` into the folder of a run, in place of earlier ones.

    Raises
    ------
    ScoringError
        When the environment holds something JSON has no form for.
    """
    # The page is written first: a folder with compare.json has both.
    shown = cleaned(compared, for_files(os.environ))
    pages = {"compare.html": comparison_page(shown).encode(), "compare.json": comparison(shown).encode()}
    put_all(folder, pages, ScoringError)


def file_name(benchmark: str) -> str:
    """The name of a benchmark's examples file.

    >>> file_name("unstereo"), file_name("../a b")
    ('unstereo.parquet', 'a-b-2c2c791a.parquet')
    """
    return f"{slug(benchmark)}.parquet"


def results(report: Report, tables: Mapping[str, Table]) -> str:
    """The text of ``results.json``."""
    examples = {}
    for name, table in tables.items():
        examples[name] = {"file": f"examples/{file_name(name)}", "rows": length(table)}
    return cards.results.text(replace(report, summary=summary.summary_of(report)), examples)


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
        # Errors of reading are of the package cards; commands of scoring end by errors of their own.
        raise ScoringError(str(error)) from None


def parquet(benchmark: str, table: Table, path: Path) -> None:
    """Writes a table of examples as Parquet, block by block.

    Raises
    ------
    ScoringError
        When there is no ``id``, columns differ in length or one mixes types.
    """
    if "id" not in table:
        raise ScoringError(f"The examples of {benchmark} have no column id; give every example an identifier.")
    writer = None
    try:
        for block in blocks(table):
            columns = {}
            for name, column in block.items():
                if column.dtype == object:
                    columns[name] = pa.array(column.tolist())
                else:
                    columns[name] = pa.array(column)
            part = pa.table(columns)
            # The first block decides the types of the file.
            if writer is None:
                writer = pq.ParquetWriter(path, part.schema, compression="zstd")
            writer.write_table(part)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ScoringError(
            f"The examples of {benchmark} cannot be stored ({error}); give columns of one type and length."
        ) from error
    finally:
        if writer is not None:
            writer.close()


def markdown(report: Report) -> str:
    """The text of ``results.md``."""
    lines = ["# Scores", ""]
    for name, text in facts(report).items():
        lines.append(f"- {name}: {cell(text)}")
    lines.append("")
    lines.append("| benchmark | group | score | value [95 % interval] | ideal | n | clusters |")
    lines.append("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for estimates in by_benchmark(report.estimates).values():
        scales = {}
        for metric, of_metric in by_metric(estimates).items():
            # All metrics share three decimals, which those on [0, 1] need.
            scales[metric] = replace(scale(of_metric), places=3)
        for estimate in estimates:
            lines.append(_line(estimate, scales[estimate.metric]))
    lines.append("")
    for sentence in methods(report.estimates):
        lines.append(f"- {sentence}")
    return "\n".join(lines) + "\n"


def _line(estimate: Estimate, scale: Scale) -> str:
    """The row of an estimate in the table of ``results.md``."""
    parts = []
    if math.isnan(estimate.value):
        parts.append("not defined")
    else:
        parts.append(scale.brief(estimate.value))
    parts.append(interval(estimate.low, estimate.high, scale.brief))
    parts.append(marked(estimate))
    if estimate.why:
        parts.append(f"({cell(estimate.why)})")
    ideal = ""
    if estimate.ideal is not None:
        ideal = scale.brief(estimate.ideal)
    cells = (
        cell(estimate.benchmark),
        cell(estimate.group),
        cell(estimate.full_name),
        " ".join(part for part in parts if part),
        ideal,
        str(estimate.n),
        str(estimate.clusters),
    )
    return f"| {' | '.join(cells)} |"


def cleaned(value: Any, hide: Callable[[Any], Any]) -> Any:
    """A report or a comparison in plain Python values, without secrets.

    Raises
    ------
    ScoringError
        For a value that JSON has no form for.
    """
    if isinstance(value, np.generic):
        return cleaned(value.item(), hide)
    if isinstance(value, Mapping):
        entries = {}
        for key, entry in value.items():
            # Keys of JSON are texts.
            entries[str(hide(str(key)))] = cleaned(entry, hide)
        return entries
    if isinstance(value, list | tuple):
        return type(value)(cleaned(entry, hide) for entry in value)
    if value is None or isinstance(value, str | int | float):
        # bool is a kind of int; only texts can hold a secret.
        return hide(value)
    # A class is a value of a dataclass's type too, and is not one of its objects.
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in fields(value):
            changed[field.name] = cleaned(getattr(value, field.name), hide)
        return replace(value, **changed)
    raise ScoringError(f"The report holds {value!r}, a {type(value).__name__}; use text, numbers, lists and mappings.")
