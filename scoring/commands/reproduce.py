"""The command ``probes reproduce``: printed numbers of the papers beside ours, and their figures drawn from ours."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from builders.dataset import BuildError
from cards.common.files import put_all
from cards.common.numbers import counted, formatted, interval
from cards.common.options import ended
from cards.common.stored import number
from cards.common.terminal import show, terminal, text_table
from cards.common.text import grouped
from scoring import DATA
from scoring.report.page import template
from scoring.report.plots.draw import inline
from scoring.reproduce.counts import COUNTS, by_paper
from scoring.reproduce.figures import chart, panels
from scoring.reproduce.measured import STATES, Cell, Measured, State, cells
from scoring.reproduce.plan import Step, cost, execute, parameters, steps
from scoring.reproduce.printed import PrintedTable, printed_tables
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError

#: The files of a figure by their endings, or what it needs.
Drawing = Mapping[str, bytes] | str
#: Between the name of a source and why it is not there.
LACKING = " is not available: "
#: The states of numbers that have one of ours beside them.
REACHED: tuple[State, ...] = STATES[:3]


def drawings(tables: Sequence[PrintedTable], found: Measured, model: str) -> Iterator[tuple[str, Drawing]]:
    """The figures among tables, each with its identifier."""
    for table in tables:
        try:
            if table.panels:
                yield table.id, chart(panels(table, found, model), table.title)
        except ScoringError as error:
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
        found = Counter(cell.state for cell in self.cells)
        return {state: found[state] for state in (*STATES, "") if found[state]}


def sections(found: Sequence[Cell], drawn: Mapping[str, Drawing]) -> list[Section]:
    """The tables that have cells, and the figures, in the order of the papers."""
    by_id = grouped(found, lambda cell: f"{cell.paper}/{cell.table}")
    of = (Section(table, by_id.get(table.id, ()), drawn.get(table.id, "")) for table in printed_tables())
    return [section for section in of if section.cells or section.drawing]


def page(found: Sequence[Cell], drawn: Mapping[str, Drawing], model: str) -> str:
    """The HTML page: counts for each paper, every printed number with the measured one, and the figures."""
    own = sections(found, drawn)
    rows = by_paper(found)
    return template("reproduce.html.j2").render(
        sections=own, heads=COUNTS, rows=rows, states=STATES, model=model, inline=inline
    )


def listed(found: Sequence[Cell], drawn: Mapping[str, Drawing]) -> Grid:
    """All tables and figures: how many numbers, how many have each verdict, and what the others need."""
    by_id = {section.table.id: section for section in sections(found, {})}
    rows = []
    for table in printed_tables():
        section = by_id.get(table.id)
        counts = section.counts if section else {}
        reasons = [cell.reason for cell in section.cells if cell.state not in REACHED] if section else []
        models = {c.place.get("model", "") for c in table.cells if c.of_run and "published" not in c.place}
        size = max((parameters(model) or 0 for model in models), default=0)
        memory = f", up to {2.4e-9 * size:.1f} GB of GPU memory" if size else ""
        lacking = f"weights of {counted(len(models), 'model')}{memory}"
        needs = (lacking if models else reasons[0].partition(":")[0]) if reasons else ""
        if table.panels:
            undrawn = isinstance(drawn.get(table.id, ""), str)
            needs = f"a figure; {table.panels[0]['reason'].partition(':')[0] if undrawn else 'drawn'}"
        elif not table.cells:
            needs = "no numbers are printed; see docs/tables.md"
        numbers = (str(counts.get(state, "")) for state in REACHED)
        rows.append((table.id, table.title, str(len(table.cells) or ""), *numbers, needs))
    return text_table(["table", "what", "printed", *REACHED, "needs"], rows)


def compared(section: Section) -> Grid:
    """The cells of a table for a terminal."""
    rows = []
    for cell in section.cells:
        numbers = (formatted(number, ".6g", "") for number in (cell.printed, cell.measured))
        printed, measured, low, high = map(number, (cell.printed, cell.measured, cell.low, cell.high))
        ends, apart = interval(low, high, "{:.4g}".format, "{} to {}"), formatted(measured - printed, "+.3g", "")
        rows.append((cell.row, cell.column, *numbers, ends, apart, cell.state))
    columns = ("row", "column", "printed", "measured", "95 % interval", "difference", "state")
    return text_table(columns, rows, f"{section.table.id}: {section.table.title} ({section.table.unit})")


def remarks(found: Sequence[Cell]) -> Iterator[str]:
    """What the numbers need and what changes their meaning, each sentence once."""
    counts = Counter(cell.reason for cell in found if cell.reason)
    # Sources that are lacking for one reason are named once.
    for same in grouped(counts, lambda reason: re.sub(r"\S*/\S*", "", reason.partition(LACKING)[2]) or reason).values():
        count = counted(sum(counts[reason] for reason in same), "number")
        more = f" and {len(same) - 1} more are not available: " if len(same) > 1 else LACKING
        yield f"{count}: {same[0].replace(LACKING, more, 1)}"


def main(
    target: Annotated[
        str, typer.Argument(metavar="[PAPER[/TABLE]]", help="unstereo/table-5, unstereo/figure-2 …")
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

    Numbers from published responses need no model; other ones are measured by ordinary commands of the project with
    --model. Exit status: 1 if a command failed.
    """
    console, errors = terminal(200), Console(stderr=True)
    failed: list[Step] = []
    with ended(errors, ScoringError):
        tables = printed_tables(target)
        # Without any of the three the list alone is asked for, and nothing is computed that is not stored already.
        computed = bool(target or every or published)
        found = Measured(data, runs, offline, resamples, lambda sentence: show(errors, [sentence]), computed)
        if model and not published:
            trial = {"--limit": limit, "--resamples": None if resamples == RESAMPLES else resamples}
            chosen = {option: str(value) for option, value in trial.items() if value is not None}
            # The commands of the plan are the public ones, so each can be repeated by hand.
            plan = steps(tables, model, data, runs, chosen)
            if dry_run:
                costs = ("done" if step.done else cost(step, model, data, limit) for step in plan)
                show(console, (step.line + f"   # {c}" * bool(c) for step, c in zip(plan, costs, strict=True)))
                return
            failed = execute(plan, found.say)
        elif dry_run:
            raise ScoringError("A dry run is of the commands for one model; name it with --model.")
        elif computed:
            try:
                found.build()
            # Cells that need no data set are shown all the same; the others say what is missing.
            except BuildError as error:
                show(errors, [str(error)])
        own = cells(target, model=model, measured=found)
        drawn = dict(drawings(tables, found, model)) if computed or out else {}
        content = json.dumps([asdict(cell) for cell in own], indent=1)
        if out:
            files = {"reproduce.html": page(own, drawn, model).encode(), "reproduce.json": content.encode()}
            for name, drawing in drawn.items():
                made = {} if isinstance(drawing, str) else drawing
                files |= {f"{name.replace('/', '-')}.{ending}": data for ending, data in made.items()}
            put_all(out, files, ScoringError)
        if as_json:
            typer.echo(content)
        elif target or model:
            for section in sections(own, {}):
                console.print(compared(section))
            show(console, remarks(own))
        else:
            console.print(listed(own, drawn))
            console.print(text_table(COUNTS, by_paper(own)))
        for name, drawing in drawn.items() if target or model else ():
            where = f"{out / name.replace('/', '-')}.svg and .png" if out else "can be drawn; give --out DIR"
            show(errors if as_json else console, [f"{name}: {drawing if isinstance(drawing, str) else where}"])
        total = Counter(cell.state for cell in own)
        summary = ", ".join(f"{total[state]:,} {state}" for state in STATES if total[state])
        show(errors if as_json else console, [f"{len(own):,} numbers: {summary}."] if summary else [])
        if out:
            show(errors if as_json else console, [f"The page is {out / 'reproduce.html'}."])
        if failed:
            show(errors, [f"failed: {step.line}" for step in failed])
            raise typer.Exit(1)


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)
