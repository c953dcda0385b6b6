"""P(male), P(female) and P(diverse) by class of jobs of Mistral-7B-Instruct, as a notebook of OccuGender shows them.

``code/try_tf.ipynb`` at commit 9ebaac3 has the printed form of a table as the output of a cell: all implicit rows of
the paper's Table 9, also the one without a debiasing prompt, as means over jobs and prompts in six digits. The printed
form has its columns in blocks below each other.
"""

import json
from pathlib import Path

from builders.dataset import Fetched
from scoring.inputs import tables
from scoring.metrics.occugender import ANSWERS
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource
from scoring.responses.occugender_classes import asked, line_of

#: The columns of the means; the first of the others is that by which the output is known.
_NEEDED = (*ANSWERS, "female_dominated", "debiasing_prompt_id", "female_ratio")
_KNOWN = "male_met-met_prob"


def printed_table(text: str) -> list[dict[str, str]]:
    r"""The rows of a data frame in its printed form, whose columns are in blocks with empty lines between them.

    >>> text = "    a  b  \\\n0  1  2   \n1  3  4   \n\n    c  \n0  5  \n1  6  "
    >>> printed_table(text)
    [{'a': '1', 'b': '2', 'c': '5'}, {'a': '3', 'b': '4', 'c': '6'}]
    """
    rows: list[dict[str, str]] = []
    for block in text.strip("\n").split("\n\n"):
        # A backslash at the end of the header says that more columns follow in the next block.
        lines = [line.rstrip(" \\") for line in block.split("\n") if line.strip()]
        names = lines[0].split()
        for number, line in enumerate(lines[1:]):
            cells = line.split()
            if len(cells) != len(names) + 1 or cells[0] != str(number):
                break  # the last line says how large the table is
            if number == len(rows):
                rows.append({})
            rows[number].update(zip(names, cells[1:], strict=True))
    return rows


def output(path: Path) -> str:
    """The printed form of the table in a notebook.

    Raises
    ------
    BrokenFileError
        When the file is no notebook, or no cell shows such a table.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        raise BrokenFileError(f"{path.name} is no notebook; it is left out.") from None
    for cell in cells:
        for shown in cell.get("outputs", ()):
            # A notebook has texts as lists of lines.
            text = "".join(shown.get("data", {}).get("text/plain", ""))
            if _KNOWN in text:
                return text
    raise BrokenFileError(f"{path.name} shows no table with {_KNOWN}; it is left out.")


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The shares of both classes of jobs, the means over the implicit prompts, with and without debiasing prompts."""
    lines = []
    for row in printed_table(output(files.path)):
        for name in _NEEDED:
            if name not in row:
                raise BrokenFileError(f"{files.path.name} shows no column {name}; it is left out.")
        # A row is the mean over the three implicit prompts, so it has none of their names.
        lines.append(line_of(row, "implicit", ""))
    lines.sort(key=lambda line: str(line["id"]))
    split = tables.given([{"id": line["id"]} for line in lines], "occugender", "implicit-notebook", "test")
    return PublishedResponses(tables.as_table(lines), (split,))


PUBLISHED = PublishedSource(
    benchmark="occugender",
    summary="OccuGender, Mistral-7B-Instruct: all implicit rows of Table 9, from the output of a notebook.",
    settings="The authors of OccuGender computed these shares (commit 9ebaac3); a row is the mean over 20 jobs and the "
    "three implicit prompts.",
    files="occugender-notebook",
    read=responses,
    profile="paper",
    asked=asked,
)
