"""The command ``probes reproduce``: printed numbers of the papers beside ours, and their figures drawn from ours."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from builders.dataset import BuildError
from cards.common.files import put_all
from cards.common.numbers import counted, formatted, interval
from cards.common.options import ended, single
from cards.common.stored import number
from cards.common.terminal import show, terminal, text_table
from cards.common.text import grouped
from scoring import DATA
from scoring.report.page import template
from scoring.report.plots.draw import inline
from scoring.reproduce.counts import COUNTS, by_paper
from scoring.reproduce.measured import STATES, Cell, Measured, State, cells
from scoring.reproduce.plan import Step, cost, execute, parameters, steps
from scoring.reproduce.printed import PrintedTable, printed_tables
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.reproduce.claims import Judged

#: The files of a figure by their endings, or what it needs.
Drawing = Mapping[str, bytes] | str
#: Between the name of a source and why it is not there.
LACKING = " is not available: "
#: The states of numbers that have one of ours beside them.
REACHED: tuple[State, ...] = STATES[:3]


def drawings(tables: Sequence[PrintedTable], measured: Measured, model: str) -> Iterator[tuple[str, Drawing]]:
    """The figures among tables, each with its identifier."""
    from scoring.reproduce.figures import chart, panels, title_of  # with it come pandas and matplotlib

    for table in tables:
        try:
            if table.panels:
                yield table.id, chart(panels(table, measured, model), title_of(table, model))
        except ScoringError as error:
            # A figure that cannot be drawn does not stop the others; the page says what it needs.
            yield table.id, str(error)


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page with its cells, or a figure with its drawing."""

    table: PrintedTable
    cells: Sequence[Cell]
    drawing: Drawing = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many cells have each state."""
        of_state = Counter(cell.state for cell in self.cells)
        # In the order of the states; a cell without one comes last.
        counts: dict[str, int] = {state: of_state[state] for state in STATES if of_state[state]}
        if of_state[""]:
            counts[""] = of_state[""]
        return counts


def sections(results: Sequence[Cell], drawn: Mapping[str, Drawing]) -> list[Section]:
    """The tables that have cells, and the figures, in the order of the papers."""
    by_id = grouped(results, lambda cell: f"{cell.paper}/{cell.table}")
    shown = []
    for table in printed_tables():
        section = Section(table, by_id.get(table.id, ()), drawn.get(table.id, ""))
        if section.cells or section.drawing:
            shown.append(section)
    return shown


def page(results: Sequence[Cell], drawn: Mapping[str, Drawing], model: str) -> str:
    """The HTML page: counts for each paper, every printed number with the measured one, and the figures."""
    return template("reproduce.html.j2").render(
        sections=sections(results, drawn),
        heads=COUNTS,
        rows=by_paper(results),
        states=STATES,
        model=model,
        inline=inline,
    )


def listed(results: Sequence[Cell], drawn: Mapping[str, Drawing]) -> Grid:
    """All tables and figures: how many numbers, how many have each verdict, and what the others need."""
    by_id = {section.table.id: section for section in sections(results, {})}
    rows = []
    for table in printed_tables():
        section = by_id.get(table.id, Section(table, ()))
        counts = section.counts
        row = [table.id, table.title, str(len(table.cells) or "")]
        for state in REACHED:
            row.append(str(counts.get(state, "")))
        row.append(_needs(section, drawn.get(table.id, "")))
        rows.append(row)
    return text_table(["table", "what", "printed", *REACHED, "needs"], rows)


def _needs(section: Section, drawing: Drawing) -> str:
    """What a table or a figure of the list still needs."""
    table = section.table
    if table.panels:
        if isinstance(drawing, str):
            return f"a figure; {table.panels[0]['reason'].partition(':')[0]}"
        return "a figure; drawn"
    if not table.cells:
        return "no numbers are printed; see docs/tables.md"
    reasons = [cell.reason for cell in section.cells if cell.state not in REACHED]
    if not reasons:
        return ""
    models = set()
    for cell in table.cells:
        if cell.of_run and "published" not in cell.place:
            models.add(cell.place.get("model", ""))
    if not models:
        return reasons[0].partition(":")[0]
    weights = f"weights of {counted(len(models), 'model')}"
    # A name does not always say how many parameters a model has.
    size = max(parameters(model) or 0 for model in models)
    if size:
        # Memory is 1.2 times the weights, which have two bytes a parameter.
        weights += f", up to {2.4e-9 * size:.1f} GB of GPU memory"
    return weights


def compared(section: Section) -> Grid:
    """The cells of a table for a terminal."""
    rows = []
    for cell in section.cells:
        printed, measured = number(cell.printed), number(cell.measured)
        rows.append(
            (
                cell.row,
                cell.column,
                formatted(cell.printed, ".6g", ""),
                formatted(cell.measured, ".6g", ""),
                interval(number(cell.low), number(cell.high), "{:.4g}".format, "{} to {}"),
                formatted(measured - printed, "+.3g", ""),
                cell.state,
            )
        )
    columns = ("row", "column", "printed", "measured", "95 % interval", "difference", "state")
    return text_table(columns, rows, f"{section.table.id}: {section.table.title} ({section.table.unit})")


def remarks(results: Sequence[Cell]) -> Iterator[str]:
    """What the numbers need and what changes their meaning, each sentence once."""
    counts = Counter(cell.reason for cell in results if cell.reason)

    # Sources that are lacking for one reason are named once, so their names and files do not count.
    def without_names(reason: str) -> str:
        return re.sub(r"\S*/\S*", "", reason.partition(LACKING)[2]) or reason

    for same in grouped(counts, without_names).values():
        count = counted(sum(counts[reason] for reason in same), "number")
        sentence = same[0]
        if len(same) > 1:
            sentence = sentence.replace(LACKING, f" and {len(same) - 1} more are not available: ", 1)
        yield f"{count}: {sentence}"


def main(
    target: Annotated[
        str, typer.Argument(metavar="[PAPER[/TABLE]]", help="unstereo/table-5, unstereo/figure-2, unstereo/claims …")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="All tables and figures of all papers.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="From published responses alone, also without TARGET.")
    ] = False,
    model: Annotated[str, typer.Option(help="Measure this model: a name on the Hub, a folder or a bundled one.")] = "",
    runs: Annotated[Path, typer.Option(help="Folder of runs and of computed scores.")] = Path("runs"),
    data: Annotated[Path, typer.Option(help="Folder of the built data sets; missing ones are built.")] = Path(DATA),
    out: Annotated[Path | None, typer.Option(help="Folder for reproduce.html, reproduce.json and figures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the cells as JSON.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the commands and what they cost.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use no network: mirror and cache only.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows of each split, for a trial with --model.")] = None,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = RESAMPLES,
) -> None:
    """Put every printed number of the five papers beside the measured one.

    Without TARGET: all tables and figures, what is there and what is needed, and for each paper how many printed
    numbers have one of ours beside them, are equal, or need weights (the README has that table with all files).

    PAPER/claims has sentences of a paper in our words, each with a verdict and the numbers behind it; claims alone has
    those of all papers.

    Numbers from published responses need no model; other ones are measured by ordinary commands of the project with
    --model. Exit status: 1 if a command failed.
    """
    console, errors = terminal(200), Console(stderr=True)
    failed: list[Step] = []
    with ended(errors, ScoringError):
        paper, _, name = target.rpartition("/")
        if name == "claims":
            if model or out or dry_run:
                raise ScoringError("Claims have no figures and need no model; leave out --model, --out and --dry-run.")
            from scoring.reproduce import claims  # with it comes pandas

            found = claims.claims(paper)
            source = Measured(data, runs, offline, resamples, lambda sentence: show(errors, [sentence]))
            try:
                source.build()
            except BuildError as error:
                show(errors, [str(error)])
            every_claim = [claims.judge(claim, source) for claim in found]
            if as_json:
                typer.echo(claims.as_json(every_claim), nl=False)
            else:
                console.print(claims_table(every_claim))
                show(console, [", ".join(f"{count} {verdict}" for verdict, count in claims.counts(every_claim))])
            return
        tables = printed_tables(target)
        # Without any of the three the list alone is asked for, and nothing is computed that is not stored already.
        computed = bool(target or every or published)
        # The list of all tables asks no network either.
        alone = offline or not computed
        measured = Measured(data, runs, alone, resamples, lambda sentence: show(errors, [sentence]), computed)
        # Published responses are of many models, so with them --model only names what is drawn.
        if model and not published:
            trial = {}
            if limit is not None:
                trial["--limit"] = str(limit)
            if resamples != RESAMPLES:
                trial["--resamples"] = str(resamples)
            # The commands of the plan are the public ones, so each can be repeated by hand.
            plan = steps(tables, model, data, runs, trial)
            if dry_run:
                show(console, _plan_lines(plan, model, data, limit))
                return
            failed = execute(plan, measured.say)
        elif dry_run:
            raise ScoringError("--dry-run needs a model; name it with --model.")
        elif computed:
            try:
                measured.build()
            # Cells that need no data set are shown all the same; the others say what is missing.
            except BuildError as error:
                show(errors, [str(error)])
        results = cells(target, model=model, measured=measured)
        drawn = {}
        if computed or out:
            drawn = dict(drawings(tables, measured, model))
        content = json.dumps([asdict(cell) for cell in results], indent=1)
        if out:
            files = {"reproduce.html": page(results, drawn, model).encode(), "reproduce.json": content.encode()}
            put_all(out, files | _figure_files(drawn), ScoringError)
        if as_json:
            typer.echo(content)
        elif target or model:
            for section in sections(results, {}):
                console.print(compared(section))
            show(console, remarks(results))
        else:
            console.print(listed(results, drawn))
            console.print(text_table(COUNTS, by_paper(results)))
        # With --json only the cells go to standard output.
        aside = errors if as_json else console
        if target or model:
            show(aside, _drawing_lines(drawn, out))
        show(aside, _summary(results))
        if out:
            show(aside, [f"The page is {out / 'reproduce.html'}."])
        if failed:
            show(errors, [f"failed: {step.line}" for step in failed])
            # After everything is shown and written, because the numbers that could be measured are right.
            raise typer.Exit(1)


def claims_table(every_claim: Sequence[Judged]) -> Grid:
    """Claims for a terminal: the sentence, its verdict, and the numbers or why there are none."""
    rows = []
    for claim in every_claim:
        rows.append((claim.paper, claim.says, claim.verdict, claim.numbers or claim.reason, claim.units))
    return text_table(["paper", "sentence", "verdict", "numbers, 95 % interval", "sampled"], rows)


def _plan_lines(plan: Sequence[Step], model: str, data: Path, limit: int | None) -> Iterator[str]:
    """The commands of a plan, each with what it costs."""
    for step in plan:
        remark = "done" if step.done else cost(step, model, data, limit)
        if remark:
            yield f"{step.line}   # {remark}"
        else:
            yield step.line


def _figure_files(drawn: Mapping[str, Drawing]) -> dict[str, bytes]:
    """The files of the figures by name."""
    files = {}
    for name, drawing in drawn.items():
        if isinstance(drawing, str):
            continue
        for ending, content in drawing.items():
            # An identifier has a slash between paper and figure, which a file name may not have.
            files[f"{name.replace('/', '-')}.{ending}"] = content
    return files


def _drawing_lines(drawn: Mapping[str, Drawing], out: Path | None) -> Iterator[str]:
    """Where each figure is, or what it needs."""
    for name, drawing in drawn.items():
        if isinstance(drawing, str):
            yield f"{name}: {drawing}"
        elif out:
            yield f"{name}: {out / name.replace('/', '-')}.svg and .png"
        else:
            yield f"{name}: can be drawn; give --out DIR"


def _summary(results: Sequence[Cell]) -> Iterator[str]:
    """How many numbers have each state."""
    total = Counter(cell.state for cell in results)
    states = ", ".join(f"{total[state]:,} {state}" for state in STATES if total[state])
    if states:
        yield f"{len(results):,} numbers: {states}."


app = single(main)
