"""What people see of a scoring run: a folder of four kinds of file.

``results.json``
    Everything of the `Report`, keys sorted: ``schema`` (1), ``model``, ``revision``, ``adapter``,
    ``dtype``, ``prompt``, ``profile``, ``data`` (data set to version), ``environment``, ``speed``,
    ``estimates`` (a list of objects with the fields of `Estimate`, in the order of the report) and
    ``examples`` (benchmark to ``file`` and ``rows``). A number that is not defined is null, and
    ``why`` of its estimate says why; infinities are the strings ``"inf"`` and ``"-inf"``.
``results.md``
    One Markdown table of the estimates.
``examples/BENCHMARK.parquet``
    The table of examples that the estimates of a benchmark were computed from.
``report.html``
    One page that needs nothing outside itself: scores with intervals, plots, decisive examples.

Text from data is data in all of them. Values of environment variables that look like secrets, and
strings in the shape of an access token, are written as ``[redacted]`` wherever they occur.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.types import Estimate, Report, ScoringError, Table

SCHEMA = 1

#: How many decisive examples of a benchmark the page shows.
SHOWN = 20

#: How many groups of a metric the page shows before the others have to be unfolded.
UNFOLDED = 6

_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_)[A-Za-z0-9_-]{20,}")


def write(folder: Path, report: Report, tables: Mapping[str, Table], validity: Mapping[str, str]) -> None:
    """Writes the files of a run; each is whole at every moment, and ``results.json`` comes last.

    Parameters
    ----------
    folder:
        Made when missing. Files of an earlier run are replaced.
    report:
        What the run found.
    tables:
        Per benchmark, its examples: columns of one length, ``id`` among them. Empty ones are left out.
    validity:
        Per benchmark, what its scores mean and do not mean; paragraphs are parted by an empty line.

    Raises
    ------
    ScoringError
        When a column cannot be stored or the environment holds something JSON has no form for.
    """
    hide = _redactor(os.environ)
    shown = _cleaned(report, hide)
    kept = {str(hide(name)): _clean_table(table, hide) for name, table in tables.items() if table}
    told = {str(hide(name)): str(hide(text)) for name, text in validity.items()}
    files = {f"examples/{file_name(name)}": parquet(name, table) for name, table in kept.items()}
    files["results.md"] = markdown(shown).encode()
    files["report.html"] = page(shown, kept, told).encode()
    files["results.json"] = results(shown, kept).encode()
    for name, content in files.items():
        _replace(folder / name, content)


def _replace(path: Path, content: bytes) -> None:
    """Puts a file in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)  # a temporary file is its owner's alone
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def file_name(benchmark: str) -> str:
    """The name of a benchmark's examples file; a name that had to change gets a mark that tells it from others.

    >>> file_name("unstereo"), file_name("../a b")
    ('unstereo.parquet', 'a-b-2c2c791a.parquet')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", benchmark).strip("-.")[:80]
    mark = "" if safe == benchmark else "-" + hashlib.sha256(benchmark.encode()).hexdigest()[:8]
    return f"{safe}{mark}.parquet"


# ── cleaning ─────────────────────────────────────────────────────────────────────────────────────


def _redactor(environment: Mapping[str, str]) -> Callable[[Any], Any]:
    """A function that hides the environment's secrets in text, and makes text encodable; else the identity."""
    values = {v for name, v in environment.items() if _SECRET_NAME.search(name) and len(v) >= 8}
    known = sorted(map(re.escape, values), key=len, reverse=True)
    pattern = re.compile("|".join([*known, _SECRET_SHAPE.pattern]))

    def hide(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return pattern.sub("[redacted]", value.encode("utf-8", "replace").decode())

    return hide


def _cleaned(report: Report, hide: Callable[[Any], Any]) -> Report:
    """The report in plain Python values, without secrets."""
    values = {f.name: _plain(getattr(report, f.name), hide) for f in fields(Report) if f.name != "estimates"}
    estimates = tuple(Estimate(**_plain(asdict(e), hide)) for e in report.estimates)
    return Report(**values, estimates=estimates)


def _plain(value: Any, hide: Callable[[Any], Any]) -> Any:
    match value:
        case np.generic():
            return _plain(value.item(), hide)
        case Mapping():
            return {str(hide(str(k))): _plain(v, hide) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v, hide) for v in value]
        case str() | int() | float() | None:
            return hide(value)
    raise ScoringError(f"The report holds {value!r}, a {type(value).__name__}; use text, numbers, lists and mappings.")


def _clean_table(table: Table, hide: Callable[[Any], Any]) -> dict[str, NDArray[Any]]:
    return {
        name: np.array([hide(v) for v in column.tolist()], dtype=object) if column.dtype.kind in "OUT" else column
        for name, column in table.items()
    }


# ── files for programs ───────────────────────────────────────────────────────────────────────────


def results(report: Report, tables: Mapping[str, Table]) -> str:
    """The text of ``results.json``."""
    examples = {name: {"file": f"examples/{file_name(name)}", "rows": len(t["id"])} for name, t in tables.items()}
    facts = {**asdict(report), "schema": SCHEMA, "examples": examples}
    text = json.dumps(_finite(facts), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    # A "<" before what could start a tag is spelt as an escape: the file stays harmless inside a page.
    return re.sub(r"<(?=[A-Za-z/!?])", r"\\u003c", text) + "\n"


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {k: _finite(v) for k, v in value.items()}
        case list() | tuple():
            return [_finite(v) for v in value]
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else str(value)
    return value


def read_report(path: Path) -> Report:
    """The report in a ``results.json``, or in the folder that holds one.

    Raises
    ------
    ScoringError
        When there is no such file, it is not of this schema, or a field is missing or unknown.
    """
    file = path / "results.json" if path.is_dir() else path
    try:
        facts = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ScoringError(f"{file} cannot be read as results ({error}); give a results.json or its folder.") from error
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        raise ScoringError(f"{file} is not results of schema {SCHEMA}; score the model again with this version.")
    try:
        estimates = tuple(Estimate(**_restored(Estimate, entry)) for entry in facts.pop("estimates"))
        named = {k: v for k, v in facts.items() if k not in {"schema", "examples"}}
        speed = {k: _number(v) for k, v in named.pop("speed").items()}
        return Report(**named, estimates=estimates, speed=speed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ScoringError(f"{file} lacks a field or has one too many ({error}); score the model again.") from error


def _restored(kind: type, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry with null as NaN where a number must stand."""
    hints = get_type_hints(kind)
    return {k: _number(v) if hints.get(k) is float else v for k, v in entry.items()}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def parquet(benchmark: str, table: Table) -> bytes:
    """A table of examples as Parquet.

    Raises
    ------
    ScoringError
        When there is no ``id``, columns differ in length or one mixes types.
    """
    if "id" not in table:
        raise ScoringError(f"The examples of {benchmark} have no column id; give every example an identifier.")
    try:
        columns = {
            name: pa.array(column.tolist() if column.dtype == object else column) for name, column in table.items()
        }
        stored = pa.table(columns)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ScoringError(
            f"The examples of {benchmark} cannot be stored ({error}); give columns of one type and length."
        ) from error
    file = io.BytesIO()
    pq.write_table(stored, file, compression="zstd")
    return file.getvalue()


# ── numbers for people ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Scale:
    """The range that the values of one metric are shown on."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the range.

        >>> Scale(0, 200).place(50)
        25.0
        """
        return round(min(max(100 * (value - self.low) / (self.high - self.low), 0.0), 100.0), 2)

    def text(self, value: float) -> str:
        """A value with the decimals that matter on the range.

        >>> Scale(0, 100).text(39.7743), Scale(0, 1).text(0.7)
        ('39.77', '0.700')
        """
        if not math.isfinite(value):
            return "not defined" if math.isnan(value) else str(value)
        decimals = max(2, 3 - math.ceil(math.log10(self.high - self.low)))
        return f"{value:.{decimals}f}"


_COMMON = ((0.0, 1.0), (-1.0, 1.0), (0.0, 100.0), (-100.0, 100.0))


def scale(estimates: Iterable[Estimate]) -> Scale:
    """A range for estimates of one metric: a common one that they fill by a quarter, else a round one from 0.

    >>> scale([Estimate("b", "g", "m", 5.19, 5.1, 5.3, 0.05, 9, 9, ideal=6.0)])
    Scale(low=0.0, high=6.0)
    """
    numbers = [x for e in estimates for x in (e.value, e.low, e.high, e.ideal) if x is not None and math.isfinite(x)]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    reach = max(-low, high)
    for a, b in _COMMON:
        if a <= low and high <= b and reach >= b / 4:
            return Scale(a, b)
    step = 10.0 ** math.floor(math.log10(reach)) if reach > 0 else 1.0
    return Scale(step * math.floor(low / step), step * max(math.ceil(high / step), 0 if low < 0 else 1))


def by_metric(estimates: Iterable[Estimate]) -> dict[str, list[Estimate]]:
    """Estimates of one benchmark under their metric, in order of appearance."""
    return _grouped(estimates, lambda e: e.metric)


def by_benchmark(estimates: Iterable[Estimate]) -> dict[str, list[Estimate]]:
    """Estimates under their benchmark, in order of appearance."""
    return _grouped(estimates, lambda e: e.benchmark)


def _grouped(estimates: Iterable[Estimate], key: Callable[[Estimate], str]) -> dict[str, list[Estimate]]:
    found: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        found.setdefault(key(estimate), []).append(estimate)
    return found


def interval(estimate: Estimate, on: Scale) -> str:
    """The interval of an estimate as text, or nothing when there is none."""
    ends = (estimate.low, estimate.high)
    return f"[{', '.join(map(on.text, ends))}]" if all(map(math.isfinite, ends)) else ""


def facts(report: Report) -> dict[str, str]:
    """What was scored, and how, for people; of the data, each data set with its version."""
    data = dict.fromkeys(f"{k.partition('/')[0]} {v.partition(' ')[0]}" for k, v in sorted(report.data.items()))
    return {
        "model": report.model,
        "revision": report.revision or "none",
        "adapter": report.adapter or "none",
        "dtype": report.dtype,
        "prompt": report.prompt or "none",
        "profile": report.profile,
        "data": ", ".join(data) or "none",
    }


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────

_MARKUP = str.maketrans({c: "\\" + c for c in "\\`*_[]<>|&~$@#!"})


def cell(value: object) -> str:
    r"""Text that stays inside one cell of a Markdown table and is not taken for markup.

    >>> print(cell("a|b\n<script>"))
    a\|b \<script\>
    """
    line = " ".join(str(value).split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line).translate(_MARKUP)


def markdown(report: Report) -> str:
    """The text of ``results.md``."""
    lines = ["# Scores", "", *(f"- {name}: {cell(text)}" for name, text in facts(report).items()), ""]
    lines += ["| benchmark | group | metric | value [95 % interval] | ideal | n | clusters |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for estimates in by_benchmark(report.estimates).values():
        scales = {name: scale(group) for name, group in by_metric(estimates).items()}
        lines += [_line(e, scales[e.metric]) for e in estimates]
    return "\n".join(lines) + "\n"


def _line(e: Estimate, on: Scale) -> str:
    value = " ".join(filter(None, (on.text(e.value), interval(e, on), e.why and f"({cell(e.why)})")))
    ideal = "" if e.ideal is None else on.text(e.ideal)
    return f"| {' | '.join([*map(cell, (e.benchmark, e.group, e.metric)), value, ideal, str(e.n), str(e.clusters)])} |"


# ── decisive examples ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers of an example whose difference says what the model prefers, and their sentences."""

    names: tuple[str, str]
    numbers: tuple[str, str]
    sentences: tuple[str, ...]


PAIRS = (
    Pair(("female", "male"), ("female_logprob", "male_logprob"), ("sentence_female", "sentence_male")),
    Pair(
        ("stereotype", "anti-stereotype"), ("score_biased", "score_unbiased"), ("sentence_biased", "sentence_unbiased")
    ),
    Pair(("female", "male"), ("p_female", "p_male"), ()),
    Pair(("female", "male"), ("female_mass", "male_mass"), ()),
)

_ABOUT = (
    "dataset",
    "config",
    "topic",
    "task",
    "domain",
    "subject",
    "job",
    "template",
    "debiasing",
    "gender_class",
    "id",
)

#: Parts of a sentence, each with whether the other sentence has something else there.
Parts = list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Example:
    """An example for the page: who is preferred, by how much, what was compared."""

    preferred: str
    difference: float
    sides: tuple[tuple[str, float, Parts], ...]
    text: str
    about: str


def decisive(table: Table, count: int = SHOWN) -> list[Example]:
    """The examples with the largest absolute difference, ties in the order of the table."""
    pair = next((p for p in PAIRS if {*p.numbers, *p.sentences} <= table.keys()), None)
    if pair is None:
        return []
    first, second = (np.asarray(table[c], dtype=np.float64) for c in pair.numbers)
    difference = np.where(np.isfinite(first) & np.isfinite(second), first - second, 0.0)
    order = np.argsort(-np.abs(difference), kind="stable")[:count]
    return [_example(table, pair, i, float(difference[i])) for i in order if difference[i]]


def _example(table: Table, pair: Pair, row: int, difference: float) -> Example:
    sentences = [_short(table[c][row]) for c in pair.sentences] or ["", ""]
    numbers = [float(table[c][row]) for c in pair.numbers]
    asked = " → ".join(_short(table[c][row]) for c in ("prompt", "text") if c in table and not pair.sentences)
    about = dict.fromkeys(_short(table[c][row], 80) for c in _ABOUT if c in table)
    return Example(
        pair.names[difference < 0],
        difference,
        tuple(zip(pair.names, numbers, contrast(*sentences), strict=True)),
        asked,
        " · ".join(filter(None, about)),
    )


def _short(value: object, limit: int = 400) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def contrast(first: str, second: str) -> tuple[Parts, Parts]:
    """Two sentences in parts, with what differs marked.

    >>> contrast("She ate.", "He ate.")[0]
    [('She', True), (' ate.', False)]
    """
    a, b = (re.findall(r"\s+|\S+", text) for text in (first, second))
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    left = [("".join(a[i:j]), tag != "equal") for tag, i, j, *_ in blocks if i < j]
    right = [("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in blocks if i < j]
    return left, right


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Scores:
    """The estimates of one metric on one range, with what is said once for all of them."""

    metric: str
    readings: list[str]
    ideal: float | None
    scale: Scale
    estimates: list[Estimate]


@dataclass(frozen=True, slots=True)
class Section:
    """What the page says of one benchmark."""

    name: str
    validity: list[str]
    scores: list[Scores]
    figures: list[Any]
    examples: list[Example]
    rows: int


def page(report: Report, tables: Mapping[str, Table], validity: Mapping[str, str]) -> str:
    """The text of ``report.html``."""
    from scoring import plots  # matplotlib is loaded where something is drawn, not to read results

    found = by_benchmark(report.estimates)
    names = list(dict.fromkeys([*found, *tables]))
    sections = [
        Section(
            name,
            [p for p in re.split(r"\n\s*\n", validity.get(name, "")) if p.strip()],
            [_scores(metric, group) for metric, group in by_metric(found.get(name, [])).items()],
            plots.figures(tables.get(name, {})),
            decisive(tables.get(name, {})),
            len(tables[name]["id"]) if name in tables else 0,
        )
        for name in names
    ]
    return _template().render(
        report=report,
        facts=facts(report),
        sections=sections,
        environment=list(_flat(report.environment)),
        speed=list(_flat(report.speed)),
        interval=interval,
        unfolded=UNFOLDED,
    )


def _scores(metric: str, estimates: list[Estimate]) -> Scores:
    """The ideal stands in the heading when all groups share it."""
    readings = list(dict.fromkeys(e.reading for e in estimates if e.reading))
    ideals = {e.ideal for e in estimates}
    return Scores(metric, readings, ideals.pop() if len(ideals) == 1 else None, scale(estimates), estimates)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["minus"] = lambda text: str(text).replace("-", "\N{MINUS SIGN}")
    environment.filters["number"] = lambda value: f"{value:,.4g}".replace("-", "\N{MINUS SIGN}")
    environment.filters["digits"] = lambda value: f"{value:#.4g}".replace("-", "\N{MINUS SIGN}")
    environment.tests["nan"] = math.isnan
    return environment.get_template("report.html.j2")


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, list[str]]]:
    """Nested mappings as lines of a name and its texts."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name} · ")
        else:
            yield above + name, [_fact(v) for v in (value if isinstance(value, list) else [value])]


def _fact(value: Any) -> str:
    """A value of the environment for people.

    >>> _fact(0.1234567), _fact(123456.7), _fact(True), _fact(None)
    ('0.1235', '123,457', 'yes', 'none')
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
        case None:
            return "none"
    return str(value)
