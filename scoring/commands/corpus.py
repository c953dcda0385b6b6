"""The command ``probes pmi compare-model RUN --table FILE``: the lean of a corpus against the lean of a model."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table as Grid

from cards.common.files import put_all
from cards.common.numbers import interval
from cards.common.options import ended, single
from cards.common.stored import document
from cards.common.terminal import show, text_table
from cards.common.text import redactor
from pmi.analysis.lookup import TABLE_HELP, delta_table
from pmi.files import write_rows
from pmi.types import CountRule, DeltaTable, PmiError
from scoring.inputs.corpus_counts import Correlation, Leans, correlations, job_leans, sentence_leans
from scoring.report import write_page
from scoring.report.numbers import methods
from scoring.report.page import Section, scores
from scoring.types import ScoringError

_BENCHMARKS = {"unstereo": sentence_leans, "occugender": job_leans}
#: What ``corpus.json`` has of a correlation.
_STORED = ("benchmark", "group", "pair", "value", "low", "high", "n", "clusters", "method")


def compare_model(run: Path, table: DeltaTable, out: Path, resamples: int, seed: int = 0) -> list[Correlation]:
    """Compares a run with a table of δ, and writes ``corpus.json``, ``corpus-NAME.parquet`` and ``corpus.svg``.

    In the folder of the run, ``report.html`` is written anew with the correlations and plots, unless the run has a
    benchmark that is not known here, whose text would be lost.

    Raises
    ------
    ScoringError
        When the run has no examples of unstereo or occugender, or none has a word of the table.
    """
    from scoring.asking.result import load

    result = load(run)
    names = [name for name in _BENCHMARKS if name in result.tables]
    if not names:
        raise ScoringError(f"{run} has no scores of {' or '.join(_BENCHMARKS)}; run probes score with one of them.")
    measured: list[Correlation] = []
    leans = {}
    for name in names:
        leans[name] = _BENCHMARKS[name](result.tables[name], table)
        measured += correlations(name, leans[name], resamples=resamples, seed=seed)
    # The files are only written when everything is computed.
    for name, values in leans.items():
        columns = {
            "name": values.names,
            "group": values.group,
            "cluster": values.clusters,
            "corpus": values.corpus,
            "max_pmi_diff": values.largest,
            "coverage": values.coverage,
            "model": values.model,
        }
        # Only jobs have a share in the labour market.
        if len(values.labour):
            columns["labour"] = values.labour
        rows = pa.table({column: pa.array(cells, from_pandas=True) for column, cells in columns.items()})
        write_rows(rows, out / f"corpus-{name}.parquet")
    rule = asdict(table.rule)
    rule["pairs"] = [asdict(pair) for pair in table.pairs]
    stored = []
    for correlation in measured:
        stored.append({name: getattr(correlation, name) for name in _STORED})
    content = {"model": result.report.model, "table": rule, "resamples": resamples, "correlations": stored}
    put_all(out, {"corpus.json": document(content, 2), "corpus.svg": _draw(leans, measured)}, ScoringError)
    # The page of a run with a benchmark of another file would lose the text of that benchmark.
    if out.resolve() == run.resolve() and result.tables.keys() <= result.validity.keys():
        sections = list(corpus_sections(leans, measured, table.rule))
        write_page(run, result.report, result.tables, result.validity, sections)
    return measured


def _draw(leans: dict[str, Leans], measured: Sequence[Correlation]) -> bytes:
    from scoring.report.plots.corpus import picture  # matplotlib is loaded where something is drawn

    panels = []
    for benchmark, values in leans.items():
        for group in dict.fromkeys(values.group.tolist()):
            inside = (values.group == group) & np.isfinite(values.corpus) & np.isfinite(values.model)
            key = benchmark, group, "corpus and model"
            for correlation in measured:
                if inside.any() and (correlation.benchmark, correlation.group, correlation.pair) == key:
                    title = f"{group}: {_spoken(correlation)}"
                    panels.append((title, values.corpus[inside], values.model[inside], AXES[benchmark]))
    return picture(panels)


def _spoken(correlation: Correlation) -> str:
    if not math.isfinite(correlation.value):
        return "undefined"
    ends = interval(correlation.low, correlation.high, "{:+.2f}".format) or "no interval"
    return f"ρ {correlation.value:+.2f} {ends}"


def grid(measured: Sequence[Correlation]) -> Grid:
    """The correlations as a table for the terminal."""
    columns, rows = ("group", "of", "ρ", "n", "clusters"), []
    for correlation in measured:
        pair = correlation.pair.replace(" and ", ", ")
        rho = _spoken(correlation).removeprefix("ρ ")
        rows.append((correlation.group, pair, rho, f"{correlation.n:,}", f"{correlation.clusters:,}"))
    title = "Spearman's ρ, sentences also by |MaxPMIDiff|"
    return text_table(columns, rows, title, numbers=columns[3:], whole=columns)


def main(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run with unstereo or occugender.")],
    table: Annotated[str, typer.Option(metavar="TABLE", help=TABLE_HELP)],
    out: Annotated[Path | None, typer.Option(help="Folder for corpus.json and corpus.svg; RUN by default.")] = None,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 1,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = 2_000,
) -> None:
    """Compare the lean of a corpus with the lean of a model: rank correlations with intervals, by sentences and jobs.

    Exit status: 1 when the run or the table cannot be used.
    """
    console, errors = Console(soft_wrap=True, markup=False), Console(stderr=True)
    with ended(errors, ScoringError):
        try:
            whole = delta_table(table)
            words, deltas, counts = [], [], []
            for (word, delta), count in zip(whole.delta.items(), whole.counts, strict=True):
                if count >= min_count:
                    words.append(word)
                    deltas.append(delta)
                    counts.append(int(count))
            values = DeltaTable.of(words, deltas, counts, whole.rule, whole.pairs)
            measured = compare_model(run, values, out or run, resamples)
        # The package pmi has errors of its own; a command ends with those of one kind.
        except PmiError as error:
            raise ScoringError(str(error)) from None
        console.print(grid(measured), soft_wrap=False)
        show(console, [f"The examples are in {out or run}, and the figure is {(out or run) / 'corpus.svg'}."])
        if out is None:
            show(console, [f"The report is {run / 'report.html'}."])


app = single(main)


#: The model's lean, by benchmark: the axis of the plot, and what it is.
AXES = {"unstereo": "model: ln p(she) / p(he)", "occugender": "model: share of female words"}


def corpus_sections(leans: Mapping[str, Leans], measured: Sequence[Correlation], rule: CountRule) -> Iterator[Section]:
    """A section for each benchmark: rank correlations by group and by band of |MaxPMIDiff|, and a plot by group."""
    from scoring.report.plots.corpus import follows  # matplotlib is loaded where something is drawn

    for benchmark, values in leans.items():
        # Whole groups first, so that they are seen before anything is unfolded.
        of_benchmark = [correlation for correlation in measured if correlation.benchmark == benchmark]
        estimates = sorted(of_benchmark, key=lambda correlation: correlation.group not in values.group)
        question = f"Does the model's preference on {benchmark} follow a corpus? Counts of the corpus: {rule.corpus}."
        if not len(values.labour):
            question += " Groups with numbers are bands of |MaxPMIDiff| in this corpus."
        figures = [follows(values, AXES[benchmark])]
        about = [redactor(os.environ)(question)]
        yield Section(
            f"{benchmark} beside a corpus", about, "", scores(estimates), methods(estimates), figures, [], [], 0
        )
