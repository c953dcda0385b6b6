"""Prompts of one's own: the reader of what ``--prompts`` names, a file or in Python a list or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cards.common.text import did_you_mean
from scoring.types import Row, ScoringError

if TYPE_CHECKING:
    import pandas as pd

#: The columns of single prompts; the second may be left out.
PROMPT, GROUP = "prompt", "group"
#: The group of prompts without one.
ALL = "all"
#: The name of prompts that come from no file.
UNNAMED = "prompts"
#: Heads that name no group of people, so two columns with one of them are no pairs.
_NO_GROUP = frozenset(
    "id index number text texts prompts groups sentence input question instruction messages label category".split()
)
#: The separators of a table in a text file.
_SEPARATORS = ("\t", ";", ",", "|")
#: A first cell with so many words is a prompt and no head.
_WORDS_OF_A_PROMPT = 4
_FORMS = (
    f"give a column {PROMPT!r} (and {GROUP!r}, for groups of prompts), or two columns that are called by who is spoken "
    "of, such as man and woman, with the two prompts of a pair in each row"
)


@dataclass(frozen=True, slots=True)
class PromptFile:
    """Prompts as they are asked.

    ``rows`` has a row for each prompt, with ``id``, ``prompt``, ``group``, ``match`` (the two prompts of a pair have
    the same), ``pair`` (equal prompts, or equal pairs, have the same: they are one cluster) and ``side`` (1 for the
    first prompt of a pair, 2 for the second, 0 for a prompt that is in no pair). ``understood`` says in words what was
    read, and ``path`` is the file as it was given.
    """

    name: str
    rows: tuple[Row, ...]
    understood: str
    path: str = ""


class TextTable(NamedTuple):
    """A table in text: heads and rows of as many cells. It needs no pandas, which takes a second to import."""

    heads: list[str]
    rows: list[list[str]]


def read(source: Any) -> PromptFile:
    r"""The prompts of a file, or of a list of texts, a pandas DataFrame or a Dataset.

    A table with the column ``prompt`` has a prompt in each row, and may have the column ``group``, by whose values
    scores are also reported. A table with two other columns has a pair in each row, such as the same statement about a
    man and about a woman; the heads of the columns name the groups. Heads may be in capitals. A file is a table in text
    (CSV, or with another separator; UTF-8, UTF-16 or Windows-1252), Excel, JSON, JSON lines or Parquet.

    Raises
    ------
    ScoringError
        When there is no such file, it cannot be read, it has other columns, or a prompt is empty or no text.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.csv"
    >>> _ = file.write_text("man,woman\nMr. Hill says,Mrs. Hill says\n", encoding="utf-8")
    >>> [(row["id"], row["group"], row["prompt"]) for row in read(file).rows]
    [('1/man', 'man', 'Mr. Hill says'), ('1/woman', 'woman', 'Mrs. Hill says')]
    >>> read(["Mr. Hill says", "Mrs. Hill says"]).understood
    '2 prompts'
    """
    if isinstance(source, PromptFile):
        return source
    if isinstance(source, (str, Path)):
        where = path = str(source)
        name = Path(source).stem
        cells = _columns(_table_of_file(Path(source)))
    else:
        where, name, path = "The table of prompts", UNNAMED, ""
        cells = _columns(_frame_of_object(source))
    heads = _heads([head for head, _ in cells], where)
    table = dict(zip(heads, (column for _, column in cells), strict=True))
    if not any(table.values()):
        raise ScoringError(f"{where} has no rows; give a prompt or a pair in each.")
    if PROMPT in heads:
        columns = [head for head in (PROMPT, GROUP) if head in heads]
        texts = [_texts(table[column], column, where) for column in columns]
        rows = _single(*texts)
    else:
        columns = _two_groups(heads, where)
        texts = [_texts(table[column], column, where) for column in columns]
        rows = _pairs(columns, texts)
    ignored = [head for head in heads if head not in columns]
    return PromptFile(name, tuple(rows), _understood(rows, columns, ignored), path)


def frame_of_file(path: Path) -> pd.DataFrame:
    """The table of a file, whose format its first bytes say."""
    import pandas as pd

    table = _table_of_file(path)
    if isinstance(table, TextTable):
        return pd.DataFrame(table.rows, columns=pd.Index(table.heads, dtype=object), dtype=object)
    return table


def _columns(table: TextTable | pd.DataFrame) -> list[tuple[Any, list[Any]]]:
    """The head of each column with its cells."""
    if isinstance(table, TextTable):
        return [(head, [row[place] for row in table.rows]) for place, head in enumerate(table.heads)]
    return [(head, table.iloc[:, place].tolist()) for place, head in enumerate(table.columns)]


def _table_of_file(path: Path) -> TextTable | pd.DataFrame:
    if not path.is_file():
        raise ScoringError(f"There is no file {path}; give a file of prompts (CSV, Excel, JSON or Parquet).")
    content = path.read_bytes()
    try:
        # The first bytes of every Parquet file, and of every new Excel file.
        if content.startswith(b"PAR1"):
            import pandas as pd

            return pd.read_parquet(path)
        if content.startswith(b"PK"):
            import pandas as pd

            # Texts stay as they are, also where they read NA or 1.
            return pd.read_excel(path, dtype=object, keep_default_na=False)
        text = _decode(content)
        if text.lstrip().startswith(("{", "[")):
            return _frame_of_object(_json(text))
        return _table_of_text(text, path)
    except ScoringError:
        raise
    # Each reader has errors of its own.
    except Exception as error:
        problem = " ".join(str(error).split())[:200]
        raise ScoringError(
            f"{path} cannot be read ({problem}); give CSV with a header, Excel, JSON or Parquet."
        ) from None


def _decode(content: bytes) -> str:
    """The text of a file: by its mark, else UTF-8, else as old programs of Windows write it."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252")


def _json(text: str) -> Any:
    """What a text in JSON has: of JSON lines a list, also where there is one line."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    if isinstance(content, dict) and not any(isinstance(value, list) for value in content.values()):
        return [content]
    return content


def _table_of_text(text: str, path: Path) -> TextTable:
    """A table with a separator; a row with more or fewer cells than the header is refused."""
    if not text.strip():
        raise ScoringError(f"{path} is empty; {_FORMS}.")
    # The header has the separator, and prompts may have other ones in them.
    head = text.lstrip().partition("\n")[0]
    separator = next((separator for separator in _SEPARATORS if separator in head), ",")
    # Lines end where CSV ends them: str.splitlines also splits at U+2028 inside a prompt.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows = [row for row in reader if row]
    header, cells = rows[0], rows[1:]
    for number, row in enumerate(cells, start=1):
        # One column needs no quotes around a prompt with a comma.
        if len(header) == 1:
            continue
        if len(row) != len(header):
            raise ScoringError(
                f"{path} has {len(row)} cells in row {number} and {len(header)} in its header; put prompts with "
                f"{separator!r} in them into quotes."
            )
    if len(header) == 1:
        cells = [[separator.join(row)] for row in cells]
    return TextTable(header, cells)


def _frame_of_object(source: Any) -> pd.DataFrame:
    """The table of a list of texts or of rows, of columns by name, of a DataFrame, or of a Dataset."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source.astype(object)
    # A Dataset of the package datasets.
    if hasattr(source, "to_pandas"):
        frame: pd.DataFrame = source.to_pandas()
        return frame.astype(object)
    if isinstance(source, Mapping) and all(isinstance(column, list) for column in source.values()):
        lengths = {len(column) for column in source.values()}
        if len(lengths) > 1:
            raise ScoringError(f"The columns of prompts have different lengths ({lengths}); give one prompt a row.")
        return pd.DataFrame(dict(source), dtype=object)
    if isinstance(source, Sequence) and source and all(isinstance(row, Mapping) for row in source):
        return pd.DataFrame(list(source), dtype=object)
    if isinstance(source, Sequence) and source and all(isinstance(row, str) for row in source):
        return pd.DataFrame({PROMPT: list(source)}, dtype=object)
    raise ScoringError(f"Prompts are given as a {type(source).__name__} that is no list of texts or rows; {_FORMS}.")


def _heads(columns: Sequence[Any], where: str) -> list[str]:
    """The heads of the columns, in small letters where they are those of single prompts.

    Raises
    ------
    ScoringError
        For a head that is missing, there twice, or near one that is known.
    """
    heads = []
    for column in columns:
        head = str(column).strip()
        if head.lower() in (PROMPT, GROUP):
            head = head.lower()
        heads.append(head)
    shown = ", ".join(heads)
    for head in heads:
        if len(head.split()) >= _WORDS_OF_A_PROMPT:
            raise ScoringError(f"{where} begins with {head!r}, which is a prompt and no head; {_FORMS}.")
        if not head or head.isdecimal() or head.startswith("Unnamed:"):
            raise ScoringError(f"{where} has a column without a head ({shown}); {_FORMS}.")
        if heads.count(head) > 1:
            raise ScoringError(f"{where} has the head {head!r} twice ({shown}); {_FORMS}.")
    return heads


def _two_groups(heads: Sequence[str], where: str) -> list[str]:
    """The heads of the two columns of pairs.

    Raises
    ------
    ScoringError
        Where there are not two, or one of them names no group.
    """
    shown = ", ".join(heads)
    near = "".join(did_you_mean(head.lower(), (PROMPT, GROUP)) for head in heads)
    if len(heads) != 2 or near or any(head.lower() in _NO_GROUP for head in heads):
        raise ScoringError(f"{where} has the columns {shown}{near}; {_FORMS}.")
    return list(heads)


def _texts(cells: Sequence[Any], column: str, where: str) -> list[str]:
    """The cells of a column to the last character.

    Raises
    ------
    ScoringError
        For a cell that is empty or no text, with its row.
    """
    texts = []
    for number, cell in enumerate(cells, start=1):
        if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
            raise ScoringError(f"{where} has no {column} in row {number}; give one in every row.")
        if not isinstance(cell, str):
            kind = type(cell).__name__
            raise ScoringError(f"{where} has the {kind} {cell!r:.60} as {column} in row {number}; give a text.")
        texts.append(cell)
    if column != GROUP and all(_is_number(text) for text in texts):
        raise ScoringError(f"{where} has only numbers in the column {column}; {_FORMS}.")
    return texts


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _single(prompts: Sequence[str], groups: Sequence[str] = ()) -> list[Row]:
    """A row for each prompt, in the group that the table gives it."""
    rows = list[Row]()
    first: dict[str, str] = {}
    for number, prompt in enumerate(prompts):
        name = str(number + 1)
        group = groups[number] if groups else ALL
        cluster = first.setdefault(prompt, name)
        rows.append({"id": name, "prompt": prompt, "group": group, "match": name, "pair": cluster, "side": 0})
    return rows


def _pairs(groups: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Row]:
    """Two rows for each pair, one after the other."""
    rows = list[Row]()
    first: dict[tuple[str, ...], str] = {}
    for number, prompts in enumerate(zip(*columns, strict=True), start=1):
        cluster = first.setdefault(prompts, str(number))
        for side, (group, prompt) in enumerate(zip(groups, prompts, strict=True), start=1):
            # The heads of the columns say who is spoken of, so they name the groups.
            about = {"group": group, "match": str(number), "pair": cluster, "side": side}
            rows.append({"id": f"{number}/{group}", "prompt": prompt, **about})
    return rows


def _understood(rows: Sequence[Row], columns: Sequence[str], ignored: Sequence[str]) -> str:
    """What was read, in words, such as ``100 pairs: man, woman``."""
    matches = {row["match"] for row in rows}
    clusters = {row["pair"] for row in rows}
    kind = "prompt"
    named = ""
    if rows[0]["side"]:
        kind = "pair"
        named = f": {', '.join(columns)}"
    elif GROUP in columns:
        named = f" in {len({row['group'] for row in rows})} groups"
    sentence = f"{len(matches)} {kind}{'s' if len(matches) > 1 else ''}{named}"
    if len(clusters) < len(matches):
        sentence += f"; {len(matches) - len(clusters)} are there before and are one cluster with them"
    if ignored:
        sentence += f"; not used: {', '.join(ignored)}"
    return sentence
