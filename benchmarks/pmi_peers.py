"""Other implementations of counting co-occurrence with gendered words, written in the usual way."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("scan.c")
WINDOW = 10
_WORD = re.compile(r"[a-z0-9]+")

#: Counts texts and gives how many pairs of a word and a gendered word it saw.
Peer = Callable[[Sequence[str], Sequence[str], Collection[str]], int]


def _walked(
    words: Iterable[str], gendered: Collection[str], count: Counter[str], near: Counter[tuple[str, str]]
) -> None:
    """One text: each new word meets those before it within the window."""
    before: deque[str] = deque(maxlen=WINDOW)
    for word in words:
        count[word] += 1
        new = word in gendered
        for other in before:
            if other in gendered:
                near[word, other] += 1
            if new:
                near[other, word] += 1
        before.append(word)


def findall(texts: Sequence[str], gendered: Sequence[str], stop: Collection[str]) -> int:
    """``re.findall`` and ``Counter``."""
    count: Counter[str] = Counter()
    near: Counter[tuple[str, str]] = Counter()
    watched = frozenset(gendered)
    for text in texts:
        _walked((w for w in _WORD.findall(text.lower()) if w not in stop), watched, count, near)
    return near.total()


def spacy_counter(texts: Sequence[str], gendered: Sequence[str], stop: Collection[str]) -> int:
    """The English tokenizer of spaCy and ``Counter``."""
    import spacy

    tokenizer = spacy.blank("en").tokenizer
    count: Counter[str] = Counter()
    near: Counter[tuple[str, str]] = Counter()
    watched = frozenset(gendered)
    for text in texts:
        words = (t.lower_ for t in tokenizer(text) if not (t.is_punct or t.is_space))
        _walked((w for w in words if w not in stop), watched, count, near)
    return near.total()


def polars_shift(texts: Sequence[str], gendered: Sequence[str], stop: Collection[str]) -> int:
    """polars: words exploded to rows, and a shift for each distance."""
    import polars as pl

    watched = pl.Series(gendered)
    frame = (
        pl.DataFrame({"d": range(len(texts)), "w": texts})
        .lazy()
        .with_columns(pl.col("w").str.to_lowercase().str.extract_all(_WORD.pattern))
        .explode("w")
        .filter(pl.col("w").is_not_null() & ~pl.col("w").is_in(pl.Series(sorted(stop)).implode()))
        .collect()
    )
    frame.group_by("w").len()
    is_watched = pl.col("g").is_in(watched.implode())
    parts = []
    for distance in range(1, WINDOW + 1):
        for shift in (distance, -distance):
            other = frame.with_columns(g=pl.col("w").shift(shift), e=pl.col("d").shift(shift))
            parts.append(other.filter(is_watched & (pl.col("d") == pl.col("e"))).group_by("w", "g").len())
    return int(pl.concat(parts).group_by("w", "g").agg(pl.col("len").sum())["len"].sum())


def duckdb_join(texts: Sequence[str], gendered: Sequence[str], stop: Collection[str]) -> int:
    """DuckDB: words as rows, joined with the gendered ones among them."""
    import duckdb
    import pyarrow as pa

    base = duckdb.connect(config={"threads": 1})
    base.register("texts", pa.table({"d": range(len(texts)), "t": texts}))
    base.register("stop", pa.table({"w": sorted(stop)}))
    base.register("watched", pa.table({"w": list(gendered)}))
    base.execute(
        "create table words as select d, w, row_number() over (partition by d order by i) as n from "
        f"(select d, unnest(x) as w, generate_subscripts(x, 1) as i from "
        f"(select d, regexp_extract_all(lower(t), '{_WORD.pattern}') as x from texts)) "
        "where w not in (select w from stop)"
    )
    base.execute("select w, count(*) from words group by w").fetchall()
    base.execute(
        "create table around as select d, n + k as n, words.w as g from words join watched on words.w = watched.w, "
        f"unnest(range(-{WINDOW}, {WINDOW + 1})) as distance(k) where k != 0"
    )
    results = base.execute(
        "select sum(c) from (select w, g, count(*) as c from words join around using (d, n) group by w, g)"
    ).fetchone()
    return int(results[0]) if results else 0


def compiled(folder: Path) -> Callable[[bytes, Sequence[str], Collection[str]], int]:
    """The plain scan in C, of bytes in which a zero ends a record."""
    library = folder / "scan.so"
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    scan = ctypes.CDLL(str(library)).scan
    scan.restype = ctypes.c_int64
    text = (ctypes.c_char_p, ctypes.c_int64)
    scan.argtypes = (*text, *text, *text, ctypes.c_int32, ctypes.c_int32)

    def run(text: bytes, gendered: Sequence[str], stop: Collection[str]) -> int:
        names, out = (" ".join(w for w in words if w.isalpha()).encode() for words in (gendered, sorted(stop)))
        return int(scan(text, len(text), names, len(names), out, len(out), WINDOW, 1 << 20))

    return run


PEERS: dict[str, Peer] = {
    "spacy_counter": spacy_counter,
    "findall_counter": findall,
    "polars": polars_shift,
    "duckdb": duckdb_join,
}
#: The package that each needs.
NEEDS = {"spacy_counter": "spacy", "findall_counter": "re", "polars": "polars", "duckdb": "duckdb"}
