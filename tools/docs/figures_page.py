"""The page of the papers' figures, ``docs/figures.md``: ``python -m tools.docs.figures_page``.

Each numbered figure has what the printed one shows, in our words, and beside it our picture in ``docs/figures`` or what
a picture needs. With ``--runs`` the pictures are drawn again, from runs of ``tiny-causal`` and ``tiny-masked`` and from
published responses. A figure that cannot be drawn then keeps no picture, and one with sentences of others has none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cards.common.files import put
from scoring.reproduce.figures import chart, panels, title_of
from scoring.reproduce.measured import Measured, UnreachableError
from scoring.reproduce.printed import PrintedTable, printed_tables
from tools.docs.pages import ROOT, table

PAGE = ROOT / "docs" / "figures.md"
PICTURES = ROOT / "docs" / "figures"
_INTRO = ROOT / "tools" / "templates" / "figures.md"


def printed_figures() -> list[PrintedTable]:
    """The figures of the papers; those of ours have no caption, and those without data cannot be drawn."""
    return [entry for entry in printed_tables() if entry.panels and entry.caption]


def name_of(figure: PrintedTable) -> str:
    """The name of the picture of a figure."""
    return f"{figure.id.replace('/', '-')}.svg"


def has_sentences(figure: PrintedTable) -> bool:
    """Whether a picture of a figure has prompts of a data set that this project does not redistribute."""
    return any(panel.get("of") == "cases" for panel in figure.panels)


def page() -> str:
    """The text of the page, with the pictures that are there."""
    rows = []
    for figure in printed_figures():
        picture = figure.panels[0]["reason"].partition(": probes reproduce")[0]
        if has_sentences(figure):
            picture = "drawn by the command alone: it has sentences that this project does not redistribute"
        elif (PICTURES / name_of(figure)).is_file():
            picture = f"![Our picture of {figure.id}](figures/{name_of(figure)})"
        rows.append((f"`{figure.id}`", figure.caption, picture))
    return _INTRO.read_text(encoding="utf-8") + table(("figure", "what the printed one shows", "ours"), rows) + "\n"


def main() -> None:
    """Writes the page, and with ``--runs`` the pictures too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, help="Folder of runs and of computed scores, as of probes reproduce.")
    parser.add_argument("--data", type=Path, default=Path("output"), help="Folder of the built data sets.")
    options = parser.parse_args()
    if options.runs:
        measured = Measured(options.data, options.runs, offline=True)
        for figure in printed_figures():
            path = PICTURES / name_of(figure)
            path.unlink(missing_ok=True)
            if has_sentences(figure):
                continue
            # A figure of models that were not run is drawn of a bundled one, whose name is then on the picture.
            models = ["", "tiny-causal", "tiny-masked"]
            entry = figure.panels[0]
            if "by_model" in entry and entry["models"] != entry["by_model"][:1]:
                models = [""]  # the figures of the other models would have one picture
            for model in models:
                try:
                    drawn = panels(figure, measured, model)
                except UnreachableError:
                    continue
                put(path, chart(drawn, title_of(figure, model))["svg"])
                break
    put(PAGE, page().encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
