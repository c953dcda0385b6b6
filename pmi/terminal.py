"""What the commands share: printing, tables of numbers, and help texts."""

from rich.console import Console
from rich.table import Table

from cards.text import printable

TABLE_HELP = "Counts, a table of δ, the folder of the data set gender-pmi, or its name on the Hub."
PAIRS_METAVAR = "A:B,C:D=W"
PAIRS_HELP = "Pairs that δ compares, where TABLE holds counts; she:he by default."


def console() -> Console:
    """The terminal; 120 columns wide when the output goes elsewhere."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=120)


def show(terminal: Console, text: str) -> None:
    """Prints a text literally: no markup, no highlighting, no wrapping, no control characters of a file's name."""
    terminal.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def number_table(*columns: str, title: str, text_columns: tuple[int, ...] = (0,)) -> Table:
    """An empty table whose columns are aligned to the right, except those of text."""
    table = Table(*columns, title=title)
    for index, column in enumerate(table.columns):
        column.justify = "left" if index in text_columns else "right"
    return table
