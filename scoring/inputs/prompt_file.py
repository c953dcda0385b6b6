"""Prompts of one's own: the reader of the file that ``--prompts`` names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scoring.inputs.score_files import ScoreFile
from scoring.types import Row, ScoringError

#: The columns of a file of single prompts; the second may be left out.
PROMPT, GROUP = "prompt", "group"
#: The group of prompts without one.
ALL = "all"


@dataclass(frozen=True, slots=True)
class PromptFile:
    """The prompts of a file.

    ``rows`` has a row for each prompt, with ``id``, ``prompt``, ``group``, ``pair`` (the two prompts of a pair have the
    same) and ``side`` (1 for the first prompt of a pair, 2 for the second, 0 for a prompt that is in no pair).
    """

    name: str
    rows: tuple[Row, ...]


def read(path: Path) -> PromptFile:
    r"""The prompts of a CSV or Parquet file.

    A file with the column ``prompt`` has a prompt in each row, and may have the column ``group``, by whose values
    scores are also reported. A file with two other columns has a pair in each row, such as the same statement about a
    man and about a woman; the heads of the columns name the groups.

    Raises
    ------
    ScoringError
        When there is no such file, it cannot be read, it has other columns, or a prompt is empty.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.csv"
    >>> _ = file.write_text("man,woman\nMr. Hill says,Mrs. Hill says\n", encoding="utf-8")
    >>> [(row["id"], row["group"], row["prompt"]) for row in read(file).rows]
    [('1/man', 'man', 'Mr. Hill says'), ('1/woman', 'woman', 'Mrs. Hill says')]
    """
    file = ScoreFile(path, ())
    columns = file.columns
    if PROMPT in columns:
        return PromptFile(path.stem, tuple(_single(file)))
    if len(columns) == 2:
        return PromptFile(path.stem, tuple(_pairs(file, columns[0], columns[1])))
    raise ScoringError(
        f"{path} has the columns {', '.join(columns)}; give a column {PROMPT} (and {GROUP}, for groups of prompts), or "
        "two columns with the two prompts of a pair in each row."
    )


def _single(file: ScoreFile) -> list[Row]:
    """A row for each prompt, in the group that the file gives it."""
    prompts = file.texts(PROMPT)
    groups = file.texts(GROUP) if GROUP in file else [ALL] * len(prompts)
    rows = list[Row]()
    for number, (prompt, group) in enumerate(zip(prompts, groups, strict=True), start=1):
        name = str(number)
        rows.append({"id": name, "prompt": prompt, "group": group, "pair": name, "side": 0})
    return rows


def _pairs(file: ScoreFile, first: str, second: str) -> list[Row]:
    """Two rows for each pair, one after the other."""
    rows = list[Row]()
    for number, prompts in enumerate(zip(file.texts(first), file.texts(second), strict=True), start=1):
        for side, (group, prompt) in enumerate(zip((first, second), prompts, strict=True), start=1):
            # The heads of the columns say who is spoken of, so they name the groups.
            about = {"group": group, "pair": str(number), "side": side}
            rows.append({"id": f"{number}/{group}", "prompt": prompt, **about})
    return rows
