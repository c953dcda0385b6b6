"""Prints the folder of tasks: ``lm_eval run --include_path "$(python -m scoring.lm_eval)" …``."""

from pathlib import Path
from typing import Annotated

import typer

from cards.command import start
from scoring import benchmarks
from scoring.lm_eval.tasks import write

app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)


@app.command()
def main(
    include: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="Add the BENCHMARK or METRICS of a Python file.")
    ] = None,
) -> None:
    """Write the tasks of all benchmarks into a folder of the cache (PROBES_CACHE), and print it."""
    files = [path.resolve() for path in include or ()]
    for path in files:
        benchmarks.include(path)
    typer.echo(write(files))


if __name__ == "__main__":
    start(app, "python -m scoring.lm_eval")
